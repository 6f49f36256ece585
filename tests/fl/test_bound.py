"""The convergence bound as a law of power: closed forms, identities, edges; plans that reach known
optima."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_allclose
from pytest import approx, raises

from fl.power.bound import Convergence, PowerLoss, Trajectory
from fl.power.search import (
    Limits,
    _find_edge,
    pick_best_plan,
    plan_average,
    plan_by_evolution,
    plan_by_plateaus,
    plan_full,
)
from netsim.errors import BadInput
from netsim.rng import Streams
from scenarios.app.result import run
from scenarios.app.run.runner import build_trajectory, load_reference
from scenarios.app.study.load import load

parametrize = pytest.mark.parametrize

LIMITS = Limits()
RNG = Streams(3).derive_rng("plan")
CRITERIA = ("aggregate", "per-device", "top-up")


def trajectory(seed=0, rounds=40, ues=15, moving=False):
    """Noise that falls over the rounds, weights with three heavy UEs, gains of a fading channel."""
    g = default_rng(seed)
    weight = np.full(ues, 0.02)
    weight[:3] = (0.29, 0.25, 0.22)
    gain = np.exp(g.normal(0, 0.7, (rounds if moving else 1, ues))) * np.ones((rounds, 1)) * 2.0
    std = (
        np.linspace(1.0, 0.25, rounds)[:, None] ** 2
        * np.exp(g.normal(0, 0.1, (rounds, ues)))
        * 0.05
    )
    return Trajectory(std, np.tile(weight / weight.sum(), (rounds, 1)), gain, 0.5 / np.sqrt(2410))


def powers(n, ues=15, seed=1):
    return LIMITS.project(np.exp(default_rng(seed).uniform(np.log(0.05), np.log(0.2), (n, ues))))


def by_hand(objective, x):
    """L of one power vector, term by term."""
    t = objective.trajectory
    a = objective.contraction
    rounds = len(t.std)
    j = int(objective.find_switch(x[None])[0])
    channel = sum(
        a ** (rounds - 1 - r)
        * sum(t.weight[r, k] ** 2 * t.scale**2 / (t.gain[r, k] * x[k]) for k in range(len(x)))
        for r in range(rounds)
    )
    if objective.law.order == "paper":

        def power(r):
            return r
    else:

        def power(r):
            return rounds - 1 - r

    artificial = sum(a ** power(r) * (t.weight[r] ** 2 * t.std[r] ** 2).sum() for r in range(j))
    return channel + artificial


@parametrize("order", ["paper", "reordered"])
@parametrize("criterion", ["aggregate", "per-device"])
@parametrize("moving", [False, True])
def test_the_law_is_its_formula(order, criterion, moving):
    objective = PowerLoss(trajectory(moving=moving), Convergence(order=order), criterion)
    x = powers(5)
    expected = [by_hand(objective, v) for v in x]
    assert_allclose(objective(x), expected, rtol=1e-12)
    assert (objective(x, objective.find_switch(x)) == objective(x)).all()


def test_the_contraction_in_both_forms():
    weight = np.full((3, 5), 0.2)
    expected = 1 + 10 * 0.01**2 * 1.44 * 0.2 - 0.02
    assert Convergence().compute_contraction(weight) == approx(expected)
    expected = 1 + 10 * 0.01**2 * 1.44 - 0.02
    assert Convergence(contraction="jensen").compute_contraction(weight) == approx(expected)
    # the spec's value at sum G^2 = 0.2
    assert Convergence().compute_contraction(weight) == approx(0.980, abs=5e-4)
    uneven = np.vstack([weight, np.eye(5)[0]])
    expected = Convergence(contraction="jensen").compute_contraction(weight)
    assert Convergence().compute_contraction(uneven) == approx(expected)


def test_a_bound_that_does_not_contract_is_refused_with_the_largest_step():
    weight = np.full((1, 5), 0.2)
    max_rate = 2 / (10 * 1.44 * 0.2)
    with raises(ValueError, match=f"take less than {max_rate:.4g}"):
        Convergence(learning_rate=max_rate * 1.001).compute_contraction(weight)
    assert 0 < Convergence(learning_rate=max_rate * 0.999).compute_contraction(weight) < 1
    with raises(ValueError, match="above smoothness"):
        Convergence(strong_convexity=20.0)


@parametrize("criterion", ["aggregate", "per-device"])
@parametrize("moving", [False, True])
def test_powers_on_the_edge_of_a_plateau_are_on_it_and_a_little_more_power_is_not(
    criterion, moving
):
    objective = PowerLoss(trajectory(moving=moving), Convergence(), criterion)
    root = 1 / np.sqrt(powers(1)[0])
    for j in (5, 20, 35):
        edge = _find_edge(objective, j)
        lowest = max(
            [
                *(edge.demand / (edge.noise @ root)),
                *((1 / np.sqrt(edge.ceiling_w) / root)[edge.ceiling_w < np.inf]),
            ]
        )
        on = (1 / (root * lowest) ** 2)[None]
        over = (1 / (root * lowest * (1 - 1e-6)) ** 2)[None]
        assert objective.find_switch(on)[0] <= j < objective.find_switch(over)[0]


@parametrize("criterion", CRITERIA)
def test_the_switch_comes_later_with_more_power(criterion):
    objective = PowerLoss(trajectory(moving=True), Convergence(), criterion)
    x = powers(50)
    before = objective.find_switch(x * 1e-3)
    for factor in np.geomspace(2e-3, 1e3, 30):
        switch_now = objective.find_switch(x * factor)
        assert (switch_now >= before).all()
        before = switch_now
    assert (objective.find_switch(x * 1e-9) == 0).all()
    assert (objective.find_switch(x * 1e9) == 40).all()


def test_the_switch_is_the_last_exceedance_not_the_first_crossing():
    std = np.array([[4.0], [1.0], [3.0], [1.0]])
    objective = PowerLoss(Trajectory(std, np.ones((4, 1)), np.ones((4, 1)), 1.0), Convergence())
    noise_std = np.array([0.5, 1.0, 2.0, 3.0, 5.0])
    assert objective.find_switch(1 / noise_std[:, None] ** 2).tolist() == [4, 3, 3, 1, 0]


@parametrize(
    ("changes", "says"),
    [
        ({"std": np.ones((2, 3))}, "rounds x UEs"),
        ({"weight": np.full((2, 2), np.nan)}, "weight must be finite"),
        ({"std": -np.ones((2, 2))}, "std must be finite and not negative"),
        ({"gain": np.zeros((2, 2))}, "has no gain"),
    ],
)
def test_what_is_no_trajectory_is_refused(changes, says):
    whole = {"std": np.ones((2, 2)), "weight": np.ones((2, 2)), "gain": np.ones((2, 2))} | changes
    with raises(ValueError, match=says):
        Trajectory(**whole, scale=1.0)


@parametrize("ues", [2, 13, 14, 400])
def test_the_default_rate_contracts_with_any_number_of_ues(ues):
    """0.01, or where s is large the rate 1 / (L d^2 s) at which A is least: A = 1 - mu / (L d^2 s)
    there."""
    for s, weight in ((1.0 / ues, np.full((1, ues), 1.0 / ues)), (ues, np.ones((1, ues)))):
        rates = np.linspace(1e-5, 0.01, 2000)
        law = 1 + 14.4 * s * rates**2 - 2 * rates
        assert Convergence().compute_contraction(weight) == approx(law.min(), abs=1e-7)
        assert law.min() < 1
    if ues < 7:
        assert Convergence().compute_contraction(weight) == Convergence(
            learning_rate=0.01
        ).compute_contraction(weight)


# -- limits


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(-1.0, 2.0), min_size=3, max_size=6))
def test_the_projection_is_the_nearest_vector(values):
    """Against scipy's own quadratic program."""
    from scipy.optimize import minimize

    limits = Limits(each_min_w=0.05, each_max_w=0.6, total_min_w=0.4, total_max_w=1.1)
    x = np.array(values)
    result = limits.project(x[None])[0]
    assert (result >= 0.05 - 1e-12).all()
    assert (result <= 0.6 + 1e-12).all()
    assert 0.4 - 1e-9 <= result.sum() <= 1.1 + 1e-9
    rules = [
        {"type": "ineq", "fun": lambda v: 1.1 - v.sum()},
        {"type": "ineq", "fun": lambda v: v.sum() - 0.4},
    ]
    mode = {"bounds": [(0.05, 0.6)] * len(x), "constraints": rules, "tol": 1e-12}
    feasible = minimize(lambda v: ((v - x) ** 2).sum(), np.full(len(x), 0.2), **mode)
    assert ((result - x) ** 2).sum() <= feasible.fun + 1e-6
    assert_allclose(limits.project(result[None])[0], result, atol=1e-12)


def test_limits_that_nobody_can_keep_are_refused():
    with raises(ValueError, match=r"take at most 0\.1"):
        Limits(each_min_w=0.2, each_max_w=0.3, total_max_w=1.5).project(np.ones((1, 15)))
    with raises(ValueError, match=r"take at least 0\.5"):
        Limits(each_max_w=0.1, total_min_w=1.0).project(np.ones((1, 2)))
    with raises(ValueError, match="exchange them"):
        Limits(total_min_w=2.0, total_max_w=1.5)


@parametrize("ues", [4, 15, 40, 80])
def test_defaults_bind_no_number_of_ues(ues):
    """Each UE has its own two limits and no other; full power is the most of each, average half of
    it."""
    limits = Limits()
    x = default_rng(ues).uniform(0.05, 0.2, (20, ues))
    np.testing.assert_array_equal(limits.project(x), x)
    objective = PowerLoss(trajectory(ues=ues), Convergence())
    assert_allclose(plan_full(objective, limits).power_w, 0.2, rtol=1e-12)
    assert_allclose(plan_average(objective, limits).power_w, 0.1, rtol=1e-12)
    bound = plan_full(objective, limits).value * (1 + 1e-9)
    assert plan_by_plateaus(objective, limits).value <= bound


# -- plans


def test_without_artificial_noise_power_goes_as_weight_over_amplitude():
    """min sum a_k / x_k at a given total: x_k proportional to sqrt(a_k) = G_k / ||h_k||."""
    t = trajectory(ues=4)
    weight = np.tile([0.2, 0.25, 0.25, 0.3], (40, 1))
    quiet = PowerLoss(Trajectory(np.zeros_like(t.std), weight, t.gain, t.scale), Convergence())
    limits = Limits(each_min_w=1e-3, each_max_w=1.4, total_max_w=1.5)
    ideal = weight[0] / np.sqrt(t.gain[0])
    ideal *= 1.5 / ideal.sum()
    plan = plan_by_plateaus(quiet, limits)
    assert_allclose(plan.power_w, ideal, rtol=2e-3)
    assert plan.switch == 0
    expected = float(quiet(ideal[None])[0])
    assert plan.value == approx(expected, rel=1e-6)


@parametrize(("order", "criterion"), [("paper", "aggregate"), ("reordered", "per-device")])
def test_plateaus_and_evolution_agree_and_beat_equal_splits(order, criterion):
    objective = PowerLoss(trajectory(rounds=60), Convergence(order=order), criterion)
    best = plan_by_plateaus(objective, LIMITS)
    result = plan_by_evolution(objective, LIMITS, RNG)
    assert best.value <= 1.003 * result.value
    assert result.value <= 1.03 * best.value
    bound = min(plan_average(objective, LIMITS).value, plan_full(objective, LIMITS).value)
    assert best.value < bound
    for plan in (best, result):
        assert_allclose(LIMITS.project(plan.power_w[None])[0], plan.power_w, atol=1e-12)
        expected = float(objective(plan.power_w[None])[0])
        assert plan.value == approx(expected)
    assert result.evaluations == 151 * 128
    again = plan_by_evolution(objective, LIMITS, RNG)
    np.testing.assert_array_equal(again.power_w, result.power_w)
    tried = pick_best_plan(objective, LIMITS, powers(3000, seed=9), 3000)
    assert best.value <= tried.value


def test_moving_ues_are_planned_too_and_top_up_has_no_plateau():
    moving = trajectory(rounds=20, ues=5, moving=True)
    limits = Limits(total_max_w=0.6)
    for criterion in ("aggregate", "per-device"):
        objective = PowerLoss(moving, Convergence(), criterion)
        bound = 1.01 * plan_by_evolution(objective, limits, RNG, 60).value
        assert plan_by_plateaus(objective, limits).value <= bound
    top = PowerLoss(moving, Convergence(), "top-up")
    bound = plan_full(top, limits).value * 1.001
    assert plan_by_evolution(top, limits, RNG, 60).value <= bound


# -- from a run


def test_the_reference_of_a_study_is_what_its_run_recorded(tmp_path):
    defenses = [{"kind": "clip", "norm": 0.5}, {"kind": "gaussian", "noise_multiplier": 0.1}]
    short = {"learning.rounds": 4, "learning.data.samples": 20, "learning.defenses": defenses}
    study = load("lapa/aggregation", short)
    result = load_reference(study, tmp_path)
    assert result.std.shape == (4, 15)
    assert result.still
    assert_allclose(result.std, 0.1 * 2 * 0.5, rtol=1e-8)  # of the sensitivity, twice the norm
    assert_allclose(result.weight.sum(axis=1), 1, rtol=1e-7)
    assert result.scale == approx(0.5 / np.sqrt(2410), rel=1e-6)
    folders = list(tmp_path.iterdir())
    stamp = (folders[0] / "kept.npz").stat().st_mtime_ns
    assert load_reference(study, tmp_path).content == result.content
    assert len(folders) == 1
    assert (folders[0] / "kept.npz").stat().st_mtime_ns == stamp  # not made again
    louder = load("lapa/aggregation", short | {"power": {"kind": "full"}})
    feasible = load_reference(louder, tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    assert feasible.content != result.content
    assert_allclose(feasible.gain, result.gain, rtol=1e-6)  # SNR at 1 W hangs on no power
    played = run(study, tmp_path / "run").run
    assert_allclose(build_trajectory(played).std, result.std)
    (folders[0] / "kept.npz").write_bytes(b"damaged")
    with raises(BadInput, match="delete it"):
        load_reference(study, tmp_path)
