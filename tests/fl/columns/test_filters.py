"""Columns of filters: exact cases, noise alone, an independent slow form, and what they cannot read."""

import json
from dataclasses import replace

import numpy as np
import torch
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx, mark

from fl.attacks.base import View
from fl.attacks.columns.base import build_scene
from fl.attacks.columns.filters import RowFilters, classify_window, measure_rows
from fl.learners.density import Density
from fl.learners.rsrp_net import RsrpNet
from fl.types import Model, Public, RoundContext
from netsim.checkpoint import load_tree, save_tree
from netsim.geometry import Area
from netsim.rng import Streams

PUBLIC = Public(Area(0.0, 0.0, 600.0, 400.0), 1)
SCENE = build_scene(PUBLIC, 50.0, "tests")
DAY_S = 86400.0
FACTS = RoundContext(1, DAY_S, PUBLIC, round_s=DAY_S, week_s=DAY_S)  # a Monday
SUNDAY = replace(FACTS, week_s=7 * DAY_S)
RNG = Streams(3).derive_rng("tests", 1)
LEARNER = RsrpNet.model_validate_json(
    json.dumps(
        {
            "kind": "rsrp-net",
            "hidden": [48, 24],
            "activation": "relu",
            "encoding": {"kind": "fourier", "frequencies": 16},
        }
    ),
    strict=True,
)
MODEL = LEARNER.init(PUBLIC, Streams(1).derive_rng("init"))
D = MODEL.parameters.shape[1]


def make_view(update, ue=None, model=MODEL, vantage="updates"):
    n = len(update)
    ue = np.arange(n) if ue is None else np.asarray(ue)
    zeros = np.zeros(n, dtype=int)
    every = np.arange(n)
    return View(
        vantage,
        LEARNER.phases[0],
        update,
        zeros,
        ue,
        zeros,
        every,
        model,
        model,
        LEARNER,
        party=(ue, every),
    )


def compute_gradients(place_m):
    """dF/dw (n, d) at places (n, 2), by automatic differentiation."""
    z = LEARNER._encode_inputs(MODEL, np.zeros(len(place_m), dtype=int), place_m)
    rows = []
    for row in z:
        weights = torch.from_numpy(MODEL.parameters[:1].copy()).requires_grad_()
        LEARNER.net.forward(weights, torch.from_numpy(row)[None, None])[0].sum().backward()
        rows.append(weights.grad[0].numpy())
    return np.stack(rows)


def draw_noise(n, seed=0):
    return default_rng(seed).normal(size=(n, D))


def observe(column, *rounds):
    tally = {}
    for view, facts in rounds:
        tally = column.observe(view, facts, SCENE, tally, RNG)
    return tally


def test_an_update_of_one_place_peaks_there():
    place = [7, 40, 81]
    update = compute_gradients(SCENE.place_m[place])
    measured = measure_rows(make_view(update), SCENE.place_m)
    assert_array_equal(measured.argmax(axis=2), np.array([place, place]).T)
    assert_allclose(measured[range(3), 1, place], D, rtol=1e-4)  # b = sqrt(d): nothing else


def test_one_of_a_crowd_of_noise_stands_out_at_its_place():
    update = draw_noise(40)
    gradient = compute_gradients(SCENE.place_m[[40]])[0]
    update[5] += 2 * np.sqrt(D) * gradient / np.linalg.norm(gradient)
    tally = observe(RowFilters(), (make_view(update), FACTS))
    columns = RowFilters().compute(tally, SCENE, np.arange(40))
    assert_array_equal(columns[:2, 5].argmax(axis=1), [40, 40])


def test_in_noise_alone_measures_have_mean_0_and_variance_1():
    n = 400
    measured = measure_rows(make_view(draw_noise(n)), SCENE.place_m)
    assert measured[:, 0].mean() == approx(0.0, abs=0.05)
    assert measured[:, 0].var() == approx(1.0, abs=0.1)
    assert measured[:, 1].mean() == approx(1.0, abs=0.05)
    assert measured[:, 1].var() == approx(2.0, abs=0.2)  # chi square, one degree


def test_measures_equal_those_of_layers_and_gradients_computed_apart():
    update = draw_noise(3) + 5 * compute_gradients(SCENE.place_m[[3, 9, 60]])
    place_m = SCENE.place_m[::5]
    sigma = np.sqrt((update**2).mean(axis=1))
    a = LEARNER.compute_layer_input(MODEL, 0, place_m, 1)
    layer = LEARNER.select_layer(update, 1)
    gradient = compute_gradients(place_m)
    measured = measure_rows(make_view(update), place_m)
    for k in range(3):
        energy = ((a @ layer[k]) ** 2).sum(axis=1) / (a**2).sum(axis=1) / sigma[k] ** 2
        b = gradient @ update[k] / np.linalg.norm(gradient, axis=1) / sigma[k]
        assert_allclose(measured[k, 0], (energy - 48) / np.sqrt(96), atol=1e-3)
        assert_allclose(measured[k, 1], b**2, atol=1e-3)


def test_columns_follow_their_formulas():
    views = [make_view(draw_noise(4, seed)) for seed in (1, 2, 3)]
    terms = [measure_rows(view, SCENE.place_m) for view in views]
    tally = observe(RowFilters(), *zip(views, (FACTS, FACTS, SUNDAY), strict=True))
    columns = RowFilters().compute(tally, SCENE, np.arange(4))
    for k, of_window in enumerate((terms, terms[2:], terms[:2])):
        q = sum(term[:, 0] for term in of_window) / np.sqrt(len(of_window))
        c = np.log(1 + sum(term[:, 1] for term in of_window) / len(of_window))
        squashed = np.arcsinh(q / 2)
        assert_allclose(columns[2 * k], squashed - squashed.mean(axis=0), atol=1e-9)
        assert_allclose(columns[2 * k + 1], c - c.mean(axis=0), atol=1e-9)


def test_columns_depend_on_neither_size_nor_names():
    update = draw_noise(3)
    plain = RowFilters().compute(
        observe(RowFilters(), (make_view(update), FACTS)), SCENE, np.arange(3)
    )
    for factor in (1e-200, 3.0, 1e200):
        tally = observe(RowFilters(), (make_view(factor * update), FACTS))
        assert_allclose(RowFilters().compute(tally, SCENE, np.arange(3)), plain, atol=1e-4)
    names = np.array([7, 0, 3])
    tally = observe(RowFilters(), (make_view(update, names), FACTS))
    assert_allclose(RowFilters().compute(tally, SCENE, names), plain)
    assert_allclose(plain.sum(axis=1), 0.0, atol=1e-9)


def test_sums_and_dead_rows_tell_filters_nothing():
    update = draw_noise(3)
    assert observe(RowFilters(), (make_view(update, vantage="aggregate"), FACTS)) == {}
    dead = observe(RowFilters(), (make_view(0 * update), FACTS))
    assert_array_equal(RowFilters().compute(dead, SCENE, np.arange(5)), 0.0)
    update[1, 5] = np.nan
    update[2] = 0
    tally = observe(RowFilters(), (make_view(update), FACTS))
    columns = RowFilters().compute(tally, SCENE, np.arange(5))
    assert_array_equal(columns, 0.0)  # one UE is its own crowd
    assert RowFilters().compute(tally, SCENE, np.arange(0)).shape == (6, 0, 96)
    none = make_view(update[:0])
    assert_array_equal(observe(RowFilters(), (none, FACTS))["rounds"], np.zeros((0, 3, 1)))


@mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_networks_that_are_not_known_or_diverged_leave_numbers_finite(value):
    model = Model(np.full_like(MODEL.parameters, value), MODEL.constants)
    view = make_view(draw_noise(3), model=model)
    with np.errstate(all="ignore"):
        tally = observe(RowFilters(), (view, FACTS))
    columns = RowFilters().compute(tally, SCENE, np.arange(4))
    assert np.isfinite(columns).all()
    assert_array_equal(columns[:, 3], 0.0)


def test_what_is_remembered_can_be_stored_and_other_learners_tell_nothing(tmp_path):
    column = RowFilters()
    view = make_view(draw_noise(3))
    tally = observe(column, (view, FACTS))
    save_tree(tmp_path / "tally.npz", tally)
    stored = load_tree(tmp_path / "tally.npz")
    ue = np.arange(3)
    assert_array_equal(column.compute(stored, SCENE, ue), column.compute(tally, SCENE, ue))
    assert observe(column, (replace(view, learner=Density(bandwidth_m=40.0)), FACTS)) == {}
    assert_array_equal(column.compute({}, SCENE, ue), np.zeros((len(column.names), 3, 96)))


@mark.parametrize(
    ("round_h", "end_h", "window"),
    [
        (24, 24, 2),  # Monday
        (24, 120, 2),
        (24, 144, 1),  # Saturday
        (24, 168, 1),
        (6, 6, 1),  # Monday until six
        (6, 12, 0),
        (6, 15, 2),
        (6, 24, 0),
        (6, 135, 1),  # noon of Saturday
        (168, 168, 2),
        (24, np.nan, 2),
        (6, np.nan, 0),
    ],
)
def test_windows_are_classified_by_their_middle(round_h, end_h, window):
    facts = replace(FACTS, round_s=3600.0 * round_h, week_s=3600.0 * end_h)
    assert classify_window(facts) == window
