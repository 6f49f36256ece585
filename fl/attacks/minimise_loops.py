"""What L-BFGS does between two questions, start by start: directions, brackets of line searches, memory.

A start's arrays have two or three numbers in a row; each operation on all of them would cost more to call than to do.
"""

from __future__ import annotations

import numpy as np

from netsim.compiled import compiled
from netsim.units import FloatArray, IntArray

STILL = 1e-5  # a start that moves no more than this ...
PATIENCE = 10  # ... for so many iterations has settled
_STUCK = 5  # of which this many are over where a search finds no better point: twice, and the start has settled
_ROUNDING = 1e-16  # a step that promises no more, as a share of the value (or of 1), is the last: it cannot be seen
_ARMIJO, _WOLFE = 1e-4, 0.9
_NOTHING = 1e-6  # a trial that would move a start no further is not worth asking
_INSIDE = 0.1  # share of a bracket at either end that interpolation leaves alone


@compiled
def _dot(a: FloatArray, b: FloatArray) -> float:
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@compiled
def aim(
    live: IntArray, f: FloatArray, g: FloatArray, s: FloatArray, y: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """For the starts of live (m,): direction (m, dim), slope (m,) along it (0: no step can be seen), reach (m,).

    Of f (n,), g (n, dim) and the pairs s, y (n, memory, dim), newest first; pairs without positive curvature are
    skipped. Reach is the largest move along an axis.
    """
    memory, dim = s.shape[1], s.shape[2]
    directions, slopes, reach = np.zeros((len(live), dim)), np.zeros(len(live)), np.zeros(len(live))
    rho, alpha = np.zeros(memory), np.zeros(memory)
    for m in range(len(live)):
        k, d = live[m], directions[m]
        for i in range(memory):
            curvature = _dot(s[k, i], y[k, i])
            use = curvature > 1e-12 * max(_dot(y[k, i], y[k, i]), 1e-300)
            rho[i] = 1.0 / curvature if use else 0.0
        d[:] = g[k]
        for i in range(memory):
            alpha[i] = rho[i] * _dot(s[k, i], d)
            for j in range(dim):
                d[j] -= alpha[i] * y[k, i, j]
        if rho[0] > 0.0:
            gamma = _dot(s[k, 0], y[k, 0]) / max(_dot(y[k, 0], y[k, 0]), 1e-300)
        else:
            gamma = 0.5 / max(np.sqrt(_dot(g[k], g[k])), 1e-12)  # a first step of half a unit
        for j in range(dim):
            d[j] *= gamma
        for i in range(memory - 1, -1, -1):
            beta = rho[i] * _dot(y[k, i], d)
            for j in range(dim):
                d[j] += (alpha[i] - beta) * s[k, i, j]
        slope = -_dot(g[k], d)
        if abs(slope) <= _ROUNDING * max(abs(f[k]), 1.0):
            d[:] = 0.0
            continue
        for j in range(dim):
            d[j] = -g[k, j] if slope > 0 else -d[j]
            reach[m] = max(reach[m], abs(d[j]))
        slopes[m] = -_dot(g[k], g[k]) if slope > 0 else slope
    return directions, slopes, reach


@compiled
def _cubic(low: float, f: float, slope: float, at: float, value: float, along: float) -> float:
    """Where the cubic through both ends has its minimum (Nocedal and Wright, Eq. 3.59), well inside the bracket."""
    width = at - low
    middle = slope + along - 3.0 * (value - f) / width
    root: float = max(middle * middle - slope * along, 0.0) ** 0.5
    spread = along - slope + 2.0 * root
    if not np.isfinite(spread) or spread == 0.0:
        return np.nan
    cut = at - width * (along + root - middle) / spread
    return min(max(cut, low + _INSIDE * width), at - _INSIDE * width)


@compiled
def narrow(
    open_: IntArray, trial: FloatArray, value: FloatArray, gradient: FloatArray,
    f: FloatArray, direction: FloatArray, slope: FloatArray, reach: FloatArray,
    step: FloatArray, bracket: FloatArray, best_x: FloatArray, best_f: FloatArray, best_g: FloatArray,
) -> IntArray:  # fmt: skip
    """Enter the answers to trials (k, dim) of the searches open_ (k,); those that ask again.

    In place: step (m,), bracket (m, 4) with its low end, the value and slope there, and its high end, and the best
    points. A bracket is cut where the cubic through its ends has its minimum, and by half where that is of no use.
    """
    again = np.zeros(len(open_), dtype=np.bool_)
    for i in range(len(open_)):
        m = open_[i]
        at, along = step[m], _dot(gradient[i], direction[m])
        too_far = value[i] > f[m] + _ARMIJO * at * slope[m]
        cut = np.nan
        if too_far:
            cut = _cubic(bracket[m, 0], bracket[m, 1], bracket[m, 2], at, value[i], along)
            bracket[m, 3] = at
        else:
            bracket[m, 0], bracket[m, 1], bracket[m, 2] = at, value[i], along
            if value[i] < best_f[m]:
                best_x[m], best_f[m], best_g[m] = trial[i], value[i], gradient[i]
        if np.isfinite(cut):
            step[m] = cut
        else:
            step[m] = (bracket[m, 0] + bracket[m, 3]) / 2 if np.isfinite(bracket[m, 3]) else 2.0 * at
        again[i] = (too_far or not along >= _WOLFE * slope[m]) and step[m] * reach[m] > _NOTHING
    return open_[again]


@compiled
def move(
    live: IntArray, slope: FloatArray, new_x: FloatArray, new_f: FloatArray, new_g: FloatArray,
    x: FloatArray, f: FloatArray, g: FloatArray, s: FloatArray, y: FloatArray, still: IntArray,
) -> None:  # fmt: skip
    """Take the starts of live (m,) to their new points and remember the pairs; how long each has stood still.

    Where no better point was found the newest pair is empty, and the next direction is scaled afresh.
    """
    memory, dim = s.shape[1], s.shape[2]
    for m in range(len(live)):
        k, moved = live[m], 0.0
        for i in range(memory - 1, 0, -1):
            s[k, i], y[k, i] = s[k, i - 1], y[k, i - 1]
        for j in range(dim):
            s[k, 0, j], y[k, 0, j] = new_x[m, j] - x[k, j], new_g[m, j] - g[k, j]
            moved = max(moved, abs(s[k, 0, j]))
        x[k], f[k], g[k] = new_x[m], new_f[m], new_g[m]
        if slope[m] == 0.0:
            still[k] = PATIENCE
        elif moved > STILL:
            still[k] = 0
        else:
            still[k] += 1 if moved > 0 else _STUCK
