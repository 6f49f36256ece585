"""Cases of a test of which only some are played unless slow tests are asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(n: int, cases: Iterable[Any]) -> list[Any]:
    """The first of each n cases as it is, the others marked as slow."""
    return [
        case
        if i % n == 0
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for i, case in enumerate(cases)
    ]
