"""Workers that are interrupted before they can listen: no traceback of what they were importing."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import TINY

ROOT = Path(__file__).parents[2]


def children(pid):
    """Processes that a process has started by the way of `spawn`."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found += [int(entry.name)] if b"spawn_main" in (entry / "cmdline").read_bytes() else []
        except OSError:  # it has ended
            continue
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes by /proc")
def test_an_interruption_while_workers_start_is_one_line(tmp_path):
    (tmp_path / "s.yaml").write_text(json.dumps(TINY | {"vary": {"seed": [1, 2, 3]}}))
    words = ["sweep", str(tmp_path / "s.yaml"), "--jobs", "2", "--quiet", "--out", str(tmp_path / "out")]
    command = [sys.executable, "-m", "scenarios.app.cli.commands", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        until = time.monotonic() + 120
        while not children(process.pid):
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.005)
        time.sleep(0.05)  # it imports now
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        said = process.stderr.read()
    assert (process.returncode, said) == (130, "netsim: interrupted; the same command goes on where it stopped\n")
