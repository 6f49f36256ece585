r"""The cosine between an update and the gradient of a guessed sample, and its slope in the guess."""

from __future__ import annotations

import torch
from torch import Tensor

from fl.minimise import Objective
from fl.mlp import Mlp


def cosine_objective(net: Mlp, weights: Tensor, update: Tensor) -> Objective:
    """1 - |cos(dF/dw(z'), u)| for guesses z' (k, q, 2), or 1 - cos(g, -u) for guesses (z', y') (k, q, 3).

    weights, update (n, d): the networks before the round and what the devices sent. Gradients come from
    autograd through the delta recursion: one forward and one backward pass for all guesses.
    """
    update = update / update.abs().amax(dim=1, keepdim=True)  # so that squares neither overflow nor vanish
    target = -update / update.norm(dim=1, keepdim=True)  # the direction of the gradient

    def objective(group: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        x = x.detach().requires_grad_(True)
        w, u = weights[group], target[group]
        out, activations, slopes = net.forward(w, x[..., :2])
        deltas = net.deltas(w, slopes, torch.ones_like(out))
        size = net.squared_norm(activations, deltas).sqrt()
        cosine = net.inner(u, activations, deltas) / size
        if x.shape[-1] == 2:
            value = 1.0 - cosine.abs()
        else:
            # g = 2 (F - y') dF/dw: only the sign of the residual reaches the cosine
            value = 1.0 - cosine * torch.sign((out - x[..., 2]).detach())
        (gradient,) = torch.autograd.grad(value.sum(), x)
        return value.detach(), gradient

    return objective
