"""Facts about street graphs: how lines become edges, which way is the fastest, and where buildings
have their doors."""

import heapq
from itertools import pairwise, permutations

import numpy as np
import shapely
from noticed import lines as lines_of
from pytest import approx, mark
from shapely import box

from netsim.city.buildings import Buildings
from netsim.geometry import Area
from netsim.streets.assembly import StreetLines, assemble_streets
from netsim.streets.doors import Access, find_doors
from netsim.streets.graph import CLASSES, MODES, WALK, Paths, look_up_default_speeds_m_s
from netsim.streets.routes import Routes

RESIDENTIAL = CLASSES.index("residential")
PRIMARY = CLASSES.index("primary")


def lines(*polylines, street_class=RESIDENTIAL, one_way=(), layer=None):
    """Street lines; those of index in `one_way` are closed against their direction to all but
    pedestrians."""
    count = len(polylines)
    classes = np.broadcast_to(np.asarray(street_class), count).copy()
    speed_m_s = look_up_default_speeds_m_s(classes)
    speed_m_s[list(one_way), 1, 1:] = 0.0
    vertex = np.concatenate([np.asarray(p, dtype=float) for p in polylines])
    path = Paths.from_vertices(vertex, np.array([len(p) for p in polylines]))
    if layer is None:
        layer = np.zeros(count, int)
    return StreetLines(path, classes, speed_m_s, layer)


def check(graph):
    """What every graph keeps."""
    path = graph.path
    begin, end = graph.ends.T
    assert (begin != end).all()
    assert (graph.node_m[begin] == path.vertex_m[path.first[:-1]]).all()
    assert (graph.node_m[end] == path.vertex_m[path.first[1:] - 1]).all()
    assert (graph.length_m > 0).all()
    assert (graph.speed_m_s > 0).any(axis=(1, 2)).all()
    assert set(graph.ends.ravel()) == set(range(len(graph.node_m)))


def test_speeds_without_a_limit_are_those_of_the_class_and_mode():
    speed_m_s = look_up_default_speeds_m_s(np.arange(len(CLASSES)))
    kmh = {"primary": 50, "secondary": 50, "tertiary": 40, "residential": 30, "service": 15}
    for name, both_m_s in zip(CLASSES, speed_m_s, strict=True):
        cycle_m_s = 4.5 * (name != "pedestrian")
        drive_m_s = kmh.get(name, 0) / 3.6
        assert both_m_s == approx(np.array([[1.4, cycle_m_s, drive_m_s]] * 2))


def test_positions_on_paths_agree_with_interpolation():
    draw = np.random.default_rng(0)
    count = draw.integers(2, 10, 200)
    along = [np.append(0.0, np.cumsum(draw.choice([0.0, 7.5, 60.0], k - 1))) for k in count]
    vertex_m = draw.normal(0, 100, (count.sum(), 2))
    paths = Paths(vertex_m, np.append(0, np.cumsum(count)), np.concatenate(along))
    row = draw.integers(0, 200, 900)
    passed = draw.uniform(0, 200, 900)
    passed[:50] = 0.0
    result_m = paths.interpolate_m(row, passed)
    for i, x, at_m in zip(row, passed, result_m, strict=True):
        is_flat = (np.diff(along[i]) == 0).any() and x in along[i]
        if not is_flat:
            axes_m = vertex_m[paths.first[i] : paths.first[i + 1]].T
            assert at_m == approx([np.interp(x, along[i], axis_m) for axis_m in axes_m])


class TestAssembly:
    def test_lines_meet_at_shared_vertices_and_keep_their_bends(self):
        bent = [(0, 0), (50, 10), (100, 0), (200, 0)]
        graph = assemble_streets(lines(bent, [(100, 0), (100, 80)])).graph
        check(graph)
        streets = shapely.normalize(shapely.MultiLineString(list(graph.path.to_lines())))
        expected = "MULTILINESTRING ((0 0, 50 10, 100 0), (100 0, 100 80), (100 0, 200 0))"
        assert streets.equals_exact(shapely.from_wkt(expected).normalize(), 1e-6)
        assert len(graph.node_m) == 4
        assert len(graph) == 3
        assert graph.length_m.max() == approx(2 * np.hypot(50, 10))

    @mark.parametrize(("away_m", "streets_left"), [(0.4, 1), (0.6, 0)])
    def test_ends_within_half_a_metre_are_joined(self, away_m, streets_left):
        assembly = assemble_streets(lines([(0, 0), (100, 0)], [(100, away_m), (100, 80)]))
        assert assembly.loose_parts == 1 - streets_left
        if streets_left:
            assert assembly.graph.length_m[0] > 150
        else:
            assert assembly.loose_km == approx(0.0794)

    def test_streets_that_merely_cross_are_not_joined(self):
        assembly = assemble_streets(lines([(-100, 0), (100, 0)], [(0, -50), (0, 50)]))
        assert assembly.loose_parts == 1
        assert assembly.loose_km == approx(0.1)

    @mark.parametrize(("layer", "parts"), [((0, 0), 0), ((0, 1), 1)])
    def test_a_bridge_does_not_meet_what_it_crosses_at_a_vertex_of_both(self, layer, parts):
        east = [(-100, 0), (0, 0), (100, 0)]
        north = [(0, -50), (0, 0), (0, 50)]
        assembly = assemble_streets(lines(east, north, layer=np.array(layer)))
        assert assembly.loose_parts == parts

    def test_drivers_keep_the_streets_from_which_they_return(self):
        square = pairwise(shapely.get_coordinates(box(0, 0, 100, 100)))
        trap = [(100, 100), (300, 100)]
        classes = [RESIDENTIAL] * 4 + [PRIMARY]
        assembly = assemble_streets(lines(*square, trap, one_way=[4], street_class=classes))
        graph = assembly.graph
        check(graph)
        assert assembly.closed_km.tolist() == [0, approx(0.2), approx(0.2)]
        on_trap = graph.street_class == PRIMARY
        assert (graph.speed_m_s[on_trap, :, WALK] > 0).all()
        assert on_trap.sum() == 1
        assert (graph.speed_m_s[on_trap, :, 1:] == 0).all()
        assert (graph.speed_m_s[~on_trap] > 0).all()
        assert "0.2 km to bicycles, 0.2 km to cars" in lines_of(assembly.notices("city"))[0]

    def test_length_is_conserved(self):
        """The union of all lines, as shapely observes it, is the graph and what is left out."""
        rng = np.random.default_rng(6)
        for _ in range(20):
            parts = [np.cumsum(rng.integers(-1, 2, (6, 2)), axis=0) * 10.0 for _ in range(8)]
            assembly = assemble_streets(lines(*parts))
            km = assembly.graph.length_m.sum() / 1e3 + assembly.loose_km
            whole = shapely.union_all([shapely.LineString(p) for p in parts])
            assert km == approx(whole.length / 1e3)
            check(assembly.graph)

    def test_rings_and_streets_side_by_side_are_there_once(self):
        """A ring, which the graph has as two halves between the same nodes, and two equally long
        streets."""
        ring = box(0, 0, 40, 40).exterior.coords
        stub = [(-60, 0), (0, 0)]
        left = [(-60, 0), (-90, 20), (-120, 0)]
        right = [(-60, 0), (-90, -20), (-120, 0)]
        graph = assemble_streets(lines(ring, stub, left, right)).graph
        assert graph.length_m.sum() == approx(160 + 60 + 4 * np.hypot(30, 20))


class TestClipping:
    def test_agrees_with_shapely(self):
        rng = np.random.default_rng(7)
        area = Area(0.0, 0.0, 100.0, 60.0)
        parts = [rng.uniform(-60, 160, (rng.integers(2, 9), 2)) for _ in range(60)]
        cut = lines(*parts, street_class=np.arange(60) % 7).clip_to(area)
        assert area.grow(1e-9).contains(cut.path.vertex_m).all()
        assert (np.diff(cut.path.first) >= 2).all()
        inside = shapely.intersection([shapely.LineString(s) for s in parts], box(0, 0, 100, 60))
        length_m = np.zeros(60)
        index = np.arange(60)
        for street_class, part in zip(cut.street_class, cut.path.to_lines(), strict=True):
            covered = shapely.intersection(inside, part.buffer(1e-6))
            is_near = shapely.distance(inside, part) < 1e-9
            is_same = shapely.hausdorff_distance(covered, part) < 1e-3
            owner = np.flatnonzero(is_near & is_same & (index % 7 == street_class))
            length_m[owner[0]] += part.length
        assert length_m == approx(shapely.length(inside))


# --- routes
# ----------------------------------------------------------------------------------------


def random_graph(seed, n=7, one_way=0.4):
    """A grid of bent streets of all classes, some of one direction, some missing."""
    rng = np.random.default_rng(seed)
    place_m = np.moveaxis(np.indices((n, n)), 0, -1) * 100.0
    place_m += rng.uniform(-30, 30, place_m.shape)
    east = np.stack([place_m[:-1], place_m[1:]], axis=2).reshape(-1, 2, 2)
    north = np.stack([place_m[:, :-1], place_m[:, 1:]], axis=2).reshape(-1, 2, 2)
    parts = []
    for a, b in np.concatenate([east, north]):
        if rng.random() < 0.9:
            parts.append([a, (a + b) / 2 + rng.uniform(-9, 9, 2), b])
    parts.append([place_m[0, 0], place_m[0, 0] - [40, 60], place_m[1, 1]])
    parts.append([place_m[2, 2], place_m[2, 2] + [9, 70], place_m[3, 2]])
    classes = rng.integers(0, 7, len(parts))
    closed = np.flatnonzero(rng.random(len(parts)) < one_way)
    return assemble_streets(lines(*parts, street_class=classes, one_way=closed)).graph


def random_access(graph, mode, rng, count):
    """Points of streets open to a mode."""
    street = rng.choice(find_open_streets(graph)[mode], count)
    along_m = graph.length_m[street] * rng.choice([0.0, 0.25, 0.5, 1.0, rng.random()], count)
    return Access(street, along_m, locate(graph, street, along_m))


def locate(graph, street, along_m):
    """Positions (k, 2) on streets."""
    points = shapely.line_interpolate_point(graph.path.to_lines()[street], along_m)
    return shapely.get_coordinates(points)


def slow_s(graph, mode, street, along_m, to_street, to_along_m):
    """Least time between two points of streets, by Dijkstra's algorithm with the points as nodes of
    the graph."""
    ways = {}  # node -> (node, s)
    for k in range(len(graph)):
        begin, end = graph.ends[k].tolist()
        stops = [(0.0, (0, begin)), (graph.length_m[k], (0, end))]
        if street == k:
            stops.append((along_m, (1, 0)))
        if to_street == k:
            stops.append((to_along_m, (1, 1)))
        for direction, speed in zip((1, -1), graph.speed_m_s[k, :, mode], strict=True):
            for (s, first), (t, second) in permutations(stops, 2):
                way_m = (t - s) * direction
                if speed > 0 and way_m >= -1e-9:
                    ways.setdefault(first, []).append((second, max(0.0, way_m) / speed))
    done = set()
    queue = [(0.0, (1, 0))]
    while queue:
        time_s, place_m = heapq.heappop(queue)
        if place_m == (1, 1):
            return time_s
        if place_m not in done:
            done.add(place_m)
            for following, added in ways.get(place_m, ()):
                heapq.heappush(queue, (time_s + added, following))
    return np.inf


class TestRoutes:
    @mark.parametrize("mode", range(3), ids=MODES)
    @mark.parametrize("seed", range(3))
    def test_times_agree_with_a_slow_search(self, seed, mode):
        graph = random_graph(seed)
        check(graph)
        rng = np.random.default_rng(seed)
        origin = random_access(graph, mode, rng, 120)
        destination = random_access(graph, mode, rng, 120)
        destination.street[:40] = origin.street[:40]  # on one street
        destination.along_m[:40] = graph.length_m[origin.street[:40]] * rng.random(40)
        destination.at_m[:] = locate(graph, destination.street, destination.along_m)
        modes = np.full(120, mode)
        trips = Routes(graph).find_trips(origin, destination, modes, origin.at_m, destination.at_m)
        result = trips.span
        ends = (origin.street, origin.along_m, destination.street, destination.along_m)
        assert result == approx([slow_s(graph, mode, *item) for item in zip(*ends, strict=True)])
        assert len(set(np.round(result, 6))) > 100

    def draw_trips(self, seed=4, count=200, **keys):
        """Trips of all modes from beside the streets to beside the streets."""
        graph = random_graph(seed)
        rng = np.random.default_rng(seed)
        mode = rng.integers(0, 3, count)

        def draw_places():
            places = [vars(random_access(graph, m, rng, 1)).values() for m in mode]
            return Access(*map(np.concatenate, zip(*places, strict=True)))

        origin = draw_places()
        destination = draw_places()
        from_m = origin.at_m + rng.normal(0, 5, (count, 2))
        to_m = destination.at_m + rng.normal(0, 5, (count, 2))
        return graph, (origin, destination, mode, from_m, to_m)

    def test_trips_lead_from_door_to_door_along_streets(self):
        graph, arguments = self.draw_trips()
        routes = Routes(graph)
        trips = routes.find_trips(*arguments)
        *_, mode, from_m, to_m = arguments
        first = trips.first[:-1]
        last = trips.first[1:] - 1
        assert (trips.vertex_m[first] == from_m).all()
        assert (trips.vertex_m[last] == to_m).all()
        assert (trips.along[first] == 0).all()
        street = graph.path.to_lines()
        network = [shapely.union_all(street[parts]) for parts in find_open_streets(graph)]
        for i in range(len(mode)):
            owned = slice(trips.first[i], trips.first[i + 1])
            line = trips.vertex_m[owned]
            time_s = trips.along[owned]
            assert (np.diff(time_s) > 0).all()
            speed = np.linalg.norm(np.diff(line, axis=0), axis=1) / np.diff(time_s)
            assert speed[[0, -1]] == approx(1.4)
            allowed = np.unique(graph.speed_m_s[:, :, mode[i]])
            possible = allowed[allowed > 0]
            assert np.abs(speed[1:-1, None] - possible).min(axis=1) == approx(0, abs=1e-5)
            middle = shapely.points((line[1:-2] + line[2:-1]) / 2)
            assert (shapely.distance(middle, network[mode[i]]) < 1e-6).all()

    def test_a_trip_does_not_depend_on_the_others(self):
        graph, arguments = self.draw_trips()
        origin, destination, mode, from_m, to_m = arguments
        together = Routes(graph).find_trips(*arguments)
        for i in (0, 17, 199):
            row = np.array([i])
            ends = (origin.select(row), destination.select(row))
            alone = Routes(graph).find_trips(*ends, mode[row], from_m[row], to_m[row])
            owned = slice(together.first[i], together.first[i + 1])
            assert (alone.vertex_m == together.vertex_m[owned]).all()
            assert (alone.along == together.along[owned]).all()


def find_open_streets(graph):
    """The streets open to each mode."""
    return [np.flatnonzero((graph.speed_m_s[:, :, mode] > 0).any(axis=1)) for mode in range(3)]


class TestDoors:
    def buildings(self, *boxes, height_m=10.0):
        shapes = np.array([box(*b) for b in boxes], dtype=object)
        return Buildings(shapes, np.broadcast_to(np.asarray(height_m, dtype=float), len(boxes)))

    def graph(self):
        """A road with a footpath above it."""
        classes = [CLASSES.index("tertiary"), CLASSES.index("pedestrian")]
        footpath = [(0, 0), (0, 50), (200, 50)]
        return assemble_streets(lines([(0, 0), (200, 0)], footpath, street_class=classes)).graph

    def test_a_door_faces_the_nearest_street_for_walkers(self):
        buildings = self.buildings((20, 30, 40, 45), (60, 5, 80, 20))
        premises = find_doors(buildings.footprint, buildings.height_m, self.graph())
        assert premises.building.tolist() == [0, 1]
        assert premises.door_m[:, 1].tolist() == [45, 5]
        at_m = premises.access.at_m
        assert at_m[:, :, 1].tolist() == [[50, 0], [0, 0], [0, 0]]
        assert (at_m[0, :, 0] == premises.door_m[:, 0]).all()

    def test_access_points_are_where_they_say(self):
        graph = random_graph(3)
        rng = np.random.default_rng(0)
        corner = rng.uniform(-50, 650, (300, 2))
        buildings = self.buildings(*np.hstack([corner, corner + 12]))
        premises = find_doors(buildings.footprint, buildings.height_m, graph)
        shape = buildings.footprint[premises.building]
        n = len(premises)
        assert n > 250
        door = shapely.points(premises.door_m)
        assert shapely.distance(shapely.boundary(shape), door).max() < 1e-9
        for mode, open_streets in enumerate(find_open_streets(graph)):
            met = premises.select_access(np.full(n, mode), np.arange(n))
            parts = graph.path.to_lines()[open_streets]
            least_m = shapely.distance(door[:, None], parts).min(axis=1)
            assert np.linalg.norm(met.at_m - premises.door_m, axis=1) == approx(least_m, abs=1e-6)
            assert np.isin(met.street, open_streets).all()
            assert locate(graph, met.street, met.along_m) == approx(met.at_m)
