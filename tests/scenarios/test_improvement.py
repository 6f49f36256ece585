"""Probability of improvement: pairs counted one by one, and intervals that are known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from scenarios.app.results.trainings import estimate_win_probability

DRAW = np.random.default_rng(5)


def by_pairs(costs, rest):
    """Mean over worlds of the share of pairs of seeds that are won, ties as a half."""
    shares = []
    for m in range(len(costs[0])):
        won = 0.0
        for x in costs:
            for y in rest:
                won += 1.0 if x[m] < y[m] else 0.5 if x[m] == y[m] else 0.0
        shares.append(won / (len(costs) * len(rest)))
    return sum(shares) / len(shares)


def test_it_is_the_share_of_pairs():
    for _ in range(20):
        n, k, worlds = DRAW.integers(1, 6, 3)
        costs = DRAW.integers(0, 4, (n, worlds)) * 1.0
        rest = DRAW.integers(0, 4, (k, worlds)) * 1.0
        assert estimate_win_probability(costs, rest)[0] == pytest.approx(
            by_pairs(costs.tolist(), rest.tolist())
        )


def test_who_always_wins_has_wilsons_interval_over_worlds_and_swapping_gives_the_rest():
    """Of 8 of 8 it begins at 8 / (8 + z^2)."""
    costs = DRAW.uniform(0, 1, (3, 8))
    rest = DRAW.uniform(0.2, 1.2, (4, 8))
    low = 8 / (8 + 1.959964**2)
    assert estimate_win_probability(costs, costs + 2) == pytest.approx((1.0, low, 1.0))
    assert estimate_win_probability(costs, costs - 2) == pytest.approx((0.0, 0.0, 1 - low))
    present = estimate_win_probability(costs, rest)
    back = estimate_win_probability(rest, costs)
    assert present[0] + back[0] == pytest.approx(1.0)
    assert present[1] < present[0] < present[2]
    assert present == estimate_win_probability(costs, rest)


def test_the_interval_is_that_of_resampling_worlds_and_seeds_by_loops():
    """Another generator, one draw at a time: quantiles agree within what 2,000 draws leave open."""
    costs = DRAW.normal(0.0, 1.0, (4, 12))
    rest = DRAW.normal(0.4, 1.0, (1, 12))
    random = np.random.Generator(np.random.MT19937(8))
    result = []
    for _ in range(4000):
        total = 0.0
        for m in random.choice(12, 12):
            own_rows = [costs[i, m] for i in random.choice(4, 4)]
            total += np.mean([x < rest[0, m] for x in own_rows])
        result.append(total / 12)
    _, low, high = estimate_win_probability(costs, rest)
    assert_allclose([low, high], np.quantile(result, [0.025, 0.975]), atol=0.03)
    assert 0.15 < high - low < 0.6


def test_one_seed_has_the_interval_over_worlds():
    """Half of 400 worlds won: binomial, 0.5 +- 1.96 sqrt(0.25 / 400)."""
    mean, low, high = estimate_win_probability(
        np.repeat([[0.0, 2.0]], 200, axis=0).reshape(1, -1), np.ones((1, 400))
    )
    assert mean == 0.5
    assert_allclose([low, high], [0.451, 0.549], atol=0.006)


def test_ties_are_half_wins_on_both_sides():
    chance, low, high = estimate_win_probability(np.ones((1, 3)), np.ones((1, 3)))
    assert chance == 0.5
    assert low == pytest.approx(1 - high)
