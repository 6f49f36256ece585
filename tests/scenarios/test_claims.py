"""Claims of publications: the rules, the three verdicts with their reasons, and the command."""

import csv
import json
import re
import shutil
from functools import cache

import numpy as np
import pytest
from conftest import TINY
from refused import line_of
from scipy import stats

from netsim.errors import BadInput
from netsim.radio.path_loss import UrbanMacro
from netsim.record import write_json
from scenarios.app.claims.claim import (
    FAILS,
    HOLDS,
    OPEN,
    bundled_claims,
    chosen,
    median_interval,
    read_claims,
)
from scenarios.app.claims.evaluate import evaluate, labelled
from scenarios.app.cli.commands import main
from scenarios.app.result import run
from scenarios.app.results.read import read_summary
from scenarios.app.results.summary_keys import declaration
from scenarios.app.run import clusters, runner
from scenarios.app.run.executor import Here, OnProcesses
from scenarios.app.run.sweep import points
from scenarios.app.study.load import bundled, load
from scenarios.app.study.study import study_yaml

KEY = "attack.closed-form.centroid_error_m.median"
OTHER = "baseline.uniform_guess.error_m.mean"
NAMED = "attack.span.home_located.percent"
CHANCE = "attack.span.home_located.shuffled.percent"


def claim_file(tmp_path, *claims, name="claims.yaml"):
    path = tmp_path / name
    path.write_text(json.dumps({"claims": list(claims)}))
    return path


def entry(rule, **more):
    given = {
        "id": "one",
        "paper": "A paper",
        "where": "Fig. 1",
        "says": "it does",
        "scenario": "campus",
    }
    return given | {"rule": rule} | more


def claim(tmp_path, kind, value=None, key=KEY, **fields):
    more = {} if value is None else {"value": value}
    return read_claims(
        claim_file(tmp_path, entry({"kind": kind, "key": key, **fields}, **more))
    ).claims[0]


def runs(**labels):
    """label -> figures by seed; None diverged."""
    return {
        label: {
            seed: {
                KEY: v,
                OTHER: 50.0,
                "attack.closed-form.diverged.percent": 90.0 if v is None else 0.0,
                "utility.rmse_db": v,
                "utility.useful": True,
            }
            for seed, v in enumerate(values)
        }
        for label, values in labels.items()
    }


VERDICTS = [
    ("at-most", {"bound": 20}, {"a": [10, 20, 15]}, HOLDS),
    ("at-most", {"bound": 19}, {"a": [20, 21, 90]}, FAILS),
    ("at-most", {"bound": 19}, {"a": [10, 12, 11, 9, 8, 90]}, OPEN),  # the range of six
    (
        "at-most",
        {"bound": 19},
        {"a": [10, 12, 11, 9, 8, 90, 7, 6, 5]},
        HOLDS,
    ),  # nine seeds bear an outlier
    ("at-most", {"bound": 30}, {"a": [10, 11], "b": [40, 41]}, FAILS),
    ("at-most", {"bound": 30, "labels": ["a"]}, {"a": [10, 11], "b": [40, 41]}, HOLDS),
    ("at-most", {"bound": 30}, {"a": [None, None]}, FAILS),
    ("at-least", {"bound": 20}, {"a": [20, 20]}, HOLDS),
    ("at-least", {"bound": 21}, {"a": [20, 20]}, FAILS),
    ("exceeds", {"other": OTHER, "margin": 5}, {"a": [55, 60], "b": [55, 56]}, HOLDS),
    ("exceeds", {"other": OTHER, "margin": 6, "labels": ["a"]}, {"a": [55, 55]}, FAILS),
    ("exceeds", {"other": OTHER}, {"a": [49, 60]}, OPEN),
    ("no-more-than", {"other": OTHER, "margin": 5}, {"a": [55, 40], "b": [0, 0]}, HOLDS),
    ("no-more-than", {"other": OTHER, "margin": 4}, {"a": [55, 55]}, FAILS),
    ("no-more-than", {"other": OTHER}, {"a": [49, 60]}, OPEN),
    ("within", {"tolerance": 5, "value": 15}, {"a": [20, 10]}, HOLDS),
    ("within", {"tolerance": 4, "value": 15}, {"a": [20, 21]}, FAILS),
    ("within", {"tolerance": 4, "value": 15}, {"a": [10, 20]}, OPEN),
    (
        "order",
        {"labels": ["a", "b", "c"]},
        {"c": [30, 90], "b": [20, 50], "a": [10, 40]},
        HOLDS,
    ),  # seeds are paired
    ("order", {"labels": ["a", "b", "c"]}, {"c": [30, 30], "b": [10, 10], "a": [10, 10]}, FAILS),
    ("order", {"labels": ["a", "b"]}, {"a": [94.90, 93.0, 95.0], "b": [94.93, 92.0, 96.0]}, OPEN),
    ("order", {"labels": ["a", "b"]}, {"a": [10, 10, 10], "b": [None, None, 20]}, HOLDS),
    ("ratio", {"labels": ["a", "b"], "bound": 2}, {"a": [40, 4], "b": [20, 2]}, HOLDS),
    ("ratio", {"labels": ["a", "b"], "bound": 2.1}, {"a": [40, 4], "b": [20, 2]}, FAILS),
    ("ratio", {"labels": ["a", "b"], "bound": 2.1}, {"a": [40, 5], "b": [20, 2]}, OPEN),
    ("ratio", {"labels": ["a", "b"], "bound": 2}, {"a": [None, None], "b": [20, 20]}, HOLDS),
    ("ratio", {"labels": ["a", "b"], "bound": 2}, {"a": [20, 20], "b": [None, None]}, FAILS),
    ("ratio", {"labels": ["a", "b"], "bound": 2}, {"a": [None, None], "b": [None, None]}, OPEN),
    ("alike", {"labels": ["a", "b"], "bound": 1.1}, {"a": [10, 100], "b": [10.9, 91]}, HOLDS),
    ("alike", {"labels": ["a", "b"], "bound": 1.1}, {"a": [10, 100], "b": [11.1, 120]}, FAILS),
    ("alike", {"labels": ["a", "b"], "bound": 1.1}, {"a": [11.1, 120], "b": [10, 100]}, FAILS),
    ("alike", {"labels": ["a", "b"], "bound": 1.1}, {"a": [10, 10], "b": [10, 12]}, OPEN),
    (
        "diminishing",
        {"labels": ["a", "b", "c"], "share": 0.5},
        {"a": [1, 1], "b": [3, 4], "c": [3.9, 5]},
        HOLDS,
    ),
    (
        "diminishing",
        {"labels": ["a", "b", "c"], "share": 0.5},
        {"a": [1, 1], "b": [3, 4], "c": [4.1, 6]},
        FAILS,
    ),
    (
        "diminishing",
        {"labels": ["a", "b", "c"], "share": 0.5},
        {"a": [1, 1], "b": [1, 1], "c": [1, 1]},
        FAILS,
    ),  # no gain
]


@pytest.mark.parametrize(("kind", "fields", "of", "verdict"), VERDICTS)
def test_verdict(kind, fields, of, verdict, tmp_path):
    assert evaluate(claim(tmp_path, kind, **fields), runs(**of)).verdict == verdict


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 8, 9, 20, 100])
def test_the_interval_of_a_median_covers_it_as_often_as_stated(n):
    low, high, coverage = median_interval(np.arange(1.0, n + 1))
    k = int(low)
    assert high == n + 1 - k
    outside = stats.binom(n, 0.5).cdf(k - 1)
    assert coverage == pytest.approx(1 - 2 * outside)
    assert coverage >= 0.95 or k == 1
    assert 1 - 2 * stats.binom(n, 0.5).cdf(k) < 0.95  # a narrower one would not


def test_the_interval_of_a_median_leaves_nan_out_and_takes_infinities():
    assert median_interval(np.array([np.nan, 3.0, np.inf])) == (3.0, np.inf, 0.5)
    assert np.isnan(median_interval(np.array([np.nan]))[0])


def test_one_seed_settles_nothing(tmp_path):
    result = evaluate(claim(tmp_path, "order", labels=["a", "b"]), runs(a=[1], b=[2]))
    assert (result.verdict, result.reason) == (
        OPEN,
        "one seed gives no interval; with this seed it holds",
    )


def test_seeds_are_paired_by_number(tmp_path):
    """Only seeds that were played for every label count."""
    found = runs(a=[1, 2, 3, 4], b=[2, 3, 4, 5])
    del found["a"][0], found["b"][3]
    found["b"][1][KEY] = 1.0
    assert (
        evaluate(claim(tmp_path, "order", labels=["a", "b"]), found).verdict == OPEN
    )  # 1 against 2, 4 against 3
    for seed in (1, 2):
        del found["b"][seed]
    assert (
        evaluate(claim(tmp_path, "order", labels=["a", "b"]), found).reason
        == "no seed has runs of every label"
    )


def test_what_cannot_be_judged_says_why(tmp_path):
    order = claim(tmp_path, "order", labels=["a", "b"])
    assert evaluate(order, {}).reason == "no run: campus"
    assert evaluate(order, {}, "no disk").reason == "no run: no disk"
    assert evaluate(order, runs(a=[1])).reason == "no run: no label “b” in campus"
    silent = runs(a=[1, 1, 1], b=[2, 3])
    silent["b"][0].pop(KEY)
    assert evaluate(order, silent).reason == f"{KEY} is null in 1 of 2 runs of “b”"
    silent["b"][2] = silent["b"][1]
    assert evaluate(order, silent).verdict == HOLDS  # two of three are enough


def test_privacy_of_useless_models_is_not_judged_but_told(tmp_path):
    found = runs(a=[1, 1], b=[2, 3])
    found["b"][1]["utility.useful"] = False
    result = evaluate(claim(tmp_path, "order", labels=["a", "b"]), found)
    assert (result.verdict, result.reason) == (
        OPEN,
        "the model is not useful in 1 of 2 runs of “b”; with all models it holds",
    )
    result = evaluate(claim(tmp_path, "order", labels=["b", "a"]), found)
    assert result.reason.endswith("with all models it does not hold")
    utility = claim(tmp_path, "order", key="utility.rmse_db", labels=["a", "b"])
    assert (
        evaluate(utility, found).verdict == HOLDS
    )  # what a model is worth can be said of any model
    assert (
        evaluate(claim(tmp_path, "at-most", bound=9), found).verdict == HOLDS
    )  # and what leaks has leaked
    assert evaluate(claim(tmp_path, "at-least", bound=1), found).verdict == OPEN
    assert (
        evaluate(claim(tmp_path, "alike", labels=["a", "b"], bound=4), found).verdict == HOLDS
    )  # of two attacks
    lost = "attack.closed-form.diverged.percent"
    few = {
        label: {seed: run | {lost: 20.0} for seed, run in of.items()} for label, of in found.items()
    }
    assert evaluate(claim(tmp_path, "at-most", key=lost, bound=30), few).verdict == HOLDS


GOOD = {"kind": "at-most", "key": KEY, "bound": 1}
BAD = {
    "unknown kind": (entry({"kind": "eval", "key": KEY}), "kind"),
    "code": (
        entry({"kind": "at-most", "key": KEY, "bound": "__import__('os')"}),
        "bound: expected a number",
    ),
    "unknown key": (entry(GOOD | {"key": "utility.rmse"}), "utility.rmse_db"),
    "an attack without a name": (entry(GOOD | {"key": "attack.sw1_m"}), "no summary has a key"),
    "unknown field": (entry(GOOD | {"bond": 1}), "bond"),
    "no bound": (entry({"kind": "at-most", "key": KEY}), "bound"),
    "one label in order": (entry({"kind": "order", "key": KEY, "labels": ["a"]}), "labels"),
    "three labels of a ratio": (
        entry({"kind": "ratio", "key": KEY, "labels": [*"abc"], "bound": 1}),
        "labels",
    ),
    "within nothing": (entry({"kind": "within", "key": KEY, "tolerance": 1}), "value"),
    "negative tolerance": (
        entry({"kind": "within", "key": KEY, "tolerance": -1}, value=1),
        "tolerance",
    ),
    "id with blanks": (entry(GOOD, id="a b"), "id"),
    "other units": (
        entry({"kind": "exceeds", "key": NAMED, "other": KEY}),
        f"{KEY} is in m, and {NAMED} in %",
    ),
    "unknown other": (
        entry({"kind": "exceeds", "key": KEY, "other": "a.b"}),
        "no summary has a key 'a.b'",
    ),
    "no paper": ({k: v for k, v in entry(GOOD).items() if k != "paper"}, "paper"),
}


@pytest.mark.parametrize("what", BAD)
def test_mistakes_are_refused_in_one_line(what, tmp_path):
    one, word = BAD[what]
    line = line_of(read_claims, claim_file(tmp_path, one))
    assert word in line
    assert re.search(r"claims\.yaml:\d+: claims\[0\]", line)


def test_ids_are_unique_and_there_is_one_claim_at_least(tmp_path):
    with pytest.raises(BadInput, match="the id 'one' stands 2 times"):
        read_claims(claim_file(tmp_path, entry(GOOD), entry(GOOD)))
    with pytest.raises(BadInput, match="at least 1 entries"):
        read_claims(claim_file(tmp_path))


def test_what_is_not_played_is_of_a_publication_of_the_claims(tmp_path):
    path = claim_file(tmp_path, entry(GOOD))
    text = json.loads(path.read_text()) | {
        "unplayed": [{"paper": "Another", "where": "Fig. 2", "why": "a drawing"}]
    }
    path.write_text(json.dumps(text))
    with pytest.raises(BadInput, match="no claim is of 'Another'"):
        read_claims(path)


def test_claims_of_one_paper(tmp_path):
    path = claim_file(tmp_path, entry(GOOD), entry(GOOD, id="two", paper="Another One"))
    assert [c.id for c in chosen(read_claims(path).claims, "another")] == ["two"]
    with pytest.raises(BadInput, match="there are: A paper, Another One"):
        chosen(read_claims(path).claims, "nobody")


# -- the bundled claims


def test_bundled_claims_are_sound():
    claims = read_claims(bundled_claims()).claims
    assert len({c.id for c in claims}) == len(claims) >= 15
    assert all(declaration(key) is not None for c in claims for key in c.rule.keys)
    assert not any("claims" in name for name in bundled())  # it is no scenario


def test_bundled_claims_can_be_played(monkeypatch):
    monkeypatch.setenv("NETSIM_DATA", "/nowhere")  # only labels and keys are looked at
    claims = read_claims(bundled_claims()).claims
    for scenario in {claim.scenario for claim in claims}:
        study = load(scenario)
        if study.vary is not None:
            labels = {p.label for p in points(study, {})}
        else:
            labels = set()
        assert {
            label for c in claims if c.scenario == scenario for label in c.rule.labels
        } <= labels, scenario


@pytest.mark.slow
def test_a_broken_constant_flips_rules_of_the_bundled_claims(tmp_path, monkeypatch):
    claims = [c for c in read_claims(bundled_claims()).claims if c.id.startswith("uma-")]
    seeds = range(1, 13)

    def verdicts(name):
        for seed in seeds:
            run(
                load("radio/calibration", {"vary": None, "seed": seed}),
                tmp_path / name / f"seed-{seed}",
            )
        of = {seed: read_summary(tmp_path / name / f"seed-{seed}") for seed in seeds}
        return [evaluate(c, {"uma": of}).verdict for c in claims]

    right = verdicts("right")
    monkeypatch.setattr(
        UrbanMacro, "hidden_db", (UrbanMacro.hidden_db[0] + 10.0, *UrbanMacro.hidden_db[1:])
    )
    broken = verdicts("broken")
    flipped = sum(a == HOLDS != b for a, b in zip(right, broken, strict=True))
    assert right.count(HOLDS) == len(claims) == 9
    assert flipped >= 5
    assert broken.count(FAILS) >= 3


def test_claims_that_no_scenario_plays_are_refused(tmp_path):
    two = entry(GOOD, id="two", scenario="campsu")
    own = entry(GOOD, id="own", scenario="own.yaml")
    with pytest.raises(BadInput) as error:
        read_claims(claim_file(tmp_path, entry(GOOD), two, own))
    assert len(error.value.lines) == 2
    assert (
        "claims[1].scenario: no bundled scenario 'campsu'; did you mean 'campus'?"
        in error.value.lines[0]
    )
    assert (
        f"claims[2].scenario: there is no scenario file {tmp_path / 'own.yaml'}"
        in error.value.lines[1]
    )


def test_a_scenario_file_counts_from_the_file_of_claims(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine").mkdir()
    scenario = tmp_path / "mine" / "own.yaml"
    scenario.write_text(json.dumps(TINY))
    rule = {"kind": "at-least", "key": "utility.rmse_db", "bound": 0}
    claim_file(tmp_path / "mine", entry(rule, scenario="own.yaml"))
    monkeypatch.chdir(tmp_path)
    assert (
        main(["claims", "--file", "mine/claims.yaml", "--out", "out", "--jobs", "1", "--quiet"])
        == 0
    )
    assert "holds" in capsys.readouterr().out
    assert (tmp_path / "out" / "own" / "runs.csv").exists()
    two = [entry(rule, scenario="own.yaml"), entry(rule, id="two", scenario="../mine/../own.yaml")]
    (tmp_path / "own.yaml").write_text(scenario.read_text())
    claim_file(tmp_path / "mine", *two)
    assert main(["claims", "--file", "mine/claims.yaml", "--out", "out"]) == 2
    assert "would be played there" in capsys.readouterr().err


# -- folders and the command

MANIFEST = {
    "title": "A fake",
    "command": "netsim sweep",
    "versions": {},
    "warnings": [],
    "channel_card": {},
    "timing": {},
    "trace": None,
    "cells": [],
    "first_day": "2026-01-05",
    "clock_changes": [],
    "start_unix_s": None,
    "duration_s": 60.0,
    "round_s": 60.0,
    "tracks": {"every_s": 60.0},
    "area_m": [0.0, 0.0, 1.0, 1.0],
    "origin_deg": None,
}


@pytest.fixture
def folder(tmp_path):
    """A fake sweep of two labels and two seeds."""
    out = tmp_path / "w"
    rows = ["folder,label,seed"]
    values = {"a": [10.0, 20.0], "b": [40.0, 60.0]}
    for label, of in values.items():
        for i, summary in runs(**{label: of})[label].items():
            one = out / f"{label}{i}"
            one.mkdir(parents=True)
            write_json(one / "summary.json", summary)
            write_json(one / "manifest.json", MANIFEST | {"seed": i})
            rows.append(f"{label}{i},{label},{i}")
    (out / "runs.csv").write_text("\n".join(rows) + "\n")
    return out


@pytest.fixture
def file(tmp_path):
    rule = {"kind": "order", "key": KEY, "labels": ["a", "b"]}
    (tmp_path / "fake.yaml").write_text("title: A fake\n")
    (tmp_path / "absent.yaml").write_text("title: Absent\n")
    ours = entry(rule, scenario="fake.yaml", value=[12, 50])
    other = entry(GOOD, id="other", scenario="absent.yaml", paper="Another")
    return claim_file(tmp_path, ours, other)


def test_folders_are_read_by_label_and_unfinished_runs_left_out(folder):
    assert {label: len(of) for label, of in labelled(folder).items()} == {"a": 2, "b": 2}
    (folder / "b1" / "summary.json").unlink()
    assert {label: len(of) for label, of in labelled(folder).items()} == {"a": 2, "b": 1}
    write_json(folder / "a0" / "summary.json", {KEY: "<b>"})
    with pytest.raises(BadInput, match="is not a number"):
        labelled(folder)


@pytest.fixture
def played(folder, tmp_path, monkeypatch):
    """The folder of claims in which one of two scenarios has been played."""

    def play(claims, places, *_):
        return {name: f"{name} is missing" for name, place in places.items() if not place.exists()}

    monkeypatch.setattr("scenarios.app.claims.evaluate.play", play)
    out = tmp_path / "out"
    out.mkdir()
    folder.rename(out / "fake")
    return out


def test_the_command_prints_verdicts_and_keeps_them(played, file, capsys):
    command = ["claims", "--file", str(file), "--out", str(played)]
    assert main([*command, "--paper", "paper"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "printed 12, 50" in text
    assert "ours a: 15 [12.5, 17.5]" in text
    assert "other" not in text
    assert main(command) == 0
    rows = list(csv.DictReader((played / "claims.csv").read_text().splitlines()))
    assert [(r["id"], r["verdict"]) for r in rows] == [("one", HOLDS), ("other", OPEN)]
    assert re.match(r"no run: .*absent\.yaml is missing", rows[1]["reason"])
    assert rows[0]["value"] == "12, 50"
    assert rows[0]["key"] == KEY


def test_kept_verdicts_stay_while_their_claims_state_the_same(played, file, tmp_path, capsys):
    kept = tmp_path / "kept.csv"
    page = tmp_path / "papers.md"
    command = ["claims", "--file", str(file), "--keep", str(kept), "--page", str(page)]
    assert main([*command, "--out", str(played)]) == 0
    rows = list(csv.DictReader(kept.read_text().splitlines()))
    assert [(row["id"], row["verdict"], row["seeds"]) for row in rows] == [("one", HOLDS, "2")]
    text = page.read_text()
    assert (
        "| Fig. 1 | it does | 12, 50 | a: 15 [12.5, 17.5]<br>b: 50 [45, 55] |  | holds | 2 |"
        in text
    )
    assert "1 statement: 1 not played" in text.partition("## Another")[2]

    shutil.rmtree(played)  # hours of playing are not asked for again
    capsys.readouterr()
    text = text.replace(f"no run: {tmp_path / 'absent.yaml'} is missing", "not played")
    assert main([*command, "--paper", "A paper"]) == 0
    assert page.read_text() == text
    assert re.search(r" holds$", capsys.readouterr().out, re.M)

    stated = json.loads(file.read_text())
    stated["claims"][0] |= {"differs": "its <b>town</b> | is\nanother", "value": [12, 51]}
    file.write_text(json.dumps(stated))
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "state something else now are left out: one" in out
    assert "not played" in out
    assert "(one): its &lt;b&gt;town&lt;/b&gt; \\|" in page.read_text()
    assert len(kept.read_text().splitlines()) == 2

    kept.write_text("a,b\n1,2\n")
    assert main(command) == 2
    assert "is no table of verdicts" in capsys.readouterr().err


def test_a_rule_says_in_words_what_must_be_true(tmp_path):
    for kind, fields, words in (
        ("at-most", {"bound": 3}, f"{KEY}: at most 3"),
        (
            "within",
            {"tolerance": 0.5, "labels": ["a"]},
            f"{KEY}: within 0.5 of the printed value (a)",
        ),
        ("no-more-than", {"other": KEY, "margin": 2}, f"{KEY}: at most 2 above {KEY}"),
        ("order", {"labels": ["a", "b", "c"]}, f"{KEY}: a < b < c"),
        ("ratio", {"labels": ["a", "b"], "bound": 0.9}, f"{KEY}: “a” at least 0.9 times “b”"),
        (
            "alike",
            {"labels": ["a", "b"], "bound": 1.1},
            f"{KEY}: “a” and “b” within a factor of 1.1",
        ),
        (
            "diminishing",
            {"labels": ["a", "b", "c"], "share": 0.3},
            f"{KEY}: from “b” to “c” at most 0.3 of the gain since “a”",
        ),
    ):
        assert (
            claim(tmp_path, kind, 1.0 if kind == "within" else None, **fields).rule.words == words
        )


def test_claims_leave_folders_of_others_alone(file, tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir()
    (out / "dear.txt").write_text("dear")
    assert main(["claims", "--file", str(file), "--out", str(out)]) == 2
    assert "'dear.txt', which does not belong to these claims" in capsys.readouterr().err
    assert [p.name for p in out.iterdir()] == ["dear.txt"]


def test_bad_commands_are_one_line_and_2(file, tmp_path, capsys):
    for more in (["--jobs", "0"], ["--page", ""], ["--paper", "nobody"]):
        assert main(["claims", "--file", str(file), *more]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert main(["claims", "--file", str(tmp_path / "none.yaml")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_the_command_lists_claims(capsys):
    assert main(["claims"]) == 0
    out = capsys.readouterr().out
    assert "Fig. 4a" in out
    assert "5.3" in out
    assert max(map(len, out.splitlines())) <= 100


def test_missing_scenarios_are_played_once(tmp_path, monkeypatch, capsys):
    known = {name: tmp_path / f"{name}.yaml" for name in ("mine", "single")}
    known["mine"].write_text(
        json.dumps(TINY | {"vary": {"values": {"learning.learner.hidden": [[4], [8]]}}})
    )
    known["single"].write_text(json.dumps(TINY))
    monkeypatch.setattr("scenarios.app.claims.claim.bundled", lambda: known)
    monkeypatch.setattr("scenarios.app.study.load.bundled", lambda: known)
    rule = {"kind": "at-least", "key": "utility.rmse_db", "bound": 0}
    labels = {"labels": ["hidden=[4]", "hidden=[8]"]}
    file = claim_file(
        tmp_path, entry(rule | labels, scenario="mine"), entry(rule, id="two", scenario="single")
    )
    command = ["claims", "--file", str(file), "--out", str(tmp_path / "out"), "--jobs", "1"]
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert "2 undecided" in out
    assert "mine: run 2/2, hidden=[8], seed" in err
    assert "single: run 1/1" in err
    marks = [p.stat().st_mtime_ns for p in sorted((tmp_path / "out").rglob("summary.json"))]
    assert len(marks) == 3
    assert main(command) == 0
    again, err = capsys.readouterr()
    assert again == out
    assert err == ""
    assert marks == [p.stat().st_mtime_ns for p in sorted((tmp_path / "out").rglob("summary.json"))]
    shutil.rmtree(tmp_path / "out" / "single")
    assert main([*command, "--quiet"]) == 0
    assert capsys.readouterr() == (out, "")


LEAK = "attack.nu-{}.centroid_error_m.inside.rms"
MAE = "metric.learner.mae_links_db.last"


@cache
def bundled_claim(name):
    return next(c for c in read_claims(bundled_claims()).claims if c.id == name)


def bundled_verdict(name, key, **figures):
    """The verdict on a bundled claim of runs with these figures, label by label and seed by
    seed."""
    of = {
        label: {seed: {key: v, "utility.useful": True} for seed, v in enumerate(values)}
        for label, values in figures.items()
    }
    return evaluate(bundled_claim(name), of).verdict


@pytest.mark.slow
@pytest.mark.parametrize(
    ("nu", "printed"), [("1", 7.25), ("2", 6.9), ("5", 8.26), ("10", 8.61), ("inf", 9.0)]
)
def test_a_leak_of_other_metres_than_printed_is_not_the_printed_one(nu, printed):
    for away_m, verdict in (
        (0.4, HOLDS),
        (-0.4, HOLDS),
        (0.6, FAILS),
        (-0.6, FAILS),
        (-1.5, FAILS),
        (2.0, FAILS),
    ):
        found = [printed + away_m - 0.05, printed + away_m, printed + away_m + 0.05]
        assert (
            bundled_verdict(f"map-leak-nu-{nu}", LEAK.format(nu), **{"as written": found})
            == verdict
        )


def test_what_noise_costs_a_map_is_judged_against_the_map_without_noise():
    def verdict(none, noisy):
        return bundled_verdict("map-mae-noise", MAE, none=none, **{"aligned, mu 50": noisy})

    assert verdict([3.81, 3.80, 3.82], [4.25, 4.24, 4.26]) == HOLDS
    assert (
        verdict([2.9, 3.0, 3.1], [4.20, 4.25, 4.30]) == FAILS
    )  # the printed error, and more than a decibel worse
    assert verdict([5.0, 5.1, 5.2], [5.1, 5.2, 5.3]) == HOLDS  # another error, and the printed cost


def shares(named, chance, useful=False):
    """Runs of one label by seed."""
    return {
        "a": {
            seed: {NAMED: v, CHANCE: chance, "utility.useful": useful}
            for seed, v in enumerate(named)
        }
    }


def test_a_share_is_compared_with_chance_of_the_same_run(tmp_path):
    """That homes are found is real with any model; that they are not is not."""
    exceeds = claim(tmp_path, "exceeds", key=NAMED, other=CHANCE, margin=50)
    verdict = evaluate(exceeds, shares([90, 95, 100], 5.0))
    assert verdict.verdict == HOLDS
    assert verdict.ours == "a: 95 [92.5, 97.5] against 5 [5, 5]"
    assert evaluate(exceeds, shares([50, 51, 52], 5.0)).verdict == FAILS
    hidden = claim(tmp_path, "no-more-than", key=NAMED, other=CHANCE, margin=5)
    assert evaluate(hidden, shares([3, 4, 5], 5.0)).verdict == OPEN
    assert evaluate(hidden, shares([3, 4, 5], 5.0, useful=True)).verdict == HOLDS
    none = evaluate(exceeds, shares([90, 95], None))
    assert none.verdict == OPEN
    assert none.reason == f"{CHANCE} is null in 2 of 2 runs of “a”"


@pytest.fixture
def two_runs(tmp_path, tiny):
    """A file of claims about two scenarios that are no sweeps."""
    for name, seed in (("a", 3), ("b", 4)):
        (tmp_path / f"{name}.yaml").write_text(
            study_yaml(tiny({"title": f"tiny {name}", "seed": seed}))
        )
    rule = {"kind": "at-least", "key": "utility.rmse_db", "bound": 0}
    return claim_file(tmp_path, *(entry(rule, id=name, scenario=f"{name}.yaml") for name in "ab"))


def test_runs_that_are_no_sweep_are_played_by_the_engine(two_runs, tmp_path, monkeypatch, capsys):
    asked = []

    def executor(self, jobs, place):
        asked.append(place)
        return Here(1, 0)

    monkeypatch.setattr(OnProcesses, "executor", executor)
    command = ["claims", "--file", str(two_runs), "--out", str(tmp_path / "out"), "--jobs", "2"]
    assert main(command) == 0
    assert asked == [tmp_path / "out" / name for name in "ab"]
    said = r"a.yaml: run 1/1, as written, seed 3.*b.yaml: run 1/1, as written, seed 4"
    assert re.search(said, capsys.readouterr().err, re.S)
    done = (tmp_path / "out" / "b" / "as-written" / "seed-4" / "summary.json").read_text()
    assert main(command) == 0
    alone = run(load(tmp_path / "b.yaml"), tmp_path / "alone")
    assert json.loads(done) == alone.summary


def test_a_run_that_fails_leaves_its_claims_undecided_and_is_played_by_the_same_command(
    two_runs, tmp_path, monkeypatch, capsys
):
    real = runner.play_job

    def one_breaks(job, *more):
        if "a" in job.folder.parts:
            raise RuntimeError("it broke")
        return real(job, *more)

    monkeypatch.setattr(runner, "play_job", one_breaks)
    out = tmp_path / "out"
    command = [
        "claims",
        "--file",
        str(two_runs),
        "--out",
        str(out),
        "--jobs",
        "1",
        "--json",
        "--quiet",
    ]
    assert main(command) == 1
    result, error = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    verdicts = {row["id"]: row for row in result["verdicts"]}
    assert verdicts["a"]["reason"] == (
        "no run: 1 run failed: as written, seed 3: RuntimeError: it broke "
        "(as-written/seed-3/error.txt)"
    )
    assert not verdicts["b"]["reason"].startswith("no run")
    assert f"1 run failed, see {out / 'a' / 'failures.csv'}" in json.dumps(error)
    assert "it broke" in (out / "a" / "as-written" / "seed-3" / "error.txt").read_text()
    monkeypatch.setattr(runner, "play_job", real)
    assert main(command) == 0
    assert sorted(p.name for p in out.iterdir() if p.name[0] != ".") == ["a", "b", "claims.csv"]


def test_an_engine_that_is_not_there_is_one_line(two_runs, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(clusters, "find_spec", lambda name: None)
    out = tmp_path / "out"
    assert main(["claims", "--file", str(two_runs), "--out", str(out), "--on", "slurm"]) == 2
    assert "submitit is not installed" in capsys.readouterr().err
    assert not out.exists()


def test_the_page_of_publications_is_what_the_command_prints(tmp_path):
    """A claim that states something else than when it was played stands as not played, here and
    there."""
    page = tmp_path / "papers.md"
    assert main(["claims", "--page", str(page)]) == 0
    kept = bundled_claims().parents[3] / "docs" / "studies" / "papers.md"
    assert page.read_text() == kept.read_text(), "netsim claims --page docs/studies/papers.md"


def test_a_page_of_somebody_else_is_left_alone_before_anything_is_played(file, tmp_path, capsys):
    page = tmp_path / "mine.md"
    page.write_text("mine")
    assert (
        main(["claims", "--file", str(file), "--out", str(tmp_path / "out"), "--page", str(page)])
        == 2
    )
    assert "is not a page of ours" in capsys.readouterr().err
    assert page.read_text() == "mine"
    assert not (tmp_path / "out").exists()
