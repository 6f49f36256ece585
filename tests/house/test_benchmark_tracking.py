"""The benchmark of tracking: its rows say everything, and its bars decide."""

import json

import pytest

from benchmarks import __main__ as command
from benchmarks import tracking


@pytest.mark.parametrize(("all_s", "met"), [(1e9, True), (0.0, False)])
def test_every_row_is_there_and_the_bar_decides(monkeypatch, capsys, all_s, met):
    monkeypatch.setitem(
        command.TRACKS, "small", tracking.Bench(3, 5, 6, (2, 3, 4), (2, 20, 4), all_s=all_s, memory_mb=1e9)
    )
    monkeypatch.setattr(command, "one_core", lambda: None)  # the test's own process is not to be bound
    command.main(["tracking", "--sizes", "small"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["met"] for row in found] == [None, None, met, True, *[None] * 7]
    assert all(row["subject"] == "tracking" for row in found)
    assert all("3 UEs, 5 rounds, 36 cells" in row["work"] for row in found[:4])
    assert found[9]["ours"] == 2 * 7 and "names that are followed" in found[9]["work"]  # of the last and six rounds
    assert found[2]["ours"] == pytest.approx(found[0]["ours"] + found[1]["ours"], rel=0.01)


def test_the_full_size_is_that_of_the_requirement():
    full = command.TRACKS["full"]
    assert (full.ues, full.rounds, full.cells**2, full.all_s, full.memory_mb) == (200, 500, 10_000, 30.0, 500.0)
