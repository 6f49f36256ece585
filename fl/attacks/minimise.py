r"""Minimise many small problems at once: batched L-BFGS and Adam.

Problems are starts x (p, q, dim): p groups that share data, q starts each. A function is asked about any of the
starts, flat and in order, so a start that has settled costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fl.attacks.minimise_loops import PATIENCE, STILL, aim, move, narrow
from netsim.units import FloatArray, IntArray

Objective = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""(group (m,) of each point, ascending; points (m, dim)) -> values (m,), gradients (m, dim)."""

_MEMORY = 6  # pairs that L-BFGS keeps
_TRIALS = 12  # of one line search


@dataclass
class Minimum:
    """x (p, q, dim), value (p, q); and what each group cost (p,).

    iterations : until its last start settled. evaluations : how often the objective was asked about the group, be
    it about one of its starts or all of them at once.
    """

    x: Tensor
    value: Tensor
    iterations: Tensor
    evaluations: Tensor


class _CountedObjective:
    """An objective that counts; what is not finite becomes a wall (inf) without slope."""

    def __init__(self, objective: Objective, p: int, q: int) -> None:
        self._objective = objective
        self.group = torch.arange(p * q) // q
        self.calls = torch.zeros(p, dtype=torch.int64)

    def __call__(self, rows: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        group = self.group[rows]
        self.calls[group] += 1  # once, however many of the group's starts
        value, gradient = self._objective(group, x)
        bad = ~(torch.isfinite(value) & torch.isfinite(gradient).all(dim=-1))
        value = torch.where(bad, torch.inf, value)
        return value, torch.where(bad.unsqueeze(-1), 0.0, gradient)


def adam(objective: Objective, start: Tensor, iterations: int, rate: float, halve_every: int) -> Minimum:
    """Adam (Kingma and Ba 2015) from every start; the rate halves every `halve_every` iterations."""
    p, q, dim = start.shape
    ask = _CountedObjective(objective, p, q)
    x = start.reshape(p * q, dim).clone()
    best, value = x.clone(), torch.full((p * q,), torch.inf, dtype=x.dtype)
    first, second = torch.zeros_like(x), torch.zeros_like(x)
    still, used = torch.zeros(p * q, dtype=torch.int64), torch.zeros(p, dtype=torch.int64)
    for t in range(1, iterations + 1):
        live = torch.nonzero(still < PATIENCE).flatten()
        if len(live) == 0:
            break
        f, g = ask(live, x[live])
        better = f < value[live]
        value[live] = torch.where(better, f, value[live])
        best[live] = torch.where(better.unsqueeze(-1), x[live], best[live])
        first[live] = 0.9 * first[live] + 0.1 * g
        second[live] = 0.999 * second[live] + 0.001 * g * g
        step = rate * 0.5 ** (t // halve_every) * (first[live] / (1 - 0.9**t))
        step = step / ((second[live] / (1 - 0.999**t)).sqrt() + 1e-8)
        x[live] = x[live] - step
        still[live] = torch.where(step.abs().amax(dim=1) > STILL, 0, still[live] + 1)
        used[ask.group[live]] = t
    return Minimum(best.view(p, q, dim), value.view(p, q), used, ask.calls)


def lbfgs(objective: Objective, start: Tensor, iterations: int) -> Minimum:
    """L-BFGS (Nocedal 1980) from every start, each with its own memory and weak-Wolfe line search."""
    p, q, dim = start.shape
    ask = _CountedObjective(objective, p, q)
    group = ask.group.numpy()
    x = start.reshape(p * q, dim).numpy().copy()
    f, g = _asked(ask, np.arange(p * q), x)
    s_memory, y_memory = (np.zeros((p * q, _MEMORY, dim)) for _ in range(2))
    still, used = np.zeros(p * q, dtype=np.int64), np.zeros(p, dtype=np.int64)
    for t in range(1, iterations + 1):
        live = np.flatnonzero(still < PATIENCE)
        if len(live) == 0:
            break
        direction, slope, reach = aim(live, f, g, s_memory, y_memory)
        new = _line_search(ask, live, x[live], f[live], g[live], direction, slope, reach)
        move(live, slope, *new, x, f, g, s_memory, y_memory, still)
        used[group[live]] = t
    value, iterations_used = torch.from_numpy(f), torch.from_numpy(used)
    return Minimum(torch.from_numpy(x).view(p, q, dim), value.view(p, q), iterations_used, ask.calls)


def _asked(ask: _CountedObjective, rows: IntArray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    value, gradient = ask(torch.from_numpy(rows), torch.from_numpy(x))
    return value.numpy(), gradient.contiguous().numpy()


def _line_search(
    ask: _CountedObjective, rows: IntArray, x: FloatArray, f: FloatArray, g: FloatArray,
    direction: FloatArray, slope: FloatArray, reach: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:  # fmt: skip
    """Weak-Wolfe bracket (Lewis and Overton 2013), each start with its own step; the best point is kept."""
    bracket = np.stack([np.zeros_like(f), f, slope, np.full_like(f, np.inf)], axis=1)
    step = np.ones_like(f)
    best = x.copy(), f.copy(), g.copy()
    open_ = np.flatnonzero(slope)
    for _ in range(_TRIALS):
        if len(open_) == 0:
            break
        trial = x[open_] + step[open_, None] * direction[open_]
        answer = _asked(ask, rows[open_], trial)
        open_ = narrow(open_, trial, *answer, f, direction, slope, reach, step, bracket, *best)
    return best
