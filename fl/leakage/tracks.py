"""State of leakage: true points and estimates of attacks per (UE, model), and where UEs were in each window."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from fl.leakage.named import NamedPlaces
from fl.types import Local
from netsim.columns import Columns, frozen, no_ints, no_places
from netsim.units import FloatArray, IntArray

_POSITIONS_M = (-1e9, 1e9)  # wider than any plane of the globe


@dataclass(frozen=True)
class Band:
    """SW1 of as many uniformly random places as centroids were named: mean, 5 % and 95 % quantile, in metres.

    rounds, spoken : how many rounds and centroids there were when it was drawn.
    """

    rounds: int = 0
    spoken: int = 0
    mean_m: float = math.nan
    low_m: float = math.nan
    high_m: float = math.nan


@frozen
class TrackEstimates:
    """Estimates of one track by an attack so far.

    centroids, places (k, 2), weights (k,) of the places: those inside the area; spoken: centroids that it named, inside
    or not; named: these and other places;
    anchor_m (2, 2): true centroids at the first and the last answer of a walk; walk_m (2,): its steps, summed;
    answers : the latest ones about the UE; answered: their round, 0 before any.
    """

    shapes: ClassVar[dict[str, tuple[int | None, ...]]] = {
        "centroids": (None, 2), "places": (None, 2), "weights": (None,), "anchor_m": (2, 2), "walk_m": (2,)
    }  # fmt: skip
    bounds: ClassVar[dict[str, tuple[float, float]]] = dict.fromkeys(("centroids", "places"), _POSITIONS_M)
    centroids: FloatArray
    places: FloatArray
    weights: FloatArray
    anchor_m: FloatArray
    walk_m: FloatArray
    spoken: int = 0
    named: int = 0
    band: Band = Band()
    answers: NamedPlaces = field(default_factory=NamedPlaces)
    answered: int = 0

    @classmethod
    def nothing(cls) -> TrackEstimates:
        """Before an attack has said anything."""
        return cls(no_places(), no_places(), np.zeros(0), np.full((2, 2), np.nan), np.zeros(2))


@frozen
class Track:
    """The truth of one (UE, model), and what attacks have said of it.

    points (k, 2): every stride-th of the `seen` true points, in order of time; centroids
    (rounds, 2): true mean of each round; attacks: by label; compared: the last round in which leakage was measured.
    """

    bounds: ClassVar[dict[str, tuple[float, float]]] = dict.fromkeys(("points", "centroids"), _POSITIONS_M)
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

    def plus(self, points_m: FloatArray, most: int, selected_m: FloatArray | None = None) -> Track:
        """With the true points of a round; when there are too many, every second one is kept, for good.

        selected_m (2,) is the true centroid of a round without points.
        """
        centroid = points_m.mean(axis=0) if selected_m is None else selected_m
        points, stride = np.concatenate([self.points, points_m[-self.seen % self.stride :: self.stride]]), self.stride
        while len(points) > most:
            points, stride = points[::2].copy(), stride * 2  # a view would keep all of them
        return replace(
            self, points=points, stride=stride, seen=self.seen + len(points_m),
            centroids=np.concatenate([self.centroids, centroid[None]]),
        )  # fmt: skip


Tracks = dict[tuple[int, int], Track]
"""By UE and model."""


@frozen
class Whereabouts(Columns):
    """Where UEs really were on average in each window: round, ue (n,), place_m (n, 2); in order of rounds."""

    round: IntArray
    ue: IntArray
    place_m: FloatArray

    @classmethod
    def nowhere(cls) -> Whereabouts:
        """Before the first round."""
        return cls(no_ints(), no_ints(), no_places())

    @classmethod
    def of(cls, number: int, measured: Local) -> Whereabouts:
        """Truth of the UEs with measurements in this round, all their models together."""
        some = measured.nonempty()
        ue, row = np.unique(some.ue, return_inverse=True)
        count = np.bincount(row, weights=some.count, minlength=len(ue))
        mean = some.mean_x()
        total = [np.bincount(row, weights=some.count * mean[:, k], minlength=len(ue)) for k in (0, 1)]
        return cls(np.full(len(ue), number), ue, np.stack(total, axis=1) / count[:, None])

    def plus(self, more: Whereabouts) -> Whereabouts:
        """These, then those of a later round."""
        return self.join([self, more])

    def at(self, number: int) -> Whereabouts:
        """Truth of one round."""
        low, high = np.searchsorted(self.round, [number, number + 1])
        return self.select(slice(low, high))
