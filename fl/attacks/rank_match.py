r"""Ranks of values matched with ranks of distances: where UEs are whose uploads take longer than those of others."""

from __future__ import annotations

import numpy as np

from fl.attacks.rings import Rings
from netsim.columns import frozen
from netsim.units import FloatArray, IntArray

_SHARPEST = 0.02  # least standard deviation of a rank's normal score about that of its distance
_LEAST = 1e-12  # probability of a rank; smaller differences of Phi are rounding errors
_ROWS = 20_000  # of one block


@frozen
class RankedPlaces:
    """Posterior means (n,): distance_m from the base station of the cell, and place_m (n, 2)."""

    distance_m: FloatArray
    place_m: FloatArray


class RankMatch:
    r"""Matches the ranks of the values of links (k,) with those of the distances of their cells' places.

    Values and distances have normal scores q and z of correlation rho; z is that of a distance among the places of all
    cells, each cell weighing as many links as it has. A value whose rank lies in (a, b) has, at a distance, probability

        Phi((q_b - rho z) / s) - Phi((q_a - rho z) / s),    rho^2 = 1 - s^2 = L^2 / (L^2 + shadowing_db^2),

    with L the standard deviation of the path loss in dB. Equal values share their ranks, so values that are all alike
    leave the prior as it is.
    """

    def __init__(self, rings: Rings, cell: IntArray, value: FloatArray, shadowing_db: float) -> None:
        self._rings, self._value = rings, np.sort(value)
        links = np.bincount(cell, minlength=len(rings.share)) / np.maximum(len(cell), 1)
        weight = (links[:, None] * rings.share).ravel()
        self._score = _normal_scores(rings.distance_m.ravel(), weight).reshape(rings.distance_m.shape)
        loss_db = rings.loss_db().ravel()
        variance = weight @ (loss_db - weight @ loss_db) ** 2
        noise = shadowing_db**2 / max(float(variance) + shadowing_db**2, 1e-300)
        self._std = max(float(np.sqrt(noise)), _SHARPEST)
        self._rho = float(np.sqrt(1.0 - self._std**2)) if self._std < 1.0 else 0.0

    def locate(self, cell: IntArray, value: FloatArray) -> RankedPlaces:
        """Locate UEs (n,) that were received through one cell each, with these values."""
        distance_m, place_m = np.zeros(len(cell)), np.zeros((len(cell), 2))
        for rows in np.array_split(np.arange(len(cell)), len(cell) // _ROWS + 1):
            own = cell[rows]
            weight = self._posterior(own, value[rows])
            distance_m[rows] = (weight * self._rings.distance_m[own]).sum(axis=1)
            place_m[rows] = np.einsum("nk,nkd->nd", weight, self._rings.place_m[own])
        return RankedPlaces(distance_m, place_m)

    def _posterior(self, cell: IntArray, value: FloatArray) -> FloatArray:
        """Probability (n, K) of every ring of the cells."""
        from scipy.special import ndtr, ndtri

        count = len(self._value)
        low, high = (np.searchsorted(self._value, value, side).astype(np.float64) for side in ("left", "right"))
        new = low == high  # no rank of its own: half of that of either neighbour
        low[new], high[new] = np.maximum(low[new] - 0.5, 0.0), np.minimum(high[new] + 0.5, count)
        about = self._rho * self._score[cell]
        a, b = ((ndtri(edge / count)[:, None] - about) / self._std for edge in (low, high))
        share = self._rings.share[cell]
        weight = share * (ndtr(b) - ndtr(a))
        gap = np.where(share > 0, np.maximum(np.maximum(a, -b), 0.0), np.inf)
        lost = weight.sum(axis=1) < _LEAST  # beyond all distances of the cell: the nearest of them
        weight[lost] = (gap == gap.min(axis=1, keepdims=True))[lost]
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def _normal_scores(value: FloatArray, weight: FloatArray) -> FloatArray:
    """Normal quantile of the rank of each value (n,) by weight (n,), equal values in the middle of their ranks."""
    from scipy.special import ndtri

    of_value = np.unique(value, return_inverse=True)[1]
    mass = np.bincount(of_value, weights=weight)
    middle = np.cumsum(mass) - mass / 2
    return np.asarray(ndtri(np.clip(middle, 1e-9, 1 - 1e-9)))[of_value]
