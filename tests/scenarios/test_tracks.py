"""Tracks of runs with learning: where UEs truly were, without a trace of the recording in any other
record."""

import json
from pathlib import Path

import numpy as np
import pytest
from interrupted import run_in_two

from netsim import ues
from netsim.rng import Streams
from netsim.world.build import build_world
from scenarios.app.result import run
from scenarios.app.results.folder import read_table
from scenarios.app.run import play

WALK = str(Path(__file__).parents[2] / "scenarios" / "examples" / "walk.gpx")
TOWN = {"kind": "town", "width_m": 600, "height_m": 600}
MODELS = {
    "random-waypoint": {
        "world.ues.mobility": {"kind": "random-waypoint", "pause_s": [0, 40]},
        "world.tick_s": 1,
    },
    "gauss-markov": {"world.ues.mobility": {"kind": "gauss-markov"}},
    "static": {"world.ues.mobility": {"kind": "static"}},
    "manhattan": {
        "world.city": {"kind": "grid", "width_m": 400, "height_m": 300},
        "world.ues.mobility": {"kind": "manhattan"},
    },
    "resident": {
        "world.city": TOWN,
        "world.base_stations": {"kind": "hexagonal", "inter_site_m": 400},
        "world.ues.mobility": {"kind": "resident"},
        "world.tick_s": 60,
        "world.duration_s": 43_200,
        "world.ues.measurement_period_s": 300,
        "learning.round_s": 14_400,
    },
    "handover": {
        "world.ues.mobility": {"kind": "random-waypoint", "speed_m_s": [5, 15]},
        "world.radio.handover": {"hysteresis_db": 1, "time_to_trigger_s": 10},
        "world.duration_s": 400,
    },
}


@pytest.fixture(params=MODELS, scope="module")
def model(request, tiny, tmp_path_factory):
    """A study, and the folder of its run."""
    study = tiny(MODELS[request.param])
    folder = tmp_path_factory.mktemp("tracks") / "r"
    run(study, folder)
    return study, folder


def followed(folder):
    """Track of each UE from its rows: UE -> (times, positions)."""
    rows = read_table(folder, "tracks")
    position_m = np.column_stack([rows["x_m"], rows["y_m"]])
    return {
        int(ue): (rows["time_s"][rows["ue"] == ue], position_m[rows["ue"] == ue])
        for ue in np.unique(rows["ue"])
    }


TWO = pytest.mark.parametrize("model", ["random-waypoint", "resident"], indirect=True)


@TWO
def test_recording_changes_no_other_record(model, tmp_path, monkeypatch, table_bytes):
    study, folder = model
    monkeypatch.setattr(play, "follow_ues", lambda world: {"every_s": 1.0, "ues": 0})
    run(study, tmp_path / "r")
    with_tracks = table_bytes(folder)
    without = table_bytes(tmp_path / "r")
    assert with_tracks.pop("tracks.csv")
    assert with_tracks == without


def test_lines_between_rows_are_where_ues_were_at_every_look(model):
    study, folder = model
    manifest = json.loads((folder / "manifest.json").read_text())
    tracks = followed(folder)
    every_s = manifest["tracks"]["every_s"]
    assert every_s == study.world.tick_s
    assert manifest["tracks"]["ues"] == 4 == len(tracks)
    world = build_world(study.world, Streams(study.seed), study.round_s)
    for time_s in np.arange(0.0, world.duration_s + 1e-9, every_s):
        if time_s:
            world.env.run(until=time_s)
        at_m = world.position_m()
        for ue, (times, rows) in tracks.items():
            said = [np.interp(time_s, times, rows[:, k]) for k in (0, 1)]
            assert said == pytest.approx(at_m[ue], abs=1e-5), (ue, time_s)


def test_tracks_of_a_steady_walk_are_on_time(tiny, tmp_path):
    """At 2 m/s a UE is 2 t from where it was at time 0, until it turns; its row at time 0 is that
    of the world."""
    mobility = {"kind": "random-waypoint", "speed_m_s": [2, 2 + 1e-9], "pause_s": [0, 0]}
    study = tiny({"world.ues.mobility": mobility, "world.tick_s": 1, "world.duration_s": 60})
    run(study, tmp_path / "r")
    world = build_world(study.world, Streams(study.seed), study.round_s)
    straight = 0
    for ue, (times, rows) in followed(tmp_path / "r").items():
        assert times[0] == 0
        assert rows[0] == pytest.approx(world.state.position_m[ue], abs=1e-6)
        if world.state.arrive_s[ue] > 0:
            seconds = int(world.state.arrive_s[ue])
        else:
            seconds = 0
        way = world.state.target_m[ue] - rows[0]
        for k in range(1, min(seconds, 60)):
            said = [np.interp(k, times, rows[:, axis]) for axis in (0, 1)]
            assert said == pytest.approx(rows[0] + 2 * k * way / np.hypot(*way), abs=1e-5)
            straight += 1
        steps = np.hypot(*np.diff(rows, axis=0).T)
        assert (steps <= 2 * np.diff(times) + 1e-5).all()
        straight += int((np.abs(steps - 2 * np.diff(times)) < 1e-4).sum())
    assert straight > 100


@TWO
def test_an_interrupted_run_ends_in_the_same_bytes(model, tmp_path, table_bytes):
    study, folder = model
    run_in_two(study, tmp_path / "cut", lambda now: now.done == 1)
    assert table_bytes(tmp_path / "cut") == table_bytes(folder)


def test_a_round_without_data_loses_no_track_and_no_handover(tiny, tmp_path, table_bytes):
    late = MODELS["handover"] | {"world.ues.measurement_period_s": 150, "learning.round_s": 30}
    run(tiny(late), tmp_path / "whole")
    run_in_two(tiny(late), tmp_path / "cut", lambda now: now.done == 3)
    moves = read_table(tmp_path / "whole", "handovers")["time_s"]
    assert ((moves > 60) & (moves <= 90)).any()
    assert 3 not in read_table(tmp_path / "whole", "rounds")["round"]
    assert table_bytes(tmp_path / "cut") == table_bytes(tmp_path / "whole")


def test_many_rows_are_thinned_in_time_and_many_ues_in_number(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(ues, "MOST_ROWS", 12)
    monkeypatch.setattr(ues, "MOST_UES", 3)
    run(tiny(), tmp_path / "r")
    rows = read_table(tmp_path / "r", "tracks")
    assert json.loads((tmp_path / "r" / "manifest.json").read_text())["tracks"] == {
        "every_s": 40.0,
        "ues": 3,
    }
    assert set(rows["ue"]) == {0, 1, 2}
    assert set(rows["time_s"]) <= {0.0, 40.0, 80.0, 120.0}
    assert len(rows["ue"]) <= 12


def test_a_replayed_ue_stays_at_its_last_fix_and_its_absence_is_a_row(tiny, tmp_path):
    trace = tmp_path / "trace.csv"
    times = (0, 60, 120, 600, 700)
    fixes = [
        f"{1_700_000_000 + t},{u},{10 * t},{50 * k},-90,a"
        for k, u in enumerate("ab")
        for t in times
    ]
    trace.write_text("\n".join(["time_s,user,x_m,y_m,rsrp_dbm,cell", *fixes]))
    study = tiny(
        {
            "world.ues": {
                "mobility": {
                    "kind": "replay",
                    "trace": str(trace),
                    "absent_after_s": 200,
                    "users": "id",
                }
            },
            "world.city": {"kind": "open-field"},
            "world.base_stations": [],
            "world.duration_s": None,
            "world.radio": {},
            "learning.round_s": 86_400,
        }
    )
    run(study, tmp_path / "r")
    table = read_table(tmp_path / "r", "tracks")
    rows = {name: column[table["ue"] == 0] for name, column in table.items()}
    first_s = rows["time_s"][0]
    assert np.isfinite(rows["x_m"][0]) and rows["time_s"][0] > 0, (
        "nobody is there before the first fix"
    )
    gone = np.flatnonzero(np.isnan(rows["x_m"]))
    assert len(gone) == 1
    assert np.isnan(rows["indoor"][gone[0]])
    assert rows["time_s"][gone[0]] - first_s >= 320
    assert np.isfinite(rows["x_m"][gone[0] + 1])
