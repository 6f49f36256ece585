"""The Manhattan model: movement along the streets of a grid with random turns at crossings."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.city.base import PauseSpan, Span, between
from netsim.columns import altered, frozen
from netsim.errors import BadInput
from netsim.mobility.base import Ground, Leg, Legged
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray

_STEP = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])  # headings east, north, west, south
_TURN = np.array([0, 1, 3, 2])  # straight on, left, right, back: added to a heading
_CHANCE = np.array([0.5, 0.25, 0.25, 0.0])  # [important, Sec. III-D]


@frozen
class StreetLeg(Leg):
    """A leg to a crossing (n_ue, 2), counted from the south-west; heading (n_ue,): 0 for east, then anticlockwise."""

    crossing: IntArray
    heading: IntArray


class Manhattan(Legged):
    r"""Movement along the streets of a grid, with random turns and occasional pauses at crossings.

    Leg k of UE u follows the centre line of a street from one crossing to the next::

        heading: straight on 0.5, left 0.25, right 0.25,  v ~ U(v_min, v_max)
        at the crossing, with probability `pause_probability`, a pause ~ U(p_min, p_max)

    At the edge of the city the probabilities of the remaining directions are scaled to sum 1; at a dead end UEs turn
    back. UEs start at random points of the streets. The random numbers of a leg depend on (seed, u, k) only.

    Departs from the source: there are no lanes, and UEs do not slow down behind others.
    """

    reference: ClassVar = (
        "[important] Bai, Sadagopan, Helmy, 'IMPORTANT: a framework to systematically analyze the impact of mobility', "
        "INFOCOM 2003; ETSI TR 101 112 (UMTS 30.03), B.1.4.1.2"
    )
    example: ClassVar = {"kind": "manhattan"}
    needs: ClassVar = {"street grid": "it walks along the streets of a grid; take city grid"}

    kind: Literal["manhattan"] = "manhattan"
    speed_m_s: Span = (0.8, 1.6)
    """lowest and highest speed from one crossing to the next, m/s"""
    pause_probability: float = Field(default=0.1, ge=0, le=1)
    """probability of a pause at a crossing"""
    pause_s: PauseSpan = (0.0, 60.0)
    """shortest and longest pause at a crossing, s"""

    def start(self, ue: IntArray, ground: Ground) -> StreetLeg:
        """All UEs at time 0 on a leg from a random crossing, a random share of the way to the next."""
        streets = _streets(ground)
        unit = _stream(ground).uniform("start", ue, (4,))
        crossing = (unit[:, :2] * [len(each) for each in streets]).astype(np.int64)
        heading = _chosen(_exists(crossing[:, None] + _STEP, streets).astype(np.float64), unit[:, 2])
        from_m = _at_m(crossing, streets)
        at_m = from_m + unit[:, 3, None] * (_at_m(crossing + _STEP[heading], streets) - from_m)
        return self._onward(StreetLeg(**vars(Leg.resting(ue, at_m)), crossing=crossing, heading=heading), ground)

    def next_leg(self, now: StreetLeg, ground: Ground) -> StreetLeg:
        unit = _stream(ground).uniform("turn", now.ue, item=now.leg + 1)
        return self._onward(altered(now, heading=_turned(now.heading, now.crossing, unit, _streets(ground))), ground)

    def _onward(self, now: StreetLeg, ground: Ground) -> StreetLeg:
        """The leg from where the last one ended to the next crossing in the direction of its heading."""
        leg = now.leg + 1
        origin_m = now.target_m
        unit = _stream(ground).uniform("leg", now.ue, (3,), item=leg)
        crossing = now.crossing + _STEP[now.heading]
        target_m = _at_m(crossing, _streets(ground))
        way_s = np.linalg.norm(target_m - origin_m, axis=1) / between(self.speed_m_s, unit[:, 0])
        arrive_s = now.pause_until_s + way_s
        pauses = unit[:, 1] < self.pause_probability
        until_s = arrive_s + np.where(pauses, between(self.pause_s, unit[:, 2]), 0.0)
        return StreetLeg(
            origin_m, now.ue, leg, origin_m, target_m, now.pause_until_s, arrive_s, until_s, crossing, now.heading
        )


Streets = tuple[FloatArray, FloatArray]


def _stream(ground: Ground) -> Rng:
    return ground.streams.at("mobility.manhattan")


def _streets(ground: Ground) -> "Streets":
    """The streets of the ground; raises BadInput if there is no crossing."""
    streets = ground.streets
    if streets is None or min(map(len, streets)) < 1 or max(map(len, streets)) < 2:
        raise BadInput("world.ues.mobility: manhattan needs streets that cross; take city grid")
    return streets


def _exists(crossing: IntArray, streets: "Streets") -> BoolArray:
    """Which crossings (..., 2) exist in the city."""
    return np.asarray(((crossing >= 0) & (crossing < [len(each) for each in streets])).all(axis=-1))


def _at_m(crossing: IntArray, streets: "Streets") -> FloatArray:
    """Positions (n, 2) in m of crossings (n, 2)."""
    return np.stack([streets[0][crossing[:, 0]], streets[1][crossing[:, 1]]], axis=1)


def _turned(heading: IntArray, crossing: IntArray, unit: FloatArray, streets: "Streets") -> IntArray:
    """The next heading (n,) of UEs that arrive at crossings (n, 2)."""
    following = (heading[:, None] + _TURN) % 4  # (n, 4)
    weight = _CHANCE * _exists(crossing[:, None] + _STEP[following], streets)
    weight[weight.sum(axis=1) == 0] = [0.0, 0.0, 0.0, 1.0]
    return np.asarray(following[np.arange(len(unit)), _chosen(weight, unit)])


def _chosen(weight: FloatArray, unit: FloatArray) -> IntArray:
    """An index (n,) with probability in proportion to weight (n, k), by inversion of unit (n,)."""
    edge = np.cumsum(weight, axis=1)
    return np.asarray((edge <= (unit * edge[:, -1])[:, None]).sum(axis=1))
