"""Attacks on updates of a radio map: the cells where they are strong, or the place whose links
explain them best.
"""

from abc import abstractmethod
from functools import partial
from typing import Literal, Self, cast

import numpy as np
from pydantic import Field, model_validator

from fl.attacks.base import Attack, Attacked, View
from fl.learners import GridLearner
from fl.radio_map.obstacles import CELLS
from fl.tracking.place_grid import PlaceGrid, cross_axes
from fl.types import Estimates, Model, RoundContext, State
from netsim.columns import ByKey, number_row, update_means
from netsim.part import Count, Positive
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray

_TIE = 1e-12  # of the largest: what counts as equal to it
_QUIET = 1e-6  # of the largest square: a cell below got no noise
_ANGLES = 128  # of the border of the cells that got noise
_OUTLIERS = 30  # cells whose ratio to the noise is largest: the gradient's own
_FITS = 8
_LEAST = 1e-3  # of the largest variance of the ramp
# of the largest cell: how much a place that is off by a metre leaves unexplained
_MISFIT_PER_M = 1 / 60
# cells, loudest against the noise, that are tried as places too: a gradient may be one cell wide
_LOUD = 30
_KEPT = 8  # places that are looked at more closely,
_SHIFTS = np.array([0, -1, 1, -2, 2])  # and their neighbours, in new steps


def find_weighted_centroid(size: FloatArray, centre_m: FloatArray, nu: float) -> FloatArray:
    """p = sum_m s_m^nu c_m / sum_m s_m^nu for sizes s (n, M) >= 0 of cells c (M, 2): (n, 2); NaN
    for a row of zeros.

    nu = inf: the mean of the cells that are largest. Sizes are divided by the largest first.
    """
    largest = size.max(axis=1, initial=0.0)[:, None]
    share = np.divide(size, largest, out=np.zeros_like(size), where=largest > 0)
    weight = (share >= 1.0 - _TIE).astype(float) if np.isinf(nu) else share**nu
    with np.errstate(invalid="ignore"):
        return weight @ centre_m / weight.sum(axis=1)[:, None]


class GridAttack(Attack):
    """Base of attacks on the updates of the grid phase: one place a source."""

    def run(self, view: View, facts: RoundContext, state: State, rng: Rng) -> Attacked:
        learner = cast(GridLearner, view.learner)
        if view.phase != learner.grid_phase or not len(view.update):
            return Estimates.none(), state
        grid = learner.get_update_grid(view.model_before)
        place_m, state = self.estimate_places(view.update[:, : len(grid)], grid, view, state)
        return view.build_estimates("centroid", np.arange(len(place_m)), place_m), state

    @abstractmethod
    def estimate_places(
        self, update: FloatArray, grid: PlaceGrid, view: View, state: State
    ) -> tuple[FloatArray, State]:
        """Places (n, 2) of the devices of updates (n, M), NaN for an update of zeros; and the next
        state.
        """


class WeightedCentroid(GridAttack, kind="weighted-centroid"):
    """The mean of the cells, weighted by |update|^nu: p = sum |G_m|^nu c_m / sum |G_m|^nu.

    Gradients of heights are strong near the device, where all its links are low.

    With `memory_rounds` T > 1 the updates of every UE, or of a model where devices are not
    separated, are averaged first (`fl.attacks.base.update_means`), which reduces noise; a large T
    gives the plain mean.
    """

    nu: float | Literal["inf"] = 2.0
    """exponent of the cell weights; inf: only the strongest cell"""
    memory_rounds: float = Field(1.0, ge=1, le=1e9)
    """number of rounds over which a UE's updates are averaged; 1: no averaging"""

    reference = (
        "Geometry-Aligned Differential Privacy for Location-Safe Federated Radio Map "
        "Construction, Eq. 18"
    )
    needs = {
        CELLS: "looks for the cells of a grid where an update is strong (radio-map)",
    }

    @model_validator(mode="after")
    def _check_nu(self) -> Self:
        if self.nu != "inf" and not 0 < float(self.nu) <= 1000:
            raise ValueError(f"nu: {self.nu:g} must be above 0 and at most 1000, or the word inf")
        return self

    def start(self) -> ByKey:
        return ByKey.empty(2)

    def estimate_places(
        self, update: FloatArray, grid: PlaceGrid, view: View, state: ByKey
    ) -> tuple[FloatArray, ByKey]:
        if self.memory_rounds > 1:
            ue = view.ue[np.argsort(view.source)]
            track = (
                number_row(ue, view.source_model)
                if view.vantage == "updates"
                else view.source_model
            )
            update, state = update_means(state, track, update, self.memory_rounds)
        return find_weighted_centroid(np.abs(update), grid.place_m, float(self.nu)), state


class LinkFilter(GridAttack, kind="link-filter"):
    r"""Maximum-likelihood place of a UE whose links made the gradient, under noise whose shape the
    attacker knows.

    The heights, the law and the base stations are public, so the server can compute A(u), the
    gradient that an error of one link of a UE at u makes. With errors e ~ N(0, error_db^2) and
    noise of diagonal covariance Sigma

        y = A(u) e + n,    u = argmax b' H^-1 b / 2 - log det(error_db^2 H) / 2,
        b = A' Sigma^-1 y,    H = I / error_db^2 + A' Sigma^-1 A

    Sigma is max(a.c_m + b, 0) on the cells that got noise: these are found first, as the half-plane
    in which nearly all cells are loud, and the plane is fitted there by maximum likelihood without
    the largest ratios, at most 30, which are the gradient's own. Uniform noise is a flat plane,
    noise on an edge a half-plane of one row. Places are tried `step_m` apart, and the best of them
    ever more closely; Sigma grows with the square of the distance between places tried.

    The nearest 4 links suffice while heights are as they began, above all links; all are needed
    while they are learnt.
    """

    nearest_links: int | None = Field(None, ge=1, le=10_000)
    """number of nearest base stations whose links are looked at; none: all"""
    error_db: float = Field(18.0, gt=0, le=1e3)
    """standard deviation of what the model does not know of a link's gain, dB"""
    step_m: Positive = 10.0
    """distance between the places tried first, m"""
    resolution_m: Positive = 0.01
    """distance between the places tried last, m"""
    every_rounds: Count = 1
    """it estimates in round 1 and then in every such number of rounds: 220 links of a UE take half
    a second"""

    reference = (
        "against Geometry-Aligned Differential Privacy, Eq. 16 and 37: an adversary who "
        "knows the scheme"
    )
    example = {"kind": "link-filter", "step_m": 100}
    needs = {
        CELLS: "looks for the cells of a grid that a UE's links cross (radio-map)",
        "updates": (
            "explains every UE's own update by its links; merged ones have those of many places"
        ),
        "starting weights": (
            "computes what links do to an update, from the heights that a round starts from"
        ),
    }

    def run(self, view: View, facts: RoundContext, state: State, rng: Rng) -> Attacked:
        if facts.round != 1 and facts.round % self.every_rounds:
            return Estimates.none(), state
        return super().run(view, facts, state, rng)

    def estimate_places(
        self, update: FloatArray, grid: PlaceGrid, view: View, state: State
    ) -> tuple[FloatArray, State]:
        learner = cast(GridLearner, view.learner)
        largest = np.abs(update).max(axis=1)
        is_loud = largest > 0
        place_m = np.full((len(update), 2), np.nan)
        largest = largest[is_loud]
        shape = update[is_loud] / largest[:, None]
        place_m[is_loud] = self._find_likeliest_places(
            shape, 1.0 / largest, grid, learner, view.model_before
        )
        return place_m, state

    def _find_likeliest_places(
        self,
        shape: FloatArray,
        scale: FloatArray,
        grid: PlaceGrid,
        learner: GridLearner,
        model: Model,
    ) -> FloatArray:
        """The most likely place (n, 2) of each update (n, M), divided by its largest cell: times
        scale (n,).
        """
        simulate = partial(
            learner.compute_link_patterns,
            model,
            links=self.nearest_links or 10_000,
            error_db=self.error_db,
        )
        nx, ny = np.maximum(np.ceil(grid.area.side_m / self.step_m), 1).astype(int).tolist()
        tried_m = PlaceGrid(grid.area, nx, ny).place_m
        place_m = np.empty((len(shape), 2))
        patterns = simulate(tried_m)
        variance = estimate_noise_variance(shape**2, grid)
        for i, (y, v, factor) in enumerate(zip(shape, variance, scale, strict=True)):
            step_m = self.step_m
            floor = v + (_MISFIT_PER_M * step_m) ** 2
            loud_m = grid.place_m[np.argsort(-(y**2) / floor, kind="stable")[:_LOUD]]
            near_m = np.concatenate([tried_m, loud_m])
            tried_gain = patterns.compute_log_likelihood(y, floor, factor)
            gain = np.concatenate(
                [tried_gain, simulate(loud_m).compute_log_likelihood(y, floor, factor)]
            )
            while step_m > self.resolution_m:
                step_m /= 2
                floor = v + (_MISFIT_PER_M * step_m) ** 2
                best_m = near_m[np.argsort(-gain, kind="stable")[:_KEPT], None]
                near_m = (best_m + cross_axes(_SHIFTS, _SHIFTS) * step_m).reshape(-1, 2)
                near_m = np.clip(near_m, grid.area.low_m, grid.area.high_m)
                _, first = np.unique(np.round(near_m / step_m, 3), axis=0, return_index=True)
                near_m = near_m[first]  # each once
                gain = simulate(near_m).compute_log_likelihood(y, floor, factor)
            place_m[i] = near_m[np.argsort(-gain, kind="stable")[0]]
        return place_m


def estimate_noise_variance(square: FloatArray, grid: PlaceGrid) -> FloatArray:
    """Variance of the noise on each cell (n, M) of squared updates (n, M), the largest of each
    being 1.
    """
    offset = (grid.place_m - grid.area.low_m) / grid.area.side_m.max()
    basis = np.column_stack([np.ones(len(grid)), offset])
    variance = np.zeros_like(square)
    noisy_cells = _find_noisy_cells(square, grid)
    for row in np.flatnonzero(noisy_cells.any(axis=1)):
        is_noisy = noisy_cells[row]
        variance[row, is_noisy] = _fit_variance_plane(square[row, is_noisy], basis[is_noisy])
    return variance


def _find_noisy_cells(square: FloatArray, grid: PlaceGrid) -> BoolArray:
    """Which cells got noise (n, M): the half-plane with the largest surplus of loud cells over
    quiet ones.
    """
    surplus = np.where(square > _QUIET, 1, -1)
    best = np.full(len(square), max(grid.nx, grid.ny) // 3)
    is_noisy = np.zeros(square.shape, dtype=bool)
    for angle in 2 * np.pi * np.arange(_ANGLES) / _ANGLES:
        along = grid.place_m @ np.array([np.cos(angle), np.sin(angle)])
        order = np.argsort(-along, kind="stable")
        total = surplus[:, order].cumsum(axis=1)
        last = total.argmax(axis=1)
        high = total[np.arange(len(square)), last]
        is_better = high > best
        is_noisy[is_better] = along >= along[order[last[is_better]]][:, None]
        best = np.maximum(best, high)
    return is_noisy


def _fit_variance_plane(square: FloatArray, basis: FloatArray) -> FloatArray:
    """Variance (k,) along a plane of cells at (k, 3), by maximum likelihood without the largest
    ratios.
    """
    n = len(square)
    n_kept = n - min(_OUTLIERS, n // 50)
    variance = np.full(n, max(np.median(square) / 0.455, 1e-12))
    for _ in range(_FITS):
        kept = np.argsort(square / variance)[:n_kept]
        weighted = basis[kept] / variance[kept, None] ** 2
        normal = weighted.T @ basis[kept]
        ridge = 1e-9 * np.trace(normal) * np.eye(3)
        plane = basis @ np.linalg.solve(normal + ridge, weighted.T @ square[kept])
        variance = np.maximum(plane, max(_LEAST * plane.max(), 1e-12))
    return variance
