"""When a model is as good as that of the worst run at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

import numpy as np

from netsim.units import FloatArray

_DIGITS = 3  # of a goal, which is told with as many


@dataclass(frozen=True)
class Goal:
    """A value to be reached; smaller: from above, as by an error."""

    value: float
    smaller: bool

    def first_s(self, time_s: FloatArray, values: FloatArray) -> float:
        """The first of the times (n,) at which a value (n,) reaches it; NaN if none does."""
        hit = values <= self.value if self.smaller else values >= self.value
        return float(time_s[np.argmax(hit)]) if hit.any() else float("nan")


def goal_of(ends: Sequence[float], constants: Sequence[float], smaller: bool) -> Goal | None:
    """The worst of the values at the ends of runs (n,), rounded to three digits so that its own run reaches it.

    Runs whose model is not better than a constant, constants (n,), set no goal if others are; None where nothing is
    known.
    """
    pairs = [(end, constant) for end, constant in zip(ends, constants, strict=True) if np.isfinite(end)]
    good = [end for end, constant in pairs if (end < constant if smaller else end > constant)]
    known = good or [end for end, _ in pairs]
    if not known:
        return None
    return Goal(_rounded(max(known) if smaller else min(known), up=smaller), smaller)


def _rounded(value: float, up: bool) -> float:
    """To three significant digits, up or down."""
    if value == 0:
        return 0.0
    step = 10.0 ** (floor(log10(abs(value))) - _DIGITS + 1)
    number = value / step
    return float(f"{(ceil(number - 1e-9) if up else floor(number + 1e-9)) * step:.12g}")
