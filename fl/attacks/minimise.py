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

from netsim.units import FloatArray, IntArray

Objective = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""(group (m,) of each point, ascending; points (m, dim)) -> values (m,), gradients (m, dim)."""

STILL = 1e-5  # a start that moves no more than this ...
PATIENCE = 10  # ... for this number of iterations has settled
_STUCK = 5  # of which this many are over where a search finds no better point: twice, and the start has settled
_MEMORY = 6  # pairs that L-BFGS keeps
_ROUNDING = 1e-16  # a step that promises no more, as a share of the value (or of 1), is the last: it cannot be seen
_TRIALS = 12  # of one line search
_ARMIJO, _WOLFE = 1e-4, 0.9
_NOTHING = 1e-6  # a trial that would move a start no further is not worth asking
_INSIDE = 0.1  # share of a bracket at either end that interpolation leaves alone


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
    s, y = (np.zeros((p * q, _MEMORY, dim)) for _ in range(2))  # pairs, the newest first
    still, used = np.zeros(p * q, dtype=np.int64), np.zeros(p, dtype=np.int64)
    for t in range(1, iterations + 1):
        live = np.flatnonzero(still < PATIENCE)
        if len(live) == 0:
            break
        direction, slope = _aim(f[live], g[live], s[live], y[live])
        new_x, new_f, new_g = _line_search(ask, live, x[live], f[live], g[live], direction, slope)
        s[live, 1:], y[live, 1:] = s[live, :-1], y[live, :-1]
        s[live, 0], y[live, 0] = new_x - x[live], new_g - g[live]  # empty where no better point was found
        x[live], f[live], g[live] = new_x, new_f, new_g
        moved = np.abs(s[live, 0]).max(axis=1)
        waited = np.where(moved > STILL, 0, still[live] + np.where(moved > 0, 1, _STUCK))
        still[live] = np.where(slope == 0, PATIENCE, waited)
        used[group[live]] = t
    value, iterations_used = torch.from_numpy(f), torch.from_numpy(used)
    return Minimum(torch.from_numpy(x).view(p, q, dim), value.view(p, q), iterations_used, ask.calls)


def _asked(ask: _CountedObjective, rows: IntArray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    value, gradient = ask(torch.from_numpy(rows), torch.from_numpy(x))
    return value.numpy(), gradient.contiguous().numpy()


def _dot(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.asarray((a * b).sum(axis=-1))


def _aim(f: FloatArray, g: FloatArray, s: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Direction (m, dim), and slope (m,) along it, 0 where no step can be seen.

    Of f (m,), g (m, dim) and the pairs s, y (m, memory, dim), newest first; pairs without positive curvature are
    skipped.
    """
    curvature, square = _dot(s, y), np.maximum(_dot(y, y), 1e-300)
    use = curvature > 1e-12 * square
    rho = np.divide(1.0, curvature, out=np.zeros_like(curvature), where=use)
    alpha, d = np.zeros_like(rho), g.copy()
    for i in range(_MEMORY):
        alpha[:, i] = rho[:, i] * _dot(s[:, i], d)
        d -= alpha[:, i, None] * y[:, i]
    first = 0.5 / np.maximum(np.sqrt(_dot(g, g)), 1e-12)  # a first step of half a unit
    d *= np.where(use[:, 0], curvature[:, 0] / square[:, 0], first)[:, None]
    for i in reversed(range(_MEMORY)):
        d += (alpha[:, i] - rho[:, i] * _dot(y[:, i], d))[:, None] * s[:, i]
    slope = -_dot(g, d)
    rises, seen = slope > 0, np.abs(slope) > _ROUNDING * np.maximum(np.abs(f), 1.0)
    direction = np.where(rises[:, None], -g, -d) * seen[:, None]
    return direction, np.where(rises, -_dot(g, g), slope) * seen


def _line_search(
    ask: _CountedObjective, rows: IntArray, x: FloatArray, f: FloatArray, g: FloatArray,
    direction: FloatArray, slope: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:  # fmt: skip
    """Weak-Wolfe bracket (Lewis and Overton 2013), each start with its own step; the best point is kept.

    A bracket has a low end with the value and slope there, and a high end. It is cut where the cubic through its ends
    has its minimum, and by half where that is of no use.
    """
    low, low_f, low_slope = np.zeros_like(f), f.copy(), slope.copy()
    high, step, reach = np.full_like(f, np.inf), np.ones_like(f), np.abs(direction).max(axis=1)
    best_x, best_f, best_g = x.copy(), f.copy(), g.copy()
    asking = np.flatnonzero(slope)
    for _ in range(_TRIALS):
        if len(asking) == 0:
            break
        at, trial = step[asking], x[asking] + step[asking, None] * direction[asking]
        value, gradient = _asked(ask, rows[asking], trial)
        along = _dot(gradient, direction[asking])
        too_far = value > f[asking] + _ARMIJO * at * slope[asking]
        far, near = asking[too_far], asking[~too_far]
        cut = _cubic(low[far], low_f[far], low_slope[far], at[too_far], value[too_far], along[too_far])
        high[far] = at[too_far]
        low[near], low_f[near], low_slope[near] = at[~too_far], value[~too_far], along[~too_far]
        better = ~too_far & (value < best_f[asking])
        best_x[asking[better]], best_f[asking[better]] = trial[better], value[better]
        best_g[asking[better]] = gradient[better]
        step[asking] = np.where(np.isfinite(high[asking]), (low[asking] + high[asking]) / 2, 2.0 * at)
        step[far] = np.where(np.isfinite(cut), cut, step[far])
        again = too_far | ~(along >= _WOLFE * slope[asking])
        asking = asking[again & (step[asking] * reach[asking] > _NOTHING)]
    return best_x, best_f, best_g


def _cubic(
    low: FloatArray, f: FloatArray, slope: FloatArray, at: FloatArray, value: FloatArray, along: FloatArray
) -> FloatArray:
    """Minima of cubics through both ends (Nocedal and Wright, Eq. 3.59), well inside the bracket."""
    width = at - low
    with np.errstate(all="ignore"):
        middle = slope + along - 3.0 * (value - f) / width
        root = np.sqrt(np.maximum(middle * middle - slope * along, 0.0))
        spread = along - slope + 2.0 * root
        cut = at - width * (along + root - middle) / np.where(spread == 0.0, np.nan, spread)
    inside = np.minimum(np.maximum(cut, low + _INSIDE * width), at - _INSIDE * width)
    return np.where(np.isfinite(spread), inside, np.nan)
