r"""Population density on a grid by kernel density estimation, without training.

Answers about a grid are products of a function of x and one of y: cos(a + b) = cos a cos b - sin a
sin b. So a weighted sum over all devices is one or two products of matrices, (P, terms) by (terms,
Q), and no answer is ever written out unless a caller asks for it. Coordinates are subtracted before
anything is multiplied, so phases stay exact to a few units of rounding.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from math import nan, prod
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fl.data import HELD_OUT_PLACES
from fl.learners import SurfaceLearner
from fl.query import check_corners
from fl.types import Bound, HeldOut, Local, Metrics, Model, Public, Request, Updates
from netsim.columns import frozen, pick_even_indices, rank_values, split_blocks
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Rng
from netsim.units import (
    ArrayPair,
    BoolArray,
    ComplexArray,
    FloatArray,
    FloatQuadruple,
    Floats,
    IntArray,
    IntArrayPair,
    Ints,
)

_SAMPLE = 10  # the bandwidth is a mean over a random tenth of the asked places, as in the paper
TERMS = 1000  # terms of a sum that are multiplied at once: they stay within the cache
NUMBERS = 4_000_000  # numbers of written-out rows that are made at once

Factors = list[ArrayPair]
"""Pairs of (..., terms, P) and (..., terms, Q): a surface is the sum over pairs and terms of their
outer products."""


def build_kernel_factors(
    at_m: FloatArray, bandwidth_m: float, x_m: FloatArray, y_m: FloatArray
) -> Factors:
    """Factors of the exact kernel at places (..., 2): one term each."""
    fx = np.exp(-0.5 * ((x_m - at_m[..., 0, None]) / bandwidth_m) ** 2)
    fy = np.exp(-0.5 * ((y_m - at_m[..., 1, None]) / bandwidth_m) ** 2)
    return [(fx, fy)]


def build_wave_factors(
    at_m: FloatArray, omega: FloatArray, x_m: FloatArray, y_m: FloatArray
) -> Factors:
    """Factors of cos(omega . (g - d)) at places d (..., 2) for angular wave numbers omega (..., 2)
    per metre; the points of an axis have equal distances.
    """
    a = _rotate_phases(omega[..., 0], at_m[..., 0], x_m)
    b = _rotate_phases(omega[..., 1], at_m[..., 1], y_m)
    return [(a.real.copy(), b.real.copy()), (-a.imag, b.imag.copy())]


def _rotate_phases(omega: FloatArray, at_m: FloatArray, axis_m: FloatArray) -> ComplexArray:
    """exp(i omega (x_p - d)) (..., P): points of the first half, turned on, are those of the second
    half.
    """
    n = len(axis_m)
    first = np.exp(1j * omega * (axis_m[0] - at_m))
    z = np.empty((*first.shape, n), np.complex128)
    z[..., 0] = first
    done = 1
    step = omega * (axis_m[-1] - axis_m[0]) / max(n - 1, 1)
    while done < n:
        n_next = min(done, n - done)
        turn = np.exp(1j * done * step)[..., None]
        np.multiply(z[..., :n_next], turn, out=z[..., done : done + n_next])
        done += n_next
    return z


def compute_kernel_density(
    at_m: FloatArray, bandwidth_m: float, x_m: FloatArray, y_m: FloatArray
) -> FloatArray:
    """Mean of the exact kernels of places (n, 2) on the grid: (P, Q)."""
    total = np.zeros((len(x_m), len(y_m)))
    for block in split_blocks(len(at_m), TERMS):
        [(fx, fy)] = build_kernel_factors(at_m[block], bandwidth_m, x_m, y_m)
        total += fx.T @ fy
    return total / max(len(at_m), 1)


@frozen
class SurfaceUpdates(Updates):
    """Answers of n rows about a grid, factored. A device with several samples answers with their
    mean.

    x_m (P,), y_m (Q,) the grid, bandwidth_m (H,); row i owns the places at_m[ptr[i]:ptr[i + 1]] (N,
    2) and the draws unit[i] (n, B, 2), None for the exact kernel; scale (n,). A row written out has
    H * P * Q numbers.
    """

    ue: IntArray
    model: IntArray
    count: FloatArray
    ptr: IntArray
    at_m: FloatArray
    unit: FloatArray | None
    x_m: FloatArray
    y_m: FloatArray
    bandwidth_m: FloatArray
    scale: FloatArray
    phase: str = "all"
    bound: Bound | None = None

    @property
    def _shape(self) -> tuple[int, int, int]:
        """Bandwidths, columns and rows of the grid."""
        return len(self.bandwidth_m), len(self.x_m), len(self.y_m)

    @property
    def n_parameters(self) -> int:
        return prod(self._shape)

    def rows(self, index: IntArray | BoolArray | slice) -> FloatArray:
        index_of_row = np.arange(len(self.ue))[index]
        out = np.empty((len(index_of_row), *self._shape))
        n_cells = len(self.x_m) * len(self.y_m)
        for place, samples in self._group_alike(index_of_row, NUMBERS // n_cells + 1):
            for k in range(len(self.bandwidth_m)):
                pairs = self._build_factors(samples, index_of_row[place], k)
                surface = sum(np.swapaxes(fx, -1, -2) @ fy for fx, fy in pairs)  # (rows, P, Q)
                scale = self.scale[index_of_row[place]] / samples.shape[1]
                out[place, k] = surface * scale[:, None, None]
        return out.reshape(len(index_of_row), self.n_parameters)

    def norm(self) -> FloatArray:
        return self._norm

    @cached_property
    def _norm(self) -> FloatArray:
        """|F G^T|^2 = sum of (F^T F) * (G^T G): terms by terms instead of P by Q, where terms are
        fewer.
        """
        norm = np.zeros(len(self.ue))
        cells = len(self.x_m) * len(self.y_m)
        few = np.sqrt(cells)  # samples' terms up to which their products are the smaller matrix
        per_sample = 1 if self.unit is None else 2 * self.unit.shape[1]
        for row, samples in self._group_alike(np.arange(len(self.ue)), TERMS):
            if samples.shape[1] * per_sample > few:
                norm[row] = np.sqrt((self.rows(row) ** 2).sum(axis=1))
                continue
            total = np.zeros(len(row))
            for k in range(len(self.bandwidth_m)):
                pairs = self._build_factors(samples, row, k)
                f = np.concatenate([fx for fx, _ in pairs], axis=1)  # (rows, terms, P)
                g = np.concatenate([fy for _, fy in pairs], axis=1)  # (rows, terms, Q)
                products = (f @ np.swapaxes(f, 1, 2)) * (g @ np.swapaxes(g, 1, 2))
                total += products.sum(axis=(1, 2))
            length = np.sqrt(np.maximum(total, 0.0))
            norm[row] = np.abs(self.scale[row]) * length / samples.shape[1]
        if (
            self.unit is not None
        ):  # where waves cancel products lose their digits, and sums of many terms round
            little = 1e-3 * few * per_sample * abs(self.scale)
            lost = norm < little
            norm[lost] = np.linalg.norm(self.rows(lost), axis=1) + 1e-7 * little[lost]
        return norm

    def scale_rows(self, factor: FloatArray, bound: Bound | None) -> Self:
        return replace(self, scale=self.scale * factor, bound=bound)

    def sum_weighted(self, weights: FloatArray, n_model: int) -> FloatArray:
        total = np.zeros((n_model, *self._shape))
        samples = np.diff(self.ptr)
        share = weights * self.scale / np.maximum(samples, 1)
        row = np.repeat(np.arange(len(self.ue)), samples)
        row = row[share[row] != 0]
        sample = np.arange(len(self.at_m))[np.repeat(share != 0, samples)]
        features = 1 if self.unit is None else max(self.unit.shape[1], 1)
        size = max(TERMS // features, 1)
        for m in np.unique(self.model[row]):
            of_model = np.flatnonzero(self.model[row] == m)
            for block in (of_model[part] for part in split_blocks(len(of_model), size)):
                weight = share[row[block], None, None]
                for k in range(len(self.bandwidth_m)):
                    for fx, fy in self._build_factors(sample[block, None], row[block], k):
                        left = (weight * fx).reshape(-1, len(self.x_m))
                        total[m, k] += left.T @ fy.reshape(-1, len(self.y_m))
        return total.reshape(n_model, -1)

    def _build_factors(self, samples: IntArray, row: IntArray, k: int) -> Factors:
        """Factors of rows (r,) with samples (r, s) each: (r, terms, P) and (r, terms, Q), terms = s
        * B.
        """
        at_m = self.at_m[samples]  # (r, s, 2)
        if self.unit is None:
            return build_kernel_factors(at_m, self.bandwidth_m[k], self.x_m, self.y_m)
        omega = self.unit[row] / self.bandwidth_m[k]  # (r, B, 2)
        # (r, s, B, P)
        parts = build_wave_factors(at_m[:, :, None], omega[:, None], self.x_m, self.y_m)
        shape = len(row), samples.shape[1] * omega.shape[1]
        return [
            (fx.reshape(*shape, len(self.x_m)), fy.reshape(*shape, len(self.y_m)))
            for fx, fy in parts
        ]

    def _group_alike(self, rows: IntArray, max_samples: int) -> Iterator[IntArrayPair]:
        """Places (r,) in `rows` that have equally many samples s, and these (r, s), in bounded
        blocks.
        """
        first = self.ptr[rows]
        count = np.diff(self.ptr)[rows]
        for s in np.unique(count):
            place = np.flatnonzero(count == s)
            step = max(max_samples // max(s, 1), 1)
            for block in (place[part] for part in split_blocks(len(place), step)):
                yield block, first[block, None] + np.arange(s)


class Density(SurfaceLearner, kind="density"):
    r"""Kernel density estimation, by the exact kernel or by each UE's projection on a few random
    Fourier features.

    With the Gaussian kernel k_h(g, d) = exp(-|g - d|^2 / (2 h^2)) the server estimates mean_i
    k_h(g, d_i) on a grid. The update of UE i at d_i is, at all P x Q grid points,

        n_features: exact   k_h(g, d_i)
        n_features: B       sum_b cos(xi_ib . (g - d_i) / h),  xi_ib ~ N(0, I)

    and the server takes the mean over UEs, over B in the second case: E cos(xi . (g - d) / h) =
    k_h(g, d). A UE draws xi_ib once and keeps it (`draws: once`): another bandwidth rescales the
    same wave, so several of bandwidth_m reveal no more than the largest. `each-round` draws new
    waves for every request, from which the position can be recovered. n_features: 0 is a constant
    update, without information on the position and without utility.

    Utility (see `evaluate`): Spearman's rank correlation over all grid points, at the first
    bandwidth, with the exact kernel density of all positions of the round
    (`compute_rank_correlation`) and, where the distribution of UEs is known, with that distribution
    (`truth_rank_correlation`; `kde_truth_rank_correlation` is the value of the exact kernel);
    `kde_rmse` is the root mean square difference to the exact kernel density, in the kernel's unit
    (1 at its maximum).

    Departs from the paper: its kernel squares a squared distance; and the sum over features is
    divided by B once, at the server. Nothing here is differentially private.
    """

    n_features: int | Literal["exact"] = 1
    """number of random features (waves) of a UE (B), 0 for a constant; or exact, the kernel
    itself"""
    bandwidth_m: float | Floats | None = None
    """bandwidth of the kernel (h), m, or several in one request; none: derived from `neighbours`"""
    neighbours: int | None = Field(None, ge=1, le=100_000)
    """bandwidth as the mean distance to the k-th nearest position among those sampled in the first
    round, over a random tenth of them; these positions are published (k); none: bandwidth_m"""
    grid: Ints = Field((100, 100), min_length=1, max_length=2)
    """number of grid points from west to east and from south to north; one number: a line through
    the centre"""
    area_m: FloatQuadruple | None = None
    """the area of the grid: x, y of the south-western and the north-eastern corner; none: the area
    of the world"""
    draws: Literal["once", "each-round"] = "once"
    """whether a UE draws its waves once or in each round"""

    reference = "Zong et al., Privacy by Projection, PoPETs 2023, Algorithms 1 to 3"
    example = {"kind": "density", "bandwidth_m": 40, "grid": [20, 16]}
    offers = frozenset({"surfaces", "positions"})
    needs = {
        "positions": "a density is one of positions",
        HELD_OUT_PLACES: (
            "nothing would score the map; give data a hold_out above 0, or take data positions"
        ),
    }
    most_held_out = 20_000

    @model_validator(mode="after")
    def _sizes(self) -> Self:
        if isinstance(self.n_features, int) and not 0 <= self.n_features <= 10_000:
            raise ValueError(
                f"n_features: {self.n_features} is not within 0 and 10000; or say exact"
            )
        bandwidths_m = self._given_bandwidths_m
        is_valid = bandwidths_m and all(0 < h <= 1e9 for h in bandwidths_m)
        if self.bandwidth_m is not None and not is_valid:
            raise ValueError(
                f"bandwidth_m: {list(bandwidths_m)} must hold at least one bandwidth, each "
                f"above 0 and at most 1e9 m"
            )
        if any(not 2 <= n <= 10_000 for n in self.grid):
            raise ValueError(f"grid: {list(self.grid)}: each side has 2 to 10000 points")
        check_corners(self.area_m)
        return self

    @property
    def _given_bandwidths_m(self) -> Floats:
        if self.bandwidth_m is None:
            return ()
        if isinstance(self.bandwidth_m, tuple):
            return self.bandwidth_m
        return (self.bandwidth_m,)

    @property
    def wants_sampled_places(self) -> bool:
        return self.neighbours is not None

    @property
    def discloses(self) -> str:
        if not self.wants_sampled_places:
            return ""
        return "how near the true positions are to each other (neighbours)"

    def init(self, public: Public, rng: Rng) -> Model:
        area = public.area if self.area_m is None else Area(*self.area_m)
        low = area.low_m
        high = area.high_m
        if (low > public.area.high_m).any() or (high < public.area.low_m).any():
            raise BadInput(
                f"learning.learner.area_m: {low.tolist()} to {high.tolist()} lies wholly outside "
                f"of the area of the world, {public.area.low_m.tolist()} to "
                f"{public.area.high_m.tolist()} m; let them overlap"
            )
        x_m, y_m = self._list_axes_m(area)
        constants = {
            "x_m": x_m,
            "y_m": y_m,
            "bandwidth_m": self._choose_bandwidths_m(public, rng),
            "area_m": np.concatenate([low, high]),
        }
        size = len(constants["bandwidth_m"]) * len(x_m) * len(y_m)
        return Model(np.zeros((public.n_model, size)), constants)

    def _list_axes_m(self, area: Area) -> ArrayPair:
        """Coordinates x (P,) and y (Q,) of the grid over an area; a line: through its centre."""
        sides = zip(area.low_m, area.high_m, self.grid, strict=False)
        x_m, *more = [np.linspace(*side) for side in sides]
        return x_m, more[0] if more else area.centre_m[1:]

    def list_answer_axes_m(self, area: Area) -> ArrayPair:
        """Those of its grid, at most 100 each."""
        x, y = self._list_axes_m(Area(*self.area_m) if self.area_m else area)
        x = x[(x >= area.x_min_m) & (x <= area.x_max_m)]
        y = y[(y >= area.y_min_m) & (y <= area.y_max_m)]
        return x[pick_even_indices(len(x), 100)], y[pick_even_indices(len(y), 100)]

    def _choose_bandwidths_m(self, public: Public, rng: Rng) -> FloatArray:
        if self.neighbours is None:
            return np.array(self._given_bandwidths_m, float)
        if public.sampled_m is None:
            raise ValueError("neighbours: needs the places that are asked about")
        if self.neighbours >= len(public.sampled_m):
            raise BadInput(
                f"learning.learner.neighbours: {self.neighbours} of other places, but "
                f"the first round asks about "
                f"{len(public.sampled_m):,} places; take fewer than there are, or give bandwidth_m"
            )
        position_m = self._flatten(public.sampled_m)
        return np.array([measure_nearest_mean_m(position_m, self.neighbours, rng)])

    def _flatten(self, position_m: FloatArray, y_m: float = 0.0) -> FloatArray:
        """Positions as the grid sees them: on a line, all of them stand on it."""
        if len(self.grid) == 2:
            return position_m
        return np.column_stack([position_m[:, 0], np.full(len(position_m), y_m)])

    def build_request(self, model: Model) -> Request:
        features = np.inf if self.n_features == "exact" else float(self.n_features)
        area = Area(*model.constants["area_m"].tolist())
        return Request(features, model.constants["bandwidth_m"], area, len(self.grid))

    def train_locally(self, model: Model, phase: str, data: Local, rng: Rng) -> Updates:
        unit = None
        if self.n_features != "exact":
            kept = replace(rng, round=0) if self.draws == "once" else rng
            unit = kept.normal("feature", data.ue, (self.n_features, 2))
        c = model.constants
        return SurfaceUpdates(
            ue=data.ue,
            model=data.model,
            count=data.count.astype(float),
            ptr=data.ptr,
            at_m=self._flatten(data.x, c["y_m"][0]),
            unit=unit,
            x_m=c["x_m"],
            y_m=c["y_m"],
            bandwidth_m=c["bandwidth_m"],
            scale=np.ones(len(data.ue)),
            phase=phase,
        )

    def step(self, model: Model, phase: str, merged: FloatArray) -> Model:
        """The mean over features; a model without answers stays as it was."""
        new = merged / (1 if self.n_features == "exact" else max(self.n_features, 1))
        heard = np.any(merged != 0, axis=1, keepdims=True)
        return replace(model, parameters=np.where(heard, new, model.parameters))

    def to_surfaces(self, model: Model, rows: FloatArray) -> FloatArray:
        c = model.constants
        return rows.reshape(len(rows), len(c["bandwidth_m"]), len(c["x_m"]), len(c["y_m"]))

    def evaluate(self, model: Model, held_out: HeldOut) -> Metrics:
        """Against the exact kernel density of the places: means over models, NaN without places."""
        scores = []
        for estimate, exact in self._pair_maps(model, held_out):
            rmse = np.sqrt(((estimate - exact) ** 2).mean())
            scores.append((compute_rank_correlation(estimate, exact), rmse))
        rank, rmse = np.mean(scores or [(nan, nan)], axis=0)
        return {"rank_correlation": float(rank), "kde_rmse": float(rmse)}

    def compare(self, model: Model, held_out: HeldOut, law: FloatArray) -> Metrics:
        ranks = []
        for estimate, exact in self._pair_maps(model, held_out):
            rank = compute_rank_correlation(estimate, law)
            ranks.append((rank, compute_rank_correlation(exact, law)))
        estimate, exact = np.mean(ranks or [(nan, nan)], axis=0)
        return {
            "truth_rank_correlation": float(estimate),
            "kde_truth_rank_correlation": float(exact),
        }

    def compute_reference_map(
        self, model: Model, held_out: HeldOut, model_index: int = 0
    ) -> FloatArray:
        c = model.constants
        h = c["bandwidth_m"][0]
        position_m = held_out.x[held_out.model == model_index]
        return compute_kernel_density(self._flatten(position_m, c["y_m"][0]), h, c["x_m"], c["y_m"])

    def _pair_maps(self, model: Model, held_out: HeldOut) -> list[ArrayPair]:
        """(estimate, exact) at the first bandwidth, (P, Q) each, of every model that has places."""
        estimate = self.to_surfaces(model, model.parameters)[:, 0]
        return [
            (estimate[m], self.compute_reference_map(model, held_out, m))
            for m in np.unique(held_out.model)
        ]


def compute_rank_correlation(a: FloatArray, b: FloatArray) -> float:
    """Spearman's correlation of two maps over all grid points, ties at their mean rank; NaN where
    one is constant.
    """
    x = rank_values(a.ravel())
    y = rank_values(b.ravel())
    x -= x.mean()
    y -= y.mean()
    size = np.sqrt((x @ x) * (y @ y))
    if size > 0:
        return float((x @ y) / size)
    return nan


def measure_nearest_mean_m(position_m: FloatArray, k: int, rng: Rng) -> float:
    """Mean distance to the k-th nearest other place, over a random tenth of the places (n, 2); k <
    n.
    """
    from scipy.spatial import cKDTree

    n = len(position_m)
    lot = rng.uniform("neighbours", np.arange(n))
    sampled_m = position_m[np.argsort(lot, kind="stable")[: max(n // _SAMPLE, 1)]]
    # the nearest of all is the place itself
    distance, _ = cKDTree(position_m).query(sampled_m, k=[k + 1])
    return max(distance.mean(), 1e-3)
