"""A part is a small frozen object whose fields are its YAML keys and whose method is its equation.

A slot is a tagged union of parts, written as ``Annotated[Base, OneOf(Base, A, B)]``. The union is the
registry: adding a part is one file plus one name in one union. A package outside this one adds parts with an
entry point in the group ``netsim.<slot>`` (for example ``netsim.defense``), which the union reads once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

_Metres = Annotated[float, Field(ge=-1e9, le=1e9)]
Coordinates = tuple[_Metres, _Metres]
"""A place in the plane of the area, metres east and north."""


class Part(BaseModel):
    """Frozen; unknown keys, wrong types and non-finite numbers are refused.

    Class attributes
    ----------------
    reference : paper and equation that the part implements.
    example : the smallest valid YAML, from which contract tests and `netsim list --matrix` build it.
    needs, offers : words that a study matches when it is loaded; `needs` maps a word to the reason.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        ser_json_inf_nan="null",
    )

    reference: ClassVar[str] = ""
    example: ClassVar[dict[str, Any]] = {}
    needs: ClassVar[dict[str, str]] = {}
    offers: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def kind_name(cls) -> str:
        """The word that `kind:` takes in YAML."""
        return str(cls.model_fields["kind"].default)


class Named(Part):
    """A part of which a study may hold several; records call it by `name` (default: its kind)."""

    name: str | None = Field(default=None, min_length=1, max_length=40, pattern=r"^[A-Za-z0-9_-]+$")
    """name in records, when one kind stands twice"""

    @property
    def label(self) -> str:
        """The word that records use."""
        return self.name or self.kind_name()


class OneOf:
    """The union of a slot: picks the part by its `kind`, plugins included.

    Errors carry the place and the legal kinds, as pydantic's tagged union does.
    """

    def __init__(self, slot: str, *parts: type[Part]) -> None:
        self.slot = slot
        self._parts = parts

    @property
    def parts(self) -> dict[str, type[Part]]:
        """Kind -> part, ours first, then those that other packages bring."""
        found = {part.kind_name(): part for part in self._parts}
        for kind, part in plugins(self.slot).items():
            if kind in found:
                raise TypeError(f"entry point group netsim.{self.slot}: kind {kind!r} is taken")
            found[kind] = part
        return found

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        generate: Callable[[Any], CoreSchema] = handler.generate_schema
        choices = {kind: generate(part) for kind, part in self.parts.items()}
        return core_schema.tagged_union_schema(choices, discriminator="kind")


@cache
def plugins(slot: str) -> dict[str, type[Part]]:
    """Parts that installed packages declare under the entry point group ``netsim.<slot>``."""
    found: dict[str, type[Part]] = {}
    for entry in entry_points(group=f"netsim.{slot}"):
        part = entry.load()
        if not (isinstance(part, type) and issubclass(part, Part) and "kind" in part.model_fields):
            raise TypeError(f"entry point {entry.value} of netsim.{slot} is not a part with a `kind`")
        found[part.kind_name()] = part
    return found
