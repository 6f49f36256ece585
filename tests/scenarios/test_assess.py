"""Defenses on frozen suites: verdicts by the rule, plug-ins in files, scenarios, kept rows."""

from __future__ import annotations

import re
from pathlib import Path

import pandas
from forked import fork_command
from pytest import fixture, mark, raises

from fl.defenses import DEFENSES, Defense
from netsim.errors import BadInput
from scenarios.app.cli.commands import main
from scenarios.app.results.assessment import (
    NOT_SHOWN,
    NOTHING,
    REDUCED,
    judge_defense,
    judge_suite,
    merge_rows,
)
from scenarios.app.results.folder import read_json
from scenarios.app.results.table import (
    AT_CHANCE,
    FOUND,
    GOOD,
    INCONCLUSIVE,
    NOT_USEFUL,
    PREVENTED,
    USEFUL,
    Line,
)
from scenarios.app.run.assess import fit_row, list_rows, parse_defense
from scenarios.app.study.load import Scenario

ROOT = Path(__file__).parents[2]
SUITE = """
title: Twelve residents, three days
seed: 1
world:
  first_day: "2026-01-05"
  duration_s: 259200
  tick_s: 1800
  city: {kind: town, width_m: 1000, height_m: 1000}
  base_stations: [{name: mast, position_m: [500, 500], height_m: 25}]
  ues: {count: 12, mobility: {kind: resident}, measurement_period_s: 1800}
  radio: {carrier_hz: 3.5e+9, path_loss: {kind: uma}, measurement_noise_db: 2.5}
learning:
  round_s: 86400
  data: {kind: measured, hold_out: 0.2}
  learner: {kind: rsrp-net, profile: useful, hidden: [32, 16]}
  server_optimiser: {kind: fedavgm, learning_rate: 2, momentum: 0.7}
  leakage: {random_baseline_draws: 20}
  references: {central: false, kriging_samples: 0}
  attacks: [{kind: span, rank: 4}, {kind: fused, towns: 0}]
vary:
  seed: [1, 2]
  variants:
    - {label: nothing, set: {}}
    - {label: sum of all, set: {learning.threat: {observes: aggregate}}}
"""
PLUGIN = '''"""A defense."""

from typing import Literal

import numpy as np

from fl.defenses import Defense


class Mine(Defense):
    """Add the same noise to all updates."""

    kind: Literal["mine"] = "mine"

    def protect(self, updates, local, facts, state, rng):
        rows = updates.rows(slice(None))
        return updates.plus(np.broadcast_to(self.draw(rows.shape[1]), rows.shape)), state, []

    def draw(self, n):
        return np.random.default_rng(1).normal(0.0, 1.0, n)
'''
FAKE = (
    PLUGIN
    + """
    def finish(self, total, n_expected, facts, state, rng):
        return total - self.draw(total.shape[1]), state, []
"""
)


@fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("assess")
    (folder / "tiny.yaml").write_text(SUITE)
    (folder / "brief.yaml").write_text(
        SUITE.replace("count: 12", "count: 4").replace("[1, 2]", "[1]")
    )
    (folder / "mine.py").write_text(PLUGIN)
    (folder / "fake.py").write_text(FAKE)
    (folder / "broken.py").write_text(PLUGIN.replace("rows = updates", "rows = self.updates"))
    assert main(command(folder, NOTHING)) == 0
    return folder


def command(folder, *words, on="tiny"):
    options = ["--adapt", "3", "--jobs", "1", "--quiet"]
    places = ["--on", str(folder / f"{on}.yaml"), "--keep", str(folder / "rows.csv")]
    if "--out" not in words:
        places += ["--out", str(folder / "out")]
    return ["assess", *words, *places, *options]


def play(folder, *words, on="tiny"):
    """In a process of its own: what plug-ins there are is read once."""
    return fork_command(folder, *command(folder, *words, on=on))


def test_noise_that_the_server_takes_out_again_is_not_shown(place):
    ran = play(place, "fake.py")
    assert ran.returncode == 0, ran.stderr
    assert "tiny, mine: not shown\n  what its server half takes out" in ran.stdout
    assert read_json(place / "out" / "assess.json")["verdicts"]["tiny"]["mine"] == NOT_SHOWN
    table = pandas.read_csv(place / "out" / "table.csv").set_index(["label", "key"])
    shares = table[table.index.get_level_values("key").str.endswith("_located.percent")]
    assert (shares["low"] <= shares["value"] + 1e-6).all()
    assert (shares["value"] <= shares["high"] + 1e-6).all()
    # the map is as good as without it
    errors = table["value"].xs("utility.rmse_db", level="key")
    assert abs(errors["mine"] / errors[NOTHING] - 1) < 1e-3


def test_no_bundled_server_half_takes_noise_away():
    """Those that there are: central noise is added, the clipping norm is counted, and whole numbers
    are wrapped. Another one must be looked at before an assessment may trust it.
    """
    own = {kind for kind, part in DEFENSES.parts.items() if part.finish is not Defense.finish}
    assert own == {"central-gaussian", "adaptive-clip", "skellam"}
    assert all(part.finish.__module__.startswith("fl.") for part in DEFENSES.parts.values())


def test_kinds_are_variants():
    bare, digest = parse_defense("top-k")
    assert (bare, digest) == (
        {"label": "top-k", "set": {"learning.defenses": [{"kind": "top-k"}]}},
        "",
    )
    text = "[{kind: clip, norm: 0.3}, {kind: farthest-batch, eps_m: 50}, {kind: quantise}]"
    several, _ = parse_defense(text)
    assert several["label"] == "clip, norm: 0.3, farthest-batch, eps_m: 50, quantise"
    assert [*several["set"]] == ["learning.defenses", "learning.curation"]
    assert len(several["set"]["learning.defenses"]) == 2


def test_the_defense_of_the_manual_is_judged(place):
    """As it stands there, on a short suite."""
    text = (ROOT / "docs" / "assess.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"(?s)```python\n(.*?)```", text)
    assert len(example.strip().splitlines()) <= 25
    (place / "my_defense.py").write_text(example)
    ran = play(place, "my_defense.py")
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"tiny, coin-sign: (reduced|inconclusive|not shown)\n", ran.stdout)


def test_an_edited_plugin_is_played_anew(place):
    out = place / "edited"
    (place / "changed.py").write_text(PLUGIN.replace('"mine"', '"changed"'))
    assert play(place, "changed.py", "--out", out, on="brief").returncode == 0
    first = {folder.name for folder in (out / "brief").glob("changed*")}
    again = play(place, "changed.py:Mine", "--out", out, on="brief")
    assert again.returncode == 0, again.stderr
    assert {folder.name for folder in (out / "brief").glob("changed*")} == first
    (place / "changed.py").write_text(PLUGIN.replace('"mine"', '"changed"') + "\n")
    assert play(place, "changed.py", "--out", out, on="brief").returncode == 0
    assert len([*(out / "brief").glob("changed*")]) == 2


def test_a_defense_that_raises_is_blamed_with_its_line(place):
    ran = play(place, "broken.py")
    line = 1 + (place / "broken.py").read_text().split("\n").index(
        "        rows = self.updates.rows(slice(None))"
    )
    assert ran.returncode == 1
    assert ran.stderr.count("\n") == 1
    assert f"plug-in {place / 'broken.py'}:{line}" in ran.stderr


@mark.parametrize(
    "text, reason",
    [
        ("nowhere.py", "cannot be read (No such file or directory)"),
        (
            "mine.py:Other",
            "one class of a Defense, a Curation or a Withholding, not 0",
        ),
        ("{kind: gauss}", "it is neither FILE.py, kinds of defense"),
        ("radio/coverage", "brings no defense"),
        ("{kind: geometry-aligned, mu: 1, rho: 1}", "geometry-aligned needs cells"),
    ],
)
def test_what_is_no_defense_here_is_refused_in_one_line(place, text, reason):
    ran = play(place, text)
    assert ran.returncode == 2
    assert ran.stderr.count("\n") == 1
    assert reason in ran.stderr


def test_a_scenario_brings_its_defense_and_finished_runs_are_read_back(place, capsys):
    scenario = place / "mine.yaml"
    scenario.write_text(SUITE.replace("  attacks:", "  threat: {observes: aggregate}\n  attacks:"))
    assert main(command(place, str(scenario))) == 0
    assert "tiny, mine: reduced" in capsys.readouterr().out
    summaries = [*(place / "out" / "tiny" / "mine").rglob("summary.json")]
    assert len(summaries) == 5  # a run of tuning, and of each seed one with attacks, one by place
    times = {path: path.stat().st_mtime_ns for path in summaries}
    assert main(command(place, str(scenario))) == 0
    assert times == {path: path.stat().st_mtime_ns for path in summaries}
    rows = pandas.read_csv(place / "rows.csv").set_index(["label", "seed"])
    rows = rows[rows["suite"] == "tiny"]  # beside those that come with the program
    assert rows.loc["mine"].index.tolist() == [1, 2]
    assert rows.loc["mine", "utility.rmse_db"].equals(rows.loc[NOTHING, "utility.rmse_db"])


def test_a_folder_with_something_else_is_left_alone(place, tmp_path, capsys):
    (tmp_path / "letter.txt").write_text("mine")
    assert main(command(place, NOTHING, "--out", str(tmp_path))) == 2
    assert "holds 'letter.txt', which does not belong to an assessment" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_attacks_that_a_row_refuses_are_left_out_of_it():
    suite = Scenario.from_source("assess/city")
    rows = [*list_rows(suite), {"label": "frozen", "set": {"learning.learner.frozen_layers": 1}}]
    counts = {
        row["label"]: len(fit_row(suite, row).study.vary.variants[0].set["learning.attacks"])
        for row in rows
    }
    assert counts[NOTHING] == 4
    assert min(counts.values()) > 0
    assert counts["frozen"] < 4


def test_the_two_suites_of_towns_differ_in_their_seeds_alone():
    city, town = (Scenario.from_source(f"assess/{name}").document.data for name in ("city", "town"))
    for data in (city, town):
        del data["title"], data["seed"]
    assert city["vary"].pop("seed") == [1, 2, 3]
    assert town["vary"].pop("seed") == [901, 902]
    assert city == town


# -- the rule


def draw_lines(model, homes, works):
    """Lines of a model and of shares: (verdict, low, high) or none."""
    lines = [Line("map", "dB", 1.0, verdict=model, key="utility.rmse_db")]
    for stem, share in (("home_located", homes), ("work_located", works)):
        if share:
            verdict, low, high = share
            key = f"attack.a.{stem}.percent"
            lines.append(Line(stem, "%", 50.0, low, high, verdict=verdict, n=120, key=key))
    return lines


ALL = (FOUND, 91.0, 99.0)
LESS = (FOUND, 40.0, 60.0)
NEAR = (FOUND, 80.0, 91.0)
NONE = (AT_CHANCE, 0.0, 3.0)
OPEN = (INCONCLUSIVE, 0.0, 12.0)
WIDE = (INCONCLUSIVE, 0.0, 95.0)


@mark.parametrize(
    "model, homes, works, doubt, verdict",
    [
        (GOOD, NONE, NONE, "", PREVENTED),
        (USEFUL, NONE, (PREVENTED, 0.0, 3.0), "", PREVENTED),
        (NOT_USEFUL, NONE, NONE, "", NOT_SHOWN),
        (GOOD, NONE, NONE, "its server half", NOT_SHOWN),
        (GOOD, LESS, LESS, "", REDUCED),
        (GOOD, NONE, LESS, "", REDUCED),
        (GOOD, OPEN, OPEN, "", REDUCED),
        (GOOD, LESS, NEAR, "", NOT_SHOWN),
        (GOOD, ALL, ALL, "", NOT_SHOWN),
        (NOT_USEFUL, LESS, LESS, "", NOT_SHOWN),
        (GOOD, NONE, WIDE, "", INCONCLUSIVE),
        (GOOD, NONE, None, "", INCONCLUSIVE),
        (INCONCLUSIVE, NONE, NONE, "", INCONCLUSIVE),
    ],
)
def test_the_rule(model, homes, works, doubt, verdict):
    nothing = draw_lines(GOOD, ALL, ALL)
    assert judge_defense(draw_lines(model, homes, works), nothing, doubt) == verdict


def test_nothing_can_be_prevented_that_is_not_found_without_a_defense():
    shown = draw_lines(GOOD, NONE, NONE)
    assert judge_defense(shown, draw_lines(GOOD, ALL, OPEN)) == INCONCLUSIVE
    assert judge_defense(shown, []) == INCONCLUSIVE


# -- kept rows


def test_kept_rows_have_intervals_that_contain_their_values():
    rows = merge_rows(None, [])
    assert not rows.duplicated(["suite", "label", "seed"]).any()
    for name, runs in rows.groupby("suite"):
        suite = Scenario.from_source(f"assess/{name}")
        known = {row["label"] for row in list_rows(suite)}
        judged = judge_suite(runs)
        assert NOTHING in judged["lines"]
        for label, lines in judged["lines"].items():
            assert label in known
            shares = [line for line in lines if line.n]
            assert shares
            for line in shares:
                assert line.low - 1e-9 <= 100 * line.hits / line.n <= line.high + 1e-9
                assert line.levels
                assert line.attack


def test_a_damaged_table_is_refused(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("suite,label\ncity,nothing\n")
    with raises(BadInput, match="no table of assessed rows"):
        merge_rows(str(path), [])
