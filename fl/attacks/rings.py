"""Places that a cell serves, by distance from the base station: the public side of a network."""

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
        place_m = _places(public.area)
        strongest = _strongest(place_m, antennas, public.ue_height_m)
        share, distance_m, mean_m = [], [], []
        for cell, at_m in enumerate(antennas.at_m[:, :2]):
            own_m = place_m[strongest == cell] if (strongest == cell).any() else place_m
            away_m = np.hypot(*(own_m - at_m).T)
            ring = np.minimum((away_m / max(away_m.max(), 1e-9) * _RINGS).astype(np.int64), _RINGS - 1)
            count = np.bincount(ring, minlength=_RINGS)
            sums = [np.bincount(ring, weights=w, minlength=_RINGS) for w in (away_m, *own_m.T)]
            mean = np.stack(sums, axis=1) / np.maximum(count, 1)[:, None]
            share.append(count / len(own_m))
            distance_m.append(mean[:, 0])
            mean_m.append(mean[:, 1:])
        return cls(np.array(share), np.array(distance_m), np.array(mean_m))

    def loss_db(self) -> FloatArray:
        """Path loss (n_cell, K) relative to that at 1 m."""
        return 10.0 * EXPONENT * np.log10(np.maximum(self.distance_m, _NEAREST_M))


def _places(area: Area) -> FloatArray:
    """Middles of equal squares (G, 2) that fill the area, up to a rest at its borders."""
    nx, ny = np.maximum(np.round(area.side_m / area.side_m.max() * _PLACES).astype(np.int64), 1)
    x, y = (np.arange(nx) + 0.5) / nx, (np.arange(ny) + 0.5) / ny
    return area.sample(np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2))


def _strongest(place_m: FloatArray, antennas: Antennas, ue_height_m: float) -> IntArray:
    """The cell (G,) that a UE at each place would choose."""
    best, strongest = np.full(len(place_m), -np.inf), np.zeros(len(place_m), dtype=np.int64)
    for cell, level in enumerate(levels_db(place_m, antennas, ue_height_m)):
        strongest[level > best] = cell
        best = np.maximum(best, level)
    return strongest


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
