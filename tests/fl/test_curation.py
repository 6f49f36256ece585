"""What selections keep, what moving costs and does, and that no device's data touch another's."""

import json

import numpy as np
import pytest
from fl_values import build_context
from noticed import lines as lines_of
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import raises
from scipy import stats
from sklearn.cluster import DBSCAN
from tabled import cases

from fl.curation import (
    CURATIONS,
    DiverseBatch,
    FarthestBatch,
    Gan,
    GeoIndistinguishable,
    draw_planar_laplace,
)
from fl.dbscan import cluster_by_density
from fl.privacy.ledger import Ledger
from fl.round.caveats import collect_caveats
from fl.types import Local, MetricSpend, Public
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Streams

parametrize = pytest.mark.parametrize

AREA = Area(0.0, 0.0, 2000.0, 1500.0)
FACTS = build_context(Public(AREA, 1))
RNG = Streams(5).derive_rng("curation.x", 3)
HOME = np.array([1650.0, 700.0])
WORK = np.array([420.0, 760.0])


def local(*pieces, ue=None, model=0):
    """One row a piece (n, 2); y tells the samples apart."""
    count = [len(p) for p in pieces]
    x = np.concatenate([np.asarray(p, dtype=float).reshape(-1, 2) for p in pieces])
    if ue is None:
        ue = np.arange(len(pieces))
    else:
        ue = np.asarray(ue)
    ptr = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    y = np.arange(len(x), dtype=float)
    return Local(ue.astype(np.int64), np.full(len(pieces), model), ptr, x, y, y + 0.5)


def apply(part, data, rng=RNG):
    return part.apply(data, FACTS, part.start(0), rng)


def keep_rows(part, piece, rng=RNG):
    """Indices of the samples of a single row that are kept."""
    return apply(part, local(piece), rng).local.y.astype(int)


def blobs(*places, spread=5.0, seed=0):
    """Samples around (place, count), in random order."""
    rng = default_rng(seed)
    x = np.concatenate([rng.normal(context, spread, (n, 2)) for context, n in places])
    return rng.permutation(x)


def commuter(n, seed=0):
    """Home, work and the walk between them."""
    rng = default_rng(seed)
    home = int(0.6 * n)
    work = int(0.25 * n)
    walk = HOME + np.linspace(0, 1, n - home - work)[:, None] * (WORK - HOME)
    return np.concatenate([rng.normal(HOME, 18, (home, 2)), rng.normal(WORK, 22, (work, 2)), walk])


class TestDbscan:
    @parametrize("min_samples", [1, 2, 5, 20])
    @parametrize("eps_m", [0.1, 20.0, 400.0])
    def test_labels_are_those_of_scikit_learn(self, eps_m, min_samples):
        rng = default_rng(0)
        for x in (
            commuter(900),
            np.cumsum(rng.normal(3.0, 1.0, (700, 2)), axis=0),
            rng.uniform(0, 600, (500, 2)),
            rng.integers(0, 60, (600, 2)).astype(
                float
            ),  # many repeats, and many pairs exactly eps apart
            np.tile([3.0, 4.0], (300, 1)),
            rng.permutation(np.repeat(rng.uniform(0, 99, (9, 2)), 30, axis=0)),
        ):
            result = DBSCAN(eps=eps_m, min_samples=min_samples).fit(x).labels_
            assert_array_equal(cluster_by_density(x, eps_m, min_samples), result)


class TestDiverse:
    @parametrize("seed", range(2))
    def test_keeps_exactly_the_nearest_of_each_cluster(self, seed):
        x = np.concatenate(
            [commuter(600, seed), blobs(((300, 1200), 30), ((1000, 100), 4), seed=seed)]
        )
        label = DBSCAN(eps=15.0, min_samples=5).fit(x).labels_
        expected = []
        for c in range(label.max() + 1):
            members = np.flatnonzero(label == c)
            distance = [np.hypot(*(x[i] - x[members].mean(axis=0))) for i in members]
            expected.append(members[int(np.argmin(distance))])
        assert len(expected) > 2
        assert (label < 0).any()
        assert keep_rows(DiverseBatch(eps_m=15), x).tolist() == sorted(expected)
        done = apply(DiverseBatch(eps_m=15), local(x))
        assert (done.clusters.tolist(), done.noise.tolist()) == (
            [len(expected)],
            [(label < 0).sum()],
        )
        assert not done.fallback.any()
        assert done.spends == []


class TestFarthest:
    # the mean is close to the last place
    x = blobs(((1500, 0), 30), ((0, -700), 50), ((0, 0), 200), spread=4)
    context = np.select([x[:, 0] > 1000, x[:, 1] < -500], [0, 1], 2)

    @parametrize(
        "num, expected",
        cases("""
        1, [1, 0, 0]
        30, [30, 0, 0]
        47, [30, 17, 0]
        80, [30, 50, 0]
        """),
    )
    def test_keeps_the_farthest_clusters(self, num, expected):
        assert (
            np.bincount(
                self.context[keep_rows(FarthestBatch(num=num), self.x)], minlength=3
            ).tolist()
            == expected
        )

    def test_the_order_in_a_cluster_is_random(self):
        draws = [
            keep_rows(FarthestBatch(num=10), self.x, Streams(s).derive_rng("c", 1))
            for s in range(600)
        ]
        times = np.bincount(np.concatenate(draws), minlength=280)[self.context == 0]
        assert times.sum() == 6000
        assert stats.chisquare(times).pvalue > 1e-3


@parametrize(("part", "same"), [(DiverseBatch(), 1), (FarthestBatch(num=7), 7)])
def test_rows_of_none_one_two_and_identical(part, same):
    rows = [np.zeros((0, 2)), [[5.0, 6.0]], [[5.0, 6.0], [7.0, 8.0]], np.tile([5.0, 6.0], (40, 1))]
    done = apply(part, local(*rows))
    assert done.local.count.tolist() == [0, 1, 1, same]
    assert done.clusters.tolist() == [0, 0, 0, 1]
    assert done.noise.tolist() == [0, 1, 2, 0]
    assert done.fallback.tolist() == [False, True, True, False]


@parametrize("kind", list(CURATIONS.parts))
class TestEveryStep:
    def part(self, kind):
        part = CURATIONS.parts[kind]
        return part.model_validate_json(json.dumps(part.example), strict=True)

    def test_nobody_else_matters_and_nothing_is_changed(self, kind):
        own_samples = commuter(120, 4)
        part = self.part(kind)
        other_ues = [commuter(90 + 37 * i, i) for i in range(4)]
        crowd = local(
            other_ues[0],
            np.zeros((0, 2)),
            other_ues[1],
            own_samples,
            *other_ues[2:],
            ue=[0, 2, 4, 7, 9, 11],
            model=3,
        )
        before = crowd.x.copy()
        done = apply(part, crowd)
        assert_array_equal(crowd.x, before)
        alone = apply(part, local(own_samples, ue=[7], model=3))
        context = slice(*done.local.ptr[3:5])
        # the GAN multiplies matrices of the whole cohort, and how a product is summed depends on
        # its size
        result = done.local.x[context]
        assert_allclose(result, alone.local.x, rtol=1e-9 if kind == "gan" else 0)
        result = done.local.y[context] - crowd.ptr[3]
        assert_array_equal(result, alone.local.y)
        result = done.local.time_s[context] - crowd.ptr[3]
        assert_array_equal(result, alone.local.time_s)
        assert done.local.ue.tolist() == crowd.ue.tolist()
        assert done.local.count[1] == 0
        assert_array_equal(apply(part, crowd).local.x, done.local.x)

    def test_seed_and_owner_tell_draws_apart(self, kind):
        part = self.part(kind)
        x = commuter(120)
        draws = [
            apply(part, local(x, ue=[u], model=m), Streams(s).derive_rng("c", 1)).local.x
            for u, m, s in ((1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1))
        ]
        different = [not np.array_equal(draws[0], d) for d in draws[1:]]
        assert all(different) or (kind == "diverse-batch" and not any(different))


@pytest.fixture(scope="module")
def move_places():
    """100,000 displacements at 0.01 per metre."""
    return draw_planar_laplace(
        0.01, np.repeat(np.arange(100), 1000), np.tile(np.arange(1000), 100), RNG
    )


class TestGeoIndistinguishable:
    def test_the_radius_is_gamma_and_the_angle_uniform(self, move_places):
        radius = np.linalg.norm(move_places, axis=1)
        angle = np.arctan2(move_places[:, 1], move_places[:, 0])
        context = [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99]
        expected = stats.gamma(2, scale=100).ppf(context)
        assert_allclose(np.quantile(radius, context), expected, rtol=0.03)
        assert stats.kstest(radius, stats.gamma(2, scale=100).cdf).pvalue > 1e-3
        assert stats.kstest(angle, stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-3
        assert abs(np.corrcoef(radius, angle)[0, 1]) < 0.015

    def test_moves_every_position_and_nothing_else(self):
        data = local(commuter(300), commuter(50, 1))
        done = apply(GeoIndistinguishable(epsilon_per_m=0.1), data)
        assert (done.local.x != data.x).all()
        assert done.local.y is data.y
        assert done.local.time_s is data.time_s
        assert done.local.ptr is data.ptr
        assert len(np.unique(done.local.x - data.x, axis=0)) == 350
        assert done.clusters == -1
        assert not done.fallback

    def test_places_outside_of_the_area_are_kept(self):
        data = local(np.tile([[0.0, 0.0], [2000.0, 1500.0], [0.0, 1500.0]], (50, 1)))
        x = apply(GeoIndistinguishable(epsilon_per_m=0.01), data).local.x
        assert ((x < 0).any(axis=0) & (x > AREA.high_m).any(axis=0)).all()

    def test_books_every_location(self):
        data = local(commuter(300), np.zeros((0, 2)), commuter(50, 1), ue=[0, 1, 1])
        (spend,) = apply(GeoIndistinguishable(epsilon_per_m=0.1, name="moved"), data).spends
        assert isinstance(spend, MetricSpend)
        assert spend.mechanism == "moved"
        assert spend.points.tolist() == [300, 0, 50]
        assert spend.epsilon_per_m.tolist() == [0.1] * 3
        (lines,) = Ledger(3).add([spend]).add([spend]).list_statements()
        assert lines.unit == "location"
        assert_allclose(lines.epsilon, [60, 10, 0])


class TestGan:
    def test_a_small_rho_moves_far_and_a_large_one_hardly(self):
        data = local(commuter(1000))
        far = np.linalg.norm(apply(Gan(rho=0.2), data).local.x - data.x, axis=1).mean()
        hardly = np.linalg.norm(apply(Gan(rho=0.9), data).local.x - data.x, axis=1).mean()
        assert hardly < 20
        assert 250 < far < 900

    def test_rows_beyond_one_block_are_trained_too(self, monkeypatch):
        data = local(*[commuter(40, i) for i in range(5)])
        together = apply(Gan(steps=5), data).local.x
        monkeypatch.setattr("fl.curation._ROWS", 2)
        assert_allclose(apply(Gan(steps=5), data).local.x, together, rtol=1e-9)
        assert (together != data.x).all()


MOVED = {"kind": "geo-indistinguishable", "epsilon_per_m": 0.01}


@parametrize(
    "first", [{"kind": "diverse-batch"}, {"kind": "farthest-batch", "num": 3}, {"kind": "gan"}]
)
def test_an_epsilon_of_places_does_not_follow_what_hangs_on_places(first, tiny):
    """Which records are left already tells of the true places, and no noise on them afterwards
    hides that."""
    with raises(BadInput, match=r"curation\[1\].*needs untouched places.*put it first"):
        tiny({"learning.curation": [first, MOVED]})
    with raises(BadInput, match=r"curation\[2\].*put it first"):
        tiny({"learning.curation": [first, {"kind": "random", "num": 2}, MOVED]})
    tiny({"learning.curation": [MOVED, first]})
    tiny({"learning.curation": [{"kind": "random", "num": 2}, MOVED, first]})  # drawn blindly


AT_HOME = {
    "world.ues": {"count": 2, "mobility": {"kind": "commuter"}},
    "learning.availability": {"kind": "at-home"},
}


@parametrize(
    "options",
    [
        AT_HOME,
        *(
            {"learning.data": {"kind": "measured", "hold_out_by": by}}
            for by in ("block", ["day", "block"], ["sample", "block"])
        ),
    ],
)
def test_an_epsilon_of_places_does_not_hold_where_places_decide_who_sends_what(options, tiny):
    """Of every chain that is accepted the run says what else follows from the true place."""
    tiny(options)
    with raises(
        BadInput,
        match=r"curation\[0\].*needs untouched places.*at-home, .* or data.hold_out_by: block",
    ):
        tiny(options | {"learning.curation": [MOVED]})


def test_a_run_says_that_noise_on_places_covers_no_cell_no_silence_and_no_label(tiny):
    (lines,) = lines_of(collect_caveats(tiny({"learning.curation": [MOVED]}).learned, False))
    assert lines.startswith("geo-indistinguishable: noise moves places alone")
    assert all(
        word in lines
        for word in ("sends", "model", "cell", "lost", "labels", "no epsilon per metre")
    )
    assert not list(
        collect_caveats(tiny({"learning.curation": [{"kind": "random", "num": 2}]}).learned, False)
    )
