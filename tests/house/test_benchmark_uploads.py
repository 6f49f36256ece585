"""The benchmark of uploads: its rows say everything, bars decide, and intervals are those of a median."""

import json

import numpy as np

from benchmarks import __main__ as command
from benchmarks import uploads
from netsim.radio.air_interface import AirInterface


def test_every_row_is_there_and_the_bars_decide(monkeypatch, capsys):
    tiny = uploads.Bench((5, 10), (5,), 5, 1e-9, 10, ((1, 1e9), (4, 1e-9)))
    monkeypatch.setitem(command.UPLOADS, "small", tiny)
    monkeypatch.setattr(command, "one_core", lambda: None)  # the test's own process is not to be bound
    command.main(["uploads", "--seconds", "0", "--sizes", "small"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(row["subject"] == "uploads" for row in found)
    times = [row for row in found if row["unit"] == "ms"]
    assert [row["unit"] for row in found].count("exponent") == 3 and len(times) == 8
    assert all(0 < row["low"] <= row["ours"] <= row["high"] for row in times)
    held = [row for row in times if row["peer"] == "Uplink.plan"]
    assert [row["met"] for row in held] == [None, False, None, True]
    assert all(np.isclose(row["ratio"], row["theirs"] / row["ours"], rtol=1e-2) for row in held)
    assert times[-1]["peer"] == "planned" and times[-1]["met"] is True
    assert all(row["events_per_s"] > 0 for row in times if row["peer"] is None)


def test_events_are_those_of_the_round():
    """At held rates with everybody ready at once: one event in which all begin, one in which all end, and the news."""
    held = uploads.Rounds(uploads.cohort(6, 1, 0.0), uploads.HELD)
    held.play()
    assert held.events == 3
    followed = uploads.Rounds(uploads.cohort(6, 1, 1.0), AirInterface())
    followed.play()
    assert followed.events == 13


def test_intervals_hold_the_median_in_19_of_20_cases():
    rng = np.random.default_rng(1)
    found = [uploads.median_interval(rng.exponential(size=41)) for _ in range(2000)]
    within = np.mean([low <= np.log(2) <= high for _, low, high in found])
    assert 0.93 < within < 0.98
    assert all(low <= middle <= high for middle, low, high in found)
