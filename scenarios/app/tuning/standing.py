"""Which trials are the best: those that keep every bound, and that none of the others beats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scenarios.app.tuning.goals import Goals

Rows = Sequence[Mapping[str, Any]]


def front(rows: Rows, goals: Goals) -> list[int]:
    """Numbers of the trials that keep all bounds and that no other one beats: as good everywhere, better somewhere."""
    losses = {row["number"]: _losses(row, goals) for row in rows if row["kept"]}
    beaten = {
        n for n, one in losses.items() for other in losses.values()
        if other != one and all(a <= b for a, b in zip(other, one, strict=True))
    }  # fmt: skip
    return [n for n in losses if n not in beaten]


def best_of(rows: Rows, goals: Goals) -> list[int]:
    """The winner, the first of equal ones; of several objectives the front, best of the first objective first."""
    losses = {row["number"]: _losses(row, goals) for row in rows}
    order = sorted(front(rows, goals), key=lambda n: (losses[n], n))
    return order[:1] if len(goals.objectives) == 1 else order


def _losses(row: Mapping[str, Any], goals: Goals) -> tuple[float, ...]:
    return tuple(o.loss(row["values"][o.key]) for o in goals.objectives) if row["values"] else ()
