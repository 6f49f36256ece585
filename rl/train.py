"""A training from its first step to its last: evaluated now and then, the best policy kept,
checkpoints in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from netsim.checkpoint import from_tree_as, to_tree
from rl.settings import Tree, Weights

if TYPE_CHECKING:
    from rl.agents import DdpgTraining

SAVE_EVERY_S = 10.0
"""wall time between two checkpoints; when one is written changes no result"""


@dataclass(frozen=True)
class CurvePoint:
    """The training after some steps: the figure of the policy (small is good), the mean reward
    since the last point, and the best reward of any step so far.
    """

    step: int
    score: float
    reward: float
    best_reward: float


@dataclass
class Course:
    """The curve of a training, and its best policy: weights, figure, after how many steps."""

    curve: list[CurvePoint] = field(default_factory=list)
    weights: Weights = field(default_factory=dict)
    score: float = np.inf
    steps: int = 0

    @property
    def best_reward(self) -> float:
        if self.curve:
            return self.curve[-1].best_reward
        return -np.inf


def take_steps(
    training: DdpgTraining,
    score: Callable[[Weights], float],
    interval: int,
    course: Course,
    tell: Callable[[CurvePoint, bool], None],
    save: Callable[[Tree], None],
) -> Course:
    """Take all steps, or those that are left of a course that `restore_course` made.

    tell : gets every new point of the curve, and whether it is the last one. save : writes the tree
    of a checkpoint.
    """
    saved = time.perf_counter()

    def evaluate() -> None:
        weights = training.weights()
        cost = score(weights)
        if cost < course.score:
            course.weights = weights
            course.score = cost
            course.steps = training.done
        mean = float(np.mean(training.rewards)) if training.rewards else np.nan
        best = max([course.best_reward, *training.rewards])
        training.rewards = []
        course.curve.append(CurvePoint(training.done, cost, mean, best))
        tell(course.curve[-1], training.done == training.steps)

    if not course.curve:
        evaluate()
    while training.done < training.steps:
        training.step()
        if training.done % interval == 0 or training.done == training.steps:
            evaluate()
        if training.rests and time.perf_counter() - saved >= SAVE_EVERY_S:
            save({"training": training.memory(), "course": to_tree(course)})
            saved = time.perf_counter()
    return course


def restore_course(training: DdpgTraining, tree: Tree) -> Course:
    """The course of a checkpoint, and the training set to where it was. Raises ValueError for what
    does not fit.
    """
    check_finite(tree)
    training.resume(tree["training"])
    return from_tree_as(tree["course"], Course)


def check_finite(tree: object) -> None:
    """Raise ValueError unless all arrays of a tree hold finite numbers."""
    if isinstance(tree, dict | list):
        for value in tree.values() if isinstance(tree, dict) else tree:
            check_finite(value)
    elif isinstance(tree, np.ndarray) and tree.dtype.kind == "f" and not np.isfinite(tree).all():
        raise ValueError("holds numbers that are not finite")
