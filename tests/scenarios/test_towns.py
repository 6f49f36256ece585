"""The five systems play in one town, and people live in it."""

from __future__ import annotations

import json
import os

import numpy as np
import shapely
from pytest import mark
from scipy.spatial import Voronoi

from netsim.city.footprints import Footprints
from netsim.rng import Streams
from netsim.world.build import build_world
from scenarios.app.result import run
from scenarios.app.study.load import load


def test_penetration_costs_what_the_links_of_indoor_ues_lose():
    """RSRP of UEs indoors is lower on average than the same places without penetration, by 10 to 40
    dB."""
    study = load("cities/town")
    town = build_world(study.world, Streams(study.seed), 86400.0)
    town.env.run(until=10 * 3600.0)
    town.catch_up()
    indoors = town.state.indoors()
    assert 0.5 < indoors.inside.mean() < 1.0
    loss_db = town.budget.rsrp_dbm(town.state.position_m) - town.budget.rsrp_dbm(
        town.state.position_m, indoors
    )
    assert 10 < np.mean(loss_db[indoors.inside]) < 40


@mark.slow
def test_serving_cells_do_not_depend_on_other_people():
    """One resident alone is handed over as among others, though the clock jumps while everybody
    rests."""
    cells = {}
    for count in (1, 12):
        changes = {
            "world.city": {"kind": "town", "width_m": 900, "height_m": 900},
            "world.ues.count": count,
            "world.base_stations": {"kind": "hexagonal", "inter_site_m": 350, "rings": 1},
            "world.radio.handover": {"time_to_trigger_s": 1.0},
        }
        study = load("cities/town", changes)
        world = build_world(study.world, Streams(8), 86400.0)
        world.env.run(until=2 * 86400.0)
        seen = world.drain_observations()
        cells[count] = seen.cell[seen.ue == 0]
    assert len(np.unique(cells[1])) > 1
    np.testing.assert_array_equal(cells[1], cells[12])


def skeleton(buildings, area, step_m=6.0, clearance_m=2.5):
    """Street lines in the middle of the open ground between buildings: the edges of their Voronoi
    cells."""
    wall_m, owner = shapely.get_coordinates(
        shapely.segmentize(shapely.boundary(buildings.footprint), step_m), return_index=True
    )
    cells = Voronoi(wall_m)
    edge = np.array(cells.ridge_vertices)
    between = owner[cells.ridge_points]
    edge = edge[(edge >= 0).all(axis=1) & (between[:, 0] != between[:, 1])]
    ends_m = cells.vertices[edge]
    lines = shapely.linestrings(ends_m[area.contains(ends_m).all(axis=1)])
    built = shapely.union_all(shapely.buffer(buildings.footprint, clearance_m))
    open_ = lines[~shapely.intersects(lines, built)]
    return shapely.get_parts(shapely.line_merge(shapely.union_all(open_)))


@mark.skipif("NETSIM_DATA" not in os.environ, reason="NETSIM_DATA is not set: no real data here")
def test_people_live_in_munich_on_streets_between_its_buildings(tmp_path, out):
    """Real footprints with lines of streets: residents go from door to door, indoors on floors of
    their building."""
    file = f"{os.environ['NETSIM_DATA']}/buildings_munich_300m.geojson"
    part = Footprints(file=file)
    buildings = part.buildings(part.area(None), Streams(0))
    streets = [
        {
            "type": "Feature",
            "properties": {"highway": "residential"},
            "geometry": json.loads(shapely.to_geojson(line)),
        }
        for line in skeleton(buildings, part.area(None))
    ]
    (tmp_path / "streets.geojson").write_text(
        json.dumps({"type": "FeatureCollection", "features": streets})
    )
    changes = {
        "world.city.streets": str(tmp_path / "streets.geojson"),
        "world.ues.mobility": {"kind": "resident"},
        "world.duration_s": 36000.0,
        "world.tick_s": 300.0,
        "world.ues.measurement_period_s": 600.0,
        "world.ues.count": 10,
        "learning.round_s": 18000.0,
    }
    summary = run(load("cities/munich", changes), out)
    assert summary["rounds.played"] == 2
    ues = np.genfromtxt(out / "ues.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    home = np.column_stack([ues["home_x_m"], ues["home_y_m"]])
    assert buildings.is_indoors(home).all()
