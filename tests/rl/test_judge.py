"""A policy of one's own beside the rules, in the worlds in which `netsim train` compares."""

import numpy as np
import pytest
from scipy.stats import t

from netsim.errors import BadInput
from rl.policy import SEEN, planned_dbw
from rl.problem import STEPS, as_action
from rl.recording import look_now
from rl.rules import within
from scenarios import load
from scenarios.app.results.trainings import trainings
from scenarios.app.training.environments import online, problems
from scenarios.app.training.judge import ground_of, judge
from scenarios.app.training.train import train

SHORT = {
    "world.duration_s": 240,
    "train.task.held_out": 3,
    "train.task.tune_worlds": 1,
    "train.task.tune_evaluations": 96,
    "train.task.train_worlds": 2,
    "train.task.eval_worlds": 1,
    "train.steps": 2,
    "train.eval_every": 2,
    "train.agent.learning_starts": 1,
}
PAPER = {"world.duration_s": 240, "learning.data.samples": 20, "train.steps": 20}


def lower(seen):
    """Less power where a UE has more than the others disturb; features are those of every UE there
    is."""
    assert seen.shape[1] == SEEN
    assert len(seen) % 8 == 0
    return np.tanh(seen[:, :1] - 0.3)


@pytest.fixture(scope="module")
def study():
    return load("power/pedestrians", SHORT)


@pytest.fixture(scope="module")
def table(study):
    return judge(study, lower, passes=2)


def test_costs_are_those_of_the_environment_and_of_the_comparison_of_a_training(
    study, table, tmp_path
):
    worlds = table.columns[4:]
    assert list(table.columns[:4]) == ["cost", "difference", "half_width", "wins"]
    assert len(worlds) == 3
    env = online(study)
    for world in worlds:
        env.reset(options={"world": int(world)})
        paid = 0.0
        while not env.over:
            look = look_now(env)
            power_w = within(planned_dbw(look, ground_of(study).rule, lower, 2), look.limits)
            paid += env.step(as_action(power_w[0], look.limits).astype(np.float32))[1]
        assert table.loc["mine", world] == pytest.approx(-paid, rel=1e-9)
    train(study, [0], tmp_path / "t")
    (trained,) = trainings(tmp_path / "t")
    others = trained.costs.drop(columns="ddpg")
    assert set(others) == set(table.index) - {"mine"}
    assert {"oracle", "average", "full"} < set(others)
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


def test_nothing_moved_is_the_best_rule_and_moves_of_passes_add_up(study, table):
    worlds = table.columns[4:]
    for passes in (0, -1, 1.5):
        with pytest.raises(BadInput, match=r"passes: .* take 1 to 100"):
            judge(study, lambda seen: np.zeros(len(seen)), "still", passes=passes)
    still = judge(study, lambda seen: np.zeros(len(seen)), "still", passes=3)
    best = ground_of(study).rule.law.name
    np.testing.assert_allclose(
        still.loc["still", worlds].astype(float), table.loc[best, worlds].astype(float)
    )
    once, twice = (
        judge(study, lambda seen, n=n: np.full(len(seen), 0.2 / n), passes=n) for n in (1, 2)
    )
    np.testing.assert_allclose(
        twice.loc["mine", worlds].astype(float), once.loc["mine", worlds].astype(float)
    )
    assert abs(once.cost["mine"] / still.cost["still"] - 1) > 1e-3


def test_a_study_whose_rounds_are_not_recorded_is_refused_with_what_plays_it():
    of = load("power/pedestrians", SHORT | {"train.task.reward": {"loss": 1}})
    with pytest.raises(
        BadInput,
        match=r"reward\.loss: recorded rounds do not tell it; .*take netsim/OnlinePower-v0",
    ):
        judge(of, lower)
    assert online(of).reset(seed=0)[0].shape == (42,)


def test_a_vector_for_a_whole_training_stands_beside_the_optimum(tmp_path):
    of = load("power/paper", PAPER)
    found = judge(of, lambda seen: [0.25] * 15, cache=tmp_path)
    (problem,) = problems(of, tmp_path).held_out
    last = problem.rollout(lambda seen: np.full(15, 0.25))[STEPS - 1]
    assert found.loc["mine", "cost"] == pytest.approx(problem.ratio(last))
    assert {
        "optimum",
        "full",
    } < set(found.index)


def test_what_cannot_be_judged_is_refused_before_worlds_are_played(study, monkeypatch):
    monkeypatch.setattr("scenarios.app.training.evaluate.RecordedGround.evaluated", None)
    for act, said in (
        (lambda seen: [0.25] * 7, r"\(7,\)"),
        (lambda seen: np.full(len(seen), 2.0), r"\[2\. 2\."),
        (lambda seen: np.full((len(seen), 8), 0.1), r"\(64, 8\), \[0.1 0.1"),
        (lambda seen: seen[:, 0] * np.nan, "nan"),
    ):
        with pytest.raises(
            ValueError, match=f"^policy: gives .*{said}.*give one number from -1 to 1 for each UE"
        ):
            judge(study, act)
    monkeypatch.setattr("scenarios.app.training.judge.RecordedGround", None)
    with pytest.raises(BadInput, match="has no `train:` section"):
        judge("city", lower)


def test_bad_actions_for_a_whole_training_are_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("scenarios.app.training.judge.beside_references", None)
    for act, said in (
        (lambda seen: [0.25] * 7, r"shape \(7,\)"),
        (lambda seen: [2.0] * 15, "2 at 0 is outside"),
    ):
        with pytest.raises(ValueError, match=f"action: .*{said}"):
            judge(load("power/paper", PAPER), act, cache=tmp_path)


def test_the_name_of_a_rule_is_refused(study):
    with pytest.raises(BadInput, match="name: 'full' is the name of a rule; take another"):
        judge(study, lower, "full")
