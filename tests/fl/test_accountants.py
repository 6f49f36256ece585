"""Accountants and calibrations against published numbers, dp-accounting and each other; filters
never pass."""

import logging
import math
import warnings

import numpy as np
import pytest
from fl_values import build_context, build_local, build_updates, read_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from pytest import approx, raises
from scipy.optimize import bisect
from tabled import cases

from fl.defenses.clip import Clip
from fl.defenses.gaussian import Gaussian
from fl.privacy import rdp
from fl.privacy.compose import (
    MOST_KINDS,
    RoundKinds,
    compose_rounds,
    compute_rdp_epsilon,
    compute_zcdp_epsilon,
    find_noise_multiplier,
)
from fl.privacy.gaussian import (
    GaussianFilter,
    compute_classic_multiplier,
    compute_gaussian_delta,
    compute_gaussian_epsilon,
    compute_gaussian_multiplier,
)
from fl.privacy.ledger import Ledger
from netsim.rng import Streams

parametrize = pytest.mark.parametrize

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


def split_cells(text, rounds):
    """Each cell after what its row begins with and its number of rounds."""
    for line in text.strip().splitlines():
        words = line.split()
        for number, cell in zip(rounds, words[-len(rounds) :], strict=True):
            yield (*words[: -len(rounds)], number, cell)


def digit(text):
    """One unit of the last printed digit: a table may have cut or rounded it."""
    number, _, power = text.partition("e")
    return 10.0 ** (int(power or 0) - len(number.partition(".")[2]))


def compose(rounds, delta, *relation):
    """Compose rounds of (z, q, count)."""
    return compose_rounds(RoundKinds.from_rounds(rounds), delta, *relation)


def both(z, rounds, delta, q=1.0):
    return compose([(z, q, rounds)], delta)


def renyi_figure(z, rounds, delta, q):
    return float(rdp.compute_renyi_epsilon(rounds * rdp.compute_renyi_cost(z, q), delta))


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
    @parametrize(
        "rounds, delta, epsilon, within",
        read_rows("""
    100  1e-5 91.817  5e-4
    300  1e-5 222.977 5e-4
    1000 1e-5 633.930 5e-4
    100  1e-7 101.2   0.1
    """),
    )
    def test_exact(self, rounds, delta, epsilon, within):
        result = both(1.0, rounds, delta).best
        assert result.accountant == "exact"
        assert result.epsilon == approx(epsilon, abs=within)

    @parametrize("z, rounds, cell", [*split_cells(FULL, [1, 10, 50, 100, 200, 500])])
    def test_table_without_sampling(self, z, rounds, cell):
        result = both(float(z), rounds, 1e-7)
        (renyi, exact) = cell.split("/")
        assert result.rdp.epsilon == approx(float(renyi), abs=digit(renyi))
        assert result.best.epsilon == approx(float(exact), abs=digit(exact))

    @parametrize("q, z, rounds, renyi", [*split_cells(SAMPLED, [10, 50, 100, 200])])
    def test_table_with_sampling(self, q, z, rounds, renyi):
        result = renyi_figure(float(z), rounds, 1e-7, PART[q])
        assert result == approx(float(renyi), abs=digit(renyi))

    @parametrize(
        "epsilon, total",
        read_rows("""
    0.1  1.01
    0.2  2.07
    0.4  4.30
    0.75 8.63
    1.0  12.03
    """),
    )
    def test_zcdp_of_lapa(self, epsilon, total):
        """100 rounds by the classic formula at delta 1e-5."""
        z = math.sqrt(2 * math.log(1.25 / 1e-5)) / epsilon
        result = compute_zcdp_epsilon(100 / (2 * z * z), 1e-5)
        assert result == approx(total, abs=0.005)


class TestRenyi:
    @parametrize("q", [0.01, 10 / 38, 0.9, 1.0])
    @parametrize("z", [0.3, 1.0, 20.0])
    @parametrize("rounds", [1, 1000])
    def test_equals_dp_accounting(self, q, z, rounds):
        expected = library(z, q, rounds, 1e-6)
        assert renyi_figure(z, rounds, 1e-6, q) == approx(expected, rel=1e-6)

    def test_a_tiny_cost_keeps_its_digits(self):
        """r(2) = ln(1 + q^2 (e^(1/z^2) - 1)), of which a difference from 1 would leave nothing."""
        index = int(np.flatnonzero(rdp.ORDERS == 2.0)[0])
        expected = 1e-14 * math.expm1(1 / 2500)
        assert rdp.compute_renyi_cost(50.0, 1e-7)[index] == approx(expected, rel=1e-9)

    @parametrize("q", [1e-6, 0.3, 0.999, 1.0])
    @parametrize("z", [1e-200, 1e-3, 0.7, 1e5, 1e200])
    def test_never_negative_never_nan_never_a_warning(self, q, z, capfd):
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            cost = rdp.compute_renyi_cost(z, q)
        assert not np.isnan(cost).any()
        assert (cost >= 0).all()
        assert capfd.readouterr() == ("", "")


def test_many_kinds_of_rounds_add_up_at_each_order():
    """Rates around 0.1, some of them 1, and 20 rounds without any noise."""
    rng = np.random.default_rng(1)
    z = rng.uniform(0.2, 4.0, 20)
    rates = np.where(np.arange(20) < 3, 1.0, rng.uniform(0.1, 0.15, 20))
    cost = sum(
        rdp.compute_renyi_cost(a, b) for a, b in zip(z.tolist(), rates.tolist(), strict=True)
    )
    rounds = RoundKinds.from_rounds(zip(z, rates, np.ones(20), strict=True))
    expected = float(rdp.compute_renyi_epsilon(cost, 1e-5))
    assert compute_rdp_epsilon(rounds, 1e-5) == approx(expected, rel=1e-12)
    assert compute_rdp_epsilon(RoundKinds.from_rounds([(0.0, 0.1, 20.0)]), 1e-5) == math.inf


class TestOrder:
    """Which accountant is tighter than which."""

    @parametrize(
        "q, z, rounds",
        read_rows("""
    0.01 0.7 50
    0.26 1.0 100
    0.9  5.0 10
    """),
    )
    def test_pld_below_rdp_below_everybody(self, q, z, rounds):
        result = both(z, rounds, 1e-6, q)
        assert result.best.accountant == "PLD"
        assert result.best.epsilon <= result.rdp.epsilon
        assert result.best.epsilon <= result.naive.epsilon * 1.0001
        assert result.best.epsilon <= compute_gaussian_epsilon(1e-6, math.sqrt(rounds) / z)

    def test_pld_of_one_sampled_round_is_the_exact_amplification(self):
        result = both(1.0, 1, 1e-6, 0.25)
        expected = math.log1p(0.25 * math.expm1(compute_gaussian_epsilon(4e-6, 1.0)))
        assert result.naive.epsilon == approx(expected, rel=1e-9)
        assert result.best.epsilon == approx(result.naive.epsilon, rel=1e-3)

    def test_pld_of_nearly_everybody_is_nearly_exact(self):
        result = both(2.0, 20, 1e-6, 1 - 1e-9)
        expected = compute_gaussian_epsilon(1e-6, math.sqrt(20) / 2)
        assert result.best.epsilon == approx(expected, rel=1e-3)


class TestCompose:
    def test_naive_adds_single_rounds_at_a_share_of_delta(self):
        result = compose([(1.0, 1, 2), (2.0, 1, 1)], 3e-6)
        expected = 2 * compute_gaussian_epsilon(1e-6, 1.0) + compute_gaussian_epsilon(1e-6, 0.5)
        assert result.naive.epsilon == approx(expected, rel=1e-12)

    def test_kinds_are_merged(self):
        draws = RoundKinds.from_rounds(
            [(1.0, 0.5, 2), (2.0, 1, 1), (1.0, 0.5, 3), (1.0, 0.0, 9), (3.0, 1, 0)]
        )
        expected = [
            (1.0, 0.5, 5.0),
            (2.0, 1.0, 1.0),
        ]
        assert list(zip(draws.z, draws.q, draws.count, strict=True)) == expected

    @parametrize("q", [1.0, 0.5])
    def test_no_noise(self, q):
        result = compose([(0.0, q, 1), (1.0, q, 1)], 1e-5)
        assert all(f.epsilon == math.inf for f in result.figures)

    @parametrize("bad", [(-1, 1, 1), (1, 1.5, 1), (1, 1, -1), (math.nan, 1, 1)])
    def test_refuses(self, bad):
        with raises(ValueError):
            RoundKinds.from_rounds([bad])

    def test_many_kinds_fall_back_on_rdp_and_say_so(self):
        few = compose([(z, 0.1, 1) for z in np.linspace(1, 3, MOST_KINDS)], 1e-5)
        many = compose([(z, 0.1, 1) for z in np.linspace(1, 3, MOST_KINDS + 1)], 1e-5)
        assert few.best.accountant == "PLD"
        assert many.best.accountant == "RDP"
        assert "17 kinds" in many.best.words
        assert many.best.epsilon == many.rdp.epsilon

    def test_rounds_with_everybody_are_one_kind(self):
        rounds = [(z, 1, 1) for z in np.linspace(5, 9, 40)]
        result = compose([*rounds, (2.0, 0.1, 5)], 1e-5)
        alone = compose(rounds, 1e-5)
        assert result.best.accountant == "PLD"
        assert alone.best.epsilon < result.best.epsilon < result.rdp.epsilon

    @parametrize("rounds, z", [(200_000, 50.0), (1000, 0.3)])
    def test_pld_is_not_asked_for_what_takes_too_long_or_says_nothing(self, rounds, z):
        best = both(z, rounds, 1e-5, 0.5).best
        assert best.accountant == "RDP"
        assert "PLD" in best.words

    def test_sampling_counts_nothing_under_replacement(self):
        sampled = compose([(1.0, 0.1, 10)], 1e-5, "replace")
        assert sampled.best.epsilon == compose([(1.0, 1.0, 10)], 1e-5).best.epsilon
        assert all("sampling counts nothing under replace" in f.words for f in sampled.figures)


class TestLeastMultiplier:
    @parametrize("epsilon, rounds", [(0.1, 1), (1.0, 100), (50.0, 1000)])
    def test_full(self, epsilon, rounds):
        z = find_noise_multiplier(epsilon, 1e-6, rounds)
        assert both(z, rounds, 1e-6).best.epsilon == approx(epsilon, rel=1e-9)

    @parametrize(
        "epsilon, rounds, q",
        read_rows("""
    1.0  100 0.26
    30.0 50  0.1
    3.0  6   0.4
    """),
    )
    def test_sampled(self, epsilon, rounds, q):
        z = find_noise_multiplier(epsilon, 1e-6, rounds, q)
        assert both(z, rounds, 1e-6, q).best.epsilon <= epsilon
        assert both(z * 0.998, rounds, 1e-6, q).best.epsilon > epsilon
        assert z < find_noise_multiplier(epsilon, 1e-6, rounds)

    @parametrize(
        "epsilon, delta", [(0, 1e-5), (-1, 1e-5), (math.inf, 1e-5), (1, 0), (1, 1), (1e9, 1e-5)]
    )
    def test_refuses(self, epsilon, delta):
        with raises(ValueError):
            find_noise_multiplier(epsilon, delta, 10, 0.5)


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
            left = budget.compute_remainder(sum(played))
            assert budget.admits(sum(played), left)
            played.append(left)
        assert compute_gaussian_epsilon(delta, math.sqrt(sum(played))) <= epsilon
        if greedy:
            result = compute_gaussian_epsilon(delta, math.sqrt(sum(played)))
            assert result == approx(epsilon, rel=1e-6)

    def test_what_is_left_of_a_whole_budget_is_one_round(self):
        budget = GaussianFilter(3.0, 1e-5)
        expected = find_noise_multiplier(3.0, 1e-5, 1) ** -2
        assert budget.compute_remainder(0.0) == approx(expected, rel=1e-8)
        assert not budget.admits(0.0, budget.compute_remainder(0.0) / 0.999**2)
        assert budget.compute_remainder(budget.total) == 0.0


# -- from epsilon to noise: the exact calibration and the older formula, and what either is refused
# for

FACTS = build_context()
RNG = Streams(8).derive_rng("defense.gaussian", 2)
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
    empty = build_local(np.arange(n))
    updates = build_updates(np.ones((n, d)))
    for part in parts:
        before = updates
        (updates, _, spends) = part.protect(updates, empty, FACTS, part.start(0), RNG)
    return updates.values - before.values, spends


class TestMultiplier:
    @parametrize("epsilon", EPSILONS)
    @parametrize("delta", DELTAS)
    def test_spends_all_of_delta_and_no_more(self, epsilon, delta):
        sigma = compute_gaussian_multiplier(epsilon, delta)
        assert compute_gaussian_delta(epsilon, 1 / sigma) == approx(delta, rel=2e-12, abs=0)
        assert compute_gaussian_epsilon(delta, 1 / sigma) == approx(epsilon, rel=1e-9)
        assert compute_gaussian_delta(epsilon, 1 / (0.999 * sigma)) > delta

    def test_published_value(self):
        """The analytic Gaussian mechanism at (1, 1e-5)."""
        assert compute_gaussian_multiplier(1.0, 1e-5) == approx(3.730632, abs=1e-6)

    @parametrize("epsilon", [0.1, 1.0, 5.0, 20.0])
    @parametrize("delta", [1e-7, 1e-5, 1e-3])
    def test_bisection_of_the_printed_formula_agrees(self, epsilon, delta):
        result = bisect(lambda s: plain_delta(epsilon, s) - delta, 0.05, 500, xtol=1e-12)
        assert compute_gaussian_multiplier(epsilon, delta) == approx(result, rel=1e-7)

    @parametrize("epsilon", [1e-9, 1e-6, 1e6, 1e9])
    @parametrize("delta", [1e-300, 1e-5, 0.999])
    def test_extremes(self, epsilon, delta):
        sigma = compute_gaussian_multiplier(epsilon, delta)
        assert 0 < sigma < math.inf
        assert compute_gaussian_delta(epsilon, 1 / sigma) == approx(delta, rel=1e-4)

    @parametrize("law", [compute_gaussian_multiplier, compute_classic_multiplier])
    @parametrize(
        "epsilon, delta", [(0, 0.1), (-1, 0.1), (math.inf, 0.1), (math.nan, 0.1), (1, 0), (1, 1)]
    )
    def test_refuses_what_has_no_answer(self, law, epsilon, delta):
        with raises(ValueError, match="must"):
            law(epsilon, delta)


class TestClassic:
    @parametrize("epsilon", [0.01, 0.1, 0.5, 0.99])
    @parametrize("delta", [1e-9, 1e-5, 1e-3])
    def test_holds_below_one_and_wastes_noise(self, epsilon, delta):
        sigma = compute_classic_multiplier(epsilon, delta)
        expected = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
        assert sigma == expected
        assert compute_gaussian_delta(epsilon, 1 / sigma) < delta
        assert sigma > compute_gaussian_multiplier(epsilon, delta)

    @parametrize("epsilon, delta", [(8.0, 8.0e-6), (10.0, 2.27e-5), (20.0, 1.53e-3)])
    def test_true_delta_beyond_one(self, epsilon, delta):
        """The theorem ends at 1; the claim of delta 1e-5 fails from epsilon 8.42."""
        sigma = compute_classic_multiplier(epsilon, 1e-5)
        assert compute_gaussian_delta(epsilon, 1 / sigma) == approx(delta, rel=5e-3)
        assert plain_delta(epsilon, sigma) == approx(delta, rel=5e-3)


class TestGaussian:
    @parametrize("relation, sensitivity", [("replace", 6.0), ("add-remove", 3.0)])
    @parametrize(
        "keys, multiplier",
        [
            ({"epsilon": 0.5}, compute_gaussian_multiplier(0.5, 1e-6)),
            ({"epsilon": 0.5, "calibration": "classic"}, compute_classic_multiplier(0.5, 1e-6)),
            (
                {"epsilon": 20, "calibration": "classic", "classic_beyond_one": True},
                compute_classic_multiplier(20, 1e-6),
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
        assert noise.std() == approx(std, rel=0.03)
        (statement,) = Ledger(3).add([spend]).list_statements()
        expected = compute_gaussian_epsilon(1e-6, 1 / multiplier)
        np.testing.assert_allclose(statement.epsilon, expected, rtol=1e-12)

    @parametrize(
        "keys, says",
        cases("""
        {}, "exactly one of noise_multiplier and epsilon"
        {"noise_multiplier": 1.0, "epsilon": 1.0}, "exactly one of noise_multiplier and epsilon"
        {"noise_multiplier": 1.0, "calibration": "classic"}, "needs an epsilon"
        {"epsilon": 1.0, "calibration": "classic"}, "below 1, not 1; use calibration: analytic"
        {"epsilon": 20.0, "calibration": "classic"}, "below 1, not 20; .* or classic_beyond_one:
          true"
        {"epsilon": 0.5, "classic_beyond_one": True}, "is for calibration: classic"
        {"noise_multiplier": 1.0, "classic_beyond_one": True}, "is for calibration: classic"
        """),
    )
    def test_refusals_are_one_line(self, keys, says):
        with raises(ValidationError, match=says) as error:
            Gaussian(**keys)
        (message,) = error.value.errors()
        assert "\n" not in message["msg"]
