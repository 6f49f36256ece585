"""Likelihood of places given the estimates of a round."""

from __future__ import annotations

import numpy as np

from fl.tracking.error_model import ErrorModel, ErrorModels
from fl.tracking.maps import Maps, bilinear, weighed
from fl.tracking.place_grid import PlaceGrid
from netsim.columns import Columns, frozen
from netsim.units import BoolArray, FloatArray, IntArray


@frozen
class Emission(Columns):
    """e = exp(log_top) (floor + sum_r fy_r fx_r) of UEs, relative to an estimate that lies anywhere: fx (n, R, nx),
    fy (n, R, ny).

    floor, log_top (n,) : of which the largest e is at most exp(log_top), so that the smallest do not vanish; e = 1
    everywhere where nothing is estimated.
    """

    fy: Maps
    fx: Maps
    floor: Maps
    log_top: FloatArray

    @classmethod
    def of(cls, errors: ErrorModel, z_m: FloatArray, grid: PlaceGrid) -> Emission:
        """Emission of estimates z_m (n, R, 2), NaN where nothing was named."""
        return cls.of_models(ErrorModels.of([errors], z_m.shape[1]), np.zeros(len(z_m), dtype=np.int64), z_m, grid)

    @classmethod
    def of_models(cls, models: ErrorModels, which: IntArray, z_m: FloatArray, grid: PlaceGrid) -> Emission:
        """The same, with one of several models for each estimate: which (n,)."""
        ranks = max(int(np.isfinite(z_m).all(axis=2).any(axis=0).sum()), 1)
        fx, fy, floor = models.factors(which, z_m[:, :ranks], grid)
        area = np.float32(np.prod(grid.area.side_m))
        fx, floor = fx * area, floor * area
        top = floor + (fy.max(axis=2) * fx.max(axis=2)).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return cls(fy, fx / top[:, None, None], floor / top, np.log(top, dtype=np.float64))

    def ignored(self, rows: BoolArray) -> Emission:
        """Without the estimates of some UEs (n,)."""
        if not rows.any():
            return self
        fx, floor, log_top = self.fx.copy(), self.floor.copy(), self.log_top.copy()
        fx[rows], floor[rows], log_top[rows] = 0.0, 1.0, 0.0
        return Emission(self.fy, fx, floor, log_top)

    def inner(self, p: Maps, total: Maps) -> Maps:
        """<p, e> / exp(log_top) (n,) of maps p (n or 1, ny, nx), with sums total (n or 1,)."""
        return self.floor * total + bilinear(p, self.fy, self.fx)


def updated(p: Maps, emission: Emission, out: Maps) -> tuple[FloatArray, BoolArray]:
    """Writes p e / sum(p e) to out; the logarithm (n,) of that sum, and whose estimates (n,) are impossible and change
    nothing.
    """
    return log_ratio(weighed(out, p, emission.fy, emission.fx, emission.floor), emission.log_top)


def log_ratio(total: Maps, log_top: FloatArray) -> tuple[FloatArray, BoolArray]:
    """The logarithm of exp(log_top) total, and where it is none: 0 there."""
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.log(total, dtype=np.float64) + log_top
    bad = ~np.isfinite(log)
    return np.where(bad, 0.0, log), bad
