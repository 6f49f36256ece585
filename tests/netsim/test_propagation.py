"""Path loss, sight, shadowing, fading, antennas, noise: against formulas written out again, and
published numbers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import line_of

from netsim.geometry import Area
from netsim.radio.antenna import ColumnAntenna, Sector, sector_gain_db
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
from netsim.radio.rate import noise_w, threshold
from netsim.radio.shadowing import Correlated, Independent
from netsim.radio.sight import ByProbability
from netsim.rng import Streams

C = 299_792_458.0
C_TABLE = 3.0e8  # as the note of the table rounds it
AREA = Area(0.0, 0.0, 2000.0, 2000.0)


def pairs(distance_2d, bs_height=25.0, ue_height=1.5, los=None):
    d = np.atleast_2d(np.asarray(distance_2d, dtype=float))
    heights = np.full(d.shape[1], float(bs_height))
    seen = None if los is None else np.full(d.shape, los)
    return Pairs(d, np.sqrt(d**2 + (heights - ue_height) ** 2), ue_height, heights, seen)


def loss(law, d, f_ghz, h_bs, h_ut, los):
    return float(law.loss_db(pairs([d], h_bs, h_ut, los), f_ghz * 1e9)[0, 0])


def urban_by_hand(d2, f, hb, hu, los, near, far, other):
    """near: (constant, slope); far: of the breakpoint; other: (constant, slope, of the frequency,
    of the height)."""
    d2 = max(d2, 10.0)
    d3 = math.hypot(d2, hb - hu)
    bp = 4 * (hb - 1) * (hu - 1) * f * 1e9 / C_TABLE
    pl1 = near[0] + near[1] * math.log10(d3) + 20 * math.log10(f)
    pl2 = (
        near[0]
        + 40 * math.log10(d3)
        + 20 * math.log10(f)
        - far * math.log10(bp**2 + (hb - hu) ** 2)
    )
    sight = pl1 if d2 <= bp else pl2
    if los:
        return sight
    return max(
        sight,
        other[0] + other[1] * math.log10(d3) + other[2] * math.log10(f) - other[3] * (hu - 1.5),
    )


UMA = (28.0, 22), 9, (13.54, 39.08, 20, 0.6)
UMI = (32.4, 21), 9.5, (22.4, 35.3, 21.3, 0.3)


def rma_by_hand(d2, f, hb, hu, los, h=5.0, w=20.0):
    d2 = max(d2, 10.0)
    d3 = math.hypot(d2, hb - hu)
    bp = 2 * math.pi * hb * hu * f * 1e9 / C_TABLE

    def near(d):
        return (
            20 * math.log10(40 * math.pi * d * f / 3)
            + min(0.03 * h**1.72, 10) * math.log10(d)
            - min(0.044 * h**1.72, 14.77)
            + 0.002 * math.log10(h) * d
        )

    if d2 <= bp:
        sight = near(d3)
    else:
        sight = near(bp) + 40 * math.log10(d3 / bp)
    if los:
        return sight
    other = 161.04 - 7.1 * math.log10(w) + 7.5 * math.log10(h)
    other -= (24.37 - 3.7 * (h / hb) ** 2) * math.log10(hb)
    other += (43.42 - 3.1 * math.log10(hb)) * (math.log10(d3) - 3) + 20 * math.log10(f)
    other -= 3.2 * math.log10(11.75 * hu) ** 2 - 4.97
    return max(sight, other)


@given(d=st.floats(1, 5000), f=st.floats(0.5, 30), los=st.booleans(), hu=st.floats(1.5, 10))
@settings(max_examples=150, deadline=None)
def test_the_38901_laws_equal_their_formulas(d, f, los, hu):
    assert loss(UrbanMacro(), d, f, 25.0, hu, los) == pytest.approx(
        urban_by_hand(d, f, 25.0, hu, los, *UMA), abs=1e-9
    )
    assert loss(UrbanMicro(), d, f, 10.0, hu, los) == pytest.approx(
        urban_by_hand(d, f, 10.0, hu, los, *UMI), abs=1e-9
    )
    assert loss(RuralMacro(), d, f, 35.0, hu, los) == pytest.approx(
        rma_by_hand(d, f, 35.0, hu, los), abs=1e-9
    )


def test_spot_values():
    # free space: 32.45 + 20 log10(f MHz) + 20 log10(d km)
    assert loss(FreeSpace(), 100, 2.6, 1.5, 1.5, True) == pytest.approx(80.74, abs=0.01)
    assert loss(FreeSpace(), 1000, 2.4, 1.5, 1.5, True) == pytest.approx(100.05, abs=0.01)
    # two slopes at 100 m: 22 * 2 + 28, 36 * 2 + 22
    assert loss(LosNlos(), 100, 2.0, 1.5, 1.5, True) == pytest.approx(72.0)
    assert loss(LosNlos(), 100, 2.0, 1.5, 1.5, False) == pytest.approx(94.0)
    assert loss(LogDistance(), 1000, 2.0, 1.5, 1.5, True) == pytest.approx(50 + 35 * 2)


# loss at 5 GHz with and without sight, UE at 1.5 m: the test vectors that ns-3 publishes for the
# same tables
NS3 = {
    "rma": (RuralMacro(), 35.0, {10: (77.3784, 77.3784), 100: (87.2965, 95.7718), 1000: (108.5577, 133.5223),
                                 5000: (None, 160.5169), 10_000: (140.3896, None)}),
    "uma": (UrbanMacro(), 25.0, {10: (72.9380, 82.5131), 100: (86.2362, 106.1356), 1000: (109.7252, 144.7641),
                                 5000: (137.6794, 172.0753)}),
    "umi": (UrbanMicro(), 10.0, {10: (69.8591, 76.7563), 100: (88.4122, 107.9432), 1000: (119.3114, 143.1886),
                                 5000: (147.2696, 167.8617)}),
}  # fmt: skip


@pytest.mark.parametrize("kind", NS3)
def test_another_simulator_finds_the_same(kind):
    law, height, losses = NS3[kind]
    for d, both in losses.items():
        for los, expected in zip((True, False), both, strict=True):
            if expected is not None:
                assert loss(law, d, 5.0, height, 1.5, los) == pytest.approx(expected, abs=1e-3)


def test_power_law_of_exponent_two_is_free_space_with_antennas():
    law = PowerLaw(exponent=2.0)
    assert loss(law, 321, 0.915, 10, 0, True) == pytest.approx(
        loss(FreeSpace(), 321, 0.915, 10, 0, True) - 5
    )
    gain = 10**0.5 * (C / (4 * math.pi * 0.915e9 * 60.0)) ** 3.76
    assert loss(PowerLaw(), 60, 0.915, 1.0, 1.0, True) == pytest.approx(-10 * math.log10(gain))


@pytest.mark.parametrize(
    ("law", "carrier_hz", "ue", "bs"),
    [
        (UrbanMacro(), 0.2e9, 1.5, 25),
        (UrbanMacro(), 2e9, 30, 25),
        (UrbanMacro(), 2e9, 1.5, 80),
        (RuralMacro(), 40e9, 1.5, 35),
        (RuralMacro(), 2e9, 20, 35),
        (UrbanMicro(), 2e9, 1.5, 50),
    ],
)
def test_outside_its_range_a_law_is_refused_in_one_line(law, carrier_hz, ue, bs):
    assert law.kind in line_of(law.check, carrier_hz, ue, {"a": float(bs)})


class TestSight:
    def test_probabilities_of_the_table(self):
        d = np.array([5.0, 18.0, 100.0, 1000.0])
        umi = UrbanMicro().los_probability(pairs(d, 10.0))[0]
        uma = UrbanMacro().los_probability(pairs(d, 25.0))[0]
        rma = RuralMacro().los_probability(pairs(d, 35.0))[0]
        np.testing.assert_allclose(umi[:2], 1.0)
        np.testing.assert_allclose(uma[:2], 1.0)
        assert rma[0] == 1.0
        assert rma[3] == pytest.approx(math.exp(-0.99))
        assert umi[2] == pytest.approx(0.18 + math.exp(-100 / 36) * 0.82)
        assert uma[2] == pytest.approx(0.18 + math.exp(-100 / 63) * 0.82)
        high = UrbanMacro().los_probability(pairs(d, 25.0, 20.0))[0]
        extra = 1 + (0.7**1.5) * 1.25 * math.exp(-100 / 150)
        assert high[2] == pytest.approx((0.18 + math.exp(-100 / 63) * 0.82) * extra)

    def test_frequency_is_the_probability_and_places_remember(self):
        at = Streams(5).at("places").uniform("p", np.arange(4000), (2,)) * 2000
        stations = np.array(
            [[x, y] for x in (300.0, 1000.0, 1700.0) for y in (300.0, 1000.0, 1700.0)]
        )
        d = np.linalg.norm(at[:, None] - stations[None], axis=-1)
        geometry = Pairs(d, np.hypot(d, 8.5), 1.5, np.full(9, 10.0))
        shares = []
        for seed in range(6):
            law = ByProbability().law(
                AREA, np.arange(9), UrbanMicro(), None, Streams(seed).at("sight")
            )
            seen = law(geometry, at)
            np.testing.assert_array_equal(seen, law(geometry, at))
            shares.append(seen.mean())
        expected = UrbanMicro().los_probability(geometry).mean()
        assert np.mean(shares) == pytest.approx(expected, rel=0.05)


class TestShadowing:
    def test_iid_has_its_deviation_and_repeats_at_a_place(self):
        law = Independent().field(AREA, np.arange(3), Streams(1).at("shadow"), 4.0)
        at = np.random.default_rng(0).uniform(0, 2000, (20_000, 2))
        values = law(at)
        assert values.std() == pytest.approx(4.0, rel=0.02)
        assert abs(values.mean()) < 0.05
        np.testing.assert_array_equal(values[:50], law(at[:50]))
        shared = Independent().field(AREA, np.array([2, 0, 2]), Streams(1).at("shadow"), 4.0)
        np.testing.assert_array_equal(shared(at[:50]), values[:50][:, [2, 0, 2]])
        near = law(at + 0.01)
        assert abs(np.corrcoef(values.ravel(), near.ravel())[0, 1]) < 0.02
        assert (
            abs(np.corrcoef(values.ravel(), law(at[:, ::-1]).ravel())[0, 1]) < 0.02
        )  # x and y exchanged
        assert np.isnan(law(np.array([[np.nan, 1.0]]))).all()

    def test_without_sight_another_deviation(self):
        for part in (Correlated, Independent):
            assert part(std_db=4.0, nlos_std_db=6.0).stds(UrbanMacro())[:2] == (4.0, 6.0)
            assert part(std_db=4.0).stds(UrbanMacro())[:2] == (4.0, 4.0)
            with pytest.raises(ValueError, match="std_db above 0"):
                part(std_db=0.0, nlos_std_db=6.0)


class TestFading:
    rng = Streams(3).at("radio.fading")

    @pytest.mark.parametrize("part", [Rayleigh(antennas=4), Rician(antennas=4, k_db=6.0)])
    def test_unit_power_and_nobody_moves_anybody(self, part):
        h = part.draw(np.arange(3000), 3, 5, self.rng)
        assert (np.abs(h) ** 2).mean() == pytest.approx(1.0, rel=0.02)
        np.testing.assert_array_equal(h[:10, :2], part.draw(np.arange(10), 2, 5, self.rng))
        assert not np.array_equal(h[:10], part.draw(np.arange(10), 3, 6, self.rng))
        between = np.vdot(h[:, 0, 0], h[:, 1, 0]) / len(h)
        assert abs(between) < 0.05 + (0.05 if part.kind == "rician" else 0)

    def test_the_steady_wave_has_its_share(self):
        h = Rician(k_db=10.0).draw(np.arange(40_000), 1, 0, self.rng)[:, 0, 0]
        power = np.abs(h) ** 2
        k = 10.0  # variance of Rician power: (1 + 2 K) / (1 + K)^2
        assert power.var() == pytest.approx((1 + 2 * k) / (1 + k) ** 2, rel=0.05)
        rayleigh = np.abs(Rayleigh().draw(np.arange(40_000), 1, 0, self.rng)[:, 0, 0]) ** 2
        assert rayleigh.var() == pytest.approx(1.0, rel=0.06)

    def test_blocks(self):
        assert Rayleigh(block="run").block_index(7, 99.0) == 0
        assert Rayleigh(block="round").block_index(7, 99.0) == 7
        assert Rayleigh(block=10.0).block_index(7, 99.0) == 9
        with pytest.raises(ValueError, match="block: a time"):
            Rayleigh(block=1e-9)
        assert NoFading().draw(np.arange(2), 3, 0, self.rng) is None  # one antenna, amplitude 1


def test_sector_antenna():
    azimuth = np.array([90.0])
    east = np.array([[[1000.0, 0.0]]])
    tilt = np.array([1000.0 * math.tan(math.radians(10.0))])
    assert sector_gain_db(east, tilt, azimuth)[0, 0] == pytest.approx(8.0)
    edge = 1000.0 * np.array([[[math.cos(math.radians(32.5)), math.sin(math.radians(32.5))]]])
    assert sector_gain_db(edge, tilt, azimuth)[0, 0] == pytest.approx(8.0 - 3.0)
    assert sector_gain_db(-east, tilt, azimuth)[0, 0] == pytest.approx(8.0 - 30.0)
    assert sector_gain_db(east, tilt, np.array([np.nan]))[0, 0] == 0.0


@pytest.mark.parametrize(
    "part", [Sector(), ColumnAntenna(), ColumnAntenna(elements=4, tilt_deg=3.0)]
)
@pytest.mark.parametrize(
    "azimuth_deg", [[30.0, 150.0, 270.0], [0.0, 90.0, 180.0, 270.0], [359.0, 1.0]]
)
@pytest.mark.parametrize("drop_m", [23.5, 0.0, -3.0])
def test_directly_below_or_above_a_mast_all_sectors_are_equal(part, azimuth_deg, drop_m):
    """A zero vector has no bearing, nor has a rounding of one, whatever its signs; a metre away
    there is one again."""
    n = len(azimuth_deg)
    for east_m, north_m in ((0.0, 0.0), (-0.0, -0.0), (0.0, -0.0), (1e-9, -3e-10)):
        offset_m = np.broadcast_to([east_m, north_m], (1, n, 2))
        gain = part.gain_db(offset_m, np.full(n, drop_m), np.array(azimuth_deg))[0]
        assert (gain == gain[0]).all()
        if part.kind == "sector" and drop_m > 0:
            assert gain[0] == pytest.approx(8.0 - 12.0 * (80.0 / 65.0) ** 2)
    gain = part.gain_db(
        np.broadcast_to([0.2, 1.0], (1, n, 2)), np.full(n, drop_m), np.array(azimuth_deg)
    )[0]
    assert np.ptp(gain) > 0.02


def test_thermal_noise():
    assert 10 * math.log10(noise_w(20e6, 6.0) / 1e-3) == pytest.approx(-95.0, abs=0.1)


def error_rate(snr):
    """Of QPSK symbols."""
    q = math.erfc(math.sqrt(snr / 2)) / 2
    return 2 * q - q * q


def test_symbol_error_thresholds():
    for rate, expected in zip((1e-1, 1e-2, 1e-3), (4.26, 8.22, 10.35), strict=True):
        snr = threshold(rate)
        assert 10 * math.log10(snr) == pytest.approx(expected, abs=0.0101)
        assert error_rate(snr) == pytest.approx(rate, rel=1e-9)
    worst = error_rate(0.0)
    assert threshold(worst) == pytest.approx(0.0, abs=1e-9)
    assert threshold((1 + worst) / 2) == 0.0


def test_snr_of_the_two_regions_of_the_power_law():
    """15 devices in two boxes, 15 antennas, 1.5 W in all, 1e-13 W of noise: 5, 50 and 95 % of their
    SNR."""
    rng = np.random.default_rng(7)
    snr = []
    for draw in range(1000 // 15 + 1):
        x = np.concatenate([rng.uniform(-10, 0, 7), rng.uniform(10, 20, 8)])
        at = np.stack([x, rng.uniform(-5, 5, 15)], axis=1)
        d = np.linalg.norm(at - np.array([-50.0, 0.0]), axis=1)[:, None]
        geometry = Pairs(d, np.hypot(d, 10.0), 0.0, np.array([10.0]))
        gain = 10 ** (-PowerLaw().loss_db(geometry, 915e6)[:, 0] / 10)
        h = Rayleigh(antennas=15).draw(np.arange(15), 1, draw, Streams(2).at("fading"))[:, 0]
        snr.append(10 * np.log10(0.1 * gain * (np.abs(h) ** 2).sum(axis=1) / 1e-13))
    np.testing.assert_allclose(
        np.quantile(np.concatenate(snr), [0.05, 0.5, 0.95]), [6.8, 10.7, 16.4], atol=1.0
    )
