"""Links of UEs, also of absent ones: fields, the strongest cell, interference, geometry, SINR and
rate at full load."""

import numpy as np
from numpy import (
    arange,
    argmax,
    array,
    asarray,
    clip,
    delete,
    float32,
    fmin,
    full,
    int64,
    isfinite,
    isnan,
    isposinf,
    linspace,
    log2,
    log10,
    nan,
    ones,
    sqrt,
    stack,
    zeros,
)
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import mark

from netsim.radio.downlink import Downlink, receive_broadcast
from netsim.radio.link_budget import RadioLinks
from netsim.radio.rate import compute_thermal_noise_w
from netsim.radio.shadowing import GridField
from netsim.units import db_from_ratio, ratio_from_db, w_from_dbm


@mark.parametrize("column", [[], [3, 3, 0, 20, 7]])
def test_interpolation_is_bilinear_in_single_precision(column):
    """Also at the edges, beyond them, and where several base stations share a site."""
    draw = default_rng(0)
    low_m = array([-30.0, 10.0])
    step_m = 7.0
    position_m = low_m + draw.uniform(-3, 26, (300, 2)) * step_m  # on and off the grid
    position_m[:4] = low_m + array([[0, 0], [22, 16], [21, 3], [5, 15]]) * step_m
    position_m[-1] = nan  # an absent UE
    table = draw.normal(size=(17, 23, 21)).astype(float32)
    field = GridField(lambda: table, low_m, step_m, 50.0, array(column, int64))
    side, diagonal = field.correlation
    place = clip((position_m - field.low_m) / field.step_m, 0.0, [22.0, 16.0])
    column_, row = fmin(place, [21.0, 15.0]).astype(int64).T
    x, y = (place - stack([column_, row], axis=1)).T
    bx = 2 * x * (1 - x)
    by = 2 * y * (1 - y)
    variance = (1 - bx) * (1 - by) + side * (bx * (1 - by) + (1 - bx) * by) + diagonal * bx * by
    expected = zeros((len(place), 21), float32)
    for right, up, weight in (
        (0, 0, (1 - x) * (1 - y)),
        (1, 0, x * (1 - y)),
        (0, 1, (1 - x) * y),
        (1, 1, x * y),
    ):
        expected += (weight / sqrt(variance)).astype(float32)[:, None] * field.value_db[
            row + up, column_ + right
        ]
    result = field(position_m)
    assert_allclose(result, expected[:, column] if column else expected, rtol=1e-5, atol=1e-6)
    assert_array_equal(result.astype(float32), result)
    assert isnan(result[-1]).all()
    assert isfinite(result[:-1]).all()


def links(rsrp_dbm, power_dbm=15.0, los=None):
    """Links with these RSRP (n, n_bs)."""
    rsrp = asarray(rsrp_dbm, float)
    if los is None:
        los = ones(rsrp.shape, bool)
    else:
        los = asarray(los)
    return RadioLinks(
        0.0, full(rsrp.shape, 100.0), rsrp - power_dbm, los, full(rsrp.shape[1], power_dbm)
    )


@mark.parametrize("n_bs", [1, 7])
def test_the_strongest_is_the_first_of_the_largest(n_bs):
    dbm = default_rng(0).uniform(-170, -20, (50, n_bs))
    dbm[3] = nan
    dbm[4, n_bs // 2 :] = 90.0  # the first of equals is the strongest
    dbm[5] = -1e6  # no power at all
    expected = argmax(dbm, axis=1)
    expected[3] = -1
    assert_array_equal(links(dbm).serving, expected)
    assert links(dbm[:, :0]).serving.tolist() == [-1] * 50


def test_interference_is_the_sum_of_all_others_also_where_one_is_far_above_them():
    dbm = default_rng(0).uniform(-170, -20, (50, 7))
    dbm[3] = nan
    dbm[4, 2] = 90.0
    w, _, strongest_w, others_w = links(dbm).powers
    interference_w = others_w[:, None] + (strongest_w[:, None] - w)
    assert_array_equal(w, links(dbm).gain * w_from_dbm(full(7, 15.0)))
    rest = array([[delete(row, b).sum() for b in range(7)] for row in w])
    assert_allclose(interference_w, rest, rtol=1e-9)
    assert_allclose(interference_w[4, 2], rest[4, 2], rtol=1e-15)
    assert_allclose(links(dbm).compute_sinr(-100.0), w / (rest + 1e-13), rtol=1e-9)
    some = array([0, 4, 3]), array([6, 2, 0])
    assert_array_equal(links(dbm).compute_sinr(-100.0, some), links(dbm).compute_sinr(-100.0)[some])
    assert links(dbm[:, :1]).powers.others_w[~isnan(w[:, 0])].tolist() == [0.0] * 49
    assert links(dbm[:, :0]).compute_sinr(-100.0).shape == (50, 0)


def test_geometry_of_two_cells_is_their_difference_also_of_the_weaker_one():
    rsrp = [[-80.0, -80.0], [-70.0, -90.0], [-70.0, -190.0]]
    for serving, sign in ((0, 1), (1, -1)):
        got = receive_broadcast(links(rsrp), full(3, serving), Downlink())
        assert_allclose(sign * got.geometry_db, [0.0, 20.0, 120.0], rtol=1e-6, atol=1e-12)
        assert_allclose(got.gain_db[0], -95.0)
        assert_allclose(got.rsrp_dbm[0], -80.0)


def test_sinr_adds_the_noise_to_the_other_cells():
    down = Downlink()
    at_noise = down.noise_dbm
    got = receive_broadcast(links([[at_noise, at_noise], [at_noise, -400.0]]), array([0, 0]), down)
    assert_allclose(got.sinr_db, [10 * log10(1 / 2), 0.0], atol=1e-9)


def test_a_single_cell_has_an_infinite_geometry_and_an_sinr_by_noise_alone():
    got = receive_broadcast(links([[-100.0]]), array([0]), Downlink())
    assert isposinf(got.geometry_db).all()
    assert_allclose(got.sinr_db, [23.2])


def test_noise_is_thermal_noise_in_a_subcarrier_and_by_default_that_of_the_uplinks_broadcast():
    exact = float(db_from_ratio(compute_thermal_noise_w(15e3, 7.0) * 1e3))
    assert_allclose(Downlink(noise_figure_db=7.0).noise_dbm, exact, atol=0.05)
    assert Downlink().noise_dbm == -123.2


def test_the_rate_is_attenuated_shannon_up_to_the_limit_and_nothing_below_the_least_sinr():
    down = Downlink(bandwidth_hz=1e6)
    rate = down.rate_bps(array([-10.01, -10.0, 0.0, 10.0, 22.05, 60.0]))
    assert_allclose(
        rate, [0.0, 0.6e6 * log2(1.1), 0.6e6, 0.6e6 * log2(11), 4.4e6, 4.4e6], rtol=2e-3
    )
    shannon = Downlink(bandwidth_hz=1e6, attenuation=1.0, max_bps_per_hz=20.0, min_sinr_db=-100.0)
    sinr_db = linspace(-30, 30, 7)
    assert_allclose(shannon.rate_bps(sinr_db), 1e6 * log2(1 + ratio_from_db(sinr_db)))


def test_sinr_is_that_of_links_and_absent_ues_have_none():
    rng = np.random.Generator(np.random.Philox(5))
    rsrp = rng.uniform(-120, -60, (50, 7))
    rsrp[3] = nan
    many = links(rsrp, los=rng.uniform(size=(50, 7)) < 0.5)
    down = Downlink()
    serving = rng.integers(0, 7, 50)
    serving[3] = serving[8] = -1
    got = receive_broadcast(many, serving, down)
    is_present = delete(arange(50), [3, 8])
    expected = db_from_ratio(many.compute_sinr(down.noise_dbm)[is_present, serving[is_present]])
    assert_allclose(got.sinr_db[is_present], expected, atol=1e-6)
    assert (got.los[is_present] == many.los[is_present, serving[is_present]]).all()
    assert not got.los[[3, 8]].any()
    for name in ("rsrp_dbm", "gain_db", "geometry_db", "sinr_db", "rate_bps"):
        assert isnan(getattr(got, name)[[3, 8]]).all(), name
