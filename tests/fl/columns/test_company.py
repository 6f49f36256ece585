"""What sums say of their members: a dense least squares, company that stays, and momentum."""

from dataclasses import replace

import numpy as np
from numpy.random import default_rng
from numpy.testing import assert_allclose
from pytest import mark
from test_spans import PUBLIC, N, play_rounds

from fl.attacks.columns.company import SumsSoFar, mark_members, remove_momentum
from fl.server_optimiser import FedAvgM

PLACES = 30


def observe_scores(rounds):
    """What adds up of sums with made-up maps, and rows of who was in and of the maps."""
    draw = default_rng(5)
    sums = SumsSoFar.empty()
    members = []
    scores = []
    for view, facts in rounds:
        z = mark_members(view, N)
        score = draw.normal(size=(len(z), PLACES))
        sums = sums.plus(view, facts, z, score)
        members.append(z)
        scores.append(score)
    return sums, members, scores


@mark.parametrize("ridge", [0.7, 1.0])
def test_maps_are_a_dense_ridge_regression_with_a_mean_of_each_quarter_of_the_day(ridge):
    """Quarters are columns of their own, the ridge is rows of its own."""
    rounds = play_rounds(observes="aggregate", secagg_group_size=2)
    rounds = [(v, replace(f, week_s=3600.0 * (7 if f.round % 2 else 23))) for v, f in rounds]
    sums, members, scores = observe_scores(rounds)
    quarters = [np.tile([f.round % 2, 1 - f.round % 2], (len(v.update), 1)) for v, f in rounds]
    rows = np.hstack([np.vstack(members), np.vstack(quarters)])
    assert len(rows) > len(rounds)
    rows = np.vstack([rows, np.sqrt(ridge) * np.eye(N, N + 2)])
    maps = np.vstack([*scores, np.zeros((N, PLACES))])
    dense = np.linalg.lstsq(rows, maps, rcond=None)[0]
    assert_allclose(sums.estimate_maps(ridge), dense[:N], rtol=0, atol=1e-12)


def test_company_that_never_changes_has_one_map_and_that_of_all_none():
    rounds = play_rounds(observes="aggregate", always=range(N))
    sums, _, _ = observe_scores(rounds)
    assert not sums.estimate_maps(1.0).any()
    draw = default_rng(7)
    sums = SumsSoFar.empty()
    pairs = np.repeat(np.eye(N // 2), 2, axis=1)  # (N // 2 sums, N)
    for view, facts in rounds:
        update = np.repeat(view.update, N // 2, axis=0)
        several = replace(view, update=update, source_model=np.repeat(view.source_model, N // 2))
        sums = sums.plus(several, facts, pairs, draw.normal(size=(N // 2, PLACES)))
    maps = sums.estimate_maps(1.0)
    assert maps.any(axis=1).all()
    assert_allclose(maps[::2], maps[1::2], atol=1e-12)


def test_a_model_that_nobody_moved_keeps_its_velocity():
    """The last step is that before."""
    optimiser = FedAvgM(learning_rate=1.5, momentum=0.7)
    sums = SumsSoFar.empty()
    velocity = optimiser.start()
    rounds = play_rounds(observes="model", knowledge=("weights", "training", "participants"))
    for number, (view, facts) in enumerate(rounds):
        merged = view.update.copy()
        arrived = number != 2
        step, velocity = optimiser.compute_change(merged * arrived, np.array([arrived]), velocity)
        facts = replace(facts, public=replace(PUBLIC, server_momentum=0.7))
        undone, sums = remove_momentum(replace(view, update=step), facts, sums)
        if arrived:
            assert_allclose(undone.update, 1.5 * merged, atol=1e-12)
