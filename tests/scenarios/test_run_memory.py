"""Memory of a run: its limit, kept while it plays, and its measured peak."""

import json
import resource
import shlex
import threading
import time
from math import inf
from pathlib import Path

import numpy as np
import pytest
from conftest import TINY

import scenarios
from netsim.errors import BadInput
from netsim.trace_files.inspect import inspect_trace
from scenarios.app.cli.commands import main
from scenarios.app.result import run
from scenarios.app.results.read import open_finished
from scenarios.app.results.screen import run_screen
from scenarios.app.run import how as memory
from scenarios.app.run.clusters import OnRay, OnSlurm
from scenarios.app.run.executor import OnProcesses
from scenarios.app.run.how import GB, How, free_bytes, held_bytes, limit, peak_gb, within

HUGE = {
    "city": {"kind": "open-field", "width_m": 40_000, "height_m": 40_000},
    "base_stations": {"kind": "hexagonal", "inter_site_m": 1000},
    "radio": {"path_loss": {"kind": "uma"}},
    "ues": {"count": 100_000, "mobility": {"kind": "random-waypoint"}, "measurement_period_s": 10},
}
EXAMPLES = Path(scenarios.__file__).parent / "examples"
RADIO = {"learning": None, "world.radio.measurement_noise_db": 0, "world.duration_s": 400}


def grow(n_bytes):
    """Hold so many bytes more."""
    return np.ones(int(n_bytes), dtype=np.uint8)


@pytest.mark.parametrize("command", ["run", "sweep"])
@pytest.mark.parametrize(
    ("world", "words"),
    [
        (
            HUGE,
            ["world.radio.line_of_sight.decorrelation_m: 50 m needs too fine a grid for 1903 base"],
        ),
        (
            {"ues": {**TINY["world"]["ues"], "count": 10**9}},
            ["world.ues.count: must be at least 1 and at most 1000000"],
        ),
    ],
)
def test_a_world_that_no_memory_holds_is_refused_in_one_line(
    tmp_path, capsys, command, world, words
):
    document = (
        TINY
        | {"world": TINY["world"] | world}
        | ({"vary": {"seed": [1, 2]}} if command == "sweep" else {})
    )
    file = tmp_path / "huge.yaml"
    out = tmp_path / "out"
    file.write_text(json.dumps(document))
    began = time.monotonic()
    assert main([command, str(file), "--out", str(out)]) == 2
    assert time.monotonic() - began < 60
    assert not out.exists()
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"{file}:" in said
    assert all(word in said for word in words)


def test_the_limit_is_an_option_else_a_variable_else_the_machine(monkeypatch):
    monkeypatch.delenv("NETSIM_MEMORY_GB", raising=False)
    assert limit(None) == pytest.approx(held_bytes() + free_bytes(), rel=0.5)
    assert limit(None, {"NETSIM_MEMORY_GB": "0.5"}) == 0.5 * GB
    assert limit(3, {"NETSIM_MEMORY_GB": "0.5"}) == 3 * GB


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "many"])
def test_a_limit_that_is_none_is_refused(text):
    with pytest.raises(BadInput, match=r"NETSIM_MEMORY_GB '.*': must be a number of GB above 0"):
        limit(None, {"NETSIM_MEMORY_GB": text})
    if text != "many":
        with pytest.raises(BadInput, match=r"--memory-gb .*: must be a number of GB above 0"):
            limit(float(text))


def machine(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return free_bytes(root)


def test_what_is_free_is_what_linux_and_all_control_groups_around_leave(tmp_path):
    assert free_bytes(tmp_path) == inf
    info = {"proc/meminfo": "MemTotal: 200 kB\nMemAvailable:     100 kB\n"}
    assert machine(tmp_path / "plain", info) == 100 * 1024
    two = info | {
        "proc/self/cgroup": "0::/a/b\n",
        "sys/fs/cgroup/a/memory.max": "50000\n",
        "sys/fs/cgroup/a/memory.current": "20000\n",
        "sys/fs/cgroup/a/memory.stat": "anon 5\ninactive_file 1000\n",
        "sys/fs/cgroup/a/b/memory.max": "max\n",
        "sys/fs/cgroup/a/b/memory.current": "20000\n",
    }
    assert machine(tmp_path / "two", two) == 50000 - 20000 + 1000


@pytest.mark.parametrize("changes", [{}, RADIO])
def test_a_run_that_grows_is_stopped_in_one_line_and_goes_on_to_the_same_bytes(
    tiny, tmp_path, table_bytes, changes
):
    study = tiny(changes)
    run(study, tmp_path / "whole")
    most_gb = held_bytes() / GB + 0.4
    with pytest.raises(
        BadInput, match=rf"not enough memory .*: its limit is {most_gb:.2f} GB; raise"
    ) as caught:
        run(study, tmp_path / "cut", lambda seen: grow(GB), how=How(memory_gb=most_gb))
    assert len(caught.value.lines) == 1
    assert "take fewer UEs" in caught.value.lines[0]
    assert not (tmp_path / "cut" / "summary.json").exists()
    assert not list((tmp_path / "cut").glob("*.part"))
    run(study, tmp_path / "cut")
    assert table_bytes(tmp_path / "cut") == table_bytes(tmp_path / "whole")


@pytest.mark.parametrize("changes", [{}, RADIO])
def test_the_peak_is_that_of_the_run_in_manifest_and_terminal(tiny, tmp_path, changes):
    grow(1.5 * GB)  # before it, and given back
    began_gb = held_bytes() / GB
    run(tiny(changes), tmp_path, lambda seen: np.ones(int(0.5 * GB), dtype=np.uint8))
    found_gb = json.loads((tmp_path / "manifest.json").read_text())["timing"]["peak_memory_gb"]
    assert began_gb + 0.49 < found_gb < began_gb + 1.2
    *_, memory, _ = run_screen(open_finished(tmp_path), "the page")
    assert memory.split() == ["memory", "peak", str(found_gb), "GB"]
    assert peak_gb() >= found_gb


def test_nothing_is_left_of_a_limit_and_other_errors_pass():
    before = resource.getrlimit(resource.RLIMIT_DATA)
    line = r"not enough memory \(Unable to allocate 5\.00 PiB .*; raise --memory-gb"
    with pytest.raises(BadInput, match=line), within(1e18):
        np.empty(5 * 2**50 // 8)
    for error in (KeyboardInterrupt, ValueError, RuntimeError):
        with pytest.raises(error), within(inf):
            raise error
    for ask in (lambda: np.ones(3 * 2**30, dtype=np.uint8), lambda: bytearray(3 * 2**30)):
        with pytest.raises(BadInput, match="not enough memory"), within(held_bytes() + GB):
            ask()
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_limits_lie_in_one_another():
    with within(held_bytes() + GB):
        with pytest.raises(BadInput, match="before it begins"), within(held_bytes() - GB / 100):
            pytest.fail("it held more already")
        with pytest.raises(BadInput, match="not enough memory"), within(inf):
            grow(2 * GB)


def test_outside_of_the_main_thread_nothing_is_interrupted(tiny, tmp_path):
    thread = threading.Thread(target=run, args=(tiny(), tmp_path))
    thread.start()
    thread.join()
    assert (tmp_path / "summary.json").exists()


def test_runs_at_once_share_the_limit(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("NETSIM_MEMORY_GB", raising=False)
    file = tmp_path / "s.yaml"
    out = tmp_path / "w"
    file.write_text(json.dumps(TINY | {"vary": {"seed": [1, 2, 3]}}))
    command = ["sweep", str(file), "--out", str(out), "--quiet", "--jobs"]
    # three at once: no more are played
    assert main([*command, "8", "--memory-gb", "0.03"]) == 2
    assert not out.exists()
    said = capsys.readouterr().err
    assert "its limit is 0.01 GB; raise" in said
    assert said.count("\n") == 1


def test_each_of_several_runs_has_an_equal_part(monkeypatch):
    monkeypatch.delenv("NETSIM_MEMORY_GB", raising=False)
    third = How(memory_gb=9).among(3)
    assert third == How(memory_gb=3)
    assert How(memory_gb=9).among(0) == How(memory_gb=9)
    assert How().among(1) == How()
    assert How().among(4).memory_gb == pytest.approx(limit(None) / GB / 4, rel=0.5)
    monkeypatch.setattr(memory, "free_bytes", lambda: inf)
    assert How().among(4) == How()
    monkeypatch.setenv("NETSIM_MEMORY_GB", "8")
    assert How().among(4).memory_gb == 2
    assert [engine.here(5) for engine in (OnProcesses(), OnRay(), OnRay("auto"), OnSlurm())] == [
        5,
        5,
        1,
        1,
    ]


def test_trainings_have_the_limit_too(tmp_path, capsys):
    assert (
        main(
            [
                "train",
                "power/pedestrians",
                "--memory-gb",
                "0.02",
                "--quiet",
                "--out",
                str(tmp_path / "t"),
            ]
        )
        == 2
    )
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "0.02 GB; raise --memory-gb" in said
    assert not (tmp_path / "t").exists()


@pytest.mark.slow
@pytest.mark.parametrize("trace", sorted(p.name for p in EXAMPLES.iterdir()))
def test_what_an_inspection_suggests_is_played(tmp_path, trace):
    line = inspect_trace(EXAMPLES / trace).splitlines()[-1]
    brief = ["--set", "learning.rounds=2", "--set", "learning.attacks=[{kind: closed-form}]"]
    command = [*shlex.split(line.removeprefix("try").strip())[1:], *brief]
    assert main([*command, "--quiet", "--memory-gb", "2", "--out", str(tmp_path / "out")]) == 0
