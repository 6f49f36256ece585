"""What `neuron-votes` and `span` name: exact cases, an independent slow form, views, and what they
refuse."""

import json
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from fl.attacks.participation_regression import ParticipationRegression, _without_momentum
from fl.attacks.place_filter import PlaceFilter
from fl.attacks.place_maps import NeuronVotes, smoothed
from fl.attacks.span import (
    Span,
    _around,
    directions,
    parts,
    principal,
    principal_of_columns,
    squares,
)
from fl.attacks.threat import Threat
from fl.learners.rsrp_net import RsrpNet
from fl.notice import Prepared
from fl.round.learning import Learning
from fl.server_optimiser import FedAvgM
from fl.tracking.place_grid import PlaceGrid, usual_cell_m
from fl.types import DenseUpdates, Local, Public, Received, RoundContext
from netsim.checkpoint import from_tree, load_tree, save_tree, to_tree
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Streams

AREA = Area(0.0, 0.0, 1200.0, 900.0)
PUBLIC = Public(AREA, 1)
NOISE = {"span": 0.5, "neuron-votes": 0.05, "place-filter": 2.0}
RNG = Streams(3).at("tests", 1)
SMALL = {"hidden": (48, 24), "activation": "relu", "labels": "standardised"}
FOURIER = {**SMALL, "encoding": {"kind": "fourier", "frequencies": 32}}
# middles of cells of 25 m
HOME = np.array([262.5, 212.5])
WORK = np.array([912.5, 612.5])
PEOPLE = ((HOME, WORK), (np.array([300.0, 700.0]), np.array([1000.0, 200.0])))


def learner_of(**more):
    return RsrpNet.model_validate_json(json.dumps({"kind": "rsrp-net", **more}), strict=True)


def local_of(places, model=None):
    """One UE a list of places, labels by distance and noise."""
    rng = np.random.default_rng(5)
    x = np.concatenate(places)
    y = -60 - 30 * np.log10(np.hypot(*(x - [600, 450]).T) / 10 + 1) + 3 * rng.normal(size=len(x))
    ptr = np.concatenate([[0], np.cumsum([len(p) for p in places])]).astype(np.int64)
    if model is None:
        model = np.zeros(len(places), dtype=np.int64)
    else:
        model = np.asarray(model)
    return Local(np.arange(len(places)), model, ptr, x, y, np.zeros(len(x)))


def played(learner, days, n_model=1, noise=0.0, ue=None, participants=False, group=None, **threat):
    """Views and facts of rounds on these data."""
    public = replace(PUBLIC, n_model=n_model)
    model = learner.init(public, Streams(1).at("init"))
    rounds = []
    for number, data in enumerate(days, 1):
        made = learner.local(model, "all", data, RNG)
        drawn = (
            Streams(8)
            .at("noise", number)
            .normal("noise", np.arange(len(made.ue)), made.values.shape[1:])
        )
        made = replace(
            made, values=made.values + noise * drawn, ue=made.ue if ue is None else np.asarray(ue)
        )
        share = 1.0 / np.bincount(data.model, minlength=n_model)[data.model]
        merged = made.weighted_sum(share, n_model)
        after = learner.step(model, "all", merged)
        every = np.ones(len(made.ue), dtype=bool)
        groups = Streams(9).at("threat", number)
        knows = ("weights", "training", *(("participants",) if participants else ()))
        by = Threat(knowledge=knows, **threat)
        models = (model, after)
        view = by.view(
            learner, "all", Received(made, every), share, every, models, groups, None, group
        )
        rounds.append((view, RoundContext(number, 0.0, public)))
        model = after
    return rounds


def run(attack, rounds, state=None):
    state = attack.start() if state is None else state
    found = None
    for view, facts in rounds:
        found, state = attack.run(view, facts, state, RNG)
    return found, state


def of(found, ue):
    """The answers of a UE, best first."""
    mine = np.flatnonzero(found.ue == ue)
    return found.position_m[mine[np.argsort(-found.weight[mine], kind="stable")]]


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
    return np.concatenate(
        [home + 15 * rng.normal(size=(n, 2)), work + 15 * rng.normal(size=(n, 2))]
    )


def days_of(n_days=6, people=PEOPLE):
    rng = np.random.default_rng(2)
    return [local_of([two_places(rng, home=h, work=w) for h, w in people]) for _ in range(n_days)]


class TestSpanOfOneStep:
    """In float64: the activations of a batch lie in the span of its update, and others do not."""

    @pytest.mark.parametrize("more", [SMALL, FOURIER, {**SMALL, "activation": "elu"}])
    @pytest.mark.parametrize("layer", [1, 2])
    @pytest.mark.parametrize("n", [1, 2, 3])
    def test_of_few_places(self, n, layer, more):
        if layer == 1 and more is not FOURIER and n > 2:
            pytest.skip("three places span all inputs of a first layer that reads positions")
        learner = learner_of(**more, learning_rate=0.1, batch_size="all", local_epochs=1)
        x = np.array([[151.0, 203.0], [888.0, 307.0], [420.0, 790.0]])[:n]
        ((view, _),) = played(learner, [local_of([np.repeat(x, 20, axis=0)])])
        made = learner.layer(view.update, layer)
        size = np.linalg.svd(made[0], compute_uv=False)
        assert size[n:].max() < 1e-12 * size[0] < size[n - 1]
        basis = directions(principal(made, 8, RNG), 8, 1e-10)

        def outside(places):
            a = learner.layer_input(view.model_before, 0, places, layer)
            return 1 - squares(parts(basis, a / np.linalg.norm(a, axis=1, keepdims=True)))[0]

        assert np.abs(outside(x)).max() < 1e-12
        if layer == 2 or more is FOURIER:
            assert (
                np.median(outside(AREA.sample(np.random.default_rng(0).uniform(size=(500, 2)))))
                > 1e-3
            )

    def test_steps_that_are_linear_in_gradients_leave_one_place_exact(self):
        """All records at one place: every live ratio of the first layer is that place."""
        x = np.array([[777.5, 123.4]])
        for how in ({"batch_size": 7, "local_epochs": 3}, {"sample_clip": 0.01}, {"dropout": 0.3}):
            learner = learner_of(**SMALL, learning_rate=0.01, **how)
            ((view, _),) = played(learner, [local_of([np.repeat(x, 30, axis=0)])])
            dw, db = learner.first_layer(view.update)
            live = np.abs(db[0]) > 1e-9 * np.abs(db).max()
            centre, scale = (of[0] for of in learner.standardisation(view.model_before))
            assert live.sum() > 8
            assert np.abs(centre + scale * dw[0, live] / db[0, live, None] - x[0]).max() < 2e-8
            found, _ = run(NeuronVotes(cell_m=5), [(view, RoundContext(1, 0.0, PUBLIC))])
            assert np.abs(of(found, 0)[0] - x[0]).max() <= 2.5


class TestSubspace:
    def test_a_matrix_of_low_rank_has_its_singular_vectors(self):
        rng = np.random.default_rng(0)
        made = rng.normal(size=(5, 60, 9)) * 10.0 ** -np.arange(9) @ rng.normal(size=(5, 9, 40))
        for k in (3, 8, 30):
            u, s, _ = np.linalg.svd(made)
            found = principal(made, k, RNG)
            few = min(k, 9)
            assert_allclose(
                np.linalg.norm(found, axis=1)[:, :few], s[:, :few], rtol=1e-9, atol=1e-14
            )
            same = np.abs(np.einsum("npk,npk->nk", directions(found, 3, 0.0), u[:, :, :3]))
            assert_allclose(same, 1.0, atol=1e-10)
            ours = principal_of_columns(made[:, :, :6])
            assert_allclose(
                np.linalg.norm(ours, axis=1), np.linalg.svd(made[:, :, :6])[1], rtol=1e-6
            )


def slow_peaks(view, attack, grid):
    """What `span` adds in one round to the map of the first source, by full SVDs and loops."""
    place = grid.place_m
    made = view.learner.layer(view.update, attack.layer or 2)[0]
    a = view.learner.layer_input(view.model_before, 0, place, attack.layer or 2)
    a = a / np.sqrt((a**2).sum(axis=1))[:, None]
    u, s, v = np.linalg.svd(made, full_matrices=False)
    keep = attack.rank + 2 * (attack.answers - 1)
    kept = (u[:, :keep] * s[:keep]) @ v[:keep]
    total = np.zeros(len(place))
    found = []
    out = np.eye(a.shape[1])
    basis = u[:, : attack.rank]
    now = a
    for _ in range(attack.answers):
        score = np.array([-np.log(max(1 - ((basis.T @ row) ** 2).sum(), 0) + 1e-3) for row in now])
        best = max(
            (
                i
                for i in range(len(place))
                if all(np.linalg.norm(place[i] - f) >= attack.apart_m for f in found)
            ),
            key=lambda i: score[i],
        )
        total[best] += min(score[best] - np.mean(score), 2.0)
        found.append(place[best])
        columns = []
        for f in found:
            near = a[np.linalg.norm(place - f, axis=1) <= 60.0].T
            columns.append(np.linalg.svd(near, full_matrices=False)[0][:, :2])
        q = np.linalg.qr(np.concatenate(columns, axis=1))[0]
        out = np.eye(a.shape[1]) - q @ q.T
        basis = np.linalg.svd(out @ kept, full_matrices=False)[0][:, : attack.rank]
        rest = a @ out
        now = rest / np.maximum(np.linalg.norm(rest, axis=1), 0.15)[:, None]
    return total


class TestSpan:
    @pytest.mark.parametrize("more", [SMALL, FOURIER])
    @pytest.mark.parametrize("how", [{"rank": 4}, {"rank": 8, "answers": 3, "apart_m": 150}])
    def test_is_what_full_decompositions_and_loops_give(self, more, how):
        learner = learner_of(**more, learning_rate=0.01, batch_size=20, local_epochs=3)
        attack = Span(cell_m=50, **how)
        grid = PlaceGrid.over(AREA, 50, 1, "span")
        for view, _ in played(learner, days_of(2)):
            fast = attack.scores(view, grid, RNG)
            slow = slow_peaks(view, attack, grid)
            assert_array_equal(np.flatnonzero(fast[0]), np.flatnonzero(slow))
            assert_allclose(fast[0], slow, rtol=2e-3)

    @pytest.mark.parametrize("more", [SMALL, FOURIER])
    @pytest.mark.parametrize(
        "steps", [{"batch_size": "all", "learning_rate": 0.1}, {"batch_size": 16}]
    )
    def test_names_both_places_of_everybody(self, more, steps):
        learner = learner_of(**{**more, "local_epochs": 1, "learning_rate": 0.01, **steps})
        found, _ = run(Span(), played(learner, days_of()))
        for ue, (home, work) in enumerate(PEOPLE):
            named = of(found, ue)
            assert len(named) == 2
            assert all(np.linalg.norm(named - place, axis=1).min() < 50 for place in (home, work))

    @pytest.mark.parametrize("noise", [0.0, 0.5])
    def test_of_many_places_those_around_the_best_of_a_ninth_are_enough(self, monkeypatch, noise):
        """Cells of 25 m, waves of 100 m and more: every third row and column is 75 m apart, and 8
        of 192 are refined.

        Of 17 people in 26 km x 19 km 128 of 106,000 are, and 102 of 102 peaks were those of all
        952,000 places.
        """
        draw = np.random.default_rng(7)
        people = [draw.uniform([50, 50], [1150, 850], (2, 2)) for _ in range(40)]
        learner = learner_of(**FOURIER, learning_rate=0.01, batch_size=20, local_epochs=3)
        days = days_of(2, people)
        noise *= np.sqrt(np.mean(played(learner, days)[0][0].update ** 2))
        grid = PlaceGrid.over(AREA, 25, 1, "span")
        same = []
        for view, _ in played(learner, days, noise=noise):
            every = Span().scores(view, grid, RNG)
            with monkeypatch.context() as few:
                few.setattr("fl.attacks.span.MANY", 1_000)
                few.setattr("fl.attacks.span._REFINED", 8)
                found = Span().scores(view, grid, RNG)
            assert (np.count_nonzero(found, axis=1) == 2).all()
            same.append(((found > 0) & (every > 0)).sum(axis=1))
        same = np.concatenate(same)
        assert same.mean() / 2 > 0.95, same


MAPS = (Span(), Span(add="scores"), NeuronVotes())


@pytest.mark.parametrize(
    "attack", (*MAPS, PlaceFilter(cell_m=25), PlaceFilter(cell_m=25, places=1)), ids=str
)
class TestEveryAttack:
    """What holds of all attacks that name places."""

    def test_places_return_through_noise(self, attack):
        """Noise over the RMS of an update: 2 for the filter, 0.5 for the span, 0.05 for 48 units
        that vote."""
        learner = learner_of(**SMALL, learning_rate=0.05, batch_size=20)
        days = days_of(12)
        clean = played(learner, days)[0][0].update
        rounds = played(learner, days, noise=NOISE[attack.kind] * np.sqrt(np.mean(clean**2)))
        found = run(attack, rounds)[0]
        for ue, places in enumerate(PEOPLE):
            hit_radius_m = (
                150 if getattr(attack, "places", 2) == 1 else 100
            )  # one place explains both badly
            assert min(np.linalg.norm(of(found, ue)[0] - p) for p in places) < hit_radius_m

    def test_a_ue_does_not_depend_on_the_others(self, attack):
        days = days_of(3)
        alone = [local_of([d.x[: d.ptr[1]]]) for d in days]
        alone = [replace(a, y=d.y[: d.ptr[1]]) for a, d in zip(alone, days, strict=True)]
        learner = learner_of(**SMALL, learning_rate=0.01)
        ((both, facts),) = played(learner, days[:1])
        ((one, _),) = played(learner, alone[:1])
        together, _ = run(attack, [(both, facts)])
        assert_array_equal(of(together, 0), of(run(attack, [(one, facts)])[0], 0))

    @pytest.mark.parametrize("size", [1e-200, 1e200, 1e306])
    def test_of_a_model_that_has_diverged_the_attack_says_nothing_wrong(self, attack, size):
        ((view, facts),) = played(learner_of(**SMALL), [days_of(1)[0]])
        far = replace(view.model_before, parameters=view.model_before.parameters * size)
        found, _ = run(attack, [(replace(view, model_before=far), facts)])
        assert AREA.contains(found.position_m[np.isfinite(found.position_m).all(axis=1)]).all()
        update = view.update * min(size, 1e250)
        same, _ = run(attack, [(replace(view, update=update), facts)])
        plain, _ = run(attack, [(view, facts)])
        assert_allclose(same.position_m, plain.position_m)

    def test_remembers_through_a_checkpoint_and_draws_nothing_else(self, attack, tmp_path):
        remembers(attack, played(learner_of(**SMALL, learning_rate=0.01), days_of(4)), tmp_path)

    def test_an_attacker_tests_itself(self, attack):
        ((view, facts),) = played(learner_of(**SMALL, learning_rate=0.01), [days_of(1)[0]])
        errors_m = [attack.self_test(view, facts, Streams(s).at("attack", 1)) for s in range(8)]
        assert np.median(errors_m) < (
            40 if getattr(attack, "places", 1) == 2 else 25
        )  # two explain what lies between
        assert min(errors_m) > 0

    @pytest.mark.parametrize("observes", ["aggregate", "model"])
    def test_sums_and_published_models(self, attack, observes):
        """What a model tells is told of everybody who took part."""
        people = [(HOME, WORK), (HOME + 20.0, WORK - 20.0), (HOME - 20.0, WORK + 20.0)]
        rounds = played(
            learner_of(**SMALL, learning_rate=0.05, batch_size=20),
            days_of(8, people),
            observes=observes,
        )
        found, state = run(attack, rounds)
        assert np.unique(state.owner).tolist() == ([0, 1, 2] if observes == "aggregate" else [0])
        assert sorted(set(found.ue.tolist())) == [0, 1, 2]
        assert_array_equal(of(found, 0), of(found, 2))
        assert min(np.linalg.norm(of(found, 0)[0] - p) for p in (HOME, WORK)) < 100

    def test_updates_without_anything_in_them(self, attack):
        ((view, facts),) = played(learner_of(**SMALL), [days_of(1)[0]])
        for value in (0.0, np.nan, np.inf):
            hurt = view.update.copy()
            hurt[0] = value
            found, state = run(attack, [(replace(view, update=hurt), facts)])
            mine = found.ue == 0
            assert [w for w, m in zip(found.status, mine, strict=True) if m] == ["no gradient"]
            assert np.isnan(found.position_m[mine]).all()
            assert np.isfinite(found.position_m[~mine]).all()
            assert (
                state.owner.tolist() == [1]
                if attack.kind == "place-filter"
                else not state.score[0].any()
            )
        nobody, _ = run(attack, [(view, facts), (_only(view, 7), facts)])
        assert len(nobody.ue) == 0


@pytest.mark.parametrize("attack", MAPS, ids=str)
class TestMaps:
    def test_all_models_of_a_ue_count_together(self, attack):
        rng = np.random.default_rng(1)
        data = [local_of([two_places(rng), two_places(rng)], model=[0, 1]) for _ in range(2)]
        rounds = played(learner_of(**SMALL, learning_rate=0.01), data, n_model=2, ue=[4, 4])
        found, state = run(attack, rounds)
        assert state.owner.tolist() == [4]
        assert sorted(found.model.tolist()) == [0, 0, 1, 1]
        assert_array_equal(found.position_m[found.model == 0], found.position_m[found.model == 1])
        halves = [run(attack, [(_only(v, m), f) for v, f in rounds])[1].score for m in (0, 1)]
        assert_allclose(state.score, halves[0] + halves[1], rtol=1e-6)

    def test_sums_in_changing_company_tell_their_members_apart(self, attack):
        corner = (
            np.array([[200, 200], [200, 700], [1000, 200], [1000, 700], [600, 450], [600, 100]])
            + 12.5
        )
        people = [(at, at + 1.0) for at in corner]
        learner = learner_of(**SMALL, learning_rate=0.05, batch_size=20)
        rounds = played(learner, days_of(12, people), observes="aggregate", secagg_group_size=2)
        found, state = run(attack, rounds)
        away_m = [np.linalg.norm(of(found, u)[0] - corner[u]) for u in range(6)]
        assert state.owner.tolist() == list(range(6))
        assert np.median(away_m) < 60


class TestPlaceFilter:
    def test_remembers_only_the_latest(self):
        rounds = played(learner_of(**SMALL, learning_rate=0.01), days_of(4))
        attack = PlaceFilter(cell_m=25, memory=2)
        found, last = run(attack, rounds)
        assert len(last.of) == 2
        assert len(last.owner) == 4
        assert_array_equal(found.position_m, run(attack, rounds[2:])[0].position_m)

    @pytest.mark.parametrize("more", [SMALL, FOURIER, {**SMALL, "activation": "tanh"}])
    def test_is_what_explicit_gradients_and_all_pairs_give(self, more):
        """With every gradient formed by torch, and every pair of places compared."""
        learner = learner_of(**more, learning_rate=0.05)
        attack = PlaceFilter(cell_m=100, apart_m=250)
        rounds = played(learner, days_of(3), noise=0.002)
        grid = PlaceGrid.over(AREA, 100, 1, "place-filter")
        score = np.zeros((2, len(grid), len(grid)))
        alone = np.zeros((2, len(grid)))
        for view, _ in rounds:
            z = learner._inputs(view.model_before, np.zeros(len(grid), int), grid.place_m)
            v = []
            for at in z:
                w = torch.from_numpy(view.model_before.parameters).requires_grad_()
                out = learner.net.forward(w, torch.from_numpy(at)[None, None])[0]
                v.append(torch.autograd.grad(out.sum(), w)[0][0].numpy())
            v = np.stack(v) / np.linalg.norm(v, axis=1, keepdims=True)
            part = v @ (view.update / np.linalg.norm(view.update, axis=1, keepdims=True)).T
            for ue in range(2):
                alone[ue] += part[:, ue] ** 2
                for p in range(len(grid)):
                    for q in range(p):
                        b = part[[p, q], ue]
                        g = v[p] @ v[q]
                        if 1 - g**2 >= 1e-4:
                            score[ue, p, q] += b @ np.linalg.solve([[1, g], [g, 1]], b)
                        else:
                            score[ue, p, q] += max(b**2)
        near = ((grid.place_m[:, None] - grid.place_m) ** 2).sum(axis=2) < 250**2
        score[:, near] = -1
        found, _ = run(attack, rounds)
        for ue in range(2):
            pair = np.array(np.unravel_index(score[ue].argmax(), score[ue].shape))
            pair = pair[np.argsort(-alone[ue, pair])]
            named = grid.nearest(of(found, ue))
            if (
                more.get("activation") == "tanh"
            ):  # alike everywhere: the search may stop at a pair that is hardly worse
                assert (
                    max(score[ue][tuple(named)], score[ue][tuple(named[::-1])])
                    > 0.98 * score[ue].max()
                )
                continue
            assert_allclose(named, pair)
        one, _ = run(attack.model_copy(update={"places": 1}), rounds)
        assert_allclose([of(one, ue)[0] for ue in range(2)], grid.place_m[alone.argmax(axis=1)])


def _only(view, model):
    """The same view of one model's rows."""
    keep = view.source_model == model
    target = keep[view.source]
    return replace(
        view,
        update=view.update[keep],
        source_model=view.source_model[keep],
        ue=view.ue[target],
        model=view.model[target],
        source=(np.cumsum(keep) - 1)[view.source[target]],
    )


class TestRankThatFits:
    """`rank: auto`: 4 a UE that is in the update, and for sums layer 1 and added scores."""

    LEARNER = {**FOURIER, "learning_rate": 0.01, "batch_size": 20}
    MOST = 20

    def rounds(self, n_ue=12, **more):
        people = [
            (np.array([100.0 + 80 * u, 200.0]), np.array([1000.0 - 60 * u, 700.0]))
            for u in range(n_ue)
        ]
        return played(learner_of(**self.LEARNER), days_of(3, people), **more)

    @pytest.mark.parametrize(("secagg_group_size", "rank"), [(3, 12), (6, 20), (None, 20)])
    def test_of_sums_grows_with_their_members_up_to_what_places_differ_by(
        self, secagg_group_size, rank
    ):
        """97 % of the squares of all activations lie in so many directions, by a singular value
        decomposition."""
        rounds = self.rounds(observes="aggregate", secagg_group_size=secagg_group_size)
        view = rounds[0][0]
        places = PlaceGrid.over(AREA, 25, 1, "span").place_m
        a = view.learner.layer_input(view.model_before, 0, places, 1)
        size = np.linalg.svd(a / np.linalg.norm(a, axis=1, keepdims=True), compute_uv=False) ** 2
        assert size[: self.MOST - 1].sum() < 0.97 * size.sum() <= size[: self.MOST].sum()
        stated = Span(rank=rank, layer=1, add="scores")
        assert_array_equal(run(Span(rank="auto"), rounds)[1].score, run(stated, rounds)[1].score)

    def test_of_published_models_is_that_of_a_crowd_unless_it_is_known_who_took_part(self):
        for participants, rank in ((False, self.MOST), (True, 16)):
            rounds = self.rounds(4, observes="model", participants=participants)
            stated = Span(rank=rank, layer=1, add="scores")
            found = run(Span(rank="auto"), rounds)[1]
            assert found.owner.tolist() == (list(range(4)) if participants else [0])
            assert_array_equal(found.score, run(stated, rounds)[1].score)


class TestParticipationRegression:
    HOMES = (
        np.array([[200, 200], [200, 700], [1000, 200], [1000, 700], [600, 450], [600, 100]]) + 12.5
    )
    LEARNER = {**FOURIER, "learning_rate": 0.05, "batch_size": 20}

    def rounds(self, n_ue=12, n_days=6, **how):
        places = [self.HOMES[u % 6] + 40.0 * (u // 6) for u in range(n_ue)]
        people = [(at, at + 1.0) for at in places]
        return played(learner_of(**self.LEARNER), days_of(n_days, people), **how)

    @pytest.mark.parametrize("layer", [1, 2])
    def test_equals_a_dense_least_squares(self, layer):
        """12 UEs, sums of 3, two hours of the day: hours are columns of their own, the ridge is
        rows of its own."""
        attack = ParticipationRegression(ridge=0.7, cell_m=50, rank=12, layer=layer)
        rounds = self.rounds(observes="aggregate", secagg_group_size=3)
        rounds = [(v, replace(f, week_s=3600.0 * (7 if f.round % 2 else 23))) for v, f in rounds]
        grid = PlaceGrid.over(AREA, 50, 12, "test")
        z = []
        s = []
        hour = []
        for view, facts in rounds:
            score = Span(rank=12, layer=layer, add="scores").scores(view, grid, RNG).astype(float)
            for k in range(len(view.update)):
                z.append(np.isin(np.arange(12), view.ue[view.source == k]))
                s.append(score[k] - score[k].mean())
                hour.append([facts.round % 2, 1 - facts.round % 2])
        rows = np.hstack([np.array(z, dtype=float), np.array(hour)])
        ridge = np.hstack([np.sqrt(0.7) * np.eye(12), np.zeros((12, 2))])
        dense = np.linalg.lstsq(
            np.vstack([rows, ridge]), np.vstack([s, np.zeros((12, len(grid)))]), rcond=None
        )[0]
        found, state = run(attack, rounds)
        maps = state.maps(np.arange(12), 0.7).score
        assert_allclose(maps, dense[:12], rtol=0, atol=1e-9 * np.abs(dense[:12]).max())
        for ue in range(12):
            assert np.linalg.norm(of(found, ue)[0] - grid.place_m[np.argmax(dense[ue])]) < 1e-9

    def test_changing_company_names_homes_of_sums_that_hide_them_from_one_round(self):
        attack = ParticipationRegression(answers=1)
        rounds = self.rounds(n_days=24, observes="aggregate", secagg_group_size=6)
        homes = np.array([self.HOMES[u % 6] + 40.0 * (u // 6) for u in range(12)])

        def right(found, shift=0):
            return np.mean(
                [np.linalg.norm(of(found, u)[0] - homes[(u + shift) % 12]) < 30 for u in range(12)]
            )

        found = run(attack, rounds)[0]
        assert right(found) >= 0.8
        assert right(found, 1) <= 0.1
        assert right(run(attack, rounds[:1])[0]) <= 0.3

    def test_company_that_never_changes_gives_chance(self):
        """In the sum of all nobody has an answer; members of a fixed group have one map."""
        attack = ParticipationRegression()
        found, state = run(attack, self.rounds(observes="aggregate"))
        assert set(found.status) == {"no gradient"}
        assert np.isnan(found.position_m).all()
        assert not state.maps(np.arange(12), 1.0).score.any()
        fixed = np.repeat(np.arange(4), 3)
        found, state = run(
            attack, self.rounds(observes="aggregate", secagg_group_size=3, group=fixed)
        )
        maps = state.maps(np.arange(12), 1.0).score
        for group in maps.reshape(4, 3, -1):
            assert_allclose(group[1:], group[:1].repeat(2, axis=0), atol=1e-9)
        assert all(
            len({tuple(of(found, u)[0]) for u in range(3 * g, 3 * g + 3)}) == 1 for g in range(4)
        )

    def test_published_models_are_read_as_sums_once_momentum_is_undone(self):
        """A model that nobody moved keeps its velocity; the last step is that before."""
        attack = ParticipationRegression()
        optimiser = FedAvgM(learning_rate=1.5, momentum=0.7)
        rounds = self.rounds(observes="model", participants=True)
        state = attack.start()
        velocity = optimiser.start()
        for number, (view, facts) in enumerate(rounds):
            merged = view.update.copy()
            came = np.array([number != 2])
            step, velocity = optimiser.change(merged if came[0] else 0 * merged, came, velocity)
            facts = replace(facts, public=replace(PUBLIC, server_momentum=0.7))
            undone, state = _without_momentum(replace(view, update=step), facts, state)
            if came[0]:
                assert_allclose(undone.update, 1.5 * merged, atol=1e-12)

    def test_remembers_through_a_checkpoint(self, tmp_path):
        attack = ParticipationRegression(cell_m=50)
        rounds = self.rounds(observes="aggregate", secagg_group_size=3)
        remembers(attack, rounds, tmp_path)
        tree = load_tree(tmp_path / "state.npz")
        for name in ("both", "rows"):
            with pytest.raises(ValueError, match=rf"{name} is not numbers from"):
                from_tree(tree | {name: np.full_like(tree[name], np.nan)}, attack.start())


class TestUnitVotes:
    def test_counts_a_unit_where_its_ratio_points(self):
        """By hand: an update of given ratios, one of them outside the area and one unit too
        heavy."""
        learner = learner_of(hidden=[4], activation="relu")
        model = learner.init(PUBLIC, Streams(1).at("init"))
        where = np.array([[212.5, 312.5], [212.5, 312.5], [5000.0, 0.0], [812.5, 112.5]])
        weight = np.array([0.2, -0.3, 0.1, 1.0])
        centre, scale = (c[0] for c in learner.standardisation(model))
        dw = (where - centre) / scale * weight[:, None]
        row = np.concatenate([dw.T.ravel(), weight, np.zeros(5)])[None]
        first = np.zeros(1, dtype=np.int64)
        one = np.ones(1, dtype=bool)
        received = Received(DenseUpdates(first, first, np.ones(1), row), one)
        view = Threat().view(learner, "all", received, np.ones(1), one, (model, model), RNG)
        attack = NeuronVotes(max_weight=0.25)
        grid = PlaceGrid.over(AREA, 25, 1, "neuron-votes")
        votes = attack.scores(view, grid, RNG)[0]
        expected = np.zeros(len(grid))
        expected[grid.nearest(where[:1])] = 0.2 / 1.6 + 0.3 / 1.6
        expected[grid.nearest(where[3:])] = 0.25
        assert_allclose(votes, expected, rtol=1e-12)
        found, _ = run(attack, [(view, RoundContext(1, 0.0, PUBLIC))])
        assert_allclose(of(found, 0), [where[0], where[3]])


REGRESSION = {"kind": "participation-regression"}
SUMS = {"observes": "aggregate"}
ADAM = {"optimiser": {"kind": "adam"}}


class TestRefusals:
    """What does not hold for an optimiser, a network or an attacker is refused before a run."""

    @pytest.mark.parametrize(
        ("attack", "learner", "threat", "says"),
        [
            ({"kind": "neuron-votes"}, ADAM, {}, "neuron-votes needs linear local steps"),
            ({"kind": "closed-form"}, ADAM, {}, "closed-form needs linear local steps"),
            ({"kind": "dlg"}, ADAM, {}, "dlg needs a sample gradient"),
            ({"kind": "span"}, ADAM, {}, None),
            ({"kind": "place-filter"}, ADAM, {}, "place-filter needs a sample gradient"),
            (
                {"kind": "place-filter"},
                {"frozen_layers": 1},
                {},
                "place-filter needs a sample gradient",
            ),
            (
                {"kind": "place-filter"},
                {},
                {"knowledge": []},
                "place-filter needs starting weights",
            ),
            ({"kind": "span", "layer": 4}, {}, {}, "span needs a layer 4: .*none that is trained"),
            ({"kind": "span", "layer": 3}, {}, {}, None),
            (
                {"kind": "span"},
                {},
                {"knowledge": ["training"]},
                "span needs starting weights: .*or take layer: 1",
            ),
            ({"kind": "span", "layer": 1}, {}, {"knowledge": []}, None),
            (REGRESSION, {}, SUMS, None),
            (
                REGRESSION,
                {},
                {"observes": "model"},
                "names of participants: .*add participants to threat.knowledge",
            ),
            (REGRESSION, {}, {"observes": "model", "knowledge": ["weights", "participants"]}, None),
            (
                REGRESSION,
                {},
                SUMS | {"knowledge": ["training"]},
                "needs starting weights: .*or take layer: 1",
            ),
            (REGRESSION | {"layer": 1}, {}, SUMS | {"knowledge": []}, None),
            (
                REGRESSION,
                {},
                SUMS | {"pseudonyms": {"kind": "per-round"}},
                "pseudonyms: {kind: permanent}",
            ),
        ],
    )
    def test_by_the_words_that_parts_offer(self, attack, learner, threat, says):
        learner = {"kind": "rsrp-net", "hidden": [8, 4], **learner}
        document = {"round_s": 60.0, "learner": learner, "threat": threat, "attacks": [attack]}
        with nullcontext() if says is None else pytest.raises(ValueError, match=says):
            Learning.model_validate_json(json.dumps(document), strict=True)


class TestPlaceGrid:
    def test_cells_fill_the_area_and_are_no_wider_than_asked_for(self):
        grid = PlaceGrid.over(Area(10.0, 20.0, 120.0, 70.0), 25, 1, "span")
        assert (grid.nx, grid.ny, len(grid)) == (5, 2, 10)
        assert_allclose(grid.cell_m, [22, 25])
        assert_allclose(grid.place_m[[0, 1, 5]], [[21, 32.5], [43, 32.5], [21, 57.5]])
        assert_array_equal(grid.nearest(grid.place_m), np.arange(10))
        assert grid.nearest(np.array([[120.0, 70.0], [10.0, 20.0]])).tolist() == [9, 0]

    def test_places_around_others_stay_in_the_grid(self):
        grid = PlaceGrid.over(Area(0.0, 0.0, 500.0, 300.0), 100, 1, "span")  # 5 x 3
        assert grid.thinned(3).tolist() == [0, 3]
        assert grid.around(np.array([0]), 1).tolist() == [0, 1, 5, 6]
        assert grid.around(np.array([[4], [12]]), 1).tolist() == [3, 4, 6, 7, 8, 9, 11, 12, 13]
        assert_array_equal(grid.around(grid.thinned(3), 2), np.arange(15))

    @pytest.mark.parametrize("many", [1, 1_000_000])
    def test_smoothing_is_a_gaussian(self, monkeypatch, many):
        monkeypatch.setattr("fl.attacks.place_maps.MANY", many)
        grid = PlaceGrid.over(Area(0.0, 0.0, 500.0, 310.0), 20, 1, "span")
        assert grid.cell_m[0] != grid.cell_m[1]
        score = np.zeros((1, len(grid)))
        score[0, 77] = 2.0
        away2 = ((grid.place_m - grid.place_m[77]) ** 2).sum(axis=1)
        assert_allclose(
            smoothed(score, grid, 40.0)[0], 2 * np.exp(-away2 / (2 * 40**2)), rtol=1e-12, atol=1e-15
        )


@pytest.mark.parametrize("side_m", [1_000.0, 20_000.0, 26_000.0, 75_000.0])
def test_cells_of_any_area_make_at_most_a_million_places_and_wide_ones_are_said(side_m):
    area = Area(0.0, 0.0, side_m, side_m / 1.5)
    known = Prepared((), (), Public(area, 1), lambda: iter(()))
    attack = Span().fitted(learner_of(**FOURIER), area)
    cell_m = usual_cell_m(area, np.inf)
    assert len(PlaceGrid.over(area, attack.cell_m, 4, "span")) <= 1_000_000
    assert (cell_m > 25.0) == (side_m > 30_000.0) == (len([*attack.notices(known)]) == 1)
    assert not [*Span(cell_m=30.0).notices(known)]


@pytest.mark.parametrize(("maps", "columns"), [(1, 1000), (1000, 500)])
def test_exactly_as_many_places_as_are_possible_are_taken_and_one_column_more_is_refused(
    maps, columns
):
    """A million places, or half a thousand million numbers in all maps."""
    rows = 1000
    grid = PlaceGrid.over(Area(0.0, 0.0, 4.0 * columns, 4.0 * rows), 4.0, maps, "span")
    assert (grid.nx, grid.ny) == (columns, rows)
    with pytest.raises(BadInput, match=f"at most {columns * rows:,} are possible"):
        PlaceGrid.over(Area(0.0, 0.0, 4.0 * columns + 4.0, 4.0 * rows), 4.0, maps, "span")


def test_no_update_has_no_places_around():
    grid = PlaceGrid.over(AREA, 50, 1, "span")
    around = _around(grid, lambda place_m: np.ones((len(place_m), 7)), np.zeros((0, 2)))
    assert around.shape[:2] == (0, 7)
