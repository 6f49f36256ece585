"""What an attacker learns of its own errors, on UEs that it makes up."""

from dataclasses import replace

import numpy as np
import pytest
from estimates import said

from fl.attacks.base import View
from fl.attacks.closed_form import ClosedForm
from fl.attacks.learnt_errors import (
    MOST_RANKS,
    LearntErrors,
    OwnEstimates,
    Pace,
    fitted,
    lasting_m,
    named_places,
)
from fl.attacks.shadow_ues import ROAMING, SPEED_MPS, Population, _rsrp_dbm, made_up, positions_m
from fl.learners.rsrp_net import RsrpNet
from fl.tracking.error_model import ErrorModel
from fl.tracking.place_grid import PlaceGrid
from fl.types import Antennas, Model, Public, RoundContext
from netsim.geometry import Area
from netsim.rng import Streams

AREA = Area(0.0, 0.0, 4000.0, 3000.0)
GRID = PlaceGrid.over(AREA, 100.0, 1, "test")
RNG = Streams(3).at("attack.test", 1)
DRAW = np.random.default_rng(0)


def test_centroids_count_once_and_places_by_weight():
    estimates = said(
        (7, 0, "place", 10, 20, 0.2), (3, 0, "centroid", 100, 100, 1), (3, 0, "centroid", 300, 200, 1),
        (7, 0, "place", 30, 40, 0.9), (5, 0, "centroid", -5, 100, 1), (3, 0, "answer", 1, 1, 9),
    )  # fmt: skip
    names, z = named_places(estimates, AREA)
    assert names.tolist() == [3, 5, 7]
    assert z[0].tolist() == [[200, 150]] * MOST_RANKS
    assert np.isnan(z[1]).all()  # outside of the area
    assert z[2, :2].tolist() == [[30, 40], [10, 20]]
    assert np.isnan(z[2, 2:]).all()


@pytest.mark.parametrize(
    ("gain", "sigma", "outlier"), [(1.0, 150.0, 0.2), (0.3, 80.0, 0.05), (1.0, 20.0, 0.5)]
)
def test_the_fit_finds_the_model_that_drew_the_estimates(gain, sigma, outlier):
    truth = AREA.sample(DRAW.uniform(size=(4000, 2)))
    z = np.array([500.0, 200.0]) + gain * truth + sigma * DRAW.normal(size=truth.shape)
    false = DRAW.uniform(size=len(z)) < outlier
    z[false] = AREA.sample(DRAW.uniform(size=(false.sum(), 2)))
    model = fitted(z[:, None], truth, 12e6)
    assert model.gain[0] == pytest.approx(gain, rel=0.03)
    assert model.sigma_m[0] == pytest.approx(sigma, rel=0.08)
    assert model.outlier == pytest.approx(outlier, abs=0.04)
    assert model.offset_m[0] == pytest.approx([500, 200], abs=30)


def test_errors_of_two_scales_are_two_ranks():
    truth = AREA.sample(DRAW.uniform(size=(4000, 2)))
    wide = DRAW.uniform(size=4000) < 0.3
    z = truth + np.where(wide, 300.0, 10.0)[:, None] * DRAW.normal(size=truth.shape)
    model = fitted(np.repeat(z[:, None], 2, axis=1), truth, 12e6)
    assert sorted(model.sigma_m) == pytest.approx([10, 300], rel=0.1)
    assert model.share[np.argmax(model.sigma_m)] == pytest.approx(0.3, abs=0.04)


def test_estimates_that_do_not_depend_on_the_truth_say_nothing():
    truth = AREA.sample(DRAW.uniform(size=(3000, 2)))
    z = np.array([2000.0, 1500.0]) + 30 * DRAW.normal(size=truth.shape)
    model = fitted(z[:, None], truth, 12e6)
    e = model.likelihood(np.array([[[2010.0, 1490.0]]]), GRID)
    assert e.min() / e.max() > 0.5  # a naive Gaussian would rule out all but a few cells


def test_likelihoods_are_densities_of_estimates():
    """Over all estimates, the likelihood of one place integrates to 1 up to what lies outside of
    the area."""
    one = np.array([1.0])
    offset_m = np.array([[1000.0, 750.0]])
    model = ErrorModel(one, 120 * one, 0.25, gain=0.5 * one, offset_m=offset_m)
    fine = PlaceGrid.over(AREA, 20.0, 1, "test")
    e = model.likelihood(fine.place_m[:, None], GRID)
    assert e.sum(axis=0) * 20.0**2 / 12e6 == pytest.approx(1.0, abs=2e-3)


def test_cells_are_integrated_exactly():
    tiny = ErrorModel.plain(1.0, 0.0)
    e = tiny.likelihood(np.array([[[250.0, 350.0]]]), GRID)[0]
    assert e[GRID.nearest(np.array([[250.0, 350.0]]))[0]] == pytest.approx(1200)
    assert e.sum() == pytest.approx(1200)


def test_made_up_ues_live_where_the_population_does():
    only = np.zeros(len(GRID))
    only[[5, 700]] = 0.5
    at = Population(GRID, only).sample(DRAW.uniform(size=(1000, 3)))
    assert set(GRID.nearest(at).tolist()) == {5, 700}


def test_made_up_ues_that_roam_go_straight_on_without_jumps():
    """At 8 m/s on average, between places of the population; where one way ends the next one
    begins."""
    everybody = replace(Population.uniform(GRID), roaming=1.0)
    ue = np.arange(200)
    time_s = 10.0 * np.arange(1000)
    at_m = np.stack([positions_m(ue, np.full(200, t), everybody, RNG) for t in time_s])
    step_m = np.linalg.norm(np.diff(at_m, axis=0), axis=2)
    leg_s = 0.52 * np.sqrt(np.prod(AREA.side_m)) / SPEED_MPS
    assert step_m.max() <= 10.0 * np.linalg.norm(AREA.side_m) / leg_s
    assert step_m.mean() / 10.0 == pytest.approx(SPEED_MPS, rel=0.05)


PUBLIC = Public(
    AREA,
    2,
    antennas=Antennas(np.array([[500.0, 500, 20], [3500, 2500, 20]]), np.zeros(2)),
    n_cell=2,
    model_of_cell=np.array([0, 1]),
)


NOTHING = Model(np.zeros((2, 2)))
VIEW = View(
    "rows",
    "all",
    np.zeros((3, 2)),
    np.array([0, 1, 1]),
    np.array([4, 4, 9]),
    np.array([0, 1, 1]),
    np.arange(3),
    NOTHING,
    NOTHING,
    None,
    np.array([10.0, 400.0, 30.0]),
)


class Copies:
    """A replica whose updates are the mean places of the rows."""

    def made_up(self, wanted):
        return wanted

    def play(self, data, state, rng):
        every = np.arange(len(data.ue))
        given = (
            data.model,
            data.ue,
            data.model,
            every,
            NOTHING,
            NOTHING,
            None,
            data.count.astype(float),
        )
        return View("updates", "all", data.mean_x(), *given), (state or 0) + 1


class Mean(ClosedForm):
    """Names what the update is, 60 m east of it."""

    def run(self, view, facts, state, rng):
        return view.spread(
            "centroid", np.arange(len(view.update)), view.update + np.array([60.0, 0.0])
        ), state


def test_learning_from_a_replica():
    view = replace(VIEW, replica=Copies())
    known = LearntErrors()
    for number in range(1, 7):
        facts = RoundContext(
            number, 3600.0 * number, PUBLIC, round_s=3600.0, week_s=3600.0 * number
        )
        known = known.plus(view, facts, Mean(), Population.uniform(GRID), 40, RNG, fresh=False)
    assert known.learnt == 6
    assert known.replica == 6
    assert len(known.tested.ue) == 240
    assert known.fitted.offset_m[0] == pytest.approx([60, 0], abs=15)
    assert known.fitted.gain[0] == pytest.approx(1, abs=0.02)
    assert len(known.displacements_m) == 200


def test_what_estimates_of_a_ue_at_rest_have_in_common_is_found():
    """Bias 80 m a UE and axis, noise 60 m, gain 0.5: in metres of truth."""
    n = 300
    rounds = 6
    truth = AREA.sample(DRAW.uniform(size=(n, 2)))
    bias = 80 * DRAW.normal(size=(n, 2))
    z = [300 + 0.5 * (truth + bias + 60 * DRAW.normal(size=(n, 2))) for _ in range(rounds)]
    named = np.full((n * rounds, MOST_RANKS, 2), np.nan)
    named[:, :2] = np.concatenate(z)[:, None]
    truth = np.tile(truth, (rounds, 1))
    tested = OwnEstimates(
        named, np.tile(np.arange(n), rounds), np.repeat(np.arange(rounds), n), truth
    )
    model = fitted(named, truth, float(np.prod(AREA.side_m)))
    assert lasting_m(model, tested) == pytest.approx(80, rel=0.12)


def test_the_published_model_errs_about_made_up_ues_by_half_of_the_public_deviation():
    learner = RsrpNet(
        hidden=(8,), labels="standardised", public_rsrp_mean_dbm=-90, public_rsrp_std_db=12
    )
    model = learner.init(PUBLIC, RNG)
    view = replace(VIEW, learner=learner, model_before=model)
    facts = RoundContext(1, 600.0, PUBLIC, round_s=600.0, week_s=0.0)
    data = made_up(50, view, facts, Population.uniform(GRID), RNG)
    rows = data.model[data.row_of_sample]
    off_db = data.y - learner.predict_dbm(model, rows, data.x)
    assert np.sqrt((off_db**2).mean()) == pytest.approx(6.0)
    wild = replace(model, parameters=np.full_like(model.parameters, np.nan))
    assert np.isfinite(
        made_up(50, replace(view, model_before=wild), facts, Population.uniform(GRID), RNG).y
    ).all()


def test_made_up_rsrp_keeps_its_shadowing_and_has_new_noise_in_every_round():
    """Noise of 2 dB: two rounds differ by sqrt(2) of it at every place, and only by that."""
    x = AREA.sample(DRAW.uniform(size=(4000, 2)))
    one = np.zeros(4000, dtype=np.int64)
    facts = RoundContext(1, 600.0, PUBLIC)
    rounds = [
        _rsrp_dbm(x, one, one, VIEW, facts, Streams(3).at("attack.test", number))
        for number in (1, 2)
    ]
    assert (rounds[1] - rounds[0]).std() == pytest.approx(2.0 * np.sqrt(2.0), rel=0.05)
    away_km = np.linalg.norm(x - [500.0, 500.0], axis=1) / 1000
    assert (rounds[0] + 128.1 + 37.6 * np.log10(np.maximum(away_km, 0.01))).std() == pytest.approx(
        8.25, rel=0.05
    )


# -- how much made-up UEs move: matched to the estimates of real ones


EVERYWHERE = Population.uniform(GRID)
STEPS = np.random.default_rng(0)


def steps(n, at_rest, median_m):
    """Steps of which a share is at rest, and the others have this median."""
    far = median_m * np.exp(0.2 * STEPS.normal(size=n))
    return np.where(np.arange(n) < at_rest * n, 0.0, far)


def seen(step_m):
    """After two rounds in which UEs moved so far, each in its own direction."""
    ue = np.arange(len(step_m))
    start_m = STEPS.uniform(0, 4000, (len(step_m), 2))
    turn = STEPS.uniform(0, 2 * np.pi, len(step_m))
    moved_m = step_m[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    return Pace().seen(7, ue, start_m).seen(8, ue, start_m + moved_m)


def test_steps_are_those_of_one_ue_in_successive_rounds():
    pace = Pace().seen(1, np.array([2, 5, 9]), np.array([[0.0, 0], [10, 10], [np.nan, np.nan]]))
    pace = pace.seen(2, np.array([5, 7, 9]), np.array([[13.0, 14], [0, 0], [0, 0]]))
    assert pace.steps_m.tolist() == [5.0]
    assert pace.seen(2, np.array([5]), np.zeros((1, 2))) is pace  # another look at the same round
    assert pace.seen(4, np.array([5]), np.zeros((1, 2))).steps_m.tolist() == [5.0]


def test_made_up_ues_become_as_fast_as_real_ones_seem():
    pace = seen(steps(400, 0.5, 400.0)).matched(EVERYWHERE, steps(400, 0.5, 1000.0))
    assert pace.speed_mps == pytest.approx(0.4 * SPEED_MPS, rel=0.05)
    assert pace.roaming == ROAMING


def test_as_many_rest_as_real_ones_seem_to():
    pace = seen(steps(400, 0.2, 1000.0)).matched(EVERYWHERE, steps(400, 0.4, 1000.0))
    assert pace.roaming == pytest.approx(1 - 0.2 * 0.8 / 0.4)
    assert pace.speed_mps == SPEED_MPS
    always = EVERYWHERE.__class__(EVERYWHERE.grid, EVERYWHERE.probability, roaming=1.0)
    assert seen(steps(400, 0.3, 1000.0)).matched(
        always, steps(400, 0.0, 1000.0)
    ).roaming == pytest.approx(0.7)


@pytest.mark.parametrize("given", ["roaming", "speed"])
def test_what_is_given_stays(given):
    flags = {f"match_{given}": False}
    people = Population(EVERYWHERE.grid, EVERYWHERE.probability, **flags)
    pace = seen(steps(400, 0.1, 300.0)).matched(people, steps(400, 0.4, 1000.0))
    assert (pace.roaming == ROAMING) == (given == "roaming")
    assert (pace.speed_mps == SPEED_MPS) == (given == "speed")
    now = Pace(roaming=0.9, speed_mps=1.0).of(people)
    assert (now.roaming, now.speed_mps) == (
        (ROAMING, 1.0) if given == "roaming" else (0.9, SPEED_MPS)
    )
