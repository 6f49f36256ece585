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
from numpy.testing import assert_allclose, assert_array_equal
from thinned import one_in

from fl.attacks.base import View
from fl.attacks.closed_form import ClosedForm
from fl.attacks.dwell import Dwell, DwellState
from fl.leakage.reliability import reliability
from fl.tracking.chain import blurred
from fl.tracking.dwelling import (
    EstimatesOfUe,
    Hours,
    Period,
    Residences,
    Shares,
    habits,
    home_and_work,
    home_posterior,
    log_away,
    log_evidence,
    log_mean,
    log_mixed,
    work_posterior,
)
from fl.tracking.error_model import ErrorModel
from fl.tracking.place_grid import PlaceGrid, best_discs, disc_masses
from fl.types import Model, Public, RoundContext
from netsim.checkpoint import from_tree, load_tree, save_tree, to_tree
from netsim.clock import DAY_S, Clock
from netsim.geometry import Area
from netsim.rng import Streams


class TestEnumeration:
    """Against sums over every home and every other place of every night, on 3 x 3 places."""

    GRID = PlaceGrid(Area(0.0, 0.0, 900.0, 900.0), 3, 3)
    ERRORS = ErrorModel.plain(200.0, 0.2)
    PRIOR = np.arange(1.0, 10.0) / 45
    Z = np.random.default_rng(2).uniform(0, 900, (2, 3, 1, 2))  # 2 nights of 3 rounds
    SHARE = 0.8
    STAY = 0.6
    EMPLOYED = 0.7

    @pytest.fixture
    def log_e(self):
        return [log_evidence(z, self.ERRORS, self.GRID).sum(axis=0, keepdims=True) for z in self.Z]

    @pytest.fixture
    def e(self):
        """Products of the rounds of each night, by place (2, 9)."""
        return np.stack(
            [self.ERRORS.likelihood(z, self.GRID).astype(float).prod(axis=0) for z in self.Z]
        )

    @pytest.fixture
    def home(self, log_e):
        prior = self.PRIOR[None].astype(np.float32)
        log_p = sum(log_mixed(self.SHARE, e, log_mean(e, prior)) for e in log_e)
        return home_posterior(log_p, prior, self.GRID, 0.0)

    def test_home(self, e, home):
        joint = np.zeros(9)
        for h, first, second in product(
            range(9), range(-1, 9), range(-1, 9)
        ):  # -1: at home that night
            p = self.PRIOR[h]
            for night, at in enumerate((first, second)):
                p *= (
                    self.SHARE * e[night, h]
                    if at < 0
                    else (1 - self.SHARE) * self.PRIOR[at] * e[night, at]
                )
            joint[h] += p
        seen, true = home
        assert_allclose(seen[0], joint / joint.sum(), rtol=1e-5)
        assert_allclose(seen, true, rtol=1e-6)  # nothing is displaced

    def test_work_or_none(self, e, log_e, home):
        (home, _) = home
        prior = self.PRIOR[None].astype(np.float32)
        away = [log_away(self.STAY, one, home, prior) for one in log_e]
        log_p = sum(log_mixed(self.SHARE, one, a) for one, a in zip(log_e, away, strict=True))
        near = disc_masses(home, self.GRID, 100.0)
        found = work_posterior(log_p, sum(away), near, self.EMPLOYED, prior, self.GRID, 0.0)
        kept = self.PRIOR * (1 - near[0].astype(float))
        at = [*zip(range(9), self.EMPLOYED * kept, strict=True), (None, 1 - self.EMPLOYED)]
        joint = np.zeros(10)
        for i, (w, p) in enumerate(at):
            for day in e:
                elsewhere = (
                    self.STAY * home[0].astype(float) @ day + (1 - self.STAY) * self.PRIOR @ day
                )
                p *= elsewhere if w is None else self.SHARE * day[w] + (1 - self.SHARE) * elsewhere
            joint[i] = p
        assert_allclose(found[0], (joint / joint.sum())[:9], rtol=1e-4)


class TestResidences:
    """What is kept over days is the same as the laws of all days at once."""

    GRID = PlaceGrid.over(Area(0.0, 0.0, 1500.0, 1000.0), 50.0, 1, "tests")
    ERRORS = ErrorModel.plain(150.0, 0.2, 40.0)
    SHARES = Shares(0.9, 0.7, 0.5, 0.6)

    def test_nights_and_workdays(self):
        """Three nights and two workdays of three rounds, the last one not over yet; UE 4 is heard
        in some of them."""
        draw = np.random.default_rng(5)
        prior = even(self.GRID)
        periods = [
            Period(0, True),
            Period(0, False),
            Period(1, True),
            Period(1, False),
            Period(2, True),
        ]
        known = Residences.nothing(np.zeros(0, int), 0)
        home = 0.0
        work = 0.0
        none = 0.0
        for period in periods:
            z = draw.uniform(0, 1000, (3, 2, 1, 2))
            for number, one in enumerate(z):
                both = [0, 1] if number != 1 else [0]
                evidence = log_evidence(one[both], self.ERRORS, self.GRID)
                known = known.plus(np.array([2, 4])[both], evidence, period, self.SHARES)
            log_e = sum(log_evidence(one[:1], self.ERRORS, self.GRID) for one in z)
            if period.night:
                home = home + log_mixed(0.9, log_e, log_mean(log_e, prior))
            else:
                away = log_away(0.5, log_e, home_posterior(home, prior, self.GRID, 40.0)[0], prior)
                work = work + log_mixed(0.7, log_e, away)
                none = none + away
        seen, true = home_posterior(home, prior, self.GRID, 40.0)
        at_work = work_posterior(
            work, none, disc_masses(seen, self.GRID, 200.0), 0.6, prior, self.GRID, 40.0
        )
        shown, homes = known.homes(self.SHARES, self.GRID, 40.0)
        work = known.workplaces(shown, self.SHARES, self.GRID, 40.0, 100.0)
        assert_allclose(homes[:1], true, rtol=2e-4, atol=1e-9)
        assert_allclose(work[:1], at_work, rtol=2e-4, atol=1e-9)
        assert homes.sum(axis=1) == pytest.approx(1.0, abs=1e-5)
        assert work.sum() < 2
        # the third night is not over
        assert known.nights.tolist() == [2, 2]
        assert known.days.tolist() == [
            2,
            2,
        ]


class TestDiscs:
    GRID = PlaceGrid.over(Area(0.0, 0.0, 1000.0, 600.0), 40.0, 1, "tests")

    def test_the_best_disc_is_the_largest_mass(self):
        p = np.random.default_rng(4).dirichlet(np.full(len(self.GRID), 0.02), 3).astype(np.float32)
        centre, mass = best_discs(p, self.GRID, 100.0)
        for k in range(3):
            away = np.linalg.norm(self.GRID.place_m - centre[k], axis=1)
            assert p[k, away < 65].sum() <= mass[k] + 1e-6 <= p[k, away < 135].sum() + 2e-6
            assert mass[k] >= p[k].max()

    def test_blur_is_the_sum_of_two_displacements(self):
        """Of 60 m and 80 m: 100 m, but for the width of a cell that each adds; nothing is lost at
        the border."""
        grid = PlaceGrid.over(Area(0.0, 0.0, 2000.0, 1600.0), 40.0, 1, "tests")
        p = np.zeros((1, len(grid)), np.float32)
        p[0, grid.nearest(np.array([[1000.0, 800.0]]))[0]] = 1
        once = blurred(p, grid, 100.0)
        twice = blurred(blurred(p, grid, 60.0), grid, np.sqrt(80.0**2 - 40.0**2 / 12))
        assert_allclose(twice, once, atol=2e-3 * once.max())
        assert_allclose(once[0] @ grid.place_m, grid.place_m[p[0].argmax()], atol=0.5)
        corner = blurred(np.eye(1, len(grid), dtype=np.float32), grid, 100.0)
        assert corner.sum() == pytest.approx(1, abs=1e-5)
        assert blurred(p, grid, 0.0) is p


class TestStated:
    """A probability that is stated is the share that is right: with 120 UEs a share is known to
    about 0.045."""

    def test_a_bias_that_is_ignored_is_false_certainty(self):
        right, stated = homes_stated(100.0, 0.0, (7,), 120, 0)[7]
        assert stated.mean() > 0.75
        assert right.mean() < 0.5

    @pytest.mark.slow
    @pytest.mark.parametrize("bias_m", one_in(2, [100.0, 0.0]))
    def test_reliable(self, bias_m):
        """240 UEs after 1, 2, 3, 5 and 7 nights, all together."""
        found = homes_stated(bias_m, bias_m, (1, 2, 3, 5, 7), count=240, seed=2)
        right, stated = (np.concatenate(each) for each in zip(*found.values(), strict=True))
        known = reliability(np.tile(np.arange(240), 5), stated, right)
        assert known.count == 1200
        assert known.error < 0.05
        ignored = homes_stated(100.0, 0.0, (7,), count=120)[7]
        assert reliability(np.arange(120), ignored[1], ignored[0]).error > 0.3


# -- places visited again and again: how many, where, and how sure; home and work of whole days


TOLD = 1e8, 0.0, 100.0  # of the area, the persistent error and what is right
SHARE = np.array([[0.45, 0.40], [0.50, 0.05]])  # of home and work, on workdays and days off


def person(seed, sigma_m=100.0, count=300, thirds=2):
    """Estimates of somebody with home, work and further places, one in five anywhere; and these
    places."""
    draw = np.random.default_rng(seed)
    place = draw.uniform(500, 9500, (2 + thirds, 2))
    of_class = draw.integers(0, 48, count)
    night = np.isin(of_class % 24, [*range(8), *range(20, 24)])
    share = np.where(night[:, None], [0.9, 0, *[0.03] * thirds], [0.2, 0.5, *[0.1] * thirds])
    of = (share.cumsum(axis=1) < draw.random((count, 1))).sum(axis=1)
    known = place[np.minimum(of, len(place) - 1)]
    at = np.where((of < len(place))[:, None], known, draw.uniform(0, 1e4, (count, 2)))
    z = at + sigma_m * draw.normal(size=at.shape)
    z = np.where(draw.random((count, 1)) < 0.2, draw.uniform(0, 1e4, (count, 2)), z)
    day = np.arange(count) // 10
    return EstimatesOfUe(
        z, np.full(count, sigma_m), np.full(count, 0.8), of_class, day, *TOLD
    ), place


def commuter(seed, days, sigma_m=60.0):
    """Two places named a day, home and work or somewhere else; and home and work."""
    draw = np.random.default_rng(seed)
    home, work = draw.uniform(500, 9500, (2, 2))
    z = []
    for number in range(days):
        works = number % 7 < 5 and draw.random() < 0.85
        sleeps = draw.random() < 0.95
        for place, there in ((home, sleeps), (work, works)):
            right = there and draw.random() < 0.9
            z.append(place + sigma_m * draw.normal(size=2) if right else draw.uniform(0, 1e4, 2))
    day = np.repeat(np.arange(days), 2)
    off = (day % 7 >= 5).astype(int)
    n = 2 * days
    return (
        EstimatesOfUe(np.array(z), np.full(n, sigma_m), np.full(n, 0.9), off, day, *TOLD),
        home,
        work,
    )


class TestHabits:
    @pytest.mark.parametrize("sigma_m", [50.0, 300.0])
    def test_stated_is_right(self, sigma_m):
        """Of 30 people with two further places: about so many are found, as often right as
        stated."""
        right = []
        stated = []
        for seed in range(30):
            said, place = person(seed, sigma_m)
            found = habits(said, place[:2], 48, 5)
            away = np.linalg.norm(found[:, None, :2] - place[2:], axis=2)
            right.extend(away.min(axis=1) <= 100)
            stated.extend(found[:, 2])
        assert 50 <= len(right) <= 70
        assert np.mean(stated) == pytest.approx(np.mean(right), abs=0.08)

    def test_estimates_that_are_seldom_right_may_all_be_of_one_place(self):
        """More estimates lie at a place than are right by their errors: shares stay shares."""
        draw = np.random.default_rng(0)
        z = draw.normal(0, 50.0, (60, 2)) + 5000.0
        z[::12] += 3000.0
        day = np.arange(60)
        right = np.where(np.arange(60) % 4, 0.1, 0.95)
        estimates = EstimatesOfUe(z, np.full(60, 50.0), right, np.zeros(60, int), day, *TOLD)
        found = habits(estimates, np.zeros((0, 2)), 1, 3)
        assert found[0, :2] == pytest.approx([5000.0, 5000.0], abs=30)
        assert np.isfinite(found[:, 2]).all()
        assert found[0, 2] > 0.9


class TestWholeDays:
    def right(self, days, count=100):
        found = []
        right = []
        for seed in range(count):
            said, *places = commuter(seed, days)
            named = home_and_work(said, SHARE)
            right.append(np.linalg.norm(named[:, :2] - np.stack(places), axis=1) <= 100)
            found.append(np.nan_to_num(named[:, 2]))
        return np.mean(right, axis=0), np.mean(found, axis=0)

    def test_five_workdays_do_not_tell_home_from_work_and_a_weekend_does(self):
        right, stated = self.right(5)
        assert (stated < 0.6).all()
        assert (right < 0.75).all()
        right, stated = self.right(7)
        assert (right > 0.85).all()
        assert stated == pytest.approx(right, abs=0.08)


# -- the attack

AREA = Area(0.0, 0.0, 4000.0, 3000.0)
MONDAY = Clock(date(2026, 1, 5))
RNG = Streams(3).at("attack.dwell", 1)
HOUR_S = 3600.0


@dataclass(frozen=True)
class Person:
    home: tuple[float, float]
    work: tuple[float, float] | None = None
    club: tuple[float, float] | None = None

    def at(self, day, hour):
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


def attack(**more):
    given = {"kind": "dwell", "sigma_m": 60.0, "outlier": 0.1, "third_places": 2, **more}
    return Dwell.model_validate_json(json.dumps(given), strict=True)


def estimates(ue, places, what="centroid"):
    return said(*((u, 0, what, x, y, 1) for u, (x, y) in zip(ue, places, strict=True)))


def view_of(ue):
    n = len(ue)
    none = np.zeros(len(ue), dtype=np.int64)
    model = Model(np.zeros((1, 1)))
    return View(
        "updates",
        "all",
        np.ones((n, 1)),
        none,
        np.asarray(ue),
        none,
        np.arange(n),
        model,
        model,
        None,
    )


def facts_of(number, clock=MONDAY, round_s=HOUR_S):
    end_s = clock.end_s(number, round_s)
    return RoundContext(number, end_s, Public(AREA, 1), round_s=round_s, week_s=clock.week_s(end_s))


@pytest.fixture
def heard(monkeypatch):
    """What the wrapped attack says, by round: {number: (ue, places)}."""
    said = {}

    def run(self, view, facts, state, rng):
        ue, places = said.get(facts.round, ([], []))
        return estimates(ue, places), state

    monkeypatch.setattr(ClosedForm, "run", run)
    return said


def weeks(people, rounds, sigma_m=60.0, outlier=0.1, seed=0):
    """Estimates of hourly rounds of these people, by round."""
    draw = np.random.default_rng(seed)
    said = {}
    for number in range(1, rounds + 1):
        day, hour = divmod((number - 0.5) / 24, 1)
        at = np.array([p.at(int(day), 24 * hour) for p in people]) + sigma_m * draw.normal(
            size=(len(people), 2)
        )
        anywhere = AREA.sample(draw.uniform(size=(len(people), 2)))
        false = draw.uniform(size=(len(people), 1)) < outlier
        said[number] = (
            np.arange(len(people)),
            np.clip(np.where(false, anywhere, at), 1, [3999, 2999]),
        )
    return said


def play(part, rounds, state=None, ue=(0, 1, 2), clock=MONDAY, round_s=HOUR_S):
    found = None
    state = part.start() if state is None else state
    for number in rounds:
        found, state = part.run(view_of(ue), facts_of(number, clock, round_s), state, RNG)
    return found, state


def named(found, ue):
    """Place and probability by kind."""
    mine = np.flatnonzero(found.ue == ue)
    return {found.status[i]: (found.position_m[i], found.weight[i]) for i in mine}


def test_two_weeks_tell_home_work_and_club(heard):
    heard.update(weeks(PEOPLE, 14 * 24))
    found, _ = play(attack(), range(1, 14 * 24 + 1))
    of = [named(found, ue) for ue in range(3)]
    assert list(of[0]) == ["home", "work", "third 1"]
    assert list(of[1]) == ["home", "work"]
    assert list(of[2]) == ["home"]
    for found, person in zip(of, PEOPLE, strict=True):
        for kind, place in (("home", person.home), ("work", person.work), ("third 1", person.club)):
            if place:
                assert np.hypot(*(found[kind][0] - place)) <= 60
                assert 0.9 < found[kind][1] <= 1


def test_silent_below_the_min_probability_and_takes_back(heard):
    """One night is not enough for nine in ten; a second home makes the first doubtful again."""
    heard.update(weeks(PEOPLE[2:], 24, outlier=0.02))
    moved = weeks([Person((500.0, 2500.0))], 24 * 30, outlier=0.02, seed=3)
    found, state = play(attack(min_probability=0.95), range(1, 7), ue=(0,))
    assert found.status == ["unsure"]
    for number in range(25, 24 * 5 + 1):
        heard[number] = weeks(PEOPLE[2:], 24, outlier=0.02)[(number - 1) % 24 + 1]
    found, state = play(attack(min_probability=0.95), range(7, 24 * 2 + 1), state, ue=(0,))
    assert found.status[0] == "home"
    heard.update({number: moved[number] for number in range(24 * 2 + 1, 24 * 4 + 1)})
    found, state = play(attack(min_probability=0.95), range(24 * 2 + 1, 24 * 4 + 1), state, ue=(0,))
    assert "home" not in found.status


def test_ues_do_not_depend_on_each_other(heard):
    heard.update(weeks(PEOPLE, 40))
    straight, _ = play(attack(), range(1, 41))
    order = [2, 0, 1]
    for number, (ue, places) in list(heard.items()):
        heard[number] = (ue, places[order])  # UE 0 is now the third person
    turned, _ = play(attack(), range(1, 41))
    for ue, person in enumerate(order):
        one = named(turned, ue)
        other = named(straight, person)
        assert list(one) == list(other)
        for kind in one:
            assert_array_equal(one[kind][0], other[kind][0])
            assert one[kind][1] == other[kind][1]


def test_resumed_to_the_bit(heard, tmp_path):
    heard.update(weeks(PEOPLE, 60))
    part = attack()
    whole, end = play(part, range(1, 61))
    _, half = play(part, range(1, 52))  # in the middle of a night
    save_tree(tmp_path / "s.npz", to_tree(half))
    again = from_tree(load_tree(tmp_path / "s.npz"), part.start())
    assert isinstance(again, DwellState)
    found, resumed = play(part, range(52, 61), again)
    assert_array_equal(found.position_m, whole.position_m)
    assert_array_equal(found.weight, whole.weight)
    assert_array_equal(resumed.past.home, end.past.home)


class TestHours:
    def test_clocks_that_go_forward(self):
        """29 March 2026, two in the morning: from then on an elapsed hour is shown one later."""
        clock = Clock(date(2026, 3, 28), ((26 * HOUR_S, HOUR_S),))
        seen = [Hours.of_round(facts_of(number, clock)) for number in (25, 27, 47, 48)]
        assert [(one.day % 7, one.hour) for one in seen] == [
            (6, 0.5),
            (6, 3.5),
            (6, 23.5),
            (0, 0.5),
        ]
        assert Hours.of_round(facts_of(26, clock)).hour < 6
        assert [one.off for one in seen] == [True] * 3 + [False]

    @pytest.mark.parametrize("weekday", range(7))
    def test_days_go_on_where_clocks_change(self, weekday):
        """A run that begins on a Monday too, whose weeks would else be counted one less after the
        change."""
        clock = Clock(date(2026, 3, 23 + weekday), (((6 - weekday) * DAY_S + 2 * HOUR_S, HOUR_S),))
        days = [Hours.of_round(facts_of(number, clock)).day[0] for number in range(1, 24 * 12)]
        assert set(np.diff(days)) == {0, 1}
        assert days[0] % 7 == weekday


def test_of_two_places_a_day_workdays_alone_do_not_tell_home_from_work_and_a_weekend_does(
    monkeypatch,
):
    draw = np.random.default_rng(4)
    said = {}
    home = np.array([500.0, 500.0])
    work = np.array([3200.0, 2500.0])
    for day in range(14):
        if day % 7 < 5:
            there = work
        else:
            there = AREA.sample(draw.uniform(size=(1, 2)))[0]
        said[day + 1] = estimates(
            [0, 0], np.array([home, there]) + 40 * draw.normal(size=(2, 2)), what="place"
        )
    monkeypatch.setattr(
        ClosedForm, "run", lambda self, view, facts, state, rng: (said[facts.round], state)
    )
    first, state = play(attack(), range(1, 5), ue=(0,), round_s=DAY_S)
    assert first.status == ["unsure"]
    second = named(play(attack(), range(5, 15), state, ue=(0,), round_s=DAY_S)[0], 0)
    assert np.hypot(*(second["home"][0] - home)) < 60
    assert np.hypot(*(second["work"][0] - work)) < 60


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"outlier": 0.1}, "outlier: errors are learnt without sigma_m"),
        (
            {"sigma_m": 10.0, "bias_m": 11.0},
            "bias_m: a part of sigma_m 10, so at most that, got 11",
        ),
        ({"home_hours": [8, 8]}, "home_hours: from 8 to 8 is no time at all"),
        ({"work_hours": [16, 10]}, "work_hours: 16 to 10 must be hours of one day"),
        ({"of": {"kind": "closed-form", "name": "inner"}}, "give the name 'inner' to dwell itself"),
    ],
)
def test_refused(given, message):
    with pytest.raises(ValueError, match=message):
        Dwell.model_validate_json(json.dumps({"kind": "dwell", **given}), strict=True)
