"""A training from its first step to its last: judged now and then, the best policy kept, written down in between."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from netsim.checkpoint import save_tree
from netsim.tree import from_tree_as, to_tree
from rl.ddpg import Best, DdpgTraining
from rl.env_online import OnlinePower
from rl.live_bounds import LiveBounds
from rl.off_policy import Tree, buffer_of
from rl.policy import Layers
from rl.resumed import SAVE_EVERY_S, resumed

Judge = Callable[[Layers], float]
"""The figure of a policy that decides which one is best: small is good."""


@dataclass(frozen=True)
class CurvePoint:
    """The training after some steps: the figure of the policy, the mean reward since the last point, the best reward
    of any step so far, and the multipliers of the reward's bounds.
    """

    step: int
    score: float
    reward: float
    best_reward: float
    multipliers: tuple[float, ...] = ()


@dataclass
class Course:
    """How a training goes: what the rest of it depends on besides the agent."""

    curve: list[CurvePoint] = field(default_factory=list)
    best: Best | None = None
    best_reward: float = -np.inf
    recent: list[float] = field(default_factory=list)


def take_steps(
    training: DdpgTraining,
    judge: Judge,
    every: int,
    checkpoint: Path,
    text: str,
    tell: Callable[[CurvePoint, bool], None],
) -> Course:
    """Take all steps. text says what is trained: a checkpoint of another text is not gone on with.

    `tell` gets every new point of the curve, and whether it is the last one.
    """
    bounds = _bounds(training)
    course = resumed(checkpoint, text, partial(_restored, training, bounds)) or Course()
    saved = time.perf_counter()

    def look(last: bool) -> None:
        if course.curve and course.curve[-1].step == training.done:
            return
        layers = training.layers()
        score = judge(layers)
        if course.best is None or score < course.best.score:
            course.best = Best(layers, score, training.done)
        mean = float(np.mean(course.recent)) if course.recent else float("nan")
        multipliers = () if bounds is None else bounds.multipliers
        course.curve.append(CurvePoint(training.done, score, mean, course.best_reward, multipliers))
        course.recent = []
        training.note("judged/cost", score)
        tell(course.curve[-1], last)

    def between(fresh: bool) -> None:
        nonlocal saved
        if fresh and bounds is not None:
            bounds.episode_over()
        if training.done % every == 0:
            look(last=False)
        if fresh and time.perf_counter() - saved >= SAVE_EVERY_S:
            save_tree(checkpoint, _tree(training, bounds, course, text))
            saved = time.perf_counter()

    def stepped(info: Tree, reward: float) -> None:
        if bounds is not None:
            bounds.stepped(info)
        course.recent.append(reward)
        course.best_reward = max(course.best_reward, reward)

    if training.done < training.steps:
        training.run(between, stepped)
    look(last=True)
    return course


def _bounds(training: DdpgTraining) -> LiveBounds | None:
    """Bounds of the reward that its environment pays, if there are any."""
    env: Any = training.env
    return (
        LiveBounds(env, buffer_of(training.model))
        if isinstance(env, OnlinePower) and env.task.reward.bounds()
        else None
    )


def _tree(training: DdpgTraining, bounds: LiveBounds | None, course: Course, text: str) -> Tree:
    kept = {} if bounds is None else {"bounds": bounds.memory()}
    return {"text": text, "training": training.memory(), "course": to_tree(course)} | kept


def _restored(training: DdpgTraining, bounds: LiveBounds | None, tree: Any) -> Course:
    """The course so far, and the training set to where it was."""
    course = from_tree_as(tree["course"], Course)
    training.resume(tree["training"])
    if bounds is not None:
        bounds.resume(tree["bounds"])
    return course
