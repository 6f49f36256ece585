r"""The error of an attack's estimates: how likely they are, given where a UE really is.

An attack names R places z_1 ... z_R of a UE in a round (R = 1 for a centroid). With the truth x,

    p(z | x) = (1 - outlier) sum_r share_r N(z_r; offset_r + gain_r x, sigma_r^2 I) + outlier / A,

where A is the area. Attacks on noisy updates name places near the middle of the area, whatever the truth is: then the
gain is small, and an estimate says little. A part of the error, bias_m a axis, stays the same from round to round, for
instance because of the layout of a home: averaging does not remove it.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import ClassVar

import numpy as np

from fl.tracking.place_grid import PlaceGrid
from netsim.columns import frozen
from netsim.rng import ndtr
from netsim.units import Float32Array, FloatArray, IntArray

_SAME_GAIN = 0.2


@frozen
class ErrorModel:
    """share, sigma_m, gain (R,), offset_m (R, 2) : of each rank, shares sum to 1; outlier : probability that none of
    them says anything; bias_m : standard deviation a axis of the error that persists over rounds, a part of sigma_m.
    """

    bounds: ClassVar[dict[str, tuple[float, float]]] = dict.fromkeys(("share", "outlier"), (0.0, 1.0 + 1e-9))
    share: FloatArray
    sigma_m: FloatArray
    outlier: float
    bias_m: float = 0.0
    gain: FloatArray = field(default_factory=lambda: np.ones(1))
    offset_m: FloatArray = field(default_factory=lambda: np.zeros((1, 2)))

    @classmethod
    def plain(cls, sigma_m: float, outlier: float, bias_m: float = 0.0) -> ErrorModel:
        """Error model of an attack that names one place."""
        return cls(np.ones(1), np.array([sigma_m]), outlier, bias_m)

    @property
    def precision(self) -> float:
        """Precision of an estimate per axis: the mean of gain^2 / sigma^2 over ranks, 1 / m^2."""
        gain = np.broadcast_to(self.gain, self.sigma_m.shape) if len(self.gain) == 1 else self.gain
        return float((1.0 - self.outlier) * (self.share * (gain / self.sigma_m) ** 2).sum())

    @property
    def names_places(self) -> bool:
        """Whether estimates are places as they stand: they move by about a metre a metre."""
        return abs(float(self.share @ np.broadcast_to(self.gain, self.share.shape)) - 1.0) < _SAME_GAIN

    def without_bias(self) -> ErrorModel:
        """The part that differs from round to round: at least a hundredth of sigma^2."""
        own = self.sigma_m**2 - (self.gain * self.bias_m) ** 2
        return replace(self, sigma_m=np.sqrt(np.maximum(own, 0.01 * self.sigma_m**2)), bias_m=0.0)

    def points_m(self, z_m: FloatArray) -> FloatArray:
        """The truths (n, R, 2) to which estimates z_m (n, R, 2) point, the most exact ranks first; NaN for ranks of no
        share.
        """
        ranks = min(z_m.shape[1], len(self.share))
        gain = np.broadcast_to(self.gain, self.share.shape)[:ranks]
        order = np.argsort(self.sigma_m[:ranks] / gain, kind="stable")
        order = order[self.share[order] > 0]
        offset_m = np.broadcast_to(self.offset_m, (len(self.share), 2))[order]
        return (z_m[:, order] - offset_m) / gain[order, None]

    def factors(self, z_m: FloatArray, grid: PlaceGrid) -> tuple[Float32Array, Float32Array, Float32Array]:
        """fx (n, R, nx), fy (n, R, ny), floor (n,) of estimates z_m (n, R, 2): the mean likelihood over each cell is

            e = floor + sum_r fx_r fy_r    (1 / m^2),

        integrated exactly over the cell. NaN in z_m: not named; the shares of the others grow. Who is named nothing at
        all has e = 1 / A everywhere: no knowledge.
        """
        return ErrorModels.of([self], z_m.shape[1]).factors(np.zeros(len(z_m), dtype=np.int64), z_m, grid)

    def likelihood(self, z_m: FloatArray, grid: PlaceGrid) -> Float32Array:
        """e (n, G), by place of the grid."""
        x, y, floor = self.factors(z_m, grid)
        e = np.einsum("nry,nrx->nyx", y, x, optimize=True) + floor[:, None, None]
        return np.asarray(e.reshape(len(z_m), -1))


@frozen
class ErrorModels:
    """Several models, side by side: share, sigma_m, gain (M, R), offset_m (M, R, 2), outlier (M,)."""

    share: FloatArray
    sigma_m: FloatArray
    gain: FloatArray
    offset_m: FloatArray
    outlier: FloatArray

    @classmethod
    def of(cls, models: list[ErrorModel], ranks: int) -> ErrorModels:
        """Error model of estimates that name `ranks` places; a rank that a model lacks has no share."""
        return cls(
            np.array([_to_ranks(model.share, ranks, 0.0) for model in models]),
            np.array([_to_ranks(model.sigma_m, ranks, 1.0) for model in models]),
            np.array([_to_ranks(model.gain, ranks, 1.0) for model in models]),
            np.array([_to_ranks(model.offset_m, ranks, 0.0) for model in models]),
            np.array([model.outlier for model in models]),
        )

    def factors(
        self, which: IntArray, z_m: FloatArray, grid: PlaceGrid
    ) -> tuple[Float32Array, Float32Array, Float32Array]:
        """`ErrorModel.factors` of estimates (n, R', 2) with R' <= R, each by one of the models: which (n,)."""
        ranks, area_m2 = z_m.shape[1], float(np.prod(grid.area.side_m))
        share, sigma, gain, offset = (
            of_rank[which, :ranks] for of_rank in (self.share, self.sigma_m, self.gain, self.offset_m)
        )
        outlier = self.outlier[which]
        there = np.asarray(np.isfinite(z_m).all(axis=2))
        share = np.where(there, share, 0.0)
        total = share.sum(axis=1, keepdims=True)
        weight = (1.0 - outlier[:, None]) * np.divide(share, total, out=np.zeros_like(share), where=total > 0)
        floor = np.where(there.any(axis=1), outlier / area_m2, 1.0 / area_m2)
        at, sigma = (z_m - offset) / gain[..., None], sigma / gain
        cell = grid.cell_m * gain[..., None]
        x = _integrated(at[..., 0], sigma, grid.area.x_min_m, float(grid.cell_m[0]), grid.nx) / cell[..., :1]
        y = _integrated(at[..., 1], sigma, grid.area.y_min_m, float(grid.cell_m[1]), grid.ny) / cell[..., 1:]
        x = np.where(there[..., None], x, 0.0) * weight[..., None]
        y = np.where(there[..., None], y, 0.0)
        return x.astype(np.float32), y.astype(np.float32), floor.astype(np.float32)


def _to_ranks(values: FloatArray, ranks: int, fill: float) -> FloatArray:
    """The first ranks of values (R, ...); those that a model lacks get `fill`."""
    more = np.full((max(ranks - len(values), 0), *values.shape[1:]), fill)
    return np.concatenate([values[:ranks], more])


def _integrated(z: FloatArray, sigma_m: FloatArray, low_m: float, cell_m: float, cells: int) -> FloatArray:
    """Mass (n, R, cells) in each cell of Gaussians around z (n, R), of standard deviations sigma_m (n, R)."""
    edge = low_m + cell_m * np.arange(cells + 1)
    away = (edge - z[..., None]) / sigma_m[..., None]
    tail = ndtr(-np.abs(away))  # beyond each edge, seen from the mean, so that far cells keep their small differences
    around = (away[..., :-1] <= 0) & (away[..., 1:] > 0)
    mass = np.abs(np.diff(tail))
    mass[around] = 1.0 - tail[..., :-1][around] - tail[..., 1:][around]
    return mass
