"""The hand-written gradients of stacked networks against autograd on a plainly written network."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from fl.networks.mlp import Mlp

ACTIVATIONS = ("elu", "tanh", "sigmoid", "relu")
SHAPES = ((2, 1), (2, 4, 3, 5, 1))
PLAIN = {
    "elu": lambda s: torch.where(s > 0, s, torch.exp(s) - 1),
    "tanh": lambda s: (torch.exp(s) - torch.exp(-s)) / (torch.exp(s) + torch.exp(-s)),
    "sigmoid": lambda s: 1 / (1 + torch.exp(-s)),
    "relu": lambda s: s * (s > 0),
}


def plain(sizes, activation, flat, z):
    """F (B,) of one network, written as in a textbook; flat (d,), z (B, p)."""
    at = 0
    a = z
    for layer, (n_in, n_out) in enumerate(pairwise(sizes)):
        weight = flat[at : at + n_in * n_out].reshape(n_in, n_out)
        at += n_in * n_out
        bias = flat[at : at + n_out]
        at += n_out
        a = a @ weight + bias
        if layer < len(sizes) - 2:
            a = PLAIN[activation](a)
    assert at == len(flat)
    return a[:, 0]


def some(sizes, k=3, batch=6):
    """Rows of parameters (k, d) and inputs (k, batch, p)."""
    torch.manual_seed(0)
    w = torch.randn(k, Mlp(sizes, "elu").n_parameters, dtype=torch.float64)
    return w, torch.randn(k, batch, sizes[0], dtype=torch.float64)


def sample_gradients(sizes, activation, w, z):
    """dF/dw of each sample, one at a time: (k, B, d)."""
    found = torch.zeros(*z.shape[:2], w.shape[1], dtype=w.dtype)
    for i in range(len(w)):
        for j in range(z.shape[1]):
            leaf = w[i].clone().requires_grad_(True)
            out = plain(sizes, activation, leaf, z[i, j : j + 1])
            (found[i, j],) = torch.autograd.grad(out.sum(), leaf)
    return found


def ones_like_outputs(net, w, z):
    out, activations, slopes = net.forward(w, z)
    return activations, net.deltas(w, slopes, torch.ones_like(out))


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("sizes", SHAPES)
class TestAgainstAutograd:
    def test_forward(self, sizes, activation):
        w, z = some(sizes)
        out, _, _ = Mlp(sizes, activation).forward(w, z)
        expected = torch.stack([plain(sizes, activation, a, b) for a, b in zip(w, z, strict=True)])
        torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)

    def test_weighted_gradients_and_inner_products_with_a_direction(self, sizes, activation):
        """The gradient of sum_j c_j F(z_j), which with c = 2 (F - y) / n is that of the squared
        error."""
        w, z = some(sizes)
        net = Mlp(sizes, activation)
        c = torch.linspace(-2, 3, z.shape[1], dtype=w.dtype).expand(len(w), -1)
        _, activations, slopes = net.forward(w, z)
        found = net.gradient(activations, net.deltas(w, slopes, c))
        each = sample_gradients(sizes, activation, w, z)
        u = torch.randn_like(w)
        torch.testing.assert_close(
            found, (each * c.unsqueeze(-1)).sum(dim=1), rtol=1e-11, atol=1e-12
        )
        found = net.inner(u, *ones_like_outputs(net, w, z))
        torch.testing.assert_close(found, (each * u.unsqueeze(1)).sum(-1), rtol=1e-10, atol=1e-11)

    def test_norms_of_single_gradients(self, sizes, activation):
        """Of samples that take turns between networks: |2 (F - y) dF/dw|, and the mean of
        |dF/dw|^2."""
        w, z = some(sizes, batch=50)
        net = Mlp(sizes, activation)
        of = np.tile(np.arange(3), 50)
        own = z.transpose(0, 1).flatten(0, 1).numpy()
        y = np.linspace(-2, 2, 150)
        squared = (sample_gradients(sizes, activation, w, z) ** 2).sum(-1).T.flatten().numpy()
        out = (
            torch.stack([plain(sizes, activation, a, b) for a, b in zip(w, z, strict=True)])
            .T.flatten()
            .numpy()
        )
        found = net.sample_gradient_norms(w.numpy(), of, own, y)
        np.testing.assert_allclose(found, 2 * np.abs(out - y) * np.sqrt(squared), rtol=1e-10)
        np.testing.assert_allclose(
            net.mean_squared_gradient(w.numpy(), of, own), squared.mean(), rtol=1e-11
        )


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_far_away_inputs_stay_finite(activation):
    """Saturated units: values and gradients of inputs of 1e6 are finite."""
    net = Mlp((2, 8, 1), activation)
    (w, _) = some((2, 8, 1), k=1)
    z = torch.tensor([[[1e6, -1e6], [-1e6, -1e6]]], dtype=torch.float64, requires_grad=True)
    size = net.squared_norm(*ones_like_outputs(net, w, z))
    (gradient,) = torch.autograd.grad(size.sum(), z)
    assert np.isfinite(size.detach().numpy()).all()
    assert np.isfinite(gradient.numpy()).all()


@pytest.mark.parametrize("n", [1, 300])
def test_first_layer_deltas(n):
    net = Mlp((2, 20, 10, 1), "tanh")
    draw = np.random.default_rng(n)
    z = draw.normal(size=(n, 2))
    y = draw.normal(size=n)
    w = draw.normal(size=net.n_parameters)
    mean, squares = net.first_layer_deltas(w, z, y)
    at = torch.from_numpy(w)[None]
    out, _, slopes = net.forward(at, torch.from_numpy(z)[None])
    deltas = net.deltas(at, slopes, 2.0 * (out - torch.from_numpy(y)[None]))[0][0].numpy()
    np.testing.assert_allclose(mean, deltas.mean(axis=0), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        squares, ((deltas - deltas.mean(axis=0)) ** 2).sum(axis=0), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("n", [0, 30])
def test_predictions_are_those_of_the_network(activation, n):
    """Of three networks whose samples take turns, more than one block of each."""
    net = Mlp((3, 20, 10, 1), activation)
    draw = np.random.default_rng(n)
    z = draw.normal(size=(n, 3))
    w = draw.normal(size=(3, net.n_parameters))
    of = draw.integers(3, size=n)
    expected = net.forward(torch.from_numpy(w[of]), torch.from_numpy(z)[:, None])[0][:, 0].numpy()
    np.testing.assert_allclose(net.predict(w, of, z), expected, rtol=1e-12, atol=1e-13)
    _, activations, _ = net.forward(torch.from_numpy(w[:1]), torch.from_numpy(z)[None])
    for layer in (1, 2, 3):
        read = net.layer_inputs(w[0], z, layer)
        np.testing.assert_allclose(
            read[:, :-1], activations[layer - 1][0].numpy(), rtol=1e-12, atol=1e-13
        )
        assert (read[:, -1] == 1).all()
    assert (
        net.mean_squared_gradient(w, of, z) == 0
        if n == 0
        else net.mean_squared_gradient(w, of, z) > 0
    )
