"""The benchmark of sweeps: its rows say everything, and engines that write other tables are no benchmark."""

import json

import pytest

from benchmarks import __main__ as command
from benchmarks import sweeps
from scenarios.app.run.executors.processes import OnProcesses


@pytest.fixture
def here(monkeypatch):
    """Everything in this process: others cost seconds."""
    monkeypatch.setattr(sweeps, "JOBS", 1)
    monkeypatch.setattr(sweeps, "OnRay", OnProcesses)
    monkeypatch.setattr(sweeps, "find_spec", lambda name: name)
    monkeypatch.setattr(command, "one_core", lambda: None)  # the test's own process is not to be bound


def test_every_row_is_there_and_the_bar_decides(monkeypatch, capsys, here):
    monkeypatch.setitem(command.SWEEPS, "small", sweeps.Bench(2, 1.0))
    command.main(["sweeps", "--sizes", "small"])
    processes, ray = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert processes["subject"] == ray["subject"] == "sweeps" and processes["unit"] == ray["unit"] == "s"
    assert ray["theirs"] == processes["ours"] and ray["bar"] >= sweeps.START_S and ray["met"] is True


def test_without_ray_processes_alone_are_measured(monkeypatch, capsys, here):
    monkeypatch.setattr(sweeps, "find_spec", lambda name: None)
    command.main(["sweeps", "--sizes", "small"])
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_other_tables_are_refused(monkeypatch, here):
    tables = iter([b"one", b"other"])
    monkeypatch.setattr(sweeps, "_played", lambda scenario, engine: (1.0, next(tables)))
    with pytest.raises(ValueError, match="differ"):
        list(sweeps.rows(sweeps.SMALL))
