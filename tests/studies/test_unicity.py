"""Unicity of recorded movements in hourly points, beside what is published of 1.5 million people.

De Montjoye et al. (Sci. Rep. 3:1376, 2013): hourly, with the resolution of antennas, four points
single out 95 %. `pytest -m slow -s tests/studies/test_unicity.py` prints the table of
docs/tracking.md.
"""

import math

import numpy as np
import pandas as pd
from numpy.testing import assert_allclose
from pytest import mark

from fl.leakage.linking import measure_unicity
from fl.leakage.tracks import Whereabouts
from netsim.clock import DAY_S
from netsim.rng import Streams
from netsim.trace_files.read import read_trace
from scenarios.app.results.statistics import compute_percent_and_wilson_interval

pytestmark = mark.slow

HOUR_S = 3600.0
SIDES_M = (500.0, 2500.0)


def hourly(ue, number, place_m, min_hours):
    """Mean places by UE and hour, of UEs with at least so many."""
    (number, ue), row = np.unique(np.stack([number, ue]), axis=1, return_inverse=True)
    mean = np.stack(
        [np.bincount(row, place_m[:, axis]) / np.bincount(row) for axis in (0, 1)], axis=1
    )
    often = np.bincount(ue)[ue] >= min_hours
    return Whereabouts(number[often], np.unique(ue[often], return_inverse=True)[1], mean[often])


def taxi_days(data):
    """Of four taxis, on one clock from 8 to 20 h, the days with places in ten hours or more."""
    trace = read_trace(data / "mobility_cabspotting_sf.csv.gz", timezone="America/Los_Angeles")
    hour = (trace.time_s % DAY_S // HOUR_S).astype(int)
    is_day = (hour >= 8) & (hour < 20)
    ue = trace.user * 1000 + (trace.time_s // DAY_S).astype(int)
    return hourly(ue[is_day], hour[is_day], trace.position_m[is_day], 10)


def check_ins(data, name):
    """Of users with four hours or more."""
    trace = read_trace(data / f"checkins_gowalla_{name}.csv.gz", timezone="UTC")
    return hourly(trace.user, (trace.time_s // HOUR_S).astype(int), trace.position_m, 4)


def first(x, ues):
    rows = x.ue < ues
    return Whereabouts(x.round[rows], x.ue[rows], x.place_m[rows])


def tell(name, x):
    """Prints rows of the table: percent for 1 to 4 points, and an interval of the last as if each
    UE were one draw."""
    table = pd.DataFrame(measure_unicity(x, Streams(3).derive_rng("names")))
    for side_m in SIDES_M:
        rows = table[table.resolution_m == side_m].set_index("points")
        _, low, high = compute_percent_and_wilson_interval(
            math.ceil(rows.unique_percent[4] / 100 * rows.ues[4]), int(rows.ues[4])
        )
        cells = " | ".join(f"{rows.unique_percent[p]:.0f}" for p in (1, 2, 3, 4))
        print(f"| {name} | {x.ue.max() + 1} | {side_m:g} | {cells} | {low:.0f} to {high:.0f} |")
    return table.pivot(index="points", columns="resolution_m", values="unique_percent")


def test_few_hourly_points_of_taxi_days_are_unique(data_folder):
    """In squares of 2.5 km shares depend on where the squares lie."""
    x = taxi_days(data_folder)
    table = tell("taxi-days", x)
    assert x.ue.max() + 1 == 68
    assert_allclose(table[500.0][:4], [57, 99, 100, 100], atol=6)
    assert_allclose(table[2500.0][:4], [6, 42, 81, 97], atol=16)


@mark.parametrize("name", ["austin", "nyc_midtown"])
def test_four_check_ins_single_nearly_everybody_out(name, data_folder):
    table = tell(f"check-ins, {name}", check_ins(data_folder, name))
    assert table[500.0][4] > 90
    assert table[2500.0][4] < table[500.0][4] + 1
    assert (table.diff().dropna() > -1).all().all()


def test_unicity_falls_with_the_number_of_people(data_folder):
    x = check_ins(data_folder, "nyc_midtown")
    shares = []
    for ues in (100, 400, int(x.ue.max()) + 1):
        shares.append(tell("check-ins, nyc_midtown", first(x, ues))[2500.0][2])
    assert shares[0] > shares[1] > shares[2]
