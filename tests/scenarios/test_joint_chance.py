"""Home and workplace of one person, beside chance where one of the two is known."""

import numpy as np
import pytest

from netsim.geometry import Area
from scenarios.app.results.attacks import Truth, collect_chance_rows, collect_named_rows
from scenarios.app.results.summary_keys import compute_measures
from scenarios.app.results.table import build_lines

AREA = Area(0, 0, 2000, 1500)
PLAYS = 100
ROWS = {name: np.zeros(0) for name in ("ue", "round", "home_named_m", "densest_named_m")}


def make_truth(rng, n, n_work=40):
    """Places of n people, homes in the west, the first n_work of whom have a workplace in the
    east."""
    place_m = rng.uniform(AREA.low_m, AREA.high_m, (n, 2, 2))
    place_m[..., 0] = 0.4 * place_m[..., 0] + [0.0, 1200.0]
    place_m[n_work:, 1] = np.nan
    return Truth(np.arange(float(n)), place_m, 100.0)


def know_chance(truth):
    """Chance, from the places where people were: home twice as long as work."""
    points_m = truth.place_m[:, [0, 0, 1]].reshape(-1, 2)
    is_known = np.isfinite(points_m[:, 0])
    ue = np.repeat(truth.ue, 3)[is_known]
    return collect_chance_rows(truth, AREA, ue, points_m[is_known], 75.0)


def summarise(truth, chance, named_m):
    """Summary of an attack that names places (n, 2, 2)."""
    n = len(truth.ue)
    named = {
        "ue": np.repeat(truth.ue, 2),
        "rank": np.tile([1.0, 2.0], n),
        "x_m": named_m[..., 0].ravel(),
        "y_m": named_m[..., 1].ravel(),
        "place": np.full(2 * n, ""),
    }
    tables = collect_named_rows(ROWS, named, truth, truth.ue, {}, chance)
    return compute_measures(chance) | compute_measures(tables, "a")


def judge(*summaries):
    """Verdicts by place."""
    lines = {line.key.split(".")[2].split("_")[0]: line for line in build_lines(summaries)}
    return {place: line.verdict for place, line in lines.items() if place != "home_answer"}


def know_works(rng, truth, share):
    """Name workplaces of a share of people, and uniformly random places otherwise."""
    named_m = rng.uniform(AREA.low_m, AREA.high_m, truth.place_m.shape)
    is_known = (rng.random(len(named_m)) < share) & np.isfinite(truth.place_m[:, 1, 0])
    named_m[is_known, 1] = truth.place_m[is_known, 1]
    return named_m


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("n", [1, 5, 40])
def test_both_are_not_found_where_homes_are_at_chance(n, share):
    rng = np.random.default_rng([n, round(10 * share)])
    truth = make_truth(rng, n, 30)
    chance = know_chance(truth)
    summaries = [summarise(truth, chance, know_works(rng, truth, share)) for _ in range(PLAYS)]
    n_found = sum(judge(summary)["both"] == "found" for summary in summaries)
    assert n_found <= 0.05 * PLAYS
    given_one = "attack.a.both_located.given_one.percent"
    unconditional = [{k: v for k, v in s.items() if k != given_one} for s in summaries]
    if n == 40 and share == 1.0:
        assert sum(judge(summary)["both"] == "found" for summary in unconditional) > 0.2 * PLAYS
        assert judge(*summaries) == {"home": "at chance", "work": "found", "both": "at chance"}


def test_a_home_that_others_show_is_no_evidence():
    """Half of the people live in one building, which the attack names of all; it knows all
    workplaces."""
    rng = np.random.default_rng(7)
    truth = make_truth(rng, 40)
    truth.place_m[::2, 0] = (400.0, 400.0)
    named_m = truth.place_m.copy()
    named_m[:, 0] = (400.0, 400.0)
    summary = summarise(truth, know_chance(truth), named_m)
    assert summary["attack.a.both_located.percent"] >= 50
    assert summary["attack.a.both_located.given_one.percent"] >= 50
    assert judge(summary)["work"] == "found"
    assert judge(summary)["both"] != "found"


@pytest.mark.parametrize("known", ["both", "home", "work"])
def test_both_are_found_where_both_are_known(known):
    """And, of people who live beside their work, not where one place is known."""
    truth = make_truth(np.random.default_rng(3), 40)
    if known != "both":
        truth.place_m[:, 1] = truth.place_m[:, 0] + 60.0
    named_m = truth.place_m.copy()
    if known != "both":
        named_m[:] = named_m[:, [["home", "work"].index(known)]]
    summary = summarise(truth, know_chance(truth), named_m)
    assert summary["attack.a.both_located.percent"] == 100
    assert (judge(summary)["both"] == "found") == (known == "both")


def test_chance_of_both_by_hand():
    """Of two people with both, A's workplace is found; B's places find A's home: its chance is
    one of one other, and one of two people."""
    truth = make_truth(np.random.default_rng(5), 3, 2)
    truth.place_m[:2] = [[[100, 100], [900, 900]], [[1500, 300], [1800, 1400]]]
    truth.place_m[2, 0] = (300, 1300)
    named_m = np.full((3, 2, 2), np.nan)
    named_m[0, 0] = (900, 910)
    named_m[1, 1] = (100, 120)
    summary = summarise(truth, {}, named_m)
    assert summary["attack.a.both_located.percent"] == 0
    # A is found by one of the two others
    assert summary["attack.a.both_located.given_one.percent"] == 25
    alone = Truth(truth.ue[:1], truth.place_m[:1], 100.0)
    assert np.isnan(summarise(alone, {}, named_m[:1])["attack.a.both_located.given_one.percent"])
    homes = Truth(truth.ue[2:], truth.place_m[2:], 100.0)
    assert np.isnan(summarise(homes, {}, named_m[2:])["attack.a.both_located.given_one.percent"])
