"""The benchmark of attacks that keep maps: its rows say everything, and what it times finds its targets."""

import json

import numpy as np
import torch

from benchmarks import __main__ as command
from benchmarks import attacks, span
from fl.attacks.span import Span
from fl.types import Facts, Public
from netsim.rng import Streams


def test_every_row_is_there_and_the_bar_decides(monkeypatch, capsys):
    monkeypatch.setitem(command.SPANS, "small", span.Bench(3, 60, (8, 4), span_ms=1e9))
    monkeypatch.setattr(command, "one_core", lambda: None)  # the test's own process is not to be bound
    threads = torch.get_num_threads()
    command.main(["span", "--seconds", "0", "--sizes", "small"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert torch.get_num_threads() == threads
    assert [row["met"] for row in found] == [True, None, None]
    assert all(row["subject"] == "span" and row["unit"] == "ms" and row["ours"] > 0 for row in found)
    assert all("2-8-4-1" in row["work"] and "3 targets, 60 places" in row["work"] for row in found)


def test_the_full_size_is_28_rounds_of_1000_ues_in_a_minute():
    full = command.SPANS["full"]
    assert (full.targets, full.places, full.hidden) == (1_000, 10_000, (256, 128))
    assert full.span_ms * 28 * 1_000 == 60_000


def test_its_targets_are_found():
    seen = attacks.view(attacks.Bench(6, (64, 32)), "relu")
    attack = Span()
    found, _ = attack.run(seen, Facts(2, 0.0, Public(attacks.AREA, 1)), attack.start(), Streams(0).at("test"))
    data = attacks.cohort(6, Streams(0).at("benchmark.cohort"))
    away_m = [
        np.linalg.norm(data.x[data.ptr[u] : data.ptr[u + 1]] - found.position_m[found.ue == u][0], axis=1).min()
        for u in range(6)
    ]
    assert np.median(away_m) < 25
