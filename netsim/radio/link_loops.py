"""Loops over all links of a tick, compiled: one pass over the pairs, no arrays between."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.compiled import compiled
from netsim.units import FloatArray, IntArray

Singles = npt.NDArray[np.float32]


@compiled
def interpolated(table: Singles, node: IntArray, weight: Singles, row: int) -> FloatArray:
    """Sums (n, n_site) of table (nodes, n_site) at node, node + 1 and the two a row further, by weight (4, n)."""
    found = np.empty((len(node), table.shape[1]))
    for i in range(len(node)):
        at = node[i]
        left, right, above, beyond = weight[0, i], weight[1, i], weight[2, i], weight[3, i]
        for s in range(table.shape[1]):
            value = left * table[at, s] + right * table[at + 1, s]
            value = value + above * table[at + row, s]
            found[i, s] = value + beyond * table[at + row + 1, s]
    return found


@compiled
def interference(received_w: FloatArray, strongest: IntArray) -> FloatArray:
    """Sum of the powers of all other base stations (n, n_bs), W, of powers received (n, n_bs).

    Of the strongest one (n,) it is the sum of the others: a difference of sums would lose weak interference.
    """
    found = np.empty(received_w.shape)
    n_bs = received_w.shape[1]
    for i in range(len(received_w)):
        own = max(strongest[i], 0)
        others_w = 0.0
        for b in range(n_bs):
            if b != own:
                others_w += received_w[i, b]
        for b in range(n_bs):
            found[i, b] = others_w + (received_w[i, own] - received_w[i, b])
    return found


@compiled
def cancelled(x_w: FloatArray, outer: FloatArray, cell: IntArray, group: IntArray, receiver: Any) -> FloatArray:
    """SINR (n,) as in `reception.sinr`, of UEs sorted by group, then cell, then from the strongest to the weakest.

    x_w, cell, group (n,), outer (n, n_bs, antennas^2); receiver: a `reception.Cancellation`.
    """
    n, n_bs, size = outer.shape
    found = np.empty(n)
    elsewhere = np.zeros((n_bs, size))
    first = 0
    end = 0
    while first < n:
        if first == end:  # a new group
            elsewhere[:] = 0.0
            while end < n and group[end] == group[first]:
                for b in range(n_bs):
                    if receiver.others and b != cell[end]:
                        for a in range(size):
                            elsewhere[b, a] += x_w[end] * outer[end, b, a]
                end += 1
        last = first
        while last < end and cell[last] == cell[first]:
            last += 1
        found[first:last] = _queue(x_w[first:last], outer[first:last, cell[first]], elsewhere[cell[first]], receiver)
        first = last
    return found


@compiled
def _queue(x_w: FloatArray, own: FloatArray, elsewhere: FloatArray, receiver: Any) -> FloatArray:
    """SINR (n,) of the UEs of a cell and group, the strongest first, that meet a disturbance from elsewhere (size,).

    Running sums begin with the weakest signal, so large numbers do not cancel.
    """
    n, size = own.shape
    antennas = int(np.sqrt(size))
    found = np.empty(n)
    later = np.zeros(size)
    for k in range(n - 1, -1, -1):
        found[k] = 0.0
        for a in range(size):
            found[k] += own[k, a] * (later[a] + elsewhere[a])
            later[a] += x_w[k] * own[k, a]
    earlier = np.zeros(size)
    for k in range(n):
        square = 0.0
        for a in range(antennas):
            square += own[k, a]
        left = 0.0
        for a in range(size):
            left += own[k, a] * earlier[a]
        ratio = x_w[k] * square**2 / (max(found[k], 0.0) + square * receiver.noise_w + max(left, 0.0))
        share = receiver.residual if ratio >= receiver.least else 1.0
        for a in range(size):
            earlier[a] += share * x_w[k] * own[k, a]
        found[k] = ratio if np.isfinite(ratio) else 0.0
    return found
