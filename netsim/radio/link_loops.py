"""Laws of all links of a tick, compiled: one pass over the pairs for each law, no arrays between.

Rows are UEs, columns base stations. A UE that is absent has NaN for a position, and NaN on all its links.
"""

from __future__ import annotations

import numpy as np

from netsim.compiled import compiled
from netsim.elementary import exp, log
from netsim.units import BoolArray, FloatArray

_NEPERS_PER_DB = np.log(10.0) / 10.0
_DECADES = 1.0 / np.log(10.0)


@compiled
def decades_of(distance: FloatArray) -> None:
    """Writes log10 of distances (n, n_bs) in their place."""
    flat = distance.ravel()  # rows of few base stations fill no vector
    for k in range(len(flat)):
        flat[k] = log(flat[k]) * _DECADES


@compiled
def urban_sight(distance_m: FloatArray, decay_m: float) -> FloatArray:
    """18 / d + exp(-d / decay) (1 - 18 / d), and 1 up to 18 m, of distances (n, n_bs)."""
    out, rate = np.empty(distance_m.shape), -1.0 / decay_m
    distance, probability = distance_m.ravel(), out.ravel()  # rows of few base stations fill no vector
    for k in range(len(distance)):
        d = distance[k]
        share = 18.0 / (18.0 if d < 18.0 else d)
        probability[k] = exp(d * rate) * (1.0 - share) + share
    return out


@compiled
def two_slopes(
    distance_m: FloatArray,
    min_m: FloatArray,
    los: BoolArray,
    first_db: float,
    near_db: float,
    beyond_db: FloatArray,
    hidden_db: float,
    hidden_first_db: FloatArray,
) -> FloatArray:
    """Loss of two slopes, or of a third without line of sight where that is more, at distances (n, n_bs) in space::

        max(near log10 d + first, 40 log10 d + first - beyond), or hidden log10 d + hidden_first

    A distance is at least min_m (1 or n, n_bs); beyond_db has the same shape, hidden_first_db (1 or n,).
    """
    n, n_bs = distance_m.shape
    out = np.empty((n, n_bs))
    each, each_beyond, each_hidden = len(min_m) > 1, len(beyond_db) > 1, len(hidden_first_db) > 1
    for i in range(n):
        least = min_m[i if each else 0]
        for b in range(n_bs):
            d = distance_m[i, b]
            out[i, b] = least[b] if d < least[b] else d
    decades_of(out)
    for i in range(n):
        beyond, hidden_first = beyond_db[i if each_beyond else 0], hidden_first_db[i if each_hidden else 0]
        for b in range(n_bs):
            decade = out[i, b]
            loss = near_db * decade + first_db
            far = 40.0 * decade + (first_db - beyond[b])
            loss = far if far > loss else loss
            more = (hidden_db * decade + hidden_first) - loss
            more = 0.0 if more < 0.0 else more
            out[i, b] = loss + (0.0 if los[i, b] else more)
    return out


@compiled
def powers(
    gain_db: FloatArray, power_dbm: FloatArray, power_w: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Gain as a ratio, received power in dBm and in W, all (n, n_bs), of base stations that send with power (n_bs,)."""
    shape = gain_db.shape
    gain, received_dbm, received_w = np.empty(shape), np.empty(shape), np.empty(shape)
    dbm, w = power_dbm.copy(), power_w.copy()  # one after the other in memory, as vector instructions need them
    decibel, ratio = gain_db.ravel(), gain.ravel()
    for k in range(len(decibel)):
        ratio[k] = exp(decibel[k] * _NEPERS_PER_DB)
    for i in range(shape[0]):
        for b in range(shape[1]):
            received_dbm[i, b] = dbm[b] + gain_db[i, b]
            received_w[i, b] = gain[i, b] * w[b]
    return gain, received_dbm, received_w
