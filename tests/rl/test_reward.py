"""Rewards: weighted sums and bounds on means over rounds, their multipliers, what is refused."""

import re
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from power_problems import kept_course

from netsim.errors import BadInput
from netsim.rng import Streams
from rl.reward import FIGURES, Constrained, Prices, Reward, Weighted, first_prices, over, penalty, priced
from rl.rules import LAWS, tuned, untuned
from rl.settings import ScoreFunctionAgent
from scenarios.app.study.load import load
from scenarios.app.training.environments import online, onlines
from scenarios.app.training.evaluate import _cost_of_one
from scenarios.app.training.train import train

DRAW = np.random.default_rng(5)
NOISE_AT_MOST = {"kind": "constrained", "minimise": "energy_j", "at_most": {"noise": 1.5}}
SHORT = {"world.duration_s": 360}
CONSTRAINED = {"kind": "constrained", "minimise": "leak", "at_most": {"noise": 2.0, "lost": 0.9}}


def figures(**given):
    n = len(next(iter(given.values())))
    return {name: np.array(given.get(name, np.full(n, np.nan)), dtype=float) for name in FIGURES}


def constrained(minimise="leak", **at_most):
    return Constrained(minimise=minimise, at_most=at_most)


def test_the_lagrangian_by_hand():
    reward = constrained(noise=2.0, energy_j=0.01)
    of = figures(leak=[0.1, 0.3], noise=[1.0, 4.0], energy_j=[0.004, 0.008])
    np.testing.assert_allclose(priced(reward, of, None), [0.1, 0.3])
    np.testing.assert_allclose(priced(reward, of, np.array([0.5, 10.0])), [0.1 - 0.5 - 0.06, 0.3 + 1.0 - 0.02])
    np.testing.assert_allclose(over(reward, of), [0.5, -0.004])
    assert penalty(reward, of) == pytest.approx(1e3 * 0.25)


def test_multipliers_rise_with_what_exceeds_and_end_at_zero():
    prices = Prices(np.array([1.0, 1.0]), spread=np.array([0.1, 0.1]), step=np.array([2.0, 2.0]))
    once = prices.raised(np.array([0.05, -0.01]), 0.1)
    np.testing.assert_allclose(once.multipliers, [1 + 0.1 * 2 * 0.5, 1 - 0.1 * 2 * 0.1])
    np.testing.assert_allclose(prices.raised(np.array([9.0, -9.0]), 0.1).multipliers, [1.2, 0.8])  # a step has an end
    np.testing.assert_array_equal(prices.raised(np.array([-9.0, -9.0]), 5.0).multipliers, 0.0)


def test_at_first_a_spread_of_each_figure_costs_the_same():
    of = figures(leak=DRAW.normal(0, 0.02, 4000), noise=DRAW.normal(0, 0.5, 4000) + np.repeat([5.0, 50.0], 2000))
    prices = first_prices(constrained(noise=1.0), of, situations=2)  # by what actions change, not situations
    assert prices.multipliers[0] == pytest.approx(0.02 / 0.5, rel=0.05)


def test_the_dual_finds_the_least_energy_of_two_ues_that_keep_a_noise():
    """Nobody interferes: mean of a_k / p_k at most b at the least sum of powers is p_k = sqrt(a_k) sum sqrt(a) / (2 b),
    at the multiplier (sum sqrt(a))^2 / (2 b^2). Least L at a price l has p_k = sqrt(l a_k / 2)."""
    a, b = np.array([1.0, 9.0]), 2.0
    reward = Constrained.model_validate(NOISE_AT_MOST | {"at_most": {"noise": b}})

    def of(power_w):
        return figures(energy_j=[power_w.sum()], noise=[(a / power_w).mean()])

    prices = Prices(np.array([0.1]), spread=np.array([1.0]), step=np.array([1.0]))
    for _ in range(400):
        power_w = np.sqrt(prices.multipliers[0] * a / 2)
        prices = prices.raised(over(reward, of(power_w)), 0.5)
    np.testing.assert_allclose(power_w, np.sqrt(a) * np.sqrt(a).sum() / (2 * b), rtol=1e-6)
    assert prices.multipliers[0] == pytest.approx(np.sqrt(a).sum() ** 2 / (2 * b**2), rel=1e-6)
    assert power_w.sum() == pytest.approx(priced(reward, of(power_w), prices.multipliers)[0], rel=1e-6)  # no gap


@pytest.fixture(scope="module")
def known():
    from rl.env import OnlinePower
    from rl.radio_records import air_of
    from rl.recording import recorded
    from rl.rules import Known, within
    from scenarios.app.training.environments import Stages, n_ues

    of = load("power/city", SHORT | {"train.task.reward": CONSTRAINED})
    task = of.train.task
    env = OnlinePower(Stages(of, watched=False), n_ues(of), task)
    rounds, look = recorded(env, lambda seen: within(3.0 - 0.75 * seen.snr_db, seen.limits), 7)
    return Known(rounds, look, air_of(of.world.radio.uplink, of.round_s), task.reward)


def bounded(known, **at_most):
    return replace(known, reward=constrained(**at_most))


def rule_of(known):
    return tuned(LAWS[1], known, 3000, Streams(0).at("t"))


def test_rules_keep_bounds_first(known):
    """A rule that is tuned to keep a bound does, and pays for it; a bound that nobody can keep is missed by little."""
    free = bounded(known, lost=0.99)
    cheap = rule_of(free)
    noise = float(free.figures(cheap.power_w(known.look))["noise"].mean())
    tight = bounded(known, lost=0.99, noise=noise - 0.2)
    rule = rule_of(tight)
    found = tight.figures(rule.power_w(known.look))
    assert found["noise"].mean() <= noise - 0.2 and rule.cost == pytest.approx(found["leak"].mean())
    assert rule.cost > cheap.cost
    assert rule_of(bounded(known, noise=-5.0)).cost > 1e3


class TestTraining:
    AGENT = ScoreFunctionAgent(situations=6, actions=8)

    def training(self, known, steps=400):
        from rl.agents import ScoreFunctionTraining

        return ScoreFunctionTraining(known, untuned("fractional"), self.AGENT, steps, 1)

    def test_multipliers_follow_what_exceeds_and_slack_ones_end_at_zero(self, known):
        easy = bounded(known, noise=100.0, lost=0.99)
        training = self.training(easy)
        begun = training.prices.multipliers
        for _ in range(50):
            training.step()
        np.testing.assert_allclose(training.prices.multipliers, 0.9 * begun)
        hard = self.training(bounded(known, noise=-5.0))
        for _ in range(50):
            hard.step()
        assert hard.prices.multipliers[0] == pytest.approx(1.1 * hard.prices.step[0])
        assert training.evaluations == (50 + 1) * 6 * 8 + 6  # its steps, the first prices, one dual step


def test_an_interrupted_training_has_the_curve_of_a_whole_one(known, tmp_path, monkeypatch):
    """Multipliers, steps and costs, to the bit."""
    from rl.policy import SharedPolicy

    tight = bounded(known, noise=1.0)

    def learnt(name, stop_at=None):
        def tell(point, last):
            if point.step == stop_at:
                raise KeyboardInterrupt

        training = TestTraining().training(tight, 120)

        def score(weights):
            return tight.score(SharedPolicy(weights, training.rule).power_w)

        return kept_course(training, score, 20, tmp_path / name, tell)

    whole = learnt("whole")
    with pytest.raises(KeyboardInterrupt):
        learnt("parts", stop_at=80)
    resumed = learnt("parts")
    assert len({p.multipliers for p in whole.curve}) == 3  # at first, after 50 and after 100 steps
    np.testing.assert_equal([vars(p) for p in resumed.curve], [vars(p) for p in whole.curve])


def test_bounds_are_reported_with_their_intervals():
    from scenarios.app.report.training_page import bounds_of, verdict

    assert [verdict(m, 0.1, 2.0) for m in (1.8, 2.05, 2.2)] == ["kept", "undecided", "broken"]
    summaries = [{"bound.a b.noise.mean": m, "bound.a b.noise.half_width": 0.1, "bound.a b.noise.at_most": 2.0}
                 for m in (1.9, 2.4)]  # fmt: skip
    assert bounds_of(summaries[:1], "a b") == {"noise": (1.9, 0.1, 2.0)} and bounds_of(summaries, "other") == {}


class Ratio(Reward):
    """Joules for a share that arrives: one's own reward, with a bound."""

    kind: str = "ratio"

    @property
    def reads(self):
        return {"energy_j": "kind", "lost": "kind", "noise": "kind"}

    def cost(self, figures):
        return figures["energy_j"] / (1.001 - figures["lost"])

    def bounds(self):
        return {"noise": 4.0}


def test_a_reward_of_ones_own_is_tuned_and_learnt_like_others(known, monkeypatch):
    import netsim.part as part

    own = replace(known, reward=Ratio())
    training = TestTraining().training(own)
    before = training.weights()["out.bias"].copy()
    for _ in range(60):
        training.step()
    assert len(training.prices.multipliers) == 1 and (training.weights()["out.bias"] != before).any()
    entry = SimpleNamespace(value="mine:Ratio", dist=None, load=lambda: Ratio)
    part.plugins.cache_clear()
    monkeypatch.setattr(part, "declared", lambda: {"netsim.reward": [entry]})
    try:
        from rl.reward import REWARDS

        assert REWARDS.parts["ratio"] is Ratio
    finally:
        part.plugins.cache_clear()


@pytest.mark.parametrize(
    ("reward", "said"),
    [
        ({"noise": 0}, "all weights are 0"),
        ({"kind": "constrained", "minimise": "leak", "at_most": {}}, "bounds nothing"),
        ({"kind": "constrained", "minimise": "leak", "at_most": {"leak": 0.1}}, "leak is minimised already"),
        (
            {"kind": "constrained", "minimise": "leak", "at_most": {"noise": 2, "loss": 9}},
            r"reward\.at_most\.loss: loss and leakage are unknown",
        ),
        (
            {"kind": "constrained", "minimise": "loss", "at_most": {"noise": 2}},
            r"reward\.minimise: loss and leakage are unknown",
        ),
        ({"kind": "constrained", "minimise": "leak", "at_most": {"lost": 1.0}}, "below 1"),
        ({"kind": "constrained", "minimise": "leak", "at_most": {"energy_j": 0}}, "above 0 and"),
    ],
)
def test_contradictions_are_refused_in_one_line(reward, said):
    with pytest.raises(BadInput, match=said) as error:
        load("power/city", {"train.task.reward": reward})
    assert len(error.value.lines) == 1 and "train" in error.value.lines[0]


class Own(Weighted):
    """A reward of one's own, whose cost is `law` of the figures."""

    law: ClassVar = staticmethod(lambda figures: figures["noise"])

    @property
    def reads(self):
        return {"noise": "kind"}

    def cost(self, figures):
        return self.law(figures)


OF_OWN = "train.task.reward: Own.cost"


def of_own(name, law, monkeypatch):
    """A short study with a reward of this law."""
    monkeypatch.setattr(Own, "law", staticmethod(law))
    study = load(name, SHORT)
    task = study.train.task.model_copy(update={"reward": Own()})
    return study.model_copy(update={"train": study.train.model_copy(update={"task": task})})


@pytest.mark.parametrize(
    ("law", "said"),
    [
        (
            lambda of: of["noise"] + of["lost"],
            "takes the figure 'lost', and its `reads` does not name it; add it",
        ),
        (lambda of: 1.5, "gives float64 of shape () for figures of shape (2,); give one number a round"),
        (lambda of: of["noise"] > 0, "gives bool of shape (2,) for figures of shape (2,)"),
    ],
)
def test_a_reward_of_no_use_is_refused_where_it_is_made_and_before_a_training(law, said, monkeypatch, tmp_path):
    study = of_own("power/pedestrians", law, monkeypatch)
    for begin in (online, partial(onlines, 2), lambda of: train(of, [0], tmp_path / "t")):
        with pytest.raises(BadInput, match=re.escape(f"{OF_OWN} {said}")):
            begin(study)
    assert not (tmp_path / "t").exists()


def test_a_cost_that_is_not_finite_is_refused_at_its_round(monkeypatch):
    study = of_own("power/pedestrians", lambda of: np.full_like(of["noise"], np.nan), monkeypatch)
    for make in (online, partial(onlines, 1)):
        env = make(study)
        with pytest.raises(BadInput, match=rf"{OF_OWN} gives nan where noise -?[\d.]+; give finite numbers"):
            env.reset(seed=0)
            env.step(np.zeros(env.action_space.shape))


def test_a_reward_without_a_number_at_zero_has_no_weight_in_an_episode(monkeypatch):
    monkeypatch.setattr(Own, "law", staticmethod(lambda of: np.log(of["noise"])))
    assert _cost_of_one(Own(), "lost") == 0.0
    assert _cost_of_one(Weighted(noise=3.0), "noise") == 3.0


def test_rules_are_not_tuned_by_a_cost_that_is_not_finite():
    with pytest.raises(BadInput, match=r"Own.cost gives nan where noise nan; give finite numbers"):
        priced(Own(), figures(noise=[1.0, np.nan]), None)


HOMES = {
    "world.duration_s": 3 * 86400,
    "world.radio.uplink": {"kind": "noma", "interference": "none", "rate": {"kind": "shannon"}, "bandwidth_hz": 180e3},
    "learning.round_s": 86400,
    "learning.threat": {},
    "learning.attacks": [{"kind": "span", "rank": 4}, {"kind": "closed-form", "cloud": False}],
    "learning.references": {"central": False},
    "train.task.reward": {"noise": 0, "named": 1},
    "train.agent": {"kind": "ddpg"},
}


def test_named_homes_are_those_of_a_run_at_its_end(tmp_path):
    """The same powers live and in a run, 12 people in a small town: mean over attacks, and each UE's own part."""
    from rl.env import OnlinePower
    from scenarios import run
    from scenarios.app.training.environments import Stages, n_ues

    study = load("power/streets", HOMES)
    task = study.train.task
    env = OnlinePower(Stages(study), n_ues(study), task)
    env.reset(options={"world": study.seed})
    while not env.over:
        _, reward, *_ = env.step(np.zeros(12, np.float32))
    least, most = task.limits.each_min_w, task.limits.each_max_w
    power = {"kind": "fixed", "power_dbm": 10 * np.log10(np.sqrt(least * most)) + 30}
    found = run(load("power/streets", HOMES | {"power": power}), tmp_path / "r").summary
    shares = [found[f"attack.{name}.home_located.percent"] for name in ("span", "closed-form")]
    assert max(shares) > 0
    assert env.figures["named"] == pytest.approx(np.mean(shares) / 100)
    assert [env.cost.own.sum(), -reward] == pytest.approx([env.figures["named"]] * 2)


@pytest.mark.parametrize(
    ("name", "changes", "why"),
    [
        ("power/city", {"train.task.reward.named": 1}, r"reward\.named: named is 0 without"),
        ("power/streets", {"train.task.reward.named": 1, "learning.attacks": []}, r"\.named: named is 0 without"),
        ("power/city", {"train.task.reward.leakage": 1, "learning.attacks": []}, r"\.leakage: leakage is 0 without"),
    ],
)  # fmt: skip
def test_a_figure_that_attacks_cannot_have_is_refused(name, changes, why):
    with pytest.raises(BadInput, match=why):
        online(load(name, {"train.agent": {"kind": "ddpg"}} | changes))


AIR = {"kind": "noma", "interference": "none", "rate": {"kind": "shannon"}}


@pytest.mark.parametrize(
    ("weights", "changes", "why"),
    [
        ({"lost": 1}, {"world.radio.uplink": AIR}, r"reward\.lost: lost is 0 in 25 rounds"),
        (
            {"energy_per_j": 1},
            {"world.radio.uplink": {"kind": "noma", "decoding": "error-free"}, "learning.threat": {}},
            r"reward\.noise: noise is 0 in 25 rounds",
        ),
        (
            {"leakage": 1},
            {"learning.attacks": [{"kind": "span", "rank": 4}], "train.agent": {"kind": "ddpg"}},
            r"reward\.leakage: leakage is 0 in 25 rounds, at high, low and middle powers",
        ),
    ],
)  # fmt: skip
def test_a_figure_that_no_power_moves_is_refused_before_training(weights, changes, why, tmp_path):
    name = "power/streets" if "leakage" in weights else "power/pedestrians"
    rounds = {"world.duration_s": 5 * load(name).round_s}
    study = load(name, rounds | {"train.task.reward": {"noise": 1, **weights}} | changes)
    with pytest.raises(BadInput, match=why) as refused:
        train(study, [0], tmp_path / "t")
    assert len(refused.value.lines) == 1 and not (tmp_path / "t").exists()
