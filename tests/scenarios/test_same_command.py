"""The same command twice within a moment: the second ends with the finished result of the first,
which stays."""

import fcntl
import json
import shutil
import threading
import time
from pathlib import Path

import pytest
from conftest import TINY, write_tiny
from pytest import fixture, mark, raises

from scenarios.app.cli.commands import main
from scenarios.app.result import run
from scenarios.app.results import folder as folders
from scenarios.app.run.job import Finished
from scenarios.app.run.runner import build_run_job
from scenarios.app.study.describe import build_model
from scenarios.app.study.load import parse_value
from scenarios.app.study.study import Study
from scenarios.app.study.yaml_document import parse_document

SEEDS = {"seed": [1, 2]}
ONE_HIDDEN = {"learning.learner.hidden": [4], "learning.attacks": []}
LEARNS = parse_value(
    "{train.steps: 20, train.eval_every: 20, train.agent.learning_starts: 10, "
    "world.duration_s: 240, learning.data.samples: 20}"
)


def scenario(folder, **changes):
    return str(write_tiny(folder / "s.yaml", changes))


def run_once(folder):
    return ["run", scenario(folder)]


def radio_study(folder):
    return ["run", scenario(folder, **{"learning": None, "world.radio.measurement_noise_db": 0.0})]


def a_sweep(folder):
    return ["sweep", scenario(folder, vary=SEEDS, **ONE_HIDDEN), "--jobs", "1"]


def a_training(folder):
    changes = [word for path, value in LEARNS.items() for word in ("--set", f"{path}={value}")]
    return ["train", "power/paper", "--cache", str(folder / "cache"), *changes]


def a_tuning(folder):
    pytest.importorskip("optuna")
    space = parse_value(
        "{random: {space: {learning.learner.learning_rate: {low: 0.001, high: 0.1}}}}"
    )
    path = scenario(folder, vary=space, **ONE_HIDDEN)
    goal = ["--objective", "utility.rmse_db", "--direction", "min"]
    return ["tune", path, *goal, "--trials", "2", "--verify", "1", "--jobs", "1"]


def a_replay(folder):
    rows = [
        f"u,{60 * k},{51.99 + 0.0001 * (k % 9)},{3.99 + 0.0002 * (k % 7)},{-80 - k % 11}"
        for k in range(60)
    ]
    (folder / "t.csv").write_text("\n".join(["user,time_s,lat,lon,rsrp_dbm", *rows]) + "\n")
    words = f"replay {folder}/t.csv --since 1970-01-01 --round 20min --timezone UTC".split()
    return [*words, "--set", "learning.attacks=[{kind: closed-form}]"]


def check_claims(folder):
    scenario(folder, **ONE_HIDDEN)
    rule = {"kind": "at-most", "key": "utility.rmse_db", "bound": 30}
    claim = {
        "id": "one",
        "paper": "P",
        "where": "Fig. 1",
        "says": "it does",
        "scenario": "s.yaml",
        "rule": rule,
    }
    (folder / "claims.yaml").write_text(json.dumps({"claims": [claim]}))
    return f"claims --file {folder}/claims.yaml --jobs 1".split()


def a_repetition(folder):
    assert main([*run_once(folder), "--out", str(folder / "first"), "--quiet"]) == 0
    return ["rerun", str(folder / "first")]


def a_replaced_run(folder):
    command = [*run_once(folder), "--replace"]
    assert main([*command, "--out", str(folder / "out"), "--quiet"]) == 0
    return command


KINDS = (
    run_once,
    radio_study,
    a_sweep,
    a_training,
    a_tuning,
    a_replay,
    check_claims,
    a_repetition,
    a_replaced_run,
)


def read_summaries(out):
    """Every summary with its bytes and the moment at which it was written."""
    report = sorted(Path(out).rglob("summary.json"))
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in report}


@fixture
def meanwhile(monkeypatch):
    """Do something at the moment at which the next command locks its folder: it has found nothing
    finished there."""

    def call_at_lock(act):
        lock = folders._wait_for_lock
        left = [act]

        def lock_after(*args):
            if left:
                left.pop()()
            lock(*args)

        monkeypatch.setattr(folders, "_wait_for_lock", lock_after)

    return call_at_lock


@mark.parametrize("kind", KINDS)
def test_a_second_command_ends_with_the_result_of_the_first(
    kind, tmp_path, out, monkeypatch, capsys, meanwhile
):
    """The first plays whole where the second, which found nothing finished, is about to lock the
    folder."""
    monkeypatch.chdir(tmp_path)
    command = [*kind(tmp_path), "--out", str(out), "--quiet"]
    capsys.readouterr()
    first = {}

    def play_first():
        first["code"] = main(command)
        first["said"] = capsys.readouterr().out
        first["played"] = read_summaries(out)

    meanwhile(play_first)
    assert (main(command), first["code"]) == (0, 0)
    printed = capsys.readouterr().out
    assert printed
    assert first["said"].endswith(printed)
    assert read_summaries(out) == first["played"] != {}
    if "replace" not in kind.__name__:  # a third one, after its end
        assert main(command) == 0
        assert read_summaries(out) == first["played"]


@mark.parametrize("kind", [a_sweep, a_tuning, check_claims])
def test_work_of_several_runs_waits_for_the_same_work(
    kind, tmp_path, out, monkeypatch, run_command
):
    monkeypatch.setattr(folders, "PATIENCE_S", 0.0)
    command = [*kind(tmp_path), "--out", str(out), "--quiet"]
    run_command(command)
    before = read_summaries(out)
    (marker, *_) = sorted((out).rglob(folders.MARKER), key=lambda path: len(path.parts))
    with marker.open("r+") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        threading.Timer(0.5, fcntl.flock, (first, fcntl.LOCK_UN)).start()
        began_s = time.monotonic()
        run_command(command)
        assert time.monotonic() - began_s > 0.3
    assert read_summaries(out) == before


def test_a_first_command_keeps_its_folder_until_its_result_is_told(
    tmp_path, monkeypatch, run_command
):
    """Pages are drawn and results read while nobody else may replace what was played."""
    from scenarios.app.cli import play

    draw = play.write_run_page
    refused = []

    def look(read_summaries):
        with (
            (read_summaries.folder / folders.MARKER).open("r+") as file,
            raises(BlockingIOError),
        ):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        refused.append(True)
        return draw(read_summaries)

    monkeypatch.setattr(play, "write_run_page", look)
    run_command([*run_once(tmp_path), "--out", str(tmp_path / "r"), "--quiet"])
    assert refused == [True]
    with folders.lock_folder(tmp_path / "r", "run", lambda: None):  # it let go at its end
        pass


def study():
    return build_model(Study, parse_document(json.dumps(TINY), "tiny"))


def test_a_second_run_waits_as_long_as_the_first_plays(out, monkeypatch, capfd):
    monkeypatch.setattr(folders, "PATIENCE_S", 0.05)
    printed = []
    monkeypatch.setattr("netsim.compiled.tell", printed.append)
    under_way = threading.Event()
    ended = []

    def slow(event):
        under_way.set()
        time.sleep(0.3)

    first = threading.Thread(target=lambda: ended.append(run(study(), out, slow)))
    first.start()
    assert under_way.wait(60)
    second = run(study(), out, slow if not under_way.is_set() else None)  # a watch is never called
    first.join()
    assert dict(second) == dict(ended[0])
    assert [line for line in printed if "waiting" in line] == [
        f"netsim: {out}: another process is writing this run; waiting for it"
    ]


def test_a_command_of_another_study_is_refused_and_one_that_outlives_the_first_goes_on(
    out, monkeypatch
):
    monkeypatch.setattr(folders, "PATIENCE_S", 0.05)
    job = build_run_job(study(), out)
    with job.hold():
        second = build_run_job(study().model_copy(update={"seed": 9}), out)
        with raises(folders.BadInput, match="of another study, seed"), second.hold():
            pass
        with (
            raises(folders.BadInput, match="another process is writing"),
            folders.lock_folder(out, "run", lambda: None),
        ):
            pass
    assert run(study(), out)["rounds.played"] == 2  # the first left nothing but its text


def test_what_is_finished_meanwhile_is_told_from_what_was_finished_before(tmp_path, out):
    run(study(), out)
    with build_run_job(study(), out).hold():
        pass
    job = build_run_job(study(), out)
    assert job.first_version != (0, 0)
    shutil.copy(out / "summary.json", tmp_path / "s")
    (tmp_path / "s").replace(out / "summary.json")
    with raises(Finished), job.hold():
        pass
