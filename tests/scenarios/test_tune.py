"""A tuning: what it finds of a closed form, what it keeps when it is killed, what it refuses."""

from __future__ import annotations

import csv
import importlib.util
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from netsim.errors import BadInput
from scenarios.app.cli.commands import main
from scenarios.app.report.report import report
from scenarios.app.results.folder import STUDY
from scenarios.app.results.tuning_folder import goals, read_tuning, tuning_lines, winner_rows
from scenarios.app.run.executor import attempt
from scenarios.app.study.load import AskedStudy, load
from scenarios.app.training import tune
from scenarios.app.training.tune import Tuning

pytest.importorskip("optuna")
CAMPUS = Path(__file__).resolve().parents[2] / "scenarios" / "campus.yaml"
RATE, WIDTH, RMSE, ACCURACY = (
    "learning.learner.learning_rate", "learning.learner.hidden", "utility.rmse_db", "utility.accuracy_percent"
)  # fmt: skip
SPACE = {RATE: {"low": 1e-4, "high": 1.0, "log": True}, WIDTH: {"choices": [[2], [3]]}}
BRIEF = {"world.duration_s": 172_800, "learning.round_s": 86_400, "learning.attacks": []}


def asked(out, objectives=(RMSE,), constraints=(), trials=12, seed=4, directions=("min",), **more):
    changes = {**BRIEF, "seed": seed, "vary": {"random": {"space": SPACE}}}
    study = AskedStudy.of("campus", changes)
    return Tuning("campus", study, goals(objectives, directions, constraints), out, trials, **more)


def closed_form(job):
    """(log10 rate + 2)^2: its minimum is 0, at the rate 0.01; the accuracy is 100 times the rate."""
    rate = job.study.learning.learner.learning_rate
    return {RMSE: (math.log10(rate) + 2) ** 2, ACCURACY: 100 * rate}


@pytest.fixture
def quick(monkeypatch):
    """Trials whose figures are the closed form; nothing is played."""
    monkeypatch.setattr(tune, "do", closed_form)
    monkeypatch.setattr(tune, "check", lambda study, how: None)
    monkeypatch.setattr(tune, "read_json", lambda path: {RMSE: 1.0, ACCURACY: 1.0})


def quiet(*args):
    pass


def test_the_minimum_of_a_closed_form_is_found(quick, tmp_path):
    found = tune.tune(asked(tmp_path, trials=40), quiet)
    (name,) = found["best"]
    best = next(row for row in found["trials"] if row["name"] == name)
    assert best["values"][RMSE] == min(row["values"][RMSE] for row in found["trials"]) < 0.05
    late = [row["values"][RMSE] for row in found["trials"][20:]]
    assert np.median(late) < 0.5 * 4 / 3  # of random draws the mean is 4 / 3
    assert found["importance"][RMSE][RATE] > 0.9


def test_the_winner_never_breaks_a_constraint(quick, tmp_path):
    found = tune.tune(asked(tmp_path, constraints=[f"{ACCURACY}<=0.1"], trials=25), quiet)
    rows = {row["name"]: row for row in found["trials"]}
    assert rows[found["best"][0]]["settings"][RATE] <= 0.001  # the minimum at 0.01 breaks it
    better = [r for r in rows.values() if r["values"][RMSE] < rows[found["best"][0]]["values"][RMSE]]
    assert better and not any(row["kept"] for row in better)
    none = tune.tune(asked(tmp_path / "n", constraints=[f"{ACCURACY}>=1000"], trials=5), quiet)
    assert none["best"] == [] and not (tmp_path / "n" / "best.yaml").exists()
    assert "no finished trial keeps every constraint" in tuning_lines(none)[-1]
    assert "Trade-off" not in report(tmp_path / "n").read_text()  # of one objective there is none


def test_the_front_has_every_trial_that_no_other_one_beats(quick, tmp_path):
    of = asked(tmp_path, (RMSE, ACCURACY), trials=15)
    found = tune.tune(of, quiet)
    rows = [(row["values"][RMSE], row["values"][ACCURACY], row["name"]) for row in found["trials"]]
    unbeaten = {n for a, b, n in rows if not any(c <= a and d <= b and (c, d) != (a, b) for c, d, _ in rows)}
    assert set(found["front"]) == set(found["best"]) == unbeaten and len(unbeaten) > 1
    page = report(tmp_path).read_text()
    assert "trial-" in page and "Trade-off" in page


def test_equal_trials_are_both_on_the_front_and_the_first_wins():
    of = goals([RMSE], ["max"], [])
    rows = [{"number": n, "kept": n < 4, "values": {RMSE: v}} for n, v in ((1, 2.0), (2, 3.0), (3, 3.0), (4, 9.0))]
    assert of.front(rows) == [2, 3] and of.best(rows) == [2]


def trials_of(out):
    return (out / "trials.csv").read_bytes()


def test_a_killed_tuning_ends_as_a_whole_one(quick, tmp_path):
    whole = asked(tmp_path / "a", trials=9)
    tune.tune(whole, quiet)

    def stop(event):
        if event.done == 6:
            raise KeyboardInterrupt

    killed = replace(whole, out=tmp_path / "b")
    with pytest.raises(KeyboardInterrupt):
        tune.tune(killed, stop)
    tried = tune.opened(tmp_path / "b" / tune.JOURNAL, killed.goals)
    tune.asked(killed, tried, 7)  # begun when the program ended, with a lock and half a line left behind
    with (tmp_path / "b" / tune.JOURNAL).open("ab") as file:
        file.write(b'{"op_code":4,"wor')
    (tmp_path / "b" / f"{tune.JOURNAL}.lock").touch()
    told = []
    tune.tune(killed, lambda event: told.append((event.done, event.values["label"])))
    assert told == [(7, "trial-7"), (8, "trial-8"), (9, "trial-9")]
    assert trials_of(tmp_path / "a") == trials_of(tmp_path / "b")
    tune.tune(replace(whole, out=tmp_path / "c", trials=4), quiet)
    more = tune.tune(replace(whole, out=tmp_path / "c"), quiet)  # more trials go on as well
    assert trials_of(tmp_path / "c") == trials_of(tmp_path / "a") and len(more["trials"]) == 9
    other = tune.tune(asked(tmp_path / "d", trials=9, seed=5), quiet)
    assert other["trials"][0]["settings"] != more["trials"][0]["settings"]


def test_the_command_lists_failed_trials_and_leaves_with_1(scenario, quick, monkeypatch, tmp_path, capsys):
    def half(job):
        if "trial-2" in job.folder.parts:
            raise BadInput("no such <b>")
        return closed_form(job)

    monkeypatch.setattr(tune, "do", half)
    assert main([*command(scenario, tmp_path / "a"), "--trials", "3"]) == 1
    said = capsys.readouterr()
    rows = list(csv.DictReader(trials_of(tmp_path / "a").decode().splitlines()))
    assert [row["state"] for row in rows] == ["finished", "failed", "finished"]
    assert rows[1]["why"] == "no such <b>" and rows[1][RMSE] == ""
    assert "1 trial failed:\n  trial-2: no such <b>\n" in said.out
    assert said.err == f"netsim: 1 trial failed, see {tmp_path / 'a' / 'trials.csv'}; the search went on without them\n"
    assert "trial-2: no such &lt;b&gt;" in (tmp_path / "a" / "report.html").read_text()
    assert main([*command(scenario, tmp_path / "a"), "--trials", "3", "--json"]) == 1  # it remains
    result, error = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert result["kind"] == "tuning" and result["trials"][1]["why"] == "no such <b>" and error["exit_code"] == 1
    monkeypatch.setattr(tune, "do", closed_form)
    assert main([*command(scenario, tmp_path / "b"), "--trials", "3"]) == 0


def test_what_becomes_of_constraints_on_fresh_seeds_is_told(quick, monkeypatch, tmp_path):
    low, high = f"{ACCURACY}<=0.1", f"{ACCURACY}>=0.001"

    def worse(job):
        return closed_form(job) | ({ACCURACY: 0.25} if "verify" in job.folder.parts else {})

    monkeypatch.setattr(tune, "do", worse)
    found = tune.tune(asked(tmp_path, constraints=[low, high], trials=25, verify=1), quiet)
    (best,) = found["best"]
    searched = next(row for row in found["trials"] if row["name"] == best)["values"][ACCURACY]
    rows = winner_rows(found)
    assert [best, ACCURACY, f"{searched:.3g}", "0.25", f"{low}: BROKEN on fresh seeds"] in rows
    assert [best, ACCURACY, f"{searched:.3g}", "0.25", f"{high}: kept"] in rows
    assert "BROKEN on fresh seeds" in report(tmp_path).read_text()
    (tmp_path / "tuning.json").write_text(json.dumps(found | {"constraints": ["x"]}))
    with pytest.raises(BadInput, match="write KEY<=NUMBER"):
        report(tmp_path)


def test_a_setting_that_the_scenario_refuses_fails_its_trial(tmp_path):
    end = attempt(asked(tmp_path).trial("trial-1", {"learning.round_s": -1}, (1,)))
    assert end.kind == "bad input" and "learning.round_s" in end.line and not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    path = tmp_path_factory.mktemp("s") / "s.yaml"
    text = CAMPUS.read_text().replace("6652800", "172800").replace("604800", "86400")
    path.write_text(f"{text}vary:\n  seed: [1, 2]\n  random:\n    space:\n      {RATE}: {{low: 0.001, high: 0.1}}\n")
    return path


def command(scenario, out, *more):
    goal = ["--objective", RMSE, "--direction", "min", "--set", "learning.attacks=[]"]
    return ["tune", str(scenario), *goal, "--trials", "2", "--jobs", "1", "--quiet", "--out", str(out), *more]


def test_the_command_verifies_the_winner_on_fresh_seeds_and_writes_it(scenario, tmp_path, capsys):
    assert main(command(scenario, tmp_path / "a")) == 0
    out = capsys.readouterr().out
    found = read_tuning(tmp_path / "a")
    (best,) = found["best"]
    assert found["fresh_seeds"] == [3, 4, 5] and found["seeds"] == [1, 2]
    folders = [tmp_path / "a" / "verify" / best / f"seed-{n}" / "summary.json" for n in (3, 4, 5)]
    fresh = [json.loads(path.read_text())[RMSE] for path in folders]
    assert found["verified"][best]["values"][RMSE] == pytest.approx(np.mean(fresh))
    width = 4.302652729911275 * np.std(fresh, ddof=1) / math.sqrt(3)  # Student's t of two degrees of freedom
    assert found["verified"][best]["half_width"][RMSE] == pytest.approx(width)
    assert "fresh seeds" in out and f"netsim run {scenario} --set 'learning.attacks=[]' --set {RATE}=" in out
    page = (tmp_path / "a" / "report.html").read_text()
    assert "optimistic" in page and "Winners" in page
    winner = next(row for row in found["trials"] if row["name"] == best)
    assert load(tmp_path / "a" / "best.yaml").learning.learner.learning_rate == winner["settings"][RATE]
    assert len((tmp_path / "a" / "runs.csv").read_text().splitlines()) == 1 + 2 * 2
    assert main(["show", str(tmp_path / "a")]) == 0 and "fresh seeds" in capsys.readouterr().out


def test_a_key_inside_a_list_is_tuned_for_the_strongest_named_share(tmp_path):
    strongest, key = "leakage.strongest_located.percent", "learning.attacks.0.cluster_m"
    changes = {"world.duration_s": 172_800, "learning.round_s": 86_400}
    changes["vary"] = {"seed": [1], "random": {"space": {key: {"choices": [30.0, 60.0]}}}}
    of = Tuning("campus", AskedStudy.of("campus", changes), goals([strongest], ["max"], []), tmp_path, 1, verify=0)
    (row,) = tune.tune(of, quiet)["trials"]
    study = load(tmp_path / "trial-1" / "seed-1" / STUDY)
    summary = json.loads((tmp_path / "trial-1" / "seed-1" / "summary.json").read_text())
    assert study.learning.attacks[0].cluster_m == row["settings"][key]
    assert row["values"][strongest] == summary[strongest]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--objective", "zzzz"], "no such key of summary.json; see netsim show DIR --verbose"),
        (["--objective", "rmse"], "did you mean 'utility.rmse_db'?"),
        (["--objective", "utilty.rmse_db"], "utilty.rmse_db: no such key of summary.json; did you mean 'utility.r"),
        (["--constraint", "utility.rmse_db<10"], "--constraint utility.rmse_db<10: write KEY<=NUMBER"),
        (["--constraint", "utility.rmse_db<=nan"], "write KEY<=NUMBER or KEY>=NUMBER"),
        (["--constraint", "utility.rmse_db<=inf"], "write KEY<=NUMBER or KEY>=NUMBER"),
        (["--objective", RMSE], "--objective: a key stands twice"),
        (["--direction", "max"], "--direction: 2 for 1 objectives"),
        (["--trials", "0"], "--trials 0: must be a whole number from 1 to 100,000"),
        (["--verify", "-1"], "--verify -1: must be a whole number from 0 to 100,000"),
        (["--set", "vary.random=null"], "has no space to search"),
        (["--set", "vary.values={learning.rounds: [1]}"], "leave values, zip and variants out"),
    ],
)  # fmt: skip
def test_bad_goals_are_refused_before_anything_is_written(more, said, scenario, tmp_path, capsys):
    assert main(command(scenario, tmp_path / "w", *more)) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1 and not (tmp_path / "w").exists()


def test_a_key_that_this_scenario_does_not_have_is_refused_after_the_first_trial(scenario, tmp_path, capsys):
    assert main([*command(scenario, tmp_path / "w"), "--constraint", f"{ACCURACY}>=1"]) == 2
    error = capsys.readouterr().err
    assert f"--constraint {ACCURACY}: no such key of summary.json" in error and "netsim show DIR --verbose" in error
    assert not (tmp_path / "w" / "trial-2").exists()


def test_other_tunings_and_damaged_files_are_refused(quick, tmp_path):
    tune.tune(asked(tmp_path, trials=2), quiet)
    with pytest.raises(BadInput, match="holds the tuning of another study, goals or program version; add --replace"):
        tune.tune(asked(tmp_path, (ACCURACY,), trials=2), quiet)
    found = tune.tune(asked(tmp_path, (ACCURACY,), trials=2), quiet, replace=True)
    assert list(found["trials"][0]["values"]) == [ACCURACY]
    (tmp_path / "tuning.json").write_text(json.dumps(found | {"trials": [{"name": "../x"}]}))
    with pytest.raises(BadInput, match=r"tuning\.json: .* is missing or damaged; tune again"):
        report(tmp_path)
    (tmp_path / "tuning.json").unlink()
    with pytest.raises(BadInput, match="this tuning is not finished; start it again and it goes on"):
        report(tmp_path)


def test_a_missing_library_is_one_line(tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "optuna" else find(name))
    with pytest.raises(BadInput, match=r"netsim tune: optuna is not installed; pip install 'netsim-fl\[tune\]'"):
        tune.tune(asked(tmp_path / "s"), quiet)
    assert not (tmp_path / "s").exists()


SHORT = {"train.steps": 40, "train.eval_every": 20, "train.agent.learning_starts": 10}
RATES = {"train.agent.learning_rate": {"choices": [0.001, 0.01]}}


def asked_of_trainings(out, objective="cost.best", space=RATES, scenario="power/paper", **more):
    changes = {**(SHORT if scenario == "power/paper" else {}), "vary": {"seed": [3], "random": {"space": space}}}
    study = AskedStudy.of(scenario, changes)
    return Tuning(scenario, study, goals([objective], ["min"], []), out, 2, **more)


@pytest.mark.slow
def test_trainings_are_tuned(tmp_path):
    found = tune.tune(asked_of_trainings(tmp_path, verify=1), quiet)
    rows, (best,) = found["trials"], found["best"]
    costs = [json.loads((tmp_path / row["name"] / "seed-3" / "summary.json").read_text())["cost.best"] for row in rows]
    assert [row["values"]["cost.best"] for row in rows] == costs and found["plays"] == "train"
    assert best == rows[int(np.argmin(costs))]["name"]
    assert (tmp_path / "verify" / best / "seed-4" / "policy.json").exists()
    assert tuning_lines(found)[-1].startswith("netsim train power/paper")
    winner = next(row for row in rows if row["name"] == best)
    assert load(tmp_path / "best.yaml").train.agent.learning_rate == winner["settings"]["train.agent.learning_rate"]
    told = []
    assert tune.tune(asked_of_trainings(tmp_path, verify=1), lambda *now: told.append(now)) == found and not told


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"objective": RMSE}, "'train.agent.learning_rate': changes a training and no run, and utility.rmse_db is a"),
        ({"scenario": "campus", "space": {RATE: {"low": 0.1, "high": 0.2}}}, "cost.best: is of a training, and campus"),
    ],
)
def test_without_a_training_nothing_of_one_is_tuned(more, said, tmp_path):
    with pytest.raises(BadInput, match=said) as error:
        tune.tune(asked_of_trainings(tmp_path / "t", **more), quiet)
    assert len(error.value.lines) == 1 and not (tmp_path / "t").exists()


def test_no_sweep_is_of_trainings(tmp_path, capsys):
    vary = "vary={values: {train.steps: [10, 20]}}"
    assert main(["sweep", "power/paper", "--set", vary, "--out", str(tmp_path / "w")]) == 2
    said = capsys.readouterr().err
    assert "vary: train.steps: changes a training and no run" in said and said.count("\n") == 1
