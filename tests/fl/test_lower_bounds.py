"""Lower bounds on epsilon by scores of canaries, against published numbers, closed forms and
simulated null sets."""

from __future__ import annotations

import numpy as np
import pytest
from fl_values import read_rows
from numpy.random import default_rng
from pytest import approx
from scipy.special import ndtri
from scipy.stats import beta, binom

from fl.privacy import lower_bounds
from fl.privacy.gaussian import compute_gaussian_epsilon

parametrize = pytest.mark.parametrize

ESTIMATORS = [
    lower_bounds.bound_gaussian_epsilon_by_normal,
    lower_bounds.bound_gaussian_epsilon_by_clopper_pearson,
    lower_bounds.bound_gaussian_epsilon_by_f_dp,
    lower_bounds.bound_epsilon_by_one_run,
]
QUANTILES = ndtri((np.arange(10_000) + 0.5) / 10_000)


@parametrize(
    ("shift", "one_run", "f_dp"),
    read_rows("""
    1 1.13346  2.164749
    2 2.311945 4.7218075
    4 4.395568 9.133752
    """),
)
def test_one_run_and_f_dp_have_the_published_numbers(shift, one_run, f_dp):
    """Quantile-spaced normal scores; the published numbers come of searches that stop within
    1e-6."""
    args = (np.stack([QUANTILES + shift, QUANTILES]), 1e-6, 0.05)
    assert lower_bounds.bound_epsilon_by_one_run(*args) == approx(one_run, abs=1e-6)
    assert lower_bounds.bound_gaussian_epsilon_by_f_dp(*args) == approx(f_dp, abs=1.1e-6)


@parametrize("shift", [1, 2, 4, 6])
def test_no_bound_is_above_the_truth_and_those_of_gaussian_dp_are_near(shift):
    """Also beyond a shift of 2, of as many scores as say enough."""
    truth = compute_gaussian_epsilon(1e-6, float(shift))
    proven = [bound(np.stack([QUANTILES + shift, QUANTILES]), 1e-6, 0.05) for bound in ESTIMATORS]
    assert max(proven) < truth
    assert min(proven[:2]) > (0.9 if shift < 6 else 0.75) * truth


def test_clopper_pearson_at_one_rank_by_hand():
    """Of 8 scores ranks 4 and 1 are taken, at a sixth of the significance each and side."""
    outside = np.arange(8.0)
    inside = np.array([3.5, 4.5, 5.5, 6.5, 7.5, 7.6, 7.7, 7.8])
    false = [beta.ppf(1 - 0.05 / 6, k, 9 - k) for k in (4, 1)]  # of n/2, n/8 and n/32, at least 1
    true = [beta.ppf(0.05 / 6, above, 9 - above) for above in (7, 4)]  # above the scores 4 and 7
    by_hand = max(0.0, *(ndtri(t) - ndtri(f) for t, f in zip(true, false, strict=True)))
    result = lower_bounds.bound_gaussian_epsilon_by_clopper_pearson(
        np.stack([inside, outside]), 1e-3, 0.05
    )
    assert result == approx(compute_gaussian_epsilon(1e-3, by_hand))


def test_the_hull_has_no_vertex_below_a_chord():
    """Against all chords, slowly."""
    rng = default_rng(0)
    inside = rng.normal(1, 1, 40).round(1)
    outside = rng.normal(0, 1, 40).round(1)
    guesses, right = lower_bounds.find_roc_vertices(np.stack([inside, outside]))
    wrong = guesses - right
    cuts = [np.inf, *np.unique([*inside, *outside])]
    vertices = {(int((inside >= cut).sum()), int((outside >= cut).sum())) for cut in cuts}
    slow = {
        p
        for p in vertices
        if not any(
            a[1] <= p[1] <= b[1]
            and a[0] <= p[0] <= b[0]
            and (p[0] - a[0]) * (b[1] - a[1]) <= (b[0] - a[0]) * (p[1] - a[1])
            for a in vertices
            for b in vertices
            if p not in (a, b) and a != b
        )
    }
    assert set(zip(right.tolist(), wrong.tolist(), strict=True)) == slow
    assert (right[0], wrong[0], right[-1], wrong[-1]) == (0, 0, 40, 40)


def test_guesses_without_delta_are_binomial():
    """With delta 0 the bound is where as many correct guesses have the probability of the
    significance."""
    epsilon = lower_bounds.bound_epsilon_by_one_run(
        np.array([[2.0] * 60 + [0.0] * 40, [2.0] * 10 + [0.0] * 90]), 0.0, 0.05
    )
    share = 0.05 / 3
    result = binom.sf(59, 70, 1 / (1 + np.exp(-epsilon)))
    assert result == approx(share, rel=1e-5)


@parametrize("bound", ESTIMATORS)
def test_of_scores_that_say_nothing_few_prove_anything(bound):
    """At most 5 % and two standard errors of 1,000 null sets; ties at random included."""
    sets = default_rng(2).normal(0, 1, (1000, 2, 60))
    alarms = sum(bound(n_proven, 1e-6, 0.05) > 0 for n_proven in sets)
    assert alarms <= 1000 * 0.05 + 2 * np.sqrt(1000 * 0.05 * 0.95)


@parametrize("bound", ESTIMATORS[:2])
def test_a_known_gaussian_mechanism_is_passed_at_most_once_in_a_hundred(bound):
    """mu 1.3, 500 scores a side, at 0.001."""
    rng = default_rng(3)
    truth = compute_gaussian_epsilon(1e-7, 1.3)
    proven = [bound(rng.normal([[1.3], [0]], 1, (2, 500)), 1e-7, 0.001) for _ in range(100)]
    assert sum(p > truth for p in proven) <= 1
    assert 0.5 * truth < np.median(proven) < truth


def test_scores_without_noise_prove_everything_and_equal_ones_nothing():
    """No spread: mu of 100 or so by the normal fit; 0 without a difference."""
    same = np.zeros((2, 50))
    assert (
        lower_bounds.bound_gaussian_epsilon_by_normal(same + np.array([[1], [0]]), 1e-6, 0.001)
        > 1000
    )
    assert lower_bounds.bound_gaussian_epsilon_by_normal(same, 1e-6, 0.001) == 0
    for bound in ESTIMATORS:
        assert bound(same, 1e-6, 0.001) == 0
        assert bound(same + np.array([[1], [0]]), 1e-6, 0.001) > 1
