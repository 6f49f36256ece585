"""Residents who decide ahead live the same lives, whoever copies, rewinds or saves their state."""

from copy import deepcopy
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from test_resident import HOUR_S, ground

from netsim.checkpoint import load_tree, save_tree
from netsim.clock import DAY_S
from netsim.mobility import foresight
from netsim.mobility.decisions import Decisions
from netsim.mobility.resident import Resident
from netsim.streets.routes import Trips
from netsim.tree import from_tree, to_tree

STOPS_S = 900.0 * np.arange(4 * 96 + 1)


class Counted(Resident):
    """Residents who write down how many decide in each call."""

    def _decisions(self, state, row, ground):
        CALLS.append(len(row))
        return super()._decisions(state, row, ground)


CALLS = []


def play(part, state, stops_s, place):
    """The states at the stops."""
    states = [state]
    for t0_s, t1_s in pairwise(stops_s):
        states.append(part.advance(states[-1], t0_s, t1_s, place)[0])
    return states


def pending(state):
    """Decisions that are known, and still to come."""
    if state.foreseen is None:
        return 0
    made = state.foreseen.decisions
    return int((made.number > state.decision[made.row]).sum())


def assert_same(one, other):
    np.testing.assert_equal(to_tree(one), to_tree(other))
    np.testing.assert_equal(vars(one.indoors()), vars(other.indoors()))


@pytest.mark.parametrize("n", [1, 2, 5, 40])
@pytest.mark.parametrize("tick_s", [240.0, 7200.0])
def test_each_decision_alone_gives_the_same_states(n, tick_s, monkeypatch):
    part, place, stops_s = Resident(), ground(), np.arange(0, 3 * DAY_S, tick_s)
    ahead = play(part, part.start(np.arange(n), place), stops_s, place)
    monkeypatch.setattr(foresight, "_MOST", 0)
    alone = play(part, part.start(np.arange(n), place), stops_s, place)
    assert max(map(pending, alone)) == 0 and (n < 3 or max(map(pending, ahead)) >= n)
    for one, other in zip(ahead, alone, strict=True):
        assert_same(one, other)


def test_few_calls_decide_for_many():
    part, place = Counted(), ground()
    start = part.start(np.arange(40), place)
    CALLS.clear()
    last = play(part, start, STOPS_S, place)[-1]
    used = int(last.decision.sum()) - 40
    assert used > 400
    assert len(CALLS) < used / 15
    assert sum(CALLS) - pending(last) == used  # nothing is made twice


@pytest.mark.parametrize("n", [3, 40, 400])
def test_no_more_is_made_for_nothing_than_is_used(n):
    part, place = Counted(), ground()
    state = part.start(np.arange(n), place)
    CALLS.clear()
    for t0_s, t1_s in pairwise(np.arange(0, 1.5 * DAY_S, 900.0)):
        state, _ = part.advance(state, t0_s, t1_s, place)
        used = int(state.decision.sum()) - n
        assert sum(CALLS) <= 2 * used
    assert used > n


def test_what_is_kept_is_bounded():
    part, place = Resident(), ground()
    state, size = part.start(np.arange(1500), place), []
    for t0_s, t1_s in pairwise(np.arange(8 * HOUR_S, 10 * HOUR_S, 60.0)):
        before, (state, _) = int(state.decision.sum()), part.advance(state, t0_s, t1_s, place)
        if state.foreseen is not None:
            size.append((pending(state), len(state.foreseen.decisions) - (int(state.decision.sum()) - before)))
    kept, held = np.max(size, axis=0)
    assert foresight._MOST - foresight._AT_ONCE < kept <= foresight._MOST
    assert held <= foresight._MOST  # but those that are due


def test_a_call_that_is_full_without_them_makes_none_ahead():
    part, place = Counted(), ground()
    state, _ = part.advance(part.start(np.arange(1500), place), 0.0, 9 * HOUR_S, place)
    state = replace(state, foreseen=None)
    for late, most in ((foresight._AT_ONCE - 1, foresight._MOST), (foresight._AT_ONCE, foresight._AT_ONCE)):
        until_s = np.sort(state.until_s)[late - 1]
        CALLS.clear()
        foresight.decided(state, until_s, lambda s, row: part._decisions(s, row, place), (part, place))
        assert sum(CALLS) == most


def test_states_that_were_left_go_on_as_before():
    """A world is set back, played on, and set back again; two copies take turns."""
    part, place = Resident(), ground()
    states = play(part, part.start(np.arange(12), place), STOPS_S, place)
    for k in (300, 100, 30, 299):
        assert pending(states[k]) > 0
        assert_same(states[k + 60], play(part, states[k], STOPS_S[k : k + 61], place)[-1])
    one, other = states[100], deepcopy(states[250])
    for k in range(50):
        one, _ = part.advance(one, STOPS_S[100 + k], STOPS_S[101 + k], place)
        other, _ = part.advance(other, STOPS_S[250 + k], STOPS_S[251 + k], place)
    assert_same(one, states[150])
    assert_same(other, states[300])


def test_a_saved_state_knows_nothing_ahead_and_goes_on_the_same(tmp_path):
    part, place, ue = Resident(), ground(), np.arange(40)
    states = play(part, part.start(ue, place), STOPS_S, place)
    assert pending(states[200]) > 40
    save_tree(tmp_path / "state.npz", to_tree(states[200]))
    assert "foreseen" not in to_tree(states[200])
    again = from_tree(load_tree(tmp_path / "state.npz"), part.start(ue, ground()))
    assert again.foreseen is None
    for one, other in zip(states[200:], play(part, again, STOPS_S[200:], place), strict=True):
        assert_same(one, other)


class TestStale:
    """What was made ahead of another past, by other people or on another ground, is made again."""

    PART, PLACE = Resident(), ground()

    def state(self):
        state = play(self.PART, self.PART.start(np.arange(20), self.PLACE), STOPS_S[:200], self.PLACE)[-1]
        assert pending(state) > 20
        return state

    def check(self, part, state, place):
        """The state goes on as the same one that knows nothing ahead."""
        plain = replace(state, foreseen=None)
        for one, other in zip(*(play(part, s, STOPS_S[199:300], place) for s in (state, plain)), strict=True):
            assert_same(one, other)

    def test_the_end_of_a_stay_is_changed(self):
        state = self.state()
        self.check(self.PART, replace(state, until_s=state.until_s + 100.0), self.PLACE)

    def test_the_number_of_the_last_decision_is_changed(self):
        state = self.state()
        self.check(self.PART, replace(state, decision=state.decision - 1), self.PLACE)

    def test_other_people(self):
        self.check(Resident(rho=0.1, stay_tau_h=2.0), self.state(), self.PLACE)

    def test_other_ground(self):
        self.check(self.PART, self.state(), ground(seed=8))


class TestDecisions:
    def some(self, row, number, at_s):
        m = len(row)
        zero, trips = np.zeros(m), Trips(np.zeros(m + 1, dtype=int), np.zeros((0, 2)), np.zeros(0))
        return Decisions(
            np.array(row), np.array(number), np.array(at_s), zero > 0, zero, zero, zero, np.zeros((m, 2)),
            np.zeros((m, 6)), zero > 0, trips, zero, zero > 0,
        )  # fmt: skip

    def test_the_next_ones_have_the_next_number_and_the_end_of_the_stay(self):
        made = self.some([0, 1, 2, 0, 1], [4, 7, 2, 5, 8], [10.0, 20.0, 30.0, 40.0, 50.0])
        number, until_s = np.array([3, 7, 1]), np.array([10.0, 50.0, 31.0])
        assert made.following(number, until_s).tolist() == [0, 4]

    def test_pieces_are_joined_in_order(self):
        whole = Decisions.join([self.some([0, 1], [1, 1], [1.0, 2.0]), self.some([0], [2], [3.0])])
        assert whole.number.tolist() == [1, 1, 2] and len(whole) == len(whole.trips) == 3
        assert whole.select(np.array([2, 0])).at_s.tolist() == [3.0, 1.0]


class TestTripsByIndex:
    TRIPS = Trips(np.array([0, 2, 2, 5]), np.arange(10.0).reshape(5, 2), np.array([0.0, 1.0, 0.0, 2.0, 3.0]))

    def test_select(self):
        some = self.TRIPS.select(np.array([2, 1, 0, 2]))
        assert some.first.tolist() == [0, 3, 3, 5, 8]
        assert some.time_s.tolist() == [0, 2, 3, 0, 1, 0, 2, 3]
        assert some.vertex_m[:, 0].tolist() == [4, 6, 8, 0, 2, 4, 6, 8]
        assert self.TRIPS.select(np.zeros(0, dtype=int)).first.tolist() == [0]

    def test_join(self):
        both = Trips.join([self.TRIPS.select(np.array([0])), self.TRIPS.select(np.array([1, 2]))])
        for name in ("first", "vertex_m", "time_s"):
            assert np.array_equal(getattr(both, name), getattr(self.TRIPS, name))

    def test_spread(self):
        wide = self.TRIPS.spread(np.array([1, 2, 4]), 6)
        assert wide.first.tolist() == [0, 0, 2, 2, 2, 5, 5]
        assert wide.vertex_m is self.TRIPS.vertex_m
