r"""The search for the guess whose gradient comes closest to an update."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

_STILL = 1e-5  # a start that moves no more than this ...
_PATIENCE = 10  # ... in this number of iterations has settled
_SHORT = 1e-6  # a step that is no longer than this is the last of its start
_ARMIJO = 1e-4
# least curvature along a step, as a share of the change of the slope, that the Hessian learns from
_CURVED = 1e-12
_LONGER = 4.0  # times as far go the steps of a start after one along which the slope did not rise

Distance = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Values (k, q), and slopes (k, q, 2) in guesses (k, q, 2), about the targets numbered (k,)."""


@dataclass
class Minimum:
    """Where searches have ended: z (n, q, 2), value (n, q), and how many iterations (n,) a target
    took.
    """

    z: Tensor
    value: Tensor
    iterations: Tensor


def minimise_distance(distance: Distance, start: Tensor, iterations: int) -> Minimum:
    """Minimise from starts (n, q, 2) of n targets by BFGS [Nocedal and Wright 2006, Section 6.1],
    all at once.

    An iteration asks once about every start of a target that has not settled. A start tries a step
    along its direction; it takes the step if the value falls enough, and tries a shorter one
    otherwise.
    """
    n = len(start)
    z = start.clone()
    value, slope = distance(torch.arange(n), z)
    first = 0.5 / slope.norm(dim=-1).clamp_min(1e-12)  # a first step of half a unit
    inverse = first[..., None, None] * torch.eye(2, dtype=slope.dtype)
    step = torch.ones_like(value)
    learnt = torch.zeros_like(value, dtype=torch.bool)
    rest = torch.zeros_like(value)
    used = torch.zeros(n, dtype=torch.int64)
    for iteration in range(1, iterations + 1):
        live = torch.nonzero((rest < _PATIENCE).any(dim=1)).flatten()
        if not len(live):
            break
        old_slope = slope[live]
        old_value = value[live]
        old_inverse = inverse[live]
        newton = torch.einsum("nqij,nqj->nqi", old_inverse, old_slope)
        way = -step[live, :, None] * newton
        promised = (way * old_slope).sum(dim=-1)
        new_value, new_slope = distance(live, z[live] + way)
        gain = new_value - old_value
        is_taken = gain <= _ARMIJO * promised
        moves_both = is_taken[..., None]
        bend = torch.where(moves_both, new_slope - old_slope, 0.0)
        curvature = (way * bend).sum(dim=-1)
        is_curved = is_taken & (curvature > _CURVED * (bend * bend).sum(dim=-1))
        better = _update_inverse(old_inverse, way, bend, learnt[live])
        longer = torch.where(is_taken, _LONGER, 1.0)[..., None, None] * old_inverse
        inverse[live] = torch.where(is_curved[..., None, None], better, longer)
        learnt[live] |= is_curved
        shorter = (promised / (2.0 * (promised - gain))).nan_to_num(0.5).clamp(0.1, 0.5)
        length = way.abs().amax(dim=-1)
        is_moving = is_taken & (length > _STILL)
        waited = rest[live] + torch.where(length > _SHORT, 1.0, _PATIENCE)
        rest[live] = torch.where(is_moving, 0.0, waited)
        step[live] = torch.where(is_taken, 1.0, shorter * step[live])
        z[live] += torch.where(moves_both, way, 0.0)
        value[live] = torch.where(is_taken, new_value, old_value)
        slope[live] = torch.where(moves_both, new_slope, old_slope)
        used[live] = iteration
    return Minimum(z, value, used)


def _update_inverse(inverse: Tensor, way: Tensor, bend: Tensor, learnt: Tensor) -> Tensor:
    """Inverse Hessians that turn changes of the slope (n, q, 2) into the ways (n, q, 2) that made
    them.

    The first that a start learns replaces a multiple of the identity.
    """
    identity = torch.eye(2, dtype=way.dtype)
    curvature = (way * bend).sum(dim=-1)[..., None, None]
    scale = curvature / (bend * bend).sum(dim=-1)[..., None, None]
    before = torch.where(learnt[..., None, None], inverse, scale * identity)
    column = way[..., :, None]
    left = identity - column * bend[..., None, :] / curvature
    return left @ before @ left.mT + column * way[..., None, :] / curvature
