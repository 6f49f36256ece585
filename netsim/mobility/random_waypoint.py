"""The random waypoint model: straight walks to random points with pauses in between."""

from itertools import count
from math import log
from typing import ClassVar, Literal

import numpy as np

from netsim.city.base import PauseSpan, Span, between
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.mobility.base import Ground, Leg, Legged
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray

_BATCH, _BATCHES, _SHRINK = 16, 4, 3.0  # targets that are tried for one leg among buildings, ever nearer
_MIN_STAY_S = 1.0  # of a UE that sees no way on, so that time passes


class RandomWaypoint(Legged):
    r"""Leg k of UE u goes straight from its last waypoint to a uniform point of the area, then pauses::

        target ~ U(area),  v ~ U(v_min, v_max),  pause ~ U(p_min, p_max)
        x(t) = origin + (target - origin) min(1, (t - depart) / (arrive - depart))
        arrive = depart + |target - origin| / v,   next depart = arrive + pause

    The random numbers of a leg depend on (seed, u, k) only, and a position is computed from its leg, not from the
    previous position. The tick length has no effect, and adding a UE does not change the others.

    With `initial: uniform` UEs start uniformly placed, all at the beginning of their first leg, which is not the
    stationary distribution: positions drift to the centre and the mean speed falls over the first few legs to
    E[D] / (E[D] E[1/v] + E[pause]), where E[1/v] = ln(v_max / v_min) / (v_max - v_min). A minimum speed of 0 is
    refused, because E[1/v] diverges.

    With `initial: stationary` nothing drifts [Navidi and Camp 2004]: a UE pauses at time 0 with probability
    E[pause] / (E[pause] + E[D] E[1/v]), at a uniform point, for the rest of a pause of density ~ p on (p_min, p_max);
    else it is at a uniform point of a leg of density ~ length, with a speed of density ~ 1/v. E[D] is the mean distance
    of two uniform points of the area.

    Departs from the paper among buildings: UEs stay outdoors. If the straight path to the target is not clear, the UE
    takes the first of 64 other points with a clear path: 16 from a rectangle around it with a third of the area's
    sides, 16 with a ninth, and so on. If there is none, it pauses (at least 1 s) and tries again.
    """

    reference: ClassVar = (
        "Johnson and Maltz, 'Dynamic source routing in ad hoc wireless networks', 1996; "
        "Yoon, Liu, Noble, 'Random waypoint considered harmful', INFOCOM 2003 (speed bounded away from 0); "
        "Navidi and Camp, 'Stationary distributions for the random waypoint mobility model', IEEE TMC 3(1), 2004"
    )
    example: ClassVar = {"kind": "random-waypoint"}

    kind: Literal["random-waypoint"] = "random-waypoint"
    speed_m_s: Span = (0.8, 1.6)
    """lowest and highest speed of a leg, m/s"""
    pause_s: PauseSpan = (0.0, 60.0)
    """shortest and longest pause at a waypoint, s"""
    initial: Literal["uniform", "stationary"] = "uniform"
    """state at time 0: uniform positions at the start of a leg, or the stationary distribution (open ground only)"""

    def start(self, ue: IntArray, ground: Ground) -> Leg:
        """All UEs at time 0: at the beginning of leg 0, or in the stationary distribution."""
        rng = _stream(ground)
        if self.initial == "stationary":
            return self._stationary(rng, ue, ground)
        return self.next_leg(Leg.resting(ue, ground.buildings.outdoor(ground.area, rng, "start", ue)), ground)

    def _stationary(self, rng: Rng, ue: IntArray, ground: Ground) -> Leg:
        """Legs and pauses that are under way at time 0."""
        if len(ground.buildings):
            raise BadInput(
                "world.ues.mobility.initial: stationary is known for open ground only, and the city has buildings; "
                "take initial: uniform, or city open-field"
            )
        unit = rng.uniform("initial", ue, (6,))
        slow_m_s, fast_m_s = self.speed_m_s
        short_s, long_s = self.pause_s
        s_per_m = 1 / slow_m_s if slow_m_s == fast_m_s else log(fast_m_s / slow_m_s) / (fast_m_s - slow_m_s)
        leg_s = mean_distance_m(*ground.area.side_m) * s_per_m
        mean_pause_s = (short_s + long_s) / 2
        pauses = unit[:, 0] < mean_pause_s / (mean_pause_s + leg_s)
        from_m, target_m = _long_legs(rng, ue, ground.area)
        on_leg_m = from_m + unit[:, 1, None] * (target_m - from_m)
        here_m = np.where(pauses[:, None], ground.area.sample(unit[:, 4:]), on_leg_m)
        target_m = np.where(pauses[:, None], here_m, target_m)
        speed_m_s = slow_m_s * (fast_m_s / slow_m_s) ** unit[:, 2]  # density ~ 1/v
        arrive_s = np.linalg.norm(target_m - here_m, axis=1) / speed_m_s
        whole_s = np.sqrt(short_s**2 + unit[:, 2] * (long_s**2 - short_s**2))  # density ~ p
        pause_s = np.where(pauses, unit[:, 3] * whole_s, between(self.pause_s, unit[:, 3]))
        begin = Leg.resting(ue, here_m)
        return Leg(here_m, ue, begin.leg + 1, here_m, target_m, begin.depart_s, arrive_s, arrive_s + pause_s)

    def next_leg(self, now: Leg, ground: Ground) -> Leg:
        leg = now.leg + 1
        origin_m = now.target_m
        unit = _stream(ground).uniform("leg", now.ue, (4,), item=leg)
        target_m, stays = _target(now, ground.area.sample(unit[:, :2]), ground)
        pause_s = np.maximum(between(self.pause_s, unit[:, 3]), np.where(stays, _MIN_STAY_S, 0.0))
        way_s = np.linalg.norm(target_m - origin_m, axis=1) / between(self.speed_m_s, unit[:, 2])
        arrive_s = now.pause_until_s + way_s
        return Leg(origin_m, now.ue, leg, origin_m, target_m, now.pause_until_s, arrive_s, arrive_s + pause_s)


def mean_distance_m(width_m: float, height_m: float) -> float:
    """Mean distance of two uniform points of a rectangle, m: 0.5214 for the unit square [Ghosh 1951].

    The difference of two uniform numbers has the density 2 (1 - u); the integral is by Gauss-Legendre quadrature.
    """
    node, weight = np.polynomial.legendre.leggauss(200)
    u = (node + 1) / 2
    density = weight * (1 - u)
    return float(density @ np.hypot(u[:, None] * width_m, u * height_m) @ density)


def _long_legs(rng: Rng, ue: IntArray, area: Area) -> tuple[FloatArray, FloatArray]:
    """Both ends (n, 2) of a leg of each UE, uniform points of the area with density ~ their distance, by rejection."""
    from_m = np.empty((len(ue), 2))
    to_m = np.empty((len(ue), 2))
    left = np.arange(len(ue))
    diagonal_m = float(np.linalg.norm(area.side_m))
    for draw in count():
        if not left.size:
            break
        unit = rng.uniform("initial leg", ue[left], (5,), item=draw)
        a_m = area.sample(unit[:, :2])
        b_m = area.sample(unit[:, 2:4])
        accepted = unit[:, 4] * diagonal_m < np.linalg.norm(b_m - a_m, axis=1)
        from_m[left[accepted]], to_m[left[accepted]] = a_m[accepted], b_m[accepted]
        left = left[~accepted]
    return from_m, to_m


def _stream(ground: Ground) -> Rng:
    # legs have no day: the round is always 0 and the leg number is the item
    return ground.streams.at("mobility.random-waypoint")


def _target(now: Leg, first_m: FloatArray, ground: Ground) -> tuple[FloatArray, BoolArray]:
    """The first target (n, 2) with a clear path from the end of a leg, beginning with first_m (n, 2).

    Where no path is clear the target is the origin, and the UE stays (n,).
    """
    rng = _stream(ground)
    origin_m = now.target_m
    target_m = first_m.copy()
    lost = np.flatnonzero(~ground.buildings.clear(origin_m, first_m))
    for batch in range(1, _BATCHES + 1):
        from_m = np.repeat(origin_m[lost, None], _BATCH, axis=1)  # (n, batch, 2)
        reach_m = ground.area.side_m / 2 / _SHRINK**batch
        low_m = np.maximum(from_m - reach_m, ground.area.low_m)
        high_m = np.minimum(from_m + reach_m, ground.area.high_m)
        unit = rng.uniform(f"target {batch}", now.ue[lost], (_BATCH, 2), item=now.leg[lost] + 1)
        tried_m = low_m + unit * (high_m - low_m)
        clear = ground.buildings.clear(from_m.reshape(-1, 2), tried_m.reshape(-1, 2)).reshape(-1, _BATCH)
        target_m[lost] = tried_m[np.arange(len(lost)), clear.argmax(axis=1)]
        lost = lost[~clear.any(axis=1)]
        if not lost.size:
            break
    target_m[lost] = origin_m[lost]
    stays = np.zeros(len(target_m), dtype=np.bool_)
    stays[lost] = True
    return target_m, stays
