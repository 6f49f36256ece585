"""The coverage prior: its integral against draws of the generating law, its footprints, and where
it is refused."""

import numpy as np
import pytest
import shapely
from numpy.random import default_rng
from numpy.testing import assert_allclose

from fl.learners.rsrp_net import RsrpNet
from fl.priors import Coverage, _measure_mean_depth_m
from fl.types import Public
from netsim.city.buildings import Buildings
from netsim.rng import Streams
from netsim.ues import Indoors
from netsim.world.base_stations import number_sites
from netsim.world.build import build_world
from netsim.world.coverage_law import CoverageLaw, _average_clipped
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


def make_world(seed, **radio):
    setting = WorldSetting.model_validate(WORLD | {"radio": WORLD["radio"] | radio}, strict=False)
    return build_world(setting, Streams(seed), 60.0), setting


def make_law(**radio):
    world, setting = make_world(1, **radio)
    return CoverageLaw(setting.radio, world.budget, number_sites(world.stations))


@pytest.mark.parametrize(
    "floor, depth_m, path_loss, clip_dbm",
    [
        (0, None, None, EXACT),
        (5, 3.0, None, EXACT),
        (0, None, {"exponent": 8}, EXACT),
        (0, None, {"exponent": 5.5}, (-156, -31)),
    ],
)
def test_the_integral_is_the_mean_of_what_the_radio_draws(floor, depth_m, path_loss, clip_dbm):
    radio = {}
    if path_loss:
        path_loss = {"kind": "log-distance"} | path_loss
        radio = {"path_loss": path_loss, "shadowing": {"kind": "correlated"}}
    if clip_dbm != EXACT:
        radio["rsrp_report"] = "quantised-nr"
    law = make_law(**radio)
    noise = default_rng(1)
    copies = 1 if depth_m is None else 40
    n = copies * len(PLACE_M)
    ue = np.arange(n)
    means = []
    for seed in range(100):
        indoors = None
        if depth_m is not None:
            walls = (np.full(n, floor), np.full(n, depth_m), ue, np.zeros(n, bool))
            indoors = Indoors(ue, ue + 1000 * seed, *walls)
        budget = make_world(seed, **radio)[0].budget
        strongest = budget.rsrp_dbm(np.repeat(PLACE_M, copies, axis=0), indoors).max(axis=1)
        reported = np.clip(strongest + noise.normal(0, 2.5, n), *clip_dbm)
        means.append(reported.reshape(len(PLACE_M), copies).mean(axis=1))
    mean = np.mean(means, axis=0)
    error = np.std(means, axis=0) / np.sqrt(len(means))
    expected = law.compute_mean_dbm(PLACE_M, EVERY, floor, depth_m)
    assert (error < 1.2).all()
    assert (np.abs(mean - expected) < 4 * error + 0.1).all(), (mean, expected, error)


def test_a_clipped_normal_has_its_closed_form():
    draw = default_rng(2).normal(-138.0, 6.0, 1_000_000)
    lte = (-140.0, -44.0)
    mean = _average_clipped(np.array([-138.0]), 6.0, lte)[0]
    assert mean == pytest.approx(np.clip(draw, *lte).mean(), abs=0.02)
    assert_allclose(_average_clipped(np.array([-300.0, -90.0, 0.0]), 0.0, lte), [-140, -90, -44])


def test_without_shadowing_noise_and_hidden_links_it_is_the_budget():
    world, setting = make_world(
        1, line_of_sight={"kind": "always"}, shadowing={"kind": "none"}, measurement_noise_db=0.0
    )
    law = CoverageLaw(setting.radio, world.budget, number_sites(world.stations))
    expected = world.budget.rsrp_dbm(PLACE_M).max(axis=1)
    # levels of 2 dB
    assert_allclose(law.compute_mean_dbm(PLACE_M, EVERY, 0, None), expected, atol=1.0)


def make_public(law, buildings=None):
    world = make_world(1)[0]
    cells = np.zeros(3, int)
    return Public(world.area, 1, n_cell=3, model_of_cell=cells, buildings=buildings, coverage=law)


class TestPrior:
    YARD = shapely.Polygon(
        [(200, 100), (300, 100), (300, 200), (200, 200)],
        [[(230, 130), (270, 130), (270, 170), (230, 170)]],
    )
    TOWER = shapely.Polygon([(400, 200), (440, 200), (440, 240), (400, 240)])

    def test_it_says_of_a_place_what_the_law_says_of_its_floors(self):
        """In both; the yard; outside; and beyond the edge of the grid, which is of 20 m."""
        law = make_law()
        shapes = np.array([self.YARD, self.TOWER], dtype=object)
        buildings = Buildings(shapes, np.array([3.0, 9.0]))
        constants = Coverage().compute_constants(make_public(law, buildings))
        place_m = np.array([[215.0, 115.0], [420.0, 220.0], [250.0, 150.0], [100.0, 300.0]])
        depth_m = _measure_mean_depth_m(buildings)
        of_floor = [law.compute_mean_dbm(place_m, EVERY, k, depth_m) for k in range(3)]
        expected = law.compute_mean_dbm(place_m, EVERY, 0, None)
        expected[0] = of_floor[0][0]
        expected[1] = np.mean(of_floor, axis=0)[1]
        model = np.zeros(4, int)
        rsrp_dbm = Coverage().predict_dbm(constants, model, place_m)
        assert_allclose(rsrp_dbm, expected, atol=0.5)
        beyond = Coverage().predict_dbm(constants, model[:1], np.array([[-50.0, 900.0]]))
        assert np.isfinite(beyond).all()

    def test_every_model_has_the_map_of_its_own_cells(self):
        law = make_law()
        area = make_world(1)[0].area
        public = Public(area, 2, n_cell=3, model_of_cell=np.array([0, 0, 1]), coverage=law)
        place_m = np.repeat([[300.0, 200.0], [120.0, 140.0]], 2, axis=0)
        model = np.array([0, 1, 0, 1])
        cells = (np.array([0, 1]), np.array([2]))
        expected = [
            law.compute_mean_dbm(place_m[[i]], cells[m], 0, None)[0] for i, m in enumerate(model)
        ]
        rsrp_dbm = Coverage().predict_dbm(Coverage().compute_constants(public), model, place_m)
        assert_allclose(rsrp_dbm, expected, atol=0.5)

    def test_a_network_learns_the_difference_to_it(self):
        learner = RsrpNet(hidden=(4,), labels="standardised", prior=Coverage())
        model = learner.init(make_public(make_law()), Streams(1).derive_rng("learner.init"))
        flat = type(model)(np.zeros_like(model.parameters), model.constants)
        zero = np.zeros(len(PLACE_M), int)
        expected = make_law().compute_mean_dbm(PLACE_M, EVERY, 0, None)
        assert_allclose(learner.predict_dbm(flat, zero, PLACE_M), expected, atol=0.5)
