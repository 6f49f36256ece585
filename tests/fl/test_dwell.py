"""The attack `dwell`: what it names, when it is silent, and what it must not depend on."""

import json
from dataclasses import dataclass
from datetime import date

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fl.attacks.base import View
from fl.attacks.closed_form import ClosedForm
from fl.attacks.dwell import Dwell, DwellState
from fl.tracking.dwelling import Hours
from fl.types import Estimates, Model, Public, RoundContext
from netsim.checkpoint import from_tree, load_tree, save_tree, to_tree
from netsim.clock import DAY_S, Clock
from netsim.geometry import Area
from netsim.rng import Streams

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
    return View("updates", "all", np.ones((n, 1)), none, np.asarray(ue), none, np.arange(n), model, model, None)


def facts_of(number, clock=MONDAY, round_s=HOUR_S):
    end_s = clock.end_s(number, round_s)
    return RoundContext(number, end_s, Public(AREA, 1), round_s=round_s, week_s=clock.week_s(end_s))


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
        one, other = named(turned, ue), named(straight, person)
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
        assert [(one.day % 7, one.hour) for one in seen] == [(6, 0.5), (6, 3.5), (6, 23.5), (0, 0.5)]
        assert Hours.of_round(facts_of(26, clock)).hour < 6 and [one.off for one in seen] == [True] * 3 + [False]

    @pytest.mark.parametrize("weekday", range(7))
    def test_days_go_on_where_clocks_change(self, weekday):
        """A run that begins on a Monday too, whose weeks would else be counted one less after the change."""
        clock = Clock(date(2026, 3, 23 + weekday), (((6 - weekday) * DAY_S + 2 * HOUR_S, HOUR_S),))
        days = [Hours.of_round(facts_of(number, clock)).day[0] for number in range(1, 24 * 12)]
        assert set(np.diff(days)) == {0, 1} and days[0] % 7 == weekday


def test_of_two_places_a_day_workdays_alone_do_not_tell_home_from_work_and_a_weekend_does(monkeypatch):
    draw, said = np.random.default_rng(4), {}
    home, work = np.array([500.0, 500.0]), np.array([3200.0, 2500.0])
    for day in range(14):
        there = work if day % 7 < 5 else AREA.sample(draw.uniform(size=(1, 2)))[0]
        said[day + 1] = estimates([0, 0], np.array([home, there]) + 40 * draw.normal(size=(2, 2)), what="place")
    monkeypatch.setattr(ClosedForm, "run", lambda self, view, facts, state, rng: (said[facts.round], state))
    first, state = play(attack(), range(1, 5), ue=(0,), round_s=DAY_S)
    assert first.status == ["unsure"]
    second = named(play(attack(), range(5, 15), state, ue=(0,), round_s=DAY_S)[0], 0)
    assert np.hypot(*(second["home"][0] - home)) < 60 and np.hypot(*(second["work"][0] - work)) < 60


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"outlier": 0.1}, "outlier: errors are learnt without sigma_m"),
        ({"sigma_m": 10.0, "bias_m": 11.0}, "bias_m: a part of sigma_m 10, so at most that, got 11"),
        ({"home_hours": [8, 8]}, "home_hours: from 8 to 8 is no time at all"),
        ({"work_hours": [16, 10]}, "work_hours: 16 to 10 must be hours of one day"),
        ({"cell_m": 60.0}, "cell_m: at most half of hit_radius_m 100: a disc needs cells, got 60; take 50 or less"),
        ({"of": {"kind": "closed-form", "name": "inner"}}, "give the name 'inner' to dwell itself"),
    ],
)
def test_refused(given, message):
    with pytest.raises(ValueError, match=message):
        Dwell.model_validate_json(json.dumps({"kind": "dwell", **given}), strict=True)
