"""Sweeps with adapted attackers: their candidates, what is equal for all rows, what is played and
said, refusals."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from itertools import islice, product
from pathlib import Path

import numpy as np
from pytest import approx, fixture, mark, raises
from refused import read_cases

from fl.attacks import ATTACKS
from netsim.errors import BadInput
from scenarios.app.cli.commands import main
from scenarios.app.results.folder import STUDY, read_csv_rows, read_json, read_summary
from scenarios.app.results.goals import parse_aims
from scenarios.app.results.statistics import format_figure
from scenarios.app.run import adapt
from scenarios.app.run.adapt import draw_settings, replace_overrides
from scenarios.app.run.sweep import Sweep, SweepPoint
from scenarios.app.study.load import load

ROOT = Path(__file__).parents[2]
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
PLACES = ("home", "work", "both")


@fixture(scope="module")
def scenario(tmp_path_factory):
    path = tmp_path_factory.mktemp("s") / "s.yaml"
    path.write_text(SCENARIO)
    return path


def command(scenario, out, *rest):
    return [*f"sweep {scenario} --jobs 1 --quiet --out {out}".split(), *rest]


@fixture(scope="module")
def sweep_folder(scenario, tmp_path_factory):
    out = tmp_path_factory.mktemp("o") / "adapted"
    assert main(command(scenario, out, "--adapt", str(N))) == 0
    return out


def read_runs(out):
    return read_csv_rows(out / "runs.csv")


@mark.parametrize("kind", sorted(SPACES))
def test_every_combination_of_a_declared_space_is_an_attack(kind):
    for values in product(*SPACES[kind].values()):
        settings = {"kind": kind, **dict(zip(SPACES[kind], values, strict=True))}
        ATTACKS.parts[kind].model_validate_json(json.dumps(settings))


def test_candidates_are_those_of_the_seed_each_combination_once_and_first_values_first():
    drawn = [json.dumps(item) for item in draw_settings(3)]
    assert drawn == [json.dumps(item) for item in draw_settings(3)]
    second = [json.dumps(item) for item in draw_settings(4)]
    assert second != drawn
    assert sorted(second) == sorted(drawn)
    assert (
        len(drawn)
        == len(set(drawn))
        == sum(np.prod([len(v) for v in s.values()]) for s in SPACES.values())
    )
    first = {item["kind"]: item for item in islice(draw_settings(3), len(SPACES))}
    assert first == {
        kind: {"kind": kind, **{k: v[0] for k, v in part.items()}} for kind, part in SPACES.items()
    }


def test_a_change_takes_the_place_of_those_below_its_key():
    point = SweepPoint(
        "a", 1, "a/seed-1", {"learning.attacks.0.rank": 4, "learning.attacks[0]": {}, "seed": 1}
    )
    assert replace_overrides(point, {"learning.attacks": []}) == {"seed": 1, "learning.attacks": []}


def test_every_row_is_tuned_with_as_many_attacks_on_a_seed_that_is_not_printed(
    sweep_folder, scenario
):
    for row in ("updates", "hidden-weights"):
        (folder,) = (sweep_folder / "adapt" / row).iterdir()
        tuned = load(folder / STUDY)
        # 101 is printed
        assert tuned.seed == 102
        assert folder.name == "seed-102"
        assert len(tuned.learning.attacks) == N
        expected = load(scenario).learning.attacks[0]
        assert tuned.learning.attacks[0] == expected.model_copy(update={"name": "candidate-1"})
        assert (
            len(
                {
                    item.model_copy(update={"name": None}).model_dump_json()
                    for item in tuned.learning.attacks
                }
            )
            == N
        )
    assert {row["seed"] for row in read_runs(sweep_folder)} == {"101", "7"}


def test_the_two_best_kinds_of_a_row_are_played_beside_its_own(sweep_folder):
    report = read_json(sweep_folder / "sweep.json")["adapted"]
    assert [row["variant"] for row in report["rows"]] == [
        "updates",
        "hidden weights",
    ]
    assert "seed 102" in report["note"]
    for row, folder in zip(report["rows"], ("updates", "hidden-weights"), strict=True):
        tuning = read_summary(sweep_folder / "adapt" / folder / "seed-102")
        assert row["goal"] == "homes, % (max)"
        shares = [tuning[f"attack.candidate-{k}.home_located.percent"] for k in range(1, N + 1)]
        # of those that tie, the one that names most homes, workplaces and both; of these, a new one
        named = [
            sum(tuning[f"attack.candidate-{k}.{place}_located.percent"] or 0 for place in PLACES)
            for k in range(1, N + 1)
        ]
        order = sorted(range(N), key=lambda k: (-shares[k], -named[k], k == 0))
        best = order[0]
        tied = shares.count(shares[best])
        tuned = load(sweep_folder / "adapt" / folder / "seed-102" / STUDY).learning.attacks[best]
        reached, _, said = row["adapted"].partition(" ")
        assert float(reached) == approx(shares[best], rel=0.01)
        assert said == (f"({tied} tied)" if tied > 1 else "")
        assert float(row["as written"]) == approx(shares[0], rel=0.01)
        kinds = [
            attack.kind
            for attack in load(
                sweep_folder / "adapt" / folder / "seed-102" / STUDY
            ).learning.attacks
        ]
        second = next(k for k in order if kinds[k] != tuned.kind)
        assert row["second"].endswith(f" {format_figure(float(shares[second]))}")
        assert kinds[second] in row["second"]
        expected = [k for k in (best, second) if k]  # of these, the row has the first itself
        for seed in (7, 101):
            own_rows, *rest = load(sweep_folder / folder / f"seed-{seed}" / STUDY).learning.attacks
            assert own_rows.label == "own"
            assert [attack.kind for attack in rest] == [kinds[k] for k in expected]
            assert all(attack.label == f"{attack.kind}-adapted" for attack in rest)
            if best:
                assert rest[0] == tuned.model_copy(update={"name": row["attack"]})
    assert report["rows"][0]["attack"] != "own"  # of updates another attack finds more


def test_attacks_change_no_training_so_a_row_is_never_safer_than_as_written(
    sweep_folder, scenario, tmp_path, run_command
):
    run_command(command(scenario, tmp_path / "plain"))
    for row in read_runs(tmp_path / "plain"):
        plain, adapted = (
            read_summary(out / row["folder"]) for out in (tmp_path / "plain", sweep_folder)
        )
        kept = [
            key
            for key in plain
            if key.startswith(("utility.", "attack.own.home", "attack.own.work", "updates."))
        ]
        assert len(kept) > 15
        assert {key: adapted[key] for key in kept} == {key: plain[key] for key in kept}
        homes = [v for key, v in adapted.items() if key.endswith(".home_located.percent")]
        assert max(homes) >= plain["attack.own.home_located.percent"]


def test_what_a_threat_model_refuses_is_counted_and_said(sweep_folder, run_command):
    updates, hidden = read_json(sweep_folder / "sweep.json")["adapted"]["rows"]
    assert "span" not in updates["refused"]
    assert "1 x span needs " in hidden["refused"]
    assert "starting weights" in hidden["refused"]
    out = " ".join(run_command(f"show {sweep_folder}").split())
    assert f"the best of {N} attacks" in out
    assert updates["settings"] in out
    assert hidden["refused"] in out
    assert f"the best of {N} attacks" in (sweep_folder / "report.html").read_text()
    assert json.loads(run_command(f"show {sweep_folder} --json"))["adapted"] == [updates, hidden]


def test_an_interrupted_sweep_ends_in_the_same_bytes(
    sweep_folder, scenario, out, monkeypatch, run_command
):
    """Stopped in a run of tuning, and again in a run of the rows."""
    real = Sweep.play
    seen = []

    def stops(changes, *rest):
        def tell(*part):
            seen.append(part)
            if len(seen) in (1, 3):
                raise KeyboardInterrupt

        return real(replace(changes, watch=tell), *rest)

    monkeypatch.setattr(Sweep, "play", stops)
    for _ in range(2):
        assert main(command(scenario, out, "--adapt", str(N))) == 130
        assert not (out / "runs.csv").exists()
        assert any((out / "adapt").rglob("summary.json"))
    monkeypatch.setattr(Sweep, "play", real)
    run_command(command(scenario, out, "--adapt", str(N)))
    assert (out / "runs.csv").read_bytes() == (sweep_folder / "runs.csv").read_bytes()
    whole, resumed = (read_json(o / "sweep.json")["adapted"] for o in (sweep_folder, out))
    assert whole == resumed


def test_failed_runs_of_tuning_end_the_command(sweep_folder, scenario, monkeypatch, capsys):
    monkeypatch.setattr("scenarios.app.results.folder.read_failures", lambda folder: ["one"])
    assert main(command(scenario, sweep_folder, "--adapt", str(N))) == 1
    assert "1 run failed, see" in capsys.readouterr().err


def test_without_places_to_name_the_centroid_error_is_the_goal(scenario, out, run_command):
    ues = "world.ues={count: 4, mobility: {kind: random-waypoint}, measurement_period_s: 1200}"
    field = [
        word
        for item in (ues, "vary={seed: [1]}", "world.duration_s=86400")
        for word in ("--set", item)
    ]
    run_command(command(scenario, out, *field, "--adapt", "3"))
    (row,) = read_json(out / "sweep.json")["adapted"]["rows"]
    tuning = read_summary(out / "adapt/as-written/seed-101")
    errors = [tuning[f"attack.candidate-{k}.centroid_error_m.median"] for k in (1, 2, 3)]
    lowest = min(error for error in errors if error is not None)
    assert row["goal"] == "centroid error, m (min)"
    assert float(row["adapted"]) == approx(lowest, rel=0.01)


AIMS = [
    ("workplaces", "work_located.percent", max),
    ("both", "both_located.percent", max),
    ("attack.own.centroid_error_m.median:min", "centroid_error_m.median", min),
]


@mark.parametrize("aim, key, pick", AIMS)
@mark.parametrize("folder", ["updates", "hidden-weights"])
def test_a_defense_is_judged_by_the_attacker_of_what_is_asked(aim, key, pick, folder, sweep_folder):
    """The runs of tuning hold all attacks, so another aim only chooses others of them."""
    path = sweep_folder / "adapt" / folder / "seed-102"
    tuning = read_summary(path)
    attacks = [attack.model_dump() for attack in load(path / STUDY).learning.attacks]
    _, row = adapt._pick_attacks(attacks[:1], attacks, tuning, parse_aims(aim))
    values = [tuning[f"attack.candidate-{k}.{key}"] for k in range(1, N + 1)]
    best = format_figure(float(pick(v for v in values if v is not None)))
    assert row["adapted"].partition(" ")[0] == best


def test_ties_are_broken_by_the_other_places_and_then_by_what_is_new():
    candidates = [{"name": f"candidate-{k}", "kind": kind} for k, kind in enumerate("abcd")]
    work = (40.0, 70.0, None, 70.0)
    tuning = {f"attack.candidate-{k}.home_located.percent": 100.0 for k in range(4)}
    tuning |= {f"attack.candidate-{k}.work_located.percent": work[k] for k in range(4)}
    aims = parse_aims("homes")
    attacks, row = adapt._pick_attacks(candidates[:2], candidates, tuning, aims)
    assert row["attack"] == "d-adapted"
    assert row["adapted"] == "100 (4 tied)"
    assert row["second"].startswith("candidate-1 {kind: b}")
    assert [part["kind"] for part in attacks] == ["a", "b", "d"]


def test_without_homes_places_of_most_time_are_the_aim():
    summary = {"attack.candidate-1.densest_located.percent": 50.0}
    names = [{"name": "candidate-1"}]
    aim, gain = adapt._measure_candidates(names, summary, parse_aims("homes"))
    assert (aim.goal, gain) == ("places of most time, % (max)", {0: 50.0})
    with raises(BadInput, match="no candidate has a value of its goal, workplaces, %"):
        adapt._measure_candidates(names, summary, parse_aims("workplaces"))


@mark.slow
def test_the_defenses_of_a_trace_meet_tuned_attackers(out, run_command, refuse_command):
    trace = ROOT / "scenarios/examples/commuter.csv.gz"
    words = f"replay {trace} --quiet --jobs 1 --out {out}".split()
    refused = refuse_command([*words, "--adapt", "7"])
    assert "--adapt, --for: tune the attackers of --defend" in refused
    run_command([*words, "--defend", "--adapt", "7", "--for", "homes"])
    rows = read_json(out / "sweep.json")["adapted"]["rows"]
    labels = {row["label"] for row in read_runs(out)}
    assert {row["variant"] for row in rows} == labels
    assert "sum of all, cells hidden" not in labels  # of one person
    run_command([*words, "--defend", "--adapt", "7"])


UNTUNED = """
--adapt 0
    --adapt 0: must be a whole number from 1 to 1,000
--adapt 1001
    --adapt 1001: must be a whole number from 1 to 1,000
--for homes
    --for: says what attackers are tuned for; give --adapt N too
--adapt 4 --for workplace
    --for workplace: neither homes, workplaces, both nor KEY:min or KEY:max of an attack; did you mean 'workplaces'
--adapt 4 --for attack.NAME.home_located.percent
    neither homes,
--adapt 4 --for attack.NAME.home_locatd.percent:max
    an attack; did you mean 'attack.NAME.home_located.percent'
--adapt 4 --for utility.rmse_db:min
    neither homes,
--adapt 1 --set 'learning.attacks=[{kind: span, layer: 1}, {kind: neuron-votes}]'
    --adapt 1: 2 attacks are in learning.attacks, so no other is tried
--adapt 1000
    vary, 'updates': --adapt 1000:
--adapt 4 --set learning=null --set 'vary={seed: [1]}'
    learning: this needs a `learning:` section
"""


@mark.parametrize("words, message", read_cases(UNTUNED))
def test_what_cannot_be_tuned_is_refused_in_one_line(words, message, scenario, out, refuse_command):
    assert message in refuse_command(command(scenario, out, *shlex.split(words)))
    assert not out.exists()


def test_a_damaged_list_of_attackers_is_refused(sweep_folder, refuse_command):
    path = sweep_folder / "sweep.json"
    text = (sweep_folder / "sweep.json").read_text()
    path.write_text(json.dumps(json.loads(text) | {"adapted": {"rows": [{}]}}))
    try:
        assert "sweep.json: damaged" in refuse_command(f"show {sweep_folder}")
    finally:
        path.write_text(text)
