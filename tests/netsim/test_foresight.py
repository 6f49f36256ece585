"""Residents who decide ahead live the same lives, whoever copies, rewinds or saves their state."""

from itertools import pairwise

import numpy as np
import pytest
from test_resident import ground
from thinned import one_in

from netsim.checkpoint import load_tree, save_tree
from netsim.clock import DAY_S
from netsim.mobility import foresight
from netsim.mobility.resident import Resident
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


@pytest.mark.parametrize("n", one_in(3, [1, 2, 5, 40]))
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
