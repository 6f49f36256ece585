"""Looking ahead: the links of the next ticks, calculated together.

Nobody's action changes where UEs go or how their signals travel, so a world that is asked for its links tick after
tick may move and measure a block of ticks at once. Laws of place cost a fixed time a call; with few UEs that is
nearly all they cost, and a block pays it once. With many UEs each tick is calculated alone, and only for the UEs that
moved or went in or out. Every position and gain is the very number that a tick alone gives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from itertools import pairwise
from math import inf
from typing import NamedTuple

import numpy as np

from netsim.indoors import Indoors
from netsim.mobility.base import Ground, Mobility, State
from netsim.multiples import last_multiple
from netsim.observations import Fixes
from netsim.radio.link_budget import Budget
from netsim.radio.links import Links
from netsim.units import BoolArray, FloatArray

_MOST_TICKS = 64
_MOST_PAIRS = 8192  # of a block: beyond, a longer one saves nothing
_MOST_MOVED = 0.6  # share of UEs up to which keeping the links of the others saves time


def tick_after(time_s: float, tick_s: float) -> float:
    """The next multiple of tick_s after time_s, as the clock of events reaches it."""
    return time_s + ((last_multiple(time_s, tick_s) + 1) * tick_s - time_s)


class _Known(NamedTuple):
    """The links of a tick that was calculated alone, and what they were calculated from."""

    position_m: FloatArray
    indoors: Indoors | None
    links: Links


class _Step(NamedTuple):
    """A movement made early: from a state at t0_s to another at t1_s."""

    t0_s: float
    t1_s: float
    before: State
    after: State
    fixes: Fixes


@dataclass
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
    """who is inside, of a state"""
    _now: State | None = None
    _links: Links | None = None
    _row: int = 0
    _steps: deque[_Step] = field(default_factory=deque)
    _asked_s: float = -inf
    _ticks: int = 1
    _known: _Known | None = None

    def advance(self, state: State, t0_s: float, t1_s: float) -> tuple[State, Fixes]:
        """What `Mobility.advance` gives."""
        if self._steps:
            step = self._steps.popleft()
            if step.before is state and step.t0_s == t0_s and step.t1_s == t1_s:
                self._now, self._row = step.after, self._row + 1
                return step.after, step.fixes
            self._steps.clear()
            self._ticks = 1
        self._now = None
        return self.mobility.advance(state, t0_s, t1_s, self.ground)

    def links(self, state: State, time_s: float) -> Links:
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
            most = _MOST_PAIRS // max(1, n * len(self.budget.at_m))
            ticks = self._ticks = max(1, min(2 * self._ticks, _MOST_TICKS, most))
        times_s = [time_s]
        for _ in range(ticks - 1):
            times_s.append(tick_after(times_s[-1], self.tick_s))
        states = [state]
        future = self.mobility.ahead(state, times_s, self.ground) if ticks > 1 else []
        for (t0_s, t1_s), (after, fixes) in zip(pairwise(times_s), future, strict=True):
            self._steps.append(_Step(t0_s, t1_s, state, after, fixes))
            states.append(after)
            state = after
        if ticks == 1:
            self._links = self._one(states[0], time_s)
            return
        position_m = np.concatenate([s.position_m for s in states])
        self._links = self.budget.links(time_s, position_m, _joined([self.indoors(s) for s in states], n))
        self._known = None

    def _one(self, state: State, time_s: float) -> Links:
        """The links of one tick, calculated for the UEs that changed since the last one."""
        position_m, indoors, known = state.position_m, self.indoors(state), self._known
        moved = None
        if known is not None and position_m.size * len(self.budget.at_m) > 2 * _MOST_PAIRS:
            moved = _moved(known, position_m, indoors)
        if known is None or moved is None or moved.mean() > _MOST_MOVED:
            links = self.budget.links(time_s, position_m, indoors)
        elif not moved.any():
            return known.links.part(0, len(position_m), time_s)
        else:
            moved[:2] = True  # a single pair would be summed in another order
            rows = np.flatnonzero(moved)
            some = None if indoors is None else indoors.select(rows)
            links = known.links.with_rows(rows, self.budget.links(time_s, position_m[rows], some))
        self._known = _Known(position_m, indoors, links)
        return links


def _moved(known: _Known, position_m: FloatArray, indoors: Indoors | None) -> BoolArray | None:
    """Which UEs are elsewhere, or inside otherwise, than when the links were calculated (n,); None: not comparable."""
    before = known.indoors
    if known.position_m.shape != position_m.shape or (before is None) != (indoors is None):
        return None
    same = (known.position_m == position_m) | (np.isnan(known.position_m) & np.isnan(position_m))
    moved = ~same.all(axis=1)
    if before is not None and indoors is not None and before is not indoors:
        for f in fields(Indoors):
            moved |= getattr(before, f.name) != getattr(indoors, f.name)
    return moved


def _joined(pieces: list[Indoors | None], n: int) -> Indoors | None:
    """Who is inside at several times, one after another, of n UEs each; None where nobody ever is."""
    if all(piece is None for piece in pieces):
        return None
    return Indoors.join([Indoors.outdoors(np.arange(n)) if piece is None else piece for piece in pieces])
