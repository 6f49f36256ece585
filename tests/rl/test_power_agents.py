"""Power that is learnt: the problem and its laws, both environments, trainings that go on, policies
as plain data."""

import csv
import json
import os
import pickle
import re
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy import (
    arange,
    argsort,
    array,
    asarray,
    concatenate,
    diff,
    exp,
    flatnonzero,
    float32,
    float64,
    full,
    iinfo,
    inf,
    isfinite,
    linspace,
    log,
    nan,
    nansum,
    ones,
    sign,
    sqrt,
    tile,
    where,
    zeros,
)
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from power_problems import LIMITS, ONLINE, QUICK, allocation, course, policy, problem
from pytest import approx, importorskip, mark, raises
from rows import read_yaml
from scipy.stats import kstest
from tabled import cases

from fl.power.search import Limits, plan_by_amplitude
from fl.power.search import pick_best_plan as judged_
from fl.round.state import collect_standings
from netsim.errors import BadInput
from netsim.rng import Streams
from rl.policy import load_policy, save_policy
from rl.problem import STEPS, Problem, convert_to_power_w
from rl.reward import FIGURES

gymnasium = importorskip("gymnasium")


def actions(n, ues=6, seed=1):
    return default_rng(seed).uniform(-1, 1, (n, ues)).astype(float32)


# -- the problem


@mark.parametrize("criterion", ["aggregate", "per-device", "top-up"])
@mark.parametrize("moving", [False, True])
def test_one_vector_is_judged_as_many_are(criterion, moving):
    p = problem(criterion, moving=moving)
    tight = Limits(each_min_w=0.05, each_max_w=0.2, total_min_w=0.5, total_max_w=0.6)
    for limits in (LIMITS, tight):
        q = Problem(p.objective, limits)
        a = actions(200)
        result = [q.act(x.astype(float64)) for x in a]
        expected = limits.project(convert_to_power_w(a.astype(float64), limits))
        assert_allclose([f.power_w for f in result], expected, atol=1e-15)
        assert_allclose([f.value for f in result], p.objective(expected), rtol=1e-12)
        if criterion != "top-up":
            assert [f.switch for f in result] == p.objective.find_switch(expected).tolist()


def test_the_rule_by_amplitude_is_the_best_of_its_family_and_of_its_total():
    """No other s is better; and where noise is all that counts, no other split of the same total
    is."""
    p = problem()
    objective = p.objective
    plan = plan_by_amplitude(objective, p.limits)
    t = objective.trajectory
    shape = t.weight.mean(axis=0) / sqrt(t.gain.mean(axis=0))
    scales = exp(linspace(-8, 5, 20_000))[:, None]
    assert plan.value <= objective(LIMITS.project(scales * shape)).min() * (1 + 1e-4)
    assert_allclose(plan.value, objective(plan.power_w[None])[0], rtol=1e-12)
    wide = Limits(each_min_w=1e-9, each_max_w=1e3, total_min_w=1.0, total_max_w=1.0)
    power_w = shape / shape.sum()
    rest = wide.project(default_rng(0).dirichlet(ones(6), 5000))
    noise = (objective.cost_w / rest).sum(axis=1)
    assert (objective.cost_w / power_w).sum() <= noise.min()


def test_the_reward_is_a_decreasing_transform_of_the_bound():
    p = problem()
    result = [p.act(a) for a in actions(100)]
    assert p.reward(p.start) == 0
    order = argsort([f.value for f in result])
    assert (diff([p.reward(result[i]) for i in order]) <= 0).all()


# -- the environment of the study's problem


@mark.parametrize("live", [False, True])
def test_checkers_find_nothing(live, tiny):
    from gymnasium.utils.env_checker import check_env
    from stable_baselines3.common.env_checker import check_env as check_sb3

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        # made by hand here, by name below
        warnings.filterwarnings("ignore", message=".*not having a spec")
        check_env(online(tiny) if live else allocation(), skip_render_check=True)
        check_sb3(online(tiny) if live else allocation(), warn=True)


def test_episodes_are_truncated_and_begin_at_average_power():
    env = allocation()
    _, info = env.reset(seed=0)
    start_value = env.problem.start.value
    assert info["objective"] == start_value
    ends = [env.step(a)[3] for a in actions(STEPS)]
    assert ends == [False] * (STEPS - 1) + [True]
    assert env.reset()[1]["objective"] != start_value
    assert env.reset(options={"power": "average"})[1]["objective"] == start_value


@mark.parametrize(
    "values, dtype, wrong",
    [
        *cases("""
    [0, 0, 0, 0, 0], "float", "float64 of shape (5,)"
    [[0, 0, 0, 0, 0, 0]], "float", "float64 of shape (1, 6)"
    0.5, None, "float64 of"
    ["loud", "loud", "loud", "loud", "loud", "loud"], None, "<U4 of shape (6,)"
    [0, 0, 0, 0, 0, 0], "complex", "complex128 of shape (6,)"
    [True, True, True, True, True, True], None, "bool"
    ["0", "0", "nan", "0", "0", "0"], "float", "nan at 2 is outside"
    None, None, "object of shape ()"
    ["inf", "inf", "inf", "inf", "inf", "inf"], "float", "inf at 0 is outside"
    [1, 1, 1, 1, 1, 1.001], "float", "1.001 at 5 is outside"
"""),
        *(([iinfo(d).min] * 6, d, f"{iinfo(d).min:g} at 0") for d in ("int8", "int16", "int64")),
    ],
)
def test_a_bad_action_is_refused_and_changes_nothing(values, dtype, wrong):
    action = values if dtype is None else array(values, dtype)
    env = allocation()
    env.reset(seed=0)
    before = env.last
    memory = env.memory()
    with raises(
        ValueError, match=re.escape(f"action: {wrong}") + ".*give 6 finite numbers from -1 to 1"
    ):
        env.step(action)
    assert env.last is before
    assert env.memory() == memory


@mark.parametrize("criterion", ["aggregate", "per-device", "top-up"])
@mark.parametrize("moving", [False, True])
def test_a_problem_refuses_powers_that_it_cannot_judge(criterion, moving):
    p = problem(criterion, moving=moving)
    assert p.evaluate(full(6, 0.1)).value > 0
    for wrong in (full(5, 0.1), full(7, 0.1), zeros(0)):
        with raises(ValueError, match="one power for each UE"):
            p.evaluate(wrong)
    for bad in (nan, inf, 0.0, -0.1):
        with raises(ValueError, match="finite and above 0"):
            p.evaluate(array([0.1, 0.1, bad, 0.1, 0.1, 0.1]))


def test_the_projection_refuses_what_is_not_finite():
    from rl.problem import find_nearest_w

    for bad in (nan, inf, -inf):
        with raises(ValueError, match="finite"):
            find_nearest_w(array([0.1, bad, 0.1]), LIMITS)


def test_no_step_outside_of_an_episode():
    from gymnasium.error import ResetNeeded

    env = allocation()
    still = zeros(6, float32)
    with raises(ResetNeeded):
        env.step(still)
    for _ in range(2):
        env.reset(seed=0)
        ends = [env.step(still)[3] for _ in range(STEPS)]
        assert ends == [False] * (STEPS - 1) + [True]
        with raises(ResetNeeded):
            env.step(still)


# -- training


def flat(weights):
    return concatenate([x.ravel() for x in weights.values()])


def test_an_interrupted_training_ends_in_the_same_bits(tmp_path):
    whole = course(tmp_path / "a" if (tmp_path / "a").mkdir() is None else None)
    (tmp_path / "b").mkdir()
    with raises(KeyboardInterrupt):
        course(tmp_path / "b", stop_at=90)
    assert (tmp_path / "b" / "c.npz").exists()
    again = course(tmp_path / "b")
    assert repr(again.curve) == repr(whole.curve)
    assert again.steps == whole.steps
    assert again.best_reward == whole.best_reward
    assert_array_equal(flat(again.weights), flat(whole.weights))


def test_an_episode_that_time_cuts_off_does_not_end_what_is_worth():
    """Its last state still has a value, unlike one after which nothing can come."""
    from rl.agents import build_allocation_training

    training, _ = build_allocation_training([problem()], QUICK, 45, 0)
    while training.done < training.steps:
        training.step()
    buffer = training.buffer
    ends = flatnonzero(buffer.dones[: buffer.filled, 0])
    assert_array_equal(ends, [19, 39])
    assert buffer.timeouts[ends, 0].all()
    buffer.timeouts[ends[1]] = 0.0
    drawn = buffer.sample(400)
    steps = [(buffer.actions[:45, 0] == row).all(axis=1).argmax() for row in drawn.actions.numpy()]
    assert drawn.dones[:, 0].tolist() == [float(step == ends[1]) for step in steps]


# -- policies


@mark.parametrize("observe", ["paper", "channel"])
def test_a_policy_comes_back_as_it_was(tmp_path, observe):
    written = policy(observe)
    save_policy(written, tmp_path)
    read = load_policy(tmp_path)
    assert read.card == written.card
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "policy.json",
        "policy.safetensors",
    ]
    seen = linspace(-1, 1, written.card.n_seen).astype(float32)
    assert_array_equal(read.act(seen), written.act(seen))
    assert read.reference.content == written.reference.content


class Evil:
    def __reduce__(self):
        return (os.abort, ())


@mark.parametrize(
    "name, change, message",
    cases("""
    "policy.json", None, "No such file or directory.*give the folder"
    "policy.safetensors", None, "No such file or directory"
    "policy.json", b"{", "policy.json"
    "policy.json", {"format": 2}, "format: Input should be 1"
    "policy.json", {"ues": 7}, "its card asks for"
    "policy.json", {"hidden": [0]}, "hidden.0: Input should be greater than or equal to 1"
    "policy.json", {"observe": "online"}, "observe: Input should be 'paper' or 'channel'"
    "policy.json", {"code": "import os"}, "code: Extra inputs"
    "policy.safetensors", "evil", "not safetensors"
    "policy.safetensors", b"\\0\\0\\0\\0\\0\\0\\0\\x10{}", "not safetensors"
"""),
)
def test_a_policy_from_a_stranger_is_refused_in_one_line(tmp_path, name, change, message):
    save_policy(policy(), tmp_path)
    path = tmp_path / name
    if change is None:
        path.unlink()
    elif isinstance(change, dict):
        path.write_text(json.dumps(json.loads(path.read_text()) | change))
    else:
        path.write_bytes(pickle.dumps(Evil()) if change == "evil" else change)
    with raises(BadInput, match=message) as error:
        load_policy(tmp_path)
    assert len(error.value.lines) == 1
    assert "\n" not in error.value.lines[0]


def test_numbers_of_a_policy_are_finite(tmp_path):
    spoilt = policy()
    spoilt.layers[0][0][0, 0] = nan
    save_policy(spoilt, tmp_path)
    with raises(BadInput, match="its card asks for finite numbers"):
        load_policy(tmp_path)


# -- the live world


def online(tiny, changes=None, **kw):
    from scenarios.app.training.environments import make_online as make

    return make(tiny(ONLINE | (changes or {})), **kw)


def play_world(env, action, world=1):
    seen, _ = env.reset(options={"world": world})
    rows = [seen.tolist()]
    while True:
        seen, reward, terminated, truncated, info = env.step(full(3, action, float32))
        rows.append([*seen.tolist(), reward])
        if terminated or truncated:
            return rows, info, (terminated, truncated)


def test_the_action_moves_the_realised_switch(tiny):
    env = online(tiny)
    loud = play_world(env, 1.0)[1]
    weak = play_world(env, -1.0)[1]
    assert loud["t_th"] > weak["t_th"]
    assert loud["noise"] != weak["noise"]
    assert (loud["power_w"] > weak["power_w"]).all()


def test_the_live_world_is_a_function_of_its_seed(tiny):
    env = online(tiny)
    rows, _, ends = play_world(env, 0.3)
    assert len(rows) == 5
    assert ends == (False, True)
    assert play_world(env, 0.3)[0] == rows
    assert play_world(env, 0.3, world=2)[0] != rows
    assert all(max(map(abs, r[:17])) <= 1 for r in rows)


def test_a_budget_terminates_and_time_truncates(tiny):
    env = online(tiny, {"learning.privacy_budget": {"epsilon": 1e-6}})
    assert play_world(env, 1.0)[2] == (True, False)


def test_an_absent_ue_is_zeros(tiny):
    from netsim.radio.power import PowerContext
    from rl.policy import observe_online

    recorded = array([1.0, 0.0, 2.0])
    context = PowerContext(zeros(0, int), recorded, 0.1, full(3, 0.2), full(3, 0.1), 0.5, 0.25)
    seen = observe_online(context, full(3, 0.05), LIMITS)
    assert (seen[[1, 4, 7, 10, 13]] == 0).all()
    assert (seen[[0, 2]] == 1).all()
    assert_array_equal(seen[-2:], [0.0, -0.5])


# -- a privacy budget that ends an episode

GAUSSIAN = ONLINE | read_yaml(
    "learning.defenses: [{kind: clip, norm: 0.5}, {kind: gaussian, noise_multiplier: 2.0}]"
)
PAID = read_yaml("kind: weighted, noise: 0.5, lost: 1.0, energy_per_j: 100000.0")


def budget_task(rounds=None, reward=PAID, **train):
    """Changes of the tiny study of four rounds, the first of which a budget admits."""
    task = {**ONLINE["train"]["task"], "reward": reward, "held_out": 2, "eval_worlds": 1}
    changes = GAUSSIAN | {"train": {"task": task, **train}}
    if rounds is None:
        return changes
    epsilon = 1e-6 if rounds == 0 else {1: 3.0, 2: 4.2, 3: 5.2}[rounds]
    return changes | {"learning.privacy_budget": {"epsilon": epsilon}}


def step_world(env, action=1.0, world=1):
    """Rewards and infos of an episode, and whether it was terminated."""
    env.reset(options={"world": world})
    rewards = []
    infos = []
    terminated = False
    while not env.over:
        _, reward, terminated, _, info = env.step(full(3, action, float32))
        rewards.append(reward)
        infos.append(info)
    return rewards, infos, terminated


@mark.parametrize("rounds", [1, 2, 3])
@mark.parametrize("action", [1.0, 0.2])
def test_an_episode_that_a_budget_ends_costs_as_much_as_all_its_rounds(rounds, action, tiny):
    """The discarded round and those after it cost the mean of those before; figures are of rounds
    that were played."""
    from scenarios.app.training.evaluate import play_episode

    whole, figures, _ = step_world(online(tiny, budget_task()), action)
    env = online(tiny, budget_task(rounds))
    rewards, infos, terminated = step_world(env, action)
    assert len(whole) == 4
    assert terminated
    assert env.unplayed == 4 - rounds
    assert rewards[:-1] == whole[:rounds]
    assert len(set(whole)) == 4
    assert_allclose(rewards[-1], np.mean(whole[:rounds]) * (4 - rounds))
    actual = {name: infos[-1][name] for name in FIGURES}
    assert actual == {name: figures[rounds - 1][name] for name in FIGURES}
    result = play_episode(env, "level", lambda env, seen: full(3, action), 1)
    assert_allclose(result.cost, -4 * np.mean(whole[:rounds]))
    assert result.rounds == rounds
    assert result.loss == figures[rounds - 1]["loss"] > 0
    for name in ("noise", "energy_j"):
        expected = np.sum([info[name] for info in figures[:rounds]])
        assert getattr(result, name) == approx(expected), name
    assert_allclose(result.lost, np.mean([info["lost"] for info in figures[:rounds]]))


def test_a_budget_that_admits_no_round_is_refused_before_anything_is_written(tmp_path, capsys):
    from scenarios.app.cli.commands import main

    setting = ["--set", "learning.privacy_budget.epsilon=1e-6", "--set", "world.duration_s=240"]
    for command in (
        ["validate", "power/pedestrians"],
        ["train", "power/pedestrians", "--out", str(tmp_path / "t")],
    ):
        assert main([*command, *setting]) == 2
        message = capsys.readouterr().err
        assert message.count("\n") == 1
        assert "first round exceeds privacy_budget (epsilon=1e-06" in message
    assert not (tmp_path / "t").exists()


def test_a_world_without_a_round_has_no_cost(tiny):
    """Whether a budget ends it or nobody ever sends: nothing to learn from, and nothing to
    compare."""
    from rl.recording import record_world
    from rl.rules import build_rule
    from scenarios.app.training.evaluate import play_episode
    from scenarios.app.training.judge import judge

    nobody = budget_task() | {"learning.participation": 1e-6, "learning.sampling": "poisson"}
    message = (
        "no round is played in world .*: no UE sends anything, or the first round exceeds "
        "privacy_budget"
    )
    for changes in (budget_task(0), nobody):
        with raises(BadInput, match=message):
            record_world(online(tiny, changes), build_rule("fractional").power_w, 1)
        with raises(BadInput, match=message):
            judge(tiny(changes), lambda seen: ones(3))
    with raises(BadInput, match=message):
        play_episode(online(tiny, budget_task(0)), "x", lambda env, seen: ones(3), 1)


@mark.parametrize(
    "ours, peers, mean, upper",
    cases("""
    [2.0, 3.0], [1.0, 2.0], 75.0, 100.0
    [-1.0, -2.0], [-2.0, -1.0], -25.0, 50.0
    [1.0, -3.0], [-1.0, -4.0], 112.5, 200.0
    [1.0, 0.0], [0.0, 2.0], None, None
    [0.0, 1.0], [0.0, 2.0], None, None
"""),
)
def test_percents_are_of_the_size_of_the_other_cost(ours, peers, mean, upper):
    """Of the second: dearer by half of its size, and cheaper by all of it."""
    from scenarios.app.training.evaluate import Evaluation, summarise_evaluations

    rows = [
        Evaluation(name, k, cost, 0)
        for name, item in (("a", ours), ("b", peers))
        for k, cost in enumerate(item)
    ]
    result = summarise_evaluations("a", rows)
    actual = [result[f"against.b.percent.{name}"] for name in ("mean", "max")]
    assert_allclose(actual, array([mean, upper], float))
    assert mean is None or sign(result["against.b.cost.mean"]) in (0, sign(mean))


# -- use in a run


@mark.parametrize(
    "changes, message",
    cases("""
    {"world.ues.count": 4}, "sets the power of 3 UEs, the world has 4"
    {"world.radio.uplink": {"kind": "ideal"}}, "with decoding: noisy"
    {"power": {"kind": "ddpg", "policy": "/nowhere"}}, "No such file"
"""),
)
def test_a_policy_that_does_not_fit_is_refused(tiny, tmp_path, changes, message):
    save_policy(policy(ues=3), tmp_path / "p")
    with raises(BadInput, match=message):
        tiny(ONLINE | {"power": {"kind": "ddpg", "policy": str(tmp_path / "p")}} | changes)


# -- what a round costs


class Kept:
    """A recorder that keeps what it is given."""

    folder = None

    def __init__(self):
        self.tables = {}

    def write(self, table, rows):
        self.tables.setdefault(table, []).append(rows)

    def write_row(self, table, **values):
        self.write(table, {name: [value] for name, value in values.items()})

    def joined(self):
        return {
            table: {name: concatenate([asarray(p[name]) for p in pieces]) for name in pieces[0]}
            for table, pieces in self.tables.items()
        }


@mark.parametrize("attacks", [[], [{"kind": "closed-form"}]])
def test_costs_are_those_that_the_records_tell(tiny, attacks):
    """A step makes no records; those of the same round hold the energy, the noise, the error and
    what came near. What a UE's own noise costs is what the noise that was asked of it would have
    saved.
    """
    from fl.round import records

    weights = read_yaml("noise: 1.0, loss: 0.5, leakage_within_m: 300.0, energy_per_j: 1000.0")
    weights |= {"leakage": 2.0} if attacks else {}
    changes = {
        "learning.attacks": attacks,
        "train": {"task": {**ONLINE["train"]["task"], "reward": weights}},
    }
    changes |= {"world.radio.uplink.rate": {"kind": "shannon"}}  # no row is lost
    env = online(tiny, changes)
    over = False
    env.reset(options={"world": 1})
    while not over:
        context = env.context
        _, reward, _, over, _ = env.step(array([1.0, 0.0, -0.5]))
        kept = Kept()
        costs = env.cost.figures
        figures = records.write_round(kept, env.world, env.setup.learning, env.outcome)
        tables = kept.joined()
        links = tables["links"]
        updates = tables["updates"]
        assert costs["loss"] == figures["rmse_db"] > 0
        assert_allclose(costs["energy_j"], float(nansum(links["energy_j"])), rtol=1e-12)
        assert costs["energy_j"] > 0
        if attacks:
            near = [np.mean(tables["leakage"]["error_m"] <= 300.0)]
        else:
            near = [0.0]
        assert costs["leakage"] == approx(near[0])
        (standing,) = collect_standings(env.setup.learning, env.state.parts)
        ue = updates["ue"]
        share = updates["weight"] ** 2
        channel = dict(zip(links["ue"].tolist(), links["noise_std"].tolist(), strict=True))
        had = share @ (array([channel[u] for u in ue.tolist()]) ** 2 + standing.drawn_std[ue] ** 2)
        required = share @ standing.required_std[ue] ** 2
        by_model = zeros((2, len(context.snr_per_w)))
        by_model[updates["model"], ue] = updates["weight"]
        factor = env.task.bound.compute_contraction(by_model) ** (env.rounds - env.state.played)
        assert_allclose(costs["noise"], factor * log(had / required), rtol=1e-9)
        totals = read_yaml("noise: 1.0, loss: 0.5, leakage: 2.0, energy_j: 1000.0")
        assert_allclose(reward, -sum(w * costs[name] for name, w in totals.items()), rtol=1e-12)


def test_a_step_writes_nothing_and_tests_no_attack(tiny, tmp_path, monkeypatch):
    from fl.attacks.closed_form import ClosedForm
    from fl.round import records

    monkeypatch.setattr(ClosedForm, "self_test", lambda *a: pytest.fail("an attack is tested"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(records, "write_round", lambda *a: pytest.fail("records are made"))
    env = online(tiny, {"learning.attacks": [{"kind": "closed-form"}]})
    env.reset(seed=0)
    env.step(zeros(3))
    assert not list(tmp_path.iterdir())


@mark.parametrize(
    "limit, item",
    cases("""
    None, 4
    3, 3
    9, 4
"""),
)
def test_progress_is_the_share_of_rounds_that_are_over(tiny, limit, item):
    env = online(tiny, {"learning.rounds": limit})
    env.reset(options={"world": 1})
    result = [env.context.progress]
    over = False
    while not over:
        _, _, _, over, _ = env.step(zeros(3))
        result.append(env.context.progress)
    assert_allclose(result, arange(item + 1) / item)


# -- by name, and from the command line


SHORT = read_yaml(
    "world.duration_s: 240, learning.data.samples: 20, train.steps: 60, "
    "train.eval_every: 30, train.agent: {learning_starts: 20, batch_size: 16, hidden: "
    "[16]}"
)


def test_importing_the_floor_registers_both_and_nothing_dear(tmp_path):
    code = (
        "import rl, gymnasium, sys\n"
        "assert not {'torch', 'stable_baselines3', 'numba', 'scipy', 'scenarios'} & "
        "set(sys.modules)\n"
        "print([gymnasium.spec(f'netsim/{n}-v0').entry_point for n in "
        "('PowerAllocation', 'OnlinePower')])\n"
    )
    root = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=env
    )
    places = [
        "scenarios.app.training.environments:make_allocation",
        "scenarios.app.training.environments:make_online",
    ]
    assert (done.stdout, done.stderr) == (f"{places}\n", "")
    assert gymnasium.make("rl:netsim/OnlinePower-v0").reset(seed=0)[0].shape == (42,)


def test_channels_are_trained_on_chosen_on_or_reported(tmp_path):
    from scenarios import load
    from scenarios.app.training.environments import build_problems
    from scenarios.app.training.train import train_agents

    shares = read_yaml(
        "train.task.draws: 3, train.task.eval_worlds: 2, train.task.held_out: 4, "
        "train.task.observe: channel"
    )
    study = load("power/paper", SHORT | shares)
    sets = build_problems(study, tmp_path / "cache")
    item = [
        [p.objective.trajectory.gain[0].tobytes() for p in s]
        for s in (sets.trained_on, sets.chosen_on, sets.held_out)
    ]
    assert [len(x) for x in item] == [3, 2, 4]
    assert len({g for x in item for g in x}) == 9
    (summary,) = train_agents(study, [0], tmp_path / "t", lambda seen: None, tmp_path / "cache")
    policy = load_policy(tmp_path / "t")

    def score(problems):
        return np.mean([p.play_episode(policy.act)[-1].value / p.start.value for p in problems])

    with (tmp_path / "t" / "curve.csv").open() as file:
        curve = [float(row["score"]) for row in csv.DictReader(file)]
    assert_allclose(min(curve), score(sets.chosen_on), rtol=1e-6)
    assert_allclose(summary["policy.ddpg.cost.mean"], score(sets.held_out), rtol=1e-6)
    assert summary["cases"] == 4


@mark.parametrize("observe", ["paper", "channel"])
def test_a_learned_policy_is_played_with_the_switch_that_it_planned(tmp_path, monkeypatch, observe):
    from scenarios import load
    from scenarios.app.result import run
    from scenarios.app.results.folder import read_record_table
    from scenarios.app.training.train import train_agents

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    task = {
        "world.duration_s": 480,
        "world.radio.uplink.noise_w": 4e-8,
        "train.task.observe": observe,
    }
    (message,) = train_agents(
        load("power/paper", SHORT | task), [0], tmp_path / "p", lambda seen: None
    )
    planned = int(message["policy.ddpg.t_th.mean"])
    assert 0 < planned < 8, "else nothing is shown"
    rounds = {
        "world.duration_s": 480,
        "learning.data.samples": 20,
        "world.radio.uplink.noise_w": 4e-8,
    }
    result = run(
        load("power/paper", rounds | {"power": {"kind": "ddpg", "policy": str(tmp_path / "p")}}),
        tmp_path / "r",
    )
    assert result["plan.switch_round"] == result["metric.noise-switch.switch_round.last"] == planned
    learnt = load_policy(tmp_path / "p")
    problem = learnt.problem()
    power_w = problem.play_episode(learnt.act)[-1].power_w
    links = read_record_table(tmp_path / "r", "links")
    figures = read_record_table(tmp_path / "r", "metrics")
    assert_allclose(links["power_w"].reshape(8, 15), tile(power_w, (8, 1)), rtol=1e-6)
    share = figures["value"][figures["name"] == "artificial_percent"]
    assert_array_equal(share, where(arange(8) < planned, 100.0, 0.0))


def test_a_policy_that_plans_no_switch_gives_none(tmp_path):
    from scenarios import load
    from scenarios.app.result import run

    built = policy("paper", ues=15)
    built = replace(built, card=built.card.model_copy(update={"criterion": "top-up"}))
    save_policy(built, tmp_path / "p")
    study = load("power/paper", SHORT | {"power": {"kind": "ddpg", "policy": str(tmp_path / "p")}})
    with raises(
        BadInput,
        match="mode: planned has no round: the policy was trained with criterion: top-up; give",
    ):
        run(study, tmp_path / "r")
    assert not (tmp_path / "r").exists()


TOO_MANY = (
    "train.task.bound.learning_rate: 0.01 makes A = 1.023, which must be below 1; take less than "
    "0.00463; so it is in the worst round of 30 UEs (world.ues.count)"
)


def test_a_bound_that_some_round_would_break_is_refused_before_the_first(capsys):
    """Of lost updates each counts as the one that arrives: s is 30, in the worst round."""
    from scenarios import load
    from scenarios.app.cli.commands import main
    from scenarios.app.training.environments import make_online as made

    many = {"world.ues.count": 30}
    with raises(BadInput, match=re.escape(TOO_MANY)):
        made(load("power/pedestrians", many))
    assert main(["validate", "power/pedestrians", "--set", "world.ues.count=30"]) == 2
    assert TOO_MANY in capsys.readouterr().err
    for remedy in ({}, {"learning_rate": 0.0046}, {"contraction": "jensen"}):
        assert made(load("power/pedestrians", many | {"train.task.bound": remedy})).n_ue == 30
    uniform = {"learning.aggregation": {"kind": "uniform", "clients": 30}}
    assert made(load("power/pedestrians", many | uniform)).n_ue == 30
    with raises(
        BadInput, match=r"train\.task\.bound\.learning_rate: 0\.9 makes A = -0\.65.* below 0"
    ):
        changes = {"train.task.bound": {"learning_rate": 0.9, "smoothness": 1.0}}
        made(
            load(
                "power/pedestrians",
                changes | {"learning.aggregation": {"kind": "uniform", "clients": 8}},
            )
        )


def test_a_task_of_ones_own_has_no_limits_of_another_number_of_ues():
    """Forty UEs at the most power, and at the least, with settings that say nothing of them."""
    from scenarios import load
    from scenarios.app.training.environments import make_online as made

    env = made(load("power/pedestrians", {"world.ues.count": 40, "train.task": {"kind": "online"}}))
    env.reset(seed=0, options={"world": 3})
    assert_allclose(env.last_w, 0.1, rtol=1e-12)  # half of the most
    for action, power_w in ((1.0, 0.2), (-1.0, 0.05)):
        _, cost, *_, info = env.step(full(40, action, float32))
        assert_allclose(info["power_w"], power_w, rtol=1e-6)
        assert isfinite(cost)


@mark.parametrize(
    "words, message",
    cases(
        """
    "campus", "has no `train:` section"
    "power/pedestrians --set world.ues.count=30", "$many"
    "power/city --set world.ues.count=13 --set train.task.limits.each_min_w=0.19",
     "train.task.limits.each_min_w: 13 UEs of 0.19 W exceed total_max_w 2.4"
    "campus --set train.agent.tau=1", "has no `train:` section"
    "power/paper --seed 1 1", "give different ones"
    "power/paper --set train.task.limits.each_min_w=0.3", "each_min_w 0.3 is above each_max_w 0.2"
    "power/paper --set train.agent.batch_size=30000", "above buffer_size"
    "power/paper --steps 0", "train.steps"
""",
        many=TOO_MANY,
    ),
)
def test_bad_trainings_are_refused_in_one_line(tmp_path, capsys, words, message):
    from scenarios.app.cli.commands import main

    assert main(["train", *words.split(), "--out", str(tmp_path / "t")]) == 2
    lines = capsys.readouterr().err
    assert message in lines
    assert lines.count("\n") == 1
    assert not (tmp_path / "t").exists()


def test_random_powers_fill_the_range_in_equal_ratios(monkeypatch):
    from rl import problem as module

    tries = []
    monkeypatch.setattr(
        module,
        "pick_best_plan",
        lambda o, limits, x, n: (tries.append(x), judged_(o, limits, x, n))[1],
    )
    module.plan_references(problem(), 400, Streams(0).derive_rng("r"), thorough=False)
    (drawn,) = (x for x in tries if len(x) == 400)
    share = log(drawn / LIMITS.each_min_w) / log(LIMITS.each_max_w / LIMITS.each_min_w)
    assert kstest(share.ravel(), "uniform").pvalue > 1e-3


def test_fractional_power_keeps_the_total():
    from rl.problem import plan_fractional, plan_references

    p = problem(limits=Limits(total_max_w=0.8))
    for alpha in (0.0, 0.8, 1.0):
        power = plan_fractional(p, alpha)
        assert power.sum() <= 0.8 + 1e-9
        assert power.sum() > 0.79
    result = plan_references(p, 200, Streams(0).derive_rng("r"))
    assert result["optimum"].value <= min(v.value for v in result.values()) + 1e-15
