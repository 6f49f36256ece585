r"""The smoother with particles: trajectories drawn backwards through the particles of the filter.

With particles x_i of weight a_i before a round of motion, and a trajectory that is at x' after it,

    P(it came from i) ~ a_i [w_J pi(x') + sum_k w_k G_k(x_i, x')],

so that whole trajectories are draws of where a UE was in all rounds, given all estimates. What is believed of a round
is where 200 trajectories were. The uses of the components on their ways teach the weights of motion, as in
`fl.tracking.smoother`. The filter is run again from the history: particles of past rounds are not kept.

[Godsill, Doucet and West 2004, Algorithm 1]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fl.tracking.belief import Belief
from fl.tracking.cloud import Cloud, Sight
from fl.tracking.filter import blocks
from fl.tracking.habits import Habits
from fl.tracking.history import History
from fl.tracking.particles import Kernel, followed
from fl.tracking.scattered import counted
from netsim.rng import Streams
from netsim.units import FloatArray, IntArray

PURPOSE = "tracker.particles"
_NUMBERS = 20_000_000  # of the particles of a group of UEs: 160 MB
_PASSES, _LEARNING, _TELLING = 2, 50, 200  # passes that learn; trajectories of these, and of the last
_NEVER = np.float32(1e-37)


@dataclass(frozen=True, eq=False)
class _Leg:
    """What the filter knew after a round of motion: its cloud, the weights (n, K + 2) of that motion, and the look
    before which it came; moved : whether time had passed.
    """

    cloud: Cloud
    weight: FloatArray
    look: int
    moved: bool


def smoothed(
    kernel: Kernel, round_s: float, history: History, ue: IntArray, habits: Habits, particles: int, seed: int,
    passes: int = _PASSES,
) -> Iterator[Belief]:  # fmt: skip
    """What is believed after every round of UEs (n,) ascending that had an estimate until then, in order for each UE.

    habits : where learning begins; passes : in which they are learnt anew.
    """
    grid, last = kernel.grid, history.last_looks()
    legs = int(np.maximum(history.steps, 1).sum())
    size = max(_NUMBERS // (3 * legs * particles), 1)
    for at in range(0, len(ue), size):
        some = np.arange(at, min(at + size, len(ue)))
        known, mine = history.of(ue[some])[1], habits.of(some)
        for _ in range(passes):
            mine = _traced(kernel, round_s, history, ue[some], mine, particles, seed, _LEARNING)[1]
        place_m = _traced(kernel, round_s, history, ue[some], mine, particles, seed, _TELLING)[0]
        for look in last.tolist():
            there = known <= look
            cloud = Cloud.equal(place_m[look, there])
            yield Belief(
                int(history.round[look]), float(history.time_s[look]), ue[some][there], grid, counted(cloud, grid),
                kernel.prior.reshape(-1),
            )  # fmt: skip


def _traced(
    kernel: Kernel, round_s: float, history: History, ue: IntArray, habits: Habits, particles: int, seed: int, many: int
) -> tuple[FloatArray, Habits]:
    """Places (S, n, M, 2) of trajectories at every look, and what they teach."""
    first, legs = history.of(ue)[1], _filtered(kernel, round_s, history, ue, habits, particles, seed)
    place_m, learnt = np.zeros((len(history), len(ue), many, 2)), habits.forgotten()
    at_m, every = _drawn(legs[-1].cloud, _units(seed, ue, many, len(legs))), range(len(ue))
    for number in range(len(legs) - 1, -1, -1):
        leg = legs[number]
        classes = history.classes(leg.look, round_s)
        if number == len(legs) - 1 or legs[number + 1].look != leg.look:
            place_m[leg.look] = at_m
        if number == 0 or not leg.moved:
            continue
        before, unit = legs[number - 1].cloud, _units(seed, ue, many, number)
        share = np.zeros_like(leg.weight)
        for i in every:
            if first[i] < leg.look:
                at_m[i], share[i] = _back(kernel, before.of(slice(i, i + 1)), leg.weight[i], at_m[i], unit[i])
        if len(classes) == 1:
            learnt = learnt.plus(classes[0], share)
    return place_m, learnt


def _units(seed: int, ue: IntArray, many: int, leg: int) -> FloatArray:
    """Uniform numbers (n, M) for one step of trajectories."""
    return Streams(seed).at(PURPOSE).uniform("back", ue, (many,), item=leg)


def _filtered(
    kernel: Kernel, round_s: float, history: History, ue: IntArray, habits: Habits, particles: int, seed: int
) -> list[_Leg]:
    """The filter over all looks."""
    (z_m, first), cloud, legs = history.of(ue), Cloud.none(len(ue), particles), list[_Leg]()
    for look in range(len(history)):
        weights = [habits.weight(c) for c in history.classes(look, round_s)]
        sight = Sight.of(history.errors[look].without_bias(), z_m[look], kernel.grid)
        rng = Streams(seed).at(PURPOSE, look)
        moves = followed(kernel, cloud, first >= look, weights, sight, rng, ue)
        for weight, move in zip(weights or [habits.weight(0)], moves, strict=True):
            cloud = move.cloud
            legs.append(_Leg(cloud, weight, look, bool(weights)))
    return legs


def _drawn(cloud: Cloud, unit: FloatArray) -> FloatArray:
    """Places (n, M, 2) of particles, drawn by their weights with unit (n, M)."""
    ladder = np.cumsum(np.exp(cloud.log_weight), axis=1)
    last = cloud.log_weight.shape[1] - 1
    rows = zip(cloud.place_m, ladder, unit, strict=True)
    return np.stack([x[np.minimum(np.searchsorted(steps, u * steps[-1]), last)] for x, steps, u in rows])


def _back(
    kernel: Kernel, before: Cloud, weight: FloatArray, at_m: FloatArray, unit: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Where trajectories at at_m (M, 2) of one UE were a round before, and the mean uses (K + 2,) of components.

    before : its particles then; weight (K + 2,); unit (M,).
    """
    s, grid = kernel.sigma_m, kernel.grid
    prior = kernel.prior.reshape(-1)[grid.nearest(at_m)] / np.prod(grid.cell_m)
    jump = (weight[-1] * prior).astype(np.float32)
    peak = weight[:-1] / (2 * np.pi * s**2 * kernel.inside(before.place_m[0]))  # (P, K + 1)
    x, p = (before.place_m[0] - grid.area.low_m).astype(np.float32), np.exp(before.log_weight[0])
    to, of = (at_m - grid.area.low_m).astype(np.float32), np.zeros(len(at_m), dtype=np.int64)
    parts = [(np.float32(-0.5 / sigma_m**2), peak[:, k].astype(np.float32)) for k, sigma_m in enumerate(s.tolist())]
    for rows in blocks(len(at_m), len(x)):
        square = (to[rows, :1] - x[:, 0]) ** 2 + (to[rows, 1:] - x[:, 1]) ** 2  # (m, P)
        density = np.repeat(jump[rows, None] + _NEVER, len(x), axis=1)
        for scale, height in parts:
            density += height * np.exp(square * scale)
        ladder = np.cumsum(p * density, axis=1)
        of[rows] = (ladder < unit[rows, None] * ladder[:, -1:]).sum(axis=1)
    of = np.minimum(of, len(x) - 1)
    came_m = before.place_m[0, of]
    square = ((came_m - at_m) ** 2).sum(axis=1)[:, None]
    share = np.concatenate([peak[of] * np.exp(-square / (2 * s**2)), jump[:, None]], axis=1)
    whole = np.maximum(share.sum(axis=1, keepdims=True), _NEVER)
    return came_m, np.asarray((share / whole).mean(axis=0))
