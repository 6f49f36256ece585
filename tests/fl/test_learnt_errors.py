"""What an attacker learns of its own errors, on UEs that it makes up."""

from dataclasses import replace

import numpy as np
from arrays import read_array
from estimates import said
from fl_values import read_rows
from numpy.linalg import norm
from numpy.random import default_rng
from pytest import approx, mark
from tabled import cases

from fl.attacks.base import View
from fl.attacks.closed_form import ClosedForm
from fl.attacks.learnt_errors import (
    MAX_RANKS,
    LearntErrors,
    OwnEstimates,
    Pace,
    estimate_bias_std_m,
    fit_error_model,
    rank_places,
)
from fl.attacks.shadow_ues import (
    ROAMING,
    SPEED_MPS,
    Population,
    _draw_rsrp_dbm,
    simulate_measurements,
    simulate_positions,
)
from fl.learners.rsrp_net import RsrpNet
from fl.tracking.error_model import ErrorModel
from fl.tracking.place_grid import PlaceGrid
from fl.types import Antennas, Model, Public, RoundContext
from netsim.geometry import Area
from netsim.rng import Streams

AREA = Area(0.0, 0.0, 4000.0, 3000.0)
GRID = PlaceGrid.from_area(AREA, 100.0, 1, "test")
RNG = Streams(3).derive_rng("attack.test", 1)
DRAW = default_rng(0)


def test_centroids_count_once_and_places_by_weight():
    estimates = read_rows("""
        7 0 place 10 20 0.2
        3 0 centroid 100 100 1
        3 0 centroid 300 200 1
        7 0 place 30 40 0.9
        5 0 centroid -5 100 1
        3 0 answer 1 1 9
    """)
    estimates = said(*estimates)
    names, z = rank_places(estimates, AREA)
    assert names.tolist() == [3, 5, 7]
    assert z[0].tolist() == [[200, 150]] * MAX_RANKS
    assert np.isnan(z[1]).all()  # outside of the area
    assert z[2, :2].tolist() == [[30, 40], [10, 20]]
    assert np.isnan(z[2, 2:]).all()


@mark.parametrize(
    ("gain", "sigma", "outlier"),
    cases("""
    1.0, 150.0, 0.2
    0.3, 80.0, 0.05
    1.0, 20.0, 0.5
"""),
)
def test_the_fit_finds_the_model_that_drew_the_estimates(gain, sigma, outlier):
    truth = AREA.sample(DRAW.uniform(size=(4000, 2)))
    z = read_array("500.0 200") + gain * truth + sigma * DRAW.normal(size=truth.shape)
    false = DRAW.uniform(size=len(z)) < outlier
    z[false] = AREA.sample(DRAW.uniform(size=(false.sum(), 2)))
    model = fit_error_model(z[:, None], truth, 12e6)
    assert model.gain[0] == approx(gain, rel=0.03)
    assert model.sigma_m[0] == approx(sigma, rel=0.08)
    assert model.outlier == approx(outlier, abs=0.04)
    assert model.offset_m[0] == approx([500, 200], abs=30)


def test_errors_of_two_scales_are_two_ranks():
    truth = AREA.sample(DRAW.uniform(size=(4000, 2)))
    wide = DRAW.uniform(size=4000) < 0.3
    z = truth + np.where(wide, 300.0, 10.0)[:, None] * DRAW.normal(size=truth.shape)
    model = fit_error_model(np.repeat(z[:, None], 2, axis=1), truth, 12e6)
    assert sorted(model.sigma_m) == approx([10, 300], rel=0.1)
    assert model.share[np.argmax(model.sigma_m)] == approx(0.3, abs=0.04)


def test_estimates_that_do_not_depend_on_the_truth_say_nothing():
    truth = AREA.sample(DRAW.uniform(size=(3000, 2)))
    z = read_array("2000.0 1500") + 30 * DRAW.normal(size=truth.shape)
    model = fit_error_model(z[:, None], truth, 12e6)
    e = model.compute_likelihood_ratio(np.array([[[2010.0, 1490.0]]]), GRID)
    assert e.min() / e.max() > 0.5  # a naive Gaussian would rule out all but a few cells


def test_likelihoods_are_densities_of_estimates():
    """Over all estimates, the likelihood of one place integrates to 1 up to what lies outside of
    the area."""
    first = np.array([1.0])
    offset_m = read_array("1000.0 750;")
    model = ErrorModel(first, 120 * first, 0.25, gain=0.5 * first, offset_m=offset_m)
    fine = PlaceGrid.from_area(AREA, 20.0, 1, "test")
    e = model.compute_likelihood_ratio(fine.place_m[:, None], GRID)
    assert e.sum(axis=0) * 20.0**2 / 12e6 == approx(1.0, abs=2e-3)


def test_cells_are_integrated_exactly():
    tiny = ErrorModel.from_sigma(1.0, 0.0)
    e = tiny.compute_likelihood_ratio(np.array([[[250.0, 350.0]]]), GRID)[0]
    assert e[GRID.find_cells(read_array("250.0 350;"))[0]] == approx(1200)
    assert e.sum() == approx(1200)


def test_made_up_ues_live_where_the_population_does():
    only = np.zeros(len(GRID))
    only[[5, 700]] = 0.5
    place = Population(GRID, only).sample(DRAW.uniform(size=(1000, 3)))
    assert set(GRID.find_cells(place).tolist()) == {5, 700}


def test_made_up_ues_that_roam_go_straight_on_without_jumps():
    """At 8 m/s on average, between places of the population; where one way ends the next one
    begins."""
    everybody = replace(Population.uniform(GRID), roaming=1.0)
    ue = np.arange(200)
    time_s = 10.0 * np.arange(1000)
    at_m = np.stack([simulate_positions(ue, np.full(200, t), everybody, RNG) for t in time_s])
    step_m = norm(np.diff(at_m, axis=0), axis=2)
    leg_s = 0.52 * np.sqrt(np.prod(AREA.side_m)) / SPEED_MPS
    assert step_m.max() <= 10.0 * norm(AREA.side_m) / leg_s
    assert step_m.mean() / 10.0 == approx(SPEED_MPS, rel=0.05)


PUBLIC = Public(
    AREA,
    2,
    antennas=Antennas(read_array("500.0 500 20; 3500 2500 20"), np.zeros(2)),
    n_cell=2,
    model_of_cell=read_array("0 1"),
)


NOTHING = Model(np.zeros((2, 2)))
VIEW = View(
    "rows",
    "all",
    np.zeros((3, 2)),
    read_array("0 1 1"),
    read_array("4 4 9"),
    read_array("0 1 1"),
    np.arange(3),
    NOTHING,
    NOTHING,
    None,
    read_array("10.0 400 30"),
)


class Copies:
    """A replica whose updates are the mean places of the rows."""

    def count_shadow_ues(self, target):
        return target

    def play(self, data, state, rng):
        ue = data.ue
        cell = data.model
        targets = (cell, ue, cell, np.arange(len(ue)))
        count = data.count.astype(float)
        view = View("updates", "all", data.average_x(), *targets, NOTHING, NOTHING, None, count)
        return view, (state or 0) + 1


class Mean(ClosedForm):
    """Names what the update is, 60 m east of it."""

    def run(self, view, facts, state, rng):
        place_m = view.update + read_array("60.0 0")
        return view.build_estimates("centroid", np.arange(len(place_m)), place_m), state


def test_learning_from_a_replica():
    view = replace(VIEW, replica=Copies())
    learnt = LearntErrors()
    for number in range(1, 7):
        facts = RoundContext(
            number, 3600.0 * number, PUBLIC, round_s=3600.0, week_s=3600.0 * number
        )
        learnt = learnt.plus(view, facts, Mean(), Population.uniform(GRID), 40, RNG, fresh=False)
    assert learnt.learnt == 6
    assert learnt.replica == 6
    assert len(learnt.tested.ue) == 240
    assert learnt.fitted.offset_m[0] == approx([60, 0], abs=15)
    assert learnt.fitted.gain[0] == approx(1, abs=0.02)
    assert len(learnt.displacements_m) == 200


def test_what_estimates_of_a_ue_at_rest_have_in_common_is_found():
    """Bias 80 m a UE and axis, noise 60 m, gain 0.5: in metres of truth."""
    n = 300
    rounds = 6
    truth = AREA.sample(DRAW.uniform(size=(n, 2)))
    bias = 80 * DRAW.normal(size=(n, 2))
    truth, bias = (np.tile(values, (rounds, 1)) for values in (truth, bias))
    noise = 60 * DRAW.normal(size=truth.shape)
    named = np.full((n * rounds, MAX_RANKS, 2), np.nan)
    named[:, :2] = (300 + 0.5 * (truth + bias + noise))[:, None]
    number, ue = np.divmod(np.arange(n * rounds), n)
    tested = OwnEstimates(named, ue, number, truth)
    model = fit_error_model(named, truth, float(np.prod(AREA.side_m)))
    assert estimate_bias_std_m(model, tested) == approx(80, rel=0.12)


def test_the_published_model_errs_about_made_up_ues_by_half_of_the_public_deviation():
    learner = RsrpNet(
        hidden=(8,), labels="standardised", public_rsrp_mean_dbm=-90, public_rsrp_std_db=12
    )
    model = learner.init(PUBLIC, RNG)
    view = replace(VIEW, learner=learner, model_before=model)
    facts = RoundContext(1, 600.0, PUBLIC, round_s=600.0, week_s=0.0)
    data = simulate_measurements(50, view, facts, Population.uniform(GRID), RNG)
    rows = data.model[data.row_of_sample]
    off_db = data.y - learner.predict_dbm(model, rows, data.x)
    assert np.sqrt((off_db**2).mean()) == approx(6.0)
    wild = replace(model, parameters=np.full_like(model.parameters, np.nan))
    view = replace(view, model_before=wild)
    data = simulate_measurements(50, view, facts, Population.uniform(GRID), RNG)
    assert np.isfinite(data.y).all()


def test_made_up_rsrp_keeps_its_shadowing_and_has_new_noise_in_every_round():
    """Noise of 2 dB: two rounds differ by sqrt(2) of it at every place, and only by that."""
    x = AREA.sample(DRAW.uniform(size=(4000, 2)))
    zeros = np.zeros(4000, dtype=int)
    facts = RoundContext(1, 600.0, PUBLIC)
    first, second = (
        _draw_rsrp_dbm(x, zeros, zeros, VIEW, facts, Streams(3).derive_rng("attack.test", number))
        for number in (1, 2)
    )
    assert (second - first).std() == approx(2.0 * np.sqrt(2.0), rel=0.05)
    away_km = norm(x - [500.0, 500.0], axis=1) / 1000
    shadowing = first + 128.1 + 37.6 * np.log10(np.maximum(away_km, 0.01))
    assert shadowing.std() == approx(8.25, rel=0.05)


# -- how much made-up UEs move: matched to the estimates of real ones


EVERYWHERE = Population.uniform(GRID)
STEPS = default_rng(0)


def steps(n, at_rest, median_m):
    """Steps of which a share is at rest, and the others have this median."""
    far = median_m * np.exp(0.2 * STEPS.normal(size=n))
    return np.where(np.arange(n) < at_rest * n, 0.0, far)


def see_steps(step_m):
    """After two rounds in which UEs moved so far, each in its own direction."""
    ue = np.arange(len(step_m))
    start_m = STEPS.uniform(0, 4000, (len(step_m), 2))
    turn = STEPS.uniform(0, 2 * np.pi, len(step_m))
    moved_m = step_m[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    return Pace().with_estimates(7, ue, start_m).with_estimates(8, ue, start_m + moved_m)


def test_steps_are_those_of_one_ue_in_successive_rounds():
    place_m = read_array("0.0 0; 10 10; nan nan")
    pace = Pace().with_estimates(1, read_array("2 5 9"), place_m)
    pace = pace.with_estimates(2, read_array("5 7 9"), read_array("13.0 14; 0 0; 0 0"))
    assert pace.steps_m.tolist() == [5.0]
    last = (np.array([5]), np.zeros((1, 2)))
    # another look at the same round
    assert pace.with_estimates(2, *last) is pace
    assert pace.with_estimates(4, *last).steps_m.tolist() == [5.0]


def test_made_up_ues_become_as_fast_as_real_ones_seem():
    pace = see_steps(steps(400, 0.5, 400.0)).match_to(EVERYWHERE, steps(400, 0.5, 1000.0))
    assert pace.speed_mps == approx(0.4 * SPEED_MPS, rel=0.05)
    assert pace.roaming == ROAMING


def test_as_many_rest_as_real_ones_seem_to():
    pace = see_steps(steps(400, 0.2, 1000.0)).match_to(EVERYWHERE, steps(400, 0.4, 1000.0))
    assert pace.roaming == approx(1 - 0.2 * 0.8 / 0.4)
    assert pace.speed_mps == SPEED_MPS
    always = replace(EVERYWHERE, roaming=1.0)
    pace = see_steps(steps(400, 0.3, 1000.0)).match_to(always, steps(400, 0.0, 1000.0))
    assert pace.roaming == approx(0.7)


@mark.parametrize("given", ["roaming", "speed"])
def test_what_is_given_stays(given):
    people = replace(EVERYWHERE, **{f"match_{given}": False})
    pace = see_steps(steps(400, 0.1, 300.0)).match_to(people, steps(400, 0.4, 1000.0))
    assert (pace.roaming == ROAMING) == (given == "roaming")
    assert (pace.speed_mps == SPEED_MPS) == (given == "speed")
    current = Pace(roaming=0.9, speed_mps=1.0).apply_to(people)
    expected = (ROAMING, 1.0) if given == "roaming" else (0.9, SPEED_MPS)
    assert (current.roaming, current.speed_mps) == expected
