"""Tracks of runs with learning: where UEs truly were, without a trace of the recording in any other
record."""

import numpy as np
from conftest import build_study_world
from pytest import approx, fixture, mark

from netsim import ues
from scenarios.app.result import run
from scenarios.app.results.folder import read_json, read_record_table
from scenarios.app.run import play
from scenarios.app.study.load import parse_value

TOWN = {"kind": "town", "width_m": 600, "height_m": 600}
MODELS = {
    "random-waypoint": parse_value(
        "{world.ues.mobility: {kind: random-waypoint, pause_s: [0, 40]}, world.tick_s: 1}"
    ),
    "gauss-markov": {"world.ues.mobility": {"kind": "gauss-markov"}},
    "static": {"world.ues.mobility": {"kind": "static"}},
    "manhattan": parse_value(
        "{world.city: {kind: grid, width_m: 400, height_m: 300}, "
        "world.ues.mobility: {kind: manhattan}}"
    ),
    "resident": {
        "world.city": TOWN,
        "world.base_stations": {"kind": "hexagonal", "inter_site_m": 400},
        "world.ues.mobility": {"kind": "resident"},
        "world.tick_s": 60,
        "world.duration_s": 43_200,
        "world.ues.measurement_period_s": 300,
        "learning.round_s": 14_400,
    },
    "handover": parse_value(
        "{world.ues.mobility: {kind: random-waypoint, speed_m_s: [5, 15]}, "
        "world.radio.handover: {hysteresis_db: 1, time_to_trigger_s: 10}, "
        "world.duration_s: 400}"
    ),
}


@fixture(params=MODELS, scope="module")
def model(request, tiny, tmp_path_factory):
    """A study, and the folder of its run."""
    study = tiny(MODELS[request.param])
    folder = tmp_path_factory.mktemp("tracks") / "r"
    run(study, folder)
    return study, folder


def read_tracks(folder):
    """Track of each UE from its rows: UE -> (times, positions)."""
    rows = read_record_table(folder, "tracks")
    position_m = np.column_stack([rows["x_m"], rows["y_m"]])
    return {
        int(ue): (rows["time_s"][rows["ue"] == ue], position_m[rows["ue"] == ue])
        for ue in np.unique(rows["ue"])
    }


TWO = mark.parametrize("model", ["random-waypoint", "resident"], indirect=True)


@TWO
def test_recording_changes_no_other_record(model, out, monkeypatch, table_bytes):
    study, folder = model
    monkeypatch.setattr(play, "follow_ues", lambda world: {"every_s": 1.0, "ues": 0})
    run(study, out)
    with_tracks = table_bytes(folder)
    without = table_bytes(out)
    assert with_tracks.pop("tracks.csv")
    assert with_tracks == without


def test_lines_between_rows_are_where_ues_were_at_every_look(model):
    study, folder = model
    manifest = read_json(folder / "manifest.json")
    tracks = read_tracks(folder)
    every_s = manifest["tracks"]["every_s"]
    assert every_s == study.world.tick_s
    assert manifest["tracks"]["ues"] == 4 == len(tracks)
    world = build_study_world(study)
    for time_s in np.arange(0.0, world.duration_s + 1e-9, every_s):
        if time_s:
            world.env.run(until=time_s)
        at_m = world.locate_ues()
        for ue, (times, rows) in tracks.items():
            interpolated_m = [np.interp(time_s, times, rows[:, k]) for k in (0, 1)]
            assert interpolated_m == approx(at_m[ue], abs=1e-5), (ue, time_s)


def test_tracks_of_a_steady_walk_are_on_time(tiny, out):
    """At 2 m/s a UE is 2 t from where it was at time 0, until it turns; its row at time 0 is that
    of the world."""
    mobility = {"kind": "random-waypoint", "speed_m_s": [2, 2 + 1e-9], "pause_s": [0, 0]}
    study = tiny({"world.ues.mobility": mobility, "world.tick_s": 1, "world.duration_s": 60})
    run(study, out)
    world = build_study_world(study)
    straight = 0
    for ue, (times, rows) in read_tracks(out).items():
        assert times[0] == 0
        assert rows[0] == approx(world.state.position_m[ue], abs=1e-6)
        if world.state.arrive_s[ue] > 0:
            seconds = int(world.state.arrive_s[ue])
        else:
            seconds = 0
        way = world.state.target_m[ue] - rows[0]
        for k in range(1, min(seconds, 60)):
            interpolated_m = [np.interp(k, times, rows[:, axis]) for axis in (0, 1)]
            assert interpolated_m == approx(rows[0] + 2 * k * way / np.hypot(*way), abs=1e-5)
            straight += 1
        steps = np.hypot(*np.diff(rows, axis=0).T)
        assert (steps <= 2 * np.diff(times) + 1e-5).all()
        straight += int((np.abs(steps - 2 * np.diff(times)) < 1e-4).sum())
    assert straight > 100


def test_a_round_without_data_loses_no_track_and_no_handover(tiny, whole, check_resumed):
    late = MODELS["handover"] | {"world.ues.measurement_period_s": 150, "learning.round_s": 30}
    check_resumed(tiny(late), 3)
    moves = read_record_table(whole, "handovers")["time_s"]
    assert ((moves > 60) & (moves <= 90)).any()
    assert 3 not in read_record_table(whole, "rounds")["round"]


def test_many_rows_are_thinned_in_time_and_many_ues_in_number(play_tiny, out, monkeypatch):
    monkeypatch.setattr(ues, "MOST_ROWS", 12)
    monkeypatch.setattr(ues, "MOST_UES", 3)
    play_tiny()
    rows = read_record_table(out, "tracks")
    assert read_json(out / "manifest.json")["tracks"] == {
        "every_s": 40.0,
        "ues": 3,
    }
    assert set(rows["ue"]) == {0, 1, 2}
    assert set(rows["time_s"]) <= {0.0, 40.0, 80.0, 120.0}
    assert len(rows["ue"]) <= 12


def test_a_replayed_ue_stays_at_its_last_fix_and_its_absence_is_a_row(tiny, tmp_path, out):
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
    run(study, out)
    table = read_record_table(out, "tracks")
    rows = {name: column[table["ue"] == 0] for name, column in table.items()}
    first_s = rows["time_s"][0]
    assert np.isfinite(rows["x_m"][0]) and rows["time_s"][0] > 0, (
        "nobody is there before the first fix"
    )
    absent = np.flatnonzero(np.isnan(rows["x_m"]))
    assert len(absent) == 1
    assert np.isnan(rows["indoor"][absent[0]])
    assert rows["time_s"][absent[0]] - first_s >= 320
    assert np.isfinite(rows["x_m"][absent[0] + 1])
