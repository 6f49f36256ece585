"""Errors of reported positions: their law, whose they are, and that nothing but reports has
them."""

import numpy as np
from noticed import lines
from numpy.testing import assert_array_equal
from pytest import approx, raises
from refused import catch_line
from rows import read_yaml

from netsim.errors import BadInput
from netsim.mobility.replay import Replay
from netsim.rng import Streams
from netsim.world.build import build_world
from scenarios.app.result import run
from scenarios.app.results.folder import read_record_table

N = 20_000


def build_error_world(tiny, changes):
    return build_world(tiny(changes).world, Streams(1), 60.0)


def test_errors_are_isotropic_and_belong_to_a_fix(tiny):
    world = build_error_world(tiny, {"world.ues.position_error_m": 7.0})
    ue = np.zeros(N, dtype=np.int64)
    time_s = np.arange(N) * 0.5
    at_m = np.full((N, 2), 50.0)
    error_m = world.draw_reported_m(ue, time_s, at_m) - at_m
    assert np.abs(np.cov(error_m.T) / 49.0 - np.eye(2)).max() < 0.05
    assert np.abs(error_m.mean(axis=0)).max() < 0.2
    assert np.mean(np.hypot(*error_m.T) <= 1.51 * 7.0) == approx(0.68, abs=0.01)
    again_m = world.draw_reported_m(ue[:9], time_s[9:18], at_m[:9])
    assert_array_equal(again_m - at_m[:9], error_m[9:18])
    assert not np.isin(world.draw_reported_m(ue + 1, time_s, at_m), at_m + error_m).any()


def write_trace(tmp_path, accuracies):
    rows = "".join(f"{60 * k},{'ab'[k % 2]},{10 + k},{k},{r}\n" for k, r in enumerate(accuracies))
    (tmp_path / "t.csv").write_text(f"time_s,user,x_m,y_m,accuracy_m\n{rows}")
    return {"kind": "replay", "trace": str(tmp_path / "t.csv"), "users": "id"}


def test_recorded_errors_are_those_of_their_rows(tiny, tmp_path):
    radii_m = [0.0, 30.0, 3000.0, "", 60.0, 15.1]
    replay = write_trace(tmp_path, radii_m)
    trace = Replay(**replay).load(60.0)
    assert "accuracy: 1 row without one: the median, 30 m, stands in" in lines(trace.notices)
    assert "accuracy_m: used only with world.ues.position_error_m: recorded" in lines(trace.notices)
    expected = {("ab"[k % 2], 60.0 * k): 30.0 if r == "" else r for k, r in enumerate(radii_m)}
    names = [trace.users[u] for u in trace.user]
    std_m = trace.look_up_error_m(trace.user, trace.time_s)
    for name, time_s, std in zip(names, trace.time_s, std_m, strict=True):
        assert std == approx(expected[name, time_s] / np.sqrt(-2 * np.log(0.32)))
    ues = {"mobility": replay, "position_error_m": "recorded"}
    changes = {"world.ues": ues, "world.city": {"kind": "open-field"}}
    world = build_error_world(tiny, changes)
    reported_m = world.draw_reported_m(trace.user, trace.time_s, trace.position_m)
    moved_m = np.hypot(*(reported_m - trace.position_m).T)
    assert moved_m[std_m == 0].tolist() == [0.0]
    assert moved_m[std_m > 1000] > 100
    with raises(BadInput, match="no trace with rows of accuracy_m"):
        build_error_world(tiny, changes | {"world.ues.mobility.resample_s": 30.0})


def test_only_reports_have_errors(tiny, tmp_path):
    """True centroids, tracks and links are those without; the map is not."""
    exact = run(tiny({"world.ues.position_error_m": 0.0}), tmp_path / "exact")
    off = run(tiny({"world.ues.position_error_m": 40.0}), tmp_path / "off")
    for name in ("updates", "tracks", "links"):
        expected = read_record_table(tmp_path / "exact", name)
        table = read_record_table(tmp_path / "off", name)
        assert_array_equal(table["x_m"], expected["x_m"])
        if name == "updates":
            assert_array_equal(table["samples"], expected["samples"])
    assert exact["utility.rmse_db"] != off["utility.rmse_db"]


def test_errors_without_reports_are_refused(tiny):
    radio = read_yaml(
        "learning: null, world.radio.measurement_noise_db: 0, world.ues.position_error_m: 5.0"
    )
    assert "no UE reports where it is" in catch_line(tiny, radio)
    density = read_yaml(
        "learning.data: {kind: positions}, world.ues.position_error_m: 5.0, learning.attacks: [], "
        "learning.learner: {kind: density, grid: [4, 4], bandwidth_m: 50}"
    )
    assert "data of kind positions has none" in catch_line(tiny, density)
