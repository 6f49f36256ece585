"""Recipes of local training: optimisers by their formulas, prior, and central training."""

import numpy as np
import pytest

from fl.learners.rsrp_net import RsrpNet
from fl.optimisers import Adam, Momentum, Sgd
from fl.types import Local, Public
from netsim.geometry import Area
from netsim.rng import Streams

RNG = Streams(2).at("learner.all", 5)
PARTS = {"sgd": Sgd(), "momentum": Momentum(momentum=0.8), "adam": Adam(beta1=0.8, beta2=0.97, epsilon=1e-6)}


@pytest.mark.parametrize("number", [np.float32, np.float64])
def test_steps_have_the_bits_of_the_formulas(number):
    """Operation by operation in the precision of the weights: no product is joined with a sum."""
    draw, rate = np.random.default_rng(4), number(0.03)
    start = draw.normal(size=(3, 101)).astype(number)
    found = {kind: (start.copy(), part.start(start)) for kind, part in PARTS.items()}
    plain, rolled, adapted = (start.copy() for _ in range(3))
    v, mean, square = (np.zeros_like(start) for _ in range(3))
    b1, b2, least = number(0.8), number(0.97), number(1e-6)
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
    """No step of Adam is limited, and no record is bounded where it moves the step of all others."""
    assert RsrpNet().step_limit == "none" and RsrpNet(profile="useful").step_limit == "polyak"
    assert RsrpNet(profile="useful", optimiser={"kind": "adam"}).step_limit == "none"
    with pytest.raises(ValueError, match="steps of adam have a size of their own; leave step_limit out"):
        RsrpNet(step_limit="polyak", optimiser={"kind": "adam"})
    assert "record bound" in RsrpNet(sample_clip=1.0, proximal=2.0).offers
    assert "record bound" not in RsrpNet(sample_clip=1.0, step_limit="polyak").offers
    assert "linear local steps" in RsrpNet(step_limit="polyak").offers
    decays = RsrpNet(hidden=(8,), weight_decay=0.3)
    assert "sample gradient" not in decays.offers and "linear local steps" in decays.offers


class TestCentral:
    """Federated training against training on all data in one place."""

    public = Public(Area(0.0, 0.0, 900.0, 700.0), 1)
    recipe = {"hidden": (8, 5), "labels": "standardised", "learning_rate": 0.05}

    def data(self, counts, seed=3):
        draw, n = np.random.default_rng(seed), sum(counts)
        x, y = draw.random((n, 2)) * [900, 700], -95 + 9 * draw.normal(size=n)
        ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return Local(np.arange(len(counts)), np.zeros(len(counts), np.int64), ptr, x, y, np.zeros(n))

    @pytest.mark.parametrize("encoding", [{"kind": "position"}, {"kind": "fourier", "frequencies": 6}])
    def test_one_step_of_many_is_a_step_on_all_their_data(self, encoding):
        part = RsrpNet(**self.recipe, encoding=encoding)
        model, many = part.init(self.public, RNG), self.data([5, 2, 11, 1])
        whole = Local(np.array([0]), np.array([0]), np.array([0, 19]), many.x, many.y, many.time_s)
        made, central = part.local(model, "all", many, RNG), part.local(model, "all", whole, RNG)
        merged = made.weighted_sum(made.count / made.count.sum(), 1)
        np.testing.assert_allclose(merged, central.values, rtol=0, atol=1e-15)

    @pytest.mark.parametrize("kind", ["sgd", "momentum", "adam"])
    def test_rounds_of_one_device_and_batch_are_epochs(self, kind):
        """Memory begins anew in each round, so only plain steps can be cut into rounds."""
        once = RsrpNet(**self.recipe, optimiser={"kind": kind}, local_epochs=4)
        each = RsrpNet(**self.recipe, optimiser={"kind": kind}, local_epochs=1)
        data, model = self.data([12]), once.init(self.public, RNG)
        together = once.step(model, "all", once.local(model, "all", data, RNG).values)
        for _ in range(4):
            model = each.step(model, "all", each.local(model, "all", data, RNG).values)
        same = np.allclose(model.parameters, together.parameters, rtol=0, atol=1e-13)
        assert same == (kind == "sgd")


class TestPrior:
    public = Public(Area(0.0, 0.0, 900.0, 700.0), 1)
    at = np.array([[100.0, 50.0], [100.0, 150.0], [100.0, 1050.0]])

    def part(self, **more):
        return RsrpNet(hidden=(4,), prior={"kind": "log-distance", "position_m": (100.0, 50.0), "exponent": 3.0} | more)

    def test_the_law_of_distance(self):
        part = self.part(rsrp_dbm=-70.0)
        model = part.init(self.public, RNG)
        found = part.prior.expected_dbm(model.constants, np.zeros(3, int), self.at)
        np.testing.assert_allclose(found, [-70.0, -70.0, -100.0], atol=1e-12)  # 10 n log10(1000 / 100) = 30 dB

    @pytest.mark.parametrize("labels", ["raw", "centred", "standardised"])
    def test_a_network_that_says_nothing_predicts_the_prior(self, labels):
        part = self.part().model_copy(update={"labels": labels})
        model = part.init(self.public, RNG)
        blank = part.step(model, "all", -model.parameters)
        expected = part.prior.expected_dbm(model.constants, np.zeros(3, int), self.at)
        np.testing.assert_allclose(part.predict_dbm(blank, np.zeros(3, int), self.at), expected, atol=1e-12)
        data = Local(np.array([0]), np.array([0]), np.array([0, 3]), self.at, expected, np.zeros(3))
        assert not part.local(blank, "all", data, RNG).values.any()  # signals that follow it leave no gradient

    def test_every_model_knows_its_own_base_station_and_a_shared_one_takes_the_nearest(self, tiny, tmp_path):
        from scenarios.app.run.setup import ready

        for cell, expected in (("all", [(300, 200), (100, 100)]), ("strongest", [(100, 100), (100, 100)])):
            study = tiny({
                "learning.data": {"kind": "measured", "cell": cell},
                "learning.learner": {"kind": "rsrp-net", "hidden": [4], "prior": {"kind": "log-distance"}},
            })  # fmt: skip
            _, setup = ready(study, tmp_path)
            learner = study.learning.learner
            model, at = learner.init(setup.public, RNG), np.tile([[60.0, 80.0]], (2, 1))
            of = np.array([1, 0]) if cell == "all" else np.zeros(2, int)
            found = learner.prior.expected_dbm(model.constants, of, at)
            d = np.hypot(*(at - np.array(expected)).T)
            np.testing.assert_allclose(found, learner.prior.rsrp_dbm_at(d), atol=1e-12)
