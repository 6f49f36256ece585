"""What DDPG trains on, in the environment itself: how its policies are judged, compared and shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim import __version__
from netsim.rng import Streams
from rl.agents import AGENT, DdpgAgent
from rl.settings import Allocation, Online, Train
from scenarios.app.study.study import Study
from scenarios.app.training.bounds import judged_live
from scenarios.app.training.environments import Stages, n_ues, problems
from scenarios.app.training.episode import Episode, episode_of
from scenarios.app.training.evaluate import (
    Evaluation,
    allocation_score,
    baselines,
    episode,
    evaluate_allocation,
    fixed_rule,
    trained,
    worlds,
)

if TYPE_CHECKING:
    from rl.policy import Layers, Policy
    from rl.train import Course
    from scenarios.app.training.on_radio import Ground


@dataclass(frozen=True)
class Setup:
    """What is trained: the environment, the score that selects the policy, the policy as a file, the comparison, and an
    episode of it to show, if rounds are played one by one.
    """

    env: Any
    score: Callable[[Layers], float]
    policy: Callable[[Study, Layers, int, int], Policy]
    evaluate: Callable[[Course, int, int], list[Evaluation]]
    shown: Callable[[Course, list[Evaluation]], Episode | None]


def allocation_setup(study: Study, cache: Path | None) -> Setup:
    """For power vectors of a whole training: problems of bounds."""
    from rl.env_allocation import PowerAllocation
    from rl.policy import Card, Policy

    sets = problems(study, cache)
    drawn = sets.trained_on

    def policy(study: Study, layers: Layers, seed: int, steps: int) -> Policy:
        how = study.train or Train()
        if not isinstance(how.task, Allocation):
            raise ValueError("another task")
        own = drawn[0].objective.trajectory if len(drawn) == 1 else problems_own(study, cache)
        card = Card(
            program=__version__, task="allocation", observe=how.task.observe, acts=how.task.acts, ues=drawn[0].n_ue,
            hidden=hidden_of(how), limits=drawn[0].limits, criterion=how.task.criterion, bound=how.task.bound,
            scenario=study.title, seed=seed, steps=steps,
        )  # fmt: skip
        return Policy(card, layers, own)

    def evaluate(course: Course, steps: int, seed: int) -> list[Evaluation]:
        visited = float(np.exp(-course.best_reward / 5.0))
        layers = _best(course)
        return evaluate_allocation(sets.held_out, layers, visited, steps, Streams(seed).at("references"))

    def score(layers: Layers) -> float:
        return allocation_score(sets.chosen_on, layers)

    return Setup(PowerAllocation(drawn), score, policy, evaluate, lambda course, rows: None)


def problems_own(study: Study, cache: Path | None) -> Any:
    """The trajectory of the study's own channel."""
    from netsim.cache import cache_folder
    from scenarios.app.run.planning import reference_study
    from scenarios.app.run.reference_run import reference

    return reference(reference_study(study), cache_folder() if cache is None else cache)


def online_setup(study: Study, task: Online, on: Ground | None) -> Setup:
    """For power vectors of each round: live worlds; on: beside the rules that are tuned on its rounds."""
    from rl.env_online import OnlinePower
    from rl.policy import Card, Policy

    n = n_ues(study)
    paid = "leakage" in task.reward.reads
    env, other = (OnlinePower(Stages(study, paid), n, task) for _ in range(2))
    watched = OnlinePower(Stages(study), n, task)
    rules = {name: fixed_rule(power) for name, power in baselines(task).items()}
    chosen_on, held = worlds(study, "judged", task.eval_worlds), worlds(study, "held-out", task.held_out)

    def score(layers: Layers) -> float:
        return judged_live(task.reward, [episode(other, AGENT, trained(layers), w) for w in chosen_on])

    def policy(study: Study, layers: Layers, seed: int, steps: int) -> Policy:
        how = study.train or Train()
        card = Card(
            program=__version__, task="online", observe="online", ues=n, hidden=hidden_of(how), limits=task.limits,
            bound=task.bound, scenario=study.title, seed=seed, steps=steps,
        )  # fmt: skip
        return Policy(card, layers)

    def evaluate(course: Course, steps: int, seed: int) -> list[Evaluation]:
        if on is not None:
            return on.evaluated(trained(_best(course)), steps, seed)
        acts = rules | {AGENT: trained(_best(course))}
        return [episode(watched, name, act, w) for w in held for name, act in acts.items()]

    def shown(course: Course, rows: list[Evaluation]) -> Episode:
        act = trained(_best(course))
        return episode_of(watched, study, (AGENT, act), rules, rows) if on is None else on.shown(act, rows)

    return Setup(env, score, policy, evaluate, shown)


def hidden_of(how: Train) -> tuple[int, ...]:
    """Hidden layers of an agent that has a network of its own."""
    return how.agent.hidden if isinstance(how.agent, DdpgAgent) else ()


def _best(course: Course) -> Layers:
    if course.best is None:
        raise ValueError("no policy was evaluated")
    return course.best.layers
