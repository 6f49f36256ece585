"""A tuning: what it finds of a closed form, what an interrupted one ends in, what it refuses."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import replace

import numpy as np
import pytest
from conftest import write_tiny
from pytest import fixture, mark, raises
from refused import catch_line, read_cases

from netsim.errors import BadInput
from netsim.record import write_json
from scenarios.app.report.report import write_report
from scenarios.app.results.folder import STUDY, Failed, read_csv_rows, read_json, read_summary
from scenarios.app.results.goals import FRESH, Trial, parse_goals, read_search_result
from scenarios.app.results.outcome import build_search_tables, to_mark
from scenarios.app.run.sweep import Sweep
from scenarios.app.study.load import Scenario, load, parse_value
from scenarios.app.training import tune
from scenarios.app.training.tune import Search

pytest.importorskip("optuna")
RATE = "learning.learner.learning_rate"
WIDTH = "learning.learner.hidden"
RMSE = "utility.rmse_db"
ACCURACY = "utility.accuracy_percent"
SPACE = {RATE: {"low": 1e-4, "high": 1.0, "log": True}, WIDTH: parse_value("{choices: [[2], [3]]}")}


def build_search(
    out,
    objectives=(RMSE,),
    constraints=(),
    trials=12,
    seed=4,
    directions=("min",),
    at_once=1,
    **changes,
):
    study = Scenario.from_source("campus", {"seed": seed, "vary": {"random": {"space": SPACE}}})
    sweep = Sweep(study, out, at_once, lambda event: None)
    return Search(sweep, parse_goals(objectives, directions, constraints), trials, **changes)


def compute_closed_form(job):
    """(log10 rate + 2)^2: its minimum is 0, at the rate 0.01; the accuracy is 100 times the
    rate."""
    rate = job.study.learning.learner.learning_rate
    return {RMSE: (math.log10(rate) + 2) ** 2, ACCURACY: 100 * rate}


@fixture
def quick(monkeypatch):
    """Trials whose figures are the closed form, or what a test puts in its place; nothing is
    played."""
    jobs = []

    def play(all_rows, *rest):
        jobs.extend(all_rows)
        return [tuned.form(job) for job in all_rows]

    monkeypatch.setattr(tune, "do_jobs", play)
    monkeypatch.setattr(tune, "check_study", lambda study, resources: None)
    monkeypatch.setattr(tune, "read_json", lambda path: {RMSE: 1.0, ACCURACY: 1.0})
    tuned = type("Quick", (), {"form": staticmethod(compute_closed_form), "jobs": jobs})()
    return tuned


def run_search(tuned):
    tune.tune_settings(tuned)
    return read_search_result(tuned.sweep.out)


def test_the_minimum_of_a_closed_form_is_found(quick, tmp_path):
    tuned = run_search(build_search(tmp_path, trials=40, verify=0))
    values = [trial.compute_mean(RMSE) for trial in tuned.trials]
    (best,) = tuned.best
    assert values[int(best.removeprefix("trial-")) - 1] == min(values) < 0.05
    assert np.median(values[20:]) < 0.5 * 4 / 3  # of random draws the mean is 4 / 3
    assert tuned.importance[RMSE][RATE] > 0.8


def test_the_winner_never_breaks_a_constraint(quick, tmp_path, out):
    tuned = run_search(
        build_search(tmp_path, constraints=[f"{ACCURACY}<=0.1"], trials=25, verify=0)
    )
    rows = {trial.label: trial for trial in tuned.trials}
    assert rows[tuned.best[0]].settings[RATE] <= 0.001  # the minimum at 0.01 breaks it
    better = [
        t for t in tuned.trials if t.compute_mean(RMSE) < rows[tuned.best[0]].compute_mean(RMSE)
    ]
    assert better
    assert all(tuned.describe_trial(trial) == f"breaks {ACCURACY}<=0.1" for trial in better)
    none = run_search(build_search(out, constraints=[f"{ACCURACY}>=1000"], trials=5))
    assert none.best == []
    assert "No finished trial keeps every constraint" in build_search_tables(out)[0].notes[-1]


def test_the_front_has_every_trial_that_no_other_one_beats(quick, tmp_path):
    tuned = run_search(build_search(tmp_path, (RMSE, ACCURACY), trials=15, verify=0))
    rows = [
        (trial.compute_mean(RMSE), trial.compute_mean(ACCURACY), trial.label)
        for trial in tuned.trials
    ]
    unbeaten = sorted(
        (a, n)
        for a, b, n in rows
        if not any(c <= a and d <= b and (c, d) != (a, b) for c, d, _ in rows)
    )
    assert tuned.best == [label for _, label in unbeaten]
    assert len(unbeaten) > 1


def test_of_equal_trials_the_first_wins():
    trials = [
        Trial(label=str(n), settings={}, seeds=[1], values={RMSE: [v]}, broken=["x"] * (n == 4))
        for n, v in ((1, 2.0), (2, 3.0), (3, 3.0), (4, 9.0))
    ]
    assert parse_goals([RMSE], ["max"], []).find_best_labels(trials) == ["2"]


def list_settings(tuned):
    return [trial.settings for trial in run_search(tuned).trials if not trial.label.endswith(FRESH)]


def test_the_same_command_suggests_the_same_and_more_trials_go_on(quick, tmp_path):
    first = list_settings(build_search(tmp_path / "a", trials=9))
    assert list_settings(build_search(tmp_path / "b", trials=9)) == first
    assert list_settings(build_search(tmp_path / "c", trials=6)) == first[:6]
    assert list_settings(build_search(tmp_path / "d", trials=9, seed=5)) != first
    pairs = list_settings(build_search(tmp_path / "e", trials=9, at_once=2))
    assert pairs == list_settings(build_search(tmp_path / "f", trials=9, at_once=2))


def test_a_setting_that_the_scenario_refuses_fails_its_trial(quick, tmp_path):
    tuned = replace(build_search(tmp_path, trials=1), verify=0)
    trials = [
        Trial(label="trial-1", settings={"learning.round_s": -1}, seeds=[1]),
        Trial(label="trial-2", settings={}, seeds=[1]),
    ]
    tuned.play_trials(trials, 0, 2)
    assert trials[0].failed.kind == "bad input"
    assert "learning.round_s" in trials[0].failed.error
    assert trials[1].failed is None
    assert len(quick.jobs) == 1


def test_failed_trials_are_told_and_take_no_part(quick, tmp_path):
    def half(job):
        if "trial-2" in job.folder.parts:
            return Failed("trial-2/seed-4", "trial-2", 4, 1, "bad input", "no such <b>")
        return compute_closed_form(job) | (
            {RMSE: math.inf} if "trial-3" in job.folder.parts else {}
        )

    quick.form = half
    tuned = run_search(build_search(tmp_path, trials=4, verify=0))
    assert [trial.failed and trial.failed.kind for trial in tuned.trials] == [
        None,
        "bad input",
        "no figure",
        None,
    ]
    rows = read_csv_rows(tmp_path / "failures.csv")
    assert [row["error"] for row in rows] == [
        "no such <b>",
        f"{RMSE} has no finite value with each of 1 seed",
    ]
    labels = [row["label"] for row in read_csv_rows(tmp_path / "runs.csv")]
    assert labels == ["trial-1", "trial-4"]
    assert "4 trials, 2 finished" in build_search_tables(tmp_path)[0].notes[0]


def test_what_becomes_of_constraints_on_fresh_seeds_is_told(quick, tmp_path):
    low = f"{ACCURACY}<=0.1"
    high = f"{ACCURACY}>=0.001"
    quick.form = lambda job: (
        compute_closed_form(job) | ({ACCURACY: 0.25} if job.study.seed > 4 else {})
    )
    tuned = run_search(build_search(tmp_path, constraints=[low, high], trials=25, verify=1))
    *_, fresh = tuned.trials
    assert fresh.label == f"{tuned.best[0]}{FRESH}"
    assert fresh.seeds == [5]
    assert tuned.describe_trial(fresh) == f"breaks {low}"
    shown = [[to_mark(cell).text for cell in row] for row in build_search_tables(tmp_path)[0].rows]
    assert [
        row
        for row in shown
        if row[0] == fresh.label and "0.25" in row and row[-1].startswith("breaks")
    ]


@fixture(scope="module")
def scenario(tmp_path_factory):
    path = tmp_path_factory.mktemp("s") / "s.yaml"
    vary = {"seed": [1, 2], "random": {"space": {RATE: {"low": 0.001, "high": 0.1}}}}
    return write_tiny(path, {"vary": vary})


def command(scenario, out, *rest):
    goal = ["--objective", RMSE, "--direction", "min", "--set", "learning.attacks=[]"]
    return [
        "tune",
        str(scenario),
        *goal,
        "--trials",
        "2",
        "--jobs",
        "1",
        "--quiet",
        "--out",
        str(out),
        *rest,
    ]


def collect_bytes(out):
    return {
        str(p.relative_to(out)): p.read_bytes()
        for p in out.rglob("*")
        if p.suffix in (".csv", ".yaml", ".json") and p.name != "manifest.json"
    }


def test_the_command_verifies_the_winner_and_an_interrupted_one_ends_the_same(
    scenario, tmp_path, refuse_command, run_command, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    out = run_command(command(scenario, "a"))
    tuned = read_search_result(tmp_path / "a")
    (best,) = tuned.best
    values = [read_summary(tmp_path / "a" / best / f"seed-{n}")[RMSE] for n in (3, 4, 5)]
    *_, fresh = tuned.trials
    assert fresh.seeds == [3, 4, 5]
    assert fresh.values[RMSE] == values
    assert f"{best}: {{{RATE}: " in out
    page = (tmp_path / "a/report.html").read_text()
    assert "optimistic" in page
    assert f"settings-{RMSE}" in page
    winner = next(trial for trial in tuned.trials if trial.label == best)
    assert (
        load(tmp_path / "a" / best / "seed-1" / STUDY).learning.learner.learning_rate
        == winner.settings[RATE]
    )
    assert len((tmp_path / "a/runs.csv").read_text().splitlines()) == 1 + 2 * 2 + 3
    assert "fresh seeds" in run_command("show a")

    whole = collect_bytes(tmp_path / "a")
    (tmp_path / "a/trial-2/seed-2/summary.json").unlink()
    (tmp_path / "a/runs.csv").unlink()
    assert "not finished" in refuse_command("show a")
    run_command(command(scenario, "a"))
    assert collect_bytes(tmp_path / "a") == whole


def test_a_key_inside_a_list_is_tuned_for_the_strongest_named_share(tmp_path):
    strongest = "leakage.strongest_located.percent"
    key = "learning.attacks.0.cluster_m"
    changes = {"world.duration_s": 172_800, "learning.round_s": 86_400}
    changes["vary"] = {"seed": [1], "random": {"space": {key: {"choices": [30.0, 60.0]}}}}
    sweep = Sweep(Scenario.from_source("campus", changes), tmp_path, 1, lambda event: None)
    (trial,) = run_search(Search(sweep, parse_goals([strongest], ["max"], []), 1, verify=0)).trials
    folder = tmp_path / "trial-1" / "seed-1"
    study = load(folder / STUDY)
    summary = read_summary(folder)
    assert study.learning.attacks[0].cluster_m == trial.settings[key]
    assert trial.values[strongest] == [summary[strongest]]


BAD_GOALS = f"""
--objective zzzz
    no such key of summary.json; see netsim show DIR --verbose
--objective rmse
    did you mean 'utility.rmse_db'?
--objective utilty.rmse_db
    utilty.rmse_db: no such key of summary.json; did you mean 'utility.r
--constraint utility.rmse_db<10
    --constraint utility.rmse_db<10: write KEY<=NUMBER
--constraint utility.rmse_db<=nan
    write KEY<=NUMBER or KEY>=NUMBER
--constraint utility.rmse_db<=inf
    write KEY<=NUMBER or KEY>=NUMBER
--objective {RMSE}
    --objective: a key stands twice
--direction max
    --direction: 2 for 1 objectives
--trials 0
    --trials 0: must be a whole number from 1 to 100,000
--verify -1
    --verify -1: must be a whole number from 0 to 100,000
--set vary.random=null
    has no space to search
--set vary.values={{learning.rounds: [1]}}
    leave values, zip and variants out
"""


@mark.parametrize("option, message", read_cases(BAD_GOALS))
def test_bad_goals_are_refused_before_anything_is_written(
    option, message, scenario, out, refuse_command
):
    assert message in refuse_command(command(scenario, out, *option.split(" ", 1)))
    assert not out.exists()


def test_a_key_that_this_scenario_does_not_have_is_refused_after_the_first_trial(
    scenario, out, refuse_command
):
    error = refuse_command([*command(scenario, out), "--constraint", f"{ACCURACY}>=1"])
    assert f"--constraint {ACCURACY}: no such key of summary.json" in error
    assert not (out / "trial-2").exists()


def test_damaged_files_are_refused(quick, tmp_path):
    tune.tune_settings(build_search(tmp_path, trials=2))
    result = read_json(tmp_path / "sweep.json")
    write_json(tmp_path / "sweep.json", result | parse_value("{tuned: {trials: [{label: x}]}}"))
    with raises(BadInput, match=r"sweep\.json: .* is missing or damaged; tune again"):
        read_search_result(tmp_path)


def test_a_missing_library_is_one_line(out, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "optuna" else find(name)
    )
    assert "netsim tune: optuna is not installed; pip install 'netsim-fl[tune]'" in catch_line(
        tune.tune_settings, build_search(out)
    )
    assert not out.exists()


SHORT = {"train.steps": 40, "train.eval_every": 20, "train.agent.learning_starts": 10}
RATES = {"train.agent.learning_rate": {"choices": [0.001, 0.01]}}


def build_training_search(out, objective="cost.best", space=RATES, scenario="power/paper", **rest):
    changes = {
        **(SHORT if scenario == "power/paper" else {}),
        "vary": {"seed": [3], "random": {"space": space}},
    }
    sweep = Sweep(Scenario.from_source(scenario, changes), out, 1, lambda event: None)
    return Search(sweep, parse_goals([objective], ["min"], []), 2, **rest)


@mark.slow
def test_trainings_are_tuned(tmp_path, refuse_command, run_command):
    tuned = run_search(build_training_search(tmp_path, verify=1))
    *trials, fresh = tuned.trials
    costs = [read_summary(tmp_path / t.label / "seed-3")["cost.best"] for t in trials]
    assert [trial.mean("cost.best") for trial in trials] == costs
    assert tuned.best == [trials[int(np.argmin(costs))].label]
    assert (tmp_path / fresh.folder / "seed-4/policy.json").exists()
    rate = next(t for t in trials if t.label in tuned.best).settings["train.agent.learning_rate"]
    assert load(tmp_path / tuned.best[0] / "seed-3" / STUDY).train.agent.learning_rate == rate
    assert "cost.best" in write_report(tmp_path).read_text()
    assert "cost.best" in run_command(f"show {tmp_path}")
    assert "holds a training" in refuse_command(f"compare {tmp_path} {tmp_path}")


@mark.parametrize(
    "rest, message",
    [
        (
            {"objective": RMSE},
            "'train.agent.learning_rate': changes a training and no run, and utility.rmse_db is a",
        ),
        (
            {"scenario": "campus", "space": {RATE: {"low": 0.1, "high": 0.2}}},
            "cost.best: is of a training, and the",
        ),
    ],
)
def test_without_a_training_nothing_of_one_is_tuned(rest, message, out):
    assert message in catch_line(tune.tune_settings, build_training_search(out, **rest))
    assert not out.exists()


def test_no_sweep_is_of_trainings(out, refuse_command):
    vary = "vary={values: {train.steps: [10, 20]}}"
    assert "vary: train.steps: changes a training and no run" in refuse_command(
        "sweep power/paper --set", vary, "--out", out
    )
