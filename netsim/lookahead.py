"""Looking ahead: the links of the next ticks, calculated together.

No action changes where UEs go or how their signals travel, so a world that is asked for its links tick after
tick may move and measure a block of ticks at once. Laws of place cost a fixed time a call; with few UEs that is
nearly all they cost, and a block pays it once. With many UEs each tick is calculated alone, and only for the UEs that
moved or went in or out. Every position and gain is the very number that a tick alone gives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from math import inf
from typing import NamedTuple

import numpy as np

from netsim.clock import last_multiple
from netsim.mobility.base import Ground, Mobility, State
from netsim.radio.link_budget import Budget, RadioLinks
from netsim.ues import Fixes, Indoors
from netsim.units import BoolArray, FloatArray, IntArray

_MAX_TICKS = 64
_MAX_PAIRS = 8192  # of a block: beyond, a longer one saves nothing
_MAX_MOVED = 0.6  # share of UEs up to which keeping the links of the others saves time


def tick_after(time_s: float, tick_s: float) -> float:
    """The next multiple of tick_s after time_s, as the clock of events reaches it."""
    return time_s + ((last_multiple(time_s, tick_s) + 1) * tick_s - time_s)


class _PlacesNow(NamedTuple):
    """Positions of UEs for which something was calculated."""

    position_m: FloatArray
    indoors: Indoors | None

    def moved(self, now: _PlacesNow) -> BoolArray:
        """Which UEs are elsewhere now, or inside otherwise (n,)."""
        if self.position_m.shape != now.position_m.shape or (self.indoors is None) != (now.indoors is None):
            return np.ones(len(now.position_m), dtype=np.bool_)
        same = (self.position_m == now.position_m) | (np.isnan(self.position_m) & np.isnan(now.position_m))
        moved = ~same.all(axis=1)
        if self.indoors is not None and now.indoors is not None and self.indoors is not now.indoors:
            for f in fields(Indoors):
                moved |= getattr(self.indoors, f.name) != getattr(now.indoors, f.name)
        if moved.any():
            moved[:2] = True  # a single link would be summed in another order
        return np.asarray(moved)


class _TickAhead(NamedTuple):
    """A movement made early: from a state at t0_s to another at t1_s."""

    t0_s: float
    t1_s: float
    before: State
    after: State
    fixes: Fixes


@dataclass(eq=False)
class Lookahead:
    """Answers `advance` and `links` of one world, from a block of ticks where one was calculated.

    A block is twice as long as the one before; after ticks that were not walked as foreseen it starts again at one,
    so that the work thrown away stays below the work used.
    """

    mobility: Mobility
    ground: Ground
    budget: Budget
    tick_s: float
    indoors: Callable[[State], Indoors | None] = State.indoors
    """indoor state of the UEs in a state"""
    _now: State | None = None
    _links: RadioLinks | None = None
    _row: int = 0
    _steps: deque[_TickAhead] = field(default_factory=deque)
    _asked_s: float = -inf
    _ticks: int = 1
    _known: tuple[_PlacesNow, RadioLinks] | None = None
    _heard: tuple[_PlacesNow, FloatArray] | None = None

    def advance(self, state: State, t0_s: float, t1_s: float) -> tuple[State, Fixes]:
        """The result of `Mobility.advance`."""
        if self._steps:
            step = self._steps.popleft()
            if step.before is state and step.t0_s == t0_s and step.t1_s == t1_s:
                self._now, self._row = step.after, self._row + 1
                return step.after, step.fixes
            self._steps.clear()
            self._ticks = 1
        self._now = None
        return self.mobility.advance(state, t0_s, t1_s, self.ground)

    def links(self, state: State, time_s: float) -> RadioLinks:
        """The radio of a state at time_s."""
        n = len(state.position_m)
        if state is not self._now or self._links is None:
            self._calculate(state, time_s, n)
        self._asked_s = time_s
        assert self._links is not None  # noqa: S101
        return self._links if len(self._links.gain) == n else self._links.part(self._row * n, n, time_s)

    def _calculate(self, state: State, time_s: float, n: int) -> None:
        """The links of this tick, and of the next ones where the last question came one tick ago."""
        self._now, self._row = state, 0
        self._steps.clear()
        ticks = 1
        if self._asked_s > -inf and tick_after(self._asked_s, self.tick_s) == time_s:
            most = _MAX_PAIRS // max(1, n * len(self.budget.at_m))
            ticks = self._ticks = max(1, min(2 * self._ticks, _MAX_TICKS, most))
        times_s = [time_s]
        for _ in range(ticks - 1):
            times_s.append(tick_after(times_s[-1], self.tick_s))
        states = [state]
        future = self.mobility.ahead(state, times_s, self.ground) if ticks > 1 else []
        states += [after for after, _ in future]
        fixes = [some for _, some in future]
        self._steps.extend(map(_TickAhead._make, zip(times_s, times_s[1:], states, states[1:], fixes, strict=False)))
        if ticks == 1:
            self._links = self._one(states[0], time_s)
            return
        position_m = np.concatenate([s.position_m for s in states])
        self._links = self.budget.links(time_s, position_m, _joined([self.indoors(s) for s in states], n))

    def _one(self, state: State, time_s: float) -> RadioLinks:
        """The links of one tick, calculated for the UEs that changed since the last one."""
        now = _PlacesNow(state.position_m, self.indoors(state))
        moved = None if self._known is None else self._known[0].moved(now)
        if self._known is None or moved is None or moved.mean() > _MAX_MOVED:
            self._known = self._links = self._heard = None  # the memory of the last ones is that of the next
            links = self.budget.links(time_s, *now)
            self._heard = now, links.rsrp_dbm
        elif not moved.any():
            return self._known[1].part(0, len(moved), time_s)
        else:
            rows = np.flatnonzero(moved)
            links = self._known[1].with_rows(rows, self.budget.links(time_s, *_some(now, rows)))
        self._known = now, links
        return links

    def rsrp_dbm(self, state: State) -> FloatArray:
        """RSRP of all UEs in a state (n_ue, n_bs), calculated for those that changed since the last call."""
        now = _PlacesNow(state.position_m, self.indoors(state))
        moved = None if self._heard is None else self._heard[0].moved(now)
        if self._heard is None or moved is None or moved.mean() > _MAX_MOVED:
            rsrp = self.budget.rsrp_dbm(*now)
        elif not moved.any():
            return self._heard[1]
        else:
            rows = np.flatnonzero(moved)
            rsrp = self._heard[1].copy()
            rsrp[rows] = self.budget.rsrp_dbm(*_some(now, rows))
        self._heard = now, rsrp
        return rsrp


def _some(places: _PlacesNow, rows: IntArray) -> _PlacesNow:
    return _PlacesNow(places.position_m[rows], None if places.indoors is None else places.indoors.select(rows))


def _joined(pieces: list[Indoors | None], n: int) -> Indoors | None:
    """Indoor states of n UEs at several times, one after another; None where all are None."""
    if all(piece is None for piece in pieces):
        return None
    return Indoors.join([Indoors.outdoors(np.arange(n)) if piece is None else piece for piece in pieces])
