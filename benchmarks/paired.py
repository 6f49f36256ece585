"""Rows beside a peer: pairs of turns, the median of their ratios and how these spread."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter, process_time
from typing import Any

from benchmarks.world import Row, digits

Turn = Callable[[], float]
"""something to measure: CPU seconds"""
LEAST = 3


def timed(work: Callable[[], Any]) -> Turn:
    """CPU seconds of this process for one call."""

    def turn() -> float:
        began = process_time()
        work()
        return process_time() - began

    return turn


def often(work: Callable[[], Any], times: int) -> Turn:
    """CPU seconds for one of so many calls, for brief ones."""

    def turn() -> float:
        began = process_time()
        for _ in range(times):
            work()
        return (process_time() - began) / times

    return turn


def beside(
    work: str,
    ours: Turn,
    theirs: Turn,
    bar: float | None,
    seconds: float,
    limit: Turn | None = None,
    **more: Any,
) -> Row:
    """A row of at least three pairs of turns, after one turn of each that loads and compiles.

    `ratio` is the median of theirs over ours, pair by pair; `spread` are the least and the largest.
    `limit` is the time of what cannot be left out, measured in the same turns, `share` what we
    reach of it. `bar` is the least ratio.
    """
    ours(), theirs()
    pairs: list[tuple[float, float]] = []
    least: list[float] = []
    began = perf_counter()
    while len(pairs) < LEAST or perf_counter() - began < seconds:
        pairs.append((ours(), theirs()))
        if limit is not None:
            least.append(limit())
    mine = median(a for a, _ in pairs)
    ratios = sorted(b / a for a, b in pairs)
    ratio = median(ratios)
    bound = (
        {"limit": digits(1e3 * median(least)), "share": digits(median(least) / mine)}
        if least
        else {}
    )
    return {
        "work": work,
        "ours": digits(1e3 * mine),
        "unit": "ms",
        "theirs": digits(1e3 * median(b for _, b in pairs)),
        "ratio": digits(ratio),
        "spread": [digits(ratios[0]), digits(ratios[-1])],
        "bar": bar,
        "met": None if bar is None else ratio >= bar,
        **bound,
        **more,
    }


def without(work: str, peer: str, bar: float | None, reason: str) -> Row:
    """The row of a peer that is not there."""
    return {
        "work": work,
        "ours": None,
        "unit": "ms",
        "peer": peer,
        "theirs": None,
        "ratio": None,
        "bar": bar,
        "met": None,
        "reason": reason,
    }
