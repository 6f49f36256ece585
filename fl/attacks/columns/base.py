"""Columns: small laws of where a UE lives or works, each of one channel of an attacker's view."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from fl.attacks.arrival_times import compute_relative_levels_db
from fl.attacks.base import View
from fl.tracking.place_grid import PlaceGrid
from fl.types import Public, RoundContext
from netsim.columns import frozen
from netsim.rng import Rng
from netsim.units import AnyFloats, BoolArray, FloatArray, FloatPair, IntArray, Texts

_AROUND_M = 25.0
_LEAST_STD = 1e-9  # a map that is as flat tells nothing
Tally = dict[str, Any]
"""what a column remembers: arrays by name, empty before the first round"""


@frozen
class Scene:
    """What is public of the area: the places (G,) of a grid that have a building within 25 m, all
    where there is none; their middles place_m (G, 2), the floor area around each, floor_m2 (G,),
    and the nominal level of every cell there, level_db (n_cell, G), None without known antennas.
    """

    public: Public
    grid: PlaceGrid
    place: IntArray
    place_m: FloatArray
    floor_m2: FloatArray
    level_db: FloatArray | None

    def find_strongest_db(self) -> FloatArray:
        """The strongest nominal level (G,); 0 without known antennas."""
        if self.level_db is None:
            return np.zeros(len(self.place))
        return self.level_db.max(axis=0)


@lru_cache(maxsize=2)
def build_scene(public: Public, cell_m: float, attack: str) -> Scene:
    """The scene of public facts, in cells of at most cell_m."""
    grid = PlaceGrid.from_area(public.area, cell_m, 1, attack)
    floor_m2 = _sum_floors_around(grid.place_m, public.floor_area)
    place = np.flatnonzero(floor_m2)
    if not len(place):
        place = np.arange(len(grid))
    place_m = grid.place_m[place]
    level_db = None
    if public.antennas is not None:
        level_db = compute_relative_levels_db(place_m, public)
    return Scene(public, grid, place, place_m, floor_m2[place], level_db)


def _sum_floors_around(place_m: FloatArray, floor_area: FloatArray | None) -> FloatArray:
    """Floor area (G,) of the buildings (n, 3) whose middle is within 25 m of each place (G, 2)."""
    if floor_area is None or not len(floor_area):
        return np.zeros(len(place_m))
    from scipy.spatial import cKDTree  # here, so that checking a scenario does not pay for it

    places = cKDTree(place_m)
    buildings = cKDTree(floor_area[:, :2])
    pairs = places.sparse_distance_matrix(buildings, _AROUND_M, output_type="ndarray")
    floor_m2 = np.zeros(len(place_m))
    np.add.at(floor_m2, pairs["i"], floor_area[pairs["j"], 2])
    return floor_m2


class PlaceColumn(ABC):
    """A law of places, or a few of one kind: what it reads of views adds up over rounds, and makes
    a number of every UE and place.

    Where the view grants nothing that it reads, it is 0 everywhere.
    """

    names: ClassVar[Texts]
    """one of each number"""

    def observe(
        self, view: View, facts: RoundContext, scene: Scene, tally: Tally, rng: Rng
    ) -> Tally:
        """What it remembers after a view; nothing, unless it reads views."""
        return tally

    @abstractmethod
    def compute(self, tally: Tally, scene: Scene, ue: IntArray) -> FloatArray:
        """Numbers (len(names), n, G) of UEs (n,), about 1 in size; zeros where it knows nothing.

        Those of a UE are the same whichever others are asked for.
        """

    def build_zeros(self, ue: IntArray, scene: Scene) -> FloatArray:
        """What it says where nothing is granted."""
        return np.zeros((len(self.names), len(ue), len(scene.place)))


def add_by_ue(total: FloatArray | None, ue: IntArray, value: FloatArray) -> FloatArray:
    """Totals (N, ...) by UE, which grow with the largest number, after values (n, ...) of UEs (n,),
    each of them once or more.
    """
    before = value[:0] if total is None else total
    grown = np.zeros((max(len(before), ue.max(initial=-1) + 1), *value.shape[1:]))
    grown[: len(before)] = before
    np.add.at(grown, ue, value)
    return grown


def look_up_ues(total: AnyFloats, ue: IntArray) -> FloatArray:
    """Totals (n, ...) of UEs (n,); 0 of one that it does not have."""
    found = np.zeros((len(ue), *total.shape[1:]))
    is_known = ue < len(total)
    found[is_known] = total[ue[is_known]]
    return found


def standardise_maps(score: FloatArray) -> FloatArray:
    """Maps (..., G) less their means over places, over their standard deviations; 0 where flat."""
    centred = score - score.mean(axis=-1, keepdims=True)
    std = centred.std(axis=-1, keepdims=True)
    return np.where(std > _LEAST_STD, centred / np.maximum(std, _LEAST_STD), 0.0)


def classify_week_hours(
    hour: FloatArray, work: FloatPair = (10.0, 16.0)
) -> tuple[BoolArray, BoolArray, BoolArray]:
    """Which hours (n,) since Monday's midnight are of a night, from 0 to 6; between the hours
    `work` of a workday, both included; and of a weekend. An unknown one (NaN) is none of them.
    """
    of_day = hour % 24.0
    is_weekend = hour % 168.0 >= 120.0
    is_work = (of_day >= work[0]) & (of_day <= work[1]) & np.logical_not(is_weekend)
    return of_day <= 6.0, is_work, is_weekend


def find_middle_hour(facts: RoundContext) -> FloatArray:
    """Hour since Monday's midnight of the middle of a window by the wall clock; NaN if unknown."""
    return np.asarray((facts.week_s - facts.round_s / 2) / 3600.0)
