"""A training from its first step to its last: judged now and then, the best policy kept, written down in between."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from netsim.checkpoint import load_tree, save_tree
from netsim.errors import BadInput
from netsim.safe import what_is
from netsim.tree import from_tree_as, to_tree
from rl.ddpg import Best, DdpgTraining, Tree
from rl.policy import Layers

SAVE_EVERY_S = 10.0  # of wall time; when it is written changes no result

Judge = Callable[[Layers], float]
"""The figure of a policy that decides which one is best: small is good."""


@dataclass(frozen=True)
class CurvePoint:
    """The training after some steps: the figure of the policy, the mean reward since the last point, the best reward
    of any step so far.
    """

    step: int
    score: float
    reward: float
    best_reward: float


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
    course = _open(training, checkpoint, text)
    saved = time.perf_counter()

    def look(last: bool) -> None:
        if course.curve and course.curve[-1].step == training.done:
            return
        layers = training.layers()
        score = judge(layers)
        if course.best is None or score < course.best.score:
            course.best = Best(layers, score, training.done)
        mean = float(np.mean(course.recent)) if course.recent else float("nan")
        course.curve.append(CurvePoint(training.done, score, mean, course.best_reward))
        course.recent = []
        training.note("judged/cost", score)
        tell(course.curve[-1], last)

    def between(fresh: bool) -> None:
        nonlocal saved
        if training.done % every == 0:
            look(last=False)
        if fresh and time.perf_counter() - saved >= SAVE_EVERY_S:
            save_tree(checkpoint, _tree(training, course, text))
            saved = time.perf_counter()

    def stepped(info: Tree, reward: float) -> None:
        course.recent.append(reward)
        course.best_reward = max(course.best_reward, reward)

    if training.done < training.steps:
        training.run(between, stepped)
    look(last=True)
    return course


def _tree(training: DdpgTraining, course: Course, text: str) -> Tree:
    return {"text": text, "training": training.memory(), "course": to_tree(course)}


def _open(training: DdpgTraining, checkpoint: Path, text: str) -> Course:
    """The course so far, and the training set to where it was; a new one where nothing was written."""
    if not what_is(checkpoint):
        return Course()
    try:
        tree: Any = load_tree(checkpoint)
        if not isinstance(tree, dict) or tree.get("text") != text:
            return Course()
        if not _finite([tree["training"], tree["course"]["best"]]):
            raise ValueError("holds numbers that are not finite")
        course = from_tree_as(tree["course"], Course)
        training.resume(tree["training"])
        return course
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        said = " ".join(str(error).removeprefix(f"{checkpoint}: ").split())[:120]
        raise BadInput(f"{checkpoint}: cannot be gone on with ({said}); delete it to start again") from None


def _finite(tree: Any) -> bool:
    """Whether all arrays of a tree hold finite numbers."""
    if isinstance(tree, dict | list):
        return all(_finite(x) for x in (tree.values() if isinstance(tree, dict) else tree))
    return not isinstance(tree, np.ndarray) or tree.dtype.kind != "f" or bool(np.isfinite(tree).all())
