"""Columns of what surrounds updates: each in closed form and beside a slow loop, and what is
missing is 0."""

from dataclasses import replace
from math import exp, hypot, isnan, log, log10, nan
from types import SimpleNamespace

import numpy as np
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import fixture, mark
from scipy.stats import norm

from fl.attacks.base import View
from fl.attacks.columns.base import (
    add_by_ue,
    build_scene,
    classify_week_hours,
    look_up_ues,
    standardise_maps,
)
from fl.attacks.columns.uploads import (
    ArrivalDelays,
    FloorArea,
    Losses,
    OperatorFixes,
    SendingCells,
    add_by_hours,
    find_uploads,
    score_normally,
)
from fl.attacks.network_positioning import NetworkPositioning
from fl.learners.rsrp_net import RsrpNet
from fl.tracking.population import Everywhere
from fl.types import Antennas, Model, Public, RoundContext, Timing
from netsim.clock import DAY_S
from netsim.geometry import Area
from netsim.radio.positioning import NetworkFixes
from netsim.rng import Streams
from netsim.world.coverage_law import CoverageLaw
from netsim.world.setting import Radio

AREA = Area(0.0, 0.0, 500.0, 300.0)
AT_M = np.array([[100.0, 50, 25], [420, 80, 20], [250, 260, 30]])
POWER_DBM = np.array([40.0, 43, 37])
FLOORS = np.array([[40.0, 40, 900], [45, 60, 300], [300, 200, 5000], [460, 260, 50], [30, 45, 70]])
RNG = Streams(3).derive_rng("tests", 1)
LEARNER = RsrpNet(hidden=(3,))
HOURS = (3.0, 12.0, 6.0, 22.0, 10.0)


@fixture
def public():
    antennas = Antennas(AT_M, POWER_DBM, None)
    return Public(AREA, 1, antennas=antennas, n_cell=3, floor_area=FLOORS)


@fixture
def scene(public):
    return build_scene(public, 25.0, "tests")


@fixture
def model(public):
    """A model with constants, as the learner begins with."""
    known = replace(public, dataset=None)
    return LEARNER.init(known, Streams(1).derive_rng("learner"))


def observe(column, scene, views):
    """What a column remembers after views, with the facts of each."""
    tally = {}
    for view, facts in views:
        before = {name: value.copy() for name, value in tally.items()}
        tally = column.observe(view, facts, scene, tally, RNG)
        assert set(before) <= set(tally)
    return tally


def build_view(ue, model=None, phase="all", learner=LEARNER, **timing):
    """A view of the sum of UEs (n,), asked for at 0 s, with other columns of its timing."""
    ue = np.asarray(ue)
    n = len(ue)
    zeros = np.zeros(n, dtype=int)
    model = model or Model(np.zeros((1, 3)))
    usual = {
        "requested_s": np.zeros(n),
        "arrived_s": np.ones(n),
        "base_station": np.full(n, -1),
        "n_bits": np.full(n, 1e5),
        "staleness": zeros,
    }
    asked = timing.pop("asked", None)
    heard = Timing(**usual | {key: np.asarray(value) for key, value in timing.items()})
    if "network" in timing:
        heard = replace(heard, network=timing["network"])
    total = np.zeros((1, 3))
    source = np.zeros(1, dtype=int)
    view = View(
        "aggregate", phase, total, source, ue, zeros, zeros, model, model, learner, timing=heard
    )
    return replace(view, asked=None if asked is None else np.asarray(asked))


def at_hour(public, hour, day=0):
    """Facts of a round that ends at 0 s, at an hour of a day of the week."""
    return RoundContext(1, 0.0, public, week_s=day * DAY_S + hour * 3600.0)


# -- scene


def test_places_are_those_with_a_building_within_25_m(scene):
    assert len(scene.grid) == 20 * 12
    floor_m2 = []
    for x, y in scene.grid.place_m:
        near = [a for bx, by, a in FLOORS if hypot(x - bx, y - by) <= 25.0]
        floor_m2.append(sum(near))
    floor_m2 = np.array(floor_m2)
    assert_array_equal(scene.place, np.flatnonzero(floor_m2))
    assert_allclose(scene.floor_m2, floor_m2[scene.place])
    assert_allclose(scene.place_m, scene.grid.place_m[scene.place])


@mark.parametrize("floors", [None, np.zeros((0, 3)), np.zeros((2, 3))])
def test_without_buildings_all_places_are_compared(public, floors):
    scene = build_scene(replace(public, floor_area=floors, antennas=None), 25.0, "tests")
    assert len(scene.place) == len(scene.grid)
    assert scene.level_db is None
    assert not FloorArea().compute({}, scene, np.arange(2)).any()


def test_levels_are_those_of_path_loss(scene):
    for b, (x, y, z) in enumerate(AT_M):
        for k, (px, py) in enumerate(scene.place_m):
            distance_m = max(hypot(px - x, py - y, z - 1.5), 10.0)
            assert_allclose(scene.level_db[b, k], POWER_DBM[b] - 35 * log10(distance_m))


def test_floor_area_is_its_logarithm_standardised(scene):
    law = np.log(scene.floor_m2 + 200.0)
    expected = (law - law.mean()) / law.std()
    assert_allclose(FloorArea().compute({}, scene, np.arange(3)), [[expected] * 3])


# -- sums by UE


def test_sums_by_ue_grow_and_know_nothing_of_others():
    total = add_by_ue(None, np.array([3, 1, 3]), np.array([1.0, 2.0, 4.0]))
    assert total.tolist() == [0, 2, 0, 5]
    more = add_by_ue(total, np.array([5]), np.array([7.0]))
    assert more.tolist() == [0, 2, 0, 5, 0, 7]
    assert total.tolist() == [0, 2, 0, 5]
    assert look_up_ues(more, np.array([9, 3, 0])).tolist() == [0, 5, 0]
    assert add_by_ue(more, np.zeros(0, int), np.zeros(0)).tolist() == more.tolist()


def test_a_flat_map_stands_at_zero():
    assert_array_equal(standardise_maps(np.full((2, 4), 3.0)), np.zeros((2, 4)))
    rows = standardise_maps(np.array([[1.0, 2, 3], [5, 5, 5]]))
    assert_allclose(rows[0], np.array([-1, 0, 1]) * 1.5**0.5)
    assert not rows[1].any()


# -- hours


@mark.parametrize(
    "hour, day, expected",
    [
        (0.0, 0, (True, False)),
        (6.0, 3, (True, False)),
        (6.01, 3, (False, False)),
        (10.0, 4, (False, True)),
        (16.0, 0, (False, True)),
        (12.0, 5, (False, False)),  # a Saturday
        (3.0, 6, (True, False)),
        (nan, 0, (True, False)),
    ],
)
def test_hours_of_night_and_of_work(public, hour, day, expected):
    ue, timing = find_uploads(build_view([0]))
    tally = add_by_hours({}, at_hour(public, hour, day), ue, timing, np.ones(1))
    assert (len(tally["night"]) > 0, len(tally["work"]) > 0) == expected


def test_hours_are_of_a_night_of_work_or_of_a_weekend():
    hour = np.array([0, 6, 6.5, 10, 16, 16.5, 119, 120, 130, 162.5, 168, nan])
    is_night, is_work, is_weekend = classify_week_hours(hour)
    assert_array_equal(hour[is_night], [0, 6, 120, 168])
    assert_array_equal(hour[is_work], [10, 16])
    assert_array_equal(hour[is_weekend], [120, 130, 162.5])
    assert_array_equal(hour[classify_week_hours(hour, (6.5, 24.0))[1]], [6.5, 10, 16, 16.5, 119])


# -- cells


def compute_cells_slowly(scene, uploads, ue):
    """Three maps of a UE by its uploads (ue, cell, hour on a Monday), one at a time."""
    rows = []
    for first, last, most in ((0.0, 6.0, 4), (10.0, 16.0, 4)):
        cells = [b for u, b, hour in uploads if u == ue and b >= 0 and first <= hour <= last]
        row = []
        for k in range(len(scene.place)):
            level_db = scene.level_db[:, k]
            odds = [exp((level - level_db.max()) / 9.0) for level in level_db]
            laws = [log(max(odds[b] / sum(odds), 0.02)) for b in cells]
            row.append(min(len(cells), most) * np.mean(laws) if cells else 0.0)
        rows.append(row)
    nights = [b for u, b, hour in uploads if u == ue and b >= 0 and hour <= 6.0]
    row = []
    for k in range(len(scene.place)):
        share = np.mean([b == scene.level_db[:, k].argmax() for b in nights]) if nights else 0.0
        row.append(log(1 - share + 0.5 / len(nights)) if nights else 0.0)
    return [*rows, row]


def test_cells_equal_a_loop_over_uploads(public, scene):
    rng = default_rng(5)
    uploads = []
    views = []
    for hour in (*HOURS, *HOURS, 1.0, 2.0):
        ue = np.flatnonzero(rng.random(6) < 0.7)
        cell = rng.integers(-1, 3, len(ue))
        uploads += [(u, b, hour) for u, b in zip(ue, cell, strict=True)]
        views.append((build_view(ue, base_station=cell), at_hour(public, hour)))
    column = SendingCells()
    found = column.compute(observe(column, scene, views), scene, np.arange(8))
    expected = np.swapaxes([compute_cells_slowly(scene, uploads, ue) for ue in range(8)], 0, 1)
    assert_allclose(found, expected, atol=1e-12)
    assert np.abs(found[:, :6]).max() > 0.5
    assert not found[:, 6:].any()  # never seen


def test_a_cell_that_is_used_every_night_is_least_excluded(public, scene):
    """log 0.1 where it is strongest after five nights, log 1.1 elsewhere."""
    views = [(build_view([0], base_station=[1]), at_hour(public, 2.0))] * 5
    column = SendingCells()
    (unused,) = column.compute(observe(column, scene, views), scene, np.array([0]))[2]
    is_strongest = scene.level_db.argmax(axis=0) == 1
    assert 0 < is_strongest.sum() < len(is_strongest)
    assert_allclose(unused, np.where(is_strongest, log(0.1), log(1.1)))


@mark.parametrize("hide", ["cells", "timing", "antennas", "phase"])
def test_hidden_cells_are_exactly_zero(public, scene, hide):
    view = build_view([0, 2], base_station=[1, 0])
    if hide == "cells":
        view = build_view([0, 2], base_station=[-1, -1])
    if hide == "timing":
        view = replace(view, timing=None)
    if hide == "antennas":
        scene = replace(scene, level_db=None)
    if hide == "phase":
        view = replace(view, phase="second")
    column = SendingCells()
    tally = observe(column, scene, [(view, at_hour(public, 2.0))] * 2)
    assert_array_equal(column.compute(tally, scene, np.arange(3)), 0.0)


# -- delays


def score_slowly(means):
    """Normal scores of values, NaN without one: the middle of the ranks of those alike."""
    known = [value for value in means if not isnan(value)]
    scores = []
    for value in means:
        if isnan(value):
            scores.append(0.0)
            continue
        below = sum(other < value - 1e-8 for other in known)
        alike = sum(abs(other - value) <= 1e-8 for other in known)
        scores.append(norm.ppf((below + alike / 2) / len(known)))
    return scores


def test_delays_equal_a_loop_over_uploads(public, scene, model):
    rng = default_rng(8)
    values = {ue: [] for ue in range(9)}
    views = []
    for _ in range(5):
        ue = np.flatnonzero(rng.random(8) < 0.8)
        taken_s = np.where(rng.random(len(ue)) < 0.2, nan, rng.gamma(2.0, size=len(ue)))
        n_bits = rng.integers(1000, 5000, len(ue))
        of_round = [log(t / bits) for t, bits in zip(taken_s, n_bits, strict=True)]
        for u, value in zip(ue, of_round, strict=True):
            if not isnan(value):
                values[u].append(value - np.nanmean(of_round))
        view = build_view(ue, model, arrived_s=taken_s, n_bits=n_bits)
        views.append((view, at_hour(public, 12.0)))
    column = ArrivalDelays()
    found = column.compute(observe(column, scene, views), scene, np.arange(9))
    score = score_slowly([np.mean(rows) if rows else nan for rows in values.values()])
    dbm = LEARNER.predict_strongest_dbm(model, scene.place_m, np.zeros(1, int))
    signal = (dbm - dbm.mean()) / dbm.std()
    assert_allclose(found[1], np.tile(signal, (9, 1)))
    assert_allclose(found[0], np.outer(score, signal), atol=1e-12)
    assert np.ptp(score) > 1


def test_delays_that_are_all_alike_tell_nothing(public, scene, model):
    view = build_view([0, 1, 4], model, arrived_s=[3.0, 3.0, 3.0])
    column = ArrivalDelays()
    tally = observe(column, scene, [(view, at_hour(public, 1.0))] * 3)
    found = column.compute(tally, scene, np.arange(5))
    assert not found[0].any()
    assert found[1].any()


def test_scores_of_one_and_of_two():
    total = np.array([[2.0, 8.0], [0, 0], [1, 1]])
    assert_allclose(score_normally(total), [norm.ppf(0.75), 0, norm.ppf(0.25)])
    assert score_normally(total[:2]).tolist() == [0, 0]
    assert score_normally(total[1:2]).tolist() == [0]


def test_hidden_times_make_delays_exactly_zero_and_leave_the_map(public, scene, model):
    column = ArrivalDelays()
    found = {}
    for arrived_s in ([1.0, 2.0], [nan, nan]):
        view = build_view([0, 1], model, arrived_s=arrived_s)
        tally = observe(column, scene, [(view, at_hour(public, 1.0))])
        found[isnan(arrived_s[0])] = column.compute(tally, scene, np.arange(2))
    assert found[False][0].any()
    assert not found[True][0].any()
    assert_array_equal(found[True][1], found[False][1])


@mark.parametrize("weight", [nan, np.inf, -np.inf, 1e200])
def test_where_the_map_has_diverged_nominal_levels_stand_in(public, scene, model, weight):
    wrong = replace(model, parameters=np.full_like(model.parameters, weight))
    times = {"arrived_s": [1.0, 2.0]}
    facts = at_hour(public, 1.0)
    column = ArrivalDelays()
    views = [(build_view([0, 1], part, **times), facts) for part in (model, wrong)]
    delay, signal = column.compute(observe(column, scene, views), scene, np.arange(2))
    nominal = scene.level_db.max(axis=0)
    nominal = (nominal - nominal.mean()) / nominal.std()
    assert_allclose(signal, np.stack([nominal, nominal]))
    score = score_normally(np.array([[1.0, 0.0], [1.0, np.log(2.0)]]))
    assert_allclose(delay, score[:, None] * nominal)


# -- losses


def test_losses_equal_a_loop_over_rounds(public, scene):
    rng = default_rng(2)
    asked_of = {ue: [] for ue in range(7)}
    views = []
    for _ in range(9):
        asked = np.flatnonzero(rng.random(6) < 0.7)
        ue = asked[rng.random(len(asked)) < 0.6]
        for u in asked:
            asked_of[u].append(u in ue)
        views.append((build_view(ue, asked=asked), at_hour(public, 1.0)))
    column = Losses()
    level, share = column.compute(observe(column, scene, views), scene, np.arange(7))
    strongest = scene.level_db.max(axis=0)
    expected = (strongest - strongest.mean()) / strongest.std()
    assert_allclose(level, np.tile(expected, (7, 1)))
    scores = [(np.mean(came) - 0.85) / 0.25 if came else 0.0 for came in asked_of.values()]
    assert_allclose(share, np.outer(scores, expected), atol=1e-12)
    assert not share[6].any()


def test_without_word_of_who_was_asked_losses_are_exactly_zero(public, scene):
    column = Losses()
    views = [(build_view([0, 1]), at_hour(public, 1.0))] * 2
    level, share = column.compute(observe(column, scene, views), scene, np.arange(2))
    assert level.any()
    assert_array_equal(share, 0.0)
    assert not column.compute({}, replace(scene, level_db=None), np.arange(2)).any()


# -- measurements of the operator


@fixture
def measured(public):
    """Public facts with the laws of the radio, and fixes of four UEs, one of them without any."""
    stations = SimpleNamespace(at_m=AT_M[:, :2], height_m=AT_M[:, 2])
    known = replace(public, coverage=CoverageLaw(Radio(), stations, None))
    level_dbm = np.full((4, 3), nan)
    level_dbm[0] = [-80, -85, -90]
    fixes = NetworkFixes(
        np.array([0, 1, -1, 2]),
        np.array([120.0, 200, nan, nan]),
        np.array([45.0, nan, nan, 200]),
        level_dbm,
    )
    return known, fixes


@mark.parametrize("hour", [3.0, 12.0])
def test_fixes_are_the_law_of_network_positioning(measured, hour):
    public, fixes = measured
    scene = build_scene(public, 25.0, "tests")
    column = OperatorFixes()
    single = NetworkPositioning(population=Everywhere())
    state = single.start()
    views = []
    for night in range(3):
        network = fixes.select(np.roll(np.arange(4), night))
        view = build_view(np.arange(4), network=network)
        views.append((view, at_hour(public, hour)))
        _, state = single.run(view, at_hour(public, 3.0), state, RNG)
    found = column.compute(observe(column, scene, views), scene, np.arange(4))
    nights = state.nights.look_up(np.arange(4))
    expected = nights / np.maximum(nights.mean(axis=1, keepdims=True), 1.0)
    assert_allclose(found[int(hour == 12.0)], expected[:, scene.place])
    assert not found[int(hour == 3.0)].any()
    assert np.isfinite(found).all()


def test_without_fixes_nothing_is_said(public, scene):
    column = OperatorFixes()
    tally = observe(column, scene, [(build_view([0, 1]), at_hour(public, 3.0))])
    assert_array_equal(column.compute(tally, scene, np.arange(2)), 0.0)


# -- all of them


@mark.parametrize(
    "column", [FloorArea(), SendingCells(), ArrivalDelays(), Losses(), OperatorFixes()]
)
def test_an_empty_round_changes_nothing(column, measured, model):
    public, fixes = measured
    scene = build_scene(public, 25.0, "tests")
    facts = at_hour(public, 3.0)
    ue = np.arange(4)
    view = build_view(ue, model, base_station=[0, 1, 2, -1], asked=[0, 1, 2, 3, 5], network=fixes)
    none = np.zeros(0, int)
    empty = build_view(none, model, asked=none, network=fixes.select(none))
    empty = replace(empty, update=empty.update[:0], source_model=none)
    full = observe(column, scene, [(view, facts)])
    for views in ([(view, facts), (empty, facts)], [(empty, facts), (view, facts)]):
        found = column.compute(observe(column, scene, views), scene, ue)
        assert_array_equal(found, column.compute(full, scene, ue))
    assert column.compute(observe(column, scene, [(empty, facts)]), scene, ue).shape[1] == 4
    assert column.compute(full, scene, none).shape == (len(column.names), 0, len(scene.place))


@mark.parametrize(
    "column", [FloorArea(), SendingCells(), ArrivalDelays(), Losses(), OperatorFixes()]
)
def test_neither_names_nor_their_order_tell_anything(column, measured, model):
    public, fixes = measured
    scene = build_scene(public, 25.0, "tests")
    facts = at_hour(public, 3.0)
    rows = {"base_station": [0, 1, 2, -1], "arrived_s": [1.0, 5, 2, 4], "n_bits": [10, 20, 15, 12]}
    names = np.array([2, 9, 0, 5])
    order = np.array([3, 0, 2, 1])
    found = []
    for ue, row in ((np.arange(4), np.arange(4)), (names, np.arange(4)), (names, order)):
        moved = {key: np.array(value)[row] for key, value in rows.items()}
        view = build_view(ue[row], model, asked=ue, network=fixes.select(row), **moved)
        found.append(column.compute(observe(column, scene, [(view, facts)]), scene, ue))
    assert_allclose(found[1], found[0], atol=1e-12)
    assert_allclose(found[2], found[0], atol=1e-12)
    # and a UE has the same whichever others are asked for
    tally = observe(column, scene, [(view, facts)])
    assert_allclose(column.compute(tally, scene, names[:1])[:, 0], found[0][:, 0], atol=1e-12)
