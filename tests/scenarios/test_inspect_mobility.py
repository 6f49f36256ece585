"""`netsim inspect --mobility`: one table for a trace and for a scenario, one line for what has no statistics."""

import csv

import numpy as np
import pytest

from scenarios.app.cli.commands import main

RESIDENTS = """
title: residents
seed: 1
world:
  duration_s: 1209600
  city: {kind: town, width_m: 500, height_m: 500}
  base_stations: [{name: a, position_m: [250, 250]}]
  ues: {count: 4, mobility: {kind: resident}, measurement_period_s: 3600}
learning:
  round_s: 86400
  learner: {kind: rsrp-net, hidden: [4]}
"""


def rows_of(text):
    """Title -> median."""
    lines = text.splitlines()[4:]
    return {line[:30].strip(): line[30:].split()[0] for line in lines}


@pytest.fixture
def commuter(tmp_path):
    """A CSV of four weeks, every half an hour: home, and work in office hours on weekdays."""
    path = tmp_path / "t.csv"
    with path.open("w", newline="") as f:
        out = csv.writer(f)
        out.writerow(["time_s", "user", "x_m", "y_m"])
        for k in range(28 * 48):
            hour, day = k / 2 % 24, k // 48
            at = (4000, 3000) if 9 <= hour < 17 and (day + 3) % 7 < 5 else (0, 0)  # day 0 is a Thursday
            out.writerow([1800 * k, "u", *at])
    return path


def test_a_trace(commuter, capsys):
    assert main(["inspect", str(commuter), "--mobility"]) == 0
    text = capsys.readouterr().out
    rows, share = rows_of(text), 40 / 168
    assert "1 with at least 24 known hours, of 1" in text and "squares of 250 m" in text
    assert rows["hours with a known place"] == "672"
    assert rows["distinct places S"] == "2"
    assert rows["time at the top place, %"] == f"{100 * (1 - share):.0f}"
    assert rows["time at the top two places, %"] == rows["regularity, %"] == "100"
    assert rows["Zipf exponent of visits"] == "-"
    assert rows["radius of gyration, m"] == f"{5000 * np.sqrt(share * (1 - share)):,.0f}"


@pytest.mark.slow
def test_a_scenario(tmp_path, capsys):
    path = tmp_path / "residents.yaml"
    path.write_text(RESIDENTS)
    tables = []
    day = ["--set", "world.duration_s=90000"]
    for options in ([], ["--cell-m", "0"], [*day, "--seed", "1"], [*day, "--seed", "2"], day):
        assert main(["inspect", str(path), "--mobility", *options]) == 0
        tables.append(capsys.readouterr().out)
    assert tables[4] == tables[2] != tables[3]
    rows = rows_of(tables[0])
    assert rows["hours with a known place"] == "336"
    assert 40 < float(rows["time at the top place, %"]) < 90
    buildings = rows_of(tables[1])
    assert int(buildings["distinct places S"]) > int(rows["distinct places S"])
    assert "4 with at least 24 known hours, of 4" in tables[4]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["town", "--mobility", "--cell-m", "0"], "commuter puts no UE into buildings"),
        (["town", "--mobility", "--cell-m", "-3"], "--cell-m -3: must be a number from 0 to"),
        (["town", "--mobility", "--cell-m", "nan"], "--cell-m nan: must be"),
        (["town", "--mobility", "--fill-h", "-1"], "--fill-h -1: must be"),
        (["town", "--mobility", "--set", "world.duration_s=3600"], "less than 24 h"),
        (["town", "--mobility", "--set", "world.duration_s=1e10"], "--set world.ues.count=7 or less"),
        (["nowhere", "--mobility"], "nowhere"),
        (["nowhere.yaml", "--mobility"], "nowhere.yaml"),
        (["TRACE", "--mobility", "--seed", "3"], "for scenarios"),
        (["TRACE", "--mobility", "--set", "a=3"], "for scenarios"),
    ],
)
def test_refused_in_one_line(options, words, commuter, capsys):
    assert main(["inspect", *(str(commuter) if o == "TRACE" else o for o in options)]) == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1 and "Traceback" not in err


def test_published_figures_of_a_recorded_life(data_folder, capsys):
    """GeoLife: filled for 12 h its user is at home half of the time and as predictable as the literature says."""
    assert main(["inspect", str(data_folder / "mobility_geolife_beijing.csv.gz"), "--mobility"]) == 0
    rows = rows_of(capsys.readouterr().out)
    assert int(rows["distinct places S"]) == pytest.approx(78, abs=3)
    assert float(rows["time at the top place, %"]) == pytest.approx(44, abs=2)
    assert float(rows["predictability, %"]) == pytest.approx(87, abs=2)
