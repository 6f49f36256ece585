"""Gradients of a network at places, of unit length: their products with updates and with each other."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from fl.attacks.subspace import AnyFloats
from fl.networks.mlp import Mlp
from netsim.units import FloatArray, IntArray


class PlaceGradients:
    """v(x) = dF/dw / |dF/dw| of places z (G, 2) under weights (d,), never formed.

    With activations a_l and deltas D_l (see `fl.networks.mlp`),

        <dF/dw(x), dF/dw(x')> = sum_l (a_{l-1} . a'_{l-1} + 1) (D_l . D'_l).
    """

    def __init__(self, net: Mlp, weights: FloatArray, waves: FloatArray, z: FloatArray) -> None:
        single = [torch.from_numpy(array).float() for array in (weights, waves, z)]
        flat, angle = single[0][None], single[2] @ single[1]
        at = torch.cat([single[2], angle.cos(), angle.sin()], dim=-1)[None]
        out, self._activations, slopes = net.forward(flat, at)
        self._net, self._deltas = net, net.deltas(flat, slopes, torch.ones_like(out))
        squares = zip(self._activations, self._deltas, strict=True)
        self._size = torch.stack([(d * d).sum(-1)[0] * (1 + (a * a).sum(-1)[0]) for a, d in squares]).sum(0).sqrt()

    def part(self, update: FloatArray) -> AnyFloats:
        """v(x) . u / |u| (G,) of an update u (d,)."""
        u = torch.from_numpy(update / abs(update).max())
        inner = self._net.inner((u / u.norm()).float()[None], self._activations, self._deltas)[0]
        return self._finite(inner / self._size)

    def cosine(self, place: IntArray) -> AnyFloats:
        """v(p) . v(x) (m, G) of places p (m,)."""
        a, d = ([value[:, place] for value in values] for values in (self._activations, self._deltas))
        layers = zip(a, d, self._activations, self._deltas, strict=True)
        products = torch.stack([(a_l @ b_l.mT + 1.0) * (d_l @ e_l.mT) for a_l, d_l, b_l, e_l in layers]).sum(dim=0)
        found = products[0] / self._size / self._size[place][:, None]
        return self._finite(found)

    @staticmethod
    def _finite(found: Tensor) -> AnyFloats:
        """0 where a gradient of a network that has diverged is none."""
        return cast(AnyFloats, found.nan_to_num(0.0, 0.0, 0.0).numpy())
