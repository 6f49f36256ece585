"""Stated probabilities against hits: by hand, with bins, and what chance alone makes."""

import numpy as np
import pytest

from fl.leakage.reliability import reliability

DRAW = np.random.default_rng(7)


def stated(ues, rounds, shift=0.0):
    """Each UE's rounds are one draw: all right or all wrong, with the probability stated less the shift."""
    p = np.repeat(DRAW.uniform(0.1, 0.9, ues), rounds)
    right = np.repeat(DRAW.uniform(size=ues), rounds) < p - shift
    return np.repeat(np.arange(ues), rounds), p, right


def test_by_hand():
    """Two bins: 3 statements of 0.25, one right; 2 of 1.0, both right."""
    found = reliability(np.arange(5), np.array([0.25, 0.25, 0.25, 1.0, 1.0]), np.array([1, 0, 0, 1, 1]))
    assert found.count == 5 and found.error == pytest.approx(abs(3 * 0.25 - 1) / 5)


def test_an_attack_that_is_right_about_itself():
    found = reliability(*stated(4000, 1), draws=100)
    assert found.error < 0.03
    assert found.error == pytest.approx(found.by_chance_error, abs=0.012)


def test_rounds_of_one_ue_are_one_draw():
    """A hundred statements of each of ten UEs are no thousand: chance alone is large."""
    ue, p, right = stated(10, 100)
    found, singly = reliability(ue, p, right), reliability(np.arange(1000), p, right)
    assert found.error == pytest.approx(singly.error)
    assert found.by_chance_error > 3 * singly.by_chance_error


def test_too_sure_is_seen():
    found = reliability(*stated(2000, 5, shift=0.1))
    assert found.error > 1.5 * found.by_chance_error and found.error == pytest.approx(0.1, abs=0.05)
