"""Facts about residents: where they are at which hour, how they explore and return, and how they
get there."""

from dataclasses import replace
from datetime import date
from functools import cache
from itertools import pairwise

import numpy as np
import shapely
from numpy.testing import assert_equal
from pytest import approx, mark, raises
from scipy.integrate import quad
from tabled import cases

from netsim.checkpoint import from_tree, load_tree, save_tree, to_tree
from netsim.city.buildings import Buildings
from netsim.clock import DAY_S, Clock
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.mobility.base import Ground
from netsim.mobility.people import (
    FREE,
    NIGHT,
    NOWHERE,
    WORK,
    People,
    Venues,
    draw_known_place,
    draw_new_place,
    draw_rooms,
    draw_weighted_index,
    sample_stay_s,
)
from netsim.mobility.resident import Resident
from netsim.rng import Streams
from netsim.streets.assembly import StreetLines, assemble_streets
from netsim.streets.doors import Access, Premises, find_doors
from netsim.streets.graph import Paths

HOUR_S = 3600.0
FASTEST_M_S = 50 / 3.6


@cache
def town(blocks=7, count=200):
    """Streets every 150 m, and rectangular buildings in the blocks between."""
    draw = np.random.default_rng(5)
    at_m = 150.0 * np.arange(blocks + 1)
    across_m = np.stack(np.meshgrid(at_m, at_m, indexing="ij"), axis=-1).reshape(-1, 2)
    vertex_m = np.concatenate([across_m, across_m[:, ::-1]])
    n_lines = 2 * (blocks + 1)
    path = Paths.from_vertices(vertex_m, np.full(n_lines, blocks + 1))
    streets = StreetLines.from_two_way_paths(path, np.full(n_lines, 3))
    graph = assemble_streets(streets).graph
    low_m = 150.0 * draw.integers(0, blocks, (count, 2)) + draw.uniform(10, 120, (count, 2))
    side_m = draw.uniform(8, 20, (count, 2))
    floors = draw.integers(1, 8, count)
    footprint = shapely.box(*low_m.T, *(low_m + side_m).T)
    buildings = Buildings(footprint, 3.0 * floors)
    return buildings, graph, find_doors(buildings.footprint, buildings.height_m, graph)


def select_premises(premises, row):
    """Premises by index."""
    access = Access(*(column[:, row] for column in vars(premises.access).values()))
    columns = {name: column[row] for name, column in vars(premises).items() if name != "access"}
    return Premises(**columns, access=access)


def ground(seed=0, **size):
    buildings, graph, premises = town(**size)
    area = Area.from_points(graph.node_m)
    clock = Clock(date(2026, 1, 5))
    return Ground(area, clock, Streams(seed), buildings, graph=graph, premises=premises)


def play(part, ue, stops_s, place):
    """The states at the stops."""
    states = [part.start(np.asarray(ue), place)]
    for t0_s, t1_s in pairwise(stops_s):
        states.append(part.advance(states[-1], t0_s, t1_s, place)[0])
    return states


def find_places_of_ues(state):
    """The place (n,) that each UE is in, -1 on the way."""
    return np.where(state.now_s >= state.trip_s[:, 4], state.there.place, -1)


@cache
def week():
    """Residents every quarter of an hour for a week."""
    place = ground()
    return place, play(Resident(), np.arange(60), 900.0 * np.arange(7 * 96 + 1), place)


class TestTimetable:
    PEOPLE = People(
        *[None] * 2,
        np.array([True, False]),
        *np.array([[22.0, 23.5], [7.0, 5.5], [9.0, 10.0], [17.0, 18.5]]),
        *[None] * 3,
    )
    USUAL = np.zeros((1, 3))
    ON = np.ones(1, dtype=bool)

    def check_period(self, hour, late_h, period, end_h):
        clock = Clock(date(2026, 1, 5))
        time_s = np.array([hour * HOUR_S])
        result, end_s = self.PEOPLE.find_period_and_end_s(
            np.array([0]), time_s, clock, late_h, self.ON
        )
        assert result[0] == {"night": NIGHT, "free": FREE, "work": WORK}[period]
        assert end_s[0] / HOUR_S == approx(end_h)

    @mark.parametrize(
        ("hour", "period", "end_h"),
        cases(
            """
            0, "night", 7
            6.99, "night", 7
            7, "free", 9
            9, "work", 17
            16.9, "work", 17
            17, "free", 22
            22, "night", 31
            119, "night", 127
            177, "work", 185
            """
        ),
    )
    def test_periods_of_a_week(self, hour, period, end_h):
        self.check_period(hour, self.USUAL, period, end_h)

    @mark.parametrize(
        ("hour", "period", "end_h"),
        cases('7.4, "night", 7.5\n9.4, "free", 9.5\n17.4, "work", 17.5\n21.4, "night", 30'),
    )
    def test_a_day_may_be_late(self, hour, period, end_h):
        self.check_period(hour, np.array([[0.5, -0.75, -1.0]]), period, end_h)

    def test_it_follows_the_wall_clock(self):
        """Clocks go forward at 02:00 of the first night: 07:00 comes after six hours."""
        clock = Clock(date(2026, 3, 29), ((2 * HOUR_S, HOUR_S),))
        now_s = np.array([HOUR_S])
        period, end_s = self.PEOPLE.find_period_and_end_s(
            np.array([0]), now_s, clock, self.USUAL, self.ON
        )
        assert period[0] == NIGHT
        assert end_s[0] == 6 * HOUR_S


class TestLaws:
    UNIT = (np.arange(40_000) + 0.5) / 40_000

    def count_shares(self, chosen, n):
        return np.bincount(chosen, minlength=n) / len(self.UNIT)

    @mark.parametrize(("beta", "tau_h"), [(0.8, 17.0), (0.0, 2.0), (3.0, 0.5)])
    def test_stays_have_the_stated_density(self, beta, tau_h):
        def density(t_h):
            return t_h ** -(1 + beta) * np.exp((1 - t_h) / tau_h)

        hours = sample_stay_s(self.UNIT, beta, tau_h) / HOUR_S
        whole = quad(density, 1, np.inf)[0]
        for until_h in (1.2, 2.0, 5.0, 20.0):
            share = quad(density, 1, until_h)[0] / whole
            assert (hours <= until_h).mean() == approx(share, abs=2e-4)
        assert hours.min() >= 1

    def test_new_places_are_drawn_by_gravity(self):
        draw = np.random.default_rng(1)
        index = np.arange(9)
        buildings, _, premises = town()
        rng = Streams(1).derive_rng("venues")
        venues = Venues.from_premises(select_premises(premises, index), buildings.footprint, rng)
        venues = replace(venues, weight=draw.uniform(1, 5, 9))
        hour = np.full(40_000, 11.0)
        here_m = np.array([300.0, 400.0])
        visited = np.tile([3, NOWHERE, 5, NOWHERE], (40_000, 1))
        chosen = draw_new_place(self.UNIT, hour, np.tile(here_m, (40_000, 1)), venues, visited)
        is_open = (venues.opens_h <= 11) & (venues.closes_h > 11)
        assert 0 < is_open.sum() < 9
        away_m = np.linalg.norm(venues.premises.door_m - here_m, axis=1)
        pull = venues.weight / (away_m + 100) ** 2 * is_open
        pull[[3, 5]] = 0
        assert self.count_shares(chosen, 9) == approx(pull / pull.sum(), abs=1e-4)

    def test_known_places_are_drawn_in_proportion_to_visits(self):
        visited = np.tile([4, 8, 2, NOWHERE], (40_000, 1))
        count = np.tile([6, 3, 1, 0], (40_000, 1))
        allowed = np.tile([True, False, True, True], (40_000, 1))
        chosen = draw_known_place(self.UNIT, visited, count, allowed)
        assert (chosen == 4).mean() == approx(6 / 7, abs=1e-4)
        assert set(chosen) == {4, 2}

    def test_places_close_at_the_hour_at_which_they_close(self):
        venues = Venues(None, None, None, np.array([8.0, 0.0]), np.array([18.0, 24.0]))
        hour = np.array([7.99, 8.0, 17.99, 18.0])
        is_open = venues.is_open(np.zeros(4, dtype=np.int64), hour)
        assert is_open.tolist() == [False, True, True, False]
        assert venues.is_open(np.ones(4, dtype=np.int64), hour).all()

    def test_weighted_draws(self):
        weight = np.array([5.0, 0.0, 1.0, 2.0])
        share = self.count_shares(draw_weighted_index(self.UNIT, weight), 4)
        assert share == approx(weight / 8, abs=1e-4)
        for but in range(4):
            rest = weight * (np.arange(4) != but)
            chosen = draw_weighted_index(self.UNIT, weight, np.full(40_000, but))
            assert self.count_shares(chosen, 4) == approx(rest / rest.sum(), abs=1e-4)


class TestContract:
    def test_the_tick_changes_nothing(self):
        part = Resident()
        end_s = 2.6 * DAY_S
        cuts_s = np.sort(np.random.default_rng(1).uniform(0, end_s, 400))
        stops_s = [0.0, *cuts_s, end_s]
        once = play(part, np.arange(30), [0.0, end_s], ground())[-1]
        often = play(part, np.arange(30), stops_s, ground())[-1]
        for name in ("position_m", "until_s", "visited", "count", "stay"):
            assert np.array_equal(getattr(once, name), getattr(often, name)), name

    def test_adding_a_ue_changes_nobody(self):
        stops_s = np.arange(0, 2 * DAY_S, 7 * HOUR_S)
        few = play(Resident(), [2, 5], stops_s, ground())
        added = play(Resident(), [2, 4, 5, 9], stops_s, ground())
        for a, b in zip(few, added, strict=True):
            assert np.array_equal(a.position_m, b.position_m[[0, 2]])
            indoors = vars(b.indoors())
            for name, column in vars(a.indoors()).items():
                assert np.array_equal(column, indoors[name][[0, 2]])

    @mark.parametrize("stop_s", [0.0, 8.3 * HOUR_S])
    def test_a_saved_state_goes_on_to_the_last_bit(self, stop_s, tmp_path):
        part = Resident()
        place = ground()
        ue = np.arange(40)
        state = play(part, ue, [0.0, stop_s], place)[-1]
        save_tree(tmp_path / "state.npz", to_tree(state))
        again = from_tree(load_tree(tmp_path / "state.npz"), part.start(ue, ground()))
        ends = [part.advance(s, stop_s, 6.2 * DAY_S, place)[0] for s in (state, again)]
        assert_equal(to_tree(ends[0]), to_tree(ends[1]))
        assert_equal(vars(ends[0].indoors()), vars(ends[1].indoors()))


class TestPlaces:
    def test_rooms_are_inside_and_as_deep_as_they_say(self):
        place, states = week()
        for state in states[::150]:
            indoors = state.indoors()
            present = indoors.building >= 0
            still = present & (state.position_m == state.there.room_m).all(axis=1)
            point = shapely.points(state.position_m[still])
            shape = place.buildings.footprint[indoors.building[still]]
            assert shapely.contains_properly(shape, point).all()
            depth_m = shapely.distance(shapely.boundary(shape), point)
            assert indoors.depth_m[still] == approx(depth_m)
            floors = place.premises.floors[indoors.building[present]]
            assert (indoors.floor[present] < floors).all()
            assert (indoors.depth_m[~present] == 0).all()
            assert (indoors.floor[~present] == 0).all()

    def test_shares_of_the_population(self):
        part = Resident(no_work_share=0.3, work_at_home_share=0.2)
        people = part.start(np.arange(4000), ground()).town.people
        assert people.works.mean() == approx(0.7, abs=0.03)
        assert people.commutes.mean() == approx(0.56, abs=0.03)
        assert np.bincount(people.mode) / 4000 == approx([0.4, 0.2, 0.4], abs=0.03)
        area_m2 = town()[2].floor_area_m2
        share = np.bincount(people.home.place, minlength=len(area_m2)) / 4000
        assert np.corrcoef(share, area_m2)[0, 1] > 0.93


class TestDays:
    def test_nights_are_spent_at_home(self):
        _, states = week()
        people = states[0].town.people
        for d in range(1, 7):
            for state in states[96 * d + 4 : 96 * d + 20]:  # 01 to 05 h
                assert (find_places_of_ues(state) == people.home.place).all()

    def test_office_hours_are_spent_at_work(self):
        _, states = week()
        people = states[0].town.people
        at_work = np.array([find_places_of_ues(s) == people.work.place for s in states[:-1]])
        hours = at_work[:, people.commutes].reshape(7, 24, -1)
        workdays = hours[:5]
        assert workdays[:, 10:16].mean() > 0.65
        assert not hours[5:].any()
        assert not workdays[:, :6].any()
        assert not workdays[:, 20:].any()

    def test_places_are_visited_while_they_are_open(self):
        _, states = week()
        people = states[0].town.people
        venues = states[0].town.venues
        for q, state in enumerate(states):
            hour = q / 4 % 24
            place = find_places_of_ues(state)
            rest = (place >= 0) & (place != people.home.place) & (place != people.work.place)
            visited = place[rest]
            arrived_h = state.trip_s[rest, 0] / HOUR_S % 24
            assert (venues.opens_h[visited] <= arrived_h).all()
            late_h = hour - venues.closes_h[visited]  # a trip and the shortest stay may end later
            assert (late_h[late_h < 12] < 0.5).all()


class TestTrips:
    def test_every_trip_begins_another_stay(self):
        """What is drawn for each stay, as the loss of walls, is new after each trip; visits count
        the same trips."""
        _, states = week()
        for a, b in pairwise(states):
            trips = b.count.sum(axis=1) - a.count.sum(axis=1)
            assert np.array_equal(b.stay - a.stay, trips)
            assert np.array_equal(trips > 0, (b.trip_s != a.trip_s).any(axis=1))
        assert (states[-1].count.sum(axis=1) - states[0].count.sum(axis=1)).min() > 5

    def test_paths_lie_on_streets_between_the_doors(self):
        place = ground()
        stops_s = np.arange(6.5 * HOUR_S, 9 * HOUR_S, 20.0)
        _, *states = play(Resident(), np.arange(120), [0.0, *stops_s], place)
        streets = shapely.union_all(place.graph.path.to_lines())
        seen = 0
        for state, t_s in zip(states, stops_s, strict=True):
            moving = (state.trip_s[:, 2] < t_s) & (t_s < state.trip_s[:, 3])
            point = shapely.points(state.position_m[moving])
            assert (shapely.distance(streets, point) < 1e-6).all()
            seen += moving.sum()
        assert seen > 500


class Watched(Resident):
    """Residents whose free decisions are written down: places known before, and whether the next
    one is new."""

    def _draw_intents(self, state, row, now_s, unit, ground):
        plan = super()._draw_intents(state, row, now_s, unit, ground)
        visited = state.visited[row]
        open_h = now_s / HOUR_S % 24
        new = ~(visited == plan.target[:, None]).any(axis=1)
        stays = plan.free & (plan.target == state.there.place[row])
        STAYED.append(np.stack([plan.target, state.town.people.home.place[row]], axis=1)[stays])
        free = plan.free & (open_h >= 10) & (open_h < 20)
        LOG.append(np.stack([(visited >= 0).sum(axis=1)[free], new[free]], axis=1))
        return plan


LOG = []
STAYED = []


def refit(log):
    """rho and gamma by maximum likelihood of the outcomes (n, 2): places known, new or not."""
    from scipy.optimize import minimize

    visited_places = np.log(log[:, 0])
    new = log[:, 1] == 1

    def loss(x):
        log_p = np.minimum(x[0] - x[1] * visited_places, -1e-9)
        return -(log_p[new].sum() + np.log1p(-np.exp(log_p[~new])).sum())

    result = minimize(loss, [np.log(0.6), 0.2], method="Nelder-Mead").x
    return np.exp(result[0]), result[1]


def test_exploration_is_refitted_from_what_people_do():
    LOG.clear(), STAYED.clear()
    play(Watched(), np.arange(150), np.arange(0, 29) * DAY_S, ground(blocks=14, count=1200))
    rho, gamma = refit(np.concatenate(LOG))
    assert rho == approx(0.6, abs=0.07)
    assert gamma == approx(0.21, abs=0.05)
    # free people go elsewhere; where nothing else is open they are at home
    place, home = np.concatenate(STAYED).T
    assert np.array_equal(place, home)
    assert len(place) > 0


class TestRefused:
    @mark.parametrize(("city", "count"), [("without streets", 0), ("with one building", 1)])
    def test_a_city_in_which_nobody_can_go_anywhere(self, city, count):
        buildings, graph, _ = town()
        few = Buildings(buildings.footprint[:count], buildings.height_m[:count])
        premises = find_doors(few.footprint, few.height_m, graph)
        bare = replace(ground(), buildings=few, premises=premises)
        with raises(BadInput, match=r"resident needs at least 2 buildings.*take a city"):
            Resident().start(np.arange(2), bare)


class TestSpots:
    def test_they_are_uniform_in_the_disc_inside_the_building(self):
        """Mean distance 2 R / 3 from a room that is R or more from the facade; wider, inside disc
        and building."""
        place = ground()
        town = Resident().start(np.arange(400), place).town
        room = town.people.home
        moment = np.arange(400)
        deep = np.flatnonzero(room.depth_m > 3.0)
        owner, item = (a.ravel() for a in np.meshgrid(deep, np.arange(200)))
        centre_m = room.room_m[owner]
        drawn = draw_rooms(
            town.venues, room.place[owner], town.spots, "spot", owner, item, centre_m, 3.0
        )
        way_m = drawn.room_m - centre_m
        away_m = np.linalg.norm(way_m, axis=1)
        assert away_m.max() <= 3.0
        assert away_m.mean() == approx(2.0, abs=0.02)
        assert np.mean(away_m <= 1.5) == approx(0.25, abs=0.01)
        assert np.abs(way_m.mean(axis=0)).max() < 0.05
        wide = draw_rooms(town.venues, room.place, town.spots, "spot", moment, 0, room.room_m, 12.0)
        assert shapely.contains_xy(town.venues.footprint[room.place], wide.room_m).all()
        assert np.linalg.norm(wide.room_m - room.room_m, axis=1).max() <= 12.0

    def test_people_change_them_every_half_hour_of_a_stay_and_nothing_else(self):
        place = ground()
        stops_s = 300.0 * np.arange(2 * 288 + 1)
        still = play(Resident(stay_radius_m=0.0), np.arange(30), stops_s, place)
        moving = play(Resident(stay_radius_m=8.0), np.arange(30), stops_s, place)
        spots = []
        for a, b in zip(still, moving, strict=True):
            for name in ("until_s", "trip_s", "visited", "count", "stay"):
                assert np.array_equal(getattr(a, name), getattr(b, name))
            rests = b.trip_s[:, -1] <= b.now_s
            assert np.array_equal(a.position_m[~rests], b.position_m[~rests])
            assert (np.linalg.norm(b.position_m - b.there.room_m, axis=1)[rests] <= 8.0).all()
            indoors = b.indoors()
            shape = place.buildings.footprint[indoors.building[rests]]
            point = shapely.points(b.position_m[rests])
            assert shapely.contains_properly(shape, point).all()
            assert (find_places_of_ues(b)[rests] >= 0).all()
            depth_m = shapely.distance(shapely.boundary(shape), point)
            assert indoors.depth_m[rests] == approx(depth_m)
            for name in ("building", "floor", "stay", "in_vehicle"):
                assert np.array_equal(getattr(a.indoors(), name), getattr(indoors, name))
            spots.append(np.where(rests[:, None], b.position_m, np.nan))
        for (a, b), (c, d) in zip(pairwise(moving), pairwise(spots), strict=True):
            since_s = b.trip_s[:, -1]
            stays = (since_s <= a.now_s) & (a.trip_s[:, -1] == since_s)
            same = (a.now_s - since_s) // 1800 == (b.now_s - since_s) // 1800
            assert np.array_equal((c == d).all(axis=1)[stays], same[stays])

    def test_the_clock_wakes_when_a_spot_changes(self):
        """With spots within half an hour, though no UE travels; without them at the end of a
        stay."""
        now_s = 2 * HOUR_S
        wake_s = {}
        for radius_m in (0.0, 8.0):
            part = Resident(stay_radius_m=radius_m)
            place = ground()
            state = play(part, np.arange(5), [0.0, now_s], place)[-1]
            wake_s[radius_m] = part.wake_s(state, now_s, place)
            assert ((state.position_m == state.there.room_m) == (radius_m == 0)).all()
        assert now_s < wake_s[8.0] <= now_s + 1800 < wake_s[0.0] == state.until_s.min()
        before = part.advance(state, now_s, wake_s[8.0] + -0.01, place)[0]
        after = part.advance(state, now_s, wake_s[8.0] + 0.01, place)[0]
        assert np.array_equal(before.position_m, state.position_m)
        assert (after.position_m != state.position_m).any()

    @mark.parametrize(
        ("radius_m", "says"), [(-1.0, "greater than"), (1e4, "less than"), (np.nan, "finite")]
    )
    def test_bad_radii_are_refused(self, radius_m, says):
        with raises(ValueError, match=says):
            Resident(stay_radius_m=radius_m)
