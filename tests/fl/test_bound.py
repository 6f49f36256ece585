"""The convergence bound as a law of power: closed forms, identities, edges; plans that reach known
optima."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fl.power.bound import Convergence, PowerLoss, Trajectory
from fl.power.search import Limits, _edge, average, evolution, full, judged, plateaus
from netsim.errors import BadInput
from netsim.rng import Streams
from scenarios.app.result import run
from scenarios.app.run.runner import reference, trajectory_of
from scenarios.app.study.load import load

LIMITS = Limits()
RNG = Streams(3).at("plan")
CRITERIA = ("aggregate", "per-device", "top-up")


def trajectory(seed=0, rounds=40, ues=15, moving=False):
    """Noise that falls over the rounds, weights with three heavy UEs, gains of a fading channel."""
    g = np.random.default_rng(seed)
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
    return LIMITS.project(
        np.exp(np.random.default_rng(seed).uniform(np.log(0.05), np.log(0.2), (n, ues)))
    )


def by_hand(objective, x):
    """L of one power vector, term by term."""
    t = objective.trajectory
    a = objective.contraction
    rounds = len(t.std)
    j = int(objective.switch(x[None])[0])
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


@pytest.mark.parametrize("order", ["paper", "reordered"])
@pytest.mark.parametrize("criterion", ["aggregate", "per-device"])
@pytest.mark.parametrize("moving", [False, True])
def test_the_law_is_its_formula(order, criterion, moving):
    objective = PowerLoss(trajectory(moving=moving), Convergence(order=order), criterion)
    x = powers(5)
    np.testing.assert_allclose(objective(x), [by_hand(objective, v) for v in x], rtol=1e-12)


def test_the_contraction_in_both_forms():
    weight = np.full((3, 5), 0.2)
    assert Convergence().factor(weight) == pytest.approx(1 + 10 * 0.01**2 * 1.44 * 0.2 - 0.02)
    assert Convergence(contraction="jensen").factor(weight) == pytest.approx(
        1 + 10 * 0.01**2 * 1.44 - 0.02
    )
    assert Convergence().factor(weight) == pytest.approx(
        0.980, abs=5e-4
    )  # the spec's value at sum G^2 = 0.2
    uneven = np.vstack([weight, np.eye(5)[0]])
    assert Convergence().factor(uneven) == pytest.approx(
        Convergence(contraction="jensen").factor(weight)
    )


def test_a_bound_that_does_not_contract_is_refused_with_the_largest_step():
    weight = np.full((1, 5), 0.2)
    most = 2 / (10 * 1.44 * 0.2)
    with pytest.raises(ValueError, match=f"take less than {most:.4g}"):
        Convergence(learning_rate=most * 1.001).factor(weight)
    assert 0 < Convergence(learning_rate=most * 0.999).factor(weight) < 1
    with pytest.raises(ValueError, match="above smoothness"):
        Convergence(strong_convexity=20.0)


@pytest.mark.parametrize("criterion", ["aggregate", "per-device"])
@pytest.mark.parametrize("moving", [False, True])
def test_powers_on_the_edge_of_a_plateau_are_on_it_and_a_little_more_power_is_not(
    criterion, moving
):
    objective = PowerLoss(trajectory(moving=moving), Convergence(), criterion)
    root = 1 / np.sqrt(powers(1)[0])
    for j in (5, 20, 35):
        edge = _edge(objective, j)
        least = max(
            [
                *(edge.demand / (edge.noise @ root)),
                *((1 / np.sqrt(edge.ceiling_w) / root)[edge.ceiling_w < np.inf]),
            ]
        )
        on, over = ((1 / (root * least * factor) ** 2)[None] for factor in (1.0, 1 - 1e-6))
        assert objective.switch(on)[0] <= j < objective.switch(over)[0]


@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_switch_comes_later_with_more_power(criterion):
    objective = PowerLoss(trajectory(moving=True), Convergence(), criterion)
    x = powers(50)
    before = objective.switch(x * 1e-3)
    for factor in np.geomspace(2e-3, 1e3, 30):
        now = objective.switch(x * factor)
        assert (now >= before).all()
        before = now
    assert (objective.switch(x * 1e-9) == 0).all()
    assert (objective.switch(x * 1e9) == 40).all()


def test_the_switch_is_the_last_exceedance_not_the_first_crossing():
    std = np.array([[4.0], [1.0], [3.0], [1.0]])
    objective = PowerLoss(Trajectory(std, np.ones((4, 1)), np.ones((4, 1)), 1.0), Convergence())
    noise_std = np.array([0.5, 1.0, 2.0, 3.0, 5.0])
    assert objective.switch(1 / noise_std[:, None] ** 2).tolist() == [4, 3, 3, 1, 0]


@pytest.mark.parametrize(
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
    with pytest.raises(ValueError, match=says):
        Trajectory(**whole, scale=1.0)


@pytest.mark.parametrize("ues", [2, 13, 14, 400])
def test_the_default_rate_contracts_with_any_number_of_ues(ues):
    """0.01, or where s is large the rate 1 / (L d^2 s) at which A is least: A = 1 - mu / (L d^2 s)
    there."""
    for s, weight in ((1.0 / ues, np.full((1, ues), 1.0 / ues)), (ues, np.ones((1, ues)))):
        rates = np.linspace(1e-5, 0.01, 2000)
        law = 1 + 14.4 * s * rates**2 - 2 * rates
        assert Convergence().factor(weight) == pytest.approx(law.min(), abs=1e-7)
        assert law.min() < 1
    if ues < 7:
        assert Convergence().factor(weight) == Convergence(learning_rate=0.01).factor(weight)


# -- limits


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(-1.0, 2.0), min_size=3, max_size=6))
def test_the_projection_is_the_nearest_vector(values):
    """Against scipy's own quadratic program."""
    from scipy.optimize import minimize

    limits = Limits(each_min_w=0.05, each_max_w=0.6, total_min_w=0.4, total_max_w=1.1)
    x = np.array(values)
    found = limits.project(x[None])[0]
    assert (found >= 0.05 - 1e-12).all()
    assert (found <= 0.6 + 1e-12).all()
    assert 0.4 - 1e-9 <= found.sum() <= 1.1 + 1e-9
    rules = [
        {"type": "ineq", "fun": lambda v: 1.1 - v.sum()},
        {"type": "ineq", "fun": lambda v: v.sum() - 0.4},
    ]
    how = {"bounds": [(0.05, 0.6)] * len(x), "constraints": rules, "tol": 1e-12}
    other = minimize(lambda v: ((v - x) ** 2).sum(), np.full(len(x), 0.2), **how)
    assert ((found - x) ** 2).sum() <= other.fun + 1e-6
    np.testing.assert_allclose(limits.project(found[None])[0], found, atol=1e-12)


def test_limits_that_nobody_can_keep_are_refused():
    with pytest.raises(ValueError, match=r"take at most 0\.1"):
        Limits(each_min_w=0.2, each_max_w=0.3, total_max_w=1.5).project(np.ones((1, 15)))
    with pytest.raises(ValueError, match=r"take at least 0\.5"):
        Limits(each_max_w=0.1, total_min_w=1.0).project(np.ones((1, 2)))
    with pytest.raises(ValueError, match="exchange them"):
        Limits(total_min_w=2.0, total_max_w=1.5)


@pytest.mark.parametrize("ues", [4, 15, 40, 200])
def test_defaults_bind_no_number_of_ues(ues):
    """Each UE has its own two limits and no other; full power is the most of each, average half of
    it."""
    limits = Limits()
    x = np.random.default_rng(ues).uniform(0.05, 0.2, (20, ues))
    np.testing.assert_array_equal(limits.project(x), x)
    objective = PowerLoss(trajectory(ues=ues), Convergence())
    np.testing.assert_allclose(full(objective, limits).power_w, 0.2, rtol=1e-12)
    np.testing.assert_allclose(average(objective, limits).power_w, 0.1, rtol=1e-12)
    assert plateaus(objective, limits).value <= full(objective, limits).value * (1 + 1e-9)


# -- plans


def test_without_artificial_noise_power_goes_as_weight_over_amplitude():
    """min sum a_k / x_k at a given total: x_k proportional to sqrt(a_k) = G_k / ||h_k||."""
    t = trajectory(ues=4)
    weight = np.tile([0.2, 0.25, 0.25, 0.3], (40, 1))
    quiet = PowerLoss(Trajectory(np.zeros_like(t.std), weight, t.gain, t.scale), Convergence())
    limits = Limits(each_min_w=1e-3, each_max_w=1.4, total_max_w=1.5)
    ideal = weight[0] / np.sqrt(t.gain[0])
    ideal *= 1.5 / ideal.sum()
    plan = plateaus(quiet, limits)
    np.testing.assert_allclose(plan.power_w, ideal, rtol=2e-3)
    assert plan.switch == 0
    assert plan.value == pytest.approx(float(quiet(ideal[None])[0]), rel=1e-6)


@pytest.mark.parametrize(
    ("order", "criterion"), [("paper", "aggregate"), ("reordered", "per-device")]
)
def test_plateaus_and_evolution_agree_and_beat_equal_splits(order, criterion):
    objective = PowerLoss(trajectory(rounds=60), Convergence(order=order), criterion)
    best = plateaus(objective, LIMITS)
    found = evolution(objective, LIMITS, RNG)
    assert best.value <= 1.003 * found.value
    assert found.value <= 1.03 * best.value
    assert best.value < min(average(objective, LIMITS).value, full(objective, LIMITS).value)
    for plan in (best, found):
        np.testing.assert_allclose(LIMITS.project(plan.power_w[None])[0], plan.power_w, atol=1e-12)
        assert plan.value == pytest.approx(float(objective(plan.power_w[None])[0]))
    assert found.evaluations == 151 * 128
    again = evolution(objective, LIMITS, RNG)
    np.testing.assert_array_equal(again.power_w, found.power_w)
    tried = judged(objective, LIMITS, powers(3000, seed=9), 3000)
    assert best.value <= tried.value


def test_moving_ues_are_planned_too_and_top_up_has_no_plateau():
    moving = trajectory(rounds=20, ues=5, moving=True)
    limits = Limits(total_max_w=0.6)
    for criterion in ("aggregate", "per-device"):
        objective = PowerLoss(moving, Convergence(), criterion)
        assert (
            plateaus(objective, limits).value <= 1.01 * evolution(objective, limits, RNG, 60).value
        )
    top = PowerLoss(moving, Convergence(), "top-up")
    assert evolution(top, limits, RNG, 60).value <= full(top, limits).value * 1.001


# -- from a run


def test_the_reference_of_a_study_is_what_its_run_recorded(tmp_path):
    defenses = [{"kind": "clip", "norm": 0.5}, {"kind": "gaussian", "noise_multiplier": 0.1}]
    short = {"learning.rounds": 4, "learning.data.samples": 20, "learning.defenses": defenses}
    study = load("lapa/aggregation", short)
    found = reference(study, tmp_path)
    assert found.std.shape == (4, 15)
    assert found.still
    np.testing.assert_allclose(
        found.std, 0.1 * 2 * 0.5, rtol=1e-8
    )  # of the sensitivity, twice the norm
    np.testing.assert_allclose(found.weight.sum(axis=1), 1, rtol=1e-7)
    assert found.scale == pytest.approx(0.5 / np.sqrt(2410), rel=1e-6)
    folders = list(tmp_path.iterdir())
    stamp = (folders[0] / "trajectory.npz").stat().st_mtime_ns
    assert reference(study, tmp_path).content == found.content
    assert len(folders) == 1
    assert (folders[0] / "trajectory.npz").stat().st_mtime_ns == stamp  # not made again
    louder = load("lapa/aggregation", short | {"power": {"kind": "full"}})
    other = reference(louder, tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    assert other.content != found.content
    np.testing.assert_allclose(other.gain, found.gain, rtol=1e-6)  # SNR at 1 W hangs on no power
    played = run(study, tmp_path / "run").run
    np.testing.assert_allclose(trajectory_of(played).std, found.std)
    (folders[0] / "trajectory.npz").write_bytes(b"damaged")
    with pytest.raises(BadInput, match="delete it"):
        reference(study, tmp_path)
