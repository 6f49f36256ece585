"""From epsilon to noise: the exact calibration and the older formula, and what either is refused for."""

import math

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.optimize import bisect

from fl.defenses.clip import Clip
from fl.defenses.gaussian import Gaussian
from fl.privacy.gaussian import classic_multiplier_of, delta_of, epsilon_of, multiplier_of
from fl.privacy.ledger import Ledger
from fl.types import DenseUpdates, Local, Public, RoundContext
from netsim.geometry import Area
from netsim.rng import Streams

FACTS = RoundContext(1, 0.0, Public(Area(0.0, 0.0, 1.0, 1.0), 1))
RNG = Streams(8).at("defense.gaussian", 2)
EPSILONS = [0.01, 0.1, 0.5, 0.99, 1.0, 3.0, 10.0, 20.0, 100.0]
DELTAS = [1e-12, 1e-9, 1e-7, 1e-5, 1e-3, 0.1, 0.5]


def plain_delta(epsilon, sigma):
    """Balle and Wang 2018, Theorem 8, as it is printed, for sensitivity 1."""

    def phi(x):
        return math.erfc(-x / math.sqrt(2)) / 2

    a, b = 1 / (2 * sigma), epsilon * sigma
    return phi(a - b) - math.exp(epsilon) * phi(-a - b)


def protect(*parts, n=3, d=4000):
    """A chain's device half on rows of ones; the last one's spends."""
    empty = Local(np.arange(n), np.zeros(n, int), np.zeros(n + 1, int), np.zeros((0, 2)), np.zeros(0), np.zeros(0))
    updates = DenseUpdates(np.arange(n), np.zeros(n, int), np.ones(n), np.ones((n, d)))
    for part in parts:
        before, (updates, _, spends) = updates, part.protect(updates, empty, FACTS, part.start(0), RNG)
    return updates.values - before.values, spends


class TestMultiplier:
    @pytest.mark.parametrize("epsilon", EPSILONS)
    @pytest.mark.parametrize("delta", DELTAS)
    def test_spends_all_of_delta_and_no_more(self, epsilon, delta):
        sigma = multiplier_of(epsilon, delta)
        assert delta_of(epsilon, 1 / sigma) == pytest.approx(delta, rel=2e-12, abs=0)
        assert epsilon_of(delta, 1 / sigma) == pytest.approx(epsilon, rel=1e-9)
        assert delta_of(epsilon, 1 / (0.999 * sigma)) > delta

    def test_published_value(self):
        """The analytic Gaussian mechanism at (1, 1e-5)."""
        assert multiplier_of(1.0, 1e-5) == pytest.approx(3.730632, abs=1e-6)

    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 20.0])
    @pytest.mark.parametrize("delta", [1e-7, 1e-5, 1e-3])
    def test_bisection_of_the_printed_formula_agrees(self, epsilon, delta):
        found = bisect(lambda s: plain_delta(epsilon, s) - delta, 0.05, 500, xtol=1e-12)
        assert multiplier_of(epsilon, delta) == pytest.approx(found, rel=1e-7)

    @pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 1e6, 1e9])
    @pytest.mark.parametrize("delta", [1e-300, 1e-5, 0.999])
    def test_extremes(self, epsilon, delta):
        sigma = multiplier_of(epsilon, delta)
        assert 0 < sigma < math.inf
        assert delta_of(epsilon, 1 / sigma) == pytest.approx(delta, rel=1e-4)

    @pytest.mark.parametrize("law", [multiplier_of, classic_multiplier_of])
    @pytest.mark.parametrize("epsilon, delta", [(0, 0.1), (-1, 0.1), (math.inf, 0.1), (math.nan, 0.1), (1, 0), (1, 1)])
    def test_refuses_what_has_no_answer(self, law, epsilon, delta):
        with pytest.raises(ValueError, match="must"):
            law(epsilon, delta)


class TestClassic:
    @pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 0.99])
    @pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-3])
    def test_holds_below_one_and_wastes_noise(self, epsilon, delta):
        sigma = classic_multiplier_of(epsilon, delta)
        assert sigma == math.sqrt(2 * math.log(1.25 / delta)) / epsilon
        assert delta_of(epsilon, 1 / sigma) < delta and sigma > multiplier_of(epsilon, delta)

    @pytest.mark.parametrize("epsilon, delta", [(8.0, 8.0e-6), (10.0, 2.27e-5), (20.0, 1.53e-3)])
    def test_true_delta_beyond_one(self, epsilon, delta):
        """The theorem ends at 1; the claim of delta 1e-5 fails from epsilon 8.42."""
        sigma = classic_multiplier_of(epsilon, 1e-5)
        assert delta_of(epsilon, 1 / sigma) == pytest.approx(delta, rel=5e-3)
        assert plain_delta(epsilon, sigma) == pytest.approx(delta, rel=5e-3)


class TestGaussian:
    @pytest.mark.parametrize("relation, sensitivity", [("replace", 6.0), ("add-remove", 3.0)])
    @pytest.mark.parametrize(
        "keys, multiplier",
        [
            ({"epsilon": 0.5}, multiplier_of(0.5, 1e-6)),
            ({"epsilon": 0.5, "calibration": "classic"}, classic_multiplier_of(0.5, 1e-6)),
            ({"epsilon": 20, "calibration": "classic", "classic_beyond_one": True}, classic_multiplier_of(20, 1e-6)),
            ({"noise_multiplier": 0.5}, 0.5),
        ],
    )
    def test_noise_scales_by_the_sensitivity_and_the_ledger_states_its_true_cost(
        self, relation, sensitivity, keys, multiplier
    ):
        """So it means the same loss under either relation: mu = 1 / z."""
        noise, (spend,) = protect(Clip(norm=3.0, relation=relation), Gaussian(delta=1e-6, **keys))
        std = multiplier * sensitivity
        assert spend.std.tolist() == [std] * 3 and spend.sensitivity.tolist() == [sensitivity] * 3
        assert noise.std() == pytest.approx(std, rel=0.03)
        (said,) = Ledger.empty(3).add([spend]).statements()
        np.testing.assert_allclose(said.epsilon, epsilon_of(1e-6, 1 / multiplier), rtol=1e-12)

    @pytest.mark.parametrize(
        "keys, says",
        [
            ({}, "exactly one of noise_multiplier and epsilon"),
            ({"noise_multiplier": 1.0, "epsilon": 1.0}, "exactly one of noise_multiplier and epsilon"),
            ({"noise_multiplier": 1.0, "calibration": "classic"}, "needs an epsilon"),
            ({"epsilon": 1.0, "calibration": "classic"}, "below 1, not 1; use calibration: analytic"),
            ({"epsilon": 20.0, "calibration": "classic"}, "below 1, not 20; .* or classic_beyond_one: true"),
            ({"epsilon": 0.5, "classic_beyond_one": True}, "is for calibration: classic"),
            ({"noise_multiplier": 1.0, "classic_beyond_one": True}, "is for calibration: classic"),
        ],
    )
    def test_refusals_are_one_line(self, keys, says):
        with pytest.raises(ValidationError, match=says) as error:
            Gaussian(**keys)
        (one,) = error.value.errors()
        assert "\n" not in one["msg"]
