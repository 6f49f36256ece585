r"""The cosine between updates and gradients of guessed samples, and the search for the guess that
comes closest.

With activations a_l, deltas D_l and an update of layers (U_l, v_l) and length 1 (see
`fl.networks.mlp`),

    cos = <dF/dw, u> / |dF/dw|,    <dF/dw, u> = sum_l (a_{l-1} U_l + v_l) . D_l,
    |dF/dw|^2 = sum_l |D_l|^2 (|a_{l-1}|^2 + 1),

so no gradient of a guess is formed, and autograd keeps activations only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor
from torch.nn import functional

from fl.attacks.base import View
from fl.attacks.place_maps import normalise_rows
from fl.learners import FirstLayerLearner
from fl.networks.mlp import Mlp
from netsim.units import AnyFloats, FloatArray

_STILL = 1e-5  # a start that moves no more than this ...
_PATIENCE = 10  # ... in this number of iterations has settled
_SHORT = 1e-6  # a step that is no longer than this is the last of its start
_ARMIJO = 1e-4
# least curvature along a step, as a share of the change of the slope, that the Hessian learns from
_CURVED = 1e-12
_NO_WAVES = torch.zeros(2, 0, dtype=torch.float64)
_LONGER = 4.0  # times as far go the steps of a start after one along which the slope did not rise
_STEP = 5e-3  # standardised units
_CROSS = _STEP * torch.tensor([[0, 0], [1, 0], [0, 1], [-1, 0], [0, -1]], dtype=torch.float64)

Distance = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Values (k, q), and slopes (k, q, 2) in guesses (k, q, 2), about the targets numbered (k,)."""


@dataclass(frozen=True)
class CosineDistance:
    """1 - |cos(dF/dw(z), u)| of guesses z about updates u of one network.

    weights (1, d): before the round; direction (n, d): updates of length 1; waves (2, J): what the
    network reads beside a standardised position z, cos a and sin a of a = z waves; by default none,
    (2, 0).
    """

    net: Mlp
    weights: Tensor
    direction: Tensor
    waves: Tensor

    @classmethod
    def from_updates(
        cls, update: Tensor, net: Mlp, weights: Tensor, waves: Tensor = _NO_WAVES
    ) -> CosineDistance:
        """Distance to updates (n, d) of any length."""
        # so that squares neither overflow nor vanish
        scaled = update / update.abs().amax(dim=1, keepdim=True)
        return cls(net, weights, scaled / scaled.norm(dim=1, keepdim=True), waves)

    def __call__(self, target: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Values (k, q), and slopes (k, q, 2) in guesses z (k, q, 2) about the updates numbered
        target (k,).

        Infinite and flat where they are not finite.
        """
        guess = z.detach().requires_grad_()
        value = 1.0 - self._compute_cosine(target, guess).abs()
        (slope,) = torch.autograd.grad(value.sum(), guess)
        value = value.detach()
        is_finite = value.isfinite() & slope.isfinite().all(dim=-1)
        value = torch.where(is_finite, value, torch.inf)
        return value, torch.where(is_finite[..., None], slope, 0.0)

    def _compute_cosine(self, target: Tensor, z: Tensor) -> Tensor:
        k, q, _ = z.shape
        angle = z @ self.waves
        inputs = torch.cat([z, angle.cos(), angle.sin()], dim=2)
        out, activations, slopes = self.net.forward(self.weights, inputs.view(1, k * q, -1))
        deltas = self.net.compute_deltas(self.weights, slopes, torch.ones_like(out))
        direction = self.direction
        if k != len(direction):
            direction = direction[target]
        by_target = [[values.view(k, q, -1) for values in side] for side in (activations, deltas)]
        product = self.net.multiply_gradients(direction, *by_target)  # first: slopes add in order
        return product / self.net.compute_squared_norms(activations, deltas).view(k, q).sqrt()


def build_distance(view: View, model: int, update: FloatArray) -> Distance:
    """1 - |cos(dF/dw(z), u)| of standardised positions z and updates u (n, d), none of zeros, of
    the network numbered model, before the round.

    Gradients of another network than a fully connected one are formed, those about one update at
    once, and slopes are central differences over 0.01 standardised units: in them rounding of 32
    bits and bending weigh about as much.
    """
    learner = view.learner
    before = view.model_before
    dense = learner.get_dense_network(before, model)
    if dense is not None:
        net, weights, waves = dense
        return CosineDistance.from_updates(
            torch.from_numpy(update), net, torch.from_numpy(weights)[None], torch.from_numpy(waves)
        )
    centre, scale = (
        side[model] for side in cast(FirstLayerLearner, learner).standardisation(before)
    )
    direction = torch.from_numpy(normalise_rows(update))

    def measure(target: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        values = []
        for u, guess in zip(direction[target], z, strict=True):
            place_m = centre + scale * (guess[:, None] + _CROSS).view(-1, 2).numpy()
            gradient = torch.from_numpy(learner.form_place_gradients(before, model, place_m))
            values.append(1.0 - functional.cosine_similarity(gradient, u, dim=1).abs())
        value = torch.stack(values).view(*z.shape[:2], 5)
        slope = (value[..., 1:3] - value[..., 3:]) / (2 * _STEP)
        return value[..., 0].nan_to_num(torch.inf), slope  # no step is taken along NaN

    return measure


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


class PlaceGradients:
    """v(x) = dF/dw / |dF/dw| of places z (G, 2) under weights (d,), never formed (see above)."""

    def __init__(self, net: Mlp, weights: FloatArray, waves: FloatArray, z: FloatArray) -> None:
        flat = torch.from_numpy(weights).float()[None]
        place = torch.from_numpy(z).float()
        angle = place @ torch.from_numpy(waves).float()
        inputs = torch.cat([place, angle.cos(), angle.sin()], dim=-1)[None]
        out, self._activations, slopes = net.forward(flat, inputs)
        self._net = net
        self._deltas = net.compute_deltas(flat, slopes, torch.ones_like(out))
        self._size = net.compute_squared_norms(self._activations, self._deltas)[0].sqrt()

    def measure_update(self, update: FloatArray) -> AnyFloats:
        """(|a^T D|^2 d / (|a| |u|)^2 - n) / sqrt(2 n), with a(x) = [z(x); 1] and D = [U_1; v_1] of
        the first layer with n units, and v(x) . u / |u|, of an update u (d,): (2, G).
        """
        u = torch.from_numpy(update / abs(update).max())
        layers = self._net.unpack((u / u.norm()).float()[None])
        parts = [a @ w + b for (w, b), a in zip(layers, self._activations, strict=True)]
        n = parts[0].shape[2]
        squares = [(side**2).sum(dim=-1) for side in (parts[0], self._activations[0])]
        excess = (len(u) * squares[0] / (squares[1] + 1.0) - n) / (2 * n) ** 0.5
        products = [(part * d).sum(dim=-1) for part, d in zip(parts, self._deltas, strict=True)]
        measured = torch.cat([excess, torch.stack(products).sum(dim=0) / self._size])
        # a gradient of a network that has diverged is none
        return cast(AnyFloats, measured.nan_to_num(0.0, 0.0, 0.0).numpy())
