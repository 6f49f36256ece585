"""When things happen: records carry the time of arrival, and the windows of data do not move."""

import numpy as np
import pytest
from pytest import approx, fixture, mark

from scenarios.app.result import run
from scenarios.app.results.folder import read_csv_rows
from scenarios.app.study.load import parse_value

SLOW = {
    "world.ues.training_s_per_sample": 0.3,  # so that everybody comes at a time of its own
    "world.ues.mobility": {"kind": "random-waypoint", "pause_s": [0, 100]},
    "learning.data": {"kind": "measured", "cell": "all", "hold_out": 0.2},
}
RADIO = SLOW | parse_value("{world.radio.uplink: {kind: noma, norm_bound: 1.0, deadline_s: 3.2}}")
EAR = parse_value(
    "{learning.threat: {observes: updates, viewpoint: eavesdropper, position_m: [50, 50]}}"
)


def rows(folder, table):
    return read_csv_rows(folder / f"{table}.csv")


def column(result, name):
    return np.array([float(row[name] or "nan") for row in result])


@fixture
def play(tiny, tmp_path):
    def go(changes, name="r"):
        run(tiny(changes), tmp_path / name)
        return tmp_path / name

    return go


@mark.parametrize("changes", [SLOW, RADIO, {**RADIO, **EAR}])
def test_time_stamps_follow_the_turns(play, changes):
    folder = play(changes)
    rounds, links, updates = (rows(folder, t) for t in ("rounds", "links", "updates"))
    assert column(rounds, "requested_s").tolist() == [60, 120]
    assert (column(links, "time_s") == 60 * column(links, "round")).all()
    latency = {(r["round"], r["ue"]): float(r["latency_s"] or "inf") for r in links}
    heard = {(r["round"], r["ue"]): r["decoded"] == "1" for r in links}
    for row in updates:
        part = row["round"], row["ue"]
        want = 60 * int(row["round"]) + latency[part]
        message = float(row["time_s"] or "inf")
        assert message == approx(want, rel=1e-8)  # records have nine digits
        assert (row["decoded"] == "1") == heard[part]
    late = column(links, "late").any()
    for row in rounds:
        requested_s = float(row["requested_s"])
        arrivals = [
            requested_s + latency[part]
            for part in latency
            if part[0] == row["round"] and heard[part]
        ]
        assert float(row["time_s"]) == approx(max(arrivals, default=requested_s), rel=1e-8)
        assert requested_s < float(row["time_s"])
        if changes is RADIO:
            assert float(row["time_s"]) <= requested_s + 3.2
    assert late == ("deadline_s" in changes.get("world.radio.uplink", {}))
    merged = dict(zip([r["round"] for r in rounds], column(rounds, "time_s"), strict=True))
    assert all(float(r["time_s"]) == merged[r["round"]] for r in rows(folder, "metrics"))
    assert not (folder / "spends.csv").exists()  # no noise was drawn
    for table in ("estimates", "leakage"):
        result = rows(folder, table)
        assert result
        if "learning.threat" not in changes:
            assert all(float(r["time_s"]) == merged[r["round"]] for r in result)


def test_an_eavesdropper_waits_for_nobody_else(play):
    """She attacks when the last device that she decoded has ended; late ones stop, and are no whole
    updates for her."""
    folder = play({**RADIO, **EAR})
    heard = rows(folder, "eavesdropper")
    for row in rows(folder, "leakage"):
        is_own = [r for r in heard if r["round"] == row["round"] and r["decoded"] == "1"]
        ends = [float(r["time_s"]) for r in is_own]
        assert float(row["time_s"]) == approx(
            min(max(ends), 60 * (int(row["round"]) + 1)), rel=1e-8
        )
    merged = {r["round"]: float(r["time_s"]) for r in rows(folder, "rounds")}
    assert all(float(r["time_s"]) <= merged[r["round"]] for r in rows(folder, "leakage"))
    late = {(r["round"], r["ue"]) for r in rows(folder, "links") if r["late"] == "1"}
    assert late
    assert not any((r["round"], r["ue"]) in late for r in heard if r["decoded"] == "1")


def test_the_phases_of_a_round_follow_each_other(play):
    """The second phase is asked for when the first is merged."""
    pytest.importorskip("numba")
    changes = parse_value(
        "{world.ues.training_s_per_sample: 0.01, world.ues.measure: all, "
        "learning.data: {kind: links, hold_out_ues: 1}, "
        "learning.learner: {kind: radio-map, cell_m: 20}, learning.attacks: []}"
    )
    folder = play(changes)
    updates = rows(folder, "updates")
    phases = list(dict.fromkeys(r["phase"] for r in updates))
    assert len(phases) == 2
    for number in ("1", "2"):
        first, second = (
            [float(r["time_s"]) for r in updates if r["round"] == number and r["phase"] == p]
            for p in phases
        )
        assert max(first) < min(second)
        merged = next(float(r["time_s"]) for r in rows(folder, "rounds") if r["round"] == number)
        assert merged == max(second)
