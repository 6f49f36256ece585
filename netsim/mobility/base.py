"""The mobility slot: where UEs are, and where and when they measure."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from netsim.city.buildings import Buildings
from netsim.clock import Clock
from netsim.geometry import Area
from netsim.observations import Fixes
from netsim.part import Part
from netsim.rng import Streams
from netsim.traces.presence import Presence
from netsim.traces.trace import Trace
from netsim.units import FloatArray, IntArray


@dataclass(frozen=True)
class State:
    """What a model knows of its UEs: position_m (n_ue, 2), NaN for one that is absent; models add columns."""

    position_m: FloatArray


@dataclass(frozen=True)
class Ground:
    """What a mobility model is told about the place, once.

    streets : centre lines, x (a,) of those that run north and y (b,) of those that run east; None without.
    trace : what is replayed, where anything is.
    """

    area: Area
    clock: Clock
    streams: Streams
    buildings: Buildings = field(default_factory=Buildings.none)
    streets: tuple[FloatArray, FloatArray] | None = None
    trace: Trace | None = None


@dataclass(frozen=True)
class Places:
    """The truth that leakage is scored against: home_m and work_m (n_ue, 2), NaN where a UE has none."""

    home_m: FloatArray
    work_m: FloatArray

    @classmethod
    def unknown(cls, n_ue: int) -> Places:
        """Nobody has a home."""
        return cls(np.full((n_ue, 2), np.nan), np.full((n_ue, 2), np.nan))


class Mobility(Part):
    """Moves all UEs at once. State is a value: given in, given back, never kept inside the part.

    `has_own_fixes` says that the model itself knows when UEs measure (a diary, a trace); otherwise the world
    samples positions every `measure_every_s`. What `start` makes anew in any case is marked `REBUILT` in the state (see
    `netsim.tree`), and a checkpoint leaves it out.
    """

    kind: str
    has_own_fixes: ClassVar[bool] = False

    replays: ClassVar[bool] = False
    """whether movement is read from a file, which may change between two runs"""

    def load(self, round_s: float) -> Trace | None:
        """The trace that is replayed, read for rounds of round_s; None for a model that makes up its movement."""
        return None

    def presence(self, trace: Trace) -> Presence | None:
        """After what time without a fix a UE of the trace is absent; None where nobody is replayed."""
        return None

    @abstractmethod
    def start(self, ue: IntArray, ground: Ground) -> Any:
        """Positions and whatever else moves, at time 0: a `State`, which its other methods are given again."""

    @abstractmethod
    def advance(self, state: Any, t0_s: float, t1_s: float, ground: Ground) -> tuple[State, Fixes]:
        """Move every UE from t0_s to t1_s; the fixes are those in [t0_s, t1_s), in order of (ue, time)."""

    def ahead(self, state: Any, times_s: list[float], ground: Ground) -> list[tuple[State, Fixes]]:
        """What `advance` gives from each time to the next, one after the other: the same numbers."""
        walked = []
        for t0_s, t1_s in pairwise(times_s):
            state, fixes = self.advance(state, t0_s, t1_s, ground)
            walked.append((state, fixes))
        return walked

    def wake_s(self, state: Any, now_s: float, ground: Ground) -> float:
        """Until this time nobody moves and nobody measures of its own accord: the clock may jump there."""
        return now_s

    def places(self, state: Any, ground: Ground) -> Places:
        """Home and work of every UE, for scoring only."""
        return Places.unknown(len(state.position_m))

    def density(self, position_m: FloatArray) -> FloatArray | None:
        """The law of where UEs are, at places (k, 2), per square metre, for scoring only; None where it is unknown."""
        return None
