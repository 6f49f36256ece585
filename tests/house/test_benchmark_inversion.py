"""The peers of gradient inversion: they compute what we do, and we are faster by far."""

import pytest
import torch

from benchmarks import inversion
from benchmarks.inversion_peers import Loop, Stacked
from fl.attacks.gradient_matching import CosineDistance, bfgs
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


def test_the_loop_finds_the_minimum_that_we_find():
    net, weights, _, _, z = problem((2, 16, 1), "tanh")
    where = torch.tensor([[0.3, -0.4]], dtype=torch.float64)
    out, activations, slopes = net.forward(weights[None], where[None])
    update = net.gradient(activations, net.deltas(weights[None], slopes, torch.ones_like(out)))  # of one sample
    ours = bfgs(CosineDistance.to(update, net, weights[None]), z[:1], inversion.ITERATIONS).value.min()
    found = [Loop(net, weights, update).search(0, start, inversion.ITERATIONS) for start in z[0]]
    assert ours == pytest.approx(0.0, abs=1e-9) and min(least for least, _ in found) == pytest.approx(0.0, abs=1e-9)
    assert all(asked >= 2 for _, asked in found)
