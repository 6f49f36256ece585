r"""Population density on a grid by kernel density estimation, without training."""

from dataclasses import replace
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fl.data import HELD_OUT_PLACES
from fl.density.surfaces import SurfaceUpdates, kernel_density
from fl.learners import SurfaceLearner
from fl.types import HeldOut, Local, Metrics, Model, Public, Request, Updates
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Rng
from netsim.units import FloatArray

_SAMPLE = 10  # the bandwidth is a mean over a random tenth of the asked places, as in the paper


class Density(SurfaceLearner):
    r"""Kernel density estimation, by the exact kernel or by each UE's projection on a few random Fourier features.

    With the Gaussian kernel k_h(g, d) = exp(-|g - d|^2 / (2 h^2)) the server estimates mean_i k_h(g, d_i) on a grid.
    The update of UE i at d_i is, at all P x Q grid points,

        n_features: exact   k_h(g, d_i)
        n_features: B       sum_b cos(xi_ib . (g - d_i) / h),  xi_ib ~ N(0, I)

    and the server takes the mean over UEs, over B in the second case: E cos(xi . (g - d) / h) = k_h(g, d). A UE draws
    xi_ib once and keeps it (`draws: once`): another bandwidth rescales the same wave, so several of bandwidth_m reveal
    no more than the largest. `each-round` draws new waves for every request, from which the position can be recovered.
    n_features: 0 is a constant update, without information on the position and without utility.

    Utility (see `evaluate`): Spearman's rank correlation over all grid points, at the first bandwidth, with the exact
    kernel density of all positions of the round (`rank_correlation`) and, where the distribution of UEs is known, with
    that distribution (`truth_rank_correlation`; `kde_truth_rank_correlation` is the value of the exact kernel);
    `kde_rmse` is the root mean square difference to the exact kernel density, in the kernel's unit (1 at its maximum).

    Departs from the paper: its kernel squares a squared distance; and the sum over features is divided by B once, at
    the server. Nothing here is differentially private.
    """

    kind: Literal["density"] = "density"
    n_features: int | Literal["exact"] = 1
    """number of random features (waves) of a UE (B), 0 for a constant; or exact, the kernel itself"""
    bandwidth_m: float | tuple[float, ...] | None = None
    """bandwidth of the kernel (h), m, or several in one request; none: derived from `neighbours`"""
    neighbours: int | None = Field(default=None, ge=1, le=100_000)
    """bandwidth as the mean distance to the k-th nearest position among those sampled in the first round, over a random
    tenth of them; these positions are published (k); none: bandwidth_m"""
    grid: tuple[int, ...] = Field(default=(100, 100), min_length=1, max_length=2)
    """number of grid points from west to east and from south to north; one number: a line through the centre"""
    area_m: tuple[float, float, float, float] | None = None
    """the area of the grid: x, y of the south-western and the north-eastern corner; none: the area of the world"""
    draws: Literal["once", "each-round"] = "once"
    """whether a UE draws its waves once or in each round"""

    reference: ClassVar = "Zong et al., Privacy by Projection, PoPETs 2023, Algorithms 1 to 3"
    example: ClassVar = {"kind": "density", "bandwidth_m": 40, "grid": [20, 16]}
    offers: ClassVar = frozenset({"surfaces", "positions"})
    needs: ClassVar = {
        "positions": "a density is one of positions",
        HELD_OUT_PLACES: "nothing would score the map; give data a hold_out above 0, or take data positions",
    }
    most_held_out: ClassVar = 20_000

    @model_validator(mode="after")
    def _sizes(self) -> Self:
        if isinstance(self.n_features, int) and not 0 <= self.n_features <= 10_000:
            raise ValueError(f"n_features: {self.n_features} is not within 0 and 10000; or say exact")
        if (self.bandwidth_m is None) == (self.neighbours is None):
            raise ValueError("give exactly one of bandwidth_m and neighbours")
        given = self._given
        if self.bandwidth_m is not None and (not given or any(not 0 < h <= 1e9 for h in given)):
            raise ValueError(
                f"bandwidth_m: {list(given)} must hold at least one bandwidth, each above 0 and at most 1e9 m"
            )
        if any(not 2 <= n <= 10_000 for n in self.grid):
            raise ValueError(f"grid: {list(self.grid)}: each side has 2 to 10000 points")
        a = self.area_m
        if a is not None and not (a[0] < a[2] and a[1] < a[3]):
            raise ValueError(f"area_m: {list(a)}: the first corner must lie south-west of the second")
        return self

    @property
    def _given(self) -> tuple[float, ...]:
        if self.bandwidth_m is None:
            return ()
        return self.bandwidth_m if isinstance(self.bandwidth_m, tuple) else (self.bandwidth_m,)

    @property
    def wants_sampled_places(self) -> bool:
        return self.neighbours is not None

    @property
    def discloses(self) -> str:
        return "how near the true positions are to each other (neighbours)" if self.neighbours is not None else ""

    def init(self, public: Public, rng: Rng) -> Model:
        area = public.area if self.area_m is None else Area(*self.area_m)
        low = area.low_m
        high = area.high_m
        if (low > public.area.high_m).any() or (high < public.area.low_m).any():
            raise BadInput(
                f"learning.learner.area_m: {low.tolist()} to {high.tolist()} lies wholly outside of the area of the "
                f"world, {public.area.low_m.tolist()} to {public.area.high_m.tolist()} m; let them overlap"
            )
        line = len(self.grid) == 1
        y_m = area.centre_m[1:] if line else np.linspace(low[1], high[1], self.grid[1])
        constants = {
            "x_m": np.linspace(low[0], high[0], self.grid[0]),
            "y_m": y_m,
            "bandwidth_m": self._bandwidths(public, rng),
            "area_m": np.concatenate([low, high]),
        }
        size = len(constants["bandwidth_m"]) * len(constants["x_m"]) * len(y_m)
        return Model(np.zeros((public.n_model, size)), constants)

    def _bandwidths(self, public: Public, rng: Rng) -> FloatArray:
        """The bandwidths asked for (H,)."""
        if self.neighbours is None:
            return np.array(self._given, dtype=np.float64)
        if public.sampled_m is None:
            raise ValueError("neighbours: needs the places that are asked about")
        if self.neighbours >= len(public.sampled_m):
            raise BadInput(
                f"learning.learner.neighbours: {self.neighbours} of other places, but the first round asks about "
                f"{len(public.sampled_m):,} places; take fewer than there are, or give bandwidth_m"
            )
        return np.array([nearest_mean_m(self._flat(public.sampled_m), self.neighbours, rng)])

    def _flat(self, position_m: FloatArray, y_m: float = 0.0) -> FloatArray:
        """Positions as the grid sees them: on a line, all of them stand on it."""
        if len(self.grid) == 2:
            return position_m
        return np.column_stack([position_m[:, 0], np.full(len(position_m), y_m)])

    def request(self, model: Model) -> Request:
        features = np.inf if self.n_features == "exact" else float(self.n_features)
        area = Area(*map(float, model.constants["area_m"]))
        return Request(features, model.constants["bandwidth_m"], area, len(self.grid))

    def local(self, model: Model, phase: str, data: Local, rng: Rng) -> Updates:
        unit = None
        if self.n_features != "exact":
            kept = replace(rng, round=0) if self.draws == "once" else rng
            unit = kept.normal("feature", data.ue, (self.n_features, 2))
        c = model.constants
        return SurfaceUpdates(
            ue=data.ue,
            model=data.model,
            count=data.count.astype(np.float64),
            ptr=data.ptr,
            at_m=self._flat(data.x, float(c["y_m"][0])),
            unit=unit,
            x_m=c["x_m"],
            y_m=c["y_m"],
            bandwidth_m=c["bandwidth_m"],
            scale=np.ones(len(data.ue)),
            phase=phase,
        )

    def step(self, model: Model, phase: str, merged: FloatArray) -> Model:
        """The mean over features; a model without answers stays as it was."""
        shape = (len(merged), len(model.constants["bandwidth_m"]), -1)
        new = merged.reshape(shape) / (1 if self.n_features == "exact" else max(self.n_features, 1))
        heard = np.any(merged != 0, axis=1, keepdims=True)
        return replace(model, parameters=np.where(heard, new.reshape(len(merged), -1), model.parameters))

    def surfaces(self, model: Model, rows: FloatArray) -> FloatArray:
        c = model.constants
        return rows.reshape(len(rows), len(c["bandwidth_m"]), len(c["x_m"]), len(c["y_m"]))

    def evaluate(self, model: Model, held_out: HeldOut) -> Metrics:
        """Against the exact kernel density of the places: means over models, NaN without places."""
        scores = [
            (rank_correlation(mine, exact), float(np.sqrt(np.mean((mine - exact) ** 2))))
            for mine, exact in self._compared(model, held_out)
        ]
        rank, rmse = np.mean(scores, axis=0) if scores else (np.nan, np.nan)
        return {"rank_correlation": float(rank), "kde_rmse": float(rmse)}

    def compare(self, model: Model, held_out: HeldOut, law: FloatArray) -> Metrics:
        ranks = [
            (rank_correlation(mine, law), rank_correlation(exact, law))
            for mine, exact in self._compared(model, held_out)
        ]
        mine, exact = np.mean(ranks, axis=0) if ranks else (np.nan, np.nan)
        return {"truth_rank_correlation": float(mine), "kde_truth_rank_correlation": float(exact)}

    def reference_map(self, model: Model, held_out: HeldOut, of: int = 0) -> FloatArray:
        c = model.constants
        h = float(model.constants["bandwidth_m"][0])
        places = self._flat(held_out.x[held_out.model == of], float(c["y_m"][0]))
        return kernel_density(places, h, c["x_m"], c["y_m"])

    def _compared(self, model: Model, held_out: HeldOut) -> list[tuple[FloatArray, FloatArray]]:
        """(estimate, exact) at the first bandwidth, (P, Q) each, of every model that has places."""
        estimate = self.surfaces(model, model.parameters)[:, 0]
        return [(estimate[m], self.reference_map(model, held_out, int(m))) for m in np.unique(held_out.model)]


def rank_correlation(a: FloatArray, b: FloatArray) -> float:
    """Spearman's correlation of two maps over all grid points, ties at their mean rank; NaN where one is constant."""
    from scipy.stats import rankdata

    ranks = [rankdata(v.ravel()) for v in (a, b)]
    x, y = (r - r.mean() for r in ranks)
    size = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / size if size > 0 else float("nan")


def nearest_mean_m(position_m: FloatArray, k: int, rng: Rng) -> float:
    """Mean distance to the k-th nearest other place, over a random tenth of the places (n, 2); k < n."""
    from scipy.spatial import cKDTree

    n = len(position_m)
    lot = rng.uniform("neighbours", np.arange(n))
    some = position_m[np.argsort(lot, kind="stable")[: max(n // _SAMPLE, 1)]]
    distance, _ = cKDTree(position_m).query(some, k=[k + 1])  # the nearest of all is the place itself
    return max(float(distance.mean()), 1e-3)
