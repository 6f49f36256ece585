"""A policy of one's own beside the rules, in the worlds in which `netsim train` compares."""

import numpy as np
import pytest
from scipy.stats import t

from netsim.errors import BadInput
from rl.problem import STEPS
from scenarios import load
from scenarios.app.results.trainings import trainings
from scenarios.app.training.environments import online, problems
from scenarios.app.training.judge import judge
from scenarios.app.training.train import train

SHORT = {
    "world.duration_s": 240, "train.task.held_out": 3, "train.task.tune_worlds": 1, "train.task.tune_evaluations": 96,
    "train.task.eval_worlds": 1, "train.steps": 2, "train.eval_every": 2, "train.agent.learning_starts": 1,
}  # fmt: skip
PAPER = {"world.duration_s": 240, "learning.data.samples": 20, "train.steps": 20}


def constant(env_size, level=0.25):
    return lambda seen: [level] * env_size


@pytest.fixture(scope="module")
def study():
    return load("power/pedestrians", SHORT)


@pytest.fixture(scope="module")
def table(study):
    return judge(study, constant(8))


def test_costs_are_those_of_the_environment_and_of_the_comparison_of_a_training(study, table, tmp_path):
    worlds = table.columns[4:]
    assert list(table.columns[:4]) == ["cost", "difference", "half_width", "wins"] and len(worlds) == 3
    env = online(study)
    for world in worlds:
        env.reset(options={"world": int(world)})
        paid = 0.0
        while not env.over:
            paid += env.step(np.full(8, 0.25, np.float32))[1]
        assert table.loc["mine", world] == pytest.approx(-paid, rel=1e-9)
    train(study, [0], tmp_path / "t")
    (trained,) = trainings(tmp_path / "t")
    others = trained.costs.drop(columns="ddpg")
    assert set(others) == set(table.index) - {"mine"} and "oracle" in others
    for name, costs in others.items():
        np.testing.assert_allclose(table.loc[name, worlds].to_numpy(), costs.loc[worlds], rtol=1e-6)


def test_differences_are_paired_by_world(table):
    worlds = table.columns[4:]
    assert table.cost.is_monotonic_increasing
    for name, row in table.drop(index="mine").iterrows():
        less = (table.loc["mine", worlds] - row[worlds]).to_numpy(float)
        assert row.difference == pytest.approx(less.mean()) and row.wins == (less < 0).sum(), name
        assert row.half_width == pytest.approx(t.ppf(0.975, 2) * less.std(ddof=1) / np.sqrt(3))
    np.testing.assert_allclose(table.cost, table[worlds].mean(axis=1))
    assert np.isnan(table.loc["mine", "difference"])


def test_without_recorded_rounds_it_stands_beside_the_untuned_rules():
    of = load("power/pedestrians", SHORT | {"train.task.reward": {"loss": 1}, "train.agent": {"kind": "ddpg"}})
    found = judge(of, constant(8), "level")
    assert set(found.index) == {"average", "full", "fractional 0.8", "fractional 1", "level"}


def test_a_vector_for_a_whole_training_stands_beside_the_optimum(tmp_path):
    of = load("power/paper", PAPER)
    found = judge(of, constant(15), cache=tmp_path)
    (problem,) = problems(of, tmp_path).held_out
    last = problem.rollout(lambda seen: np.full(15, 0.25))[STEPS - 1]
    assert found.loc["mine", "cost"] == pytest.approx(problem.ratio(last)) and {"optimum", "full"} < set(found.index)


def test_what_cannot_be_judged_is_refused_before_rules_are_tuned(study, monkeypatch):
    monkeypatch.setattr("scenarios.app.training.judge.RecordedGround", None)
    for act, said in ((constant(7), r"shape \(7,\)"), (constant(8, 2.0), "2 at 0 is outside")):
        with pytest.raises(ValueError, match=f"action: .*{said}"):
            judge(study, act)
    with pytest.raises(BadInput, match="has no `train:` section"):
        judge("city", constant(8))


def test_the_name_of_a_rule_is_refused(study):
    of = load("power/pedestrians", SHORT | {"train.task.reward": {"loss": 1}, "train.agent": {"kind": "ddpg"}})
    with pytest.raises(BadInput, match="name: 'full' is the name of a rule; take another"):
        judge(of, constant(8), "full")
