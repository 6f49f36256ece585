"""The Gauss-Markov model: smooth movement with reflection at walls."""

from math import inf, pi, sqrt

import numpy as np
from pydantic import Field

from netsim.clock import find_last_multiple
from netsim.columns import copy_with, divide_or, frozen
from netsim.geometry import compute_ways
from netsim.mobility.base import Ground, Mobility, State
from netsim.part import Fraction
from netsim.rng import Rng
from netsim.streets.graph import Paths
from netsim.ues import Fixes
from netsim.units import ArrayPair, FloatArray, IntArray

_PIECES = 8  # straight pieces of a step; the rest of it after as many walls is not walked
_CLEARANCE_M = 0.01  # from a wall at which a UE turns


@frozen
class MarkovStep(State):
    """The current step of every UE.

    ue (n_ue,): index of the UE; step: number of the step; knot_m (n_ue, 9, 2): corners of its path;
    speed_m_s, direction_rad, mean_rad (n_ue,).
    """

    ue: IntArray
    step: int
    knot_m: FloatArray
    speed_m_s: FloatArray
    direction_rad: FloatArray
    mean_rad: FloatArray


class GaussMarkov(Mobility, kind="gauss-markov"):
    r"""Speed and direction are first-order autoregressive processes; UEs are reflected at walls.

    In step k, of length `step_s`, UE u moves straight with speed s and direction d::

        s(k) = a s(k-1) + (1 - a) s_mean + sqrt(1 - a^2) s_std w,   w ~ N(0, 1),  likewise d(k)

    where a is `memory`: with 1 speed and direction are constant, with 0 they are independent from
    step to step. A UE with s < 0 stands still. s(0) and d(0) have the stationary distribution
    N(mean, std^2); the mean direction is drawn uniformly for each UE.

    At a wall and at the border of the area the direction and the mean direction of a UE are
    reflected. The random numbers of a step depend on (seed, u, k) only, and a position only on its
    step, so the tick length has no effect.

    Departs from the source: reflection at the border, where the source changes the mean direction
    near it.
    """

    reference = (
        "Liang and Haas, 'Predictive distance-based mobility management for PCS networks', "
        "INFOCOM 1999; Camp, Boleng, Davies, 'A survey of mobility models for ad hoc network "
        "research', 2002, Sec. 2.5"
    )

    speed_m_s: float = Field(1.2, gt=0, le=100)
    """mean speed, m/s"""
    speed_std_m_s: float = Field(0.3, ge=0, le=100)
    """standard deviation of the speed, m/s"""
    direction_std_rad: float = Field(0.5, ge=0, le=10)
    """standard deviation of the direction around a UE's mean direction, rad"""
    memory: Fraction = 0.85
    """correlation a of speed and direction from one step to the next"""
    step_s: float = Field(10.0, ge=1e-3, le=86_400)
    """time between changes of speed and direction, s"""

    def start(self, ue: IntArray, ground: Ground) -> MarkovStep:
        rng = _open_stream(ground)
        position_m = ground.buildings.draw_outdoor_m(ground.area, rng, "start", ue)
        mean_rad = 2 * pi * rng.uniform("mean", ue)
        speed, direction = rng.normal("step", ue, (2,)).T
        speed_m_s = self.speed_m_s + self.speed_std_m_s * speed
        direction_rad = mean_rad + self.direction_std_rad * direction
        knot_m = position_m[:, None]
        return self._add_path(
            MarkovStep(position_m, ue, 0, knot_m, speed_m_s, direction_rad, mean_rad), ground
        )

    def advance(
        self, state: MarkovStep, t0_s: float, t1_s: float, ground: Ground
    ) -> tuple[MarkovStep, Fixes]:
        """Takes every step that begins by t1_s; the position is interpolated on the last one."""
        a = self.memory
        new = sqrt(1 - a**2)
        for step in range(state.step + 1, find_last_multiple(t1_s, self.step_s) + 1):
            speed, direction = _open_stream(ground).normal("step", state.ue, (2,), item=step).T
            mean_part_m_s = (1 - a) * self.speed_m_s
            speed_m_s = a * state.speed_m_s + mean_part_m_s + new * self.speed_std_m_s * speed
            noise_rad = new * self.direction_std_rad * direction
            direction_rad = a * state.direction_rad + (1 - a) * state.mean_rad + noise_rad
            state = self._add_path(
                copy_with(state, step=step, speed_m_s=speed_m_s, direction_rad=direction_rad),
                ground,
            )
        share = min(max(t1_s / self.step_s - state.step, 0.0), 1.0)
        along_m = np.zeros(state.knot_m.shape[:2])
        length_m = np.linalg.norm(np.diff(state.knot_m, axis=1), axis=2)
        along_m[:, 1:] = np.cumsum(length_m, axis=1)
        first = (_PIECES + 1) * np.arange(len(along_m) + 1)
        path = Paths(
            state.knot_m.reshape(-1, 2),
            first,
            along_m.ravel(),
        )
        position_m = path.interpolate_m(np.arange(len(path)), share * path.span)
        return copy_with(state, position_m=position_m), Fixes.none()

    def _add_path(self, step: MarkovStep, ground: Ground) -> MarkovStep:
        """A step with its path, which begins where the last one ended, and with directions after
        reflections.
        """
        length_m = np.maximum(step.speed_m_s, 0.0) * self.step_s
        knot_m, mirrored, turn_rad = _trace_path(
            step.knot_m[:, -1], length_m, step.direction_rad, ground
        )
        return copy_with(
            step,
            knot_m=knot_m,
            direction_rad=mirrored * step.direction_rad + turn_rad,
            mean_rad=mirrored * step.mean_rad + turn_rad,
        )


def _open_stream(ground: Ground) -> Rng:
    # steps have no day: the round is always 0 and the number of the step is the item
    return ground.streams.derive_rng("mobility.gauss-markov")


def _trace_path(
    from_m: FloatArray, length_m: FloatArray, direction_rad: FloatArray, ground: Ground
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The corners (n, 9, 2) of a path from from_m (n, 2) with reflections, and their effect on a
    direction.

    A direction r becomes sign * r + turn: sign (n,) is -1 after an odd number of reflections.
    """
    n = len(from_m)
    knot_m = np.repeat(from_m[:, None], _PIECES + 1, axis=1)
    sign = np.ones(n)
    turn_rad = np.zeros(n)
    left_m = length_m.copy()
    row = np.flatnonzero(left_m > 0)
    for piece in range(1, _PIECES + 1):
        if not row.size:
            break
        here_m = knot_m[row, piece - 1]
        towards_rad = sign[row] * direction_rad[row] + turn_rad[row]
        way = compute_ways(towards_rad)
        free_m, wall_rad = _measure_way_and_wall_rad(here_m, way, left_m[row], ground)
        hit = free_m < left_m[row]
        gone_m = np.minimum(free_m, left_m[row])
        end_m = here_m + gone_m[:, None] * way
        next_m = np.clip(end_m, ground.area.low_m, ground.area.high_m)
        knot_m[row, piece:] = next_m[:, None]
        left_m[row] -= gone_m
        row = row[hit]
        wall_rad = wall_rad[hit]
        sign[row] = -sign[row]
        turn_rad[row] = 2 * wall_rad - turn_rad[row]
    return knot_m, sign, turn_rad


def _measure_way_and_wall_rad(
    here_m: FloatArray, way: FloatArray, length_m: FloatArray, ground: Ground
) -> ArrayPair:
    """Distance (n,) from here_m to the first wall or border in direction `way` (n, 2), a unit
    vector.

    The second result is the direction (n,) of that wall or border in rad. The distance is infinite
    if there is none within length_m.
    """
    end_m = here_m + length_m[:, None] * way
    wall_m, wall_rad = ground.buildings.find_wall_distance_and_direction(here_m, end_m)
    cross = np.cos(wall_rad) * way[:, 1] - np.sin(wall_rad) * way[:, 0]
    wall_m = np.maximum(wall_m - _CLEARANCE_M / np.maximum(np.abs(cross), 1e-9), 0.0)
    ahead_m = np.where(way > 0, ground.area.high_m - here_m, here_m - ground.area.low_m)
    border_m = divide_or(ahead_m, np.abs(way), inf)
    border_rad = np.where(border_m.argmin(axis=1) == 0, pi / 2, 0.0)
    border_m = border_m.min(axis=1)
    free_m = np.minimum(border_m, wall_m)
    return np.where(free_m < length_m, free_m, inf), np.where(
        border_m < wall_m, border_rad, wall_rad
    )
