"""What is looked up for every UE of a cohort, compiled: one loop over UEs each."""

from __future__ import annotations

import numpy as np

from netsim.compiled import compiled
from netsim.units import FloatArray, IntArray


@compiled
def first_bad(power_w: FloatArray) -> int:
    """The first of powers (n,) that is no finite number, or below 0; -1 for none."""
    for u in range(len(power_w)):
        if not 0.0 <= power_w[u] < np.inf:
            return u
    return -1


@compiled
def own_signal_w(power_w: FloatArray, strength: FloatArray, serving: IntArray, unit_w: float) -> FloatArray:
    """Power times strength over unit_w (n,) at the base station of each UE; 0 without one, and where it is not finite.

    strength (n, n_bs), or (n, 1) at its base station alone.
    """
    signal_w, whole = np.zeros(len(serving)), strength.shape[1] > 1
    for u in range(len(serving)):
        if serving[u] >= 0:
            value = power_w[u] * strength[u, serving[u] if whole else 0]
            signal_w[u] = value / unit_w if np.isfinite(value) else 0.0
    return signal_w


@compiled
def looked_up(
    ue: IntArray,
    serving: IntArray,
    sinr: FloatArray,
    s_per_sample: FloatArray,
    j_per_sample: float,
    samples: FloatArray,
    found: FloatArray,
    own: IntArray,
) -> bool:
    """Whether UEs (n,) are all of the world in order, and what is known of them, from that of all UEs (n_ue,).

    Writes their base stations to own (n,), and to the rows of found (3, n) the SINR there, 0 without one, and time and
    energy of training on samples (n,). sinr (n_ue, n_bs).
    """
    whole = len(ue) == len(serving)
    for k in range(len(ue)):
        u = ue[k]
        whole = whole and u == k
        own[k] = serving[u]
        found[0, k] = sinr[u, own[k]] if own[k] >= 0 else 0.0
        found[1, k], found[2, k] = s_per_sample[u] * samples[k], j_per_sample * samples[k]
    return whole
