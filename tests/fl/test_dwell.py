"""The attack `dwell`: what it names, when it is silent, and what it must not depend on."""

import json
from dataclasses import dataclass, replace
from datetime import date

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fl.attacks.base import View
from fl.attacks.closed_form import ClosedForm
from fl.attacks.dwell import Dwell
from fl.attacks.dwell_state import DwellPlaces, DwellState, Hours, NamedSoFar
from fl.attacks.learnt_errors import LearntErrors
from fl.tracking.error_model import ErrorModel
from fl.tracking.residence import Residences
from fl.types import Estimates, Facts, Model, Public
from netsim.checkpoint import load_tree, save_tree
from netsim.clock import DAY_S, Clock
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Streams
from netsim.tree import from_tree, to_tree

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
        return self.club if self.club and day % 7 in (1, 3, 5) and 18 <= hour < 22 else self.home


PEOPLE = [
    Person((500.0, 500.0), (3200.0, 2500.0), (1500.0, 2600.0)),
    Person((3500.0, 600.0), (600.0, 2400.0)),
    Person((2100.0, 1500.0)),  # no workplace
]


def attack(**more):
    given = {"kind": "dwell", "sigma_m": 60.0, "outlier": 0.1, "third_places": 2, **more}
    return Dwell.model_validate_json(json.dumps(given), strict=True)


def estimates(ue, places, what="centroid"):
    n, none = len(ue), np.zeros(len(ue), dtype=np.int64)
    return Estimates(np.asarray(ue), none, [what] * n, np.asarray(places, dtype=float).reshape(-1, 2), np.ones(n),
                     np.full(n, np.nan), none, none, ["ok"] * n)  # fmt: skip


def view_of(ue):
    n, none = len(ue), np.zeros(len(ue), dtype=np.int64)
    model = Model(np.zeros((1, 1)))
    return View("rows", "all", np.ones((n, 1)), none, np.asarray(ue), none, np.arange(n), model, model, None)


def facts_of(number, clock=MONDAY, round_s=HOUR_S):
    end_s = clock.end_s(number, round_s)
    return Facts(number, end_s, Public(AREA, 1), round_s=round_s, week_s=clock.week_s(end_s))


@pytest.fixture
def heard(monkeypatch):
    """What the wrapped attack says, by round: {number: (ue, places)}."""
    said = {}

    def run(self, view, facts, state, rng):
        ue, places = said.get(facts.round, ([], []))
        return estimates(np.asarray(ue, dtype=np.int64), places), state

    monkeypatch.setattr(ClosedForm, "run", run)
    return said


def weeks(people, rounds, sigma_m=60.0, outlier=0.1, seed=0):
    """Estimates of hourly rounds of these people, by round."""
    draw, said = np.random.default_rng(seed), {}
    for number in range(1, rounds + 1):
        day, hour = divmod((number - 0.5) / 24, 1)
        at = np.array([p.at(int(day), 24 * hour) for p in people]) + sigma_m * draw.normal(size=(len(people), 2))
        anywhere = AREA.sample(draw.uniform(size=(len(people), 2)))
        false = draw.uniform(size=(len(people), 1)) < outlier
        said[number] = (np.arange(len(people)), np.clip(np.where(false, anywhere, at), 1, [3999, 2999]))
    return said


def play(part, rounds, state=None, ue=(0, 1, 2), clock=MONDAY, round_s=HOUR_S):
    found, state = None, part.start() if state is None else state
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
    assert list(of[0]) == ["home", "work", "third 1"] and list(of[1]) == ["home", "work"] and list(of[2]) == ["home"]
    for said, person in zip(of, PEOPLE, strict=True):
        for kind, place in (("home", person.home), ("work", person.work), ("third 1", person.club)):
            if place:
                assert np.hypot(*(said[kind][0] - place)) <= 60 and 0.9 < said[kind][1] <= 1


def test_answers_stand_at_every_model_of_a_ue(heard):
    heard.update(weeks(PEOPLE, 30))
    _, state = play(attack(third_places=0), range(1, 30))
    two = replace(view_of([0, 0, 1]), model=np.array([0, 3, 3]))
    found, _ = attack(third_places=0).run(two, facts_of(30), state, RNG)
    said = list(zip(found.ue.tolist(), found.model.tolist(), found.status, strict=True))
    assert [one for one in said if one[0] == 0 and one[2] == "home"] == [(0, 0, "home"), (0, 3, "home")]
    assert {one[1] for one in said if one[0] == 1} == {3}


def test_no_night_no_home_and_no_workday_no_work(heard):
    heard.update(weeks(PEOPLE, 96))
    night = [n for n in range(1, 96) if (n - 1) % 24 < 6]
    office = [n for n in range(1, 96) if 10 <= (n - 1) % 24 < 16]
    part = attack(third_places=0)
    found, _ = play(part, [n for n in range(1, 96) if n not in night])
    assert found.status == ["unsure"] * 3  # a place of the day alone may be a home
    found, _ = play(part, [n for n in range(1, 96) if n not in office])
    assert found.status == ["home"] * 3
    found, _ = play(part, [n for n in range(1, 96) if n not in night + office])
    assert found.status == ["unsure"] * 3 and np.isnan(found.position_m).all() and (found.weight == 0).all()


def test_saturdays_are_no_workdays(heard):
    heard.update(weeks(PEOPLE, 14 * 24))
    weekend = [n for n in range(1, 14 * 24 + 1) if (n - 1) // 24 % 7 >= 5]
    found, state = play(attack(third_places=0), weekend)
    assert found.status == ["home"] * 3 and state.past.days.tolist() == [0, 0, 0]


def test_silent_below_the_least_probability_and_takes_back(heard):
    """One night is not enough for nine in ten; a second home makes the first doubtful again."""
    heard.update(weeks(PEOPLE[2:], 24, outlier=0.02))
    moved = weeks([Person((500.0, 2500.0))], 24 * 30, outlier=0.02, seed=3)
    found, state = play(attack(least_probability=0.95), range(1, 7), ue=(0,))
    assert found.status == ["unsure"]
    for number in range(25, 24 * 5 + 1):
        heard[number] = weeks(PEOPLE[2:], 24, outlier=0.02)[(number - 1) % 24 + 1]
    found, state = play(attack(least_probability=0.95), range(7, 24 * 2 + 1), state, ue=(0,))
    assert found.status[0] == "home"
    heard.update({number: moved[number] for number in range(24 * 2 + 1, 24 * 4 + 1)})
    found, state = play(attack(least_probability=0.95), range(24 * 2 + 1, 24 * 4 + 1), state, ue=(0,))
    assert "home" not in found.status


def test_ues_do_not_depend_on_each_other(heard):
    heard.update(weeks(PEOPLE, 80))
    straight, _ = play(attack(), range(1, 81))
    order = [2, 0, 1]
    for number, (ue, places) in list(heard.items()):
        heard[number] = (ue, places[order])  # UE 0 is now the third person
    turned, _ = play(attack(), range(1, 81))
    for ue, person in enumerate(order):
        one, other = named(turned, ue), named(straight, person)
        assert list(one) == list(other)
        for kind in one:
            assert_array_equal(one[kind][0], other[kind][0])
            assert one[kind][1] == other[kind][1]


def test_resumed_to_the_bit(heard, tmp_path):
    heard.update(weeks(PEOPLE, 90))
    part = attack()
    whole, end = play(part, range(1, 91))
    _, half = play(part, range(1, 52))  # in the middle of a night
    save_tree(tmp_path / "s.npz", to_tree(half))
    again = from_tree(load_tree(tmp_path / "s.npz"), part.start())
    assert isinstance(again, DwellState)
    found, resumed = play(part, range(52, 91), again)
    assert_array_equal(found.position_m, whole.position_m)
    assert_array_equal(found.weight, whole.weight)
    assert_array_equal(resumed.past.home, end.past.home)


def test_a_state_is_a_value(heard):
    heard.update(weeks(PEOPLE, 30))
    part = attack()
    _, state = play(part, range(1, 29))
    before = json.dumps(to_tree(state), default=lambda v: np.asarray(v).tolist())
    play(part, range(29, 31), state)
    assert json.dumps(to_tree(state), default=lambda v: np.asarray(v).tolist()) == before


class TestHours:
    def test_of_a_week(self):
        """Round 1 is the first hour of a Monday; the last of a Sunday."""
        for number in range(1, 24 * 21 + 1):
            day, hour = divmod(number - 1, 24)
            assert Hours.of(facts_of(number)) == Hours(day, hour + 0.5, False)

    def test_clocks_that_go_forward(self):
        """29 March 2026, two in the morning: from then on an elapsed hour is shown one later."""
        clock = Clock(date(2026, 3, 28), ((26 * HOUR_S, HOUR_S),))
        seen = [Hours.of(facts_of(number, clock)) for number in (25, 27, 47, 48)]
        assert [(one.day % 7, one.hour) for one in seen] == [(6, 0.5), (6, 3.5), (6, 23.5), (0, 0.5)]
        assert Hours.of(facts_of(26, clock)).hour < 6 and [one.off for one in seen] == [True] * 3 + [False]

    @pytest.mark.parametrize("weekday", range(7))
    def test_days_go_on_where_clocks_change(self, weekday):
        """A run that begins on a Monday too, whose weeks would else be counted one less after the change."""
        clock = Clock(date(2026, 3, 23 + weekday), (((6 - weekday) * DAY_S + 2 * HOUR_S, HOUR_S),))
        days = [Hours.of(facts_of(number, clock)).day for number in range(1, 24 * 12)]
        assert set(np.diff(days)) == {0, 1} and days[0] % 7 == weekday

    def test_periods(self):
        def at(day, hour, home=(0.0, 6.0)):
            found = Hours(day, hour, False).period(home, (10.0, 16.0))
            return found and (found.day, found.night)

        times = ((0, 5.9), (0, 6.0), (0, 10.0), (5, 12.0), (0, 16.0))
        assert [at(*time) for time in times] == [(0, True), None, (0, False), None, None]
        late = [at(day, hour, (20.0, 8.0)) for day, hour in ((0, 19.9), (0, 20.0), (1, 0.0), (1, 7.9), (1, 8.0))]
        assert late == [None, (0, True), (0, True), (0, True), None]

    def test_nobody_says_what_the_clock_shows(self, heard):
        heard.update(weeks(PEOPLE, 3))
        silent = replace(facts_of(1), week_s=float("nan"))
        found, state = attack().run(view_of([0, 1, 2]), silent, attack().start(), RNG)
        assert Hours.of(silent) is None and found.status == ["unsure"] * 3 and not len(state.heard.owner)


class TestWholeDays:
    def played(self, heard, days, several):
        draw = np.random.default_rng(4)
        home, work = np.array([500.0, 500.0]), np.array([3200.0, 2500.0])
        for day in range(days):
            off = day % 7 >= 5
            places = [home, work if not off else AREA.sample(draw.uniform(size=(1, 2)))[0]]
            if several:
                heard[day + 1] = ([0, 0], np.array(places) + 40 * draw.normal(size=(2, 2)))
            else:
                heard[day + 1] = ([0], (home if off else (home + work) / 2) + 40 * draw.normal(size=2))
        return play(attack(sigma_m=60.0), range(1, days + 1), ue=(0,), round_s=DAY_S)[0]

    def test_two_places_a_day(self, heard, monkeypatch):
        """Workdays alone do not tell home from work; a weekend does."""
        monkeypatch.setattr(
            ClosedForm, "run",
            lambda self, view, facts, state, rng: (estimates(*heard[facts.round], what="place"), state),
        )  # fmt: skip
        first = self.played(heard, 4, several=True)
        assert first.status == ["unsure"]
        second = named(self.played(heard, 14, several=True), 0)
        assert np.hypot(*(second["home"][0] - [500, 500])) < 60 and np.hypot(*(second["work"][0] - [3200, 2500])) < 60

    def test_means_of_days(self, heard):
        """Workdays' means lie between home and work, and are named as neither; weekends tell home."""
        assert self.played(heard, 5, several=False).status == ["unsure"]
        found = named(self.played(heard, 28, several=False), 0)
        assert list(found) == ["home"] and np.hypot(*(found["home"][0] - [500, 500])) < 60


def test_one_place_at_two_ranks_counts_once():
    """At the rank of the larger share; of equal shares at the first."""
    errors = ErrorModel(np.array([0.25, 0.75]), np.array([90.0, 30.0]), 0.2, 0.0, np.ones(2), np.zeros((2, 2)))
    z = np.array([[[10.0, 20.0], [10.0, 20.0]], [[10.0, 20.0], [500.0, 600.0]]])
    kept = NamedSoFar().plus(np.array([1, 2]), z, errors, Hours(3, 12.5, False))
    assert kept.owner.tolist() == [1, 2, 2] and kept.z_m.tolist() == [[10, 20], [10, 20], [500, 600]]
    assert_allclose(kept.right, [0.6, 0.2, 0.6])
    assert_allclose(kept.spread_m, [30, 90, 30])
    alike = replace(errors, share=np.full(2, 0.5))
    assert_allclose(NamedSoFar().plus(np.array([1]), z[:1], alike, Hours(3, 12.5, False)).spread_m, [90])


def test_a_learnt_gain_and_offset_are_undone():
    errors = ErrorModel(np.ones(1), np.array([30.0]), 0.1, 20.0, np.array([0.5]), np.array([[100.0, -50.0]]))
    z = np.full((1, 4, 2), np.nan)
    z[0, 0] = [600.0, 450.0]
    kept = NamedSoFar().plus(np.array([7]), z, errors, Hours(0, 3.5, False))
    assert_allclose(kept.z_m, [[1000.0, 1000.0]])
    assert kept.spread_m[0] == pytest.approx(np.sqrt(30**2 - 10**2) / 0.5) and kept.right[0] == pytest.approx(0.9)
    assert kept.of_class[0] == 3 and kept.count(np.array([3, 7])).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"outlier": 0.1}, "outlier: errors are learnt without sigma_m"),
        ({"sigma_m": 10.0, "bias_m": 11.0}, "bias_m: a part of sigma_m 10, so at most that, got 11"),
        ({"home_hours": [8, 8]}, "home_hours: from 8 to 8 is no time at all"),
        ({"work_hours": [16, 10]}, "work_hours: 16 to 10 must be hours of one day"),
        ({"cell_m": 60.0}, "cell_m: at most half of near_m 100, so that a disc has cells, got 60; take 50 or less"),
        ({"of": {"kind": "closed-form", "name": "inner"}}, "give the name 'inner' to dwell itself"),
    ],
)
def test_refused(given, message):
    with pytest.raises(ValueError, match=message):
        Dwell.model_validate_json(json.dumps({"kind": "dwell", **given}), strict=True)


def test_too_many_places_are_refused_before_a_run():
    Dwell(cell_m=10.0).check(Public(AREA, 1), 1000)  # 120,000 places
    with pytest.raises(BadInput, match=r"cell_m 10 makes 120,000 places, at most 83,333 .* take a larger cell_m"):
        Dwell(cell_m=10.0).check(Public(AREA, 1), 2000)


def test_what_it_needs_is_what_it_wraps():
    assert {"starting weights", "training details"} <= set(Dwell().needs)
    assert not {"starting weights", "training details"} & set(attack().needs)
    assert attack(of={"kind": "span"}).needs["layers"]


def test_rounds_that_tell_little_do_not_widen_what_others_told():
    """Nights with small errors, then one of which nearly nothing is known: the bias stays near that of the good."""
    good = ErrorModel.plain(50.0, 0.1, 20.0)
    poor = ErrorModel(np.ones(1), np.array([70.0]), 0.1, 400.0, np.array([0.02]))
    state = DwellState(None, LearntErrors(), Residences(), NamedSoFar(), DwellPlaces.nobody())
    for _ in range(5):
        state = state.with_errors(good)
    assert state.lasting_m == pytest.approx(20)
    assert state.with_errors(poor).lasting_m == pytest.approx(20, rel=0.05)
    share = poor.precision / (5 * good.precision + poor.precision)
    assert state.with_errors(poor).lasting_m ** 2 == pytest.approx((1 - share) * 400 + share * 160_000)
