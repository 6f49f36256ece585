"""A policy of one's own beside the rules, in the worlds in which `netsim train` compares."""

from threading import Thread

from numpy import (
    float32,
    full,
    isnan,
    nan,
    sqrt,
    tanh,
    zeros,
)
from numpy.testing import assert_allclose
from pages import read_csv
from pytest import approx, fixture, raises
from rows import read_yaml
from scipy.stats import t

from netsim.errors import BadInput
from rl.policy import SEEN, plan_dbw
from rl.problem import STEPS, convert_to_action
from rl.recording import observe_next_round
from rl.rules import limit_to_w
from scenarios import load
from scenarios.app.results.trainings import read_trainings
from scenarios.app.training.environments import build_problems, make_online
from scenarios.app.training.judge import _append_rows, get_ground, judge
from scenarios.app.training.train import train_agents

SHORT = read_yaml(
    "world.duration_s: 240, train.task.held_out: 3, train.task.tune_worlds: 1, "
    "train.task.tune_evaluations: 96, train.task.train_worlds: 2, "
    "train.task.eval_worlds: 1, train.steps: 2, train.eval_every: 2, "
    "train.agent.learning_starts: 1"
)
PAPER = {"world.duration_s": 240, "learning.data.samples": 20, "train.steps": 20}


def lower(seen):
    """Less power where a UE has more than the others disturb; features are those of every UE there
    is."""
    assert seen.shape[1] == SEEN
    assert len(seen) % 8 == 0
    return tanh(seen[:, :1] - 0.3)


@fixture(scope="module")
def study():
    return load("power/pedestrians", SHORT)


@fixture(scope="module")
def table(study):
    return judge(study, lower, passes=2)


def test_costs_are_those_of_the_environment_and_of_the_comparison_of_a_training(
    study, table, tmp_path
):
    worlds = table.columns[4:]
    assert list(table.columns[:4]) == ["cost", "difference", "half_width", "wins"]
    assert len(worlds) == 3
    env = make_online(study)
    for world in worlds:
        env.reset(options={"world": int(world)})
        paid = 0.0
        while not env.over:
            look = observe_next_round(env)
            power_w = limit_to_w(plan_dbw(look, get_ground(study).rule, lower, 2), look.limits)
            paid += env.step(convert_to_action(power_w[0], look.limits).astype(float32))[1]
        assert_allclose(table.loc["mine", world], -paid, rtol=1e-9)
    train_agents(study, [0], tmp_path / "t")
    (trained,) = read_trainings(tmp_path / "t")
    rest = trained.costs.drop(columns="ddpg")
    assert set(rest) == set(table.index) - {"mine"}
    assert {"oracle", "average", "full"} < set(rest)
    for name, costs in rest.items():
        assert_allclose(table.loc[name, worlds].to_numpy(), costs.loc[worlds], rtol=1e-6)


def test_differences_are_paired_by_world(table):
    worlds = table.columns[4:]
    assert table.cost.is_monotonic_increasing
    for name, row in table.drop(index="mine").iterrows():
        less = (table.loc["mine", worlds] - row[worlds]).to_numpy(float)
        assert row.difference == approx(less.mean()) and row.wins == (less < 0).sum(), name
        assert_allclose(row.half_width, t.ppf(0.975, 2) * less.std(ddof=1) / sqrt(3))
    assert_allclose(table.cost, table[worlds].mean(axis=1))
    assert isnan(table.loc["mine", "difference"])


def test_nothing_moved_is_the_best_rule_and_moves_of_passes_add_up(study, table):
    worlds = table.columns[4:]
    for passes in (0, -1, 1.5):
        with raises(BadInput, match=r"passes: .* take 1 to 100"):
            judge(study, lambda seen: zeros(len(seen)), "still", passes=passes)
    still = judge(study, lambda seen: zeros(len(seen)), "still", passes=3)
    best = get_ground(study).rule.law.name
    assert_allclose(still.loc["still", worlds].astype(float), table.loc[best, worlds].astype(float))
    once, twice = (
        judge(study, lambda seen, n=n: full(len(seen), 0.2 / n), passes=n) for n in (1, 2)
    )
    assert_allclose(twice.loc["mine", worlds].astype(float), once.loc["mine", worlds].astype(float))
    assert abs(once.cost["mine"] / still.cost["still"] - 1) > 1e-3


def test_a_study_whose_rounds_are_not_recorded_is_refused_with_what_plays_it():
    item = load("power/pedestrians", SHORT | {"train.task.reward": {"loss": 1}})
    with raises(
        BadInput,
        match=r"reward\.loss: recorded rounds do not tell it; .*take netsim/OnlinePower-v0",
    ):
        judge(item, lower)
    assert make_online(item).reset(seed=0)[0].shape == (42,)


def test_a_vector_for_a_whole_training_stands_beside_the_optimum(tmp_path):
    item = load("power/paper", PAPER)
    result = judge(item, lambda seen: [0.25] * 15, cache=tmp_path)
    (problem,) = build_problems(item, tmp_path).held_out
    last = problem.play_episode(lambda seen: full(15, 0.25))[STEPS - 1]
    assert_allclose(result.loc["mine", "cost"], problem.ratio(last))
    assert {
        "optimum",
        "full",
    } < set(result.index)


def test_what_cannot_be_judged_is_refused_before_worlds_are_played(study, monkeypatch):
    monkeypatch.setattr("scenarios.app.training.evaluate.RecordedGround.evaluate", None)
    for act, message in (
        (lambda seen: [0.25] * 7, r"\(7,\)"),
        (lambda seen: full(len(seen), 2.0), r"\[2\. 2\."),
        (lambda seen: full((len(seen), 8), 0.1), r"\(64, 8\), \[0.1 0.1"),
        (lambda seen: seen[:, 0] * nan, "nan"),
    ):
        with raises(
            ValueError,
            match=f"^policy: gives .*{message}.*give one number from -1 to 1 for each UE",
        ):
            judge(study, act)
    monkeypatch.setattr("scenarios.app.training.judge.RecordedGround", None)
    with raises(BadInput, match="has no `train:` section"):
        judge("city", lower)


def test_bad_actions_for_a_whole_training_are_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("scenarios.app.training.judge.evaluate_beside_references", None)
    for act, message in (
        (lambda seen: [0.25] * 7, r"shape \(7,\)"),
        (lambda seen: [2.0] * 15, "2 at 0 is outside"),
    ):
        with raises(ValueError, match=f"action: .*{message}"):
            judge(load("power/paper", PAPER), act, cache=tmp_path)


def test_the_name_of_a_rule_is_refused(study):
    with raises(BadInput, match="name: 'full' is the name of a rule; take another"):
        judge(study, lower, "full")


def test_a_leaderboard_has_a_row_for_each_judgement(tmp_path, caplog):
    """Of several policies a row each, beside the best rule; no other file is touched."""
    item = load("power/paper", PAPER)
    board = tmp_path / "board.csv"
    acts = {
        name: lambda seen, x=x: [x, -x, x] * 5 for name, x in (("=a", 0.25), ("b, louder", 0.5))
    }
    table = judge(item, acts, cache=tmp_path, leaderboard=board)
    assert "half_width is NaN" in caplog.text
    alone = judge(item, acts["b, louder"], "b, louder", tmp_path, leaderboard=board)
    rows = read_csv(board)
    assert [row["agent"] for row in rows] == ["'=a", "b, louder", "b, louder"]
    assert rows[1] | {"when": ""} == rows[2] | {"when": ""}
    assert len({(row["study"], row["scenario"]) for row in rows}) == 1
    rival = rows[2]["rival"]
    assert rival == alone.drop(["optimum", "b, louder"]).index[0]
    assert float(rows[2]["cost"]) == approx(alone.cost["b, louder"])
    assert float(rows[2]["difference"]) == approx(alone.difference[rival])
    assert set(table.index) == {"=a", *alone.index}
    assert table.difference["b, louder"] == approx(table.cost["=a"] - alone.cost["b, louder"])
    threads = [Thread(target=_append_rows, args=(board, [k] * len(rows[0]))) for k in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(int(row["agent"]) for row in read_csv(board)[3:]) == list(range(20))
    foreign = tmp_path / "mine.csv"
    foreign.write_text("when,who\n")
    with raises(BadInput, match="does not begin as a leaderboard"):
        judge(item, None, cache=tmp_path, leaderboard=foreign)
    assert foreign.read_text() == "when,who\n"


def test_rounds_of_a_world_are_said_and_a_single_one_is_doubted(caplog):
    get_ground(load("power/pedestrians", SHORT | {"world.duration_s": 60}))
    assert "warning: world.duration_s: a world has one round only" in caplog.text
