"""Multiples of a time step and differences of times, although results of floating point are rounded.

43 ticks of 0.1 s end at 4.3 s, and 4.3 / 0.1 is a little less than 43. A quotient counts as whole when it lies within
1e-9, or eight roundings, of a whole number: a fixed share alone is lost in the quotient from 2^24 on.
Three ticks less two are a little more than one: whether a duration has passed is asked with a `slack_s`.
"""

from __future__ import annotations

from math import ceil, floor
from typing import TypeVar

import numpy as np

from netsim.units import FloatArray

_MIN = 1e-9
_SHARE = 2.0**-50
Times = TypeVar("Times", float, FloatArray)


def last_multiple(time_s: float, every_s: float) -> int:
    """The largest k with k every_s <= time_s."""
    count = time_s / every_s
    slack = _SHARE * count
    return floor(count + (slack if slack > _MIN else _MIN))  # a tick asks often: `max` takes longer


def last_multiples(time_s: FloatArray, every_s: float) -> FloatArray:
    """`last_multiple` of many times (n,), as floats; infinite for an infinite time."""
    count = time_s / every_s
    return np.floor(count + np.maximum(_MIN, _SHARE * count))


def first_multiple(time_s: float, every_s: float) -> int:
    """The smallest k with k every_s >= time_s."""
    count = time_s / every_s
    slack = _SHARE * count
    return ceil(count - (slack if slack > _MIN else _MIN))


def slack_s(span_s: float, time_s: Times) -> Times:
    """Rounding error of a span_s that is a difference of times up to time_s, a number or (n,): 1e-9 and 8 roundings."""
    return _MIN * span_s + _SHARE * time_s
