"""A clock that goes backwards: set by hand, or by a time server; no figure hangs on it."""

import io
import time

import pytest
from accidents import commands, content, interrupted

from scenarios.app.cli.commands import main
from scenarios.app.cli.outcome import Meter
from scenarios.app.run.events import Event


def backwards(start, step):
    now = [start]

    def read():
        now[0] -= step
        return now[0]

    return read


@pytest.mark.parametrize("kind", ["run", "radio"])
def test_a_clock_that_goes_backwards_changes_nothing(kind, tmp_path, monkeypatch):
    words = commands(tmp_path)[kind]
    assert main([*words, "--out", str(tmp_path / "whole")]) == 0
    cut = [*words, "--out", str(tmp_path / "cut")]
    interrupted(cut, monkeypatch)
    for name in ("time", "monotonic", "perf_counter"):
        monkeypatch.setattr(time, name, backwards(getattr(time, name)(), 3600.0))
    assert main(cut) == 0
    whole = content(tmp_path / "whole")
    found = content(tmp_path / "cut")
    tables = [name for name in whole if name.endswith(".csv") or name == "summary.json"]
    assert len(tables) > 2
    assert [name for name in tables if found[name] != whole[name]] == []


def test_progress_goes_on(tmp_path):
    told = io.StringIO()
    with Meter("a study", stream=told, clock=backwards(0.0, 600.0)) as block:
        for done in range(1, 6):
            block.tell(Event("played", done, 5, done == 5, {"label": "x"}))
    lines = told.getvalue().splitlines()
    assert "5/5" in lines[-1]
    assert "-" not in told.getvalue()
