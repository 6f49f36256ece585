"""What base stations measure of a UE's place: laws of its draws, grants, and homes named by it."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import mark, raises
from tabled import cases
from test_arrival_times import AREA, RNG, make_public, make_view

from fl.attacks.network_positioning import NetworkPositioning, compute_cell_log_law
from fl.attacks.threat import Threat
from fl.tracking.population import Everywhere
from fl.types import RoundContext
from netsim.clock import DAY_S
from netsim.errors import BadInput
from netsim.radio.link_budget import RadioLinks
from netsim.radio.positioning import EXCESS_MEAN_M, EXCESS_STD_M, Positioning
from netsim.rng import Streams
from netsim.world.coverage_law import CoverageLaw
from netsim.world.setting import Radio
from netsim.world.world import World
from scenarios import load, run

AT_M = np.array([[300.0, 300, 25], [1000, 700, 25], [1700, 300, 25], [1700, 300, 25]])
ALL = ("cell", "timing-advance", "angle", "levels")
EXACT = Positioning(timing_step_m=0, angle_los_deg=0, angle_nlos_deg=0)


def know(positioning):
    """Public facts of four cells at three sites."""
    stations = SimpleNamespace(at_m=AT_M[:, :2], height_m=AT_M[:, 2])
    law = CoverageLaw(Radio(positioning=positioning), stations, None)
    return replace(make_public(AT_M), n_cell=4, coverage=law)


def attack(**options):
    return NetworkPositioning(population=Everywhere(), answers=1, **options)


def measure(place_m, los, positioning=EXACT, granted=ALL, time_s=0.0, cell=None):
    """Fixes of UEs at places (n, 2), served by the nearest cell or these, in sight or not (n,)."""
    offset_m = np.concatenate([place_m, np.full((len(place_m), 1), 1.5)], axis=1)[:, None] - AT_M
    away_m = np.linalg.norm(offset_m, axis=2)
    sight = np.repeat(np.asarray(los)[:, None], 4, axis=1)
    links = RadioLinks(time_s, away_m, -35 * np.log10(away_m), sight, np.array([3.0, 3, 3, 0]))
    cell = away_m[:, :3].argmin(axis=1) if cell is None else cell
    world = SimpleNamespace(
        setting=SimpleNamespace(radio=Radio(positioning=positioning)),
        ground=SimpleNamespace(streams=Streams(5)),
        budget=SimpleNamespace(at_m=AT_M[:, :2]),
        stations=[SimpleNamespace(position_m=tuple(at_m[:2])) for at_m in AT_M],
    )
    return World.measure_network(world, links, place_m, cell, granted)


def draw_places(n, seed=1):
    return AREA.sample(default_rng(seed).uniform(size=(n, 2)))


def name_homes(place_m, los, positioning=EXACT, granted=ALL, nights=1):
    """Distance (n,) of the place that is named of each UE from its home."""
    public = know(positioning)
    part = attack()
    state = part.start()
    for night in range(nights):
        fixes = measure(place_m, los, positioning, granted, night * DAY_S)
        view = make_view(np.arange(len(place_m)), fixes.cell, np.ones(len(place_m)))
        timing = replace(view.timing, requested_s=np.full(len(place_m), 0.0), network=fixes)
        context = RoundContext(night + 1, 0.0, public, week_s=night * DAY_S)
        result, state = part.run(replace(view, timing=timing), context, state, RNG)
    order = np.argsort(result.ue)
    return np.linalg.norm(result.position_m[order] - place_m, axis=1)


def test_exact_measurements_name_every_home():
    place_m = draw_places(60)
    assert (name_homes(place_m, np.ones(60, bool)) <= 100).all()
    assert (name_homes(place_m, np.zeros(60, bool)) <= 100).all()  # an excess of some metres


def test_each_column_tells_more_and_sight_tells_most():
    place_m = draw_places(300)
    fair = Positioning(timing_step_m=39.04, angle_los_deg=5, angle_nlos_deg=25)
    hidden = np.zeros(300, bool)
    grants = ALL[:1], ALL[:2], ALL[:3]
    shares = [np.mean(name_homes(place_m, hidden, fair, g) <= 100) for g in grants]
    assert_array_equal(shares, np.sort(shares))
    assert shares[0] < 0.15
    assert np.mean(name_homes(place_m, ~hidden, fair, ALL[:3]) <= 100) > shares[2] + 0.1
    assert np.mean(name_homes(place_m, hidden, fair, ("levels",)) <= 100) > shares[0]


def test_draws_follow_their_laws():
    place_m = draw_places(20_000)
    hidden = np.zeros(20_000, bool)
    away_m = np.linalg.norm(place_m[:, None] - AT_M[:3, :2], axis=2).min(axis=1)
    true_m = np.hypot(away_m, 23.5)
    assert_allclose(measure(place_m, ~hidden).path_m, true_m)
    excess_m = measure(place_m, hidden).path_m - true_m
    assert_allclose(np.median(excess_m), 9.5, rtol=0.03)
    assert_allclose(np.log10(excess_m).std(), 0.4, rtol=0.03)
    assert_allclose([excess_m.mean(), excess_m.std()], [EXCESS_MEAN_M, EXCESS_STD_M], rtol=0.06)
    fair = Positioning(timing_step_m=39.04, angle_los_deg=5, angle_nlos_deg=20)
    stepped_m = measure(place_m, ~hidden, fair).path_m
    assert np.abs(stepped_m - true_m).max() <= 39.04 / 2 + 1e-9
    assert_allclose(stepped_m / 39.04, np.round(stepped_m / 39.04), atol=1e-9)
    exact_deg = measure(place_m, hidden).azimuth_deg
    for los, std_deg in ((~hidden, 5), (hidden, 20)):
        first_deg = measure(place_m, los, fair).azimuth_deg - exact_deg
        next_deg = measure(place_m, los, fair, time_s=DAY_S).azimuth_deg - exact_deg
        assert_allclose(first_deg.std(), std_deg, rtol=0.04)
        # reflections stay at a place, errors of the receiver do not
        correlation = np.corrcoef(first_deg, next_deg)[0, 1]
        assert_allclose(correlation, float(not los.any()), atol=0.03)


def test_levels_are_those_of_the_strongest_cells_of_three_sites():
    level_dbm = measure(np.array([[1650.0, 300.0]]), [True]).level_dbm[0]
    assert_array_equal(np.isfinite(level_dbm), [True, True, True, False])
    assert_array_equal(level_dbm[:3], np.round(level_dbm[:3]))


def test_what_is_not_granted_is_not_known():
    fixes = measure(draw_places(5), np.ones(5, bool), granted=("cell",))
    assert np.isnan(fixes.path_m).all()
    assert np.isnan(fixes.azimuth_deg).all()
    assert np.isnan(fixes.level_dbm).all()
    assert (fixes.cell >= 0).all()


def test_of_a_ue_without_a_cell_nothing_is_measured():
    fixes = measure(draw_places(2), [True, True], cell=np.array([-1, 0]))
    assert np.isnan([fixes.path_m[0], fixes.azimuth_deg[0], *fixes.level_dbm[0]]).all()
    assert np.isfinite([fixes.path_m[1], fixes.azimuth_deg[1]]).all()


def weigh_slowly(fix, place_m, positioning, cell_m, p_cell, level_db):
    """L of one place by scalars."""
    b = int(fix.cell[0])
    east, north = place_m - AT_M[b, :2]
    flat_m = max(math.hypot(east, north), cell_m / 2)
    away_m = fix.path_m[0] - math.hypot(flat_m, 23.5)
    turn_deg = math.remainder(fix.azimuth_deg[0] - math.degrees(math.atan2(east, north)), 360)
    near = min(18 / flat_m, 1)
    sight = near + math.exp(-flat_m / 63) * (1 - near)
    total = 0.0
    for p, excess_m, std_m, std_deg in (
        (sight, 0, 0, positioning.angle_los_deg),
        (1 - sight, EXCESS_MEAN_M, EXCESS_STD_M, positioning.angle_nlos_deg),
    ):
        s = math.sqrt(std_m**2 + (cell_m**2 + positioning.timing_step_m**2) / 12)
        a = math.hypot(std_deg, math.degrees(cell_m / math.sqrt(12) / flat_m))
        p *= math.exp(-(((away_m - excess_m) / s) ** 2) / 2) / s
        total += p * math.exp(-((turn_deg / a) ** 2) / 2) / a
    rest = [fix.level_dbm[0, k] - level_db[k] for k in range(4) if fix.level_dbm[0, k] < 0]
    mean = sum(rest) / len(rest)
    return p_cell * total * math.exp(-sum((r - mean) ** 2 for r in rest) / 2 / 8**2)


def test_the_law_of_places_is_that_of_a_slow_loop():
    fair = Positioning(timing_step_m=39.04, angle_los_deg=7, angle_nlos_deg=20)
    fixes = measure(draw_places(3, seed=4), np.array([True, False, False]), fair)
    part = attack(cell_m=50.0)
    grid = part.build_grid(know(fair), 3)
    fast = part.compute_log_laws(fixes, grid, know(fair))
    slow = np.zeros_like(fast)
    for i in range(3):
        fix = fixes.select(slice(i, i + 1))
        laws = []
        for place_m in grid.place_m:
            away_m = [max(math.dist([*place_m, 1.5], at_m), 10.0) for at_m in AT_M]
            level_db = [-35 * math.log10(m) for m in away_m]
            odds = [math.exp(level / 5) for level in level_db]
            p_cell = max(odds[int(fix.cell[0])] / sum(odds), 0.02)
            laws.append(weigh_slowly(fix, place_m, fair, 50.0, p_cell, level_db))
        away = sum(laws) / len(laws)
        slow[i] = [math.log(0.9 * law + 0.1 * away) for law in laws]
        slow[i] += 1 - sum(slow[i]) / len(laws)
    assert_allclose(fast, slow, rtol=1e-9)


def test_the_law_of_cells_is_a_softmax_of_levels_with_a_floor():
    place_m = np.array([[100.0, 200.0], [1500.0, 900.0], AT_M[0, :2]])
    slow = np.zeros((4, 3))
    for g, place in enumerate(place_m):
        away_m = np.hypot(np.linalg.norm(AT_M[:, :2] - place, axis=1), 23.5)
        odds = np.exp(-35 * np.log10(np.maximum(away_m, 10.0)) / 5.0)
        slow[:, g] = np.log(np.maximum(odds / odds.sum(), 0.02))
    assert_allclose(compute_cell_log_law(place_m, know(EXACT)), slow, rtol=1e-12, atol=1e-15)


@mark.parametrize(
    ("hours", "hour", "told"),
    cases("""
    (0, 6), 0, True
    (0, 6), 6, True
    (0, 6), 7, False
    (0, 6), 18, False
    (22, 6), 23, True
    (22, 6), 24, True
    (22, 6), 12, False
    (0, 6), None, True
"""),
)
def test_only_uploads_of_the_home_hours_count_or_all_without_a_clock(hours, hour, told):
    part = attack(home_hours=hours)
    week_s = math.nan if hour is None else (hour - 1) * 3600.0
    context = RoundContext(1, 100.0, know(EXACT), week_s=week_s)
    assert part.is_night(np.array([3700.0]), context) == told


def test_nights_add_up_and_days_tell_nothing():
    public = know(EXACT)
    part = attack()
    fixes = measure(draw_places(2), np.ones(2, bool))
    view = make_view([0, 1], fixes.cell, [1.0, 1.0], requested_s=0.0)
    view = replace(view, timing=replace(view.timing, network=fixes))
    grid = part.build_grid(public, 2)
    law = part.compute_log_laws(fixes, grid, public)
    state = part.start()
    for hour, nights in ((2, 1), (12, 1), (5, 2)):
        _, state = part.run(view, RoundContext(1, 0.0, public, week_s=hour * 3600.0), state, RNG)
        assert_allclose(state.nights.score, nights * law)


def test_fixes_follow_new_names():
    fixes = measure(draw_places(3), np.ones(3, bool))
    view = make_view([0, 1, 2], fixes.cell, np.ones(3))
    renamed = replace(view, timing=replace(view.timing, network=fixes)).rename(np.array([7, 5, 9]))
    assert_array_equal(renamed.timing.network.path_m, fixes.path_m[[1, 0, 2]])


CITY = {"learning.attacks": [{"kind": "network-positioning"}]}


@mark.parametrize(
    "threat",
    [
        {},
        {"operator": ["cell"], "observes": "model"},
        {"operator": ["angle"], "shuffle": True, "pseudonyms": {"kind": "per-round"}},
    ],
)
def test_it_is_refused_where_nothing_is_granted(threat):
    with raises(BadInput, match=r"attacks\[0\].*network-positioning needs measurements"):
        load("city", CITY | {"learning.threat": threat})


def test_grants_stand_once():
    with raises(ValueError, match="'cell' stands 2 times"):
        Threat(operator=("cell", "cell"))


def test_a_run_states_what_the_operator_names_without_learning(tmp_path):
    exact = {"timing_step_m": 0, "angle_los_deg": 0, "angle_nlos_deg": 0}
    changes = {"world.duration_s": 86_400, "world.ues.count": 12, "world.radio.positioning": exact}
    result = run(load("city/operator", changes), tmp_path)
    # one of the twelve is out at midnight
    assert result["attack.network-positioning.home_located.percent"] > 90
    assert result["attack.network-positioning.home_located.shuffled.percent"] < 10
    named_m = result.tables["operator"]["home_named_m"]
    assert len(named_m) == 12
    share = 100 * np.mean(named_m <= 100)
    assert result["baseline.operator.home_located.percent"] == share == 100
