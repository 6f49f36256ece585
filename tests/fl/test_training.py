"""Local training: its blocks, broken data, dropout, the learner around it, and updates that
overflow."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from fl.learners import rsrp_net
from fl.learners.rsrp_net import RsrpNet
from fl.networks import mlp, sgd_regression
from fl.networks.mlp import Mlp
from fl.networks.sgd_regression import SgdSettings, train_regression
from fl.types import HeldOut, Local, Public
from netsim.geometry import Area
from netsim.rng import Streams
from scenarios.app.result import run
from scenarios.app.results.folder import read_table

RNG = Streams(2).at("learner.all", 5)
FEDAVG = SgdSettings(learning_rate=1e-2, batch_size=4, local_epochs=3, dropout=0.0)


def data_of(counts, model=0):
    """Local data with standard normal inputs."""
    ptr = np.cumsum([0, *counts])
    draw = np.random.default_rng(0)
    ue = np.arange(len(counts))
    x = draw.normal(size=(ptr[-1], 2))
    y = -9 + draw.normal(size=ptr[-1])
    return Local(ue, np.full(len(ue), model), ptr, x, y, np.zeros(ptr[-1]))


def weights(net):
    return np.random.default_rng(0).normal(size=(1, net.n_parameters)) / 2


def autograd(net, w, x, y):
    """Gradient (d,) of the mean squared error of one network on its samples."""
    leaf = torch.from_numpy(w)[None].requires_grad_(True)
    out = net.forward(leaf, torch.from_numpy(x)[None])[0][0]
    (gradient,) = torch.autograd.grad(((out - torch.from_numpy(y)) ** 2).mean(), leaf)
    return gradient[0].numpy()


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-13 * np.abs(expected).max())


@pytest.mark.parametrize(
    "how",
    [FEDAVG, SgdSettings(1e-2, 4, 2, 0.3), SgdSettings(1e-2, "all", 2, 0.3)],
    ids=["fedavg", "fedavg-dropout", "full-dropout"],
)
def test_a_device_with_broken_data_spoils_only_its_own_update(how):
    # unbounded: a padded slot could carry it over
    data = data_of((1, 30, 4, 66, 5))
    net = Mlp((2, 7, 1), "relu")
    whole = train_regression(net, weights(net), data, how, RNG).values
    for broken, ue in product((np.nan, np.inf, 1e300), (0, 3)):
        x = data.x.copy()
        x[data.ptr[ue]] = broken
        found = train_regression(net, weights(net), replace(data, x=x), how, RNG).values
        assert not np.isfinite(found[ue]).all()
        close(np.delete(found, ue, axis=0), np.delete(whole, ue, axis=0))


def test_dropout_masks_are_inverted():
    net = Mlp((2, 30, 20, 1), "relu")
    masks = sgd_regression._masks(
        net, SgdSettings(1e-2, "all", 1, 0.25), "dropout0.0", np.arange(500), 4, RNG
    )
    assert masks.shape == (500, 4, 50)
    for mask in (masks[:, :, :30], masks[:, :, 30:]):
        assert np.unique(mask).tolist() == [0.0, pytest.approx(4 / 3)]
        assert mask.mean() == pytest.approx(1, abs=5 * np.sqrt(1 / 3 / mask.size))


class TestLearner:
    public = Public(Area(100.0, -50.0, 2100.0, 1450.0), 2)

    def test_first_weights_are_glorot_uniform_with_zero_biases(self):
        model = RsrpNet(hidden=(256, 128)).init(self.public, RNG)
        layers = RsrpNet(hidden=(256, 128)).net.unpack(torch.from_numpy(model.parameters))
        for (w, b), (n_in, n_out) in zip(layers, ((2, 256), (256, 128), (128, 1)), strict=True):
            limit = np.sqrt(6 / (n_in + n_out))
            assert not b.any()
            assert w.abs().max() <= limit
            assert w.std().item() == pytest.approx(limit / np.sqrt(3), rel=0.1)
        assert not np.array_equal(model.parameters[0], model.parameters[1])

    def test_standardised_labels_are_the_same_law_in_other_units(self):
        """Predictions of a standardised learner are mean + std * F, and its update is that of
        scaled labels."""
        learner = RsrpNet(hidden=(4,), labels="standardised", learning_rate=1e-2)
        model = learner.init(self.public, RNG)
        data = data_of([6], model=1)
        centre, scale = (c[1] for c in learner.standardisation(model))
        x_m = centre + scale * data.x
        y_dbm = -95 + 9 * data.y
        found = learner.local(model, "all", replace(data, x=x_m, y=y_dbm), RNG).rows(slice(None))
        expected = -1e-2 * autograd(learner.net, model.parameters[1], data.x, data.y)
        np.testing.assert_allclose(found[0], expected, rtol=1e-9, atol=1e-12)
        zero = np.zeros(6, dtype=np.int64)
        held = HeldOut(zero, zero + 1, x_m, y_dbm, zero)
        out = learner.net.forward(
            torch.from_numpy(model.parameters[1:]), torch.from_numpy(data.x)[None]
        )[0]
        rmse = np.sqrt(np.mean((9 * (out[0].numpy() - data.y)) ** 2))
        assert learner.evaluate(model, held)["rmse_db"] == pytest.approx(rmse, rel=1e-9)


class TestOverflow:
    def test_an_overflowing_device_stays_non_finite_and_alone(self):
        """`relu` with a huge step: one device with wild labels overflows, its quiet neighbour does
        not."""
        net = Mlp((2, 6, 1), "relu")
        data = data_of([20, 20])
        y = np.where(data.row_of_sample == 0, 1e150, 0.0)
        quiet = np.zeros((1, net.n_parameters))
        how = SgdSettings(10.0, 1, 40, 0.0)
        found = train_regression(net, quiet, replace(data, y=y), how, RNG)
        assert not np.isfinite(found.norm()[0])
        assert not np.isfinite(found.values[0]).all()
        assert not found.values[1].any()

    @pytest.mark.parametrize("server", ["synchronous", "fedbuff", "fedasync"])
    def test_an_update_that_overflowed_has_no_weight(self, tiny, tmp_path, monkeypatch, server):
        """The first UE always overflows: the others weigh as if it were not there, and nothing is
        said of it."""
        local = RsrpNet.local

        def wild(self, model, phase, data, rng):
            made = local(self, model, phase, data, rng)
            return made.with_values(
                made.rows(slice(None)) + np.where(made.ue == 0, np.inf, 0)[:, None], None
            )

        monkeypatch.setattr(RsrpNet, "local", wild)
        changes = {
            "learning.attacks": [
                {"kind": "closed-form"},
                {"kind": "dlg", "starts": 2, "iterations": 3},
            ]
        }
        changes["learning.server"] = {"kind": server} | (
            {"buffer": 4} if server == "fedbuff" else {}
        )
        if server != "synchronous":
            changes["world.radio.uplink"] = {"kind": "noma", "decoding": "error-free"}
            changes["world.radio.dynamic_uplink"] = {}
        summary = run(tiny(changes), tmp_path / "run")
        updates = read_table(tmp_path / "run", "updates")
        mine = updates["ue"] == 0
        there = updates["decoded"] == 1
        assert (
            summary["updates.non_finite"]
            == (mine & there).sum()
            > 0
            == updates["weight"][mine].max()
        )
        estimates, rounds = (read_table(tmp_path / "run", name) for name in ("estimates", "rounds"))
        assert {
            one for one, ue in zip(estimates["status"], estimates["ue"], strict=True) if ue == 0
        } == {"no gradient"}
        assert (updates["sent_norm"][mine] == 0).all()
        assert np.isnan(updates["norm"][mine]).all()
        assert np.isfinite(rounds["rmse_db"][1:]).all()
        assert rounds["non_finite"].sum() == summary["updates.non_finite"]
        if server == "synchronous":
            for key in np.unique(updates["model"]):
                of = (updates["model"] == key) & there & (updates["round"] == 1)
                expected = np.where(mine, 0, updates["selected"])[of]
                np.testing.assert_allclose(updates["weight"][of], expected / max(expected.sum(), 1))


def test_a_map_predicted_in_blocks_is_that_of_all_places_at_once(monkeypatch):
    learner = RsrpNet(profile="useful", hidden=(8,))
    model = learner.init(Public(Area(0.0, 0.0, 100.0, 100.0), 2), Streams(0).at("init"))
    place_m = np.random.default_rng(0).uniform(0, 100, (50, 2))
    of = np.arange(50) % 2
    once = learner.predict_dbm(model, of, place_m)
    gradient = learner.record_gradient_norms(model, of, place_m, of - 90.0)
    monkeypatch.setattr(rsrp_net, "_BLOCK", 7)
    monkeypatch.setattr(mlp, "_BLOCK", 3)
    np.testing.assert_allclose(learner.predict_dbm(model, of, place_m), once, rtol=1e-12)
    np.testing.assert_allclose(
        learner.record_gradient_norms(model, of, place_m, of - 90.0), gradient, rtol=1e-12
    )
    assert len(learner.predict_dbm(model, of[:0], place_m[:0])) == 0
