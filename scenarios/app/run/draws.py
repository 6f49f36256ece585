"""Random values of a key: a distribution and the study's random streams -> values."""

from __future__ import annotations

from math import exp, floor, log
from typing import Any

import numpy as np

from netsim.rng import Rng
from scenarios.app.study.vary import Distribution


def drawn(rng: Rng, key: str, of: Distribution, n: int) -> list[Any]:
    """`n` independent values of a key; value i hangs on the seed, the key and i alone."""
    return [at(of, float(u)) for u in rng.uniform(key, np.arange(n))]


def at(of: Distribution, u: float) -> Any:
    r"""The value at the quantile u, 0 < u < 1, of a distribution.

    A range: low + u (high - low), or with `log` low (high / low)^u; of integers the floor of the same up to high + 1.
    Numbers that are not integers keep six significant digits, so that they can be copied, and stay within the range.
    """
    if of.choices is not None:
        return of.choices[floor(u * len(of.choices))]
    low, high = float(of.low or 0.0), float(of.high or 0.0)
    end = high + 1.0 if of.integer else high
    value = low * exp(u * log(end / low)) if of.log else low + u * (end - low)
    return int(min(max(floor(value), low), high)) if of.integer else rounded(value, low, high)


def rounded(value: float, low: float, high: float) -> float:
    """Six significant digits, within the range."""
    return min(max(float(f"{value:.6g}"), low), high)
