"""Samples of many rounds: the same as if they were one array, at a cost that does not grow with the rounds before."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from fl.round import so_far
from fl.round.baselines import Reference
from fl.round.so_far import Baselines, HeldOutSoFar, ReferenceSoFar
from fl.types import HeldOut, Local
from netsim.tree import from_tree, to_tree


def held(n, first=0):
    number = np.arange(first, first + n)
    return HeldOut(number, number % 3, np.column_stack([number, -number]).astype(float), number / 2, number % 5)


def trained(n, first=0):
    x = np.column_stack([np.arange(first, first + n), np.zeros(n)]).astype(float)
    return Local(np.array([1]), np.array([0]), np.array([0, n]), x, x[:, 0] / 7, np.zeros(n), np.zeros(n, int))


def gathered(sizes):
    """Held-out samples of rounds of these sizes, in pieces, and as one array."""
    first, pieces = np.cumsum([0, *sizes]), HeldOutSoFar()
    for at, n in zip(first, sizes, strict=False):
        pieces = pieces.plus(held(n, at))
    return pieces, held(sum(sizes))


@pytest.mark.parametrize(
    "sizes", [[], [0, 0], [5], [7] * 40, [100, 0, 1, 1, 1, 60, 2], list(range(30)), [1, 2, 4, 8, 16]]
)
def test_pieces_are_one_array_in_order(sizes):
    pieces, whole = gathered(sizes)
    assert len(pieces) == len(whole) == sum(sizes)
    for most in (1, 2, 9, 10_000):
        thin, same = pieces.thinned(most), whole.thinned(most)
        for name in ("ue", "model", "x", "y", "cell", "group"):
            np.testing.assert_array_equal(getattr(pieces.whole, name), getattr(whole, name))
            np.testing.assert_array_equal(getattr(thin, name), getattr(same, name))


def test_a_sample_is_copied_a_few_times_whatever_the_number_of_rounds(monkeypatch):
    copied, joined = [], so_far._joined
    monkeypatch.setattr(
        so_far, "_joined", lambda p: (copied.append(sum(map(len, p)) if len(p) > 1 else 0), joined(p))[1]
    )
    pieces, _ = gathered([10] * 2000)
    assert len(pieces.pieces) <= np.log2(20_000) + 1
    assert sum(copied) <= 20_000 * np.log2(20_000)  # appending to one array would copy 20 million
    lengths = [len(piece) for piece in pieces.pieces]
    assert all(2 * b <= a for a, b in pairwise(lengths))


def test_a_checkpoint_keeps_the_pieces():
    pieces, _ = gathered([7] * 13)
    back = from_tree(to_tree(pieces), HeldOutSoFar())
    assert [len(p) for p in back.pieces] == [len(p) for p in pieces.pieces]
    np.testing.assert_array_equal(back.whole.x, pieces.whole.x)


def play(monkeypatch, rounds, n, every_held=True):
    """Rounds of so many samples each: after which of them baselines were measured, and the last figures."""
    measured, evaluate = [], Reference.evaluate

    def count(self, held_out):
        measured.append(len(self))
        return evaluate(self, held_out)

    monkeypatch.setattr(Reference, "evaluate", count)
    reference, held_out, found = ReferenceSoFar(), HeldOutSoFar().plus(held(50)), Baselines()
    for k in range(rounds):
        reference = reference.plus(trained(n, k * n))
        held_out = held_out.plus(held(5, 5 * k)) if every_held else held_out
        found = found.after(reference, held_out, 2000)
    return [m // n for m in measured], found


def test_baselines_of_short_runs_are_measured_in_every_round(monkeypatch):
    assert play(monkeypatch, 50, 10)[0] == list(range(1, 51))
    assert play(monkeypatch, 50, 600)[0] == list(range(1, 51))  # beyond FEW from the ninth round on


@pytest.mark.slow
def test_the_samples_that_baselines_read_grow_no_faster_than_the_run(monkeypatch):
    read = {rounds: sum(play(monkeypatch, rounds, 400)[0]) for rounds in (500, 2000)}
    assert read[2000] / read[500] < 4.7  # in every round: 16


def test_baselines_stand_within_a_fiftieth_of_the_samples(monkeypatch):
    at, found = play(monkeypatch, 300, 400)
    assert all(b - a <= max(1, a / 50 + 1) for a, b in pairwise(at))
    assert 51 * found.trained >= 50 * 300 * 400 - 51 * 400
    now = ReferenceSoFar().plus(trained(found.trained)).whole.evaluate(held(50))
    assert found.figures.keys() == now.keys()


def test_what_is_held_out_first_in_a_late_round_is_scored_at_once():
    reference = ReferenceSoFar().plus(trained(9000))
    none = Baselines().after(reference, HeldOutSoFar(), 2000)
    assert np.isnan(none.figures["raw_upload_rmse_db"]) and none.after(reference, HeldOutSoFar(), 2000) is none
    some = none.after(
        reference,
        HeldOutSoFar().plus(HeldOut(*[np.zeros(1, int)] * 2, np.ones((1, 2)), np.ones(1), np.zeros(1, int))),
        2000,
    )
    assert np.isfinite(some.figures["raw_upload_rmse_db"])


def test_of_the_thinned_samples_alone_are_copied():
    pieces, _ = gathered([100] * 50)
    assert sum(p.x.size for p in (pieces.thinned(10),)) == 20
