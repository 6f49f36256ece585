"""Baselines of samples of many rounds are measured again where samples have grown."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from fl.references import Baselines, Reference
from fl.types import HeldOut, Local


def held(n, first=0):
    number = np.arange(first, first + n)
    return HeldOut(number, number % 3, np.column_stack([number, -number]).astype(float), number / 2, number % 5)


def trained(n, first=0):
    x = np.column_stack([np.arange(first, first + n), np.zeros(n)]).astype(float)
    return Local(np.array([1]), np.array([0]), np.array([0, n]), x, x[:, 0] / 7, np.zeros(n), np.zeros(n, int))


def play(monkeypatch, rounds, n, every_held=True):
    """Rounds of so many samples each: after which of them baselines were measured, and the last figures."""
    measured, evaluate = [], Reference.evaluate

    def count(self, held_out):
        measured.append(len(self))
        return evaluate(self, held_out)

    monkeypatch.setattr(Reference, "evaluate", count)
    reference, held_out, found = Reference.empty(), held(50), Baselines()
    for k in range(rounds):
        reference = Reference.join([reference, Reference.of(trained(n, k * n))])
        held_out = HeldOut.join([held_out, held(5, 5 * k)]) if every_held else held_out
        found = found.after(reference, held_out, 2000)
    return [m // n for m in measured], found


@pytest.mark.slow
def test_the_samples_that_baselines_read_grow_no_faster_than_the_run(monkeypatch):
    read = {rounds: sum(play(monkeypatch, rounds, 400)[0]) for rounds in (500, 2000)}
    assert read[2000] / read[500] < 4.7  # in every round: 16


def test_baselines_stand_within_a_fiftieth_of_the_samples(monkeypatch):
    at, found = play(monkeypatch, 300, 400)
    assert all(b - a <= max(1, a / 50 + 1) for a, b in pairwise(at))
    assert 51 * found.trained >= 50 * 300 * 400 - 51 * 400
    now = Reference.of(trained(found.trained)).evaluate(held(50))
    assert found.figures.keys() == now.keys()
