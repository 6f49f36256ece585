"""Buildings: what blocks a link, what a file may hold, and how made-up cities are drawn."""

import json
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from noticed import lines
from pyproj import Transformer
from shapely import Polygon, box

from netsim.city.buildings import Buildings
from netsim.city.footprints import Footprints, metres
from netsim.city.plain import Generated, GridCity
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Streams

AREA = Area(0.0, 0.0, 100.0, 100.0)


def city(*prisms):
    """Buildings from (polygon, height)."""
    return Buildings(
        np.array([p for p, _ in prisms], dtype=object),
        np.array([h for _, h in prisms], dtype=float),
    )


def observes(buildings, a_m, b_m):
    """One link."""
    return bool(
        buildings.line_of_sight(np.array([a_m], dtype=float), np.array([b_m], dtype=float))[0, 0]
    )


# --- a slow exact traversal, in rational numbers
# ----------------------------------------------------------------------------------------


def rings(polygon):
    return [
        [tuple(map(Fraction, p)) for p in r.coords] for r in (polygon.exterior, *polygon.interiors)
    ]


def walls(polygon):
    return [wall for ring in rings(polygon) for wall in pairwise(ring)]


def turn(o, p, q):
    return (p[0] - o[0]) * (q[1] - o[1]) - (p[1] - o[1]) * (q[0] - o[0])


def strictly_inside(point, polygon):
    odd = False
    for p, q in walls(polygon):
        side = turn(p, q, point)
        between = min(p[0], q[0]) <= point[0] <= max(p[0], q[0]) and min(p[1], q[1]) <= point[
            1
        ] <= max(p[1], q[1])
        if side == 0 and between:
            return False
        if (p[1] > point[1]) != (q[1] > point[1]) and (side > 0) == (q[1] > p[1]):
            odd = not odd
    return odd


def cuts(a, b, polygon):
    """Shares of the way from a to b at which it meets a wall, in order, 0 and 1 included."""
    found = {Fraction(0), Fraction(1)}
    way = (b[0] - a[0], b[1] - a[1])
    square = way[0] ** 2 + way[1] ** 2
    for p, q in walls(polygon):
        one = turn(a, b, p)
        other = turn(a, b, q)
        for vertex, side in ((p, one), (q, other)):
            if side == 0 and square:
                found.add(((vertex[0] - a[0]) * way[0] + (vertex[1] - a[1]) * way[1]) / square)
        if one * other < 0:
            share = one / (one - other)
            met = (p[0] + share * (q[0] - p[0]), p[1] + share * (q[1] - p[1]))
            found.add(((met[0] - a[0]) * way[0] + (met[1] - a[1]) * way[1]) / square)
    return sorted(s for s in found if 0 <= s <= 1)


def exact_sight(a, b, prisms):
    a = tuple(map(Fraction, a))
    b = tuple(map(Fraction, b))

    def at(share):
        return tuple(p + share * (q - p) for p, q in zip(a, b, strict=True))

    for polygon, height in prisms:
        shares = cuts(a, b, polygon)
        for first, last in pairwise(shares):
            lowest = min(at(first)[2], at(last)[2])
            if strictly_inside(at((first + last) / 2), polygon) and lowest < Fraction(height):
                return False
    return True


L_SHAPE = Polygon([(2, 2), (12, 2), (12, 5), (5, 5), (5, 12), (2, 12)])
U_SHAPE = Polygon([(3, 3), (13, 3), (13, 13), (10, 13), (10, 6), (6, 6), (6, 13), (3, 13)])
COURTYARD = Polygon(box(4, 4, 14, 14).exterior, [box(7, 7, 11, 11).exterior])
KITE = Polygon([(8, 0), (16, 8), (8, 16), (0, 8)])
COMB = Polygon([(0, 0), (15, 0), (15, 9), (12, 2), (9, 9), (6, 2), (3, 9), (1, 3)])

corner = st.integers(0, 16)
polygon = st.one_of(
    st.sampled_from([L_SHAPE, U_SHAPE, COURTYARD, KITE, COMB]),
    st.lists(st.tuples(corner, corner), min_size=3, max_size=7, unique=True)
    .map(Polygon)
    .filter(lambda p: p.is_valid and p.area > 0),
)
height = st.integers(0, 12).map(
    lambda h: h + 0.3712345
)  # no link of whole numbers is exactly as high
end = st.tuples(corner, corner, st.integers(0, 14))


class TestLineOfSight:
    @settings(max_examples=100, deadline=None)
    @given(
        st.lists(st.tuples(polygon, height), min_size=1, max_size=3),
        st.lists(end, min_size=2, max_size=6),
    )
    def test_agrees_with_an_exact_traversal(self, prisms, ends):
        found = city(*prisms).line_of_sight(
            np.array(ends, dtype=float), np.array(ends, dtype=float)
        )
        distinct = [
            (i, j) for i in range(len(ends)) for j in range(len(ends)) if ends[i][:2] != ends[j][:2]
        ]
        for i, j in distinct:
            assert found[i, j] == exact_sight(ends[i], ends[j], prisms), (prisms, ends[i], ends[j])
        assert (found == found.T).all()

    def test_symmetric_to_the_last_bit_in_random_cities(self):
        rng = np.random.default_rng(0)
        buildings = Generated(width_m=300, height_m=300, count=60).buildings(
            Area(0, 0, 300, 300), Streams(1)
        )
        low_m = rng.uniform(0, [300, 300, 2], (150, 3))
        high_m = rng.uniform(0, [300, 300, 100], (30, 3))
        down = buildings.line_of_sight(low_m, high_m)
        up = buildings.line_of_sight(high_m, low_m)
        assert (down == up.T).all()
        assert 0.05 < down.mean() < 0.95

    def test_a_touched_corner_or_wall_is_free(self):
        buildings = city((box(40, 40, 60, 60), 20.0), (box(60, 60, 80, 80), 20.0))
        assert observes(buildings, (30, 50, 1), (50, 30, 1))  # the corner (40, 40)
        assert observes(buildings, (0, 40, 1), (100, 40, 1))  # along a wall
        assert observes(buildings, (40, 0, 1), (40, 100, 1))
        assert observes(buildings, (50, 70, 1), (70, 50, 1))  # between two that touch
        assert not observes(buildings, (30, 50.001, 1), (50.001, 30, 1))
        assert not observes(buildings, (0, 40.001, 1), (100, 40.001, 1))

    def test_roofs_and_rooms(self):
        buildings = city((box(40, 40, 60, 60), 20.0))
        assert observes(
            buildings, (0, 50, 1.5), (41, 50, 25)
        )  # a mast at the near side of the roof
        assert not observes(buildings, (0, 50, 1.5), (59, 50, 25))  # its roof is in the way
        assert not observes(buildings, (50, 50, 1.5), (0, 50, 25))  # a phone indoors
        assert not observes(buildings, (50, 50, 1.5), (50, 50, 25))  # straight below the mast
        assert observes(buildings, (50, 50, 20), (50, 50, 25))
        assert observes(buildings, (10, 50, 1.5), (10, 50, 25))


class TestGround:
    def test_the_first_wall_and_its_direction(self):
        buildings = city((box(40, 40, 60, 60), 9.0), (box(70, 0, 80, 100), 9.0))
        a_m = np.array([[0.0, 50.0], [50, 0], [50, 50]])
        b_m = np.array([[100.0, 50.0], [50, 30], [100, 50]])
        far_m, wall_rad = buildings.first_wall(a_m, b_m)
        assert far_m.tolist() == [40.0, np.inf, 0.0]
        assert np.abs(np.cos(wall_rad[0])) < 1e-12

    def test_outdoor_places_are_uniform_and_each_its_own(self):
        buildings = city((box(0, 0, 50, 100), 9.0))
        rng = Streams(5).at("test")
        at_m = buildings.outdoor(AREA, rng, "place", np.arange(20_000))
        assert not buildings.inside(at_m).any()
        np.testing.assert_allclose(at_m.mean(axis=0), [75, 50], atol=0.7)
        few = buildings.outdoor(AREA, rng, "place", np.array([7, 3]))
        assert np.array_equal(few, at_m[[7, 3]])
        open_m = Buildings.none().outdoor(AREA, rng, "place", np.arange(5))
        assert np.array_equal(open_m, AREA.sample(rng.uniform("place", np.arange(5), (2,))))


class TestMadeUpCities:
    def test_grid_blocks_and_streets(self):
        part = GridCity(width_m=520, height_m=340)
        buildings = part.buildings(part.area(None), Streams(0))
        assert len(buildings) == 5 * 3
        assert shapely.total_bounds(buildings.footprint).tolist() == [20, 20, 500, 300]
        assert ((buildings.height_m >= 10) & (buildings.height_m <= 30)).all()
        x_m, y_m = part.street_grid()
        assert x_m.tolist() == [10, 110, 210, 310, 410, 510]
        assert y_m.tolist() == [10, 110, 210, 310]
        lines = [[(x, 0.0), (x, 340.0)] for x in x_m] + [[(0.0, y), (520.0, y)] for y in y_m]
        a_m, b_m = np.array(lines).transpose(1, 0, 2)
        assert buildings.clear(a_m, b_m).all()


MUNICH = [[11.57, 48.14], [11.572, 48.14], [11.572, 48.141], [11.57, 48.141], [11.57, 48.14]]
GONE = "demolished, in ruins, or not yet built"
SQUARE = [[[0, 0], [40, 0], [40, 30], [0, 30], [0, 0]]]
HOLED = [*SQUARE, [[10, 10], [30, 10], [30, 20], [10, 20], [10, 10]]]


def square_at(x):
    return [[[x + dx, y] for dx, y in SQUARE[0]]]


def feature(kind="Polygon", coordinates=SQUARE, **properties):
    geometry = {"type": kind, "coordinates": coordinates}
    return {"type": "Feature", "properties": {"height_m": 12.5} | properties, "geometry": geometry}


def collection(*geometries):
    return {"type": "GeometryCollection", "geometries": list(geometries)}


def nested(depth):
    if depth:
        return collection(nested(depth - 1))
    return collection()


def shape(geometry, **properties):
    return {"type": "Feature", "properties": properties, "geometry": geometry}


class TestFootprints:
    def part(self, folder, *features, text=None, **keys):
        file = folder / "city.geojson"
        if text is None:
            text = json.dumps({"type": "FeatureCollection", "features": features})
        file.write_text(text)
        return Footprints(file=str(file), **keys)

    def read(self, *arguments, **keys):
        part = self.part(*arguments, **keys)
        return part.buildings(part.area(None), Streams(0))

    def test_polygons_holes_and_parts(self, tmp_path):
        far = [[[100, 0, 7], [120, 0, 7], [110, 9, 7], [100, 0, 7]]]
        buildings = self.read(
            tmp_path,
            feature(coordinates=HOLED),
            feature("MultiPolygon", [square_at(50), far], height_m=3),
        )
        assert buildings.height_m.tolist() == [12.5, 3, 3]
        assert shapely.area(buildings.footprint).tolist() == [1000, 1200, 90]
        part = self.part(tmp_path, feature(), margin_m=5)
        assert part.area(None) == Area(-5, -5, 45, 35)
        assert part.origin() is None

    @pytest.mark.parametrize(
        ("text", "height_m"),
        [
            ("12", 12.0),
            (" 12 m", 12.0),
            ("12.5m", 12.5),
            ("12,5 m", 12.5),
            ("12 metres", 12.0),
            ("9.1 Meter", 9.1),
            ("40'", 12.192),
            ("40 ft", 12.192),
            ("40 feet", 12.192),
            ("6'4\"", 1.9304),
            ("6' 4''", 1.9304),
            ("10.5 ft", 3.2004),
            ("12;15", None),
            ("~12", None),
            ("", None),
            ("m", None),
            ("1e2", None),
            ("NaN", None),
            ("1,250", None),
            ("12,500 m", None),
            ("1,25", 1.25),
            ("0,125", 0.125),
            ("1.250", 1.25),
            ("1,000'", None),
            ("40'6", None),
            ("1_0", None),
            ("9" * 5000, None),
            ("٣", 3.0),
        ],
    )
    def test_heights_as_people_write_them(self, text, height_m):
        assert metres(text) == (None if height_m is None else pytest.approx(height_m))

    @pytest.mark.parametrize(
        ("unknown", "said"),
        [
            (-1, -1),
            ("0.0 m", "0.0 m"),
            ("unknown", "unknown"),
            (None, None),
            (float("nan"), None),
            (" ", None),
            ("NaN", None),
        ],
    )
    def test_a_value_for_an_unknown_height_gets_the_default_and_is_counted(
        self, tmp_path, unknown, said
    ):
        squares = [{"type": "Polygon", "coordinates": square_at(50 * k)} for k in range(4)]
        heights = [
            {"height": 7.2},
            {"height": unknown},
            {"height": unknown},
            {"height": unknown, "levels": 4},
        ]
        features = [shape(square, **each) for square, each in zip(squares, heights, strict=True)]
        part = self.part(tmp_path, *features, default_height_m=9)
        assert part.buildings(part.area(None), Streams(0)).height_m.tolist() == [7.2, 9, 9, 12]
        odd = "" if said is None else f", 3 values are no height, such as {json.dumps(said)}"
        ways = "1 by their levels of 3 m, 2 by default_height_m"
        assert lines(part.notices(None)) == [
            f"city: {part.file}: heights of buildings: {ways}{odd}"
        ]
        what = "it has no height" if said is None else f"{json.dumps(said)} is not a height"
        name = "height_m" if said is None else "height"
        with pytest.raises(BadInput) as refused:
            self.read(tmp_path, *features)
        where = f"{part.file}: features[1]: properties.{name}: {what}, nor have 1 others of 4"
        assert refused.value.lines == (f"{where}; give one in m, or set default_height_m",)

    def test_what_is_no_building_is_left_out_and_said(self, tmp_path):
        square, second, third = (
            {"type": "Polygon", "coordinates": square_at(50 * k)} for k in range(3)
        )
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
        part = self.part(tmp_path, *features)
        assert part.buildings(part.area(None), Streams(0)).height_m.tolist() == [12, 7, 7]
        (note,) = lines(part.notices(None))
        assert "7 of its shapes are left out: 1 Point, 2 LineString, 2 without a geometry" in note
        assert note.endswith("2 without a tag building")
        untagged = self.part(tmp_path, shape(square, height=1), shape(second, height=2))
        assert len(untagged.buildings(untagged.area(None), Streams(0))) == 2
        assert not lines(untagged.notices(None))

    @pytest.mark.parametrize(
        "tags",
        [{"levels": "2,019"}, {"building:levels": 2019}, {"height": "1,250"}, {"height": 2019}],
    )
    def test_an_implausible_height_is_unknown_and_counted(self, tmp_path, tags):
        square = {"type": "Polygon", "coordinates": SQUARE}
        part = self.part(tmp_path, shape(square, building="yes", **tags), default_height_m=9)
        assert part.buildings(part.area(None), Streams(0)).height_m.tolist() == [9]
        odd = f"1 values are no height, such as {json.dumps(next(iter(tags.values())))}"
        assert lines(part.notices(None)) == [
            f"city: {part.file}: heights of buildings: 1 by default_height_m, {odd}"
        ]
        with pytest.raises(
            BadInput, match="is not a height; give one in m, or set default_height_m"
        ):
            self.read(tmp_path, shape(square, building="yes", **tags))

    @pytest.mark.parametrize(
        ("tags", "why"),
        [
            ({"building": "roof", "min_height": "6"}, "roofs and bridges"),
            ({"building": "roof"}, "roofs and bridges"),
            ({"building": "yes", "min_height": 10}, "over open ground"),
            ({"building": "bridge"}, "roofs and bridges"),
            ({"building": "yes", "building:min_level": "2"}, "over open ground"),
            ({"building": "yes", "man_made": "bridge"}, "roofs and bridges"),
            ({"building": "yes", "layer": "-1"}, "underground"),
            ({"building": "yes", "location": "underground"}, "underground"),
            ({"building": "demolished"}, GONE),
            ({"demolished:building": "yes"}, GONE),
            ({"building": "yes", "proposed": "yes"}, GONE),
            ({"building": "construction"}, GONE),
            ({"building": "yes", "building:demolished": True}, GONE),
            ({"building": "yes", "ruins": "yes"}, GONE),
            ({"building": "dismantled"}, GONE),
            ({"building": "yes", "tunnel": "yes"}, "underground"),
            ({"building": "yes", "building:min_height": "6 m"}, "over open ground"),
            ({"building": " No "}, "without a tag building"),
            ({"building": "no"}, "without a tag building"),
            ({"building": "yes", "bridge": "yes"}, "roofs and bridges"),
        ],
    )
    def test_what_does_not_stand_on_the_ground_is_left_out_and_said(self, tmp_path, tags, why):
        house, other = ({"type": "Polygon", "coordinates": square_at(100 * k)} for k in range(2))
        plain = {
            "building": "yes",
            "bridge": None,
            "layer": "0",
            "min_height": "0",
            "abandoned": "yes",
            "proposed": "no",
        }
        part = self.part(
            tmp_path, shape(house, height=10, **plain), shape(other, height=50, **tags)
        )
        assert part.buildings(part.area(None), Streams(0)).height_m.tolist() == [10]
        assert lines(part.notices(None)) == [
            f"city: {part.file}: 1 of its shapes are left out: 1 {why}"
        ]
        with pytest.raises(BadInput, match=r"features: (there is no|no) building in it"):
            self.read(tmp_path, shape(other, height=50, **tags))

    def test_every_building_twice_or_with_its_part_is_the_map_of_one(self, tmp_path):
        squares = [{"type": "Polygon", "coordinates": square_at(60 * k)} for k in range(3)]
        once = [shape(each, building="yes", height=21) for each in squares]
        expected = self.read(tmp_path, *once)
        parts = [shape(each, **{"building:part": "yes"}, height=21) for each in squares]
        for more in (once, parts):
            part = self.part(tmp_path, *once, *more)
            found = part.buildings(part.area(None), Streams(0))
            assert found.height_m.tolist() == [21, 21, 21]
            assert (
                shapely.get_coordinates(found.footprint).tolist()
                == shapely.get_coordinates(expected.footprint).tolist()
            )
            assert lines(part.notices(None))[0].startswith(
                f"city: {part.file}: buildings: 6 of 6 overlap others"
            )

    @pytest.mark.parametrize(
        ("tags", "why"),
        [
            ({"building": "roof"}, "roofs and bridges"),
            ({"building": "yes", "bridge": "yes"}, "roofs and bridges"),
            ({"building": "yes"}, "over open ground"),
            ({"building:part": "yes"}, "over open ground"),
        ],
    )
    def test_a_kiosk_below_a_canopy_is_all_that_stands_there(self, tmp_path, tags, why):
        kiosk = shape({"type": "Polygon", "coordinates": self.TOWER}, building="kiosk", height=3)
        canopy = shape({"type": "Polygon", "coordinates": SQUARE}, min_height=4, height=15, **tags)
        part = self.part(tmp_path, canopy, kiosk)
        buildings = part.buildings(part.area(None), Streams(0))
        assert buildings.height_at(np.array([[15.0, 15], [30, 15]])).tolist() == [3, 0]
        assert lines(part.notices(None)) == [
            f"city: {part.file}: 1 of its shapes are left out: 1 {why}"
        ]

    def test_levels_have_no_unit(self, tmp_path):
        squares = [{"type": "Polygon", "coordinates": square_at(60 * k)} for k in range(3)]
        levels = zip(squares, ("12 m", "40 ft", "2,5"), strict=True)
        part = self.part(
            tmp_path, *(shape(at, levels=each) for at, each in levels), default_height_m=9
        )
        assert part.buildings(part.area(None), Streams(0)).height_m.tolist() == [9, 9, 7.5]
        assert (
            "1 by their levels of 3 m, 2 by default_height_m, 2 values are no height"
            in lines(part.notices(None))[0]
        )

    HALVES = (
        [[[0, 0], [20, 0], [20, 30], [0, 30], [0, 0]]],
        [[[20, 0], [40, 0], [40, 30], [20, 30], [20, 0]]],
    )
    TOWER = [[[10, 10], [20, 10], [20, 20], [10, 20], [10, 10]]]

    @pytest.mark.parametrize(
        ("features", "heights"),
        [
            # each half has its own height, whatever the outline has
            (
                [
                    (SQUARE, "building", 30, 0),
                    (HALVES[0], "part", 10, 0),
                    (HALVES[1], "part", 20, 0),
                ],
                (10, 20, 10),
            ),
            (
                [(SQUARE, "building", 12, 0), (TOWER, "part", 40, 12)],
                (40, 12, 12),
            ),  # a tower on a house
            (
                [(SQUARE, "building", 12, 0), (HALVES[0], "part", 5, 0)],
                (5, 12, 5),
            ),  # the rest of the outline stays
            (
                [(SQUARE, "building", 12, 0), (square_at(0.5), "building", 9, 0)],
                (12, 12, 12),
            ),  # a copy that is shifted
            ([(SQUARE, "building", 12, 0), (TOWER, "building", 25, 0)], (25, 12, 12)),
            # a top over two parts, neither of which is half of it
            (
                [(HALVES[0], "part", 9, 0), (HALVES[1], "part", 9, 0), (SQUARE, "part", 30, 9)],
                (30, 30, 30),
            ),
        ],
    )
    def test_a_house_of_several_shapes_has_their_heights_and_does_not_hide_its_people(
        self, tmp_path, features, heights
    ):
        shapes = [
            shape(
                {"type": "Polygon", "coordinates": ring},
                **{"building" if kind == "building" else "building:part": "yes"},
                height=height,
                min_height=base,
            )
            for ring, kind, height, base in features
        ]
        buildings = self.read(tmp_path, *shapes)
        at_m = np.array([[15.0, 15], [30, 15], [5, 25]])
        assert buildings.height_at(at_m).tolist() == list(heights)
        overlaps = shapely.area(
            shapely.intersection(buildings.footprint[:, None], buildings.footprint)
        )
        assert overlaps.sum() == pytest.approx(
            shapely.area(buildings.footprint).sum()
        )  # with itself alone
        ue_m = np.column_stack([at_m, np.ones(3)])
        station_m = np.array([[-300.0, 15, 2], [300, 15, 2]])
        own = np.array(
            [np.flatnonzero(shapely.contains_xy(buildings.footprint, *each))[0] for each in at_m]
        )
        assert buildings.line_of_sight(ue_m, station_m, own).all()
        assert not buildings.line_of_sight(ue_m, station_m).any()
        assert not buildings.height_at(at_m, own).any()

    def test_neighbours_that_overlap_are_two_houses_and_the_higher_one_counts(self, tmp_path):
        low, high = ({"type": "Polygon", "coordinates": square_at(x)} for x in (0, 30))
        buildings = self.read(tmp_path, shape(low, height=5), shape(high, height=9))
        assert shapely.area(buildings.footprint).tolist() == [900, 1200]
        assert buildings.height_at(np.array([[35.0, 15], [15, 15]])).tolist() == [9, 5]
        assert not buildings.line_of_sight(
            np.array([[15.0, 15, 1]]), np.array([[300.0, 15, 2]]), np.array([0])
        ).any()

    def test_thousands_of_copies_are_refused_in_a_line(self, tmp_path):
        with pytest.raises(
            BadInput, match="most buildings lie over many others; remove the copies"
        ):
            self.read(tmp_path, *[feature()] * 1100)

    @pytest.mark.parametrize("code", [32632, 4258, 31468])
    @pytest.mark.parametrize(
        "form", ["urn:ogc:def:crs:EPSG::{}", "http://www.opengis.net/def/crs/EPSG/0/{}"]
    )
    def test_a_stated_system_is_the_same_city(self, tmp_path, code, form):
        ring = np.array(MUNICH)
        plain = self.part(tmp_path, feature(coordinates=[MUNICH]))
        expected_m = shapely.get_coordinates(
            plain.buildings(plain.area(None), Streams(0)).footprint
        )
        x, y = Transformer.from_crs("EPSG:4326", f"EPSG:{code}", always_xy=True).transform(*ring.T)
        there = feature(coordinates=[np.column_stack([x, y]).tolist()])
        text = {"type": "FeatureCollection", "features": [there]}
        stated = {"type": "name", "properties": {"name": form.format(code)}}
        for member, keys in (({"crs": stated}, {}), ({}, {"crs": f"EPSG:{code}"})):
            part = self.part(tmp_path, text=json.dumps(text | member), **keys)
            found_m = shapely.get_coordinates(part.buildings(part.area(None), Streams(0)).footprint)
            np.testing.assert_allclose(found_m, expected_m, atol=1e-3)
            assert part.origin() == pytest.approx((48.1405, 11.571), abs=1e-5)

    @pytest.mark.parametrize(
        ("rings", "crs", "taken"),
        [
            (
                [(11.5, 48.1, 2e-4), (13.5, 49, 2e-4)],
                "auto",
                "degrees",
            ),  # a region: not 2 m x 0.9 m
            ([(11.5, 48.1, 2e-4), (0, 0, 2e-4)], "auto", "degrees"),
            ([(5, 5, 20), (100, 60, 20)], "lonlat", "degrees"),
            ([(11.5, 48.1, 2e-4)], "local-metres", "local metres"),
            ([(11.5, 48.1, 2e-4), (11.6, 48.2, 2e-4)], "EPSG:32632", "EPSG:32632"),
        ],
    )
    def test_metres_and_degrees_taken_for_each_other_are_refused_with_crs(
        self, tmp_path, rings, crs, taken
    ):
        def ring(x, y, side):
            return [[x, y], [x + side, y], [x + side, y + side], [x, y]]

        with pytest.raises(
            BadInput,
            match=rf"are no city .*coordinates taken as {taken}; cut.*set crs to what they",
        ):
            self.read(tmp_path, *(feature(coordinates=[ring(*each)]) for each in rings), crs=crs)

    @pytest.mark.parametrize(
        ("crs", "words"),
        [
            (
                {"type": "name", "properties": {"name": "ESRI:102100"}},
                '"ESRI:102100" names no system',
            ),
            (
                {"type": "name", "properties": {"name": "EPSG:99999"}},
                "EPSG:99999 is no system that is known",
            ),
            ({"type": "name", "properties": {"name": "EPSG:4978"}}, "is no system of a map"),
            ({"type": "name", "properties": {"name": "+init=/etc/passwd"}}, "names no system"),
            ({"type": "link", "properties": {"href": "http://example.com/crs"}}, "names no system"),
            (
                {"type": "name", "properties": {"name": "EPSG:32632"}},
                "does not reach|are no city|out of range",
            ),
        ],
    )
    def test_a_system_that_cannot_be_is_refused(self, tmp_path, crs, words):
        far = feature(coordinates=[[[1e8, 0], [1e8, 40], [-1e8, 30], [1e8, 0]]])
        with pytest.raises(BadInput, match=words) as refused:
            self.read(
                tmp_path,
                text=json.dumps({"type": "FeatureCollection", "crs": crs, "features": [far]}),
            )
        assert "\n" not in str(refused.value)
        assert len(str(refused.value)) < 400
        with pytest.raises(ValueError, match="none of auto"):
            Footprints(file="x", crs="UTM32")

    @pytest.mark.parametrize("crs", ["auto", "lonlat"])
    def test_a_city_astride_the_date_line_stays_together(self, tmp_path, crs):
        def ring(west, east):
            return [[[west, -17.0], [east, -17.0], [east, -16.999], [west, -16.999], [west, -17.0]]]

        apart = [
            feature(coordinates=ring(179.998, 179.999)),
            feature(coordinates=ring(-179.999, -179.997)),
        ]
        across = feature(coordinates=ring(179.9995, -179.9995))
        part = self.part(tmp_path, *apart, across, margin_m=0, crs=crs)
        assert part.origin() == pytest.approx((-16.9995, -179.9995), abs=1e-9)
        buildings = part.buildings(part.area(None), Streams(0))
        shifted = [
            [[x - 170.0 if x > 0 else x + 190.0, y] for x, y in f["geometry"]["coordinates"][0]]
            for f in (*apart, across)
        ]
        plain = self.part(tmp_path, *(feature(coordinates=[r]) for r in shifted), margin_m=0)
        np.testing.assert_allclose(
            shapely.get_coordinates(buildings.footprint),
            shapely.get_coordinates(plain.buildings(plain.area(None), Streams(0)).footprint),
            atol=1e-5,
        )

    def test_degrees_become_metres_around_the_middle(self, tmp_path):
        lon, lat = MUNICH[0]
        ring = [MUNICH]
        part = self.part(tmp_path, feature(coordinates=ring), margin_m=0)
        area = part.area(None)
        assert part.origin() == pytest.approx((48.1405, 11.571))
        np.testing.assert_allclose(area.centre_m, 0, atol=0.01)
        np.testing.assert_allclose(
            area.side_m, [0.002 * 111_320 * np.cos(np.radians(lat)), 111.2], rtol=0.005
        )
        moved = self.part(tmp_path, feature(coordinates=ring), origin_deg=(lat, lon), margin_m=0)
        np.testing.assert_allclose(moved.area(None).low_m, 0, atol=0.01)
        assert moved.origin() == (lat, lon)

    BOW = [[[0, 0], [40, 30], [40, 0], [0, 30], [0, 0]]]

    @pytest.mark.parametrize(
        ("features", "keys", "words"),
        [
            ([], {}, "no building"),
            ([feature(coordinates=BOW)], {}, r"\[0\].*Self-intersection.*repair: true"),
            (
                [feature(), feature(height_m=-3)],
                {},
                r"\[1\]: properties\.height_m: -3 is not a height",
            ),
            ([feature(height_m="tall")], {}, '"tall" is not a height.*default_height_m'),
            (
                [feature(), feature(height_m=None), feature(height_m="")],
                {},
                r"\[1\].*nor have 1 others of 3",
            ),
            (
                [feature(height_m=0), feature(height_m="-1.0")],
                {},
                "height_m: 0 is not a height, nor have 1 others",
            ),
            (
                [feature(height_m=None, height="-1 m")],
                {},
                r'properties\.height: "-1 m" is not a height; give',
            ),
            ([feature(height_m=10_001)], {}, "10001 is not a height; give metres up to 10000"),
            ([feature("Point", [1, 2])], {}, r"no building in it \(1 Point\)"),
            ([feature("MultiPolygon", [[]])], {}, "no building in it"),
            ([shape(collection(nested(8)))], {}, "no building in it"),
            ([feature("Polygon", [1, 2])], {}, r"\[0\]: geometry: .*must be array, but is number"),
            ([feature("Polygon", [[[1, 2], [3, 4], [5, 9], [1, 3]]])], {}, "do not form a closed"),
            ([feature("Polygon", [[[1, 10**400], [3, 4], [5, 9], [1, 2]]])], {}, "number overflow"),
            ([feature("Polygon", [[[0, 0]] * 4])], {}, "not a valid polygon"),
            ([feature("Polygon", [[[0, 0]] * 4])], {"repair": True}, "no polygon is left"),
            ([feature("Polygon", [[[0, 0], [9e5, 0], [9e5, 9], [0, 0]]])], {}, "are no city"),
            (
                [feature("Polygon", [[[0, 88], [1, 88], [1, 91], [0, 88]]])],
                {"crs": "lonlat"},
                "91 are no longitude",
            ),
            ([feature()], {"origin_deg": (48.0, 11.0)}, "origin_deg means nothing"),
            (["junk"], {}, '"junk" is not a Feature'),
            (
                [{"type": "Feature", "geometry": None, "properties": [1]}],
                {},
                r"\[1\] is not an object",
            ),
            ([feature(height_m=[["x" * 500]])], {}, r"\.\.\. is not a height"),
        ],
    )
    def test_bad_features_are_refused_in_a_line(self, tmp_path, features, keys, words):
        with pytest.raises(BadInput, match=words) as refused:
            self.read(tmp_path, *features, **keys)
        message = str(refused.value)
        assert "\n" not in message
        assert message.startswith(str(tmp_path / "city.geojson"))
        assert len(message) < len(str(tmp_path)) + 250

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", "not JSON"),
            ("{'type': 1}", "not JSON"),
            ("__import__('os')", "not JSON"),
            ("9" * 5000, "limit"),
            ("[" * 200_000, "recursion"),
            ("[]", "is not a list"),
            ('{"type": "FeatureCollection"}', "features: null is not a list"),
            ('{"type": "FeatureCollection", "features": {}}', r"features: \{\} is not a list"),
        ],
    )
    def test_bad_files_are_refused_in_a_line(self, tmp_path, text, words):
        with pytest.raises(BadInput, match=words) as refused:
            self.read(tmp_path, text=text)
        assert "\n" not in str(refused.value)

    @pytest.mark.parametrize(
        ("name", "count", "keys"),
        [
            ("munich_300m", 48, {}),
            ("etoile", 275, {}),
            ("etoile_300m", 91, {}),
            ("munich", 1174, {"repair": True}),
        ],
    )
    def test_real_cities(self, data_folder, name, count, keys):
        part = Footprints(file=str(data_folder / f"buildings_{name}.geojson"), **keys)
        area = part.area(None)
        buildings = part.buildings(area, Streams(0))
        assert len(buildings) == pytest.approx(count, abs=1)
        assert part.origin() is None
        assert area.contains(shapely.bounds(buildings.footprint).reshape(-1, 2)).all()
