"""Compiled local training: against a slow loop of torch's autograd for each device, at both
precisions; what one record can do where gradients of single samples are clipped; optimisers by
their formulas, prior, and central training.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from fl.defenses.gaussian import Gaussian
from fl.learners.image_net import ImageNet
from fl.learners.rsrp_net import RsrpNet
from fl.networks.mlp import Mlp
from fl.networks.sgd_regression import SgdSettings, train_regression
from fl.optimisers import Adam, Momentum, Sgd
from fl.round.learning import Learning
from fl.types import ImageFormat, Local, Public, RoundContext
from netsim.columns import row_id
from netsim.geometry import Area
from netsim.rng import Streams
from scenarios.app.result import run
from scenarios.app.results.folder import read_table

RNG = Streams(9).at("learner.all", 4)
COUNTS = (0, 1, 19, 20, 21, 150, 0, 41)
TORCH = {
    "relu": torch.relu,
    "elu": torch.nn.functional.elu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}
OPTIMISERS = {
    "sgd": (Sgd(), lambda w: torch.optim.SGD(w, lr=0.02)),
    "momentum": (Momentum(momentum=0.8), lambda w: torch.optim.SGD(w, lr=0.02, momentum=0.8)),
    "adam": (Adam(epsilon=1e-3), lambda w: torch.optim.Adam(w, 0.02, eps=1e-3)),
}


def cohort(counts, inputs=5, seed=0):
    """Devices of two models with numbers that go down from UE to UE, so that rows are no owners."""
    g = np.random.default_rng(seed)
    n = sum(counts)
    k = len(counts)
    ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    x = g.normal(size=(n, inputs))
    y = g.normal(size=n)
    return Local(np.arange(k)[::-1] * 3, np.arange(k) % 2, ptr, x, y, np.zeros(n))


def weights(net, seed=3):
    return np.random.default_rng(seed).normal(size=(2, net.n_parameters)) * 0.4


def layers_of(net, flat):
    """Leaves of torch of one network's parameters."""
    made = []
    at = 0
    for a, b in pairwise(net.sizes):
        for shape in ((a, b), (b,)):
            size = int(np.prod(shape))
            made.append(torch.tensor(flat[at : at + size]).reshape(shape).requires_grad_())
            at += size
    return made


def gradient(loss, batch, masks, free, clip):
    """Of a batch: the mean of its samples' gradients, each cut to the clip; one that is not finite
    counts as 0."""
    if clip is None:
        return torch.autograd.grad(loss(batch, masks), free)
    found = [torch.zeros_like(p) for p in free]
    for s in range(len(batch)):
        if masks is None:
            one = None
        else:
            one = [m[s : s + 1] for m in masks]
        each = torch.autograd.grad(loss(batch[s : s + 1], one), free)
        norm = float(torch.sqrt(sum((g * g).sum() for g in each)))
        for total, g in zip(found, each, strict=True):
            total += g * min(1.0, clip / norm) / len(batch) if np.isfinite(norm) else 0.0
    return found


def slow(net, start, data, row, how, make, rates=None):
    """One device by autograd, sample by sample where gradients are clipped, batches as the streams
    have them; rates: of each step, told.
    """
    own = slice(data.ptr[row], data.ptr[row + 1])
    owner = [row_id(data.ue[row], data.model[row])]
    x = torch.tensor(data.x[own])
    y = torch.tensor(data.y[own])
    n = int(data.count[row])
    w = layers_of(net, start[data.model[row]])
    anchors = [p.detach().clone() for p in w]
    free = w[2 * how.frozen_layers :]
    optimiser = make(free)
    size = n if how.batch_size == "all" else how.batch_size

    def loss(batch, masks):
        h = x[batch]
        for i, (weight, bias) in enumerate(zip(w[::2], w[1::2], strict=True)):
            h = h @ weight + bias
            if i < len(net.sizes) - 2:
                h = TORCH[net.activation](h)
                h = h if masks is None else h * masks[i]
        return ((h[:, 0] - y[batch]) ** 2).mean()

    for epoch in range(how.local_epochs):
        order = np.arange(n)
        if how.batch_size != "all":
            order = np.argsort(RNG.uniform(f"order{epoch}m", owner, (n,))[0], kind="stable")
        for first in range(0, n, size):
            batch = order[first : first + size]
            masks = None
            if how.dropout:
                unit = [
                    RNG.uniform(f"dropout{epoch}.{first}.{i}", owner, (len(batch), h))[0]
                    for i, h in enumerate(net.sizes[1:-1])
                ]
                masks = [torch.tensor((u >= how.dropout) / (1 - how.dropout)) for u in unit]
            found = gradient(loss, batch, masks, free, how.sample_clip)
            for p, g, anchor in zip(free, found, anchors[2 * how.frozen_layers :], strict=True):
                p.grad = g + how.proximal * (p.detach() - anchor) + how.weight_decay * p.detach()
            if how.polyak:
                squared = sum(float((p.grad**2).sum()) for p in free)
                rates.append(
                    min(how.learning_rate, 3 * float(loss(batch, masks).detach()) / squared)
                )
                for p in free:
                    p.grad *= rates[-1] / how.learning_rate
            optimiser.step()
    return torch.cat([(p.detach() - q).flatten() for p, q in zip(w, anchors, strict=True)]).numpy()


def recipe(activation, optimiser="sgd", batch=20, epochs=2, dropout=0.0, **more):
    part, make = OPTIMISERS[optimiser]
    return activation, make, SgdSettings(0.02, batch, epochs, dropout, optimiser=part, **more)


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


@pytest.mark.parametrize(("activation", "make", "how"), RECIPES)
def test_every_device_trains_as_autograd_does_alone(activation, make, how):
    """Unequal devices, of which two have nothing."""
    net = Mlp((5, 9, 6, 1), activation)
    data = cohort(COUNTS)
    start = weights(net)
    double, single = (
        train_regression(net, start, data, replace(how, precision=bits), RNG).values
        for bits in (64, 32)
    )
    assert double.dtype == single.dtype == np.float64
    assert not double[[0, 6]].any()
    assert not single[[0, 6]].any()
    for row in np.flatnonzero(data.count):
        expected = slow(net, start, data, row, how, make)
        size = np.linalg.norm(expected)
        assert np.linalg.norm(double[row] - expected) < 1e-10 * size
        assert 1e-12 * size < np.linalg.norm(single[row] - expected) < 2e-4 * size
    first = sum((a + 1) * b for a, b in list(pairwise(net.sizes))[: how.frozen_layers])
    assert not double[:, :first].any()
    assert not single[:, :first].any()


@pytest.mark.parametrize("kind", ["sgd", "momentum"])
@pytest.mark.parametrize("batch", [4, "all"])
@pytest.mark.parametrize("proximal, frozen", [(0.0, 0), (0.5, 1)])
def test_polyaks_limit_is_that_of_its_formula(kind, batch, proximal, frozen):
    """min(learning rate, 3 l / |g|^2) with l the squared error of the batch, by autograd; some
    steps are shortened."""
    _, make, how = recipe(
        "tanh", kind, batch, 3, proximal=proximal, frozen_layers=frozen, polyak=True
    )
    net = Mlp((5, 7, 4, 1), "tanh")
    data = cohort([9, 1, 14, 4])
    rates = []
    start = 40 * weights(net)
    found = train_regression(net, start, data, how, RNG).values
    for row in range(4):
        np.testing.assert_allclose(
            found[row], slow(net, start, data, row, how, make, rates), rtol=0, atol=1e-9
        )
    assert min(rates) < 0.02 or batch == "all"  # many places are seldom that steep
    loose, free = (replace(how, learning_rate=1e-9, polyak=polyak) for polyak in (True, False))
    loose, free = (train_regression(net, start, data, one, RNG).values for one in (loose, free))
    np.testing.assert_array_equal(loose, free)  # a step that needs no limit keeps its bits


def test_a_sample_that_overflows_counts_as_zero():
    _, make, how = recipe("relu", batch="all", epochs=1, sample_clip=2.0)
    net = Mlp((5, 7, 4, 1), "relu")
    data = cohort([5])
    data.y[2] = 1e300
    found = train_regression(net, weights(net), data, how, RNG).values[0]
    np.testing.assert_allclose(
        found, slow(net, weights(net), data, 0, how, make), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("bits, dropout", [(32, 0.3), (64, 0.0)])
def test_thousands_of_devices_train_as_each_alone(bits, dropout):
    net = Mlp((5, 9, 6, 1), "elu")
    counts = np.random.default_rng(1).integers(0, 45, 3000)
    data = cohort(counts.tolist())
    how = SgdSettings(0.02, 20, 2, dropout, precision=bits)
    found = train_regression(net, weights(net), data, how, RNG).values
    assert (found.any(axis=1) == (counts > 0)).all()
    for row in (
        *np.flatnonzero(counts == 20)[:2],
        *np.flatnonzero(counts == 21)[:2],
        *np.flatnonzero(counts == 1)[:2],
    ):
        alone = train_regression(net, weights(net), data.select(np.array([row])), how, RNG).values[
            0
        ]
        np.testing.assert_array_equal(found[row], alone)


class TestSetting:
    bounded = {"sample_clip": 1.0, "batch_size": "all", "local_epochs": 1}

    def test_a_bound_of_a_record_is_refused_at_32_bits(self):
        with pytest.raises(ValueError, match=r"precision: at 32 bits .*; take precision: 64"):
            RsrpNet(precision=32, **self.bounded)
        assert "record bound" in RsrpNet(precision=64, **self.bounded).offers
        assert RsrpNet(precision=32, **self.bounded | {"local_epochs": 2}).sample_clip == 1.0

    def test_images_at_both_precisions(self):
        image = ImageFormat(16, 16, 3)
        g = np.random.default_rng(0)
        pixels = g.integers(0, 256, (30, 256), dtype=np.uint8)
        zero = np.zeros(2, np.int64)
        ptr = np.array([0, 12, 30])
        data = Local(
            np.arange(2), zero, ptr, pixels, g.integers(0, 3, 30).astype(float), np.zeros(30)
        )
        found = []
        for bits in (32, 64):
            learner = ImageNet(precision=bits, device="cpu", batch_share=0.3)
            model = learner.init(Public(Area(0, 0, 1, 1), 1, images=image), RNG)
            found.append(learner.local(model, "all", data, RNG).values)
        assert found[0].dtype == found[1].dtype == np.float64
        apart = np.linalg.norm(found[0] - found[1], axis=1) / np.linalg.norm(found[1], axis=1)
        assert (apart > 1e-9).all()
        assert (apart < 1e-3).all()

    def test_a_run_at_32_bits_scores_as_one_at_64(self, tiny, tmp_path):
        """Half of the UEs a round, one model for each cell; what else a round does has 64 bits in
        both."""
        found = []
        for bits in (64, 32):
            learner = {
                "kind": "rsrp-net",
                "profile": "useful",
                "hidden": [16, 8],
                "precision": bits,
            }
            study = tiny({"learning.learner": learner, "learning.participation": 0.5})
            run(study, tmp_path / str(bits))
            found.append(read_table(tmp_path / str(bits), "rounds")["rmse_db"])
        assert np.isfinite(found[0]).all()
        assert (found[0] != found[1]).any()
        np.testing.assert_allclose(found[1], found[0], rtol=1e-4)


class TestRecordBound:
    """Of clipped gradients of single samples."""

    public = Public(Area(0.0, 0.0, 100.0, 80.0), 2)
    learner = RsrpNet(hidden=(6, 4), learning_rate=0.05, sample_clip=1.5)

    def local(self, data, learner=learner):
        return learner.local(learner.init(self.public, RNG), "all", data, RNG)

    def data(self, counts, seed=0):
        data = cohort(counts, 2, seed)
        return replace(data, x=30 * data.x, y=9 * data.y - 90.0)

    @pytest.mark.parametrize(
        ("frozen", "least", "rate"), [(0, 0.8, 0.05), (1, 0.3, 0.05), (0, 0.03, 1e-16)]
    )
    def test_replacing_one_record_moves_an_update_by_the_sensitivity_at_most(
        self, frozen, least, rate
    ):
        """The clip is of the gradient in trained layers. Weights round by more than a small step
        lets a record add."""
        changed = {"frozen_layers": frozen, "learning_rate": rate}
        learner = self.learner.model_copy(update=changed)
        data = self.data([8, 3])
        made = self.local(data, learner)
        assert (made.bound.unit, made.bound.relation) == ("record", "replace")
        assert made.bound.sensitivity == pytest.approx(2 * rate * 1.5 / 3, rel=1e-9, abs=1e-14)
        worst = 0.0
        draw = np.random.default_rng(3)
        for record in (0, 5, 9):
            for _ in range(30):
                x = data.x.copy()
                y = data.y.copy()
                x[record] = draw.normal(size=2) * 1e3
                y[record] = draw.choice([-1e4, 0.0, 1e4])
                other = self.local(replace(data, x=x, y=y), learner)
                apart = np.linalg.norm(other.values - made.values, axis=1)
                row = int(record >= 8)
                assert apart[1 - row] == 0
                assert apart[row] <= min(
                    2 * rate * 1.5 / data.count[row] * (1 + 1e-9) + 1e-14, made.bound.sensitivity
                )
                worst = max(worst, apart[row] / made.bound.sensitivity)
        assert worst > least  # the bound is nearly reached

    def test_noise_follows_without_a_clip_and_is_booked_for_a_record(self):
        Learning(round_s=60, learner=self.learner, defenses=(Gaussian(noise_multiplier=1.0),))
        data = self.data([8, 4])
        made = self.local(data)
        noise = Gaussian(noise_multiplier=2.0)
        facts = RoundContext(1, 0.0, self.public)
        _, _, (spend,) = noise.protect(made, data, facts, noise.start(0), RNG)
        assert spend.unit == "record"
        assert spend.relation == "replace"
        np.testing.assert_allclose(spend.sensitivity / spend.std, 0.5)  # 1 / z

    @pytest.mark.parametrize(
        "other",
        [
            {"local_epochs": 2},
            {"batch_size": 4},
            {"standardise_by": "dataset"},
            {"sample_clip": None},
            {"optimiser": Momentum()},
            {"optimiser": Adam()},
        ],
    )
    def test_no_bound_where_none_is_proven(self, other):
        learner = self.learner.model_copy(update=other)
        made = learner.local(self.learner.init(self.public, RNG), "all", self.data([8]), RNG)
        assert "bound" not in learner.offers
        assert made.bound is None
        with pytest.raises(ValueError, match="needs a bound"):
            Learning(round_s=60, learner=learner, defenses=(Gaussian(noise_multiplier=1.0),))


# -- recipes

PARTS = {
    "sgd": Sgd(),
    "momentum": Momentum(momentum=0.8),
    "adam": Adam(beta1=0.8, beta2=0.97, epsilon=1e-6),
}


@pytest.mark.parametrize("number", [np.float32, np.float64])
def test_steps_have_the_bits_of_the_formulas(number):
    """Operation by operation in the precision of the weights: no product is joined with a sum."""
    draw = np.random.default_rng(4)
    rate = number(0.03)
    start = draw.normal(size=(3, 101)).astype(number)
    found = {kind: (start.copy(), part.start(start)) for kind, part in PARTS.items()}
    plain, rolled, adapted = (start.copy() for _ in range(3))
    v, mean, square = (np.zeros_like(start) for _ in range(3))
    b1 = number(0.8)
    b2 = number(0.97)
    least = number(1e-6)
    for t in range(1, 30):
        g = draw.normal(size=start.shape).astype(number)
        for kind, (w, memory) in found.items():
            PARTS[kind].step(w, g.copy(), memory, 0.03, t)
        plain -= rate * g
        v = b1 * v + g
        rolled -= rate * v
        mean = b1 * mean + number(1 - 0.8) * g
        square = b2 * square + number(1 - 0.97) * g * g
        root = np.sqrt(square) / number((1 - 0.97**t) ** 0.5)
        adapted -= number(0.03 / (1 - 0.8**t)) * mean / (root + least)
    for kind, expected in (("sgd", plain), ("momentum", rolled), ("adam", adapted)):
        assert found[kind][0].dtype == number
        np.testing.assert_array_equal(found[kind][0], expected)


def test_polyaks_limit_is_of_the_profile_and_fits_its_neighbours():
    """No step of Adam is limited, and no record is bounded where it moves the step of all
    others."""
    assert RsrpNet().step_limit == "none"
    assert RsrpNet(profile="useful").step_limit == "polyak"
    assert RsrpNet(profile="useful", optimiser={"kind": "adam"}).step_limit == "none"
    with pytest.raises(
        ValueError, match="steps of adam have a size of their own; leave step_limit out"
    ):
        RsrpNet(step_limit="polyak", optimiser={"kind": "adam"})
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
        draw = np.random.default_rng(seed)
        n = sum(counts)
        x = draw.random((n, 2)) * [900, 700]
        y = -95 + 9 * draw.normal(size=n)
        ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return Local(
            np.arange(len(counts)), np.zeros(len(counts), np.int64), ptr, x, y, np.zeros(n)
        )

    @pytest.mark.parametrize(
        "encoding", [{"kind": "position"}, {"kind": "fourier", "frequencies": 6}]
    )
    def test_one_step_of_many_is_a_step_on_all_their_data(self, encoding):
        part = RsrpNet(**self.recipe, encoding=encoding)
        model = part.init(self.public, RNG)
        many = self.data([5, 2, 11, 1])
        whole = Local(np.array([0]), np.array([0]), np.array([0, 19]), many.x, many.y, many.time_s)
        made = part.local(model, "all", many, RNG)
        central = part.local(model, "all", whole, RNG)
        merged = made.weighted_sum(made.count / made.count.sum(), 1)
        np.testing.assert_allclose(merged, central.values, rtol=0, atol=1e-15)

    @pytest.mark.parametrize("kind", ["sgd", "momentum", "adam"])
    def test_rounds_of_one_device_and_batch_are_epochs(self, kind):
        """Memory begins anew in each round, so only plain steps can be cut into rounds."""
        once = RsrpNet(**self.recipe, optimiser={"kind": kind}, local_epochs=4)
        each = RsrpNet(**self.recipe, optimiser={"kind": kind}, local_epochs=1)
        data = self.data([12])
        model = once.init(self.public, RNG)
        together = once.step(model, "all", once.local(model, "all", data, RNG).values)
        for _ in range(4):
            model = each.step(model, "all", each.local(model, "all", data, RNG).values)
        same = np.allclose(model.parameters, together.parameters, rtol=0, atol=1e-13)
        assert same == (kind == "sgd")


class TestPrior:
    public = Public(Area(0.0, 0.0, 900.0, 700.0), 1)
    at = np.array([[100.0, 50.0], [100.0, 150.0], [100.0, 1050.0]])

    def part(self, **more):
        return RsrpNet(
            hidden=(4,),
            prior={"kind": "log-distance", "position_m": (100.0, 50.0), "exponent": 3.0} | more,
        )

    def test_the_law_of_distance(self):
        part = self.part(rsrp_dbm=-70.0)
        model = part.init(self.public, RNG)
        found = part.prior.expected_dbm(model.constants, np.zeros(3, int), self.at)
        np.testing.assert_allclose(
            found, [-70.0, -70.0, -100.0], atol=1e-12
        )  # 10 n log10(1000 / 100) = 30 dB

    @pytest.mark.parametrize("labels", ["raw", "centred", "standardised"])
    def test_a_network_that_says_nothing_predicts_the_prior(self, labels):
        part = self.part().model_copy(update={"labels": labels})
        model = part.init(self.public, RNG)
        blank = part.step(model, "all", -model.parameters)
        expected = part.prior.expected_dbm(model.constants, np.zeros(3, int), self.at)
        np.testing.assert_allclose(
            part.predict_dbm(blank, np.zeros(3, int), self.at), expected, atol=1e-12
        )
        data = Local(np.array([0]), np.array([0]), np.array([0, 3]), self.at, expected, np.zeros(3))
        assert not part.local(
            blank, "all", data, RNG
        ).values.any()  # signals that follow it leave no gradient

    def test_every_model_knows_its_own_base_station_and_a_shared_one_takes_the_nearest(
        self, tiny, tmp_path
    ):
        from scenarios.app.run.setup import ready

        for cell, expected in (
            ("all", [(300, 200), (100, 100)]),
            ("strongest", [(100, 100), (100, 100)]),
        ):
            study = tiny(
                {
                    "learning.data": {"kind": "measured", "cell": cell},
                    "learning.learner": {
                        "kind": "rsrp-net",
                        "hidden": [4],
                        "prior": {"kind": "log-distance"},
                    },
                }
            )
            _, setup = ready(study, tmp_path)
            learner = study.learning.learner
            model = learner.init(setup.public, RNG)
            at = np.tile([[60.0, 80.0]], (2, 1))
            if cell == "all":
                of = np.array([1, 0])
            else:
                of = np.zeros(2, int)
            found = learner.prior.expected_dbm(model.constants, of, at)
            d = np.hypot(*(at - np.array(expected)).T)
            np.testing.assert_allclose(found, learner.prior.rsrp_dbm_at(d), atol=1e-12)
