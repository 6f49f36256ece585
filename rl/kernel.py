"""One power vector judged in microseconds, compiled: what an agent asks for tens of thousands of times a second.

The laws are those of `fl.power.bound` and `fl.power.search`, which take thousands of vectors at once; a test
compares them.
"""

from __future__ import annotations

import numpy as np

from netsim.compiled import compiled
from netsim.units import FloatArray

AGGREGATE, DEVICE, TOP_UP = 0, 1, 2


@compiled
def project(power_w: FloatArray, low: float, high: float, least: float, most: float) -> FloatArray:
    """The nearest vector (K,) with low <= x_k <= high and least <= sum_k x_k <= most.

    It is clip(x + s, low, high) for one shift s, found among the corners low - x_k and high - x_k, between which the
    total is a straight line. ValueError for powers that are not finite.
    """
    n = len(power_w)
    if not np.isfinite(power_w).all():
        raise ValueError("power_w must be finite")
    inside: FloatArray = np.minimum(np.maximum(power_w, low), high)
    total = inside.sum()
    want = min(max(total, least), most)
    if total == want:
        return inside
    corner = np.empty(2 * n)
    corner[:n], corner[n:] = low - power_w, high - power_w
    corner.sort()
    a, b = 0, 2 * n - 1
    while b - a > 1:
        mid = (a + b) // 2
        if np.minimum(np.maximum(power_w + corner[mid], low), high).sum() < want:
            a = mid
        else:
            b = mid
    t0 = np.minimum(np.maximum(power_w + corner[a], low), high).sum()
    t1 = np.minimum(np.maximum(power_w + corner[b], low), high).sum()
    along = min(max((want - t0) / (t1 - t0), 0.0), 1.0) if t1 > t0 else 0.0
    clipped_w: FloatArray = np.minimum(np.maximum(power_w + corner[a] + along * (corner[b] - corner[a]), low), high)
    return clipped_w


@compiled
def judge(
    power_w: FloatArray,
    channel_std: FloatArray,
    std: FloatArray,
    cost_w: FloatArray,
    artificial: FloatArray,
    round_weight: FloatArray,
    weight: FloatArray,
    criterion: int,
) -> tuple[float, int]:
    """L and T_th of a power vector (K,).

    channel_std (T, K) at 1 W, or (1, K) where it is the same in all rounds; std, weight (T, K); cost_w (K,);
    artificial (T + 1,); round_weight (T,). For top-up T_th is the last round in which any UE draws noise.

    ValueError for powers of another shape, or that are not finite and above 0: compiled code would read past the end.
    """
    rounds, n = std.shape
    if len(power_w) != n:
        raise ValueError("power_w must have one power for each UE")
    for k in range(n):
        if not 0.0 < power_w[k] < np.inf:
            raise ValueError("power_w must be finite and above 0")
    root = 1.0 / np.sqrt(power_w)
    value = 0.0
    for k in range(n):
        value += cost_w[k] * root[k] * root[k]
    last = len(channel_std) - 1
    switch = 0
    for t in range(rounds - 1, -1, -1):
        c = min(t, last)
        short = False
        if criterion == AGGREGATE:
            lacking = 0.0
            for k in range(n):
                lacking += std[t, k] - root[k] * channel_std[c, k]
            short = lacking > 0.0
        else:
            for k in range(n):
                short = short or root[k] * channel_std[c, k] < std[t, k]
        if short:
            switch = max(switch, t + 1)
            if criterion != TOP_UP:
                return value + artificial[switch], switch
            for k in range(n):
                own = root[k] * channel_std[c, k]
                value += round_weight[t] * weight[t, k] ** 2 * max(std[t, k] ** 2 - own**2, 0.0)
    return value, switch
