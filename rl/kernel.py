"""One power vector judged in microseconds, compiled: what an agent asks for tens of thousands of times a second.

The laws are those of `fl.power.bound` and `fl.power.search`, which take thousands of vectors at once; a test
compares them.
"""

from __future__ import annotations

import numpy as np

from netsim.compiled import compiled
from netsim.units import FloatArray, IntArray

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
    """What noise of all UEs together lacks in each round (T,), above 0 where it is too little."""
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


@compiled
def act_all(
    action: FloatArray,
    limits: tuple[float, float, float, float],
    channels: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    reach: float,
    which: IntArray,
    laws: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    criterion: int,
) -> tuple[FloatArray, FloatArray, IntArray, FloatArray, FloatArray]:
    """What rows of actions (n, K) lead to: powers (n, K), L (n,), T_th (n,), ln(L / L at the start) (n,), and what is
    seen of it (n, K + 2): powers as actions, 2 T_th / T - 1, the logarithm over 5.

    limits: low, high, least, most of `project`. channels: channel_std (D, T or 1, K), cost_w (D, K), L at the start
    (D,), and powers of the action 0 (D, K), which an action of 1 raises by the factor exp(reach); which (n,): the row's
    channel. laws: std, artificial, round_weight, weight of `judge`.
    """
    n, ues = action.shape
    low, high, least, most = limits
    channel_std, cost_w, start_value, middle_w = channels
    std, artificial, round_weight, weight = laws
    power_w, seen, span = np.empty((n, ues)), np.empty((n, ues + 2)), np.log(high / low)
    value, log_ratio, switch = np.empty(n), np.empty(n), np.empty(n, dtype=np.int64)
    for i in range(n):
        for k in range(ues):
            power_w[i, k] = middle_w[which[i], k] * np.exp(reach * min(max(action[i, k], -1.0), 1.0))
        power_w[i] = project(power_w[i], low, high, least, most)
        d = which[i]
        value[i], switch[i] = judge(
            power_w[i], channel_std[d], std, cost_w[d], artificial, round_weight, weight, criterion
        )
        log_ratio[i] = np.log(value[i] / start_value[d])
        for k in range(ues):
            level = 2.0 * np.log(power_w[i, k] / low) / span - 1.0 if span > 0 else 0.0
            seen[i, k] = min(max(level, -1.0), 1.0)
        seen[i, ues] = 2.0 * switch[i] / len(std) - 1.0
        seen[i, ues + 1] = min(max(log_ratio[i], -5.0), 5.0) / 5.0
    return power_w, value, switch, log_ratio, seen
