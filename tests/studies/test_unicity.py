"""Unicity of recorded movements in hourly points, beside what is published of 1.5 million people.

De Montjoye et al. (Sci. Rep. 3:1376, 2013): hourly, with the resolution of antennas, four points
single out 95 %. `pytest -m slow -s tests/studies/test_unicity.py` prints the table of
docs/tracking.md.
"""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fl.leakage.linking import unicity
from fl.leakage.tracks import Whereabouts
from netsim.clock import DAY_S
from netsim.rng import Streams
from netsim.trace_files.read import read_trace
from scenarios.app.results.statistics import wilson

pytestmark = pytest.mark.slow

HOUR_S = 3600.0
SIDES_M = (500.0, 2500.0)


def hourly(ue: np.ndarray, number: np.ndarray, place_m: np.ndarray, least: int) -> Whereabouts:
    """Mean places by UE and hour, of UEs with at least so many."""
    (number, ue), row = np.unique(np.stack([number, ue]), axis=1, return_inverse=True)
    mean = np.stack(
        [np.bincount(row, place_m[:, axis]) / np.bincount(row) for axis in (0, 1)], axis=1
    )
    often = np.bincount(ue)[ue] >= least
    return Whereabouts(number[often], np.unique(ue[often], return_inverse=True)[1], mean[often])


def taxi_days(data: Path) -> Whereabouts:
    """Of four taxis, on one clock from 8 to 20 h, the days with places in ten hours or more."""
    trace = read_trace(data / "mobility_cabspotting_sf.csv.gz", timezone="America/Los_Angeles")
    hour = (trace.time_s % DAY_S // HOUR_S).astype(np.int64)
    some = (hour >= 8) & (hour < 20)
    ue = trace.user * 1000 + (trace.time_s // DAY_S).astype(np.int64)
    return hourly(ue[some], hour[some], trace.position_m[some], 10)


def check_ins(data: Path, name: str) -> Whereabouts:
    """Of users with four hours or more."""
    trace = read_trace(data / f"checkins_gowalla_{name}.csv.gz", timezone="UTC")
    return hourly(trace.user, (trace.time_s // HOUR_S).astype(np.int64), trace.position_m, 4)


def first(x: Whereabouts, ues: int) -> Whereabouts:
    some = x.ue < ues
    return Whereabouts(x.round[some], x.ue[some], x.place_m[some])


def told(name: str, x: Whereabouts) -> pd.DataFrame:
    """Prints rows of the table: percent for 1 to 4 points, and an interval of the last as if each
    UE were one draw."""
    table = pd.DataFrame(unicity(x, Streams(3).at("names")))
    for side_m in SIDES_M:
        mine = table[table.resolution_m == side_m].set_index("points")
        _, low, high = wilson(
            math.ceil(mine.unique_percent[4] / 100 * mine.ues[4]), int(mine.ues[4])
        )
        cells = " | ".join(f"{mine.unique_percent[p]:.0f}" for p in (1, 2, 3, 4))
        print(f"| {name} | {x.ue.max() + 1} | {side_m:g} | {cells} | {low:.0f} to {high:.0f} |")
    return table.pivot(index="points", columns="resolution_m", values="unique_percent")


def test_few_hourly_points_of_taxi_days_are_unique(data_folder: Path) -> None:
    """In squares of 2.5 km shares depend on where the squares lie."""
    x = taxi_days(data_folder)
    table = told("taxi-days", x)
    assert x.ue.max() + 1 == 68
    np.testing.assert_allclose(table[500.0][:4], [57, 99, 100, 100], atol=6)
    np.testing.assert_allclose(table[2500.0][:4], [6, 42, 81, 97], atol=16)


@pytest.mark.parametrize("name", ["austin", "nyc_midtown"])
def test_four_check_ins_single_nearly_everybody_out(name: str, data_folder: Path) -> None:
    table = told(f"check-ins, {name}", check_ins(data_folder, name))
    assert table[500.0][4] > 90
    assert table[2500.0][4] < table[500.0][4] + 1
    assert (table.diff().dropna() > -1).all().all()


def test_unicity_falls_with_the_number_of_people(data_folder: Path) -> None:
    x = check_ins(data_folder, "nyc_midtown")
    found = []
    for ues in (100, 400, int(x.ue.max()) + 1):
        found.append(told("check-ins, nyc_midtown", first(x, ues))[2500.0][2])
    assert found[0] > found[1] > found[2]
