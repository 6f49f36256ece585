"""The table `coverage` of runs with learning: the map that was learnt of the radio."""

import numpy as np

from fl.round import final
from scenarios.app.results.folder import read_record_table
from scenarios.app.run import simulate


def test_what_was_learnt_is_the_largest_prediction_of_models_that_somebody_trained(
    play_tiny, out, monkeypatch
):
    kept = []

    def keep(setup, state, place_m):
        kept.append((setup.learning.learner, state))
        return final.predict_map(setup, state, place_m)

    monkeypatch.setattr(simulate, "predict_map", keep)
    play_tiny()
    table = read_record_table(out, "coverage")
    ((learner, state),) = kept
    place_m = np.column_stack([table["x_m"], table["y_m"]])
    trained = np.unique(state.reference.model)
    assert len(trained) == 2
    item = [learner.predict_dbm(state.model, np.full(len(place_m), m), place_m) for m in trained]
    np.testing.assert_allclose(table["learnt_dbm"], np.max(item, axis=0), rtol=1e-6)
