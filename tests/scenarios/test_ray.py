"""Work on a Ray cluster: of this machine, of two nodes, and of nodes that are lost."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest
import works
from conftest import write_tiny
from pytest import fixture, mark, raises
from ray_nodes import ROOT
from works import awaited, work

from netsim import __version__
from netsim.errors import BadInput
from scenarios.app.cli.commands import main
from scenarios.app.run.clusters import OnRay, attempt_remotely
from scenarios.app.run.executor import BAD_INPUT

SEVERAL = """
import sys, works
from pathlib import Path
from works import work
from scenarios.app.run.clusters import OnRay
from scenarios.app.run.executor import BAD_INPUT, LOST_WORKER
if __name__ == "__main__":
    place = Path(sys.argv[1])
    several = [
        work(works.squared, place / "a", 3),
        work(works.broken, place / "b"),
        work(works.refused, place / "c"),
        work(works.unwritable, place / "d", 1, 4),
        work(works.killed, place / "e", 2, 5),
        work(works.killed, place / "f", 9, 5),
    ]
    end = works.by_place(OnRay(sys.argv[2]).make_executor(2, place).play_jobs(several), several)
    assert (end[0], end[3], end[4]) == ({"square": 9}, {"square": 16}, {"square": 25})
    assert (end[1].kind, end[1].attempts) == ("RuntimeError", 1) and "Traceback" in end[1].trace
    assert (end[2].kind, end[2].attempts) == (BAD_INPUT, 1)
    assert (end[5].kind, end[5].attempts) == (LOST_WORKER, 3)
"""


def play_several(place, address, environment):
    """Play several jobs in a process of its own: Ray keeps the token of its first cluster."""
    (place / "several.py").write_text(SEVERAL)
    command = [sys.executable, str(place / "several.py"), str(place), address]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    subprocess.run(command, env=os.environ | {"PYTHONPATH": paths} | environment, check=True)


def test_a_cluster_for_as_long_as_we_work(tmp_path):
    pytest.importorskip("ray")
    play_several(tmp_path, "", {})


@fixture(scope="module")
def cluster():
    pytest.importorskip("ray")
    from ray_nodes import nodes

    with nodes() as two:
        yield two


@mark.slow
def test_two_nodes(tmp_path, cluster):
    play_several(tmp_path, cluster.address, cluster.environment)


def test_a_machine_that_plays_another_version_or_has_other_disks_says_so(tmp_path):
    end = attempt_remotely(work(works.squared, tmp_path / "a", 3), tmp_path, "0.1")
    assert end.kind == BAD_INPUT
    assert "this is 0.1; install the same everywhere" in end.line
    end = attempt_remotely(work(works.squared, tmp_path / "a", 3), tmp_path / "none", __version__)
    assert end.kind == BAD_INPUT
    assert "give --out a folder that all machines of the cluster share" in end.line


WAITS = """
import sys, works
from pathlib import Path
from scenarios.app.run import events
from scenarios.app.run.clusters import OnRay
if __name__ == "__main__":
    events.listen()
    place = Path(sys.argv[1])
    two = [works.work(works.waiting, place / name, place / "never", 0.5) for name in "ab"]
    print(works.by_place(OnRay(sys.argv[2]).make_executor(2, place).play_jobs(two), two))
"""


def start_command(place, address, environment):
    """A command of two runs, each of which takes half a second to keep a checkpoint; returns once
    both play."""
    (place / "script.py").write_text(WAITS)
    command = [sys.executable, str(place / "script.py"), str(place), address]
    process = subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    for name in "ab":
        awaited(place / f"{name}.tried")
    return process


@mark.slow
def test_an_interrupted_command_interrupts_the_runs(tmp_path, cluster):
    with start_command(tmp_path, cluster.address, os.environ | cluster.environment) as process:
        process.send_signal(signal.SIGTERM)
        assert "KeyboardInterrupt" in process.stderr.read()
    assert (tmp_path / "a.interrupted").exists()
    assert (tmp_path / "b.interrupted").exists()


@mark.slow
@mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_command_that_is_killed_leaves_no_process(number, tmp_path):
    """SIGKILL to the command alone; SIGTERM to all of its session, as a batch system does."""
    pytest.importorskip("ray")
    temporary = Path(tempfile.mkdtemp(prefix="nr-", dir="/tmp"))  # names of sockets are short
    environment = {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
        "TMPDIR": str(temporary),
    }
    with start_command(tmp_path, "", os.environ | environment) as process:
        began = time.monotonic()
        if number == signal.SIGKILL:
            process.kill()
        else:
            os.killpg(process.pid, number)
        process.wait()
    until = began + 90
    while (alive := find_processes(temporary)) and time.monotonic() < until:
        time.sleep(0.2)
    assert alive == []
    kept = [(tmp_path / f"{name}.interrupted").exists() for name in "ab"]
    assert number == signal.SIGKILL or all(kept)
    shutil.rmtree(temporary)


def find_processes(place):
    """Processes whose command line or TMPDIR lies in a folder; those that have ended and wait for a
    parent are none."""
    result = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            printed = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            if str(place).encode() in printed:
                result.append(printed[:200])
    return result


@mark.slow
def test_no_cluster_there(tmp_path, out, capsys):
    pytest.importorskip("ray")
    with raises(BadInput, match=r"no connection to 127\.0\.0\.1:9") as error:
        OnRay("127.0.0.1:9").check()
    assert len(error.value.lines) == 1
    write_tiny(tmp_path / "s.yaml", {"vary": {"seed": [1, 2]}})
    command = f"sweep {tmp_path}/s.yaml --on ray --out {out} --quiet".split()
    assert main([*command, "--address", "127.0.0.1:9"]) == 2
    assert not out.exists()
    assert "no connection to 127.0.0.1:9" in capsys.readouterr().err
