r"""The error of an attack's estimates: how likely they are, given where a UE really is.

An attack names R places z_1 ... z_R of a UE in a round (R = 1 for a centroid). With the truth x,

    p(z | x) = (1 - outlier) sum_r share_r N(z_r; offset_r + gain_r x, sigma_r^2 I) + outlier / A,

where A is the area. Attacks on noisy updates name places near the middle of the area, whatever the
truth is: then the gain is small, and an estimate says little. A part of the error, bias_m per axis,
stays the same from round to round, for instance because of the layout of a home: averaging does not
remove it.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import Any, ClassVar

import numpy as np

from fl.tracking.place_grid import PlaceGrid
from netsim.columns import Columns, divide_or_zero, frozen
from netsim.rng import ndtr
from netsim.units import BoolArray, Float32Array, FloatArray

_SAME_GAIN = 0.2


@frozen
class Emission(Columns):
    """Likelihood e = floor + sum_r fy_r fx_r of the places of UEs, relative to an estimate that
    lies anywhere: factors fy (n, R, ny), fx (n, R, nx), floor (n,). e = 1 everywhere where nothing
    was estimated.
    """

    fy: Float32Array
    fx: Float32Array
    floor: Float32Array

    def multiply_out(self) -> Float32Array:
        """Return e (n, ny, nx) from its factors."""
        e = self.fy[:, 0, :, None] * self.fx[:, 0, None, :]
        for rank in range(1, self.fy.shape[1]):
            e += self.fy[:, rank, :, None] * self.fx[:, rank, None, :]
        e += self.floor[:, None, None]
        return e


@frozen
class ErrorModel(Columns):
    """share, sigma_m, gain (R,), offset_m (R, 2) : of each rank, shares sum to 1; outlier :
    probability that none of them says anything; bias_m : standard deviation per axis of the error
    that persists over rounds, a part of sigma_m.

    Of several models side by side (`stack_models`) all have one more axis, the first, by which they
    are selected.
    """

    bounds: ClassVar = dict.fromkeys(("share", "outlier"), (0.0, 1.0 + 1e-9))
    share: FloatArray
    sigma_m: FloatArray
    outlier: float
    bias_m: float = 0.0
    gain: FloatArray = field(default_factory=lambda: np.ones(1))
    offset_m: FloatArray = field(default_factory=lambda: np.zeros((1, 2)))

    @classmethod
    def from_sigma(cls, sigma_m: float, outlier: float, bias_std_m: float = 0.0) -> ErrorModel:
        """Error model of an attack that names one place."""
        return cls(np.ones(1), np.array([sigma_m]), outlier, bias_std_m)

    @classmethod
    def stack_models(cls, models: list[ErrorModel]) -> ErrorModel:
        """Several models of as many ranks side by side."""
        rows = [vars(model).values() for model in models]
        columns: Any = map(np.array, zip(*rows, strict=True))
        return cls(*columns)

    def pad_ranks(self, min_ranks: int) -> ErrorModel:
        """The same for estimates of at least this number of ranks, of which further ones have no
        share.
        """
        padding = (0, max(min_ranks - len(self.share), 0))
        n_ranks = len(self.share) + padding[1]
        return replace(
            self,
            share=np.pad(self.share, padding),
            sigma_m=np.pad(self.sigma_m, padding, mode="edge"),
            gain=np.broadcast_to(self.gain, n_ranks).copy(),
            offset_m=np.broadcast_to(self.offset_m, (n_ranks, 2)).copy(),
        )

    @property
    def mean_precision_per_m2(self) -> FloatArray:
        """Precision of an estimate per axis: the mean of gain^2 / sigma^2 over ranks, 1 / m^2."""
        precision = (self.share * (self.gain / self.sigma_m) ** 2).sum(axis=-1)
        return (1.0 - self.outlier) * precision

    @property
    def has_unit_gain(self) -> bool:
        """Whether estimates are places as they stand: they move by about a metre per metre."""
        return abs((self.share * self.gain).sum() - 1.0) < _SAME_GAIN

    def remove_persistent_error(self) -> ErrorModel:
        """Return the model without its persistent part: sigma^2 becomes less, by 99 % at most."""
        bias_m = self.gain * np.asarray(self.bias_m)[..., None]
        variance_m2 = self.sigma_m**2 - bias_m**2
        sigma_m = np.sqrt(np.maximum(variance_m2, 0.01 * self.sigma_m**2))
        return replace(self, sigma_m=sigma_m, bias_m=0.0 * self.bias_m)

    def infer_truths(self, z_m: FloatArray) -> Truths:
        """The truths that estimates z_m (..., R, 2) mean; ranks beyond those of the model say
        nothing.
        """
        ranks = min(z_m.shape[-2], self.share.shape[-1])
        gain = self.gain[..., :ranks]
        away_m = z_m[..., :ranks, :] - self.offset_m[..., :ranks, :]
        place_m = away_m / gain[..., None]
        is_named = np.isfinite(place_m).all(axis=-1)
        share = np.where(is_named, self.share[..., :ranks], 0.0)
        share = divide_or_zero(share, share.sum(axis=-1, keepdims=True))
        return Truths(place_m, self.sigma_m[..., :ranks] / gain, share, gain)

    def rank_truths_m(self, z_m: FloatArray) -> FloatArray:
        """The truths (n, R, 2) that estimates z_m (n, R, 2) mean, the most exact ranks first; ranks
        of no share are left out.
        """
        order = np.argsort(self.sigma_m / self.gain, kind="stable")
        order = order[self.share[order] > 0]
        place_m = self.infer_truths(z_m).place_m
        return place_m[:, order[order < z_m.shape[1]]]

    def compute_emission(self, z_m: FloatArray, grid: PlaceGrid) -> Emission:
        """Emission of estimates z_m (n, R, 2), NaN where nothing was named: integrated exactly over
        each cell.
        """
        ranks = max(np.isfinite(z_m).all(axis=2).any(axis=0).sum(), 1)
        truths = self.infer_truths(z_m[:, :ranks])
        is_named = truths.share > 0
        low_x_m, low_y_m = grid.area.low_m
        width_m, height_m = grid.cell_m
        x_m = low_x_m + width_m * np.arange(grid.nx + 1)
        y_m = low_y_m + height_m * np.arange(grid.ny + 1)
        x = _integrate_cells(x_m, truths.place_m[..., 0], truths.sigma_m, is_named)
        y = _integrate_cells(y_m, truths.place_m[..., 1], truths.sigma_m, is_named)
        outlier = np.broadcast_to(self.outlier, len(z_m))
        cells = np.prod(grid.area.side_m) / np.prod(grid.cell_m)
        density = (1.0 - outlier[:, None]) * truths.share / truths.gain**2 * cells
        floor = np.where(is_named.any(axis=1), outlier, 1.0)
        fx = (x * density[..., None]).astype(np.float32)
        return Emission(y.astype(np.float32), fx, floor.astype(np.float32))

    def compute_likelihood_ratio(self, z_m: FloatArray, grid: PlaceGrid) -> Float32Array:
        """A e (n, G) of estimates z_m (n, R, 2): relative to 1 / A, the density of an estimate that
        says nothing.
        """
        return self.compute_emission(z_m, grid).multiply_out().reshape(len(z_m), len(grid))


@frozen
class Truths:
    """The truths that estimates mean: place_m (..., R, 2), NaN where nothing was named, sigma_m
    (..., R) of them, share (..., R) of each rank among those named, and the gain by which estimates
    lie closer together.
    """

    place_m: FloatArray
    sigma_m: FloatArray
    share: FloatArray
    gain: FloatArray


def _integrate_cells(
    edge_m: FloatArray, at_m: FloatArray, sigma_m: FloatArray, is_named: BoolArray
) -> FloatArray:
    """Mass (n, R, cells) in each cell between edges of Gaussians around at_m (n, R); 0 where
    nothing was named.
    """
    mean_m = np.where(is_named, at_m, 0.0)[..., None]
    std_m = np.broadcast_to(sigma_m, at_m.shape)[..., None]
    away = (edge_m - mean_m) / std_m
    # beyond each edge, seen from the mean, so that far cells keep their small differences
    tail = ndtr(-np.abs(away))
    around = (away[..., :-1] <= 0) & (away[..., 1:] > 0)
    inner = 1.0 - tail[..., :-1] - tail[..., 1:]
    mass = np.where(around, inner, np.abs(np.diff(tail)))
    return np.where(is_named[..., None], mass, 0.0)
