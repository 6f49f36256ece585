"""Trainings of shared policies on recorded rounds: from the first step to the last, the best policy kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from netsim import __version__
from netsim.checkpoint import save_tree
from rl.agents import CriticAgent, ScoreFunctionAgent
from rl.resumed import SAVE_EVERY_S, resumed
from rl.settings import Train
from scenarios.app.training.on_radio import Ground

if TYPE_CHECKING:
    from stable_baselines3.common.logger import Logger

    from rl.lagrangian import Prices
    from rl.rules import Known
    from rl.shared_policy import SharedPolicy, Weights
    from rl.train import CurvePoint


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


def kept_policy(on: Ground, best: Best, seed: int, folder: Path) -> SharedPolicy:
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
