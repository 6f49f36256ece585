"""Facts about the named random streams."""

import sys

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy import (
    arange,
    argsort,
    array,
    bincount,
    concatenate,
    corrcoef,
    full,
    intersect1d,
    isfinite,
    meshgrid,
    sqrt,
    triu_indices,
    uint64,
    unique,
)
from numpy.testing import assert_allclose, assert_array_equal
from pytest import MonkeyPatch, mark

from netsim.columns import MAX_STATIONS, number_row, split_row_id
from netsim.rng import _LONG_ROW, Rng, Streams, _derive_key

RNG = Streams(11).derive_rng("tests", 3)
DRAWS = ("uniform", "normal", "exponential")


def numpy_words(rng, label, owner, item, count):
    """What numpy's own Philox gives for the counter (0, item, round, owner), from nothing of ours
    but the key."""
    counter = array([0, item % 2**64, rng.round, owner % 2**64], uint64)
    key = array(_derive_key(rng.seed, rng.purpose, label), uint64)
    return np.random.Philox(key=key, counter=counter).random_raw(count)


def load_module(patch, compiled):
    """Compiled code is there, or not yet."""
    import numba

    if compiled:
        patch.setitem(sys.modules, "numba", numba)
    else:
        patch.delitem(sys.modules, "numba")


class TestWords:
    @mark.parametrize("count", [1, 4, 5, 63, _LONG_ROW - 1, _LONG_ROW])
    @mark.parametrize("compiled", [True, False])
    def test_equal_numpys_philox(self, monkeypatch, count, compiled):
        load_module(monkeypatch, compiled)
        rng = Streams(5).derive_rng("words", 2**40)
        owner = array([0, 1, 2, 4096 * 999_999 + 17, 2**62, -1, -12345])
        item = array([0, 7, 2**35, 86_400_000, 1, -3, 2**63 - 1])
        expected = [
            numpy_words(rng, "w", int(o), int(i), count) for o, i in zip(owner, item, strict=True)
        ]
        assert_array_equal(rng._draw_words("w", owner, count, item), expected)

    @settings(max_examples=30, deadline=None)
    @given(
        seed=st.integers(0, 2**63 - 1),
        owner=st.integers(-(2**63), 2**63 - 1),
        item=st.integers(-(2**63), 2**63 - 1),
        round_=st.integers(0, 2**63 - 1),
        count=st.integers(1, 2 * _LONG_ROW),
        compiled=st.booleans(),
    )
    def test_equal_numpys_philox_everywhere(self, seed, owner, item, round_, count, compiled):
        rng = Streams(seed).derive_rng("any", round_)
        with MonkeyPatch.context() as patch:
            load_module(patch, compiled)
            words = rng._draw_words("w", [owner], count, item)
        assert_array_equal(words, [numpy_words(rng, "w", owner, item, count)])


class TestIndependenceOfOthers:
    @mark.parametrize("draw", DRAWS)
    @mark.parametrize("short", [1, 3, 4, 5, _LONG_ROW - 1, _LONG_ROW])
    def test_a_longer_draw_starts_with_the_shorter_one(self, draw, short):
        draw = getattr(RNG, draw)
        for long in (short + 1, _LONG_ROW, 4 * _LONG_ROW):
            assert_array_equal(draw("p", [5, 6], (long,))[:, :short], draw("p", [5, 6], (short,)))

    @mark.parametrize("count", [2, _LONG_ROW])
    def test_adding_owners_shifts_nobody(self, count):
        few = RNG.normal("o", [4, 9], (count,))
        many = RNG.normal("o", [100, 9, 0, 1, 2, 3, 4], (count,))
        assert_array_equal(many[[6, 1]], few)

    def test_owners_and_items_are_told_apart(self):
        drawn = concatenate([RNG.uniform("o", arange(50), item=i) for i in range(50)])
        assert len(unique(drawn)) == 2500

    def test_everything_in_the_name_matters(self):
        owner = arange(4)
        same = Rng(11, "tests", 3)
        reference = RNG.uniform("what", owner, (4,))
        assert_array_equal(same.uniform("what", owner, (4,)), reference)
        rest = [
            same.uniform("hwat", owner, (4,)),
            Rng(11, "other", 3).uniform("what", owner, (4,)),
            Rng(12, "tests", 3).uniform("what", owner, (4,)),
            Rng(11, "tests", 4).uniform("what", owner, (4,)),
            RNG.uniform("what", owner, (4,), item=1),
            RNG.uniform("what", owner + 4, (4,)),
        ]
        assert not intersect1d(reference, concatenate(rest)).size
        a = Rng(1, "ab", 0).uniform("c", [0], (4,))
        assert not intersect1d(a, Rng(1, "a", 0).uniform("bc", [0], (4,))).size
        assert not intersect1d(a, Rng(0, "1ab", 0).uniform("c", [0], (4,))).size


class TestLaws:
    """200,000 draws: every tolerance is 5 standard errors or more."""

    owner = arange(50_000)

    def test_uniform(self):
        u = RNG.uniform("u", self.owner, (4,))
        assert u.min() > 0
        assert u.max() < 1
        assert_allclose(u.mean(), 0.5, atol=5 * sqrt(1 / 12 / u.size))
        assert_allclose(bincount((u.ravel() * 16).astype(int)), u.size / 16, rtol=0.05)
        correlation = corrcoef(u.T)[triu_indices(4, 1)]
        assert abs(correlation).max() < 5 / sqrt(len(u))

    def test_uniform_never_touches_its_ends(self, monkeypatch):
        for word, inside in ((0, 2.0**-54), (2**64 - 1, 1 - 2.0**-54)):
            monkeypatch.setattr(Rng, "_draw_words", lambda *a, w=word: full((1, 1), w, uint64))
            value = RNG.uniform("u", [0])[0]
            assert 0 < value < 1
            assert_allclose(value, inside, atol=2.0**-53)
            assert isfinite(RNG.normal("u", [0])).all()
            assert RNG.exponential("u", [0])[0] > 0

    def test_normal(self):
        z = RNG.normal("n", self.owner, (4,)).ravel()
        n = z.size
        assert_allclose(z.mean(), 0, atol=5 / sqrt(n))
        assert_allclose(z.var(), 1, atol=5 * sqrt(2 / n))
        assert_allclose((z**3).mean(), 0, atol=5 * sqrt(15 / n))
        assert_allclose((z**4).mean(), 3, atol=5 * sqrt(96 / n))

    def test_exponential(self):
        e = RNG.exponential("e", self.owner, (4,)).ravel()
        assert e.min() > 0
        assert_allclose(e.mean(), 1, atol=5 / sqrt(e.size))
        assert_allclose(e.var(), 1, atol=5 * sqrt(8 / e.size))

    def test_keys_permute_uniformly(self):
        first = [int(argsort(RNG.draw_keys("perm", owner, 5))[0]) for owner in range(4000)]
        assert_allclose(bincount(first, minlength=5), 800, atol=5 * sqrt(800 * 0.8))


def test_every_pair_has_a_number_of_its_own_and_comes_back():
    ue, model = (
        a.ravel() for a in meshgrid([0, 1, 2, 99_999], [0, 1, MAX_STATIONS - 1], indexing="ij")
    )
    row = number_row(ue, model)
    assert len(unique(row)) == len(ue)
    assert_array_equal(split_row_id(row), (ue, model))


def test_numbers_stay_what_they_are():
    """They key random draws: another number would change every result."""
    assert number_row(3, 5) == 3 * 4096 + 5
