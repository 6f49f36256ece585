"""A clock that goes backwards: set by hand, or by a time server; no figure hangs on it."""

import io
import time

import pytest
from accidents import commands, content, interrupt_command

from scenarios.app.cli.outcome import Meter
from scenarios.app.run.events import Event


def backwards(start, step):
    clock = [start]

    def read():
        clock[0] -= step
        return clock[0]

    return read


@pytest.mark.parametrize("kind", ["run", "radio"])
def test_a_clock_that_goes_backwards_changes_nothing(kind, tmp_path, out, monkeypatch, run_command):
    words = commands(tmp_path)[kind]
    run_command([*words, "--out", str(out)])
    cut = [*words, "--out", str(tmp_path / "cut")]
    interrupt_command(cut, monkeypatch)
    for name in ("time", "monotonic", "perf_counter"):
        monkeypatch.setattr(time, name, backwards(getattr(time, name)(), 3600.0))
    run_command(cut)
    whole = content(out)
    result = content(tmp_path / "cut")
    tables = [name for name in whole if name.endswith(".csv") or name == "summary.json"]
    assert len(tables) > 2
    assert [name for name in tables if result[name] != whole[name]] == []


def test_progress_goes_on():
    printed = io.StringIO()
    with Meter("a study", stream=printed, clock=backwards(0.0, 600.0)) as block:
        for done in range(1, 6):
            block.show_event(Event("played", done, 5, done == 5, {"label": "x"}))
    lines = printed.getvalue().splitlines()
    assert "5/5" in lines[-1]
    assert "-" not in printed.getvalue()
