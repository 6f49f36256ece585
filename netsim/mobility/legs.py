"""Movement in legs: a straight walk from one place to the next, followed by a pause.

A position is computed from the leg, not from the previous position, so the tick length has no effect.
"""

from abc import abstractmethod
from typing import Any

import numpy as np

from netsim.columns import Columns, altered, frozen
from netsim.mobility.base import Ground, Mobility, State
from netsim.ues import Fixes
from netsim.units import FloatArray, IntArray


@frozen
class Leg(State, Columns):
    """The current leg of every UE.

    ue, leg (n_ue,): index of the UE and number of the leg; the UE walks from origin_m to target_m (n_ue, 2) between
    depart_s and arrive_s and pauses until pause_until_s (n_ue,).
    """

    ue: IntArray
    leg: IntArray
    origin_m: FloatArray
    target_m: FloatArray
    depart_s: FloatArray
    arrive_s: FloatArray
    pause_until_s: FloatArray

    @classmethod
    def resting(cls, ue: IntArray, at_m: FloatArray) -> "Leg":
        """Leg -1 of UEs (n,), which ends at places (n, 2) at time 0."""
        zero_s = np.zeros(len(ue))
        return Leg(at_m, ue, np.full(len(ue), -1), at_m, at_m, zero_s, zero_s, zero_s)


class Legged(Mobility):
    """Mobility in legs: a subclass defines `next_leg` only."""

    @abstractmethod
    def next_leg(self, now: Any, ground: Ground) -> Any:
        """The next leg of UEs whose pause is over, from their current one (both a `Leg`)."""

    def advance(self, state: Leg, t0_s: float, t1_s: float, ground: Ground) -> tuple[Leg, Fixes]:
        """Moves every UE to t1_s."""
        while len(late := np.flatnonzero(state.pause_until_s <= t1_s)):
            state = state.replaced(late, self.next_leg(state.select(late), ground))
        walk_s = np.maximum(state.arrive_s - state.depart_s, 1e-200)  # a leg of no length is over at once
        done = np.clip((t1_s - state.depart_s) / walk_s, 0.0, 1.0)[:, None]
        # this form, not origin + done * way, so that the waypoint itself is met exactly
        position_m = (1.0 - done) * state.origin_m + done * state.target_m
        return altered(state, position_m=position_m), Fixes.none()

    def wake_s(self, state: Leg, now_s: float, ground: Ground) -> float:
        """The earliest end of a pause when all UEs pause, else now."""
        if (state.arrive_s > now_s).any():
            return now_s
        return max(now_s, float(np.min(state.pause_until_s, initial=np.inf)))
