"""The peers of gradient inversion: they compute what we do, and we are faster by far."""

import pytest
import torch

from benchmarks import inversion
from benchmarks.inversion_peers import Loop, Stacked
from fl.attacks.gradient_matching import CosineDistance
from fl.networks.mlp import Mlp


def problem(sizes, activation, n=5):
    torch.manual_seed(3)
    net = Mlp(sizes, activation)
    weights, update = (torch.randn(k, net.n_parameters, dtype=torch.float64) for k in (1, n))
    distance = CosineDistance.to(update, net, weights)
    return net, weights[0], update, distance, torch.randn(n, inversion.STARTS, 2, dtype=torch.float64)


@pytest.mark.parametrize("activation", ["elu", "tanh", "sigmoid", "relu"])
@pytest.mark.parametrize("hidden", [(6,), (7, 4)])
def test_the_peers_have_our_objective_and_slope(activation, hidden):
    net, weights, update, distance, z = problem((2, *hidden, 1), activation)
    value, slope = distance(torch.arange(5), z)
    loop = Loop(net, weights, update)
    for target in range(5):
        leaf = z[target, 1].clone().requires_grad_()
        torch.testing.assert_close(loop.ask(target, leaf).detach(), value[target, 1], rtol=0, atol=1e-13)
        torch.testing.assert_close(leaf.grad, slope[target, 1], rtol=1e-11, atol=1e-13)
    for together in (1, 2, 10):
        theirs = Stacked(net, weights, update, together).ask(z)
        torch.testing.assert_close(theirs[0], value, rtol=0, atol=1e-13)
        torch.testing.assert_close(theirs[1], slope, rtol=1e-11, atol=1e-13)
