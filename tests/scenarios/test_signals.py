"""Signals where Python cannot raise, in callbacks of foreign code, and before commands and workers
can listen."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from conftest import ROOT, write_tiny
from pytest import mark

BEGIN = """
import ctypes, os, signal, sys, time, types
from scenarios.app.cli import commands

def within(): os.kill(os.getpid(), signal.SIGINT); time.sleep(0.01)
foreign = ctypes.CFUNCTYPE(None)(within)

def work(args):
    foreign()
    {then}
sys.modules["scenarios.app.cli.work"] = types.SimpleNamespace(main=work)
commands.COMMANDS = commands.COMMANDS | {{"schema": types.SimpleNamespace(main="work:main")}}
commands.build_parser = lambda: type("P", (), {{"parse_args": lambda self, words: type("A", (), {{"command": "schema"}})}})()
sys.exit(commands.main(["schema"]))
"""


@mark.parametrize(
    "ending",
    ["time.sleep(20)", "raise RuntimeError('nothing was compiled')"],
    ids=["it is lost", "it has another name"],
)
def test_an_interruption_in_a_callback_ends_the_command(ending):
    ended = subprocess.run(
        [sys.executable, "-c", BEGIN.format(then=ending)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
    )
    assert ended.returncode == 130, ended
    assert ended.stderr == "netsim: interrupted; the same command goes on where it stopped\n"


EARLY = """
import os, signal, sys

class Looks:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            os.kill(os.getpid(), signal.{number})
sys.meta_path.insert(0, Looks())
from scenarios.app.cli.start import main
sys.argv[1:] = ["schema"]
sys.exit(main())
"""


@mark.parametrize(
    "number, module",
    [("SIGINT", "scenarios.app.cli.commands"), ("SIGTERM", "scenarios.app.study.study")],
)
def test_a_signal_while_commands_are_imported_ends_as_any_other(number, module):
    ended = subprocess.run(
        [sys.executable, "-c", EARLY.format(module=module, number=number)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
    )
    assert (ended.returncode, ended.stdout) == (130, ""), ended
    assert ended.stderr == "netsim: interrupted; the same command goes on where it stopped\n"


def children(pid):
    """Processes that a process has started by the way of `spawn`."""
    result = []
    for entry in Path("/proc").iterdir():
        try:
            if (
                entry.name.isdigit()
                and int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid
            ):
                result += (
                    [int(entry.name)] if b"spawn_main" in (entry / "cmdline").read_bytes() else []
                )
        except OSError:  # it has ended
            continue
    return result


@mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes by /proc")
def test_an_interruption_while_workers_start_is_one_line(tmp_path):
    write_tiny(tmp_path / "s.yaml", {"vary": {"seed": [1, 2, 3]}})
    words = f"sweep {tmp_path}/s.yaml --jobs 2 --quiet --out {tmp_path}/out".split()
    command = [sys.executable, "-m", "scenarios.app.cli.commands", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        until = time.monotonic() + 120
        while not children(process.pid):
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.005)
        time.sleep(0.05)  # it imports now
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        printed = process.stderr.read()
    assert (process.returncode, printed) == (
        130,
        "netsim: interrupted; the same command goes on where it stopped\n",
    )
