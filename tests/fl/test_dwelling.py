"""Homes and workplaces from estimates of many days: enumeration, stated probabilities, and the
attack `dwell`."""

import json
from dataclasses import dataclass
from datetime import date
from itertools import product

import numpy as np
import pytest
from estimates import said
from nights import even, homes_stated
from numpy.linalg import norm
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx, fixture, mark
from thinned import one_in
from tracked import view_of

from fl.attacks.closed_form import ClosedForm
from fl.attacks.dwell import Dwell, DwellState
from fl.leakage.reliability import measure_reliability
from fl.tracking.chain import blur_maps
from fl.tracking.dwelling import (
    EstimatesOfUe,
    Hours,
    Period,
    Residences,
    Shares,
    compute_home_posterior,
    compute_log_away,
    compute_log_evidence,
    compute_log_mean,
    compute_work_posterior,
    find_home_and_work,
    find_visited_places,
    mix_log_likelihoods,
)
from fl.tracking.error_model import ErrorModel
from fl.tracking.place_grid import PlaceGrid, compute_disc_masses, find_best_discs
from fl.types import Public, RoundContext
from netsim.checkpoint import from_tree, load_tree, save_tree, to_tree
from netsim.clock import DAY_S, Clock
from netsim.geometry import Area
from netsim.rng import Streams


class TestEnumeration:
    """Against sums over every home and every other place of every night, on 3 x 3 places."""

    GRID = PlaceGrid(Area(0.0, 0.0, 900.0, 900.0), 3, 3)
    ERRORS = ErrorModel.from_sigma(200.0, 0.2)
    PRIOR = np.arange(1.0, 10.0) / 45
    Z = default_rng(2).uniform(0, 900, (2, 3, 1, 2))  # 2 nights of 3 rounds
    SHARE = 0.8
    STAY = 0.6
    EMPLOYED = 0.7

    @fixture
    def log_e(self):
        log_e = compute_log_evidence(self.Z.reshape(6, 1, 2), self.ERRORS, self.GRID)
        return log_e.reshape(2, 3, 9).sum(axis=1)[:, None]

    @fixture
    def e(self):
        """Products of the rounds of each night, by place (2, 9)."""
        e = self.ERRORS.compute_likelihood_ratio(self.Z.reshape(6, 1, 2), self.GRID)
        return e.astype(float).reshape(2, 3, 9).prod(axis=1)

    @fixture
    def home(self, log_e):
        prior = self.PRIOR[None].astype(np.float32)
        log_p = sum(mix_log_likelihoods(self.SHARE, e, compute_log_mean(e, prior)) for e in log_e)
        return compute_home_posterior(log_p, prior, self.GRID, 0.0)

    def test_home(self, e, home):
        joint = np.zeros(9)
        for h, *places in product(range(9), range(-1, 9), range(-1, 9)):  # -1: at home that night
            p = self.PRIOR[h]
            for night, place in zip(e, places, strict=True):
                if place < 0:
                    p *= self.SHARE * night[h]
                else:
                    p *= (1 - self.SHARE) * self.PRIOR[place] * night[place]
            joint[h] += p
        seen, true = home
        assert_allclose(seen[0], joint / joint.sum(), rtol=1e-5)
        assert_allclose(seen, true, rtol=1e-6)  # nothing is displaced

    def test_work_or_none(self, e, log_e, home):
        (home, _) = home
        prior = self.PRIOR[None].astype(np.float32)
        away = [compute_log_away(self.STAY, x, home, prior) for x in log_e]
        days = zip(log_e, away, strict=True)
        log_p = sum(mix_log_likelihoods(self.SHARE, x, a) for x, a in days)
        near = compute_disc_masses(home, self.GRID, 100.0)
        work = compute_work_posterior(log_p, sum(away), near, self.EMPLOYED, prior, self.GRID, 0.0)
        elsewhere = e @ (self.STAY * home[0].astype(float) + (1 - self.STAY) * self.PRIOR)
        at_work = self.SHARE * e + (1 - self.SHARE) * elsewhere[:, None]
        joint = self.EMPLOYED * self.PRIOR * (1 - near[0].astype(float)) * at_work.prod(axis=0)
        none = (1 - self.EMPLOYED) * elsewhere.prod()
        assert_allclose(work[0], joint / (joint.sum() + none), rtol=1e-4)


class TestResidences:
    """What is kept over days is the same as the laws of all days at once."""

    GRID = PlaceGrid.from_area(Area(0.0, 0.0, 1500.0, 1000.0), 50.0, 1, "tests")
    ERRORS = ErrorModel.from_sigma(150.0, 0.2, 40.0)
    SHARES = Shares(0.9, 0.7, 0.5, 0.6)

    def test_nights_and_workdays(self):
        """Three nights and two workdays of three rounds, the last one not over yet; UE 4 is heard
        in some of them."""
        draw = default_rng(5)
        prior = even(self.GRID)
        evidence = Residences.from_senders(np.zeros(0, int), 0)
        home = 0.0
        work = 0.0
        none = 0.0
        for k in range(5):
            period = Period(k // 2, k % 2 == 0)
            z = draw.uniform(0, 1000, (3, 2, 1, 2))
            for number, estimates in enumerate(z):
                n = 1 if number == 1 else 2
                log_e = compute_log_evidence(estimates[:n], self.ERRORS, self.GRID)
                evidence = evidence.add_round(np.array([2, 4])[:n], log_e, period, self.SHARES)
            log_e = sum(compute_log_evidence(x[:1], self.ERRORS, self.GRID) for x in z)
            if period.night:
                home = home + mix_log_likelihoods(0.9, log_e, compute_log_mean(log_e, prior))
            else:
                seen, _ = compute_home_posterior(home, prior, self.GRID, 40.0)
                away = compute_log_away(0.5, log_e, seen, prior)
                work = work + mix_log_likelihoods(0.7, log_e, away)
                none = none + away
        seen, true = compute_home_posterior(home, prior, self.GRID, 40.0)
        near = compute_disc_masses(seen, self.GRID, 200.0)
        at_work = compute_work_posterior(work, none, near, 0.6, prior, self.GRID, 40.0)
        shown, homes = evidence.estimate_homes(self.SHARES, self.GRID, 40.0)
        work = evidence.estimate_workplaces(shown, self.SHARES, self.GRID, 40.0, 100.0)
        assert_allclose(homes[:1], true, rtol=2e-4, atol=1e-9)
        assert_allclose(work[:1], at_work, rtol=2e-4, atol=1e-9)
        assert homes.sum(axis=1) == approx(1.0, abs=1e-5)
        assert work.sum() < 2
        for count in (evidence.nights, evidence.days):  # the third night is not over
            assert count.tolist() == [2, 2]


class TestDiscs:
    GRID = PlaceGrid.from_area(Area(0.0, 0.0, 1000.0, 600.0), 40.0, 1, "tests")

    def test_the_best_disc_is_the_largest_mass(self):
        p = default_rng(4).dirichlet(np.full(len(self.GRID), 0.02), 3).astype(np.float32)
        centre, mass = find_best_discs(p, self.GRID, 100.0)
        for k in range(3):
            away = norm(self.GRID.place_m - centre[k], axis=1)
            assert p[k, away < 65].sum() <= mass[k] + 1e-6 <= p[k, away < 135].sum() + 2e-6
            assert mass[k] >= p[k].max()

    def test_blur_is_the_sum_of_two_displacements(self):
        """Of 60 m and 80 m: 100 m, but for the width of a cell that each adds; nothing is lost at
        the border."""
        grid = PlaceGrid.from_area(Area(0.0, 0.0, 2000.0, 1600.0), 40.0, 1, "tests")
        cell = grid.find_cells(np.array([[1000.0, 800.0]]))[0]
        p, corner = np.eye(len(grid), dtype=np.float32)[[[cell], [0]]]
        once = blur_maps(p, grid, 100.0)
        twice = blur_maps(blur_maps(p, grid, 60.0), grid, np.sqrt(80.0**2 - 40.0**2 / 12))
        assert_allclose(twice, once, atol=2e-3 * once.max())
        assert_allclose(once[0] @ grid.place_m, grid.place_m[cell], atol=0.5)
        assert blur_maps(corner, grid, 100.0).sum() == approx(1, abs=1e-5)
        assert blur_maps(p, grid, 0.0) is p


class TestStated:
    """A probability that is stated is the share that is right: with 120 UEs a share is known to
    about 0.045."""

    def test_a_bias_that_is_ignored_is_false_certainty(self):
        right, stated = homes_stated(100.0, 0.0, (7,), 120, 0)[7]
        assert stated.mean() > 0.75
        assert right.mean() < 0.5

    @mark.slow
    @mark.parametrize("bias_m", one_in(2, [100.0, 0.0]))
    def test_reliable(self, bias_m):
        """240 UEs after 1, 2, 3, 5 and 7 nights, all together."""
        homes = homes_stated(bias_m, bias_m, (1, 2, 3, 5, 7), count=240, seed=2)
        right, stated = np.concatenate([*homes.values()], axis=1)
        modelled = measure_reliability(np.tile(np.arange(240), 5), stated, right.astype(bool))
        assert modelled.count == 1200
        assert modelled.error < 0.05
        right, stated = homes_stated(100.0, 0.0, (7,), count=120)[7]
        assert measure_reliability(np.arange(120), stated, right).error > 0.3


# -- places visited again and again: how many, where, and how sure; home and work of whole days


TOLD = 1e8, 0.0, 100.0  # of the area, the persistent error and what is right
SHARE = np.array([[0.45, 0.40], [0.50, 0.05]])  # of home and work, on workdays and days off


def make_person(seed, sigma_m=100.0, count=300, thirds=2):
    """Estimates of somebody with home, work and further places, one in five anywhere; and these
    places."""
    draw = default_rng(seed)
    place = draw.uniform(500, 9500, (2 + thirds, 2))
    time_class = draw.integers(0, 48, count)
    night = np.isin(time_class % 24, [*range(8), *range(20, 24)])
    share = np.where(night[:, None], [0.9, 0, *[0.03] * thirds], [0.2, 0.5, *[0.1] * thirds])
    index = (share.cumsum(axis=1) < draw.random((count, 1))).sum(axis=1)
    anywhere = draw.uniform(0, 1e4, (count, 2))
    is_named = (index < len(place))[:, None]
    place_m = np.where(is_named, place[np.minimum(index, len(place) - 1)], anywhere)
    z = place_m + sigma_m * draw.normal(size=(count, 2))
    z = np.where(draw.random((count, 1)) < 0.2, draw.uniform(0, 1e4, (count, 2)), z)
    spread_m = np.full(count, sigma_m)
    day = np.arange(count) // 10
    return EstimatesOfUe(z, spread_m, np.full(count, 0.8), time_class, day, *TOLD), place


@mark.parametrize("seed", range(3))
def test_places_that_do_not_change_any_more_are_those_of_all_steps(monkeypatch, seed):
    """The fit ends before its 40 steps, with the bits that all of them give."""
    estimates, place = make_person(seed, sigma_m=40.0)
    seeds_m = place[:2] + 100.0
    share = np.full((48, 2), 0.4)
    expected = estimates._assign_estimates(seeds_m, share)
    for _ in range(40):
        expected = estimates._assign_estimates(estimates._average_estimates(expected, 0), share)
    steps = []
    assign = EstimatesOfUe._assign_estimates
    monkeypatch.setattr(
        EstimatesOfUe, "_assign_estimates", lambda *args: steps.append(0) or assign(*args)
    )
    fitted = estimates.fit_places(seeds_m, share)
    assert len(steps) < 40
    assert_array_equal(fitted.place_m, expected.place_m)
    assert_array_equal(fitted.responsibility, expected.responsibility)
    assert fitted.log_likelihood == expected.log_likelihood


def make_commuter(seed, days, sigma_m=60.0):
    """Two places named a day, home and work or somewhere else; and home and work."""
    draw = default_rng(seed)
    places = draw.uniform(500, 9500, (2, 2))
    z = []
    for number in range(days):
        works = number % 7 < 5 and draw.random() < 0.85
        sleeps = draw.random() < 0.95
        for place, is_visited in zip(places, (sleeps, works), strict=True):
            right = is_visited and draw.random() < 0.9
            z.append(place + sigma_m * draw.normal(size=2) if right else draw.uniform(0, 1e4, 2))
    day = np.repeat(np.arange(days), 2)
    n = len(day)
    off = (day % 7 >= 5).astype(int)
    spread_m = np.full(n, sigma_m)
    return EstimatesOfUe(np.array(z), spread_m, np.full(n, 0.9), off, day, *TOLD), places


class TestHabits:
    @mark.parametrize("sigma_m", [50.0, 300.0])
    def test_stated_is_right(self, sigma_m):
        """Of 30 people with two further places: about so many are found, as often right as
        stated."""
        right = []
        stated = []
        for seed in range(30):
            estimates, place = make_person(seed, sigma_m)
            thirds = find_visited_places(estimates, place[:2], 48, 5)
            away = norm(thirds[:, None, :2] - place[2:], axis=2)
            right.extend(away.min(axis=1) <= 100)
            stated.extend(thirds[:, 2])
        assert 50 <= len(right) <= 70
        assert np.mean(stated) == approx(np.mean(right), abs=0.08)

    def test_estimates_that_are_seldom_right_may_all_be_of_one_place(self):
        """More estimates lie at a place than are right by their errors: shares stay shares."""
        z = default_rng(0).normal(0, 50.0, (60, 2)) + 5000.0
        z[::12] += 3000.0
        day = np.arange(60)
        right = np.where(day % 4, 0.1, 0.95)
        estimates = EstimatesOfUe(z, np.full(60, 50.0), right, np.zeros(60, int), day, *TOLD)
        places = find_visited_places(estimates, np.zeros((0, 2)), 1, 3)
        assert places[0, :2] == approx([5000.0, 5000.0], abs=30)
        assert np.isfinite(places[:, 2]).all()
        assert places[0, 2] > 0.9


class TestWholeDays:
    def score(self, days, count=100):
        """Shares of homes and workplaces that are right, and as they are stated."""
        right = []
        stated = []
        for seed in range(count):
            estimates, places = make_commuter(seed, days)
            named = find_home_and_work(estimates, SHARE)
            right.append(norm(named[:, :2] - places, axis=1) <= 100)
            stated.append(np.nan_to_num(named[:, 2]))
        return np.mean(right, axis=0), np.mean(stated, axis=0)

    def test_five_workdays_do_not_tell_home_from_work_and_a_weekend_does(self):
        right, stated = self.score(5)
        assert (stated < 0.6).all()
        assert (right < 0.75).all()
        right, stated = self.score(7)
        assert (right > 0.85).all()
        assert stated == approx(right, abs=0.08)


# -- the attack

AREA = Area(0.0, 0.0, 4000.0, 3000.0)
MONDAY = Clock(date(2026, 1, 5))
RNG = Streams(3).derive_rng("attack.dwell", 1)
HOUR_S = 3600.0


@dataclass(frozen=True)
class Person:
    home: tuple
    work: tuple = ()
    club: tuple = ()

    def find_place(self, day, hour):
        """Home at night and on days off but for the club, work from nine to five."""
        if self.work and day % 7 < 5 and 9 <= hour < 17:
            return self.work
        if self.club and day % 7 in (1, 3, 5) and 18 <= hour < 22:
            return self.club
        return self.home


PEOPLE = [
    Person((500.0, 500.0), (3200.0, 2500.0), (1500.0, 2600.0)),
    Person((3500.0, 600.0), (600.0, 2400.0)),
    Person((2100.0, 1500.0)),  # no workplace
]


def attack(**changes):
    settings = {"kind": "dwell", "sigma_m": 60.0, "outlier": 0.1, "third_places": 2} | changes
    return Dwell.model_validate_json(json.dumps(settings), strict=True)


def make_estimates(ue, places, quantity="centroid"):
    rows = zip(ue, places, strict=True)
    return said(*((u, 0, quantity, x, y, 1) for u, (x, y) in rows))


def make_facts(number, clock=MONDAY, round_s=HOUR_S):
    end_s = clock.compute_round_end_s(number, round_s)
    return RoundContext(number, end_s, Public(AREA, 1), round_s=round_s, week_s=clock.week_s(end_s))


@fixture
def rounds(monkeypatch):
    """What the wrapped attack says, by round: {number: (ue, places)}."""
    rounds = {}

    def run(self, view, facts, state, rng):
        return make_estimates(*rounds.get(facts.round, ([], []))), state

    monkeypatch.setattr(ClosedForm, "run", run)
    return rounds


def draw_weeks(people, rounds, sigma_m=60.0, outlier=0.1, seed=0):
    """Estimates of hourly rounds of these people, by round."""
    draw = default_rng(seed)
    n = len(people)
    estimates = {}
    for number in range(1, rounds + 1):
        day, hour = divmod((number - 0.5) / 24, 1)
        place_m = np.array([p.find_place(int(day), 24 * hour) for p in people])
        place_m += sigma_m * draw.normal(size=(n, 2))
        anywhere = AREA.sample(draw.uniform(size=(n, 2)))
        false = draw.uniform(size=(n, 1)) < outlier
        place_m = np.clip(np.where(false, anywhere, place_m), 1, [3999, 2999])
        estimates[number] = (np.arange(n), place_m)
    return estimates


def play(part, rounds, state=None, ue=(0, 1, 2), clock=MONDAY, round_s=HOUR_S):
    state = state or part.start()
    for number in rounds:
        facts = make_facts(number, clock, round_s)
        estimates, state = part.run(view_of(np.asarray(ue)), facts, state, RNG)
    return estimates, state


def select_places(estimates, ue):
    """Place and probability by kind."""
    rows = np.flatnonzero(estimates.ue == ue)
    return {estimates.status[i]: (*estimates.position_m[i], estimates.weight[i]) for i in rows}


def test_two_weeks_tell_home_work_and_club(rounds):
    rounds.update(draw_weeks(PEOPLE, 14 * 24))
    estimates, _ = play(attack(), range(1, 14 * 24 + 1))
    for ue, person in enumerate(PEOPLE):
        places = {"home": person.home, "work": person.work, "third 1": person.club}
        named = select_places(estimates, ue)
        assert list(named) == [kind for kind, place in places.items() if place]
        for kind, (x_m, y_m, probability) in named.items():
            assert np.hypot(*np.subtract((x_m, y_m), places[kind])) <= 60
            assert 0.9 < probability <= 1


def test_silent_below_the_min_probability_and_takes_back(rounds):
    """One night is not enough for nine in ten; a second home makes the first doubtful again."""
    part = attack(min_probability=0.95)
    day = draw_weeks(PEOPLE[2:], 24, outlier=0.02)
    rounds.update({number: day[(number - 1) % 24 + 1] for number in range(1, 49)})
    moved = draw_weeks([Person((500.0, 2500.0))], 24 * 30, outlier=0.02, seed=3)
    rounds.update({number: moved[number] for number in range(49, 97)})
    estimates, state = play(part, range(1, 7), ue=(0,))
    assert estimates.status == ["unsure"]
    estimates, state = play(part, range(7, 49), state, ue=(0,))
    assert estimates.status[0] == "home"
    estimates, _ = play(part, range(49, 97), state, ue=(0,))
    assert "home" not in estimates.status


def test_ues_do_not_depend_on_each_other(rounds):
    rounds.update(draw_weeks(PEOPLE, 40))
    straight, _ = play(attack(), range(1, 41))
    order = [2, 0, 1]
    for number, (ue, places) in list(rounds.items()):
        rounds[number] = (ue, places[order])  # UE 0 is now the third person
    turned, _ = play(attack(), range(1, 41))
    for ue, person in enumerate(order):
        assert select_places(turned, ue) == select_places(straight, person)


def test_resumed_to_the_bit(rounds, tmp_path):
    rounds.update(draw_weeks(PEOPLE, 60))
    part = attack()
    whole, end = play(part, range(1, 61))
    _, half = play(part, range(1, 52))  # in the middle of a night
    save_tree(tmp_path / "s.npz", to_tree(half))
    again = from_tree(load_tree(tmp_path / "s.npz"), part.start())
    assert isinstance(again, DwellState)
    estimates, resumed = play(part, range(52, 61), again)
    assert_array_equal(estimates.position_m, whole.position_m)
    assert_array_equal(estimates.weight, whole.weight)
    assert_array_equal(resumed.past.home, end.past.home)


class TestHours:
    def test_clocks_that_go_forward(self):
        """29 March 2026, two in the morning: from then on an elapsed hour is shown one later."""
        clock = Clock(date(2026, 3, 28), ((26 * HOUR_S, HOUR_S),))
        hours = [Hours.from_round(make_facts(number, clock)) for number in (25, 26, 27, 47, 48)]
        assert hours.pop(1).hour < 6
        assert [int(h.day[0]) % 7 for h in hours] == [6, 6, 6, 0]
        assert [float(h.hour[0]) for h in hours] == [0.5, 3.5, 23.5, 0.5]
        assert [h.is_weekend for h in hours] == [True] * 3 + [False]

    @mark.parametrize("weekday", range(7))
    def test_days_go_on_where_clocks_change(self, weekday):
        """A run that begins on a Monday too, whose weeks would else be counted one less after the
        change."""
        change = ((6 - weekday) * DAY_S + 2 * HOUR_S, HOUR_S)
        clock = Clock(date(2026, 3, 23 + weekday), (change,))
        days = [Hours.from_round(make_facts(n, clock)).day[0] for n in range(1, 24 * 12)]
        assert set(np.diff(days)) == {0, 1}
        assert days[0] % 7 == weekday


def test_of_two_places_a_day_workdays_alone_do_not_tell_home_from_work_and_a_weekend_does(
    monkeypatch,
):
    draw = default_rng(4)
    home = np.array([500.0, 500.0])
    work = np.array([3200.0, 2500.0])
    estimates = {}
    for day in range(14):
        place = work if day % 7 < 5 else AREA.sample(draw.uniform(size=(1, 2)))[0]
        places = np.array([home, place]) + 40 * draw.normal(size=(2, 2))
        estimates[day + 1] = make_estimates([0, 0], places, "place")
    monkeypatch.setattr(
        ClosedForm, "run", lambda self, view, facts, state, rng: (estimates[facts.round], state)
    )
    first, state = play(attack(), range(1, 5), ue=(0,), round_s=DAY_S)
    assert first.status == ["unsure"]
    second = select_places(play(attack(), range(5, 15), state, ue=(0,), round_s=DAY_S)[0], 0)
    for kind, place in (("home", home), ("work", work)):
        assert np.hypot(*(second[kind][:2] - place)) < 60


@mark.parametrize(
    "settings, message",
    [
        ({"outlier": 0.1}, "outlier: .* without sigma_m"),
        ({"sigma_m": 10.0, "bias_m": 11.0}, "bias_m: .* sigma_m 10, .* got 11"),
        ({"home_hours": [8, 8]}, "home_hours: from 8 to 8"),
        ({"work_hours": [16, 10]}, "work_hours: 16 to 10"),
        ({"of": {"kind": "closed-form", "name": "inner"}}, "'inner' to dwell itself"),
    ],
)
def test_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Dwell.model_validate_json(json.dumps({"kind": "dwell", **settings}), strict=True)
