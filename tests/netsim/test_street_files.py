"""Facts about street files: which tags mean what, what a network says, and how bad files are
refused."""

import gzip
import json
from datetime import date

import numpy as np
import shapely
from noticed import lines as lines_of
from pyproj import Transformer
from pytest import approx, mark, raises
from refused import catch_line
from tabled import cases

from netsim.city.footprints import Footprints, read_street_file
from netsim.city.plain import GridCity
from netsim.clock import Clock
from netsim.errors import BadInput
from netsim.mobility.base import Ground
from netsim.mobility.resident import Resident
from netsim.rng import Streams
from netsim.streets.assembly import assemble_streets
from netsim.streets.doors import find_doors
from netsim.streets.graph import CLASSES, CYCLE, DRIVE, WALK
from netsim.streets.osm import parse_street, read_osm
from netsim.streets.sumo import read_sumo

KM_H = 1 / 3.6
HERE = (48.137, 11.575)


def line(coordinates, kind="LineString", **tags):
    properties = {"highway": "residential", **{k.replace("__", ":"): v for k, v in tags.items()}}
    return {
        "type": "Feature",
        "properties": properties,
        "geometry": {"type": kind, "coordinates": coordinates},
    }


def house(x_m, y_m, side_m=20.0, **tags):
    ring = [
        [x_m, y_m],
        [x_m + side_m, y_m],
        [x_m + side_m, y_m + side_m],
        [x_m, y_m + side_m],
        [x_m, y_m],
    ]
    geometry = {"type": "Polygon", "coordinates": [ring]}
    return {
        "type": "Feature",
        "properties": {"building": "yes", "height_m": 9, **tags},
        "geometry": geometry,
    }


def write(folder, *features, name="streets.geojson", **members):
    file = folder / name
    file.write_text(json.dumps({"type": "FeatureCollection", "features": features, **members}))
    return str(file)


def speeds(**tags):
    """Speeds forward and backward in km/h of a street with these tags."""
    street = parse_street(
        {"highway": "residential", **{k.replace("__", ":"): v for k, v in tags.items()}}
    )
    return tuple(np.round(street.speed_m_s / KM_H, 1).tolist())


class TestTags:
    @mark.parametrize(
        ("highway", "street_class", "walk", "cycle", "drive_km_h"),
        cases(
            r"""
         "motorway", "primary", False, False, 100
         "motorway_link", "primary", False, False, 60
         "trunk", "primary", True, True, 70
         "primary", "primary", True, True, 50
         "service", "service", True, True, 15
         "pedestrian", "pedestrian", True, False, 0
         "footway", "path", True, False, 0
         "cycleway", "path", True, True, 0
         "Path", "path", True, True, 0
         ["corridor", "tertiary", "residential"], "tertiary", True, True, 40
         '["tertiary","service"]', "tertiary", True, True, 40
         "[nan 'service']", "service", True, True, 15
         """
        ),
    )
    def test_classes_and_speeds(self, highway, street_class, walk, cycle, drive_km_h):
        street = parse_street({"highway": highway})
        assert CLASSES[street.street_class] == street_class
        assert street.speed_m_s[0] == approx((1.4 * walk, 4.5 * cycle, drive_km_h * KM_H))

    @mark.parametrize(
        ("value", "km_h"),
        cases(
            r"""
         "50", 50
         20, 20
         "50 km/h", 50
         "30 mph", 48.3
         "30mph", 48.3
         "walk", 7
         "none", 130
         ["signals", "40", "60"], 40
         "['40', '50']", 40
         " [20.0, 40.0]", 20
         "(2:30 mph,50)", 48.3
         "[None, '50']", 50
         "None", 30
         "60;40", 60
         "RO:urban", 30
         "0", 30
         "900", 30
         "nan", 30
         "-50", 30
         "50 kmh", 50
         True, 30
         None, 30
         {"a": 1}, 30
         """
        ),
    )
    def test_speed_limits(self, value, km_h):
        assert speeds(maxspeed=value)[0][DRIVE] == km_h

    @mark.parametrize(
        ("tags", "forward", "backward"),
        cases(
            r"""
         {}, True, True
         {"oneway": "yes"}, True, False
         {"oneway": True}, True, False
         {"oneway": 1}, True, False
         {"oneway": "-1"}, False, True
         {"oneway": -1.0}, False, True
         {"oneway": "-1.0"}, False, True
         {"oneway": "[True, False]"}, True, False
         {"oneway": "nan", "junction": "roundabout"}, True, False
         {"oneway": False}, True, True
         {"oneway": "reversible"}, True, True
         {"junction": "roundabout"}, True, False
         {"junction": "roundabout", "oneway": "no"}, True, True
         {"highway": "motorway"}, True, False
         {"highway": "motorway_link"}, True, True
         """
        ),
    )
    def test_one_way_streets_are_not_for_walkers(self, tags, forward, backward):
        coordinates, back = speeds(**tags)
        assert (coordinates[DRIVE] > 0) == forward
        assert (back[DRIVE] > 0) == backward
        assert coordinates[WALK] == back[WALK]
        assert (coordinates[CYCLE] > 0) == (forward and coordinates[WALK] > 0)

    @mark.parametrize(
        ("tags", "open_to"),
        cases(
            r"""
         {"access": "destination"}, (1, 1, 1)
         {"access": "private", "foot": "yes"}, (1, 0, 0)
         {"vehicle": "no"}, (1, 0, 0)
         {"motor_vehicle": "no"}, (1, 1, 0)
         {"foot": "use_sidepath"}, (0, 1, 1)
         {"vehicle": "no", "bicycle": "designated"}, (1, 1, 0)
         {"highway": "pedestrian", "motor_vehicle": "destination"}, (1, 0, 1)
         """
        ),
    )
    def test_access(self, tags, open_to):
        assert tuple(int(v > 0) for v in speeds(**tags)[0]) == open_to

    @mark.parametrize(
        ("tags", "reason"),
        [
            *cases(
                r"""
         {"highway": "proposed"}, "highway=proposed"
         {"highway": "[]"}, "without a tag highway"
         {"highway": "['proposed', 'nan']"}, "highway=proposed"
         {"highway": "pedestrian", "area": "yes"}, "areas"
         {"highway": "service", "access": "no"}, "closed to all modes"
         """
            ),
            ({"highway": "x" * 99}, "highway=" + "x" * 20),
        ],
    )
    def test_what_is_left_out(self, tags, reason):
        assert parse_street(tags) == reason


class TestGeoJson:
    def test_lines_with_tags(self, tmp_path):
        file = write(
            tmp_path, line([[0, 0], [100, 0], [200, 0, 7.5]], oneway="yes"),
            line([[[100, 0], [100, 50]], [[200, 0], [200, 50]]], "MultiLineString", highway="footway"),
            line([[0, 9], [9, 9]], highway=None), line([[0, 9], [9, 9]], highway="proposed"),
            line([0, 0], "Point", highway="crossing"), house(0, 10),
        )  # fmt: skip
        lines, notes = read_osm(file)
        assert lines.path.vertex_m.tolist() == [
            [0, 0],
            [100, 0],
            [200, 0],
            [100, 0],
            [100, 50],
            [200, 0],
            [200, 50],
        ]
        forward_m_s, backward_m_s = lines.speed_m_s.swapaxes(0, 1)
        assert forward_m_s == approx(np.array([[1.4, 4.5, 30 * KM_H], [1.4, 0, 0], [1.4, 0, 0]]))
        assert backward_m_s.tolist()[0] == [1.4, 0, 0]
        (message,) = lines_of(notes)
        assert "3 of its shapes are no streets" in message
        assert "1 without a tag highway" in message
        assert "1 highway=proposed" in message
        assert "1 Point" in message

    TAGS = (
        {"oneway": "yes", "maxspeed": "30", "access": "destination", "name": 'a "b" => c, \\ d'},
        {"oneway": "-1", "foot": "no", "maxspeed:backward": "20 mph", "note": "x\ny"},
        {"junction": "roundabout", "bicycle": "dismount", "access": "private", "foot": "yes"},
    )

    @mark.parametrize("holds", ["hstore", "json", "object", "all"])
    def test_tags_in_one_property_count_as_properties(self, tmp_path, holds):
        """GDAL has text in other_tags, hstore or JSON, beside columns that are null; others an
        object `tags`."""

        def quote(text):
            return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

        def hold_tags(tags):
            if holds == "hstore":
                text = ",".join(f"{quote(k)}=>{quote(v)}" for k, v in tags.items())
                return {"other_tags": f'{text},"source"=>NULL', "name": None}
            if holds == "object":
                return {"tags": tags, "oneway": None}
            return {"all_tags" if holds == "all" else "tags": json.dumps(tags), "oneway": ""}

        places = [[[0, 0], [100, 0]], [[100, 0], [100, 50]], [[100, 50], [0, 0]]]
        flat, _ = read_osm(
            write(
                tmp_path,
                *(line(points, **tags) for points, tags in zip(places, self.TAGS, strict=True)),
            )
        )
        features = [
            line(points, **hold_tags(tags)) for points, tags in zip(places, self.TAGS, strict=True)
        ]
        result, _ = read_osm(write(tmp_path, *features))
        assert result.speed_m_s.tolist() == flat.speed_m_s.tolist()
        assert (result.speed_m_s == 0).sum() == 10  # closed directions
        both = line(places[0], **hold_tags({"oneway": "yes"}) | {"oneway": "no"})
        assert (read_osm(write(tmp_path, both))[0].speed_m_s > 0).all()  # a property counts before

    @mark.parametrize("holds", ["hstore", "json"])
    def test_levels_and_parts_in_one_property_are_read(self, tmp_path, holds):
        tags = {"building:levels": "4", "min_height": "0"}
        if holds == "json":
            text = json.dumps(tags)
        else:
            text = ",".join(f'"{k}"=>"{v}"' for k, v in tags.items())
        roof = house(100, 0, height_m=None, other_tags='"layer"=>"-1"')
        part = Footprints(file=write(tmp_path, house(0, 0, height_m=None, other_tags=text), roof))
        assert part.buildings(part.area(None), Streams(0)).height_m.tolist() == [12]

    @mark.parametrize(
        "tags",
        ["old, grey", '"oneway"=>"yes" "a"', "{oneway=yes}", '{"oneway": ', '["yes"]', 3, ["a"]],
    )
    def test_tags_that_cannot_be_read_are_refused(self, tmp_path, tags):
        words = (
            r'features\[0\]: properties.tags: .* is no object, JSON or "key"=>"value"; mend '
            r"or remove it"
        )
        with raises(BadInput, match=words) as refused:
            read_osm(write(tmp_path, line([[0, 0], [9, 9]], tags=tags)))
        assert len(refused.value.lines) == 1

    def test_both_directions_of_a_simplified_network_are_one_street(self, tmp_path):
        """osmnx writes a street of two directions twice, and one of one direction once."""
        forward = [[0, 0], [60, 5], [100, 0]]
        classes = ["residential", "tertiary"]
        file = write(
            tmp_path,
            line(forward, oneway=False, reversed=False, highway=classes),
            line(forward[::-1], oneway=False, reversed=True, highway=classes),
            line([[100, 0], [100, 90]], oneway=True, reversed=False),
            line([[100, 90], [0, 0]], oneway=True, reversed=False),
        )
        graph = assemble_streets(read_osm(file)[0]).graph
        assert len(graph) == 2
        assert (graph.speed_m_s[:, :, DRIVE] > 0).sum() == 3

    @mark.parametrize("crs", ["EPSG:32632", "lonlat"])
    def test_streets_lie_on_the_plane_of_the_buildings(self, tmp_path, crs):
        """The same street in degrees and in UTM, around the origin of the buildings."""
        to_utm = Transformer.from_crs("EPSG:4326", "EPSG:32632", always_xy=True)
        lon_lat = [(11.575, 48.137), (11.576, 48.1375), (11.577, 48.137)]
        if crs == "lonlat":
            given = lon_lat
        else:
            given = [to_utm.transform(*p) for p in lon_lat]
        if crs == "lonlat":
            member = {}
        else:
            member = {"crs": {"type": "name", "properties": {"name": crs}}}
        stated = read_osm(write(tmp_path, line([list(p) for p in given]), **member), "auto", HERE)[
            0
        ]
        message = read_osm(write(tmp_path, line([list(p) for p in given])), crs, HERE)[0]
        for lines in (stated, message):
            assert lines.path.vertex_m[0] == approx([0, 0], abs=1e-3)
            east_m = 0.002 * 111_320 * np.cos(np.radians(48.137))
            assert lines.path.vertex_m[2] == approx([east_m, 0], abs=0.5)
            assert lines.path.vertex_m[1, 1] == approx(0.0005 * 111_200, abs=0.2)

    @mark.parametrize(
        ("features", "words"),
        cases(
            r"""
            [], "features: there is no street in it; give LineStrings"
            [{"coordinates": [[0, 0], [1, 1]], "highway": "elevator"}],
                r"no street in it \(1 highway=elevator\)"
            [{"coordinates": [[0, 0]]}], r"features\[0\]: geometry: .*point array must contain"
            [{"coordinates": []}], "no street in it"
            [{"coordinates": [[0, 0], [1, None]]}], "must be number, but is null"
            [{"coordinates": [[0, 0], [2e6, 0]]}],
                r"features\[0\]: coordinates out of range: 2000000, 0 are no local metres"
            [{"coordinates": [[0, 0], [5, 5]], "kind": "Street"}], "Unknown geometry type"
            [{"type": "Thing"}], "is not a Feature; give GeoJSON Features"
            """
        ),
    )
    def test_bad_features_are_refused_in_a_line(self, tmp_path, features, words):
        stated = [item if "type" in item else line(**item) for item in features]
        with raises(BadInput, match=words) as refused:
            read_osm(write(tmp_path, *stated))
        assert len(refused.value.lines) == 1
        assert str(refused.value).startswith(str(tmp_path))


# --- SUMO
# ----------------------------------------------------------------------------------------

NET = """<?xml version="1.0" encoding="UTF-8"?>
<net version="1.20">
  <location netOffset="100.00,200.00" convBoundary="0,0,1,1" origBoundary="0,0,1,1" projParameter="!"/>
  <type id="highway.primary" priority="12" numLanes="2" speed="13.89"/>
  <edge id=":b_0" function="internal"><lane id=":b_0_0" index="0" speed="5" length="3" shape="0,0 1,1"/></edge>
  <edge id="ab" from="a" to="b" type="highway.primary" shape="100.00,200.00 150.00,210.00 200.00,200.00">
    <lane id="ab_0" index="0" allow="pedestrian" speed="2.00" length="99" shape="101,197 150,207 199,197"/>
    <lane id="ab_1" index="1" disallow="pedestrian bicycle" speed="13.89" length="99" shape="101,199 150,209 199,199"/>
  </edge>
  <edge id="ba" from="b" to="a" type="highway.primary" shape="200.00,200.00 150.00,210.00 100.00,200.00">
    <lane id="ba_0" index="0" speed="10.00" length="99" shape="199,203 150,213 101,203"/>
  </edge>
  <edge id="bc" from="b" to="c">
    <lane id="bc_0" index="0" speed="25.00" length="99" shape="201,200 250,240 299,200"/>
    <lane id="bc_1" index="1" speed="20.00" length="99" shape="201,204 250,244 299,204"/>
  </edge>
  <edge id="ca" from="c" to="a"><lane id="ca_0" index="0" speed="9" length="9" shape="299,196 101,196"/></edge>
  <edge id="rail" from="a" to="c"><lane id="r_0" index="0" allow="tram rail" speed="9" shape="0,0 1,1"/></edge>
  <junction id="a" type="priority" x="100.00" y="200.00" incLanes="" intLanes="" shape="1,1"/>
  <junction id="b" type="priority" x="200.00" y="200.00" incLanes="" intLanes="" shape="1,1"/>
  <junction id="c" type="dead_end" x="300.00" y="200.00" incLanes="" intLanes="" shape="1,1"/>
  <junction id=":b_0_0" type="internal" x="5" y="5"/>
</net>
"""


def network(folder, text=NET, name="town.net.xml"):
    file = folder / name
    file.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return str(file)


class TestSumo:
    @mark.parametrize("name", ["town.net.xml", "town.net.xml.gz"])
    def test_edges_of_a_network(self, tmp_path, name):
        lines, notes, _ = read_sumo(network(tmp_path, name=name))
        assert lines_of(notes) == [
            f"city: {tmp_path / name}: 1 edges are open to none of pedestrian, bicycle, "
            f"passenger: left out",
            f"city: {tmp_path / name}: 1 edges are inside junctions, or crossings: left out",
        ]
        forward_m_s, backward_m_s = lines.speed_m_s.swapaxes(0, 1)
        assert forward_m_s.tolist() == [
            [1.4, 0, 13.89],
            [1.4, 4.5, 10],
            [1.4, 4.5, 25],
            [1.4, 4.5, 9],
        ]
        assert (backward_m_s == forward_m_s * [1, 0, 0]).all()
        assert [CLASSES[k] for k in lines.street_class] == [
            "primary",
            "primary",
            "primary",
            "residential",
        ]
        ab, bc, ca = (
            lines.path.vertex_m[lines.path.first[k] : lines.path.first[k + 1]].tolist()
            for k in (0, 2, 3)
        )
        assert ab == [[0, 0], [50, 10], [100, 0]]
        assert bc == [[100, 0], [150, 42], [200, 0]]  # the mean of its lanes
        assert ca == [[200, 0], [0, 0]]

    def test_opposite_edges_are_one_street(self, tmp_path):
        graph = read_street_file(
            network(tmp_path), "auto", None, GridCity(width_m=300, height_m=200).area(None), (0, 0)
        ).graph
        assert len(graph.node_m) == 3
        assert (graph.speed_m_s[:, :, DRIVE] > 0).sum() == 4
        assert (graph.speed_m_s[:, :, WALK] > 0).sum() == 6
        drive = graph.speed_m_s[graph.street_class == CLASSES.index("primary"), :, DRIVE]
        assert sorted(drive.ravel().tolist()) == [0, 10, 13.89, 25]

    def test_a_projected_network_lies_on_the_plane_of_the_buildings(self, tmp_path):
        east_m, north_m = Transformer.from_crs("EPSG:4326", "EPSG:32632", always_xy=True).transform(
            HERE[1], HERE[0]
        )
        text = NET.replace(
            '"!"', '"+proj=utm +zone=32 +ellps=WGS84 +datum=WGS84 +units=m +no_defs"'
        )
        text = text.replace('100.00,200.00" conv', f'{100 - east_m:.2f},{200 - north_m:.2f}" conv')
        lines, *_ = read_sumo(network(tmp_path, text), HERE)
        plain, *_ = read_sumo(network(tmp_path))
        away_m = np.linalg.norm(lines.path.vertex_m - plain.path.vertex_m, axis=1)
        assert away_m.max() < 10  # grid north is 1.9 degrees away
        assert lines.path.vertex_m[0] == approx([0, 0], abs=0.02)
        length_m = np.linalg.norm(lines.path.vertex_m[2] - lines.path.vertex_m[0])
        # of UTM, so far from its meridian
        scale = 0.9996 * (1 + (east_m - 500e3) ** 2 / (2 * 6.38e6**2))
        assert length_m == approx(100 / scale, abs=2e-3)

    @mark.parametrize(
        ("old", "new", "words"),
        cases(
            r"""
         "<net version", "<routes version", "<routes> is not a SUMO network"
         "</net>", "", "not XML"
         '<?xml version="1.0" encoding="UTF-8"?>', '<!DOCTYPE net [<!ENTITY a "b">]>',
             "document type"
         'speed="2.00"', 'speed="fast"',
             "line 7: speed 'fast' of a lane is not a number above 0; give m/s"
         "150.00,210.00 200", "150.00 200", "is not a position"
         'x="300.00"', "", "',200.00' is not a position"
         'from="a" to="b"', 'from="a"', "edge 'ab' without from or to"
         'id="c" type', 'id="k" type', "junction 'c' of an edge is not in the file"
         '"!"', '"+proj=utm +zone=32 +ellps=WGS84"',
             r"a projection and the buildings have none, .*; set crs to"
         "<edge", "<hedge", "there is no edge in it"
         """
        ),
    )
    def test_bad_networks_are_refused_in_a_line(self, tmp_path, old, new, words):
        assert old in NET
        if new == "<hedge":
            text = NET.replace("</edge>", "</hedge>")
        else:
            text = NET
        with raises(BadInput, match=words) as refused:
            read_sumo(network(tmp_path, text.replace(old, new)))
        assert len(refused.value.lines) == 1
        assert str(refused.value).startswith(str(tmp_path))


def compute_quarter(projection="!", offset=(0.0, 0.0)):
    """Streets around 300 m x 240 m, one through the middle for people only, and an edge inside a
    junction."""
    points = {
        "a": (0, 0),
        "b": (300, 0),
        "c": (300, 240),
        "d": (0, 240),
        "m": (150, 0),
        "n": (150, 240),
    }
    edges = '<edge id=":m_0" function="internal"><lane id="i" speed="5" shape="0,0 1,1"/></edge>'
    for way in ("am", "mb", "bc", "cn", "nd", "da"):
        for first, second in (way, way[::-1]):
            lane = f'<lane id="{first}{second}_0" speed="13.9" shape="0,0 1,1"/>'
            edges += f'<edge id="{first}{second}" from="{first}" to="{second}">{lane}</edge>'
    edges += (
        '<edge id="mn" from="m" to="n"><lane id="mn_0" allow="pedestrian" speed="2" '
        'shape="0,0 1,1"/></edge>'
    )
    nodes = "".join(f'<junction id="{n}" x="{x}" y="{y}"/>' for n, (x, y) in points.items())
    location = (
        f'<location netOffset="{offset[0]:.2f},{offset[1]:.2f}" projParameter="{projection}"/>'
    )
    return f'<net version="1.20">{location}{edges}{nodes}</net>'


class TestNetworkBesideHouses:
    def city(self, folder, text):
        """Nine houses within the streets of the quarter."""
        houses = [house(x, y) for x in (20, 100, 200) for y in (20, 100, 200)]
        return Footprints(
            file=write(folder, *houses, name="houses.geojson"),
            streets=network(folder, text),
            margin_m=90,
        )

    def test_people_walk_on_the_streets_of_a_network(self, tmp_path):
        city = self.city(tmp_path, compute_quarter())
        streams = Streams(4)
        assert city.origin() is None
        assert lines_of(city.notices(None)) == [
            f"city: {city.streets}: 1 edges are inside junctions, or crossings: left out"
        ]
        area = city.area(None)
        graph = city.street_graph(area, streams)
        built = city.buildings(area, streams)
        street = shapely.union_all(graph.path.to_lines())
        assert (graph.speed_m_s[:, :, DRIVE] > 0).sum() == 4
        assert (graph.speed_m_s[:, :, WALK] > 0).sum() == 6
        again = city.buildings(area, streams)
        assert again is built
        premises = find_doors(built.footprint, built.height_m, graph)
        ground = Ground(area, Clock(date(2026, 1, 5)), streams, built, None, None, graph, premises)
        people = Resident(drive_share=0.0, cycle_share=0.0)
        outside = 0
        state = people.start(np.arange(60), ground)
        for minute in range(8 * 60, 10 * 60, 2):
            state, _ = people.advance(state, 60.0 * (minute - 2), 60.0 * minute, ground)
            walks = ~state.indoors().inside
            outside += walks.sum()
            assert (shapely.distance(street, shapely.points(state.position_m[walks])) < 62).all()
        assert outside > 20

    @mark.parametrize(
        ("old", "new", "words"),
        [
            ('allow="pedestrian"', 'allow="tram"', None),
            (
                'speed="13.9"',
                'disallow="pedestrian" speed="13.9"',
                "no street in the area is open to pedestrians",
            ),
            ('projParameter="!"', 'projParameter="+proj=utm +zone=32"', "the buildings have none"),
            ("<edge", "<hedge", "not XML"),
        ],
    )
    def test_networks_that_are_no_city(self, tmp_path, old, new, words):
        text = compute_quarter().replace('allow="pedestrian"', 'allow="tram"').replace(old, new)
        city = self.city(tmp_path, text)
        if words is None:
            assert any(
                "1 edges are open to none of" in note for note in lines_of(city.notices(None))
            )
        else:
            assert words in catch_line(city.street_graph, None, Streams(0))

    def test_a_projection_that_names_a_file_is_refused(self, tmp_path):
        text = compute_quarter("+proj=utm +nadgrids=/etc/passwd")
        with raises(BadInput, match="no projection in m that is read"):
            read_sumo(network(tmp_path, text), HERE)


class TestFootprints:
    def town(self, folder):
        """Two streets that cross and a third beyond the margin, with two houses, in one file."""
        return write(
            folder, house(10, 10), house(100, 40), line([[-500, 0], [60, 0], [500, 0]]), line([[60, 0], [60, 500]]),
            line([[0, 900], [90, 900]]),
        )  # fmt: skip

    def test_one_file_holds_buildings_and_streets(self, tmp_path):
        file = self.town(tmp_path)
        city = Footprints(file=file, streets=file, margin_m=20)
        area = city.area(None)
        graph = city.street_graph(area, Streams(0))
        assert area.x_min_m == -10
        assert area.y_min_m == -10
        assert area.x_max_m == 140
        assert area.y_max_m == 80
        assert sorted(map(tuple, graph.node_m.tolist())) == [(-10, 0), (60, 0), (60, 80), (140, 0)]
        assert not [*city.notices(None)]
        assert city.offers == {"buildings", "streets"}

    def test_aguascalientes(self, data_folder):
        file = str(data_folder / "streets_aguascalientes.geojson")
        city = Footprints(file=file, streets=file, default_height_m=6.0, margin_m=1500)
        area = city.area(None)
        graph = city.street_graph(area, Streams(0))
        open_to = (graph.speed_m_s > 0).any(axis=2)
        assert len(graph.node_m) == 932
        assert open_to.sum() == 2610
        assert (graph.length_m @ open_to).sum() / 1e3 == approx(181.9, abs=0.1)
        assert area.contains(graph.path.vertex_m).all()
        assert lines_of(city.notices(None))[0].endswith(
            "heights of buildings: 35 by default_height_m"
        )
        assert "78 closed to all modes" in lines_of(city.notices(None))[1]
