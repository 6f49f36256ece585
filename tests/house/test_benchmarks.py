"""The benchmarks: every subject writes all its rows, bars decide, and what is timed does the work
that it names."""

import json
import sys
from unittest.mock import ANY

import numpy as np
import pytest
import torch
from tabled import cases

from benchmarks import __main__ as command
from benchmarks import (
    attacks,
    density,
    distance,
    federated_peers,
    growth,
    images,
    inversion,
    paired,
    peers,
    radio_map,
    replay,
    span,
    sweeps,
    town,
    trace,
    tracking,
    training,
    uploads,
    whole,
    world,
)
from benchmarks.inversion_peers import Loop, Stacked
from benchmarks.training_peers import loop
from fl.attacks.gradient_matching import CosineDistance
from fl.leakage.distances import accumulate_sums, compute_sliced_w1_of_sets, sort_projections
from fl.networks.mlp import Mlp
from netsim.workers import count_workers
from scenarios.app.run.executor import OnProcesses

# before `quick`
PEERS = peers.PEERS
ALONE = world.alone
COST = growth.cost
PLAYED = replay.played
FIELDS = {"subject", "work", "ours", "unit", "peer", "theirs", "ratio", "bar", "met"}
LONG = 1e9
SHORT = 1e-9
NO = None
TARGETS = attacks.Bench(3, (4, 3), dlg_ms=LONG, closed_form_ms=SHORT, loop=LONG, stacked=SHORT)
WORKS = ((10, 2, 2), (1000, 2, 2)), ((2, 10, 1), (2, 100, 1)), ((2, 9, 1), (2, 9, 9))
DAYS = growth.Bench(*(tuple(growth.Work(*n) for n in works) for works in WORKS), (2, 50), 1.05, 2.0)
TAXIS = replay.Bench(2, 2, 30, 3, 30, taxis_s=LONG, taxis_gb=SHORT)
PEOPLE = {
    "waves_s": LONG,
    "peers": {"scipy": LONG, "scikit-learn": LONG},
    "many_s": SHORT,
    "many_mb": LONG,
}
WORLD = command.Plan(
    {(2, 5): {"crrm": SHORT, "aimm": LONG, "mobile-env": NO}}, ((2, 10), (2, 20)), (2, 20)
)
MET = {"+": True, "-": False, ".": None, "?": ANY}
ROWS = {
    "attacks": (
        attacks.rows,
        (TARGETS, 0),
        "ms ms ms ms ms ms ms ms",
        "+-++-+-.",
    ),
    "density": (
        density.rows,
        (density.Bench(50, 60, 20, **PEOPLE), 0),
        "s s ms ms s MB",
        "+.---+",
    ),
    "growth": (
        growth.rows,
        (DAYS, 0),
        None,
        "..-+..++..++.-",
    ),
    "images": (
        images.rows,
        (images.Bench(3, 40, 10, 50, round_s=LONG, vectors_s=1e-12, plan_s=LONG), 0),
        None,
        "+---+",
    ),
    "radio-map": (
        radio_map.rows,
        (radio_map.Bench(2, 3, 10, 1, gradient_s=LONG, noise_s=SHORT), 0),
        "s s s ms exponent GB",
        ".+-.??",
    ),
    "replay": (replay.rows, (TAXIS, 0), None, "..+-...."),
    "span": (span.rows, (span.Bench(3, 60, (8, 4), span_ms=LONG), 0), "ms ms", "+."),
    "sweeps": (sweeps.rows, (sweeps.Bench(1, 1.0),), "s s", ".+"),
    "town": (
        town.rows,
        (town.Bench(400.0, 2, 15, draw_s=LONG, tick_ms=SHORT), 0),
        "s s ms GB",
        "+.-.",
    ),
    "tracking": (
        tracking.rows,
        (tracking.Bench(2, 3, 6, (2, 2, 4), (2, 3, 4), all_s=LONG, memory_mb=SHORT),),
        None,
        "..+?.......",  # memory of an earlier test may hold all that is needed
    ),
    "uploads": (
        uploads.rows,
        (uploads.Bench((2, 3), (2,), 2, SHORT, ((2, LONG), (3, SHORT))), 0),
        None,
        "..?-+?-+?..?.+",
    ),
    "world": (
        command.world,
        (WORLD, 0),
        "ms ms ms ms ms exponent GB GB",
        "+-...?++",
    ),
}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Everything here and now: another process costs a second, and this one is not to be bound to a
    core."""
    monkeypatch.setattr(command, "stay_on_cores", lambda count: None)
    for module, name, value in (
        (inversion, "STARTS", 2),
        (inversion, "ITERATIONS", 4),
        (radio_map, "OUTER", 1),
        (radio_map, "INNER", 1),
        (sweeps, "JOBS", 1),
    ):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(sweeps, "OnRay", OnProcesses)
    monkeypatch.setattr(sweeps, "find_spec", lambda name: name)
    monkeypatch.setattr(
        growth, "cost", lambda w: {"cpu_s": float(w.rounds**2 * w.ues), "peak_gb": 0.1}
    )
    monkeypatch.setattr(growth, "alone", lambda *_: {"ms": 3.0, "build_s": 0.0, "peak_gb": 2.5})
    monkeypatch.setattr(world, "alone", lambda *_: {"ms": 1.0, "build_s": 0.0, "peak_gb": 0.1})
    costs = map(replay.Cost, (2.0, 8.0, 1.0, 2.0), (1.0, 1.0, 1.0, 4.0))
    monkeypatch.setattr(replay, "played", lambda trace, out, options: next(costs))
    named = {key: (name, lambda n_bs, n_ue: lambda: None) for key, (name, _) in peers.PEERS.items()}
    monkeypatch.setattr(peers, "PEERS", named)
    monkeypatch.setattr(peers, "version", lambda package: "1.0")


@pytest.mark.parametrize("subject", ROWS)
def test_every_row_is_there_and_its_bar_decides(subject):
    rows, arguments, units, met = ROWS[subject]
    threads = torch.get_num_threads()
    result = [row for row in rows(*arguments) if json.dumps(row)]
    assert torch.get_num_threads() == threads
    assert [row["met"] for row in result] == [MET[sign] for sign in met]
    assert units is None or [row["unit"] for row in result] == units.split()
    for row in result:
        assert set(row) >= FIELDS
        assert row["subject"] == subject
        assert np.isfinite(row["ours"])
        low, high = row.get("spread", (row.get("low", row["ours"]), row.get("high", row["ours"])))
        assert low <= row["ratio" if "spread" in row else "ours"] <= high


ELSEWHERE = {"distance", "trace", "training", "whole"}
"""subjects whose rows the tests below play"""
BRIEF = set(command.SUBJECTS) - set(ROWS) - ELSEWHERE


@pytest.mark.parametrize(
    "subject",
    [s if s in BRIEF else pytest.param(s, marks=pytest.mark.slow) for s in command.SUBJECTS],
)
def test_every_subject_is_played_at_its_smallest_size(subject, capsys):
    code = command.main([subject, "--sizes", "small", "--seconds", "0"])
    out, errors = capsys.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    assert rows
    assert all(row["subject"] == subject and set(row) >= FIELDS for row in rows)
    assert code == any(row["met"] is False for row in rows)
    assert errors.startswith("Python ")


def test_the_median_of_ratios_of_pairs_decides():
    # the first of each loads
    ours = iter([9.0, 1.0, 2.0, 4.0])
    peer = iter([9.0, 3.0, 8.0, 20.0])
    row = paired.beside("work", lambda: next(ours), lambda: next(peer), 4.0, 0.0, lambda: 0.5)
    assert row["met"] is True
    assert row["spread"] == [3.0, 5.0]
    values = [row[key] for key in ("ratio", "ours", "theirs", "limit", "share")]
    assert values == [4.0, 2000.0, 8000.0, 500.0, 0.25]
    assert paired.beside("work", lambda: 1.0, lambda: 3.9, 4.0, 0.0)["met"] is False


def test_a_peer_that_is_missing_or_fails_costs_its_row_only(monkeypatch):
    def break_down(n_bs, n_ue):
        raise ValueError("no such cell")

    monkeypatch.setitem(peers.PEERS, "crrm", ("CRRM", break_down))
    assert peers.start("crrm", 2, 5) == ("CRRM", None, "ValueError: no such cell")
    row = command.against("crrm", 3.0, (2, 5), 0)
    assert row["ours"] > 0
    assert row["theirs"] is row["ratio"] is row["met"] is None
    assert "no such cell" in row["reason"]
    monkeypatch.setitem(sys.modules, "lxml", None)
    (row,) = trace.rows(trace.SMALL, 0)
    assert row["ours"] is row["met"] is None
    assert "not installed" in row["reason"]


@pytest.mark.parametrize("make", list(density.PEERS.values()))
def test_peers_of_densities_agree_with_the_definition(make):
    x = density.places_m(30)
    index = density.grid_m()[::97]
    want = np.exp(-((index[:, None] - x) ** 2).sum(axis=-1) / (2 * density.BANDWIDTH_M**2)).mean(
        axis=1
    )
    assert make(x)(index) == pytest.approx(want, abs=1e-8)
    assert density.exact(x)[::97] == pytest.approx(want, abs=1e-13)


@pytest.mark.slow
def test_growth_and_replay_are_played_in_processes(tmp_path):
    cost = COST(growth.Work(2, 2, 1))
    assert 0 < cost["cpu_s"] < 60
    assert 0.05 < cost["peak_gb"] < 4
    replay.taxis(tmp_path / "trace", 2, TAXIS)
    cost = PLAYED(tmp_path / "trace", tmp_path / "out", ["--set", "learning.learner.hidden=[8]"])
    assert cost.cpu_s > 0.5
    assert 0.05 < cost.memory_gb < 4
    assert (tmp_path / "out/standardised-by-public/summary.json").exists()
    with pytest.raises(RuntimeError, match="exit code 2"):
        PLAYED(tmp_path / "none", tmp_path / "out", [])


def test_intervals_hold_the_median_in_19_of_20_cases():
    rng = np.random.default_rng(1)
    result = [uploads.median_interval(rng.exponential(size=41)) for _ in range(2000)]
    assert 0.93 < np.mean([low <= np.log(2) <= high for _, low, high in result]) < 0.98
    assert all(low <= middle <= high for middle, low, high in result)


def test_distances_are_those_of_the_peer_and_errors_no_larger():
    same, equal = distance.rows(distance.SMALL, 0)
    assert same["difference"] < 1e-12
    assert equal["error"] <= equal["their_error"]
    assert same["peer"].startswith("POT ")
    few, error, peer = distance.errors(distance.Bench(200, 3, 3, 400))
    # equally spaced directions: a twentieth of random ones
    assert error <= peer
    assert few <= 20


def test_traces_are_read_alike(tmp_path):
    pytest.importorskip("lxml")
    (row,) = trace.rows(trace.SMALL, 0)
    assert row["same"] is True
    assert row["peer"].startswith("lxml ")
    trace.write(tmp_path / "t.xml", trace.SMALL)
    time_s, user, x, _ = trace.loop(tmp_path / "t.xml")
    assert len(time_s) == len(x) == trace.SMALL.fixes
    assert len(np.unique(user)) > trace.SMALL.at_once


def test_loops_of_a_whole_run_find_what_it_finds():
    before = (torch.get_num_threads(), count_workers())
    run, training, central, samples, dlg, leakage = whole.rows(whole.SMALL, 0)
    assert (torch.get_num_threads(), count_workers()) == before
    parts = (training, central, samples, dlg, leakage)
    assert run["theirs"] == pytest.approx(
        run["one_worker"] + sum(p["theirs"] - p["ours"] for p in parts), rel=1e-2
    )
    assert run["ratio"] == pytest.approx(run["theirs"] / run["ours"], rel=1e-2)
    assert max(training["updates"], leakage["distances"], samples["gradients"]) < 1e-12
    # central training is in single precision
    assert central["updates"] < 1e-4
    assert dlg["losses"][0] <= dlg["losses"][1] * 1.001  # ours is the least of all starts
    # counts of the run
    assert training["given"][1] == 6
    assert dlg["given"][1] == 32
    assert leakage["given"][1] >= 300
    assert whole.some([*range(100)], 3) == [0, 49, 99]
    assert whole.some([1, 2], 5) == [1, 2]
    assert whole.some([], 3) == []


def test_the_loop_of_a_whole_run_shortens_steps_as_ours(monkeypatch):
    settings = {
        "world.duration_s": 1_209_600,
        "learning.attacks": [],
        "learning.references": {"kriging_samples": 0, "central": False},
        "learning.learner.hidden": [8, 4],
        "learning.learner.batch_size": 128,  # in many short steps rounding grows to all there is
        "learning.learner.step_limit": "polyak",
        "learning.learner.learning_rate": 0.1,
    }
    _, parts = whole.taken_apart("campus", settings)
    calls = parts["training"].calls
    assert whole.training(calls, 6)[3]["updates"] < 1e-9
    monkeypatch.setattr(whole, "POLYAK", 1.0)
    assert whole.training(calls, 6)[3]["updates"] > 1e-3


def test_distances_of_no_places_are_no_work_of_a_whole_run():
    rng = np.random.default_rng(1)
    points = sort_projections(rng.normal(size=(7, 2)), 12)
    sums = accumulate_sums(points)
    nobody = np.zeros((12, 0))
    few = rng.normal(size=(3, 4, 2))
    calls = [
        ((points, np.zeros((0, 2)), sums), np.array(np.nan)),
        ((nobody, few, accumulate_sums(nobody)), np.full(3, np.nan)),
        ((points, few, sums), compute_sliced_w1_of_sets(points, few, sums)),
    ]
    _, given, of, compared = whole.distances(calls, 10)
    assert (given, of) == (3, 3)
    assert compared["distances"] < 1e-12


def test_only_whole_runs_have_two_cores(monkeypatch):
    cores = []
    monkeypatch.setattr(command, "stay_on_cores", cores.append)
    for subject in ("whole", "distance"):
        monkeypatch.setitem(command.SUBJECTS, subject, lambda sizes, seconds: iter(()))
        assert command.main([subject]) == 0
    assert cores == [2, 1]


# -- gradient inversion: the peers compute what we do


def invert(sizes, activation, n=5):
    torch.manual_seed(3)
    net = Mlp(sizes, activation)
    weights, update = (torch.randn(k, net.n_parameters, dtype=torch.float64) for k in (1, n))
    distance = CosineDistance.from_updates(update, net, weights)
    return (
        net,
        weights[0],
        update,
        distance,
        torch.randn(n, inversion.STARTS, 2, dtype=torch.float64),
    )


@pytest.mark.parametrize("activation", ["elu", "tanh", "sigmoid", "relu"])
@pytest.mark.parametrize("hidden", [(6,), (7, 4)])
def test_the_peers_have_our_objective_and_slope(activation, hidden):
    net, weights, update, distance, z = invert((2, *hidden, 1), activation)
    value, slope = distance(torch.arange(5), z)
    loop = Loop(net, weights, update)
    for target in range(5):
        leaf = z[target, 1].clone().requires_grad_()
        torch.testing.assert_close(
            loop.ask(target, leaf).detach(), value[target, 1], rtol=0, atol=1e-13
        )
        torch.testing.assert_close(leaf.grad, slope[target, 1], rtol=1e-11, atol=1e-13)
    for together in (1, 2, 10):
        peer = Stacked(net, weights, update, together).ask(z)
        torch.testing.assert_close(peer[0], value, rtol=0, atol=1e-13)
        torch.testing.assert_close(peer[1], slope, rtol=1e-11, atol=1e-13)


# -- local training beside its peers and simulators


def play_loop(work):
    """Rounds of the loop over devices, from its own last model."""
    model = work.start

    def rounds(n):
        nonlocal model
        for _ in range(n):
            model = model + loop(work.net, model, work.x, work.y, work.batch, torch.float32)().mean(
                axis=0
            )
        return model

    return rounds


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "peer, packages",
    cases("""
"flower", ('flwr', 'ray')
"pfl", ('pfl',)
"""),
)
def test_simulators_play_the_round_of_the_loop(peer, packages):
    for package in packages:
        pytest.importorskip(package)
    work = training._samples(training.SMALL.cohorts[0])[1]
    with federated_peers.PEERS[peer][1](work) as (_, rounds):
        result = [rounds(1), rounds(2)]
    same = play_loop(work)
    for model, right in zip(result, [same(1), same(2)], strict=True):
        np.testing.assert_allclose(model, right, rtol=0, atol=1e-6)


def absent(_):
    raise ImportError("no such package")


def test_rows_beside_loops_and_mapped_gradients(monkeypatch):
    for peer in federated_peers.PEERS:
        monkeypatch.setitem(federated_peers.PEERS, peer, (peer, absent))
    threads = torch.get_num_threads()
    result = list(training.rows(training.SMALL, 0))
    assert torch.get_num_threads() == threads
    assert all(row["subject"] == "training" for row in result)
    assert [row["bits"] for row in result] == [32, 32, 64, 64, 32, 32, 32]
    assert [row["met"] for row in result] == [True, False] + [None] * 5
    assert ["reason" in row for row in result] == [False] * 5 + [True] * 2
    for row in result[:5]:
        assert row["difference"] < (1e-12 if row["bits"] == 64 else 1e-2)
        assert row["spread"][0] <= row["ratio"] <= row["spread"][1]
        assert torch.__version__ in row["peer"]
        assert row["share"] > 0
        assert row["limit"] > 0
