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
    ue: IntArray, serving: IntArray, sinr: FloatArray, s_per_sample: FloatArray, samples: FloatArray
) -> tuple[bool, IntArray, FloatArray]:
    """Whether UEs (n,) are all of the world in order; their base stations (n,); and SINR at these, 0 without one, with
    times of training (2, n), from the serving cells (n_ue,), SINR (n_ue, n_bs) and times a sample (n_ue,) of all.
    """
    own, found = np.empty(len(ue), np.int64), np.zeros((2, len(ue)))
    whole = len(ue) == len(serving)
    for k in range(len(ue)):
        u = ue[k]
        whole = whole and u == k
        own[k] = serving[u]
        if own[k] >= 0:
            found[0, k] = sinr[u, own[k]]
        found[1, k] = s_per_sample[u] * samples[k]
    return whole, own, found
