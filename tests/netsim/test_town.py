"""The generated town: figures of its plan, determinism, and what stands where."""

from __future__ import annotations

import numpy as np
import shapely
import shapely.affinity
from numpy.testing import assert_array_equal
from pytest import approx, mark

from netsim.city.town import (
    WIDTH_M,
    Roads,
    Town,
    _build_grid,
    _cut_at_river,
    _cut_in_halves,
    draw_town,
    plan_town,
)
from netsim.rng import Streams
from netsim.streets.graph import CLASSES


def plan_small_town(town, seed):
    return plan_town(town.area(None), Streams(seed).derive_rng("city.town"))


def count_degrees(lines):
    ends = np.concatenate(
        [shapely.get_coordinates(shapely.get_point(lines, k)) for k in (0, -1)]
    ).round(3)
    return np.unique(ends, axis=0, return_counts=True)[1]


@mark.slow
@mark.parametrize("seed", [0, 1, 7])
def test_density_of_streets_and_buildings(seed):
    """Within the ranges of European inner cities: 150 to 220 junctions per km^2, coverage 0.20 to
    0.35."""
    town = Town()
    plan = plan_small_town(town, seed)
    buildings = town.buildings(town.area(None), Streams(seed))
    km2 = town.width_m * town.height_m / 1e6
    assert 150 <= (count_degrees(plan.roads.line) >= 3).sum() / km2 <= 220
    assert 20 <= shapely.length(plan.roads.line).sum() / 1e3 / km2 <= 26
    covered = shapely.area(buildings.footprint).sum()
    assert 0.20 <= covered / (town.width_m * town.height_m) <= 0.35
    # none overlaps another
    assert covered - shapely.area(shapely.union_all(buildings.footprint)) < 1e-3


@mark.parametrize("side_m", [300, 1000])
def test_towns_of_any_size_are_whole(side_m):
    town = Town(width_m=side_m, height_m=1.5 * side_m)
    area = town.area(None)
    for seed in range(2):
        buildings = town.buildings(area, Streams(seed))
        graph = town.street_graph(area, Streams(seed))
        assert shapely.is_valid(buildings.footprint).all()
        assert (shapely.area(buildings.footprint) >= 60).all()
        floors = buildings.height_m / 3
        assert_array_equal(floors, np.round(floors))
        # TR 38.901: UEs at most 22.5 m high
        assert floors.min() >= 1
        assert floors.max() <= 8
        corner_m = shapely.get_coordinates(buildings.footprint)
        assert area.contains(corner_m).all()
        assert area.grow(0.1).contains(graph.path.vertex_m).all()


def test_no_building_stands_on_a_street_in_the_park_or_in_the_river():
    town = Town(width_m=800, height_m=800)
    for seed in range(2):
        buildings = town.buildings(town.area(None), Streams(seed))
        plan = draw_town(town, seed).plan
        footprints = shapely.union_all(buildings.footprint)
        assert plan.park is not None
        assert shapely.distance(footprints, plan.river) > 0.5
        assert shapely.distance(footprints, plan.park) > 0.5
        half_m = WIDTH_M[plan.roads.street_class] / 2
        assert (shapely.distance(footprints, plan.roads.line) > half_m).all()


def test_cuts_run_across_the_longer_side_at_the_drawn_share():
    """Turned rectangles of 40 x 10 m: halves of 10 m times a share from 0.4 to 0.6 of the longer
    side."""
    unit = np.array([0.0, 0.25, 1.0])
    turn_rad = [0.0, 1.0, 2.0]
    shape = np.array(
        [shapely.affinity.rotate(shapely.box(0, 0, 40, 10), a, use_radians=True) for a in turn_rad]
    )
    part, source = _cut_in_halves(shape, unit)
    assert source.tolist() == [0, 0, 1, 1, 2, 2]
    share = 0.4 + 0.2 * unit
    shares = np.stack([share, 1 - share], 1)
    area_m2 = shapely.area(part).reshape(3, 2)
    assert np.sort(area_m2) == approx(400 * np.sort(shares))
    assert shapely.length(part) == approx(2 * (10 + shapely.area(part) / 10))


def test_every_second_main_street_is_a_primary_one():
    """Lines 2, 6, 10, ... of the grid are main streets; 6, 14, ... of them, and no others, primary
    ones."""
    at_m = np.stack(np.indices((21, 21)), axis=-1) * 100.0
    roads, _ = _build_grid(at_m)
    ends_m = shapely.get_coordinates(roads.line).reshape(-1, 2, 2)
    x_m = ends_m[:, 0, 0]
    line = np.where(x_m == ends_m[:, 1, 0], x_m, ends_m[:, 0, 1]) / 100.0
    names = np.array(CLASSES)[roads.street_class]
    assert set(line[names == "primary"]) == {6, 14}
    assert set(line[names == "secondary"]) == {0, 2, 10, 18, 20}


def test_three_bridges_cross_the_river():
    for seed in range(2):
        plan = plan_small_town(Town(), seed)
        wet = (
            shapely.length(shapely.intersection(plan.roads.line, shapely.buffer(plan.river, -1.0)))
            > 1.0
        )
        pieces = shapely.get_parts(shapely.line_merge(shapely.union_all(plan.roads.line[wet])))
        assert len(pieces) == 3


def test_the_seed_decides_everything():
    town = Town(width_m=700, height_m=600)
    area = town.area(None)
    result = []
    for seed in (3, 3, 4):
        draw_town.cache_clear()
        result.append((town.buildings(area, Streams(seed)), town.street_graph(area, Streams(seed))))
    (first, streets), (same, again), (second, _) = result
    assert_array_equal(
        shapely.get_coordinates(first.footprint), shapely.get_coordinates(same.footprint)
    )
    assert_array_equal(streets.path.vertex_m, again.path.vertex_m)
    assert_array_equal(streets.speed_m_s, again.speed_m_s)
    assert len(second) != len(first) or not np.array_equal(second.height_m, first.height_m)


def test_a_street_that_the_river_meets_twice_is_no_bridge():
    """The river has an arm that comes back to the street: what is wet of it goes, and a bridge is
    built there."""
    axis = shapely.linestrings([[-50, 0], [1050, 0]])
    river = shapely.union_all(
        [
            shapely.box(-50, -30, 1050, 30),
            shapely.box(400, 0, 420, 80),
            shapely.box(400, 60, 600, 80),
        ]
    )
    street = shapely.linestrings([[[x, -200], [x, 200]] for x in (500.0, 800.0)])
    bridged = _cut_at_river(Roads.from_lines(list(street), CLASSES.index("secondary")), river, axis)
    secondary = bridged.line[bridged.street_class == CLASSES.index("secondary")]
    wet_m = shapely.length(
        shapely.intersection(shapely.union_all(secondary), shapely.buffer(river, -1.0))
    )
    assert wet_m == approx(58)  # of the other street, from bank to bank
    assert len(bridged.line) - len(secondary) == 2  # new bridges, in the middle and in the west
