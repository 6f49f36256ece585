"""Local training: its blocks, broken data, dropout, the learner around it, and updates that
overflow."""

from dataclasses import replace
from itertools import product

import numpy as np
import torch
from local_data import make_local
from numpy.random import default_rng
from numpy.testing import assert_allclose
from pytest import approx, mark
from torch import from_numpy

from fl.learners import position_net
from fl.learners.rsrp_net import RsrpNet
from fl.networks import mlp
from fl.networks.mlp import Mlp
from fl.networks.sgd_regression import train_regression
from fl.optimisers import RegressionTraining
from fl.types import HeldOut, Public
from netsim.geometry import Area
from netsim.rng import Streams
from scenarios.app.result import run
from scenarios.app.results.folder import read_record_table

RNG = Streams(2).derive_rng("learner.all", 5)
OPTIONS = {"learning_rate": 1e-2, "batch_size": 4, "precision": 64}
FEDAVG = RegressionTraining(local_epochs=3, **OPTIONS)
DROPOUT = RegressionTraining(local_epochs=2, dropout=0.3, **OPTIONS)


def make_data(counts, model=0):
    """Local data with standard normal inputs."""
    draw = default_rng(0)
    n = sum(counts)
    x = draw.normal(size=(n, 2))
    return make_local(counts, x, -9 + draw.normal(size=n), model=model)


def weights(net):
    return default_rng(0).normal(size=(1, net.n_parameters)) / 2


def autograd(net, w, x, y):
    """Gradient (d,) of the mean squared error of one network on its samples."""
    leaf = from_numpy(w)[None].requires_grad_(True)
    out = net.forward(leaf, from_numpy(x)[None])[0][0]
    (gradient,) = torch.autograd.grad(((out - from_numpy(y)) ** 2).mean(), leaf)
    return gradient[0].numpy()


def close(values, expected):
    assert_allclose(values, expected, rtol=1e-10, atol=1e-13 * np.abs(expected).max())


@mark.parametrize(
    "settings",
    [FEDAVG, DROPOUT, DROPOUT.model_copy(update={"batch_size": "all"})],
    ids=["fedavg", "fedavg-dropout", "full-dropout"],
)
def test_a_device_with_broken_data_spoils_only_its_own_update(settings):
    # unbounded: a padded slot could carry it over
    data = make_data((1, 30, 4, 66, 5))
    net = Mlp((2, 7, 1), "relu")
    whole = train_regression(net, weights(net), data, settings, RNG)
    for broken, ue in product((np.nan, np.inf, 1e300), (0, 3)):
        x = data.x.copy()
        x[data.ptr[ue]] = broken
        updates = train_regression(net, weights(net), replace(data, x=x), settings, RNG)
        assert not np.isfinite(updates[ue]).all()
        close(np.delete(updates, ue, axis=0), np.delete(whole, ue, axis=0))


class TestLearner:
    public = Public(Area(100.0, -50.0, 2100.0, 1450.0), 2)

    def test_first_weights_are_glorot_uniform_with_zero_biases(self):
        model = RsrpNet(hidden=(256, 128)).init(self.public, RNG)
        layers = RsrpNet(hidden=(256, 128)).net.unpack(from_numpy(model.parameters))
        for (w, b), (n_in, n_out) in zip(layers, ((2, 256), (256, 128), (128, 1)), strict=True):
            limit = np.sqrt(6 / (n_in + n_out))
            assert not b.any()
            assert w.abs().max() <= limit
            assert w.std().item() == approx(limit / np.sqrt(3), rel=0.1)
        assert not np.array_equal(model.parameters[0], model.parameters[1])

    def test_standardised_labels_are_the_same_law_in_other_units(self):
        """Predictions of a standardised learner are mean + std * F, and its update is that of
        scaled labels."""
        learner = RsrpNet(hidden=(4,), labels="standardised", learning_rate=1e-2)
        model = learner.init(self.public, RNG)
        data = make_data([6], model=1)
        centre, scale = (c[1] for c in learner.standardisation(model))
        x_m = centre + scale * data.x
        y_dbm = -95 + 9 * data.y
        updates = learner.train_locally(model, "all", replace(data, x=x_m, y=y_dbm), RNG)
        w = model.parameters[1]
        expected = -1e-2 * autograd(learner.net, w, data.x, data.y)
        assert_allclose(updates.rows(slice(None))[0], expected, rtol=1e-9, atol=1e-12)
        zero = np.zeros(6, int)
        held = HeldOut(zero, zero + 1, x_m, y_dbm, zero)
        out = learner.net.forward(from_numpy(w)[None], from_numpy(data.x)[None])[0]
        rmse = 9 * np.sqrt(np.mean((out[0].numpy() - data.y) ** 2))
        assert learner.evaluate(model, held)["rmse_db"] == approx(rmse, rel=1e-9)


class TestOverflow:
    @mark.parametrize("server", ["synchronous", "fedbuff", "fedasync"])
    def test_an_update_that_overflowed_has_no_weight(self, tiny, tmp_path, monkeypatch, server):
        """The first UE always overflows: the others weigh as if it were not there, and nothing is
        said of it."""
        local = RsrpNet.train_locally

        def wild(self, model, phase, data, rng):
            updates = local(self, model, phase, data, rng)
            values = updates.rows(slice(None)) + np.where(updates.ue == 0, np.inf, 0)[:, None]
            return updates.with_values(values, None)

        monkeypatch.setattr(RsrpNet, "train_locally", wild)
        attacks = [{"kind": "closed-form"}, {"kind": "dlg", "starts": 2, "iterations": 3}]
        buffer = {"buffer": 4} if server == "fedbuff" else {}
        changes = {"learning.attacks": attacks, "learning.server": {"kind": server} | buffer}
        if server != "synchronous":
            changes["world.radio.uplink"] = {"kind": "noma", "decoding": "error-free"}
            changes["world.radio.dynamic_uplink"] = {}
        summary = run(tiny(changes), tmp_path / "run")
        updates, estimates, rounds = (
            read_record_table(tmp_path / "run", name) for name in ("updates", "estimates", "rounds")
        )
        is_wild = updates["ue"] == 0
        is_decoded = updates["decoded"] == 1
        n_wild = summary["updates.non_finite"]
        assert n_wild == (is_wild & is_decoded).sum() == rounds["non_finite"].sum() > 0
        assert updates["weight"][is_wild].max() == 0
        assert set(np.array(estimates["status"])[estimates["ue"] == 0]) == {"no gradient"}
        assert (updates["sent_norm"][is_wild] == 0).all()
        assert np.isnan(updates["norm"][is_wild]).all()
        assert np.isfinite(rounds["rmse_db"][1:]).all()
        if server == "synchronous":
            for key in np.unique(updates["model"]):
                rows = (updates["model"] == key) & is_decoded & (updates["round"] == 1)
                expected = np.where(is_wild, 0, updates["selected"])[rows]
                assert_allclose(updates["weight"][rows], expected / max(expected.sum(), 1))


def test_a_map_predicted_in_blocks_is_that_of_all_places_at_once(monkeypatch):
    learner = RsrpNet(profile="useful", hidden=(8,))
    model = learner.init(Public(Area(0.0, 0.0, 100.0, 100.0), 2), Streams(0).derive_rng("init"))
    place_m = default_rng(0).uniform(0, 100, (50, 2))
    model_of = np.arange(50) % 2

    def compute():
        norms = learner.compute_record_gradient_norms(model, model_of, place_m, model_of - 90.0)
        return learner.predict_dbm(model, model_of, place_m), norms

    once = compute()
    monkeypatch.setattr(position_net, "_BLOCK", 7)
    monkeypatch.setattr(mlp, "_BLOCK", 3)
    assert_allclose(compute(), once, rtol=1e-12)
    assert len(learner.predict_dbm(model, model_of[:0], place_m[:0])) == 0
