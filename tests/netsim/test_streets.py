"""Facts about street graphs: how lines become edges, which way is the fastest, and where buildings
have their doors."""

import heapq
from itertools import pairwise, permutations

import numpy as np
import pytest
import shapely
from noticed import lines as lines_of
from shapely import box

from netsim.city.buildings import Buildings
from netsim.geometry import Area
from netsim.streets.assembly import StreetLines, assemble_streets
from netsim.streets.doors import Access, find_doors
from netsim.streets.graph import CLASSES, MODES, WALK, Paths, look_up_speeds
from netsim.streets.routes import Routes

RESIDENTIAL = CLASSES.index("residential")
PRIMARY = CLASSES.index("primary")


def lines(*polylines, street_class=RESIDENTIAL, one_way=(), layer=None):
    """Street lines; those of index in `one_way` are closed against their direction to all but
    pedestrians."""
    count = len(polylines)
    classes = np.broadcast_to(np.asarray(street_class), count).copy()
    speed_m_s = look_up_speeds(classes)
    speed_m_s[list(one_way), 1, 1:] = 0.0
    vertex = np.concatenate([np.asarray(p, dtype=float) for p in polylines])
    path = Paths.from_vertices(vertex, np.array([len(p) for p in polylines]))
    return StreetLines(path, classes, speed_m_s, np.zeros(count, int) if layer is None else layer)


def line_m(graph, street):
    """Centre line of one street (k, 2)."""
    return graph.path.vertex_m[graph.path.first[street] : graph.path.first[street + 1]]


def streets(graph):
    """Centre lines as a sorted list of tuples."""
    result = [tuple(map(tuple, line_m(graph, k).round(6).tolist())) for k in range(len(graph))]
    return sorted(min(line, line[::-1]) for line in result)


def check(graph):
    """What every graph keeps."""
    path = graph.path
    assert (graph.ends[:, 0] != graph.ends[:, 1]).all()
    assert (graph.node_m[graph.ends[:, 0]] == path.vertex_m[path.first[:-1]]).all()
    assert (graph.node_m[graph.ends[:, 1]] == path.vertex_m[path.first[1:] - 1]).all()
    assert (graph.length_m > 0).all()
    assert (graph.speed_m_s > 0).any(axis=(1, 2)).all()
    assert set(graph.ends.ravel()) == set(range(len(graph.node_m)))


def test_speeds_without_a_limit_are_those_of_the_class_and_mode():
    speed_m_s = look_up_speeds(np.arange(len(CLASSES)))
    kmh = {"primary": 50, "secondary": 50, "tertiary": 40, "residential": 30, "service": 15}
    for name, both_m_s in zip(CLASSES, speed_m_s, strict=True):
        if name == "pedestrian":
            cycle_m_s = 0.0
        else:
            cycle_m_s = 4.5
        assert both_m_s == pytest.approx(np.array([[1.4, cycle_m_s, kmh.get(name, 0) / 3.6]] * 2))


def test_positions_on_paths_agree_with_interpolation():
    draw = np.random.default_rng(0)
    count = draw.integers(2, 10, 200)
    along = [np.append(0.0, np.cumsum(draw.choice([0.0, 7.5, 60.0], k - 1))) for k in count]
    vertex_m = draw.normal(0, 100, (count.sum(), 2))
    paths = Paths(vertex_m, np.append(0, np.cumsum(count)), np.concatenate(along))
    row = draw.integers(0, 200, 900)
    passed = draw.uniform(0, 200, 900)
    passed[:50] = [along[i][0] for i in row[:50]]
    slow = [
        [np.interp(x, along[i], line_m_[:, axis]) for axis in (0, 1)]
        for i, x in zip(row, passed, strict=True)
        for line_m_ in [vertex_m[paths.first[i] : paths.first[i + 1]]]
    ]
    flat = np.array(
        [
            np.any(np.diff(along[i]) == 0) & np.isin(x, along[i])
            for i, x in zip(row, passed, strict=True)
        ]
    )
    assert paths.interpolate_m(row, passed)[~flat] == pytest.approx(np.array(slow)[~flat])


class TestAssembly:
    def test_lines_meet_at_shared_vertices_and_keep_their_bends(self):
        graph = assemble_streets(
            lines([(0, 0), (50, 10), (100, 0), (200, 0)], [(100, 0), (100, 80)])
        ).graph
        check(graph)
        assert streets(graph) == [
            ((0, 0), (50, 10), (100, 0)),
            ((100, 0), (100, 80)),
            ((100, 0), (200, 0)),
        ]
        assert len(graph.node_m) == 4
        assert len(graph) == 3
        assert graph.length_m.max() == pytest.approx(2 * np.hypot(50, 10))

    @pytest.mark.parametrize(("away_m", "streets_left"), [(0.4, 1), (0.6, 0)])
    def test_ends_within_half_a_metre_are_joined(self, away_m, streets_left):
        assembly = assemble_streets(lines([(0, 0), (100, 0)], [(100, away_m), (100, 80)]))
        assert assembly.loose_parts == 1 - streets_left
        assert (
            assembly.graph.length_m[0] > 150
            if streets_left
            else assembly.loose_km == pytest.approx(0.0794)
        )

    def test_streets_that_merely_cross_are_not_joined(self):
        assembly = assemble_streets(lines([(-100, 0), (100, 0)], [(0, -50), (0, 50)]))
        assert assembly.loose_parts == 1
        assert assembly.loose_km == pytest.approx(0.1)

    @pytest.mark.parametrize(("layer", "parts"), [((0, 0), 0), ((0, 1), 1)])
    def test_a_bridge_does_not_meet_what_it_crosses_at_a_vertex_of_both(self, layer, parts):
        east = [(-100, 0), (0, 0), (100, 0)]
        north = [(0, -50), (0, 0), (0, 50)]
        assembly = assemble_streets(lines(east, north, layer=np.array(layer)))
        assert assembly.loose_parts == parts

    def test_drivers_keep_the_streets_from_which_they_return(self):
        square = [
            [(0, 0), (100, 0)],
            [(100, 0), (100, 100)],
            [(100, 100), (0, 100)],
            [(0, 100), (0, 0)],
        ]
        trap = [(100, 100), (300, 100)]
        assembly = assemble_streets(
            lines(*square, trap, one_way=[4], street_class=[RESIDENTIAL] * 4 + [PRIMARY])
        )
        graph = assembly.graph
        check(graph)
        assert assembly.closed_km.tolist() == [0, pytest.approx(0.2), pytest.approx(0.2)]
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
            steps = {
                tuple(sorted(map(tuple, pair))) for p in parts for pair in pairwise(p.tolist())
            }
            length_m = sum(np.hypot(a[0] - b[0], a[1] - b[1]) for a, b in steps)
            assert km == pytest.approx(length_m / 1e3)
            check(assembly.graph)

    def test_rings_and_streets_side_by_side_are_there_once(self):
        """A ring, which the graph has as two halves between the same nodes, and two equally long
        streets."""
        ring = [(0, 0), (40, 0), (40, 40), (0, 40), (0, 0)]
        stub = [(-60, 0), (0, 0)]
        left = [(-60, 0), (-90, 20), (-120, 0)]
        right = [(-60, 0), (-90, -20), (-120, 0)]
        graph = assemble_streets(lines(ring, stub, left, right)).graph
        assert graph.length_m.sum() == pytest.approx(160 + 60 + 4 * np.hypot(30, 20))


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
        for k, part in enumerate(cut.path.to_lines()):
            owner = [
                i
                for i in range(60)
                if shapely.distance(inside[i], part) < 1e-9 and i % 7 == cut.street_class[k]
            ]
            wide = part.buffer(1e-6)
            near = [
                i
                for i in owner
                if shapely.hausdorff_distance(shapely.intersection(inside[i], wide), part) < 1e-3
            ]
            length_m[near[0]] += part.length
        assert length_m == pytest.approx(shapely.length(inside))


# --- routes
# ----------------------------------------------------------------------------------------


def random_graph(seed, n=7, one_way=0.4):
    """A grid of bent streets of all classes, some of one direction, some missing."""
    rng = np.random.default_rng(seed)
    place_m = np.stack(np.meshgrid(np.arange(n), np.arange(n), indexing="ij"), axis=-1) * 100.0
    place_m = place_m + rng.uniform(-30, 30, place_m.shape)
    parts = [(place_m[i, j], place_m[i + 1, j]) for i in range(n - 1) for j in range(n)]
    parts += [(place_m[i, j], place_m[i, j + 1]) for i in range(n) for j in range(n - 1)]
    parts = [[a, (a + b) / 2 + rng.uniform(-9, 9, 2), b] for a, b in parts if rng.random() < 0.9]
    parts += [
        [place_m[0, 0], place_m[0, 0] - [40, 60], place_m[1, 1]],
        [place_m[2, 2], place_m[2, 2] + [9, 70], place_m[3, 2]],
    ]
    classes = rng.integers(0, 7, len(parts))
    return assemble_streets(
        lines(
            *parts, street_class=classes, one_way=np.flatnonzero(rng.random(len(parts)) < one_way)
        )
    ).graph


def random_access(graph, mode, rng, count):
    """Points of streets open to a mode."""
    street = rng.choice(find_open_streets(graph)[mode], count)
    along_m = graph.length_m[street] * rng.choice([0.0, 0.25, 0.5, 1.0, rng.random()], count)
    return Access(street, along_m, locate(graph, street, along_m))


def locate(graph, street, along_m):
    """Positions (k, 2) on streets."""
    return shapely.get_coordinates(
        shapely.line_interpolate_point(graph.path.to_lines()[street], along_m)
    )


def slow_s(graph, mode, street, along_m, to_street, to_along_m):
    """Least time between two points of streets, by Dijkstra's algorithm with the points as nodes of
    the graph."""
    ways = {}  # node -> (node, s)
    for k in range(len(graph)):
        begin, end = graph.ends[k].tolist()
        stops = [(0.0, (0, begin)), (graph.length_m[k], (0, end))]
        for name, owned, s in (((1, 0), street, along_m), ((1, 1), to_street, to_along_m)):
            stops += [(s, name)] if owned == k else []
        for direction, speed in zip((1, -1), graph.speed_m_s[k, :, mode], strict=True):
            for (s, first), (t, second) in permutations(stops, 2):
                if speed > 0 and (t - s) * direction >= -1e-9:
                    ways.setdefault(first, []).append(
                        (second, max(0.0, (t - s) * direction) / speed)
                    )
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
    @pytest.mark.parametrize("mode", range(3), ids=MODES)
    @pytest.mark.parametrize("seed", range(3))
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
        result = (
            Routes(graph).find_trips(origin, destination, modes, origin.at_m, destination.at_m).span
        )
        slow = [
            slow_s(graph, mode, *item)
            for item in zip(
                origin.street, origin.along_m, destination.street, destination.along_m, strict=True
            )
        ]
        assert result == pytest.approx(slow)
        assert len(set(np.round(result, 6))) > 100

    def draw_trips(self, seed=4, count=200, **keys):
        """Trips of all modes from beside the streets to beside the streets."""
        graph = random_graph(seed)
        rng = np.random.default_rng(seed)
        mode = rng.integers(0, 3, count)
        places = [[random_access(graph, m, rng, 1) for m in mode] for _ in range(2)]
        origin, destination = (
            Access(
                *(
                    np.concatenate([getattr(a, f) for a in parts])
                    for f in ("street", "along_m", "at_m")
                )
            )
            for parts in places
        )
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
        network = [
            shapely.union_all(graph.path.to_lines()[parts]) for parts in find_open_streets(graph)
        ]
        for i in range(len(mode)):
            owned = slice(trips.first[i], trips.first[i + 1])
            line = trips.vertex_m[owned]
            time_s = trips.along[owned]
            assert (np.diff(time_s) > 0).all()
            speed = np.linalg.norm(np.diff(line, axis=0), axis=1) / np.diff(time_s)
            assert speed[[0, -1]] == pytest.approx(1.4)
            allowed = np.unique(graph.speed_m_s[:, :, mode[i]])
            possible = allowed[allowed > 0]
            assert np.abs(speed[1:-1, None] - possible).min(axis=1) == pytest.approx(0, abs=1e-5)
            middle = shapely.points((line[1:-2] + line[2:-1]) / 2)
            assert (shapely.distance(middle, network[mode[i]]) < 1e-6).all()

    def test_a_trip_does_not_depend_on_the_others(self):
        graph, arguments = self.draw_trips()
        origin, destination, mode, from_m, to_m = arguments
        together = Routes(graph).find_trips(*arguments)
        for i in (0, 17, 199):
            row = np.array([i])
            target = destination.select(row)
            alone = Routes(graph).find_trips(
                origin.select(row), target, mode[row], from_m[row], to_m[row]
            )
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
        return assemble_streets(
            lines([(0, 0), (200, 0)], [(0, 0), (0, 50), (200, 50)], street_class=classes)
        ).graph

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
        assert len(premises) > 250
        assert (
            shapely.distance(shapely.boundary(shape), shapely.points(premises.door_m)).max() < 1e-9
        )
        for mode in range(3):
            met = premises.select_access(np.full(len(premises), mode), np.arange(len(premises)))
            parts = graph.path.to_lines()[find_open_streets(graph)[mode]]
            least_m = shapely.distance(shapely.points(premises.door_m)[:, None], parts[None]).min(
                axis=1
            )
            assert np.linalg.norm(met.at_m - premises.door_m, axis=1) == pytest.approx(
                least_m, abs=1e-6
            )
            assert np.isin(met.street, find_open_streets(graph)[mode]).all()
            assert locate(graph, met.street, met.along_m) == pytest.approx(met.at_m)
