r"""The cosine between an update and the gradient of a guessed sample, and its slope in the guess.

By hand, because autograd would keep a copy of every network for every guess. With activations a_l, deltas D_l and
the direction u = (U_l, v_l) of a gradient (see `fl.networks.mlp`),

    I = <dF/dw, u> = sum_l P_l . D_l,     P_l = a_{l-1} U_l + v_l,
    N^2 = |dF/dw|^2 = sum_l |D_l|^2 (|a_{l-1}|^2 + 1),     cos = I / N,

    d cos / d D_l     = P_l / N       - (I / N^3) (|a_{l-1}|^2 + 1) D_l,
    d cos / d a_{l-1} = D_l U_l^T / N - (I / N^3) |D_l|^2 a_{l-1},

which two sweeps carry to the input: up through the recursion of the deltas (nothing to carry for relu, whose slope
is flat), then down through the layers, and through the waves of an encoding to the position. Six products of every
guess with a layer, two of them with the update (`fl.attacks.update_loops`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fl.attacks.minimise import Objective
from fl.attacks.update_loops import pull, turn
from fl.networks.mlp import Mlp
from netsim.units import FloatArray


@dataclass(frozen=True)
class Waves:
    """Inputs of networks beside a standardised position z: cos a and sin a of a = V (s z).

    per_z (n_network, 2, J) is V^T in standardised units of each network: wave vectors (J, 2) in radians per metre times
    the scale s (2,) of its positions in metres.
    """

    per_z: Tensor

    @classmethod
    def of(cls, wave_vectors: Tensor, scale_m: Tensor) -> Waves:
        """Waves of vectors (J, 2) and scales (n_network, 2)."""
        return cls(scale_m[:, :, None] * wave_vectors.T)

    def inputs(self, z: Tensor, runs: _Runs) -> Tensor:
        """[z, cos a, sin a] (m, 2 + 2 J) of positions z (m, 2)."""
        a = _product(z, self.per_z.unbind(0), runs)
        return torch.cat([z, a.cos(), a.sin()], dim=1)

    def slope(self, inputs: Tensor, by_input: Tensor, runs: _Runs) -> Tensor:
        """The derivative in z (m, 2) from that in the inputs: d cos a = - sin a da, d sin a = cos a da."""
        j = self.per_z.shape[2]
        cos, sin = inputs[:, 2 : 2 + j], inputs[:, 2 + j :]
        by_a = cos * by_input[:, 2 + j :] - sin * by_input[:, 2 : 2 + j]
        return by_input[:, :2] + _product(by_a, self.per_z.transpose(1, 2).unbind(0), runs)


def cosine_objective(
    net: Mlp, weights: Tensor, update: Tensor, network: Tensor | None = None, waves: Waves | None = None
) -> Objective:
    """1 - |cos(dF/dw(z'), u)| for guesses z' (m, 2), or 1 - cos(g, -u) for guesses (z', y') (m, 3).

    weights (n_network, d): networks before the round; update (n, d): what devices sent; network (n,): of each update
    (default: each its own row); waves: what networks read beside a position. A guess belongs to one update; guesses of
    one update stand together.
    """
    network = torch.arange(len(update)) if network is None else network
    update = update / update.abs().amax(dim=1, keepdim=True)  # so that squares neither overflow nor vanish
    direction = (-update / update.norm(dim=1, keepdim=True)).numpy()  # of the gradient
    layers = _layers(net, weights)

    def objective(problem: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        of_model = _runs(network[problem])
        inputs = x[:, :2].contiguous() if waves is None else waves.inputs(x[:, :2], of_model)
        out, activations, slopes = _forward(net, layers, of_model, inputs)
        deltas, carried = _deltas(layers, of_model, slopes, out)
        cosine, by_delta, by_activation = _cosine(direction, problem, activations, deltas)
        bent = _through_deltas(net, layers, of_model, activations, slopes, carried, by_delta)
        slope = _through_layers(layers, of_model, slopes, bent, by_activation)
        slope = slope if waves is None else waves.slope(inputs, slope, of_model)
        if x.shape[1] == 2:
            return 1.0 - cosine.abs(), -torch.sign(cosine).unsqueeze(1) * slope
        # g = 2 (F - y') dF/dw: only the sign of the residual reaches the cosine
        sign = torch.sign(out - x[:, 2])
        return 1.0 - cosine * sign, torch.cat([-sign.unsqueeze(1) * slope, torch.zeros_like(x[:, 2:])], dim=1)

    return objective


@dataclass(frozen=True)
class _Layers:
    """One layer of several networks: weights (in, out) each, their transposes, and biases (n, out)."""

    weight: tuple[Tensor, ...]
    transposed: tuple[Tensor, ...]
    bias: Tensor


@dataclass(frozen=True)
class _Runs:
    """Stretches of guesses that share a network: of each the network and its length."""

    network: list[int]
    length: list[int]


def _layers(net: Mlp, flat: Tensor) -> list[_Layers]:
    return [_Layers(w.unbind(0), w.transpose(1, 2).unbind(0), b.squeeze(1)) for w, b in net.unpack(flat)]


def _runs(index: Tensor) -> _Runs:
    network, length = torch.unique_consecutive(index, return_counts=True)
    return _Runs(network.tolist(), length.tolist())


def _product(x: Tensor, matrices: tuple[Tensor, ...], runs: _Runs, bias: Tensor | None = None) -> Tensor:
    """Every row of x (m, a) times the matrix (a, b) of its own network, plus that network's bias (b,): (m, b)."""
    out = x.new_empty(len(x), matrices[0].shape[1])
    for k, part, to in zip(
        runs.network, x.split_with_sizes(runs.length), out.split_with_sizes(runs.length), strict=True
    ):
        if bias is None:
            torch.mm(part, matrices[k], out=to)
        else:
            torch.addmm(bias[k], part, matrices[k], out=to)
    return out


def _forward(net: Mlp, layers: list[_Layers], runs: _Runs, z: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """F (m,), activations [z, a_1, ...] and slopes of the hidden layers."""
    activations, slopes = [z], []
    for layer in layers[:-1]:
        after, slope = net.activate(_product(activations[-1], layer.weight, runs, layer.bias))
        activations.append(after)
        slopes.append(slope)
    out = _product(activations[-1], layers[-1].weight, runs, layers[-1].bias)
    return out.squeeze(1), activations, slopes


def _deltas(layers: list[_Layers], runs: _Runs, slopes: list[Tensor], out: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """D_1 ... D_L, and what reached each hidden layer before its slope: D_l = carried_l * slope_l."""
    deltas, carried = [torch.ones_like(out).unsqueeze(1)], []
    for layer, slope in zip(reversed(layers[1:]), reversed(slopes), strict=True):
        carried.append(_product(deltas[-1], layer.transposed, runs))
        deltas.append(carried[-1] * slope)
    return deltas[::-1], carried[::-1]


def _cosine(
    direction: FloatArray, problem: Tensor, activations: list[Tensor], deltas: list[Tensor]
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """The cosine (m,), and its derivatives in every delta and in every activation (the input first)."""
    inner, norm2 = (torch.zeros(len(problem), dtype=deltas[0].dtype) for _ in range(2))
    by_delta, by_activation = [torch.empty_like(d) for d in deltas], [torch.empty_like(a) for a in activations]
    tensors = zip(activations, deltas, by_activation, by_delta, strict=True)
    layers = [[t.numpy() for t in layer] for layer in tensors]
    of, i, n2, at = problem.numpy(), inner.numpy(), norm2.numpy(), 0
    for a, d, q, p in layers:
        pull(direction, at, of, a, d, q, p, i, n2)
        at += (a.shape[1] + 1) * d.shape[1]
    for a, d, q, p in layers:
        turn(a, d, q, p, i, n2)
    return inner * norm2.rsqrt(), by_delta, by_activation


def _through_deltas(
    net: Mlp,
    layers: list[_Layers],
    runs: _Runs,
    activations: list[Tensor],
    slopes: list[Tensor],
    carried: list[Tensor],
    by_delta: list[Tensor],
) -> list[Tensor | None]:
    """Gradient from the deltas' derivatives at each hidden layer's sum before activation."""
    deltas: list[Tensor | None] = []
    above = by_delta[0]
    for h, slope in enumerate(slopes):
        bend = net.bend(activations[h + 1], slope)
        if bend is None:
            return [None] * len(slopes)
        deltas.append(bend.mul_(above).mul_(carried[h]))
        if h + 1 < len(slopes):
            above = _product(above * slope, layers[h + 1].weight, runs).add_(by_delta[h + 1])
    return deltas


def _through_layers(
    layers: list[_Layers], runs: _Runs, slopes: list[Tensor], bent: list[Tensor | None], by_activation: list[Tensor]
) -> Tensor:
    """The derivative in the inputs (m, p)."""
    at = by_activation[-1]
    for h in reversed(range(len(slopes))):
        before, bend = at * slopes[h], bent[h]
        if bend is not None:
            before += bend
        at = _product(before, layers[h].transposed, runs).add_(by_activation[h])
    return at
