"""Work on a Ray cluster: of this machine, of two nodes, and of nodes that are lost."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
import works
from conftest import TINY
from ray_nodes import ROOT
from works import work

from netsim.errors import BadInput, Interrupted
from scenarios.app.cli.commands import main
from scenarios.app.run import ray_cluster
from scenarios.app.run.executor import BAD_INPUT, LOST_WORKER, Answer, played
from scenarios.app.run.ray_cluster import OnRay, RayCluster


def test_without_ray_one_line_says_how_to_have_it(monkeypatch):
    monkeypatch.setattr(ray_cluster, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"pip install 'netsim-fl\[ray\]'"):
        OnRay().check()


@pytest.mark.parametrize("wrong", ["", "here", "host:", ":6379", "host:port"])
def test_addresses_are_checked(wrong, capsys):
    assert main(["sweep", "town", "--on", "ray", "--address", wrong]) == 2
    assert "HOST:PORT" in capsys.readouterr().err


def test_an_address_needs_ray(capsys):
    assert main(["sweep", "town", "--address", "auto"]) == 2
    assert "--address: needs --on ray" in capsys.readouterr().err


def several(place):
    return [
        work(works.squared, place / "a", 3),
        work(works.broken, place / "b"),
        work(works.refused, place / "c"),
        work(works.unwritable, place / "d", 1, 4),
        work(works.killed, place / "e", 2, 5),
        work(works.killed, place / "f", 9, 5),
    ]


def checked(end):
    assert (end[0], end[3], end[4]) == (Answer({"square": 9}), Answer({"square": 16}), Answer({"square": 25}))
    assert (end[1].kind, end[1].attempts) == ("RuntimeError", 1) and "Traceback" in end[1].trace
    assert (end[2].kind, end[2].attempts) == (BAD_INPUT, 1)
    assert (end[5].kind, end[5].attempts) == (LOST_WORKER, 3)


def test_a_cluster_for_as_long_as_we_work(tmp_path):
    pytest.importorskip("ray")
    checked(dict(played(OnRay().executor(several(tmp_path), 2, tmp_path), 6, 2)))
    assert not list(tmp_path.glob(".shared-*"))


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("ray")
    from ray_nodes import nodes

    with nodes() as two:
        old = dict(os.environ)
        os.environ.update(two.environment)
        yield two
        os.environ.clear()
        os.environ.update(old)


@pytest.mark.slow
def test_two_nodes(tmp_path, cluster):
    checked(dict(played(OnRay(cluster.address).executor(several(tmp_path), 0, tmp_path), 6, 2)))


@pytest.mark.slow
def test_where_disks_are_others_one_line_says_so(tmp_path, cluster):
    class Apart(RayCluster):
        """Its workers do not see the token, as on machines with other disks."""

        def __enter__(self):
            super().__enter__()
            (token,) = tmp_path.glob(".shared-*")
            token.unlink()
            return self

    end = dict(played(Apart(several(tmp_path), cluster.address, 0, tmp_path), 1, 2))
    assert end[0].kind == BAD_INPUT and "give --out a folder that all machines of the cluster share" in end[0].line


WAITS = """
import sys, works
from pathlib import Path
from scenarios.app.run import signals
from scenarios.app.run.executor import played
from scenarios.app.run.ray_cluster import OnRay
if __name__ == "__main__":
    signals.listen()
    place = Path(sys.argv[1])
    two = [works.work(works.waiting, place / name, place / "never", 0.5) for name in "ab"]
    dict(played(OnRay(sys.argv[2]).executor(two, 2, place), 2, 2))
"""


def begun(place, address, environment):
    """A command of two runs, each of which takes half a second to keep a checkpoint; returns once both play."""
    (place / "script.py").write_text(WAITS)
    command = [sys.executable, str(place / "script.py"), str(place), address]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)
    for name in "ab":
        awaited(place / f"{name}.tried")
    return process


@pytest.mark.slow
def test_an_interrupted_command_interrupts_the_runs(tmp_path, cluster):
    with begun(tmp_path, cluster.address, os.environ | cluster.environment) as process:
        process.send_signal(signal.SIGTERM)
        assert "KeyboardInterrupt" in process.stderr.read()
    assert (tmp_path / "a.interrupted").exists() and (tmp_path / "b.interrupted").exists()
    assert not list(tmp_path.glob(".shared-*"))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_command_that_is_killed_keeps_its_runs_and_leaves_nothing(number, tmp_path):
    """SIGKILL to the command alone; SIGTERM to all of its session, as a batch system does."""
    pytest.importorskip("ray")
    temporary = Path(tempfile.mkdtemp(prefix="nr-", dir="/tmp"))  # names of sockets are short
    environment = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]), "TMPDIR": str(temporary)}
    with begun(tmp_path, "", os.environ | environment) as process:
        began = time.monotonic()
        if number == signal.SIGKILL:
            process.kill()
        else:
            os.killpg(process.pid, number)
        process.wait()
    until = began + 30
    while (alive := processes_of(temporary)) and time.monotonic() < until:
        time.sleep(0.2)
    assert alive == []
    assert (tmp_path / "a.interrupted").exists() and (tmp_path / "b.interrupted").exists()
    assert not list(tmp_path.glob(".shared-*")) and not list(temporary.glob("netsim-*"))
    shutil.rmtree(temporary)


def processes_of(place):
    """Processes whose command line or TMPDIR lies in a folder; those that have ended and wait for a parent are none."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            told = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            if str(place).encode() in told:
                found.append(told[:200])
    return found


@pytest.mark.slow
def test_no_cluster_there(tmp_path, capsys):
    pytest.importorskip("ray")
    with pytest.raises(BadInput, match=r"no connection to 127\.0\.0\.1:9") as error:
        dict(played(OnRay("127.0.0.1:9").executor(several(tmp_path), 0, tmp_path), 6, 2))
    assert len(error.value.lines) == 1
    (tmp_path / "s.yaml").write_text(json.dumps(TINY | {"vary": {"seed": [1, 2]}}))
    command = ["sweep", str(tmp_path / "s.yaml"), "--on", "ray", "--out", str(tmp_path / "w"), "--quiet"]
    assert main([*command, "--address", "127.0.0.1:9"]) == 2 and not (tmp_path / "w").exists()
    assert "no connection to 127.0.0.1:9" in capsys.readouterr().err


@pytest.mark.slow
def test_a_head_that_is_killed_leaves_what_is_finished(tmp_path):
    pytest.importorskip("ray")
    from ray_nodes import nodes

    some = [work(works.squared, tmp_path / "a", 3), work(works.waiting, tmp_path / "b", tmp_path / "never")]
    with nodes() as two, pytest.MonkeyPatch.context() as patch:
        for name, value in two.environment.items():
            patch.setenv(name, value)
        found = {}

        def play():
            try:
                for k, end in played(OnRay(two.address).executor(some, 0, tmp_path), 2, 2):
                    found[k] = end
            except Interrupted as error:
                found["said"] = str(error)

        player = threading.Thread(target=play)
        player.start()
        awaited(tmp_path / "b.tried")
        until = time.monotonic() + 60
        while 0 not in found and time.monotonic() < until:
            time.sleep(0.1)
        two.kill(0)
        player.join(120)
    assert found[0] == Answer({"square": 9}) and not player.is_alive()
    assert "the Ray cluster is gone" in found["said"] and "the same command goes on" in found["said"]


def awaited(path: Path, seconds=60):
    until = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < until, path
        time.sleep(0.05)
