"""Stated probabilities against hits: by hand, with bins, intervals, and what chance alone makes."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fl.leakage.reliability import reliability

DRAW = np.random.default_rng(7)


def draws(ues, count=400):
    return np.random.default_rng(1).uniform(size=(count, ues))


def stated(ues, rounds, shift=0.0):
    """Each UE's rounds are one draw: all right or all wrong, with the probability stated less the shift."""
    p = np.repeat(DRAW.uniform(0.1, 0.9, ues), rounds)
    right = np.repeat(DRAW.uniform(size=ues), rounds) < p - shift
    return np.repeat(np.arange(ues), rounds), p, right


def test_by_hand():
    """Two bins: 3 statements of 0.25, one right; 2 of 1.0, both right."""
    ue, p, right = np.arange(5), np.array([0.25, 0.25, 0.25, 1.0, 1.0]), np.array([1, 0, 0, 1, 1])
    found = reliability(ue, p, right, draws(5))
    assert_array_equal(found.count, [0, 0, 3, 0, 0, 0, 0, 0, 0, 2])
    assert found.hit[2] == pytest.approx(1 / 3) and found.stated[9] == 1 and np.isnan(found.hit[0])
    assert found.error == pytest.approx(abs(3 * 0.25 - 1) / 5)
    assert found.brier == pytest.approx((0.75**2 + 2 * 0.25**2) / 5)


def test_an_attack_that_is_right_about_itself():
    ue, p, right = stated(4000, 1)
    found = reliability(ue, p, right, draws(4000, 100))
    assert found.error < 0.03
    assert found.error == pytest.approx(found.by_chance_error, abs=0.012)


def test_rounds_of_one_ue_are_one_draw():
    """A hundred statements of each of ten UEs are no thousand: chance alone is large, and the interval wide."""
    ue, p, right = stated(10, 100)
    found = reliability(ue, p, right, draws(10))
    singly = reliability(np.arange(1000), p, right, draws(1000))
    assert found.error == pytest.approx(singly.error)
    assert found.by_chance_error > 3 * singly.by_chance_error
    assert found.error_high - found.error_low > 3 * (singly.error_high - singly.error_low)


def test_too_sure_is_seen():
    ue, p, right = stated(400, 5, shift=0.1)
    found = reliability(ue, p, right, draws(400))
    assert found.error_low > found.by_chance_error and found.error == pytest.approx(0.1, abs=0.05)
