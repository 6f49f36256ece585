"""How near attacks come to home and work of one person, and which of his places they name.

All attacks of a run together name k places. In an area A a place lies within a radius r of one of
them by chance with probability 1 - (1 - pi r^2 / A)^k at most. It is *found* where a named one lies
within r, and chance does so in at most one of twenty cases; else it lies there *by chance*.
"""

from collections.abc import Mapping, Sequence
from math import inf, pi
from typing import cast

import numpy as np

from netsim.geometry import Area, measure_lengths
from netsim.maps import project_lon_lat, unproject_m
from netsim.traces.home_work import find_user_places
from netsim.traces.trace import Trace
from netsim.units import FloatArray, LatLon
from scenarios.app.results.read import Run, stack_places_m
from scenarios.app.results.sentences import read_sentences
from scenarios.app.results.table import FOUND, MOST_BY_CHANCE
from scenarios.app.study import Fields

TRUTH = ("home", "work")
HEADS = (
    "looked for in",
    "chance, %",
    "home, m",
    "",
    "work, m",
    "",
    "of your places, no.",
    "of the log, %",
)
Truth = Mapping[str, FloatArray]
"""longitude and latitude (n, 2) of home, of work (n = 1, NaN where not known), of all places,
and of all fixes of the log"""


def find_truth_deg(trace: Trace) -> dict[str, FloatArray]:
    """Find home, work and places of an hour or more of the one user of a trace, the longest first;
    the place of most time stands for a home that is not known.
    """
    places = find_user_places(
        trace.position_m, trace.time_s, trace.local.build_clock(trace.time_s[-1])
    )
    home_m = np.where(np.isfinite(places.home_m), places.home_m, places.densest_m)
    truth_m = {
        "home": home_m[None],
        "work": places.work_m[None],
        "places": places.by_time_m,
        "log": trace.position_m,
    }
    origin_deg = cast(LatLon, trace.origin_deg)
    return {what: unproject_m(at_m, origin_deg) for what, at_m in truth_m.items()}


def tabulate_owner(runs: Mapping[str, Run], truth_deg: Truth) -> list[Fields]:
    """List a row for each run of one person, by its label: chance, how far the nearest named place
    is from home and from work, the numbers of his places with a named one within the radius, and
    how much of the log lies in the area.
    """
    rows = []
    for label, run in runs.items():
        named_m = stack_places_m(run.tables["named"])
        area = Area(*run.manifest.area_m)
        share = pi * run.hit_radius_m**2 / area.side_m.prod()
        chance = 1.0 - max(1.0 - share, 0.0) ** len(named_m)
        near = FOUND if chance <= MOST_BY_CHANCE else "by chance"
        row: Fields = {"label": label, "chance_percent": 100 * chance}
        for what, at_deg in truth_deg.items():
            at_m = project_lon_lat(at_deg, cast(LatLon, run.manifest.origin_deg))
            if what == "log":
                row["log_percent"] = 100 * area.contains(at_m).mean()
                continue
            near_m = measure_lengths(named_m - at_m[:, None]).min(axis=0, initial=inf)
            is_near = near_m <= run.hit_radius_m
            if what in TRUTH:
                row |= {f"{what}_m": near_m[0], f"{what}_verdict": near if is_near[0] else ""}
            else:
                row[what] = ", ".join(map(str, np.flatnonzero(is_near) + 1))
        rows.append(row)
    return rows


def find_worst_row(rows: Sequence[Fields]) -> Fields:
    """Find the row in which a home is found, then that in which it is named from nearest."""
    return min(rows, key=lambda row: (row["home_verdict"] != FOUND, row["home_m"]))


def describe_truth(truth_deg: Truth, stated_deg: Truth) -> list[str]:
    """Say which home and work named places are compared with."""
    places = [
        (what, lon, lat, what in stated_deg)
        for what in TRUTH
        for lon, lat in truth_deg.get(what, [])
    ]
    return read_sentences().truth(places).splitlines()


def measure_nearest_fix_m(trace: Trace, at_deg: FloatArray) -> float:
    """Measure the distance from a place (1, 2) to the nearest fix of a trace with an origin."""
    at_m = project_lon_lat(at_deg, cast(LatLon, trace.origin_deg))
    return measure_lengths(trace.position_m - at_m).min()


def describe_owner(row: Fields) -> list[str]:
    """Say how near home, work and his other places are named, by a row of `tabulate_owner`."""
    return read_sentences().owner(row).splitlines()
