"""One model of several cells: which samples it learns from."""

import numpy as np
import pytest

from fl.data.measured import Measured
from netsim.rng import Streams
from netsim.ues import Observations
from scenarios.app.results.folder import read_table

RNG = Streams(2).at("learner.init")
CELL = np.zeros(2, dtype=np.int64)


def test_measured_takes_the_strongest_signal_of_a_moment():
    two = Observations(
        np.array([0, 0, 0, 1]), np.array([1.0, 1.0, 2.0, 1.0]), np.arange(8.0).reshape(4, 2),
        np.array([0, 1, 1, 0]), np.array([-90.0, -80.0, -100.0, -70.0]),
    )  # fmt: skip
    part = Measured(cell="strongest", hold_out=0.0)
    models = part.models(("a", "b"), None)
    assert models == ("strongest",) and part.model_of_cell(("a", "b"), models).tolist() == [0, 0]
    assert part.named_cell is None
    taken, _ = part.take(two, CELL, part.start(2, RNG), RNG)
    assert taken.train.y.tolist() == [-80.0, -100.0, -70.0] and taken.train.count.tolist() == [2, 1]
    assert taken.train.cell.tolist() == [1, 1, 0] and taken.measured.y.tolist() == taken.train.y.tolist()


class TestRuns:
    learner = {"kind": "rsrp-net", "hidden": [6, 4], "activation": "tanh"}

    @pytest.mark.parametrize(
        "data", [{"kind": "measured", "cell": "strongest"}, {"kind": "measured", "cell": "strongest", "memory": "all"},
                 {"kind": "segments"}],
    )  # fmt: skip
    def test_one_model_of_all_cells(self, data, tiny, tmp_path):
        from scenarios.app.run.runner import run

        changes = {"learning.learner": self.learner, "learning.data": data, "world.ues.measure": "all"}
        summary = run(tiny(changes), tmp_path / "run")
        assert summary["rounds.played"] == 2 and np.isfinite(summary["utility.rmse_db"])
        tested = read_table(tmp_path / "run", "leakage")
        assert len(tested["error_m"]) and np.isfinite(tested["error_m"]).any()
