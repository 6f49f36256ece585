"""What a seed may be, in a study and among those that a sweep compares."""

from typing import Annotated

from pydantic import Field

Seed = Annotated[int, Field(ge=0, lt=2**63)]
