"""The mobility slot: positions of UEs over time, and their fixes (where and when they measure)."""

from abc import abstractmethod
from dataclasses import field
from math import nan
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, Strict

from netsim.city.buildings import Buildings
from netsim.clock import Clock
from netsim.columns import frozen, no_places
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.part import Part
from netsim.rng import Streams
from netsim.streets.doors import Premises
from netsim.streets.graph import StreetGraph
from netsim.traces.moves import Presence
from netsim.traces.trace import Trace
from netsim.ues import Fixes, Indoors
from netsim.units import ArrayPair, BoolArray, FloatArray, FloatPair, IntArray, Texts

# YAML knows lists only; the two numbers inside stay strict
Point = Annotated[FloatPair, Strict(False)]
Points = Annotated[tuple[Point, ...], Strict(False), Field(min_length=1)]


@frozen
class State:
    """State of all UEs: position_m (n_ue, 2), NaN for an absent UE; mobility models add fields."""

    position_m: FloatArray

    def indoors(self) -> Indoors | None:
        """Which UEs are inside buildings or vehicles, one row a UE; None where the model does not
        say.
        """
        return None


@frozen
class Ground:
    """The environment that a mobility model moves UEs in; it does not change during a run.

    streets : centre lines, x (a,) of north-south streets and y (b,) of east-west streets; None
    without a street grid. trace : the replayed trace, None without one. graph : the street graph,
    None without one; premises : buildings with a door to it. stations_m (k, 2) : places of the base
    stations, and of their images where the layout wraps around.
    """

    area: Area
    clock: Clock
    streams: Streams
    buildings: Buildings = field(default_factory=Buildings.none)
    streets: ArrayPair | None = None
    trace: Trace | None = None
    graph: StreetGraph | None = None
    premises: Premises = field(default_factory=Premises.none)
    stations_m: FloatArray = field(default_factory=no_places)


@frozen
class Places:
    """Ground truth for the scores of leakage: home_m and work_m (n_ue, 2), NaN where a UE has none.

    Of a replayed trace also densest_m (n_ue, 2), the place of most time of a UE without a home, NaN
    of others; and nights (n_ue,) that have a fix. None where a mobility model knows where people
    live.
    """

    home_m: FloatArray
    work_m: FloatArray
    densest_m: FloatArray | None = None
    nights: IntArray | None = None

    @classmethod
    def unknown(cls, n_ue: int) -> "Places":
        """NaN for all UEs."""
        nowhere_m = np.full((n_ue, 2), nan)
        return cls(nowhere_m, nowhere_m)

    def densest(self) -> FloatArray:
        """densest_m (n_ue, 2), also where there is none."""
        if self.densest_m is None:
            return np.full_like(self.home_m, nan)
        return self.densest_m


class Mobility(Part):
    """Moves all UEs at once. The state is passed in and returned; a mobility model keeps none.

    `has_own_fixes`: the model determines when UEs measure (a diary, a trace); otherwise the world
    samples positions every `measurement_period_s`. Fields of the state that `start` always
    recomputes are marked `REBUILT` (see `netsim.checkpoint`), and checkpoints omit them.
    """

    kind: str = ""
    has_own_fixes: ClassVar = False

    replays: ClassVar = False
    """whether movement is read from a file, which may change between two runs"""

    has_homes: ClassVar = False
    """whether its UEs live somewhere"""

    def load(self, round_s: float, without: Texts = ()) -> Trace | None:
        """The replayed trace, read for rounds of round_s without these users; None for a synthetic
        mobility model.
        """
        return None

    def presence(self, trace: Trace) -> Presence | None:
        """The time without a fix after which a UE of the trace is absent; None for a synthetic
        mobility model.
        """
        return None

    @abstractmethod
    def start(self, ue: IntArray, ground: Ground) -> Any:
        """The `State` at time 0, which is passed to the other methods."""

    @abstractmethod
    def advance(self, state: Any, t0_s: float, t1_s: float, ground: Ground) -> tuple[State, Fixes]:
        """Moves every UE from t0_s to t1_s; the next state, and the fixes in [t0_s, t1_s) sorted by
        (ue, time).
        """

    def wake_s(self, state: Any, now_s: float, ground: Ground) -> float:
        """Time until which no UE moves and the model yields no fixes; the clock may jump to it."""
        return now_s

    def places(self, state: Any, ground: Ground) -> "Places":
        """Home and workplace of every UE, used for scoring only."""
        return Places.unknown(len(state.position_m))

    def residents(self, ue: IntArray, ground: Ground) -> Places:
        """Homes and workplaces of residents with numbers (n,) beyond those of the UEs, drawn as
        theirs are, used for scoring only: they live in the same town and are no part of the world.
        NaN if unknown.
        """
        return Places.unknown(len(ue))

    def density(self, position_m: FloatArray) -> FloatArray | None:
        """Probability density of UE positions at places (k, 2), per m^2, used for scoring only;
        None if unknown.
        """
        return None


def assign_places(points: Points, ue: IntArray, area: Area, key: str) -> FloatArray:
    """The place (n_ue, 2) of each UE: UE u takes point u mod len(points). A point outside is
    refused.
    """
    at_m = np.array(points)
    outside = np.flatnonzero(~area.contains(at_m))
    if outside.size:
        i = outside[0]
        raise BadInput(
            f"{key}[{i}]: {points[i]} lies outside the area x {area.x_min_m:g} to "
            f"{area.x_max_m:g} m, "
            f"y {area.y_min_m:g} to {area.y_max_m:g} m; move the point or enlarge the area"
        )
    return at_m[ue % len(points)]


def draw_column_index(unit: FloatArray, weight: FloatArray | BoolArray) -> IntArray:
    """A column (n,) with probability in proportion to weight (n, k) >= 0, k > 0; -1 for a row of
    zeros.
    """
    upto = np.cumsum(weight, axis=1, dtype=float)
    total = upto[:, -1]
    # strictly above: a column of weight zero adds nothing to the sum, so it is never the first
    # above
    column = np.argmax(upto > (unit * total)[:, None], axis=1)
    return np.where(total > 0, column, -1)
