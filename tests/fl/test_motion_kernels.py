"""Compiled and factored forms of motion and beliefs, against their definitions with whole matrices."""

import numpy as np
import pytest
from scipy.special import ndtr

from fl.tracking.distance_loops import block_side, distances_to, gather, median
from fl.tracking.maps import add_products, bilinear, inner, multiply, scale_to, unfolded, weighed
from fl.tracking.narrow import Narrow, NarrowAxis
from fl.tracking.wide import Axis, Halves, Wide


def gaussian(n, cell_m, sigma_m):
    """Probability (n, n) of coming from one cell into another: what would leave ends inside."""
    low = (np.arange(n) - 0.5 - np.arange(n)[:, None]) * cell_m / sigma_m
    mass = ndtr(low + cell_m / sigma_m) - ndtr(low)
    return mass / mass.sum(axis=1, keepdims=True)


def maps(*shape, seed=0):
    return np.random.default_rng(seed).random(shape, dtype=np.float32)


@pytest.mark.parametrize("shape", [(23, 40), (1, 7), (9, 1), (1, 1)])
@pytest.mark.parametrize("sigma_m", [30.0, 130.0, 220.0])
def test_a_narrow_gaussian_is_its_matrices_and_has_an_adjoint(shape, sigma_m):
    (ny, nx), weight = shape, np.array([0.7, 0.0, 2.0], dtype=np.float32)
    kernel = Narrow(NarrowAxis.of(ny, 80.0, sigma_m), NarrowAxis.of(nx, 100.0, sigma_m))
    y, x = gaussian(ny, 80.0, sigma_m), gaussian(nx, 100.0, sigma_m)
    p, v, before = maps(3, ny, nx), maps(3, ny, nx, seed=1), maps(3, ny, nx, seed=2)
    out = before.copy()
    kernel.add(out, p, weight)
    assert out - before == pytest.approx(weight[:, None, None] * (y.T @ p @ x), abs=3e-6)
    back, one, ones = before.copy(), np.ones(3, dtype=np.float32), np.ones_like(v)
    within = kernel.add_back(back, v, weight, p)
    assert back - before == pytest.approx(weight[:, None, None] * (y @ v @ x.T), abs=3e-6)
    assert within == pytest.approx(np.einsum("nyx,nyx->n", p, y @ v @ x.T), rel=1e-5)
    assert len(kernel.add_back(ones, np.ones_like(v), -one, p[:0])) == 0
    assert ones == pytest.approx(0.0, abs=1e-6)
    assert len(kernel.x.tap) % 4 == 1 and kernel.x.matrix == pytest.approx(x.T, abs=1e-6)


@pytest.mark.parametrize("shape", [(30, 44), (31, 45), (1, 9)])
def test_wide_gaussians_are_their_matrices(shape):
    ny, nx = shape
    ys, xs = ([gaussian(n, 100.0, s) for s in (500.0, 900.0)] for n in shape)
    wide = Wide.of([(Halves.of(y), Axis.of(x)) for y, x in zip(ys, xs, strict=True)], ny)
    p, weight = maps(2, ny, nx), np.array([[0.5, 0.1], [0.0, 1.0]], dtype=np.float32)
    assert wide.into_y.shape[1] <= max(ny * 0.8, 2)
    q, none = wide.spread_out(wide.parts(p), weight, nx), np.zeros(2, dtype=np.float32)
    expected = sum(weight[:, k, None, None] * (ys[k].T @ p @ xs[k]) for k in (0, 1))
    assert unfolded(q, p, none, none, p[:1]) == pytest.approx(expected, abs=2e-6)
    fy, fx = maps(2, 3, ny, seed=1), maps(2, 3, nx, seed=2)
    for part, (y, x) in zip(wide.parts(np.einsum("nry,nrx->nyx", fy, fx)), wide.read_product(fy, fx), strict=True):
        assert part == pytest.approx(np.einsum("nry,nrx->nyx", y, x), rel=1e-4, abs=1e-4)


def test_passes_over_maps_are_their_formulas():
    p, target = maps(3, 5, 21), maps(1, 5, 21, seed=1)
    fy, fx, floor = maps(3, 2, 5), maps(3, 2, 21, seed=3), np.array([0.2, 0.0, 1.0], dtype=np.float32)
    fy[1], e, out = 0.0, np.full_like(p, np.nan), np.full_like(p, np.nan)
    add_products(e, fy, fx, floor)
    assert e == pytest.approx(floor[:, None, None] + np.einsum("nry,nrx->nyx", fy, fx), rel=1e-6)
    total = weighed(out, p, fy, fx, floor)
    assert total == pytest.approx((e * p).sum(axis=(1, 2)), rel=1e-5) and total[1] == 0
    assert out[[0, 2]] == pytest.approx((e * p / total[:, None, None].clip(1e-9))[[0, 2]], rel=1e-5)
    assert np.array_equal(out[1], p[1])  # an estimate that is impossible says nothing
    assert bilinear(p, fy, fx) == pytest.approx(np.einsum("nyx,nry,nrx->n", p, fy, fx), rel=1e-5)
    assert bilinear(target, fy, fx) == pytest.approx(np.einsum("yx,nry,nrx->n", target[0], fy, fx), rel=1e-5)
    each = np.einsum("nyx,nyx->n", p, out)
    assert inner(p, out) == pytest.approx(each, rel=1e-5)
    assert inner(p, target) == pytest.approx(np.einsum("nyx,yx->n", p, target[0]), rel=1e-5)
    v, both = out.copy(), p.copy()
    scale_to(v, p)
    assert v == pytest.approx(out / each[:, None, None], rel=1e-5)
    multiply(both, out)
    assert both == pytest.approx(p * v, rel=1e-5)


@pytest.mark.parametrize("shape", [(7, 130), (60, 80), (25, 25)])
def test_the_median_is_the_nearest_to_everybody(shape):
    (ny, nx), cx, cy = shape, 50.0, 80.0
    p = maps(*shape, seed=4) ** 8
    p /= p.sum()
    side = block_side(ny, nx)
    blocks = (-(-ny // side), -(-nx // side))
    mass, at_x, at_y, top = *(np.empty(blocks) for _ in range(3)), np.empty(blocks, np.float32)
    gather(p, side, mass, at_x, at_y, top)
    assert mass.sum() == pytest.approx(1.0, abs=1e-5) and top.max() == p.max()
    assert (mass * at_y).sum() == pytest.approx((p * (np.arange(ny) + 0.5)[:, None]).sum(), rel=1e-5)
    place = np.array(median(p, side, mass, at_x, at_y, cx, cy))
    every = np.stack([place, *(place + d for d in np.array([[9.0, 0], [-9, 0], [0, 9], [0, -9]]))])
    least = distances_to(np.repeat(p[None], 5, axis=0), cx, cy, every)
    assert (least[0] < least[1:]).all()
