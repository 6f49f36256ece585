"""Clipped gradients of single samples: against gradients formed one by one, and what one record can then do."""

import numpy as np
import pytest
import torch

from fl.defenses.gaussian import Gaussian
from fl.learners.rsrp_net import RsrpNet
from fl.learning import Learning
from fl.networks.mlp import Mlp
from fl.networks.sgd_regression import SgdSettings, train_regression
from fl.types import Local, Public, RoundContext
from netsim.geometry import Area
from netsim.rng import Streams

RNG = Streams(5).at("learner.all", 1)
PUBLIC = Public(Area(0.0, 0.0, 100.0, 80.0), 2)
NETS = [Mlp((2, 7, 4, 1), "relu"), Mlp((2, 6, 1), "elu"), Mlp((2, 5, 5, 5, 1), "tanh"), Mlp((2, 8, 1), "sigmoid")]


def data_of(counts, seed=0, scale=1.0):
    draw = np.random.default_rng(seed)
    n = sum(counts)
    ptr = np.concatenate([[0], np.cumsum(counts)])
    model = np.arange(len(counts)) % 2
    return Local(
        np.arange(len(counts)), model, ptr, draw.normal(size=(n, 2)) * scale, draw.normal(size=n) * 9, np.zeros(n)
    )


def start_of(net, seed=1):
    return np.random.default_rng(seed).normal(size=(2, net.n_parameters))


def one_by_one(net, w, x, y):
    """The gradient of each sample's squared error (n, d), each by a graph of its own."""
    rows = []
    for x_i, y_i in zip(x, y, strict=True):
        leaf = torch.from_numpy(w)[None].requires_grad_(True)
        out = net.forward(leaf, torch.from_numpy(x_i)[None, None])[0][0, 0]
        rows.append(torch.autograd.grad((out - y_i) ** 2, leaf)[0][0].numpy())
    return np.array(rows)


def clipped_mean(gradients, clip):
    norm = np.linalg.norm(gradients, axis=1)
    return (gradients * np.minimum(1.0, clip / norm)[:, None]).mean(axis=0)


@pytest.mark.parametrize("net", NETS, ids=lambda n: n.activation)
@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_one_step_is_the_mean_of_gradients_clipped_one_by_one(net, quantile):
    data, start = data_of([9, 1, 30]), start_of(net)
    norms = [
        np.linalg.norm(one_by_one(net, start[m], data.x[a:b], data.y[a:b]), axis=1)
        for m, a, b in zip(data.model, data.ptr, data.ptr[1:], strict=False)
    ]
    clip = float(np.quantile(np.concatenate(norms), quantile))
    found = train_regression(net, start, data, SgdSettings(1e-2, "all", 1, 0.0, clip), RNG).values
    for i, (a, b) in enumerate(zip(data.ptr, data.ptr[1:], strict=False)):
        gradients = one_by_one(net, start[data.model[i]], data.x[a:b], data.y[a:b])
        np.testing.assert_allclose(found[i], -1e-2 * clipped_mean(gradients, clip), rtol=1e-9, atol=1e-12)


def test_several_mini_batches_with_a_short_last_one():
    net, how = NETS[0], SgdSettings(1e-2, 4, 2, 0.0, 3.0)
    data, start = data_of([10]), start_of(NETS[0])
    w = start[0].copy()
    for epoch in range(2):
        order = np.argsort(RNG.uniform(f"order{epoch}m", [0], (10,))[0], kind="stable")
        for first in range(0, 10, 4):
            batch = order[first : first + 4]
            w = w - 1e-2 * clipped_mean(one_by_one(net, w, data.x[batch], data.y[batch]), 3.0)
    np.testing.assert_allclose(
        train_regression(net, start, data, how, RNG).values[0], w - start[0], rtol=1e-9, atol=1e-12
    )


def test_a_sample_that_overflows_counts_as_zero():
    net, data, start = NETS[0], data_of([5]), start_of(NETS[0])
    data.y[2] = 1e300
    found = train_regression(net, start, data, SgdSettings(1e-2, "all", 1, 0.0, 2.0), RNG).values[0]
    gradients = one_by_one(net, start[0], data.x, data.y)
    gradients[2] = 0.0
    norm = np.maximum(np.linalg.norm(gradients, axis=1), 1e-300)
    expected = -1e-2 * (gradients * np.minimum(1.0, 2.0 / norm)[:, None]).mean(axis=0)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


class TestLearner:
    learner = RsrpNet(hidden=(6, 4), learning_rate=0.05, sample_clip=1.5)

    def local(self, data, learner=None):
        learner = self.learner if learner is None else learner
        return learner.local(learner.init(PUBLIC, RNG), "all", data, RNG)

    def data(self, counts, seed=0):
        data = data_of(counts, seed, 30.0)
        data.y[:] = data.y - 90.0
        return data

    def test_replacing_one_record_moves_an_update_by_the_sensitivity_at_most(self):
        data = self.data([8, 3])
        made = self.local(data)
        assert (made.bound.unit, made.bound.relation) == ("record", "replace")
        assert made.bound.sensitivity == pytest.approx(2 * 0.05 * 1.5 / 3)
        worst, draw = 0.0, np.random.default_rng(3)
        for record in (0, 5, 9):
            for _ in range(30):
                x, y = data.x.copy(), data.y.copy()
                x[record], y[record] = draw.normal(size=2) * 1e3, draw.choice([-1e4, 0.0, 1e4])
                other = self.local(Local(data.ue, data.model, data.ptr, x, y, data.time_s))
                apart = np.linalg.norm(other.values - made.values, axis=1)
                row = int(record >= 8)
                assert apart[1 - row] == 0 and apart[row] <= 2 * 0.05 * 1.5 / data.count[row] * (1 + 1e-12)
                worst = max(worst, apart[row] / made.bound.sensitivity)
        assert worst > 0.8  # the bound is nearly reached

    def test_noise_follows_without_a_clip_and_is_booked_for_a_record(self):
        Learning(round_s=60, learner=self.learner, defenses=(Gaussian(noise_multiplier=1.0),))
        data = self.data([8, 4])
        made = self.local(data)
        _, _, (spend,) = Gaussian(noise_multiplier=2.0).protect(
            made, data, RoundContext(1, 0.0, PUBLIC), Gaussian(noise_multiplier=2.0).start(0), RNG
        )
        assert spend.unit == "record" and spend.relation == "replace"
        np.testing.assert_allclose(spend.sensitivity / spend.std, 0.5)  # 1 / z

    @pytest.mark.parametrize(
        "other", [{"local_epochs": 2}, {"batch_size": 4}, {"standardise_by": "dataset"}, {"sample_clip": None}]
    )
    def test_no_bound_where_none_is_proven(self, other):
        learner = self.learner.model_copy(update=other)
        assert "bound" not in learner.offers and learner._record_bound(self.data([8])) is None
        with pytest.raises(ValueError, match="needs a bound"):
            Learning(round_s=60, learner=learner, defenses=(Gaussian(noise_multiplier=1.0),))
