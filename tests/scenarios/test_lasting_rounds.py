"""Runs whose uploads take their time: equal to planned ones where nothing disturbs them, and to
interrupted ones."""

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.testing import assert_allclose
from pytest import mark, param
from refused import catch_line, read_cases

from scenarios.app.result import run
from scenarios.app.results.folder import read_json
from scenarios.app.study.load import parse_value

UPLINK = parse_value("{kind: noma, bandwidth_hz: 2000.0, decoding: error-free, interference: none}")
QUIET = {
    "world.radio.uplink": UPLINK,
    "world.ues.training_s_per_sample": 0.3,
    "learning.attacks": [{"kind": "closed-form", "cloud": False}],
}
"""UEs that do not disturb one another"""
BUSY = QUIET | parse_value(
    "{world.duration_s: 60, world.radio.uplink: {kind: noma, "
    "rate: {kind: shannon}, bandwidth_hz: 60, decoding: error-free, "
    "sic_residual: 0.01}, learning.round_s: 5}"
)
"""uploads that last longer than a window"""


def table(folder, name):
    return pd.read_csv(Path(folder) / f"{name}.csv")


def different(item, another):
    """Names of tables and keys of the summary that are not the same, but for what is told of
    uploads that last."""
    names = [p.name for p in sorted(Path(item).glob("*.csv")) if p.name != "transmissions.csv"]
    tables = [n for n in names if (Path(item) / n).read_bytes() != (Path(another) / n).read_bytes()]
    first, second = (read_json(Path(f) / "summary.json") for f in (item, another))
    keys = {k for k in first.keys() | second.keys() if first.get(k) != second.get(k)}
    return tables + sorted(k for k in keys if not k.startswith(("uploads.", "merges.")))


# -- events and plans


@mark.slow
@mark.parametrize(
    "changes",
    [
        {},
        {"world.radio.fading": {"kind": "rician", "antennas": 2}},
        {"learning.data": {"kind": "measured", "cell": "all"}},
        {"world.radio.handover": {}},
        {"world.radio.uplink": UPLINK | {"decoding": "noisy", "norm_bound": 1.0}},
        parse_value("{learning.threat: {viewpoint: eavesdropper, position_m: [200, 100]}}"),
        {
            "learning.server": {"kind": "synchronous", "deadline_s": 90},
            "world.radio.uplink": UPLINK | {"bandwidth_hz": 80},
        },
        parse_value("{learning.availability: {kind: battery, capacity_j: 1, charge_w: 0.001}}"),
    ],
    ids=["plain", "fading", "models", "handover", "noise", "eavesdropper", "deadline", "battery"],
)
def test_undisturbed_transmissions_are_those_that_are_planned(play_tiny, tmp_path, out, changes):
    """Rates that are held, and nobody who disturbs: events tell what the plan tells, to the
    byte."""
    study = QUIET | changes
    play_tiny(study)
    play_tiny(
        study | {"world.radio.dynamic_uplink": {"link_adaptation": "grant"}}, tmp_path / "events"
    )
    assert (table(tmp_path / "events", "transmissions").fate == "arrived").sum() >= 6
    assert different(out, tmp_path / "events") == []


def test_with_enough_updates_the_same_model_comes_of_events_and_of_a_plan(play_tiny, tmp_path):
    """The plan calls the others late; as events they are stopped. Both send until then, and no
    longer."""
    study = QUIET | {"learning.server": {"kind": "synchronous", "merge_after_updates": 2}}
    play_tiny(study, tmp_path / "planned")
    play_tiny(
        study | {"world.radio.dynamic_uplink": {"link_adaptation": "grant"}}, tmp_path / "events"
    )
    uploads = table(tmp_path / "events", "transmissions")
    assert set(uploads.fate) == {"arrived", "stopped"}
    assert (uploads.fate == "arrived").sum() == 2 * 2
    assert not {"estimates.csv", "metrics.csv", "final.csv"} & set(
        different(tmp_path / "planned", tmp_path / "events")
    )
    planned, events = (table(tmp_path / name, "rounds") for name in ("planned", "events"))
    pd.testing.assert_series_equal(planned.time_s, events.time_s)
    pd.testing.assert_series_equal(planned.energy_j, events.energy_j)


def test_a_round_that_outlasts_windows_learns_from_all_of_them(play_tiny, tmp_path):
    """Rounds of up to 30 s and windows of 5 s: each begins at an end of a window, when the one
    before is over."""
    server = {"kind": "synchronous", "deadline_s": 30}
    play_tiny(BUSY | {"learning.server": server, "world.radio.dynamic_uplink": {}}, tmp_path)
    rounds = table(tmp_path, "rounds")
    assert 2 <= len(rounds) < 10
    assert (rounds.requested_s % 5 == 0).all()
    ended_s = rounds.time_s.to_numpy()[:-1]
    assert (rounds.requested_s[1:] - ended_s).between(0, 5).all()
    assert (rounds.time_s <= rounds.requested_s + 30).all()
    # one measurement a UE every 5 s
    assert list(rounds.samples.iloc[1:]) == [
        4 * int(d / 5) for d in rounds.requested_s.diff().iloc[1:]
    ]


def test_power_control_follows_ues_that_drive_while_they_send(play_tiny, tmp_path):
    """Open-loop power (alpha 1) is that of the request in a plan; over the air it is the mean of
    what each block asks for, within the cap of a UE, and what is spent is that times airtime.
    """
    fast = {"kind": "random-waypoint", "speed_m_s": [20, 20]}
    law = parse_value("{kind: fractional, p0_dbm: -80, alpha: 1}")
    study = QUIET | {"world.ues.mobility": fast, "power": law, "world.ues.max_power_dbm": 10}
    for name, air in (("planned", None), ("held", {}), ("followed", {"block_s": 1})):
        play_tiny(study | {"world.radio.dynamic_uplink": air}, tmp_path / name)
    planned, held, followed = (
        table(tmp_path / name, "links") for name in ("planned", "held", "followed")
    )
    asked_dbm = -80 + 15 - planned.rsrp_dbm  # base stations send 15 dBm
    assert_allclose(planned.power_w, 1e-3 * 10 ** (np.minimum(asked_dbm, 10) / 10), rtol=1e-5)
    assert (held.power_w == planned.power_w).all()
    assert (abs(followed.power_w / planned.power_w - 1) > 0.1).sum() > len(planned) / 2
    assert followed.power_w.between(0, 0.01 * (1 + 1e-9)).all()
    assert_allclose(followed.energy_j, followed.power_w * followed.airtime_s, rtol=1e-4)


# -- interruptions

SCHEDULERS = ["simultaneous", "groups", "round-robin", "proportional-fair", "energy-aware"]
SERVERS = parse_value(
    "[{kind: synchronous, deadline_s: 30, merge_after_updates: 2}, {kind: fedbuff, "
    "buffer: 3}, {kind: fedasync, deadline_s: 12}]"
)
AVAILABILITIES = parse_value(
    "[{kind: always}, {kind: battery, capacity_j: 2, charge_w: 0.02, "
    "charging: null}, {kind: charging, from_hour: 0, "
    "from_spread_hours: 0.01, hours: 1, length_spread_hours: 0.5}]"
)
AIRS = parse_value("[{}, {block_s: 2.0, retransmissions: 1}, {link_adaptation: grant}]")
EVERY = list(itertools.product(range(5), range(3), range(3)))
SOME = [(0, 1, 1), (2, 0, 1), (4, 2, 2)]
SLOW = [param(*item, marks=mark.slow) for item in EVERY if item not in SOME]


def interrupt_at(study, folder, at_s):
    """Plays a run that is interrupted at the first news after each of the times at_s; how often it
    was."""
    times = 0
    for stop_s in at_s:

        def watch(progress, stop_s=stop_s):
            if progress.values["time_s"] >= stop_s:
                raise KeyboardInterrupt

        try:
            run(study, folder, watch)
        except KeyboardInterrupt:
            times += 1
    run(study, folder)
    return times


@mark.parametrize("scheduler, server, availability", [*SOME, *SLOW])
def test_an_interrupted_run_ends_in_the_same_bytes(
    tiny, cut, whole, table_bytes, scheduler, server, availability
):
    air = {"scheduler": {"kind": SCHEDULERS[scheduler]}, "client_dropout_per_s": 0.005}
    parts = {
        "learning.server": SERVERS[server],
        "learning.availability": AVAILABILITIES[availability],
    }
    study = tiny(
        BUSY
        | parts
        | {"world.radio.dynamic_uplink": air | AIRS[(scheduler + server + availability) % 3]}
    )
    news = list[float]()
    stops = (5, 20, 25, 45)
    run(
        study,
        whole,
        lambda progress: progress.last or news.append(progress.values["time_s"]),
    )
    after = iter(news)
    expected = sum(any(time_s >= stop_s for time_s in after) for stop_s in stops)
    assert interrupt_at(study, cut, stops) >= expected >= 1
    assert len(table(whole, "transmissions"))
    assert table_bytes(cut) == table_bytes(whole)


def test_a_run_goes_on_from_a_round_that_outlasted_the_world(tiny, cut, whole, table_bytes):
    """Interrupted when its last round is over, more than a second after the end of the world."""
    study = tiny(
        BUSY
        | parse_value(
            "{learning.server: {kind: synchronous, deadline_s: 40}, world.radio.dynamic_uplink: {}}"
        )
    )
    run(study, whole)
    last_s = float(table(whole, "rounds").time_s.iloc[-1])
    assert last_s > 61
    assert interrupt_at(study, cut, (last_s - 1e-3,)) == 1
    assert table_bytes(cut) == table_bytes(whole)


# -- bad input


MISFITS = """
learning.server: {kind: fedbuff}
    set world.radio.dynamic_uplink, {} for its defaults
world.radio.dynamic_uplink: {block_s: 1, step_s: 0.3}
    block_s 1 must be a multiple of step_s 0.3
learning.server: {kind: fedbuff, buffer: 2}, world.radio.dynamic_uplink: {},
learning.defenses: [{kind: adaptive-clip}]
    adaptive-clip needs rounds, and server fedbuff has none
learning.server: {kind: fedasync}, world.radio.dynamic_uplink: {},
learning.defenses: [{kind: clip, norm: 1.0}, {kind: lapa, rounds: 5, initial_noise_std: 1.0}]
    lapa needs rounds
learning.server: {kind: fedasync}, world.radio.dynamic_uplink: {},
learning.membership: {attacks: [{kind: loss-threshold}]}
    tested in rounds
world.radio.uplink: {kind: noma, group_size: 2, decoding: error-free}, world.radio.dynamic_uplink: {}
    group_size
"""


@mark.parametrize("changes, message", read_cases(MISFITS))
def test_what_does_not_fit_is_refused_in_one_line(tiny, changes, message):
    assert message in catch_line(tiny, parse_value(f"{{{changes}}}"))
