"""Two hundred brief runs: the same bytes on processes and on a cluster whose workers are killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT, TINY

RUNS = 200
KILLS = 10


def command(scenario, out, *rest):
    netsim = [sys.executable, "-m", "scenarios.app.cli.commands"]
    return [
        *netsim,
        "sweep",
        str(scenario),
        "--out",
        str(out),
        "--quiet",
        "--retries",
        str(KILLS),
        *rest,
    ]


def tables(out):
    runs = sorted(p.relative_to(out) for p in out.glob("*/seed-*/*.csv"))
    return {str(p): (out / p).read_bytes() for p in [Path("runs.csv"), *runs]}


def kill_workers(process, workers, out):
    """Kill a worker of a sweep again and again as it goes on; how many were killed."""
    kills = 0
    while process.poll() is None:
        done = len(list(out.glob("*/seed-*/summary.json")))
        if kills < KILLS and done >= (kills + 1) * RUNS // (KILLS + 2) and (result := workers()):
            try:
                os.kill(result[kills % len(result)], signal.SIGKILL)
                kills += 1
            except ProcessLookupError:
                pass
        time.sleep(0.02)
    return kills


@pytest.mark.slow
def test_the_same_bytes_whoever_plays_and_whoever_is_killed(tmp_path, out):
    pytest.importorskip("ray")
    from ray_nodes import nodes

    world = TINY["world"] | {"duration_s": 900, "radio": {"handover": {}}}
    text = TINY | {"learning": None, "world": world, "vary": {"seed": list(range(1, RUNS + 1))}}
    (tmp_path / "s.yaml").write_text(json.dumps(text))
    subprocess.run(
        command(tmp_path / "s.yaml", tmp_path / "p", "--jobs", "2"), cwd=ROOT, check=True
    )
    with nodes() as two:
        on = ["--on", "ray", "--address", two.address]
        with subprocess.Popen(
            command(tmp_path / "s.yaml", out, *on), cwd=ROOT, env=two.environment
        ) as item:
            kills = kill_workers(item, two.workers, out)
    assert item.returncode == 0
    assert kills == KILLS
    expected = tables(tmp_path / "p")
    assert len(expected) > RUNS
    assert tables(out) == expected
    assert not (out / "failures.csv").exists()
