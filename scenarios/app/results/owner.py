"""How near attacks come to home and work of one person.

All attacks of a run together name k places. In an area A a place lies within a radius r of one of
them by chance with probability 1 - (1 - pi r^2 / A)^k at most. It is *found* where a named one lies
within r, and chance does so in at most one of twenty cases.
"""

from collections.abc import Mapping
from math import inf, pi
from typing import cast

import numpy as np

from netsim.geometry import Area
from netsim.maps import project_lon_lat
from netsim.units import FloatArray, LatLon
from scenarios.app.results.read import Run, stack_places_m
from scenarios.app.results.statistics import format_figure
from scenarios.app.results.table import FOUND, MOST_BY_CHANCE

TRUTH = ("home", "work")
HEADS = ("looked for in", "chance, %", "home, m", "", "work, m", "")


def find_places_m(run: Run) -> FloatArray:
    """Return home and work (2, n, 2) of each user of a run by his stays, NaN for none; the place of
    most time stands for a home that is not known.
    """
    ues = run.tables["ues"]
    home_m, work_m, densest_m = (
        np.column_stack([ues[f"{what}_x_m"], ues[f"{what}_y_m"]])
        for what in ("home", "work", "densest")
    )
    return np.stack([np.fmax(home_m, densest_m), work_m])


def tabulate_owner(runs: Mapping[str, Run], stated: Mapping[str, FloatArray]) -> list[list[str]]:
    """Lay out a row for each run of one person, by its label: chance, and how far the nearest named
    place is from home and from work.

    stated : of home and work that are known better, longitude and latitude (1, 2).
    """
    rows = []
    for label, run in runs.items():
        named_m = stack_places_m(run.tables["named"])
        share = pi * run.hit_radius_m**2 / Area(*run.manifest.area_m).side_m.prod()
        chance = 1.0 - max(1.0 - share, 0.0) ** len(named_m)
        row = [label, f"{100 * chance:.2g}"]
        for what, at_m in zip(TRUTH, find_places_m(run), strict=True):
            if what in stated:
                at_m = project_lon_lat(stated[what], cast(LatLon, run.manifest.origin_deg))
            near_m = np.hypot(*(named_m - at_m).T).min(initial=inf)
            found = FOUND if near_m <= run.hit_radius_m and chance <= MOST_BY_CHANCE else ""
            row += [format_figure(near_m), found]
        rows.append(row)
    return rows
