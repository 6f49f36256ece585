"""Places that a cell serves, by distance from the base station, and ranks of values matched with ranks of distances."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fl.types import Antennas, Public
from netsim.columns import frozen
from netsim.geometry import Area
from netsim.radio.antenna import sector_gain_db
from netsim.units import FloatArray, IntArray

EXPONENT = 3.5
"""path-loss exponent that an outsider assumes: that of a city [Rappaport 2002, Table 4.2]"""
_PLACES = 100  # along the longer side of the area
_RINGS = 64
_SHARPEST = 0.02  # least standard deviation of a rank's normal score about that of its distance
_LEAST = 1e-12  # probability of a rank; smaller differences of Phi are rounding errors
_ROWS = 20_000  # of one block
_NEAREST_M = 10.0  # no link is shorter


@frozen
class Rings:
    """The places that each cell serves, in K rings of equal width around its base station.

    share (n_cell, K): of the cell's places; distance_m (n_cell, K): horizontal, mean over a ring; place_m (n_cell, K,
    2): mean place of a ring, where there is any.
    """

    share: FloatArray
    distance_m: FloatArray
    place_m: FloatArray

    @classmethod
    def around(cls, public: Public, antennas: Antennas) -> Rings:
        """Rings of all cells, with every place served by the cell that is strongest there.

        A cell that is strongest nowhere may serve any place.
        """
        ground_m = _places(public.area)
        strongest = np.argmax(list(levels_db(ground_m, antennas, public.ue_height_m)), axis=0)
        rings = []
        for cell, at_m in enumerate(antennas.at_m[:, :2]):
            own_m = ground_m[strongest == cell] if (strongest == cell).any() else ground_m
            away_m = np.hypot(*(own_m - at_m).T)
            ring = np.minimum((away_m / max(away_m.max(), 1e-9) * _RINGS).astype(np.int64), _RINGS - 1)
            count = np.bincount(ring, minlength=_RINGS)
            sums = [np.bincount(ring, weights=w, minlength=_RINGS) for w in (away_m, *own_m.T)]
            mean = np.stack(sums, axis=1) / np.maximum(count, 1)[:, None]
            rings.append(np.column_stack([count / len(own_m), mean]))
        share, distance_m, *place_m = np.moveaxis(np.array(rings), 2, 0)
        return cls(share, distance_m, np.stack(place_m, axis=2))

    def loss_db(self) -> FloatArray:
        """Path loss (n_cell, K) relative to that at 1 m."""
        return 10.0 * EXPONENT * np.log10(np.maximum(self.distance_m, _NEAREST_M))


def _places(area: Area) -> FloatArray:
    """Middles of equal squares (G, 2) that fill the area, up to a rest at its borders."""
    nx, ny = np.maximum(np.round(area.side_m / area.side_m.max() * _PLACES).astype(np.int64), 1)
    x, y = (np.arange(nx) + 0.5) / nx, (np.arange(ny) + 0.5) / ny
    return area.sample(np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2))


def levels_db(place_m: FloatArray, antennas: Antennas, ue_height_m: float) -> Iterator[FloatArray]:
    """Level (k,) of each cell at places (k, 2), by log-distance path loss and antennas of the usual kind."""
    for cell, (x_m, y_m, height_m) in enumerate(antennas.at_m):
        offset_m = place_m[:, None] - [x_m, y_m]
        drop_m = np.array([height_m - ue_height_m])
        away_m = np.maximum(np.hypot(np.linalg.norm(offset_m[:, 0], axis=1), drop_m), _NEAREST_M)
        level = antennas.power_dbm[cell] - 10.0 * EXPONENT * np.log10(away_m)
        if antennas.azimuth_deg is not None:
            level += sector_gain_db(offset_m, drop_m, antennas.azimuth_deg[cell : cell + 1])[:, 0]
        yield level


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
