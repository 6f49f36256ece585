"""Central privacy: fixed weights, noise at the server, and a clip norm that follows a quantile."""

from dataclasses import replace

import numpy as np
import pytest
from fl_values import build_local, build_updates
from numpy.testing import assert_allclose
from pydantic import ValidationError
from pytest import approx, raises

from fl.aggregation import Uniform
from fl.defenses.clip import AdaptiveClip, Clip
from fl.defenses.gaussian import CentralGaussian, CentralState, Gaussian
from fl.learners.rsrp_net import RsrpNet
from fl.privacy.gaussian import compute_gaussian_epsilon
from fl.privacy.ledger import Ledger
from fl.round.learning import Learning
from fl.types import Bound, LastFigures, Local, Public, Received, RoundContext
from netsim.geometry import Area
from netsim.radio.uplink import Cohort, Ideal, Payload
from netsim.rng import Streams

parametrize = pytest.mark.parametrize

PUBLIC = Public(Area(0.0, 0.0, 1.0, 1.0), 1)
K = 38
D = 261


def facts(round_=1, weight=1 / K, n_model=1):
    return RoundContext(round_, 0.0, Public(PUBLIC.area, n_model), weight=weight)


def rng(round_=1):
    return Streams(8).derive_rng("defense.x.server", round_)


def build_rows(values, model=None, ue=None):
    return build_updates(np.asarray(values, float), ue, model)


def build_local_of_rows(updates):
    return replace(build_local(updates.ue), model=updates.model)


def normal(n, d=D, size=1.0, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)) * size / np.sqrt(d)


def device(part, updates, state, context=None):
    context = facts() if context is None else context
    return part.protect(updates, build_local_of_rows(updates), context, state, rng())


class TestUniform:
    @parametrize("share", [1.0, 10 / 38])
    def test_a_missing_client_changes_nobody_elses_weight(self, share):
        part = Uniform(clients=K, participation=share)
        updates = build_rows(normal(5))
        for decoded in ([1, 1, 1, 1, 1], [1, 0, 1, 0, 0], [0, 0, 0, 0, 0]):
            heard = np.array(decoded, dtype=bool)
            weights, state = part.compute_weights(Received(updates, heard), facts(), part.start())
            assert_allclose(weights, np.where(heard, 1 / (share * K), 0.0), rtol=1e-15)
            assert state is None
            assert part.weight == approx(1 / (share * K), rel=1e-15)


class TestClip:
    """B1 of the specification."""

    @parametrize("part", [Clip(norm=0.5), AdaptiveClip(norm=0.5)], ids=["clip", "adaptive"])
    def test_norms_are_bounded_and_short_rows_are_untouched(self, part):
        values = np.concatenate([normal(20, size=0.3), normal(20, size=40.0), np.zeros((1, D))])
        updates = build_rows(values)
        clipped, _, spends = device(part, updates, part.start(41))
        assert (clipped.norm() <= 0.5).all()
        assert not spends
        assert clipped.bound == Bound(0.5, "user", "replace")
        short = updates.norm() < 0.5 * (1 - 1e-9)
        assert 20 <= short.sum() < 41
        np.testing.assert_array_equal(clipped.values[short], values[short])

    def test_one_client_without_clip_or_noise_is_local_training(self):
        """z -> 0, c -> infinity, K = 1: the global model goes where the only device went."""
        learner = RsrpNet(
            hidden=(10, 10, 10), activation="relu", learning_rate=1e-3, batch_size=5, local_epochs=5
        )
        model = learner.init(PUBLIC, Streams(1).derive_rng("learner.init"))
        draw = np.random.default_rng(1)
        alone = np.array([0])
        x = draw.random((30, 2))
        y = draw.normal(size=30)
        data = Local(alone, alone, np.array([0, 30]), x, y, np.zeros(30))
        updates = learner.train_locally(model, "all", data, Streams(1).derive_rng("learner.all", 1))
        clip = Clip(norm=1e12)
        noise = CentralGaussian(noise_multiplier=1e-300)
        merge = Uniform(clients=1)
        context = facts(weight=1.0)
        sent, _, _ = clip.protect(updates, data, context, clip.start(0), rng())
        sent, state, _ = noise.protect(sent, data, context, noise.start(0), rng())
        weights, _ = merge.compute_weights(
            Received(sent, np.ones(1, bool)), facts(weight=1.0), merge.start()
        )
        total = sent.sum_weighted(weights, 1)
        merged, _, _ = noise.finish(total, 1, context, state, rng())
        after = learner.step(model, "all", merged).parameters
        assert_allclose(after, model.parameters + updates.values, rtol=0, atol=1e-250)


class TestCentralGaussian:
    """B2 of the specification."""

    @parametrize("noise_on", ["sum", "average"])
    @parametrize("share", [1.0, 10 / 38])
    @parametrize("relation, factor", [("add-remove", 1.0), ("replace", 2.0)])
    def test_standard_deviation_and_what_is_booked(self, noise_on, share, relation, factor):
        z = 1.3
        c = 0.5
        weight = 1 / (share * K)
        part = CentralGaussian(noise_multiplier=z, noise_on=noise_on)
        updates = build_rows(normal(K))
        sent, _, _ = device(Clip(norm=c, relation=relation), updates, LastFigures())
        sent, state, spends = device(part, sent, part.start(0))
        assert not spends
        total = weight * sent.values.sum(axis=0, keepdims=True)
        result = []
        for round_ in range(100):
            context = facts(round_, weight)
            merged, state, (spend,) = part.finish(total, K, context, state, rng(round_))
            result.append(merged - total)
        expected = z * factor * c * (weight if noise_on == "sum" else 1.0)
        noise = np.array(result)
        assert noise.std() == approx(expected, rel=0.02)
        bound = 4 * expected / np.sqrt(noise.size)
        assert abs(noise.mean()) < bound
        assert spend.std[0] == approx(
            z * factor * c * (1.0 if noise_on == "sum" else share * K), rel=1e-12
        )
        assert spend.sensitivity.tolist() == [factor * c]
        assert (spend.ue[0], spend.unit, spend.relation, spend.delta) == (
            -1,
            "user",
            relation,
            1e-7,
        )
        assert state.figures["signal_to_noise"] == approx(
            np.linalg.norm(total) / np.linalg.norm(noise[-1]), rel=1e-9
        )

    def test_everybody_pays_for_every_model_in_every_round(self):
        """The exact cost of T rounds at q = 1 is one Gaussian with mu = sqrt(T) / z, whatever the
        clip norm."""
        for c in (0.1, 1.0):
            book = Ledger(3)
            part = CentralGaussian(noise_multiplier=5.0)
            sent, _, _ = device(
                Clip(norm=c, relation="add-remove"), build_rows(normal(3)), LastFigures()
            )
            _, state, _ = device(part, sent, part.start(0))
            for round_ in range(100):
                total = np.zeros((2, D))
                context = facts(round_, n_model=2)
                _, state, spends = part.finish(total, 3, context, state, rng(round_))
                book = book.add(spends)
            (statement,) = book.list_statements()
            expected = compute_gaussian_epsilon(1e-7, np.sqrt(200) / 5)
            assert_allclose(statement.epsilon, expected, rtol=1e-9)

    def test_rounds_and_models_have_noise_of_their_own(self):
        part = CentralGaussian(noise_multiplier=1.0)
        state = CentralState(Bound(1.0, "user", "replace"), np.zeros(2))
        first = part.finish(np.zeros((2, 5)), 3, facts(), state, rng(1))[0]
        second = part.finish(np.zeros((2, 5)), 3, facts(), state, rng(2))[0]
        assert len({tuple(row) for row in (*first, *second)}) == 4

    def test_a_round_in_which_nobody_was_heard_is_noise_too(self):
        part = CentralGaussian(noise_multiplier=1.0)
        nobody = build_rows(np.zeros((0, D)))
        sent, _, _ = device(Clip(), nobody, LastFigures())
        _, state, _ = device(part, sent, part.start(0))
        total = np.zeros((1, D))
        merged, _, spends = part.finish(total, 0, facts(), state, rng())
        assert merged.any()
        assert len(spends) == 1

    def test_needs_a_bound_and_a_fixed_weight(self):
        learner = RsrpNet(hidden=(4,))
        noise = CentralGaussian(noise_multiplier=1.0)
        fixed = Uniform(clients=4)
        for defenses in ((Clip(), noise), (AdaptiveClip(), Gaussian(epsilon=1.0), Clip(), noise)):
            Learning(round_s=60, learner=learner, defenses=defenses, aggregation=fixed)
        for defenses, aggregation, says in (
            ((noise,), fixed, "needs a bound"),
            ((noise, Clip()), fixed, "needs a bound"),
            ((Clip(), Gaussian(epsilon=1.0), noise), fixed, "needs a bound"),
            (
                (AdaptiveClip(), noise, Gaussian(epsilon=1.0)),
                fixed,
                "the variance of the sum shows who sends",
            ),
            ((Clip(), noise), None, "needs a fixed weight"),
            ((AdaptiveClip(relation="add-remove"),), None, "needs a fixed weight"),
        ):
            keys = {} if aggregation is None else {"aggregation": aggregation}
            with raises(ValidationError, match=says) as error:
                Learning(round_s=60, learner=learner, defenses=defenses, **keys)
            assert "\n" not in error.value.errors()[0]["msg"]
        updates = build_rows(normal(3))
        with raises(ValueError, match="no bound"):
            device(noise, updates, noise.start(0))
        with raises(ValueError, match="no fixed weight"):
            _, state, _ = device(noise, device(Clip(), updates, LastFigures())[0], noise.start(0))
            noise.finish(np.zeros((1, D)), 3, facts(weight=None), state, rng())


class TestAdaptiveClip:
    sizes = np.geomspace(0.05, 5.0, 200)

    def build_sizes(self):
        return build_rows(self.sizes[:, None] * np.eye(1, 6))

    def play(self, part, rounds, weight=1 / 200):
        state = part.start(200)
        path = []
        updates = self.build_sizes()
        for round_ in range(1, rounds + 1):
            path.append(part.promise_norm(state))
            context = facts(round_, weight)
            clipped, state, _ = part.protect(
                updates, build_local_of_rows(updates), context, state, rng(round_)
            )
            assert (clipped.norm() <= path[-1]).all()
            assert clipped.bound.norm == path[-1]
            total = np.zeros((1, 6))
            _, state, _ = part.finish(total, 200, context, state, rng(round_))
        return state, np.array(path)

    @parametrize("start", [1e-3, 300.0], ids=["from below", "from above"])
    @parametrize("quantile", [0.2, 0.9])
    @parametrize("noise", [1e-9, 5.0])
    def test_converges_to_the_quantile(self, start, quantile, noise):
        _, path = self.play(AdaptiveClip(norm=start, quantile=quantile, count_noise=noise), 400)
        share = np.mean(self.sizes <= np.median(path[-100:]))
        assert share == approx(quantile, abs=0.01 if noise < 1 else 0.03)
        if noise < 1:
            far = np.abs(np.log(path[:60] / np.quantile(self.sizes, quantile)))
            assert (np.diff(far[far > 0.5]) < 0).all()  # one way, never past it

    def test_the_update_is_the_printed_one(self):
        part = AdaptiveClip(norm=1.0, quantile=0.3, learning_rate=0.7, count_noise=1e-12)
        state, _ = self.play(part, 1)
        share = np.mean(self.sizes <= 1.0)
        assert state.excess == approx(200 * (share - 0.5), rel=1e-9)
        expected = np.exp(-0.7 * (share - 0.3))
        assert part.promise_norm(state) == approx(expected, rel=1e-9)

    @parametrize("relation, sensitivity", [("add-remove", 0.5), ("replace", 1.0)])
    def test_noise_is_on_the_count_and_booked(self, relation, sensitivity):
        part = AdaptiveClip(norm=1.0, count_noise=4.0, relation=relation)
        updates = self.build_sizes()
        shares = []
        _, state, _ = device(part, updates, part.start(200))
        for round_ in range(4000):
            total = np.zeros((1, 6))
            context = facts(round_, 1 / 200)
            _, after, (spend,) = part.finish(total, 200, context, state, rng(round_))
            shares.append(0.5 + after.excess / 200)
        assert np.std(shares) * 200 == approx(4.0, rel=0.04)
        expected = np.mean(self.sizes <= 1.0)
        assert np.mean(shares) == approx(expected, abs=4 * 4 / 200 / np.sqrt(4000))
        expected = (
            -1,
            4.0,
            sensitivity,
            relation,
        )
        assert (spend.ue[0], spend.std[0], spend.sensitivity[0], spend.relation) == expected

    def test_bits_of_lost_updates_count(self):
        """One bit of each UE that sends: who is lost, perhaps because of another, moves nothing."""
        part = AdaptiveClip(norm=1.0)
        updates = self.build_sizes()
        zero = np.zeros(200)
        ue = np.arange(200)
        cohort = Cohort(ue, 0 * ue, zero[:, None], None, zero, np.ones(200, int), zero, zero, zero)
        lost = Ideal().plan(cohort, Payload(32.0, 6, None)).stop_late(-1.0)
        assert not lost.decoded.any()
        _, state, _ = device(
            part, updates, part.start(200), replace(facts(weight=1 / 200), channel=lost)
        )
        np.testing.assert_array_equal(state.bits, self.sizes <= 1.0)

    @parametrize("relation, largest", [("add-remove", 0.5), ("replace", 1.0)])
    def test_one_user_moves_the_count_by_the_sensitivity_at_most(self, relation, largest):
        """Also one who sends a row to each of several models."""

        def count(values, ue, model):
            part = AdaptiveClip(norm=1.0, count_noise=1e-12, relation=relation)
            updates = build_rows(values, model, ue)
            context = facts(weight=1 / 50, n_model=3)
            _, state, _ = device(part, updates, part.start(5), context)
            return part.finish(np.zeros((3, 1)), len(ue), context, state, rng())[1].excess

        ue = np.array([0, 0, 0, 1, 2])
        model = np.array([0, 1, 2, 0, 1])
        with_ = count(np.array([[0.1], [0.1], [0.1], [9.0], [0.2]]), ue, model)
        without = count(np.array([[9.0], [0.2]]), ue[3:], model[3:])
        changed = count(np.array([[7.0], [8.0], [9.0], [9.0], [0.2]]), ue, model)
        neighbour = without if relation == "add-remove" else changed
        assert abs(with_ - neighbour) == approx(largest, abs=1e-6)

    def test_without_a_fixed_weight_the_share_is_of_those_who_were_heard(self):
        part = AdaptiveClip(norm=1.0, count_noise=1e-12)
        state, _ = self.play(part, 1, weight=None)
        expected = 200 * (np.mean(self.sizes <= 1.0) - 0.5)
        assert state.excess == approx(expected, rel=1e-9)
        nobody = build_rows(np.zeros((0, 6)))
        _, state, _ = device(part, nobody, part.start(3), facts(weight=None))
        assert part.finish(np.zeros((1, 6)), 0, facts(weight=None), state, rng())[1].norm == 1.0
