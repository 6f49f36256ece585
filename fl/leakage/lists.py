"""Lists of places that an attack makes of what is nobody's in particular: how many of them are somebody's places.

A sum, a published model or an update under a name that lasts a round may tell where people live and work without
telling who. With places p_1 to p_N of a list, true places t_1 to t_K (homes and workplaces) and a radius r,

    precision = share of the p within r of any t,    coverage = share of the t within r of any p.

Both grow with the number of people and with the density of a town, so they stand beside the same figures of places
that nobody has learnt anything about: N uniformly random places, N drawn by the floor area of buildings, and the list
itself held against as many residents of the same town who do not take part. What is no better for those who take part
than for those who do not is the town's density, and tells nothing about the people in the sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from fl.leakage.chance import disc_share
from netsim.geometry import Area
from netsim.mobility.base import Places
from netsim.units import FloatArray

Score = tuple[float, float]
"""precision and coverage, percent; NaN of no place"""
Listed = dict[str, FloatArray]
"""places (n, 2), best first, by attack"""
_OF_CIRCLE = 64  # sides of a quarter: its area is short by 1e-4


def true_places(of: Places) -> FloatArray:
    """All homes and workplaces (k, 2), and the place of most time of a UE without a home."""
    every = np.concatenate([of.home_m, of.work_m, of.densest()])
    return np.asarray(every[np.isfinite(every).all(axis=1)])


def listed_score(listed_m: FloatArray, true_m: FloatArray, radius_m: float) -> Score:
    """Of the places of a list (n, 2) against true ones (k, 2)."""
    return _percent(nearest_m(listed_m, true_m) <= radius_m), _percent(nearest_m(true_m, listed_m) <= radius_m)


def nearest_m(from_m: FloatArray, to_m: FloatArray) -> FloatArray:
    """Distance (n,) from each place (n, 2) to the nearest of others (k, 2); infinite where there are none."""
    if not len(to_m) or not len(from_m):
        return np.full(len(from_m), np.inf)
    return np.asarray(cKDTree(to_m).query(from_m)[0])


def uniform_score(true_m: FloatArray, area: Area, radius_m: float, count: int) -> Score:
    """Expected of `count` uniformly random places in the area.

    Precision: the share of the area that lies within the radius of any true place. Coverage: mean over true places of
    1 - (1 - F)^count, with F the share within the radius of that one.
    """
    from shapely import box, buffer, points, union_all

    discs = union_all(buffer(points(true_m), radius_m, quad_segs=_OF_CIRCLE))
    covered = discs.intersection(box(*area.low_m, *area.high_m)).area / np.prod(area.side_m)
    share = np.array([disc_share(place, radius_m, area) for place in true_m])
    return 100.0 * float(covered), _percent(1.0 - (1.0 - share) ** count)


def buildings_score(true_m: FloatArray, floor_area: FloatArray, radius_m: float, count: int) -> Score:
    """Expected of `count` middles of buildings, drawn with replacement by floor area: floor_area (n, 3) as `Public`."""
    middle_m, weight = floor_area[:, :2], floor_area[:, 2] / floor_area[:, 2].sum()
    found = weight[nearest_m(middle_m, true_m) <= radius_m].sum()
    share = np.array([weight[near].sum() for near in cKDTree(middle_m).query_ball_point(true_m, radius_m)])
    return 100.0 * float(found), _percent(1.0 - (1.0 - share) ** count)


def _percent(shares: FloatArray) -> float:
    return 100.0 * float(np.mean(shares)) if len(shares) else float("nan")


@dataclass(frozen=True, eq=False)
class Town:
    """What lists are held against: the true places (k, 2) of who takes part, and of who does not; nothing of the
    latter where they are not known. floor_area (n, 3) of its buildings, as in `Public`.
    """

    area: Area
    participants_m: FloatArray
    aside_m: FloatArray = field(default_factory=lambda: np.zeros((0, 2)))
    floor_area: FloatArray = field(default_factory=lambda: np.zeros((0, 3)))

    def scores(self, listed_m: Listed, count: int, radii_m: tuple[float, ...]) -> Iterator[dict[str, Any]]:
        """Rows of the table `list_scores` (see docs/records.md), of each list by its attack, and of chance."""
        for radius_m in dict.fromkeys(radii_m):
            for residents, true_m in (("participants", self.participants_m), ("aside", self.aside_m)):
                if not len(true_m):
                    continue
                found = [("attack", name, len(at), listed_score(at, true_m, radius_m)) for name, at in listed_m.items()]
                found.append(("uniform", "", count, uniform_score(true_m, self.area, radius_m, count)))
                if len(self.floor_area):
                    found.append(("buildings", "", count, buildings_score(true_m, self.floor_area, radius_m, count)))
                for source, name, places, (precision, coverage) in found:
                    yield {
                        "source": source, "attack": name, "residents": residents, "radius_m": radius_m,
                        "places": places, "precision_percent": precision, "coverage_percent": coverage,
                    }  # fmt: skip

    def listed(self, listed_m: Listed) -> Iterator[dict[str, Any]]:
        """Rows of the table `listed` (see docs/records.md)."""
        for name, at in listed_m.items():
            near = (nearest_m(at, true_m).tolist() for true_m in (self.participants_m, self.aside_m))
            for rank, ((x, y), own, aside) in enumerate(zip(at.tolist(), *near, strict=True), start=1):
                yield {"attack": name, "rank": rank, "x_m": x, "y_m": y, "participant_m": own, "aside_m": aside}
