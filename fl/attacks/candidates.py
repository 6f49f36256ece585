r"""Places of a grid whose gradients explain an update, by linear least squares.

The gradient of an output, f(z) = dF/dw, is never formed: with activations a_l and deltas D_l (see `fl.networks.mlp`),

    <f(z), f(z')> = sum_l (a_{l-1} . a'_{l-1} + 1) (D_l . D'_l).
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from fl.networks.mlp import Mlp

_ALIKE = 1e-6  # squared sine between gradients that are not told apart
_RIDGE = 1e-9  # of least squares, as a share of the largest squared gradient


def inputs(z: Tensor, waves: Tensor) -> Tensor:
    """[z, cos a, sin a] (..., p, 2 + 2 J) of places z (..., p, 2) and waves (..., 2, J)."""
    a = z @ waves
    return torch.cat([z, a.cos(), a.sin()], dim=-1)


def products(a: list[Tensor], d: list[Tensor], b: list[Tensor], e: list[Tensor]) -> Tensor:
    """Inner products (k, B, C) of gradients with activations a and deltas d (k, B, ...) with those of b and e."""
    layers = zip(a, d, b, e, strict=True)
    return torch.stack([(a_l @ b_l.mT + 1.0) * (d_l @ e_l.mT) for a_l, d_l, b_l, e_l in layers]).sum(dim=0)


def solved(gram: Tensor, inner: Tensor) -> Tensor:
    """Coefficients q (..., p) of least squares from Gram matrices (..., p, p) and inner products (..., p).

    Not finite where these are not.
    """
    p = gram.shape[-1]
    ridge = _RIDGE * gram.diagonal(dim1=-2, dim2=-1).amax(dim=-1).clamp(min=1e-300)
    ridged = gram + ridge[..., None, None] * torch.eye(p, dtype=gram.dtype)
    return cast(Tensor, torch.linalg.solve_ex(ridged, inner)[0])  # no error where something is not finite


class Candidates:
    """Places of a grid, z (G, 2), and the cosines (G, G) between their gradients f(z) = dF/dw of one network.

    weights (d,), waves (2, J). The gradients themselves are never formed (see `fl.networks.mlp`).
    """

    def __init__(self, net: Mlp, weights: Tensor, waves: Tensor, z: Tensor) -> None:
        self._net, self._weights, self._waves, self._z = net, weights[None], waves, z
        self._activations, self._deltas = self._gradients(z)
        gram = products(self._activations, self._deltas, self._activations, self._deltas)[0]
        self._size = gram.diag().sqrt()  # 1 or more: the last bias has the derivative 1
        self._cosine = gram.div_(self._size).div_(self._size[:, None])
        self._upper = torch.ones_like(gram, dtype=torch.bool).triu()  # the other order of the same pair

    def best(self, update: Tensor, places: int, starts: int, apart: float) -> Tensor:
        """z (starts, places, 2): sets of places that explain an update (d,) best, by linear least squares.

        All single places, or all pairs, are compared; a third place is added to each pair. Places of a set are at least
        `apart` from each other, and so are two sets in one place or more, as long as there are such.
        """
        part = self._part(_scaled(update))
        near = torch.cdist(self._z, self._z) < apart
        score = part**2 if places == 1 else self._pairs(part).masked_fill_(near, -torch.inf)
        sets = []
        for _ in range(starts):
            chosen = [int(i) for i in torch.unravel_index(score.argmax(), score.shape)]
            taken = near[chosen[0]] if places == 1 else near[chosen[0]][:, None] & near[chosen[1]]
            score.masked_fill_(taken if places == 1 else taken | taken.T, -torch.inf)
            sets.append(self._z[chosen])
        if places < 3:
            return torch.stack(sets)
        return torch.stack([torch.cat([pair, self.added(update, pair, 1, apart)]) for pair in sets])

    def added(self, update: Tensor, kept: Tensor, starts: int, apart: float) -> Tensor:
        """z (starts, 2): the places that explain most of what kept places (j, 2) leave of an update (d,)."""
        update = _scaled(update)
        activations, deltas = self._gradients(kept)
        between = products(activations, deltas, activations, deltas)[0]
        inner = self._net.inner(update[None], activations, deltas)[0]
        known = products(self._activations, self._deltas, activations, deltas)[0] / self._size[:, None]
        left = self._part(update) - known @ solved(between, inner)
        rest = 1.0 - (known * solved(between.expand(len(known), -1, -1), known)).sum(dim=1)
        gain = torch.where(rest < _ALIKE, -torch.inf, left**2 / rest.clamp(min=_ALIKE))
        gain.masked_fill_((torch.cdist(self._z, kept) < apart).any(dim=1), -torch.inf)
        chosen = []
        for _ in range(starts):
            chosen.append(int(gain.argmax()))
            gain.masked_fill_((self._z - self._z[chosen[-1]]).norm(dim=1) < apart, -torch.inf)
        return self._z[chosen]

    def _gradients(self, z: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Activations and deltas (1, B, ...) of places (B, 2)."""
        out, activations, slopes = self._net.forward(self._weights, inputs(z, self._waves)[None])
        return activations, self._net.deltas(self._weights, slopes, torch.ones_like(out))

    def _part(self, update: Tensor) -> Tensor:
        """<f / |f|, u> (G,)."""
        return self._net.inner(update[None], self._activations, self._deltas)[0] / self._size

    def _pairs(self, part: Tensor) -> Tensor:
        """What each pair explains of an update, as a squared norm (G, G), the lower triangle only."""
        rest = 1.0 - self._cosine**2
        squares, product = part**2, part[:, None] * part
        both = (squares[:, None] + squares - 2.0 * self._cosine * product) / rest.clamp(min=_ALIKE)
        return both.masked_fill_((rest < _ALIKE) | self._upper, -torch.inf)


def _scaled(update: Tensor) -> Tensor:
    """An update (d,) over its largest number, so that squares neither overflow nor vanish."""
    return update / update.abs().max()
