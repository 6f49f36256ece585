"""Movement in legs: a straight walk from one place to the next, followed by a pause.

A position is computed from the leg, not from the previous position, so the tick length has no effect.
"""

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, TypeVar

import numpy as np

from netsim.columns import altered
from netsim.mobility.base import Ground, Mobility, State
from netsim.ues import Fixes
from netsim.units import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Leg(State):
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

    def columns(self) -> dict[str, np.ndarray]:
        """All arrays by name."""
        return vars(self)

    def of(self, row: IntArray) -> Self:
        """The legs of the UEs at `row` (n,)."""
        return type(self)(**{name: column[row] for name, column in self.columns().items()})

    def copied(self) -> Self:
        """A copy with its own arrays."""
        return type(self)(**{name: column.copy() for name, column in self.columns().items()})


Walk = TypeVar("Walk", bound=Leg)


def walked_on(state: Walk, t1_s: float, next_leg: Callable[[Walk], Walk]) -> Walk:
    """The state at t1_s.

    `next_leg` returns the next leg of UEs at the end of their pause, from their current one.
    """
    late = (state.pause_until_s <= t1_s).nonzero()[0]
    if late.size:
        state = state.copied()
    columns = state.columns()
    while late.size:
        for name, column in next_leg(state.of(late)).columns().items():
            columns[name][late] = column
        late = late[state.pause_until_s[late] <= t1_s]
    return altered(state, position_m=_on_legs(state, [t1_s])[0])


def walked_ahead(state: Walk, times_s: list[float], next_leg: Callable[[Walk], Walk]) -> list[Walk]:
    """`walked_on` for each interval of `times_s`; intervals in which no UE begins a leg are computed together."""
    walked: list[Walk] = []
    at, last = 0, len(times_s) - 1
    while at < last:
        stretch = at
        if len(state.pause_until_s):
            stretch = min(last, bisect_left(times_s, float(state.pause_until_s.min())) - 1)
        if stretch > at:
            walked += [altered(state, position_m=each) for each in _on_legs(state, times_s[at + 1 : stretch + 1])]
            at = stretch
        else:
            walked.append(walked_on(state, times_s[at + 1], next_leg))
            at += 1
        state = walked[-1]
    return walked


class Legged(Mobility):
    """Mobility in legs: a subclass defines `next_leg` only."""

    @abstractmethod
    def next_leg(self, now: Any, ground: Ground) -> Any:
        """The next leg of UEs whose pause is over, from their current one (both a `Leg`)."""

    def advance(self, state: Leg, t0_s: float, t1_s: float, ground: Ground) -> tuple[Leg, Fixes]:
        """Moves every UE to t1_s."""
        return walked_on(state, t1_s, partial(self.next_leg, ground=ground)), Fixes.none()

    def ahead(self, state: Leg, times_s: list[float], ground: Ground) -> list[tuple[State, Fixes]]:
        walked = walked_ahead(state, times_s, partial(self.next_leg, ground=ground))
        return [(later, Fixes.none()) for later in walked]

    def wake_s(self, state: Leg, now_s: float, ground: Ground) -> float:
        """The earliest end of a pause when all UEs pause, else now."""
        last_s = state.arrive_s
        if len(last_s) and last_s[last_s.argmax()] > now_s:
            return now_s
        return max(now_s, float(np.min(state.pause_until_s, initial=np.inf)))


def _on_legs(state: Leg, times_s: list[float]) -> FloatArray:
    """Positions (k, n, 2) at times (k,) within the current legs."""
    walk_s = np.maximum(state.arrive_s - state.depart_s, 1e-200)  # a leg of no length is over at once
    done = np.clip((np.array(times_s)[:, None] - state.depart_s) / walk_s, 0.0, 1.0)[:, :, None]
    # this form, not origin + done * way, so that the waypoint itself is met exactly
    return np.asarray((1.0 - done) * state.origin_m + done * state.target_m)
