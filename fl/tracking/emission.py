"""What the estimates of a round say of where UEs are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fl.tracking.error_model import ErrorModel, ErrorModels
from fl.tracking.place_grid import PlaceGrid
from fl.tracking.wide import Maps
from netsim.units import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Emission:
    """e = floor + sum_r fy_r fx_r of UEs, relative to an estimate that lies anywhere: fx (n, R, nx), fy (n, R, ny).

    floor (n,); e = 1 everywhere where nothing is estimated.
    """

    fy: Maps
    fx: Maps
    floor: FloatArray

    @classmethod
    def of(cls, errors: ErrorModel, z_m: FloatArray, grid: PlaceGrid) -> Emission:
        """Of estimates z_m (n, R, 2), NaN where nothing was named."""
        return cls.of_models(ErrorModels.of([errors], z_m.shape[1]), np.zeros(len(z_m), dtype=np.int64), z_m, grid)

    @classmethod
    def of_models(cls, models: ErrorModels, which: IntArray, z_m: FloatArray, grid: PlaceGrid) -> Emission:
        """The same, with one of several models for each estimate: which (n,)."""
        ranks = max(int(np.isfinite(z_m).all(axis=2).any(axis=0).sum()), 1)
        fx, fy, floor = models.factors(which, z_m[:, :ranks], grid)
        area = np.float32(np.prod(grid.area.side_m))
        return cls(fy, fx * area, np.asarray(floor * area))

    def take(self, rows: IntArray | BoolArray | slice) -> Emission:
        """Of some UEs (k,)."""
        return Emission(self.fy[rows], self.fx[rows], self.floor[rows])

    def ignored(self, rows: BoolArray) -> Emission:
        """Without the estimates of some UEs (n,)."""
        if not rows.any():
            return self
        fx, floor = self.fx.copy(), self.floor.copy()
        fx[rows], floor[rows] = 0.0, 1.0
        return replace(self, fx=fx, floor=floor)

    def peaked(self) -> tuple[Maps, Maps]:
        """e / top (n, ny, nx) and top (n,), no less than the largest e, so that the smallest do not vanish."""
        from fl.tracking.map_loops import add_products

        top = self.floor + (self.fy.max(axis=2) * self.fx.max(axis=2)).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            fx, floor = self.fx / top[:, None, None], self.floor / top
        e = np.empty((len(fx), self.fy.shape[2], fx.shape[2]), dtype=np.float32)
        add_products(e, self.fy, fx, floor)
        return e, np.asarray(top)

    def inner(self, p: Maps, fy: Maps, fx: Maps, total: Maps) -> Maps:
        """<p, e> (n,) of maps p (n or 1, ny, nx) with sums total (n,), or of what a Gaussian reads of p, fy and fx."""
        from fl.tracking.map_loops import bilinear

        return np.asarray(self.floor * total + bilinear(p, fy, fx))


def updated(p: Maps, emission: Emission) -> tuple[Maps, FloatArray, BoolArray]:
    """p e / sum(p e), the logarithm (n,) of that sum, and whose estimates (n,) are impossible and change nothing."""
    from fl.tracking.map_loops import multiply

    e, top = emission.peaked()
    total = multiply(e, p)
    with np.errstate(divide="ignore", invalid="ignore"):
        e *= (1 / total)[:, None, None]
        log = np.log(total, dtype=np.float64) + np.log(top, dtype=np.float64)
    bad = ~(total > 0) | ~np.isfinite(log)
    if bad.any():
        e[bad], log[bad] = p[bad], 0.0
    return e, log, bad
