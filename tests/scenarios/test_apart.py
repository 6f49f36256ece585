"""Answers for homes and workplaces apart: what a round and the summary count, beside chance."""

from dataclasses import replace
from math import hypot, isnan, nan

import numpy as np
import pytest
from estimates import said
from numpy.random import default_rng
from pytest import approx, mark

from fl.attacks.closed_form import ClosedForm
from fl.leakage import leakage
from fl.leakage.leakage import ComparedRound, Leakage
from fl.leakage.tracks import collect_answers_inside
from fl.types import Estimates, Local, find_place_kind, rank_place
from netsim.geometry import Area
from netsim.mobility.base import Places
from netsim.rng import Streams
from scenarios.app.result import run
from scenarios.app.results.attacks import (
    Truth,
    collect_chance_rows,
    collect_named_rows,
    measure_stated_reliability,
)
from scenarios.app.results.summary_keys import compute_measures
from scenarios.app.results.table import build_lines

AREA = Area(0.0, 0.0, 2000.0, 1500.0)
RADIUS_M = 100.0
APART = ("home 1", "home 2", "work 1", "work 2")
ROWS = dict.fromkeys(("ue", "round", "home_named_m", "densest_named_m"), np.zeros(0))
RNG = Streams(6).derive_rng("leakage")


def answer(*rows, ue=0):
    """Answers (status, x, y, weight) about one UE."""
    estimates = said(*((ue, 0, "answer", x, y, weight) for _, x, y, weight in rows))
    return replace(estimates, status=[row[0] for row in rows])


def tabulate(named):
    """The table `named`: a dictionary UE -> list of (place, x, y, probability)."""
    rows = [
        (ue, rank_place(place), *rest, place) for ue, told in named.items() for place, *rest in told
    ]
    ue, rank, x, y, probability, place = zip(*rows, strict=True)
    numbers = {"ue": ue, "rank": rank, "x_m": x, "y_m": y, "probability": probability}
    columns = {key: np.array(values, float) for key, values in numbers.items()}
    return columns | {"place": np.array(place, dtype=object)}


def find_slowly(told, true_m):
    """Whether answers of one UE find home, work, and both of another, by one pair at a time."""
    found = {"home": False, "work": False}
    is_apart = any(place in APART for place, *_ in told)
    for place, x, y, _ in told:
        for kind in found:
            may = place.startswith(kind) if is_apart else place in ("home", "work", "")
            away_m = hypot(x - true_m[kind][0], y - true_m[kind][1])
            found[kind] |= may and away_m <= RADIUS_M
    return [found["home"], found["work"], found["home"] and found["work"]]


def draw_town(seed, n, statuses):
    """True places (n, 2, 2) of UEs, some without a workplace, and answers about each, some near."""
    rng = default_rng(seed)
    true_m = rng.uniform([0, 0], [600, 500], (n, 2, 2))
    true_m[rng.random(n) < 0.2, 1] = nan
    named = {}
    for ue in range(n):
        told = []
        for place in statuses:
            if rng.random() < 0.85:
                told.append((place, *rng.uniform([0, 0], [600, 500]), rng.random()))
        named[ue] = told
    return true_m, named


@mark.parametrize(
    "status, rank, kind",
    [
        ("home", 1, ""),
        ("work", 2, ""),
        ("third 1", 3, ""),
        ("third 4", 6, ""),
        ("ok", 0, ""),
        ("home 1", 1, "home"),
        ("work 1", 2, "work"),
        ("home 2", 3, "home"),
        ("work 2", 4, "work"),
        ("home x", 0, ""),
        ("home 0", -1, ""),
        ("work 0", 0, ""),
        ("unsure", 0, ""),
        ("", 0, ""),
        ("third", 0, ""),
        ("home 1 2", 0, ""),
        ("near 1", 0, ""),
    ],
)
def test_words_of_answers(status, rank, kind):
    assert max(rank_place(status), 0) == max(rank, 0)
    assert find_place_kind(status) == kind


@mark.parametrize("statuses", [APART, APART[:1] + APART[2:3], APART[2:], ("home", "work")])
@mark.parametrize("seed", range(3))
def test_shares_and_chance_equal_counting_one_by_one(statuses, seed):
    n = 14
    true_m, named = draw_town(seed, n, statuses)
    ue = np.arange(n)
    truth = Truth(ue.astype(float), true_m, RADIUS_M)
    chance = collect_chance_rows(truth, AREA, ue, true_m[:, 0], 75.0)
    rows = collect_named_rows(ROWS, tabulate(named), truth, ue, {}, chance)
    summary = compute_measures(rows, "a")
    places = [dict(zip(("home", "work"), place_m, strict=True)) for place_m in true_m]
    for k, kind in enumerate(("home", "work", "both")):
        has = [u for u in range(n) if k == 0 or not isnan(true_m[u, 1, 0])]
        own = np.mean([find_slowly(named[u], places[u])[k] for u in has])
        others = [
            np.mean([find_slowly(named[v], places[u])[k] for v in range(n) if v != u]) for u in has
        ]
        assert summary[f"attack.a.{kind}_located.percent"] == approx(100 * own)
        assert summary[f"attack.a.{kind}_located.shuffled.percent"] == approx(100 * np.mean(others))
    key = "attack.a.both_located.uniform.percent"
    if statuses == ("home", "work"):
        assert key not in summary
    else:
        by_hand = [
            draw_uniform_both(place_m) for place_m in true_m[:, :2] if np.isfinite(place_m).all()
        ]
        assert summary[key] == approx(100 * np.mean(by_hand), rel=0.02)


def draw_uniform_both(place_m, side=400):
    """(1 - (1 - H)^2) (1 - (1 - W)^2), with shares H and W of a grid of places."""
    x = (np.arange(side) + 0.5) / side
    grid_m = AREA.sample(np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2))
    away_m = np.linalg.norm(grid_m[:, None] - place_m, axis=-1)
    home, work = (away_m <= RADIUS_M).mean(axis=0)
    return (1 - (1 - home) ** 2) * (1 - (1 - work) ** 2)


def test_both_at_random_places_are_at_chance_also_apart():
    """Two answers for each find both more often than two for both: the larger chance judges."""
    n = 200
    rng = default_rng(4)
    area = Area(0.0, 0.0, 400.0, 400.0)
    true_m = rng.uniform(0, 400, (n, 2, 2))
    named = {ue: [(place, *rng.uniform(0, 400, 2), nan) for place in APART] for ue in range(n)}
    ue = np.arange(n)
    truth = Truth(ue.astype(float), true_m, RADIUS_M)
    chance = collect_chance_rows(truth, area, ue, true_m[:, 0], 75.0)
    rows = collect_named_rows(ROWS, tabulate(named), truth, ue, {}, chance)
    summary = compute_measures(chance) | compute_measures(rows, "a")
    share = summary["attack.a.both_located.percent"]
    assert share == approx(summary["attack.a.both_located.uniform.percent"], abs=8)
    (line,) = [line for line in build_lines([summary]) if "both_located" in line.key]
    assert line.verdict != "found"


def test_a_home_is_looked_for_at_answers_for_homes_alone():
    named = {
        0: [("work 1", 100, 100, 0.5), ("home 2", 1500, 900, 0.2)],
        1: [("home 2", 50, 50, 0.9)],
    }
    true_m = np.array([[[100, 100], [1500, 900]], [[60, 60], [700, 700]]], float)
    truth = Truth(np.arange(2.0), true_m, RADIUS_M)
    rows = collect_named_rows(ROWS, tabulate(named), truth, np.arange(2), {}, {})
    assert rows["home"]["hit"].tolist() == [False, True]
    assert rows["work"]["hit"].tolist() == [False, False]
    assert rows["home"]["spoken"].tolist() == [True, True]
    assert rows["work"]["spoken"].tolist() == [True, False]
    # each is scored against the place that it is for: one of three is right
    assert measure_stated_reliability(tabulate(named), truth).count == 3
    told = measure_stated_reliability(tabulate({0: [("home 2", 100, 100, 0.9)]}), truth)
    assert told.error == approx(0.1)


class TestRound:
    """What one round makes of such answers."""

    def collect(self, *rows):
        return collect_answers_inside(answer(*rows), AREA)[0]

    def test_other_answers_name_nothing_and_a_third_of_a_kind_neither(self):
        named = self.collect(
            ("work 2", 1, 1, 0.3),
            ("home 3", 2, 2, 0.9),
            ("home", 3, 3, 0.9),
            ("ok", 4, 4, 0.8),
            ("home 1", 5, 5, 0.2),
            ("third 1", 6, 6, 0.8),
            ("home 1", 7, 7, 0.6),
        )
        assert named.place == ["home 1", "work 2"]
        assert named.place_m.tolist() == [[7, 7], [1, 1]]
        assert named.rank.tolist() == [1, 4]
        assert named.probability.tolist() == [0.6, 0.3]
        assert named.list_candidates_m("home").tolist() == [[7, 7]]
        assert named.list_candidates_m("work").tolist() == [[1, 1]]

    def test_a_weight_that_is_no_probability_is_none(self):
        named = self.collect(("home 1", 1, 1, 2.0), ("home 2", 2, 2, 1.0), ("work 1", 3, 3, nan))
        assert [isnan(p) for p in named.probability] == [True, True, False]
        assert named.place == ["home 1", "work 1", "home 2"]

    def test_distances_of_a_round_are_to_places_for_each(self):
        places = Places.unknown(1)
        places = replace(
            places, home_m=np.array([[100.0, 100.0]]), work_m=np.array([[900.0, 100.0]])
        )
        estimates = answer(
            ("home 1", 900, 103, 0.5),
            ("home 2", 100, 110, 0.4),
            ("work 1", 100, 101, 0.9),
            ("work 2", 900, 140, 0.1),
        )
        one = np.zeros(1, int)
        local = Local(one, one, np.array([0, 1]), np.array([[5.0, 5.0]]), None, np.zeros(1))
        current = ComparedRound(1, local, np.array([[5.0, 5.0]]), {"a": estimates}, AREA, places)
        tracks, (row,) = leakage.compare_round(Leakage(directions=4), {}, current, RNG)
        assert row["home_named_m"] == approx(10)
        assert row["work_named_m"] == approx(40)
        assert [row["named_x_m"], row["second_x_m"]] == [900, 100]
        named = leakage.list_named_places(Leakage(), tracks, AREA, places)
        told = {r["place"]: (r["rank"], r["x_m"]) for r in named}
        assert told == {
            "home 1": (1, 900),
            "home 2": (3, 100),
            "work 1": (2, 100),
            "work 2": (4, 900),
        }
        (hit,) = leakage.list_home_hits(Leakage(hit_radius_m=12.0), tracks, AREA, places)
        assert hit == (0, "a", True)
        (hit,) = leakage.list_home_hits(Leakage(hit_radius_m=9.0), tracks, AREA, places)
        assert hit == (0, "a", False)


@pytest.fixture
def apart(monkeypatch):
    """An attack that answers for homes and workplaces apart: each UE's home as its second home."""
    home_m = np.array([[100.0, 100.0], [1000.0, 700.0]])

    def say(self, view, facts, state, rng):
        ue = np.unique(view.ue)
        pieces = [
            Estimates.from_places(
                ue, np.zeros_like(ue), "answer", place_m, np.full(len(ue), 0.4), [place] * len(ue)
            )
            for place, place_m in (
                ("home 1", np.full((len(ue), 2), 5.0)),
                ("home 2", home_m[ue]),
                ("work 1", home_m[ue]),
            )
        ]
        return Estimates.join(pieces), state

    monkeypatch.setattr(ClosedForm, "run", say)


def test_a_run_scores_them_apart(apart, tiny, tmp_path):
    changes = {
        "world.duration_s": 86400,
        "world.tick_s": 1200,
        "world.ues.measurement_period_s": None,
        "world.ues.count": 2,
        "world.city.width_m": 1200,
        "world.city.height_m": 900,
        "world.ues.mobility": {
            "kind": "commuter",
            "home_m": [[100, 100], [1000, 700]],
            "work_m": [[900, 400], [150, 700]],
        },
        "learning.round_s": 21600,
    }
    result = run(tiny(changes), tmp_path / "r")
    named = result.tables["named"]
    assert set(named["place"]) == {"home 1", "home 2", "work 1"}
    assert result.summary["attack.closed-form.home_located.percent"] == 100
    assert result.summary["attack.closed-form.work_located.percent"] == 0
    assert result.summary["attack.closed-form.both_located.percent"] == 0
    assert result.summary["attack.closed-form.home_located.shuffled.percent"] == 0
    assert result.summary["attack.closed-form.home_answer_rate.percent"] == 100
    assert 0 < result.summary["attack.closed-form.both_located.uniform.percent"] < 1
    last = result.tables["leakage"]["round"] == result.tables["leakage"]["round"].max()
    assert (result.tables["leakage"]["home_named_m"][last] == 0).all()
