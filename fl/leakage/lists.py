"""Lists of places made from data of no UE in particular: the number that are a UE's places.

A sum, a published model or an update under a name that lasts a round may tell where people live and work without
telling who. With places p_1 to p_N of a list, true places t_1 to t_K (homes and workplaces) and a radius r,

    precision = share of the p within r of any t,    coverage = share of the t within r of any p,

shares from 0 to 1 in this order. Both grow with the number of people and with the density of a town, so they stand
beside the same figures of places drawn without an attack: N uniformly random places, N drawn by the floor
area of buildings, and the list itself held against as many residents of the same town who do not take part. What is no
better for those who take part than for those who do not is the town's density, and tells nothing of the people in the
sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from fl.leakage.distances import density_peaks
from fl.leakage.leakage import Leakage
from netsim.geometry import Area
from netsim.mobility.base import Places
from netsim.record import Row
from netsim.units import FloatArray


def most_named(named: list[Row], attack: str, area: Area, how: Leakage) -> FloatArray:
    """The list (<= list_places, 2) of an attack that makes none: density peaks of the places that it names of all UEs.

    named : rows of the table `named`.
    """
    at_m = np.array([(row["x_m"], row["y_m"]) for row in named if row["attack"] == attack]).reshape(-1, 2)
    return density_peaks(at_m, np.ones(len(at_m)), area, how.peak_width_m, how.list_places)


def listed_score(listed_m: FloatArray, true_m: FloatArray, radius_m: float, count: int) -> FloatArray:
    """Score the places of a list (n <= count, 2) against true ones (k, 2); one that is missing is wrong."""
    right, found = (nearest_m(listed_m, true_m) <= radius_m).sum(), nearest_m(true_m, listed_m) <= radius_m
    return np.array([right / count, found.mean()])


def nearest_m(from_m: FloatArray, to_m: FloatArray) -> FloatArray:
    """Distance (n,) from each place (n, 2) to the nearest of others (k, 2); infinite where there are none."""
    return np.asarray(cKDTree(to_m).query(from_m)[0])


def uniform_score(true_m: FloatArray, area: Area, radius_m: float, count: int) -> FloatArray:
    """Expected of `count` uniformly random places in the area.

    Precision: the share of the area that lies within the radius of any true place. Coverage: mean over true places of
    1 - (1 - F)^count, with F the share within the radius of that one. Discs have 256 sides: 1e-4 short.
    """
    import shapely

    ground = shapely.box(*area.low_m, *area.high_m)
    discs = shapely.intersection(shapely.buffer(shapely.points(true_m), radius_m, quad_segs=64), ground)
    share = shapely.area(discs) / ground.area
    return np.array([shapely.union_all(discs).area / ground.area, np.mean(1.0 - (1.0 - share) ** count)])


def buildings_score(true_m: FloatArray, floor_area: FloatArray, radius_m: float, count: int) -> FloatArray:
    """Expected of `count` middles of buildings, drawn with replacement by floor area: floor_area (n, 3) as `Public`."""
    middle_m, weight = floor_area[:, :2], floor_area[:, 2] / floor_area[:, 2].sum()
    share = np.array([weight[near].sum() for near in cKDTree(middle_m).query_ball_point(true_m, radius_m)])
    found = weight[nearest_m(middle_m, true_m) <= radius_m].sum()
    return np.array([found, np.mean(1.0 - (1.0 - share) ** count)])


def scores(
    listed_m: dict[str, FloatArray], town: dict[str, Places], area: Area, floor_area: FloatArray, how: Leakage
) -> Iterator[dict[str, Any]]:
    """Rows of the table `list_scores`: of the list (n, 2) of each attack, and of chance.

    town : true places of the UEs, `participants`, and of as many residents who do not take part, `aside`. The place of
    most time of a UE without a home stands for it. floor_area (n, 3) : of all buildings, as in `Public`.
    """
    hit_radius_m, count = how.list_hit_radius_m, how.list_places
    for residents, of in town.items():
        every = np.concatenate([of.home_m, of.work_m, of.densest()])
        at_m = every[np.isfinite(every).all(axis=1)]
        if not len(at_m):
            continue
        found = {("attack", name): listed_score(mine, at_m, hit_radius_m, count) for name, mine in listed_m.items()}
        found["uniform", ""] = uniform_score(at_m, area, hit_radius_m, count)
        if len(floor_area):
            found["buildings", ""] = buildings_score(at_m, floor_area, hit_radius_m, count)
        for source, score in found.items():
            yield dict(zip(_COLUMNS, (*source, residents, *(100.0 * score).tolist()), strict=True))


_COLUMNS = ("source", "attack", "residents", "precision_percent", "coverage_percent")
