"""Particles of UEs, and what the estimates of a look say of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fl.tracking.emission import Emission
from fl.tracking.error_model import Densities, ErrorModel, ErrorModels
from fl.tracking.place_grid import PlaceGrid
from netsim.columns import Columns
from netsim.units import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Cloud:
    """Particles of UEs: place_m (n, P, 2), and the logarithms (n, P) of their weights, which sum to 1."""

    place_m: FloatArray
    log_weight: FloatArray

    @classmethod
    def none(cls, n_ue: int, particles: int) -> Cloud:
        """Of UEs that nobody has seen yet: their places mean nothing."""
        return cls.equal(np.zeros((n_ue, particles, 2)))

    @classmethod
    def equal(cls, place_m: FloatArray) -> Cloud:
        """Of equal weights."""
        return cls(place_m, np.full(place_m.shape[:2], -np.log(max(place_m.shape[1], 1))))

    def of(self, rows: IntArray | slice) -> Cloud:
        """Of some UEs (k,)."""
        return Cloud(self.place_m[rows], self.log_weight[rows])

    def put(self, rows: IntArray | slice, part: Cloud) -> None:
        """Fills in those of some UEs (k,)."""
        self.place_m[rows], self.log_weight[rows] = part.place_m, part.log_weight

    def with_rows(self, at: IntArray, n_ue: int, particles: int) -> Cloud:
        """Of n UEs, of which these are at (k,)."""
        every = Cloud.none(n_ue, particles)
        if len(at):
            every.put(at, self)
        return every


@dataclass(frozen=True)
class Sight(Columns):
    """What the estimates of a look say of UEs, at points and by cell."""

    at: Densities
    cells: Emission

    @classmethod
    def of(cls, errors: ErrorModel, z_m: FloatArray, grid: PlaceGrid) -> Sight:
        """Of estimates z_m (n, R, 2), NaN where nothing was named."""
        z_m = z_m[:, : max(int(np.isfinite(z_m).all(axis=2).any(axis=0).sum()), 1)]
        models = ErrorModels.of([errors], z_m.shape[1])
        points = models.densities(np.zeros(len(z_m), dtype=np.int64), z_m, float(np.prod(grid.area.side_m)))
        return cls(points, Emission.of(errors, z_m, grid))

    @classmethod
    def nothing(cls, n_ue: int, grid: PlaceGrid) -> Sight:
        """Of UEs of which nothing is estimated."""
        return cls.of(ErrorModel.plain(1.0, 0.5), np.full((n_ue, 1, 2), np.nan), grid)
