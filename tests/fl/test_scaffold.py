"""Learners whose UEs remember: state per UE, and SCAFFOLD."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from fl_values import read_table
from local_data import make_local
from numpy.testing import assert_allclose

from fl.learners.rsrp_net import RsrpNet
from fl.learners.scaffold import Scaffold
from fl.types import Public
from netsim.columns import ByKey
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Streams
from scenarios.app.result import run


class Counting(RsrpNet):
    """Updates of all ones times the number of times that their UE has trained."""

    def start_ues(self, n_ue):
        assert n_ue == 4
        return ByKey.empty(1)

    def train_with_state(self, model, phase, data, state, rng):
        updates = self.train_locally(model, phase, data, rng)
        trained = np.nan_to_num(state.look_up(data.row)).reshape(-1, 1) + 1.0
        values = trained * np.ones(updates.n_parameters)
        return replace(updates, values=values), state.overwrite_values(data.row, trained)


@pytest.fixture
def counting(monkeypatch):
    for name in ("start_ues", "train_with_state"):
        monkeypatch.setattr(RsrpNet, name, vars(Counting)[name])


def test_ues_remember_from_round_to_round_and_over_an_interruption(
    tiny, tmp_path, counting, check_resumed
):
    study = tiny({"world.duration_s": 240})
    folder = tmp_path / "counted"
    run(study, folder)
    updates = np.genfromtxt(folder / "updates.csv", delimiter=",", names=True, encoding=None)
    d = study.learning.learner.net.n_parameters
    times = updates["norm"] / np.sqrt(d)
    rounds = updates["round"].astype(int)
    assert set(times[rounds == 1].round(9)) == {1.0}
    assert times.max() == pytest.approx(4.0)
    check_resumed(study, 2)


# --- SCAFFOLD

AREA = Area(0.0, 0.0, 100.0, 100.0)
N_UE, N_ROUNDS = 5, 4


def build(**options):
    settings = {"arguments": {"hidden": [5]}, "labels": "standardised", "precision": 64}
    return Scaffold(module="perceptron", **settings | {"learning_rate": 0.05} | options)


@pytest.fixture
def data():
    rng = np.random.default_rng(3)
    counts = [4, 7, 3, 9, 5]
    x_m = rng.uniform(0, 100, (sum(counts), 2))
    return make_local(counts, x_m, -90 + rng.normal(size=len(x_m)) * 9 + x_m[:, 0] / 5)


def compute_gradient(learner, model, w, x_m, y_dbm):
    """The gradient of the mean squared error at parameters w (d,), by autograd of a plain module."""
    net = learner._net(model)
    module = net._build(0).double()
    pieces = torch.split(torch.from_numpy(w), net.sizes)
    parameters = dict(module.named_parameters())
    with torch.no_grad():
        for name, piece, shape in zip(net.names, pieces, net.shapes, strict=True):
            parameters[name].copy_(piece.view(shape))
    c = model.constants
    z = torch.from_numpy((x_m - c["centre_m"][0]) / c["scale_m"][0])
    target = torch.from_numpy((y_dbm - c["rsrp_mean_dbm"][0]) / c["rsrp_std_db"][0])
    loss = torch.nn.functional.mse_loss(module(z), target)
    gradients = torch.autograd.grad(loss, list(parameters.values()))
    return torch.cat([g.reshape(-1) for g in gradients]).numpy()


@pytest.mark.parametrize(("epochs", "size"), [(1, "all"), (3, "all"), (2, 3)])
@pytest.mark.parametrize("participation", [1.0, 0.6])
def test_rounds_are_those_of_the_papers_algorithm_in_a_loop(data, epochs, size, participation):
    learner = build(local_epochs=epochs, batch_size=size, participation=participation)
    streams = Streams(1)
    model = learner.init(Public(AREA, 1), streams.derive_rng("init"))
    w, c = model.parameters[0].copy(), np.zeros(model.parameters.shape[1])
    c_i = np.zeros((N_UE, len(w)))
    state = learner.start_ues(N_UE)
    eta = learner.learning_rate
    for number in range(N_ROUNDS):
        asked = np.random.default_rng(number).permutation(N_UE)[: round(participation * N_UE)]
        local = data.select(np.sort(asked))
        rng = streams.derive_rng("learner", number)
        updates, state = learner.train_with_state(model, "all", local, state, rng)
        weights = np.full(len(asked), 1.0 / len(asked))
        model = learner.step(model, "all", updates.sum_weighted(weights, 1))
        moved, changed = np.zeros_like(w), np.zeros_like(w)
        batch = [rng.draw_orders(f"order{e}m", local.row, local.count) for e in range(epochs)]
        for k, i in enumerate(local.ue):
            y, steps = w.copy(), 0
            first, end = local.ptr[k : k + 2]
            for e in range(epochs):
                whole = size == "all"
                order = np.arange(end - first) if whole else batch[e][first:end]
                for s in range(0, len(order), len(order) if whole else size):
                    use = first + order[s : s + (len(order) if whole else size)]
                    g = compute_gradient(learner, model, y, local.x[use], local.y[use])
                    y -= eta * (g + c - c_i[i])
                    steps += 1
            new = c_i[i] - c + (w - y) / (steps * eta)
            moved += (y - w) / len(asked)
            changed += (new - c_i[i]) / len(asked)
            c_i[i] = new
        w, c = w + moved, c + len(asked) / N_UE * changed
        assert_allclose(model.parameters[0], w, rtol=1e-9, atol=1e-12)
        assert_allclose(model.constants["control"][0], c, rtol=1e-9, atol=1e-10)
        assert_allclose(state.look_up(local.row), c_i[local.ue], rtol=1e-9, atol=1e-10)
        assert_allclose(c, c_i.mean(axis=0), atol=1e-10)  # of all UEs, as nothing is lost


def test_after_one_step_of_all_the_controls_are_the_gradients(data):
    learner = build()
    model = learner.init(Public(AREA, 1), Streams(1).derive_rng("init"))
    state = learner.start_ues(N_UE)
    for _ in range(2):
        before = model
        rng = Streams(1).derive_rng("learner")
        updates, state = learner.train_with_state(model, "all", data, state, rng)
        model = learner.step(model, "all", updates.sum_weighted(np.full(N_UE, 0.2), 1))
    gradients = [
        compute_gradient(learner, before, before.parameters[0], x_m, data.y[data.ptr[i] :][:n])
        for i, ((_, x_m), n) in enumerate(zip(data.list_samples(), data.count, strict=False))
    ]
    assert_allclose(state.value, gradients, rtol=1e-8, atol=1e-12)
    step = -learner.learning_rate * np.mean(gradients, axis=0)  # as FedSGD: corrections cancel
    assert_allclose(model.parameters - before.parameters, step[None], rtol=1e-7, atol=1e-12)


def test_a_ue_that_overflows_keeps_its_control(data):
    learner = build(learning_rate=10.0, local_epochs=200)
    model = learner.init(Public(AREA, 1), Streams(1).derive_rng("init"))
    with np.errstate(all="ignore"):
        updates, state = learner.train_with_state(
            model, "all", data, learner.start_ues(N_UE), Streams(1).derive_rng("learner")
        )
    broken = ~np.isfinite(updates.norm())
    assert broken.any()
    assert not state.value[broken].any()


STUDY = {
    "learning.learner": {"kind": "scaffold", "module": "perceptron", "arguments": {"hidden": [5]}},
    "learning.attacks": [],
    "world.duration_s": 240,
}


def test_a_run_resumes_to_the_same_bytes_and_a_clip_holds_whole_rows(tiny, tmp_path, check_resumed):
    study = tiny(STUDY | {"learning.defenses": [{"kind": "clip", "norm": 1e-3}]})
    run(study, tmp_path / "run")
    updates = read_table(tmp_path / "run", "updates")
    assert updates["norm"].min() > 1e-3
    assert updates.sent_norm.max() <= 1e-3
    check_resumed(study, 2)


AIR = {"world.radio.dynamic_uplink": {}}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (AIR | {"learning.server": {"kind": "fedbuff", "buffer": 2}}, "are no changes of a model"),
        (
            {"learning.server_optimiser": {"kind": "fedadam", "learning_rate": 0.1}},
            "are no differences of weights",
        ),
        ({"learning.participation": 0.5}, "give both the same"),
        ({"learning.learner.optimiser": {"kind": "momentum"}}, "take sgd, or learner torch"),
        ({"learning.attacks": [{"kind": "closed-form"}]}, "needs linear local steps"),
    ],
)
def test_what_does_not_fit_is_refused(tiny, changes, reason):
    with pytest.raises(BadInput, match=reason):
        tiny(deepcopy(STUDY) | changes)
