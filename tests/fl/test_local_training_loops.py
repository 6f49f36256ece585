"""Compiled local training: against a slow loop of torch's autograd for each device, at both
precisions; what one record can do where gradients of single samples are clipped; optimisers by
their formulas, prior, and central training.
"""

from dataclasses import replace
from itertools import pairwise
from math import prod

import numpy as np
import pytest
import torch
from local_data import make_local
from numpy.linalg import norm
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx, mark
from torch.autograd import grad

from fl.defenses.gaussian import Gaussian
from fl.learners.rsrp_net import RsrpNet
from fl.learners.torch_net import TorchNet
from fl.networks.mlp import Mlp
from fl.networks.sgd_regression import train_regression
from fl.optimisers import Adam, Momentum, RegressionTraining, Sgd
from fl.round.learning import Learning
from fl.types import Public, RoundContext, SampleFormat
from netsim.columns import number_row
from netsim.geometry import Area
from netsim.rng import Streams
from netsim.workers import use_workers
from scenarios.app.result import run
from scenarios.app.results.folder import read_record_table

RNG = Streams(9).derive_rng("learner.all", 4)
COUNTS = (0, 1, 19, 20, 21, 150, 0, 41)
TORCH = {
    "relu": torch.relu,
    "elu": torch.nn.functional.elu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}
NO_UES = np.zeros(3, int)
OPTIMISERS = {
    "sgd": (Sgd(), lambda w: torch.optim.SGD(w, lr=0.02)),
    "momentum": (Momentum(momentum=0.8), lambda w: torch.optim.SGD(w, lr=0.02, momentum=0.8)),
    "adam": (Adam(epsilon=1e-3), lambda w: torch.optim.Adam(w, 0.02, eps=1e-3)),
}


def cohort(counts, inputs=5, seed=0):
    """Devices of two models with numbers that go down from UE to UE, so that rows are no owners."""
    g = default_rng(seed)
    n = sum(counts)
    k = np.arange(len(counts))
    return make_local(counts, g.normal(size=(n, inputs)), g.normal(size=n), k[::-1] * 3, k % 2)


def weights(net, seed=3):
    return default_rng(seed).normal(size=(2, net.n_parameters)) * 0.4


def split_layers(net, flat):
    """Leaves of torch of one network's parameters."""
    layers = []
    start = 0
    for a, b in pairwise(net.sizes):
        for shape in ((a, b), (b,)):
            end = start + prod(shape)
            layers.append(torch.tensor(flat[start:end]).reshape(shape).requires_grad_())
            start = end
    return layers


def gradient(loss, batch, masks, free, clip):
    """Of a batch: the mean of its samples' gradients, each cut to the clip; one that is not finite
    counts as 0."""
    if clip is None:
        return grad(loss(batch, masks), free)
    mean = [torch.zeros_like(p) for p in free]
    for s in range(len(batch)):
        mask = None if masks is None else [m[[s]] for m in masks]
        single = grad(loss(batch[[s]], mask), free)
        size = float(torch.sqrt(sum((g * g).sum() for g in single)))
        if np.isfinite(size):
            for total, g in zip(mean, single, strict=True):
                total += g * min(1.0, clip / size) / len(batch)
    return mean


def train_slowly(net, start, data, row, settings, make, rates=None):
    """One device by autograd, sample by sample where gradients are clipped, batches as the streams
    have them; rates: of each step, told.
    """
    samples = slice(data.ptr[row], data.ptr[row + 1])
    owner = [number_row(data.ue[row], data.model[row])]
    x = torch.tensor(data.x[samples])
    y = torch.tensor(data.y[samples])
    n = int(data.count[row])
    w = split_layers(net, start[data.model[row]])
    anchors = [p.detach().clone() for p in w]
    n_frozen = 2 * settings.frozen_layers
    free = w[n_frozen:]
    optimiser = make(free)
    size = n if settings.batch_size == "all" else settings.batch_size

    def loss(batch, masks):
        h = x[batch]
        *hidden, last = zip(w[::2], w[1::2], strict=True)
        for i, (weight, bias) in enumerate(hidden):
            h = TORCH[net.activation](h @ weight + bias)
            if masks is not None:
                h = h * masks[i]
        return (((h @ last[0] + last[1])[:, 0] - y[batch]) ** 2).mean()

    for epoch in range(settings.local_epochs):
        order = np.arange(n)
        if settings.batch_size != "all":
            order = np.argsort(RNG.uniform(f"order{epoch}m", owner, (n,))[0], kind="stable")
        for step, first in enumerate(range(0, n, size)):
            batch = order[first : first + size]
            masks = None
            if settings.dropout:
                masks = []
                for i, h in enumerate(net.sizes[1:-1]):
                    unit = RNG.uniform(f"dropout{epoch}.{step}.{i}", owner, (len(batch), h))[0]
                    kept = (unit >= settings.dropout) / (1 - settings.dropout)
                    masks.append(torch.tensor(kept))
            gradients = gradient(loss, batch, masks, free, settings.sample_clip)
            for p, g, anchor in zip(free, gradients, anchors[n_frozen:], strict=True):
                w_now = p.detach()
                p.grad = g + settings.proximal * (w_now - anchor) + settings.weight_decay * w_now
            if settings.step_limit == "polyak":
                squared = sum(float((p.grad**2).sum()) for p in free)
                longest = 3 * float(loss(batch, masks).detach()) / squared
                rates.append(min(settings.learning_rate, longest))
                for p in free:
                    p.grad *= rates[-1] / settings.learning_rate
            optimiser.step()
    return torch.cat([(p.detach() - q).flatten() for p, q in zip(w, anchors, strict=True)]).numpy()


def recipe(activation, optimiser="sgd", batch=20, epochs=2, dropout=0.0, **changes):
    part, make = OPTIMISERS[optimiser]
    keys = {"learning_rate": 0.02, "batch_size": batch, "local_epochs": epochs, "dropout": dropout}
    keys |= {"precision": 64, "optimiser": part, **changes}
    return activation, make, RegressionTraining(**keys)


RECIPES = [
    recipe("relu"),
    recipe("elu", "momentum", proximal=0.7),
    recipe("tanh", "adam", dropout=0.3, frozen_layers=1),
    recipe("sigmoid", batch=7, dropout=0.3, sample_clip=0.5),
    recipe(
        "elu", batch="all", epochs=3, dropout=0.3, sample_clip=0.5, proximal=0.7, frozen_layers=1
    ),
    recipe("tanh", "momentum", "all", 3, sample_clip=0.5, frozen_layers=2),
    recipe("tanh", batch=4, weight_decay=0.3),
    recipe("tanh", "momentum", 4, weight_decay=0.3, proximal=0.5),
    recipe("tanh", "adam", 4, weight_decay=0.3, proximal=0.5, frozen_layers=1),
]


@mark.parametrize("activation, make, settings", RECIPES)
def test_every_device_trains_as_autograd_does_alone(activation, make, settings):
    """Unequal devices, of which two have nothing."""
    net = Mlp((5, 9, 6, 1), activation)
    data = cohort(COUNTS)
    start = weights(net)
    n_frozen = net.n_parameters - Mlp(net.sizes[settings.frozen_layers :], activation).n_parameters
    for bits, low, high in ((64, 0.0, 1e-10), (32, 1e-12, 2e-4)):
        updates = train_regression(
            net, start, data, settings.model_copy(update={"precision": bits}), RNG
        )
        assert updates.dtype == np.float64
        assert not updates[[0, 6]].any()
        assert not updates[:, :n_frozen].any()
        for row in np.flatnonzero(data.count):
            expected = train_slowly(net, start, data, row, settings, make)
            error = norm(updates[row] - expected) / norm(expected)
            assert low <= error < high


@mark.parametrize("kind", ["sgd", "momentum"])
@mark.parametrize("batch", [4, "all"])
@mark.parametrize("proximal, frozen", [(0.0, 0), (0.5, 1)])
def test_polyaks_limit_is_that_of_its_formula(kind, batch, proximal, frozen):
    """min(learning rate, 3 l / |g|^2) with l the squared error of the batch, by autograd; some
    steps are shortened."""
    limits = {"proximal": proximal, "frozen_layers": frozen, "step_limit": "polyak"}
    _, make, settings = recipe("tanh", kind, batch, 3, **limits)
    net = Mlp((5, 7, 4, 1), "tanh")
    data = cohort([9, 1, 14, 4])
    rates = []
    start = 40 * weights(net)
    updates = train_regression(net, start, data, settings, RNG)
    for row in range(4):
        expected = train_slowly(net, start, data, row, settings, make, rates)
        assert_allclose(updates[row], expected, rtol=0, atol=1e-9)
    assert min(rates) < 0.02 or batch == "all"  # many places are seldom that steep
    loose = settings.model_copy(update={"learning_rate": 1e-9})
    free = loose.model_copy(update={"step_limit": "none"})
    # a step that needs no limit keeps its bits
    assert_array_equal(*(train_regression(net, start, data, x, RNG) for x in (loose, free)))


@mark.parametrize("bits", [32, 64])
def test_a_device_whose_steps_are_limited_learns_the_same_in_any_company(bits):
    net = Mlp((5, 100, 85, 1), "tanh")
    assert net.n_parameters > 8192
    data = cohort([9, 14, 4])
    start = 40 * weights(net)
    settings = recipe("tanh", "sgd", 4, 3, step_limit="polyak", precision=bits)[2]
    updates = train_regression(net, start, data, settings, RNG)
    free = settings.model_copy(update={"step_limit": "none"})
    assert (updates != train_regression(net, start, data, free, RNG)).any(axis=1).all()
    for row in range(3):
        alone = train_regression(net, start, data.select(np.array([row])), settings, RNG)
        assert_array_equal(alone[0], updates[row])


def test_the_largest_batch_may_be_one_of_fewer_steps():
    """3 of 10 samples take 4 steps, 4 of 11 take 3: the first device has not the largest batch."""
    net = Mlp((5, 9, 6, 1), "elu")
    data = cohort([10, 11])
    settings = recipe("elu", batch="all", batch_share=0.3)[2]
    start = weights(net)
    updates = train_regression(net, start, data, settings, RNG)
    for row in range(2):
        alone = train_regression(net, start, data.select(np.array([row])), settings, RNG)
        assert_array_equal(alone[0], updates[row])


def test_a_sample_that_overflows_counts_as_zero():
    _, make, settings = recipe("relu", batch="all", epochs=1, sample_clip=2.0)
    net = Mlp((5, 7, 4, 1), "relu")
    data = cohort([5])
    data.y[2] = 1e300
    start = weights(net)
    update = train_regression(net, start, data, settings, RNG)[0]
    expected = train_slowly(net, start, data, 0, settings, make)
    assert_allclose(update, expected, rtol=1e-9, atol=1e-12)


@mark.parametrize(
    "changes",
    [
        {"precision": 32, "dropout": 0.3},
        {"precision": 32, "dropout": 0.3, "batch": "all", "batch_share": 0.3},
        {"precision": 64, "step_limit": "polyak"},
    ],
)
def test_thousands_of_devices_train_as_each_alone(changes):
    """Whatever shares their blocks, and on one to three threads."""
    net = Mlp((5, 9, 6, 1), "elu")
    counts = default_rng(1).integers(0, 45, 3000)
    data = cohort(counts.tolist())
    settings = recipe("elu", **changes)[2]
    start = 3 * weights(net)
    updates = train_regression(net, start, data, settings, RNG)
    for count in (2, 3):
        with use_workers(count):
            assert_array_equal(train_regression(net, start, data, settings, RNG), updates)
    assert_array_equal(updates.any(axis=1), counts > 0)
    for count in (20, 21, 1):
        for row in np.flatnonzero(counts == count)[:2]:
            alone = train_regression(net, start, data.select(np.array([row])), settings, RNG)
            assert_array_equal(updates[row], alone[0])


class TestSetting:
    bounded = {"sample_clip": 1.0, "batch_size": "all", "local_epochs": 1}

    def test_a_bound_of_a_record_is_refused_at_32_bits(self):
        with pytest.raises(ValueError, match=r"precision: at 32 bits .*; take precision: 64"):
            RsrpNet(precision=32, **self.bounded)
        assert "record bound" in RsrpNet(precision=64, **self.bounded).offers
        assert RsrpNet(precision=32, **self.bounded | {"local_epochs": 2}).sample_clip == 1.0

    def test_images_at_both_precisions(self):
        g = default_rng(0)
        pixels = g.integers(0, 256, (30, 256), np.uint8)
        data = make_local([12, 18], pixels, g.integers(0, 3, 30).astype(float))
        public = Public(Area(0, 0, 1, 1), 1, samples=SampleFormat((1, 16, 16), 3, 255.0))
        updates = []
        for bits in (32, 64):
            learner = TorchNet(module="cnn", precision=bits, device="cpu", batch_share=0.3)
            update = learner.train_locally(learner.init(public, RNG), "all", data, RNG).values
            assert update.dtype == np.float64
            updates.append(update)
        single, double = updates
        apart = norm(single - double, axis=1) / norm(double, axis=1)
        assert 1e-9 < apart.min() <= apart.max() < 1e-3

    def test_a_run_at_32_bits_scores_as_one_at_64(self, tiny, tmp_path):
        """Half of the UEs a round, one model for each cell; what else a round does has 64 bits in
        both."""
        learner = {"kind": "rsrp-net", "profile": "useful", "hidden": [16, 8]}
        errors = []
        for bits in (64, 32):
            changes = {"learning.learner": learner | {"precision": bits}}
            folder = tmp_path / str(bits)
            run(tiny(changes | {"learning.participation": 0.5}), folder)
            errors.append(read_record_table(folder, "rounds")["rmse_db"])
        double, single = errors
        assert np.isfinite(double).all()
        assert (double != single).any()
        assert_allclose(single, double, rtol=1e-4)


class TestRecordBound:
    """Of clipped gradients of single samples."""

    public = Public(Area(0.0, 0.0, 100.0, 80.0), 2)
    learner = RsrpNet(hidden=(6, 4), learning_rate=0.05, sample_clip=1.5)

    def local(self, data, learner=learner):
        return learner.train_locally(learner.init(self.public, RNG), "all", data, RNG)

    def data(self, counts, seed=0):
        data = cohort(counts, 2, seed)
        return replace(data, x=30 * data.x, y=9 * data.y - 90.0)

    @mark.parametrize("frozen, nearly, rate", [(0, 0.8, 0.05), (1, 0.3, 0.05), (0, 0.03, 1e-16)])
    def test_replacing_one_record_moves_an_update_by_the_sensitivity_at_most(
        self, frozen, nearly, rate
    ):
        """The clip is of the gradient in trained layers. Weights round by more than a small step
        lets a record add."""
        changes = {"frozen_layers": frozen, "learning_rate": rate}
        learner = self.learner.model_copy(update=changes)
        data = self.data([8, 3])
        updates = self.local(data, learner)
        bound = updates.bound
        assert (bound.unit, bound.relation) == ("record", "replace")
        assert bound.sensitivity == approx(2 * rate * 1.5 / 3, rel=1e-9, abs=1e-14)
        shares = []
        draw = default_rng(3)
        for record in np.repeat([0, 5, 9], 30):
            x = data.x.copy()
            y = data.y.copy()
            x[record] = draw.normal(size=2) * 1e3
            y[record] = draw.choice([-1e4, 0.0, 1e4])
            moved = self.local(replace(data, x=x, y=y), learner).values - updates.values
            apart = norm(moved, axis=1)
            row = int(record >= 8)
            assert apart[1 - row] == 0
            assert apart[row] <= 2 * rate * 1.5 / data.count[row] * (1 + 1e-9) + 1e-14
            shares.append(apart[row] / bound.sensitivity)
        assert nearly < max(shares) <= 1  # the bound is nearly reached

    def test_noise_follows_without_a_clip_and_is_booked_for_a_record(self):
        Learning(round_s=60, learner=self.learner, defenses=(Gaussian(noise_multiplier=1.0),))
        data = self.data([8, 4])
        noise = Gaussian(noise_multiplier=2.0)
        facts = RoundContext(1, 0.0, self.public)
        _, _, (spend,) = noise.protect(self.local(data), data, facts, noise.start(0), RNG)
        assert (spend.unit, spend.relation) == ("record", "replace")
        assert_allclose(spend.sensitivity / spend.std, 0.5)  # 1 / z

    @mark.parametrize(
        "changes",
        [
            {"local_epochs": 2},
            {"batch_size": 4},
            {"standardise_by": "dataset"},
            {"sample_clip": None},
            {"optimiser": Momentum()},
            {"optimiser": Adam()},
        ],
    )
    def test_no_bound_where_none_is_proven(self, changes):
        learner = self.learner.model_copy(update=changes)
        model = self.learner.init(self.public, RNG)
        assert "bound" not in learner.offers
        assert learner.train_locally(model, "all", self.data([8]), RNG).bound is None
        with pytest.raises(ValueError, match="needs a bound"):
            Learning(round_s=60, learner=learner, defenses=(Gaussian(noise_multiplier=1.0),))


# -- recipes

PARTS = {
    "sgd": Sgd(),
    "momentum": Momentum(momentum=0.8),
    "adam": Adam(beta1=0.8, beta2=0.97, epsilon=1e-6),
}


@mark.parametrize("number", [np.float32, np.float64])
def test_steps_have_the_bits_of_the_formulas(number):
    """Operation by operation in the precision of the weights: no product is joined with a sum."""
    draw = default_rng(4)
    rate = number(0.03)
    start = draw.normal(size=(3, 101)).astype(number)
    states = {kind: (start.copy(), part.start(start)) for kind, part in PARTS.items()}
    plain, rolled, adapted = np.stack([start] * 3)
    v = mean = square = np.zeros_like(start)
    b1 = number(0.8)
    b2 = number(0.97)
    epsilon = number(1e-6)
    for t in range(1, 30):
        g = draw.normal(size=start.shape).astype(number)
        for kind, (w, memory) in states.items():
            PARTS[kind].step(w, g.copy(), memory, 0.03, t)
        plain -= rate * g
        v = b1 * v + g
        rolled -= rate * v
        mean = b1 * mean + number(1 - 0.8) * g
        square = b2 * square + number(1 - 0.97) * g * g
        root = np.sqrt(square) / number((1 - 0.97**t) ** 0.5)
        adapted -= number(0.03 / (1 - 0.8**t)) * mean / (root + epsilon)
    for kind, expected in (("sgd", plain), ("momentum", rolled), ("adam", adapted)):
        assert states[kind][0].dtype == number
        assert_array_equal(states[kind][0], expected)


def test_polyaks_limit_is_of_the_profile_and_fits_its_neighbours():
    """No step of Adam is limited, and no record is bounded where it moves the step of all
    others."""
    adam = {"optimiser": {"kind": "adam"}}
    assert RsrpNet().step_limit == "none"
    assert RsrpNet(profile="useful").step_limit == "polyak"
    assert RsrpNet(profile="useful", **adam).step_limit == "none"
    with pytest.raises(ValueError, match=r"adam .* leave step_limit out"):
        RsrpNet(step_limit="polyak", **adam)
    assert "record bound" in RsrpNet(sample_clip=1.0, proximal=2.0).offers
    assert "record bound" not in RsrpNet(sample_clip=1.0, step_limit="polyak").offers
    assert "linear local steps" in RsrpNet(step_limit="polyak").offers
    decays = RsrpNet(hidden=(8,), weight_decay=0.3)
    assert "sample gradient" not in decays.offers
    assert "linear local steps" in decays.offers


class TestCentral:
    """Federated training against training on all data in one place."""

    public = Public(Area(0.0, 0.0, 900.0, 700.0), 1)
    recipe = {"hidden": (8, 5), "labels": "standardised", "learning_rate": 0.05}

    def data(self, counts, seed=3):
        draw = default_rng(seed)
        n = sum(counts)
        x = draw.random((n, 2)) * [900, 700]
        return make_local(counts, x, -95 + 9 * draw.normal(size=n))

    @mark.parametrize("encoding", [{"kind": "position"}, {"kind": "fourier", "frequencies": 6}])
    def test_one_step_of_many_is_a_step_on_all_their_data(self, encoding):
        part = RsrpNet(**self.recipe, encoding=encoding)
        model = part.init(self.public, RNG)
        many = self.data([5, 2, 11, 1])
        whole = replace(self.data([19]), x=many.x, y=many.y)
        updates = part.train_locally(model, "all", many, RNG)
        central = part.train_locally(model, "all", whole, RNG)
        merged = updates.sum_weighted(updates.count / updates.count.sum(), 1)
        assert_allclose(merged, central.values, rtol=0, atol=1e-15)

    @mark.parametrize("kind", ["sgd", "momentum", "adam"])
    def test_rounds_of_one_device_and_batch_are_epochs(self, kind):
        """Memory begins anew in each round, so only plain steps can be cut into rounds."""

        weights = []
        for rounds in (1, 4):
            settings = {"optimiser": {"kind": kind}, "local_epochs": 4 // rounds}
            part = RsrpNet(**self.recipe, **settings)
            model = part.init(self.public, RNG)
            for _ in range(rounds):
                updates = part.train_locally(model, "all", self.data([12]), RNG)
                model = part.step(model, "all", updates.values)
            weights.append(model.parameters)
        same = np.allclose(*weights, rtol=0, atol=1e-13)
        assert same == (kind == "sgd")


class TestPrior:
    public = Public(Area(0.0, 0.0, 900.0, 700.0), 1)
    place_m = np.array([[100.0, 50.0], [100.0, 150.0], [100.0, 1050.0]])

    def part(self, **changes):
        prior = {"kind": "log-distance", "position_m": (100.0, 50.0), "exponent": 3.0}
        return RsrpNet(hidden=(4,), prior=prior | changes)

    def test_the_law_of_distance(self):
        """10 n log10(1000 / 100) = 30 dB"""
        part = self.part(rsrp_dbm=-70.0)
        model = part.init(self.public, RNG)
        rsrp_dbm = part.prior.predict_dbm(model.constants, NO_UES, self.place_m)
        assert_allclose(rsrp_dbm, [-70.0, -70.0, -100.0], atol=1e-12)

    @mark.parametrize("labels", ["raw", "centred", "standardised"])
    def test_a_network_that_says_nothing_predicts_the_prior(self, labels):
        """Signals that follow it leave no gradient."""
        part = self.part().model_copy(update={"labels": labels})
        model = part.init(self.public, RNG)
        blank = part.step(model, "all", -model.parameters)
        expected = part.prior.predict_dbm(model.constants, NO_UES, self.place_m)
        assert_allclose(part.predict_dbm(blank, NO_UES, self.place_m), expected, atol=1e-12)
        data = make_local([3], self.place_m, expected)
        assert not part.train_locally(blank, "all", data, RNG).values.any()

    def test_every_model_knows_its_own_base_station_and_a_shared_one_takes_the_nearest(
        self, tiny, tmp_path
    ):
        from scenarios.app.run.setup import prepare_run

        learner = {"kind": "rsrp-net", "hidden": [4], "prior": {"kind": "log-distance"}}
        place_m = np.tile([[60.0, 80.0]], (2, 1))
        for cell, models, stations in (
            ("all", [1, 0], [(300, 200), (100, 100)]),
            ("strongest", [0, 0], [(100, 100), (100, 100)]),
        ):
            data = {"kind": "measured", "cell": cell}
            study = tiny({"learning.data": data, "learning.learner": learner})
            _, setup = prepare_run(study, tmp_path)
            part = study.learning.learner
            constants = part.init(setup.public, RNG).constants
            rsrp_dbm = part.prior.predict_dbm(constants, np.array(models), place_m)
            distance_m = np.hypot(*(place_m - stations).T)
            assert_allclose(rsrp_dbm, part.prior.compute_rsrp_dbm(distance_m), atol=1e-12)
