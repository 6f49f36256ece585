"""One attacker with all channels: its likelihood, its answers, what hidden grants take from it, and
what a made-up town teaches."""

from copy import deepcopy
from dataclasses import replace
from math import exp, hypot, log, nan

import numpy as np
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx, fixture, mark
from refused import catch_line

from fl.attacks.base import MadeUpTown, View
from fl.attacks.columns import fused
from fl.attacks.columns.base import build_scene
from fl.attacks.columns.fused import Fused, list_column_names
from fl.attacks.columns.uploads import (
    ArrivalDelays,
    FloorArea,
    Losses,
    OperatorFixes,
    SendingCells,
)
from fl.learners.rsrp_net import RsrpNet
from fl.types import Antennas, Public, RoundContext, Timing
from netsim.checkpoint import from_tree, load_tree, save_tree, to_tree
from netsim.geometry import Area
from netsim.rng import Streams
from scenarios.app.result import run

RNG = Streams(3).derive_rng("tests", 1)
AREA = Area(0.0, 0.0, 1000.0, 800.0)
AT_M = np.array([[150.0, 100, 25], [850, 100, 25], [500, 700, 25]])
K = len(list_column_names())
LEARNER = RsrpNet(hidden=(8, 6))


@fixture
def public():
    antennas = Antennas(AT_M, np.full(3, 43.0), None)
    return Public(AREA, 2, antennas=antennas, n_cell=3)


@fixture
def facts(public):
    return RoundContext(1, 0.0, public)


def build_view(ue, cell, model=None, phase="all"):
    """A view of sums, one of each model, of UEs (n,) that send through cells (n,)."""
    ue = np.asarray(ue)
    n = len(ue)
    model = np.zeros(n, int) if model is None else np.asarray(model)
    models = np.unique(model)
    source = np.searchsorted(models, model)
    timing = Timing(
        np.zeros(n), 1.0 + 0.1 * ue, np.asarray(cell), np.full(n, 1e5), np.zeros(n, int)
    )
    weights = LEARNER.init(Public(AREA, 2), Streams(1).derive_rng("learner"))
    update = default_rng(7).normal(size=weights.parameters.shape)[: len(models)]
    targets = (ue, model, source)
    return View(
        "aggregate", phase, update, models, *targets, weights, weights, LEARNER, timing=timing
    )


def build_attack(home=None, work=None, **settings):
    """An attack that has learnt weights of columns by their names."""
    attack = Fused(**settings)
    attack._weights = {
        kind: tuple((weights or {}).get(name, 0.0) for name in list_column_names())
        for kind, weights in (("home", home), ("work", work))
    }
    return attack


def draw_lessons(n_towns=2, n_ue=20, n_places=30, seed=1):
    """Lessons of made-up columns, by which homes are not quite where chance has them."""
    rng = default_rng(seed)
    lessons = []
    for _ in range(n_towns):
        place_m = rng.uniform(0, 600, (n_places, 2))
        home_m = rng.uniform(0, 600, (n_ue, 2))
        columns = 0.4 * rng.normal(size=(K, n_ue, n_places))
        away_m = np.linalg.norm(home_m[:, None] - place_m, axis=2)
        columns[0] -= away_m / 300.0
        columns[3] = 0.0  # a grant that is missing
        work_m = np.full((n_ue, 2), nan)
        lessons.append({"columns": columns, "place_m": place_m, "home": home_m, "work": work_m})
    return lessons


def compute_likelihood_slowly(weight, lessons, radius_m=100.0):
    """sum log P(near home) - |w|^2 / 2, a UE and a place at a time; who lives near none is left
    out."""
    total = -sum(w * w for w in weight) / 2
    for lesson in lessons:
        for ue, (x, y) in enumerate(lesson["home"]):
            near = every = 0.0
            for k, (px, py) in enumerate(lesson["place_m"]):
                odds = exp(
                    sum(w * f for w, f in zip(weight, lesson["columns"][:, ue, k], strict=1))
                )
                every += odds
                near += odds * (hypot(px - x, py - y) <= radius_m)
            if near:
                total += log(near / every)
    return total


def list_towns(lessons):
    """What the likelihood is computed of: columns, and the places near each home."""
    towns = []
    for lesson in lessons:
        away_m = np.linalg.norm(lesson["home"][:, None] - lesson["place_m"], axis=2)
        row = np.flatnonzero((away_m <= 100).any(axis=1))
        towns.append((lesson["columns"][:, row], away_m[row] <= 100))
    return towns


# -- weights


def test_the_likelihood_equals_a_loop():
    lessons = draw_lessons()
    for seed in range(3):
        weight = default_rng(seed).normal(size=K)
        loss, _ = fused._compute_loss(weight, list_towns(lessons))
        assert loss == approx(-compute_likelihood_slowly(weight, lessons))


@mark.parametrize("seed", range(3))
def test_the_slope_is_that_of_differences(seed):
    towns = list_towns(draw_lessons(seed=seed))
    weight = default_rng(seed).normal(size=K)
    _, slope = fused._compute_loss(weight, towns)
    step = 1e-5 * np.eye(K)
    ahead = np.array([fused._compute_loss(weight + way, towns)[0] for way in step])
    behind = np.array([fused._compute_loss(weight - way, towns)[0] for way in step])
    assert_allclose(slope, (ahead - behind) / 2e-5, rtol=1e-6, atol=1e-7)


def test_weights_are_those_of_another_optimiser():
    """Newton's steps with differences of slopes."""
    lessons = draw_lessons()
    towns = list_towns(lessons)
    weight = np.zeros(K)
    for _ in range(50):
        _, slope = fused._compute_loss(weight, towns)
        ways = 1e-5 * np.eye(K)
        pairs = [[fused._compute_loss(weight + s * way, towns)[1] for s in (1, -1)] for way in ways]
        bend = np.array([(a - b) / 2e-5 for a, b in pairs])
        weight = weight - 0.5 * np.linalg.solve(bend, slope)
    assert np.abs(slope).max() < 1e-4
    learnt = Fused().learn(lessons)
    assert_allclose(learnt._weights["home"], weight, atol=1e-3)
    assert learnt._weights["home"][0] > 0.1
    assert learnt._weights["home"][3] == 0.0  # it had nothing to say
    assert learnt._weights["work"] == (0.0,) * K


def test_lessons_that_teach_nothing_leave_zeros():
    lessons = draw_lessons()
    for lesson in lessons:
        lesson["home"] = lesson["home"] + 5000.0
    learnt = Fused().learn(lessons)
    assert learnt._weights == {kind: (0.0,) * K for kind in fused.KINDS}


def test_the_order_of_ues_and_towns_does_not_matter():
    lessons = draw_lessons()
    shuffled = []
    for lesson in lessons[::-1]:
        order = default_rng(3).permutation(len(lesson["home"]))
        moved = {key: lesson[key][order] for key in ("home", "work")}
        shuffled.append({**lesson, **moved, "columns": lesson["columns"][:, order]})
    found = [Fused().learn(told)._weights["home"] for told in (lessons, shuffled)]
    assert_allclose(*found, atol=1e-4)
    assert Fused().learn(lessons)._weights == Fused().learn(lessons)._weights


def test_what_was_learnt_is_tabulated():
    assert Fused(towns=1).tabulate_learnt() == []
    rows = build_attack(home={"floor area": 0.25}).tabulate_learnt()
    assert [row["column"] for row in rows] == 2 * list_column_names()
    assert [row["kind"] for row in rows] == K * ["home"] + K * ["work"]
    assert rows[list_column_names().index("floor area")]["weight"] == 0.25
    assert len(Fused(towns=0).tabulate_learnt()) == 2 * K


# -- answers


def find_slowly(law, grid, radius_m, apart_m):
    """Places of the discs of most probability of a map (G,), by the share of fine points inside."""
    fine = (np.arange(8) + 0.5) / 8 - 0.5
    mass = np.zeros(len(grid))
    for k, middle_m in enumerate(grid.place_m):
        offset_m = grid.place_m - middle_m
        x = offset_m[:, 0, None] + fine * grid.cell_m[0]
        y = offset_m[:, 1, None] + fine * grid.cell_m[1]
        inside = np.hypot(x[:, :, None], y[:, None, :]) <= radius_m
        mass[k] = inside.mean(axis=(1, 2)) @ law
    first = mass.argmax()
    away_m = np.linalg.norm(grid.place_m - grid.place_m[first], axis=1)
    second = np.where(away_m >= apart_m, mass, -1.0).argmax()
    return mass, first, second


def test_answers_are_discs_of_most_probability(public, facts):
    attack = build_attack(home={"cells at night": 0.9}, work={"cells not used": 1.5})
    view = build_view([0, 1, 2], [0, 1, 2])
    estimates, state = attack.run(view, facts, attack.start(), RNG)
    assert set(estimates.what) == {"answer"}
    scene = build_scene(public, 25.0, "fused")
    columns = attack.compute_columns(state, scene, np.arange(3))
    for kind in fused.KINDS:
        odds = np.exp(np.tensordot(attack._weights[kind], columns, axes=1))
        law = odds / odds.sum(axis=1, keepdims=True)
        for ue in range(3):
            mass, first, second = find_slowly(law[ue], scene.grid, 90.0, 200.0)
            told = [
                (status, *place_m, weight)
                for u, status, place_m, weight in zip(
                    estimates.ue,
                    estimates.status,
                    estimates.position_m,
                    estimates.weight,
                    strict=True,
                )
                if u == ue and status.startswith(kind)
            ]
            assert [row[0] for row in told] == [f"{kind} 1", f"{kind} 2"]
            # the best by fine points, or one as good
            for (_, x, y, weight), k in zip(told, (first, second), strict=True):
                (cell,) = scene.grid.find_cells(np.array([[x, y]]))
                assert mass[cell] == approx(mass[k], rel=0.02)
                assert weight == approx(mass[cell], rel=0.02)
            assert hypot(told[0][1] - told[1][1], told[0][2] - told[1][2]) >= 200.0
            assert 0 < told[1][3] <= told[0][3] <= 1


def read_answers(estimates):
    """(UE, model, status) -> place and weight."""
    keys = zip(estimates.ue.tolist(), estimates.model.tolist(), estimates.status, strict=True)
    rows = np.column_stack([estimates.position_m, estimates.weight])
    return dict(zip(keys, rows.tolist(), strict=True))


def test_each_model_of_a_ue_has_the_answers_of_the_ue(facts):
    attack = build_attack(home={"cells at night": 1.0}, work={"floor area": 1.0})
    view = build_view([0, 3, 3, 5], [0, 1, 1, 2], model=[0, 0, 1, 1])
    single = build_view([0, 3, 5], [0, 1, 2])
    found = read_answers(attack.run(view, facts, attack.start(), RNG)[0])
    expected = read_answers(attack.run(single, facts, attack.start(), RNG)[0])
    assert {key[:2] for key in found} == {(0, 0), (3, 0), (3, 1), (5, 1)}
    for (ue, _, status), row in found.items():
        assert row == approx(expected[ue, 0, status], rel=1e-6)


def test_the_order_of_targets_does_not_matter(facts):
    attack = build_attack(home={"cells at night": 1.0, "cells not used": 0.3})
    cells = np.array([0, 1, 2, 0])
    ue = np.array([0, 2, 3, 7])
    order = np.array([2, 0, 3, 1])
    found = read_answers(attack.run(build_view(ue, cells), facts, attack.start(), RNG)[0])
    moved = build_view(ue[order], cells[order])
    again = read_answers(attack.run(moved, facts, attack.start(), RNG)[0])
    assert found.keys() == again.keys()
    for key, row in found.items():
        assert row == approx(again[key], rel=1e-5)


def test_views_of_other_bases_of_a_round_add_up(facts):
    """Updates that began from other models come in views of their own."""
    attack = build_attack(home={"cells at night": 1.0})
    ue, cell = np.array([0, 1, 2, 3]), np.array([0, 1, 2, 0])
    _, whole = attack.run(build_view(ue, cell), facts, attack.start(), RNG)
    state = attack.start()
    for rows in ([0, 2], [1, 3]):
        estimates, state = attack.run(build_view(ue[rows], cell[rows]), facts, state, RNG)
        assert set(estimates.ue) == set(rows)
    assert_array_equal(state.ue, whole.ue)
    scene = build_scene(facts.public, 25.0, "fused")
    cells = [k for k, name in enumerate(list_column_names()) if name.startswith("cells")]
    found = [attack.compute_columns(part, scene, ue)[cells] for part in (state, whole)]
    assert_allclose(*found)


def test_a_later_phase_of_a_round_counts_no_upload_again(facts):
    """It has the cells and the hour of the first, and other models."""
    attack = build_attack(home={"cells at night": 1.0})
    view = build_view([0, 1, 2], [0, 1, 2])
    second = replace(view, phase="second", asked=np.array([0, 1, 2, 3]))
    first = replace(second, phase="all")
    _, state = attack.run(first, facts, attack.start(), RNG)
    estimates, both = attack.run(second, facts, state, RNG)
    assert set(estimates.ue) == {0, 1, 2}
    for name in ("cells at night", "level", "fixes at night"):
        assert state.tally[name].keys() == both.tally[name].keys()
        for key, total in state.tally[name].items():
            assert_array_equal(both.tally[name][key], total)
    assert_array_equal(
        both.tally["delay by signal"]["delay"], state.tally["delay by signal"]["delay"]
    )


def test_an_empty_round_and_an_early_end(facts):
    attack = build_attack(home={"floor area": 1.0})
    none = np.zeros(0, int)
    empty = build_view(none, none)
    estimates, state = attack.run(empty, facts, attack.start(), RNG)
    assert len(estimates.ue) == 0
    assert len(attack.conclude(state, facts, RNG).ue) == 0
    _, state = attack.run(build_view([4, 1], [0, 2]), facts, state, RNG)
    concluded = attack.conclude(state, facts, RNG)
    assert set(concluded.ue) == {1, 4}
    assert set(concluded.status) == {"home 1", "home 2", "work 1", "work 2"}


def test_a_made_up_town_is_watched_in_silence(facts):
    attack = Fused(towns=2)
    estimates, state = attack.run(build_view([0, 1], [0, 1]), facts, attack.start(), RNG)
    assert len(estimates.ue) == 0
    assert state.ue.tolist() == [0, 1]
    assert attack.conclude(state, facts, RNG) is None


def test_what_it_gathers_comes_back_from_a_file(facts, tmp_path):
    attack = build_attack(home={"cells at night": 1.0})
    _, state = attack.run(build_view([0, 2], [0, 1]), facts, attack.start(), RNG)
    save_tree(tmp_path / "state.npz", to_tree(state))
    again = from_tree(load_tree(tmp_path / "state.npz"), attack.start())
    view = build_view([2, 5], [1, 2])
    found = [read_answers(attack.run(view, facts, before, RNG)[0]) for before in (state, again)]
    assert found[0] == found[1]


@mark.parametrize("answers", [1, 2])
def test_a_small_area_has_room_for_few_answers(answers):
    public = Public(Area(0.0, 0.0, 300.0, 300.0), 1)
    attack = build_attack(home={"floor area": 1.0}, answers=answers)
    estimates, _ = attack.run(
        build_view([0], [-1]), RoundContext(1, 0.0, public), attack.start(), RNG
    )
    counts = [estimates.status.count(f"{kind} {k}") for kind in fused.KINDS for k in (1, 2)]
    assert counts in ([1, answers - 1] * 2, [1, 0] * 2)
    one_cell = RoundContext(1, 0.0, Public(Area(0.0, 0.0, 20.0, 20.0), 1))
    estimates, _ = attack.run(build_view([0], [-1]), one_cell, attack.start(), RNG)
    assert len(estimates.ue) == 0


def test_too_many_maps_are_refused_in_one_line():
    """20 km in cells of 25 m are 640,000 places."""
    public = Public(Area(0.0, 0.0, 20_000.0, 20_000.0), 1)
    most = 500_000_000 // (640_000 * K)
    Fused().check(public, most)
    line = catch_line(Fused().check, public, most + 1)
    assert line.startswith("learning.attacks: fused: cell_m 25 makes 640,000 places, at most ")
    assert "take a larger cell_m, a smaller area, or attack fewer UEs with threat.n_targets" in line
    Fused(cell_m=100.0).check(public, 10 * most)


# -- what a town teaches


def test_a_lesson_has_what_was_seen_and_no_more(public, facts, monkeypatch):
    attack = Fused(towns=1)
    _, state = attack.run(build_view([0, 2, 3], [0, 1, 2]), facts, attack.start(), RNG)
    place_m = default_rng(4).uniform(0, 800, (2, 5, 2))
    place_m[1, 2] = nan
    town = MadeUpTown(facts, np.arange(5), *place_m)
    lesson = attack.take_lesson(state, town, RNG)
    assert_array_equal(lesson["home"], place_m[0, [0, 2, 3]])
    assert_array_equal(lesson["work"], place_m[1, [0, 2, 3]])
    scene = build_scene(public, 25.0, "fused")
    assert lesson["columns"].shape == (K, 3, len(scene.place))
    assert lesson["columns"].dtype == np.float32
    assert_array_equal(lesson["place_m"], scene.place_m)
    learnt = attack.learn([lesson])
    assert all(np.isfinite(weights).all() for weights in learnt._weights.values())
    # in a large area it has fewer UEs, and one at least
    monkeypatch.setattr(fused, "_MOST_NUMBERS", 2 * K * len(scene.place))
    assert len(attack.take_lesson(state, town, RNG)["home"]) == 2
    monkeypatch.setattr(fused, "_MOST_NUMBERS", 1)
    assert len(attack.take_lesson(state, town, RNG)["home"]) == 1


def test_a_lesson_has_forty_ues_at_most(facts):
    attack = Fused(towns=1)
    ue = np.arange(50)
    _, state = attack.run(build_view(ue, ue % 3), facts, attack.start(), RNG)
    town = MadeUpTown(facts, ue, np.ones((50, 2)), np.ones((50, 2)))
    assert len(attack.take_lesson(state, town, RNG)["home"]) == 40


# -- in runs

COMMUTERS = {
    "world.first_day": "2026-01-05",
    "world.duration_s": 2 * 86_400,
    "world.tick_s": 1200,
    "world.ues.measurement_period_s": None,
    "world.ues.count": 5,
    "world.ues.mobility": {"kind": "commuter"},
    "world.city.width_m": 900,
    "world.city.height_m": 700,
    "world.radio.uplink": {"kind": "oma", "decoding": "error-free", "deadline_s": 1.2e-3},
    "learning.round_s": 43_200,
    "learning.threat": {"observes": "aggregate", "operator": ["timing-advance", "angle"]},
    "learning.attacks": [{"kind": "fused", "towns": 0}],
    "learning.leakage": {"random_baseline_draws": 20, "directions": 12},
}


@fixture
def watch_columns(tiny, tmp_path, monkeypatch):
    """Plays a run with changes: call it, and it returns the columns (k, n, G) of its last round."""
    original = Fused.compute_columns
    seen = []

    def note(self, state, scene, ue):
        columns = original(self, state, scene, ue)
        seen.append(original(self, state, scene, np.arange(5)))
        return columns

    monkeypatch.setattr(Fused, "compute_columns", note)

    def play(changes=None):
        folder = tmp_path / f"run-{len(seen)}"
        run(tiny(deepcopy(COMMUTERS | (changes or {}))), folder)
        return dict(zip(list_column_names(), seen[-1], strict=True))

    return play


COLUMNS = (FloorArea, SendingCells, ArrivalDelays, Losses, OperatorFixes)
UPLOADS = [name for column in COLUMNS for name in column.names]
HIDDEN = {
    "cells": (
        {"learning.threat.cells": False},
        ["cells at night", "cells at work", "cells not used"],
    ),
    "times": ({"learning.threat.times": False}, ["delay by signal"]),
    "operator": ({"learning.threat.operator": []}, ["fixes at night", "fixes at work"]),
    "all but participants": (
        {"learning.threat": {"observes": "model", "knowledge": ["participants"]}},
        [
            "cells at night",
            "cells at work",
            "cells not used",
            "delay by signal",
            "share decoded by level",
            "fixes at night",
            "fixes at work",
        ],
    ),
}


def test_a_hidden_grant_makes_its_columns_zero_and_changes_no_other(watch_columns):
    granted = watch_columns()
    none = {name for name in UPLOADS if not granted[name].any()}
    assert none == {"floor area"}  # an open field
    for key, (changes, names) in HIDDEN.items():
        found = watch_columns(changes)
        # published models are other updates, whose columns are others too
        for name in UPLOADS if key == "all but participants" else found:
            expected = np.zeros_like(found[name]) if name in names else granted[name]
            assert_array_equal(found[name], expected, err_msg=name)


@mark.parametrize("towns", [0, 1])
def test_a_run_that_was_cut_goes_on_to_the_same_bytes(
    towns, tiny, check_resumed, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    changes = {"learning.attacks": [{"kind": "fused", "towns": towns}]}
    check_resumed(tiny(deepcopy(COMMUTERS | changes)), 2)


def test_a_tiny_town_from_end_to_end(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    changes = {"learning.attacks": [{"kind": "fused", "towns": 1}]}
    result = run(tiny(deepcopy(COMMUTERS | changes)), tmp_path / "r")
    learnt = result.tables["learnt"]
    assert learnt["column"].tolist() == 2 * list_column_names()
    assert learnt["kind"].tolist() == K * ["home"] + K * ["work"]
    assert np.abs(learnt["weight"]).max() > 0
    # a lesson has no place of this run, nor of its bytes
    (path,) = (tmp_path / "cache").rglob("kept.npz")
    lesson = load_tree(path)
    ues = result.tables["ues"]
    for kind in fused.KINDS:
        real_m = np.column_stack([ues[f"{kind}_x_m"], ues[f"{kind}_y_m"]])
        away_m = np.linalg.norm(lesson[kind][:, None] - real_m, axis=2)
        assert away_m.min() > 0.01
    # homes are looked for among answers for homes alone, workplaces among the others
    estimates = result.tables["estimates"]
    last = result.tables["leakage"]["round"] == result.tables["leakage"]["round"].max()
    for k in np.flatnonzero(last):
        ue = int(result.tables["leakage"]["ue"][k])
        (row,) = np.flatnonzero(ues["ue"] == ue)
        is_last = (estimates["ue"] == ue) & (estimates["round"] == estimates["round"].max())
        for kind in fused.KINDS:
            own = is_last & np.array([status.startswith(kind) for status in estimates["status"]])
            x_m = estimates["x_m"][own] - ues[f"{kind}_x_m"][row]
            y_m = estimates["y_m"][own] - ues[f"{kind}_y_m"][row]
            assert set(estimates["model"][own]) <= {0, 1}
            expected_m = np.hypot(x_m, y_m).min()
            assert result.tables["leakage"][f"{kind}_named_m"][k] == approx(expected_m, rel=1e-5)
    assert set(result.tables["named"]["place"]) <= {"home 1", "home 2", "work 1", "work 2"}


@mark.parametrize(
    "changes",
    [
        {"learning.threat": {"observes": "updates", "n_targets": 2}},
        {"learning.threat": {"observes": "aggregate", "n_targets": 2, "secagg_group_size": 3}},
        {"world.radio.uplink": {"kind": "ideal"}},
        {
            "learning.learner": {
                "kind": "rsrp-net",
                "hidden": [6],
                "learning_rate": 10,
                "profile": "useful",
                "step_limit": "none",
            }
        },
    ],
    ids=["targets", "groups", "ideal", "diverged"],
)
def test_other_runs_play(changes, watch_columns):
    for name, column in watch_columns(changes).items():
        assert np.isfinite(column).all(), name
