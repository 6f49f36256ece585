"""What `simulated-inversion` recovers exactly, what its parts compute, and what it refuses."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from fl.attacks.candidates import Candidates, inputs, solved
from fl.attacks.dlg import Dlg
from fl.attacks.gradient_matching import Waves
from fl.attacks.simulated_inversion import SimulatedInversion
from fl.attacks.simulation import Devices, KnownTraining, guesses_at, simulated, simulation_objective, unpacked
from fl.attacks.threat import Threat
from fl.learners.rsrp_net import RsrpNet
from fl.learning import Learning
from fl.optimisers.sgd import Sgd
from fl.types import Facts, Local, Public, Received
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Streams

AREA = Area(0.0, 0.0, 1200.0, 900.0)
PUBLIC = Public(AREA, 1)
RNG = Streams(3).at("tests", 1)
PLACES = np.array([[262.0, 212.0], [912.0, 612.0], [400.0, 800.0]])
RELU = {"activation": "relu", "labels": "standardised", "learning_rate": 0.1}
ELU = {"activation": "elu", "labels": "standardised", "learning_rate": 0.1}
FOURIER = {**RELU, "learning_rate": 0.03, "encoding": {"kind": "fourier", "frequencies": 16}}
MOMENTUM = {**FOURIER, "learning_rate": 0.01, "optimiser": {"kind": "momentum"}, "proximal": 0.1}


def learner_of(**more):
    return RsrpNet.model_validate_json(json.dumps({"kind": "rsrp-net", "hidden": [16, 8], **more}), strict=True)


def local_of(*counts, seed=1, ue=None):
    """A UE a tuple of counts: so many samples at each of PLACES, whose labels scatter by 3 dB around one of each."""
    rng = np.random.default_rng(seed)
    at = np.concatenate([np.repeat(np.arange(len(n)), n) for n in counts])
    y = np.array([-80.0, -101.0, -90.0])[at] + 3 * rng.normal(size=len(at))
    ptr = np.concatenate([[0], np.cumsum([sum(n) for n in counts])]).astype(np.int64)
    ue = np.arange(len(counts)) if ue is None else np.asarray(ue)
    return Local(ue, 0 * ue, ptr, PLACES[at], y, np.zeros(len(at)))


def view_of(learner, data, seed=1, sees="rows", change=None):
    """What the threat grants of a first round."""
    model = learner.init(PUBLIC, Streams(seed).at("init"))
    made = learner.local(model, "all", data, RNG)
    made = made if change is None else replace(made, values=change(made.values))
    n = len(data.ue)
    every, share = np.ones(n, dtype=bool), np.full(n, 1 / n)
    after = learner.step(model, "all", made.weighted_sum(share, 1))
    return Threat(sees=sees).view(learner, "all", Received(made, every), share, every, (model, after), RNG)


def attacked(part, view):
    return part.run(view, Facts(1, 0.0, PUBLIC), part.start(), RNG)[0]


def said(found, what, ue=0):
    """Places (k, 2) and weights (k,) of a UE."""
    rows = [i for i, word in enumerate(found.what) if word == what and found.ue[i] == ue]
    return found.position_m[rows], found.weight[rows]


class TestExactRecovery:
    """Full batches at few places: the simulated training is the training, so the places are found exactly."""

    @pytest.mark.parametrize(
        "how",
        [RELU, {}, {**ELU, "local_epochs": 5}, {**FOURIER, "local_epochs": 5}, {**MOMENTUM, "local_epochs": 10}],
        ids=["one step", "published", "5 steps", "fourier", "momentum"],
    )
    def test_of_one_place(self, how):
        found = attacked(SimulatedInversion(places=1, candidates=400), view_of(learner_of(**how), local_of([20])))
        for what in ("centroid", "answer"):
            place, _ = said(found, what)
            assert place.shape == (1, 2) and np.linalg.norm(place[0] - PLACES[0]) < 0.1
        assert set(found.status) == {"ok"} and found.loss.max() < 1e-10

    @pytest.mark.parametrize("how", [RELU, FOURIER, {}], ids=["relu", "fourier", "published"])
    def test_of_two_places_after_one_step(self, how):
        found = attacked(SimulatedInversion(candidates=900), view_of(learner_of(**how), local_of([14, 6])))
        places, _ = said(found, "answer")
        for truth in PLACES[:2]:
            assert np.linalg.norm(places - truth, axis=1).min() < 0.1

    @pytest.mark.parametrize(
        ("how", "distance"),
        [({**ELU, "local_epochs": 5}, "squared"), ({**ELU, "local_epochs": 5}, "cosine"),
         ({**FOURIER, "local_epochs": 5}, "squared"), ({**MOMENTUM, "local_epochs": 4}, "squared")],
        ids=["elu", "cosine", "fourier", "momentum"],
    )  # fmt: skip
    def test_of_two_places_and_their_shares_after_several_steps(self, how, distance):
        """Where one gradient, at the weights before the round, is somewhere else."""
        data = local_of([14, 6], seed=2)
        view = view_of(learner_of(**how), data, seed=2)
        found = attacked(SimulatedInversion(candidates=900, distance=distance), view)
        places, shares = said(found, "answer")
        assert_allclose(places, PLACES[:2], atol=0.1)  # the larger first
        assert_allclose(shares, [0.7, 0.3], atol=1e-3)
        truth = data.mean_x()
        assert_allclose(said(found, "centroid")[0], truth, atol=0.5)
        assert np.linalg.norm(said(attacked(Dlg(), view), "centroid")[0] - truth) > 100

    def test_of_three_places_after_one_step(self):
        view = view_of(learner_of(**ELU), local_of([10, 6, 4]))
        places, shares = said(attacked(SimulatedInversion(places=3, candidates=400), view), "answer")
        assert places.shape == (3, 2) and shares.sum() == pytest.approx(1)
        for truth in PLACES:
            assert np.linalg.norm(places - truth, axis=1).min() < 1

    def test_mini_batches_are_found_nearly(self):
        view = view_of(learner_of(**{**RELU, "learning_rate": 0.03}, batch_size=5, local_epochs=2), local_of([20]))
        found = attacked(SimulatedInversion(places=1, searches=1, starts=2, candidates=400), view)
        assert 0.1 < np.linalg.norm(said(found, "centroid")[0] - PLACES[0]) < 30


def _devices(learner, view, steps):
    c = view.model_before.constants
    waves = Waves.of(torch.from_numpy(c["wave_vectors"][0]), torch.from_numpy(c["scale_m"])).per_z
    n = len(view.update)
    return Devices(
        learner.net, torch.from_numpy(view.model_before.parameters), waves, torch.zeros(n, dtype=torch.int64),
        torch.from_numpy(view.update), torch.as_tensor(steps),
    )  # fmt: skip


def _standardised(learner, view, place_m):
    centre, scale = learner.standardisation(view.model_before)
    return torch.from_numpy((place_m - centre) / scale)


TRAINED = [
    (RELU, 0.0, 0.0, 1.0),
    ({**FOURIER, "local_epochs": 7}, 0.0, 0.0, 1.0),
    ({**MOMENTUM, "local_epochs": 6}, 0.9, 0.1, 1.0),
    ({"local_epochs": 3}, 0.0, 0.0, 9.0),
    ({**FOURIER, "local_epochs": 7, "learning_rate": 0.5, "step_limit": "polyak"}, 0.0, 0.0, 1.0),
]


class TestSimulation:
    @pytest.mark.parametrize(("how", "momentum", "proximal", "scale"), TRAINED)
    def test_is_the_training_of_the_learner(self, how, momentum, proximal, scale):
        """To rounding: with the mean label of each place, over all steps; and a device with fewer steps stops."""
        learner, data = learner_of(**how), local_of([9, 5, 2])
        if learner.step_limit == "polyak":  # the spread of labels at a place counts, and is left out
            data = replace(data, y=np.repeat([-80.0, -101.0, -90.0], [9, 5, 2]))
        view = view_of(learner, data)
        label = np.array([data.y[np.all(data.x == p, axis=1)].mean() for p in PLACES])
        if learner.labels == "standardised":
            label = (label + 95.0) / 9.0
        training = KnownTraining(learner.learning_rate, momentum, proximal, scale, learner.step_limit == "polyak")
        z = _standardised(learner, view, PLACES).expand(2, -1, -1)
        share = torch.tensor([9, 5, 2], dtype=torch.float64).expand(2, -1) / 16
        devices = _devices(learner, view, [learner.local_epochs])
        before = devices.weights.expand(2, -1)
        labels = torch.from_numpy(label).expand(2, -1)
        steps = torch.tensor([learner.local_epochs, 1])
        made = simulated(devices.net, before, inputs(z, devices.waves), share, labels, steps, training)
        size = np.abs(view.update).max()
        assert_allclose(made[0].numpy(), view.update[0], atol=1e-12 * size)
        short = learner.model_copy(update={"local_epochs": 1})
        assert_allclose(made[1].numpy(), view_of(short, data).update[0], atol=1e-12 * size)

    def test_distances_are_what_they_are_called(self):
        learner = learner_of(**ELU, local_epochs=2)
        view = view_of(learner, local_of([9, 5], [2, 7]))
        devices, how = _devices(learner, view, [2, 2]), KnownTraining(0.1, 0.0, 0.0, 1.0)
        guess = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 8)))
        z, share, residual = unpacked(guess)
        x = inputs(z, devices.waves[devices.network])
        label = devices.net.forward(devices.before, x)[0] + residual
        made = simulated(devices.net, devices.before, x, share, label, devices.steps, how).numpy()
        size = np.linalg.norm(view.update, axis=1)
        cosine = (made * view.update).sum(axis=1) / size / np.linalg.norm(made, axis=1)
        expected = {"squared": ((made - view.update) ** 2).sum(axis=1) / size**2, "cosine": 1 - cosine}
        for distance, value in expected.items():
            objective = simulation_objective(devices, how, distance)
            found, slope = objective(torch.tensor([0, 1]), guess)
            assert_allclose(found.numpy(), value, rtol=1e-12)
            step = 1e-6 * torch.eye(8, dtype=torch.float64)
            ups, downs = (objective(torch.zeros(8, dtype=torch.int64), guess[:1] + s * step)[0] for s in (1, -1))
            assert_allclose(slope[0].numpy(), ((ups - downs) / 2e-6).numpy(), rtol=1e-5, atol=1e-8)

    def test_reach_counts_gradients(self):
        steps = torch.tensor([1, 2, 5])
        assert_allclose(KnownTraining(0.1, 0.0, 0.0, 1.0).reach(steps).numpy(), [1, 2, 5])
        assert_allclose(KnownTraining(0.1, 0.5, 0.0, 1.0).reach(steps)[:2].numpy(), [1, 1 + 1.5])

    def test_a_guess_at_the_places_of_one_step_is_the_fit(self):
        """The products of shares and residuals follow from least squares, so one step leaves nothing to search."""
        learner = learner_of(**FOURIER)
        view = view_of(learner, local_of([14, 6]))
        devices, how = _devices(learner, view, [1]), KnownTraining(0.03, 0.0, 0.0, 1.0)
        guess = guesses_at(_standardised(learner, view, PLACES[:2])[None, None], devices, devices.before, how)
        value, _ = simulation_objective(devices, how, "squared")(torch.tensor([0]), guess[0])
        assert float(value[0]) < 1e-14


class TestCandidates:
    @pytest.fixture
    def known(self):
        """Eighty places, their gradients (80, d) by autograd, and the update of a device at three of them and off."""
        learner = learner_of(**FOURIER)
        view = view_of(learner, local_of([14, 6]))
        devices = _devices(learner, view, [1])
        z = torch.from_numpy(np.random.default_rng(0).uniform(-1.7, 1.7, (80, 2)))
        w = devices.weights[0].clone().requires_grad_()
        outs = learner.net.forward(w[None], inputs(z, devices.waves[0])[None])[0][0]
        slopes = torch.stack([torch.autograd.grad(o, w, retain_graph=True)[0] for o in outs])
        return Candidates(learner.net, devices.weights[0], devices.waves[0], z), z, slopes.numpy(), devices.update[0]

    @staticmethod
    def explained(slopes, update):
        """The squared norm of an update that gradients (j, d) explain."""
        q = np.linalg.lstsq(slopes.T, update, rcond=None)[0]
        return ((q @ slopes) ** 2).sum()

    @pytest.mark.parametrize("places", [1, 2])
    def test_the_best_set_is_that_of_all_least_squares(self, known, places):
        candidates, z, slopes, update = known
        sets = list(itertools.combinations(range(len(z)), places))
        apart = [s for s in sets if places == 1 or (z[s[0]] - z[s[1]]).norm() >= 0.4]
        best = max(apart, key=lambda s: self.explained(slopes[list(s)], update.numpy()))
        found = candidates.best(update, places, 3, 0.4)
        assert found.shape == (3, places, 2)
        assert {tuple(p) for p in found[0].tolist()} == {tuple(z[i].tolist()) for i in best}
        assert len({tuple(p) for s in found.tolist() for p in s}) > places  # other starts are other places

    def test_the_added_place_explains_most_of_what_is_left(self, known):
        candidates, z, slopes, update = known
        kept = [4, 9]
        free = [i for i in range(len(z)) if (z[kept] - z[i]).norm(dim=1).min() >= 0.4]
        best = max(free, key=lambda i: self.explained(slopes[[*kept, i]], update.numpy()))
        found = candidates.added(update, z[kept], 2, 0.4)
        assert found[0].tolist() == z[best].tolist() and (found[0] - found[1]).norm() >= 0.4
        triple = candidates.best(update, 3, 1, 0.4)[0]
        assert_array_equal(triple[:2], candidates.best(update, 2, 1, 0.4)[0])
        assert_array_equal(triple[2:], candidates.added(update, triple[:2], 1, 0.4))

    def test_places_that_are_the_same_are_solved_together(self):
        gram = torch.ones((2, 2), dtype=torch.float64)
        assert_allclose(solved(gram, torch.tensor([3.0, 3.0]).double()).sum().item(), 3.0, rtol=1e-8)


class TestHostileUpdates:
    def test_each_has_a_status_and_no_neighbour_suffers(self):
        def spoil(values):
            values = values.copy()
            values[1], values[2, 3], values[3] = 0.0, np.nan, np.inf
            values[4] *= 1e300
            values[5] *= 1e-300
            return values

        part = SimulatedInversion(places=1, searches=2, candidates=100)
        learner, data = learner_of(**RELU, local_epochs=2), local_of(*[[20]] * 6)
        found = attacked(part, view_of(learner, data, change=spoil))
        status = {(w, u): s for w, u, s in zip(found.what, found.ue.tolist(), found.status, strict=True)}
        assert len(found.ue) == 12 and {w for w, _ in status} == {"centroid", "answer"}
        for what in ("centroid", "answer"):
            assert status[what, 0] == "ok"
            assert [status[what, u] for u in (1, 2, 3)] == ["no gradient"] * 3
            assert np.isnan(np.concatenate([said(found, what, u)[0] for u in (1, 2, 3)])).all()
            assert {status[what, u] for u in (4, 5)} <= {"ok", "no finite loss"}
        assert (said(found, "answer", 1)[1] == 0).all()
        assert np.linalg.norm(said(found, "centroid", 0)[0][0] - PLACES[0]) < 0.1

    def test_weights_that_are_not_finite(self):
        view = view_of(learner_of(**RELU), local_of([20]))
        lost = replace(view.model_before, parameters=np.full_like(view.model_before.parameters, np.inf))
        found = attacked(SimulatedInversion(candidates=100), replace(view, model_before=lost))
        assert set(found.status) == {"no finite loss"} and np.isnan(found.position_m).all()


class TestDeterminism:
    def test_the_same_view_gives_the_same_estimates_and_others_do_not_matter(self):
        learner, part = learner_of(**ELU, local_epochs=3), SimulatedInversion(searches=1, starts=2, candidates=225)
        view = view_of(learner, local_of([14, 6], [5, 9]))
        before = view.update.copy()
        first, again = attacked(part, view), attacked(part, view)
        assert_array_equal(first.position_m, again.position_m)
        assert_array_equal(first.weight, again.weight)
        assert_array_equal(view.update, before)
        only = replace(
            view, update=view.update[1:], source_model=view.source_model[1:], ue=view.ue[1:], model=view.model[1:],
            source=np.array([0]), count=view.count[1:],
        )  # fmt: skip
        for what in ("centroid", "answer"):
            assert_allclose(said(attacked(part, only), what, 1)[0], said(first, what, 1)[0], atol=1e-3)

    def test_its_self_test_passes(self):
        view = view_of(learner_of(**RELU, local_epochs=3), local_of([14, 6]))
        assert SimulatedInversion(places=1, candidates=400).self_test(view, Facts(1, 0.0, PUBLIC), RNG) < 0.1


class TestRefusals:
    @pytest.mark.parametrize(
        ("learner", "threat", "says"),
        [
            ({}, {}, None),
            ({"optimiser": {"kind": "momentum"}, "proximal": 0.1}, {}, None),
            ({"optimiser": {"kind": "adam"}}, {}, "needs a sample gradient"),
            ({"sample_clip": 1.0}, {}, "needs a sample gradient"),
            ({"frozen_layers": 1}, {}, "needs a sample gradient"),
            ({}, {"sees": "sum"}, "needs rows: .* a sum of several is nobody's"),
            ({}, {"sees": "model"}, "needs rows"),
            ({}, {"knows": ["training"]}, "needs starting weights: .*add weights to threat.knows"),
            ({}, {"knows": ["weights"]}, "needs training details: .*add training to threat.knows"),
        ],
    )
    def test_by_the_words_that_parts_offer(self, learner, threat, says):
        document = {
            "round_s": 60.0, "learner": {"kind": "rsrp-net", "hidden": [8, 4], **learner}, "threat": threat,
            "attacks": [{"kind": "simulated-inversion"}],
        }  # fmt: skip
        if says is None:
            Learning.model_validate_json(json.dumps(document), strict=True)
            return
        with pytest.raises(ValueError, match=says):
            Learning.model_validate_json(json.dumps(document), strict=True)

    @pytest.mark.parametrize(
        ("learner", "ues", "says"),
        [
            ({"local_epochs": 201}, 1, "201 local steps of a UE in a round, at most 200 .* larger batches or fewer"),
            ({"local_epochs": 51, "batch_size": 3}, 1, "204 local steps of a UE"),
            ({"local_epochs": 200}, 51, "10,200 local steps of all attacked UEs .* smaller threat.targets"),
            ({"local_epochs": 100, "hidden": [512, 512]}, 1, "parameters x local steps of a UE .* smaller network"),
        ],
    )
    def test_by_the_work_of_a_round(self, learner, ues, says):
        learner = learner_of(**learner)
        trained = learner.model_copy(update={"local_epochs": 1})
        view = replace(view_of(trained, local_of(*[[7, 3]] * ues)), learner=learner)
        with pytest.raises(BadInput, match=says):
            attacked(SimulatedInversion(), view)

    def test_an_optimiser_from_outside(self):
        class Other(Sgd.__base__):
            kind: str = "other"
            start, step = Sgd.start, Sgd.step

        learner = learner_of().model_copy(update={"optimiser": Other()})
        with pytest.raises(BadInput, match="steps of 'other' cannot be repeated; possible: sgd, momentum"):
            attacked(SimulatedInversion(), replace(view_of(learner_of(), local_of([5])), learner=learner))


def test_a_view_of_rows_counts_samples_and_others_do_not():
    data = local_of([7, 3], [2, 2])
    assert_array_equal(view_of(learner_of(), data).count, [10, 4])
    assert view_of(learner_of(), data, sees="sum").count is None
    assert view_of(learner_of(), data, sees="model").count is None
    with pytest.raises(ValueError, match="number of samples"):
        attacked(SimulatedInversion(), replace(view_of(learner_of(), data), count=None))
