"""One model of several cells: which samples it learns from, and inputs that tell cells apart."""

import numpy as np
import pytest

from fl.data.measured import Measured
from fl.learners.rsrp_net import RsrpNet
from fl.types import Local, Public
from netsim.geometry import Area
from netsim.rng import Streams
from netsim.ues import Observations
from scenarios.app.results.folder import read_table

PUBLIC = Public(Area(0.0, 0.0, 400.0, 300.0), 1, n_cell=3)
RNG = Streams(2).at("learner.init")
CELL = np.zeros(2, dtype=np.int64)
RECIPE = {"hidden": (6, 5), "activation": "tanh", "labels": "standardised", "learning_rate": 0.05}


def local(x, y, cell):
    nobody = np.zeros(1, dtype=np.int64)
    return Local(
        nobody, nobody, np.array([0, len(x)]), np.asarray(x, float), np.asarray(y, float), np.zeros(len(x)), cell
    )


def some(n, seed=1):
    draw = np.random.default_rng(seed)
    return local(draw.random((n, 2)) * [400, 300], -90 + draw.normal(size=n), draw.integers(0, 3, n))


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


class TestInputs:
    def test_weights_of_a_cell_move_by_the_deltas_of_its_samples(self):
        """The rows of the cells add up to the biases, each with the samples of its own."""
        part = RsrpNet(**RECIPE, cell_input="one-hot")
        model, data = part.init(PUBLIC, RNG), some(9)
        whole = part.local(model, "all", data, RNG).values
        first = whole[:, : 6 * (2 + 3 + 1)].reshape(1, 6, 6)
        np.testing.assert_allclose(first[:, 2:5].sum(axis=1), first[:, 5], rtol=1e-12)
        one = local(data.x[:1], data.y[:1], np.array([2]))
        first = part.local(model, "all", one, RNG).values[:, : 6 * 6].reshape(1, 6, 6)
        np.testing.assert_allclose(first[0, 4], first[0, 5], rtol=1e-12)
        assert not first[0, 2:4].any() and first[0, 4].any()

    def test_a_layer_has_only_rows_that_follow_from_the_place(self):
        part = RsrpNet(**RECIPE, cell_input="one-hot", encoding={"kind": "fourier", "frequencies": 4})
        model, data = part.init(PUBLIC, RNG), some(1)
        update = part.local(model, "all", data, RNG).values
        known = part.layer_input(model, 0, data.x, 1)
        d = part.layer(update, 1)
        assert d.shape == (1, 11, 6) and known.shape == (1, 11) and update.shape[1] == part.net.n_parameters + 3 * 6
        np.testing.assert_allclose(d[0], np.outer(known[0], d[0, -1]), atol=1e-15)
        dw, db = part.first_layer(update)
        z = (data.x - model.constants["centre_m"]) / model.constants["scale_m"]
        np.testing.assert_allclose(dw[0], np.outer(db[0], z[0]), atol=1e-15)
        assert part.layer(update, 2).shape == (1, 7, 5)
        with pytest.raises(ValueError, match="does not determine"):
            part.layer_input(model, 0, data.x, 2)


class TestRuns:
    learner = {"kind": "rsrp-net", "hidden": [6, 4], "activation": "tanh", "cell_input": "one-hot"}

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
