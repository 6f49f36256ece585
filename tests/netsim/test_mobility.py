"""Movement: ticks and neighbours change nothing, and the figures are those of the source."""

from copy import deepcopy
from datetime import date
from functools import partial
from itertools import pairwise

import numpy as np
import shapely
from numpy.testing import assert_allclose, assert_equal
from pytest import approx, mark
from scipy.stats import ks_2samp

from netsim.checkpoint import from_tree, load_tree, save_tree, to_tree
from netsim.city.buildings import Buildings
from netsim.city.plain import Generated, GridCity
from netsim.clock import DAY_S, Clock
from netsim.geometry import Area
from netsim.mobility.base import Ground, Mobility, draw_column_index
from netsim.mobility.commuter import Commuter
from netsim.mobility.gauss_markov import GaussMarkov, _trace_path
from netsim.mobility.legs import Manhattan, RandomWaypoint, _draw_heading, compute_mean_distance_m
from netsim.mobility.static import Static
from netsim.rng import Streams
from netsim.ues import Fixes

AREA = Area(0.0, 0.0, 2000.0, 1500.0)
HOUR_S = 3600.0
MONDAY = Clock(date(2026, 1, 5))
HOME = np.array([1650.0, 700.0])
WORK = np.array([420.0, 760.0])
THIRD = ((700.0, 1150.0), (950.0, 350.0), (1250.0, 1100.0), (600.0, 500.0))
PAPER_USER = Commuter(home_m=(tuple(HOME),), work_m=(tuple(WORK),), third_places_m=THIRD)


def ground(seed=0, area=AREA):
    return Ground(area, MONDAY, Streams(seed))


def run(part: Mobility, ue, stops_s, place):
    """State after the last stop, and the fixes of each window."""
    state = part.start(np.asarray(ue), place)
    fixes = []
    for t0_s, t1_s in pairwise(stops_s):
        state, new_fixes = part.advance(state, t0_s, t1_s, place)
        fixes.append(new_fixes)
    return state, fixes


def same(a: Fixes, b: Fixes):
    return all(np.array_equal(getattr(a, k), getattr(b, k)) for k in ("ue", "time_s", "position_m"))


def speeds_m_s(leg):
    """Speeds (n,) of legs: way over time."""
    return np.linalg.norm(leg.target_m - leg.origin_m, axis=1) / (leg.arrive_s - leg.depart_s)


class TestRandomWaypoint:
    @mark.parametrize("played_s", [0.0, 150.0])
    def test_a_stationary_start_has_the_distribution_of_a_long_time(self, played_s):
        place = ground(area=Area(0.0, 0.0, 500.0, 300.0))
        part = RandomWaypoint(initial="stationary")
        late, _ = run(RandomWaypoint(), np.arange(2000), [0.0, 20_000.0], place)
        soon, _ = run(part, np.arange(2000, 4000), [0.0, played_s], place)
        walks = late.arrive_s > 20_000.0
        walks_soon = soon.arrive_s > played_s
        assert walks.mean() == approx(walks_soon.mean(), abs=0.04)

        def list_figures(state, now_s):
            walks = state.arrive_s > now_s
            yield from state.position_m.T
            yield state.arrive_s[walks] - now_s
            yield state.pause_until_s[~walks] - now_s

        for a, b in zip(list_figures(late, 20_000.0), list_figures(soon, played_s), strict=True):
            assert ks_2samp(a, b).pvalue > 0.01
        uniform = RandomWaypoint().start(np.arange(2000), place)
        assert ks_2samp(late.position_m[:, 0], uniform.position_m[:, 0]).pvalue < 1e-6

    def test_a_stationary_start_has_the_mean_speed_of_the_closed_form(self):
        place = ground(area=Area(0.0, 0.0, 500.0, 500.0))
        part = RandomWaypoint(initial="stationary")
        state = part.start(np.arange(20_000), place)
        walks = state.arrive_s > 0
        speed_m_s = np.zeros(20_000)
        speed_m_s[walks] = speeds_m_s(state.select(np.flatnonzero(walks)))
        way_m = 0.521405 * 500.0
        assert speed_m_s.mean() == approx(way_m / (way_m * np.log(2.0) / 0.8 + 30.0), rel=0.01)

    def test_mean_distance_of_two_points(self):
        assert compute_mean_distance_m(1.0, 1.0) == approx(
            (2 + np.sqrt(2) + 5 * np.arcsinh(1.0)) / 15
        )
        assert compute_mean_distance_m(3.0, 1e-3) == approx(1.0, rel=1e-4)
        a, b = np.random.default_rng(0).uniform(size=(2, 100_000, 2)) * [7.0, 2.0]
        assert compute_mean_distance_m(2.0, 7.0) == approx(
            np.linalg.norm(b - a, axis=1).mean(), rel=0.01
        )


class TestCommuter:
    def test_figures_of_the_source(self):
        """35,615 fixes in 11 weeks, 49 % within 60 m of home, 21 % of work; 5 seeds."""
        result = []
        for seed in range(5):
            (fixes,) = run(PAPER_USER, [0], [0.0, 77 * DAY_S], ground(seed))[1]
            home = np.linalg.norm(fixes.position_m - HOME, axis=1) < 60
            work = np.linalg.norm(fixes.position_m - WORK, axis=1) < 60
            result.append((len(fixes), home.mean(), work.mean()))
        count, home, work = np.mean(result, axis=0)
        assert count == approx(35_615, rel=0.03)
        assert (home, work) == approx((0.49, 0.21), abs=0.02)

    def test_windows_partition_the_fixes(self):
        end_s = 4.3 * DAY_S
        cuts_s = np.sort(np.random.default_rng(2).uniform(0, end_s, 300))
        (whole,) = run(Commuter(), np.arange(6), [0.0, end_s], ground())[1]
        stops_s = [0.0, *cuts_s, end_s]
        parts = run(Commuter(), np.arange(6), stops_s, ground())[1]
        for t0_s, t1_s, part in zip(stops_s[:-1], stops_s[1:], parts, strict=True):
            assert ((part.time_s >= t0_s) & (part.time_s < t1_s)).all()
            assert (np.lexsort((part.time_s, part.ue)) == np.arange(len(part))).all()
        joined = Fixes.join(parts)
        assert same(whole, joined.select(np.lexsort((joined.time_s, joined.ue))))

    def test_weekends_have_no_work_and_nights_no_fixes(self):
        (fixes,) = run(PAPER_USER, [0], [0.0, 70 * DAY_S], ground())[1]
        day, hour = np.divmod(fixes.time_s / HOUR_S, 24)
        at_work = np.linalg.norm(fixes.position_m - WORK, axis=1) < 60
        weekday = day % 7 < 5
        assert ((hour >= 7) & (hour < 24)).all()
        assert (hour > 23.5).mean() < 1e-3
        # the way to a third place may pass by work
        assert at_work[~weekday].mean() < 0.01 < 0.2 < at_work[weekday].mean()
        assert 60 < len(np.unique(day)) < 70  # on some days there are none

    def test_who_never_commutes_is_at_home(self):
        never = PAPER_USER.model_copy(update={"commute_probability": 0.0})
        (fixes,) = run(never, [0], [0.0, 70 * DAY_S], ground())[1]
        assert (np.linalg.norm(fixes.position_m - WORK, axis=1) < 60).mean() < 0.01
        assert (np.linalg.norm(fixes.position_m - HOME, axis=1) < 60).mean() > 0.7

    def test_dwell_counts_are_poisson(self):
        (fixes,) = run(Commuter(), np.arange(1500), [5 * DAY_S, 6 * DAY_S], ground())[1]
        hour = fixes.time_s / HOUR_S % 24
        morning = (hour > 9) & (hour < 11)  # on a Saturday everybody who takes fixes is at home
        count = np.bincount(fixes.ue[morning])
        count = count[count > 0]
        assert count.mean() == approx(50.0, rel=0.02)
        assert count.var() == approx(50.0, rel=0.12)


def build_ground(city, seed=0):
    """A city among whose buildings people walk."""
    area = city.area(None)
    streams = Streams(seed)
    return Ground(area, MONDAY, streams, city.buildings(area, streams), city.street_grid())


streets = partial(build_ground, GridCity(width_m=360, height_m=260, block_m=60, street_m=12))
generated = partial(build_ground, Generated(width_m=200, height_m=160, count=60))


EVERY = [
    (RandomWaypoint(initial="stationary"), ground, 2.6 * DAY_S),
    (Commuter(), ground, 2.6 * DAY_S),
    (Static(), generated, 4000.0),
    (RandomWaypoint(), generated, 4000.0),
    (GaussMarkov(step_s=60.0), generated, 4000.0),
    (Manhattan(), streets, 4000.0),
]


@mark.parametrize(("part", "place", "end_s"), EVERY, ids=lambda x: getattr(x, "kind", None))
class TestEveryModel:
    def test_nobody_is_ever_indoors_or_outside(self, part, place, end_s):
        place = place()
        state = part.start(np.arange(60), place)
        for t_s in np.arange(0.0, 1500.0, 10.0):
            assert place.buildings is None or not place.buildings.is_indoors(state.position_m).any()
            assert place.area.contains(state.position_m).all()
            state, _ = part.advance(state, t_s, t_s + 10.0, place)

    def test_positions_do_not_depend_on_the_tick(self, part, place, end_s):
        cuts_s = np.sort(np.random.default_rng(1).uniform(0, end_s, 150))
        once, _ = run(part, np.arange(20), [0.0, end_s], place())
        often, _ = run(part, np.arange(20), [0.0, *cuts_s, end_s], place())
        assert_allclose(once.position_m, often.position_m, rtol=0, atol=1e-9)

    def test_a_saved_state_goes_on_to_the_last_bit(self, part, place, end_s, tmp_path):
        state, _ = run(part, np.arange(8), [0.0, 777.7], place())
        save_tree(tmp_path / "state.npz", to_tree(state))
        again = from_tree(load_tree(tmp_path / "state.npz"), part.start(np.arange(8), place()))
        ends = [part.advance(s, 777.7, 2345.6, place())[0] for s in (state, again)]
        assert_equal(to_tree(ends[0]), to_tree(ends[1]))

    def test_adding_a_ue_moves_nobody(self, part, place, end_s):
        stops_s = np.linspace(0, end_s, 6)
        few, few_fixes = run(part, [2, 5], stops_s, place())
        added, more_fixes = run(part, [2, 4, 5, 9], stops_s, place())
        assert np.array_equal(few.position_m, added.position_m[[0, 2]])
        assert all(
            same(a, b.select(np.isin(b.ue, [2, 5])))
            for a, b in zip(few_fixes, more_fixes, strict=True)
        )

    def test_same_seed_same_bytes_other_seed_others_and_a_state_is_a_value(
        self, part, place, end_s
    ):
        ends = [run(part, [0, 1], [0.0, end_s / 5], place(seed)) for seed in (3, 3, 4)]
        first, again, second = (state.position_m.tobytes() for state, _ in ends)
        assert first == again != second
        assert same(ends[0][1][0], ends[1][1][0])
        start = part.start(np.arange(5), place())
        before = deepcopy(start)
        part.advance(start, 0.0, end_s / 5, place())
        assert_equal(to_tree(start), to_tree(before))

    def test_nobody_moves_before_wake(self, part, place, end_s):
        place = place()
        now_s = 0.0
        state = part.start(np.arange(1), place)
        while now_s < min(end_s, 1.5 * DAY_S):
            wake_s = min(part.wake_s(state, now_s, place), end_s)
            assert wake_s >= now_s
            if wake_s > now_s:  # to the last bit: a pause is a pause
                still, fixes = part.advance(state, now_s, wake_s, place)
                assert np.array_equal(still.position_m, state.position_m)
                assert len(fixes) == 0
            until_s = max(wake_s, now_s + (11.0 if end_s < DAY_S else 300.0))
            state, _ = part.advance(state, now_s, until_s, place)
            now_s = until_s


class TestRandomWaypointAmongBuildings:
    def test_every_leg_is_clear_and_speeds_hold(self):
        place = generated()
        part = RandomWaypoint()
        state = part.start(np.arange(50), place)
        stayed = 0
        for t_s in np.arange(0.0, 2000.0, 20.0):
            assert place.buildings.has_clear_path(state.origin_m, state.target_m).all()
            walk_s = state.arrive_s - state.depart_s
            way_m = np.linalg.norm(state.target_m - state.origin_m, axis=1)
            assert ((0.8 * walk_s - 1e-6 <= way_m) & (way_m <= 1.6 * walk_s + 1e-6)).all()
            stayed += (walk_s == 0).sum()
            state, _ = part.advance(state, t_s, t_s + 20.0, place)
        assert state.leg.min() > 3
        assert stayed < 0.02 * 50 * 100


class TestGaussMarkov:
    def test_speed_and_direction_have_the_stated_law(self):
        place = ground(area=Area(0.0, 0.0, 1e6, 1e6))
        part = GaussMarkov(memory=0.6)
        state = part.start(np.arange(4000), place)
        speeds = []
        angles = []
        for k in range(30):
            speeds.append(state.speed_m_s)
            angles.append(state.direction_rad - state.mean_rad)
            state, _ = part.advance(state, 10.0 * k, 10.0 * (k + 1), place)
        for values, mean, std in ((speeds, 1.2, 0.3), (angles, 0.0, 0.5)):
            for early in (values[:3], values[-3:]):  # stationary from the start
                assert np.mean(early) == approx(mean, abs=0.02)
                assert np.std(early) == approx(std, rel=0.02)
            lagged = np.corrcoef(np.ravel(values[:-1]), np.ravel(values[1:]))[0, 1]
            assert lagged == approx(0.6, abs=0.01)

    def test_walls_mirror(self):
        part = GaussMarkov(memory=1.0, speed_std_m_s=0.0, direction_std_rad=0.0, speed_m_s=1.0)
        area = Area(0.0, 0.0, 100.0, 100.0)
        wall = Buildings(np.array([shapely.box(60, -1, 70, 101)]), np.array([5.0]))
        place = Ground(area, MONDAY, Streams(0), wall)
        angle = np.array([0.3])
        knot_m, sign, turn_rad = _trace_path(
            np.array([[50.0, 50.0]]), np.array([30.0]), angle, place
        )
        assert sign.tolist() == [-1]
        assert_allclose(np.cos(sign * angle + turn_rad), -np.cos(angle), atol=1e-12)
        assert_allclose(np.sin(sign * angle + turn_rad), np.sin(angle), atol=1e-12)
        assert_allclose(knot_m[0, 1], [59.99, 50 + 9.99 * np.tan(0.3)], atol=1e-9)
        mirrored = [2 * 59.99 - (50 + 30 * np.cos(0.3)), 50 + 30 * np.sin(0.3)]
        assert_allclose(knot_m[0, -1], mirrored, atol=1e-9)
        state, _ = run(part, np.arange(40), [0.0, 5000.0], place)
        west = part.start(np.arange(40), place).position_m[:, 0] < 65
        assert ((state.position_m[:, 0] < 65) == west).all()  # nobody passes through


class TestManhattan:
    def test_turns_have_the_stated_chances(self):
        place = build_ground(GridCity(width_m=1220, height_m=1220))
        part = Manhattan(pause_probability=0.0)
        state = part.start(np.arange(3000), place)
        turns = []
        for t_s in np.arange(0.0, 600.0, 20.0):
            after, _ = part.advance(state, t_s, t_s + 20.0, place)
            inner = ((state.crossing > 0) & (state.crossing < 12)).all(axis=1)
            turned = inner & (after.leg == state.leg + 1)
            turns.append((after.heading - state.heading)[turned] % 4)
            state = after
        share = np.bincount(np.concatenate(turns), minlength=4) / sum(map(len, turns))
        assert_allclose(share, [0.5, 0.25, 0.0, 0.25], atol=0.01)

    def test_at_the_border_the_rest_is_scaled(self):
        streets = (np.arange(3) * 10.0, np.arange(3) * 10.0)
        unit = np.linspace(0.0005, 0.9995, 1000)
        east_edge = np.tile([2, 1], (1000, 1))
        heading = _draw_heading(np.zeros(1000, np.int64), east_edge, unit, streets)
        assert np.bincount(heading, minlength=4).tolist() == [0, 500, 0, 500]
        corner = _draw_heading(np.zeros(1000, np.int64), np.tile([2, 2], (1000, 1)), unit, streets)
        assert (corner == 3).all()
        one_street = (streets[0], np.zeros(1))
        west_end = np.tile([2, 0], (5, 1))
        dead_end = _draw_heading(np.zeros(5, np.int64), west_end, unit[:5], one_street)
        assert (dead_end == 2).all()

    def test_everybody_is_on_a_street(self):
        place = streets()
        part = Manhattan()
        x_m, y_m = place.streets
        state = part.start(np.arange(500), place)
        for t_s in np.arange(0.0, 900.0, 13.0):
            on_x = np.abs(state.position_m[:, :1] - x_m).min(axis=1) < 1e-9
            on_y = np.abs(state.position_m[:, 1:] - y_m).min(axis=1) < 1e-9
            assert (on_x | on_y).all()
            after, _ = part.advance(state, t_s, t_s + 13.0, place)
            assert (
                np.abs(after.position_m - state.position_m).sum(axis=1) <= 13.0 * 1.6 + 1e-9
            ).all()
            state = after


def test_columns_are_drawn_in_proportion_to_weights_and_never_one_of_weight_zero():
    weight = np.array([0.0, 1.0, 0.0, 3.0, 0.0])
    unit = np.array([0.0, 0.1, 0.2499, 0.25, 0.9999])
    assert draw_column_index(unit, np.tile(weight, (5, 1))).tolist() == [1, 1, 1, 3, 3]
    assert draw_column_index(unit, np.zeros((5, 5))).tolist() == [-1] * 5
