"""Links of UEs, also of absent ones: interpolation of fields, the strongest cell, interference."""

import numpy as np
import pytest

from netsim.radio.link_budget import interference, strongest
from netsim.radio.shadowing import GridField


def _fields(seed, column, nx=23, ny=17, n_site=21, n=300):
    """A field, positions on and off its grid with one of an absent UE, and draws."""
    draw = np.random.default_rng(seed)
    low_m, step_m = np.array([-30.0, 10.0]), 7.0
    position_m = low_m + draw.uniform(-3, max(nx, ny) + 3, (n, 2)) * step_m
    position_m[:4] = low_m + np.array([[0, 0], [nx - 1, ny - 1], [nx - 2, 3], [5, ny - 2]]) * step_m
    position_m[-1] = np.nan
    table = draw.normal(size=(ny, nx, n_site)).astype(np.float32)
    return draw, GridField(lambda: table, low_m, step_m, 50.0, np.array(column, dtype=np.int64)), position_m


@pytest.mark.parametrize("column", [[], [3, 3, 0, 20, 7]])
def test_interpolation_is_bilinear_in_single_precision(column):
    """Also at the edges, beyond them, and where several base stations share a site."""
    _, field, position_m = _fields(0, column)
    side, diagonal = np.exp(-field.step * np.array([1.0, np.sqrt(2.0)]))
    at = np.clip((position_m - field.low_m) / field.step_m, 0.0, [22.0, 16.0])
    column_, row = np.fmin(at, [21.0, 15.0]).astype(np.int64).T
    x, y = (at - np.stack([column_, row], axis=1)).T
    bx, by = 2 * x * (1 - x), 2 * y * (1 - y)
    variance = (1 - bx) * (1 - by) + side * (bx * (1 - by) + (1 - bx) * by) + diagonal * bx * by
    expected = np.zeros((len(at), 21), dtype=np.float32)
    for right, up, weight in ((0, 0, (1 - x) * (1 - y)), (1, 0, x * (1 - y)), (0, 1, (1 - x) * y), (1, 1, x * y)):
        expected += (weight / np.sqrt(variance)).astype(np.float32)[:, None] * field.value_db[row + up, column_ + right]
    found = field(position_m)
    np.testing.assert_allclose(found, expected[:, column] if column else expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found.astype(np.float32), found)
    assert np.isnan(found[-1]).all() and np.isfinite(found[:-1]).all()


def _received(n_bs):
    w = 10.0 ** np.random.default_rng(0).uniform(-20, -5, (50, n_bs))
    w[3] = np.nan
    w[4, n_bs // 2 :] = 1e6  # the first of equals is the strongest
    return w


@pytest.mark.parametrize("n_bs", [1, 7])
def test_the_strongest_is_the_first_of_the_largest(n_bs):
    w = _received(n_bs)
    expected = np.argmax(w, axis=1)
    expected[3] = -1
    np.testing.assert_array_equal(strongest(w), expected)
    assert strongest(w[:, :0]).tolist() == [-1] * 50


def test_interference_is_the_sum_of_all_others_also_where_one_is_far_above_them():
    w = 10.0 ** np.random.default_rng(0).uniform(-20, -5, (50, 7))
    w[3] = np.nan
    w[4, 2] = 1e6
    best = strongest(w)
    others = np.array([[np.delete(row, b).sum() for b in range(7)] for row in w])
    np.testing.assert_allclose(interference(w, best), others, rtol=1e-9)
    np.testing.assert_allclose(interference(w, best)[4, 2], others[4, 2], rtol=1e-15)
    assert interference(w[:, :1], best * 0)[~np.isnan(w[:, 0])].tolist() == [[0.0]] * 49
    assert interference(w[:, :0], best).shape == (50, 0)
