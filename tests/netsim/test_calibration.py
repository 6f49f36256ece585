"""Antenna columns, wrap-around, and the distributions that companies found for the calibration of
TR 38.901."""

import json
from math import cos, log10, radians, sin, sqrt

import numpy as np
from numpy import (
    argmax,
    array,
    concatenate,
    exp,
    isfinite,
    linspace,
    median,
    nan,
    percentile,
    pi,
    sort,
    take_along_axis,
    zeros,
)
from numpy.linalg import norm
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import mark
from rows import read_yaml
from tabled import cases

from netsim.geometry import Area
from netsim.radio.antenna import ColumnAntenna, Sector, compute_sector_gain_db
from netsim.radio.downlink import Downlink, receive_broadcast
from netsim.rng import Streams
from netsim.world.base_stations import Hexagonal, number_sites
from netsim.world.build import build_world
from netsim.world.setting import WorldSetting

SQRT3 = sqrt(3.0)


class TestColumn:
    @staticmethod
    def towards(zenith_deg, azimuth_deg=0.0, away_m=1000.0):
        """Offset (1, 1, 2) and drop (1,) of a UE in a direction from an antenna that looks
        north."""
        flat_m = away_m * sin(radians(zenith_deg))
        drop_m = -away_m * cos(radians(zenith_deg))
        turn = radians(azimuth_deg)
        return flat_m * array([[[sin(turn), cos(turn)]]]), array([drop_m])

    def gain(self, column, zenith_deg, azimuth_deg=0.0):
        return float(column.gain_db(*self.towards(zenith_deg, azimuth_deg), array([0.0]))[0, 0])

    def test_the_peak_is_that_of_the_calibration(self):
        zenith = linspace(60, 130, 7001)
        gains = [self.gain(ColumnAntenna(), z) for z in zenith]
        assert_allclose(max(gains), 17.6, atol=0.05)
        assert_allclose(zenith[argmax(gains)], 102.0, atol=0.5)  # the element pulls it up

    @mark.parametrize(
        "elements, spacing, tilt",
        cases("""
    10, 0.5, 12.0
    4, 0.8, 0.0
    1, 0.5, 30.0
    8, 1.0, -6.0
"""),
    )
    def test_it_is_the_sum_over_its_elements(self, elements, spacing, tilt):
        column = ColumnAntenna(elements=elements, spacing=spacing, tilt_deg=tilt)
        for zenith in (31.0, 75.0, 90.0, 96.0, 102.0, 140.0):
            for azimuth in (0.0, 40.0, 170.0):
                a = min(12 * ((zenith - 90) / 65) ** 2, 30)
                a = 8 - min(a + min(12 * (azimuth / 65) ** 2, 30), 30)
                x = cos(radians(zenith)) - cos(radians(90 + tilt))
                total = sum(exp(2j * pi * m * spacing * x) for m in range(elements)) / sqrt(
                    elements
                )
                expected = a + 20 * log10(max(abs(total), 1e-10))
                assert_allclose(self.gain(column, zenith, azimuth), expected, atol=1e-6)

    def test_one_element_is_the_pattern_without_tilt(self):
        offset, drop = self.towards(100.0, 25.0)
        north = array([0.0])
        single = ColumnAntenna(elements=1).gain_db(offset, drop, north)
        assert_allclose(single, compute_sector_gain_db(offset, drop, north, 0.0), atol=1e-9)
        sector = Sector().gain_db(offset, drop, north)
        assert_array_equal(sector, compute_sector_gain_db(offset, drop, north))
        assert ColumnAntenna().gain_db(offset, drop, array([nan]))[0, 0] == 0.0
        below = ColumnAntenna().gain_db(zeros((1, 1, 2)), north, north)
        assert isfinite(below).all()  # at the antenna itself

    def test_every_station_has_its_own(self):
        stations = read_yaml("""
            all: [
                {name: a, position_m: [50.0, 50.0], azimuth_deg: 0, antenna: {kind: column}},
                {name: b, position_m: [50.0, 50.0], azimuth_deg: 0},
                {name: c, position_m: [50.0, 50.0]},
                {name: d, position_m: [50.0, 50.0], azimuth_deg: 0,
                 antenna: {kind: column, elements: 4}}]
        """)["all"]
        world = build_sited_world(stations, radio={"path_loss": {"kind": "free-space"}})
        place = array([[80.0, 300.0], [10.0, 10.0]])
        gain = world.budget.gain_db(place, world.budget.compute_pairs(place))
        offset = place[:, None] - 50.0
        drop = array([23.5])
        for k, part in ((0, ColumnAntenna()), (1, Sector()), (3, ColumnAntenna(elements=4))):
            expected = part.gain_db(offset, drop, array([0.0]))[:, 0]
            assert_allclose(gain[:, k] - gain[:, 2], expected, atol=1e-9)


def build_sited_world(stations, ues=None, radio=None, side_m=(400.0, 400.0), seed=1):
    document = {
        "duration_s": 10.0,
        "city": {"kind": "open-field", "width_m": side_m[0], "height_m": side_m[1]},
        "base_stations": stations,
        "radio": radio or {},
        "ues": {
            "count": 5,
            "mobility": {"kind": "static"},
            "measurement_period_s": 10.0,
            **(ues or {}),
        },
    }
    return build_world(WorldSetting.model_validate_json(json.dumps(document)), Streams(seed), 60.0)


class TestRings:
    def test_nineteen_sites_around_the_middle_whatever_the_area(self):
        for area in (Area(0.0, 0.0, 100.0, 50.0), Area(-900.0, 0.0, 9000.0, 800.0)):
            place = array(
                [b.position_m for b in Hexagonal(rings=2, inter_site_m=500).stations(area, None)]
            )
            assert len(place) == 19
            away = sort(norm(place - area.centre_m, axis=1))
            rings = [0.0] + [500.0] * 6 + [500.0 * SQRT3] * 6 + [1000.0] * 6
            assert_allclose(away, rings, atol=1e-9)
        assert [len(Hexagonal(rings=r).stations(area, None)) for r in range(4)] == [1, 7, 19, 37]

    def test_images_are_those_of_the_literature(self):
        shifts = Hexagonal(rings=2, inter_site_m=1.0, wrap_around=True).shifts_m
        a = array([1.0, 0.0])
        b = array([0.5, SQRT3 / 2])
        expected = [
            0 * a,
            3 * a + 2 * b,
            -3 * a - 2 * b,
            -2 * a + 5 * b,
            2 * a - 5 * b,
            -5 * a + 3 * b,
            5 * a - 3 * b,
        ]
        actual = {tuple(np.round(s, 9) + 0.0) for s in shifts}
        assert actual == {tuple(np.round(s, 9) + 0.0) for s in expected}
        assert_allclose(norm(shifts[1:], axis=1), sqrt(19))
        assert Hexagonal(rings=2).shifts_m.tolist() == [[0.0, 0.0]]

    @mark.parametrize("rings", [1, 2, 3])
    def test_the_nearest_image_counts_for_distance_and_angle(self, rings):
        layout = {
            "kind": "hexagonal",
            "rings": rings,
            "wrap_around": True,
            "sectors": 3,
            "inter_site_m": 100,
        }
        world = build_sited_world(layout, side_m=(340.0, 170.0))
        budget = world.budget
        place = default_rng(0).uniform((0, 0), (340, 170), (300, 2))
        values = Hexagonal(rings=rings, inter_site_m=100.0, wrap_around=True).shifts_m
        many = array([i * values[1] + j * values[2] for i in range(-4, 5) for j in range(-4, 5)])
        offset = place[:, None, None] - budget.at_m[None, :, None] - many  # (n, n_bs, images, 2)
        best = norm(offset, axis=-1).argmin(axis=2)
        nearest = take_along_axis(offset, best[:, :, None, None], axis=2)[:, :, 0]
        pairs = budget.compute_pairs(place)
        assert_allclose(pairs.offset_m, nearest, atol=1e-9)
        assert_allclose(pairs.distance_2d_m, norm(nearest, axis=-1), atol=1e-9)
        expected = compute_sector_gain_db(nearest, budget.height_m - 1.5, budget.azimuth_deg)
        result = budget.gain_db(place, pairs) + budget.path_loss.loss_db(pairs, 2.6e9)
        assert_allclose(result, expected, atol=1e-9)

    def test_every_site_is_in_the_middle(self):
        """A step from site to site leaves the distances to all sites as they are."""
        layout = read_yaml("kind: hexagonal, rings: 2, wrap_around: true, inter_site_m: 100")
        budget = build_sited_world(layout, side_m=(400.0, 340.0)).budget
        place = default_rng(0).uniform((100, 90), (250, 200), (50, 2))
        position = sort(budget.compute_pairs(place).distance_2d_m, axis=1)
        for step in ((100.0, 0.0), (50.0, 50.0 * SQRT3)):
            actual = sort(budget.compute_pairs(place + step).distance_2d_m, axis=1)
            assert_allclose(
                actual,
                position,
                atol=1e-9,
            )


class TestDistances:
    def test_static_ues_keep_away_from_stations_and_their_images(self):
        layout = read_yaml("kind: hexagonal, rings: 1, wrap_around: true, inter_site_m: 100")

        def drawn(count, **mobility):
            return build_sited_world(
                layout,
                {"count": count, "mobility": {"kind": "static", **mobility}},
                side_m=(300.0, 173.0),
            )

        world = drawn(3000, min_station_distance_m=35)
        plain = drawn(3000)
        pairs = world.budget.compute_pairs(world.locate_ues())
        assert 35.0 <= pairs.distance_2d_m.min() < 36.0
        far = plain.budget.compute_pairs(plain.locate_ues()).distance_2d_m.min(axis=1) >= 35.0
        assert_array_equal(world.locate_ues()[far], plain.locate_ues()[far])  # nobody else moves
        assert 0.4 < far.mean() < 0.8
        few = drawn(7, min_station_distance_m=35)
        assert_array_equal(few.locate_ues(), world.locate_ues()[:7])


# medians of 20 companies, 5, 50 and 95 %: coupling gain, geometry, SINR in dB [3GPP R1-165974]
PUBLISHED = read_yaml("""
    uma: [[-150.1, -120.0, -86.1], [-1.0, 8.6, 25.6], [-9.2, 5.8, 24.7]],
    umi: [[-141.9, -111.5, -74.7], [-1.7, 7.4, 24.9], [-6.4, 5.8, 24.0]]
""")


DROPS = read_yaml("uma: [500, 25, 49, 35], umi: [200, 10, 44, 10]")
"""Inter-site distance, height, power, least distance of UEs."""


def drop(kind, seed, count):
    """One drop of the calibration [TR 38.901, Table 7.8-1] at 6 GHz."""
    inter_site_m, height_m, power_dbm, nearest_m = DROPS[kind]
    layout = read_yaml(
        "kind: hexagonal, sectors: 3, rings: 2, wrap_around: true, antenna: {kind: column}"
    )
    layout |= {"inter_site_m": inter_site_m, "height_m": height_m}
    layout["power_dbm"] = power_dbm - 31.25  # 20 MHz, 15 kHz
    away = {"kind": "static", "min_station_distance_m": nearest_m}
    ues = {"count": count, "mobility": away, "indoor": {"share": 0.8}}
    radio = {"carrier_hz": 6e9, "path_loss": {"kind": kind}}
    side_m = (4.0 * inter_site_m, 2.0 * SQRT3 * inter_site_m)
    world = build_sited_world(layout, ues, radio, side_m, seed)
    links = world.compute_links()
    return world, receive_broadcast(links, links.serving, Downlink())


@mark.slow
@mark.parametrize("kind", PUBLISHED)
def test_the_published_distributions_are_met(kind):
    drops = [drop(kind, seed, 3000)[1] for seed in range(4)]
    within = (("gain_db", 1.5), ("geometry_db", 0.5), ("sinr_db", 0.8))
    for (name, within_db), published in zip(within, PUBLISHED[kind], strict=True):
        result = percentile(concatenate([getattr(d, name) for d in drops]), (5, 50, 95))
        assert_allclose(result, published, rtol=0, atol=within_db, err_msg=name)


def test_a_small_drop_is_near_the_published_medians():
    world, single = drop("uma", 1, 1500)
    assert len(world.stations) == 57
    assert len(set(number_sites(world.stations))) == 19
    assert_allclose(median(single.gain_db), -120.0, atol=3.0)
    assert_allclose(median(single.geometry_db), 8.6, atol=1.5)
    assert_allclose(percentile(single.geometry_db, 95), 25.6, atol=1.5)
