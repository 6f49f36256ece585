"""Multiples of time steps: time never stands still, and no multiple is left out, counted twice, or
a tick late."""

import json
from dataclasses import replace
from datetime import date

import numpy as np
from numpy.testing import assert_array_equal
from pytest import approx, mark
from rows import read_yaml
from tabled import cases

from fl.data.hold_out import Sessions
from fl.data.measured import Measured
from fl.query import Custom, compute_min_interval_s
from fl.tracking.history import MIN_SILENT_ROUNDS, Lifetimes
from fl.tracking.linking import Book
from fl.types import Public, Request, RoundContext
from netsim.clock import Clock, find_first_multiple, find_last_multiple, find_tick_after
from netsim.geometry import Area
from netsim.mobility.base import Ground
from netsim.mobility.gauss_markov import GaussMarkov
from netsim.mobility.replay import Replay, Replayed, TraceRows
from netsim.radio.downlink import Handover
from netsim.rng import Streams
from netsim.traces.home_work import KNOWN_S, _number_stays
from netsim.traces.moves import Moves, resample_trips
from netsim.world.build import build_world
from netsim.world.setting import WorldSetting

STEPS = [0.001, 0.01, 0.1, 0.16, 0.3, 1 / 3, 0.6, 0.7, 1.0, 1.1, 60.0, 86_400.0]
BOX = Area(0.0, 0.0, 600.0, 500.0)


@mark.parametrize("step_s", STEPS)
def test_a_product_is_its_own_multiple(step_s):
    """Up to 2^40 steps; a millisecond later, or a hundredth of a step, is another."""
    rng = np.random.default_rng(0)
    many = np.concatenate([np.arange(3000), np.floor(2.0 ** rng.uniform(11, 40, 3000))]).astype(int)
    for k in many.tolist():
        product_s = k * step_s
        assert find_last_multiple(product_s, step_s) == find_first_multiple(product_s, step_s) == k
        assert find_last_multiple((k + 0.99) * step_s, step_s) == k
        assert find_first_multiple((k + 0.01) * step_s, step_s) == k + 1


@mark.parametrize("step_s", STEPS)
def test_every_tick_is_later_than_the_last_by_one_tick(step_s):
    for start in (0, 2**10, 2**24, 2**30):
        now_s = start * step_s
        for k in range(start + 1, start + 2000):
            then_s = find_tick_after(now_s, step_s)
            assert now_s < then_s == approx(k * step_s, rel=1e-15)
            now_s = then_s


def build_tenth_world(**ues):
    document = read_yaml(
        "duration_s: 30.0, tick_s: 0.1, ues: {count: 2, mobility: {kind: random-waypoint}}, "
        "city: {kind: open-field, width_m: 600.0, height_m: 500.0}, "
        "base_stations: [{name: a, position_m: [100.0, 100.0]}]"
    )
    document["ues"] |= ues
    return build_world(WorldSetting.model_validate_json(json.dumps(document)), Streams(3), 10.0)


@mark.parametrize("every_s", [0.1, 0.3, 0.7, 1.0])
def test_a_world_of_tenths_of_seconds_comes_to_its_end(every_s):
    world = build_tenth_world(measurement_period_s=every_s)
    moves = []
    while world.env.now < 30.0 and len(moves) < 500:
        world.env.step()
        moves.append(world.env.now)
    assert len(moves) < 310
    seen = world.drain_observations()
    number = np.unique(np.round(seen.time_s[seen.ue == 0] / every_s, 6))
    assert number.tolist() == list(range(round(29.95 // every_s) + 1))


# -- durations: n ticks last n ticks, wherever a difference of times is compared with one


def hands_over(t0_s, t1_s, span_s):
    rule = Handover(time_to_trigger_s=span_s)
    state = Handover.start(1, 2)
    for time_s, second_dbm in ((t0_s, -90.0), (t0_s, -70.0), (t1_s, -70.0)):
        state, moved = rule.step(state, np.array([[-80.0, second_dbm]]), time_s)
    return bool(moved[0])


def answers(t0_s, t1_s, span_s):
    policy = Custom(
        gamma=None, multiples="any", speed_m_s=compute_min_interval_s(50.0, 1.0, 0.5) / span_s
    )
    request = Request(1.0, np.array([50.0]), BOX)
    return not policy._find_early(np.array([0]), request, t1_s, np.array([t0_s]))[0]


def is_forgotten(t0_s, t1_s, span_s):
    lives = Lifetimes()
    for name, time_s in ((1, t0_s), (2, t1_s)):
        facts = RoundContext(name, time_s, Public(BOX, 1), round_s=span_s / MIN_SILENT_ROUNDS)
        lives = lives.add_round(np.array([name]), facts, True)
    return not lives.is_alive[0]


def closes(t0_s, t1_s, span_s):
    book = Book.empty(1).add_tracks(np.array([0]))
    book = replace(book, tracks=replace(book.tracks, seen_s=np.array([t0_s])))
    return not len(book.drop_old_tracks(t1_s, span_s / 6).tracks.number)


def begins_session(t0_s, t1_s, span_s):
    time_s = np.array([t0_s, t1_s])
    ue = np.zeros(2, dtype=np.int64)
    whole = Measured(hold_out_by="session", session_gap_s=span_s).number_wholes(
        ue, np.zeros((2, 2)), time_s
    )
    _, session = Sessions.empty(1).add_measurements(ue, time_s, span_s)
    assert_array_equal(session, whole)
    return bool(session[1])


def begins_trip(t0_s, t1_s, span_s):
    moves = Moves(np.zeros(2, dtype=np.int64), np.array([t0_s, t1_s]), np.zeros((2, 2)))
    return resample_trips(moves, 1e4, span_s)[1] == 2


def begins_stay(t0_s, t1_s, span_s):
    return bool(_number_stays(np.zeros((2, 2)), np.array([t0_s, t1_s]))[1])


def leaves(t0_s, t1_s, span_s):
    part = Replay(trace="t.csv", absent_after_s=span_s)
    rows = TraceRows(np.zeros(1, dtype=np.int64), np.array([t0_s]), np.zeros((1, 2)), None, None)
    seen = Replayed(
        np.zeros((1, 2)), 1, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), span_s, rows
    )
    after, _ = part.advance(seen, t1_s, t1_s, None)
    wakes = part.wake_s(after, t1_s, None) < np.inf  # whoever is still there is looked at again
    assert wakes != bool(np.isnan(after.position_m[0, 0]))
    return not wakes


AT_ONCE = (hands_over, answers)
LATER = (is_forgotten, closes, begins_session, begins_trip, begins_stay, leaves)


@mark.parametrize("passed", AT_ONCE + LATER)
@mark.parametrize(
    ("tick_s", "n"),
    cases(
        r"""
     0.1, 1
     0.3, 7
     0.7, 3
     0.1, 36_000
     0.3, 12_000
     700.1, 6
     """
    ),
)
def test_n_ticks_last_n_ticks_whenever_they_begin(passed, tick_s, n):
    """A duration that has to pass has passed after n ticks; one that has to be exceeded is exceeded
    by more alone."""
    span_s = round(n * tick_s, 6)
    if (passed is begins_stay and span_s != KNOWN_S) or (passed is closes and span_s < 3600):
        return  # constants
    for k in (*range(150), 2**24 + 1, 2**30 + 7):
        t0_s = k * tick_s
        t1_s = (k + n) * tick_s
        assert passed(t0_s, t1_s, span_s) == (passed in AT_ONCE), (k, tick_s)
        if passed is not begins_stay:
            assert passed(t0_s, t1_s, span_s * (1 - 1e-3)) or passed is closes
            assert not passed(t0_s, t1_s, span_s * (1 + 1e-3))


@mark.parametrize("round_s", [0.1, 0.3, 0.7, 1.1, 86_400 / 7])
def test_rounds_of_a_clock_end_where_they_should(round_s):
    clock = Clock(date(2026, 1, 5))
    numbers = list(range(1, 1000))
    assert [clock.count_rounds(round(k * round_s, 6), round_s) for k in numbers] == numbers
    ends_s = np.array(clock.compute_round_ends_s(len(numbers), round_s))
    assert clock.find_rounds(ends_s, round_s).tolist() == numbers


@mark.parametrize("step_s", [0.1, 0.3, 0.7])
def test_steps_begin_with_their_tick(step_s):
    part = GaussMarkov(step_s=step_s)
    ground = Ground(BOX, Clock(date(2026, 1, 5)), Streams(1))
    state = part.start(np.arange(2), ground)
    for k in range(1, 400):
        state, _ = part.advance(state, (k - 1) * step_s, k * step_s, ground)
        assert state.step == k
