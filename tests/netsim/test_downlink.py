"""The downlink at full load: closed forms of geometry, SINR and rate, and the noise of a resource element."""

import numpy as np
import pytest

from netsim.radio.downlink import Downlink, reception
from netsim.radio.link_budget import RadioLinks
from netsim.radio.rate import noise_w
from netsim.units import db_from_ratio, ratio_from_db


def links(rsrp_dbm, power_dbm=15.0, los=None):
    """Links with these RSRP (n, n_bs)."""
    rsrp = np.asarray(rsrp_dbm, dtype=float)
    los = np.ones(rsrp.shape, dtype=bool) if los is None else np.asarray(los)
    return RadioLinks(0.0, np.full(rsrp.shape, 100.0), rsrp - power_dbm, los, np.full(rsrp.shape[1], power_dbm))


def test_two_equal_cells_have_a_geometry_of_0_db():
    got = reception(links([[-80.0, -80.0]]), np.array([0]), Downlink())
    assert got.geometry_db == pytest.approx([0.0], abs=1e-12)
    assert got.gain_db == pytest.approx([-95.0]) and got.rsrp_dbm == pytest.approx([-80.0])


def test_geometry_of_two_cells_is_their_difference_also_of_the_weaker_one():
    rsrp = [[-70.0, -90.0], [-70.0, -190.0]]
    assert reception(links(rsrp), np.array([0, 0]), Downlink()).geometry_db == pytest.approx([20.0, 120.0])
    assert reception(links(rsrp), np.array([1, 1]), Downlink()).geometry_db == pytest.approx([-20.0, -120.0])


def test_sinr_adds_the_noise_to_the_other_cells():
    down = Downlink()
    at_noise = down.noise_dbm
    got = reception(links([[at_noise, at_noise], [at_noise, -400.0]]), np.array([0, 0]), down)
    assert got.sinr_db == pytest.approx([10 * np.log10(1 / 2), 0.0], abs=1e-9)


def test_a_single_cell_has_an_infinite_geometry_and_an_sinr_by_noise_alone():
    got = reception(links([[-100.0]]), np.array([0]), Downlink())
    assert np.isposinf(got.geometry_db).all() and got.sinr_db == pytest.approx([23.2])


def test_noise_is_thermal_noise_in_a_subcarrier_and_by_default_that_of_the_uplinks_broadcast():
    exact = float(db_from_ratio(noise_w(15e3, 7.0) * 1e3))
    assert Downlink(noise_figure_db=7.0).noise_dbm == pytest.approx(exact, abs=0.05)
    assert Downlink().noise_dbm == -123.2


def test_the_rate_is_attenuated_shannon_up_to_the_limit_and_nothing_below_the_least_sinr():
    down = Downlink(bandwidth_hz=1e6)
    rate = down.rate_bps(np.array([-10.01, -10.0, 0.0, 10.0, 22.05, 60.0]))
    assert rate == pytest.approx([0.0, 0.6e6 * np.log2(1.1), 0.6e6, 0.6e6 * np.log2(11), 4.4e6, 4.4e6], rel=2e-3)
    shannon = Downlink(bandwidth_hz=1e6, attenuation=1.0, max_bps_per_hz=20.0, min_sinr_db=-100.0)
    sinr_db = np.linspace(-30, 30, 7)
    assert shannon.rate_bps(sinr_db) == pytest.approx(1e6 * np.log2(1 + ratio_from_db(sinr_db)))


def test_sinr_is_that_of_links_and_absent_ues_have_none():
    rng = np.random.Generator(np.random.Philox(5))
    rsrp = rng.uniform(-120, -60, (50, 7))
    rsrp[3] = np.nan
    many, down = links(rsrp, los=rng.uniform(size=(50, 7)) < 0.5), Downlink()
    serving = rng.integers(0, 7, 50)
    serving[3] = serving[8] = -1
    got = reception(many, serving, down)
    there = np.delete(np.arange(50), [3, 8])
    expected = db_from_ratio(many.sinr(down.noise_dbm)[there, serving[there]])
    assert got.sinr_db[there] == pytest.approx(expected, abs=1e-6)
    assert (got.los[there] == many.los[there, serving[there]]).all() and not got.los[[3, 8]].any()
    for name in ("rsrp_dbm", "gain_db", "geometry_db", "sinr_db", "rate_bps"):
        assert np.isnan(getattr(got, name)[[3, 8]]).all(), name
