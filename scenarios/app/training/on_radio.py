"""Recorded rounds: worlds are played once, rules are tuned there, shared policies are trained, and all judged live."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fl.defenses.budgeted import Budgeted
from fl.defenses.noise_switch import NoiseSwitch
from fl.server.synchronous import Synchronous
from netsim import __version__
from netsim.checkpoint import save_tree
from netsim.errors import BadInput
from netsim.radio.noma import Noma
from netsim.rng import Streams
from netsim.units import FloatArray
from rl.agents import CriticAgent, RecordedAgent, ScoreFunctionAgent
from rl.resumed import SAVE_EVERY_S, resumed
from rl.reward import Figures
from rl.settings import ONE_STEP, ORACLE, RANDOM, Online, Train
from scenarios.app.study.study import Study
from scenarios.app.training.environments import Stages, n_ues
from scenarios.app.training.episode import Episode, episode_of
from scenarios.app.training.evaluate import Act, Evaluation, episode, of_recorded, worlds
from scenarios.app.training.one_step import OneStep

if TYPE_CHECKING:
    from stable_baselines3.common.logger import Logger

    from rl.env_online import OnlinePower
    from rl.lagrangian import Prices
    from rl.look import Look
    from rl.rules import Known, Tuned
    from rl.shared_policy import SharedPolicy, Weights
    from rl.train import CurvePoint

TUNED, TRAINED, CHOSEN, HELD_OUT = "tuned", "trained", "judged", "held-out"
"""What worlds are for: to tune rules, to train on, to choose the best policy by, to report."""
_STARTS = 3  # of the oracle: the best rules
FIRST = "fractional"
"""the rule that worlds are recorded with"""


@dataclass(frozen=True)
class Recorded:
    """A world that was recorded: how many of how many."""

    done: int
    of: int


class Training(Protocol):
    """A training on recorded rounds that has begun: takes steps, and can be written down after each."""

    steps: int
    done: int

    @property
    def prices(self) -> Prices: ...

    @property
    def evaluations(self) -> int: ...

    def policy(self) -> SharedPolicy: ...

    def figures(self) -> dict[str, float]: ...

    def step(self) -> None: ...

    def memory(self) -> dict[str, Any]: ...

    def resume(self, memory: dict[str, Any]) -> None: ...


@dataclass
class Best:
    """The curve of a training, and its best policy: weights, cost, after how many steps."""

    curve: list[CurvePoint] = field(default_factory=list)
    weights: Weights = field(default_factory=dict)
    score: float = np.inf
    steps: int = 0


class Ground:
    """What agents of a study are trained and judged on: recorded rounds, and rules tuned on worlds of their own.

    All of it is made when it is asked for, once for all seeds of a training.
    """

    def __init__(self, study: Study, tell: Callable[[Recorded], None]) -> None:
        from rl.env_online import OnlinePower
        from rl.radio_records import air_of

        if (reason := unrecorded(study)) is not None:
            raise BadInput(f"{reason}; change that, or take train.agent: {{kind: ddpg}}")
        how, self.task = settings(study)
        self.study, self.tell, self.done, self.name = study, tell, 0, how.agent.kind
        self.planned_s = list[float]()
        """seconds that the one-step optimiser took for a round, mean of each world"""
        self.air = air_of(study.world.radio.uplink, study.round_s)
        self.env = OnlinePower(Stages(study, watched=False), n_ues(study), self.task)
        self.numbers = {TUNED: self.task.tune_worlds, HELD_OUT: self.task.held_out}
        if isinstance(how.agent, RecordedAgent) and how.agent.on_recorded:
            self.numbers |= {TRAINED: how.agent.worlds, CHOSEN: self.task.eval_worlds}

    @cached_property
    def rules(self) -> list[Tuned]:
        """All rules, tuned."""
        from rl.rules import LAWS, tuned

        rng = Streams(self.study.seed).at("rules")
        return [tuned(law, self._tuned_on, self.task.tune_evaluations, rng) for law in LAWS]

    @cached_property
    def random(self) -> Tuned:
        """Random search over the parameters of the widest rule, with as many evaluations as each rule had."""
        from rl.rules import LAWS, best_of_random

        law = max(LAWS, key=lambda law: len(law.start))
        return best_of_random(law, self._tuned_on, self.task.tune_evaluations, Streams(self.study.seed).at("rules"))

    @cached_property
    def _tuned_on(self) -> Known:
        """Rounds to tune on, played with the first rule as it is before any tuning."""
        from rl.rules import untuned

        return self._known(TUNED, untuned(FIRST))

    @property
    def rule(self) -> Tuned:
        """The best of them, where they were tuned."""
        return min(self.rules, key=lambda rule: rule.cost)

    @cached_property
    def trained_on(self) -> Known:
        """Rounds to train on."""
        return self._known(TRAINED, self._first)

    @cached_property
    def chosen_on(self) -> Known:
        """Rounds by which the best policy is chosen."""
        return self._known(CHOSEN, self._first)

    @cached_property
    def held_out(self) -> list[Evaluation]:
        """All rules, live in worlds that nobody has seen; and the oracle, in these worlds as recorded."""
        from rl.oracle import best_powers

        held = worlds(self.study, HELD_OUT, self.task.held_out)
        judged = {rule.law.name: rule for rule in self.rules} | {RANDOM: self.random}
        rows = [
            episode(self._watched, name, played(rule.power_w), world, rule.evaluations)
            for world in held for name, rule in judged.items()
        ]  # fmt: skip
        rows += [self._planned(world) for world in held]
        known = self._known(HELD_OUT, self._first)
        best = sorted(self.rules, key=lambda rule: rule.cost)[:_STARTS]
        found = best_powers(known.at(self._multipliers), [rule.dbw(known.look) for rule in best])
        figures, ends = known.figures(found.power_w), np.flatnonzero(known.look.first)[1:]
        per_world = zip(held, *(np.split(x, ends) for x in (found.cost, *vars(figures).values())), strict=True)
        each = found.judged // len(held)
        return rows + [of_recorded(ORACLE, w, c, Figures(*own), each) for w, c, *own in per_world]

    @cached_property
    def _multipliers(self) -> FloatArray:
        """Prices of the reward's bounds for the oracle, found where rules are tuned; none without bounds."""
        from rl.oracle import best_multipliers

        if not self.task.reward.bounds():
            return np.zeros(0)
        known = self._tuned_on
        return best_multipliers(known, self.rule.dbw(known.look), Streams(self.study.seed).at("oracle"))

    def evaluated(self, act: Act, evaluations: int) -> list[Evaluation]:
        """An agent beside the others, in the same worlds."""
        held = worlds(self.study, HELD_OUT, self.task.held_out)
        return [*self.held_out, *(episode(self._watched, self.name, act, world, evaluations) for world in held)]

    def shown(self, act: Act, rows: list[Evaluation]) -> Episode:
        """An episode of that comparison."""
        rules = {rule.law.name: played(rule.power_w) for rule in self.rules}
        return episode_of(self._watched, self.study, (self.name, act), rules, rows)

    def _planned(self, world: int) -> Evaluation:
        """The one-step optimiser in a world; its evaluations are those of this world."""
        act = OneStep(self.air, self.rule, self._multipliers)
        row = episode(self._watched, ONE_STEP, act, world)
        self.planned_s.append(act.spent_s / max(act.rounds, 1))
        return replace(row, evaluations=act.judged)

    @property
    def _first(self) -> Tuned:
        return next(rule for rule in self.rules if rule.law.name == FIRST)

    @cached_property
    def _watched(self) -> OnlinePower:
        from rl.env_online import OnlinePower

        return OnlinePower(Stages(self.study), n_ues(self.study), self.task)

    def _known(self, purpose: str, rule: Tuned) -> Known:
        """Worlds played with a rule."""
        from rl.look import Look
        from rl.radio_records import Rounds
        from rl.recording import recorded
        from rl.rules import Known

        rounds, looks = list[Rounds](), list[Look]()
        for world in worlds(self.study, purpose, self.numbers[purpose]):
            played, seen = recorded(self.env, rule.power_w, world)
            rounds.append(played)
            looks.append(seen)
            self.done += 1
            self.tell(Recorded(self.done, sum(self.numbers.values())))
        return Known(Rounds.stack(rounds), Look.stack(looks), self.air, self.task.reward)


def score(policy: SharedPolicy, known: Known) -> float:
    """Mean over worlds of the cost of an episode, on recorded rounds, after how well bounds on means are kept."""
    from rl.lagrangian import penalty

    figures = known.figures(policy.power_w(known.look))
    return float(known.reward.cost(figures).sum() / known.look.worlds) + penalty(known.reward, figures)


def begun(on: Ground, how: Train, seed: int, told: Logger | None = None) -> Training:
    """A training on recorded rounds, before its first step. told : gets losses."""
    from rl.actor_critic import ActorCriticTraining
    from rl.score_function import ScoreFunctionTraining

    if isinstance(how.agent, ScoreFunctionAgent):
        return ScoreFunctionTraining(on.trained_on, on.rule, how.agent, how.steps, seed)
    if isinstance(how.agent, CriticAgent):
        return ActorCriticTraining(on.trained_on, on.rule, how.agent, how.steps, seed, told)
    raise TypeError("another agent")


def learn(
    training: Training, chosen_on: Known, every: int, checkpoint: Path, text: str,
    tell: Callable[[CurvePoint, bool], None], told: Logger | None = None,
) -> Best:  # fmt: skip
    """Take all steps, or those that are left. text says what is trained: a checkpoint of another text is not gone on
    with. told : gets figures at every evaluation.
    """
    from rl import board
    from rl.train import CurvePoint

    best = resumed(checkpoint, text, partial(_restored, training)) or Best()
    saved = time.perf_counter()

    def look() -> None:
        policy = training.policy()
        cost, last = score(policy, chosen_on), training.done == training.steps
        if cost < best.score:
            best.weights, best.score, best.steps = policy.weights, cost, training.done
        multipliers = tuple(training.prices.multipliers.tolist())
        best.curve.append(CurvePoint(training.done, cost, np.nan, -best.score, multipliers))
        if told is not None and told.output_formats:
            board.tell(told, {"judged/cost": cost, **training.figures()}, training.done)
        tell(best.curve[-1], last)

    if not best.curve:
        look()
    while training.done < training.steps:
        training.step()
        if training.done % every == 0 or training.done == training.steps:
            look()
        if time.perf_counter() - saved >= SAVE_EVERY_S:
            save_tree(checkpoint, _tree(training, best, text))
            saved = time.perf_counter()
    return best


def _tree(training: Training, best: Best, text: str) -> dict[str, Any]:
    curve = [[p.step, p.score, p.best_reward, *p.multipliers] for p in best.curve]
    kept = {"curve": curve, "weights": best.weights, "score": best.score, "steps": best.steps}
    return {"text": text, "training": training.memory(), "best": kept}


def _restored(training: Training, tree: Any) -> Best:
    """The course so far, and the training set to where it was."""
    from rl.train import CurvePoint

    kept = tree["best"]
    curve = [
        CurvePoint(int(step), float(cost), np.nan, float(reward), tuple(map(float, multipliers)))
        for step, cost, reward, *multipliers in kept["curve"]
    ]
    found = Best(curve, {n: np.array(w) for n, w in kept["weights"].items()}, kept["score"], kept["steps"])
    training.resume(tree["training"])
    return found


def played(power_w: Callable[[Look], FloatArray]) -> Act:
    """A rule as actions of the live environment."""
    from rl.problem import as_action
    from rl.recording import look_now

    return lambda env, seen: as_action(power_w(look_now(env))[0], env.task.limits)


def kept(on: Ground, best: Best, seed: int, folder: Path) -> SharedPolicy:
    """The best policy, written into a folder."""
    from rl.shared_folder import SharedCard, save_shared
    from rl.shared_policy import SharedPolicy

    policy = SharedPolicy(best.weights, on.rule)
    card = SharedCard(
        program=__version__, limits=on.task.limits, rule=on.rule.law.name,
        parameters=tuple(on.rule.parameters.tolist()), scenario=on.study.title, seed=seed, steps=best.steps,
    )  # fmt: skip
    save_shared(policy, card, folder)
    return policy


def settings(study: Study) -> tuple[Train, Online]:
    """What is trained."""
    how = study.train or Train()
    if not isinstance(how.task, Online):
        raise TypeError("another task")
    return how, how.task


def unrecorded(study: Study) -> str | None:
    """Why rounds of a study cannot be judged again at other powers; None where the radio alone decides what they cost,
    by the laws of `rl.radio_records`.
    """
    uplink, learning, (_, task) = study.world.radio.uplink, study.learned, settings(study)
    noisy = [d for d in learning.defenses if isinstance(d, Budgeted | NoiseSwitch)]
    server = learning.server
    if not isinstance(uplink, Noma) or uplink.decoding != "noisy":
        return "world.radio.uplink: recorded rounds need kind: noma with decoding: noisy"
    if study.world.radio.air is not None:
        return "world.radio.air: recorded rounds need transmissions that are planned"
    if not isinstance(server, Synchronous) or server.first is not None or server.deadline_s is not None:
        return "learning.server: recorded rounds need a server that waits for all, until the uplink's deadline"
    if len(noisy) > 1 or any(not isinstance(d, NoiseSwitch) or d.mode != "top-up" for d in noisy):
        return "learning.defenses: recorded rounds need budgets of one noise-switch with mode: top-up, or none"
    if task.reward.beyond_radio:
        return f"train.task.reward.{task.reward.beyond_radio[0]}: recorded rounds do not tell it"
    return None
