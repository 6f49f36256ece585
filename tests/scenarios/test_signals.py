"""Signals that come where Python cannot raise: in callbacks of foreign code, which may give them other names."""

import subprocess
import sys
from pathlib import Path

import pytest

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
commands.parser = lambda: type("P", (), {{"parse_args": lambda self, words: type("A", (), {{"command": "schema"}})}})()
sys.exit(commands.main(["schema"]))
"""


@pytest.mark.parametrize(
    "then", ["time.sleep(20)", "raise RuntimeError('nothing was compiled')"], ids=["it is lost", "it has another name"]
)
def test_an_interruption_in_a_callback_ends_the_command(then):
    ended = subprocess.run(
        [sys.executable, "-c", BEGIN.format(then=then)], capture_output=True, text=True, timeout=60,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
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


@pytest.mark.parametrize(
    ("number", "module"), [("SIGINT", "scenarios.app.cli.commands"), ("SIGTERM", "scenarios.app.study.study")]
)
def test_a_signal_while_commands_are_imported_ends_as_any_other(number, module):
    ended = subprocess.run(
        [sys.executable, "-c", EARLY.format(module=module, number=number)], capture_output=True, text=True, timeout=60,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (130, ""), ended
    assert ended.stderr == "netsim: interrupted; the same command goes on where it stopped\n"
