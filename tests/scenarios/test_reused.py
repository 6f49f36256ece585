"""What is reused is compared with its study, inputs and version, a sweep's folder holds its own
runs alone, and no reader who leaves makes unfinished work a success.
"""

import json
import os
import shutil
import sys

import pytest
from conftest import TINY
from pytest import fixture, mark, raises

from netsim import __version__
from netsim.errors import BadInput
from netsim.record import write_json
from scenarios.app.cli import options
from scenarios.app.cli.commands import COMMANDS, main
from scenarios.app.results.folder import read_json
from scenarios.app.results.goals import Trial, parse_goals
from scenarios.app.results.trainings import read_trainings
from scenarios.app.run import runner, sweep
from scenarios.app.study.load import Scenario, parse_value
from scenarios.app.training.tune import Search, tune_settings

OLD = "0.6.9"


def scenario(folder, name="s", **changes):
    """A file of the tiny scenario; changes of its top level, of `world` and `learning` a part."""
    merged = {
        key: {**TINY.get(key, {}), **value}
        for key, value in changes.items()
        if isinstance(value, dict)
    }
    (folder / f"{name}.yaml").write_text(json.dumps({**TINY, **changes, **merged}))
    return str(folder / f"{name}.yaml")


def age_run(folder, version=OLD):
    """Say that another version played a run, or that none is known to have."""
    manifest = read_json(folder / "manifest.json")
    manifest["versions"] = manifest["versions"] | {"netsim": version} if version else {}
    write_json(folder / "manifest.json", manifest)


def version(folder):
    return read_json(folder / "manifest.json")["versions"]["netsim"]


def content(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def check_refusal(refuse_command, words, *texts):
    """What the only line of a command that refuses says."""
    line = refuse_command(words)
    assert all(text in line for text in texts), line


@fixture(scope="module")
def sweep_folder(tmp_path_factory):
    """A finished sweep of two variants and two seeds, and the scenario beside it."""
    folder = tmp_path_factory.mktemp("played")
    vary = parse_value("{values: {world.ues.count: [2, 4]}, seed: [1, 2]}")
    file = scenario(folder, vary=vary, learning={"attacks": []})
    assert main(["sweep", file, "--out", str(folder / "w"), "--jobs", "1", "--quiet"]) == 0
    return folder


@fixture
def swept(sweep_folder, tmp_path, monkeypatch):
    """A copy of it: the words of the command, and its folder."""
    monkeypatch.chdir(shutil.copytree(sweep_folder, tmp_path / "copy"))
    out = tmp_path / "copy" / "w"
    return f"sweep s.yaml --out {out} --jobs 1 --quiet".split(), out


# -- versions


@mark.parametrize("old", [OLD, "9.0", ""])
def test_a_sweep_of_another_version_is_refused_and_replaced_run_by_run(old, swept, refuse_command):
    words, out = swept
    item = out / "count=2" / "seed-1"
    second = out / "count=4" / "seed-2"
    age_run(item, old)
    before = content(out)
    named = f"netsim {old or 'of another version'}, and this is {__version__}"
    check_refusal(refuse_command, words, str(item), named, "--replace")
    assert content(out) == before
    assert main([*words, "--replace"]) == 0
    assert version(item) == __version__
    same = [
        second / "manifest.json",
        item / "summary.json",
        out / "runs.csv",
    ]  # the first: it was not played again
    assert [path.read_bytes() for path in same] == [before[path] for path in same]


def test_two_versions_have_no_common_table(swept, tmp_path, refuse_command):
    _, out = swept
    age_run(out / "count=2" / "seed-1")
    message = f"was made by netsim {OLD} and {out / 'count=2' / 'seed-2'} by {__version__}"
    for words in (
        ["compare", str(out)],
        ["compare", str(out / "count=2" / "seed-1"), str(out / "count=2" / "seed-2")],
        ["report", str(out)],
        ["show", str(out)],
    ):
        check_refusal(refuse_command, words, message)
    for label in ("count=2", "count=4"):
        for seed in ("seed-1", "seed-2"):
            age_run(out / label / seed)
    page = str(tmp_path / "c.html")
    # one, if another
    assert main(["compare", str(out), "--out", page]) == 0
    assert main(["show", str(out)]) == 0


def write_claims(folder):
    rule = {"kind": "at-least", "key": "utility.rmse_db", "bound": 0}
    item = [
        {"id": n, "paper": "A", "where": "1", "says": "so", "scenario": f"{n}.yaml", "rule": rule}
        for n in ("alone", "many")
    ]
    (folder / "claims.yaml").write_text(json.dumps({"claims": item}))


def test_claims_use_runs_of_their_scenario_and_version_alone(tmp_path, out, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    scenario(tmp_path, "alone", title="alone", learning={"attacks": []})
    scenario(tmp_path, "many", title="many", learning={"attacks": []}, vary={"seed": [1]})
    write_claims(tmp_path)
    words = f"claims --file claims.yaml --out {out} --jobs 1 --json --quiet".split()

    def verdicts(*rest):
        capsys.readouterr()
        assert main([*words, *rest]) == 0
        rows = json.loads(capsys.readouterr().out)["verdicts"]
        return [item["reason"] or item["verdict"] for item in rows]

    assert verdicts() == ["holds", "holds"]
    first = content(out)
    verdicts()
    alone = next((out / "alone").glob("as-written/seed-*"))
    assert content(out)[alone / "manifest.json"] == first[alone / "manifest.json"]  # reused
    age_run(alone)
    age_run(out / "many" / "as-written" / "seed-1")
    assert all(
        f"finished run of netsim {OLD}" in reason and "--replace" in reason for reason in verdicts()
    )
    assert version(alone) == OLD
    assert verdicts("--replace") == ["holds", "holds"]
    assert version(alone) == __version__
    # another study of the same title
    scenario(tmp_path, "alone", title="alone", seed=8, learning={"attacks": []})
    assert "runs that this sweep does not have" in verdicts()[0]
    assert (alone / "summary.json").exists()


def test_a_drawn_file_that_changed_is_another_tuning(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("time_s,user,x_m,y_m\n0,u,1,1\n3600,u,200,100\n")
    mobility = {"kind": "replay", "trace": str(tmp_path / "a.csv"), "crs": "local"}
    space = {
        "world.ues.mobility.trace": {"choices": [str(tmp_path / f"{name}.csv") for name in "ab"]}
    }
    changes = {"world.ues": {"mobility": mobility}, "vary": {"random": {"space": space}}}
    file = scenario(tmp_path)
    words = sweep.Sweep(Scenario.from_source(file, changes), tmp_path / "t", 1, lambda *event: None)
    part = Search(words, parse_goals(["utility.rmse_db"], ["min"], []), 2)
    drawn = Trial(
        label="trial-1", settings={"world.ues.mobility.trace": str(tmp_path / "b.csv")}, seeds=[1]
    )
    (first,) = part.build_jobs(drawn)
    assert part.build_jobs(drawn)[0].text == first.text
    assert first.text.count("# reads ") == 1
    (tmp_path / "b.csv").write_text("time_s,user,x_m,y_m\n0,u,1,1\n3600,u,200,101\n")
    assert part.build_jobs(drawn)[0].text != first.text


def test_a_tuning_that_is_replaced_leaves_no_run_behind(tmp_path, out):
    pytest.importorskip("optuna")
    file = scenario(tmp_path, learning={"attacks": []})
    changes = parse_value(
        "{vary: {random: {space: {learning.learner.learning_rate: {low: 0.01, high: 0.1}}}}}"
    )

    def tune_again(trials, replace=False, **rest):
        samples = {**changes, **rest}
        words = sweep.Sweep(
            Scenario.from_source(file, samples), out, 1, lambda *event: None, replace
        )
        tune_settings(
            Search(words, parse_goals(["utility.rmse_db"], ["min"], []), trials, verify=1)
        )

    tune_again(2)
    with raises(BadInput, match=r"holds \d+ runs that this sweep does not have, .*; add --replace"):
        tune_again(1, seed=9)
    tune_again(1, replace=True, seed=9)
    assert not (out / "trial-2").exists()
    assert sorted(path.parent.name for path in out.glob("trial-*/seed-*/summary.json")) == [
        "seed-10",
        "seed-9",
    ]


def test_no_mean_is_over_trainings_of_two_versions(tmp_path, monkeypatch):
    from types import SimpleNamespace

    for seed, program in ((0, OLD), (1, __version__)):
        (tmp_path / f"seed-{seed}").mkdir()
        write_json(tmp_path / f"seed-{seed}" / "training.json", {"program": program})

    def read(folder):
        return SimpleNamespace(manifest=SimpleNamespace(**read_json(folder / "training.json")))

    monkeypatch.setattr("scenarios.app.results.trainings._read_training", read)
    with raises(BadInput, match=f"seed-0 was made by netsim {OLD} and .*seed-1 by {__version__}"):
        read_trainings(tmp_path)


# -- a sweep is known by its runs

WORLDS = parse_value(
    "{other values: {vary: {values: {world.ues.count: [2, 3]}, seed: [1, 2]}}, "
    "other seeds: {vary: {values: {world.ues.count: [2, 4]}, seed: [1, 3]}}, "
    "fewer seeds: {vary: {values: {world.ues.count: [2, 4]}, seed: [1]}}, "
    "another world: {world: {city: {kind: open-field, width_m: 900, "
    "height_m: 900}}, vary: {values: {world.tick_s: [5, 10]}, seed: [1]}}}"
)


@mark.parametrize("name", WORLDS)
def test_another_sweep_of_the_same_title_is_refused_and_leaves_no_orphans(
    name, swept, refuse_command
):
    words, out = swept
    scenario(out.parent, learning={"attacks": []}, **WORLDS[name])
    before = content(out)
    (out / "count=4" / "seed-2" / "notes.txt").write_text("mine")
    check_refusal(
        refuse_command,
        words,
        str(out),
        "that this sweep does not have, first count=",
        "--replace",
        "another folder",
    )
    (out / "count=4" / "seed-2" / "notes.txt").unlink()
    assert content(out) == before
    (out / "count=2" / "seed-2" / "notes.txt").write_text("mine")
    assert main([*words, "--replace"]) == 0
    rows = (out / "runs.csv").read_text().splitlines()[1:]
    listed = {out / row.split(",")[0] for row in rows}
    assert {path.parent for path in out.glob("*/*/study.yaml")} == listed
    # what is not ours stays
    assert (out / "count=2" / "seed-2" / "notes.txt").read_text() == "mine"
    assert not (out / "count=4" / "seed-2").exists() or out / "count=4" / "seed-2" in listed


def test_a_sweep_that_grows_keeps_what_it_has(swept, run_command):
    words, out = swept
    before = content(out)
    vary = parse_value("{values: {world.ues.count: [2, 4, 5]}, seed: [1, 2, 3]}")
    scenario(out.parent, learning={"attacks": []}, vary=vary)
    run_command(words)
    assert len((out / "runs.csv").read_text().splitlines()) == 10
    kept = {path: data for path, data in before.items() if path.name == "manifest.json"}
    assert len(kept) == 4
    assert {path: content(out)[path] for path in kept} == kept


def test_nothing_is_removed_through_a_link(swept, tmp_path, refuse_command):
    words, out = swept
    shutil.copytree(out / "count=2", tmp_path / "elsewhere")
    (out / "linked").symlink_to(tmp_path / "elsewhere")
    for rest in ([], ["--replace"]):
        check_refusal(refuse_command, [*words, *rest], "linked: is a symbolic link")
    assert (tmp_path / "elsewhere" / "seed-1" / "summary.json").exists()


def test_a_sweep_that_is_half_replaced_has_no_table(swept, monkeypatch, refuse_command):
    words, out = swept
    age_run(out / "count=2" / "seed-1")

    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep, "do_jobs", stop)
    assert main([*words, "--replace"]) == 130
    assert not (out / "runs.csv").exists()
    check_refusal(refuse_command, f"show {out}", "this sweep is not finished")


# -- a reader who leaves


@fixture
def unread(monkeypatch):
    """A command whose stdout nobody reads: call it with its words, and lines that are read before
    the reader leaves."""

    def call(words, lines=0):
        reader, writer = os.pipe()
        ears = [os.fdopen(reader)]
        left = [lines]
        printed = options.emit

        def emit(event):
            if not left[0] and ears:
                ears.pop().close()
            left[0] -= 1
            return printed(event)

        with monkeypatch.context() as patched, os.fdopen(writer, "w") as stdout:
            patched.setattr(sys, "stdout", stdout)
            patched.setattr("scenarios.app.cli.outcome.emit", emit)
            if not lines:
                ears.pop().close()
            return main(words)

    return call


@mark.parametrize("lines", [0, 1, 3])
def test_a_sweep_whose_reader_leaves_is_interrupted_and_goes_on(lines, swept, unread, run_command):
    words, out = swept
    shutil.rmtree(out)
    words = [word for word in words if word != "--quiet"]
    assert unread([*words, "--json"], lines) == 130
    done = len(list(out.glob("*/*/summary.json")))
    assert done == lines + 1 < 5
    assert not (out / "runs.csv").exists()
    run_command([*words, "--json"])
    assert len(list(out.glob("*/*/summary.json"))) == 4


def test_work_whose_result_nobody_reads_ends_with_its_own_code(swept, unread, monkeypatch):
    words, out = swept
    assert unread(words) == 0
    assert unread([*words, "--json"]) == 0
    run = out / "count=2" / "seed-1"
    assert (
        unread(["show", str(out)]) == unread(["list"]) == unread(["show", str(run), "--json"]) == 0
    )
    (run / "summary.json").write_text((run / "summary.json").read_text().replace("0", "1", 1))
    assert unread(["rerun", str(run), "--quiet"]) == 1
    real = runner.play_job

    def fails(job, *rest):
        if job.seed == 2:
            raise RuntimeError("it broke")
        return real(job, *rest)

    monkeypatch.setattr(runner, "play_job", fails)
    shutil.rmtree(out / "count=4")
    assert unread(words) == 1
    assert len((out / "failures.csv").read_text().splitlines()) == 2


# -- names that are no UTF-8

BYTES = os.fsdecode(b"out\xff")


@mark.parametrize("command", COMMANDS)
def test_a_name_that_is_no_utf_8_is_refused_before_anything_is_done(
    command, tmp_path, monkeypatch, refuse_command
):
    monkeypatch.chdir(tmp_path)
    for words in (
        [command, "campus", "--out", BYTES],
        [command, f"./{BYTES}"],
        [command, "campus", f"--page={BYTES}"],
    ):
        check_refusal(
            refuse_command,
            words,
            "out\\udcff: is not valid UTF-8; give the file or folder another name",
        )
    assert not list(tmp_path.iterdir())
