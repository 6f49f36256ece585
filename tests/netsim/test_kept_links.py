"""Links of UEs that rest are kept, and large worlds are calculated in blocks, both to the same
bits."""

import json

from numpy import arange, lexsort, ones
from numpy.testing import assert_array_equal
from pytest import mark
from rows import read_yaml

from netsim.radio import link_budget
from netsim.radio.link_budget import Budget
from netsim.rng import Streams
from netsim.world.build import build_world
from netsim.world.setting import WorldSetting

MOBILITY = read_yaml("""
    random-waypoint: {kind: random-waypoint, pause_s: [0.0, 5.0], speed_m_s: [5.0, 20.0]},
    gauss-markov: {kind: gauss-markov}, commuter: {kind: commuter}, static: {kind: static},
    lingering: {kind: random-waypoint, pause_s: [20.0, 400.0], speed_m_s: [5.0, 20.0]}
""")


def world(mobility="random-waypoint", n_ue=7, measurement_period_s=10.0, indoor=None, **radio):
    ues = {"count": n_ue, "mobility": MOBILITY[mobility], "indoor": indoor}
    if mobility != "commuter":
        ues["measurement_period_s"] = measurement_period_s
    laws = {"path_loss": {"kind": "uma"}, "line_of_sight": {"kind": "probability"}, **radio}
    return built(
        {
            "city": {"kind": "open-field", "width_m": 600.0, "height_m": 500.0},
            "ues": ues,
            "radio": laws,
        }
    )


def built(document):
    document["radio"]["shadowing"] = {"kind": "correlated"}
    stations = [{"name": f"b{k}", "position_m": [100.0 + 200.0 * k, 250.0]} for k in range(3)]
    document = {"duration_s": 3600.0, "tick_s": 1.0, "base_stations": stations} | document
    return build_world(WorldSetting.model_validate_json(json.dumps(document)), Streams(3), 60.0)


def same(a, b):
    for name in ("gain", "rsrp_dbm", "los", "distance_m", "serving"):
        assert_array_equal(getattr(a, name), getattr(b, name))
    assert_array_equal(a.powers.received_w, b.powers.received_w)
    assert_array_equal(a.compute_sinr(-120.0), b.compute_sinr(-120.0))
    assert a.time_s == b.time_s


@mark.parametrize("indoor", [None, {"share": 0.5}])
@mark.parametrize("mobility", ["random-waypoint", "gauss-markov", "commuter", "static"])
def test_asked_tick_by_tick_or_once_in_a_while_is_the_same(mobility, indoor):
    eager = world(mobility, indoor=indoor)
    plain = world(mobility, indoor=indoor)
    for t in range(1, 200):
        eager.env.run(until=float(t))
        ahead = eager.compute_links()
        if t % 13 == 0:
            plain.env.run(until=float(t))
            same(ahead, plain.compute_links())
            assert_array_equal(eager.locate_ues(), plain.locate_ues())
    first, second = (
        o.select(lexsort((o.time_s, o.ue)))
        for o in (eager.drain_observations(), plain.drain_observations())
    )
    assert_array_equal(first.rsrp_dbm, second.rsrp_dbm)
    assert_array_equal(first.position_m, second.position_m)


@mark.parametrize("step_s", [0.5, 0.25, 1.0, 3.0])
def test_a_caller_out_of_step_with_the_ticks_gets_the_same(step_s):
    eager = world(measurement_period_s=0.7)
    plain = world(measurement_period_s=0.7)
    for t in arange(step_s, 40.0, step_s):
        eager.env.run(until=float(t))
        result = eager.compute_links()
    plain.env.run(until=float(t))
    same(result, plain.compute_links())


@mark.parametrize("indoor", [None, {"share": 0.8, "floors": [8, 8]}])
def test_links_of_ues_that_rest_are_kept(indoor):
    eager, plain = (world("lingering", n_ue=6000, indoor=indoor) for _ in range(2))
    kept = 0
    first = None
    for t in range(1, 90):
        eager.env.run(until=float(t))
        result = eager.compute_links()
        if t % 29 == 0:
            plain.env.run(until=float(t)), setattr(plain._kept, "_known", None)
            same(result, plain.compute_links())
            if first is None:
                rows = ones(6000, bool)
            else:
                rows = (result.gain != first).any(axis=1)
            kept += int((~rows).sum())
            first = result.gain
    assert kept > 600  # some rested between two of the times compared


@mark.parametrize("indoor", [None, {"share": 0.5}])
@mark.parametrize(
    "radio", [{}, read_yaml("path_loss: {kind: log-distance}, line_of_sight: {kind: never}")]
)
def test_blocks_of_pairs_change_no_bit(monkeypatch, indoor, radio):
    n_ue = 7
    pairs = []
    whole = world(n_ue=n_ue, indoor=indoor, **radio)
    place_m = whole.locate_ues()
    inside = whole.find_state_indoors(whole.state)
    links = whole.budget.compute_links(0.0, place_m, inside)
    rsrp = whole.budget.rsrp_dbm(place_m, inside)
    gain = Budget.gain_db

    def counted(self, place, item):
        pairs.append(item.distance_3d_m.size)
        return gain(self, place, item)

    monkeypatch.setattr(Budget, "gain_db", counted)
    monkeypatch.setattr(link_budget, "BLOCK_PAIRS", 7)
    same(links, whole.budget.compute_links(0.0, place_m, inside))
    assert_array_equal(rsrp, whole.budget.rsrp_dbm(place_m, inside))
    assert pairs == [6, 6, 9] * 2  # of 7 UEs and 3 base stations: two, two and three UEs


def test_fixes_of_a_trace_are_measured_in_blocks_to_the_same_bits(monkeypatch, tmp_path):
    trace = tmp_path / "trace.csv"
    rows = [f"{1_699_920_000 + t},{u},{3 * t + u},{200 + u}" for u in range(5) for t in range(60)]
    trace.write_text("\n".join(["time_s,user,x_m,y_m", *rows]))
    replay = {"mobility": {"kind": "replay", "trace": str(trace), "users": "id"}}
    radio = {"measurement_noise_db": 2.0}

    def seen():
        item = built(
            {"tick_s": 20.0, "city": {"kind": "open-field"}, "ues": replay, "radio": dict(radio)}
        )
        item.env.run(until=item.duration_s)
        return item.drain_observations()

    whole = seen()
    monkeypatch.setattr(link_budget, "BLOCK_PAIRS", 12)
    blocks = seen()
    for name in ("ue", "time_s", "position_m", "cell", "rsrp_dbm"):
        assert_array_equal(getattr(whole, name), getattr(blocks, name))
    assert len(whole) == 300
