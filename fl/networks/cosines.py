r"""Cosines between updates and gradients of a network's output at guessed places.

Of a fully connected network, with activations a_l, deltas D_l and an update of layers (U_l, v_l)
and length 1 (see `fl.networks.mlp`),

    cos = <dF/dw, u> / |dF/dw|,    <dF/dw, u> = sum_l (a_{l-1} U_l + v_l) . D_l,
    |dF/dw|^2 = sum_l |D_l|^2 (|a_{l-1}|^2 + 1),

so no gradient of a guess is formed, and autograd keeps activations only. Of any other module
gradients are formed, a few at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from fl.networks.mlp import Mlp
from netsim.units import AnyFloats, FloatArray

Output = Callable[[Tensor, Tensor], Tensor]
"""F () of weights (d,) at a standardised position (2,)"""

_NUMBERS = 2_000_000  # of gradients that are formed at once: 16 MB, and a few times that for slopes
_NO_WAVES = torch.zeros(2, 0, dtype=torch.float64)


class GradientDistance(ABC):
    """1 - |cos(dF/dw(z), u)| of guesses z about updates u of one network."""

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

    @abstractmethod
    def _compute_cosine(self, target: Tensor, z: Tensor) -> Tensor:
        """cos (k, q), which autograd can follow to the guesses z (k, q, 2)."""


def normalise_updates(update: Tensor) -> Tensor:
    """Updates (n, d) of length 1."""
    # so that squares neither overflow nor vanish
    scaled = update / update.abs().amax(dim=1, keepdim=True)
    return scaled / scaled.norm(dim=1, keepdim=True)


@dataclass(frozen=True)
class CosineDistance(GradientDistance):
    """The distance of a fully connected network.

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
        return cls(net, weights, normalise_updates(update), waves)

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


@dataclass(frozen=True)
class ModuleDistance(GradientDistance):
    """The distance of any module.

    output: F of a position; weights (d,): before the round; direction (n, d): updates of length 1.
    """

    output: Output
    weights: Tensor
    direction: Tensor

    def __call__(self, target: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        size = max(1, _NUMBERS // (len(self.weights) * z.shape[1]))
        blocks = zip(torch.split(target, size), torch.split(z, size), strict=True)
        ask = super().__call__
        values, slopes = zip(*[ask(*block) for block in blocks], strict=True)
        return torch.cat(values), torch.cat(slopes)

    def _compute_cosine(self, target: Tensor, z: Tensor) -> Tensor:
        k, q, _ = z.shape
        gradient = form_gradients(self.output, self.weights, z.view(k * q, 2)).view(k, q, -1)
        product = torch.einsum("kqd,kd->kq", gradient, self.direction[target])
        return product / gradient.norm(dim=-1)


def form_gradients(output: Output, weights: Tensor, z: Tensor) -> Tensor:
    """dF/dw (G, d) at positions z (G, 2)."""
    return torch.func.vmap(torch.func.grad(output), in_dims=(None, 0))(weights, z)


def compute_cosines(output: Output, weights: Tensor, update: Tensor, z: Tensor) -> Tensor:
    """Cosine (n, G) of updates (n, d), none of zeros, and dF/dw at positions z (G, 2); 0 where it
    is not finite.
    """
    direction = normalise_updates(update)
    cosines = []
    for block in torch.split(z, max(1, _NUMBERS // len(weights))):
        gradient = form_gradients(output, weights, block)
        cosines.append(direction @ gradient.T / gradient.norm(dim=1))
    return torch.cat(cosines, dim=1).nan_to_num(0.0, 0.0, 0.0)


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
        product = torch.stack(products).sum(dim=0) / self._size
        measured = torch.cat([excess, product])
        # a gradient of a network that has diverged is none
        return cast(AnyFloats, measured.nan_to_num(0.0, 0.0, 0.0).numpy())
