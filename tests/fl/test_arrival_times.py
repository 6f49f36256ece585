"""What arrival times and cells of uploads give away: exact cases, invariances, memory, views, and
how claims score."""

from dataclasses import replace

import numpy as np
import pytest
from arrays import read_array
from fl_values import build_updates
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import mark, raises

from fl.attacks.arrival_times import ArrivalTimes, Rings
from fl.attacks.base import View
from fl.attacks.threat import CELLS, Threat
from fl.leakage.reliability import compute_near_auc
from fl.learners.rsrp_net import RsrpNet
from fl.round.learning import Learning
from fl.types import Antennas, Model, Public, Received, RoundContext, Timing
from netsim.checkpoint import from_tree, load_tree, save_tree, to_tree
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Streams
from scenarios.app.results.attacks import collect_claim_aucs
from scenarios.app.results.summary_keys import compute_measures

AREA = Area(0.0, 0.0, 2000.0, 1000.0)
GRID_M = 20.0  # 100 squares along the longer side
PAIR_M = read_array("500.0 500 25; 1500 500 25")
RNG = Streams(3).derive_rng("tests", 1)
LEARNER = RsrpNet(hidden=(2,))


def make_public(at_m=PAIR_M, azimuth_deg=None):
    azimuth = None if azimuth_deg is None else np.array(azimuth_deg, dtype=float)
    return Public(AREA, 1, antennas=Antennas(np.array(at_m), np.zeros(len(at_m)), azimuth))


def make_view(ue, cell, delay_s, model=None, requested_s=100.0, n_bits=1e5):
    """What a server observes of uploads (n,), as under secure aggregation."""
    ue, n = np.asarray(ue, dtype=int), len(ue)
    zeros = np.zeros(n, dtype=int)
    model = zeros if model is None else np.asarray(model)
    requested = np.full(n, requested_s)
    arrived = requested + np.asarray(delay_s)
    timing = Timing(requested, arrived, np.asarray(cell), np.full(n, n_bits), zeros)
    total = np.zeros((1, 3))
    targets = (total, zeros[:1], ue, model, zeros)
    return View("aggregate", "all", *targets, Model(total), Model(total), LEARNER, timing=timing)


def play_rounds(attack, views, public=None, state=None):
    """What the attack says in each round, and its last state."""
    state = attack.start() if state is None else state
    estimates = []
    for number, view in enumerate(views, 1):
        context = RoundContext(number, 0.0, public or make_public())
        result, state = attack.run(view, context, state, RNG)
        estimates.append(result)
    return estimates, state


def rows(result, kind):
    """UE, place (n, 2) and weight of the estimates of one kind, by UE."""
    own_rows = np.flatnonzero([word == kind for word in result.what])
    own_rows = own_rows[np.argsort(result.ue[own_rows], kind="stable")]
    return result.ue[own_rows], result.position_m[own_rows], result.weight[own_rows]


def distance_to(place_m, at_m=PAIR_M):
    return np.hypot(*(place_m[:, None] - np.asarray(at_m)[None, :, :2]).transpose(2, 0, 1))


def say_once(attack, view, public=None):
    """What the attack says in its first round."""
    ((result,), _) = play_rounds(attack, [view], public)
    return result


def uploads(seed, n=60, noise_db=0.0, at_m=PAIR_M):
    """UEs at uniform places: true place, cell, and delays by an arbitrary law with an unknown
    offset."""
    rng = default_rng(seed)
    place_m = AREA.sample(rng.uniform(size=(n, 2)))
    away_m = distance_to(place_m, at_m)
    cell = away_m.argmin(axis=1)
    loss_db = 35 * np.log10(away_m.min(axis=1)) + noise_db * rng.normal(size=n)
    return place_m, cell, 2.0 + 10 ** (loss_db / 50)


class TestRings:
    def test_places_are_shared_out_among_the_cells(self):
        rings = Rings.from_antennas(make_public(), make_public().antennas)
        assert_allclose(rings.share.sum(axis=1), 1.0)
        mean = (rings.share[:, :, None] * rings.mean_m[:, :, 1:]).sum(axis=1)
        assert_allclose(mean, [[500, 500], [1500, 500]])  # each has its half of the area
        assert (np.diff(rings.mean_m[0, :, 0][rings.share[0] > 0]) > 0).all()
        assert rings.mean_m[:, :, 0].max() <= np.hypot(500, 500)

    def test_a_sector_serves_the_side_that_it_points_to(self):
        site = [[1000.0, 500.0, 25.0]] * 2
        public = make_public(site, [90, 270])
        rings = Rings.from_antennas(public, public.antennas)
        mean = (rings.share[:, :, None] * rings.mean_m[:, :, 1:]).sum(axis=1)
        assert_allclose(mean, [[1500, 500], [500, 500]])


class TestExact:
    def test_without_noise_distances_are_those_of_the_places(self):
        """A UE in every square of the area: ranks of delays are ranks of distances, whatever the
        law."""
        x = np.arange(10, 2000, GRID_M)
        y = np.arange(10, 1000, GRID_M)
        place_m = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
        # one cell is six times as large as the other
        at_m = PAIR_M - read_array("400 0 0; 1000 0 0")
        away_m = distance_to(place_m, at_m)
        cell = away_m.argmin(axis=1)
        nearest_m = away_m.min(axis=1)
        ues = np.arange(len(place_m))
        view = make_view(ues, cell, nearest_m**3)
        result = say_once(ArrivalTimes(shadowing_db=0), view, make_public(at_m))
        ue, named_m, weight = rows(result, "near")
        assert_array_equal(ue, ues)
        assert_array_equal(named_m, at_m[cell, :2])
        assert np.abs(1 / weight - nearest_m).max() < GRID_M

    @mark.parametrize("use", ["times", "staleness", "cell"])
    def test_delays_that_are_all_alike_say_nothing_but_the_cell(self, use):
        cell = read_array("0 1 0 1 1 0")
        result = say_once(ArrivalTimes(use=use), make_view(range(6), cell, np.full(6, 3.0)))
        _, place_m, weight = rows(result, "centroid")
        assert_allclose(place_m, PAIR_M[cell, :2], atol=1e-6)
        assert_allclose(weight, 1.0)

    def test_beyond_all_distances_of_a_cell_is_its_farthest_place(self):
        """Sharp ranks, and a small cell whose UE is the slowest of all: the probability of every
        place underflows."""
        n = 4000
        ue = np.arange(n)
        view = make_view(ue, (ue < n - 1).astype(int), np.linspace(1, 2, n))
        public = make_public(read_array("30.0 30 25; 100 30 25"))
        result = say_once(ArrivalTimes(shadowing_db=0), view, public)
        rings = Rings.from_antennas(public, public.antennas)
        farthest_m = rings.mean_m[0, :, 0][rings.share[0] > 0].max()
        assert 1 / rows(result, "near")[2][-1] == pytest.approx(farthest_m)


def list_days(n_days, order=slice(None), unit=1):
    """Views of days of 60 UEs, in this order and unit of time."""
    ue = np.arange(60)[order]
    for seed in range(1, n_days + 1):
        _, cell, delay = uploads(seed)
        yield make_view(ue, cell[order], unit * delay[order])


def play_days(*days, **options):
    return play_rounds(ArrivalTimes(), list_days(*days, **options))[0]


class TestInvariance:
    def test_in_one_round_any_increasing_law_of_delays_gives_the_same(self):
        _, cell, delay = uploads(1)
        plain = say_once(ArrivalTimes(), make_view(range(60), cell, delay))
        for after in (7 * delay, delay + 30, delay**2, np.log1p(delay)):
            second = say_once(ArrivalTimes(), make_view(range(60), cell, after))
            assert_array_equal(second.position_m, plain.position_m)
            assert_array_equal(second.weight, plain.weight)

    def test_over_rounds_another_unit_of_time_gives_the_same(self):
        plain, second = (play_days(3, unit=unit) for unit in (1, 64))
        for a, b in zip(plain, second, strict=True):
            assert_allclose(b.position_m, a.position_m, atol=1e-6)
            assert_allclose(b.weight, a.weight, rtol=1e-9)

    def test_the_order_of_ues_does_not_matter(self):
        orders = (np.arange(60), default_rng(0).permutation(60))
        plain, second = (play_days(2, order) for order in orders)
        for a, b in zip(plain, second, strict=True):
            for kind in ("centroid", "near", "moved"):
                for x, y in zip(rows(a, kind), rows(b, kind), strict=True):
                    assert_array_equal(x, y)


class TestMemory:
    def test_it_goes_on_from_a_checkpoint(self, tmp_path):
        days = [*list_days(3)]
        attack = ArrivalTimes()
        whole, _ = play_rounds(attack, days)
        _, state = play_rounds(attack, days[:2])
        save_tree(tmp_path / "c.npz", to_tree(state))
        state = from_tree(load_tree(tmp_path / "c.npz"), attack.start())
        again, _ = play_rounds(attack, days[2:], state=state)
        assert again[0].what == whole[2].what
        assert_array_equal(again[0].position_m, whole[2].position_m)
        assert_array_equal(again[0].weight, whole[2].weight)

    def test_running_means_are_those_of_the_formula(self):
        delays = [2.0, 8.0, 4.0]
        for memory, weights in ((1.0, [0, 0, 1]), (1e9, [1, 1, 1]), (2.0, [0.25, 0.5, 1])):
            views = [make_view([0, 1], [0, 0], [s, 3.0], n_bits=1.0) for s in delays]
            _, state = play_rounds(ArrivalTimes(memory_rounds=memory), views)
            mean = np.average(np.log(delays), weights=weights)
            expected = [mean, np.log(3.0)]
            assert_allclose(state.means.value[:, 1], expected, rtol=1e-6)
            assert_allclose(state.last.value[:, 1], np.log([4.0, 3.0]))

    def test_each_cell_of_a_ue_has_a_mean_of_its_own(self):
        rounds = (([0, 1], [2.0, 3.0]), ([1, 1], [5.0, 3.0]))
        views = [make_view([7, 9], *uploads, n_bits=1.0) for uploads in rounds]
        _, state = play_rounds(ArrivalTimes(), views)
        assert_allclose(np.exp(state.means.value[:, 1]), [2.0, 5.0, 3.0])
        assert_array_equal(state.last.value[:, 0], [1, 1])

    def test_who_moves_stands_out(self):
        """One UE of each cell comes nearer, one changes cell, the others stay."""
        _, cell, delay = uploads(1)
        later = delay.copy()
        same = np.flatnonzero(cell == 0)
        same_delay = delay[same]
        comes = same[same_delay.argmax()]
        goes = same[same_delay.argmin()]
        later[comes] = same_delay.min() / 2
        changed = cell.copy()
        changed[goes] = 1
        rounds = ((cell, delay), (changed, later))
        views = [make_view(range(60), *uploads) for uploads in rounds]
        estimates, _ = play_rounds(ArrivalTimes(), views)
        ue, _, moved_m = rows(estimates[1], "moved")
        assert set(ue[np.argsort(-moved_m)[:2]]) == {comes, goes}
        assert moved_m[goes] > 500
        assert moved_m[comes] > 200
        assert np.median(moved_m) < 50


class TestViews:
    def test_every_row_of_a_ue_has_a_centroid_and_the_ue_one_claim(self):
        view = make_view([3, 3, 5], [0, 0, 1], [2.0, 2.0, 4.0], model=[0, 1, 0])
        estimates, _ = play_rounds(ArrivalTimes(), [view, view])
        ue, place_m, _ = rows(estimates[1], "centroid")
        assert ue.tolist() == [3, 3, 5]
        assert_array_equal(place_m[0], place_m[1])
        for claim in ("near", "moved"):
            assert rows(estimates[1], claim)[0].tolist() == [3, 5]

    def test_uploads_that_never_come_and_those_without_a_cell_are_left_out(self):
        ue = np.arange(4)
        cell = read_array("0 1 1 -1")
        delay = read_array("2.0 3 inf 4")
        few, many = (
            say_once(ArrivalTimes(), make_view(ue[:n], cell[:n], delay[:n])) for n in (2, 4)
        )
        assert_array_equal(many.ue, few.ue)
        assert_array_equal(many.position_m, few.position_m)

    def test_only_the_first_phase_of_a_round_counts(self):
        (result,), state = play_rounds(
            ArrivalTimes(), [replace(make_view([0], [0], [1.0]), phase="later")]
        )
        assert result.what == []
        assert len(state.last.key) == 0

    def test_refused_without_clock_or_places(self):
        def build(**options):
            return Learning(round_s=60, learner=LEARNER, attacks=(ArrivalTimes(),), **options)

        assert build(threat=Threat(observes="aggregate"))
        with raises(ValueError, match="arrival-times needs arrival times"):
            build(threat=Threat(observes="model"))
        ArrivalTimes().check(make_public(), 1)
        with raises(BadInput, match=r"^learning\.attacks: late needs the places of .*$"):
            ArrivalTimes(name="late").check(Public(AREA, 1), 1)


class TestHowMuch:
    """One cell, so that the cell itself says nothing."""

    SITE = ((1000.0, 500.0, 25.0),)

    def figures(self, seed, shuffle=False, noise_db=7.0):
        place_m, cell, delay = uploads(seed, noise_db=noise_db, at_m=self.SITE)
        if shuffle:
            delay = default_rng(seed).permutation(delay)
        view = make_view(range(60), cell, delay)
        result = say_once(ArrivalTimes(), view, make_public(self.SITE))
        return compute_near_auc(rows(result, "near")[2], distance_to(place_m, self.SITE)[:, 0])

    def interval(self, values):
        values = np.array(values)
        return values.mean() + read_array("-1 1") * 2.1 * values.std(ddof=1) / np.sqrt(len(values))

    def test_delays_say_who_is_near(self):
        low, _ = self.interval([self.figures(seed) for seed in range(20)])
        assert low > 0.7
        assert np.mean([self.figures(seed, noise_db=0.0) for seed in range(5)]) == 1.0

    def test_shuffled_delays_are_no_better_than_chance(self):
        low, high = self.interval([self.figures(seed, shuffle=True) for seed in range(20)])
        assert low < 0.5 < high


class TestClaims:
    def test_the_summary_compares_claims_with_the_places_of_the_same_round(self):
        """UE 0 rests, UE 1 walks 300 m in its second round, UE 2 in the round that the attack did
        not hear."""
        numbers, ues = np.divmod(np.arange(9.0), 3)
        x_m = read_array("10.0 100 200 10 400 500 10 400 500")
        links = {"round": numbers + 1, "ue": ues, "x_m": x_m, "y_m": 0 * x_m}
        near = read_array("1 0 0.4; 1 1 0.3; 1 2 0.2; 2 0 0.4; 2 1 0.1; 3 0 0.4; 3 2 0.05")
        moved = read_array("2.0 0 1; 2 1 80; 3 0 2; 3 2 90")
        round_, ue, weight = np.concatenate([near, moved]).T
        kind = np.repeat(["near", "moved"], [len(near), len(moved)])
        at_m = np.where(kind == "near", 0.0, np.nan)
        estimates = {"round": round_, "ue": ue, "weight": weight, "quantity": kind}
        estimates |= {"x_m": at_m, "y_m": at_m}
        values = compute_measures(collect_claim_aucs(estimates, links, 100.0), "a")
        assert values == {"attack.a.near_auc": 1.0, "attack.a.moved_auc": 1.0}
        estimates["weight"] = np.where(kind == "moved", -weight, 1.0)
        values = compute_measures(collect_claim_aucs(estimates, links, 100.0), "a")
        assert values == {"attack.a.near_auc": 0.5, "attack.a.moved_auc": 0.0}
        none = {name: column[kind == ""] for name, column in estimates.items()}
        assert compute_measures(collect_claim_aucs(none, links, 100.0), "a") == {}


class TestCellsHidden:
    """`threat.cells: false`: names and times stay, and cells are in no view."""

    @mark.parametrize("observes", ["updates", "aggregate"])
    @mark.parametrize("cells", [True, False])
    def test_a_view_has_cells_only_where_they_are_granted(self, observes, cells):
        threat = Threat(observes=observes, cells=cells)
        n = 3
        ones = np.ones(n)
        received = Received(build_updates(np.ones((n, 3))), ones > 0)
        timing = Timing(np.zeros(n), ones, read_array("2 0 1"), ones, np.zeros(n, int))
        models = (Model(np.zeros((1, 3))),) * 2
        view = threat.grant_view(LEARNER, "all", received, ones, ones > 0, models, RNG, timing)
        expected = [2, 0, 1] if cells else [-1, -1, -1]
        assert view.timing.base_station.tolist() == expected
        assert view.timing.arrived_s.tolist() == [1, 1, 1]
        assert view.ue.tolist() == [0, 1, 2]
        assert (CELLS in threat.offers) == cells
