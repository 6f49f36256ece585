"""State of leakage: true points and estimates of attacks per (UE, model), and where UEs were in
each window.

Home and work are looked for at two of the places that an attack names. An attack that answers
(estimates "answer") names them itself, best first, and the first two are looked at; or, where it
says which is home, work or a third place, these, with the probability that each is right. One that
answers for homes and for workplaces apart names at most two of each: home is then looked for at
those for homes alone, and work at those for workplaces. Of any other attack they are the two
highest density peaks of all its estimates so far, which an attacker without the truth can compute.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import nan
from typing import ClassVar

import numpy as np

from fl.types import Estimates, Local, find_place_kind, rank_place
from netsim.columns import Columns, frozen, no_floats, no_ints, no_places
from netsim.geometry import Area
from netsim.units import FloatArray, IntArray, IntPair

_POSITIONS_M = (-1e9, 1e9)  # wider than any plane of the globe
MAX_NAMED = 2
"""places of a UE in which home and work are looked for: of more answers those of largest weight, or
those that are said to be home and work; of answers for them apart so many of each. Chance names as
many. The table `named` has all answers"""


@frozen
class NamedPlaces:
    """Places named of a UE: place_m (k, 2), rank (k,) ascending from 1, place : home, work, third
    1, ..., home 1, work 1, ... of an attack that answers for them apart, or empty where it does
    not say; probability (k,) : as stated, NaN where it is not.

    Home has rank 1 and work rank 2, also where only one of them is named; home 2 and work 2 have
    ranks 3 and 4.
    """

    place_m: FloatArray = field(default_factory=no_places)
    rank: IntArray = field(default_factory=no_ints)
    place: list[str] = field(default_factory=list)
    probability: FloatArray = field(default_factory=no_floats)

    @classmethod
    def rank_in_order(cls, place_m: FloatArray) -> NamedPlaces:
        """Rank places (k, 2) that stand best first, of which nothing else is said."""
        return cls(
            place_m,
            np.arange(1, len(place_m) + 1),
            [""] * len(place_m),
            np.full(len(place_m), nan),
        )

    @property
    def home_and_work_m(self) -> FloatArray:
        """The first home and work that are named: (2, 2) by rank, NaN where nothing is."""
        places_m = np.full((MAX_NAMED, 2), nan)
        first = self.rank <= MAX_NAMED
        places_m[self.rank[first] - 1] = self.place_m[first]
        return places_m

    def list_candidates_m(self, what: str) -> FloatArray:
        """Where home, work, or the densest place, which stands for a home, is looked for: (<= 2,
        2).
        """
        kinds = [find_place_kind(place) for place in self.place]
        if not any(kinds):
            return self.home_and_work_m
        return self.place_m[[(kind == "work") == (what == "work") for kind in kinds]]


NamedByUe = dict[int, NamedPlaces]
"""UE -> what is named of it."""
NamedByAttack = dict[str, NamedByUe]
"""Label of an attack -> what it names."""


def collect_answers_inside(estimates: Estimates, area: Area) -> NamedByUe:
    """Answers of an attack in a round, by UE, whatever their model.

    A place that is repeated, for instance at each model of the UE, counts once. Answers outside of
    the area, or not finite, are left out; a UE of which only such ones were given has no places.
    """
    inside = area.contains(estimates.position_m)
    groups = group_rows_by_key(estimates.ue, np.flatnonzero(estimates.kind == "answer"))
    return {ue: _name_answers(estimates, mine[inside[mine]]) for ue, mine in groups.items()}


def group_rows_by_key(key: IntArray, rows: IntArray) -> dict[int, IntArray]:
    """Return those of `rows` (k,), indices of keys (n,), at which each key stands, in order."""
    order = rows[np.argsort(key[rows], kind="stable")]
    keys, first = np.unique(key[order], return_index=True)
    groups = np.split(order, first[1:])
    return dict(zip(keys.tolist(), groups, strict=False))  # of no rows a split is empty


def _name_answers(estimates: Estimates, rows: IntArray) -> NamedPlaces:
    """Name places by the answers (k,) about one UE: by what they say, else by their weight."""
    rows = rows[np.argsort(-estimates.weight[rows], kind="stable")]
    rank = np.array([rank_place(estimates.status[i]) for i in rows], dtype=int)
    is_ranked = rank > 0
    if not is_ranked.any():
        place_m = estimates.position_m[rows]
        _, first = np.unique(place_m[:, 0] + 1j * place_m[:, 1], return_index=True)
        return NamedPlaces.rank_in_order(place_m[np.sort(first)])
    weight = estimates.weight[rows]
    is_apart = np.array([find_place_kind(estimates.status[i]) != "" for i in rows])
    if is_apart.any():  # then other answers name nothing
        is_ranked = is_apart & (rank <= 2 * MAX_NAMED)
        weight = np.where((weight >= 0) & (weight <= 1), weight, nan)
    # of two answers for one place the likelier
    rank, first = np.unique(rank[is_ranked], return_index=True)
    best = rows[is_ranked][first]
    place = [estimates.status[i] for i in best]
    return NamedPlaces(estimates.position_m[best], rank, place, weight[is_ranked][first])


@dataclass(frozen=True)
class ChanceBand:
    """SW1 of as many uniformly random places as centroids were named: mean, 5 % and 95 % quantile,
    in metres.

    rounds, spoken : how many rounds and centroids there were when it was drawn.
    """

    rounds: int = 0
    spoken: int = 0
    mean_m: float = nan
    low_m: float = nan
    high_m: float = nan


@frozen
class TrackEstimates:
    """Estimates of one track by an attack so far.

    centroids, places (k, 2), weights (k,) of the places: those inside the area; spoken: centroids
    that it named, inside or not; named: these and other places; anchor_m (2, 2): true centroids at
    the first and the last answer of a walk; walk_m (2,): its steps, summed; answers : the latest
    ones about the UE; answered: their round, 0 before any.
    """

    bounds: ClassVar = dict.fromkeys(("centroids", "places"), _POSITIONS_M)
    centroids: FloatArray
    places: FloatArray
    weights: FloatArray
    anchor_m: FloatArray
    walk_m: FloatArray
    spoken: int = 0
    named: int = 0
    band: ChanceBand = ChanceBand()
    answers: NamedPlaces = field(default_factory=NamedPlaces)
    answered: int = 0

    @classmethod
    def empty(cls) -> TrackEstimates:
        """Before an attack has said anything."""
        return cls(no_places(), no_places(), no_floats(), np.full((2, 2), nan), np.zeros(2))


@frozen
class Track:
    """The truth of one (UE, model), and what attacks have said of it.

    points (k, 2): every stride-th of the `seen` true points, in order of time; centroids (rounds,
    2): true mean of each round; attacks: by label; compared: the last round in which leakage was
    measured.
    """

    bounds: ClassVar = dict.fromkeys(("points", "centroids"), _POSITIONS_M)
    points: FloatArray
    centroids: FloatArray
    stride: int = 1
    seen: int = 0
    attacks: dict[str, TrackEstimates] = field(default_factory=dict)
    compared: int = 0

    @classmethod
    def empty(cls) -> Track:
        """Before the first round."""
        return cls(no_places(), no_places())

    def add_round(
        self, points_m: FloatArray, max_points: int, centroid_m: FloatArray | None = None
    ) -> Track:
        """With the true points of a round; when there are too many, every second one is kept, for
        good.

        centroid_m (2,) is the true centroid of a round without points.
        """
        centroid = points_m.mean(axis=0) if centroid_m is None else centroid_m
        points = np.concatenate([self.points, points_m[-self.seen % self.stride :: self.stride]])
        stride = self.stride
        while len(points) > max_points:
            points = points[::2].copy()  # a view would keep all of them
            stride *= 2
        return replace(
            self,
            points=points,
            stride=stride,
            seen=self.seen + len(points_m),
            centroids=np.concatenate([self.centroids, centroid[None]]),
        )


Tracks = dict[IntPair, Track]
"""By UE and model."""


@frozen
class Whereabouts(Columns):
    """Where UEs really were on average in each window: round, ue (n,), place_m (n, 2); in order of
    rounds.
    """

    round: IntArray
    ue: IntArray
    place_m: FloatArray

    @classmethod
    def empty(cls) -> Whereabouts:
        """Before the first round."""
        return cls(no_ints(), no_ints(), no_places())

    @classmethod
    def average_measured(cls, round_: int, measured: Local) -> Whereabouts:
        """Truth of the UEs with measurements in this round, all their models together."""
        ue, row = np.unique(measured.ue[measured.row_of_sample], return_inverse=True)
        mean = [np.bincount(row, x) / np.bincount(row) for x in measured.x.T[:2]]
        return cls(np.full(len(ue), round_), ue, np.stack(mean, axis=1))

    def plus(self, later: Whereabouts) -> Whereabouts:
        """These, then those of a later round."""
        return self.join([self, later])

    def select_round(self, round_: int) -> Whereabouts:
        """Truth of one round."""
        low, high = np.searchsorted(self.round, [round_, round_ + 1])
        return self.select(slice(low, high))
