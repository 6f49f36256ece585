"""Path loss, sight, shadowing, fading, antennas, noise: against formulas written out again, and
published numbers."""

import math
from math import cos, erfc, exp, log10, pi, radians, sin, sqrt, tan

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy import (
    arange,
    array,
    array_equal,
    asarray,
    atleast_2d,
    broadcast_to,
    concatenate,
    corrcoef,
    full,
    hypot,
    isnan,
    mean,
    nan,
    ptp,
    quantile,
    stack,
    vdot,
)
from numpy.linalg import norm
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import mark, raises
from refused import catch_line
from tabled import cases

from netsim.geometry import Area
from netsim.radio.antenna import ColumnAntenna, Sector, compute_sector_gain_db
from netsim.radio.fading import NoFading, Rayleigh, Rician
from netsim.radio.path_loss import (
    FreeSpace,
    LogDistance,
    LosNlos,
    Pairs,
    PowerLaw,
    RuralMacro,
    UrbanMacro,
    UrbanMicro,
)
from netsim.radio.rate import compute_min_snr, compute_thermal_noise_w
from netsim.radio.shadowing import Correlated, Independent
from netsim.radio.sight import ByProbability
from netsim.rng import Streams

C = 299_792_458.0
C_TABLE = 3.0e8  # as the note of the table rounds it
AREA = Area(0.0, 0.0, 2000.0, 2000.0)


def pairs(distance_2d, bs_height=25.0, ue_height=1.5, los=None):
    d = atleast_2d(asarray(distance_2d, float))
    heights = full(d.shape[1], float(bs_height))
    seen = None if los is None else full(d.shape, los)
    return Pairs(d, np.sqrt(d**2 + (heights - ue_height) ** 2), ue_height, heights, seen)


def loss(law, d, f_ghz, h_bs, h_ut, los):
    return float(law.loss_db(pairs([d], h_bs, h_ut, los), f_ghz * 1e9)[0, 0])


def urban_by_hand(d2, f, hb, hu, los, near, far, second):
    """near: (constant, slope); far: of the breakpoint; other: (constant, slope, of the frequency,
    of the height)."""
    d2 = max(d2, 10.0)
    d3 = math.hypot(d2, hb - hu)
    bp = 4 * (hb - 1) * (hu - 1) * f * 1e9 / C_TABLE
    decades = log10(d3)
    first = near[0] + 20 * log10(f)
    pl1 = first + near[1] * decades
    pl2 = first + 40 * decades - far * log10(bp**2 + (hb - hu) ** 2)
    sight = pl1 if d2 <= bp else pl2
    if los:
        return sight
    hidden = second[0] + second[1] * decades + second[2] * log10(f) - second[3] * (hu - 1.5)
    return max(sight, hidden)


UMA = (28.0, 22), 9, (13.54, 39.08, 20, 0.6)
UMI = (32.4, 21), 9.5, (22.4, 35.3, 21.3, 0.3)


def rma_by_hand(d2, f, hb, hu, los, h=5.0, w=20.0):
    d2 = max(d2, 10.0)
    d3 = math.hypot(d2, hb - hu)
    bp = 2 * pi * hb * hu * f * 1e9 / C_TABLE

    def near(d):
        return (
            20 * log10(40 * pi * d * f / 3)
            + min(0.03 * h**1.72, 10) * log10(d)
            - min(0.044 * h**1.72, 14.77)
            + 0.002 * log10(h) * d
        )

    if d2 <= bp:
        sight = near(d3)
    else:
        sight = near(bp) + 40 * log10(d3 / bp)
    if los:
        return sight
    second = 161.04 - 7.1 * log10(w) + 7.5 * log10(h)
    second -= (24.37 - 3.7 * (h / hb) ** 2) * log10(hb)
    second += (43.42 - 3.1 * log10(hb)) * (log10(d3) - 3) + 20 * log10(f)
    second -= 3.2 * log10(11.75 * hu) ** 2 - 4.97
    return max(sight, second)


@given(d=st.floats(1, 5000), f=st.floats(0.5, 30), los=st.booleans(), hu=st.floats(1.5, 10))
@settings(max_examples=150, deadline=None)
def test_the_38901_laws_equal_their_formulas(d, f, los, hu):
    expected = urban_by_hand(d, f, 25.0, hu, los, *UMA)
    assert_allclose(loss(UrbanMacro(), d, f, 25.0, hu, los), expected, atol=1e-9)
    expected = urban_by_hand(d, f, 10.0, hu, los, *UMI)
    assert_allclose(loss(UrbanMicro(), d, f, 10.0, hu, los), expected, atol=1e-9)
    expected = rma_by_hand(d, f, 35.0, hu, los)
    assert_allclose(loss(RuralMacro(), d, f, 35.0, hu, los), expected, atol=1e-9)


def test_spot_values():
    # free space: 32.45 + 20 log10(f MHz) + 20 log10(d km)
    assert_allclose(loss(FreeSpace(), 100, 2.6, 1.5, 1.5, True), 80.74, atol=0.01)
    assert_allclose(loss(FreeSpace(), 1000, 2.4, 1.5, 1.5, True), 100.05, atol=0.01)
    # two slopes at 100 m: 22 * 2 + 28, 36 * 2 + 22
    assert_allclose(loss(LosNlos(), 100, 2.0, 1.5, 1.5, True), 72.0)
    assert_allclose(loss(LosNlos(), 100, 2.0, 1.5, 1.5, False), 94.0)
    assert_allclose(loss(LogDistance(), 1000, 2.0, 1.5, 1.5, True), 50 + 35 * 2)


# loss at 5 GHz with and without sight, UE at 1.5 m: the test vectors that ns-3 publishes for the
# same tables
NS3 = cases("""
    10, (77.3784, 77.3784), (72.9380, 82.5131), (69.8591, 76.7563)
    100, (87.2965, 95.7718), (86.2362, 106.1356), (88.4122, 107.9432)
    1000, (108.5577, 133.5223), (109.7252, 144.7641), (119.3114, 143.1886)
    5000, (None, 160.5169), (137.6794, 172.0753), (147.2696, 167.8617)
    10000, (140.3896, None), (None, None), (None, None)
""")
LAWS = {"rma": (RuralMacro(), 35.0), "uma": (UrbanMacro(), 25.0), "umi": (UrbanMicro(), 10.0)}


@mark.parametrize("kind", LAWS)
def test_another_simulator_finds_the_same(kind):
    law, height = LAWS[kind]
    for d, *losses in NS3:
        both = losses[list(LAWS).index(kind)]
        for los, expected in zip((True, False), both, strict=True):
            if expected is not None:
                assert_allclose(loss(law, d, 5.0, height, 1.5, los), expected, atol=1e-3)


def test_power_law_of_exponent_two_is_free_space_with_antennas():
    law = PowerLaw(exponent=2.0)
    expected = loss(FreeSpace(), 321, 0.915, 10, 0, True) - 5
    assert_allclose(loss(law, 321, 0.915, 10, 0, True), expected)
    gain = 10**0.5 * (C / (4 * pi * 0.915e9 * 60.0)) ** 3.76
    assert_allclose(loss(PowerLaw(), 60, 0.915, 1.0, 1.0, True), -10 * log10(gain))


@mark.parametrize(
    "kind, carrier_hz, ue, bs",
    cases("""
    "uma", 0.2e9, 1.5, 25
    "uma", 2e9, 30, 25
    "uma", 2e9, 1.5, 80
    "rma", 40e9, 1.5, 35
    "rma", 2e9, 20, 35
    "umi", 2e9, 1.5, 50
"""),
)
def test_outside_its_range_a_law_is_refused_in_one_line(kind, carrier_hz, ue, bs):
    law, _ = LAWS[kind]
    assert kind in catch_line(law.check, carrier_hz, ue, {"a": float(bs)})


class TestSight:
    def test_probabilities_of_the_table(self):
        d = array([5.0, 18.0, 100.0, 1000.0])
        below = {decay_m: 0.18 + exp(-100 / decay_m) * 0.82 for decay_m in (36, 63)}
        umi = UrbanMicro().los_probability(pairs(d, 10.0))[0]
        uma = UrbanMacro().los_probability(pairs(d, 25.0))[0]
        rma = RuralMacro().los_probability(pairs(d, 35.0))[0]
        assert_allclose(umi[:2], 1.0)
        assert_allclose(uma[:2], 1.0)
        assert rma[0] == 1.0
        assert_allclose(rma[3], exp(-0.99))
        assert_allclose(umi[2], below[36])
        assert_allclose(uma[2], below[63])
        high = UrbanMacro().los_probability(pairs(d, 25.0, 20.0))[0]
        extra = 1 + (0.7**1.5) * 1.25 * exp(-100 / 150)
        assert_allclose(high[2], below[63] * extra)

    def test_frequency_is_the_probability_and_places_remember(self):
        place = Streams(5).derive_rng("places").uniform("p", arange(4000), (2,)) * 2000
        stations = array([[x, y] for x in (300.0, 1000.0, 1700.0) for y in (300.0, 1000.0, 1700.0)])
        d = norm(place[:, None] - stations[None], axis=-1)
        geometry = Pairs(d, hypot(d, 8.5), 1.5, full(9, 10.0))
        shares = []
        for seed in range(6):
            law = ByProbability().build_law(
                AREA, arange(9), UrbanMicro(), None, Streams(seed).derive_rng("sight")
            )
            seen = law(geometry, place)
            assert_array_equal(seen, law(geometry, place))
            shares.append(seen.mean())
        assert_allclose(mean(shares), UrbanMicro().los_probability(geometry).mean(), rtol=0.05)


class TestShadowing:
    def test_iid_has_its_deviation_and_repeats_at_a_place(self):
        law = Independent().draw_field(AREA, arange(3), Streams(1).derive_rng("shadow"), 4.0)
        place = default_rng(0).uniform(0, 2000, (20_000, 2))
        values = law(place)
        assert_allclose(values.std(), 4.0, rtol=0.02)
        assert abs(values.mean()) < 0.05
        assert_array_equal(values[:50], law(place[:50]))
        shared = Independent().draw_field(
            AREA, array([2, 0, 2]), Streams(1).derive_rng("shadow"), 4.0
        )
        assert_array_equal(shared(place[:50]), values[:50][:, [2, 0, 2]])
        near = law(place + 0.01)
        assert abs(corrcoef(values.ravel(), near.ravel())[0, 1]) < 0.02
        actual = abs(corrcoef(values.ravel(), law(place[:, ::-1]).ravel())[0, 1])
        assert actual < 0.02  # x and y exchanged
        assert isnan(law(array([[nan, 1.0]]))).all()

    def test_without_sight_another_deviation(self):
        for part in (Correlated, Independent):
            assert part(std_db=4.0, nlos_std_db=6.0).choose_stds(UrbanMacro())[:2] == (4.0, 6.0)
            assert part(std_db=4.0).choose_stds(UrbanMacro())[:2] == (4.0, 4.0)
            with raises(ValueError, match="std_db above 0"):
                part(std_db=0.0, nlos_std_db=6.0)


class TestFading:
    rng = Streams(3).derive_rng("radio.fading")

    @mark.parametrize("part", [Rayleigh(antennas=4), Rician(antennas=4, k_db=6.0)])
    def test_unit_power_and_nobody_moves_anybody(self, part):
        h = part.draw_amplitudes(arange(3000), 3, 5, self.rng)
        assert_allclose((abs(h) ** 2).mean(), 1.0, rtol=0.02)
        assert_array_equal(h[:10, :2], part.draw_amplitudes(arange(10), 2, 5, self.rng))
        assert not array_equal(h[:10], part.draw_amplitudes(arange(10), 3, 6, self.rng))
        between = vdot(h[:, 0, 0], h[:, 1, 0]) / len(h)
        assert abs(between) < 0.05 + (0.05 if part.kind == "rician" else 0)

    def test_the_steady_wave_has_its_share(self):
        h = Rician(k_db=10.0).draw_amplitudes(arange(40_000), 1, 0, self.rng)[:, 0, 0]
        power = abs(h) ** 2
        k = 10.0  # variance of Rician power: (1 + 2 K) / (1 + K)^2
        assert_allclose(power.var(), (1 + 2 * k) / (1 + k) ** 2, rtol=0.05)
        rayleigh = abs(Rayleigh().draw_amplitudes(arange(40_000), 1, 0, self.rng)[:, 0, 0]) ** 2
        assert_allclose(rayleigh.var(), 1.0, rtol=0.06)

    def test_blocks(self):
        assert Rayleigh(block="run").find_block(7, 99.0) == 0
        assert Rayleigh(block="round").find_block(7, 99.0) == 7
        assert Rayleigh(block=10.0).find_block(7, 99.0) == 9
        with raises(ValueError, match="block: a time"):
            Rayleigh(block=1e-9)
        # one antenna, amplitude 1
        assert NoFading().draw_amplitudes(arange(2), 3, 0, self.rng) is None


def test_sector_antenna():
    azimuth = array([90.0])
    east = array([[[1000.0, 0.0]]])
    tilt = array([1000.0 * tan(radians(10.0))])
    assert_allclose(compute_sector_gain_db(east, tilt, azimuth)[0, 0], 8.0)
    edge = 1000.0 * array([[[cos(radians(32.5)), sin(radians(32.5))]]])
    assert_allclose(compute_sector_gain_db(edge, tilt, azimuth)[0, 0], 8.0 - 3.0)
    assert_allclose(compute_sector_gain_db(-east, tilt, azimuth)[0, 0], 8.0 - 30.0)
    assert compute_sector_gain_db(east, tilt, array([nan]))[0, 0] == 0.0


@mark.parametrize("part", [Sector(), ColumnAntenna(), ColumnAntenna(elements=4, tilt_deg=3.0)])
@mark.parametrize("azimuth_deg", [[30.0, 150.0, 270.0], [0.0, 90.0, 180.0, 270.0], [359.0, 1.0]])
@mark.parametrize("drop_m", [23.5, 0.0, -3.0])
def test_directly_below_or_above_a_mast_all_sectors_are_equal(part, azimuth_deg, drop_m):
    """A zero vector has no bearing, nor has a rounding of one, whatever its signs; a metre away
    there is one again."""
    n = len(azimuth_deg)
    for east_m, north_m in ((0.0, 0.0), (-0.0, -0.0), (0.0, -0.0), (1e-9, -3e-10)):
        offset_m = broadcast_to([east_m, north_m], (1, n, 2))
        gain = part.gain_db(offset_m, full(n, drop_m), array(azimuth_deg))[0]
        assert (gain == gain[0]).all()
        if part.kind == "sector" and drop_m > 0:
            assert_allclose(gain[0], 8.0 - 12.0 * (80.0 / 65.0) ** 2)
    gain = part.gain_db(broadcast_to([0.2, 1.0], (1, n, 2)), full(n, drop_m), array(azimuth_deg))[0]
    assert ptp(gain) > 0.02


def test_thermal_noise():
    assert_allclose(10 * log10(compute_thermal_noise_w(20e6, 6.0) / 1e-3), -95.0, atol=0.1)


def error_rate(snr):
    """Of QPSK symbols."""
    q = erfc(sqrt(snr / 2)) / 2
    return 2 * q - q * q


def test_symbol_error_thresholds():
    for rate, expected in zip((1e-1, 1e-2, 1e-3), (4.26, 8.22, 10.35), strict=True):
        snr = compute_min_snr(rate)
        assert_allclose(10 * log10(snr), expected, atol=0.0101)
        assert_allclose(error_rate(snr), rate, rtol=1e-9)
    worst = error_rate(0.0)
    assert_allclose(compute_min_snr(worst), 0.0, atol=1e-9)
    assert compute_min_snr((1 + worst) / 2) == 0.0


def test_snr_of_the_two_regions_of_the_power_law():
    """15 devices in two boxes, 15 antennas, 1.5 W in all, 1e-13 W of noise: 5, 50 and 95 % of their
    SNR."""
    rng = default_rng(7)
    snr = []
    for draw in range(1000 // 15 + 1):
        x = concatenate([rng.uniform(-10, 0, 7), rng.uniform(10, 20, 8)])
        place = stack([x, rng.uniform(-5, 5, 15)], axis=1)
        d = norm(place - array([-50.0, 0.0]), axis=1)[:, None]
        geometry = Pairs(d, hypot(d, 10.0), 0.0, array([10.0]))
        gain = 10 ** (-PowerLaw().loss_db(geometry, 915e6)[:, 0] / 10)
        h = Rayleigh(antennas=15).draw_amplitudes(
            arange(15), 1, draw, Streams(2).derive_rng("fading")
        )[:, 0]
        snr.append(10 * np.log10(0.1 * gain * (abs(h) ** 2).sum(axis=1) / 1e-13))
    assert_allclose(quantile(concatenate(snr), [0.05, 0.5, 0.95]), [6.8, 10.7, 16.4], atol=1.0)
