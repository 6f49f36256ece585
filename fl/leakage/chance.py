r"""Places named by chance, and lists of places that are of no UE in particular.

k uniformly random places in the area all miss a region that covers a share F of it with probability (1 - F)^k. With
H and W the shares of the area within the same distance of home and of work, and U that of the two discs together,

    P(home found)          = 1 - (1 - H)^k
    P(home and work found) = 1 - (1 - H)^k - (1 - W)^k + (1 - U)^k

A disc around an unknown place is empty, so nothing finds it.

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
import shapely
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from fl.leakage.distances import density_axes, density_peaks, gaussian_density, highest_peaks
from fl.leakage.leakage import Leakage
from netsim.columns import evenly
from netsim.geometry import Area
from netsim.mobility.base import Places
from netsim.record import Row
from netsim.units import FloatArray

_SIDES = 256  # of a disc, drawn as a regular polygon of the same area
_MOST_POINTS = 200  # of a UE in the density of others, evenly taken
_RESIDUE = 1e-9


def _discs(place_m: FloatArray, radius_m: float, area: Area) -> NDArray[np.object_]:
    """Regions of the area within a distance of places (n, 2): (n,), empty around an unknown place."""
    known = np.isfinite(place_m).all(axis=1)
    discs = np.full(len(place_m), shapely.Polygon())
    angle = 2 * np.pi / _SIDES
    corner_m = radius_m * np.sqrt(angle / np.sin(angle))
    around = shapely.buffer(shapely.points(place_m[known]), corner_m, quad_segs=_SIDES // 4)
    discs[known] = shapely.intersection(around, _ground(area))
    return discs


def _ground(area: Area) -> shapely.Polygon:
    return shapely.box(*area.low_m, *area.high_m)


def uniform_shares(home_m: FloatArray, work_m: FloatArray, radius_m: float, area: Area, count: int) -> FloatArray:
    """Probabilities (n, 4) that `count` uniformly random places find home, work and both, and the first one either.

    home_m, work_m (n, 2): NaN where there is none.
    """
    home, work = (_discs(place_m, radius_m, area) for place_m in (home_m, work_m))
    share = shapely.area([home, work, shapely.union(home, work)]) / _ground(area).area
    no_home, no_work, neither = (1.0 - share) ** count
    return np.column_stack([1 - no_home, 1 - no_work, 1 - no_home - no_work + neither, share[2]])


def others_peaks(
    ue: FloatArray, points_m: FloatArray, of: FloatArray, area: Area, width_m: float, count: int
) -> list[FloatArray]:
    """The highest density peaks (<= count, 2) of the true positions of all UEs but one, for each UE of `of`.

    ue (n,), points_m (n, 2): positions, and whose they are. Every UE has the same weight, whatever it measured.
    """
    x, y = density_axes(area, width_m)
    order = np.argsort(ue, kind="stable")

    def density(one: float) -> FloatArray:
        own = order[np.searchsorted(ue, one, "left", order) : np.searchsorted(ue, one, "right", order)]
        own = own[evenly(len(own), _MOST_POINTS)]
        return gaussian_density(points_m[own], np.full(len(own), 1 / max(len(own), 1)), x, y, width_m)

    together = sum((density(one) for one in np.unique(ue)), np.zeros((len(x), len(y))))
    least = _RESIDUE * float(together.max())  # where only the one UE was, the difference is a rounding error
    return [highest_peaks(x, y, together - density(one), count, least) for one in of]


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
    1 - (1 - F)^count, with F the share within the radius of that one.
    """
    discs = _discs(true_m, radius_m, area)
    share = shapely.area(discs) / _ground(area).area
    found = shapely.union_all(discs).area / _ground(area).area
    return np.array([found, np.mean(1.0 - (1.0 - share) ** count)])


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
