"""Agents with a critic on recorded rounds: what networks must not see, what they learn, and where they go on."""

from dataclasses import replace

import numpy as np
import pytest
from made_up_rounds import RULE, K, S, known
from power_problems import kept_course

from netsim.errors import BadInput
from rl.agents import DdpgAgent, SacAgent, Td3Agent
from rl.radio_records import Links
from rl.shared_policy import SharedPolicy
from scenarios.app.study.load import load

torch = pytest.importorskip("torch")
QUICK = {"situations": 16, "batch_size": 16, "buffer_size": 64, "learning_starts": 5, "learning_rate": 3e-3}
AGENTS = {
    "ddpg": DdpgAgent(network="shared", **QUICK),
    "td3": Td3Agent(exploration_noise_final_std=0.1, **QUICK),
    "sac": SacAgent(**QUICK),
}


def policy_of(training):
    return SharedPolicy(training.weights(), RULE)


def permuted(own, order):
    """The same rounds with UEs in another order."""
    links, place = own.look.links, np.argsort(order)
    moved = Links(links.h[:, order], links.heard[:, order], links.serving[:, order], links.downlink_bps[:, order])
    look = replace(own.look, links=moved, required_std=own.look.required_std[:, order])
    of = own.rounds.of
    rounds = replace(own.rounds, links=moved, of=np.where(of >= 0, place[of], -1))
    return replace(own, look=look, rounds=rounds)


def networks(own, kind, shake=0.3):
    """Actor and critic with weights that are not the first ones."""
    from rl.actor_critic import ActorCriticTraining

    training = ActorCriticTraining(own, RULE, AGENTS[kind], 10, 0)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for net in (training.model.actor, training.model.critic):
            for w in net.parameters():
                w += shake * torch.randn(w.shape, generator=generator)
    return training


def values(training, seen, actions):
    with torch.no_grad():
        return [q.numpy()[:, 0] for q in training.model.critic(seen, torch.from_numpy(actions).float())]


def means(training, seen):
    with torch.no_grad():
        return training.model.policy._predict(seen, deterministic=True).numpy()


SEEN = torch.arange(S, dtype=torch.float32)[:, None]
ACTIONS = np.random.default_rng(1).uniform(-1, 1, (S, K))


@pytest.mark.slow
@pytest.mark.parametrize("kind", AGENTS)
def test_exchanging_ues_exchanges_actions_and_changes_no_value(kind):
    order = np.array([3, 0, 4, 1, 2])
    one, other = networks(known(), kind), networks(permuted(known(), order), kind)
    np.testing.assert_allclose(means(other, SEEN), means(one, SEEN)[:, order], atol=1e-5)
    assert np.ptp(means(one, SEEN)) > 0.1
    for q, moved in zip(values(one, SEEN, ACTIONS), values(other, SEEN, ACTIONS[:, order]), strict=True):
        np.testing.assert_allclose(moved, q, atol=2e-5)
        assert np.ptp(q) > 0.05


@pytest.mark.parametrize("kind", AGENTS)
def test_ues_that_are_away_do_not_matter(kind):
    """Neither do their links to what others do, nor do their actions to any value or reward."""
    own, away = known(), np.arange(0, S, 3)
    links = own.look.links
    wild = links.h.copy()
    wild[away, 2] *= 1e3
    one, other = (
        networks(replace(own, look=replace(own.look, links=replace(links, h=h))), kind) for h in (links.h, wild)
    )
    changed = ACTIONS.copy()
    changed[away, 2] *= -1
    np.testing.assert_allclose(means(other, SEEN), means(one, SEEN), atol=1e-6)
    assert (means(one, SEEN)[away, 2] == 0).all()
    for q, moved in zip(values(one, SEEN, ACTIONS), values(other, SEEN, changed), strict=True):
        np.testing.assert_allclose(moved, q, atol=1e-6)
    every = np.arange(S)
    np.testing.assert_array_equal(one.env.rewards(changed, every), one.env.rewards(ACTIONS, every))
    assert (one.env.rewards(-ACTIONS, every) != one.env.rewards(ACTIONS, every)).all()


@pytest.mark.parametrize("kind", AGENTS)
def test_the_rule_is_worth_nothing_and_what_training_begins_with(kind):
    training = networks(known(), kind)
    for q in values(training, SEEN, np.zeros((S, K))):
        np.testing.assert_array_equal(q, 0)
    np.testing.assert_allclose(training.env.rewards(np.zeros((S, K)), np.arange(S)), 0, atol=1e-12)
    fresh = networks(known(), kind, shake=0.0)
    look = fresh.known.look
    np.testing.assert_array_equal(policy_of(fresh).dbw(look), RULE.dbw(look))


def test_a_reward_is_what_the_powers_save():
    env = networks(known(), "td3").env
    own, at = env.known, np.array([4, 1, 4])
    power_w = np.clip(10 ** ((RULE.dbw(own.look)[at] + 10 * ACTIONS[at]) / 10), 1e-6, 0.2)
    expected = own.cost(RULE.power_w(own.look))[at] - own.cost(power_w, at)
    np.testing.assert_allclose(env.rewards(ACTIONS[at], at), expected)


def test_the_policy_of_the_files_is_the_actor():
    training = networks(known(), "ddpg", shake=0.05)
    look = training.known.look
    residual_db = np.clip(policy_of(training).residual_db(look), -10, 10)
    np.testing.assert_allclose(residual_db, 10 * means(training, SEEN), atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ddpg", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("td3", "sac"))])
def test_it_learns_these_rounds(kind):
    from rl.actor_critic import ActorCriticTraining

    own = known()
    long = AGENTS[kind].model_copy(update={"buffer_size": 20_000, "batch_size": 64, "learning_starts": 100})
    training = ActorCriticTraining(own, RULE, long, 400, 0)
    for _ in range(400):
        training.step()
    before, after = (own.cost(p.power_w(own.look)).mean() for p in (RULE, policy_of(training)))
    assert after < before - 0.05
    assert training.evaluations == 400 * 16


@pytest.mark.parametrize("kind", AGENTS)
def test_it_goes_on_where_it_was_to_the_bit(kind, tmp_path):
    """Also from before the buffer is full, and before the actor learns."""
    from netsim.checkpoint import load_tree, save_tree
    from rl.actor_critic import ActorCriticTraining

    def begun():
        return ActorCriticTraining(known(), RULE, AGENTS[kind], 14, 3)

    whole = begun()
    for _ in range(14):
        whole.step()
    for stop in (3, 9):
        first, second = begun(), begun()
        for _ in range(stop):
            first.step()
        save_tree(tmp_path / "c", first.memory())
        torch.manual_seed(stop)  # whatever others draw
        second.resume(load_tree(tmp_path / "c"))
        for _ in range(14 - stop):
            second.step()
        for name, w in whole.weights().items():
            np.testing.assert_array_equal(second.weights()[name], w)
        assert repr(second.memory()) == repr(whole.memory())
    assert np.abs(whole.weights()["out.weight"]).max() > 0


SMALL = {
    "world.duration_s": 360, "train.task.tune_worlds": 1, "train.task.tune_evaluations": 600, "train.task.held_out": 1,
    "train.task.eval_worlds": 1, "train.steps": 8, "train.eval_every": 4,
}  # fmt: skip
SHARED = {"kind": "ddpg", "network": "shared", "worlds": 1, "situations": 8, "batch_size": 8, "learning_starts": 2}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"train.task": {"kind": "allocation"}}, "ddpg with network: shared acts in every round"),
        (
            {"train.task.reward.loss": 1},
            "task.reward.loss: asks for what recorded rounds do not tell .*ddpg with network: shared learns",
        ),
        ({"train.agent.hidden": [8]}, "hidden belongs to network: flat"),
        ({"train.agent": {"kind": "ddpg", "situations": 8}}, "situations belongs to network: shared"),
        ({"train.agent.situations": 30_000}, "situations 30000 is above buffer_size 20000"),
    ],
)
def test_what_does_not_fit_is_refused(changes, said):
    with pytest.raises(BadInput, match=said):
        load("power/city", SMALL | {"train.agent": SHARED} | changes)


def test_rounds_that_cannot_be_recorded_are_refused(tmp_path):
    from scenarios.app.training.train import train

    of = load("power/city", SMALL | {"train.agent": SHARED, "world.radio.uplink": {"kind": "oma"}})
    with pytest.raises(BadInput, match="kind: noma with decoding: noisy"):
        train(of, [0], tmp_path / "t", lambda now: None)
    assert not (tmp_path / "t").exists()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ddpg", pytest.param("sac", marks=pytest.mark.slow)])
def test_an_interrupted_training_ends_with_the_same_files(kind, tmp_path, monkeypatch):
    """From the scenario to a policy that other UEs play."""
    from rl import train as loop
    from scenarios.app.report.report import report
    from scenarios.app.run.runner import run
    from scenarios.app.training.train import train

    agent = {key: value for key, value in SHARED.items() if kind == "ddpg" or key != "network"} | {"kind": kind}
    of = load("power/city", SMALL | {"train.agent": agent})
    (summary,) = train(of, [0], tmp_path / "whole", lambda now: None)
    assert summary[f"policy.{kind}.evaluations.mean"] == 8 * 8
    monkeypatch.setattr(loop, "SAVE_EVERY_S", 0.0)

    def stop(now):
        if now.name == "step" and now.done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(of, [0], tmp_path / "again", stop)
    assert (tmp_path / "again" / "checkpoint.npz").exists()
    train(of, [0], tmp_path / "again", lambda now: None)
    for name in ("policy.json", "policy.safetensors", "curve.csv", "evaluations.csv", "summary.json"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    report(tmp_path / "whole")
    page = (tmp_path / "whole" / "report.html").read_text()
    assert "best rule" in page and "oracle" in page
    power = {"kind": "shared", "policy": str(tmp_path / "whole")}
    run(
        load("power/city", {"world.duration_s": 120, "power": power, "world.ues.count": 5, "train": None}),
        tmp_path / "run",
        lambda progress: None,
    )


def test_slopes_are_compared_with_those_of_the_rewards():
    from rl.slopes import gradient_cosine

    target = np.random.default_rng(2).normal(size=(S, K))

    def rewards(actions, at):
        return -((actions - target[at]) ** 2).sum(axis=1)

    at, slope = np.arange(S), 2 * (target - ACTIONS)
    assert gradient_cosine(slope, rewards, ACTIONS, at) == pytest.approx(1)
    assert gradient_cosine(-slope, rewards, ACTIONS, at) == pytest.approx(-1)
    assert gradient_cosine(np.zeros((S, K)), rewards, ACTIONS, at) == 0
    across = slope[:, [1, 0, 2, 3, 4]] * [1, -1, 0, 0, 0]
    assert gradient_cosine(across, rewards, ACTIONS, at) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("kind", [*AGENTS, "score-function"])
def test_a_board_is_told_of_every_evaluation_and_changes_nothing(kind, tmp_path, monkeypatch):
    from stable_baselines3.common import logger, utils

    from rl.actor_critic import ActorCriticTraining
    from rl.agents import ScoreFunctionAgent
    from rl.score_function import ScoreFunctionTraining
    from rl.train import board_of

    told = []

    class Board(logger.KVWriter):
        def __init__(self, folder):
            assert folder.endswith("seed-3_1")

        def write(self, key_values, key_excluded, step=0):
            told.append((step, dict(key_values)))  # which is cleared afterwards

        def close(self):
            told.append(None)

    monkeypatch.setattr(logger, "TensorBoardOutputFormat", Board)
    monkeypatch.setattr(utils, "SummaryWriter", Board)

    def course(where, out):
        if kind == "score-function":
            agent = ScoreFunctionAgent(situations=4, actions=4)
            training = ScoreFunctionTraining(known(), RULE, agent, 12, 3)
        else:
            training = ActorCriticTraining(known(), RULE, AGENTS[kind], 12, 3, out)

        def score(weights):
            return known(1).score(SharedPolicy(weights, RULE).power_w)

        return kept_course(training, score, 6, tmp_path / where, lambda point, last: None, out)

    with_board = board_of(str(tmp_path / "board"), 3, fresh=True)
    found, alone = course("a", with_board), course("b", board_of(None, 3, fresh=True))
    with_board.close()
    assert told.pop() is None and [step for step, _ in told] == [0, 6, 12] == [p.step for p in found.curve]
    assert [figures["judged/cost"] for _, figures in told] == [p.score for p in found.curve]
    last = told[-1][1]
    assert {"rollout/reward_mean", "rollout/std_db"} <= set(last) and last["rollout/std_db"] > 0
    if kind != "score-function":
        assert {"train/actor_loss", "train/critic_loss", "critic/gradient_cosine"} <= set(last)
        assert -1 <= last["critic/gradient_cosine"] <= 1
    assert repr(alone) == repr(found)
