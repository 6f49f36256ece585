"""Links in compiled passes have the bits of the laws written in NumPy, an array at a time."""

import json
from dataclasses import replace
from itertools import product
from math import exp, log10, sqrt

import numpy as np
from numpy import array, float32, full, inf, maximum, nan, stack, where, zeros
from numpy.random import default_rng
from numpy.testing import assert_array_equal
from pytest import mark

from netsim.radio import link_budget
from netsim.radio.path_loss import Pairs, UrbanMacro, UrbanMicro, compute_urban_sight
from netsim.radio.shadowing import Correlated, GridField, _shorten_decorrelation_m
from netsim.rng import Streams
from netsim.ues import STOREY_M
from netsim.units import ratio_from_db, w_from_dbm
from netsim.world.build import build_world
from netsim.world.setting import WorldSetting

CARRIER_HZ = 3.5e9
URBAN = {"uma": UrbanMacro, "umi": UrbanMicro}
LAWS = {"uma": 25.0, "umi": 10.0, "rma": 35.0, "free-space": 25.0, "los-nlos": 25.0}
LAYOUTS = ("one", "three", "sectors", "images", "images-sectors")
SHADOWS = (
    {"kind": "none"},
    {"kind": "iid"},
    {"kind": "correlated"},
    {"kind": "correlated", "nlos_decorrelation_m": 30.0, "indoor_decorrelation_m": 7.0},
    {"kind": "correlated", "std_db": 5.0, "site_correlation": 0.5},
)


def build(law, shadow, sight, layout, indoor=None, n_ue=12, height_m=1.5):
    """A world of 900 m, with base stations in a row or around its middle."""
    height = {"height_m": LAWS[law]}
    if layout.startswith("images"):
        stations = {"kind": "hexagonal", "rings": 1, "inter_site_m": 320.0, "wrap_around": True}
        stations |= height | {"sectors": 3 if layout.endswith("sectors") else 1}
    else:
        stations = [
            {"name": f"b{k}", "position_m": [100.0 + 200.0 * k, 350.0], **height}
            for k in range(1 if layout == "one" else 3)
        ]
        if layout == "sectors":
            stations[0] |= {"azimuth_deg": 30.0, "antenna": {"kind": "column"}}
            stations[2] |= {"azimuth_deg": 200.0, "position_m": stations[0]["position_m"]}
    document = {
        "duration_s": 3600.0,
        "tick_s": 1.0,
        "city": {"kind": "open-field", "width_m": 900.0, "height_m": 900.0},
        "base_stations": stations,
        "ues": {
            "count": n_ue,
            "height_m": height_m,
            "mobility": {"kind": "random-waypoint"},
            "measurement_period_s": 60.0,
            "indoor": indoor,
        },
        "radio": {
            "path_loss": {"kind": law},
            "shadowing": shadow,
            "line_of_sight": {"kind": sight},
            "carrier_hz": CARRIER_HZ,
        },
    }
    return build_world(WorldSetting.model_validate_json(json.dumps(document)), Streams(3), 60.0)


def slow_pairs(budget, position_m, indoors):
    """Geometry of the links, an image of all base stations at a time."""
    east, north = (position_m[:, k, None] - budget.at_m[:, k] for k in (0, 1))
    best_east, best_north = east.copy(), north.copy()
    nearest = full(east.shape, inf)
    for shift in budget.shifts_m:
        x, y = east - shift[0], north - shift[1]
        nearer = x * x + y * y < nearest
        nearest = where(nearer, x * x + y * y, nearest)
        best_east, best_north = where(nearer, x, best_east), where(nearer, y, best_north)
    square = best_east * best_east + best_north * best_north
    height_m, outdoor_m = budget.ue_height_m, None
    if indoors is not None:
        height_m = (budget.ue_height_m + STOREY_M * indoors.floor)[:, None]
        outdoor_m = maximum(np.sqrt(square) - indoors.depth_m[:, None], 0.0)
    rise = budget.height_m - height_m
    pairs = Pairs(
        np.sqrt(square),
        np.sqrt(square + rise * rise),
        height_m,
        budget.height_m,
        distance_out_m=outdoor_m,
        indoors=indoors,
        position_m=position_m,
        offset_m=stack([best_east, best_north], axis=-1),
    )
    if indoors is not None:
        pairs = replace(pairs, environment_m=budget.environment(pairs, indoors))
    return pairs


def slow_urban_db(law, pairs):
    """Loss of uma and umi by the tables, in arrays."""
    height_m = np.clip(pairs.ue_height_m, *law.ue_heights_m)
    carrier = log10(CARRIER_HZ / 1e9)
    first, near, last = law.slopes_db
    hidden_first, hidden, by_carrier, by_height = law.hidden_db
    true_rise = pairs.bs_height_m - pairs.ue_height_m
    least_m = np.sqrt(10.0**2 + true_rise * true_rise)
    decades = np.log10(maximum(pairs.distance_3d_m, least_m))
    flat_m = 1.0 if pairs.environment_m is None else pairs.environment_m
    bend_m = 4.0 * ((pairs.bs_height_m - flat_m) * (height_m - flat_m)) * CARRIER_HZ / 3.0e8
    beyond = last * np.log10(bend_m**2 + (pairs.bs_height_m - height_m) ** 2)
    seen = first + 20.0 * carrier + maximum(near * decades, 40.0 * decades - beyond)
    fixed = hidden_first + by_carrier * carrier - by_height * (height_m - 1.5)
    both = maximum(seen, hidden * decades + fixed)
    return both if pairs.los is None else where(pairs.los, seen, both)


def slow_weights(x, y, step):
    side, diagonal = exp(-step), exp(-step * sqrt(2.0))
    bx, by = 2.0 * x * (1.0 - x), 2.0 * y * (1.0 - y)
    corners = (1.0 - 2.0 * side + diagonal) * (bx * by)
    scale = 1.0 / np.sqrt(1.0 + (side - 1.0) * (bx + by) + corners)
    left, right = (1.0 - x) * scale, x * scale
    return left * (1.0 - y), right * (1.0 - y), left * y, right * y


def slow_field(field, position_m):
    """A field at positions, all four corners of all cells at a time."""
    if not isinstance(field, GridField):
        return field(position_m)
    table = field.value_db
    top = array(table.shape[1::-1]) - 1.0
    place = np.clip((position_m - field.low_m) / field.step_m, 0.0, top)
    cell = where(place < top - 1.0, place, top - 1.0).astype(int)
    step = field.step_m / _shorten_decorrelation_m(field.decorrelation_m, field.step_m)
    weight = [w.astype(float32)[:, None] for w in slow_weights(*(place - cell).T, step)]
    x, y = cell.T
    value = weight[0] * table[y, x] + weight[1] * table[y, x + 1]
    value = value + weight[2] * table[y + 1, x]
    value = (value + weight[3] * table[y + 1, x + 1]).astype(float)
    return value[:, field.column] if len(field.column) else value


def slow_gain_db(budget, position_m, pairs):
    """Shadowing less loss, walls and the pattern."""
    shadow = budget.shadow
    seen, hidden, far, _ = shadow.stds
    shadow_db = slow_field(shadow.seen, position_m)
    if shadow.depends_on_sight:
        hidden_db = hidden / seen * shadow_db
        if shadow.hidden is not None:
            hidden_db = slow_field(shadow.hidden, position_m)
        if far != seen:
            is_far = pairs.los & shadow.path_loss.is_far(pairs, CARRIER_HZ)
            shadow_db = shadow_db * where(is_far, far / seen, 1.0)
        shadow_db = where(pairs.los, shadow_db, hidden_db)
    if pairs.indoors is not None and shadow.inside is not None:
        rows = pairs.indoors.inside
        shadow_db[rows] = shadow.inside(position_m[rows], pairs.indoors.select(rows))
    law = budget.path_loss
    urban = law.kind_name() in URBAN
    loss_db = slow_urban_db(law, pairs) if urban else law.loss_db(pairs, CARRIER_HZ)
    gain_db = shadow_db - loss_db
    if pairs.indoors is not None:
        gain_db -= budget.penetration(pairs.indoors)[:, None]
    drop_m = budget.height_m - pairs.ue_height_m
    for antenna, columns in budget.antennas:
        azimuth_deg = budget.azimuth_deg[columns]
        gain_db[:, columns] += antenna.gain_db(
            pairs.offset_m[:, columns], drop_m[..., columns], azimuth_deg
        )
    return gain_db


def check(world, position_m, indoors):
    """All numbers of the links of UEs at positions."""
    budget = world.budget
    pairs = slow_pairs(budget, position_m, indoors)
    links = budget.compute_links(5.0, position_m, indoors)
    pairs = replace(pairs, los=links.los)
    assert_array_equal(links.distance_m, pairs.distance_3d_m)
    assert not links.los[np.isnan(position_m).any(axis=1)].any()
    assert_array_equal(links.gain_db, slow_gain_db(budget, position_m, pairs))
    power_w = ratio_from_db(links.gain_db) * w_from_dbm(budget.power_dbm)
    w, strongest, strongest_w, others_w = links.powers
    interference_w = others_w[:, None] + (strongest_w[:, None] - w)
    assert_array_equal(w, power_w)
    present = ~np.isnan(position_m).any(axis=1)
    assert_array_equal(strongest[present], power_w[present].argmax(axis=1))
    assert (strongest[~present] == -1).all()
    for row in np.flatnonzero(present):
        best = strongest[row]
        rest_w = 0.0
        for b, received_w in enumerate(power_w[row].tolist()):
            rest_w += 0.0 if b == best else received_w
        expected_w = rest_w + (power_w[row, best] - power_w[row])
        assert_array_equal(interference_w[row], expected_w)
    assert np.isnan(interference_w[~present]).all()
    noise_w = w_from_dbm(-125.0)
    assert_array_equal(links.compute_sinr(-125.0), w / (interference_w + noise_w))


def pick(count, cases):
    """`count` of the cases, the same every time; each value of each slot is in some."""
    cases = list(cases)
    order = default_rng(1).permutation(len(cases))[:count]
    return [cases[k] for k in sorted(order)]


def laws():
    for law, shadow, layout in product(LAWS, range(len(SHADOWS)), LAYOUTS):
        for sight in ("always", "never", "probability"):
            if sight != "probability" or law in ("uma", "umi", "rma"):
                yield law, shadow, sight, layout


@mark.parametrize("law, shadow, sight, layout", pick(60, laws()))
def test_links_have_the_bits_of_the_laws_in_arrays(law, shadow, sight, layout):
    for indoor in (None, {"share": 0.5}):
        world = build(law, SHADOWS[shadow], sight, layout, indoor)
        world.env.run(until=300.0)
        position_m = world.locate_ues().copy()
        position_m[[0, 7]] = nan
        position_m[3] = [-1e5, 1e7]  # far beyond the grid
        check(world, position_m, world.find_indoors())


@mark.parametrize("n_ue", [0, 1, 2, 3, 40])
@mark.parametrize("layout", LAYOUTS)
def test_any_number_of_ues(n_ue, layout, monkeypatch):
    world = build("uma", SHADOWS[2], "probability", layout, None, 3)
    position_m = default_rng(n_ue).uniform(0, 900, (n_ue, 2))
    check(world, position_m, None)
    links = world.budget.compute_links(5.0, position_m, None)
    monkeypatch.setattr(link_budget, "BLOCK_PAIRS", 12)
    blocks = world.budget.compute_links(5.0, position_m, None)
    assert_array_equal(blocks.gain_db, links.gain_db)
    assert_array_equal(blocks.los, links.los)


@mark.parametrize("law", URBAN)
def test_sight_is_where_the_nearest_node_is_below_the_probability(law):
    for layout, height_m in product(("three", "images-sectors"), (1.5, 20.0)):
        world = build(law, SHADOWS[0], "probability", layout, height_m=height_m)
        budget = world.budget
        position_m = default_rng(2).uniform(-100, 1000, (300, 2))
        position_m[5] = nan
        pairs = budget.compute_pairs(position_m)
        names = budget.sight.__code__.co_freevars
        cells = [cell.cell_contents for cell in budget.sight.__closure__]
        inner = dict(zip(names, cells, strict=True))
        field, unit = inner["field"], inner["draw_at_nodes"]()
        top = array(unit.shape[1::-1]) - 1.0
        place = (position_m - field.low_m) / field.step_m + 0.5
        x, y = maximum(where(place < top, place, top), 0.0).astype(int).T
        drawn = unit[y, x]
        drawn = drawn[:, field.column] if len(field.column) else drawn
        probability = budget.path_loss.los_probability(pairs)
        assert_array_equal(pairs.los, drawn < probability)
        assert 0 < pairs.los.mean() < 1


def test_probability_of_sight_at_any_distance():
    d = array([[0.0, 1.0, 18.0], [18.000001, 400.0, nan]])
    share = 18.0 / maximum(d, 18.0)
    expected = np.exp(d / -63.0) * (1.0 - share) + share
    for order in "CF":  # of the memory
        assert_array_equal(compute_urban_sight(array(d, order=order), 63.0), expected)


def test_the_decorrelation_of_a_grid_is_that_of_the_weights_in_arrays():
    middle = (np.arange(16) + 0.5) / 16
    x, y = np.tile(middle, 16), np.repeat(middle, 16)
    shorter_m = 50.0
    for _ in range(20):
        gain = array(slow_weights(x, y, 5.0 / shorter_m)).sum(axis=0).mean()
        shorter_m = 50.0 / (1.0 + 2.0 * np.log(gain))
    assert abs(_shorten_decorrelation_m(50.0, 5.0) / shorter_m - 1.0) < 1e-14


def test_a_law_without_sight_takes_the_larger_loss():
    d = default_rng(0).uniform(1, 3000, (40, 3))
    masts = full(3, 25.0)
    for height_m, environment_m in product((1.5, full((40, 1), 19.5)), (None, full((40, 3), 15.0))):
        if isinstance(height_m, float) and environment_m is not None:
            continue
        pairs = Pairs(d, np.hypot(d, 20.0), height_m, masts, environment_m=environment_m)
        for law in (UrbanMacro(), UrbanMicro()):
            assert_array_equal(law.loss_db(pairs, CARRIER_HZ), slow_urban_db(law, pairs))
            hidden = replace(pairs, los=zeros(d.shape, bool))
            assert_array_equal(law.loss_db(hidden, CARRIER_HZ), slow_urban_db(law, pairs))


def test_a_field_of_one_site_is_that_of_its_base_stations():
    area = build("uma", SHADOWS[0], "always", "one").area
    place = area.sample(default_rng(0).uniform(size=(50, 2)))
    rng = Streams(1).derive_rng("shadowing")
    shared = Correlated().draw_field(area, array([4, 9, 4]), rng)
    apart = Correlated().draw_field(area, array([4, 9]), rng)
    assert_array_equal(shared(place), apart(place)[:, [0, 1, 0]])
