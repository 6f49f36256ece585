"""Defenses that leave out part of an update: projections on subspaces, large numbers alone, few
bits."""

from contextlib import nullcontext

import numpy as np
import pytest
from local_data import make_local
from numpy.linalg import norm
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx, mark

from fl.defenses.compression import Projection, Quantise, TopK
from fl.types import Bound, DenseUpdates, Public, RoundContext
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Streams

FACTS = RoundContext(1, 0.0, Public(Area(0.0, 0.0, 1.0, 1.0), 1))
NOBODY = make_local([], np.zeros((0, 2)), None)


def protect(part, values, round_=1, ue=None, bound=None):
    n = len(values)
    ue = np.arange(n) if ue is None else np.asarray(ue)
    updates = DenseUpdates(ue, np.zeros(n, int), np.ones(n), values, bound=bound)
    return part.protect(
        updates, NOBODY, FACTS, part.start(9), Streams(5).derive_rng("defense", round_)
    )[0]


def normal(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


EVERY = [
    Projection(dimension=7),
    Projection(dimension=2100),
    TopK(share=0.1),
    Quantise(bits=4),
    Quantise(bits=1),
]


@mark.parametrize("part", EVERY, ids=lambda p: p.kind)
@mark.parametrize("d", [1, 40, 5000])
def test_what_every_one_of_them_keeps(part, d):
    """Inputs stay, zeros stay zero, a UE's result does not depend on others, and bounds hold where
    that is said."""
    values = normal(5, d)
    values[3] = 0.0
    kept = values.copy()
    updates = protect(part, values, bound=Bound(1.0))
    assert_array_equal(values, kept)
    assert not updates.values[3].any()
    assert np.isfinite(updates.values).all()
    alone = protect(part, values[2:3], ue=[2])
    assert_allclose(alone.values[0], updates.values[2], rtol=0, atol=1e-15)
    if part.kind != "quantise" or part.bits == 1:
        assert (norm(updates.values, axis=1) <= norm(values, axis=1) * (1 + 1e-15)).all()
    assert updates.bound == (Bound(1.0) if part.kind == "projection" else None)
    assert_array_equal(protect(part, values).values, updates.values)


class TestProjection:
    @mark.parametrize("d", [9, 2048, 5001])
    def test_it_is_an_orthogonal_projection_of_that_rank(self, d):
        part = Projection(dimension=7)
        if d < 100:
            p = protect(part, np.eye(d)).values
            assert_allclose(p, p.T, atol=1e-12)
            assert_allclose(p @ p, p, atol=1e-12)
            assert np.trace(p) == approx(7, abs=1e-9)
        u = normal(9, d)
        once = protect(part, u).values
        assert_allclose(protect(part, once).values, once, atol=1e-12)
        assert_allclose(((u - once) * once).sum(axis=1), 0.0, atol=1e-9)
        size = np.linalg.svd(once, compute_uv=False)
        assert (size > 1e-9).sum() == 7

    def test_it_is_linear_and_never_moves_two_updates_apart(self):
        part = Projection(dimension=30)
        u = normal(6, 3000)
        projected = protect(part, u).values
        of_sum = protect(part, u[:1] + 2 * u[1:2], ue=[4]).values[0]
        assert_allclose(of_sum, projected[0] + 2 * projected[1], atol=1e-12)
        assert part.contracts
        for i in range(5):
            assert norm(projected[i] - projected[i + 1]) <= norm(u[i] - u[i + 1])

    @mark.parametrize("d", [2, 12, 300, 5001])
    def test_rounding_stays_within_what_clips_leave_room_for(self, d):
        part = Projection(dimension=max(1, d - 1))
        inside = protect(part, normal(500, d)).values
        again = protect(part, inside).values
        excess = norm(again, axis=1) / norm(inside, axis=1) - 1
        assert excess.max() <= (d + 8) * np.finfo(float).eps

    def test_its_mean_over_rounds_is_a_share_of_the_update(self):
        """E[P P^T u] = (r / d) u, and E |P P^T u|^2 = (r / d) |u|^2, for an update of one number,
        too."""
        part = Projection(dimension=40)
        u = np.stack([np.eye(160)[3], normal(1, 160)[0]])
        many = np.array([protect(part, u, k).values for k in range(1, 801)])
        deviation = many.std(axis=0) / np.sqrt(len(many))
        assert np.abs((many.mean(axis=0) - 0.25 * u) / deviation).max() < 5
        energy = (many**2).sum(axis=2).mean(axis=0)
        assert energy == approx(0.25 * (u**2).sum(axis=1), rel=0.05)


class TestTopK:
    def test_exactly_so_many_of_the_largest_stay(self):
        u = normal(4, 1000)
        kept_largest = protect(TopK(share=0.05), u).values
        for before, after in zip(u, kept_largest, strict=True):
            kept = after != 0
            assert kept.sum() == 50
            assert_array_equal(after[kept], before[kept])
            assert np.abs(before[kept]).min() >= np.abs(before[~kept]).max()

    def test_it_may_move_updates_apart_and_says_so(self):
        u = np.array([[1.0, 0.9], [0.9, 1.0]])
        moved = protect(TopK(share=0.5), u).values
        assert norm(moved[0] - moved[1]) > norm(u[0] - u[1])
        assert not TopK().contracts


class TestQuantise:
    def test_levels(self):
        u = normal(3, 500)
        quantised = protect(Quantise(bits=4), u).values
        size = norm(u, axis=1)
        level = quantised / size[:, None] * 7
        assert_allclose(level, np.rint(level), atol=1e-9)
        assert np.abs(level).max() <= 7 + 1e-9
        assert (np.abs(quantised - u) <= size[:, None] / 7 + 1e-12).all()

    @mark.parametrize("bits", [2, 5])
    def test_it_is_unbiased(self, bits):
        u = normal(1, 60)
        part = Quantise(bits=bits)
        many = protect(part, np.repeat(u, 4000, axis=0)).values
        deviation = many.std(axis=0) / np.sqrt(4000) + 1e-12
        assert np.abs((many.mean(axis=0) - u[0]) / deviation).max() < 5


@mark.parametrize("kind", ["projection", "top-k", "quantise"])
def test_a_bound_stays_where_it_is_said_to(kind, tiny):
    clip, part, noise = {"kind": "clip"}, {"kind": kind}, {"noise_multiplier": 1.0}

    def refuse(reason):
        return nullcontext() if kind == "projection" else pytest.raises(BadInput, match=reason)

    local = noise | {"kind": "gaussian"}
    with refuse("needs a bound"):
        tiny({"learning.defenses": [clip, part, local]})
    tiny({"learning.defenses": [part, clip, local]})
    central = [clip | {"relation": "add-remove"}, noise | {"kind": "central-gaussian"}, part]
    aggregation = {"kind": "uniform", "clients": 4}
    with refuse("may move updates further apart"):
        tiny({"learning.aggregation": aggregation, "learning.defenses": central})
