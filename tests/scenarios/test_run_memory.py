"""Memory of a run: its limit, kept while it plays, and its measured peak."""

import json
import os
import resource
import shlex
import subprocess
import sys
import threading
import time
from math import inf
from pathlib import Path

import numpy as np
import pytest
from conftest import TINY, write_tiny
from pytest import approx, mark, raises

import scenarios
from netsim.errors import BadInput
from netsim.trace_files.inspect import inspect_trace
from scenarios.app.cli.commands import main
from scenarios.app.result import run
from scenarios.app.results.folder import read_json
from scenarios.app.results.read import open_finished_run
from scenarios.app.results.screen import lay_out_run
from scenarios.app.run import how as memory
from scenarios.app.run.clusters import OnRay, OnSlurm
from scenarios.app.run.executor import OnProcesses
from scenarios.app.run.how import (
    GB,
    Resources,
    limit_process_memory,
    measure_free_memory_bytes,
    measure_held_bytes,
    measure_peak_since_limit_gb,
    resolve_limit_bytes,
)
from scenarios.app.study.load import parse_value

HUGE = parse_value(
    "{city: {kind: open-field, width_m: 40000, height_m: 40000}, "
    "base_stations: {kind: hexagonal, inter_site_m: 1000}, "
    "radio: {path_loss: {kind: uma}}, ues: {count: 100000, "
    "mobility: {kind: random-waypoint}, measurement_period_s: 10}}"
)
EXAMPLES = Path(scenarios.__file__).parent / "examples"
RADIO = {"learning": None, "world.radio.measurement_noise_db": 0, "world.duration_s": 400}


def grow(n_bytes):
    """Hold so many bytes more."""
    return np.ones(int(n_bytes), dtype=np.uint8)


@mark.parametrize("command", ["run", "sweep"])
@mark.parametrize(
    "world, words",
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
    tmp_path, out, capsys, command, world, words
):
    document = (
        TINY
        | {"world": TINY["world"] | world}
        | ({"vary": {"seed": [1, 2]}} if command == "sweep" else {})
    )
    file = tmp_path / "huge.yaml"
    file.write_text(json.dumps(document))
    began = time.monotonic()
    assert main([command, str(file), "--out", str(out)]) == 2
    assert time.monotonic() - began < 60
    assert not out.exists()
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert f"{file}:" in printed
    assert all(word in printed for word in words)


def test_the_limit_is_an_option_else_a_variable_else_the_machine(monkeypatch):
    monkeypatch.delenv("NETSIM_MEMORY_GB", raising=False)
    assert resolve_limit_bytes(None) == approx(
        measure_held_bytes() + measure_free_memory_bytes(), rel=0.5
    )
    assert resolve_limit_bytes(None, {"NETSIM_MEMORY_GB": "0.5"}) == 0.5 * GB
    assert resolve_limit_bytes(3, {"NETSIM_MEMORY_GB": "0.5"}) == 3 * GB


@mark.parametrize("text", ["0", "-1", "nan", "inf", "many"])
def test_a_limit_that_is_none_is_refused(text):
    with raises(BadInput, match=r"NETSIM_MEMORY_GB '.*': must be a number of GB above 0"):
        resolve_limit_bytes(None, {"NETSIM_MEMORY_GB": text})
    if text != "many":
        with raises(BadInput, match=r"--memory-gb .*: must be a number of GB above 0"):
            resolve_limit_bytes(float(text))


def machine(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return measure_free_memory_bytes(root)


def test_what_is_free_is_what_linux_and_all_control_groups_around_leave(tmp_path):
    assert measure_free_memory_bytes(tmp_path) == inf
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


@mark.parametrize("changes", [{}, RADIO])
def test_a_run_that_grows_is_stopped_in_one_line_and_goes_on_to_the_same_bytes(
    tiny, cut, whole, table_bytes, changes
):
    study = tiny(changes)
    run(study, whole)
    most_gb = measure_held_bytes() / GB + 0.4
    with raises(
        BadInput, match=rf"not enough memory .*: its limit is {most_gb:.2f} GB; raise"
    ) as caught:
        run(study, cut, lambda seen: grow(GB), resources=Resources(memory_gb=most_gb))
    assert len(caught.value.lines) == 1
    assert not (cut / "summary.json").exists()
    assert not list((cut).glob("*.part"))
    run(study, cut)
    assert table_bytes(cut) == table_bytes(whole)


@mark.parametrize("changes", [{}, RADIO])
def test_the_peak_is_that_of_the_run_in_manifest_and_terminal(tiny, tmp_path, changes):
    grow(0.8 * GB)  # before it, and given back
    began_gb = measure_held_bytes() / GB
    run(tiny(changes), tmp_path, lambda seen: np.ones(int(0.2 * GB), dtype=np.uint8))
    found_gb = read_json(tmp_path / "manifest.json")["timing"]["peak_memory_gb"]
    assert began_gb + 0.19 < found_gb < began_gb + 0.6
    *_, memory, _ = lay_out_run(open_finished_run(tmp_path), "the page")
    assert memory.split() == ["memory", "peak", str(found_gb), "GB"]
    assert measure_peak_since_limit_gb() >= found_gb


def test_nothing_is_left_of_a_limit_and_other_errors_pass():
    before = resource.getrlimit(resource.RLIMIT_DATA)
    line = r"not enough memory \(Unable to allocate 5\.00 PiB .*; raise --memory-gb"
    with raises(BadInput, match=line), limit_process_memory(1e18):
        np.empty(5 * 2**50 // 8)
    for error in (KeyboardInterrupt, ValueError, RuntimeError):
        with raises(error), limit_process_memory(inf):
            raise error
    for ask in (lambda: np.ones(3 * 2**30, dtype=np.uint8), lambda: bytearray(3 * 2**30)):
        with (
            raises(BadInput, match="not enough memory"),
            limit_process_memory(measure_held_bytes() + GB),
        ):
            ask()
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_limits_lie_in_one_another():
    with limit_process_memory(measure_held_bytes() + GB):
        with (
            raises(BadInput, match="before it begins"),
            limit_process_memory(measure_held_bytes() - GB / 100),
        ):
            pytest.fail("it held more already")
        with raises(BadInput, match="not enough memory"), limit_process_memory(inf):
            grow(2 * GB)


def test_outside_of_the_main_thread_nothing_is_interrupted(tiny, tmp_path):
    thread = threading.Thread(target=run, args=(tiny(), tmp_path))
    thread.start()
    thread.join()
    assert (tmp_path / "summary.json").exists()


def test_runs_at_once_share_the_limit(tmp_path, out, capsys, monkeypatch):
    monkeypatch.delenv("NETSIM_MEMORY_GB", raising=False)
    file = tmp_path / "s.yaml"
    write_tiny(file, {"vary": {"seed": [1, 2, 3]}})
    command = f"sweep {file} --out {out} --quiet --jobs".split()
    # three at once: no more are played
    assert main([*command, "8", "--memory-gb", "0.03"]) == 2
    assert not out.exists()
    printed = capsys.readouterr().err
    assert "its limit is 0.01 GB; raise" in printed
    assert printed.count("\n") == 1


def test_each_of_several_runs_has_an_equal_part(monkeypatch):
    monkeypatch.delenv("NETSIM_MEMORY_GB", raising=False)
    third = Resources(memory_gb=9).split_memory_among(3)
    assert third == Resources(memory_gb=3)
    assert Resources(memory_gb=9).split_memory_among(0) == Resources(memory_gb=9)
    assert Resources().split_memory_among(1) == Resources()
    assert Resources().split_memory_among(4).memory_gb == approx(
        resolve_limit_bytes(None) / GB / 4, rel=0.5
    )
    monkeypatch.setattr(memory, "measure_free_memory_bytes", lambda: inf)
    assert Resources().split_memory_among(4) == Resources()
    monkeypatch.setenv("NETSIM_MEMORY_GB", "8")
    assert Resources().split_memory_among(4).memory_gb == 2
    assert [
        engine.count_jobs_sharing_memory(5)
        for engine in (OnProcesses(), OnRay(), OnRay("auto"), OnSlurm())
    ] == [
        5,
        5,
        1,
        1,
    ]


def test_trainings_have_the_limit_too(out, refuse_command):
    assert "0.02 GB; raise --memory-gb" in refuse_command(
        f"train power/pedestrians --memory-gb 0.02 --quiet --out {out}"
    )
    assert not out.exists()


@mark.slow
@mark.parametrize("trace", sorted(p.name for p in EXAMPLES.iterdir()))
def test_what_an_inspection_suggests_is_played(out, trace, run_command):
    line = inspect_trace(EXAMPLES / trace).splitlines()[-1]
    brief = ["--set", "learning.rounds=2", "--set", "learning.attacks=[{kind: closed-form}]"]
    command = [*shlex.split(line.removeprefix("try").strip())[1:], *brief]
    run_command([*command, "--quiet", "--memory-gb", "2", "--out", str(out)])


@pytest.mark.parametrize("stated, loaded", [("1", False), ("2", True)])
def test_pytorch_has_one_thread_within_a_run_and_is_loaded_only_to_have_it(stated, loaded):
    code = """
import sys
from scenarios.app.run.how import use_one_thread
with use_one_thread():
    loaded = "torch" in sys.modules
    import torch
    within = torch.get_num_threads()
print(loaded, within, torch.get_num_threads())
"""
    env = os.environ | dict.fromkeys(memory.THREADS, stated)
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True)
    assert out.stdout.decode().split() == [str(loaded), "1", stated]
