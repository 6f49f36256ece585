"""The benchmark of growth: its rows say everything, its exponents are slopes, and its runs are as large as they say."""

import json

import pytest

from benchmarks import __main__ as command
from benchmarks import growth
from benchmarks.growth import Bench, Work

BENCH = Bench(
    (Work(10, 2, 2), Work(1000, 2, 2)),
    (Work(2, 10, 1), Work(2, 100, 1)),
    (Work(2, 9, 1), Work(2, 9, 9)),
    (2, 50),
    1.05,
    2.0,
)


def test_every_row_is_there_and_the_bars_decide(monkeypatch, capsys):
    monkeypatch.setitem(command.GROWTHS, "small", BENCH)
    monkeypatch.setattr(command, "one_core", lambda: None)  # the test's own process is not to be bound
    monkeypatch.setattr(growth, "cost", lambda w: {"cpu_s": float(w.rounds**2 * w.ues), "peak_gb": 0.1})
    monkeypatch.setattr(growth, "alone", lambda n_bs, n_ue, seconds: {"ms": 3.0, "build_s": 0.0, "peak_gb": 2.5})
    command.main(["growth", "--sizes", "small"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(row["subject"] == "growth" for row in found) and len(found) == 3 * 4 + 2
    slopes = [row for row in found if row["unit"] == "exponent"]
    assert [row["ours"] for row in slopes] == pytest.approx([2, 0, 1, 0, 0, 0], abs=1e-9)
    assert [row["met"] for row in slopes] == [False, True, True, True, True, True]
    assert found[-1]["met"] is False and found[-1]["ours"] == 2.5


def test_the_full_size_is_as_wide_as_it_says():
    full = command.GROWTHS["full"]
    assert [w.rounds for w in (full.rounds[0], full.rounds[-1])] == [50, 2000]
    assert [w.ues for w in (full.ues[0], full.ues[-1])] == [100, 10_000]
    assert [w.targets for w in (full.targets[0], full.targets[-1])] == [1, 3000]
    assert full.tick == (100, 100_000) and (full.exponent, full.tick_gb) == (1.05, 2.0)


@pytest.mark.slow
def test_a_run_is_played_in_a_process():
    cost = growth.cost(Work(2, 2, 1))
    assert 0 < cost["cpu_s"] < 60 and 0.05 < cost["peak_gb"] < 4
