"""How soon a model was good, in simulated time and in updates, whatever the number of merges.

A server that merges often is scored often, and one lucky score is no good model. What counts is therefore the mean of
the score over time, from 80 % of the time that has passed since the first request up to now.
"""

from __future__ import annotations

import numpy as np

from netsim.units import FloatArray

_SHARE = 0.2  # of the time that has passed: over so much of it the score is averaged


def reached_s(time_s: FloatArray, score: FloatArray, start_s: float, level: float) -> float:
    """Time after start_s at which the mean score has reached a level; NaN if it never does.

    A score holds from its time (n,), which increases, to the next one; before the first, and where it is not finite, it
    is 0. The mean is looked at where the score changes, or leaves the mean.
    """
    if not len(time_s):
        return float("nan")
    since_s = time_s - start_s
    value = np.where(np.isfinite(score), score, 0.0)
    at_s = np.unique(np.concatenate([since_s, since_s / (1 - _SHARE)]))
    at_s = at_s[(at_s > 0) & (at_s <= since_s[-1])]
    mean = (_area(since_s, value, at_s) - _area(since_s, value, (1 - _SHARE) * at_s)) / (_SHARE * at_s)
    hit = np.flatnonzero(mean >= level)
    return float(at_s[hit[0]]) if len(hit) else float("nan")


def _area(since_s: FloatArray, value: FloatArray, at_s: FloatArray) -> FloatArray:
    """Integral (m,) of the steps (n,) from 0 to times (m,)."""
    steps_s, held = np.append(0.0, since_s), np.append(0.0, value)
    before = np.append(0.0, np.cumsum(held[:-1] * np.diff(steps_s)))
    k = np.searchsorted(steps_s, at_s, side="right") - 1
    return np.asarray(before[k] + held[k] * (at_s - steps_s[k]))
