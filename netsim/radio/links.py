"""Links: one immutable snapshot of every (UE, base station) pair."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.units import BoolArray, FloatArray, IntArray, w_from_dbm


@dataclass(frozen=True)
class Links:
    """The radio between all UEs and all base stations at one time.

    time_s; distance_m (n_ue, n_bs) in three dimensions; gain (n_ue, n_bs), linear, path loss, shadowing and
    antenna; rsrp_dbm, los (n_ue, n_bs). NaN for an absent UE. A world without base stations (a replayed
    measurement trace) has n_bs = 0.
    """

    time_s: float
    distance_m: FloatArray
    gain: FloatArray
    rsrp_dbm: FloatArray
    los: BoolArray

    @property
    def serving(self) -> IntArray:
        """The strongest base station of each UE (n_ue,), -1 for none."""
        if self.gain.shape[1] == 0:
            return np.full(len(self.gain), -1)
        present = np.asarray(np.isfinite(self.rsrp_dbm).all(axis=1))
        best = np.argmax(np.where(present[:, None], self.rsrp_dbm, 0.0), axis=1)
        return np.where(present, best, -1)

    def sinr(self, noise_dbm: float) -> FloatArray:
        """Downlink SINR (n_ue, n_bs), linear: each cell against all others, at full load, and noise.

        noise_dbm is the noise in the bandwidth that RSRP counts (one resource element).
        """
        power = w_from_dbm(self.rsrp_dbm)
        rest = power.sum(axis=1, keepdims=True) - power
        return np.asarray(power / (rest + w_from_dbm(noise_dbm)))
