"""How probable it is that one policy costs less than another, over seeds and worlds.

    P(X < Y) = mean over worlds m of mean over seeds i, j of S(x_mi, y_mj),  S = 1 for x < y, 1/2 for x = y, 0 otherwise

[Agarwal et al., Deep Reinforcement Learning at the Edge of the Statistical Precipice, 2021, where more is better]
Its interval is that of a stratified bootstrap: seeds are drawn with replacement within each world. Agarwal et al. keep
their tasks; worlds are draws themselves, and are drawn with replacement as well.
"""

from __future__ import annotations

import numpy as np

from netsim.units import FloatArray

_DRAWS, _CHUNK = 2000, 200
_LEVELS = (0.025, 0.975)


def probability_of_improvement(costs: FloatArray, others: FloatArray) -> tuple[float, float, float]:
    """P(X < Y) and its 95 % interval; costs, others (seeds, worlds), whose seeds are paired with nothing.

    The same numbers give the same interval.
    """
    wins = _wins(costs, others)
    worlds, n, k = wins.shape
    draw = np.random.default_rng(0)
    found = list[float]()
    for _ in range(_DRAWS // _CHUNK):
        world = draw.integers(worlds, size=(_CHUNK, worlds))[..., None, None]
        own = draw.integers(n, size=(_CHUNK, worlds, n))[..., :, None]
        other = draw.integers(k, size=(_CHUNK, worlds, k))[..., None, :]
        found += wins[world, own, other].mean(axis=(1, 2, 3)).tolist()
    low, high = np.quantile(found, _LEVELS)
    return float(wins.mean()), float(low), float(high)


def _wins(costs: FloatArray, others: FloatArray) -> FloatArray:
    """S (worlds, seeds, seeds of the others)."""
    x, y = costs.T[:, :, None], others.T[:, None, :]
    return np.asarray((x < y) + 0.5 * (x == y))
