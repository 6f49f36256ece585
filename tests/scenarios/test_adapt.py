"""Sweeps with adapted attackers: their candidates, what is equal for all rows, what is played and
said, refusals."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from itertools import islice, product

import numpy as np
import pytest

from fl.attacks import ATTACKS
from scenarios.app.cli.commands import main
from scenarios.app.results.attacks import named_share
from scenarios.app.results.folder import STUDY, read_summary
from scenarios.app.results.statistics import figure_text
from scenarios.app.run import adapt
from scenarios.app.run.adapt import changed, drawn_settings
from scenarios.app.run.sweep import Sweep, SweepPoint
from scenarios.app.study.load import load

SPACES = {kind: part.space for kind, part in ATTACKS.parts.items() if part.space}
SCENARIO = """
title: Four commuters
seed: 3
world:
  duration_s: 172800
  tick_s: 1200
  city: {kind: open-field, width_m: 1200, height_m: 900}
  base_stations: [{name: a, position_m: [100, 100]}, {name: b, position_m: [300, 200]}]
  ues:
    count: 4
    mobility:
      kind: commuter
      home_m: [[100, 100], [1000, 700], [300, 800], [1100, 100]]
      work_m: [[600, 400], [150, 700], [900, 300], [500, 850]]
learning:
  round_s: 43200
  data: {kind: measured, cell: all}
  learner: {kind: rsrp-net, profile: useful, hidden: [16, 8], public_rsrp_mean_dbm: -90, public_rsrp_std_db: 10}
  attacks: [{kind: closed-form, name: own, cloud: false}]
  leakage: {random_baseline_draws: 20, directions: 12}
vary:
  seed: [101, 7]
  variants:
    - {label: updates, set: {}}
    - {label: hidden weights, set: {learning.threat: {observes: aggregate, knowledge: []}}}
"""
N = 9


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    path = tmp_path_factory.mktemp("s") / "s.yaml"
    path.write_text(SCENARIO)
    return path


def command(scenario, out, *more):
    return ["sweep", str(scenario), "--jobs", "1", "--quiet", "--out", str(out), *more]


@pytest.fixture(scope="module")
def played(scenario, tmp_path_factory):
    out = tmp_path_factory.mktemp("o") / "adapted"
    assert main(command(scenario, out, "--adapt", str(N))) == 0
    return out


def runs_of(out):
    with (out / "runs.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("kind", sorted(SPACES))
def test_every_combination_of_a_declared_space_is_an_attack(kind):
    for values in product(*SPACES[kind].values()):
        settings = {"kind": kind, **dict(zip(SPACES[kind], values, strict=True))}
        ATTACKS.parts[kind].model_validate_json(json.dumps(settings))


def test_candidates_are_those_of_the_seed_each_combination_once_and_first_values_first():
    drawn = [json.dumps(one) for one in drawn_settings(3)]
    assert drawn == [json.dumps(one) for one in drawn_settings(3)]
    other = [json.dumps(one) for one in drawn_settings(4)]
    assert other != drawn
    assert sorted(other) == sorted(drawn)
    assert (
        len(drawn)
        == len(set(drawn))
        == sum(np.prod([len(v) for v in s.values()]) for s in SPACES.values())
    )
    first = {one["kind"]: one for one in islice(drawn_settings(3), len(SPACES))}
    assert first == {
        kind: {"kind": kind, **{k: v[0] for k, v in of.items()}} for kind, of in SPACES.items()
    }


def test_a_change_takes_the_place_of_those_below_its_key():
    point = SweepPoint(
        "a", 1, "a/seed-1", {"learning.attacks.0.rank": 4, "learning.attacks[0]": {}, "seed": 1}
    )
    assert changed(point, {"learning.attacks": []}) == {"seed": 1, "learning.attacks": []}


def test_every_row_is_tuned_with_as_many_attacks_on_a_seed_that_is_not_printed(played, scenario):
    for row in ("updates", "hidden-weights"):
        (folder,) = (played / "adapt" / row).iterdir()
        tuned = load(folder / STUDY)
        # 101 is printed
        assert tuned.seed == 102
        assert folder.name == "seed-102"
        assert len(tuned.learning.attacks) == N
        own = load(scenario).learning.attacks[0]
        assert tuned.learning.attacks[0] == own.model_copy(update={"name": "candidate-1"})
        assert (
            len(
                {
                    one.model_copy(update={"name": None}).model_dump_json()
                    for one in tuned.learning.attacks
                }
            )
            == N
        )
    assert {row["seed"] for row in runs_of(played)} == {"101", "7"}
    assert len(runs_of(played)) == 4


def test_the_two_best_kinds_of_a_row_are_played_beside_its_own(played):
    said = json.loads((played / "sweep.json").read_text())["adapted"]
    assert [row["variant"] for row in said["rows"]] == [
        "updates",
        "hidden weights",
    ]
    assert "seed 102" in said["note"]
    for row, folder in zip(said["rows"], ("updates", "hidden-weights"), strict=True):
        tuning = read_summary(played / "adapt" / folder / "seed-102")
        keys = [
            [f"attack.candidate-{k}.{at}_located.percent" for at in ("home", "work")]
            for k in range(1, N + 1)
        ]
        shares = [np.mean([tuning[key] for key in pair]) for pair in keys]
        best = int(np.argmax(shares))
        tuned = load(played / "adapt" / folder / "seed-102" / STUDY).learning.attacks[best]
        assert float(row["adapted"]) == pytest.approx(shares[best], rel=0.01)
        assert float(row["as written"]) == pytest.approx(shares[0], rel=0.01)
        assert tuning["leakage.strongest_located.percent"] == pytest.approx(max(shares))
        kinds = [
            attack.kind
            for attack in load(played / "adapt" / folder / "seed-102" / STUDY).learning.attacks
        ]
        second = max((k for k in range(N) if kinds[k] != tuned.kind), key=lambda k: (shares[k], -k))
        assert row["second"].endswith(f" {figure_text(float(shares[second]))}")
        assert kinds[second] in row["second"]
        expected = [k for k in (best, second) if k]  # of these, the row has the first itself
        for seed in (7, 101):
            own, *more = load(played / folder / f"seed-{seed}" / STUDY).learning.attacks
            assert own.label == "own"
            assert [attack.kind for attack in more] == [kinds[k] for k in expected]
            assert all(attack.label == f"{attack.kind}-adapted" for attack in more)
            if best:
                assert more[0] == tuned.model_copy(update={"name": row["attack"]})
    assert said["rows"][0]["attack"] != "own"  # of updates another attack finds more


def test_attacks_change_no_training_so_a_row_is_never_safer_than_as_written(
    played, scenario, tmp_path
):
    assert main(command(scenario, tmp_path / "plain")) == 0
    for row in runs_of(tmp_path / "plain"):
        plain, adapted = (read_summary(out / row["folder"]) for out in (tmp_path / "plain", played))
        kept = [
            key
            for key in plain
            if key.startswith(("utility.", "attack.own.home", "attack.own.work", "updates."))
        ]
        assert len(kept) > 15
        assert {key: adapted[key] for key in kept} == {key: plain[key] for key in kept}
        strongest = "leakage.strongest_located.percent"
        assert adapted[strongest] >= plain[strongest] == named_share(plain, "own")


def test_what_a_threat_model_refuses_is_counted_and_said(played, capsys):
    updates, hidden = json.loads((played / "sweep.json").read_text())["adapted"]["rows"]
    assert "span" not in updates["refused"]
    assert "1 x span needs " in hidden["refused"]
    assert "starting weights" in hidden["refused"]
    assert main(["show", str(played)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert f"the best of {N} attacks" in out
    assert updates["settings"] in out
    assert hidden["refused"] in out
    page = (played / "report.html").read_text()
    assert "Adapted attackers" in page
    assert f"the best of {N} attacks" in page
    assert "starting weights" in page
    assert main(["show", str(played), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["adapted"] == [updates, hidden]


def test_an_interrupted_sweep_ends_in_the_same_bytes(played, scenario, tmp_path, monkeypatch):
    """Stopped in a run of tuning, and again in a run of the rows."""
    real = Sweep.play
    seen = []

    def stops(asked, *more):
        def tell(*of):
            seen.append(of)
            if len(seen) in (1, 3):
                raise KeyboardInterrupt

        return real(replace(asked, watch=tell), *more)

    out = tmp_path / "o"
    monkeypatch.setattr(Sweep, "play", stops)
    for _ in range(2):
        assert main(command(scenario, out, "--adapt", str(N))) == 130
        assert not (out / "runs.csv").exists()
        assert any((out / "adapt").rglob("summary.json"))
    monkeypatch.setattr(Sweep, "play", real)
    assert main(command(scenario, out, "--adapt", str(N))) == 0
    assert (out / "runs.csv").read_bytes() == (played / "runs.csv").read_bytes()
    whole, resumed = (json.loads((o / "sweep.json").read_text())["adapted"] for o in (played, out))
    assert whole == resumed


def test_failed_runs_of_tuning_end_the_command(played, scenario, monkeypatch, capsys):
    monkeypatch.setattr(adapt, "read_failures", lambda folder: ["one"])
    assert main(command(scenario, played, "--adapt", str(N))) == 1
    assert "1 runs of tuning failed, see" in capsys.readouterr().err


def test_without_places_to_name_the_centroid_error_is_the_goal(scenario, tmp_path):
    ues = "world.ues={count: 4, mobility: {kind: random-waypoint}, measurement_period_s: 1200}"
    field = [
        word
        for one in (ues, "vary={seed: [1]}", "world.duration_s=86400")
        for word in ("--set", one)
    ]
    assert main(command(scenario, tmp_path / "o", *field, "--adapt", "3")) == 0
    (row,) = json.loads((tmp_path / "o" / "sweep.json").read_text())["adapted"]["rows"]
    tuning = read_summary(tmp_path / "o" / "adapt" / "as-written" / "seed-101")
    errors = [tuning[f"attack.candidate-{k}.centroid_error_m.median"] for k in (1, 2, 3)]
    least = min(error for error in errors if error is not None)
    assert row["goal"] == "centroid error, m"
    assert float(row["adapted"]) == pytest.approx(least, rel=0.01)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--adapt", "0"], "--adapt 0: must be a whole number from 1 to 1,000"),
        (["--adapt", "1001"], "--adapt 1001: must be a whole number from 1 to 1,000"),
        (
            [
                "--adapt",
                "1",
                "--set",
                "learning.attacks=[{kind: span, layer: 1}, {kind: neuron-votes}]",
            ],
            "--adapt 1: 2 attacks are in learning.attacks, so no other is tried",
        ),
        (["--adapt", "1000"], "vary, 'updates': --adapt 1000: "),
        (
            ["--adapt", "4", "--set", "learning=null", "--set", "vary={seed: [1]}"],
            "learning: this needs a `learning:` section",
        ),
    ],
)
def test_what_cannot_be_tuned_is_refused_in_one_line(more, said, scenario, tmp_path, capsys):
    assert main(command(scenario, tmp_path / "w", *more)) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (tmp_path / "w").exists()


def test_a_damaged_list_of_attackers_is_refused(played, capsys):
    path = played / "sweep.json"
    text = (played / "sweep.json").read_text()
    path.write_text(json.dumps(json.loads(text) | {"adapted": {"rows": [{}]}}))
    try:
        assert main(["show", str(played)]) == 2
        assert "sweep.json: damaged" in capsys.readouterr().err
    finally:
        path.write_text(text)
