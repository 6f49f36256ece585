"""The table `coverage` of runs with learning: the radio on a grid, and the map that was learnt of it."""

import numpy as np
import pytest

from fl.round import final
from netsim.build import build_world
from netsim.rng import Streams
from scenarios.app.results.folder import read_table
from scenarios.app.run import simulate
from scenarios.app.run.play import coverage_grid
from scenarios.app.run.runner import run


@pytest.fixture
def played(tiny, tmp_path, monkeypatch):
    """Play a study: its table, and its final state and setup."""
    kept = {}

    def keep(setup, state, place_m):
        kept.update(setup=setup, state=state)
        return final.learnt_map(setup, state, place_m)

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
