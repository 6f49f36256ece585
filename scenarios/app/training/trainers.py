"""What each task trains on, and how its policies are scored, kept, compared and shown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netsim import __version__
from netsim.rng import Streams
from rl.settings import AGENT, VISITED, Allocation, DdpgAgent, Online, ScoreFunctionAgent, Train
from scenarios.app.study import Fields
from scenarios.app.study.study import Study
from scenarios.app.training.environments import Stages, n_ues, problems, task_of, unrecorded
from scenarios.app.training.evaluate import (
    CHOSEN,
    HELD_OUT,
    Act,
    Evaluation,
    PlayedEpisode,
    baselines,
    episode,
    episode_of,
    live_score,
    played,
    worlds,
)
from scenarios.app.training.ground import RecordedGround

if TYPE_CHECKING:
    from stable_baselines3.common.logger import Logger

    from rl.policy import Layers, Policy
    from rl.problem import Outcome, Problem
    from rl.shared_policy import SharedPolicy
    from rl.train import Course, Training, Weights


def on_recorded(study: Study) -> bool:
    """Whether rounds are recorded: to train on, or to tune the rules that an agent is compared with."""
    how = study.train or Train()
    shared = isinstance(how.agent, ScoreFunctionAgent)
    return shared or (isinstance(how.task, Online) and unrecorded(study) is None)


def trainer_of(study: Study, on: RecordedGround | None, cache: Path | None) -> Trainer:
    """The trainer of a study. on : its recorded rounds; cache : of reference runs."""
    how = study.train or Train()
    if on is not None and isinstance(how.agent, ScoreFunctionAgent):
        return RecordedTrainer(on, how, how.agent)
    if not isinstance(how.agent, DdpgAgent):
        raise TypeError("another agent")
    if isinstance(how.task, Online):
        return LiveTrainer(study, how, how.agent, on)
    return AllocationTrainer(study, how, how.agent, cache)


class RecordedTrainer:
    """Trains, keeps and compares policies that all UEs share, on recorded rounds."""

    def __init__(self, on: RecordedGround, how: Train, agent: ScoreFunctionAgent) -> None:
        self.on, self.how, self.agent = on, how, agent

    def begin(self, seed: int, board: Logger) -> Training:
        from rl.score_function import ScoreFunctionTraining

        return ScoreFunctionTraining(self.on.trained_on, self.on.rule, self.agent, self.how.steps, seed)

    def score(self, weights: Weights) -> float:
        return self.on.chosen_on.score(self._policy(weights).power_w)

    def save(self, course: Course, seed: int, folder: Path) -> None:
        from rl.shared_policy import SharedCard, save_shared

        on, rule = self.on, self.on.rule
        card = SharedCard(
            program=__version__, limits=on.task.limits, rule=rule.law.name, parameters=tuple(rule.parameters.tolist()),
            scenario=on.study.title, seed=seed, steps=course.steps,
        )  # fmt: skip
        save_shared(self._policy(course.weights), card, folder)

    def evaluated(self, course: Course, evaluations: int, seed: int) -> list[Evaluation]:
        return self.on.evaluated(self._act(course), evaluations, seed)

    def shown(self, course: Course, rows: list[Evaluation]) -> PlayedEpisode:
        return self.on.shown(self._act(course), rows)

    def _policy(self, weights: Weights) -> SharedPolicy:
        from rl.shared_policy import SharedPolicy

        return SharedPolicy(weights, self.on.rule)

    def _act(self, course: Course) -> Act:
        return played(self._policy(course.weights).power_w)


class LiveTrainer:
    """DDPG in live worlds. on : compared with the rules that are tuned on recorded rounds, else with baselines."""

    def __init__(self, study: Study, how: Train, agent: DdpgAgent, on: RecordedGround | None) -> None:
        from rl.env import OnlinePower

        self.study, self.how, self.agent, self.on, self.task = study, how, agent, on, task_of(study, Online)
        paid, n = "leakage" in self.task.reward.reads, n_ues(study)
        self.env, self.other, self.watched = (
            OnlinePower(Stages(study, seen), n, self.task) for seen in (paid, paid, True)
        )
        self.chosen_on, self.held = (
            worlds(study, purpose, n)
            for purpose, n in ((CHOSEN, self.task.eval_worlds), (HELD_OUT, self.task.held_out))
        )
        self.rules = baselines(self.task)

    def begin(self, seed: int, board: Logger) -> Training:
        from rl.ddpg import DdpgTraining

        return DdpgTraining(self.env, self.agent, self.how.steps, seed, board)

    def score(self, weights: Weights) -> float:
        act = _network(weights)
        return live_score(self.task.reward, [episode(self.other, AGENT, act, world) for world in self.chosen_on])

    def save(self, course: Course, seed: int, folder: Path) -> None:
        _save(self.study, None, course, seed, folder)

    def evaluated(self, course: Course, evaluations: int, seed: int) -> list[Evaluation]:
        act = _network(course.weights)
        if self.on is not None:
            return self.on.evaluated(act, evaluations, seed)
        acts = self.rules | {AGENT: act}
        return [episode(self.watched, name, act, world) for world in self.held for name, act in acts.items()]

    def shown(self, course: Course, rows: list[Evaluation]) -> PlayedEpisode:
        act = _network(course.weights)
        if self.on is not None:
            return self.on.shown(act, rows)
        return episode_of(self.watched, self.study, (AGENT, act), self.rules, rows)


class AllocationTrainer:
    """DDPG on the bound of a whole training."""

    def __init__(self, study: Study, how: Train, agent: DdpgAgent, cache: Path | None) -> None:
        self.study, self.how, self.agent, self.sets = study, how, agent, problems(study, cache)

    def begin(self, seed: int, board: Logger) -> Training:
        from rl.ddpg import DdpgTraining
        from rl.env import PowerAllocation

        return DdpgTraining(PowerAllocation(self.sets.trained_on), self.agent, self.how.steps, seed, board)

    def score(self, weights: Weights) -> float:
        return float(np.mean([p.ratio(_settled(p, weights)) for p in self.sets.chosen_on]))

    def save(self, course: Course, seed: int, folder: Path) -> None:
        _save(self.study, self.sets.own, course, seed, folder)

    def evaluated(self, course: Course, evaluations: int, seed: int) -> list[Evaluation]:
        from rl.problem import references

        rows, held, rng = [], self.sets.held_out, Streams(seed).at("references")
        for i, problem in enumerate(held):
            optima = references(problem, evaluations, rng, thorough=len(held) == 1)
            rows += [Evaluation(n, i, problem.ratio(p), p.switch, evaluations=p.evaluations) for n, p in optima.items()]
            last = _settled(problem, course.weights)
            rows.append(Evaluation(AGENT, i, problem.ratio(last), last.switch, evaluations=evaluations))
        if len(held) == 1:
            visited = float(np.exp(-course.best_reward / 5.0))
            rows.append(Evaluation(VISITED, 0, visited, -1, evaluations=evaluations))
        return rows

    def shown(self, course: Course, rows: list[Evaluation]) -> None:
        return None


Trainer = RecordedTrainer | LiveTrainer | AllocationTrainer
"""begin: a training before its first step; score: the figure of a policy by which the best one is kept, small is good;
save: write it; evaluated: it beside others, in cases that it was not made from; shown: an episode of that comparison"""


def _settled(problem: Problem, weights: Weights) -> Outcome:
    """Where a policy ends after an episode."""
    from rl.policy import forward, layers_of

    layers = layers_of(weights)
    return problem.rollout(lambda seen: forward(layers, seen))[-1]


def _network(weights: Weights) -> Act:
    """The action of a network of DDPG."""
    from rl.policy import forward, layers_of

    layers = layers_of(weights)
    return lambda env, seen: forward(layers, seen.astype(np.float32))


def _save(study: Study, own: Problem | None, course: Course, seed: int, folder: Path) -> None:
    from rl.policy import layers_of, save_policy

    save_policy(policy_of(study, layers_of(course.weights), own, seed, course.steps), folder)


def policy_of(study: Study, layers: Layers, own: Problem | None, seed: int = 0, steps: int = 0) -> Policy:
    """A policy for the task of a study. own : the problem of its own channel, for a policy of a whole training."""
    from rl.policy import Card, Policy

    task = (study.train or Train()).task
    common: Fields = {
        "program": __version__, "task": task.kind_name(), "ues": n_ues(study), "bound": task.bound, "seed": seed,
        "hidden": tuple(len(bias) for _, bias in layers[:-1]), "scenario": study.title, "steps": steps,
    }  # fmt: skip
    if own is None or not isinstance(task, Allocation):
        return Policy(Card(observe="online", limits=task.limits, **common), layers)
    card = Card(observe=task.observe, acts=task.acts, limits=own.limits, criterion=task.criterion, **common)
    return Policy(card, layers, own.objective.trajectory)
