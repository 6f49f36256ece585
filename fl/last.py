"""The last result of a computation, for whoever asks for it again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

MOST_KEPT_BYTES = 64 * 2**20
"""of a result that is kept, with what it depends on"""

Result = TypeVar("Result")


class Last:
    """Keeps one result, while it is small: it is computed again when anything that it depends on has another value.

    Neither the result nor what it depends on may be written to afterwards. Of a view, as of one model among many, its
    own entries are kept, not the array that it belongs to.
    """

    def __init__(self, most_bytes: int = MOST_KEPT_BYTES) -> None:
        self.most_bytes = most_bytes
        self._kept: tuple[tuple[Any, ...], Any] | None = None

    def of(self, work: Callable[[], Result], *depends: Any) -> Result:
        """work(), which depends on these values alone."""
        kept = self._kept
        if kept is not None and len(kept[0]) == len(depends) and all(map(_same, kept[0], depends)):
            return kept[1]  # type: ignore[no-any-return]
        found = work()
        size = sum(each.nbytes for each in (*depends, found) if isinstance(each, np.ndarray))
        self._kept = (tuple(map(_alone, depends)), found) if size <= self.most_bytes else None
        return found


def _alone(value: Any) -> Any:
    """The value, where it is a view of an array a copy."""
    return value.copy() if isinstance(value, np.ndarray) and value.base is not None else value


def _same(one: Any, other: Any) -> bool:
    """Whether two values are equal; an array that has NaN equals none, so the work is done again."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return type(one) is type(other) and np.array_equal(one, other)
    return bool(one == other)
