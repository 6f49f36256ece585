"""Attacks on grid updates by the weighted centroid of the cells."""

from typing import ClassVar, Literal, Self, cast

import numpy as np
from pydantic import Field, model_validator

from fl.attacks.base import Attack, View, latest, recall
from fl.learners import GridLearner
from fl.radio_map.grid import CELLS, HeightGrid
from fl.types import Estimates, RoundContext
from netsim.columns import frozen, no_ints, no_places, row_id
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

_TIE = 1e-12  # of the largest: what counts as equal to it


def weighted_centroid(size: FloatArray, centre_m: FloatArray, nu: float) -> FloatArray:
    """p = sum_m s_m^nu c_m / sum_m s_m^nu for sizes s (n, M) >= 0 of cells c (M, 2): (n, 2); NaN for a row of zeros.

    nu = inf: the mean of the cells that are largest. Sizes are divided by the largest first.
    """
    largest = size.max(axis=1, initial=0.0)[:, None]
    share = np.divide(size, largest, out=np.zeros_like(size), where=largest > 0)
    with np.errstate(under="ignore"):
        weight = (share >= 1.0 - _TIE).astype(np.float64) if np.isinf(nu) else share**nu
    total = weight.sum(axis=1)[:, None]
    with np.errstate(invalid="ignore"):
        return np.where(largest > 0, weight @ centre_m / total, np.nan)


@frozen
class MeanUpdates:
    """Updates averaged over rounds: track (k,) ascending, mean (k, n_cell), weight (k,) of the rounds so far."""

    track: IntArray
    mean: FloatArray
    weight: FloatArray


class GridAttack(Attack):
    """Base of attacks on the updates of the grid phase, in single rounds or averaged over rounds.

    With `memory_rounds` T > 1 the updates of every UE are averaged first, which reduces noise. The weight of old rounds
    decreases by (1 - 1/T) per round; a large T gives the plain mean::

        mean_t = mean_{t-1} + (G_t - mean_{t-1}) / w_t,    w_t = 1 + (1 - 1/T) w_{t-1},    w_0 = 0
    """

    nu: float | Literal["inf"] = 2.0
    """exponent of the cell weights; inf: only the strongest cell"""
    memory_rounds: float = Field(default=1.0, ge=1, le=1e9)
    """number of rounds over which a UE's updates are averaged; 1: no averaging"""

    reference: ClassVar = (
        "Geometry-Aligned Differential Privacy for Location-Safe Federated Radio Map Construction, Eq. 18"
    )
    needs: ClassVar = {
        CELLS: "looks for the cells of a grid where an update is strong (radio-map)",
    }

    @model_validator(mode="after")
    def _positive(self) -> Self:
        if self.nu != "inf" and not 0 < float(self.nu) <= 1000:
            raise ValueError(f"nu: {self.nu:g} must be above 0 and at most 1000, or the word inf")
        return self

    def start(self) -> MeanUpdates:
        return MeanUpdates(no_ints(), np.zeros((0, 0)), np.zeros(0))

    def run(self, view: View, facts: RoundContext, state: MeanUpdates, rng: Rng) -> tuple[Estimates, MeanUpdates]:
        learner = cast(GridLearner, view.learner)
        sources = np.arange(len(view.update))
        if view.phase != learner.grid_phase or not len(sources):
            return view.spread("centroid", sources[:0], no_places()), state
        grid = learner.grid(view.model_before)
        seen, state = self._averaged(view.update[:, : len(grid)], self._track(view), state)
        where = self.places(seen, grid, view)
        status = ["ok" if np.isfinite(p).all() else "no gradient" for p in where]
        return view.spread("centroid", sources, where, status=status), state

    def places(self, seen: FloatArray, grid: HeightGrid, view: View) -> FloatArray:
        """Places (n, 2) of the devices of updates (n, M); NaN for an update of zeros."""
        return weighted_centroid(self.size(seen, grid), grid.centre_m, float(self.nu))

    def size(self, seen: FloatArray, grid: HeightGrid) -> FloatArray:
        """Strength of each cell (n, M)."""
        return np.abs(seen)

    @staticmethod
    def _track(view: View) -> IntArray:
        """Key under which each update (n_source,) is remembered: its device, or its model where devices are not
        separated.
        """
        if view.vantage != "updates":
            return view.source_model
        return row_id(view.ue[np.argsort(view.source)], view.source_model)

    def _averaged(self, update: FloatArray, track: IntArray, state: MeanUpdates) -> tuple[FloatArray, MeanUpdates]:
        if self.memory_rounds == 1:
            return update, state
        past = state if len(state.track) else MeanUpdates(state.track, update[:0], state.weight)
        old, weight = recall(past.track, past.mean, track), recall(past.track, past.weight, track)
        new_weight = 1.0 + (1.0 - 1.0 / self.memory_rounds) * np.nan_to_num(weight)
        mean = np.where(np.isfinite(old), old + (update - old) / new_weight[:, None], update)
        every, newest = latest(track, past.track)
        weights = np.concatenate([new_weight, past.weight])[newest]
        return mean, MeanUpdates(every, np.concatenate([mean, past.mean])[newest], weights)


class WeightedCentroid(GridAttack):
    """The mean of the cells, weighted by |update|^nu: p = sum |G_m|^nu c_m / sum |G_m|^nu.

    Gradients of heights are strong near the device, where all its links are low.
    """

    kind: Literal["weighted-centroid"] = "weighted-centroid"
