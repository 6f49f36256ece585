"""Shares of homes and workplaces that attacks name, beside chance: in the summary, the terminal and
the page."""

import math
import re
from dataclasses import replace
from math import nan

import numpy as np
import pytest
from pages import read_csv, read_json
from rows import read_yaml

from fl.attacks.closed_form import ClosedForm
from fl.types import Estimates
from netsim.geometry import Area
from netsim.record import write_json
from scenarios.app.report.charts import CHARTS, QUANTITIES
from scenarios.app.report.compare_page import build_member, draw_attack_panels
from scenarios.app.report.run_page import build_run_page
from scenarios.app.report.tables import render_all_figures
from scenarios.app.result import run
from scenarios.app.results.attacks import Truth, collect_chance_rows, collect_named_rows
from scenarios.app.results.read import load_finished_run, open_finished_run
from scenarios.app.results.summary import summarise_run
from scenarios.app.results.summary_keys import compute_measures
from scenarios.app.results.table import build_lines

COMMUTERS = read_yaml("""
    world.duration_s: 432000, world.tick_s: 1200, world.ues.measurement_period_s: null,
    world.ues.count: 4, world.city.width_m: 1200, world.city.height_m: 900,
    world.ues.mobility: {kind: commuter, home_m: [[100, 100], [1000, 700], [300, 800], [1100, 100]],
    work_m: [[600, 400], [150, 700], [900, 300], [500, 850]]}, learning.round_s: 43200,
    learning.data: {kind: measured, cell: all}, learning.learner.activation: relu,
    learning.attacks: [{kind: closed-form, name: informed}, {kind: closed-form}],
    learning.leakage: {random_baseline_draws: 20, directions: 12}
""")
HOMES = COMMUTERS["world.ues.mobility"]["home_m"]
WORKS = COMMUTERS["world.ues.mobility"]["work_m"]


def answer_known(self, view, facts, state, rng):
    """What a closed-form attack that knows some places says in its place: answers."""
    sent = zip(view.ue.tolist(), view.model.tolist(), strict=True)
    rows = [(ue, model, *index) for ue, model in sent for index in find_known(facts.round, ue)]
    ue, model, x, y, weight = np.array(rows, dtype=float).reshape(-1, 5).T
    names = ue.astype(np.int64), model.astype(np.int64)
    return Estimates.from_places(*names, "answer", np.column_stack([x, y]), weight), state


def find_known(number, ue):
    """UE 0: home and work from the first round on. 1: home from round 4 on. 2: work. 3: home, and
    from round 5 not."""
    home = (*HOMES[ue], 2.0)
    work = (*WORKS[ue], 1.0)
    wrong = (600.0, 10.0, 3.0)
    late = [home] if number >= 4 else [wrong]
    early = [home] if number < 5 else [wrong]
    return ([home, work], late, [work], early)[ue]


@pytest.fixture(scope="module")
def folder(tiny, tmp_path_factory):
    """Four commuters, ten rounds of half a day, and an attack whose answers are known."""
    out = tmp_path_factory.mktemp("named") / "r"
    run_closed_form = ClosedForm.run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            ClosedForm,
            "run",
            lambda self, *args: (answer_known if self.name else run_closed_form)(self, *args),
        )
        run(tiny(COMMUTERS), out)
    return out


def read(folder, table):
    return read_csv(folder / f"{table}.csv")


@pytest.fixture(scope="module")
def summary(folder):
    return read_json(folder / "summary.json")


def test_shares_at_the_end_by_hand(summary):
    result = {
        key: summary[f"attack.informed.{key}_located.percent"] for key in ("home", "work", "both")
    }
    assert result == {"home": 50, "work": 50, "both": 25}
    assert summary["attack.informed.home_located.ever.percent"] == 75  # UE 3 was named, and no more
    assert [
        summary[f"attack.informed.{names}.count"] for names in ("homes", "workplaces", "commuters")
    ] == [4, 4, 4]


def test_since_which_round_home_stays_named(summary):
    """Of 1, 4, never, never fewer than half are known to the median; of 1, 4 it is 2.5."""
    assert summary["attack.informed.home_located.day.median"] is None
    ue, number, home_m = np.array(list_home_distances()).T
    rows = {"ue": ue, "round": number, "home_named_m": home_m}
    rows |= {"densest_named_m": np.full_like(home_m, nan)}
    truth = Truth(
        np.array([0.0, 1.0]), np.stack([HOMES[:2], WORKS[:2]], axis=1).astype(float), 100.0
    )
    table = {name: np.zeros(0) for name in ("ue", "rank", "x_m", "y_m", "place")}
    ends = {number: number * 43_200.0 for number in range(1, 7)}
    result = compute_measures(
        collect_named_rows(rows, table, truth, np.array([0.0, 1.0]), ends, {}), "a"
    )
    # of rounds 1 and 4: the latter ends the second day
    assert result["attack.a.home_located.day.median"] == 1.5


def list_home_distances():
    """UE 0 always near; UE 1 near, far, nothing, and near from round 4 on; round 5 has no row of
    it."""
    far = {(1, 2): 5000.0, (1, 3): nan}
    return [
        (ue, number, far.get((ue, number), 10.0))
        for number in range(1, 7)
        for ue in (0, 1)
        if (ue, number) != (1, 5)
    ]


def test_shuffled_by_hand(folder, summary):
    """Answers of each UE scored on every other one, from the tables alone."""
    named = {ue: [] for ue in range(4)}
    for r in read(folder, "named"):
        if r["attack"] == "informed":
            named[int(r["ue"])].append((float(r["x_m"]), float(r["y_m"])))
    assert [len(named[ue]) for ue in range(4)] == [2, 1, 1, 1]
    hits = [
        any(math.dist(home_m, place_m) <= 100 for place_m in named[j])
        for i, home_m in enumerate(HOMES)
        for j in range(4)
        if i != j
    ]
    assert summary["attack.informed.home_located.shuffled.percent"] == pytest.approx(
        100 * np.mean(hits)
    )


def test_another_ues_places_that_fit_are_counted():
    """Three UEs at one home; what is named of one of them is right for all."""
    home = np.array([[50.0, 50.0]] * 3)
    nowhere = np.full((3, 2), nan)
    truth = Truth(np.arange(3.0), np.stack([home, nowhere], axis=1), 10.0)
    named = read_yaml('ue: [1.0], rank: [1.0], x_m: [52.0], y_m: [50.0], place: [""]')
    named = {name: np.array(column) for name, column in named.items()}
    rows = {
        "ue": np.arange(3.0),
        "round": np.ones(3),
        "home_named_m": np.array([nan, 2.0, nan]),
    }
    rows |= {"densest_named_m": np.full(3, nan)}
    result = compute_measures(
        collect_named_rows(rows, named, truth, np.arange(4.0), {1: 1.0}, {}), "a"
    )
    assert result["attack.a.home_located.percent"] == pytest.approx(100 / 3)
    # UEs 0 and 2 are found by one of three others (UE 3 has no home, and nothing is named of it),
    # UE 1 by none
    assert result["attack.a.home_located.shuffled.percent"] == pytest.approx(100 * 2 / 9)
    assert np.isnan(result["attack.a.work_located.percent"])
    assert result["attack.a.workplaces.count"] == 0
    assert result["attack.a.homes.count"] == 3
    assert np.isnan(result["attack.a.work_located.shuffled.percent"])


def test_others_density_finds_a_shared_workplace():
    """Everybody works at one place: the others' density shows it, and not where anybody lives."""
    home = np.array([(x, y) for y in (100.0, 1400.0) for x in (100.0, 1900.0)])
    work = np.array([[1000.0, 700.0]] * 4)
    ue = np.repeat(np.arange(4.0), 3)
    points = np.concatenate([[h, w, w] for h, w in zip(home, work, strict=True)])
    truth = Truth(np.arange(4.0), np.stack([home, work], axis=1), 100.0)
    result = compute_measures(collect_chance_rows(truth, Area(0, 0, 2000, 1500), ue, points, 75.0))
    rest = [f"baseline.others.{place}_located.percent" for place in ("home", "work", "both")]
    assert [result[key] for key in rest] == [0, 100, 0]
    alone = compute_measures(
        collect_chance_rows(truth, Area(0, 0, 2000, 1500), np.zeros(3), points[:3], 75.0)
    )
    assert np.isnan([alone[key] for key in rest]).all()
    assert 0 < alone["baseline.uniform.home_located.percent"] < 3


def test_the_summary_comes_from_the_folder_alone(tiny, folder, summary, tmp_path):
    write_json(tmp_path / "again.json", summarise_run(open_finished_run(folder), tiny(COMMUTERS)))
    of_tables = {key: value for key, value in summary.items() if not key.startswith("notices.")}
    assert read_json(tmp_path / "again.json") == of_tables


def test_runs_without_homes_name_nothing(tiny_run):
    result = read_json(tiny_run / "summary.json")
    assert not re.search(r"_located\.percent|baseline\.uniform\.", " ".join(result))
    assert not (tiny_run / "named.csv").exists()
    assert not any("within" in line.name for line in build_lines([result]))


def test_an_attack_that_only_answers_has_no_other_figures(folder, summary):
    """No centroid error, no distance of estimates; and the baselines are those of the first attack
    that has some."""
    assert summary["attack.informed.centroid_error_m.median"] is None
    assert summary["baseline.random_guess.sw1_m.q05"] > 0
    assert summary["baseline.true_centroids.sw1_m.mean"] > 0
    values = {line.name: line for line in build_lines([summary])}
    assert values["centroid error"].attack == "closed-form"
    homes = values["homes within 100 m"]
    assert (homes.result, homes.attack, homes.verdict_text) == (
        "3/4 [30.1, 95.4 %]",
        "closed-form",
        "found (few)",
    )
    assert replace(homes, hits=9, n=12).verdict_text == "found"
    assert replace(homes, verdict="at chance").verdict_text == "at chance"


# -- pages


@pytest.fixture(scope="module")
def draw_page(folder):
    return {panel.key: panel for panel in CHARTS["named"].build_panels(load_finished_run(folder))}


def test_shares_over_time_end_where_the_summary_does(draw_page, summary):
    """And begin where the answers did: UE 1 comes, UE 3 goes."""
    lines = [
        t
        for t in draw_page["named"].figure["data"]
        if t["name"] == "informed" and t["yaxis"] != "y4"
    ]
    assert [len(t["y"]) for t in lines] == [10, 10, 10]
    assert {t["yaxis"] for t in lines} == {"y", "y2", "y3"}
    home, work, both = (t["y"] for t in lines)
    assert home == [50, 50, 50, 75, *[50] * 6]
    assert work == [50] * 10
    assert both == [25] * 10
    ends = {
        t["name"]: t["y"][0]
        for t in draw_page["named"].figure["data"]
        if t["yaxis"] == "y" and len(t["y"]) == 2
    }
    names = {
        "chance: two random places": "baseline.uniform.home_located",
        "chance: others' density": "baseline.others.home_located",
        "informed: with another UE's places": "attack.informed.home_located.shuffled",
        "closed-form: with another UE's places": "attack.closed-form.home_located.shuffled",
    }
    expected = {name: summary[f"{key}.percent"] for name, key in names.items()}
    assert ends == pytest.approx(expected, rel=1e-5)


def test_pages_of_a_run_and_of_several_show_shares(folder, summary):
    page = build_run_page(load_finished_run(folder))
    for line in build_lines([summary]):
        assert not line.n or f"{line.title}</td><td" in page
        assert not line.n or f">{line.hits}/{line.n} " in page
    assert "two highest density peaks of the true positions" in page.replace("\n", " ")
    several = build_member("x", load_finished_run(folder))
    times, share = several.trends["informed", QUANTITIES["both"].law]
    assert share[-1] == summary["attack.informed.both_located.percent"]
    assert len(times) == 10
    titles = str([p.figure["layout"] for p in draw_attack_panels([several], "informed")])
    assert "<b>Homes</b>" in titles
    assert "<b>Both home and workplace</b>" in titles
    tables = render_all_figures({several.label: [summary]})
    assert "both_located.percent" in tables
    assert "baseline.others.home_located.percent" in tables


def test_without_homes_nothing_is_drawn(tiny_run):
    assert [p.figure for p in CHARTS["named"].build_panels(load_finished_run(tiny_run))] == [None]
