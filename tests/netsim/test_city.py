"""Buildings: what blocks a link, what a file may hold, and how made-up cities are drawn."""

import json
import re
from fractions import Fraction
from itertools import pairwise, permutations

import numpy as np
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from noticed import lines
from numpy.testing import assert_allclose
from pyproj import Transformer
from pytest import approx, mark, raises
from refused import catch_line
from rows import read_yaml
from shapely import Polygon, box
from tabled import cases

from netsim.city.buildings import Buildings
from netsim.city.footprints import Footprints, parse_metres
from netsim.city.plain import Generated, GridCity
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Streams

AREA = Area(0.0, 0.0, 100.0, 100.0)


def city(*prisms):
    """Buildings from (polygon, height)."""
    footprint, height_m = zip(*prisms, strict=True)
    return Buildings(np.array(footprint, dtype=object), np.array(height_m, dtype=float))


def build(part):
    return part.buildings(part.area(None), Streams(0))


def sees(buildings, a_m, b_m):
    """One link."""
    sight = buildings.has_line_of_sight(np.array([a_m], float), np.array([b_m], float))
    return bool(sight.item())


# --- a slow exact traversal, in rational numbers
# ----------------------------------------------------------------------------------------


def list_walls(polygon):
    walls = []
    for ring in (polygon.exterior, *polygon.interiors):
        corners = [tuple(map(Fraction, p)) for p in ring.coords]
        walls += pairwise(corners)
    return walls


def compute_turn(o, p, q):
    return (p[0] - o[0]) * (q[1] - o[1]) - (p[1] - o[1]) * (q[0] - o[0])


def strictly_inside(point, polygon):
    x, y = point[:2]
    odd = False
    for p, q in list_walls(polygon):
        side = compute_turn(p, q, point)
        (left, right), (low, high) = map(sorted, zip(p, q, strict=True))
        if side == 0 and left <= x <= right and low <= y <= high:
            return False
        is_crossed = (p[1] > y) != (q[1] > y)
        if is_crossed and (side > 0) == (q[1] > p[1]):
            odd = not odd
    return odd


def find_cuts(a, b, polygon):
    """Shares of the way from a to b at which it meets a wall, in order, 0 and 1 included."""
    result = {Fraction(0), Fraction(1)}
    way = (b[0] - a[0], b[1] - a[1])
    square = way[0] ** 2 + way[1] ** 2

    def find_share(point):
        return ((point[0] - a[0]) * way[0] + (point[1] - a[1]) * way[1]) / square

    for p, q in list_walls(polygon):
        first = compute_turn(a, b, p)
        second = compute_turn(a, b, q)
        for vertex, side in ((p, first), (q, second)):
            if side == 0 and square:
                result.add(find_share(vertex))
        if first * second < 0:
            share = first / (first - second)
            met = [start + share * (end - start) for start, end in zip(p, q, strict=True)]
            result.add(find_share(met))
    return sorted(s for s in result if 0 <= s <= 1)


def exact_sight(a, b, prisms):
    a = tuple(map(Fraction, a))
    b = tuple(map(Fraction, b))

    def locate(share):
        return tuple(p + share * (q - p) for p, q in zip(a, b, strict=True))

    for polygon, height in prisms:
        shares = find_cuts(a, b, polygon)
        for first, last in pairwise(shares):
            lowest = min(locate(first)[2], locate(last)[2])
            if strictly_inside(locate((first + last) / 2), polygon) and lowest < Fraction(height):
                return False
    return True


# an L, a U, a courtyard, a kite and a comb
SHAPES = """
POLYGON ((2 2, 12 2, 12 5, 5 5, 5 12, 2 12, 2 2))
POLYGON ((3 3, 13 3, 13 13, 10 13, 10 6, 6 6, 6 13, 3 13, 3 3))
POLYGON ((4 4, 14 4, 14 14, 4 14, 4 4), (7 7, 11 7, 11 11, 7 11, 7 7))
POLYGON ((8 0, 16 8, 8 16, 0 8, 8 0))
POLYGON ((0 0, 15 0, 15 9, 12 2, 9 9, 6 2, 3 9, 1 3, 0 0))
"""

corner = st.integers(0, 16)
corners = st.lists(st.tuples(corner, corner), min_size=3, max_size=7, unique=True)
polygon = st.one_of(
    st.sampled_from([shapely.from_wkt(text) for text in SHAPES.strip().split("\n")]),
    corners.map(Polygon).filter(lambda p: p.is_valid and p.area > 0),
)
# no link of whole numbers is exactly as high
height = st.integers(0, 12).map(lambda h: h + 0.3712345)
end = st.tuples(corner, corner, st.integers(0, 14))


class TestLineOfSight:
    @settings(max_examples=100, deadline=None)
    @given(
        st.lists(st.tuples(polygon, height), min_size=1, max_size=3),
        st.lists(end, min_size=2, max_size=6),
    )
    def test_agrees_with_an_exact_traversal(self, prisms, ends):
        end_m = np.array(ends, dtype=float)
        result = city(*prisms).has_line_of_sight(end_m, end_m)
        for (i, a), (j, b) in permutations(enumerate(ends), 2):
            if a[:2] != b[:2]:
                assert result[i, j] == exact_sight(a, b, prisms), (prisms, a, b)
        assert (result == result.T).all()

    def test_symmetric_to_the_last_bit_in_random_cities(self):
        rng = np.random.default_rng(0)
        part = Generated(width_m=300, height_m=300, count=60)
        buildings = part.buildings(Area(0, 0, 300, 300), Streams(1))
        low_m = rng.uniform(0, [300, 300, 2], (150, 3))
        high_m = rng.uniform(0, [300, 300, 100], (30, 3))
        down = buildings.has_line_of_sight(low_m, high_m)
        up = buildings.has_line_of_sight(high_m, low_m)
        assert (down == up.T).all()
        assert 0.05 < down.mean() < 0.95

    def test_a_touched_corner_or_wall_is_free(self):
        buildings = city((box(40, 40, 60, 60), 20.0), (box(60, 60, 80, 80), 20.0))
        assert sees(buildings, (30, 50, 1), (50, 30, 1))  # the corner (40, 40)
        assert sees(buildings, (0, 40, 1), (100, 40, 1))  # along a wall
        assert sees(buildings, (40, 0, 1), (40, 100, 1))
        assert sees(buildings, (50, 70, 1), (70, 50, 1))  # between two that touch
        assert not sees(buildings, (30, 50.001, 1), (50.001, 30, 1))
        assert not sees(buildings, (0, 40.001, 1), (100, 40.001, 1))

    def test_roofs_and_rooms(self):
        buildings = city((box(40, 40, 60, 60), 20.0))
        assert sees(buildings, (0, 50, 1.5), (41, 50, 25))  # a mast at the near side of the roof
        assert not sees(buildings, (0, 50, 1.5), (59, 50, 25))  # its roof is in the way
        assert not sees(buildings, (50, 50, 1.5), (0, 50, 25))  # a phone indoors
        assert not sees(buildings, (50, 50, 1.5), (50, 50, 25))  # straight below the mast
        assert sees(buildings, (50, 50, 20), (50, 50, 25))
        assert sees(buildings, (10, 50, 1.5), (10, 50, 25))


class TestGround:
    def test_the_first_wall_and_its_direction(self):
        buildings = city((box(40, 40, 60, 60), 9.0), (box(70, 0, 80, 100), 9.0))
        a_m = np.array([[0.0, 50.0], [50, 0], [50, 50]])
        b_m = np.array([[100.0, 50.0], [50, 30], [100, 50]])
        far_m, wall_rad = buildings.find_wall_distance_and_direction(a_m, b_m)
        assert far_m.tolist() == [40.0, np.inf, 0.0]
        assert np.abs(np.cos(wall_rad[0])) < 1e-12

    def test_outdoor_places_are_uniform_and_each_its_own(self):
        buildings = city((box(0, 0, 50, 100), 9.0))
        rng = Streams(5).derive_rng("test")
        at_m = buildings.draw_outdoor_m(AREA, rng, "place", np.arange(20_000))
        assert not buildings.is_indoors(at_m).any()
        assert_allclose(at_m.mean(axis=0), [75, 50], atol=0.7)
        few = buildings.draw_outdoor_m(AREA, rng, "place", np.array([7, 3]))
        assert np.array_equal(few, at_m[[7, 3]])
        open_m = Buildings.none().draw_outdoor_m(AREA, rng, "place", np.arange(5))
        assert np.array_equal(open_m, AREA.sample(rng.uniform("place", np.arange(5), (2,))))


class TestMadeUpCities:
    def test_grid_blocks_and_streets(self):
        part = GridCity(width_m=520, height_m=340)
        buildings = build(part)
        assert len(buildings) == 5 * 3
        assert shapely.total_bounds(buildings.footprint).tolist() == [20, 20, 500, 300]
        assert ((buildings.height_m >= 10) & (buildings.height_m <= 30)).all()
        x_m, y_m = part.street_grid()
        assert x_m.tolist() == [10, 110, 210, 310, 410, 510]
        assert y_m.tolist() == [10, 110, 210, 310]
        for x in x_m:
            assert buildings.has_clear_path(np.array([[x, 0.0]]), np.array([[x, 340.0]]))
        for y in y_m:
            assert buildings.has_clear_path(np.array([[0.0, y]]), np.array([[520.0, y]]))


GONE = "demolished, in ruins, or not yet built"


def build_ring(west, south, east, north):
    return [[west, south], [east, south], [east, north], [west, north], [west, south]]


def build_square(x):
    return [build_ring(x, 0, x + 40, 30)]


SQUARE = build_square(0)
MUNICH = build_ring(11.57, 48.14, 11.572, 48.141)


def build_polygon(x):
    return {"type": "Polygon", "coordinates": build_square(x)}


def feature(kind="Polygon", coordinates=SQUARE, **properties):
    geometry = {"type": kind, "coordinates": coordinates}
    return {"type": "Feature", "properties": {"height_m": 12.5} | properties, "geometry": geometry}


def collection(*geometries):
    return {"type": "GeometryCollection", "geometries": list(geometries)}


def nest(depth):
    if depth:
        return collection(nest(depth - 1))
    return collection()


def shape(geometry, **properties):
    return {"type": "Feature", "properties": properties, "geometry": geometry}


class TestFootprints:
    def make_part(self, folder, *features, text=None, **keys):
        file = folder / "city.geojson"
        if text is None:
            text = json.dumps({"type": "FeatureCollection", "features": features})
        file.write_text(text)
        return Footprints(file=str(file), **keys)

    def read_city(self, *arguments, **keys):
        part = self.make_part(*arguments, **keys)
        return build(part)

    def test_polygons_holes_and_parts(self, tmp_path):
        far = [[[100, 0, 7], [120, 0, 7], [110, 9, 7], [100, 0, 7]]]
        buildings = self.read_city(
            tmp_path,
            feature(coordinates=[*SQUARE, build_ring(10, 10, 30, 20)]),
            feature("MultiPolygon", [build_square(50), far], height_m=3),
        )
        assert buildings.height_m.tolist() == [12.5, 3, 3]
        assert shapely.area(buildings.footprint).tolist() == [1000, 1200, 90]
        part = self.make_part(tmp_path, feature(), margin_m=5)
        assert part.area(None) == Area(-5, -5, 45, 35)
        assert part.origin() is None

    @mark.parametrize(
        ("text", "height_m"),
        [
            *cases(
                r"""
         "12", 12.0
         " 12 m", 12.0
         "12.5m", 12.5
         "12,5 m", 12.5
         "12 metres", 12.0
         "9.1 Meter", 9.1
         "40'", 12.192
         "40 ft", 12.192
         "40 feet", 12.192
         "6'4\"", 1.9304
         "6' 4''", 1.9304
         "10.5 ft", 3.2004
         "12;15", None
         "~12", None
         "", None
         "m", None
         "1e2", None
         "NaN", None
         "1,250", None
         "12,500 m", None
         "1,25", 1.25
         "0,125", 0.125
         "1.250", 1.25
         "1,000'", None
         "40'6", None
         "1_0", None
         "٣", 3.0
         """
            ),
            ("9" * 5000, None),
        ],
    )
    def test_heights_as_people_write_them(self, text, height_m):
        assert parse_metres(text) == (None if height_m is None else approx(height_m))

    @mark.parametrize(
        ("unknown", "message"),
        [
            *cases(
                """
                -1, "-1"
                "0.0 m", '"0.0 m"'
                "unknown", '"unknown"'
                None, ""
                " ", ""
                "NaN", ""
                """
            ),
            (float("nan"), ""),
        ],
    )
    def test_a_value_for_an_unknown_height_gets_the_default_and_is_counted(
        self, tmp_path, unknown, message
    ):
        features = [
            shape(build_polygon(0), height=7.2),
            shape(build_polygon(50), height=unknown),
            shape(build_polygon(100), height=unknown),
            shape(build_polygon(150), height=unknown, levels=4),
        ]
        part = self.make_part(tmp_path, *features, default_height_m=9)
        assert build(part).height_m.tolist() == [7.2, 9, 9, 12]
        odd = ""
        problem = "height_m: it has no height"
        if message:
            odd = f", 3 values are no height, such as {message}"
            problem = f"height: {message} is not a height"
        (note,) = lines(part.notices(None))
        assert note.endswith(
            f"heights of buildings: 1 by their levels of 3 m, 2 by default_height_m{odd}"
        )
        assert (
            f"features[1]: properties.{problem}, nor have 1 others of 4; give one in m, or set "
            f"default_height_m"
        ) in catch_line(self.read_city, tmp_path, *features)

    def test_what_is_no_building_is_left_out_and_said(self, tmp_path):
        square, second, third = map(build_polygon, (0, 50, 100))
        path = {"type": "LineString", "coordinates": [[0, 0], [1, 1]]}
        features = [
            shape(square, building="yes", height="12"),
            shape({"type": "Point", "coordinates": [1, 2]}, natural="tree"),
            shape(path, highway="footway"),
            shape(None, building="yes"),
            shape(square, landuse="grass"),
            shape(square, building="no"),
            shape({"type": "MultiPolygon", "coordinates": []}, building="yes"),
            shape(collection(second, path, collection(third)), building="yes", height=7),
        ]
        part = self.make_part(tmp_path, *features)
        assert build(part).height_m.tolist() == [12, 7, 7]
        (note,) = lines(part.notices(None))
        assert "7 of its shapes are left out: 1 Point, 2 LineString, 2 without a geometry" in note
        assert note.endswith("2 without a tag building")
        untagged = self.make_part(tmp_path, shape(square, height=1), shape(second, height=2))
        assert len(build(untagged)) == 2
        assert not lines(untagged.notices(None))

    @mark.parametrize(
        "tags",
        [{"levels": "2,019"}, {"building:levels": 2019}, {"height": "1,250"}, {"height": 2019}],
    )
    def test_an_implausible_height_is_unknown_and_counted(self, tmp_path, tags):
        house = shape(build_polygon(0), building="yes", **tags)
        part = self.make_part(tmp_path, house, default_height_m=9)
        assert build(part).height_m.tolist() == [9]
        (value,) = tags.values()
        odd = f"1 by default_height_m, 1 values are no height, such as {json.dumps(value)}"
        assert lines(part.notices(None))[0].endswith(odd)
        with raises(BadInput, match="is not a height; give one in m, or set default_height_m"):
            self.read_city(tmp_path, house)

    @mark.parametrize(
        ("tags", "reason"),
        cases(
            r"""
         {"building": "roof", "min_height": "6"}, "roofs and bridges"
         {"building": "roof"}, "roofs and bridges"
         {"building": "yes", "min_height": 10}, "over open ground"
         {"building": "bridge"}, "roofs and bridges"
         {"building": "yes", "building:min_level": "2"}, "over open ground"
         {"building": "yes", "man_made": "bridge"}, "roofs and bridges"
         {"building": "yes", "layer": "-1"}, "underground"
         {"building": "yes", "location": "underground"}, "underground"
         {"building": "demolished"}, '$GONE'
         {"demolished:building": "yes"}, '$GONE'
         {"building": "yes", "proposed": "yes"}, '$GONE'
         {"building": "construction"}, '$GONE'
         {"building": "yes", "building:demolished": True}, '$GONE'
         {"building": "yes", "ruins": "yes"}, '$GONE'
         {"building": "dismantled"}, '$GONE'
         {"building": "yes", "tunnel": "yes"}, "underground"
         {"building": "yes", "building:min_height": "6 m"}, "over open ground"
         {"building": " No "}, "without a tag building"
         {"building": "no"}, "without a tag building"
         {"building": "yes", "bridge": "yes"}, "roofs and bridges"
         """,
            GONE=GONE,
        ),
    )
    def test_what_does_not_stand_on_the_ground_is_left_out_and_said(self, tmp_path, tags, reason):
        plain = read_yaml(
            "building: 'yes', bridge: null, layer: '0', min_height: '0', abandoned: 'yes', "
            "proposed: 'no'"
        )
        house = shape(build_polygon(0), height=10, **plain)
        second = shape(build_polygon(100), height=50, **tags)
        part = self.make_part(tmp_path, house, second)
        assert build(part).height_m.tolist() == [10]
        (note,) = lines(part.notices(None))
        assert note.endswith(f"1 of its shapes are left out: 1 {reason}")
        with raises(BadInput, match=r"features: (there is no|no) building in it"):
            self.read_city(tmp_path, second)

    def test_every_building_twice_or_with_its_part_is_the_map_of_one(self, tmp_path):
        squares = [build_polygon(60 * k) for k in range(3)]
        once = [shape(item, building="yes", height=21) for item in squares]
        expected = self.read_city(tmp_path, *once)
        parts = [shape(item, **{"building:part": "yes"}, height=21) for item in squares]
        for added in (once, parts):
            part = self.make_part(tmp_path, *once, *added)
            result = build(part)
            assert result.height_m.tolist() == [21, 21, 21]
            assert shapely.equals_identical(result.footprint, expected.footprint).all()
            assert "buildings: 6 of 6 overlap others" in lines(part.notices(None))[0]

    @mark.parametrize(
        ("tags", "reason"),
        cases(
            r"""
         {"building": "roof"}, "roofs and bridges"
         {"building": "yes", "bridge": "yes"}, "roofs and bridges"
         {"building": "yes"}, "over open ground"
         {"building:part": "yes"}, "over open ground"
         """
        ),
    )
    def test_a_kiosk_below_a_canopy_is_all_that_stands_there(self, tmp_path, tags, reason):
        kiosk = shape({"type": "Polygon", "coordinates": self.TOWER}, building="kiosk", height=3)
        canopy = shape(build_polygon(0), min_height=4, height=15, **tags)
        part = self.make_part(tmp_path, canopy, kiosk)
        buildings = build(part)
        assert buildings.find_height_m(np.array([[15.0, 15], [30, 15]])).tolist() == [3, 0]
        (note,) = lines(part.notices(None))
        assert note.endswith(f"1 of its shapes are left out: 1 {reason}")

    def test_levels_have_no_unit(self, tmp_path):
        levels = enumerate(("12 m", "40 ft", "2,5"))
        houses = [shape(build_polygon(60 * k), levels=level) for k, level in levels]
        part = self.make_part(tmp_path, *houses, default_height_m=9)
        assert build(part).height_m.tolist() == [9, 9, 7.5]
        ways = "1 by their levels of 3 m, 2 by default_height_m, 2 values are no height"
        assert ways in lines(part.notices(None))[0]

    TOWER = [build_ring(10, 10, 20, 20)]
    RINGS = {
        "outline": SQUARE,
        "west": [build_ring(0, 0, 20, 30)],
        "east": [build_ring(20, 0, 40, 30)],
        "tower": TOWER,
        "copy": build_square(0.5),
    }

    @mark.parametrize(
        ("houses", "heights"),
        cases(
            """
            "outline building 30 0, west part 10 0, east part 20 0", (10, 20, 10)
            "outline building 12 0, tower part 40 12", (40, 12, 12)
            "outline building 12 0, west part 5 0", (5, 12, 5)
            "outline building 12 0, copy building 9 0", (12, 12, 12)
            "outline building 12 0, tower building 25 0", (25, 12, 12)
            "west part 9 0, east part 9 0, outline part 30 9", (30, 30, 30)
            """
        ),
    )
    def test_a_house_of_several_shapes_has_their_heights_and_does_not_hide_its_people(
        self, tmp_path, houses, heights
    ):
        """Parts count whatever the outline has, whose rest stays; a top may lie over two of
        them."""
        shapes = []
        for house in houses.split(", "):
            place, kind, height, base = house.split()
            tags = {"building" if kind == "building" else "building:part": "yes"}
            polygon = {"type": "Polygon", "coordinates": self.RINGS[place]}
            shapes.append(shape(polygon, **tags, height=int(height), min_height=int(base)))
        buildings = self.read_city(tmp_path, *shapes)
        at_m = np.array([[15.0, 15], [30, 15], [5, 25]])
        assert buildings.find_height_m(at_m).tolist() == list(heights)
        footprint = buildings.footprint
        overlaps = shapely.intersection(footprint[:, None], footprint)  # with itself alone
        assert shapely.area(overlaps).sum() == approx(shapely.area(footprint).sum())
        ue_m = np.column_stack([at_m, np.ones(3)])
        station_m = np.array([[-300.0, 15, 2], [300, 15, 2]])
        own_building = shapely.contains(footprint, shapely.points(at_m)[:, None]).argmax(axis=1)
        assert buildings.has_line_of_sight(ue_m, station_m, own_building).all()
        assert not buildings.has_line_of_sight(ue_m, station_m).any()
        assert not buildings.find_height_m(at_m, own_building).any()

    def test_neighbours_that_overlap_are_two_houses_and_the_higher_one_counts(self, tmp_path):
        low = shape(build_polygon(0), height=5)
        high = shape(build_polygon(30), height=9)
        buildings = self.read_city(tmp_path, low, high)
        assert shapely.area(buildings.footprint).tolist() == [900, 1200]
        assert buildings.find_height_m(np.array([[35.0, 15], [15, 15]])).tolist() == [9, 5]
        ue_m = np.array([[15.0, 15, 1]])
        station_m = np.array([[300.0, 15, 2]])
        assert not buildings.has_line_of_sight(ue_m, station_m, np.array([0])).any()

    def test_thousands_of_copies_are_refused_in_a_line(self, tmp_path):
        with raises(BadInput, match="most buildings lie over many others; remove the copies"):
            self.read_city(tmp_path, *[feature()] * 1100)

    @mark.parametrize("code", [32632, 4258, 31468])
    @mark.parametrize(
        "form", ["urn:ogc:def:crs:EPSG::{}", "http://www.opengis.net/def/crs/EPSG/0/{}"]
    )
    def test_a_stated_system_is_the_same_city(self, tmp_path, code, form):
        ring = np.array(MUNICH)
        plain = self.make_part(tmp_path, feature(coordinates=[MUNICH]))
        expected_m = shapely.get_coordinates(build(plain).footprint)
        x, y = Transformer.from_crs("EPSG:4326", f"EPSG:{code}", always_xy=True).transform(*ring.T)
        projected = feature(coordinates=[np.column_stack([x, y]).tolist()])
        text = {"type": "FeatureCollection", "features": [projected]}
        stated = {"type": "name", "properties": {"name": form.format(code)}}
        for member, keys in (({"crs": stated}, {}), ({}, {"crs": f"EPSG:{code}"})):
            part = self.make_part(tmp_path, text=json.dumps(text | member), **keys)
            found_m = shapely.get_coordinates(build(part).footprint)
            assert_allclose(found_m, expected_m, atol=1e-3)
            assert part.origin() == approx((48.1405, 11.571), abs=1e-5)

    @mark.parametrize(
        ("rings", "crs", "taken"),
        cases(
            r"""
         [(11.5, 48.1, 2e-4), (13.5, 49, 2e-4)], "auto", "degrees"
         [(11.5, 48.1, 2e-4), (0, 0, 2e-4)], "auto", "degrees"
         [(5, 5, 20), (100, 60, 20)], "lonlat", "degrees"
         [(11.5, 48.1, 2e-4)], "local-metres", "local metres"
         [(11.5, 48.1, 2e-4), (11.6, 48.2, 2e-4)], "EPSG:32632", "EPSG:32632"
         """
        ),
    )
    def test_metres_and_degrees_taken_for_each_other_are_refused_with_crs(
        self, tmp_path, rings, crs, taken
    ):
        features = [
            feature(coordinates=[build_ring(x, y, x + side, y + side)]) for x, y, side in rings
        ]
        words = f"are no city .*coordinates taken as {taken}; cut.*set crs to what they"
        with raises(BadInput, match=words):
            self.read_city(tmp_path, *features, crs=crs)

    @mark.parametrize(
        ("crs", "words"),
        cases(
            r"""
         {"type": "name", "properties": {"name": "ESRI:102100"}}, '"ESRI:102100" names no system'
         {"type": "name", "properties": {"name": "EPSG:99999"}},
             "EPSG:99999 is no system that is known"
         {"type": "name", "properties": {"name": "EPSG:4978"}}, "is no system of a map"
         {"type": "name", "properties": {"name": "+init=/etc/passwd"}}, "names no system"
         {"type": "link", "properties": {"href": "http://example.com/crs"}}, "names no system"
         {"type": "name", "properties": {"name": "EPSG:32632"}},
             "does not reach|are no city|out of range"
         """
        ),
    )
    def test_a_system_that_cannot_be_is_refused(self, tmp_path, crs, words):
        far = feature(coordinates=[[[1e8, 0], [1e8, 40], [-1e8, 30], [1e8, 0]]])
        text = json.dumps({"type": "FeatureCollection", "crs": crs, "features": [far]})
        message = catch_line(self.read_city, tmp_path, text=text)
        assert re.search(words, message)
        assert len(message) < 400
        with raises(ValueError, match="none of auto"):
            Footprints(file="x", crs="UTM32")

    @mark.parametrize("crs", ["auto", "lonlat"])
    def test_a_city_astride_the_date_line_stays_together(self, tmp_path, crs):
        def make_part(*spans, **keys):
            rings = [build_ring(west, -17.0, east, -16.999) for west, east in spans]
            features = [feature(coordinates=[ring]) for ring in rings]
            return self.make_part(tmp_path, *features, margin_m=0, **keys)

        part = make_part((179.998, 179.999), (-179.999, -179.997), (179.9995, -179.9995), crs=crs)
        assert part.origin() == approx((-16.9995, -179.9995), abs=1e-9)
        result_m = shapely.get_coordinates(build(part).footprint)
        plain = make_part((9.998, 9.999), (10.001, 10.003), (9.9995, 10.0005))
        assert_allclose(result_m, shapely.get_coordinates(build(plain).footprint), atol=1e-5)

    def test_degrees_become_metres_around_the_middle(self, tmp_path):
        lon, lat = MUNICH[0]
        house = feature(coordinates=[MUNICH])
        part = self.make_part(tmp_path, house, margin_m=0)
        area = part.area(None)
        assert part.origin() == approx((48.1405, 11.571))
        assert_allclose(area.centre_m, 0, atol=0.01)
        east_m = 0.002 * 111_320 * np.cos(np.radians(lat))
        assert_allclose(area.side_m, [east_m, 111.2], rtol=0.005)
        moved = self.make_part(tmp_path, house, origin_deg=(lat, lon), margin_m=0)
        assert_allclose(moved.area(None).low_m, 0, atol=0.01)
        assert moved.origin() == (lat, lon)

    @mark.parametrize(
        ("features", "keys", "words"),
        [
            *cases(
                r"""
                [], {}, "no building"
                [{"coordinates": [[[0, 0], [40, 30], [40, 0], [0, 30], [0, 0]]]}], {},
                    r"\[0\].*Self-intersection.*repair: true"
                [{}, {"height_m": -3}], {}, r"\[1\]: properties\.height_m: -3 is not a height"
                [{"height_m": "tall"}], {}, '"tall" is not a height.*default_height_m'
                [{}, {"height_m": None}, {"height_m": ""}], {}, r"\[1\].*nor have 1 others of 3"
                [{"height_m": 0}, {"height_m": "-1.0"}], {},
                    "height_m: 0 is not a height, nor have 1 others"
                [{"height_m": None, "height": "-1 m"}], {},
                    r'properties\.height: "-1 m" is not a height; give'
                [{"height_m": 10_001}], {}, "10001 is not a height; give metres up to 10000"
                [{"kind": "Point", "coordinates": [1, 2]}], {}, r"no building in it \(1 Point\)"
                [{"kind": "MultiPolygon", "coordinates": [[]]}], {}, "no building in it"
                [{"coordinates": [1, 2]}], {}, r"\[0\]: geometry: .*must be array, but is number"
                [{"coordinates": [[[1, 2], [3, 4], [5, 9], [1, 3]]]}], {}, "do not form a closed"
                [{"coordinates": [[[0, 0], [0, 0], [0, 0], [0, 0]]]}], {}, "not a valid polygon"
                [{"coordinates": [[[0, 0], [0, 0], [0, 0], [0, 0]]]}], {"repair": True},
                    "no polygon is left"
                [{"coordinates": [[[0, 0], [9e5, 0], [9e5, 9], [0, 0]]]}], {}, "are no city"
                [{"coordinates": [[[0, 88], [1, 88], [1, 91], [0, 88]]]}], {"crs": "lonlat"},
                    "91 are no longitude"
                [{}], {"origin_deg": (48.0, 11.0)}, "origin_deg means nothing"
                ["junk"], {}, '"junk" is not a Feature'
                [{"type": "Feature", "geometry": None, "properties": [1]}], {},
                    r"\[1\] is not an object"
                """
            ),
            ([shape(collection(nest(8)))], {}, "no building in it"),
            ([feature("Polygon", [[[1, 10**400], [3, 4], [5, 9], [1, 2]]])], {}, "number overflow"),
            ([feature(height_m=[["x" * 500]])], {}, r"\.\.\. is not a height"),
        ],
    )
    def test_bad_features_are_refused_in_a_line(self, tmp_path, features, keys, words):
        stated = [
            item if item == "junk" or "type" in item else feature(**item) for item in features
        ]
        message = catch_line(self.read_city, tmp_path, *stated, **keys)
        assert re.search(words, message)
        assert message.startswith(str(tmp_path / "city.geojson"))
        assert len(message) < len(str(tmp_path)) + 250

    @mark.parametrize(
        ("text", "words"),
        [
            *cases(
                r"""
         "{'type': 1}", "not JSON"
         "__import__('os')", "not JSON"
         "[]", "is not a list"
         '{"type": "FeatureCollection"}', "features: null is not a list"
         '{"type": "FeatureCollection", "features": {}}', r"features: \{\} is not a list"
         """
            ),
            ("", "not JSON"),
            ("9" * 5000, "limit"),
            ("[" * 200_000, "recursion"),
        ],
    )
    def test_bad_files_are_refused_in_a_line(self, tmp_path, text, words):
        assert re.search(words, catch_line(self.read_city, tmp_path, text=text))

    @mark.parametrize(
        ("name", "count", "keys"),
        cases(
            """
            "munich_300m", 48, {}
            "etoile", 275, {}
            "etoile_300m", 91, {}
            "munich", 1174, {"repair": True}
            """
        ),
    )
    def test_real_cities(self, data_folder, name, count, keys):
        part = Footprints(file=str(data_folder / f"buildings_{name}.geojson"), **keys)
        area = part.area(None)
        buildings = part.buildings(area, Streams(0))
        assert len(buildings) == approx(count, abs=1)
        assert part.origin() is None
        assert area.contains(shapely.bounds(buildings.footprint).reshape(-1, 2)).all()
