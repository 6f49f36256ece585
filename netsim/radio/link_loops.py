"""What every link of a tick goes through, compiled: one pass over the pairs for each law, no arrays between.

Rows are UEs, columns base stations. A UE that is absent has NaN for a position, and NaN on all its links.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from netsim.compiled import compiled
from netsim.elementary import exp, log
from netsim.units import BoolArray, FloatArray, IntArray

_NEPERS_PER_DB = np.log(10.0) / 10.0
_DECADES = 1.0 / np.log(10.0)

Table = npt.NDArray[np.float32]


@compiled
def distances(position_m: FloatArray, at_m: FloatArray, rise_m: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Distances on the map and in space (n, n_bs) of positions (n, 2) to places (n_bs, 2) that are rise_m higher."""
    n, n_bs = len(position_m), len(at_m)
    flat, slant = np.empty((n, n_bs)), np.empty((n, n_bs))
    x, y, rise = at_m[:, 0].copy(), at_m[:, 1].copy(), rise_m * rise_m
    for i in range(n):
        east, north = position_m[i, 0], position_m[i, 1]
        for b in range(n_bs):
            square = (east - x[b]) * (east - x[b]) + (north - y[b]) * (north - y[b])
            flat[i, b] = np.sqrt(square)
            slant[i, b] = np.sqrt(square + rise[b])
    return flat, slant


@compiled
def decades(distance: FloatArray) -> FloatArray:
    """log10 of distances (n, n_bs)."""
    out = np.empty(distance.shape)
    for i in range(distance.shape[0]):
        for b in range(distance.shape[1]):
            out[i, b] = log(distance[i, b]) * _DECADES
    return out


@compiled
def urban_sight(distance_m: FloatArray, decay_m: float) -> FloatArray:
    """18 / d + exp(-d / decay) (1 - 18 / d), and 1 up to 18 m, of distances (n, n_bs)."""
    out, rate = np.empty(distance_m.shape), -1.0 / decay_m
    for i in range(distance_m.shape[0]):
        for b in range(distance_m.shape[1]):
            d = distance_m[i, b]
            share = 18.0 / (18.0 if d < 18.0 else d)
            out[i, b] = exp(d * rate) * (1.0 - share) + share
    return out


@compiled
def where_hidden(seen: FloatArray, hidden: FloatArray, los: BoolArray) -> None:
    """Writes to `seen` (n, n_bs) the larger of both where there is no line of sight; NaN stays NaN."""
    for i in range(seen.shape[0]):
        for b in range(seen.shape[1]):
            more = hidden[i, b] - seen[i, b]
            more = 0.0 if more < 0.0 else more
            seen[i, b] += 0.0 if los[i, b] else more


@compiled
def interpolated(table: Table, corner: IntArray, weight: Table) -> FloatArray:
    """Sums over k of weight[k, i] table[corner[k, i]], in single precision: (n, n_site) of corners (4, n)."""
    n, n_site = corner.shape[1], table.shape[1]
    out, row = np.empty((n, n_site)), np.empty(n_site, dtype=np.float32)
    for i in range(n):
        a, b, c, d = weight[0, i], weight[1, i], weight[2, i], weight[3, i]
        p, q, r, s = table[corner[0, i]], table[corner[1, i]], table[corner[2, i]], table[corner[3, i]]
        for j in range(n_site):
            row[j] = a * p[j] + b * q[j] + c * r[j] + d * s[j]
        for j in range(n_site):
            out[i, j] = row[j]
    return out


@compiled
def powers(
    gain_db: FloatArray, power_dbm: FloatArray, power_w: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Gain as a ratio, received power in dBm and in W, all (n, n_bs), of base stations that send with power (n_bs,)."""
    shape = gain_db.shape
    gain, received_dbm, received_w = np.empty(shape), np.empty(shape), np.empty(shape)
    dbm, w = power_dbm.copy(), power_w.copy()  # one after the other in memory, as vector instructions need them
    for i in range(shape[0]):
        for b in range(shape[1]):
            gain[i, b] = exp(gain_db[i, b] * _NEPERS_PER_DB)
            received_dbm[i, b] = dbm[b] + gain_db[i, b]
            received_w[i, b] = gain[i, b] * w[b]
    return gain, received_dbm, received_w


@compiled
def interference(received_w: FloatArray, noise_w: float) -> FloatArray:
    """What all other base stations and noise add up to (n, n_bs), W, of powers received (n, n_bs).

    Of the strongest one it is the sum of the others: a difference of sums would lose weak interference.
    """
    n, n_bs = received_w.shape
    out = np.empty((n, n_bs))
    for i in range(n):
        strongest, others = 0, 0.0
        for b in range(1, n_bs):
            strongest = b if received_w[i, b] > received_w[i, strongest] else strongest
        for b in range(n_bs):
            others += 0.0 if b == strongest else received_w[i, b]
        for b in range(n_bs):
            rest = others + (received_w[i, strongest] - received_w[i, b])
            out[i, b] = (others if b == strongest else rest) + noise_w
    return out
