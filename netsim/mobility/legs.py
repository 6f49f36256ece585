"""Movement in straight legs with pauses: random waypoint, and the streets of a Manhattan grid."""

from abc import abstractmethod
from math import inf, log
from typing import Literal, Self

import numpy as np
from numpy.linalg import norm

from netsim.city.base import PauseSpan, Span, map_to_span
from netsim.columns import Columns, copy_with, frozen
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.mobility.base import Ground, Mobility, State, draw_column_index
from netsim.part import Fraction
from netsim.rng import Rng
from netsim.ues import Fixes
from netsim.units import ArrayPair, BoolArray, FloatArray, IntArray


@frozen
class Leg(State, Columns):
    """The current leg of every UE.

    ue, leg (n_ue,): index of the UE and number of the leg; the UE walks from origin_m to target_m
    (n_ue, 2) between depart_s and arrive_s and pauses until pause_until_s (n_ue,).
    """

    ue: IntArray
    leg: IntArray
    origin_m: FloatArray
    target_m: FloatArray
    depart_s: FloatArray
    arrive_s: FloatArray
    pause_until_s: FloatArray

    @classmethod
    def from_places(cls, ue: IntArray, at_m: FloatArray, **columns: IntArray) -> Self:
        """Leg -1 of UEs (n,), which ends at places (n, 2) at time 0; more : columns of a
        subclass.
        """
        zero_s = np.zeros(len(ue))
        return cls(at_m, ue, np.full(len(ue), -1), at_m, at_m, zero_s, zero_s, zero_s, **columns)

    def continue_to(
        self, target_m: FloatArray, speed_m_s: FloatArray, pause_s: FloatArray, **columns: IntArray
    ) -> Self:
        """The next leg, from where this one ended to target_m (n, 2), and a pause there."""
        arrive_s = self.pause_until_s + norm(target_m - self.target_m, axis=1) / speed_m_s
        return copy_with(
            self,
            position_m=self.target_m,
            leg=self.leg + 1,
            origin_m=self.target_m,
            target_m=target_m,
            depart_s=self.pause_until_s,
            arrive_s=arrive_s,
            pause_until_s=arrive_s + pause_s,
            **columns,
        )


class Legged(Mobility):
    """Mobility in legs: a subclass defines `draw_next_leg` only."""

    @abstractmethod
    def draw_next_leg(self, leg: Leg, ground: Ground) -> Leg:
        """The next leg of UEs whose pause is over, from their current one."""

    def advance(self, state: Leg, t0_s: float, t1_s: float, ground: Ground) -> tuple[Leg, Fixes]:
        while len(late := np.flatnonzero(state.pause_until_s <= t1_s)):
            state = state.replace_rows(late, self.draw_next_leg(state.select(late), ground))
        # a leg of no length is over at once
        walk_s = np.maximum(state.arrive_s - state.depart_s, 1e-200)
        done = np.minimum((t1_s - state.depart_s) / walk_s, 1.0)[:, None]
        # this form, not origin + done * way, so that the waypoint itself is met exactly
        position_m = (1.0 - done) * state.origin_m + done * state.target_m
        return copy_with(state, position_m=position_m), Fixes.none()

    def wake_s(self, state: Leg, now_s: float, ground: Ground) -> float:
        """The earliest end of a pause when all UEs pause, else now."""
        if (state.arrive_s > now_s).any():
            return now_s
        return max(now_s, float(state.pause_until_s.min(initial=inf)))


# --- random waypoint
# ----------------------------------------------------------------------------------------

_BATCH = 16  # targets that are tried at once for one leg among buildings
_BATCHES = 4
_SHRINK = 3.0  # of the rectangle they are drawn from, from batch to batch
_MIN_STAY_S = 1.0  # of a UE that sees no way on, so that time passes


class RandomWaypoint(Legged, kind="random-waypoint"):
    r"""Leg k of UE u goes straight from its last waypoint to a uniform point of the area, then
    pauses::

        target ~ U(area),  v ~ U(v_min, v_max),  pause ~ U(p_min, p_max)
        x(t) = origin + (target - origin) min(1, (t - depart) / (arrive - depart))
        arrive = depart + |target - origin| / v,   next depart = arrive + pause

    The random numbers of a leg depend on (seed, u, k) only, and a position is computed from its
    leg, not from the previous position. The tick length has no effect, and adding a UE does not
    change the others.

    With `initial: uniform` UEs start uniformly placed, all at the beginning of their first leg,
    which is not the stationary distribution: positions drift to the centre and the mean speed falls
    over the first few legs to E[D] / (E[D] E[1/v] + E[pause]), where E[1/v] = ln(v_max / v_min) /
    (v_max - v_min). A minimum speed of 0 is refused, because E[1/v] diverges.

    With `initial: stationary` nothing drifts [Navidi and Camp 2004]: a UE pauses at time 0 with
    probability E[pause] / (E[pause] + E[D] E[1/v]), at a uniform point, for the rest of a pause of
    density ~ p on (p_min, p_max); else it is at a uniform point of a leg of density ~ length, with
    a speed of density ~ 1/v. E[D] is the mean distance of two uniform points of the area.

    Departs from the paper among buildings: UEs stay outdoors. If the straight path to the target is
    not clear, the UE takes the first of 64 other points with a clear path: 16 from a rectangle
    around it with a third of the area's sides, 16 with a ninth, and so on. If there is none, it
    pauses (at least 1 s) and tries again.
    """

    reference = (
        "Johnson and Maltz, 'Dynamic source routing in ad hoc wireless networks', 1996; Yoon, "
        "Liu, Noble, 'Random waypoint considered harmful', INFOCOM 2003 (speed bounded away from "
        "0); Navidi and Camp, 'Stationary distributions for the random waypoint mobility model', "
        "IEEE TMC 3(1), 2004"
    )

    speed_m_s: Span = (0.8, 1.6)
    """lowest and highest speed of a leg, m/s"""
    pause_s: PauseSpan = (0.0, 60.0)
    """shortest and longest pause at a waypoint, s"""
    initial: Literal["uniform", "stationary"] = "uniform"
    """state at time 0: uniform positions at the start of a leg, or the stationary distribution
    (open ground only)"""

    def start(self, ue: IntArray, ground: Ground) -> Leg:
        """All UEs at time 0: at the beginning of leg 0, or in the stationary distribution."""
        rng = _open_stream(ground)
        if self.initial == "stationary":
            return self._draw_stationary(rng, ue, ground)
        return self.draw_next_leg(
            Leg.from_places(ue, ground.buildings.draw_outdoor_m(ground.area, rng, "start", ue)),
            ground,
        )

    def _draw_stationary(self, rng: Rng, ue: IntArray, ground: Ground) -> Leg:
        """Legs and pauses that are under way at time 0."""
        if len(ground.buildings):
            raise BadInput(
                "world.ues.mobility.initial: stationary is known for open ground only, and the "
                "city has buildings; take initial: uniform, or city open-field"
            )
        unit = rng.uniform("initial", ue, (6,))
        slow_m_s, fast_m_s = self.speed_m_s
        short_s, long_s = self.pause_s
        if slow_m_s == fast_m_s:
            s_per_m = 1 / slow_m_s
        else:
            s_per_m = log(fast_m_s / slow_m_s) / (fast_m_s - slow_m_s)
        mean_pause_s = (short_s + long_s) / 2
        mean_leg_m = compute_mean_distance_m(*ground.area.side_m)
        pauses = unit[:, 0] < mean_pause_s / (mean_pause_s + mean_leg_m * s_per_m)
        from_m, target_m = _draw_long_legs(rng, ue, ground.area)
        on_leg_m = from_m + unit[:, 1, None] * (target_m - from_m)
        pause_m = ground.area.sample(unit[:, 4:])
        here_m = np.where(pauses[:, None], pause_m, on_leg_m)
        target_m = np.where(pauses[:, None], here_m, target_m)
        speed_m_s = slow_m_s * (fast_m_s / slow_m_s) ** unit[:, 2]  # density ~ 1/v
        whole_s = np.sqrt(short_s**2 + unit[:, 2] * (long_s**2 - short_s**2))  # density ~ p
        next_pause_s = map_to_span(self.pause_s, unit[:, 3])
        pause_s = np.where(pauses, unit[:, 3] * whole_s, next_pause_s)
        return Leg.from_places(ue, here_m).continue_to(target_m, speed_m_s, pause_s)

    def draw_next_leg(self, leg: Leg, ground: Ground) -> Leg:
        unit = _open_stream(ground).uniform("leg", leg.ue, (4,), item=leg.leg + 1)
        target_m, stays = _find_target(leg, ground.area.sample(unit[:, :2]), ground)
        min_pause_s = np.where(stays, _MIN_STAY_S, 0.0)
        pause_s = np.maximum(map_to_span(self.pause_s, unit[:, 3]), min_pause_s)
        return leg.continue_to(target_m, map_to_span(self.speed_m_s, unit[:, 2]), pause_s)


def compute_mean_distance_m(width_m: float, height_m: float) -> float:
    """Mean distance of two uniform points of a rectangle, m: 0.5214 for the unit square [Ghosh
    1951].

    The difference of two uniform numbers has the density 2 (1 - u); the integral is by
    Gauss-Legendre quadrature.
    """
    node, weight = np.polynomial.legendre.leggauss(200)
    u = (node + 1) / 2
    density = weight * (1 - u)
    distance_m = np.hypot(u[:, None] * width_m, u * height_m)
    return float(density @ distance_m @ density)


def _draw_long_legs(rng: Rng, ue: IntArray, area: Area) -> ArrayPair:
    """Both ends (n, 2) of a leg of each UE, uniform points of the area with density ~ their
    distance, by rejection.
    """
    from_m, to_m = np.empty((2, len(ue), 2))
    left = np.arange(len(ue))
    draw = 0
    while left.size:
        unit = rng.uniform("initial leg", ue[left], (5,), item=draw)
        from_m[left] = area.sample(unit[:, :2])
        to_m[left] = area.sample(unit[:, 2:4])
        way_m = norm(to_m[left] - from_m[left], axis=1)
        threshold_m = unit[:, 4] * norm(area.side_m)
        left = left[threshold_m >= way_m]
        draw += 1
    return from_m, to_m


def _open_stream(ground: Ground) -> Rng:
    # legs have no day: the round is always 0 and the leg number is the item
    return ground.streams.derive_rng("mobility.random-waypoint")


def _find_target(leg: Leg, first_m: FloatArray, ground: Ground) -> tuple[FloatArray, BoolArray]:
    """The first target (n, 2) with a clear path from the end of a leg, beginning with first_m (n,
    2).

    Where no path is clear the target is the origin, and the UE stays (n,).
    """
    target_m = first_m.copy()
    lost = np.flatnonzero(~ground.buildings.has_clear_path(leg.target_m, first_m))
    for batch in range(1, _BATCHES + 1):
        if not lost.size:
            break
        from_m = np.repeat(leg.target_m[lost, None], _BATCH, axis=1)  # (n, batch, 2)
        reach_m = ground.area.side_m / 2 / _SHRINK**batch
        low_m = np.maximum(from_m - reach_m, ground.area.low_m)
        unit = _open_stream(ground).uniform(
            f"target {batch}", leg.ue[lost], (_BATCH, 2), item=leg.leg[lost] + 1
        )
        tried_m = low_m + unit * (np.minimum(from_m + reach_m, ground.area.high_m) - low_m)
        is_clear = ground.buildings.has_clear_path(from_m.reshape(-1, 2), tried_m.reshape(-1, 2))
        clear = is_clear.reshape(-1, _BATCH)
        target_m[lost] = tried_m[np.arange(len(lost)), clear.argmax(axis=1)]
        lost = lost[~clear.any(axis=1)]
    target_m[lost] = leg.target_m[lost]
    return target_m, np.isin(np.arange(len(target_m)), lost)


# --- Manhattan
# ----------------------------------------------------------------------------------------

_STEP = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])  # headings east, north, west, south
_TURN = np.array([0, 1, 3, 2])  # straight on, left, right, back: added to a heading
_CHANCE = np.array([0.5, 0.25, 0.25, 0.0])  # [important, Sec. III-D]
Streets = ArrayPair


@frozen
class StreetLeg(Leg):
    """A leg to a crossing (n_ue, 2), counted from the south-west; heading (n_ue,): 0 for east, then
    anticlockwise.
    """

    crossing: IntArray
    heading: IntArray


class Manhattan(Legged, kind="manhattan"):
    r"""Movement along the streets of a grid, with random turns and occasional pauses at crossings.

    Leg k of UE u follows the centre line of a street from one crossing to the next::

        heading: straight on 0.5, left 0.25, right 0.25,  v ~ U(v_min, v_max)
        at the crossing, with probability `pause_probability`, a pause ~ U(p_min, p_max)

    At the edge of the city the probabilities of the remaining directions are scaled to sum 1; at a
    dead end UEs turn back. UEs start at random points of the streets. The random numbers of a leg
    depend on (seed, u, k) only.

    Departs from the source: there are no lanes, and UEs do not slow down behind others.
    """

    reference = (
        "[important] Bai, Sadagopan, Helmy, 'IMPORTANT: a framework to systematically analyze "
        "the impact of mobility', INFOCOM 2003; ETSI TR 101 112 (UMTS 30.03), B.1.4.1.2"
    )
    needs = {"street grid": "it walks along the streets of a grid; take city grid"}

    speed_m_s: Span = (0.8, 1.6)
    """lowest and highest speed from one crossing to the next, m/s"""
    pause_probability: Fraction = 0.1
    """probability of a pause at a crossing"""
    pause_s: PauseSpan = (0.0, 60.0)
    """shortest and longest pause at a crossing, s"""

    def start(self, ue: IntArray, ground: Ground) -> StreetLeg:
        """All UEs at time 0 on a leg from a random crossing, a random share of the way to the
        next.
        """
        streets = _check_streets(ground)
        unit = ground.streams.derive_rng("mobility.manhattan").uniform("start", ue, (4,))
        crossing = (unit[:, :2] * [len(axis) for axis in streets]).astype(int)
        heading = draw_column_index(unit[:, 2], _is_crossing(crossing[:, None] + _STEP, streets))
        from_m = _place_crossings(crossing, streets)
        to_m = _place_crossings(crossing + _STEP[heading], streets)
        at_m = from_m + unit[:, 3, None] * (to_m - from_m)
        return self._walk_on(
            StreetLeg.from_places(ue, at_m, crossing=crossing, heading=heading), heading, ground
        )

    def draw_next_leg(self, leg: StreetLeg, ground: Ground) -> StreetLeg:  # type: ignore[override]
        unit = ground.streams.derive_rng("mobility.manhattan").uniform(
            "turn", leg.ue, item=leg.leg + 1
        )
        return self._walk_on(
            leg, _draw_heading(leg.heading, leg.crossing, unit, _check_streets(ground)), ground
        )

    def _walk_on(self, leg: StreetLeg, heading: IntArray, ground: Ground) -> StreetLeg:
        unit = ground.streams.derive_rng("mobility.manhattan").uniform(
            "leg", leg.ue, (3,), item=leg.leg + 1
        )
        crossing = leg.crossing + _STEP[heading]
        drawn_s = map_to_span(self.pause_s, unit[:, 2])
        pause_s = np.where(unit[:, 1] < self.pause_probability, drawn_s, 0.0)
        speed_m_s = map_to_span(self.speed_m_s, unit[:, 0])
        return leg.continue_to(
            _place_crossings(crossing, _check_streets(ground)),
            speed_m_s,
            pause_s,
            crossing=crossing,
            heading=heading,
        )


def _check_streets(ground: Ground) -> Streets:
    """The streets of the ground; raises BadInput if there is no crossing."""
    streets = ground.streets
    if streets is None or min(map(len, streets)) < 1 or max(map(len, streets)) < 2:
        raise BadInput("world.ues.mobility: manhattan needs streets that cross; take city grid")
    return streets


def _is_crossing(crossing: IntArray, streets: Streets) -> BoolArray:
    return np.all((crossing >= 0) & (crossing < [len(axis) for axis in streets]), axis=-1)


def _place_crossings(crossing: IntArray, streets: Streets) -> FloatArray:
    x_m = streets[0][crossing[:, 0]]
    return np.stack([x_m, streets[1][crossing[:, 1]]], axis=1)


def _draw_heading(
    heading: IntArray, crossing: IntArray, unit: FloatArray, streets: Streets
) -> IntArray:
    """The next heading (n,) of UEs that arrive at crossings (n, 2)."""
    following = (heading[:, None] + _TURN) % 4  # (n, 4)
    weight = _CHANCE * _is_crossing(crossing[:, None] + _STEP[following], streets)
    weight[weight.sum(axis=1) == 0] = [0.0, 0.0, 0.0, 1.0]
    return following[np.arange(len(unit)), draw_column_index(unit, weight)]
