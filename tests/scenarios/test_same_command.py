"""The same command twice within a moment: the second ends with the finished result of the first,
which stays."""

import copy
import fcntl
import json
import shutil
import threading
import time
from pathlib import Path

import pytest
from conftest import TINY

from scenarios.app.cli.commands import main
from scenarios.app.result import run
from scenarios.app.results import folder as folders
from scenarios.app.run.job import Finished
from scenarios.app.run.runner import run_job
from scenarios.app.study.describe import build
from scenarios.app.study.load import set_value
from scenarios.app.study.study import Study
from scenarios.app.study.yaml_document import read_text

SEEDS = {"seed": [1, 2]}
ONE_HIDDEN = {"learning.learner.hidden": [4], "learning.attacks": []}
LEARNS = {
    "train.steps": 20,
    "train.eval_every": 20,
    "train.agent.learning_starts": 10,
    "world.duration_s": 240,
    "learning.data.samples": 20,
}


def scenario(folder, **changes):
    document = read_text(json.dumps(copy.deepcopy(TINY)), "tiny")
    for path, value in changes.items():
        set_value(document, path, copy.deepcopy(value))
    (folder / "s.yaml").write_text(json.dumps(document.data))
    return str(folder / "s.yaml")


def one_run(folder):
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
    space = {"random": {"space": {"learning.learner.learning_rate": {"low": 0.001, "high": 0.1}}}}
    path = scenario(folder, vary=space, **ONE_HIDDEN)
    goal = ["--objective", "utility.rmse_db", "--direction", "min"]
    return ["tune", path, *goal, "--trials", "2", "--verify", "1", "--jobs", "1"]


def a_replay(folder):
    rows = [
        f"u,{60 * k},{51.99 + 0.0001 * (k % 9)},{3.99 + 0.0002 * (k % 7)},{-80 - k % 11}"
        for k in range(60)
    ]
    (folder / "t.csv").write_text("\n".join(["user,time_s,lat,lon,rsrp_dbm", *rows]) + "\n")
    words = [
        "replay",
        str(folder / "t.csv"),
        "--since",
        "1970-01-01",
        "--round",
        "20min",
        "--timezone",
        "UTC",
    ]
    return [*words, "--set", "learning.attacks=[{kind: closed-form}]"]


def some_claims(folder):
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
    return ["claims", "--file", str(folder / "claims.yaml"), "--jobs", "1"]


def a_repetition(folder):
    assert main([*one_run(folder), "--out", str(folder / "first"), "--quiet"]) == 0
    return ["rerun", str(folder / "first")]


def a_replaced_run(folder):
    command = [*one_run(folder), "--replace"]
    assert main([*command, "--out", str(folder / "out"), "--quiet"]) == 0
    return command


KINDS = (
    one_run,
    radio_study,
    a_sweep,
    a_training,
    a_tuning,
    a_replay,
    some_claims,
    a_repetition,
    a_replaced_run,
)


def played(out):
    """Every summary with its bytes and the moment at which it was written."""
    found = sorted(Path(out).rglob("summary.json"))
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


@pytest.fixture
def meanwhile(monkeypatch):
    """Do something at the moment at which the next command locks its folder: it has found nothing
    finished there."""

    def at_lock(act):
        lock = folders._lock
        left = [act]

        def wrapped(*args):
            if left:
                left.pop()()
            lock(*args)

        monkeypatch.setattr(folders, "_lock", wrapped)

    return at_lock


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_second_command_ends_with_the_result_of_the_first(
    kind, tmp_path, monkeypatch, capsys, meanwhile
):
    """The first plays whole where the second, which found nothing finished, is about to lock the
    folder."""
    monkeypatch.chdir(tmp_path)
    command = [*kind(tmp_path), "--out", str(tmp_path / "out"), "--quiet"]
    capsys.readouterr()
    first = {}

    def play_first():
        first["code"] = main(command)
        first["said"] = capsys.readouterr().out
        first["played"] = played(tmp_path / "out")

    meanwhile(play_first)
    assert (main(command), first["code"]) == (0, 0)
    told = capsys.readouterr().out
    assert told
    assert first["said"].endswith(told)
    assert played(tmp_path / "out") == first["played"] != {}
    if "replace" not in kind.__name__:  # a third one, after its end
        assert main(command) == 0
        assert played(tmp_path / "out") == first["played"]


@pytest.mark.parametrize("kind", [a_sweep, a_tuning, some_claims], ids=lambda kind: kind.__name__)
def test_work_of_several_runs_waits_for_the_same_work(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "PATIENCE_S", 0.0)
    command = [*kind(tmp_path), "--out", str(tmp_path / "out"), "--quiet"]
    assert main(command) == 0
    before = played(tmp_path / "out")
    (marker, *_) = sorted(
        (tmp_path / "out").rglob(folders.MARKER), key=lambda path: len(path.parts)
    )
    with marker.open("r+") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        threading.Timer(0.5, fcntl.flock, (first, fcntl.LOCK_UN)).start()
        began_s = time.monotonic()
        assert main(command) == 0
        assert time.monotonic() - began_s > 0.3
    assert played(tmp_path / "out") == before


def test_a_first_command_keeps_its_folder_until_its_result_is_told(tmp_path, monkeypatch, capsys):
    """Pages are drawn and results read while nobody else may replace what was played."""
    from scenarios.app.cli import play

    draw = play.draw_run
    refused = []

    def look(played):
        with (played.folder / folders.MARKER).open("r+") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        refused.append(True)
        return draw(played)

    monkeypatch.setattr(play, "draw_run", look)
    assert main([*one_run(tmp_path), "--out", str(tmp_path / "r"), "--quiet"]) == 0
    assert refused == [True]
    with folders.held(tmp_path / "r", "run", lambda: None):  # it let go at its end
        pass


def study():
    return build(Study, read_text(json.dumps(TINY), "tiny"))


def test_a_second_run_waits_as_long_as_the_first_plays(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(folders, "PATIENCE_S", 0.05)
    told = []
    monkeypatch.setattr("netsim.compiled.tell", told.append)
    under_way = threading.Event()
    ended = []

    def slow(event):
        under_way.set()
        time.sleep(0.3)

    first = threading.Thread(target=lambda: ended.append(run(study(), tmp_path / "r", slow)))
    first.start()
    assert under_way.wait(60)
    second = run(
        study(), tmp_path / "r", slow if not under_way.is_set() else None
    )  # a watch is never called
    first.join()
    assert dict(second) == dict(ended[0])
    assert [line for line in told if "waiting" in line] == [
        f"netsim: {tmp_path / 'r'}: another process is writing this run; waiting for it"
    ]


def test_a_command_of_another_study_is_refused_and_one_that_outlives_the_first_goes_on(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(folders, "PATIENCE_S", 0.05)
    job = run_job(study(), tmp_path / "r")
    with job.hold():
        other = run_job(study().model_copy(update={"seed": 9}), tmp_path / "r")
        with pytest.raises(folders.BadInput, match="of another study, seed"), other.hold():
            pass
        with (
            pytest.raises(folders.BadInput, match="another process is writing"),
            folders.held(tmp_path / "r", "run", lambda: None),
        ):
            pass
    assert run(study(), tmp_path / "r")["rounds.played"] == 2  # the first left nothing but its text


def test_what_is_finished_meanwhile_is_told_from_what_was_finished_before(tmp_path):
    run(study(), tmp_path / "r")
    with run_job(study(), tmp_path / "r").hold():
        pass
    job = run_job(study(), tmp_path / "r")
    assert job.seen != (0, 0)
    shutil.copy(tmp_path / "r" / "summary.json", tmp_path / "s")
    (tmp_path / "s").replace(tmp_path / "r" / "summary.json")
    with pytest.raises(Finished), job.hold():
        pass
