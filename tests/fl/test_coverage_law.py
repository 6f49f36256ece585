"""The coverage prior: its integral against draws of the generating law, its footprints, and where
it is refused."""

import numpy as np
import pytest
import shapely

from fl.learners.rsrp_net import RsrpNet
from fl.priors import Coverage, _mean_depth_m
from fl.types import Public
from netsim.city.buildings import Buildings
from netsim.rng import Streams
from netsim.ues import Indoors
from netsim.world.base_stations import sites
from netsim.world.build import build_world
from netsim.world.coverage_law import CoverageLaw, _clipped_mean
from netsim.world.setting import WorldSetting

WORLD = {
    "duration_s": 60,
    "city": {"kind": "open-field", "width_m": 600, "height_m": 400},
    "base_stations": [
        {"name": "a", "position_m": [50, 80], "azimuth_deg": 30},
        {"name": "b", "position_m": [50, 80], "azimuth_deg": 150},
        {"name": "c", "position_m": [550, 330]},
    ],
    "ues": {"count": 1, "mobility": {"kind": "random-waypoint"}, "measurement_period_s": 60},
    "radio": {"carrier_hz": 3.5e9, "path_loss": {"kind": "uma"}, "measurement_noise_db": 2.5},
}
PLACE_M = np.array([[120.0, 140.0], [300.0, 200.0], [420.0, 60.0], [590.0, 390.0]])
EVERY = np.arange(3)
EXACT = -np.inf, np.inf


def world_of(seed, **radio):
    setting = WorldSetting.model_validate(WORLD | {"radio": WORLD["radio"] | radio}, strict=False)
    return build_world(setting, Streams(seed), 60.0), setting


def law_of(**radio):
    world, setting = world_of(1, **radio)
    return CoverageLaw(setting.radio, world.budget, sites(world.stations))


@pytest.mark.parametrize(
    ("floor", "depth_m", "radio", "clip_dbm"),
    [
        (0, None, {}, EXACT),
        (5, 3.0, {}, EXACT),
        (0, None, {"path_loss": {"kind": "log-distance", "exponent": 8}}, EXACT),
        (
            0,
            None,
            {"path_loss": {"kind": "log-distance", "exponent": 5.5}, "rsrp_report": "quantised-nr"},
            (-156, -31),
        ),
    ],
)
def test_the_integral_is_the_mean_of_what_the_radio_draws(floor, depth_m, radio, clip_dbm):
    radio |= {"shadowing": {"kind": "correlated"}} if "path_loss" in radio else {}
    law = law_of(**radio)
    noise = np.random.default_rng(1)
    copies = 1 if depth_m is None else 40
    n = copies * len(PLACE_M)
    found = []
    for seed in range(150):
        indoors = None
        of = np.arange(n)
        if depth_m is not None:
            none = np.zeros(n, dtype=bool)
            indoors = Indoors(
                of, of + 1000 * seed, np.full(n, floor), np.full(n, depth_m), of, none
            )
        strongest = (
            world_of(seed, **radio)[0]
            .budget.rsrp_dbm(np.repeat(PLACE_M, copies, axis=0), indoors)
            .max(axis=1)
        )
        reported = np.clip(strongest + noise.normal(0, 2.5, n), *clip_dbm)
        found.append(reported.reshape(len(PLACE_M), copies).mean(axis=1))
    mean = np.mean(found, axis=0)
    error = np.std(found, axis=0) / np.sqrt(len(found))
    expected = law.mean_dbm(PLACE_M, EVERY, floor, depth_m)
    assert (error < 1.2).all()
    assert (np.abs(mean - expected) < 4 * error + 0.1).all(), (mean, expected, error)


def test_a_clipped_normal_has_its_closed_form():
    draw = np.random.default_rng(2).normal(-138.0, 6.0, 1_000_000)
    lte = (-140.0, -44.0)
    assert _clipped_mean(np.array([-138.0]), 6.0, lte)[0] == pytest.approx(
        np.clip(draw, -140, -44).mean(), abs=0.02
    )
    np.testing.assert_allclose(
        _clipped_mean(np.array([-300.0, -90.0, 0.0]), 0.0, lte), [-140, -90, -44]
    )


def test_without_shadowing_noise_and_hidden_links_it_is_the_budget():
    world, setting = world_of(
        1, line_of_sight={"kind": "always"}, shadowing={"kind": "none"}, measurement_noise_db=0.0
    )
    law = CoverageLaw(setting.radio, world.budget, sites(world.stations))
    expected = world.budget.rsrp_dbm(PLACE_M).max(axis=1)
    np.testing.assert_allclose(
        law.mean_dbm(PLACE_M, EVERY, 0, None), expected, atol=1.0
    )  # levels of 2 dB


def public_of(law, buildings=None):
    world = world_of(1)[0]
    cells = np.zeros(3, dtype=np.int64)
    return Public(world.area, 1, n_cell=3, model_of_cell=cells, buildings=buildings, coverage=law)


class TestPrior:
    YARD = shapely.Polygon(
        [(200, 100), (300, 100), (300, 200), (200, 200)],
        [[(230, 130), (270, 130), (270, 170), (230, 170)]],
    )
    TOWER = shapely.Polygon([(400, 200), (440, 200), (440, 240), (400, 240)])

    def test_it_says_of_a_place_what_the_law_says_of_its_floors(self):
        law = law_of()
        shapes = np.array([self.YARD, self.TOWER], dtype=object)
        buildings = Buildings(shapes, np.array([3.0, 9.0]))
        constants = Coverage().constants(public_of(law, buildings))
        at = np.array(
            [[215.0, 115.0], [420.0, 220.0], [250.0, 150.0], [100.0, 300.0]]
        )  # in both; the yard; outside
        depth_m = _mean_depth_m(buildings)
        of_floor = [law.mean_dbm(at, EVERY, k, depth_m) for k in range(3)]
        outside = law.mean_dbm(at, EVERY, 0, None)
        expected = [of_floor[0][0], np.mean(of_floor, axis=0)[1], outside[2], outside[3]]
        model = np.zeros(4, dtype=np.int64)
        np.testing.assert_allclose(
            Coverage().expected_dbm(constants, model, at), expected, atol=0.5
        )  # grid of 20 m
        beyond = Coverage().expected_dbm(constants, model[:1], np.array([[-50.0, 900.0]]))
        assert np.isfinite(beyond).all()  # the edge of the grid

    def test_every_model_has_the_map_of_its_own_cells(self):
        law = law_of()
        world = world_of(1)[0]
        public = Public(world.area, 2, n_cell=3, model_of_cell=np.array([0, 0, 1]), coverage=law)
        at = np.repeat([[300.0, 200.0], [120.0, 140.0]], 2, axis=0)
        model = np.array([0, 1, 0, 1])
        expected = [
            law.mean_dbm(place[None], np.array(cells), 0, None)[0]
            for place, cells in zip(at, ([0, 1], [2], [0, 1], [2]), strict=True)
        ]
        np.testing.assert_allclose(
            Coverage().expected_dbm(Coverage().constants(public), model, at), expected, atol=0.5
        )

    def test_a_network_learns_the_difference_to_it(self):
        learner = RsrpNet(hidden=(4,), labels="standardised", prior=Coverage())
        model = learner.init(public_of(law_of()), Streams(1).at("learner.init"))
        flat = type(model)(np.zeros_like(model.parameters), model.constants)
        zero = np.zeros(len(PLACE_M), dtype=np.int64)
        expected = law_of().mean_dbm(PLACE_M, EVERY, 0, None)
        np.testing.assert_allclose(learner.predict_dbm(flat, zero, PLACE_M), expected, atol=0.5)
