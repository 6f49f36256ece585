"""Home and workplace of one person, beside chance where one of the two is known."""

import numpy as np
import pytest

from netsim.geometry import Area
from scenarios.app.results.attacks import Truth, collect_chance_rows, collect_named_rows
from scenarios.app.results.summary_keys import compute_measures
from scenarios.app.results.table import build_lines

AREA = Area(0, 0, 2000, 1500)
PLAYS = 40
ROWS = dict.fromkeys(("ue", "round", "home_named_m", "densest_named_m"), np.zeros(0))


def draw_places_m(rng, n):
    """Homes in the west and workplaces in the east (n, 2, 2)."""
    place_m = rng.uniform(AREA.low_m, AREA.high_m, (n, 2, 2))
    return place_m * [0.4, 1] + [[0, 0], [1200, 0]]


def judge(place_m, named_m):
    """Summary of an attack that names places (n, 2, 2), and verdicts by place."""
    n = len(place_m)
    ue = np.arange(n)
    truth = Truth(ue, place_m, 100.0)
    chance = collect_chance_rows(truth, AREA, ue, place_m[:, 0], 75.0)
    named = dict(zip(("x_m", "y_m"), named_m.reshape(-1, 2).T, strict=True))
    named |= {"ue": ue.repeat(2), "rank": np.tile([1, 2], n), "place": np.full(2 * n, "")}
    rows = collect_named_rows(ROWS, named, truth, ue, {}, chance)
    summary = compute_measures(chance) | compute_measures(rows, "a")
    return summary, {line.key.split(".")[2]: line.verdict for line in build_lines([summary])}


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("n", [1, 5, 40])
def test_both_are_not_found_where_homes_are_at_chance(n, share):
    """A share of workplaces is named, the rest are random places; a quarter of forty has none."""
    rng = np.random.default_rng([n, round(10 * share)])
    place_m = draw_places_m(rng, n)
    place_m[30:, 1] = np.nan
    n_found = 0
    for _ in range(PLAYS):
        named_m = rng.uniform(AREA.low_m, AREA.high_m, (n, 2, 2))
        is_known = rng.random(min(n, 30)) < share
        named_m[:30, 1][is_known] = place_m[:30, 1][is_known]
        n_found += judge(place_m, named_m)[1]["both_located"] == "found"
    assert n_found <= 0.05 * PLAYS


def test_both_are_found_where_both_are_known():
    """Not by one place, of people who live beside their work; chance is then that it was found."""
    place_m = draw_places_m(np.random.default_rng(3), 40)
    assert judge(place_m, place_m)[1]["both_located"] == "found"
    place_m[:, 1] = place_m[:, 0] + 60.0
    summary, verdicts = judge(place_m, place_m[:, [0, 0]])
    assert summary["attack.a.both_located.percent"] == 100
    assert summary["attack.a.both_located.given_one.percent"] == 100
    assert verdicts["both_located"] != "found"


def test_chance_of_both_by_hand():
    """Only the first workplace of two is found, and the first home by one of one other."""
    place_m = draw_places_m(np.random.default_rng(5), 2)
    named_m = np.full((2, 2, 2), np.nan)
    named_m[:, 0] = place_m[0, [1, 0]]
    summary, _ = judge(place_m, named_m)
    assert summary["attack.a.both_located.given_one.percent"] == 50
