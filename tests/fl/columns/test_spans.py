"""What columns of span scores say: maps by hand, a dense least squares, and what leaves them as they
are."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from local_data import make_local
from numpy.linalg import norm
from numpy.random import default_rng
from numpy.testing import assert_allclose
from pytest import mark

from fl.attacks.columns.base import build_scene
from fl.attacks.columns.spans import SpanMaps
from fl.attacks.span import Span
from fl.attacks.threat import Threat
from fl.learners.density import Density
from fl.learners.rsrp_net import RsrpNet
from fl.types import Public, Received, RoundContext
from netsim.checkpoint import load_tree, save_tree, to_tree
from netsim.geometry import Area
from netsim.rng import Streams

AREA = Area(0.0, 0.0, 1200.0, 900.0)
PUBLIC = Public(AREA, 1)
RNG = Streams(3).derive_rng("tests", 1)
SCENE = build_scene(PUBLIC, 50.0, "tests")
COLUMN = SpanMaps()
HOMES = np.array(
    [[200.0, 200], [200, 700], [1000, 200], [1000, 700], [600, 450], [600, 100]]
) + np.array([[12.5, 12.5]])
N = len(HOMES)
DAY_S = 86400.0
NAMES = [f"layer {layer} rank {rank}" for layer in (1, 2) for rank in (20, 64)]


def make_learner(encoding="fourier"):
    waves = (
        {"kind": "fourier", "frequencies": 80} if encoding == "fourier" else {"kind": "position"}
    )
    learner = {"kind": "rsrp-net", "hidden": [160, 128], "activation": "relu", "encoding": waves}
    learner |= {"labels": "standardised", "learning_rate": 0.01, "batch_size": 20}
    return RsrpNet.model_validate_json(json.dumps(learner), strict=True)


def make_day(rng, members):
    places = HOMES[members, None] + 15 * rng.normal(size=(len(members), 60, 2))
    x = places.reshape(-1, 2)
    y = -60 - 30 * np.log10(norm(x - [600, 450], axis=1) / 10 + 1)
    return make_local([60] * len(members), x, y)


@cache
def play_rounds(n_rounds=8, encoding="fourier", always=(), **threat):
    """Views and facts of rounds in which about two thirds of the UEs are."""
    learner = make_learner(encoding)
    model = learner.init(PUBLIC, Streams(1).derive_rng("init"))
    rng = default_rng(4)
    rounds = []
    for number in range(1, n_rounds + 1):
        members = np.flatnonzero((rng.random(N) < 0.65) | np.isin(np.arange(N), always))
        data = replace(make_day(rng, members), ue=members)
        updates = learner.train_locally(model, "all", data, RNG)
        share = np.full(len(members), 1 / len(members))
        after = learner.step(model, "all", updates.sum_weighted(share, 1))
        arrived = np.ones(len(members), dtype=bool)
        drawn = Streams(9).derive_rng("threat", number)
        view = Threat(**threat).grant_view(
            learner, "all", Received(updates, arrived), share, arrived, (model, after), drawn
        )
        rounds.append((view, RoundContext(number, number * DAY_S, PUBLIC, round_s=DAY_S)))
        model = after
    return rounds


def observe(rounds, scene=SCENE):
    tally = {}
    for view, facts in rounds:
        tally = COLUMN.observe(view, facts, scene, tally, RNG)
    return tally


def compute(rounds, ue=None):
    ue = np.arange(N) if ue is None else ue
    return dict(zip(COLUMN.names, COLUMN.compute(observe(rounds), SCENE, ue), strict=True))


def standardise(maps):
    return (maps - maps.mean(axis=1, keepdims=True)) / maps.std(axis=1, keepdims=True)


def test_maps_peak_where_single_ues_live():
    found = compute(play_rounds(observes="updates"))
    for name in ("layer 1 rank 20 always", "layer 2 rank 20 always", "layer 1 rank 20 by company"):
        named_m = SCENE.place_m[found[name].argmax(axis=1)]
        assert (norm(named_m - HOMES, axis=1) < 150).all(), name


@mark.parametrize("k", range(4))
def test_always_is_the_standardised_sum_of_the_scores_of_the_sums_that_hold_a_ue(k):
    rounds = play_rounds(observes="aggregate")
    span = Span(layer=1 + k // 2, rank=(20, 64)[k % 2], add="scores")
    expected = np.zeros((N, len(SCENE.place)))
    for view, _ in rounds:
        score = span.compute_scores(view, SCENE.grid, RNG)[0, SCENE.place]
        for ue in view.party[0]:
            expected[ue] += score
    found = compute(rounds)[f"{NAMES[k]} always"]
    assert_allclose(found, standardise(expected), atol=0.05)  # scores have two decimals


@mark.parametrize("k", range(4))
def test_company_is_a_dense_ridge_regression(k):
    """The ridge as rows of its own, the mean as a column of its own."""
    rounds = play_rounds(observes="aggregate")
    span = Span(layer=1 + k // 2, rank=(20, 64)[k % 2], add="scores")
    z = np.array([[*np.isin(np.arange(N), view.party[0]), 1.0] for view, _ in rounds])
    s = [span.compute_scores(view, SCENE.grid, RNG)[0, SCENE.place].round(2) for view, _ in rounds]
    rows = np.vstack([z, np.eye(N, N + 1)])
    dense = np.linalg.lstsq(rows, np.vstack([s, np.zeros((N, len(SCENE.place)))]), rcond=None)[0]
    found = compute(rounds)[f"{NAMES[k]} by company"]
    assert_allclose(found, standardise(dense[:N]), atol=1e-4)


def test_company_of_who_is_always_in_is_0():
    found = compute(play_rounds(observes="aggregate", always=(2,)))
    for name in NAMES:
        assert not found[f"{name} by company"][2].any()
        assert found[f"{name} by company"][[0, 1, 3, 4, 5]].any(axis=1).all()


def test_order_of_targets_and_members_changes_nothing():
    rounds = play_rounds(observes="aggregate")
    turned = []
    for view, facts in rounds:
        order = default_rng(1).permutation(len(view.ue))
        party = tuple(column[::-1] for column in view.party)
        columns = {name: getattr(view, name)[order] for name in ("ue", "model", "source")}
        turned.append((replace(view, timing=None, party=party, **columns), facts))
    ue = np.array([3, 0, 5])
    straight = compute(rounds)
    for name, found in compute(turned, ue).items():
        assert_allclose(found, straight[name][ue], atol=1e-9)


def test_short_windows_are_kept_by_hours_of_workdays():
    """Four windows a day from Friday on: night, 6 to 12, 12 to 18 and evening, then the weekend."""
    rounds = play_rounds(observes="updates")
    quarter_s = DAY_S / 4
    friday_s = 4 * DAY_S
    short = [
        (view, replace(facts, round_s=quarter_s, week_s=friday_s + facts.round * quarter_s))
        for view, facts in rounds
    ]
    found = compute(short)
    for name in NAMES:
        for which, held in (("at night", rounds[:1]), ("at work", rounds[1:3])):
            expected = compute(held)[f"{name} always"]
            assert_allclose(found[f"{name} {which}"], expected, atol=1e-9)
        assert_allclose(found[f"{name} always"], compute(rounds)[f"{name} always"], atol=1e-5)
    unknown = compute([(view, replace(facts, week_s=np.nan)) for view, facts in short])
    for which in ("at night", "at work"):
        assert not compute(rounds)[f"{NAMES[0]} {which}"].any()
        assert not unknown[f"{NAMES[0]} {which}"].any()


def test_lost_rows_missing_weights_and_other_learners_give_zeros():
    rounds = play_rounds(observes="aggregate")
    dead = [(replace(view, update=0 * view.update), facts) for view, facts in rounds]
    assert not any(columns.any() for columns in compute(dead).values())
    lost = [
        (
            replace(
                view,
                model_before=replace(
                    view.model_before, parameters=view.model_before.parameters * np.nan
                ),
            ),
            facts,
        )
        for view, facts in rounds
    ]
    found = compute(lost)
    for name in NAMES:
        assert found[f"{name} always"].any() == name.startswith("layer 1")
    other = [(replace(view, learner=Density(bandwidth_m=40.0)), facts) for view, facts in rounds]
    assert observe(other) == {}
    zeros = COLUMN.compute({}, SCENE, np.arange(3))
    assert zeros.shape == (16, 3, len(SCENE.place)) and not zeros.any()


@pytest.mark.filterwarnings("error")
def test_a_layer_without_more_directions_says_nothing():
    """Positions and a bias alone: all of three directions lie inside of every update."""
    found = compute(play_rounds(observes="updates", encoding="position"))
    for name in NAMES[:2]:
        assert not found[f"{name} always"].any()
    assert found["layer 2 rank 20 always"].any()


def test_who_was_never_seen_has_zeros():
    rounds = play_rounds(observes="aggregate")
    found = compute(rounds, np.array([N + 3, 0]))
    for columns in found.values():
        assert not columns[0].any()
    assert not COLUMN.compute(observe(rounds), SCENE, np.zeros(0, dtype=int)).size


def test_published_models_are_read_once_momentum_is_undone():
    knows = ("weights", "training", "participants")
    rounds = play_rounds(observes="model", knowledge=knows)
    public = replace(PUBLIC, server_momentum=0.7)
    step = 0.0
    moved = []
    for view, facts in rounds:
        step = 0.7 * step + view.update
        moved.append((replace(view, update=step), replace(facts, public=public)))
    found = compute(moved)
    for name, expected in compute(rounds).items():
        assert_allclose(found[name], expected, atol=0.05)


def test_remembers_through_a_checkpoint(tmp_path):
    rounds = play_rounds(observes="aggregate")
    save_tree(tmp_path / "tally.npz", to_tree(observe(rounds[:4])))
    tally = load_tree(tmp_path / "tally.npz")
    for view, facts in rounds[4:]:
        tally = COLUMN.observe(view, facts, SCENE, tally, RNG)
    np.testing.assert_equal(to_tree(tally), to_tree(observe(rounds)))
