"""One power vector judged in microseconds, compiled: agents call it tens of thousands of times a second.

The laws are those of `fl.power.bound` and `fl.power.search`, which take thousands of vectors at once; a test
compares them.
"""

from __future__ import annotations

import numpy as np

from netsim.compiled import compiled
from netsim.units import FloatArray

AGGREGATE, DEVICE, TOP_UP = 0, 1, 2


@compiled
def _shifted_total(power_w: FloatArray, shift_w: float, low: float, high: float) -> float:
    """The sum of clip(x + s, low, high)."""
    total = 0.0
    for k in range(len(power_w)):
        total += min(max(power_w[k] + shift_w, low), high)
    return total


@compiled
def project(power_w: FloatArray, low: float, high: float, least: float, most: float) -> FloatArray:
    """The nearest vector (K,) with low <= x_k <= high and least <= sum_k x_k <= most.

    It is clip(x + s, low, high) for one shift s, found among the corners low - x_k and high - x_k, between which the
    total is a straight line. ValueError for powers that are not finite.
    """
    n = len(power_w)
    for k in range(n):
        if not np.isfinite(power_w[k]):
            raise ValueError("power_w must be finite")
    total = _shifted_total(power_w, 0.0, low, high)
    want = min(max(total, least), most)
    inside: FloatArray = np.empty(n)
    if total == want:
        for k in range(n):
            inside[k] = min(max(power_w[k], low), high)
        return inside
    order_w, corner = np.sort(power_w), np.empty(2 * n)
    i = j = n - 1
    for c in range(2 * n):  # low - x and high - x both rise as x falls: merged
        if i >= 0 and low - order_w[i] <= high - order_w[j]:
            corner[c] = low - order_w[i]
            i -= 1
        else:
            corner[c] = high - order_w[j]
            j -= 1
    a, b = 0, 2 * n - 1
    while b - a > 1:
        mid = (a + b) // 2
        if _shifted_total(power_w, corner[mid], low, high) < want:
            a = mid
        else:
            b = mid
    t0, t1 = _shifted_total(power_w, corner[a], low, high), _shifted_total(power_w, corner[b], low, high)
    along = min(max((want - t0) / (t1 - t0), 0.0), 1.0) if t1 > t0 else 0.0
    for k in range(n):
        inside[k] = min(max(power_w[k] + corner[a] + along * (corner[b] - corner[a]), low), high)
    return inside


@compiled
def _lacking(root: FloatArray, channel_std: FloatArray, std: FloatArray) -> FloatArray:
    """Missing noise of all UEs together in each round (T,), above 0 where it is too little."""
    rounds, n = std.shape
    lacking: FloatArray = np.zeros(rounds)
    for k in range(n):
        if len(channel_std) == 1:
            brought = root[k] * channel_std[0, k]
            for t in range(rounds):
                lacking[t] += std[t, k] - brought
        else:
            for t in range(rounds):
                lacking[t] += std[t, k] - root[k] * channel_std[t, k]
    return lacking


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
    lacking = _lacking(root, channel_std, std) if criterion == AGGREGATE else root
    for t in range(rounds - 1, -1, -1):
        c = min(t, last)
        if criterion == AGGREGATE:
            short = lacking[t] > 0.0
        else:
            short = False
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
