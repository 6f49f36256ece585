"""A generative adversarial network that displaces positions against an adversary that predicts the true ones."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.curation import Curation
from fl.types import Curated, Local, RoundContext, State
from netsim.columns import row_id
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

if TYPE_CHECKING:
    from torch import Tensor

_NOISE = 2  # random numbers that the generator is given with each position
_ADVERSARY_STEPS = 2  # for each of the generator
_ROWS = 512  # devices trained at once
_SMALLEST_M = 1.0  # scale of an axis along which a device did not move


class Gan(Curation):
    """Displaces every position with a generator that is trained against an adversary on the UE.

    On each UE, from its own data of the round: x' = x + G(x, noise), an adversary A predicts x from x', and

        min_G  rho E|x' - x|^2 - (1 - rho) min(E|A(x') - x|^2, cap),    min_A  E|A(x') - x|^2,

    with positions standardised by the UE's own mean and deviation (at least 1 m) of each axis. A takes two steps for
    each step of G; both have one hidden layer (tanh) and are trained with Adam. A smaller `rho` gives larger
    displacements, with a sharp transition: for a commuter about 10 m at 0.5 and 400 m at 0.4.

    There is no privacy guarantee and no spend: another adversary that knows the generator or averages may do better
    than the one used in training. The protection is weak, because displacements have all directions and the mean hardly
    changes. Only positions are displaced; labels, times and the number of samples do not change.
    """

    kind: Literal["gan"] = "gan"
    rho: float = Field(default=0.2, gt=0, lt=1)
    """weight of small displacements; 1 - rho is the weight of the adversary's error"""
    cap: float = Field(default=4.0, gt=0, le=1e6)
    """upper limit of the adversary's squared error in the loss (an adversary without information has 2)"""
    hidden: int = Field(default=32, ge=1, le=4096)
    """hidden units of each network"""
    steps: int = Field(default=500, ge=1, le=100_000)
    """training steps of the generator"""
    batch_size: int = Field(default=128, ge=1, le=65_536)
    """samples of a training step, drawn with replacement"""
    learning_rate: float = Field(default=1e-3, gt=0, le=1)
    """learning rate of Adam for the generator"""
    adversary_learning_rate: float = Field(default=3e-3, gt=0, le=1)
    """learning rate of Adam for the adversary"""

    reference: ClassVar = "Bakopoulou et al., Location Leakage in Federated Signal Maps, GAN baseline"
    example: ClassVar = {"kind": "gan", "steps": 20}
    by_place: ClassVar = True
    needs: ClassVar = {"positions": "it works on places; these data have none"}

    def apply(self, local: Local, facts: RoundContext, state: State, rng: Rng) -> Curated:
        x = local.x.copy()
        rows = np.flatnonzero(local.count)
        for at in range(0, len(rows), _ROWS):
            some = rows[at : at + _ROWS]
            pieces = [local.x[local.ptr[r] : local.ptr[r + 1]] for r in some]
            moved = self._moved(pieces, row_id(local.ue, local.model)[some], rng)
            for r, piece in zip(some, moved, strict=True):
                x[local.ptr[r] : local.ptr[r + 1]] = piece
        return Curated(replace(local, x=x), state)

    def _moved(self, pieces: list[FloatArray], owner: IntArray, rng: Rng) -> list[FloatArray]:
        """Each device's positions (count, 2), moved. Networks are stacked (k, ...) and do not touch each other."""
        import torch

        mean = [p.mean(axis=0) for p in pieces]
        scale = [np.maximum(p.std(axis=0), _SMALLEST_M) for p in pieces]
        z = [(p - m) / s for p, m, s in zip(pieces, mean, scale, strict=True)]
        count = np.array([len(p) for p in z])
        first = np.cumsum([0, *(len(p) for p in z[:-1])])
        flat = torch.from_numpy(np.concatenate(z))
        generator = _network("generator", (2 + _NOISE, self.hidden, 2), owner, rng)
        adversary = _network("adversary", (2, self.hidden, 2), owner, rng)
        improve = torch.optim.Adam(generator, self.learning_rate, fused=True)
        predict = torch.optim.Adam(adversary, self.adversary_learning_rate, fused=True)

        def batches(step: int) -> "Iterator[tuple[Tensor, Tensor]]":
            """Positions (k, batch, 2) and noise beside them, for every turn of a step."""
            turns = 1 + _ADVERSARY_STEPS
            unit = rng.uniform("batch", owner, (turns, self.batch_size), step)
            index = torch.from_numpy(first[:, None, None] + (unit * count[:, None, None]).astype(np.int64))
            noise = torch.from_numpy(rng.normal("noise", owner, (turns, self.batch_size, _NOISE), step))
            yield from ((flat[index[:, turn]], noise[:, turn]) for turn in range(turns))

        for step in range(self.steps):
            (x, noise), *others = batches(step)
            for seen, beside in others:
                with torch.no_grad():
                    shown = seen + _apply(generator, seen, beside)
                predict.zero_grad()
                torch.autograd.backward(_error(_apply(adversary, shown), seen).sum())
                predict.step()
            shown = x + _apply(generator, x, noise)
            misled = _error(_apply(adversary, shown), x).clamp(max=self.cap)
            improve.zero_grad()
            torch.autograd.backward((self.rho * _error(shown, x) - (1 - self.rho) * misled).sum())
            improve.step()
        moved = []
        for i, p in enumerate(pieces):
            noise = torch.from_numpy(rng.normal("moved", owner[i : i + 1], (len(p), _NOISE)))
            with torch.no_grad():
                shift = _apply([w[i : i + 1] for w in generator], torch.from_numpy(z[i][None]), noise)[0]
            moved.append(p + scale[i] * shift.numpy())
        return moved


def _network(what: str, sizes: tuple[int, ...], owner: IntArray, rng: Rng) -> "list[Tensor]":
    """Glorot-uniform weights and zero biases, one network an owner: [W (k, in, out), b (k, 1, out), ...]."""
    import torch

    layers = []
    for i, (a, b) in enumerate(pairwise(sizes)):
        unit = rng.uniform(what, owner, (a, b), i)
        layers.append(torch.from_numpy((2 * unit - 1) * np.sqrt(6 / (a + b))).requires_grad_())
        layers.append(torch.zeros(len(owner), 1, b, dtype=torch.float64).requires_grad_())
    return layers


def _apply(network: "list[Tensor]", x: "Tensor", noise: "Tensor | None" = None) -> "Tensor":
    """The networks' outputs (k, B, 2) for inputs x (k, B, 2), with noise beside them."""
    import torch

    if noise is not None:
        x = torch.cat([x, noise], dim=2)
    w1, b1, w2, b2 = network
    return torch.baddbmm(b2, torch.tanh(torch.baddbmm(b1, x, w1)), w2)


def _error(guess: "Tensor", truth: "Tensor") -> "Tensor":
    """Mean squared distance of each device (k,)."""
    return ((guess - truth) ** 2).sum(dim=2).mean(dim=1)
