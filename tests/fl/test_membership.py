"""Membership: figures of merit against brute force, attacks on models that remember, and tests
inside a run."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from arrays import read_array
from hypothesis import given, settings
from hypothesis import strategies as st
from interrupted import run_in_two
from local_data import make_local
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx, mark
from rows import read_yaml
from scipy.stats import binomtest, rankdata
from tabled import cases

from fl.attacks.base import View
from fl.data.images import Images
from fl.data.measured import Measured
from fl.data.partitions import Dirichlet, LabelSkew
from fl.learners.rsrp_net import RsrpNet
from fl.learners.torch_net import TorchNet
from fl.membership.base import AskedRecords, GradientNorm, GradientRegression, LossThreshold
from fl.membership.membership import Membership, _centre_scores, _find_targets, infer_membership
from fl.membership.roc import (
    _compute_placements,
    compute_auc_with_interval,
    compute_tpr_percent_with_interval,
)
from fl.membership.shadow_models import Lira, Rmia
from fl.round import server
from fl.types import HeldOut, Model, Public, SampleFormat
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Streams
from netsim.ues import Observations
from scenarios.app.report.run_page import draw_roc
from scenarios.app.result import run
from scenarios.app.results.read import load_finished_run as load_run
from scenarios.app.study.load import load

RNG = Streams(3).derive_rng("membership", 1)
AREA = Area(0.0, 0.0, 1000.0, 800.0)
SHORT = read_yaml("""
    learning.rounds: 3, learning.data.campaign_rounds: 4, world.duration_s: 420,
    learning.learner.hidden: [8], learning.membership.every_rounds: 1
""")
SCORES = st.lists(st.integers(-5, 5), min_size=1, max_size=12)


def sides(member, second):
    """Scores of both sides in one row, and which are of members."""
    return np.concatenate([member, second]).astype(float), np.arange(
        len(member) + len(second)
    ) < len(member)


class TestRoc:
    @settings(max_examples=60, deadline=None)
    @given(SCORES, SCORES, st.randoms(use_true_random=False))
    def test_area_is_the_share_of_pairs_in_order(self, member, other, lot):
        score, is_member = sides(member, other)
        pairs = (np.array(member)[:, None] > other) + 0.5 * (np.array(member)[:, None] == other)
        result, low, high = compute_auc_with_interval(score, is_member)
        assert result == approx(pairs.mean(), abs=1e-12)
        assert 0 <= low <= result <= high <= 1
        before = np.array([lot.randint(-5, 5) for _ in score], float)
        change, low, high = compute_auc_with_interval(score, is_member, before=before)
        assert change == approx(result - compute_auc_with_interval(before, is_member)[0], abs=1e-12)
        assert low <= change <= high
        assert compute_auc_with_interval(score, is_member, before=score)[0] == 0.0

    @mark.parametrize("nan_at", [None, 0, 7])
    def test_placements_have_the_bits_of_ranks(self, nan_at):
        score = RNG.uniform("ranks", [0], (40,))[0].round(1)
        score[3] = np.inf
        if nan_at is not None:
            score[nan_at] = np.nan
        member = np.arange(40) % 3 == 0
        expected = rankdata(score)
        for side in (member, ~member):
            expected[side] = (expected[side] - rankdata(score[side])) / (40 - side.sum())
        expected = np.where(member, expected, 1 - expected)
        assert_array_equal(_compute_placements(score, member), expected)

    def test_ends(self):
        high = np.arange(10.0, 20.0)
        low = np.arange(10.0)
        assert compute_auc_with_interval(*sides(high, low)) == (1.0, 1.0, 1.0)
        assert compute_auc_with_interval(*sides(low, high))[0] == 0.0
        assert np.isnan(compute_auc_with_interval(*sides(high, []))).all()
        assert np.isnan(compute_tpr_percent_with_interval(*sides([], low))).all()

    def test_the_interval_covers_the_truth_as_often_as_it_says(self):
        """Members N(1, 1), others N(0, 1): the area is Phi(1 / sqrt 2) = 0.7602."""
        draw = default_rng(1)
        result = [
            compute_auc_with_interval(*sides(draw.normal(1, 1, 60), draw.normal(0, 1, 90)))
            for _ in range(400)
        ]
        covered = np.mean([low <= 0.76025 <= high for _, low, high in result])
        assert 0.92 < covered < 0.975

    def test_true_positives_at_one_percent(self):
        """200 others, 2 of which may be taken for members: the threshold is the third largest."""
        both = sides([196.5, 197.0, 197.5, 500.0], np.arange(200.0))
        assert compute_tpr_percent_with_interval(*both)[0] == 50.0
        assert compute_tpr_percent_with_interval(*both, fpr=0.0)[0] == 25.0
        share, low, high = compute_tpr_percent_with_interval(*both)
        assert low < share < high

    @mark.parametrize(
        "found, members",
        cases("""
        0, 7
        7, 7
        3, 200
        199, 200
        1, 1
        40000, 40000
    """),
    )
    def test_the_interval_of_a_rate_is_that_of_wilson(self, found, members):
        both = sides(np.arange(members) < found, np.zeros(5))
        wilson = binomtest(found, members).proportion_ci(method="wilson")
        expected = 100 * np.array(wilson)
        assert_allclose(
            compute_tpr_percent_with_interval(*both)[1:], expected, rtol=1e-9, atol=1e-9
        )

    def test_records_of_a_group_count_as_one(self):
        """Every record repeated five times: the interval is that of the single ones; five times as
        many win nothing."""
        score, member = sides(default_rng(4).normal(0.5, 1, 30), default_rng(5).normal(0, 1, 25))
        before = score[::-1]
        five = [np.repeat(x, 5) for x in (score, member, np.arange(55))]
        assert_allclose(
            compute_auc_with_interval(*five), compute_auc_with_interval(score, member), rtol=1e-12
        )
        assert_allclose(
            compute_tpr_percent_with_interval(*five),
            compute_tpr_percent_with_interval(score, member),
            rtol=1e-12,
        )
        changed = compute_auc_with_interval(score, member, before=before)
        assert_allclose(
            compute_auc_with_interval(*five, np.repeat(before, 5)), changed, rtol=1e-12, atol=1e-15
        )
        assert np.diff(compute_auc_with_interval(*five[:2])[1:]) < 0.6 * np.diff(
            compute_auc_with_interval(score, member)[1:]
        )

    def test_pairs_of_one_class_share_what_the_class_decides(self):
        """40 pairs in two classes far apart, where nothing tells members: 95 % coverage, and more
        by sides."""
        covered = []
        half = []
        for seed in range(200):
            draw = default_rng(seed)
            shift = np.repeat([0.0, 3.0], 20)
            both = sides(*(draw.normal(size=40) + shift for _ in range(2)))
            result = [
                compute_auc_with_interval(
                    *both, np.concatenate([np.arange(40), ours + np.arange(40)])
                )
                for ours in (0, 40)
            ]
            covered.append([low <= 0.5 <= high for _, low, high in result])
            half.append([high - low for _, low, high in result])
        paired, single = np.mean(covered, axis=0)
        assert 0.93 < paired < 0.98 < 0.99 < single
        assert np.mean(half, axis=0)[0] < 0.75 * np.mean(half, axis=0)[1]


LEARNER = RsrpNet(
    hidden=(64, 64), activation="relu", labels="standardised", learning_rate=0.1, local_epochs=1000
)


ONE_EPOCH = LEARNER.model_copy(update={"local_epochs": 1})


def campaign(n_ue=2, n=10):
    """Random labels: whoever knows them has learnt them by heart."""
    draw = default_rng(5)
    n_rows = n_ue * n
    x = draw.random((n_rows * 2, 2)) * [1000, 800]
    y = -95 + 9 * draw.normal(size=n_rows * 2)
    ue = np.repeat(np.arange(n_ue), n)
    local = make_local([n] * n_ue, x[:n_rows], y[:n_rows])
    return local, HeldOut(ue, 0 * ue, x[n_rows:], y[n_rows:], 0 * ue)


def show_rows(observes, rows, local, before, after, learner):
    """The view of these rows of all UEs, or of their mean."""
    ue = local.ue
    model = local.model
    source = np.arange(len(ue))
    of_rows = model
    if observes != "updates":
        rows = rows.mean(axis=0, keepdims=True)
        source = 0 * ue
        of_rows = model[:1]
    return View(observes, "all", rows, of_rows, ue, model, source, before, after, learner)


def make_view(observes, local, trained):
    before = trained.init(Public(AREA, 1), RNG)
    rows = trained.train_locally(before, "all", local, RNG).rows(slice(None))
    after = trained.step(before, "all", rows.mean(axis=0, keepdims=True))
    return show_rows(observes, rows, local, before, after, trained)


def show_untrained(net, local, seed):
    """The view of a model that moves to another random one."""
    draw = Streams(seed).derive_rng
    before, after = (net.init(Public(AREA, 1), draw(name)) for name in ("first", "second"))
    step = after.parameters - before.parameters
    return show_rows("model", step, local, before, after, net)


def take_data(data, seen, n_ue, seed):
    """What a first round leaves to learn from, and what it holds out."""
    draw = Streams(seed).derive_rng
    state = data.start(n_ue, draw("data"))
    taken, _ = data.take(seen, np.zeros(1, int), state, draw("data", 1))
    return taken.train, taken.held_out


def covers_chance(row):
    return row["auc_low"] <= 0.5 <= row["auc_high"]


LOWEST = 0.95 - 2 * np.sqrt(0.95 * 0.05 / 100)
"""coverage of 100 intervals of 95 %, less two deviations"""


class TestInference:
    part = Membership(attacks=(LossThreshold(), GradientNorm()))

    def test_a_device_that_learns_by_heart_is_found_out_by_the_server_and_less_by_who_sees_the_average(
        self,
    ):
        local, rest = campaign()
        view = make_view("updates", local, LEARNER)
        rows, _ = infer_membership(self.part, view, local, rest, RNG)
        view = make_view("model", local, LEARNER)
        total, _ = infer_membership(self.part, view, local, rest, RNG)
        for row in rows:
            assert row["members"] == row["non_members"] == 20
            assert row["sees"] == "updates"
            assert row["auc"] > 0.7
            assert row["auc_low"] > 0.55
        assert total[0]["auc"] < rows[0]["auc"]

    @mark.parametrize(
        "overlap, members",
        cases("""
        1.0, 40
        0.5, 20
        0.1, 4
    """),
    )
    def test_overlap_is_the_share_that_the_attacker_holds(self, overlap, members):
        local, rest = campaign(n=20)
        part = Membership(attacks=(LossThreshold(),), known_member_share=overlap)
        view = make_view("model", local, ONE_EPOCH)
        ((row,), _) = infer_membership(part, view, local, rest, RNG)
        assert row["members"] == row["non_members"] == members

    def test_only_who_was_heard_is_asked_about(self):
        local, rest = campaign()
        whole = make_view("updates", local, ONE_EPOCH)
        for heard, members in (([1], 10), ([], 0)):
            columns = {
                name: getattr(whole, name)[heard]
                for name in ("update", "source_model", "ue", "model")
            }
            view = replace(whole, source=np.arange(len(heard)), **columns)
            row = infer_membership(self.part, view, local, rest, RNG)[0][0]
            assert row["members"] == members
            assert np.isnan(row["auc"]) == (members == 0)

    def test_scores_count_from_the_median_of_the_device(self):
        score = read_array("5.0 1 9 100 102 101 104 -3")
        device = read_array("0 0 0 1 1 1 1 2")
        expected = read_array("0 -4 4 -1.5 0.5 -0.5 2.5 0")
        shuffled = default_rng(2).permutation(8)
        assert_allclose(_centre_scores(score[shuffled], device[shuffled]), expected[shuffled])

    def test_a_device_that_all_records_fit_badly_hides_nobody(self):
        """Members score 1 above the others of their device, and devices lie 100 apart: every member
        is found."""

        class Told(LossThreshold):
            def score(self, requested):
                return requested.x[:, 0]

        devices = np.arange(4)
        n = 10
        base = 100.0 * np.repeat(devices, n) + np.tile(np.linspace(0, 0.5, n), 4)
        inside = np.stack([base + 1.0, base], axis=1)
        outside = np.stack([base, base], axis=1)
        ue = np.repeat(devices, n)
        local = make_local([n] * 4, inside, 0.0 * ue)
        view = make_view("updates", local, ONE_EPOCH)
        held_out = HeldOut(ue, 0 * ue, outside, 0.0 * ue, 0 * ue)
        ((row,), _) = infer_membership(Membership(attacks=(Told(),)), view, local, held_out, RNG)
        assert row["members"] == row["non_members"] == 40
        assert row["auc"] == 1.0
        assert row["tpr_percent"] == 100.0


def hold_out(unit, seed, n=600):
    """Two UEs that walk in sessions with pauses between: what is learnt from, what is held out, and
    the data."""
    data = Measured(hold_out_by=unit, hold_out=0.3)
    draw = default_rng(seed)
    step = np.cumsum(draw.normal(size=(2 * n, 2)) * 40, axis=0) + draw.random(2) * 1000
    x = np.abs(
        (step + np.repeat(draw.random((2 * n // 20, 2)) * 2000, 20, axis=0)) % 2000 - 1000
    ) * [1.0, 0.8]
    time_s = np.tile(
        np.arange(n) * 60.0 + np.arange(n) // 20 * (86_400 if unit == "day" else 7200), 2
    )
    field = draw.normal(size=(6, 2)) / 150
    y = -95 + 6 * np.sin(x @ field.T + draw.random(6)).sum(axis=1)
    seen = Observations(np.repeat([0, 1], n), time_s, x, np.zeros(2 * n, int), y)
    return *take_data(data, seen, 2, seed), data


@mark.parametrize("how", ["sample", "session"])
def test_a_model_that_learns_nothing_adds_nothing(how):
    """100 seeds of a model that moves to another random one: the difference's interval covers 0 in
    95 % of them."""
    part = Membership(attacks=(LossThreshold(),))
    net = RsrpNet(hidden=(8,), activation="tanh", labels="standardised")
    covered = []
    plain = []
    still = []
    for seed in range(100):
        local, rest, data = hold_out(how, seed)
        view = show_untrained(net, local, seed)
        before = view.model_before
        wholes = data.number_wholes if data.holds_out_wholes else None
        ((row,), _) = infer_membership(part, view, local, rest, RNG, before, wholes)
        assert row["auc_difference"] == approx(row["auc"] - row["auc_before"], abs=1e-12)
        covered.append(row["auc_difference_low"] <= 0 <= row["auc_difference_high"])
        ((alone,), _) = infer_membership(part, view, local, rest, RNG, before)
        plain.append(covers_chance(alone))
        if seed < 3:
            ((same,), _) = infer_membership(
                part, replace(view, model_after=before), local, rest, RNG, before, wholes
            )
            still.append([same[f"auc_difference{end}"] for end in ("", "_low", "_high")])
    assert np.mean(covered) >= LOWEST
    assert not np.any(still)  # untrained
    # taken one by one, records of one place promise too much
    assert how == "sample" or np.mean(plain) < 0.8


IMAGES = SampleFormat((1, 8, 8), 10, 255.0)
SMALL_NET = TorchNet(
    module="perceptron", arguments={"hidden": [8]}, batch_share=0.1, device="cpu"
).prepare(IMAGES, True)


def images(partition, seed, n_ue=15):
    """What devices hold of the digits, and what nobody holds."""
    ue = np.arange(n_ue)
    nowhere = np.zeros((n_ue, 2))
    seen = Observations(ue, 0.0 * ue, nowhere, 0 * ue, 0.0 * ue)
    return take_data(Images(partition=partition), seen, n_ue, seed)


PARTITIONS = {"model": Dirichlet(alpha=0.3), "updates": LabelSkew(iid=3, labels=2)}


@mark.parametrize("observes", PARTITIONS)
def test_classes_are_no_membership(observes):
    """100 seeds of networks that learn nothing, each device's its own: areas are 0.5, in 95 % by
    their intervals.

    Every such network knows some classes better than others, and members are of other classes than
    all held-out images.
    """
    part = Membership(
        attacks=(LossThreshold(), LossThreshold(name="fall", reference_model="before"))
    )
    net = SMALL_NET
    areas = []
    covered = []
    public = Public(AREA, 1, samples=IMAGES)
    for seed in range(100):
        local, rest = images(PARTITIONS[observes], seed)
        draw = Streams(seed).derive_rng
        before = net.init(public, draw("first"))
        networks = net.init(replace(public, n_model=15), draw("second"))
        random = networks.parameters - before.parameters
        after = Model(before.parameters + random[:1], before.constants)
        view = show_rows(observes, random, local, before, after, net)
        rows, _ = infer_membership(part, view, local, rest, draw("membership"))
        assert {row["members"] == row["non_members"] for row in rows} == {True}
        areas.append([row["auc"] for row in rows])
        covered.append([*map(covers_chance, rows)])
    for area, share in zip(np.transpose(areas), np.mean(covered, axis=0), strict=True):
        assert abs(share - 0.95) <= 1.3 * (0.95 - LOWEST)
        assert area.mean() == approx(0.5, abs=3 * area.std() / 10)


@mark.parametrize("overlap", [1.0, 0.1])
def test_pairs_are_of_one_class_and_one_device_and_no_record_is_in_two(overlap):
    """A score that tells class and device of each record: members and others then have the same
    scores."""
    local, rest = images(Dirichlet(alpha=0.3), 1)
    requested = []

    class Told(LossThreshold):
        def score(self, query):
            requested.append((query.x, query.y, query.model_of))
            return 100.0 * query.model_of + query.y

    before = SMALL_NET.init(Public(AREA, 1, samples=IMAGES), RNG)
    still = np.zeros((15, before.parameters.shape[1]))
    view = show_rows("updates", still, local, before, before, SMALL_NET)
    ((row,), _) = infer_membership(
        Membership(attacks=(Told(),), known_member_share=overlap), view, local, rest, RNG
    )
    ((x, classes, owner),) = requested
    second = row["non_members"]
    first = len(x) - second
    assert first == approx(overlap * len(local.x), abs=8)
    assert row["members"] == second > 100
    assert row["auc"] == 0.5
    assert np.isin(owner[first:], owner[:first]).all()
    if overlap == 1.0:  # all held-out images, since every class has more members
        assert_array_equal(np.sort(classes[first:]), np.sort(rest.y))


class TestRegression:
    """Which records a sum of gradients is made of: exact without noise, at chance without
    training."""

    net = RsrpNet(hidden=(16, 12), activation="tanh", labels="standardised")

    @mark.parametrize("activation", ["tanh", "relu"])
    def test_gradients_of_measurements_and_their_norms_are_those_of_torch(self, activation):
        part = self.net.model_copy(update={"activation": activation})
        (local, _) = campaign(1, 6)
        model = part.init(Public(AREA, 1), RNG)
        zeros = np.zeros(6, int)
        result = part.compute_record_gradients(model, zeros, local.x, local.y)
        z, target = part._prepare_samples(model, zeros, local.x, local.y)
        for i in range(6):
            w = torch.from_numpy(model.parameters).requires_grad_()
            answer = part.net.forward(w, torch.from_numpy(z[[i]])[None])[0]
            loss = (answer - float(target[i])) ** 2
            slope = torch.autograd.grad(loss.sum(), w)[0][0].numpy()
            losses = part.compute_record_losses(model, zeros[:1], local.x[[i]], local.y[[i]])
            assert losses[0] == approx(loss.item(), rel=1e-10)
            assert_allclose(result[i], slope, rtol=1e-12, atol=1e-12 * np.abs(slope).max())
        expected = part.compute_record_gradient_norms(model, zeros, local.x, local.y)
        assert_allclose(
            np.linalg.norm(result, axis=1),
            expected,
            1e-12,
        )

    def test_gradients_of_images_are_those_of_torch(self):
        part = SMALL_NET
        draw = default_rng(1)
        shape = SampleFormat((1, 3, 4), 5, 255.0)
        model = part.init(Public(AREA, 2, samples=shape), RNG)
        x = draw.integers(0, 256, (7, 12), dtype=np.uint8)
        y = draw.integers(0, 5, 7).astype(float)
        models = read_array("0 1 0 1 0 1 1")
        result = part.compute_record_gradients(model, models, x, y)
        for i, m in enumerate(models):
            w = torch.from_numpy(model.parameters[[m]]).requires_grad_()
            w1, b1, w2, b2 = torch.split(w[0], [96, 8, 40, 5])
            hidden = torch.relu(w1.view(8, 12) @ torch.from_numpy(x[i] / 255.0) + b1)
            logits = (w2.view(5, 8) @ hidden + b2)[None]
            label = torch.tensor([int(y[i])])
            loss = torch.nn.functional.cross_entropy(logits, label)
            slope = torch.autograd.grad(loss, w)[0][0].numpy()
            assert_allclose(result[i], slope, rtol=1e-5, atol=1e-6 * np.abs(slope).max())

    def rounds(self, count, noise, seed, learn=True, observes="updates"):
        """Areas in rounds whose updates are one step on the members, or noise alone; and what is
        known."""
        local, rest = campaign()
        part = Membership(attacks=(GradientRegression(coefficient_std=0.03),))
        draw = default_rng(seed)
        states = part.start()
        result = []
        for number in range(count):
            start = self.net.init(Public(AREA, 1), Streams(seed).derive_rng("start", number))
            view = make_view(observes, local, self.net)
            g = self.net.compute_record_gradients(
                start, np.zeros(len(local.x), int), local.x, local.y
            )
            u = np.stack([-0.01 * g[local.row_of_sample == i].sum(axis=0) for i in range(2)])
            u = (u if observes == "updates" else u.mean(axis=0, keepdims=True)) * learn
            u = u + noise * draw.normal(size=u.shape)
            view = replace(view, model_before=start, update=u)
            ((row,), states) = infer_membership(part, view, local, rest, RNG, states=states)
            result.append(row)
        return result, states

    @mark.parametrize("observes", ["updates", "aggregate"])
    def test_without_noise_every_member_is_told(self, observes):
        (row,), _ = self.rounds(1, 0.0, 1, observes=observes)
        assert row["auc"] > 0.99
        assert row["sees"] == observes

    def test_under_noise_rounds_add_up(self):
        """A round alone tells little; the evidence of twenty is what one regression over all of
        them gives."""
        rows, states = self.rounds(20, 0.01, 2)
        assert rows[0]["auc"] < 0.75 < 0.78 < rows[-1]["auc"]
        (evidence,) = states.values()
        assert len(evidence.pull) == 40
        assert (np.linalg.eigvalsh(evidence.precision) > -1e-9).all()

    def test_two_rounds_are_least_squares_with_coefficients_that_change(self):
        local, rest = campaign(1, 8)
        attack = GradientRegression(coefficient_std=0.01)
        draw = default_rng(3)
        x = np.concatenate([local.x, rest.x])
        y = np.concatenate([local.y, rest.y])
        state = attack.start()
        left = np.eye(16) / 0.01**2
        right = np.zeros(16)
        for number in range(2):
            start = self.net.init(Public(AREA, 1), Streams(9).derive_rng("start", number))
            view = make_view("updates", local, self.net)
            u = 0.1 * draw.normal(size=view.update.shape)
            view = replace(view, model_before=start, update=u)
            score, state = attack.regress(view, np.zeros(16, int), x, y, state)
            g = self.net.compute_record_gradients(start, np.zeros(16, int), x, y)
            s2 = np.mean(u**2)
            gram = g @ g.T
            for _ in range(2):
                c = np.linalg.solve(gram / s2 + np.eye(16) / 0.01**2, -(g @ u[0]) / s2)
                s2 = np.mean((u[0] + c @ g) ** 2)
            # of the estimate of a round about c
            spread = np.linalg.inv(gram / s2) + 0.01**2 * np.eye(16)
            left = left + np.linalg.inv(spread)
            right = right - np.linalg.solve(spread, np.linalg.solve(gram, g @ u[0]))
        assert_allclose(score, np.linalg.solve(left, right), rtol=1e-6)
        # records asked in another order, some no more: the others keep what is known
        order = draw.permutation(16)[:9]
        kept = state.select_records(np.column_stack([np.zeros((16, 2)), y, x])[order])
        assert_array_equal(kept.precision, state.precision[np.ix_(order, order)])

    def test_updates_of_noise_alone_are_at_chance_in_100_seeds(self):
        rows = [self.rounds(1, 0.3, seed, learn=False)[0][0] for seed in range(100)]
        area = [row["auc"] for row in rows]
        assert np.mean([*map(covers_chance, rows)]) >= LOWEST
        assert np.mean(area) == approx(0.5, abs=3 * np.std(area) / 10)


class Retrained:
    """A replica without defenses: UEs learn from the models before, or from `base`, and their mean
    is merged."""

    def __init__(self, view):
        self.view = view
        self.played = []

    def play(self, data, state, rng, base=None):
        start = base or self.view.model_before
        updates = self.view.learner.train_locally(start, "all", data, rng)
        rows = updates.rows(slice(None))
        self.played.append((data, rng, rows))
        total = updates.sum_weighted(np.full(len(rows), 1.0 / len(rows)), 1)
        learner = self.view.learner
        after = learner.step(start, "all", total)
        return show_rows(self.view.vantage, rows, data, start, after, learner), state


class TestShadowModels:
    def ask_records(self, loss, of_models, inside, nats=False):
        learner = SMALL_NET if nats else LEARNER

        class Known(AskedRecords):
            def compute_losses(self, model):
                return loss

        return Known(learner, None, None, None, None, None, lambda: (of_models, inside))

    @mark.parametrize("nats", [True, False])
    @mark.parametrize("models", [8, 4000])
    def test_lira_of_known_normal_laws_is_the_likelihood_ratio(self, nats, models):
        """phi is N(mu + 1, 0.5^2) of models with the record and N(mu, 0.5^2) without: the ratio is
        4 phi - 4 mu - 2."""
        draw = default_rng(1)
        n = 300
        mu = draw.normal(-3 if not nats else 0, 1 if nats else 0.3, n)
        inside = np.argsort(draw.random((n, models)), axis=1) < models // 2
        phi = mu[:, None] + inside + 0.5 * draw.normal(size=inside.shape)
        own_phi = mu + 0.5 * draw.normal(size=n)
        if not nats:
            phi = np.minimum(phi, -1e-3)
            own_phi = np.minimum(own_phi, -1e-3)

        def loss(value):
            return np.log1p(np.exp(-value)) if nats else -(value**3)

        requested = self.ask_records(loss(own_phi), loss(phi), inside, nats)
        log = []
        for is_used in (inside, ~inside):
            law = np.ma.array(phi, mask=~is_used)
            variance = law.var(axis=1, ddof=1).data
            if models < 64:
                variance = np.full(n, variance.mean())
            away = own_phi - law.mean(axis=1).data
            log.append(-0.5 * (away**2 / variance + np.log(variance)))
        assert_allclose(Lira().score(requested), log[0] - log[1], rtol=1e-6, atol=1e-6)
        offline = Lira(mode="offline").score(requested)
        assert_allclose(offline, away / np.sqrt(variance), rtol=1e-6, atol=1e-9)
        if models == 4000:
            expected = 4 * (own_phi - mu) - 2
            assert_allclose(Lira().score(requested), expected, atol=1.0)

    @mark.parametrize("a", [None, 0.3])
    def test_rmia_orders_records_as_pairs_with_the_population_do(self, a):
        draw = default_rng(2)
        n = 40
        models = 8
        inside = np.argsort(draw.random((n, models)), axis=1) < models // 2
        loss = draw.exponential(size=n)
        of_models = draw.exponential(size=(n, models))
        ratio = []
        for i in range(n):
            likely = np.exp(-of_models[i])
            with_it = likely[inside[i]].mean()
            without = likely[~inside[i]].mean()
            if a is None:
                q = (with_it + without) / 2
            else:
                q = ((1 + a) * without + 1 - a) / 2
            ratio.append(np.exp(-loss[i]) / q)
        ratio = np.array(ratio)
        share = (ratio[:, None] >= ratio).mean(axis=1)
        score_records = Rmia(offline_a=a).score
        score = score_records(self.ask_records(loss, of_models, inside, nats=True))
        assert_allclose(score, np.log(ratio / 2), rtol=1e-9)
        assert_array_equal(np.argsort(score), np.argsort(share))
        squared = score_records(self.ask_records(loss, of_models, inside))
        scaled = 2 * of_models.mean()
        again = self.ask_records(loss / scaled, of_models / scaled, inside, nats=True)
        assert_allclose(squared, score_records(again), rtol=1e-12)

    def test_what_one_threshold_hides_is_found_at_a_tenth_of_a_percent(self):
        """Log-odds of records are N(0, 2^2), those of members one higher: 16 models tell, the loss
        does not."""
        draw = default_rng(3)
        n = 3000
        models = 16
        member = np.arange(n) < n // 2
        hard = draw.normal(0, 2, n)
        inside = np.argsort(draw.random((n, models)), axis=1) < models // 2
        of_models = np.log1p(
            np.exp(-(hard[:, None] + inside + 0.2 * draw.normal(size=inside.shape)))
        )
        own_loss = np.log1p(np.exp(-(hard + member + 0.2 * draw.normal(size=n))))
        requested = self.ask_records(own_loss, of_models, inside, nats=True)
        power = []
        for attack in (Lira(), Lira(mode="offline"), Rmia()):
            score = attack.score(requested)
            power.append(compute_tpr_percent_with_interval(score, member, fpr=0.001)[0])
        assert (
            compute_tpr_percent_with_interval(-own_loss, member, fpr=0.001)[0] < 1 < 20 < min(power)
        )

    @mark.parametrize(
        "n, there",
        cases("""
        1000, True
        999, False
    """),
    )
    def test_a_tenth_of_a_percent_needs_a_thousand_non_members(self, n, there):
        """A signal planted in a tenth of the members; of fewer non-members the rate cannot be
        known."""
        draw = default_rng(4)
        x = draw.random((2 * n, 2)) * 800
        ue = np.zeros(n, int)
        local = make_local([n], x[:n], 0.0 * ue)
        rest = HeldOut(ue, ue, x[n:], np.zeros(n), ue)
        planted = {tuple(row) for row in x[: n // 10]}

        class Told(LossThreshold):
            def score(self, query):
                signal = np.array([tuple(row) in planted for row in query.x])
                return 10.0 * signal + draw.random(len(query.x))

        view = make_view("model", local, ONE_EPOCH)
        ((row,), _) = infer_membership(Membership(attacks=(Told(),)), view, local, rest, RNG)
        assert row["tpr_percent"] == approx(10, abs=2)
        result = [row[f"strict_tpr_percent{end}"] for end in ("_low", "", "_high")]
        if there:
            assert result[0] < result[1] < result[2]
            assert result[1] == approx(10, abs=1)
        else:
            assert np.isnan(result).all()
        false = np.array(row["false_positive_percent"])
        true = np.array(row["true_positive_percent"])
        assert false[0] == 0.1
        assert false[-1] < 80
        assert np.isnan(true[0]) != there
        assert true[-1] > 70
        assert (np.diff(true[np.isfinite(true)]) >= 0).all()
        assert true[10] == approx(row["tpr_percent"], abs=1)

    @mark.parametrize("observes", ["updates", "model"])
    def test_they_learn_from_random_halves_of_what_the_attacker_holds(self, observes):
        """Each record is in half of the models, all UEs train in one call, and as they would one by
        one."""
        local, rest = campaign()
        net = LEARNER.model_copy(update={"local_epochs": 50})
        view = make_view(observes, local, net)
        replica = Retrained(view)
        part = Membership(attacks=(Lira(), Rmia()), shadow_models=6)
        view = replace(view, replica=replica)
        (lira, rmia), _ = infer_membership(
            part, view, local, rest, RNG, view.model_before, played=3
        )
        rounds = 1 if observes == "updates" else 3
        assert len(replica.played) == 6 * rounds
        seen = {tuple(row): 0 for row in np.concatenate([local.x, rest.x])}
        for data, rng, rows in replica.played:
            assert data.ue.tolist() == [0, 1]
            for row in data.x:
                seen[tuple(row)] += 1
            for i in range(2 if observes == "updates" else 0):
                data_i = data.select(np.array([i]))
                alone = net.train_locally(view.model_before, "all", data_i, rng)
                assert_array_equal(alone.rows(slice(None))[0], rows[i])
        assert set(seen.values()) == {3 * rounds}
        assert observes == "model" or min(lira["auc"], rmia["auc"]) > 0.75

    @mark.parametrize("learn", [True, False])
    def test_models_that_learn_nothing_are_at_chance_in_100_seeds(self, learn):
        """Shadow models learn or not; the model that is asked is a random one."""
        covered = []
        net = RsrpNet(
            hidden=(8,),
            activation="tanh",
            labels="standardised",
            local_epochs=5,
            learning_rate=0.1 * learn + 1e-9,
        )
        attacks = (Lira(), Rmia(), Lira(name="off", mode="offline"))
        part = Membership(attacks=attacks, shadow_models=4)
        for seed in range(100):
            local, rest, _ = hold_out("sample", seed)
            view = show_untrained(net, local, seed)
            view = replace(view, replica=Retrained(view))
            rng = Streams(seed).derive_rng("membership")
            rows, _ = infer_membership(part, view, local, rest, rng, view.model_before)
            covered.append([*map(covers_chance, rows)])
        assert (np.mean(covered, axis=0) >= LOWEST).all()

    @mark.parametrize(
        "wrong, said",
        cases("""
        {"learning.threat.knowledge": ["weights"]},
            "lira needs training details: it trains shadow models as UEs do"
        {"learning.threat.knowledge": ["training"]},
            "lira needs starting weights: its shadow models start there"
        {"learning.data": {"kind": "measured", "hold_out_by": "block", "memory": "all"}},
            "other models than those"
    """),
    )
    def test_what_it_cannot_know_is_refused(self, wrong, said):
        attacks = {"learning.membership.attacks": [{"kind": "lira"}]}
        with pytest.raises(BadInput, match=said):
            load("rsrp-dp/membership", SHORT | attacks | wrong)

    @mark.parametrize("optimiser", ["fedavg", "fedadam"])
    def test_the_replica_of_all_rounds_plays_the_published_model(
        self, tmp_path, monkeypatch, optimiser
    ):
        """With the true records of all UEs, and full batches, the attacker's models are those of
        the server."""
        result = []

        def look(part, view, local, held_out, rng, initial, wholes, states, played):
            base = initial
            past = None
            for number in range(played):
                single = replace(rng, purpose=f"again.{number}")
                seen, past = view.replica.play(local, past, single, base)
                base = seen.model_after
            result.append((base.parameters, view.model_after.parameters))
            return [], {}

        monkeypatch.setattr(server, "infer_membership", look)
        changes = SHORT | {"learning.server_optimiser": {"kind": optimiser}}
        run(load("rsrp-dp/membership", changes), tmp_path / "a")
        assert len(result) == 3
        for own_rows, outside in result:
            assert_allclose(own_rows, outside, rtol=1e-9, atol=1e-12)

    def test_an_interrupted_run_ends_in_the_same_bytes_and_the_page_has_the_curves(self, tmp_path):
        attacks = [{"kind": "lira"}, {"kind": "rmia"}]
        membership = {"attacks": attacks, "shadow_models": 4}
        changes = {f"learning.membership.{key}": value for key, value in membership.items()}
        study = load("rsrp-dp/membership", SHORT | changes)
        whole = tmp_path / "whole"
        figures = run(study, whole)
        run_in_two(study, tmp_path / "two", lambda current: current.done == 6)
        rows, curves = (_read_same(table, whole, tmp_path / "two") for table in TABLES)
        assert len(curves) == 30 * len(rows)
        assert figures["membership.lira.strict_tpr_percent.last"] is None
        low, high = (figures[f"membership.lira.tpr_percent.{end}"] for end in ("low", "high"))
        assert low < high
        (panel,) = draw_roc(load_run(whole))
        assert [trace["name"] for trace in panel.figure["data"]] == ["chance", "lira", "rmia"]
        layout = panel.figure["layout"]
        assert layout["xaxis"]["type"] == layout["yaxis"]["type"] == "log"


TABLES = ("membership.csv", "roc.csv")


def _read_same(table, first, second):
    """A table that has the same bytes in two folders."""
    assert (first / table).read_bytes() == (second / table).read_bytes()
    return pd.read_csv(first / table)


def test_a_session_is_one_whole_whoever_holds_it():
    local, rest, data = hold_out("session", 1)
    ue = np.concatenate([local.ue[local.row_of_sample], rest.ue])
    number = data.number_wholes(
        ue, np.concatenate([local.x, rest.x]), np.concatenate([local.time_s, rest.time_s])
    )
    inside = set(number[: len(local.x)])
    outside = set(number[len(local.x) :])
    # 2 UEs, 30 sessions of 20 measurements
    assert not inside & outside
    assert len(inside | outside) == 60


def test_what_is_found_is_recorded_and_changes_nothing_else(tmp_path):
    short = {k: v for k, v in SHORT.items() if k != "learning.membership.every_rounds"}
    result = run(load("rsrp-dp/membership", short), tmp_path / "a")
    plain = run(load("rsrp-dp/membership", short | {"learning.membership": None}), tmp_path / "b")
    rows = pd.read_csv(tmp_path / "a" / "membership.csv").set_index("attack")
    assert rows.index.tolist() == ["loss-threshold", "gradient-norm", "loss-drop"]
    columns = ["auc.last", "auc_before.last", "auc_difference.low"]
    for name, key in itertools.product(rows.index, columns):
        value = result[f"membership.{name}.{key}"]
        expected = rows[key.removesuffix(".last").replace(".", "_")][name]
        assert (np.nan if value is None else value) == approx(expected, nan_ok=True)
    assert rows.auc_before.isna().tolist()[::2] == [False, True]
    for table in ("rounds.csv", "updates.csv", "metrics.csv"):
        _read_same(table, tmp_path / "a", tmp_path / "b")
    assert not any(k.startswith("membership.") for k in plain)


@mark.slow
def test_noise_takes_membership_away(tmp_path):
    """Five seeds: the analyst's area falls to a half as z grows; the server knows more at the same
    z."""
    area = {}
    for z in (0.0, 0.3, 1.0):
        noise = [{"kind": "clip", "norm": 2.0, "relation": "add-remove"}]
        noise += [{"kind": "central-gaussian", "noise_multiplier": z}] if z else []
        studies = [
            load("rsrp-dp/membership", {"seed": s, "learning.defenses": noise}) for s in range(1, 6)
        ]
        result = [run(study, tmp_path / f"{z}{study.seed}") for study in studies]
        area[z] = np.array([f["membership.loss-threshold.auc.last"] for f in result])
    assert np.median(area[0.0]) > 0.6 > np.median(area[0.3]) > np.median(area[1.0]) - 0.03
    assert abs(np.mean(area[1.0]) - 0.5) < 0.05
    noise[1]["noise_multiplier"] = 0.3
    seen = {"learning.threat": {"observes": "updates"}, "learning.defenses": noise, "seed": 1}
    server = run(load("rsrp-dp/membership", seen), tmp_path / "server")
    assert server["membership.loss-threshold.auc.last"] > area[0.3].max() + 0.03


def test_records_belong_to_the_target_of_their_ue_and_model_in_any_order():
    ue = read_array("7 2 7 5")
    model = read_array("1 0 0 1")
    nothing = Model(np.zeros((2, 2)))
    view = View(
        "updates",
        "all",
        np.zeros((4, 2)),
        model,
        ue,
        model,
        np.arange(4),
        nothing,
        nothing,
        None,
        np.ones(4),
    )
    owner = read_array("2 0; 7 0; 7 1; 5 0; 3 1; 5 1; 2 0")
    expected = [1, 2, 0, -1, -1, 3, 1]
    assert _find_targets(view, *owner.T).tolist() == expected
