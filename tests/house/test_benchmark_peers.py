"""Rows beside peers: pairs of turns decide, peers that are not there are said, and ours does less, not worse."""

import json
import sys

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import distance, paired, start, trace, whole


@pytest.fixture(autouse=True)
def unbound(monkeypatch):
    monkeypatch.setattr(command, "one_core", lambda: None)  # the test's own process is not to be bound


def rows(capsys, subject):
    code = command.main([subject, "--seconds", "0", "--sizes", "small"])
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_median_of_ratios_of_pairs_decides():
    ours, theirs = iter([9.0, 1.0, 2.0, 4.0]), iter([9.0, 3.0, 8.0, 20.0])  # the first of each loads
    row = paired.beside("work", lambda: next(ours), lambda: next(theirs), 4.0, 0.0, lambda: 0.5)
    assert row["ratio"] == 4.0 and row["spread"] == [3.0, 5.0] and row["met"] is True
    assert row["ours"] == 2000.0 and row["theirs"] == 8000.0 and row["limit"] == 500.0 and row["share"] == 0.25
    assert paired.beside("work", lambda: 1.0, lambda: 3.9, 4.0, 0.0)["met"] is False


def test_a_missed_bar_is_told_by_the_exit_code(monkeypatch, capsys):
    for met, code in ((False, 1), (True, 0), (None, 0)):
        monkeypatch.setitem(command.SUBJECTS, "trace", lambda *_, met=met: iter([{"met": met}, {"met": None}]))
        assert rows(capsys, "trace")[0] == code


def test_distances_are_those_of_the_peer_and_errors_no_larger(capsys):
    code, (same, equal) = rows(capsys, "distance")
    assert code == 0 and same["difference"] < 1e-12 and equal["error"] <= equal["their_error"]
    assert same["peer"].startswith("POT ") and same["share"] > 0 and same["met"] is None
    assert (distance.FULL.points, distance.FULL.bar) == (2_000, 5.0)


def test_equally_spaced_directions_need_a_twentieth_of_random_ones():
    few, error, theirs = distance.errors(distance.Bench(200, 3, 3, 400))
    assert error <= theirs and few <= 20


def test_traces_are_read_alike(tmp_path, capsys, monkeypatch):
    pytest.importorskip("lxml")
    (row,) = rows(capsys, "trace")[1]
    assert row["same"] is True and row["peer"].startswith("lxml ")
    trace.write(tmp_path / "t.xml", trace.SMALL)
    time_s, user, x, _ = trace.loop(tmp_path / "t.xml")
    assert len(time_s) == len(x) == trace.SMALL.fixes and len(np.unique(user)) > trace.SMALL.at_once
    assert (trace.FULL.fixes, trace.FULL.bar) == (592_571, 3.0)


def test_a_peer_that_is_missing_is_said(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "lxml", None)
    code, (row,) = rows(capsys, "trace")
    assert code == 0 and row["ours"] is None and row["met"] is None and "not installed" in row["reason"]


def test_checking_a_scenario_loads_no_slow_library_that_it_can_do_without(capsys):
    code, found = rows(capsys, "start")
    assert code == 0 and [row["unit"] for row in found] == ["s"] * 3
    assert [row["slow"] for row in found] == [[], [], []]
    assert all(0 < row["spread"][0] <= row["ours"] <= row["spread"][1] and row["modules"] > 0 for row in found)
    assert found[2]["modules"] < 650  # 566 by Python 3.11
    assert [one.most_s for one in start.FULL] == [0.2, 0.1, 0.5]


def test_loops_of_a_whole_run_find_what_it_finds(capsys):
    code, (run, training, central, samples, attacks, leakage) = rows(capsys, "whole")
    assert code == 0 and all(row["subject"] == "whole" and row["unit"] == "s" for row in (run, training, attacks))
    swapped = run["ours"] + sum(
        part["theirs"] - part["ours"] for part in (training, central, samples, attacks, leakage)
    )
    assert run["theirs"] == pytest.approx(swapped, rel=1e-2)
    assert training["updates"] < 1e-12 and leakage["distances"] < 1e-12
    assert central["updates"] < 1e-4 and samples["gradients"] < 1e-12  # central training is in single precision
    assert attacks["losses"][0] <= attacks["losses"][1] * 1.001  # ours is the least of all starts
    assert training["given"][1] == 6 and attacks["given"][1] == 32 and leakage["given"][1] >= 300  # counts of the run
    assert [name for name, _ in whole.FULL.runs] == ["city", "campus"] and whole.FULL.bar == 10.0


def test_a_loop_is_given_an_even_part():
    assert whole.some([*range(100)], 3) == [0, 49, 99] and whole.some([1, 2], 5) == [1, 2] and whole.some([], 3) == []
