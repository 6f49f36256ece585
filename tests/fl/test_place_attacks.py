"""What `neuron-votes` and `span` name: exact cases, an independent slow form, views, and what they
refuse."""

import json
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from arrays import read_array
from local_data import make_local
from numpy.linalg import norm
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import mark, raises
from rows import read_cells, read_yaml
from tabled import cases

from fl.attacks.place_maps import NeuronVotes, smooth_maps
from fl.attacks.span import (
    Span,
    _read_around,
    find_principal_columns,
    normalise_columns,
    project_vectors,
    rotate_to_principal,
    sum_squares,
)
from fl.attacks.threat import Threat
from fl.learners.rsrp_net import RsrpNet
from fl.notice import Prepared
from fl.round.learning import Learning
from fl.tracking.place_grid import PlaceGrid, choose_cell_m
from fl.types import DenseUpdates, Public, Received, RoundContext
from netsim.checkpoint import from_tree, load_tree, save_tree, to_tree
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Streams

AREA = Area(0.0, 0.0, 1200.0, 900.0)
PUBLIC = Public(AREA, 1)
NOISE = {"span": 0.5, "neuron-votes": 0.05}
RNG = Streams(3).derive_rng("tests", 1)
SMALL = {"hidden": (48, 24), "activation": "relu", "labels": "standardised"}
FOURIER = {**SMALL, "encoding": {"kind": "fourier", "frequencies": 32}}
# middles of cells of 25 m
HOME = read_array("262.5 212.5")
WORK = read_array("912.5 612.5")
CORNERS = read_array("200.0 200; 200 700; 1000 200; 1000 700; 600 450; 600 100") + 12.5
PEOPLE = ((HOME, WORK), (read_array("300.0 700"), read_array("1000.0 200")))


def make_learner(**options):
    return RsrpNet.model_validate_json(json.dumps({"kind": "rsrp-net", **options}), strict=True)


def make_rows(places, model=0):
    """One UE a list of places, labels by distance and noise."""
    x = np.concatenate(places)
    distance_m = norm(x - [600, 450], axis=1)
    noise = 3 * default_rng(5).normal(size=len(x))
    y = -60 - 30 * np.log10(distance_m / 10 + 1) + noise
    return make_local([*map(len, places)], x, y, model=model)


def play_rounds(
    learner, days, n_model=1, noise=0.0, ue=None, participants=False, group=None, **threat
):
    """Views and facts of rounds on these data."""
    public = replace(PUBLIC, n_model=n_model)
    model = learner.init(public, Streams(1).derive_rng("init"))
    rounds = []
    for number, data in enumerate(days, 1):
        updates = learner.train_locally(model, "all", data, RNG)
        rng = Streams(8).derive_rng("noise", number)
        drawn = rng.normal("noise", np.arange(len(updates.ue)), updates.values.shape[1:])
        updates = replace(updates, values=updates.values + noise * drawn)
        if ue is not None:
            updates = replace(updates, ue=np.array(ue))
        share = 1.0 / np.bincount(data.model, minlength=n_model)[data.model]
        merged = updates.sum_weighted(share, n_model)
        after = learner.step(model, "all", merged)
        everybody = np.ones(len(updates.ue), dtype=bool)
        groups = Streams(9).derive_rng("threat", number)
        knows = ("weights", "training", *(("participants",) if participants else ()))
        by = Threat(knowledge=knows, **threat)
        models = (model, after)
        received = Received(updates, everybody)
        view = by.grant_view(
            learner, "all", received, share, everybody, models, groups, None, group
        )
        rounds.append((view, RoundContext(number, 0.0, public)))
        model = after
    return rounds


def run(attack, rounds, state=None):
    state = attack.start() if state is None else state
    result = None
    for view, facts in rounds:
        result, state = attack.run(view, facts, state, RNG)
    return result, state


def list_answers(result, ue):
    """The answers of a UE, best first."""
    own_rows = np.flatnonzero(result.ue == ue)
    return result.position_m[own_rows[np.argsort(-result.weight[own_rows], kind="stable")]]


def remembers(attack, rounds, folder):
    """The saved state of half the rounds goes on to the bytes of all of them, and is a value."""
    half = len(rounds) // 2
    _, state = run(attack, rounds[:half])
    save_tree(folder / "state.npz", to_tree(state))
    again = from_tree(load_tree(folder / "state.npz"), attack.start())
    whole = run(attack, rounds)[0]
    before = to_tree(state)
    assert_array_equal(run(attack, rounds[half:], again)[0].position_m, whole.position_m)
    run(attack, rounds[half:], state)
    np.testing.assert_equal(to_tree(state), before)


def two_places(rng, n=40, home=HOME, work=WORK):
    """A day at two places."""
    scatter_m = 15 * rng.normal(size=(n, 2))
    return np.concatenate([home + scatter_m, work + scatter_m])


def make_days(n_days=6, people=PEOPLE):
    rng = default_rng(2)
    days = []
    for _ in range(n_days):
        days.append(make_rows([two_places(rng, home=h, work=w) for h, w in people]))
    return days


def measure_nearest(result, ue, places):
    """Distance of the best answer of a UE to the nearest of the places."""
    return min(norm(list_answers(result, ue)[0] - place) for place in places)


class TestSpanOfOneStep:
    """In float64: the activations of a batch lie in the span of its update, and others do not."""

    @mark.parametrize("more", [SMALL, FOURIER, {**SMALL, "activation": "elu"}])
    @mark.parametrize("layer", [1, 2])
    @mark.parametrize("n", [1, 2, 3])
    def test_of_few_places(self, n, layer, more):
        if layer == 1 and more is not FOURIER and n > 2:
            pytest.skip("three places span all inputs of a first layer that reads positions")
        learner = make_learner(**more, learning_rate=0.1, batch_size="all", local_epochs=1)
        x = read_array("151.0 203; 888 307; 420 790")[:n]
        ((view, _),) = play_rounds(learner, [make_rows([np.repeat(x, 20, axis=0)])])
        updates = learner.select_layer(view.update, layer)
        size = np.linalg.svd(updates[0], compute_uv=False)
        assert size[n:].max() < 1e-12 * size[0] < size[n - 1]
        basis = normalise_columns(find_principal_columns(updates, 8, RNG), 8, 1e-10)

        def outside(places):
            a = learner.compute_layer_input(view.model_before, 0, places, layer)
            return 1 - sum_squares(project_vectors(basis, normalise_rows(a)))[0]

        assert np.abs(outside(x)).max() < 1e-12
        if layer == 2 or more is FOURIER:
            anywhere = AREA.sample(default_rng(0).uniform(size=(500, 2)))
            assert np.median(outside(anywhere)) > 1e-3

    def test_steps_that_are_linear_in_gradients_leave_one_place_exact(self):
        """All records at one place: every live ratio of the first layer is that place."""
        x = read_array("777.5 123.4;")
        for settings in map(
            read_yaml, ("batch_size: 7, local_epochs: 3", "sample_clip: 0.01", "dropout: 0.3")
        ):
            learner = make_learner(**SMALL, learning_rate=0.01, **settings)
            ((view, _),) = play_rounds(learner, [make_rows([np.repeat(x, 30, axis=0)])])
            dw, db = (layer[0] for layer in learner.first_layer(view.update))
            live = np.abs(db) > 1e-9 * np.abs(db).max()
            centre, scale = learner.standardisation(view.model_before)
            assert live.sum() > 8
            ratio = dw[live] / db[live, None]
            assert np.abs(centre + scale * ratio - x).max() < 2e-8
            result, _ = run(NeuronVotes(cell_m=5), [(view, RoundContext(1, 0.0, PUBLIC))])
            assert np.abs(list_answers(result, 0)[0] - x[0]).max() <= 2.5


class TestSubspace:
    def test_a_matrix_of_low_rank_has_its_singular_vectors(self):
        rng = default_rng(0)
        updates = rng.normal(size=(5, 60, 9)) * 10.0 ** -np.arange(9) @ rng.normal(size=(5, 9, 40))
        for k in (3, 8, 30):
            u, s, _ = np.linalg.svd(updates)
            result = find_principal_columns(updates, k, RNG)
            few = min(k, 9)
            expected = s[:, :few]
            assert_allclose(norm(result, axis=1)[:, :few], expected, rtol=1e-9, atol=1e-14)
            same = np.abs(np.einsum("npk,npk->nk", normalise_columns(result, 3, 0.0), u[:, :, :3]))
            assert_allclose(same, 1.0, atol=1e-10)
            narrow = updates[:, :, :6]
            ours = rotate_to_principal(narrow)
            assert_allclose(norm(ours, axis=1), np.linalg.svd(narrow)[1], rtol=1e-6)


def slow_peaks(view, attack, grid):
    """What `span` adds in one round to the map of the first source, by full SVDs and loops."""
    place = grid.place_m
    updates = view.learner.select_layer(view.update, attack.layer or 2)[0]
    a = view.learner.compute_layer_input(view.model_before, 0, place, attack.layer or 2)
    a = a / np.sqrt((a**2).sum(axis=1))[:, None]
    u, s, v = np.linalg.svd(updates, full_matrices=False)
    keep = attack.rank + 2 * (attack.answers - 1)
    kept = (u[:, :keep] * s[:keep]) @ v[:keep]
    total = np.zeros(len(place))
    result = []
    identity = np.eye(a.shape[1])
    out = identity
    basis = u[:, : attack.rank]
    current = a
    for _ in range(attack.answers):
        score = []
        for row in current:
            outside = 1 - ((basis.T @ row) ** 2).sum()
            score.append(-np.log(max(outside, 0) + 1e-3))
        free = [*range(len(place))]
        for f in result:
            free = [i for i in free if norm(place[i] - f) >= attack.apart_m]
        best = max(free, key=lambda i: score[i])
        total[best] += min(score[best] - np.mean(score), 2.0)
        result.append(place[best])
        columns = []
        for f in result:
            near = a[norm(place - f, axis=1) <= 60.0].T
            columns.append(np.linalg.svd(near, full_matrices=False)[0][:, :2])
        q = np.linalg.qr(np.concatenate(columns, axis=1))[0]
        out = identity - q @ q.T
        basis = np.linalg.svd(out @ kept, full_matrices=False)[0][:, : attack.rank]
        rest = a @ out
        current = rest / np.maximum(norm(rest, axis=1), 0.15)[:, None]
    return total


class TestSpan:
    @mark.parametrize("more", [SMALL, FOURIER])
    @mark.parametrize("how", [{"rank": 4}, {"rank": 8, "answers": 3, "apart_m": 150}])
    def test_is_what_full_decompositions_and_loops_give(self, more, how):
        learner = make_learner(**more, learning_rate=0.01, batch_size=20, local_epochs=3)
        attack = Span(cell_m=50, **how)
        grid = PlaceGrid.from_area(AREA, 50, 1, "span")
        for view, _ in play_rounds(learner, make_days(2)):
            fast = attack.compute_scores(view, grid, RNG)
            slow = slow_peaks(view, attack, grid)
            assert_array_equal(np.flatnonzero(fast[0]), np.flatnonzero(slow))
            assert_allclose(fast[0], slow, rtol=2e-3)

    @mark.parametrize("more", [SMALL, FOURIER])
    @mark.parametrize("steps", [{"batch_size": "all", "learning_rate": 0.1}, {"batch_size": 16}])
    def test_names_both_places_of_everybody(self, more, steps):
        learner = make_learner(**{**more, "local_epochs": 1, "learning_rate": 0.01, **steps})
        result, _ = run(Span(), play_rounds(learner, make_days()))
        for ue, places in enumerate(PEOPLE):
            named = list_answers(result, ue)
            assert len(named) == 2
            for place in places:
                assert norm(named - place, axis=1).min() < 50

    @mark.parametrize("noise", [0.0, 0.5])
    def test_of_many_places_those_around_the_best_of_a_ninth_are_enough(self, monkeypatch, noise):
        """Cells of 25 m, waves of 100 m and more: every third row and column is 75 m apart, and 8
        of 192 are refined.

        Of 17 people in 26 km x 19 km 128 of 106,000 are, and 102 of 102 peaks were those of all
        952,000 places.
        """
        draw = default_rng(7)
        people = [draw.uniform([50, 50], [1150, 850], (2, 2)) for _ in range(40)]
        learner = make_learner(**FOURIER, learning_rate=0.01, batch_size=20, local_epochs=3)
        days = make_days(2, people)
        noise *= np.sqrt(np.mean(play_rounds(learner, days)[0][0].update ** 2))
        grid = PlaceGrid.from_area(AREA, 25, 1, "span")
        same = []
        for view, _ in play_rounds(learner, days, noise=noise):
            all_scores = Span().compute_scores(view, grid, RNG)
            with monkeypatch.context() as few:
                few.setattr("fl.attacks.span.MANY_PLACES", 1_000)
                few.setattr("fl.attacks.span._REFINED", 8)
                scores = Span().compute_scores(view, grid, RNG)
            assert (np.count_nonzero(scores, axis=1) == 2).all()
            same.append(((scores > 0) & (all_scores > 0)).sum(axis=1))
        same = np.concatenate(same)
        assert same.mean() / 2 > 0.95, same


MAPS = (Span(), Span(add="scores"), NeuronVotes())


@mark.parametrize("attack", MAPS, ids=str)
class TestEveryAttack:
    """What holds of all attacks that name places."""

    def test_places_return_through_noise(self, attack):
        """Noise over the RMS of an update: 0.5 for the span, 0.05 for 48 units that vote."""
        learner = make_learner(**SMALL, learning_rate=0.05, batch_size=20)
        days = make_days(12)
        clean = play_rounds(learner, days)[0][0].update
        rounds = play_rounds(learner, days, noise=NOISE[attack.kind] * np.sqrt(np.mean(clean**2)))
        result = run(attack, rounds)[0]
        for ue, places in enumerate(PEOPLE):
            assert measure_nearest(result, ue, places) < 100

    def test_a_ue_does_not_depend_on_the_others(self, attack):
        (day,) = make_days(1)
        learner = make_learner(**SMALL, learning_rate=0.01)
        named = []
        for data in (day, day.select(np.array([0]))):
            result, _ = run(attack, play_rounds(learner, [data]))
            named.append(list_answers(result, 0))
        assert_array_equal(*named)

    @mark.parametrize("size", [1e-200, 1e200, 1e306])
    def test_of_a_model_that_has_diverged_the_attack_says_nothing_wrong(self, attack, size):
        ((view, facts),) = play_rounds(make_learner(**SMALL), [make_days(1)[0]])
        far = replace(view.model_before, parameters=view.model_before.parameters * size)
        result, _ = run(attack, [(replace(view, model_before=far), facts)])
        is_named = np.isfinite(result.position_m).all(axis=1)
        assert AREA.contains(result.position_m[is_named]).all()
        update = view.update * min(size, 1e250)
        same, _ = run(attack, [(replace(view, update=update), facts)])
        plain, _ = run(attack, [(view, facts)])
        assert_allclose(same.position_m, plain.position_m)

    def test_remembers_through_a_checkpoint_and_draws_nothing_else(self, attack, tmp_path):
        learner = make_learner(**SMALL, learning_rate=0.01)
        remembers(attack, play_rounds(learner, make_days(4)), tmp_path)

    def test_an_attacker_tests_itself(self, attack):
        ((view, facts),) = play_rounds(make_learner(**SMALL, learning_rate=0.01), make_days(1))
        errors_m = []
        for seed in range(8):
            rng = Streams(seed).derive_rng("attack", 1)
            errors_m.append(attack.self_test(view, facts, rng))
        assert np.median(errors_m) < 25
        assert min(errors_m) > 0

    @mark.parametrize("observes", ["aggregate", "model"])
    def test_sums_and_published_models(self, attack, observes):
        """What a model tells is told of everybody who took part."""
        people = [(HOME, WORK), (HOME + 20.0, WORK - 20.0), (HOME - 20.0, WORK + 20.0)]
        learner = make_learner(**SMALL, learning_rate=0.05, batch_size=20)
        rounds = play_rounds(learner, make_days(8, people), observes=observes)
        result, state = run(attack, rounds)
        expected = [0, 1, 2] if observes == "aggregate" else [0]
        assert np.unique(state.owner).tolist() == expected
        assert sorted(set(result.ue.tolist())) == [0, 1, 2]
        assert_array_equal(list_answers(result, 0), list_answers(result, 2))
        assert measure_nearest(result, 0, (HOME, WORK)) < 100

    def test_updates_without_anything_in_them(self, attack):
        ((view, facts),) = play_rounds(make_learner(**SMALL), [make_days(1)[0]])
        for value in (0.0, np.nan, np.inf):
            hurt = view.update.copy()
            hurt[0] = value
            result, state = run(attack, [(replace(view, update=hurt), facts)])
            own_rows = result.ue == 0
            assert np.array(result.status)[own_rows].tolist() == ["no gradient"]
            assert np.isnan(result.position_m[own_rows]).all()
            assert np.isfinite(result.position_m[~own_rows]).all()
            assert not state.score[0].any()
        nobody, _ = run(attack, [(view, facts), (_only(view, 7), facts)])
        assert len(nobody.ue) == 0


@mark.parametrize("attack", MAPS, ids=str)
class TestMaps:
    def test_all_models_of_a_ue_count_together(self, attack):
        rng = default_rng(1)
        models = np.arange(2)
        data = [make_rows([two_places(rng), two_places(rng)], models) for _ in range(2)]
        rounds = play_rounds(make_learner(**SMALL, learning_rate=0.01), data, n_model=2, ue=[4, 4])
        result, state = run(attack, rounds)
        assert state.owner.tolist() == [4]
        assert sorted(result.model.tolist()) == [0, 0, 1, 1]
        expected = result.position_m[result.model == 1]
        assert_array_equal(result.position_m[result.model == 0], expected)
        halves = [run(attack, [(_only(v, m), f) for v, f in rounds])[1].score for m in (0, 1)]
        assert_allclose(state.score, halves[0] + halves[1], rtol=1e-6)

    def test_sums_in_changing_company_tell_their_members_apart(self, attack):
        people = [(place, place + 1.0) for place in CORNERS]
        learner = make_learner(**SMALL, learning_rate=0.05, batch_size=20)
        rounds = play_rounds(
            learner, make_days(12, people), observes="aggregate", secagg_group_size=2
        )
        result, state = run(attack, rounds)
        away_m = [norm(list_answers(result, u)[0] - CORNERS[u]) for u in range(6)]
        assert state.owner.tolist() == list(range(6))
        assert np.median(away_m) < 60


def normalise_rows(values):
    return values / norm(values, axis=1, keepdims=True)


def _only(view, model):
    """The same view of one model's rows."""
    keep = view.source_model == model
    target = keep[view.source]
    columns = {name: getattr(view, name)[target] for name in ("ue", "model")}
    columns |= {name: getattr(view, name)[keep] for name in ("update", "source_model")}
    row = np.cumsum(keep) - 1
    return replace(view, source=row[view.source[target]], **columns)


class TestRankThatFits:
    """`rank: auto`: 4 a UE that is in the update, and for sums layer 1 and added scores."""

    LEARNER = {**FOURIER, "learning_rate": 0.01, "batch_size": 20}
    MOST = 20

    def rounds(self, n_ue=12, **options):
        ue = np.arange(n_ue)
        home_m = np.stack([100.0 + 80 * ue, 200.0 + 0 * ue], axis=1)
        work_m = np.stack([1000.0 - 60 * ue, 700.0 + 0 * ue], axis=1)
        people = [*zip(home_m, work_m, strict=True)]
        return play_rounds(make_learner(**self.LEARNER), make_days(3, people), **options)

    @mark.parametrize(
        ("secagg_group_size", "rank"),
        cases("""
        3, 12
        6, 20
        None, 20
    """),
    )
    def test_of_sums_grows_with_their_members_up_to_what_places_differ_by(
        self, secagg_group_size, rank
    ):
        """97 % of the squares of all activations lie in so many directions, by a singular value
        decomposition."""
        rounds = self.rounds(observes="aggregate", secagg_group_size=secagg_group_size)
        view = rounds[0][0]
        places = PlaceGrid.from_area(AREA, 25, 1, "span").place_m
        a = view.learner.compute_layer_input(view.model_before, 0, places, 1)
        size = np.linalg.svd(normalise_rows(a), compute_uv=False) ** 2
        assert size[: self.MOST - 1].sum() < 0.97 * size.sum() <= size[: self.MOST].sum()
        stated = Span(rank=rank, layer=1, add="scores")
        expected = run(stated, rounds)[1].score
        assert_array_equal(run(Span(rank="auto"), rounds)[1].score, expected)

    def test_of_published_models_is_that_of_a_crowd_unless_it_is_known_who_took_part(self):
        for participants, rank in ((False, self.MOST), (True, 16)):
            rounds = self.rounds(4, observes="model", participants=participants)
            stated = Span(rank=rank, layer=1, add="scores")
            result = run(Span(rank="auto"), rounds)[1]
            assert result.owner.tolist() == (list(range(4)) if participants else [0])
            assert_array_equal(result.score, run(stated, rounds)[1].score)


class TestUnitVotes:
    def test_counts_a_unit_where_its_ratio_points(self):
        """By hand: an update of given ratios, one of them outside the area and one unit too
        heavy."""
        learner = make_learner(hidden=[4], activation="relu")
        model = learner.init(PUBLIC, Streams(1).derive_rng("init"))
        position_m = read_array("212.5 312.5; 212.5 312.5; 5000 0; 812.5 112.5")
        weight = read_array("0.2 -0.3 0.1 1")
        centre, scale = (c[0] for c in learner.standardisation(model))
        dw = (position_m - centre) / scale * weight[:, None]
        row = np.concatenate([dw.T.ravel(), weight, np.zeros(5)])[None]
        first = np.zeros(1, dtype=int)
        single = np.ones(1, dtype=bool)
        received = Received(DenseUpdates(first, first, np.ones(1), row), single)
        view = Threat().grant_view(
            learner, "all", received, np.ones(1), single, (model, model), RNG
        )
        attack = NeuronVotes(max_weight=0.25)
        grid = PlaceGrid.from_area(AREA, 25, 1, "neuron-votes")
        votes = attack.compute_scores(view, grid, RNG)[0]
        expected = np.zeros(len(grid))
        expected[grid.find_cells(position_m[:1])] = 0.2 / 1.6 + 0.3 / 1.6
        expected[grid.find_cells(position_m[3:])] = 0.25
        assert_allclose(votes, expected, rtol=1e-12)
        result, _ = run(attack, [(view, RoundContext(1, 0.0, PUBLIC))])
        assert_allclose(list_answers(result, 0), [position_m[0], position_m[3]])


REFUSALS = """
kind: neuron-votes  optimiser: {kind: adam}  -  neuron-votes needs linear local steps
kind: closed-form  optimiser: {kind: adam}  -  closed-form needs linear local steps
kind: dlg  optimiser: {kind: adam}  -  dlg needs a sample gradient
kind: span  optimiser: {kind: adam}  -  -
kind: span, layer: 4  -  -  span needs a layer 4: .*none that is trained
kind: span, layer: 3  -  -  -
kind: span  -  knowledge: [training]  span needs starting weights: .*or take layer: 1
kind: span, layer: 1  -  knowledge: []  -
kind: fused  -  observes: aggregate, knowledge: []  -
kind: fused  -  observes: model  PARTICIPANTS
kind: fused  -  observes: model, knowledge: [weights, participants]  -
kind: fused  -  observes: aggregate, pseudonyms: {kind: per-round}  PSEUDONYMS
"""
SAYS = {
    "PARTICIPANTS": "names of participants: .*add participants to threat.knowledge",
    "PSEUDONYMS": "pseudonyms: {kind: permanent}",
}


class TestRefusals:
    """What does not hold for an optimiser, a network or an attacker is refused before a run."""

    @mark.parametrize("attack, learner, threat, says", read_cells(REFUSALS))
    def test_by_the_words_that_parts_offer(self, attack, learner, threat, says):
        attack, learner, threat = (
            read_yaml(cell.removeprefix("-")) for cell in (attack, learner, threat)
        )
        learner = {"kind": "rsrp-net", "hidden": [8, 4], **learner}
        document = {"round_s": 60.0, "learner": learner, "threat": threat, "attacks": [attack]}
        with nullcontext() if says == "-" else raises(ValueError, match=SAYS.get(says, says)):
            Learning.model_validate_json(json.dumps(document), strict=True)


class TestPlaceGrid:
    def test_cells_fill_the_area_and_are_no_wider_than_asked_for(self):
        grid = PlaceGrid.from_area(Area(10.0, 20.0, 120.0, 70.0), 25, 1, "span")
        assert (grid.nx, grid.ny, len(grid)) == (5, 2, 10)
        assert_allclose(grid.cell_m, [22, 25])
        expected = [[21, 32.5], [43, 32.5], [21, 57.5]]
        assert_allclose(grid.place_m[[0, 1, 5]], expected)
        assert_array_equal(grid.find_cells(grid.place_m), np.arange(10))
        assert grid.find_cells(read_array("120.0 70; 10 20")).tolist() == [9, 0]

    def test_places_around_others_stay_in_the_grid(self):
        grid = PlaceGrid.from_area(Area(0.0, 0.0, 500.0, 300.0), 100, 1, "span")  # 5 x 3
        assert grid.thin_places(3).tolist() == [0, 3]
        assert grid.find_neighbours(np.array([0]), 1).tolist() == [0, 1, 5, 6]
        assert grid.find_neighbours(read_array("4; 12"), 1).tolist() == [
            3,
            4,
            6,
            7,
            8,
            9,
            11,
            12,
            13,
        ]
        assert_array_equal(grid.find_neighbours(grid.thin_places(3), 2), np.arange(15))

    @mark.parametrize("many", [1, 1_000_000])
    def test_smoothing_is_a_gaussian(self, monkeypatch, many):
        monkeypatch.setattr("fl.attacks.place_maps.MANY_PLACES", many)
        grid = PlaceGrid.from_area(Area(0.0, 0.0, 500.0, 310.0), 20, 1, "span")
        assert grid.cell_m[0] != grid.cell_m[1]
        score = np.zeros((1, len(grid)))
        score[0, 77] = 2.0
        away2 = ((grid.place_m - grid.place_m[77]) ** 2).sum(axis=1)
        expected = 2 * np.exp(-away2 / (2 * 40**2))
        assert_allclose(
            smooth_maps(score, grid, 40.0)[0],
            expected,
            rtol=1e-12,
            atol=1e-15,
        )


def test_a_map_is_searched_as_if_it_were_the_only_one():
    grid = PlaceGrid.from_area(Area(0.0, 0.0, 300.0, 200.0), 20, 1, "span")
    score = default_rng(3).integers(0, 5, (20, len(grid))).astype(np.float32)
    score[3] = 2.0
    score[9, 5] = np.nan
    attack = Span(apart_m=150.0)
    for width_m in (0.0, 30.0):
        found_m = attack.find_best(score, grid, 3, width_m)
        alone_m = [attack.find_best(row[None], grid, 3, width_m)[0] for row in score]
        assert_array_equal(found_m, alone_m)
        assert np.isnan(found_m[[3, 9]] if width_m == 0 else found_m[9]).all()
    for row, places_m in zip(score, attack.find_best(score, grid, 3), strict=True):
        allowed = np.full(len(grid), row.max() > row.min())
        for place_m in places_m[np.isfinite(places_m[:, 0])]:
            best = row[allowed].max()
            at = np.flatnonzero(allowed & (row == best))[0]
            assert_array_equal(place_m, grid.place_m[at])
            allowed &= norm(grid.place_m - place_m, axis=1) >= 150.0


@mark.parametrize("side_m", [1_000.0, 20_000.0, 26_000.0, 75_000.0])
def test_cells_of_any_area_make_at_most_a_million_places_and_wide_ones_are_said(side_m):
    area = Area(0.0, 0.0, side_m, side_m / 1.5)
    prepared = Prepared((), (), Public(area, 1), lambda: iter(()))
    attack = Span().fit_cells(make_learner(**FOURIER), area)
    cell_m = choose_cell_m(area, np.inf)
    assert len(PlaceGrid.from_area(area, attack.cell_m, 4, "span")) <= 1_000_000
    assert (cell_m > 25.0) == (side_m > 30_000.0) == (len([*attack.notices(prepared)]) == 1)
    assert not [*Span(cell_m=30.0).notices(prepared)]


@mark.parametrize(
    ("maps", "columns"),
    cases("""
    1, 1000
    1000, 500
"""),
)
def test_exactly_as_many_places_as_are_possible_are_taken_and_one_column_more_is_refused(
    maps, columns
):
    """A million places, or half a thousand million numbers in all maps."""
    rows = 1000
    grid = PlaceGrid.from_area(Area(0.0, 0.0, 4.0 * columns, 4.0 * rows), 4.0, maps, "span")
    assert (grid.nx, grid.ny) == (columns, rows)
    with raises(BadInput, match=f"at most {columns * rows:,} are possible"):
        PlaceGrid.from_area(Area(0.0, 0.0, 4.0 * columns + 4.0, 4.0 * rows), 4.0, maps, "span")


def test_no_update_has_no_places_around():
    grid = PlaceGrid.from_area(AREA, 50, 1, "span")
    around = _read_around(grid, lambda place_m: np.ones((len(place_m), 7)), np.zeros((0, 2)))
    assert around.shape[:2] == (0, 7)
