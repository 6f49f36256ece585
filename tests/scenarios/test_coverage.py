"""The table `coverage` of runs with learning: the radio on a grid, and the map that was learnt of it."""

import numpy as np
import pytest

from fl.round import learnt_map as learnt
from netsim.build import build_world
from netsim.rng import Streams
from scenarios.app.results.folder import read_table
from scenarios.app.run import simulate
from scenarios.app.run.records import coverage_grid
from scenarios.app.run.runner import run


@pytest.fixture
def played(tiny, tmp_path, monkeypatch):
    """Play a study: its table, and its final state and setup."""
    kept = {}

    def keep(setup, state, place_m):
        kept.update(setup=setup, state=state)
        return learnt.learnt_map(setup, state, place_m)

    monkeypatch.setattr(simulate, "learnt_map", keep)

    def play(changes=None):
        run(tiny(changes), tmp_path / "r")
        table = read_table(tmp_path / "r", "coverage")
        return table, np.column_stack([table["x_m"], table["y_m"]]), kept

    return play


def test_the_radio_is_that_of_the_world(played, tiny):
    table, place_m, _ = played()
    world = build_world(tiny().world, Streams(3), 60.0)
    np.testing.assert_allclose(place_m, coverage_grid(world), rtol=1e-8)
    links = world.budget.links(0.0, coverage_grid(world))
    np.testing.assert_allclose(table["rsrp_dbm"], links.rsrp_dbm.max(axis=1), rtol=1e-8)
    assert table["cell"].tolist() == ["ab"[k] for k in links.rsrp_dbm.argmax(axis=1)]
    assert set(table["los"]) <= {0.0, 1.0} and np.isfinite(table["sinr_db"]).all()


def test_what_was_learnt_is_the_largest_prediction_of_models_that_somebody_trained(played):
    table, place_m, kept = played()
    learner, state = kept["setup"].learning.learner, kept["state"]
    trained = np.unique(state.reference.model)
    assert len(trained) == 2
    each = [learner.predict_dbm(state.model, np.full(len(place_m), m), place_m) for m in trained]
    np.testing.assert_allclose(table["learnt_dbm"], np.max(each, axis=0), rtol=1e-6)


def test_a_model_without_samples_says_nothing(played):
    far = [{"name": "a", "at_m": [100, 100], "power_dbm": 40}, {"name": "b", "at_m": [300, 200], "power_dbm": -30}]
    table, place_m, kept = played({"world.base_stations": far})
    learner, state = kept["setup"].learning.learner, kept["state"]
    assert np.unique(state.reference.model).tolist() == [0]
    np.testing.assert_allclose(
        table["learnt_dbm"], learner.predict_dbm(state.model, np.zeros(len(place_m), int), place_m), rtol=1e-6
    )


def test_inputs_of_cells_are_those_of_cells_that_somebody_measured(played):
    shared = {"learning.data": {"kind": "measured", "cell": "strongest"}, "learning.learner.cell_input": "one-hot"}
    table, place_m, kept = played(shared)
    learner, state = kept["setup"].learning.learner, kept["state"]
    zero = np.zeros(len(place_m), dtype=int)
    each = [learner.predict_dbm(state.model, zero, place_m, zero + c) for c in np.unique(state.reference.cell)]
    assert len(each) == 2
    np.testing.assert_allclose(table["learnt_dbm"], np.max(each, axis=0), rtol=1e-6)


def test_a_trace_that_replaces_the_radio_leaves_the_learnt_map_alone(played, tmp_path):
    trace = tmp_path / "trace.csv"
    lines = ["time_s,user,x_m,y_m,rsrp_dbm,cell"]
    lines += [f"{1_700_000_000 + 60 * t},{u},{10 * t},{5 * t},{-80 - t},a" for u in "pq" for t in range(20)]
    trace.write_text("\n".join(lines))
    table, place_m, _ = played(
        {
            "world.ues": {"mobility": {"kind": "replay", "trace": str(trace), "users": "id"}},
            "world.city": {"kind": "open-field"}, "world.duration_s": None, "world.radio": {},
            "learning.round_s": 86_400,
        }
    )  # fmt: skip
    assert len(place_m) > 1000 and np.isfinite(table["learnt_dbm"]).all()
    assert set(table["cell"]) == {""} and np.isnan(table["rsrp_dbm"]).all() and np.isnan(table["los"]).all()


def test_a_task_without_signals_has_the_radio_alone(played):
    density = {
        "learning.learner": {"kind": "density", "bandwidth_m": 50},
        "learning.data": {"kind": "positions"},
        "learning.attacks": [],
    }
    table, place_m, _ = played(density)
    assert len(place_m) == 7500 and np.isnan(table["learnt_dbm"]).all() and np.isfinite(table["rsrp_dbm"]).all()


def test_azimuths_of_sectors_stand_in_the_map(tiny, tmp_path):
    layout = {"kind": "hexagonal", "inter_site_m": 300, "sectors": 3}
    run(tiny({"world.base_stations": layout}), tmp_path / "r")
    with np.load(tmp_path / "r" / "map.npz") as arrays:
        assert len(arrays["station_azimuth_deg"]) == len(arrays["station_m"])
        assert len(np.unique(arrays["station_azimuth_deg"])) == 3
