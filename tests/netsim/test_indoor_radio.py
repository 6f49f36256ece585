"""UEs inside buildings and vehicles: heights, sight, penetration, shadowing; against formulas
written out again."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

from netsim.geometry import Area
from netsim.radio.indoor_links import Environment, Tr38901Penetration, wall_loss_db
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
        np.arange(n), *(np.broadcast_to(v, n) for v in (building, floor, depth_m, stay, in_vehicle))
    )


def world(count=40, indoor=None, stations=None, city=None, **radio):
    at = ((100.0, 650.0), (400.0, 400.0), (700.0, 100.0))
    listed = [{"name": f"b{k}", "position_m": list(p), "height_m": 25.0} for k, p in enumerate(at)]
    document = {
        "duration_s": 60.0,
        "city": city or {"kind": "open-field", "width_m": 800.0, "height_m": 800.0},
        "base_stations": stations or listed,
        "ues": {
            "count": count,
            "mobility": {"kind": "static"},
            "measurement_period_s": 10.0,
            "indoor": indoor,
        },
        "radio": {"path_loss": {"kind": "uma"}, "carrier_hz": 3.5e9, **radio},
    }
    return build_world(WorldSetting.model_validate_json(json.dumps(document)), Streams(4), 60.0)


class TestWalls:
    @pytest.mark.parametrize(
        ("ghz", "low_db", "high_db"),
        [(2.0, 11.83, 22.43), (3.5, 12.70, 26.85), (6.0, 13.40, 30.69), (28, 17.83, 37.95)],
    )
    def test_losses_of_the_table(self, ghz, low_db, high_db):
        assert wall_loss_db(ghz * 1e9, False) == pytest.approx(low_db, abs=0.05)
        assert wall_loss_db(ghz * 1e9, True) == pytest.approx(high_db, abs=0.05)

    def test_a_building_is_of_one_class_and_a_stay_has_one_spread(self):
        law = Tr38901Penetration().law(UrbanMacro(), 6e9, Streams(1).at("penetration"))
        n = 40_000
        mixed = law(inside(n, building=np.arange(n)))
        for at_db in (13.40, 22.0, 30.69):
            share = 0.5 * ndtr((at_db - 13.40) / 4.4) + 0.5 * ndtr((at_db - 30.69) / 6.5)
            assert (mixed < at_db).mean() == pytest.approx(share, abs=0.01)
        in_one = law(inside(n, building=17))
        assert in_one.std() == pytest.approx(4.4 if in_one.mean() < 22 else 6.5, rel=0.02)
        low = Tr38901Penetration(high_loss_share=0.0).law(
            UrbanMacro(), 6e9, Streams(1).at("penetration")
        )
        one = low(inside(n, building=3, depth_m=8.0))
        assert one.mean() == pytest.approx(13.40 + 4.0, abs=0.1)
        assert one.std() == pytest.approx(4.4, rel=0.02)
        np.testing.assert_array_equal(
            one[:50], low(inside(50, building=9, depth_m=8.0))
        )  # a wall elsewhere, one stay
        again = low(inside(n, building=3, depth_m=8.0, stay=1))
        assert abs(np.corrcoef(one, again)[0, 1]) < 0.02
        only = Tr38901Penetration(high_loss_share=1.0).law(
            UrbanMacro(), 6e9, Streams(1).at("penetration")
        )
        many = only(inside(n, building=3))
        assert many.mean() == pytest.approx(30.69, abs=0.1)
        assert many.std() == pytest.approx(6.5, rel=0.02)

    @pytest.mark.parametrize("share", [0.0, 0.2, None])
    def test_kinds_of_buildings_have_their_shares(self, share):
        kinds = Tr38901Penetration(high_loss_share=share).walls(UrbanMacro(), 6e9, 8.0)
        high = 0.5 if share is None else share
        wanted = [(1 - high, 13.40 + 4.0, 4.4), (high, 30.69 + 4.0, 6.5)]
        np.testing.assert_allclose(sorted(kinds, key=lambda kind: kind[2]), wanted, atol=0.05)

    @pytest.mark.parametrize(("windows", "mean_db"), [("standard", 9.0), ("metallised", 20.0)])
    def test_vehicles(self, windows, mean_db):
        law = Tr38901Penetration(vehicle=windows).law(
            UrbanMacro(), 6e9, Streams(2).at("penetration")
        )
        loss = law(inside(40_000, building=-1, in_vehicle=True))
        assert loss.mean() == pytest.approx(mean_db, abs=0.1)
        assert loss.std() == pytest.approx(5.0, rel=0.02)


class TestHeights:
    @pytest.mark.parametrize(("law", "bs_height_m"), LAWS)
    @pytest.mark.parametrize("los", [True, False])
    def test_rows_of_heights_equal_one_height_at_a_time(self, law, bs_height_m, los):
        d = np.array([[12.0, 60.0, 300.0, 1500.0, 4000.0]])
        masts = np.full(5, bs_height_m)
        heights = 1.5 + 3.0 * np.arange(9)

        def pairs(height_m, d):
            d3 = np.sqrt(d**2 + (masts - height_m) ** 2)
            return Pairs(d, d3, height_m, masts, np.full(d.shape, los))

        table = pairs(heights[:, None], np.repeat(d, 9, axis=0))
        found = law.loss_db(table, 3.5e9)
        sight = law.los_probability(table)
        low, high = law.ue_heights_m
        for k, height_m in enumerate(heights):
            one = pairs(float(height_m), d)  # the distance keeps the true height
            clipped = replace(one, ue_height_m=float(np.clip(height_m, low, high)))
            if height_m <= high:
                np.testing.assert_allclose(found[k], law.loss_db(one, 3.5e9)[0], atol=1e-9)
            else:  # the nearest link takes the loss at 10 m, whose d_3D has the true height
                np.testing.assert_allclose(
                    found[k, 1:], law.loss_db(clipped, 3.5e9)[0, 1:], atol=1e-9
                )
            np.testing.assert_allclose(sight[k], law.los_probability(one)[0], atol=1e-12)

    def test_environment_heights_enter_the_breakpoint(self):
        law = UrbanMacro()
        d = 900.0
        f = 2.0
        d3 = math.hypot(d, 25.0 - 22.5)
        for environment_m in (1.0, 12.0, 18.0):
            one = Pairs(
                np.array([[d]]),
                np.array([[d3]]),
                np.array([[22.5]]),
                np.array([25.0]),
                np.array([[True]]),
                environment_m=np.array([[environment_m]]),
            )
            bp = 4 * (25 - environment_m) * (22.5 - environment_m) * f * 1e9 / 3e8
            pl1 = 28 + 22 * math.log10(d3) + 20 * math.log10(f)
            pl2 = 28 + 40 * math.log10(d3) + 20 * math.log10(f) - 9 * math.log10(bp**2 + 2.5**2)
            expected = pl1 if d <= bp else pl2
            assert law.loss_db(one, f * 1e9)[0, 0] == pytest.approx(expected, abs=1e-9)

    def test_environment_heights_have_the_published_law_and_stay(self):
        n = 60_000
        d = 450.0
        draw = Environment(UrbanMacro(), np.array([0, 1, 1, 7]), Streams(5).at("indoors"))
        for height_m, steps in (
            (13.5, [12]),
            (16.5, [12, 15]),
            (22.5, [12, 15, 18, 21]),
            (40.5, [12, 15, 18, 21]),
        ):
            pairs = Pairs(
                np.full((n, 4), d), np.full((n, 4), d), np.full((n, 1), height_m), np.full(4, 25.0)
            )
            found = draw(pairs, inside(n))
            h = min(height_m, 22.5)
            c = ((h - 13) / 10) ** 1.5 * 1.25 * (d / 100) ** 3 * math.exp(-d / 150)
            assert (found == 1.0).mean() == pytest.approx(1 / (1 + c), abs=0.005)
            for step in steps:
                assert (found == step).mean() == pytest.approx(c / (1 + c) / len(steps), abs=0.005)
            np.testing.assert_array_equal(found[:, 1], found[:, 2])  # sectors of one site
            assert (found[:, 0] != found[:, 1]).mean() > 0.01
            np.testing.assert_array_equal(found, draw(pairs, inside(n)))
            assert (found != draw(pairs, inside(n, stay=1))).any()
            alone = Environment(UrbanMacro(), np.array([7]), Streams(5).at("indoors"))
            narrow = Pairs(
                pairs.distance_2d_m[:, :1],
                pairs.distance_3d_m[:, :1],
                pairs.ue_height_m,
                np.full(1, 25.0),
            )
            np.testing.assert_array_equal(alone(narrow, inside(n))[:, 0], found[:, 3])
        near = Pairs(
            np.full((9, 1), 17.0), np.full((9, 1), 20.0), np.full((9, 1), 22.5), np.array([25.0])
        )
        one = Environment(UrbanMacro(), np.array([0]), Streams(5).at("indoors"))
        assert (one(near, inside(9)) == 1.0).all()
        low = Pairs(
            np.full((9, 1), 450.0), np.full((9, 1), 450.0), np.full((9, 1), 10.5), np.array([25.0])
        )
        assert one(low, inside(9)) is None  # 1 m on all links
        high = Pairs(
            np.full((9, 1), 450.0), np.full((9, 1), 450.0), np.full((9, 1), 22.5), np.array([25.0])
        )
        assert one(high, inside(9)) is not None
        assert one(high, Indoors.outdoors(np.arange(9))) is None


class TestBudget:
    def test_gain_is_that_of_a_slow_link_by_link_sum(self):
        own = world(count=60, indoor={"share": 0.6})
        budget = own.budget
        at = own.position_m()
        indoors = own.indoors()
        assert 0 < indoors.inside.sum() < 60
        links = own.links()
        pairs = budget.pairs(at, indoors)
        wall = budget.penetration(indoors)
        outdoor_los = budget.shadow.seen(at)
        outdoor_nlos = budget.shadow.hidden(at)
        indoor = budget.shadow.inside(at, indoors)
        for u in range(60):
            for b in range(3):
                height_m = 1.5 + 3.0 * indoors.floor[u]
                d2 = math.dist(at[u], budget.at_m[b])
                d3 = math.hypot(d2, 25.0 - height_m)
                assert links.distance_m[u, b] == pytest.approx(d3, abs=1e-9)
                one = Pairs(
                    np.array([[d2]]),
                    np.array([[d3]]),
                    np.array([[height_m]]),
                    np.array([25.0]),
                    links.los[u : u + 1, b : b + 1],
                    np.array([[max(d2 - indoors.depth_m[u], 0.0)]]),
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
                expected = shadow - UrbanMacro().loss_db(one, 3.5e9)[0, 0] - wall[u]
                assert 10 * math.log10(links.gain[u, b]) == pytest.approx(expected, abs=1e-6)
        np.testing.assert_allclose(links.rsrp_dbm, budget.rsrp_dbm(at, indoors))

    def test_sight_is_drawn_with_the_distance_out_of_doors(self):
        at = np.random.default_rng(3).uniform(0, 800, (4000, 2))
        budget = world().budget
        deep = inside(4000, building=np.arange(4000), depth_m=25.0)
        pairs = budget.pairs(at, deep)
        np.testing.assert_allclose(pairs.outdoor_m, np.maximum(pairs.distance_2d_m - 25.0, 0.0))
        seen = UrbanMacro().los_probability(pairs)
        assert pairs.los.mean() == pytest.approx(seen.mean(), abs=0.03)
        assert pairs.los.mean() > budget.pairs(at).los.mean()


class TestShadowing:
    AREA = Area(0.0, 0.0, 2000.0, 2000.0)

    @pytest.mark.parametrize(
        ("law", "los_m", "nlos_m", "in_m", "sites"),
        [("uma", 37, 50, 7, 12), ("umi", 10, 13, 7, 2), ("rma", 37, 120, 120, 30)],
    )
    def test_every_state_has_its_field_of_the_table(self, law, los_m, nlos_m, in_m, sites):
        city = {"kind": "open-field", "width_m": 2000.0, "height_m": 2000.0}
        height_m = {"uma": 25.0, "umi": 10.0, "rma": 35.0}[law]
        stations = [
            {"name": f"b{k}", "position_m": [60.0 * k, 0.0], "height_m": height_m}
            for k in range(sites)
        ]
        budget = world(city=city, path_loss={"kind": law}, stations=stations).budget
        shadow = budget.shadow
        rows = inside(20_000, building=3, floor=2)

        rng = np.random.default_rng(8)
        at = rng.uniform(150, 1850, (20_000, 2))
        angle = rng.uniform(0, 2 * np.pi, 20_000)
        step = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        std_db = {"uma": (4, 6, 7), "umi": (4, 7.82, 7), "rma": (4, 8, 8)}[law]
        fields = (shadow.seen, shadow.hidden, lambda at: shadow.inside(at, rows))
        for field, distance_m, expected_db in zip(
            fields, (los_m, nlos_m, in_m), std_db, strict=True
        ):
            here, near, far = (field(at + k * distance_m * step) for k in (0.0, 0.9, 1.1))
            assert here.shape == (20_000, sites)
            assert here.std() == pytest.approx(expected_db, rel=0.06)
            near, far = (
                (here * there).mean() / np.sqrt((here**2).mean() * (there**2).mean())
                for there in (near, far)
            )
            assert far < math.exp(-1) < near
        assert abs(np.corrcoef(shadow.seen(at).ravel(), shadow.hidden(at).ravel())[0, 1]) < 0.1

    @pytest.mark.parametrize("expected", [0.0, 0.5])
    def test_sites_are_as_correlated_as_stated(self, expected):
        part = Correlated(
            decorrelation_m=40.0, nlos_decorrelation_m=40.0, site_correlation=expected
        )
        at = np.random.default_rng(1).uniform(0, 2000, (20_000, 2))
        rng = Streams(3).at("shadowing")
        for field in (
            part.field(self.AREA, np.arange(12), rng),
            part.nlos_field(self.AREA, np.arange(12), rng),
        ):
            value = field(at)
            assert value.std() == pytest.approx(6.0, rel=0.03)
            between = np.corrcoef(value.T)[~np.eye(12, dtype=bool)]
            assert between.mean() == pytest.approx(expected, abs=0.03)
        los = part.field(self.AREA, np.arange(12), rng)(at)
        nlos = part.nlos_field(self.AREA, np.arange(12), rng)(at)
        assert abs(np.mean([np.corrcoef(los[:, k], nlos[:, k])[0, 1] for k in range(12)])) < 0.05


class TestDraws:
    def test_floors_and_depths_are_those_of_the_table(self):
        drawn = IndoorShare().drawn(np.arange(200_000), UrbanMacro(), Streams(2).at("ues.indoor"))
        inside = drawn.inside
        assert inside.mean() == pytest.approx(0.8, abs=0.005)
        # N uniform on 4..8, n uniform on 1..N: P(n) = sum over N >= n of 1 / (5 N)
        for floor in range(8):
            expected = sum(1 / (5 * n) for n in range(4, 9) if n > floor)
            assert (drawn.floor[inside] == floor).mean() == pytest.approx(expected, abs=0.005)
        assert drawn.depth_m[inside].mean() == pytest.approx(25 / 3, abs=0.05)
        assert np.quantile(drawn.depth_m[inside], 0.75) == pytest.approx(
            12.5, abs=0.15
        )  # 1 - (1 - d / 25)^2
        assert not drawn.depth_m[~inside].any()
        assert not drawn.floor[~inside].any()
        assert len(np.unique(drawn.building[inside])) == inside.sum()  # a building each
        few = IndoorShare().drawn(np.array([5, 700]), UrbanMacro(), Streams(2).at("ues.indoor"))
        np.testing.assert_array_equal(few.floor, drawn.floor[[5, 700]])

    def test_depths_follow_the_path_loss_law(self):
        """Section 7.4.3.1: the smaller of two U(0, 10) m beside RMa; a depth that is given holds
        beside any law."""
        rng = Streams(2).at("ues.indoor")
        ue = np.arange(50_000)
        rural, urban = (
            IndoorShare(share=1.0).drawn(ue, law, rng).depth_m
            for law in (RuralMacro(), UrbanMicro())
        )
        np.testing.assert_allclose(rural, 0.4 * urban)
        given = IndoorShare(share=1.0, depth_m=25.0).drawn(ue, RuralMacro(), rng).depth_m
        np.testing.assert_array_equal(given, urban)
