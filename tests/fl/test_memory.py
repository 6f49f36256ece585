"""Whether memory helps, told by the next estimates."""

import numpy as np
import pytest

from fl.tracking.belief import Memory

UES = np.arange(5)
DRAW = np.random.default_rng(0)


def played(rounds, answer):
    """UEs that walk, with estimates of 100 m; answer(truth, estimate, before) : what is believed."""
    memory, at_m, before_m = Memory(), DRAW.uniform(0, 5000, (5, 2)), np.zeros((5, 2))
    for number in range(rounds):
        before_m, at_m = at_m, at_m + DRAW.normal(0, 50, (5, 2))
        point_m = at_m + DRAW.normal(0, 100, (5, 2))
        memory = memory.plus(number, UES, answer(at_m, point_m, before_m), point_m)
    return memory


def test_answers_nearer_to_the_truth_help():
    memory = played(60, lambda truth, point, before: 0.5 * (truth + point))
    assert memory.total_m < 0 and not memory.misleads


def test_answers_that_stay_behind_mislead():
    memory = played(60, lambda truth, point, before: point + np.array([300.0, 0.0]))
    assert memory.misleads


def test_terms_are_of_successive_rounds_and_of_ues_in_both():
    two, three = np.array([1, 4]), np.array([1, 2, 4])
    none = np.full(2, np.nan)
    memory = Memory().plus(3, two, np.array([[0.0, 0], [10, 0]]), np.array([[3.0, 4], [0, 0]]))
    memory = memory.plus(4, three, np.zeros((3, 2)), np.array([[6.0, 8], [1, 1], none]))
    assert memory.count == 1 and memory.total_m == pytest.approx(10 - 5) and memory.square_m2 == pytest.approx(25)
    assert memory.plus(4, two, np.zeros((2, 2)), np.ones((2, 2))) is memory  # a second look
    assert memory.plus(6, two, np.zeros((2, 2)), np.ones((2, 2))).count == 1  # a round was left out
