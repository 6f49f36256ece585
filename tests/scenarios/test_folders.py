"""Folders of results: marked, locked, free of links, taken up after any kill, and refused when
damaged."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
from conftest import ROOT, write_campus
from pytest import mark, raises
from refused import catch_line

from netsim.checkpoint import load_tree, save_tree
from netsim.errors import BadInput
from netsim.record import Column, Recorder
from scenarios.app.cli.commands import main
from scenarios.app.result import run
from scenarios.app.results import folder as folders
from scenarios.app.results.folder import MARKER, lock_folder, read_marker

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
free = lambda: None  # noqa: E731 - whoever asks may have the folder


def interrupt_run(study, folder):
    """A run with a checkpoint after its first round."""

    def stop(progress):
        raise KeyboardInterrupt

    with raises(KeyboardInterrupt):
        run(study, folder, stop, replace=True)
    return folder


def check_refusal(study, folder, words):
    with raises(BadInput, match=words):
        run(study, folder)


# -- kills


def test_a_page_that_was_never_whole_keeps_nobody_out(tmp_path):
    from scenarios.app.results.folder import PAGE, refuse_foreign_names

    (tmp_path / f"report.html.{'0' * 16}.part").write_text("<ht")
    refuse_foreign_names(tmp_path, [PAGE], "a replay")
    (tmp_path / "other.part").write_text("")
    assert "does not belong" in catch_line(refuse_foreign_names, tmp_path, [PAGE], "a replay")


def test_nothing_of_another_study_stays_behind_when_it_is_replaced(tiny, play_tiny, out):
    play_tiny()
    (out / "surfaces.npz").write_bytes(b"of another study")
    run(tiny({"seed": 9}), out, replace=True)
    assert not (out / "surfaces.npz").exists()


# -- the marker and its lock


def test_a_marker_says_what_a_folder_is(tiny, play_tiny, tmp_path, out):
    with lock_folder(out, "run", free):
        assert read_marker(out) == "run"
    play_tiny()  # with nothing but its marker
    assert read_marker(out) == "run"
    with lock_folder(tmp_path / "t", "training", free):
        pass
    check_refusal(tiny(), tmp_path / "t", "holds a training, not a run")
    (out / MARKER).write_text("something else")
    check_refusal(tiny(), out, "no marker of netsim")


def test_never_two_hold_a_folder(out, monkeypatch):
    """Eight at once, again and again: one has it, the others are refused."""
    monkeypatch.setattr(folders, "PATIENCE_S", 0.0)
    inside = []
    max_n = []
    had = []
    start = threading.Barrier(8)

    def try_it():
        for _ in range(40):
            start.wait()
            try:
                with lock_folder(out, "run", free):
                    inside.append(1)
                    max_n.append(len(inside))
                    time.sleep(0.0005)
                    inside.pop()
                    had.append(1)
            except BadInput:
                pass

    threads = [threading.Thread(target=try_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(max_n) == 1
    assert len(had) >= 40


def test_a_lock_ends_with_its_owner(out):
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom scenarios.app.results.folder "
        "import lock_folder\n"
        "with lock_folder(Path(sys.argv[1]), 'run', lambda: None):\n    print('held', "
        "flush=True)\n    time.sleep(60)\n"
    )
    command = [sys.executable, "-c", code, str(out)]
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout.readline() == "held\n"
        with (
            raises(BadInput, match="another process is writing this run"),
            lock_folder(out, "run", free),
        ):
            pass
        owner.kill()
    with lock_folder(out, "run", free):
        pass


# -- workers


WORKERS = """
import os, sys, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from scenarios.app.run.events import work_for_parent

if __name__ == "__main__":
    pool = ProcessPoolExecutor(2, mp_context=get_context("spawn"), initializer=work_for_parent)
    asked = [pool.submit(os.getpid) for _ in range(20)]
    pids = {future.result() for future in asked}
    print(*pids, flush=True)
    for _ in pids:
        pool.submit(time.sleep, 60)
    time.sleep(60)
"""


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes by /proc")
def test_workers_end_with_their_parent(tmp_path):
    (tmp_path / "workers.py").write_text(WORKERS)
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "workers.py")],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert pids
        assert all(map(alive, pids))
        parent.kill()
    until = time.monotonic() + 10
    while any(map(alive, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(alive, pids))


@mark.slow
def test_two_signals_within_four_milliseconds(out):
    command = [
        sys.executable,
        "-m",
        "scenarios.app.cli.commands",
        "run",
        "town",
        "--out",
        str(out),
    ]
    with subprocess.Popen(
        command, cwd=ROOT, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True
    ) as process:
        next(line for line in process.stderr if "round" in line)
        process.send_signal(signal.SIGINT)
        time.sleep(0.004)
        process.send_signal(signal.SIGINT)
        printed = process.stderr.read()
    assert process.returncode == 130
    assert printed.count("interrupted") == 1
    assert (out / "checkpoint.npz").exists()


# -- links and other things that are no regular files


NAMES = [
    "rounds.csv",
    "map.npz",
    "checkpoint.npz",
    "study.yaml",
    "summary.json",
    "manifest.json",
    MARKER,
]


@mark.parametrize("name", NAMES)
def test_nothing_is_written_or_read_through_a_link(name, tiny, play_tiny, tmp_path, out):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    play_tiny()
    (out / name).unlink(missing_ok=True)
    (out / name).symlink_to(victim)
    check_refusal(tiny(), out, "symbolic link")
    with raises(BadInput):
        run(tiny(), out, replace=True)
    assert victim.read_text() == "precious"


def test_a_pipe_or_a_folder_in_place_of_a_file_is_refused(tiny, play_tiny, tmp_path):
    for make, words in ((os.mkfifo, "no regular file"), (os.mkdir, "is a folder")):
        folder = tmp_path / words.replace(" ", "-")
        play_tiny(None, folder)
        (folder / "updates.csv").unlink()
        make(folder / "updates.csv")
        check_refusal(tiny(), folder, words)
        assert main(["report", str(folder)]) == 2


def test_a_table_with_a_second_name_is_not_gone_on_with(tiny, tmp_path):
    folder = interrupt_run(tiny(), tmp_path / "r")
    os.link(folder / "rounds.csv", tmp_path / "backup.csv")
    before = (tmp_path / "backup.csv").read_bytes()
    check_refusal(tiny(), folder, r"rounds\.csv: has a second name")
    assert (tmp_path / "backup.csv").read_bytes() == before


def test_the_folders_of_a_sweep_are_no_links(tmp_path, out, refuse_command):
    (tmp_path / "elsewhere").mkdir()
    with lock_folder(out, "sweep", free):
        (out / "as-written").symlink_to(tmp_path / "elsewhere")
    scenario = write_campus(tmp_path / "s.yaml", "vary: {seed: [1, 2]}\n")
    command = f"sweep {scenario} --out {out} --jobs 1 --quiet"
    assert "as-written: is a symbolic link" in refuse_command(command)
    assert not list((tmp_path / "elsewhere").iterdir())


# -- damage


def test_a_checkpoint_touches_no_file_of_another_name(tiny, tmp_path):
    (tmp_path / "victim.csv").write_text("precious")
    folder = interrupt_run(tiny(), tmp_path / "r")
    tree = load_tree(folder / "checkpoint.npz")
    tree["tables"]["../victim"] = [0, tree["tables"]["rounds"][1]]
    save_tree(folder / "checkpoint.npz", tree)
    check_refusal(tiny(), folder, "not of these tables")
    assert (tmp_path / "victim.csv").read_text() == "precious"


NO_SIZES = [{"rounds": [size, "00"]} for size in (float("inf"), float("nan"), "all", None)]


@mark.parametrize("marks", [None, [], {"rounds": [0, ""]}, *NO_SIZES])
def test_marks_that_are_none_are_refused(marks, tmp_path):
    recorder = Recorder(tmp_path, {"rounds": {"round": Column("")}})
    recorder.write_row("rounds", round=1)
    with raises(ValueError, match=r"tables|not what|missing or shorter"):
        recorder.resume(marks)


def test_one_changed_digit_of_a_table_is_noticed(tiny, play_tiny, tmp_path, out, table_bytes):
    folder = interrupt_run(tiny(), tmp_path / "r")
    whole = (folder / "updates.csv").read_bytes()
    index = next(i for i in range(len(whole) - 1, 0, -1) if chr(whole[i]).isdigit())
    changed = b"1" if whole[index : index + 1] != b"1" else b"2"
    (folder / "updates.csv").write_bytes(whole[:index] + changed + whole[index + 1 :])
    check_refusal(tiny(), folder, r"updates\.csv: is not what the interrupted run wrote.*--replace")
    run(tiny(), folder, replace=True)
    play_tiny()
    assert table_bytes(folder) == table_bytes(out)


def test_changed_numbers_of_a_checkpoint_are_noticed(tmp_path):
    """Also where the archive itself is sound: written again by numpy."""
    save_tree(tmp_path / "c.npz", {"weights": np.ones(4), "done": 3})
    with np.load(tmp_path / "c.npz") as stored:
        arrays = dict(stored)
    for changed in (arrays["data"][::-1], arrays["data"][:-1]):
        np.savez(tmp_path / "c.npz", **(arrays | {"data": changed}))
        with raises(ValueError, match="a damaged one"):
            load_tree(tmp_path / "c.npz")
    np.savez(tmp_path / "c.npz", **arrays)
    assert load_tree(tmp_path / "c.npz")["done"] == 3


@mark.parametrize("seed", range(4))
def test_any_damaged_byte_of_a_checkpoint_is_a_value_error(seed, tmp_path):
    """Refused, or the same tree where the byte says nothing (a date of the archive)."""
    path = tmp_path / "c.npz"
    tree = {"x": np.arange(5.0), "text": "abc"}
    save_tree(path, tree)
    whole = path.read_bytes()
    draw = np.random.default_rng(seed)
    for index in draw.integers(0, len(whole), 60):
        path.write_bytes(
            whole[:index] + bytes([whole[index] ^ int(draw.integers(1, 256))]) + whole[index + 1 :]
        )
        try:
            result = load_tree(path)
        except ValueError as error:
            assert "damaged" in str(error)
        else:
            assert result["text"] == "abc"
            assert (result["x"] == tree["x"]).all()


def test_every_byte_of_a_table_is_hashed_once(tmp_path, monkeypatch):
    """So the cost does not grow with the square of rounds, however many checkpoints there are."""
    import hashlib

    from netsim import record

    hashed = []
    sha256 = hashlib.sha256

    class Counting:
        def __init__(self, text=b""):
            self.of = sha256()
            self.update(text)

        def update(self, text):
            hashed.append(len(text))
            self.of.update(text)

        def hexdigest(self):
            return self.of.hexdigest()

    monkeypatch.setattr(record.hashlib, "sha256", Counting)
    recorder = Recorder(tmp_path, {"rounds": {"round": Column(""), "figure": Column("")}})
    for k in range(200):
        recorder.write_row("rounds", round=k, figure=0.5)
        marks = recorder.compute_marks()
    size = (tmp_path / "rounds.csv").stat().st_size
    assert marks["rounds"][0] == size == sum(hashed)
    recorder.write_row("rounds", round=200, figure=0.5)
    again = Recorder(tmp_path, recorder.schemas)
    again.resume(marks)
    again.cut()
    assert (tmp_path / "rounds.csv").stat().st_size == size
    assert again.compute_marks() == marks


def test_a_checkpoint_with_a_member_that_is_no_array_is_refused(tmp_path):
    import zipfile

    path = tmp_path / "c.npz"
    save_tree(path, {"a": np.zeros(3)})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("more", b"text")
    with raises(ValueError, match="not a checkpoint, or a damaged one"):
        load_tree(path)


def test_a_folder_of_folders_shows_what_each_found(
    tmp_path, tiny_run, monkeypatch, refuse_command, run_command
):
    """Finished, unfinished, of a replay, and none of ours."""
    monkeypatch.chdir(tmp_path)
    for name in ("runs/city/1", "runs/half", "runs/replay/walk/by-day", "runs/some/letters"):
        shutil.copytree(tiny_run, name) if "letters" not in name else Path(name).mkdir(parents=True)
    Path("runs/half/summary.json").unlink()
    Path("runs/half/error.txt").write_text("Traceback:\nRuntimeError: boom\n")
    printed = run_command("show runs")
    for line in (
        "city/1, seed 3: ",
        r"half: this run failed \(RuntimeError: boom\); ",
        "replay/walk/by-day, seed 3: ",
    ):
        assert re.search(rf"^  {line}", printed, re.MULTILINE), line
    assert "letters" not in printed
    report = json.loads(run_command("show runs --json"))
    assert [item["label"] for item in report["runs"]] == ["city/1", "replay/walk/by-day"]
    assert [(item["folder"], item["kind"]) for item in report["folders"]] == [
        ("runs/city/1", "run"),
        ("runs/half", "unfinished"),
        ("runs/replay/walk/by-day", "run"),
    ]
    assert "no result of netsim in it" in refuse_command("show runs/some")
