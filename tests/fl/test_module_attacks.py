"""Attacks on any torch module: what they find with the built-in network of the same weights, and
refusals with a reason where a module lacks what they read."""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import attacked_nets
import local_data
import numpy as np
import torch
from numpy.linalg import norm
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import mark, raises
from torch import nn

from fl.attacks.base import View
from fl.attacks.closed_form import ClosedForm
from fl.attacks.columns.base import build_scene
from fl.attacks.columns.filters import measure_rows
from fl.attacks.columns.spans import SpanMaps
from fl.attacks.dlg import Dlg
from fl.attacks.gradient_matching import build_distance
from fl.attacks.place_maps import NeuronVotes
from fl.attacks.shadow_ues import Population, simulate_measurements
from fl.attacks.span import Span
from fl.data.measured import Measured
from fl.learners.density import Density
from fl.learners.rsrp_net import RsrpNet
from fl.learners.torch_net import TorchNet
from fl.round.assembly import prepare_learner
from fl.round.learning import Learning
from fl.tracking.place_grid import PlaceGrid
from fl.types import Public, RoundContext
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Streams

AREA = Area(0.0, 0.0, 1200.0, 900.0)
PUBLIC = Public(AREA, 1)
DAY_S = 86400.0
FACTS = RoundContext(1, DAY_S, PUBLIC, round_s=DAY_S, week_s=DAY_S)
RNG = Streams(3).derive_rng("tests", 1)
SCENE = build_scene(PUBLIC, 50.0, "tests")
PLACES_M = np.array([[217.0, 204], [940, 703], [610, 455]])
NORMED = {"norm": "LayerNorm", "sizes": [7, 5]}
OPTIONS = {"learning_rate": 1e-3, "batch_size": "all", "local_epochs": 1}


def make_learner(name, arguments=None, **options):
    """A learner with a module of `attacked_nets`, before it is imported."""
    keys = {**OPTIONS, "precision": 64, "device": "cpu", "arguments": arguments or {}, **options}
    return TorchNet(module=f"{attacked_nets.__file__}:{name}", **keys)


def build_torch(*args, **options):
    return make_learner(*args, **options).prepare(None, may_import=True)


def draw_data():
    """A UE at each place, and one at the first two."""
    rng = default_rng(5)
    of_sample = np.repeat([0, 1, 2, 0, 1], [60, 60, 60, 40, 20])
    x = PLACES_M[of_sample] + 15 * rng.normal(size=(len(of_sample), 2))
    y = -60 - 30 * np.log10(norm(x - AREA.centre_m, axis=1) / 10 + 1)
    return local_data.make_local([60] * 4, x, y)


def make_view(learner, model):
    updates = learner.train_locally(model, "all", draw_data(), RNG)
    ue = updates.ue
    zeros = np.zeros_like(ue)
    rows = updates.rows(slice(None))
    every = "updates", "all", rows, zeros, ue, zeros, ue, model, model, learner, updates.count
    return View(*every, party=(ue, ue))


def to_named(rows, sizes):
    """Rows in the order of `named_parameters`, of rows of rsrp-net."""
    pieces = []
    for a, b in pairwise(sizes):
        weight, rows = np.split(rows, [a * b], axis=1)
        bias, rows = np.split(rows, [b], axis=1)
        pieces += [weight.reshape(-1, a, b).transpose(0, 2, 1).reshape(-1, a * b), bias]
    return np.concatenate(pieces, axis=1)


@cache
def view_both(activation="elu", precision=64):
    """Views of a round of rsrp-net, and of the same module with the same weights."""
    net = RsrpNet(activation=activation, precision=precision, **OPTIONS)
    model = net.init(PUBLIC, Streams(1).derive_rng("init"))
    word = {"elu": "ELU", "relu": "ReLU"}[activation]
    learner = build_torch("Perceptron", {"activation": word}, precision=precision)
    named = to_named(model.parameters, net.net.sizes)
    first = learner.init(PUBLIC, Streams(1).derive_rng("init"))
    return make_view(net, model), make_view(learner, replace(first, parameters=named))


def run(attack, view):
    fitted = attack.fit_cells(view.learner, AREA)
    return fitted.run(view, FACTS, fitted.start(), RNG)[0]


class TestSameModule:
    """rsrp-net and a module of the same architecture and weights."""

    def test_has_the_same_updates_and_words(self):
        built_in, module = view_both()
        assert_allclose(
            to_named(built_in.update, built_in.learner.net.sizes),
            module.update,
            rtol=1e-9,
            atol=1e-15,
        )
        words = {"place gradients", "sample gradient", "biased first layer", "layer 1", "layer 2"}
        assert words <= built_in.learner.offers & module.learner.offers

    @mark.parametrize(
        "attack, within_m",
        [
            (ClosedForm(), 1e-6),
            (NeuronVotes(), 1e-6),
            (Span(), 1e-6),
            (Span(layer=1, rank=2), 1e-6),
            (Dlg(starts=6), 0.5),
        ],
    )
    def test_is_attacked_with_the_same_estimates(self, attack, within_m):
        ours, theirs = (run(attack, view) for view in view_both())
        assert ours.what == theirs.what
        assert ours.status == theirs.status
        assert_allclose(ours.position_m, theirs.position_m, atol=within_m)

    def test_gives_dlg_the_same_distances_and_slopes(self):
        built_in, module = view_both()
        z = torch.from_numpy(default_rng(2).normal(size=(2, 6, 2)))
        target = torch.tensor([2, 0])
        ours, theirs = (
            build_distance(view, 0, view.update)(target, z) for view in (built_in, module)
        )
        torch.testing.assert_close(ours[0], theirs[0], rtol=0, atol=1e-12)
        torch.testing.assert_close(ours[1], theirs[1], rtol=0, atol=1e-4)

    @mark.parametrize("activation, precision", [("elu", 64), ("relu", 32)])
    def test_is_filtered_alike(self, activation, precision):
        built_in, module = view_both(activation, precision)
        ours, theirs = (measure_rows(view, SCENE.place_m) for view in (built_in, module))
        assert ours[:, 1].max() > 100.0  # an update is far from noise
        assert_allclose(ours, theirs, rtol=2e-3, atol=0.1)

    def test_has_the_same_columns_of_spans(self):
        ours, theirs = (
            SpanMaps().observe(view, FACTS, SCENE, {}, RNG)["maps"]["score"] for view in view_both()
        )
        assert_allclose(ours, theirs, atol=0.011)  # scores are rounded to 0.01

    def test_draws_shadow_ues_towards_the_same_map(self):
        grid = PlaceGrid.from_area(AREA, 100.0, 1, "tests")
        of_both = [
            simulate_measurements(5, view, FACTS, Population.uniform(grid), RNG)
            for view in view_both()
        ]
        assert_allclose(of_both[0].y, of_both[1].y, atol=1e-6)
        bare = replace(view_both()[1], learner=Density(bandwidth_m=40.0))
        assert (
            abs(
                simulate_measurements(5, bare, FACTS, Population.uniform(grid), RNG).y
                - of_both[0].y
            ).max()
            > 1
        )


class TestAnyModule:
    def test_without_layers_is_attacked_by_its_gradient_alone(self):
        """One sample has the direction of its gradient, and no other place has it."""
        learner = build_torch("Waves", learning_rate=1e-6)
        assert not learner.offers & {"layers", "layer 1", "biased first layer"}
        model = learner.init(PUBLIC, RNG)
        one = local_data.make_local([1], PLACES_M[:1], np.array([-80.0]))
        update = learner.train_locally(model, "all", one, RNG).values
        view = replace(make_view(learner, model), update=np.repeat(update, 4, axis=0))
        found = run(Dlg(starts=24), view)
        assert norm(found.position_m - PLACES_M[0], axis=1).max() < 1.0
        measured = measure_rows(view, np.concatenate([PLACES_M, SCENE.place_m]))
        assert_array_equal(measured[:, 0], 0.0)
        assert_allclose(measured[:, 1, 0], update.size, rtol=1e-6)
        assert (measured[:, 1].argmax(axis=1) == 0).all()

    def test_slope_is_that_of_the_cosine_by_autograd(self):
        learner = build_torch("Perceptron", NORMED)
        model = learner.init(PUBLIC, RNG)
        view = make_view(learner, model)
        z = torch.from_numpy(default_rng(2).normal(size=(1, 3, 2)))
        value, slope = build_distance(view, 0, view.update)(torch.tensor([1]), z)
        module = attacked_nets.Perceptron(**NORMED).double()
        nn.utils.vector_to_parameters(torch.from_numpy(model.parameters[0]), module.parameters())
        for i, guess in enumerate(z[0]):
            leaf = guess.clone().requires_grad_()
            out = module(leaf[None])[0]
            pieces = torch.autograd.grad(out, list(module.parameters()), create_graph=True)
            gradient = torch.cat([piece.flatten() for piece in pieces])
            u = torch.from_numpy(view.update[1])
            expected = 1 - (gradient @ u).abs() / (gradient.norm() * u.norm())
            assert_allclose(value[0, i], expected.item(), atol=1e-12)
            (bend,) = torch.autograd.grad(expected, leaf)
            assert_allclose(slope[0, i], bend, atol=1e-4)

    def test_that_has_diverged_gives_no_place(self):
        view = view_both()[1]
        broken = replace(
            view.model_before, parameters=np.full_like(view.model_before.parameters, np.nan)
        )
        view = replace(view, model_before=broken)
        assert "ok" not in run(Dlg(starts=2, iterations=2), view).status
        assert_array_equal(measure_rows(view, PLACES_M)[:, 1], 0.0)


BATCH_NORM = {"norm": "BatchNorm1d"}
"""the output for a sample depends on the rest of its batch"""


def refuse(learner, attack):
    """The line with which a study is refused once its module is imported, which before may fit."""
    study = Learning(learner=learner, data=Measured(), attacks=(attack,), round_s=DAY_S)
    assert prepare_learner(study, may_import=False) == study
    with raises(BadInput) as caught:
        prepare_learner(study, may_import=True)
    return str(caught.value)


@mark.parametrize(
    "name, arguments, attack, line",
    [
        ("Waves", {}, Span(), "attacks[0]: span needs layers: reads the update of one fully"),
        ("Waves", {}, ClosedForm(), "attacks[0]: closed-form needs a biased first layer: reads"),
        ("Waves", {}, NeuronVotes(), "attacks[0]: neuron-votes needs a biased first layer: reads"),
        ("Perceptron", BATCH_NORM, Dlg(), "attacks[0]: dlg needs a sample gradient: compares"),
    ],
)
def test_what_a_module_lacks_is_said_before_the_first_round(name, arguments, attack, line):
    assert refuse(make_learner(name, arguments), attack).startswith(f"learning.{line}")
    prepare_learner(
        Learning(
            learner=make_learner("Perceptron"), data=Measured(), attacks=(attack,), round_s=DAY_S
        ),
        True,
    )
