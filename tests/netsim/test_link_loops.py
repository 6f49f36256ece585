"""Compiled laws of links are those of NumPy, also for UEs that are absent."""

import numpy as np
import pytest

from netsim.compiled import compiled
from netsim.elementary import exp, log
from netsim.radio import link_loops


@compiled
def _each(x, exps, logs):
    for i in range(len(x)):
        exps[i], logs[i] = exp(x[i]), log(x[i])


def _found(x):
    exps, logs = np.empty(len(x)), np.empty(len(x))
    _each(np.asarray(x, dtype=np.float64), exps, logs)
    return exps, logs


def test_exponentials_and_logarithms_are_right_to_two_units_of_the_last_place():
    draw = np.random.default_rng(0)
    for x in (draw.uniform(-700, 700, 100_000), draw.uniform(-1e-6, 1e-6, 10_000)):
        exact = np.exp(x.astype(np.longdouble))
        assert (np.abs(_found(x)[0] - exact) <= 2 * np.spacing(np.exp(x))).all()
    for x in (np.exp(draw.uniform(-700, 700, 100_000)), 1 + draw.uniform(-1e-3, 1e-3, 10_000)):
        exact = np.log(x.astype(np.longdouble))
        assert (np.abs(_found(x)[1] - exact) <= 2 * np.spacing(np.abs(np.log(x)))).all()


def test_exponentials_and_logarithms_at_the_ends_of_the_numbers():
    exps, logs = _found([0.0, -np.inf, -800.0, -745.0, 709.7, 720.0, np.inf, np.nan, 1.0, -1.0])
    np.testing.assert_allclose(
        exps[:9], [1, 0, 0, np.exp(-745.0), np.exp(709.7), np.inf, np.inf, np.nan, np.e], rtol=1e-15
    )
    np.testing.assert_array_equal(logs[[1, 2, 6, 7, 8, 9]], [np.nan, np.nan, np.inf, np.nan, 0.0, np.nan])


def _places(n, seed):
    draw = np.random.default_rng(seed)
    position_m, at_m = draw.uniform(0, 3000, (n, 2)), draw.uniform(0, 3000, (n + 1, 3))[:, :2]
    position_m[-1] = np.nan
    return draw, position_m, at_m


@pytest.mark.parametrize("n", [1, 9, 200])
def test_laws_of_links_are_those_of_numpy(n):
    """More pairs than a vector holds, also by one; base stations lie apart in memory."""
    draw, position_m, at_m = _places(n, n)
    rise_m = draw.uniform(-5, 30, n + 1)
    flat, slant = link_loops.distances(position_m, at_m, rise_m)
    expected = np.linalg.norm(position_m[:, None] - at_m, axis=-1)
    np.testing.assert_allclose(flat, expected, rtol=1e-15)
    np.testing.assert_allclose(slant, np.hypot(expected, rise_m), rtol=1e-15)
    np.testing.assert_allclose(link_loops.decades(slant), np.log10(slant), rtol=1e-14)
    flat[0, 0] = 7.0
    share = 18.0 / np.maximum(flat, 18.0)
    sight = np.exp(-flat / 63.0) * (1 - share) + share
    np.testing.assert_allclose(link_loops.urban_sight(flat, 63.0), sight, rtol=1e-14)
    seen, hidden, los = flat.copy(), flat + draw.normal(size=flat.shape), draw.random(flat.shape) < 0.5
    link_loops.where_hidden(seen, hidden, los)
    np.testing.assert_allclose(seen, np.where(los, flat, np.maximum(flat, hidden)), rtol=1e-14)
    gain_db, power_dbm = -flat / 20, draw.uniform(0, 50, n + 1)
    gain, dbm, w = link_loops.powers(gain_db, power_dbm, 10 ** (power_dbm / 10 - 3))
    np.testing.assert_allclose(gain, 10 ** (gain_db / 10), rtol=1e-13)
    np.testing.assert_array_equal(dbm, power_dbm + gain_db)
    np.testing.assert_allclose(w, 10 ** ((power_dbm + gain_db) / 10 - 3), rtol=1e-13)


def test_interpolation_is_that_of_numpy_to_the_bit():
    draw = np.random.default_rng(0)
    table, corner = draw.normal(size=(500, 21)).astype(np.float32), draw.integers(500, size=(4, 300))
    weight = draw.random((4, 300)).astype(np.float32)
    expected = np.zeros((300, 21), dtype=np.float32)
    for k in range(4):
        expected += weight[k][:, None] * table[corner[k]]
    np.testing.assert_array_equal(link_loops.interpolated(table, corner, weight), expected)


def test_interference_is_the_sum_of_all_others_also_where_one_is_far_above_them():
    w = 10.0 ** np.random.default_rng(0).uniform(-20, -5, (50, 7))
    w[3] = np.nan
    w[4, 2] = 1e6
    others = np.array([[np.delete(row, b).sum() for b in range(7)] for row in w])
    np.testing.assert_allclose(link_loops.interference(w, 0.0), others, rtol=1e-9)
    np.testing.assert_allclose(link_loops.interference(w, 1e-3), others + 1e-3, rtol=1e-9)
    np.testing.assert_allclose(link_loops.interference(w, 0.0)[4, 2], others[4, 2], rtol=1e-15)
    assert link_loops.interference(w[:, :1], 0.0)[~np.isnan(w[:, 0])].tolist() == [[0.0]] * 49
    assert link_loops.interference(w[:, :0], 0.0).shape == (50, 0)
