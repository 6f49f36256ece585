"""Facts about street graphs: how lines become edges, which way is the fastest, and where buildings have their doors."""

import heapq
from itertools import pairwise, permutations

import numpy as np
import pytest
import shapely
from shapely import box

from netsim.city import Buildings, Grid
from netsim.geometry import Area
from netsim.rng import Streams
from netsim.streets.assembly import assemble
from netsim.streets.doors import Access
from netsim.streets.graph import CLASSES, CYCLE, DRIVE, MODES, WALK, StreetGraph
from netsim.streets.lines import StreetLines
from netsim.streets.premises import doors, without_door
from netsim.streets.routes import Routes
from netsim.streets.slices import Slices
from netsim.streets.speeds import usual_m_s
from netsim.streets.trees import Trees

RESIDENTIAL, PRIMARY = CLASSES.index("residential"), CLASSES.index("primary")


def lines(*polylines, street_class=RESIDENTIAL, one_way=(), layer=None):
    """Street lines; those of index in `one_way` are closed against their direction to all but pedestrians."""
    count = len(polylines)
    first = np.append(0, np.cumsum([len(p) for p in polylines]))
    classes = np.broadcast_to(np.asarray(street_class), count).copy()
    forward = usual_m_s(classes)
    backward = forward.copy()
    backward[list(one_way), 1:] = 0.0
    vertex = np.concatenate([np.asarray(p, dtype=float) for p in polylines])
    return StreetLines(vertex, first, classes, forward, backward, np.zeros(count, int) if layer is None else layer)


def streets(graph):
    """Centre lines as a sorted list of tuples, each street once."""
    found = set()
    for k in range(len(graph)):
        line = tuple(map(tuple, graph.line_m(k).round(6).tolist()))
        found.add(min(line, line[::-1]))
    return sorted(found)


def check(graph):
    """What every graph keeps."""
    assert (graph.tail != graph.head).all()
    assert (graph.node_m[graph.tail] == graph.vertex_m[graph.first[:-1]]).all()
    assert (graph.node_m[graph.head] == graph.vertex_m[graph.first[1:] - 1]).all()
    assert (graph.length_m > 0).all()
    assert (graph.speed_m_s > 0).any(axis=1).all()
    assert set(np.concatenate([graph.tail, graph.head])) == set(range(len(graph.node_m)))
    for k, twin in enumerate(graph.twin):
        if twin >= 0:
            assert (graph.line_m(k) == graph.line_m(twin)[::-1]).all()
            assert graph.twin[twin] == k


class TestAssembly:
    def test_lines_meet_at_shared_vertices_and_keep_their_bends(self):
        graph = assemble(lines([(0, 0), (50, 10), (100, 0), (200, 0)], [(100, 0), (100, 80)])).graph
        check(graph)
        assert streets(graph) == [
            ((0, 0), (50, 10), (100, 0)),
            ((100, 0), (100, 80)),
            ((100, 0), (200, 0)),
        ]
        assert len(graph.node_m) == 4 and len(graph) == 6
        assert graph.length_m.max() == pytest.approx(2 * np.hypot(50, 10))

    def test_ends_of_two_lines_are_one_street(self):
        graph = assemble(lines([(0, 0), (100, 0)], [(200, 0), (100, 0)], [(200, 0), (300, 5)])).graph
        check(graph)
        assert streets(graph) == [((0, 0), (100, 0), (200, 0), (300, 5))]

    def test_a_change_of_class_is_a_node(self):
        graph = assemble(lines([(0, 0), (100, 0)], [(100, 0), (200, 0)], street_class=[PRIMARY, RESIDENTIAL])).graph
        assert len(streets(graph)) == 2
        assert sorted(graph.street_class.tolist()) == [PRIMARY, PRIMARY, RESIDENTIAL, RESIDENTIAL]

    @pytest.mark.parametrize(("away_m", "streets_left"), [(0.4, 1), (0.6, 0)])
    def test_ends_within_half_a_metre_are_joined(self, away_m, streets_left):
        made = assemble(lines([(0, 0), (100, 0)], [(100, away_m), (100, 80)]))
        assert made.loose_parts == 1 - streets_left
        assert made.graph.length_m[0] > 150 if streets_left else made.loose_km == pytest.approx(0.0794)

    def test_an_end_is_joined_to_a_vertex_inside_a_line(self):
        graph = assemble(lines([(0, 0), (100, 0), (200, 0)], [(100.3, 0.2), (100, 80)])).graph
        check(graph)
        assert len(graph.node_m) == 4

    def test_streets_that_merely_cross_are_not_joined(self):
        made = assemble(lines([(-100, 0), (100, 0)], [(0, -50), (0, 50)]))
        assert (made.loose_parts, made.loose_km) == (1, pytest.approx(0.1))
        assert streets(made.graph) == [((-100, 0), (100, 0))]

    @pytest.mark.parametrize(("layer", "parts"), [((0, 0), 0), ((0, 1), 1)])
    def test_a_bridge_does_not_meet_what_it_crosses_at_a_vertex_of_both(self, layer, parts):
        made = assemble(lines([(-100, 0), (0, 0), (100, 0)], [(0, -50), (0, 0), (0, 50)], layer=np.array(layer)))
        assert made.loose_parts == parts

    def test_a_bridge_meets_the_streets_at_its_ends(self):
        ramp, bridge, under = [(0, 0), (50, 0)], [(50, 0), (100, 0), (150, 0)], [(50, 0), (100, -40), (150, 0)]
        graph = assemble(lines(ramp, bridge, under, layer=np.array([0, 1, 0]))).graph
        check(graph)
        assert len(streets(graph)) == 3

    def test_the_same_street_twice_is_one(self):
        once = assemble(lines([(0, 0), (50, 9), (100, 0)])).graph
        twice = assemble(lines([(0, 0), (50, 9), (100, 0)], [(100, 0), (50, 9), (0, 0)], [(0, 0), (50, 9)])).graph
        for name in ("node_m", "tail", "head", "speed_m_s", "vertex_m", "first"):
            assert (getattr(once, name) == getattr(twice, name)).all()

    def test_two_directions_drawn_apart_become_one_street(self):
        graph = assemble(lines([(0, 0), (100, 0)], [(100, 0), (0, 0)], one_way=[0, 1])).graph
        assert len(graph) == 2 and (graph.speed_m_s > 0).all()
        assert graph.twin.tolist() == [1, 0]

    def test_a_loop_has_a_second_node(self):
        graph = assemble(lines([(0, 0), (100, 0)], [(100, 0), (150, 50), (200, 0), (150, -50), (100, 0)])).graph
        check(graph)
        assert len(graph.node_m) == 3 and len(graph) == 6
        ring = assemble(lines([(0, 0), (100, 0), (100, 100), (0, 0)])).graph
        check(ring)
        assert len(ring.node_m) == 2 and ring.length_m.sum() / 2 == pytest.approx(200 + 100 * 2**0.5)

    def test_repeated_vertices_and_lines_without_length_are_nothing(self):
        graph = assemble(lines([(0, 0), (0, 0), (100, 0), (100, 0)], [(40, 7), (40, 7)])).graph
        check(graph)
        assert streets(graph) == [((0, 0), (100, 0))]

    def test_drivers_keep_the_streets_from_which_they_return(self):
        square = [[(0, 0), (100, 0)], [(100, 0), (100, 100)], [(100, 100), (0, 100)], [(0, 100), (0, 0)]]
        trap = [(100, 100), (300, 100)]
        made = assemble(lines(*square, trap, one_way=[4], street_class=[RESIDENTIAL] * 4 + [PRIMARY]))
        graph = made.graph
        check(graph)
        assert made.closed_km.tolist() == [0, pytest.approx(0.2), pytest.approx(0.2)]
        on_trap = graph.street_class == PRIMARY
        assert (graph.speed_m_s[on_trap, WALK] > 0).all() and on_trap.sum() == 2
        assert (graph.speed_m_s[on_trap, 1:] == 0).all() and (graph.speed_m_s[~on_trap] > 0).all()
        assert "0.2 km to cycle, 0.2 km to drive" in made.notes("city")[0]

    def test_the_order_of_lines_changes_nothing_but_the_numbering(self):
        rng = np.random.default_rng(5)
        some = [rng.integers(0, 6, (4, 2)) * 20.0 for _ in range(30)]
        assert streets(assemble(lines(*some)).graph) == streets(assemble(lines(*some[::-1])).graph)

    def test_length_is_conserved(self):
        """The union of all lines, as shapely sees it, is the graph and what is left out."""
        rng = np.random.default_rng(6)
        for _ in range(20):
            some = [np.cumsum(rng.integers(-1, 2, (6, 2)), axis=0) * 10.0 for _ in range(8)]
            made = assemble(lines(*some))
            km = made.graph.length_m.sum() / 2 / 1e3 + made.loose_km
            steps = {tuple(sorted(map(tuple, pair))) for p in some for pair in pairwise(p.tolist())}
            assert km == pytest.approx(sum(np.hypot(a[0] - b[0], a[1] - b[1]) for a, b in steps) / 1e3)
            check(made.graph)


class TestClipping:
    def test_agrees_with_shapely(self):
        rng = np.random.default_rng(7)
        area = Area(0.0, 0.0, 100.0, 60.0)
        some = [rng.uniform(-60, 160, (rng.integers(2, 9), 2)) for _ in range(60)]
        cut = lines(*some, street_class=np.arange(60) % 7).clipped(area)
        assert area.grown(1e-9).contains(cut.vertex_m).all()
        assert (np.diff(cut.first) >= 2).all()
        inside = shapely.intersection([shapely.LineString(s) for s in some], box(0, 0, 100, 60))
        length_m = np.zeros(60)
        for k in range(len(cut)):
            part = shapely.LineString(cut.vertex_m[cut.first[k] : cut.first[k + 1]])
            owner = [i for i in range(60) if shapely.distance(inside[i], part) < 1e-9 and i % 7 == cut.street_class[k]]
            near = [
                i
                for i in owner
                if shapely.hausdorff_distance(shapely.intersection(inside[i], part.buffer(1e-6)), part) < 1e-3
            ]
            assert near
            length_m[near[0]] += part.length
        assert length_m == pytest.approx(shapely.length(inside))

    def test_lines_inside_stay_to_the_bit(self):
        some = lines([(1.1, 2.2), (3.3, 4.4), (5.5, 1.7)], [(9, 9), (8, 1)])
        cut = some.clipped(Area(0, 0, 10, 10))
        assert (cut.vertex_m == some.vertex_m).all() and (cut.first == some.first).all()


# --- routes -------------------------------------------------------------------------------------------------------


def random_graph(seed, n=7, one_way=0.4):
    """A grid of bent streets of all classes, some of one direction, some missing."""
    rng = np.random.default_rng(seed)
    at = np.stack(np.meshgrid(np.arange(n), np.arange(n), indexing="ij"), axis=-1) * 100.0
    at = at + rng.uniform(-30, 30, at.shape)
    some = [(at[i, j], at[i + 1, j]) for i in range(n - 1) for j in range(n)]
    some += [(at[i, j], at[i, j + 1]) for i in range(n) for j in range(n - 1)]
    some = [[a, (a + b) / 2 + rng.uniform(-9, 9, 2), b] for a, b in some if rng.random() < 0.9]
    some += [[at[0, 0], at[0, 0] - [40, 60], at[1, 1]], [at[2, 2], at[2, 2] + [9, 70], at[3, 2]]]
    return assemble(
        lines(
            *some,
            street_class=rng.integers(0, 7, len(some)),
            one_way=np.flatnonzero(rng.random(len(some)) < one_way),
        )
    ).graph


def random_access(graph, mode, rng, count):
    """Points of streets open to a mode."""
    edge = rng.choice(np.flatnonzero(graph.speed_m_s[:, mode] > 0), count)
    along_m = graph.length_m[edge] * rng.choice([0.0, 0.25, 0.5, 1.0, rng.random()], count)
    at_m = [shapely.LineString(graph.line_m(e)).interpolate(s).coords[0] for e, s in zip(edge, along_m, strict=True)]
    return Access(edge, along_m, np.array(at_m))


def slow_s(graph, mode, edge, along_m, to_edge, to_along_m):
    """Least time between two points of streets, by Dijkstra's algorithm with the points as nodes of the graph."""
    ways = {}  # node -> (node, s)
    for e in range(len(graph)):
        speed, length = graph.speed_m_s[e, mode], graph.length_m[e]
        stops = [(0.0, (0, graph.tail[e])), (length, (0, graph.head[e]))]
        for name, k, s in (((1, 0), edge, along_m), ((1, 1), to_edge, to_along_m)):
            stops += [(s if k == e else length - s, name)] if e in (k, graph.twin[k]) else []
        if speed > 0:
            for (s, one), (t, other) in permutations(stops, 2):
                if t >= s - 1e-9:
                    ways.setdefault(one, []).append((other, max(0.0, t - s) / speed))
    done, queue = set(), [(0.0, (1, 0))]
    while queue:
        time_s, at = heapq.heappop(queue)
        if at == (1, 1):
            return time_s
        if at not in done:
            done.add(at)
            for following, more in ways.get(at, ()):
                heapq.heappush(queue, (time_s + more, following))
    return np.inf


class TestRoutes:
    @pytest.mark.parametrize("mode", range(3), ids=MODES)
    @pytest.mark.parametrize("seed", range(3))
    def test_times_agree_with_a_slow_search(self, seed, mode):
        graph = random_graph(seed)
        check(graph)
        rng = np.random.default_rng(seed)
        origin, destination = (random_access(graph, mode, rng, 120) for _ in range(2))
        destination.edge[:40] = origin.edge[:40]  # on one street
        destination.along_m[:40] = graph.length_m[origin.edge[:40]] * rng.random(40)
        twin = graph.twin[destination.edge[:20]]  # half of them told from the other side
        two = np.flatnonzero(twin >= 0)
        destination.along_m[two] = graph.length_m[twin[two]] - destination.along_m[two]
        destination.edge[two] = twin[two]
        modes = np.full(120, mode)
        found = Routes(graph).time_s(origin, destination, modes, origin.at_m, destination.at_m)
        assert Routes(graph).reaches(origin, destination, modes).all()
        slow = [
            slow_s(graph, mode, *each)
            for each in zip(origin.edge, origin.along_m, destination.edge, destination.along_m, strict=True)
        ]
        assert found == pytest.approx(slow)
        assert len(set(np.round(found, 6))) > 100
