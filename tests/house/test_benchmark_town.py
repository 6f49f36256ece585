"""The town's benchmark: its rows say everything, and the bars decide."""

import json

from benchmarks import __main__ as command
from benchmarks import town


def test_every_row_is_there_and_the_bars_decide(monkeypatch, capsys):
    tiny = town.Bench(400.0, 2, 15, draw_s=1e9, tick_ms=1e-9)
    monkeypatch.setitem(command.TOWNS, "small", tiny)
    monkeypatch.setattr(command, "one_core", lambda: None)  # the test's own process is not to be bound
    command.main(["town", "--seconds", "0", "--sizes", "small"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(row["subject"] == "town" and row["ours"] > 0 for row in found)
    assert [row["unit"] for row in found] == ["s", "s", "ms", "GB"]
    assert [row["met"] for row in found] == [True, None, False, None]
    assert 0 <= found[2]["indoor_percent"] <= 100


def test_the_full_size_is_the_one_that_has_bars():
    full = command.TOWNS["full"]
    assert (full.side_m, full.n_bs, full.n_ue, full.draw_s, full.tick_ms) == (2000.0, 50, 10_000, 10.0, 17.0)
