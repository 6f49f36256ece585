"""UEs inside buildings and vehicles: heights, sight, penetration, shadowing; against formulas
written out again."""

import json
from dataclasses import replace
from math import dist, exp, hypot, log10

from numpy import (
    arange,
    array,
    broadcast_to,
    clip,
    corrcoef,
    cos,
    eye,
    full,
    maximum,
    mean,
    pi,
    quantile,
    repeat,
    sin,
    sqrt,
    stack,
    unique,
)
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import mark
from rows import read_yaml
from scipy.special import ndtr
from tabled import cases

from netsim.geometry import Area
from netsim.radio.indoor_links import Environment, Tr38901Penetration, compute_wall_loss_db
from netsim.radio.path_loss import Pairs, RuralMacro, UrbanMacro, UrbanMicro
from netsim.radio.shadowing import Correlated
from netsim.rng import Streams
from netsim.ues import Indoors
from netsim.world.build import build_world
from netsim.world.setting import IndoorShare, WorldSetting

LAWS = [(UrbanMacro(), 25.0), (UrbanMicro(), 10.0), (RuralMacro(), 35.0)]


def inside(n, building=0, floor=0, depth_m=0.0, stay=0, in_vehicle=False):
    """n rows of UEs 0, 1, ...; scalars hold for all of them."""
    return Indoors(
        arange(n), *(broadcast_to(v, n) for v in (building, floor, depth_m, stay, in_vehicle))
    )


def build_column(distance_m, height_m, distance_3d_m=450.0):
    """Nine links of UEs of one height to a mast."""
    rows = (full((9, 1), x) for x in (distance_m, distance_3d_m, height_m))
    return Pairs(*rows, array([25.0]))


def world(count=40, indoor=None, stations=None, city=None, **radio):
    listed = read_yaml("""
        all: [
            {name: b0, position_m: [100.0, 650.0], height_m: 25.0},
            {name: b1, position_m: [400.0, 400.0], height_m: 25.0},
            {name: b2, position_m: [700.0, 100.0], height_m: 25.0}]
    """)["all"]
    document = read_yaml("""
        duration_s: 60.0, city: {kind: open-field, width_m: 800.0, height_m: 800.0},
        ues: {mobility: {kind: static}, measurement_period_s: 10.0},
        radio: {path_loss: {kind: uma}, carrier_hz: 3.5e9}
    """)
    document["base_stations"] = stations or listed
    document["city"] = city or document["city"]
    document["ues"] |= {"count": count, "indoor": indoor}
    document["radio"] |= radio
    return build_world(WorldSetting.model_validate_json(json.dumps(document)), Streams(4), 60.0)


class TestWalls:
    @mark.parametrize(
        "ghz, low_db, high_db",
        cases("""
    2.0, 11.83, 22.43
    3.5, 12.70, 26.85
    6.0, 13.40, 30.69
    28, 17.83, 37.95
"""),
    )
    def test_losses_of_the_table(self, ghz, low_db, high_db):
        assert_allclose(compute_wall_loss_db(ghz * 1e9, False), low_db, atol=0.05)
        assert_allclose(compute_wall_loss_db(ghz * 1e9, True), high_db, atol=0.05)

    def test_a_building_is_of_one_class_and_a_stay_has_one_spread(self):
        rng = Streams(1).derive_rng("penetration")
        law = Tr38901Penetration().build_law(UrbanMacro(), 6e9, rng)
        n = 40_000
        mixed = law(inside(n, building=arange(n)))
        for at_db in (13.40, 22.0, 30.69):
            share = 0.5 * ndtr((at_db - 13.40) / 4.4) + 0.5 * ndtr((at_db - 30.69) / 6.5)
            assert_allclose((mixed < at_db).mean(), share, atol=0.01)
        in_one = law(inside(n, building=17))
        assert_allclose(in_one.std(), 4.4 if in_one.mean() < 22 else 6.5, rtol=0.02)
        low = Tr38901Penetration(high_loss_share=0.0).build_law(UrbanMacro(), 6e9, rng)
        single = low(inside(n, building=3, depth_m=8.0))
        assert_allclose(single.mean(), 13.40 + 4.0, atol=0.1)
        assert_allclose(single.std(), 4.4, rtol=0.02)
        # a wall elsewhere, one stay
        assert_array_equal(single[:50], low(inside(50, building=9, depth_m=8.0)))
        again = low(inside(n, building=3, depth_m=8.0, stay=1))
        assert abs(corrcoef(single, again)[0, 1]) < 0.02
        only = Tr38901Penetration(high_loss_share=1.0).build_law(UrbanMacro(), 6e9, rng)
        many = only(inside(n, building=3))
        assert_allclose(many.mean(), 30.69, atol=0.1)
        assert_allclose(many.std(), 6.5, rtol=0.02)

    @mark.parametrize("share", [0.0, 0.2, None])
    def test_kinds_of_buildings_have_their_shares(self, share):
        kinds = Tr38901Penetration(high_loss_share=share).list_walls(UrbanMacro(), 6e9, 8.0)
        high = 0.5 if share is None else share
        expected = [(1 - high, 13.40 + 4.0, 4.4), (high, 30.69 + 4.0, 6.5)]
        assert_allclose(sorted(kinds, key=lambda kind: kind[2]), expected, atol=0.05)

    @mark.parametrize("windows, mean_db", [("standard", 9.0), ("metallised", 20.0)])
    def test_vehicles(self, windows, mean_db):
        law = Tr38901Penetration(vehicle=windows).build_law(
            UrbanMacro(), 6e9, Streams(2).derive_rng("penetration")
        )
        loss = law(inside(40_000, building=-1, in_vehicle=True))
        assert_allclose(loss.mean(), mean_db, atol=0.1)
        assert_allclose(loss.std(), 5.0, rtol=0.02)


class TestHeights:
    @mark.parametrize("law, bs_height_m", LAWS)
    @mark.parametrize("los", [True, False])
    def test_rows_of_heights_equal_one_height_at_a_time(self, law, bs_height_m, los):
        d = array([[12.0, 60.0, 300.0, 1500.0, 4000.0]])
        masts = full(5, bs_height_m)
        heights = 1.5 + 3.0 * arange(9)

        def pairs(height_m, d):
            d3 = sqrt(d**2 + (masts - height_m) ** 2)
            return Pairs(d, d3, height_m, masts, full(d.shape, los))

        table = pairs(heights[:, None], repeat(d, 9, axis=0))
        result = law.loss_db(table, 3.5e9)
        sight = law.los_probability(table)
        low, high = law.ue_heights_m
        for k, height_m in enumerate(heights):
            single = pairs(float(height_m), d)  # the distance keeps the true height
            clipped = replace(single, ue_height_m=float(clip(height_m, low, high)))
            if height_m <= high:
                assert_allclose(result[k], law.loss_db(single, 3.5e9)[0], atol=1e-9)
            else:  # the nearest link takes the loss at 10 m, whose d_3D has the true height
                assert_allclose(result[k, 1:], law.loss_db(clipped, 3.5e9)[0, 1:], atol=1e-9)
            assert_allclose(sight[k], law.los_probability(single)[0], atol=1e-12)

    def test_environment_heights_enter_the_breakpoint(self):
        law = UrbanMacro()
        d = 900.0
        f = 2.0
        d3 = hypot(d, 25.0 - 22.5)
        column = [array([[x]]) for x in (d, d3, 22.5)]
        near_db = 28 + 20 * log10(f)
        for environment_m in (1.0, 12.0, 18.0):
            single = Pairs(
                *column, array([25.0]), array([[True]]), environment_m=array([[environment_m]])
            )
            bp = 4 * (25 - environment_m) * (22.5 - environment_m) * f * 1e9 / 3e8
            pl1 = near_db + 22 * log10(d3)
            pl2 = near_db + 40 * log10(d3) - 9 * log10(bp**2 + 2.5**2)
            expected = pl1 if d <= bp else pl2
            assert_allclose(law.loss_db(single, f * 1e9)[0, 0], expected, atol=1e-9)

    def test_environment_heights_have_the_published_law_and_stay(self):
        n = 60_000
        d = 450.0
        rng = Streams(5).derive_rng("indoors")
        draw = Environment(UrbanMacro(), array([0, 1, 1, 7]), rng)
        for height_m, steps in cases("""
            13.5, [12]
            16.5, [12, 15]
            22.5, [12, 15, 18, 21]
            40.5, [12, 15, 18, 21]
        """):
            pairs = Pairs(full((n, 4), d), full((n, 4), d), full((n, 1), height_m), full(4, 25.0))
            result = draw(pairs, inside(n))
            h = min(height_m, 22.5)
            c = ((h - 13) / 10) ** 1.5 * 1.25 * (d / 100) ** 3 * exp(-d / 150)
            assert_allclose((result == 1.0).mean(), 1 / (1 + c), atol=0.005)
            for step in steps:
                assert_allclose((result == step).mean(), c / (1 + c) / len(steps), atol=0.005)
            assert_array_equal(result[:, 1], result[:, 2])  # sectors of one site
            assert (result[:, 0] != result[:, 1]).mean() > 0.01
            assert_array_equal(result, draw(pairs, inside(n)))
            assert (result != draw(pairs, inside(n, stay=1))).any()
            alone = Environment(UrbanMacro(), array([7]), rng)
            narrow = Pairs(
                pairs.distance_2d_m[:, :1],
                pairs.distance_3d_m[:, :1],
                pairs.ue_height_m,
                full(1, 25.0),
            )
            assert_array_equal(alone(narrow, inside(n))[:, 0], result[:, 3])
        near = build_column(17.0, 22.5, distance_3d_m=20.0)
        single = Environment(UrbanMacro(), array([0]), rng)
        assert (single(near, inside(9)) == 1.0).all()
        low = build_column(450.0, 10.5)
        assert single(low, inside(9)) is None  # 1 m on all links
        high = build_column(450.0, 22.5)
        assert single(high, inside(9)) is not None
        assert single(high, Indoors.outdoors(arange(9))) is None


class TestBudget:
    def test_gain_is_that_of_a_slow_link_by_link_sum(self):
        values = world(count=60, indoor={"share": 0.6})
        budget = values.budget
        place = values.locate_ues()
        indoors = values.find_indoors()
        assert 0 < indoors.inside.sum() < 60
        links = values.compute_links()
        pairs = budget.compute_pairs(place, indoors)
        wall = budget.penetration(indoors)
        outdoor_los = budget.shadow.seen(place)
        outdoor_nlos = budget.shadow.hidden(place)
        indoor = budget.shadow.inside(place, indoors)
        for u in range(60):
            for b in range(3):
                height_m = 1.5 + 3.0 * indoors.floor[u]
                d2 = dist(place[u], budget.at_m[b])
                d3 = hypot(d2, 25.0 - height_m)
                assert_allclose(links.distance_m[u, b], d3, atol=1e-9)
                single = Pairs(
                    array([[d2]]),
                    array([[d3]]),
                    array([[height_m]]),
                    array([25.0]),
                    links.los[u : u + 1, b : b + 1],
                    array([[max(d2 - indoors.depth_m[u], 0.0)]]),
                    None
                    if pairs.environment_m is None
                    else pairs.environment_m[u : u + 1, b : b + 1],
                )
                if links.los[u, b]:
                    outdoor = outdoor_los[u, b]
                else:
                    outdoor = outdoor_nlos[u, b]
                if indoors.building[u] >= 0:
                    shadow = indoor[u, b]
                else:
                    shadow = outdoor
                expected = shadow - UrbanMacro().loss_db(single, 3.5e9)[0, 0] - wall[u]
                assert_allclose(10 * log10(links.gain[u, b]), expected, atol=1e-6)
        assert_allclose(links.rsrp_dbm, budget.rsrp_dbm(place, indoors))

    def test_sight_is_drawn_with_the_distance_out_of_doors(self):
        place = default_rng(3).uniform(0, 800, (4000, 2))
        budget = world().budget
        deep = inside(4000, building=arange(4000), depth_m=25.0)
        pairs = budget.compute_pairs(place, deep)
        assert_allclose(pairs.outdoor_distance_m, maximum(pairs.distance_2d_m - 25.0, 0.0))
        seen = UrbanMacro().los_probability(pairs)
        assert_allclose(pairs.los.mean(), seen.mean(), atol=0.03)
        assert pairs.los.mean() > budget.compute_pairs(place).los.mean()


class TestShadowing:
    AREA = Area(0.0, 0.0, 2000.0, 2000.0)

    @mark.parametrize(
        "law, height_m, distances_m, stds_db, sites",
        cases("""
    "uma", 25.0, (37, 50, 7), (4, 6, 7), 12
    "umi", 10.0, (10, 13, 7), (4, 7.82, 7), 2
    "rma", 35.0, (37, 120, 120), (4, 8, 8), 30
"""),
    )
    def test_every_state_has_its_field_of_the_table(
        self, law, height_m, distances_m, stds_db, sites
    ):
        city = {"kind": "open-field", "width_m": 2000.0, "height_m": 2000.0}
        stations = [
            {"name": f"b{k}", "position_m": [60.0 * k, 0.0], "height_m": height_m}
            for k in range(sites)
        ]
        budget = world(city=city, path_loss={"kind": law}, stations=stations).budget
        shadow = budget.shadow
        rows = inside(20_000, building=3, floor=2)

        rng = default_rng(8)
        place = rng.uniform(150, 1850, (20_000, 2))
        angle = rng.uniform(0, 2 * pi, 20_000)
        step = stack([cos(angle), sin(angle)], axis=1)
        fields = (shadow.seen, shadow.hidden, lambda place: shadow.inside(place, rows))
        for field, distance_m, expected_db in zip(fields, distances_m, stds_db, strict=True):
            position, near, far = (field(place + k * distance_m * step) for k in (0.0, 0.9, 1.1))
            assert position.shape == (20_000, sites)
            assert_allclose(position.std(), expected_db, rtol=0.06)
            near, far = (
                (position * is_present).mean() / sqrt((position**2).mean() * (is_present**2).mean())
                for is_present in (near, far)
            )
            assert far < exp(-1) < near
        assert abs(corrcoef(shadow.seen(place).ravel(), shadow.hidden(place).ravel())[0, 1]) < 0.1

    @mark.parametrize("expected", [0.0, 0.5])
    def test_sites_are_as_correlated_as_stated(self, expected):
        part = Correlated(
            decorrelation_m=40.0, nlos_decorrelation_m=40.0, site_correlation=expected
        )
        place = default_rng(1).uniform(0, 2000, (20_000, 2))
        rng = Streams(3).derive_rng("shadowing")
        fields = [
            draw(self.AREA, arange(12), rng) for draw in (part.draw_field, part.draw_nlos_field)
        ]
        for field in fields:
            value = field(place)
            assert_allclose(value.std(), 6.0, rtol=0.03)
            between = corrcoef(value.T)[~eye(12, dtype=bool)]
            assert_allclose(between.mean(), expected, atol=0.03)
        los, nlos = (field(place) for field in fields)
        assert abs(mean([corrcoef(los[:, k], nlos[:, k])[0, 1] for k in range(12)])) < 0.05


class TestDraws:
    def test_floors_and_depths_are_those_of_the_table(self):
        drawn = IndoorShare().draw_indoors(
            arange(200_000), UrbanMacro(), Streams(2).derive_rng("ues.indoor")
        )
        inside = drawn.inside
        assert_allclose(inside.mean(), 0.8, atol=0.005)
        # N uniform on 4..8, n uniform on 1..N: P(n) = sum over N >= n of 1 / (5 N)
        for floor in range(8):
            expected = sum(1 / (5 * n) for n in range(4, 9) if n > floor)
            assert_allclose((drawn.floor[inside] == floor).mean(), expected, atol=0.005)
        assert_allclose(drawn.depth_m[inside].mean(), 25 / 3, atol=0.05)
        # 1 - (1 - d / 25)^2
        assert_allclose(quantile(drawn.depth_m[inside], 0.75), 12.5, atol=0.15)
        assert not drawn.depth_m[~inside].any()
        assert not drawn.floor[~inside].any()
        assert len(unique(drawn.building[inside])) == inside.sum()  # a building each
        few = IndoorShare().draw_indoors(
            array([5, 700]), UrbanMacro(), Streams(2).derive_rng("ues.indoor")
        )
        assert_array_equal(few.floor, drawn.floor[[5, 700]])

    def test_depths_follow_the_path_loss_law(self):
        """Section 7.4.3.1: the smaller of two U(0, 10) m beside RMa; a depth that is given holds
        beside any law."""
        rng = Streams(2).derive_rng("ues.indoor")
        ue = arange(50_000)
        rural, urban = (
            IndoorShare(share=1.0).draw_indoors(ue, law, rng).depth_m
            for law in (RuralMacro(), UrbanMicro())
        )
        assert_allclose(rural, 0.4 * urban)
        inputs = IndoorShare(share=1.0, depth_m=25.0).draw_indoors(ue, RuralMacro(), rng).depth_m
        assert_array_equal(inputs, urban)
