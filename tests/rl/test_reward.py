"""Rewards: weighted sums, rewards of one's own, what is refused."""

import re
from itertools import cycle
from types import SimpleNamespace
from typing import ClassVar

from numpy import (
    array,
    float32,
    full,
    full_like,
    inf,
    log10,
    mean,
    nan,
    sqrt,
    zeros,
)
from numpy.testing import assert_allclose
from pytest import mark, raises
from rows import read_yaml
from tabled import cases

from netsim.errors import BadInput
from rl.reward import FIGURES, Reward, Weighted, compute_reward_cost
from scenarios.app.study.load import load
from scenarios.app.training.environments import make_online
from scenarios.app.training.train import train_agents

SHORT = {"world.duration_s": 360}


def figures(**inputs):
    n = len(next(iter(inputs.values())))
    return {name: array(inputs.get(name, full(n, nan)), float) for name in FIGURES}


class Ratio(Reward):
    """Joules for a share that arrives: one's own reward."""

    kind: str = "ratio"

    @property
    def reads(self):
        return {"energy_j": "kind", "lost": "kind"}

    def cost(self, figures):
        return figures["energy_j"] / (1.001 - figures["lost"])


def test_a_reward_of_ones_own_is_taken_like_others(monkeypatch):
    import netsim.part as part

    item = figures(energy_j=[2.0, 1.0], lost=[0.0, 0.5], noise=[nan, nan])
    assert_allclose(compute_reward_cost(Ratio(), item), [2.0 / 1.001, 1.0 / 0.501])
    entry = SimpleNamespace(
        value="mine:Ratio", group="netsim.reward", dist=None, load=lambda: Ratio
    )
    part.load_plugins.cache_clear()
    monkeypatch.setattr(part, "find_entry_points", lambda: [entry])
    try:
        from rl.reward import REWARDS

        assert REWARDS.parts["ratio"] is Ratio
    finally:
        part.load_plugins.cache_clear()


@mark.parametrize(
    "reward, message",
    cases("""
    {"noise": 0}, "all weights are 0"
    {"lost": -1}, "at least 0"
    {"kind": "constrained", "minimise": "leak"}, "constrained"
"""),
)
def test_contradictions_are_refused_in_one_line(reward, message):
    with raises(BadInput, match=message) as error:
        load("power/city", {"train.task.reward": reward})
    assert len(error.value.lines) == 1
    assert "train" in error.value.lines[0]


class Own(Weighted):
    """A reward of one's own, whose cost is `law` of the figures."""

    law: ClassVar = staticmethod(lambda figures: figures["noise"])

    @property
    def reads(self):
        return {"noise": "kind"}

    def cost(self, figures):
        return self.law(figures)


OF_OWN = "train.task.reward: Own.cost"


def register_reward(name, law, monkeypatch):
    """A short study with a reward of this law."""
    monkeypatch.setattr(Own, "law", staticmethod(law))
    study = load(name, SHORT)
    task = study.train.task.model_copy(update={"reward": Own()})
    return study.model_copy(update={"train": study.train.model_copy(update={"task": task})})


@mark.parametrize(
    "law, message",
    [
        (
            lambda of: of["noise"] + of["lost"],
            f"{OF_OWN} takes the figure 'lost', and its `reads` does not name it; add it",
        ),
        (lambda of: 1.5, "cost returned float, expected one number per round"),
        (lambda of: of["noise"] > 0, "cost returned bool(2,), expected one number per round"),
    ],
)
def test_a_reward_of_no_use_is_refused_where_it_is_made_and_before_a_training(
    law, message, monkeypatch, tmp_path
):
    study = register_reward("power/pedestrians", law, monkeypatch)
    for begin in (make_online, lambda item: train_agents(item, [0], tmp_path / "t")):
        with raises(BadInput, match=re.escape(message)):
            begin(study)
    assert not (tmp_path / "t").exists()


def test_a_cost_that_is_not_finite_is_refused_at_its_round(monkeypatch):
    study = register_reward(
        "power/pedestrians", lambda item: full_like(item["noise"], nan), monkeypatch
    )
    env = make_online(study)
    with raises(BadInput, match=rf"{OF_OWN} gives nan where noise -?[\d.]+; give finite numbers"):
        env.reset(seed=0)
        env.step(zeros(env.action_space.shape))


def test_rules_are_not_tuned_by_a_cost_that_is_not_finite():
    with raises(BadInput, match=r"Own.cost gives nan where noise nan; give finite numbers"):
        compute_reward_cost(Own(), figures(noise=[1.0, nan]))


HOMES = {
    "world.duration_s": 3 * 86400,
    "world.radio.uplink": read_yaml(
        "kind: noma, interference: none, rate: {kind: shannon}, bandwidth_hz: 180000.0"
    ),
    "learning.round_s": 86400,
    "learning.threat": {},
    "learning.attacks": [{"kind": "span", "rank": 4}, {"kind": "closed-form", "cloud": False}],
    "learning.references": {"central": False},
    "train.task.reward": {"noise": 0, "named": 1},
    "train.agent": {"kind": "ddpg"},
}


def test_named_homes_are_those_of_a_run_at_its_end(tmp_path):
    """The same powers live and in a run, 12 people in a small town: mean over attacks."""
    from rl.env import OnlinePower
    from scenarios import run
    from scenarios.app.training.environments import Stages, count_ues

    study = load("power/streets", HOMES)
    task = study.train.task
    env = OnlinePower(Stages(study), count_ues(study), task)
    env.reset(options={"world": study.seed})
    while not env.over:
        _, reward, *_ = env.step(zeros(12, float32))
    lower = task.limits.each_min_w
    upper = task.limits.each_max_w
    power = {"kind": "fixed", "power_dbm": 10 * log10(sqrt(lower * upper)) + 30}
    result = run(load("power/streets", HOMES | {"power": power}), tmp_path / "r").summary
    shares = [result[f"attack.{name}.home_located.percent"] for name in ("span", "closed-form")]
    assert max(shares) > 0
    assert_allclose(env.figures["named"], mean(shares) / 100)
    assert_allclose(-reward, env.figures["named"])


@mark.parametrize(
    "name, changes, reason",
    cases(r"""
    "power/city", {"train.task.reward.named": 1}, r"reward\.named: named is 0 without"
    "power/streets", {"train.task.reward.named": 1, "learning.attacks": []}, r"\.named:
        named is 0 without"
    "power/city", {"train.task.reward.leakage": 1, "learning.attacks": []}, r"\.leakage:
        leakage is 0 without"
"""),
)
def test_a_figure_that_attacks_cannot_have_is_refused(name, changes, reason):
    with raises(BadInput, match=reason):
        make_online(load(name, changes))


AIR = read_yaml("kind: noma, interference: none, rate: {kind: shannon}")


@mark.parametrize(
    "weights, changes, reason",
    [
        ({"lost": 1}, {"world.radio.uplink": AIR}, r"reward\.lost: lost is 0 in 25 rounds"),
        (
            {"lost": 1},
            {"world.radio.uplink": AIR | {"deadline_s": 1e-6}},
            r"reward\.noise: noise is 0 in 25 rounds, at high, low and middle powers",
        ),
        (
            {"energy_per_j": 1},
            read_yaml(
                "world.radio.uplink: {kind: noma, decoding: error-free}, learning.threat: {}"
            ),
            r"world\.radio\.uplink: recorded rounds need kind: noma with decoding: "
            r"noisy; .* agent of your own",
        ),
        (
            {"leakage": 1},
            read_yaml("learning.attacks: [{kind: span, rank: 4}]"),
            r"reward\.leakage: recorded rounds do not tell it; .* agent of your own in "
            r"netsim/OnlinePower-v0",
        ),
    ],
)
def test_a_figure_that_no_power_moves_is_refused_before_training(
    weights, changes, reason, tmp_path
):
    name = "power/streets" if "leakage" in weights else "power/pedestrians"
    rounds = {"world.duration_s": 5 * load(name).round_s}
    study = load(name, rounds | {"train.task.reward": {"noise": 1, **weights}} | changes)
    with raises(BadInput, match=reason) as refused:
        train_agents(study, [0], tmp_path / "t")
    assert len(refused.value.lines) == 1
    assert not (tmp_path / "t").exists()


def test_an_unknown_loss_is_that_of_the_last_model_that_was_scored(monkeypatch):
    """0 before the first; then nothing held out, and numbers that overflow, change nothing."""
    from gymnasium.utils.env_checker import check_env

    from fl.learners.rsrp_net import RsrpNet
    from scenarios.app.training.environments import make_online

    scores = cycle([nan, 3.0, nan, inf, 5.0])
    monkeypatch.setattr(RsrpNet, "evaluate", lambda *_: {"rmse_db": next(scores)})
    reward = {"noise": 0, "lost": 0, "leak": 0, "energy_per_j": 0, "loss": 2}
    env = make_online(load("power/city", {"world.duration_s": 300, "train.task.reward": reward}))
    env.reset(seed=0)
    steps = [env.step(zeros(12, float32)) for _ in range(5)]
    expected = array([0.0, 3.0, 3.0, 3.0, 5.0])
    assert_allclose([step[4]["loss"] for step in steps], expected)
    assert_allclose([step[1] for step in steps], -2 * expected)
    monkeypatch.setattr(RsrpNet, "evaluate", lambda *_: {"rmse_db": nan})
    check_env(env, skip_render_check=True)
