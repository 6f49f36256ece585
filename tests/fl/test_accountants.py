"""Accountants and calibrations against published numbers, dp-accounting and each other; filters
never pass."""

import logging
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.optimize import bisect

from fl.defenses.clip import Clip
from fl.defenses.gaussian import Gaussian
from fl.privacy import rdp
from fl.privacy.compose import (
    MOST_KINDS,
    RoundKinds,
    compose,
    least_multiplier,
    rdp_epsilon,
    zcdp_epsilon,
)
from fl.privacy.gaussian import (
    GaussianFilter,
    classic_multiplier_of,
    delta_of,
    epsilon_of,
    multiplier_of,
)
from fl.privacy.ledger import Ledger
from fl.types import DenseUpdates, Local, Public, RoundContext
from netsim.geometry import Area
from netsim.rng import Streams

PART = {"10/38": 10 / 38, "4/38": 4 / 38, "0.01": 0.01}

# Noise multiplier, then RDP/exact after 1, 10, 50, 100, 200 and 500 rounds, delta 1e-7
FULL = """
0.01  5658/5519    55158/51643  275158/253676 550158/505198 1.10e6/1.01e6  2.75e6/2.51e6
0.05  311/303      2358/2328    11158/10734   22158/21039   44158/41470    110158/102324
0.1   105/101      678/664      2908/2867     5658/5519     11158/10734    27658/26162
0.5   12.6/11.9    54.4/52.2    178/173       311/303       558/546        1258/1232
1     5.7/5.3      21.9/20.9    63.6/61.0     105/101       178/173        376/365
2     2.7/2.5      9.5/9.0      25.2/24.0     39.6/37.8     63.6/61.0      124/120
5     1.0/0.9      3.4/3.2      8.4/7.9       12.6/11.9     19.1/18.1      34.2/32.6
10    0.5/0.4      1.6/1.5      3.9/3.6       5.7/5.3       8.4/7.9        14.4/13.6
"""
# sampling rate, noise multiplier, then RDP after 10, 50, 100 and 200 rounds
SAMPLED = """
10/38 0.5  29.7 68.6 115.8 210.3
10/38 1    9.0  18.0 25.4  37.2
10/38 2    3.1  6.3  9.0   13.1
10/38 5    0.93 2.06 2.94  4.24
4/38  1    4.8  7.9  10.4  14.2
4/38  2    1.3  2.5  3.4   4.8
4/38  5    0.37 0.79 1.11  1.59
0.01  1    1.58 1.71 1.80  1.94
"""


def cells_of(text, rounds):
    """Each cell after what its row begins with and its number of rounds."""
    for line in text.strip().splitlines():
        words = line.split()
        for number, cell in zip(rounds, words[-len(rounds) :], strict=True):
            yield (*words[: -len(rounds)], number, cell)


def digit(text):
    """One unit of the last printed digit: a table may have cut or rounded it."""
    number, _, power = text.partition("e")
    return 10.0 ** (int(power or 0) - len(number.partition(".")[2]))


def both(z, rounds, delta, q=1.0):
    return compose(RoundKinds.of([(z, q, rounds)]), delta)


def renyi_figure(z, rounds, delta, q):
    return float(rdp.epsilon_of(rounds * rdp.renyi(z, q), delta))


def library(z, q, rounds, delta):
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    log = logging.getLogger("absl")
    level = log.level
    log.level = logging.CRITICAL
    accountant = RdpAccountant(list(rdp.ORDERS))
    accountant.compose(
        dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(z)), rounds
    )
    log.level = level
    return accountant.get_epsilon(delta)


class TestPublished:
    @pytest.mark.parametrize(
        "rounds, delta, epsilon, within",
        [
            (100, 1e-5, 91.817, 5e-4),
            (300, 1e-5, 222.977, 5e-4),
            (1000, 1e-5, 633.930, 5e-4),
            (100, 1e-7, 101.2, 0.1),
        ],
    )
    def test_exact(self, rounds, delta, epsilon, within):
        found = both(1.0, rounds, delta).best
        assert found.accountant == "exact"
        assert found.epsilon == pytest.approx(epsilon, abs=within)

    @pytest.mark.parametrize("z, rounds, cell", [*cells_of(FULL, [1, 10, 50, 100, 200, 500])])
    def test_table_without_sampling(self, z, rounds, cell):
        found = both(float(z), rounds, 1e-7)
        (renyi, exact) = cell.split("/")
        assert found.rdp.epsilon == pytest.approx(float(renyi), abs=digit(renyi))
        assert found.best.epsilon == pytest.approx(float(exact), abs=digit(exact))

    @pytest.mark.parametrize("q, z, rounds, renyi", [*cells_of(SAMPLED, [10, 50, 100, 200])])
    def test_table_with_sampling(self, q, z, rounds, renyi):
        assert renyi_figure(float(z), rounds, 1e-7, PART[q]) == pytest.approx(
            float(renyi), abs=digit(renyi)
        )

    @pytest.mark.parametrize(
        "epsilon, total", [(0.1, 1.01), (0.2, 2.07), (0.4, 4.30), (0.75, 8.63), (1.0, 12.03)]
    )
    def test_zcdp_of_lapa(self, epsilon, total):
        """100 rounds by the classic formula at delta 1e-5."""
        z = math.sqrt(2 * math.log(1.25 / 1e-5)) / epsilon
        assert zcdp_epsilon(100 / (2 * z * z), 1e-5) == pytest.approx(total, abs=0.005)


class TestRenyi:
    @pytest.mark.parametrize("q", [0.01, 10 / 38, 0.9, 1.0])
    @pytest.mark.parametrize("z", [0.3, 1.0, 20.0])
    @pytest.mark.parametrize("rounds", [1, 1000])
    def test_equals_dp_accounting(self, q, z, rounds):
        expected = library(z, q, rounds, 1e-6)
        assert renyi_figure(z, rounds, 1e-6, q) == pytest.approx(expected, rel=1e-6)

    def test_a_tiny_cost_keeps_its_digits(self):
        """r(2) = ln(1 + q^2 (e^(1/z^2) - 1)), of which a difference from 1 would leave nothing."""
        at = int(np.flatnonzero(rdp.ORDERS == 2.0)[0])
        assert rdp.renyi(50.0, 1e-7)[at] == pytest.approx(1e-14 * math.expm1(1 / 2500), rel=1e-9)

    @pytest.mark.parametrize("q", [1e-6, 0.3, 0.999, 1.0])
    @pytest.mark.parametrize("z", [1e-200, 1e-3, 0.7, 1e5, 1e200])
    def test_never_negative_never_nan_never_a_warning(self, q, z, capfd):
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            cost = rdp.renyi(z, q)
        assert not np.isnan(cost).any()
        assert (cost >= 0).all()
        assert capfd.readouterr() == ("", "")


def test_many_kinds_of_rounds_add_up_at_each_order():
    """Rates around 0.1, some of them 1, and 20 rounds without any noise."""
    rng = np.random.default_rng(1)
    z = rng.uniform(0.2, 4.0, 20)
    rates = np.where(np.arange(20) < 3, 1.0, rng.uniform(0.1, 0.15, 20))
    cost = sum(rdp.renyi(a, b) for a, b in zip(z.tolist(), rates.tolist(), strict=True))
    rounds = RoundKinds.of(zip(z, rates, np.ones(20), strict=True))
    assert rdp_epsilon(rounds, 1e-5) == pytest.approx(float(rdp.epsilon_of(cost, 1e-5)), rel=1e-12)
    assert rdp_epsilon(RoundKinds.of([(0.0, 0.1, 20.0)]), 1e-5) == math.inf


class TestOrder:
    """Which accountant is tighter than which."""

    @pytest.mark.parametrize("q, z, rounds", [(0.01, 0.7, 50), (0.26, 1.0, 100), (0.9, 5.0, 10)])
    def test_pld_below_rdp_below_everybody(self, q, z, rounds):
        found = both(z, rounds, 1e-6, q)
        assert found.best.accountant == "PLD"
        assert found.best.epsilon <= found.rdp.epsilon
        assert found.best.epsilon <= found.naive.epsilon * 1.0001
        assert found.best.epsilon <= epsilon_of(1e-6, math.sqrt(rounds) / z)

    def test_pld_of_one_sampled_round_is_the_exact_amplification(self):
        found = both(1.0, 1, 1e-6, 0.25)
        assert found.naive.epsilon == pytest.approx(
            math.log1p(0.25 * math.expm1(epsilon_of(4e-6, 1.0))), rel=1e-9
        )
        assert found.best.epsilon == pytest.approx(found.naive.epsilon, rel=1e-3)

    def test_pld_of_nearly_everybody_is_nearly_exact(self):
        found = both(2.0, 20, 1e-6, 1 - 1e-9)
        assert found.best.epsilon == pytest.approx(epsilon_of(1e-6, math.sqrt(20) / 2), rel=1e-3)


class TestCompose:
    def test_naive_adds_single_rounds_at_a_share_of_delta(self):
        found = compose(RoundKinds.of([(1.0, 1, 2), (2.0, 1, 1)]), 3e-6)
        assert found.naive.epsilon == pytest.approx(
            2 * epsilon_of(1e-6, 1.0) + epsilon_of(1e-6, 0.5), rel=1e-12
        )

    def test_kinds_are_merged(self):
        draws = RoundKinds.of(
            [(1.0, 0.5, 2), (2.0, 1, 1), (1.0, 0.5, 3), (1.0, 0.0, 9), (3.0, 1, 0)]
        )
        assert list(zip(draws.z, draws.q, draws.count, strict=True)) == [
            (1.0, 0.5, 5.0),
            (2.0, 1.0, 1.0),
        ]

    @pytest.mark.parametrize("q", [1.0, 0.5])
    def test_no_noise(self, q):
        found = compose(RoundKinds.of([(0.0, q, 1), (1.0, q, 1)]), 1e-5)
        assert all(f.epsilon == math.inf for f in found.figures)

    @pytest.mark.parametrize("bad", [(-1, 1, 1), (1, 1.5, 1), (1, 1, -1), (math.nan, 1, 1)])
    def test_refuses(self, bad):
        with pytest.raises(ValueError):
            RoundKinds.of([bad])

    def test_many_kinds_fall_back_on_rdp_and_say_so(self):
        few = compose(RoundKinds.of((z, 0.1, 1) for z in np.linspace(1, 3, MOST_KINDS)), 1e-5)
        many = compose(RoundKinds.of((z, 0.1, 1) for z in np.linspace(1, 3, MOST_KINDS + 1)), 1e-5)
        assert few.best.accountant == "PLD"
        assert many.best.accountant == "RDP"
        assert "17 kinds" in many.best.words
        assert many.best.epsilon == many.rdp.epsilon

    def test_rounds_with_everybody_are_one_kind(self):
        rounds = [(z, 1, 1) for z in np.linspace(5, 9, 40)]
        found = compose(RoundKinds.of([*rounds, (2.0, 0.1, 5)]), 1e-5)
        alone = compose(RoundKinds.of(rounds), 1e-5)
        assert found.best.accountant == "PLD"
        assert alone.best.epsilon < found.best.epsilon < found.rdp.epsilon

    @pytest.mark.parametrize("rounds, z", [(200_000, 50.0), (1000, 0.3)])
    def test_pld_is_not_asked_for_what_takes_too_long_or_says_nothing(self, rounds, z):
        best = both(z, rounds, 1e-5, 0.5).best
        assert best.accountant == "RDP"
        assert "PLD" in best.words

    def test_sampling_counts_nothing_under_replacement(self):
        sampled = compose(RoundKinds.of([(1.0, 0.1, 10)]), 1e-5, "replace")
        assert sampled.best.epsilon == compose(RoundKinds.of([(1.0, 1.0, 10)]), 1e-5).best.epsilon
        assert all("sampling counts nothing under replace" in f.words for f in sampled.figures)


class TestLeastMultiplier:
    @pytest.mark.parametrize("epsilon, rounds", [(0.1, 1), (1.0, 100), (50.0, 1000)])
    def test_full(self, epsilon, rounds):
        z = least_multiplier(epsilon, 1e-6, rounds)
        assert both(z, rounds, 1e-6).best.epsilon == pytest.approx(epsilon, rel=1e-9)

    @pytest.mark.parametrize(
        "epsilon, rounds, q", [(1.0, 100, 0.26), (30.0, 50, 0.1), (3.0, 6, 0.4)]
    )
    def test_sampled(self, epsilon, rounds, q):
        z = least_multiplier(epsilon, 1e-6, rounds, q)
        assert both(z, rounds, 1e-6, q).best.epsilon <= epsilon
        assert both(z * 0.998, rounds, 1e-6, q).best.epsilon > epsilon
        assert z < least_multiplier(epsilon, 1e-6, rounds)

    @pytest.mark.parametrize(
        "epsilon, delta", [(0, 1e-5), (-1, 1e-5), (math.inf, 1e-5), (1, 0), (1, 1), (1e9, 1e-5)]
    )
    def test_refuses(self, epsilon, delta):
        with pytest.raises(ValueError):
            least_multiplier(epsilon, delta, 10, 0.5)


class TestFilter:
    @settings(max_examples=200, deadline=None)
    @given(
        st.floats(-2, 2),
        st.floats(-10, -2),
        st.lists(st.floats(-1.5, 3), max_size=60),
        st.booleans(),
    )
    def test_gaussian_never_passes_its_total(self, log_epsilon, log_delta, log_z, greedy):
        """Rounds of any size in any order, and what is left taken whole."""
        epsilon = 10.0**log_epsilon
        delta = 10.0**log_delta
        budget = GaussianFilter(epsilon, delta)
        played = []
        for z in 10.0 ** np.array(log_z):
            if budget.admits(sum(played), 1 / z**2):
                played.append(1 / z**2)
        if greedy:
            left = budget.left(sum(played))
            assert budget.admits(sum(played), left)
            played.append(left)
        assert epsilon_of(delta, math.sqrt(sum(played))) <= epsilon
        if greedy:
            assert epsilon_of(delta, math.sqrt(sum(played))) == pytest.approx(epsilon, rel=1e-6)

    def test_what_is_left_of_a_whole_budget_is_one_round(self):
        budget = GaussianFilter(3.0, 1e-5)
        assert budget.left(0.0) == pytest.approx(least_multiplier(3.0, 1e-5, 1) ** -2, rel=1e-8)
        assert not budget.admits(0.0, budget.left(0.0) / 0.999**2)
        assert budget.left(budget.total) == 0.0


# -- from epsilon to noise: the exact calibration and the older formula, and what either is refused
# for

FACTS = RoundContext(1, 0.0, Public(Area(0.0, 0.0, 1.0, 1.0), 1))
RNG = Streams(8).at("defense.gaussian", 2)
EPSILONS = [0.01, 0.1, 0.5, 0.99, 1.0, 3.0, 10.0, 20.0, 100.0]
DELTAS = [1e-12, 1e-9, 1e-7, 1e-5, 1e-3, 0.1, 0.5]


def plain_delta(epsilon, sigma):
    """Balle and Wang 2018, Theorem 8, as it is printed, for sensitivity 1."""

    def phi(x):
        return math.erfc(-x / math.sqrt(2)) / 2

    a = 1 / (2 * sigma)
    b = epsilon * sigma
    return phi(a - b) - math.exp(epsilon) * phi(-a - b)


def protect(*parts, n=3, d=4000):
    """A chain's device half on rows of ones; the last one's spends."""
    empty = Local(
        np.arange(n),
        np.zeros(n, int),
        np.zeros(n + 1, int),
        np.zeros((0, 2)),
        np.zeros(0),
        np.zeros(0),
    )
    updates = DenseUpdates(np.arange(n), np.zeros(n, int), np.ones(n), np.ones((n, d)))
    for part in parts:
        before = updates
        (updates, _, spends) = part.protect(updates, empty, FACTS, part.start(0), RNG)
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
    @pytest.mark.parametrize(
        "epsilon, delta", [(0, 0.1), (-1, 0.1), (math.inf, 0.1), (math.nan, 0.1), (1, 0), (1, 1)]
    )
    def test_refuses_what_has_no_answer(self, law, epsilon, delta):
        with pytest.raises(ValueError, match="must"):
            law(epsilon, delta)


class TestClassic:
    @pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 0.99])
    @pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-3])
    def test_holds_below_one_and_wastes_noise(self, epsilon, delta):
        sigma = classic_multiplier_of(epsilon, delta)
        assert sigma == math.sqrt(2 * math.log(1.25 / delta)) / epsilon
        assert delta_of(epsilon, 1 / sigma) < delta
        assert sigma > multiplier_of(epsilon, delta)

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
            (
                {"epsilon": 20, "calibration": "classic", "classic_beyond_one": True},
                classic_multiplier_of(20, 1e-6),
            ),
            ({"noise_multiplier": 0.5}, 0.5),
        ],
    )
    def test_noise_scales_by_the_sensitivity_and_the_ledger_states_its_true_cost(
        self, relation, sensitivity, keys, multiplier
    ):
        """So it means the same loss under either relation: mu = 1 / z."""
        noise, (spend,) = protect(Clip(norm=3.0, relation=relation), Gaussian(delta=1e-6, **keys))
        std = multiplier * sensitivity
        assert spend.std.tolist() == [std] * 3
        assert spend.sensitivity.tolist() == [sensitivity] * 3
        assert noise.std() == pytest.approx(std, rel=0.03)
        (said,) = Ledger(3).add([spend]).statements()
        np.testing.assert_allclose(said.epsilon, epsilon_of(1e-6, 1 / multiplier), rtol=1e-12)

    @pytest.mark.parametrize(
        "keys, says",
        [
            ({}, "exactly one of noise_multiplier and epsilon"),
            (
                {"noise_multiplier": 1.0, "epsilon": 1.0},
                "exactly one of noise_multiplier and epsilon",
            ),
            ({"noise_multiplier": 1.0, "calibration": "classic"}, "needs an epsilon"),
            (
                {"epsilon": 1.0, "calibration": "classic"},
                "below 1, not 1; use calibration: analytic",
            ),
            (
                {"epsilon": 20.0, "calibration": "classic"},
                "below 1, not 20; .* or classic_beyond_one: true",
            ),
            ({"epsilon": 0.5, "classic_beyond_one": True}, "is for calibration: classic"),
            ({"noise_multiplier": 1.0, "classic_beyond_one": True}, "is for calibration: classic"),
        ],
    )
    def test_refusals_are_one_line(self, keys, says):
        with pytest.raises(ValidationError, match=says) as error:
            Gaussian(**keys)
        (one,) = error.value.errors()
        assert "\n" not in one["msg"]
