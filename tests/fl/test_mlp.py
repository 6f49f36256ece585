"""The hand-written gradients of stacked networks against autograd on a plainly written network."""

from itertools import pairwise

import numpy as np
import torch
from numpy.random import default_rng
from numpy.testing import assert_allclose
from pytest import mark
from torch import from_numpy
from torch.autograd import grad
from torch.testing import assert_close

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
    start = 0
    a = z
    for layer, (n_in, n_out) in enumerate(pairwise(sizes)):
        end = start + n_in * n_out
        a = a @ flat[start:end].reshape(n_in, n_out) + flat[end : end + n_out]
        start = end + n_out
        if layer < len(sizes) - 2:
            a = PLAIN[activation](a)
    assert start == len(flat)
    return a[:, 0]


def draw_networks(sizes, k=3, batch=6):
    """Rows of parameters (k, d) and inputs (k, batch, p)."""
    torch.manual_seed(0)
    w = torch.randn(k, Mlp(sizes, "elu").n_parameters, dtype=torch.float64)
    return w, torch.randn(k, batch, sizes[0], dtype=torch.float64)


def stack_plain(sizes, activation, w, z):
    return torch.stack([plain(sizes, activation, a, b) for a, b in zip(w, z, strict=True)])


def sample_gradients(sizes, activation, w, z):
    """dF/dw of each sample, one at a time: (k, B, d)."""
    gradients = torch.zeros(*z.shape[:2], w.shape[1], dtype=w.dtype)
    for i, j in np.ndindex(*z.shape[:2]):
        leaf = w[i].clone().requires_grad_(True)
        out = plain(sizes, activation, leaf, z[i, [j]])
        (gradients[i, j],) = grad(out.sum(), leaf)
    return gradients


def ones_like_outputs(net, w, z):
    out, activations, slopes = net.forward(w, z)
    return activations, net.compute_deltas(w, slopes, torch.ones_like(out))


@mark.parametrize("activation", ACTIVATIONS)
@mark.parametrize("sizes", SHAPES)
class TestAgainstAutograd:
    def test_forward(self, sizes, activation):
        w, z = draw_networks(sizes)
        out, _, _ = Mlp(sizes, activation).forward(w, z)
        assert_close(out, stack_plain(sizes, activation, w, z), rtol=1e-12, atol=1e-12)

    def test_weighted_gradients_and_inner_products_with_a_direction(self, sizes, activation):
        """The gradient of sum_j c_j F(z_j), which with c = 2 (F - y) / n is that of the squared
        error."""
        w, z = draw_networks(sizes)
        net = Mlp(sizes, activation)
        c = torch.linspace(-2, 3, z.shape[1], dtype=w.dtype).expand(len(w), -1)
        _, activations, slopes = net.forward(w, z)
        weighted = net.compute_gradient(activations, net.compute_deltas(w, slopes, c))
        single = sample_gradients(sizes, activation, w, z)
        assert_close(weighted, (single * c[..., None]).sum(dim=1), rtol=1e-11, atol=1e-12)
        u = torch.randn_like(w)
        products = net.multiply_gradients(u, *ones_like_outputs(net, w, z))
        assert_close(products, (single * u[:, None]).sum(-1), rtol=1e-10, atol=1e-11)

    def test_norms_of_single_gradients(self, sizes, activation):
        """Of samples that take turns between networks: |2 (F - y) dF/dw|, and the mean of
        |dF/dw|^2."""
        w, z = draw_networks(sizes, batch=50)
        net = Mlp(sizes, activation)
        model_of = np.tile(np.arange(3), 50)
        samples = z.transpose(0, 1).flatten(0, 1).numpy()
        y = np.linspace(-2, 2, 150)
        squared = (sample_gradients(sizes, activation, w, z) ** 2).sum(-1).T.flatten().numpy()
        out = stack_plain(sizes, activation, w, z).T.flatten().numpy()
        norms = net.compute_sample_gradient_norms(w.numpy(), model_of, samples, y)
        assert_allclose(norms, 2 * np.abs(out - y) * np.sqrt(squared), rtol=1e-10)
        mean = net.compute_mean_squared_gradient(w.numpy(), model_of, samples)
        assert_allclose(mean, squared.mean(), rtol=1e-11)


@mark.parametrize("activation", ACTIVATIONS)
def test_far_away_inputs_stay_finite(activation):
    """Saturated units: values and gradients of inputs of 1e6 are finite."""
    net = Mlp((2, 8, 1), activation)
    (w, _) = draw_networks((2, 8, 1), k=1)
    z = torch.tensor([[[1e6, -1e6], [-1e6, -1e6]]], dtype=torch.float64, requires_grad=True)
    size = net.compute_squared_norms(*ones_like_outputs(net, w, z))
    (gradient,) = grad(size.sum(), z)
    assert np.isfinite(size.detach().numpy()).all()
    assert np.isfinite(gradient.numpy()).all()


@mark.parametrize("n", [1, 300])
def test_first_layer_deltas(n):
    net = Mlp((2, 20, 10, 1), "tanh")
    draw = default_rng(n)
    z = draw.normal(size=(n, 2))
    y = draw.normal(size=n)
    w = draw.normal(size=net.n_parameters)
    mean, squares = net.summarise_first_layer_deltas(w, z, y)
    flat = from_numpy(w)[None]
    out, _, slopes = net.forward(flat, from_numpy(z)[None])
    error = out - from_numpy(y)[None]
    deltas = net.compute_deltas(flat, slopes, 2.0 * error)[0][0].numpy()
    assert_allclose(mean, deltas.mean(axis=0), rtol=1e-9, atol=1e-12)
    assert_allclose(squares, n * deltas.var(axis=0), rtol=1e-9, atol=1e-12)


@mark.parametrize("activation", ACTIVATIONS)
@mark.parametrize("n", [0, 30])
def test_predictions_are_those_of_the_network(activation, n):
    """Of three networks whose samples take turns, more than one block of each."""
    net = Mlp((3, 20, 10, 1), activation)
    draw = default_rng(n)
    z = draw.normal(size=(n, 3))
    w = draw.normal(size=(3, net.n_parameters))
    model_of = draw.integers(3, size=n)
    flat = from_numpy(w)
    inputs = from_numpy(z)
    expected = net.forward(flat[model_of], inputs[:, None])[0][:, 0].numpy()
    assert_allclose(net.predict(w, model_of, z), expected, rtol=1e-12, atol=1e-13)
    _, activations, _ = net.forward(flat[:1], inputs[None])
    for layer, expected in enumerate(activations, start=1):
        read = net.compute_layer_inputs(w[0], z, layer)
        assert_allclose(read[:, :-1], expected[0].numpy(), rtol=1e-12, atol=1e-13)
        assert (read[:, -1] == 1).all()
    assert (net.compute_mean_squared_gradient(w, model_of, z) > 0) == (n > 0)
