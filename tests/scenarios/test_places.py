"""Where a replayed trace and a file of cells lie in the plane of a city."""

import json

import numpy as np
import shapely
from noticed import lines as lines_of
from numpy.testing import assert_allclose
from pyproj import Transformer
from pytest import fixture, mark, raises
from refused import catch_line

from netsim.errors import BadInput
from netsim.maps import unproject_m
from netsim.mobility.replay import Replay
from netsim.rng import Streams
from netsim.world.build import build_world
from scenarios.app.run.play import write_map


@fixture
def town(tmp_path):
    """Footprints in degrees around 48.14, 11.58."""
    ring = [
        [11.579, 48.139],
        [11.581, 48.139],
        [11.581, 48.141],
        [11.579, 48.141],
        [11.579, 48.139],
    ]
    house = {
        "type": "Feature",
        "properties": {"height": 9},
        "geometry": {"type": "Polygon", "coordinates": [ring]},
    }
    (tmp_path / "town.geojson").write_text(
        json.dumps({"type": "FeatureCollection", "features": [house]})
    )
    return {"kind": "footprints", "file": str(tmp_path / "town.geojson"), "margin_m": 500.0}


def trace(folder, text):
    (folder / "trace.csv").write_text(text)
    return {"kind": "replay", "trace": str(folder / "trace.csv")}


def walk(lat, lon, n=40):
    rows = [f"{30 * k},{'ab'[k % 2]},{lat + 1e-5 * k},{lon}" for k in range(n)]
    return "time_s,user,lat,lon\n" + "\n".join(rows) + "\n"


def built(tiny, changes):
    study = tiny({"learning": None, "world.duration_s": None, "world.radio": {}, **changes})
    return build_world(study.world, Streams(1), study.round_s)


def build_replay(mobility):
    return {"world.ues": {"mobility": mobility}}


def test_a_trace_with_another_origin_is_refused_with_the_value_to_set(tiny, tmp_path, town):
    mobility = trace(tmp_path, walk(48.16, 11.58))
    with raises(BadInput, match=r"world\.city\.origin_deg: .* set it to \[48\.16\d*, 11\.58\]"):
        built(tiny, {**build_replay(mobility), "world.city": town})
    expected = list(Replay(**mobility).load(60.0).origin_deg)
    world = built(
        tiny,
        {
            **build_replay(mobility),
            "world.city": {**town, "origin_deg": expected, "margin_m": 5000.0},
        },
    )
    assert not [w for w in lines_of(world.notices) if "lies outside" in w]


def test_buildings_outside_of_a_trace_are_left_out_and_shrink_no_area(tiny, tmp_path):
    """Three houses, of which a walk of 390 m passes one; the city ends where the walk does."""
    features = [
        {
            "type": "Feature",
            "properties": {"height_m": 9},
            "geometry": json.loads(shapely.to_geojson(shapely.box(x, 30, x + 20, 50))),
        }
        for x in (100, 900, 1200)
    ]
    file = tmp_path / "houses.geojson"
    file.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    city = {"kind": "footprints", "file": str(file), "crs": "local-metres", "margin_m": 10.0}
    rows = [f"{60 * k},a,{10 * k},{5 * k}" for k in range(40)]
    mobility = trace(tmp_path, "time_s,user,x_m,y_m\n" + "\n".join(rows) + "\n")
    world = built(tiny, {**build_replay(mobility), "world.city": city})
    assert str(world.area) == "x -10 to 400 m, y -10 to 205 m"
    assert len(world.buildings) == 1
    assert any("2 outside of the area of the trace" in note for note in lines_of(world.notices))
    away = trace(tmp_path, "time_s,user,x_m,y_m\n0,a,5000,0\n60,a,5100,90\n")
    assert "no building of it lies in the area of the trace" in catch_line(
        built, tiny, {**build_replay(away), "world.city": city}
    )


def test_a_trace_outside_of_the_city_is_refused_and_one_partly_outside_is_told(tiny, tmp_path):
    rows = [f"{60 * k},{'ab'[k % 2]},{x},50" for k, x in enumerate(np.linspace(-300, 100, 41))]
    mobility = trace(tmp_path, "time_s,user,x_m,y_m\n" + "\n".join(rows) + "\n")
    field = {"kind": "open-field", "width_m": 400.0, "height_m": 300.0}
    printed = [
        w
        for w in lines_of(built(tiny, {**build_replay(mobility), "world.city": field}).notices)
        if "of the trace lies" in w
    ]
    assert printed == ["73.2 % of the trace lies outside of the area x 0 to 400 m, y 0 to 300 m"]
    away = trace(
        tmp_path,
        "time_s,user,x_m,y_m\n" + "\n".join(f"{60 * k},a,{-9 - k},5" for k in range(20)) + "\n",
    )
    assert "world.city: the whole trace lies outside of the area x 0 to 400 m" in catch_line(
        built, tiny, {**build_replay(away), "world.city": field}
    )


UTM = "+proj=utm +zone=32 +ellps=WGS84 +datum=WGS84 +units=m +no_defs"
TO_UTM = Transformer.from_crs("EPSG:4326", "EPSG:32632", always_xy=True)
EAST_M, NORTH_M = (round(index) for index in TO_UTM.transform(11.58, 48.14))
LOCAL_M = [(40.0 + 5 * k, 60.0 + 3 * k) for k in range(40)]
GLOBE = [(11.5805 + 5e-5 * k, 48.1405 + 2e-5 * k) for k in range(40)]  # longitude, latitude


def net(folder, projection, offset):
    nodes = {f"{i}{j}": (i * 300, j * 300) for i in range(2) for j in range(2)}
    edges = [(a, b) for a in nodes for b in nodes if a != b and (a[0] == b[0] or a[1] == b[1])]
    text = (
        f'<net><location netOffset="{offset[0]},{offset[1]}" projParameter="{projection}"/>'
        + "".join(
            f'<edge id="{a}-{b}" from="{a}" to="{b}"><lane id="{a}-{b}_0" index="0" '
            f'speed="9" length="9"/></edge>'
            for a, b in edges
        )
    )
    junctions = "".join(
        f'<junction id="{a}" type="priority" x="{x}" y="{y}"/>' for a, (x, y) in nodes.items()
    )
    (folder / "town.net.xml").write_text(f"{text}{junctions}</net>")
    return str(folder / "town.net.xml")


def build_city(folder, kind):
    """Each with houses or streets around the same 300 m."""
    if kind == "made up":
        return {"kind": "grid", "width_m": 520, "height_m": 420}
    if kind in ("degrees", "network projection"):
        ring = [[11.58, 48.14], [11.584, 48.14], [11.584, 48.143], [11.58, 48.143], [11.58, 48.14]]
    else:
        ring = [[0, 0], [300, 0], [300, 300], [0, 300], [0, 0]]
    house = {
        "type": "Feature",
        "properties": {"height": 9},
        "geometry": {"type": "Polygon", "coordinates": [ring]},
    }
    (folder / "town.geojson").write_text(
        json.dumps({"type": "FeatureCollection", "features": [house]})
    )
    houses = {"kind": "footprints", "file": str(folder / "town.geojson"), "margin_m": 300.0}
    if "network" not in kind:
        return houses
    if "projection" in kind:
        offset = (-EAST_M, -NORTH_M)
    elif "offset" in kind:
        offset = (70.0, -30.0)
    else:
        offset = (0.0, 0.0)
    file = net(folder, UTM if "projection" in kind else "!", offset)
    return {**houses, "streets": file}


def write_trace(folder, kind):
    degrees = "degrees" in kind or kind == "gpx"
    rows = [(30 * k, "ab"[k % 2], *index) for k, index in enumerate(GLOBE if degrees else LOCAL_M)]
    if "fcd" in kind:
        steps = "".join(
            f'<timestep time="{t}"><vehicle id="{user}" x="{x:.7f}" y="{y:.7f}"/></timestep>'
            for t, user, x, y in rows
        )
        options = (
            f'<!-- <fcd-output value="a.xml"/> <fcd-output.geo value="{str(degrees).lower()}"/> -->'
        )
        file = "trace.fcd.xml"
        text = f"{options}<fcd-export>{steps}</fcd-export>"
    elif kind == "gpx":
        points = "".join(
            f'<trkpt lat="{y:.7f}" '
            f'lon="{x:.7f}"><time>2024-05-01T08:{t // 60:02}:{t % 60:02}Z</time></trkpt>'
            for t, _, x, y in rows
        )
        file = "trace.gpx"
        text = f'<gpx version="1.1"><trk><trkseg>{points}</trkseg></trk></gpx>'
    else:
        lines = "".join(f"{t},{user},{x:.7f},{y:.7f}\n" for t, user, x, y in rows)
        file = "trace.csv"
        text = f"time_s,user,{'lon,lat' if degrees else 'x_m,y_m'}\n{lines}"
    (folder / file).write_text(text)
    return {"kind": "replay", "trace": str(folder / file)}


APART = "share no origin"
OTHER = "set it to"
FINE = ""
TABLE = {  # city: traces in degrees, SUMO's metres, other metres
    "degrees": (OTHER, APART, APART),
    "metres": (APART, FINE, FINE),
    "network": (APART, FINE, FINE),
    "network offset": (APART, FINE, FINE),
    "network projection": (OTHER, FINE, APART),
    "made up": (FINE, FINE, FINE),
}


@mark.parametrize("kind", ["csv degrees", "fcd degrees", "gpx", "fcd metres", "csv metres"])
@mark.parametrize("city", TABLE)
def test_city_and_trace_share_an_origin_or_are_refused(tiny, tmp_path, city, kind):
    """Every pair is placed as its files say, or refused with what to state."""
    part = build_city(tmp_path, city)
    mobility = write_trace(tmp_path, kind)
    message = TABLE[city]["degrees" not in kind and kind != "gpx" and 1 + (kind != "fcd metres")]
    changes = {**build_replay(mobility), "world.city": part}
    if message == APART:
        for key in ({}, {"origin_deg": [48.14, 11.58]}):
            with raises(BadInput, match=f"{APART}|origin_deg means nothing"):
                built(tiny, {**changes, "world.city": part | key})
        return
    own_deg = Replay(**mobility).load(60.0).origin_deg
    if message == OTHER:  # and the remedy that is printed is one
        with raises(
            BadInput, match=r"world\.city\.origin_deg: .* set it to \[48\.14\d*, 11\.58\d*\]"
        ):
            built(tiny, changes)
        changes["world.city"] = part | {"origin_deg": [round(index, 7) for index in own_deg]}
    world = built(tiny, changes)
    if "offset" in city:
        moved = np.array([70.0, -30.0])
    else:
        moved = np.zeros(2)
    at_m = world.trace.position_m[np.argsort(world.trace.time_s, kind="stable")]
    if own_deg is not None:
        assert_allclose(unproject_m(at_m, own_deg), GLOBE, atol=1e-9)
    elif city == "network projection":
        in_utm = np.array(LOCAL_M) + np.array([EAST_M, NORTH_M])
        lon_lat = np.column_stack(TO_UTM.transform(*in_utm.T, direction="INVERSE"))
        assert_allclose(unproject_m(at_m, world.setting.city.origin()), lon_lat, atol=1e-9)
        assert world.trace.origin_deg == world.setting.city.origin()
    else:
        assert_allclose(at_m, LOCAL_M - moved * (kind == "fcd metres"), atol=1e-6)
    printed = [
        line
        for line in lines_of(world.notices)
        if "netOffset" in line or "nowhere on the globe" in line
    ]
    assert len(printed) == (city == "made up" and own_deg is not None) + (
        "offset" in city and kind != "fcd metres"
    )


@mark.parametrize("kind", ["degrees", "network projection"])
def test_an_origin_with_longitude_first_is_refused(tiny, tmp_path, kind):
    part = build_city(tmp_path, kind) | {"origin_deg": [11.58, 48.14]}
    with raises(
        BadInput,
        match=r"origin_deg is 5,\d+ km from this map, .* give latitude and longitude, in this",
    ):
        built(tiny, {"world.city": part, "world.duration_s": 60.0})


@mark.parametrize("city", ["degrees", "network projection"])
def test_cells_in_degrees_have_the_origin_of_the_city(tiny, tmp_path, city):
    (tmp_path / "cells.csv").write_text("name,lat,lon\na,48.1415,11.5815\n")
    cells = {"kind": "cell-file", "file": str(tmp_path / "cells.csv")}
    changes = {"world.city": build_city(tmp_path, city), "world.duration_s": 60.0}
    world = built(tiny, changes | {"world.base_stations": cells})
    at_m = np.array([world.stations[0].position_m])
    assert_allclose(unproject_m(at_m, world.setting.city.origin()), [[11.5815, 48.1415]], atol=1e-9)
    with raises(
        BadInput,
        match=r"base_stations\.origin_lat, origin_lon: .* has another origin, 48\.1\d+, 11\.5",
    ):
        built(
            tiny,
            changes | {"world.base_stations": cells | {"origin_lat": 48.139, "origin_lon": 11.58}},
        )


def test_the_map_of_a_drive_has_its_levels(tiny, tmp_path):
    """Place and level, of 9,000 rows of every third."""
    rows = "".join(f"{k},{k % 7},{k % 11},{-90 - k % 5}\n" for k in range(9000))
    mobility = trace(tmp_path, f"time_s,x_m,y_m,rsrp_dbm\n{rows}")
    world = built(tiny, {**build_replay(mobility), "world.base_stations": []})
    write_map(tmp_path, world, world.setting.city)
    k = np.arange(0, 9000, 3)
    with np.load(tmp_path / "map.npz") as arrays:
        assert_allclose(arrays["drive"], np.column_stack([k % 7, k % 11, -90 - k % 5]))
