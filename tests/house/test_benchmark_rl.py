"""The benchmark of power control: its rows say everything, and the bars stand at the full size."""

import json

import pytest

from benchmarks import __main__ as command
from benchmarks import rl


@pytest.mark.slow
def test_every_row_is_there_and_the_bars_decide(monkeypatch, capsys):
    monkeypatch.setitem(command.AGENTS, "small", rl.Bench(6, 30, 60.0, 1e9, 1e-9, 1e9, 1e-9, 1e9))
    monkeypatch.setattr(command, "one_core", lambda: None)  # the test's own process is not to be bound
    command.main(["rl", "--seconds", "0.05", "--sizes", "small"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["subject"] for row in found} == {"rl"}
    assert [row["unit"] for row in found] == ["steps/s", "steps/s", "x"] * 2 + ["steps/s", "%"]
    assert [row["met"] for row in found] == [False, None, True, None, None, False, True, True]
    assert 0 < found[7]["ours"] < 100


def test_the_full_size_is_the_one_that_has_bars():
    full = command.AGENTS["full"]
    assert (full.allocation_hz, full.together, full.recorded, full.world_hz, full.share_percent) == pytest.approx(
        (20_000, 8, 8, 2_000, 15)
    )
