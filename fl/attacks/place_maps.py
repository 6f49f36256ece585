"""Maps of scores of places that add up over rounds, and attacks whose answers are their highest places."""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from fl.attacks.base import Attack, View
from fl.tracking.place_grid import PlaceGrid
from fl.types import Estimates, RoundContext
from netsim.columns import frozen, no_ints
from netsim.geometry import Area
from netsim.rng import Rng
from netsim.units import AnyFloats, FloatArray, IntArray


@frozen
class PlaceMaps:
    """Scores of all rounds so far: owner (k,) ascending, score (k, G)."""

    owner: IntArray
    score: AnyFloats

    @classmethod
    def empty(cls) -> "PlaceMaps":
        """Before the first round."""
        return cls(no_ints(), np.zeros((0, 0), dtype=np.float32))

    def plus(self, owner: IntArray, score: AnyFloats) -> "PlaceMaps":
        """With scores (n, G) of this round added, source i to the map of owner[i] (n,)."""
        every = np.union1d(self.owner, owner)
        total = np.zeros((len(every), score.shape[1]), dtype=score.dtype)
        if len(self.owner):
            total[np.searchsorted(every, self.owner)] = self.score
        at = np.searchsorted(every, owner)
        if len(np.unique(at)) == len(at):
            total[at] += score
        else:
            np.add.at(total, at, score)
        return PlaceMaps(every, total)

    def of(self, owner: IntArray) -> AnyFloats:
        """The maps (n, G) of owners (n,) that it knows."""
        return self.score[np.searchsorted(self.owner, owner)]


def owners(view: View) -> IntArray:
    """Owner of the map of each target (n_target,): the UE, all its models together.

    A sum of updates tells of every UE that it has in it, so rounds in different company tell its members apart.
    Published models cannot be attributed to one UE unless the participants are known: then the map is that of the
    model.
    """
    return view.model if view.party is None and view.vantage == "model" else view.ue


def sources_of_owners(view: View) -> tuple[IntArray, IntArray]:
    """Pairs of maps and the sources that add to them: owner (k,), source (k,), every pair once."""
    pairs = np.unique(np.stack([owners(view), view.source], axis=1), axis=0)
    return pairs[:, 0], pairs[:, 1]


def smoothed(score: AnyFloats, grid: PlaceGrid, width_m: float) -> AnyFloats:
    """Maps (k, G) convolved with a Gaussian of peak 1; nothing comes from outside the area."""

    def blur(n: int, cell_m: float) -> FloatArray:
        at = np.arange(n) * cell_m
        return np.exp(-((at[:, None] - at) ** 2) / (2 * width_m**2))

    surface = score.reshape(len(score), grid.ny, grid.nx)
    across, along = blur(grid.nx, float(grid.cell_m[0])), blur(grid.ny, float(grid.cell_m[1]))
    return (along @ (surface @ across)).reshape(score.shape)


def highest_apart(score: AnyFloats, place_m: FloatArray, named_m: FloatArray, apart_m: float) -> FloatArray:
    """The best place (n, 2) of scores (n, G) at least `apart_m` from all places named before (n, j, 2).

    NaN where there is no such place, or where the scores are all alike. The first of equal ones is taken.
    """
    best = np.full((len(score), 2), np.nan)
    x, y = np.ascontiguousarray(place_m.T)
    for i, (row, before) in enumerate(zip(score, named_m, strict=True)):  # a row at a time stays in the cache
        if row.max() <= row.min():
            continue
        far = row
        for place in before[np.isfinite(before).all(axis=1)]:
            far = np.where((x - place[0]) ** 2 + (y - place[1]) ** 2 >= apart_m**2, far, -np.inf)
        at = far.argmax()
        if np.isfinite(far[at]):
            best[i] = place_m[at]
    return best


@dataclass(frozen=True)
class Naming:
    """Reading of answers from a map: their number, their distance, and the Gaussian that smooths the map first."""

    count: int
    apart_m: float
    width_m: float


def best_places(score: AnyFloats, grid: PlaceGrid, how: Naming) -> FloatArray:
    """The highest places (n, count, 2) of maps (n, G), best first, NaN where there are no more."""
    if how.width_m > 0:
        score = smoothed(score, grid, how.width_m)
    named_m = np.zeros((len(score), 0, 2))
    for _ in range(how.count):
        best = highest_apart(score, grid.place_m, named_m, how.apart_m)
        named_m = np.concatenate([named_m, best[:, None]], axis=1)
    return named_m


def best_of_all(maps: PlaceMaps, area: Area, cell_m: float | None, how: Naming) -> FloatArray:
    """The highest places (<= count, 2) of all maps added up; cell_m: of their grid."""
    grid = PlaceGrid.over(area, cell_m, 1, "")
    if not len(maps.owner):
        return grid.place_m[:0]
    best: FloatArray = best_places(maps.score.sum(axis=0, keepdims=True), grid, how)[0]
    return best[np.isfinite(best[:, 0])]


def answers(view: View, maps: PlaceMaps, grid: PlaceGrid, how: Naming) -> Estimates:
    """The highest places of every target's map, best first."""
    known = np.unique(owners(view))
    return named(view, known, best_places(maps.of(known), grid, how))


def named(view: View, known: IntArray, named_m: FloatArray) -> Estimates:
    """Places (k, j, 2) of owners known (k,) as answers about every target, best first; NaN: no place.

    Weights count down to 1. A target of whom nothing is known yet has one answer without a place (status
    `no gradient`).
    """
    each = named_m[np.searchsorted(known, owners(view))]
    there = np.asarray(np.isfinite(each).all(axis=2))
    there[:, 0] = True  # without a place, where there is none: the attack has answered
    target, rank = np.nonzero(there)
    where = each[target, rank]
    found = np.asarray(np.isfinite(where).all(axis=1))
    status = ["ok" if good else "no gradient" for good in found]
    weight = (named_m.shape[1] - rank).astype(np.float64)
    return Estimates.of(view.ue[target], view.model[target], "answer", where, weight, status)


def unit_rows(vector: FloatArray) -> FloatArray:
    """Vectors (n, p) of length 1; zeros for one that is not finite, as those of a model that has diverged."""
    size = np.abs(vector).max(axis=1, keepdims=True, initial=0.0)
    good = np.isfinite(size) & (size > 0)
    even = np.where(good, vector, 0.0) / np.where(good, size, 1.0)
    length = np.linalg.norm(even, axis=1, keepdims=True)
    return even / np.where(length > 0, length, 1.0)


class NamesPlaces(Attack):
    """An attack whose answers are the highest places of one map a UE."""

    cell_m: float | None = Field(default=None, ge=0.1, le=1e6)
    """largest distance between the places that are compared, m; none: 1.6 times the shortest length of the learner's
    encoding, wider where that makes more than 100,000 places, at most 25"""
    answers: int = Field(default=2, ge=1, le=8)
    """number of places that are named of each UE"""
    apart_m: float = Field(default=200.0, ge=0, le=1e6)
    """smallest distance between two answers, m"""

    def naming(self, view: View) -> Naming:
        """Reading of its answers: from unsmoothed maps."""
        return Naming(self.answers, self.apart_m, 0.0)


class AddsMaps(NamesPlaces):
    """One whose maps of single rounds are added up over rounds."""

    def start(self) -> PlaceMaps:
        return PlaceMaps.empty()

    def run(self, view: View, facts: RoundContext, state: PlaceMaps, rng: Rng) -> tuple[Estimates, PlaceMaps]:
        owner, source = sources_of_owners(view)
        grid = PlaceGrid.over(facts.public.area, self.cell_m, len(np.union1d(owner, state.owner)), self.label)
        state = state.plus(owner, self.scores(view, grid, rng)[source])
        return answers(view, state, grid, self.naming(view)), state

    @abstractmethod
    def scores(self, view: View, grid: PlaceGrid, rng: Rng) -> AnyFloats:
        """Scores that this round adds to each source's map (n_source, G); 0 of a source that sent nothing."""
