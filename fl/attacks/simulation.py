r"""Local training repeated on a few guessed places, differentiable in them, and fits to an observed update.

A guess is p places z_j in standardised units, p logits of shares c = softmax(logits), and p residuals r_j in units of
labels at the weights before the round: y_j = F(z_j; w_0) + s r_j with s the scale of labels. The simulated device takes

    w_{t+1} = w_t - learning_rate v_{t+1},  v_{t+1} = momentum v_t + grad l(w_t) + proximal (w_t - w_0),
    l(w) = sum_j c_j (F(z_j; w) - y_j)^2,

from w_0 and v_0 = 0; with Polyak's limit grad l is multiplied by min(1, 3 l / (learning_rate |grad l|^2)). Records at
one place with different labels are no more general: their gradients add up to that of their mean label, at any weights.

At w_0 the loss has the gradient -2 s sum_j c_j r_j f(z_j) with f = dF/dw, so the first step tells only the products c_j
r_j, and linear least squares finds them for given places. See `fl.attacks.candidates` for where that is done first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from fl.attacks.candidates import inputs, products, solved
from fl.attacks.minimise import Objective
from fl.networks.mlp import Mlp
from fl.networks.sgd_regression import POLYAK

Distance = Literal["squared", "cosine"]

_NUMBERS = 20_000_000  # parameters x steps x guesses that are simulated at once: bounds the memory
_LEAST_SHARE = 0.05  # of a place at a start, so that no place is given up before the search
_MOST_RESIDUAL = 50.0  # of a start, in scales of labels


@dataclass(frozen=True)
class KnownTraining:
    """What is known of local training: learning rate, momentum, weight of the proximal term, scale of labels, and
    whether Polyak's limit shortens steps.
    """

    learning_rate: float
    momentum: float
    proximal: float
    label_scale: float
    polyak: bool = False

    def reach(self, steps: Tensor) -> Tensor:
        """How many gradients, all alike, an update of so many steps (n,) holds: steps, without momentum."""
        t = torch.arange(1, int(steps.max()) + 1, dtype=torch.float64)
        velocity = t if self.momentum == 0 else (1.0 - self.momentum**t) / (1.0 - self.momentum)
        total = t if self.momentum == 0 else velocity.cumsum(0)
        return total[steps - 1]


@dataclass(frozen=True)
class Devices:
    """What attacked devices sent and started from.

    net: shape of the networks; weights (n_network, d) before the round; waves (n_network, 2, J): what the networks read
    beside z, in standardised units (see `fl.attacks.gradient_matching.Waves`); network (n,) of each device; update
    (n, d); steps (n,) of local training.
    """

    net: Mlp
    weights: Tensor
    waves: Tensor
    network: Tensor
    update: Tensor
    steps: Tensor

    @property
    def before(self) -> Tensor:
        """Weights (n, d) that each device started from."""
        return self.weights[self.network]

    @property
    def halfway(self) -> Tensor:
        """Weights (n, d) in the middle of each device's training; those before the only step of one."""
        return self.before + 0.5 * self.update * (self.steps > 1)[:, None]

    def only(self, rows: Tensor) -> Devices:
        """Some of them."""
        return replace(self, network=self.network[rows], update=self.update[rows], steps=self.steps[rows])


def simulated(
    net: Mlp, before: Tensor, x: Tensor, share: Tensor, label: Tensor, steps: Tensor, how: KnownTraining
) -> Tensor:
    """Updates (m, d) of devices that train from before (m, d) for steps (m,) on inputs x (m, p, inputs).

    share, label (m, p): of each place. Differentiable in all of them; nothing is changed in place.
    """
    w, velocity = before, torch.zeros_like(before)
    for t in range(int(steps.max())):
        out, activations, slopes = net.forward(w, x)
        deltas = net.deltas(w, slopes, 2.0 * share * (out - label))
        gradient = net.gradient(activations, deltas)
        if how.proximal:
            gradient = gradient + how.proximal * (w - before)
        if how.polyak:
            loss, squared = (share * (out - label) ** 2).sum(dim=1), (gradient**2).sum(dim=1)
            limit = POLYAK * loss / (how.learning_rate * squared.clamp_min(1e-300))
            gradient = gradient * limit.clamp_max(1.0)[:, None]
        velocity = gradient if how.momentum == 0 else how.momentum * velocity + gradient
        rate = how.learning_rate * (steps > t).to(w.dtype)
        w = w - rate[:, None] * velocity
    return w - before


def unpacked(guess: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Places z (m, p, 2), shares (m, p) and residuals (m, p) of guesses (m, 4 p)."""
    p = guess.shape[1] // 4
    return guess[:, : 2 * p].reshape(-1, p, 2), torch.softmax(guess[:, 2 * p : 3 * p], dim=1), guess[:, 3 * p :]


def simulation_objective(devices: Devices, how: KnownTraining, distance: Distance) -> Objective:
    """|u' - u|^2 / |u|^2, or 1 - cos(u', u), between simulated u' and observed u, of guesses (m, 4 p)."""
    largest = devices.update.abs().amax(dim=1, keepdim=True)  # so that squares neither overflow nor vanish
    scaled = devices.update / largest
    length = scaled.norm(dim=1, keepdim=True)
    direction, size = scaled / length, largest * length

    def some(of: Tensor, guess: Tensor) -> tuple[Tensor, Tensor]:
        guess = guess.detach().requires_grad_()
        z, share, residual = unpacked(guess)
        network = devices.network[of]
        before, x = devices.weights[network], inputs(z, devices.waves[network])
        label = devices.net.forward(before, x)[0] + how.label_scale * residual
        made = simulated(devices.net, before, x, share, label, devices.steps[of], how)
        if distance == "squared":
            value = ((made / size[of] - direction[of]) ** 2).sum(dim=1)
        else:
            value = 1.0 - torch.nn.functional.cosine_similarity(made, direction[of], dim=1, eps=1e-300)
        (slope,) = torch.autograd.grad(value.sum(), guess)
        return value.detach(), slope

    def objective(of: Tensor, guess: Tensor) -> tuple[Tensor, Tensor]:
        many = max(1, _NUMBERS // (devices.weights.shape[1] * int(devices.steps[of].max())))
        pieces = [some(of[i : i + many], guess[i : i + many]) for i in range(0, len(of), many)]
        values, slopes = zip(*pieces, strict=True)
        return torch.cat(values), torch.cat(slopes)

    return objective


def guesses_at(z: Tensor, devices: Devices, weights: Tensor, how: KnownTraining) -> Tensor:
    """Guesses (n, q, 4 p) at places z (n, q, p, 2): shares and residuals as if all gradients were those at weights
    (n, d).

    Of the products c_j r_j, the shares get the sizes, and the residuals the signs and one size.
    """
    n, q, p, _ = z.shape
    of = torch.arange(n).repeat_interleave(q)
    network, update, at = devices.network[of], devices.update[of], weights[of]
    x = inputs(z.reshape(n * q, p, 2), devices.waves[network])
    out, activations, slopes = devices.net.forward(at, x)
    deltas = devices.net.deltas(at, slopes, torch.ones_like(out))
    product = solved(products(activations, deltas, activations, deltas), devices.net.inner(update, activations, deltas))
    reach = 2.0 * how.label_scale * how.learning_rate * how.reach(devices.steps)[of]
    product = (product / reach[:, None]).nan_to_num(0.0, 0.0, 0.0)
    whole = product.abs().sum(dim=1, keepdim=True).clamp(min=1e-12)
    share = (product.abs() / whole).clamp(min=_LEAST_SHARE)
    share = share / share.sum(dim=1, keepdim=True)
    moved = out - devices.net.forward(devices.weights[network], x)[0]
    residual = product / share + (moved / how.label_scale).nan_to_num(0.0, 0.0, 0.0)
    residual = residual.clamp(-_MOST_RESIDUAL, _MOST_RESIDUAL)
    return torch.cat([z.reshape(n * q, 2 * p), share.log(), residual], dim=1).reshape(n, q, 4 * p)
