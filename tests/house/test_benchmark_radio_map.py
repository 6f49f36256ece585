"""The radio map's benchmark: its rows say everything, and the bars stand at the size that they are meant for."""

import json

from benchmarks import __main__ as command
from benchmarks import radio_map


def test_every_row_is_there(monkeypatch, capsys):
    monkeypatch.setitem(command.MAPS, "small", radio_map.Bench(2, 3, 10, 1, gradient_s=1e9, noise_s=1e-9))
    monkeypatch.setattr(radio_map, "OUTER", 1)
    monkeypatch.setattr(radio_map, "INNER", 1)
    monkeypatch.setattr(command, "one_core", lambda: None)  # the test's own process is not to be bound
    command.main(["radio-map", "--seconds", "0", "--sizes", "small"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["subject"] for row in found} == {"radio-map"}
    assert [row["unit"] for row in found] == ["s", "s", "s", "ms", "exponent", "GB"]
    assert [row["met"] for row in found[:4]] == [None, True, False, None]
    assert found[1]["crossings"] > 0 and found[3]["ratio"] > 0


def test_the_full_size_is_the_one_that_has_bars():
    full = command.MAPS["full"]
    assert (full.ues, full.stations, full.cells) == (100, 200, 100)
    assert (full.gradient_s, full.noise_s, full.faster, full.memory_gb) == (0.5, 1.0, 700.0, 1.0)
