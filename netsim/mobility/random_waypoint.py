"""The random waypoint model: walk straight to a random point, pause, repeat."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Strict, field_validator

from netsim.errors import BadInput
from netsim.mobility.base import Ground, Mobility, State
from netsim.observe import Fixes
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

Range = Annotated[tuple[float, float], Strict(False)]  # YAML knows lists only; the numbers stay strict


class RandomWaypoint(Mobility):
    r"""Leg k of UE u goes straight from its last waypoint to a uniform point of the area, then pauses::

        target ~ U(area),  v ~ U(v_min, v_max),  pause ~ U(p_min, p_max)
        x(t) = origin + (target - origin) min(1, (t - depart) / (arrive - depart))
        arrive = depart + |target - origin| / v,   next depart = arrive + pause

    The numbers of a leg depend on (seed, u, k) only and the position is computed from the leg, not from the
    last position: the tick length changes nothing, and adding a UE shifts nobody.

    UEs start uniformly placed, all on their first leg, which is not the stationary law: positions drift to
    the centre and the mean speed falls over the first few legs to E[D] / (E[D] E[1/v] + E[pause]), where
    E[1/v] = ln(v_max / v_min) / (v_max - v_min). A speed of 0 is refused, because E[1/v] has no limit then.
    """

    reference: ClassVar[str] = (
        "Johnson and Maltz, 'Dynamic source routing in ad hoc wireless networks', 1996; "
        "Yoon, Liu, Noble, 'Random waypoint considered harmful', INFOCOM 2003 (speed bounded away from 0)"
    )
    example: ClassVar[dict[str, Any]] = {"kind": "random-waypoint"}

    kind: Literal["random-waypoint"] = "random-waypoint"
    speed_m_s: Range = (0.8, 1.6)
    """lowest and highest speed of a leg, m/s"""
    pause_s: Range = (0.0, 60.0)
    """shortest and longest pause at a waypoint, s"""

    @field_validator("speed_m_s")
    @classmethod
    def _check_speed(cls, value: tuple[float, float]) -> tuple[float, float]:
        low, high = value
        if not 0 < low <= high:
            raise ValueError(f"{low:g}, {high:g}: give lowest then highest speed in m/s, both above 0")
        return value

    @field_validator("pause_s")
    @classmethod
    def _check_pause(cls, value: tuple[float, float]) -> tuple[float, float]:
        low, high = value
        if not 0 <= low <= high:
            raise ValueError(f"{low:g}, {high:g}: give shortest then longest pause in s, none below 0")
        return value

    def start(self, ue: IntArray, ground: Ground) -> State:
        """Everybody sets out on leg 0 at time 0.

        position_m, origin_m, target_m (n_ue, 2); speed_m_s, depart_s, arrive_s, pause_until_s (n_ue,);
        leg, ue (n_ue,).
        """
        if not (ground.area.side_m > 0).all():
            width, height = ground.area.side_m
            raise BadInput(f"mobility: area of {width:g} x {height:g} m has no room for a waypoint; enlarge it")
        rng = _stream(ground)
        origin_m = ground.area.sample(rng.uniform("start", ue, (2,)))
        leg = np.zeros(len(ue), dtype=np.int64)
        first = self._leg(rng, ue, leg, origin_m, np.zeros(len(ue)), ground)
        return {"position_m": origin_m, "ue": ue, **first}

    def advance(self, state: State, t0_s: float, t1_s: float, ground: Ground) -> tuple[State, Fixes]:
        """Move every UE to t1_s; a UE that pauses throughout is left alone."""
        state = {name: column.copy() for name, column in state.items()}
        moving = state["arrive_s"] > t0_s
        late = np.flatnonzero(state["pause_until_s"] <= t1_s)
        moving[late] = True
        rng = _stream(ground)
        while late.size:
            following = self._leg(
                rng,
                state["ue"][late],
                state["leg"][late] + 1,
                state["target_m"][late],
                state["pause_until_s"][late],
                ground,
            )
            for name, column in following.items():
                state[name][late] = column
            late = late[state["pause_until_s"][late] <= t1_s]
        walk = np.flatnonzero(moving)
        state["position_m"][walk] = _on_leg(state, walk, t1_s)
        return state, Fixes.none()

    def wake_s(self, state: State, now_s: float, ground: Ground) -> float:
        """The earliest end of a pause when all UEs pause, else now."""
        if (state["arrive_s"] > now_s).any():
            return now_s
        return max(now_s, float(np.min(state["pause_until_s"], initial=np.inf)))

    def _leg(
        self,
        rng: Rng,
        ue: IntArray,
        leg: IntArray,
        origin_m: FloatArray,
        depart_s: FloatArray,
        ground: Ground,
    ) -> State:
        """Columns of leg number `leg` (n,) of UEs `ue` (n,)."""
        unit = rng.uniform("leg", ue, (4,), item=leg)
        target_m = ground.area.sample(unit[:, :2])
        speed_m_s = _between(self.speed_m_s, unit[:, 2])
        arrive_s = depart_s + np.linalg.norm(target_m - origin_m, axis=1) / speed_m_s
        return {
            "origin_m": origin_m.copy(),
            "target_m": target_m,
            "speed_m_s": speed_m_s,
            "depart_s": depart_s,
            "arrive_s": arrive_s,
            "pause_until_s": arrive_s + _between(self.pause_s, unit[:, 3]),
            "leg": leg,
        }


def _stream(ground: Ground) -> Rng:
    # legs have no day: the round is always 0 and the leg number is the item
    return ground.streams.at("mobility.random-waypoint")


def _between(bounds: tuple[float, float], unit: FloatArray) -> FloatArray:
    return bounds[0] + (bounds[1] - bounds[0]) * unit


def _on_leg(state: State, row: IntArray, time_s: float) -> FloatArray:
    """Positions (n, 2) at a time within the present leg of the UEs in `row` (n,)."""
    origin_m, target_m = state["origin_m"][row], state["target_m"][row]
    depart_s = state["depart_s"][row]
    walk_s = np.maximum(state["arrive_s"][row] - depart_s, 1e-300)  # a leg of no length is over at once
    done = np.clip((time_s - depart_s) / walk_s, 0.0, 1.0)[:, None]
    # this form, not origin + done * way, so that the waypoint itself is met exactly
    return np.asarray((1.0 - done) * origin_m + done * target_m)
