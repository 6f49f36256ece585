"""The Gauss-Markov model: smooth movement with reflection at walls."""

from dataclasses import dataclass, replace
from math import sqrt
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.clock import last_multiple
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.mobility.base import Ground, Mobility, State
from netsim.rng import Rng
from netsim.ues import Fixes
from netsim.units import FloatArray, IntArray

_PIECES = 8  # straight pieces of a step; the rest of it after as many walls is not walked
_CLEARANCE_M = 0.01  # from a wall at which a UE turns


@dataclass(frozen=True, eq=False)
class MarkovStep(State):
    """The current step of every UE.

    ue (n_ue,): index of the UE; step: number of the step; knot_m (n_ue, 9, 2): corners of its path; speed_m_s,
    direction_rad, mean_rad (n_ue,).
    """

    ue: IntArray
    step: int
    knot_m: FloatArray
    speed_m_s: FloatArray
    direction_rad: FloatArray
    mean_rad: FloatArray


class GaussMarkov(Mobility):
    r"""Speed and direction are first-order autoregressive processes; UEs are reflected at walls.

    In step k, of length `step_s`, UE u moves straight with speed s and direction d::

        s(k) = a s(k-1) + (1 - a) s_mean + sqrt(1 - a^2) s_std w,   w ~ N(0, 1),  likewise d(k)

    where a is `memory`: with 1 speed and direction are constant, with 0 they are independent from step to step. A UE
    with s < 0 stands still. s(0) and d(0) have the stationary distribution N(mean, std^2); the mean direction is drawn
    uniformly for each UE.

    At a wall and at the border of the area the direction and the mean direction of a UE are reflected. The random
    numbers of a step depend on (seed, u, k) only, and a position only on its step, so the tick length has no effect.

    Departs from the source: reflection at the border, where the source changes the mean direction near it.
    """

    reference: ClassVar = (
        "Liang and Haas, 'Predictive distance-based mobility management for PCS networks', INFOCOM 1999; "
        "Camp, Boleng, Davies, 'A survey of mobility models for ad hoc network research', 2002, Sec. 2.5"
    )
    example: ClassVar = {"kind": "gauss-markov"}

    kind: Literal["gauss-markov"] = "gauss-markov"
    speed_m_s: float = Field(default=1.2, gt=0, le=100)
    """mean speed, m/s"""
    speed_std_m_s: float = Field(default=0.3, ge=0, le=100)
    """standard deviation of the speed, m/s"""
    direction_std_rad: float = Field(default=0.5, ge=0, le=10)
    """standard deviation of the direction around a UE's mean direction, rad"""
    memory: float = Field(default=0.85, ge=0, le=1)
    """correlation a of speed and direction from one step to the next"""
    step_s: float = Field(default=10.0, ge=1e-3, le=86_400)
    """time between changes of speed and direction, s"""

    def start(self, ue: IntArray, ground: Ground) -> MarkovStep:
        """All UEs outdoors, at the beginning of step 0."""
        if not (ground.area.side_m > 0).all():
            width, height = ground.area.side_m
            raise BadInput(f"world.ues.mobility: area of {width:g} x {height:g} m has no room to walk; enlarge it")
        rng = _stream(ground)
        position_m = ground.buildings.outdoor(ground.area, rng, "start", ue)
        mean_rad = 2 * np.pi * rng.uniform("mean", ue)
        speed, direction = rng.normal("step", ue, (2,)).T
        speed_m_s = self.speed_m_s + self.speed_std_m_s * speed
        direction_rad = mean_rad + self.direction_std_rad * direction
        return self._step(ue, 0, position_m, speed_m_s, direction_rad, mean_rad, ground)

    def advance(self, state: MarkovStep, t0_s: float, t1_s: float, ground: Ground) -> tuple[MarkovStep, Fixes]:
        """Takes every step that begins by t1_s; the position is interpolated on the last one."""
        step, last = state.step, last_multiple(t1_s, self.step_s)
        rng, a = _stream(ground), self.memory
        new = sqrt(1 - a**2)
        while step < last:
            step += 1
            speed, direction = rng.normal("step", state.ue, (2,), item=step).T
            mean_rad = state.mean_rad
            speed_m_s = a * state.speed_m_s + (1 - a) * self.speed_m_s + new * self.speed_std_m_s * speed
            direction_rad = a * state.direction_rad + (1 - a) * mean_rad + new * self.direction_std_rad * direction
            state = self._step(state.ue, step, state.knot_m[:, -1], speed_m_s, direction_rad, mean_rad, ground)
        share = min(max(t1_s / self.step_s - step, 0.0), 1.0)
        return replace(state, position_m=_part_of(state.knot_m, share)), Fixes.none()

    def _step(
        self,
        ue: IntArray,
        step: int,
        from_m: FloatArray,
        speed_m_s: FloatArray,
        direction_rad: FloatArray,
        mean_rad: FloatArray,
        ground: Ground,
    ) -> MarkovStep:
        """Step number `step` of UEs `ue` (n,), starting at from_m (n, 2)."""
        length_m = np.maximum(speed_m_s, 0.0) * self.step_s
        knot_m, mirrored, turn_rad = _walk(from_m, length_m, direction_rad, ground)
        turned_rad, turned_mean_rad = (mirrored * rad + turn_rad for rad in (direction_rad, mean_rad))
        return MarkovStep(from_m, ue, step, knot_m, speed_m_s, turned_rad, turned_mean_rad)


def _stream(ground: Ground) -> Rng:
    # steps have no day: the round is always 0 and the number of the step is the item
    return ground.streams.at("mobility.gauss-markov")


def _walk(
    from_m: FloatArray, length_m: FloatArray, direction_rad: FloatArray, ground: Ground
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The corners (n, 9, 2) of a path from from_m (n, 2) with reflections, and their effect on a direction.

    A direction r becomes sign * r + turn: sign (n,) is -1 after an odd number of reflections.
    """
    n = len(from_m)
    knot_m = np.repeat(from_m[:, None], _PIECES + 1, axis=1)
    sign, turn_rad, left_m = np.ones(n), np.zeros(n), length_m.copy()
    row = np.flatnonzero(left_m > 0)
    for piece in range(1, _PIECES + 1):
        if not row.size:
            break
        here_m = knot_m[row, piece - 1]
        towards_rad = sign[row] * direction_rad[row] + turn_rad[row]
        way = np.stack([np.cos(towards_rad), np.sin(towards_rad)], axis=1)
        free_m, wall_rad = _free_way(here_m, way, left_m[row], ground)
        hit = free_m < left_m[row]
        gone_m = np.minimum(free_m, left_m[row])
        there_m = np.clip(here_m + gone_m[:, None] * way, ground.area.low_m, ground.area.high_m)
        knot_m[row, piece:] = there_m[:, None]
        left_m[row] -= gone_m
        row, wall_rad = row[hit], wall_rad[hit]
        sign[row], turn_rad[row] = -sign[row], 2 * wall_rad - turn_rad[row]
    return knot_m, sign, turn_rad


def _free_way(
    here_m: FloatArray, way: FloatArray, length_m: FloatArray, ground: Ground
) -> tuple[FloatArray, FloatArray]:
    """Distance (n,) from here_m to the first wall or border in direction `way` (n, 2), a unit vector.

    The second result is the direction (n,) of that wall or border in rad. The distance is infinite if there is none
    within length_m.
    """
    wall_m, wall_rad = ground.buildings.first_wall(here_m, here_m + length_m[:, None] * way)
    across = np.abs(np.cos(wall_rad) * way[:, 1] - np.sin(wall_rad) * way[:, 0])
    wall_m = np.maximum(wall_m - _CLEARANCE_M / np.maximum(across, 1e-9), 0.0)
    border_m, border_rad = _border(here_m, way, ground.area)
    nearer = border_m < wall_m
    free_m = np.where(nearer, border_m, wall_m)
    return np.where(free_m < length_m, free_m, np.inf), np.where(nearer, border_rad, wall_rad)


def _border(here_m: FloatArray, way: FloatArray, area: Area) -> tuple[FloatArray, FloatArray]:
    """Distance (n,) to the border of the area, and the direction (n,) of that border in rad."""
    ahead_m = np.where(way > 0, area.high_m - here_m, here_m - area.low_m)
    distance_m = np.divide(ahead_m, np.abs(way), out=np.full_like(ahead_m, np.inf), where=way != 0)
    first = np.argmin(distance_m, axis=1)
    return distance_m.min(axis=1), np.where(first == 0, np.pi / 2, 0.0)


def _part_of(knot_m: FloatArray, share: float) -> FloatArray:
    """Positions (n, 2) after a share of the length of paths with corners knot_m (n, k, 2)."""
    piece_m = np.linalg.norm(np.diff(knot_m, axis=1), axis=2)  # (n, k - 1)
    end_m = np.cumsum(piece_m, axis=1)
    gone_m = share * end_m[:, -1]
    at = np.minimum((end_m < gone_m[:, None]).sum(axis=1), piece_m.shape[1] - 1)
    row = np.arange(len(knot_m))
    before_m = end_m[row, at] - piece_m[row, at]
    done = np.divide(gone_m - before_m, piece_m[row, at], out=np.zeros(len(row)), where=piece_m[row, at] > 0)
    done = np.clip(done, 0.0, 1.0)[:, None]
    return np.asarray((1.0 - done) * knot_m[row, at] + done * knot_m[row, at + 1])
