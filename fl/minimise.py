"""Minimise many small problems at once: batched L-BFGS and Adam.

Problems are rows x (p, q, dim): p groups that share data, q starts each. A function returns values (p, q) and
gradients (p, q, dim) for the groups asked for, so finished groups cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Objective = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""(group index (k,), x (k, q, dim)) -> values (k, q), gradients (k, q, dim)."""

_STILL = 1e-5  # a start that moves less than this ...
_PATIENCE = 10  # ... for so many iterations has settled
_MEMORY = 6  # pairs that L-BFGS keeps
_ARMIJO, _WOLFE = 1e-4, 0.9
_TRIALS = 12  # of one line search


@dataclass
class Minimum:
    """x (p, q, dim), value (p, q); iterations and evaluations (p,) until the group settled."""

    x: Tensor
    value: Tensor
    iterations: Tensor
    evaluations: Tensor


def _safe(objective: Objective, group: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Values and gradients; what is not finite becomes a wall (inf) without slope."""
    value, gradient = objective(group, x)
    bad = ~(torch.isfinite(value) & torch.isfinite(gradient).all(dim=-1))
    value = torch.where(bad, torch.full_like(value, torch.inf), value)
    return value, torch.where(bad.unsqueeze(-1), torch.zeros_like(gradient), gradient)


def adam(objective: Objective, start: Tensor, iterations: int, rate: float, halve_every: int) -> Minimum:
    """Adam (Kingma and Ba 2015) from every start; the rate halves every `halve_every` iterations."""
    x, best = start.clone(), start.clone()
    p = len(x)
    group = torch.arange(p)
    value = torch.full(x.shape[:2], torch.inf, dtype=x.dtype)
    first, second = torch.zeros_like(x), torch.zeros_like(x)
    still, used = torch.zeros(p, dtype=torch.int64), torch.zeros(p, dtype=torch.int64)
    for t in range(1, iterations + 1):
        live = torch.nonzero(still < _PATIENCE).flatten()
        if len(live) == 0:
            break
        f, g = _safe(objective, group[live], x[live])
        better = f < value[live]
        value[live] = torch.where(better, f, value[live])
        best[live] = torch.where(better.unsqueeze(-1), x[live], best[live])
        first[live] = 0.9 * first[live] + 0.1 * g
        second[live] = 0.999 * second[live] + 0.001 * g * g
        step = rate * 0.5 ** (t // halve_every) * (first[live] / (1 - 0.9**t))
        step = step / ((second[live] / (1 - 0.999**t)).sqrt() + 1e-8)
        x[live] = x[live] - step
        moved = step.abs().amax(dim=(1, 2)) > _STILL
        still[live] = torch.where(moved, 0, still[live] + 1)
        used[live] = t
    return Minimum(best, value, used, used.clone())


def lbfgs(objective: Objective, start: Tensor, iterations: int) -> Minimum:
    """L-BFGS (Nocedal 1980) from every start, each with its own memory and weak-Wolfe line search."""
    x = start.clone()
    p, q, dim = x.shape
    everyone = torch.arange(p)
    f, g = _safe(objective, everyone, x)
    s_memory = torch.zeros(p, q, _MEMORY, dim, dtype=x.dtype)
    y_memory = torch.zeros_like(s_memory)
    still = torch.zeros(p, dtype=torch.int64)
    used, calls = torch.zeros(p, dtype=torch.int64), torch.ones(p, dtype=torch.int64)
    for t in range(1, iterations + 1):
        live = torch.nonzero(still < _PATIENCE).flatten()
        if len(live) == 0:
            break
        direction = -_two_loop(g[live], s_memory[live], y_memory[live])
        new = _line_search(objective, live, x[live], f[live], g[live], direction, calls)
        s, y = new[0] - x[live], new[2] - g[live]
        s_memory[live] = torch.cat([s.unsqueeze(2), s_memory[live][:, :, :-1]], dim=2)
        y_memory[live] = torch.cat([y.unsqueeze(2), y_memory[live][:, :, :-1]], dim=2)
        x[live], f[live], g[live] = new
        moved = s.abs().amax(dim=(1, 2)) > _STILL
        still[live] = torch.where(moved, 0, still[live] + 1)
        used[live] = t
    return Minimum(x, f, used, calls)


def _two_loop(g: Tensor, s: Tensor, y: Tensor) -> Tensor:
    """H g for each problem; pairs without positive curvature are skipped."""
    curvature = (s * y).sum(-1)  # (k, q, m)
    use = curvature > 1e-12 * (y * y).sum(-1).clamp(min=1e-300)
    rho = torch.where(use, 1.0 / torch.where(use, curvature, torch.ones_like(curvature)), 0.0)
    direction, alphas = g, []
    for i in range(s.shape[2]):
        alpha = rho[:, :, i] * (s[:, :, i] * direction).sum(-1)
        direction = direction - alpha.unsqueeze(-1) * y[:, :, i]
        alphas.append(alpha)
    newest = (y[:, :, 0] * y[:, :, 0]).sum(-1)
    gamma = torch.where(use[:, :, 0], curvature[:, :, 0] / newest.clamp(min=1e-300), 0.0)
    length = g.norm(dim=-1).clamp(min=1e-12)
    gamma = torch.where(gamma > 0, gamma, 0.5 / length)  # a first step of half a unit
    direction = gamma.unsqueeze(-1) * direction
    for i in reversed(range(s.shape[2])):
        beta = rho[:, :, i] * (y[:, :, i] * direction).sum(-1)
        direction = direction + (alphas[i] - beta).unsqueeze(-1) * s[:, :, i]
    return direction


def _line_search(
    objective: Objective, group: Tensor, x: Tensor, f: Tensor, g: Tensor, direction: Tensor, calls: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Weak-Wolfe bisection (Lewis and Overton 2013), each problem with its own step; best point kept."""
    slope = (g * direction).sum(-1)
    uphill = slope > 0
    direction = torch.where(uphill.unsqueeze(-1), -g, direction)
    slope = torch.where(uphill, -(g * g).sum(-1), slope)
    low, high = torch.zeros_like(f), torch.full_like(f, torch.inf)
    step = torch.ones_like(f)
    best = (x, f, g)
    done = slope == 0
    for _ in range(_TRIALS):
        open_ = torch.nonzero(~done.all(dim=1)).flatten()
        if len(open_) == 0:
            break
        trial = x[open_] + step[open_].unsqueeze(-1) * direction[open_]
        value, gradient = _safe(objective, group[open_], trial)
        calls[group[open_]] += 1
        todo = ~done[open_]
        too_far = value > f[open_] + _ARMIJO * step[open_] * slope[open_]
        flat = (gradient * direction[open_]).sum(-1) >= _WOLFE * slope[open_]
        better = todo & ~too_far & (value < best[1][open_])
        best = _put(best, open_, better, (trial, value, gradient))
        done[open_] = done[open_] | (todo & ~too_far & flat)
        high[open_] = torch.where(todo & too_far, step[open_], high[open_])
        low[open_] = torch.where(todo & ~too_far, step[open_], low[open_])
        bounded = torch.isfinite(high[open_])
        step[open_] = torch.where(bounded, (low[open_] + high[open_]) / 2, 2 * step[open_])
    return best


def _put(
    best: tuple[Tensor, Tensor, Tensor], rows: Tensor, where: Tensor, new: tuple[Tensor, Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Replace entries (rows, where) of best by new; inputs are left alone."""
    out = tuple(b.clone() for b in best)
    for old, fresh in zip(out, new, strict=True):
        mask = where if fresh.dim() == where.dim() else where.unsqueeze(-1)
        old[rows] = torch.where(mask, fresh, old[rows])
    return out[0], out[1], out[2]
