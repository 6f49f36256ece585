"""The attacks' benchmark: its rows say everything, and what it times are attacks that find their targets."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks import __main__ as command
from benchmarks import attacks
from fl.attacks.closed_form import ClosedForm
from fl.attacks.dlg import Dlg
from fl.types import Facts, Public
from netsim.rng import Streams

TINY = attacks.Bench(3, (8, 4), dlg_ms=1e9, closed_form_ms=1e-9, loop=1e9, stacked=1e-9)
FIELDS = {"subject", "work", "ours", "unit", "peer", "theirs", "ratio", "bar", "met"}


def test_every_row_is_there_and_the_bar_decides(monkeypatch, capsys):
    monkeypatch.setitem(command.BENCHES, "small", TINY)
    monkeypatch.setattr(command, "one_core", lambda: None)  # the test's own process is not to be bound
    threads = torch.get_num_threads()
    command.main(["attacks", "--seconds", "0", "--sizes", "small"])
    said = capsys.readouterr()
    assert "torch" in said.err and torch.get_num_threads() == threads
    found = [json.loads(line) for line in said.out.splitlines()]
    assert all(set(row) >= FIELDS and row["subject"] == "attacks" and row["unit"] == "ms" for row in found)
    assert [row["met"] for row in found] == [True, False, True, True, False, True, False, None]
    beside = [row for row in found if row["peer"]]
    assert [row["peer"].split(",")[0] for row in beside] == ["loop over torch.optim.LBFGS", "torch.func.vmap"] * 2
    for row in beside:
        assert 0 < row["least_ratio"] <= row["ratio"] <= row["most_ratio"] and row["theirs"] > 0
        assert row["share"] == pytest.approx(row["limit"] / row["ours"], rel=1e-2) and row["gflops"] > 0
    assert all(row["ours"] > 0 and "2-8-4-1" in row["work"] and "3 targets" in row["work"] for row in found)
    assert [name in row["work"] for name, row in zip(["tanh"] * 3 + ["relu"] * 3, found, strict=False)] == [True] * 6
    assert found[0]["evaluations"] > 5


def test_the_full_size_is_the_one_that_has_bars():
    full = command.BENCHES["full"]
    assert (full.targets, full.hidden, full.dlg_ms, full.closed_form_ms) == (100, (256, 128), 40.0, 0.1)
    assert (full.loop, full.stacked) == (25.0, 8.0)


@pytest.mark.parametrize("activation, error_m", [("tanh", 30), ("relu", 400)])
def test_updates_are_of_real_training(activation, error_m):
    """Every target sends an update of its own, of a round whose model has moved, and is found by it."""
    bench = replace(TINY, hidden=(64,))
    seen = attacks.view(bench, activation)
    assert seen.update.shape[0] == 3 and len(np.unique(seen.update[:, -1])) == 3
    assert np.abs(seen.model_before.parameters[:, -1]).min() > 0  # biases start at 0: a round has passed
    truth = attacks.cohort(3, Streams(0).at("benchmark.cohort")).mean_x()
    for part in (ClosedForm(cloud=False), Dlg(starts=4)):
        facts = Facts(2, 0.0, Public(attacks.AREA, 1))
        found, _ = part.run(seen, facts, part.start(), Streams(0).at("benchmark.attack"))
        assert np.linalg.norm(found.position_m - truth, axis=1).max() < error_m


def test_time_is_a_targets_share(monkeypatch):
    seen, clock, took = attacks.view(TINY, "tanh"), [0.0], iter([9.0, 0.09, 0.03, 0.06])

    class Slow(ClosedForm):
        def run(self, view, facts, state, rng):
            clock[0] += next(took)
            return super().run(view, facts, state, rng)

    monkeypatch.setattr(attacks, "perf_counter", lambda: clock[0])
    ms, evaluations = attacks.target_ms(Slow(cloud=False), seen, 0.1)  # the first run does not count
    assert ms == pytest.approx(20.0) and evaluations == 0
