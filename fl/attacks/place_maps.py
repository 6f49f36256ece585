r"""Maps of scores of places that add up over rounds, and attacks whose answers are their highest
places.
"""

from abc import abstractmethod
from typing import cast

import numpy as np
from pydantic import Field
from scipy.ndimage import correlate1d

from fl.attacks.base import Attack, Attacked, View, to_statuses
from fl.attacks.closed_form import ClosedForm, compute_unit_ratios
from fl.learners import FirstLayerLearner
from fl.notice import Prepared, notice
from fl.tracking.place_grid import MANY_PLACES, MAX_CELL_M, PlaceGrid, choose_cell_m
from fl.types import Estimates, Public, RoundContext
from netsim.columns import frozen, no_ints, split_blocks
from netsim.geometry import Area
from netsim.notice import Notices
from netsim.part import Positive, Share
from netsim.rng import Rng
from netsim.units import AnyFloats, FloatArray, IntArray, IntArrayPair

_AT_ONCE = 8  # maps that are smoothed at once: temporary ones stay in the cache
_REACH = 9.0  # widths: what a Gaussian has beyond is rounding


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
        owners = np.union1d(self.owner, owner)
        total = np.zeros((len(owners), score.shape[1]), dtype=score.dtype)
        if len(self.owner):
            total[np.searchsorted(owners, self.owner)] = self.score
        for row, scores in zip(np.searchsorted(owners, owner), score, strict=True):
            total[row] += scores
        return PlaceMaps(owners, total)

    def look_up(self, owner: IntArray) -> AnyFloats:
        """The maps (n, G) of owners (n,) that it knows."""
        return self.score[np.searchsorted(self.owner, owner)]


def find_map_owners(view: View) -> IntArray:
    """Owner of the map of each target (n_target,): the UE, all its models together.

    A sum of updates tells of every UE that it has in it, so rounds in different company tell its
    members apart. Published models cannot be attributed to one UE unless the participants are
    known: then the map is that of the model.
    """
    if view.party is None and view.vantage == "model":
        return view.model
    return view.ue


def pair_owners_with_sources(view: View) -> IntArrayPair:
    """Pairs of maps and the sources that add to them: owner (k,), source (k,), every pair once."""
    pairs = np.unique(np.stack([find_map_owners(view), view.source], axis=1), axis=0)
    return pairs[:, 0], pairs[:, 1]


def smooth_maps(score: AnyFloats, grid: PlaceGrid, width_m: float) -> AnyFloats:
    """Maps (k, G) convolved with a Gaussian of peak 1, of many places as far as 9 of its widths;
    nothing comes from outside the area. The maps themselves, where the width is 0.
    """
    if width_m <= 0:
        return score
    surface = score.reshape(len(score), grid.ny, grid.nx)
    for axis, cell_m in zip((2, 1), grid.cell_m.tolist(), strict=True):
        offset_m = np.arange(surface.shape[axis]) * cell_m
        gaussian = np.exp(-((offset_m[:, None] - offset_m) ** 2) / (2 * width_m**2))
        if len(grid) > MANY_PLACES:
            half = gaussian[0, offset_m <= _REACH * width_m]
            surface = correlate1d(
                surface, np.append(half[:0:-1], half), axis, output=np.float64, mode="constant"
            )
        elif axis == 2:
            surface = surface @ gaussian
        else:
            surface = gaussian @ surface
    return surface.reshape(score.shape)


def find_highest_places(
    score: AnyFloats, place_m: FloatArray, apart_m: float, count: int
) -> FloatArray:
    """The highest places (n, count, 2) of scores (n, G), best first, `apart_m` from each other; NaN
    where there are no more, or where the scores are all alike. The first of equal ones is taken.
    """
    named_m = np.full((len(score), count, 2), np.nan)
    x, y = np.ascontiguousarray(place_m.T)
    for far, best_m in zip(score, named_m, strict=True):  # a row at a time stays in the cache
        if far.max() <= far.min():
            continue
        for rank in range(count):
            index = far.argmax()
            if not np.isfinite(far[index]):
                break
            best_m[rank] = x0, y0 = place_m[index]
            far = np.where((x - x0) ** 2 + (y - y0) ** 2 >= apart_m**2, far, -np.inf)
    return named_m


def answer_places(view: View, owners: IntArray, named_m: FloatArray) -> Estimates:
    """Places (k, j, 2) of owners (k,) as answers about every target, best first; NaN: no
    place.

    Weights count down to 1. A target of whom nothing is known yet has one answer without a place
    (status `no gradient`).
    """
    places_m = named_m[np.searchsorted(owners, find_map_owners(view))]
    is_named = np.asarray(np.isfinite(places_m).all(axis=2))
    is_named[:, 0] = True  # without a place, where there is none: the attack has answered
    target, rank = np.nonzero(is_named)
    place_m = places_m[target, rank]
    weight = (named_m.shape[1] - rank).astype(float)
    return Estimates.from_places(
        view.ue[target], view.model[target], "answer", place_m, weight, to_statuses(place_m)
    )


def normalise_rows(vector: FloatArray) -> FloatArray:
    """Vectors (n, p) of length 1; zeros for one that is not finite, as those of a model that has
    diverged.
    """
    size = np.abs(vector).max(axis=1, keepdims=True, initial=0.0)
    good = np.isfinite(size) & (size > 0)
    even = np.where(good, vector, 0.0) / np.where(good, size, 1.0)
    length = np.linalg.norm(even, axis=1, keepdims=True)
    return even / np.where(length > 0, length, 1.0)


class NamesPlaces(Attack):
    """An attack whose answers are the highest places of one map a UE."""

    cell_m: float | None = Field(None, ge=0.1, le=1e6)
    """largest distance between the places that are compared, m; none: 1.6 times the shortest length
    of the learner's encoding, wider where that makes more than 100,000 places, at most 25, or more
    where that makes over a million"""
    answers: int = Field(2, ge=1, le=8)
    """number of places that are named of each UE"""
    apart_m: float = Field(200.0, ge=0, le=1e6)
    """smallest distance between two answers, m"""

    def notices(self, prepared: Prepared) -> Notices:
        usual_m = choose_cell_m(prepared.public.area, np.inf)
        if self.cell_m == usual_m > MAX_CELL_M:
            yield notice("attack-places-coarse", self.label, apart_m=usual_m)

    def choose_width_m(self, view: View | None) -> float:
        """Standard deviation of the Gaussian that smooths maps before they are read, m; None: those
        of all rounds.
        """
        return 0.0

    def find_best(
        self, score: AnyFloats, grid: PlaceGrid, count: int, width_m: float = 0.0
    ) -> FloatArray:
        """The highest places (n, count, 2) of maps (n, G), best first, NaN where there are no
        more.
        """
        named_m = np.empty((len(score), count, 2))
        for rows in split_blocks(len(score), _AT_ONCE):
            maps = smooth_maps(score[rows], grid, width_m)
            named_m[rows] = find_highest_places(maps, grid.place_m, self.apart_m, count)
        return named_m

    def find_best_of_all(self, maps: PlaceMaps, area: Area, count: int) -> FloatArray:
        """The highest places (<= count, 2) of all maps added up."""
        grid = PlaceGrid.from_area(area, self.cell_m, 1, "")
        if not len(maps.owner):
            return grid.place_m[:0]
        best = self.find_best(
            maps.score.sum(axis=0, keepdims=True), grid, count, self.choose_width_m(None)
        )[0]
        return best[np.isfinite(best[:, 0])]

    def answer_targets(self, view: View, maps: PlaceMaps, grid: PlaceGrid) -> Estimates:
        """The highest places of every target's map, best first."""
        owners = np.unique(find_map_owners(view))
        return answer_places(
            view,
            owners,
            self.find_best(maps.look_up(owners), grid, self.answers, self.choose_width_m(view)),
        )


class AddsMaps(NamesPlaces):
    """One whose maps of single rounds are added up over rounds."""

    def start(self) -> PlaceMaps:
        return PlaceMaps.empty()

    def run(self, view: View, facts: RoundContext, state: PlaceMaps, rng: Rng) -> Attacked:
        owner, source = pair_owners_with_sources(view)
        n_maps = len(np.union1d(owner, state.owner))
        grid = PlaceGrid.from_area(facts.public.area, self.cell_m, n_maps, self.label)
        state = state.plus(owner, self.compute_scores(view, grid, rng)[source])
        return self.answer_targets(view, state, grid), state

    def list_places(self, state: PlaceMaps, public: Public, count: int) -> FloatArray:
        return self.find_best_of_all(state, public.area, count)

    @abstractmethod
    def compute_scores(self, view: View, grid: PlaceGrid, rng: Rng) -> AnyFloats:
        """Scores that this round adds to each source's map (n_source, G); 0 of a source that sent
        nothing.
        """


class NeuronVotes(AddsMaps, kind="neuron-votes"):
    r"""Every unit of the first layer votes for one place in every round; the places with most votes
    are the answers.

    With rectified units the ratio r_h = dW_h / db_h (see `fl.attacks.closed_form`) is the mean of
    the samples that activate unit h. Units that only one place activates vote for that place, in
    every round again; the others scatter. A vote weighs

        min(|db_h| / sum_h |db_h|, max_weight),

    a vote for a place outside the area is dropped, and the map of all votes so far is smoothed by a
    Gaussian. Answers: the highest place, and the highest at least `apart_m` from those before.

    The votes of a UE are counted together, of all its models, also from sums that it is in; those
    of published models by model. Ratios are means of places where the local optimiser is linear in
    gradients: gradient descent, with momentum that starts at zero in every round, or with clipped
    gradients of whole samples.
    """

    width_m: Positive = 40.0
    """standard deviation of the Gaussian that smooths the votes, m"""
    max_weight: Share = 0.05
    """largest weight of a unit in a round, as a share of all units"""
    answers: int = Field(2, ge=1, le=20)
    """number of places that are named of each UE"""

    reference = (
        "Per-unit ratios of Bakopoulou et al., Location Leakage in Federated Signal Maps, Eq. 1"
    )
    space = {"width_m": (40.0, 20.0, 80.0), "max_weight": (0.05, 0.01)}
    needs = ClosedForm.needs

    def choose_width_m(self, view: View | None) -> float:
        return self.width_m

    def compute_scores(self, view: View, grid: PlaceGrid, rng: Rng) -> AnyFloats:
        """Weights of the votes of each update for each place of the grid (n_source, G)."""
        learner = cast(FirstLayerLearner, view.learner)
        centre, scale = view.get_standardisation()
        is_usable = view.is_usable
        dw, db = learner.first_layer(view.update)
        dw = np.where(is_usable[:, None, None], dw, 0.0)
        db = np.where(is_usable[:, None], db, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            place_m = centre[:, None] + scale[:, None] * compute_unit_ratios(dw, db)
            size = np.abs(db) / np.abs(db).max(axis=1, keepdims=True, initial=1e-300)
            weight = np.minimum(size / size.sum(axis=1, keepdims=True), self.max_weight)
        row, unit = np.nonzero(grid.area.contains(place_m))
        shape = len(place_m), len(grid)
        index = row * len(grid) + grid.find_cells(place_m[row, unit])
        votes = np.bincount(index, weights=weight[row, unit], minlength=shape[0] * shape[1])
        return votes.reshape(shape).astype(np.float32)
