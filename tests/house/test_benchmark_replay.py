"""The benchmark of long replays: files are as large as they say, and its rows say everything."""

import json

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import replay
from netsim.traces.read import read_trace

BENCH = replay.Bench(2, 2, 30, 3, 30, taxis_s=1e9, taxis_gb=1e-9)


@pytest.mark.parametrize("write, users", [(replay.taxis, 2), (replay.vehicles, 5)])
def test_files_hold_what_was_drawn(write, users, tmp_path):
    fixes = write(tmp_path / "trace", users, BENCH)
    trace = read_trace(tmp_path / "trace", users="id")
    assert len(trace.users) == users and len(trace.user) == fixes
    assert (trace.area.side_m <= replay.SIDE_M * 1.01).all()
    again = write(tmp_path / "again", users, BENCH)
    assert again == fixes and (tmp_path / "again").read_bytes() == (tmp_path / "trace").read_bytes()


def test_a_taxi_is_seen_as_often_as_it_says_every_day(tmp_path):
    replay.taxis(tmp_path / "trace", 2, BENCH)
    trace = read_trace(tmp_path / "trace", users="id", timezone="America/Los_Angeles")
    _, fixes = np.unique(np.stack([trace.user, trace.time_s // replay.DAY_S]), axis=1, return_counts=True)
    assert fixes.tolist() == [30] * 4


def test_every_row_is_there_and_the_bars_decide(monkeypatch, capsys):
    monkeypatch.setitem(command.REPLAYS, "small", BENCH)
    monkeypatch.setattr(command, "one_core", lambda: None)  # the test's own process is not to be bound
    costs = iter([replay.Cost(2.0, 1.0), replay.Cost(8.0, 1.0), replay.Cost(1.0, 1.0), replay.Cost(2.0, 4.0)])
    monkeypatch.setattr(replay, "played", lambda trace, out, options: next(costs))
    command.main(["replay", "--sizes", "small"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["met"] for row in found] == [None, None, True, False, None, None, None, None]
    assert [row.get("exponent") for row in found] == [None, None, 2.0, 0.0, None, None, 1.0, 2.0]
    assert found[2]["work"].startswith("replay of 240 fixes of 4 taxis") and found[2]["fixes_per_s"] == 30.0


@pytest.mark.slow
def test_a_file_is_played_in_a_process(tmp_path):
    replay.taxis(tmp_path / "trace", 2, BENCH)
    cost = replay.played(tmp_path / "trace", tmp_path / "out", ["--set", "learning.learner.hidden=[8]"])
    assert cost.cpu_s > 0.5 and 0.05 < cost.memory_gb < 4
    assert (tmp_path / "out" / "standardised-by-public" / "summary.json").exists()
    with pytest.raises(RuntimeError, match="exit code 2"):
        replay.played(tmp_path / "none", tmp_path / "out", [])
