"""Links of UEs, also of absent ones: fields, the strongest cell, interference, geometry, SINR and
rate at full load."""

import numpy as np
import pytest

from netsim.radio.downlink import Downlink, reception
from netsim.radio.link_budget import RadioLinks, interference, strongest
from netsim.radio.rate import noise_w
from netsim.radio.shadowing import GridField
from netsim.units import db_from_ratio, ratio_from_db


@pytest.mark.parametrize("column", [[], [3, 3, 0, 20, 7]])
def test_interpolation_is_bilinear_in_single_precision(column):
    """Also at the edges, beyond them, and where several base stations share a site."""
    draw = np.random.default_rng(0)
    low_m = np.array([-30.0, 10.0])
    step_m = 7.0
    position_m = low_m + draw.uniform(-3, 26, (300, 2)) * step_m  # on and off the grid
    position_m[:4] = low_m + np.array([[0, 0], [22, 16], [21, 3], [5, 15]]) * step_m
    position_m[-1] = np.nan  # an absent UE
    table = draw.normal(size=(17, 23, 21)).astype(np.float32)
    field = GridField(lambda: table, low_m, step_m, 50.0, np.array(column, dtype=np.int64))
    side, diagonal = np.exp(-field.step * np.array([1.0, np.sqrt(2.0)]))
    at = np.clip((position_m - field.low_m) / field.step_m, 0.0, [22.0, 16.0])
    column_, row = np.fmin(at, [21.0, 15.0]).astype(np.int64).T
    x, y = (at - np.stack([column_, row], axis=1)).T
    bx = 2 * x * (1 - x)
    by = 2 * y * (1 - y)
    variance = (1 - bx) * (1 - by) + side * (bx * (1 - by) + (1 - bx) * by) + diagonal * bx * by
    expected = np.zeros((len(at), 21), dtype=np.float32)
    for right, up, weight in (
        (0, 0, (1 - x) * (1 - y)),
        (1, 0, x * (1 - y)),
        (0, 1, (1 - x) * y),
        (1, 1, x * y),
    ):
        expected += (weight / np.sqrt(variance)).astype(np.float32)[:, None] * field.value_db[
            row + up, column_ + right
        ]
    found = field(position_m)
    np.testing.assert_allclose(
        found, expected[:, column] if column else expected, rtol=1e-5, atol=1e-6
    )
    np.testing.assert_array_equal(found.astype(np.float32), found)
    assert np.isnan(found[-1]).all()
    assert np.isfinite(found[:-1]).all()


@pytest.mark.parametrize("n_bs", [1, 7])
def test_the_strongest_is_the_first_of_the_largest(n_bs):
    w = 10.0 ** np.random.default_rng(0).uniform(-20, -5, (50, n_bs))
    w[3] = np.nan
    w[4, n_bs // 2 :] = 1e6  # the first of equals is the strongest
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


def links(rsrp_dbm, power_dbm=15.0, los=None):
    """Links with these RSRP (n, n_bs)."""
    rsrp = np.asarray(rsrp_dbm, dtype=float)
    if los is None:
        los = np.ones(rsrp.shape, dtype=bool)
    else:
        los = np.asarray(los)
    return RadioLinks(
        0.0, np.full(rsrp.shape, 100.0), rsrp - power_dbm, los, np.full(rsrp.shape[1], power_dbm)
    )


def test_geometry_of_two_cells_is_their_difference_also_of_the_weaker_one():
    rsrp = [[-80.0, -80.0], [-70.0, -90.0], [-70.0, -190.0]]
    for serving, sign in ((0, 1), (1, -1)):
        got = reception(links(rsrp), np.full(3, serving), Downlink())
        assert sign * got.geometry_db == pytest.approx([0.0, 20.0, 120.0], rel=1e-6, abs=1e-12)
        assert got.gain_db[0] == pytest.approx(-95.0)
        assert got.rsrp_dbm[0] == pytest.approx(-80.0)


def test_sinr_adds_the_noise_to_the_other_cells():
    down = Downlink()
    at_noise = down.noise_dbm
    got = reception(links([[at_noise, at_noise], [at_noise, -400.0]]), np.array([0, 0]), down)
    assert got.sinr_db == pytest.approx([10 * np.log10(1 / 2), 0.0], abs=1e-9)


def test_a_single_cell_has_an_infinite_geometry_and_an_sinr_by_noise_alone():
    got = reception(links([[-100.0]]), np.array([0]), Downlink())
    assert np.isposinf(got.geometry_db).all()
    assert got.sinr_db == pytest.approx([23.2])


def test_noise_is_thermal_noise_in_a_subcarrier_and_by_default_that_of_the_uplinks_broadcast():
    exact = float(db_from_ratio(noise_w(15e3, 7.0) * 1e3))
    assert Downlink(noise_figure_db=7.0).noise_dbm == pytest.approx(exact, abs=0.05)
    assert Downlink().noise_dbm == -123.2


def test_the_rate_is_attenuated_shannon_up_to_the_limit_and_nothing_below_the_least_sinr():
    down = Downlink(bandwidth_hz=1e6)
    rate = down.rate_bps(np.array([-10.01, -10.0, 0.0, 10.0, 22.05, 60.0]))
    assert rate == pytest.approx(
        [0.0, 0.6e6 * np.log2(1.1), 0.6e6, 0.6e6 * np.log2(11), 4.4e6, 4.4e6], rel=2e-3
    )
    shannon = Downlink(bandwidth_hz=1e6, attenuation=1.0, max_bps_per_hz=20.0, min_sinr_db=-100.0)
    sinr_db = np.linspace(-30, 30, 7)
    assert shannon.rate_bps(sinr_db) == pytest.approx(1e6 * np.log2(1 + ratio_from_db(sinr_db)))


def test_sinr_is_that_of_links_and_absent_ues_have_none():
    rng = np.random.Generator(np.random.Philox(5))
    rsrp = rng.uniform(-120, -60, (50, 7))
    rsrp[3] = np.nan
    many = links(rsrp, los=rng.uniform(size=(50, 7)) < 0.5)
    down = Downlink()
    serving = rng.integers(0, 7, 50)
    serving[3] = serving[8] = -1
    got = reception(many, serving, down)
    there = np.delete(np.arange(50), [3, 8])
    expected = db_from_ratio(many.sinr(down.noise_dbm)[there, serving[there]])
    assert got.sinr_db[there] == pytest.approx(expected, abs=1e-6)
    assert (got.los[there] == many.los[there, serving[there]]).all()
    assert not got.los[[3, 8]].any()
    for name in ("rsrp_dbm", "gain_db", "geometry_db", "sinr_db", "rate_bps"):
        assert np.isnan(getattr(got, name)[[3, 8]]).all(), name
