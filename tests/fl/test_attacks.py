"""What attacks recover: exact cases, the error identity, hostile updates, vantages, and the
minimisers below."""

from dataclasses import replace

import local_data
import numpy as np
import torch
from arrays import read_array
from fl_values import build_updates
from numpy.linalg import norm
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx, mark
from tabled import cases

from fl.attacks.closed_form import ClosedForm, compute_unit_ratios, estimate_centroid
from fl.attacks.dlg import Dlg
from fl.attacks.gradient_matching import CosineDistance, _update_inverse, minimise_distance
from fl.attacks.threat import Threat
from fl.encodings import Fourier, Position
from fl.learners.rsrp_net import RsrpNet
from fl.networks.mlp import Mlp
from fl.networks.sgd_regression import train_regression
from fl.optimisers import RegressionTraining
from fl.types import DatasetStatistics, DenseUpdates, Model, Public, Received, RoundContext
from netsim.checkpoint import from_tree, load_tree, save_tree, to_tree
from netsim.geometry import Area
from netsim.rng import Streams

FACTS = RoundContext(1, 0.0, Public(Area(0.0, 0.0, 2000.0, 1500.0), 1))
AREA = Area(0.0, 0.0, 2000.0, 1500.0)
HOME = read_array("1650.0 700")
WORK = read_array("420.0 760")
RNG = Streams(4).derive_rng("tests", 1)
ACTIVATIONS = ("elu", "tanh", "sigmoid", "relu")
ONE = (read_array("421.5 777.7;"), np.array([-83.0]))
FEDAVG = {"batch_size": 20, "local_epochs": 5, "learning_rate": 1e-5}


def draw_batch(seed, n=800):
    """A week like the campus commuter's: half at home, a fifth at work, RSRP with slow shadowing
    and noise."""
    rng = default_rng(seed)
    place = rng.choice(3, n, p=[0.5, 0.2, 0.3])
    home = HOME + 18 * rng.normal(size=(n, 2))
    work = WORK + 22 * rng.normal(size=(n, 2))
    elsewhere = [300, 300] + rng.uniform(size=(n, 2)) * [1400, 900]
    x = np.stack([home, work, elsewhere])[place, np.arange(n)]
    distance = np.hypot(norm(x - [900, 800], axis=1), 25)
    slow = 6 * np.sin(x[:, 0] / 60 + seed) * np.cos(x[:, 1] / 70)
    noise = 2.5 * rng.normal(size=n)
    return x, -35 - 35 * np.log10(distance / 10) + slow + noise


def make_local(batches, model=0):
    """One UE a batch (x, y)."""
    x, y = (np.concatenate(c) for c in zip(*batches, strict=True))
    return local_data.make_local([len(x) for x, _ in batches], x, y, model=model)


def draw_local(*sizes):
    """One UE a batch of so many samples."""
    return make_local([draw_batch(seed, n) for seed, n in enumerate(sizes)])


def make_learner(activation="tanh", hidden=(256, 128), **options):
    return RsrpNet(hidden=hidden, activation=activation, standardise_by="dataset", **options)


def make_view(learner, data, observes="updates", decoded=None, n_model=1, seed=0):
    """What the threat grants of a first round."""
    mean = np.tile(data.x.mean(axis=0), (n_model, 1))
    std = np.tile(data.x.std(axis=0), (n_model, 1))
    public = Public(AREA, n_model, DatasetStatistics(mean, np.where(std > 0, std, 1.0)))
    model = learner.init(public, Streams(seed).derive_rng("init"))
    updates = learner.train_locally(model, "all", data, RNG)
    everybody = np.ones(len(data.ue), dtype=bool)
    decoded = everybody if decoded is None else np.asarray(decoded)
    mass = decoded * updates.count
    total = np.bincount(updates.model, mass, n_model)
    share = mass / np.maximum(total, 1)[updates.model]
    merged = updates.sum_weighted(share, n_model)
    after = learner.step(model, "all", merged)

    received = Received(updates, decoded)
    models = (model, after)
    threat = Threat(observes=observes)
    return threat.grant_view(learner, "all", received, share, everybody, models, RNG)


def view_rows(learner, updates, before, after):
    """The view of rows that were all decoded."""
    everybody = np.ones(len(updates.ue), dtype=bool)
    received = Received(updates, everybody)
    models = (before, after)
    return Threat().grant_view(learner, "all", received, 1.0 * everybody, everybody, models, RNG)


def attack(part, view, rng=RNG):
    return part.run(view, RoundContext(1, 0.0, Public(AREA, 1)), part.start(), rng)[0]


def select_rows(result, kind):
    return result.position_m[[word == kind for word in result.what]]


def centroids(result):
    return select_rows(result, "centroid")


def error_m(result, truth):
    return norm(centroids(result) - truth, axis=1)


class TestOneSample:
    """A batch of one sample is recovered exactly, by any network and any number of steps."""

    @mark.parametrize("activation", ACTIVATIONS)
    @mark.parametrize("more", [{}, {"batch_size": 20, "local_epochs": 5, "learning_rate": 1e-4}])
    def test_exactly_and_every_unit_agrees(self, activation, more):
        data = make_local([ONE])
        learner = RsrpNet(hidden=(64, 16), activation=activation, **more)
        view = make_view(learner, data)
        assert error_m(attack(ClosedForm(), view), data.x[0])[0] < 1e-6
        centre, scale = learner.standardisation(view.model_before)
        ratio = centre + scale * compute_unit_ratios(*learner.first_layer(view.update))[0]
        alive = np.isfinite(ratio).all(axis=1)
        assert alive.sum() >= 16
        assert np.abs(ratio[alive] - data.x[0]).max() < 1e-6

    def test_with_dropout_and_after_rounds_of_training(self):
        data = make_local([ONE])
        learner = RsrpNet(hidden=(32, 8), dropout=0.3)
        view = make_view(learner, data)
        for _ in range(3):
            model = view.model_after
            updates = learner.train_locally(model, "all", data, RNG)
            after = learner.step(model, "all", updates.values)
            view = view_rows(learner, updates, model, after)
        assert error_m(attack(ClosedForm(), view), data.x[0])[0] < 1e-6

    @mark.parametrize("activation", ["elu", "relu"])
    def test_dlg_finds_it_through_waves(self, activation):
        """At every scale of the two models, whose areas are the same but whose standardisation is
        not."""
        data = make_local([draw_batch(0), ONE])
        waves = Fourier(frequencies=16, lengths_m=(300.0,))
        learner = make_learner(activation, (64,), encoding=waves)
        view = make_view(learner, data)
        result = attack(Dlg(starts=32, start_at="grid"), view)
        assert norm(centroids(result)[1] - data.x[-1]) < 0.5
        assert result.loss[1] < 1e-9 < result.loss[0]

    @mark.parametrize("encoding", [Position(), Fourier(frequencies=8)])
    @mark.parametrize("way", ["momentum", "proximal", "clipped batches", "weight decay", "adam"])
    def test_under_local_steps_that_treat_all_coordinates_alike(self, way, encoding):
        """Any label changes, several records at one place: exact under all but the last two."""
        place, _ = ONE
        learner = RsrpNet(hidden=(16, 8), activation="relu", encoding=encoding)
        data = make_local([(np.repeat(place, 20, axis=0), np.linspace(-110.0, -60.0, 20))])
        view = make_view(learner, data)
        error = norm(_step_model(learner, view, data, way) - place[0])
        if way in ("weight decay", "adam"):
            assert error > 0.1
        else:
            assert error < 1e-7


def _step_model(learner, view, data, way):
    """The closed form's centroid of an update by eight steps of another optimiser, from
    autograd."""
    w0 = torch.from_numpy(view.model_before.parameters)
    if way == "weight decay":
        w0 = w0 + 0.1 * torch.from_numpy(default_rng(0).normal(size=w0.shape))
    samples = learner._prepare_samples(view.model_before, np.zeros(20, int), data.x, data.y)
    z, y = (torch.from_numpy(values)[None] for values in samples)
    w = w0.clone()
    velocity = torch.zeros_like(w0)
    square = torch.zeros_like(w0)
    for step in range(8):
        leaf = w.clone().requires_grad_(True)
        part = slice(5 * (step % 4), 5 * (step % 4) + 5)
        error = learner.net.forward(leaf, z[:, part])[0] - y[:, part]
        (g,) = torch.autograd.grad((error**2).mean(), leaf)
        if way == "momentum":
            velocity = g = 0.9 * velocity + g
        elif way == "proximal":
            g = g + 0.5 * (w - w0)
        elif way == "clipped batches":
            g = g / max(1.0, float(g.norm()) / 3.0)
        elif way == "weight decay":
            g = g + 0.5 * w
        elif way == "adam":
            velocity = 0.9 * velocity + 0.1 * g
            square = 0.999 * square + 0.001 * g * g
            deviation = (square / (1 - 0.999 ** (step + 1))).sqrt()
            g = velocity / (1 - 0.9 ** (step + 1)) / (deviation + 1e-8)
        w = w - 1e-3 * g
    dw, db = learner.first_layer((w - w0).numpy())
    centre, scale = learner.standardisation(view.model_before)
    return centre[0] + scale[0] * estimate_centroid(dw, db)[0]


class TestErrorIdentity:
    def test_equal_deltas_give_the_mean_itself(self):
        """A linear law without hidden layer and labels all alike: every sample weighs the same."""
        net = Mlp((2, 1), "relu")
        n = 37
        x = default_rng(0).normal(size=(n, 2))
        data = make_local([(x, np.full(n, -95.0))])
        settings = RegressionTraining(learning_rate=1e-3, precision=64)
        update = train_regression(net, np.zeros((1, 3)), data, settings, RNG)
        z = estimate_centroid(update[:, :2].reshape(1, 1, 2), update[:, 2:])
        assert_allclose(z[0], x.mean(axis=0), rtol=0, atol=1e-14)

    @mark.parametrize("activation", ACTIVATIONS)
    @mark.parametrize(
        ("size", "epochs"),
        cases("""
        "all", 1
        7, 3
    """),
        ids=["fedsgd", "fedavg"],
    )
    def test_of_every_unit(self, activation, size, epochs):
        """r_h - zbar = sum_i (g_ih - gbar_h)(z_i - zbar) / (n gbar_h), g summed over all local
        steps, from autograd."""
        net = Mlp((2, 12, 5, 1), activation)
        n = 30
        rng = default_rng(2)
        w = rng.normal(size=(1, net.n_parameters))
        z = rng.normal(size=(n, 2))
        y = -9 + rng.normal(size=n)
        g = np.zeros((n, 12))
        current = w.copy()
        for epoch in range(epochs):
            order = np.argsort(RNG.uniform(f"order{epoch}m", [0], (n,))[0], kind="stable")
            for batch in (order,) if size == "all" else np.split(order, range(size, n, size)):
                gradients = [_gradient(net, current, z[[i]], y[[i]]) / len(batch) for i in batch]
                g[batch] += np.concatenate(gradients)[:, 24:36]
                current = current - 1e-3 * sum(gradients)
        settings = RegressionTraining(
            learning_rate=1e-3, batch_size=size, local_epochs=epochs, precision=64
        )
        update = train_regression(net, w, make_local([(z, y)]), settings, RNG)
        dw = update[:, :24].reshape(1, 2, 12).transpose(0, 2, 1)
        ratio = compute_unit_ratios(dw, update[:, 24:36])[0]
        mean = g.mean(axis=0)
        z0 = z - z.mean(axis=0)
        alive = np.isfinite(ratio).all(axis=1)
        assert alive.sum() >= 6
        expected = (g - mean).T[alive] @ z0 / n / mean[alive, None]
        away = norm(ratio[alive] - z.mean(axis=0) - expected, axis=1)
        assert (away / norm(expected, axis=1)).max() < 1e-9

    def test_combined_estimate_is_the_ratio_weighted_by_squared_bias(self):
        rng = default_rng(3)
        dw = rng.normal(size=(4, 9, 2))
        db = rng.normal(size=(4, 9))
        ratio = dw / db[:, :, None]
        expected = (db[:, :, None] ** 2 * ratio).sum(1) / (db**2).sum(1)[:, None]
        assert_allclose(estimate_centroid(dw, db), expected, rtol=1e-12)
        for n in range(4):  # and that is the least-squares solution
            (solved,) = np.linalg.lstsq(db[n][:, None], dw[n], rcond=None)[0]
            assert_allclose(estimate_centroid(dw, db)[n], solved, rtol=1e-12)

    @mark.parametrize("factor", [-1.0, 1e-3, -1e-200, 1e200])
    def test_step_size_and_sign_cancel(self, factor):
        rng = default_rng(4)
        dw = rng.normal(size=(2, 9, 2))
        db = rng.normal(size=(2, 9))
        scaled = estimate_centroid(factor * dw, factor * db)
        assert_allclose(scaled, estimate_centroid(dw, db), rtol=1e-12)


def _gradient(net, w, z, y):
    leaf = torch.from_numpy(w).requires_grad_(True)
    error = net.forward(leaf, torch.from_numpy(z)[None])[0] - torch.from_numpy(y)
    return torch.autograd.grad((error**2).sum(), leaf)[0].numpy()


class TestUnitCloud:
    """Two tight groups on either side of the network's origin: a rectified unit observes one of
    them at a time."""

    def data(self, n_home=60, n_work=40):
        n = n_home + n_work
        place = np.repeat([HOME, WORK], [n_home, n_work], axis=0)
        x = place + 5 * default_rng(5).normal(size=(n, 2))
        return make_local([(x, np.full(n, -95.0))])

    def test_rectified_units_separate_home_from_work(self):
        data = self.data()
        result = attack(ClosedForm(), make_view(make_learner("relu"), data))
        truth = np.array([data.x[:60].mean(axis=0), data.x[60:].mean(axis=0)])
        heaviest = np.flatnonzero([w == "place" for w in result.what])[:2]
        distance = norm(result.position_m[heaviest][:, None] - truth, axis=2)
        assert sorted(distance.argmin(axis=1).tolist()) == [0, 1]
        assert distance.min(axis=1).max() < 10.0
        assert result.weight[heaviest].min() > 0.3
        assert error_m(result, truth).min() > 200  # the centroid itself names neither

    def test_a_place_weighs_its_share_of_the_live_units(self):
        """9 units: 5 point near home, 3 near work, one is dead."""
        learner = RsrpNet(hidden=(9,))
        model = learner.init(Public(AREA, 1), RNG)
        centre, scale = learner.standardisation(model)
        place = np.repeat([HOME, WORK, 0 * HOME], [5, 3, 1], axis=0) + np.arange(9)[:, None]
        db = read_array("1 -2 0.5 3 1 1 -1 0.1 0")
        update = np.zeros((1, learner.net.n_parameters))
        update[0, :18] = (db[:, None] * (place - centre) / scale).T.ravel()
        update[0, 18:27] = db
        none = np.zeros(1, dtype=int)
        view = view_rows(learner, DenseUpdates(none, none, np.ones(1), update), model, model)
        result = attack(ClosedForm(cluster_units=2), view)
        assert result.what == ["centroid", "place", "place"]
        expected = [HOME + 2, WORK + 6]
        assert_allclose(result.position_m[1:], expected, atol=1e-6)
        assert_allclose(result.weight, [1, 5 / 8, 3 / 8])

    @mark.parametrize("activation", ["tanh", "sigmoid"])
    def test_smooth_units_collapse_on_the_centroid(self, activation):
        data = self.data()
        result = attack(ClosedForm(), make_view(make_learner(activation, hidden=(512,)), data))
        place_m = select_rows(result, "place")
        assert len(place_m)
        for truth in (HOME, WORK):
            assert norm(place_m - truth, axis=1).min() > 200


SMALL = RsrpNet(hidden=(8,), activation="tanh")


class TestHostileUpdates:
    """A warning of numbers fails these (filterwarnings in pyproject.toml)."""

    def view(self, rows):
        model = SMALL.init(Public(AREA, 1), RNG)
        return view_rows(SMALL, build_updates(np.asarray(rows)), model, model)

    d = SMALL.net.n_parameters

    def good(self):
        return make_view(SMALL, draw_local(30)).update

    def hostile(self):
        mixed = np.ones(self.d)
        mixed[3] = np.nan
        dead = np.ones(self.d)
        dead[:24] = 0.0  # the first layer did not move
        return [np.full(self.d, v) for v in (np.nan, 0.0, np.inf, -np.inf)] + [mixed, dead]

    def test_closed_form_diverges_with_a_word(self):
        result = attack(ClosedForm(), self.view(self.hostile()))
        estimates = np.array(result.what) == "centroid"
        assert result.ue[estimates].tolist() == [0, 1, 2, 3, 4, 5]
        assert np.isnan(result.position_m[estimates]).any(axis=1).all()
        assert set(np.array(result.status)[estimates]) == {"no gradient"}
        # one broken number leaves the other units' ratios
        assert set(result.ue[~estimates]) <= {4}

    def test_dlg_diverges_with_a_word(self):
        result = attack(Dlg(starts=2, iterations=5), self.view(self.hostile()[:5]))
        assert np.isnan(result.position_m).all()
        assert np.isnan(result.loss).all()
        assert result.status == ["no gradient"] * 5
        assert not result.iterations.any()
        assert not result.evaluations.any()

    @mark.parametrize(
        "part", [ClosedForm(), Dlg(starts=2, iterations=20)], ids=["closed-form", "dlg"]
    )
    def test_a_hostile_row_leaves_its_neighbours_alone(self, part):
        named = []
        # starts belong to the UE, so compare the same UE
        for first in (np.zeros((5, self.d)), self.hostile()[:5]):
            result = attack(part, self.view(np.concatenate([first, self.good()])))
            keep = result.ue == 5
            named.append(result.position_m[keep])
        assert_allclose(*named, atol=1e-9)
        assert set(np.array(result.status)[keep]) == {"ok"}

    @mark.parametrize("factor", [1e-200, 1e-30, 1e30, 1e200])
    @mark.parametrize("part", [ClosedForm(), Dlg(starts=3)], ids=["closed-form", "dlg"])
    def test_the_length_of_an_update_says_nothing(self, part, factor):
        good = self.good()
        plain = centroids(attack(part, self.view(good)))
        scaled = centroids(attack(part, self.view(factor * good)))
        assert_allclose(scaled, plain, atol=1e-3)

    @mark.parametrize("part", [ClosedForm(), Dlg(starts=2)], ids=lambda p: p.kind)
    @mark.parametrize("observes", ["updates", "aggregate", "model"])
    def test_nobody_heard(self, part, observes):
        view = make_view(SMALL, draw_local(30), observes, decoded=[False])
        result = attack(part, view)
        assert len(result.ue) == 0
        assert result.position_m.shape == (0, 2)
        assert part.self_test(view, FACTS, RNG) is None

    def test_a_large_cohort_is_searched_in_blocks(self, monkeypatch):
        view = make_view(SMALL, draw_local(*[10] * 5))
        whole = attack(Dlg(starts=2), view)
        monkeypatch.setattr("fl.attacks.dlg._TOGETHER", 2)
        parts = attack(Dlg(starts=2), view)
        assert_allclose(parts.position_m, whole.position_m, atol=1e-5)
        assert parts.ue.tolist() == whole.ue.tolist()
        assert (parts.evaluations > 0).all()


class TestVantage:
    def cohort(self):
        return draw_local(60, 300, 20)

    @mark.parametrize("observes", ["aggregate", "model"])
    @mark.parametrize("part", [ClosedForm(), Dlg(starts=4)], ids=["closed-form", "dlg"])
    def test_a_sum_speaks_of_the_pooled_batch(self, observes, part):
        """Under FedSGD the merge is the gradient of all samples together, so the estimate is that
        of one UE."""
        data = self.cohort()
        learner = make_learner("tanh", hidden=(64,))
        pooled = make_local([(data.x, data.y)])
        first = attack(part, make_view(learner, pooled))
        result = attack(part, make_view(learner, data, observes))
        answers = centroids(result)
        assert result.ue[: len(answers)].tolist() == [0, 1, 2]
        assert np.ptp(answers, axis=0).max() == 0
        atol_m = 0.1 if isinstance(part, Dlg) else 1e-6
        assert_allclose(answers[0], centroids(first)[0], atol=atol_m)
        assert norm(answers[0] - data.x.mean(axis=0)) < 50

    @mark.parametrize("observes", ["updates", "aggregate", "model"])
    def test_who_was_not_heard_is_not_spoken_of(self, observes):
        data = self.cohort()
        learner = make_learner("tanh", hidden=(64,))
        view = make_view(learner, data, observes, decoded=[True, False, True])
        result = attack(ClosedForm(cloud=False), view)
        assert result.ue.tolist() == [0, 2]
        if observes != "updates":
            heard = np.concatenate([data.x[:60], data.x[360:]])
            assert norm(result.position_m[0] - heard.mean(axis=0)) < 80

    @mark.parametrize("observes", ["aggregate", "model"])
    def test_each_model_has_a_sum_of_its_own(self, observes):
        batches = [draw_batch(seed, n) for seed, n in enumerate((60, 300, 20, 50))]
        learner = make_learner("tanh", hidden=(64,))
        data = make_local(batches, read_array("2 0 2 0"))
        view = make_view(learner, data, observes, n_model=3)
        assert view.source_model.tolist() == [0, 2]
        assert view.source.tolist() == [1, 0, 1, 0]
        result = attack(ClosedForm(cloud=False), view)
        estimates = dict(zip(result.ue.tolist(), result.position_m, strict=True))
        for first, second in ((0, 2), (1, 3)):
            assert_array_equal(estimates[first], estimates[second])
            pooled = np.concatenate([batches[first][0], batches[second][0]])
            assert norm(estimates[first] - pooled.mean(axis=0)) < 80
        assert norm(estimates[0] - estimates[1]) > 10

    def test_spread_maps_as_many_sources_as_targets_in_another_order(self):
        ue = read_array("7 8 9")
        choice = np.arange(3)
        none = Model(np.zeros((1, 1)))
        updates = build_updates(np.zeros((3, 3)), ue, 10 * ue)
        view = view_rows(RsrpNet(hidden=(2,)), updates, none, none)
        place_m = np.outer(choice, [1.0, 1.0])
        words = ["s0", "s1", "s2"]
        view = replace(view, source=read_array("2 0 1"))
        result = view.build_estimates("place", choice, place_m, weight=choice / 10, status=words)
        estimates = zip(result.ue, result.position_m[:, 0], result.status, strict=True)
        assert sorted(estimates) == [(7, 2.0, "s2"), (8, 0.0, "s0"), (9, 1.0, "s1")]
        assert (result.model == 10 * result.ue).all()
        assert_allclose(result.weight, result.position_m[:, 0] / 10)


def through(part, views, state=None):
    """Estimates of every round, and the state at the end, which a checkpoint has carried from round
    to round."""
    result = []
    state = state or part.start()
    for view in views:
        estimates, state = part.run(view, FACTS, state, RNG)
        result.append(estimates)
    return result, state


class TestStarts:
    """Where the search begins, by what the attacker knows before."""

    def find_starts(self, part, view, monkeypatch, state=None):
        """Standardised starts (n, starts, 2)."""
        seen = []

        def search(distance, start, iterations):
            seen.append(start.numpy().copy())
            return minimise_distance(distance, start, iterations)

        with monkeypatch.context() as patch:
            patch.setattr("fl.attacks.gradient_matching.minimise_distance", search)
            part.run(view, FACTS, state or part.start(), RNG)
        return np.concatenate(seen)

    def view(self, n=3):
        return make_view(SMALL, draw_local(*[30] * n))

    @mark.parametrize("k", [1, 7, 50])
    def test_grid_covers_the_area_evenly(self, k, monkeypatch):
        view = self.view(2)
        z = self.find_starts(Dlg(starts=k, start_at="grid"), view, monkeypatch)
        centre, scale = view.learner.standardisation(view.model_before)
        place = centre[0] + scale[0] * z[0]
        assert z.shape == (2, k, 2)
        assert (z[0] == z[1]).all()
        assert AREA.contains(place).all()
        assert_allclose(place.mean(axis=0), AREA.centre_m, atol=1e-6)
        side_m = np.sqrt(2000 * 1500 / k)
        if k > 1:
            apart = norm(place[:, None] - place, axis=2) + 1e9 * np.eye(k)
            assert apart.min() > 0.5 * side_m
        corners = AREA.sample(default_rng(0).uniform(size=(500, 2)))
        reach = norm(corners[:, None] - place, axis=2).min(axis=1).max()
        assert reach < 1.3 * side_m

    def test_previous_begins_near_the_last_estimate_and_once_anywhere(self, monkeypatch, tmp_path):
        part = Dlg(starts=100, start_at="previous")
        view = self.view(3)
        columns = ["update", "ue", "model", "source", "source_model"]
        few = replace(view, **{name: getattr(view, name)[:2] for name in columns})
        result, state = part.run(few, FACTS, part.start(), RNG)
        normal = self.find_starts(Dlg(starts=100), view, monkeypatch)
        save_tree(tmp_path / "state.npz", to_tree(state))
        state = from_tree(load_tree(tmp_path / "state.npz"), part.start())
        z = self.find_starts(part, view, monkeypatch, state)
        centre, scale = view.learner.standardisation(view.model_before)
        past = (result.position_m - centre[0]) / scale[0]
        expected = past[:, None] + 0.5 * normal[:2, :-1]
        assert_allclose(z[:2, :-1], expected)
        assert_array_equal(z[:, -1], normal[:, -1])
        assert_array_equal(z[2], normal[2])  # nothing is known of this one

    @mark.parametrize("where", ["normal", "grid", "mean", "previous"])
    def test_all_find_a_smooth_minimum(self, where):
        view = make_view(make_learner("tanh", (64,)), draw_local(800))
        best = centroids(attack(Dlg(starts=16), view))
        for result in through(Dlg(starts=4, start_at=where), [view, view])[0]:
            assert_allclose(result.position_m, best, atol=0.1)

    @mark.parametrize(
        "activation, seed, position_m, loss",
        cases("""
        "tanh", 0, [1209.18357183, 710.09325628], 0.000369385329777816
        "elu", 1, [1247.25487768, 719.04249053], 0.004193900566532571
    """),
    )
    def test_the_minimum_is_that_of_a_patient_search(self, activation, seed, position_m, loss):
        """Figures of an earlier search by autograd, that stopped after ten still iterations of all
        its starts."""
        view = make_view(make_learner(activation), make_local([draw_batch(seed, 200)]), seed=seed)
        result = attack(Dlg(), view)
        assert_allclose(result.position_m[0], position_m, atol=0.1)
        assert result.loss[0] == approx(loss, abs=1e-9)


class TestSelfTest:
    """The attacker on one sample of its own: a failed optimiser is no protected user."""

    def view(self, activation="tanh", hidden=(64,), observes="updates", **options):
        learner = RsrpNet(hidden=hidden, activation=activation, **options)
        return make_view(learner, draw_local(60, 60), observes)

    @mark.parametrize("labels", ["raw", "centred", "standardised"])
    @mark.parametrize("more", [FEDAVG, {"dropout": 0.3}])
    def test_the_closed_form_always_passes(self, labels, more):
        view = self.view("relu", labels=labels, **more)
        assert ClosedForm().self_test(view, FACTS, RNG) < 1e-6

    @mark.parametrize("observes", ["updates", "aggregate", "model"])
    def test_the_search_passes_on_a_smooth_net(self, observes):
        assert 0 < Dlg(starts=4).self_test(self.view(observes=observes), FACTS, RNG) < 0.5

    def test_trains_as_the_learner_does_on_one_sample_from_the_weights_before(self):
        seen = []

        class Watcher(RsrpNet):
            def train_locally(self, model, phase, data, rng):
                seen.append((model, phase, data))
                assert rng.purpose == "tests.self-test"  # no draw of the attack on users is shared
                return super().train_locally(model, phase, data, rng)

        view = replace(self.view(), learner=Watcher(hidden=(64,), activation="tanh"))
        ClosedForm().self_test(view, FACTS, RNG)
        ((model, phase, data),) = seen
        assert model is view.model_before
        assert phase == "all"
        assert len(data.x) == 1
        assert AREA.contains(data.x).all()
        assert -95 - 6 * 9 < data.y[0] < -95 + 6 * 9

    @mark.parametrize("value", [np.nan, np.inf])
    @mark.parametrize("part", [ClosedForm(), Dlg(starts=2)], ids=lambda p: p.kind)
    def test_a_broken_model_finds_nothing(self, part, value):
        """No guess has a finite loss: a random start is not a reconstruction."""
        view = self.view()
        before = view.model_before
        broken = replace(before, parameters=np.full_like(before.parameters, value))
        view = replace(view, model_before=broken)
        assert np.isnan(part.self_test(view, FACTS, RNG))
        if isinstance(part, Dlg):
            result = attack(part, view)
            assert np.isnan(result.position_m).all()
            assert "ok" not in result.status


class TestDlgAgreesWithClosedForm:
    """First round, FedSGD, batches of 800 samples in a week's places."""

    @mark.parametrize(
        "activation, hidden",
        cases("""
        "tanh", (256, 128)
        "elu", (256, 128)
        "sigmoid", (512,)
    """),
    )
    def test_for_smooth_nets(self, activation, hidden):
        view = make_view(make_learner(activation, hidden), draw_local(800))
        closed = centroids(attack(ClosedForm(cloud=False), view))[0]
        frozen = attack(Dlg(starts=16), view)
        assert norm(frozen.position_m[0] - closed) < 5.0
        # all starts end in one place
        net = view.learner.net
        weights = torch.from_numpy(view.model_before.parameters)
        start = torch.from_numpy(RNG.normal("starts", [0], (16, 2)))
        distance = CosineDistance.from_updates(torch.from_numpy(view.update), net, weights)
        end = minimise_distance(distance, start, 60)
        centre, scale = view.learner.standardisation(view.model_before)
        at = centre[0] + scale[0] * end.z[0].numpy()
        assert norm(at - frozen.position_m[0], axis=1).max() < 1.0
        assert np.ptp(start[0].numpy(), axis=0).min() > 1.0  # they did not begin there


def cosine_by_autograd(net, w, u, x, y):
    """1 - cos(g, -u), with the gradient of (F - y)^2 by autograd."""
    g = torch.from_numpy(_gradient(net, w.numpy(), x.numpy()[None], np.array([y])))[0]
    return 1 - float((g @ -u) / (g.norm() * u.norm()))


class TestCosineDistance:
    @mark.parametrize("activation", ACTIVATIONS)
    @mark.parametrize(
        "hidden, n_wave",
        cases("""
        (), 0
        (6, 4), 0
        (5, 4, 3), 5
    """),
    )
    def test_is_the_cosine_of_the_whole_gradient(self, activation, hidden, n_wave):
        """Of the better sign of the label's residual, and with the slope that differences have."""
        torch.manual_seed(0)
        net = Mlp((2 + 2 * n_wave, *hidden, 1), activation)
        w = torch.randn(1, net.n_parameters, dtype=torch.float64)
        u = torch.randn(3, net.n_parameters, dtype=torch.float64)
        waves = torch.randn(2, n_wave, dtype=torch.float64)
        z = torch.randn(2, 5, 2, dtype=torch.float64)
        target = torch.tensor([2, 0])
        distance = CosineDistance.from_updates(u, net, w, waves)
        value, slope = distance(target, z)
        for i, j in np.ndindex(2, 5):
            guess = z[i, j]
            angle = guess @ waves
            read = torch.cat([guess, angle.cos(), angle.sin()])
            expected = cosine_by_autograd(net, w, u[target[i]], read, 50.0)
            assert value[i, j].item() == approx(min(expected, 2 - expected), abs=1e-12)
        for k in range(2):
            step = 1e-6 * torch.eye(2, dtype=torch.float64)[k]
            difference = (distance(target, z + step)[0] - distance(target, z - step)[0]) / 2e-6
            torch.testing.assert_close(slope[..., k], difference, rtol=1e-5, atol=1e-8)


def read_tensor(text):
    return torch.from_numpy(read_array(text))


def quadratic(condition):
    """0.5 z^T A z - b^T z of three targets with eigenvalues 1 and condition, its minima A^-1 b, and
    starts."""
    basis = np.linalg.qr(default_rng(2).normal(size=(2, 2)))[0]
    a = torch.from_numpy(basis * np.array([1.0, condition]) @ basis.T)
    b = torch.from_numpy(default_rng(3).normal(size=(3, 2)))

    def distance(target, z):
        az = z @ a
        shift = b[target][:, None]
        return (0.5 * z * az - shift * z).sum(-1), az - shift

    start = torch.from_numpy(default_rng(4).normal(size=(3, 4, 2)))
    return distance, torch.linalg.solve(a, b.T).T, start


def rosenbrock(target, z):
    a = z[..., 0]
    b = z[..., 1]
    valley = b - a * a
    value = (1 - a) ** 2 + 100 * valley**2
    return value, torch.stack([2 * (a - 1) - 400 * a * valley, 200 * valley], dim=-1)


class TestBfgs:
    @mark.parametrize("stiffness", [0.02, 3.0, 400.0])
    def test_a_first_bend_gives_the_inverse_of_a_round_bowl(self, stiffness):
        """Where the slope grows alike in all directions, whatever the guess before was."""
        way = read_tensor("0.3 -0.7;")[None]
        guess = read_tensor("5.0 1; 1 2")[None, None]
        inverse = _update_inverse(guess, way, stiffness * way, torch.tensor([[False]]))
        expected = torch.eye(2, dtype=torch.float64)[None, None] / stiffness
        torch.testing.assert_close(inverse, expected)

    def test_a_step_too_far_is_cut_to_the_least_of_the_parabola(self):
        """From 0.2 a first step of half a unit ends at -0.3; the parabola through what is known has
        its least at 0."""
        bowl = lambda target, z: ((z**2).sum(dim=-1), 2 * z)  # noqa: E731
        start = read_tensor("0.2 0;")[None]
        assert torch.equal(minimise_distance(bowl, start, 1).z, start)
        end = minimise_distance(bowl, start, 2).z
        torch.testing.assert_close(end, torch.zeros_like(start), rtol=0, atol=1e-12)

    @mark.parametrize("condition", [1.0, 1e3, 1e5])
    def test_on_quadratics(self, condition):
        distance, minimum, start = quadratic(condition)
        result = minimise_distance(distance, start, 1000)
        expected = minimum.unsqueeze(1).expand_as(start)
        torch.testing.assert_close(result.z, expected, rtol=1e-3, atol=1e-3)
        assert (result.iterations < 100).all()

    def test_on_rosenbrock(self):
        start = read_tensor("-1.2 1; 0 0; 2 -3; -4 4")[None]
        result = minimise_distance(rosenbrock, start, 200)
        torch.testing.assert_close(result.z, torch.ones_like(start), rtol=0, atol=1e-5)
        assert result.value.max() < 1e-10
        assert result.iterations[0] < 150

    def test_value_belongs_to_the_guess_and_never_rises(self):
        start = torch.from_numpy(default_rng(0).normal(size=(2, 3, 2)))
        first, _ = rosenbrock(None, start)
        before = first
        for iterations in (1, 5, 30):
            result = minimise_distance(rosenbrock, start, iterations)
            torch.testing.assert_close(result.value, rosenbrock(None, result.z)[0])
            assert (result.value <= before + 1e-12).all()
            before = result.value
        # starts are left alone
        assert (before < first).any()
        assert torch.equal(first, rosenbrock(None, start)[0])

    def test_walls_of_values_that_are_not_finite(self):
        """log has no value left of 0: a step there is refused, and a start there stays and says
        so."""

        def distance(target, z):
            value = z[..., 0] - torch.log(z[..., 0]) + z[..., 1] ** 2  # minimum 1 at (1, 0)
            slope = torch.stack([1 - 1 / z[..., 0], 2 * z[..., 1]], dim=-1)
            is_finite = value.isfinite()
            slope = torch.where(is_finite[..., None], slope, 0.0)
            return torch.where(is_finite, value, torch.inf), slope

        result = minimise_distance(distance, read_tensor("8.0 1; 0.05 0; -1 0")[None], 400)
        smallest = read_tensor("1.0 0; 1 0")
        torch.testing.assert_close(result.z[0, :2], smallest, rtol=0, atol=1e-3)
        assert result.value[0, 2] == torch.inf
        assert result.z[0, 2, 0].item() == -1.0

    def test_targets_do_not_affect_each_other(self):
        distance, _, start = quadratic(50.0)
        together = minimise_distance(distance, start, 60)
        for i in range(3):
            alone = minimise_distance(
                lambda target, z, i=i: distance(target + i, z), start[[i]], 60
            )
            torch.testing.assert_close(together.z[[i]], alone.z, rtol=0, atol=1e-7)
            assert together.iterations[i] == alone.iterations[0]

    @mark.parametrize(
        "activation, most",
        cases("""
        "tanh", 40
        "relu", 61
    """),
    )
    def test_a_search_costs_few_evaluations(self, activation, most):
        view = make_view(make_learner(activation, (64, 32)), draw_local(*[100] * 10))
        assert attack(Dlg(), view).evaluations.mean() < most
