r"""Minimise many small problems at once: batched L-BFGS and Adam.

Problems are starts x (p, q, dim): p groups that share data, q starts each. A function is asked about any of the
starts, flat and in order, so a start that has settled costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Objective = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""(group (m,) of each point, ascending; points (m, dim)) -> values (m,), gradients (m, dim)."""

_STILL = 1e-5  # a start that moves no more than this ...
_PATIENCE = 10  # ... for so many iterations has settled
_STUCK = 5  # of which this many are over where a search finds no better point: twice, and the start has settled
_ROUNDING = 1e-16  # a step that promises no more, as a share of the value (or of 1), is the last: it cannot be seen
_MEMORY = 6  # pairs that L-BFGS keeps
_ARMIJO, _WOLFE = 1e-4, 0.9
_TRIALS = 12  # of one line search
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


class _Asked:
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
    ask = _Asked(objective, p, q)
    x = start.reshape(p * q, dim).clone()
    best, value = x.clone(), torch.full((p * q,), torch.inf, dtype=x.dtype)
    first, second = torch.zeros_like(x), torch.zeros_like(x)
    still, used = torch.zeros(p * q, dtype=torch.int64), torch.zeros(p, dtype=torch.int64)
    for t in range(1, iterations + 1):
        live = torch.nonzero(still < _PATIENCE).flatten()
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
        still[live] = torch.where(step.abs().amax(dim=1) > _STILL, 0, still[live] + 1)
        used[ask.group[live]] = t
    return Minimum(best.view(p, q, dim), value.view(p, q), used, ask.calls)


def lbfgs(objective: Objective, start: Tensor, iterations: int) -> Minimum:
    """L-BFGS (Nocedal 1980) from every start, each with its own memory and weak-Wolfe line search."""
    p, q, dim = start.shape
    ask = _Asked(objective, p, q)
    x = start.reshape(p * q, dim).clone()
    f, g = ask(torch.arange(p * q), x)
    s_memory = torch.zeros(p * q, _MEMORY, dim, dtype=x.dtype)
    y_memory = torch.zeros_like(s_memory)
    still, used = torch.zeros(p * q, dtype=torch.int64), torch.zeros(p, dtype=torch.int64)
    for t in range(1, iterations + 1):
        live = torch.nonzero(still < _PATIENCE).flatten()
        if len(live) == 0:
            break
        direction = -_two_loop(g[live], s_memory[live], y_memory[live])
        hopeless = (g[live] * direction).sum(-1).abs() <= _ROUNDING * f[live].abs().clamp(min=1.0)
        direction = torch.where(hopeless.unsqueeze(-1), 0.0, direction)
        new = _line_search(ask, live, x[live], f[live], g[live], direction)
        s, y = new[0] - x[live], new[2] - g[live]
        moved = s.abs().amax(dim=1)
        # where no better point was found the newest pair is empty, and the next direction is scaled afresh
        s_memory[live] = torch.cat([s.unsqueeze(1), s_memory[live][:, :-1]], dim=1)
        y_memory[live] = torch.cat([y.unsqueeze(1), y_memory[live][:, :-1]], dim=1)
        x[live], f[live], g[live] = new
        still[live] = torch.where(moved > _STILL, 0, still[live] + torch.where(moved > 0, 1, _STUCK))
        still[live[hopeless]] = _PATIENCE
        used[ask.group[live]] = t
    return Minimum(x.view(p, q, dim), f.view(p, q), used, ask.calls)


def _two_loop(g: Tensor, s: Tensor, y: Tensor) -> Tensor:
    """H g for each row of g (m, dim) with pairs s, y (m, memory, dim); pairs without positive curvature are skipped."""
    curvature = (s * y).sum(-1)  # (m, memory)
    use = curvature > 1e-12 * (y * y).sum(-1).clamp(min=1e-300)
    rho = torch.where(use, 1.0 / torch.where(use, curvature, 1.0), 0.0)
    direction, alphas = g, []
    for i in range(s.shape[1]):
        alpha = rho[:, i] * (s[:, i] * direction).sum(-1)
        direction = direction - alpha.unsqueeze(-1) * y[:, i]
        alphas.append(alpha)
    newest = (y[:, 0] * y[:, 0]).sum(-1)
    gamma = torch.where(use[:, 0], curvature[:, 0] / newest.clamp(min=1e-300), 0.0)
    length = g.norm(dim=-1).clamp(min=1e-12)
    gamma = torch.where(gamma > 0, gamma, 0.5 / length)  # a first step of half a unit
    direction = gamma.unsqueeze(-1) * direction
    for i in reversed(range(s.shape[1])):
        beta = rho[:, i] * (y[:, i] * direction).sum(-1)
        direction = direction + (alphas[i] - beta).unsqueeze(-1) * s[:, i]
    return direction


def _line_search(
    ask: _Asked, rows: Tensor, x: Tensor, f: Tensor, g: Tensor, direction: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Weak-Wolfe bracket (Lewis and Overton 2013), each start with its own step; the best point is kept.

    A bracket is cut where the cubic through its ends has its minimum, and by half where that is of no use.
    """
    slope = (g * direction).sum(-1)
    uphill = slope > 0
    direction = torch.where(uphill.unsqueeze(-1), -g, direction)
    slope = torch.where(uphill, -(g * g).sum(-1), slope)
    low, low_f, low_slope = torch.zeros_like(f), f.clone(), slope.clone()
    high = torch.full_like(f, torch.inf)
    step = torch.ones_like(f)
    best_x, best_f, best_g = x.clone(), f.clone(), g.clone()
    reach = direction.abs().amax(dim=1)
    open_ = torch.nonzero(slope != 0).flatten()
    for _ in range(_TRIALS):
        if len(open_) == 0:
            break
        at = step[open_]
        trial = x[open_] + at.unsqueeze(-1) * direction[open_]
        value, gradient = ask(rows[open_], trial)
        along = (gradient * direction[open_]).sum(-1)
        too_far = value > f[open_] + _ARMIJO * at * slope[open_]
        better = ~too_far & (value < best_f[open_])
        won = open_[better]
        best_x[won], best_f[won], best_g[won] = trial[better], value[better], gradient[better]
        flat = along >= _WOLFE * slope[open_]
        high[open_] = torch.where(too_far, at, high[open_])
        cut = _cubic(low[open_], low_f[open_], low_slope[open_], at, value, along)
        for old, new in ((low, at), (low_f, value), (low_slope, along)):
            old[open_] = torch.where(too_far, old[open_], new)
        half = torch.where(torch.isfinite(high[open_]), (low[open_] + high[open_]) / 2, 2.0 * at)
        step[open_] = torch.where(too_far & torch.isfinite(cut), cut, half)
        worth = step[open_] * reach[open_] > _NOTHING
        open_ = open_[(too_far | ~flat) & worth]
    return best_x, best_f, best_g


def _cubic(low: Tensor, f: Tensor, slope: Tensor, at: Tensor, value: Tensor, along: Tensor) -> Tensor:
    """Where the cubic through both ends has its minimum (Nocedal and Wright, Eq. 3.59), well inside the bracket."""
    width = at - low
    middle = slope + along - 3.0 * (value - f) / width
    root = (middle * middle - slope * along).clamp(min=0.0).sqrt()
    cut = at - width * (along + root - middle) / (along - slope + 2.0 * root)
    return torch.minimum(torch.maximum(cut, low + _INSIDE * width), at - _INSIDE * width)
