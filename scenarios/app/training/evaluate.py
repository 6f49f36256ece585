"""Evaluations of a trained policy and of baseline policies: on the problem of the study, or in unseen worlds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.radio.power import Full, Power
from netsim.radio.power_rules import Average, Fractional
from netsim.rng import Rng, Streams
from netsim.units import FloatArray
from rl.agents import AGENT
from rl.settings import VISITED, Online
from scenarios.app.study.study import Study

if TYPE_CHECKING:
    from rl.env_online import OnlinePower
    from rl.policy import Layers
    from rl.problem import Problem

Act = Callable[["OnlinePower", Any], FloatArray]
"""An action in the live environment, of what it shows"""


@dataclass(frozen=True)
class Evaluation:
    """One evaluation of a policy in one case (a channel or a world).

    cost : what is minimised: the bound L over that of average power, or minus the sum of rewards. t_th : rounds until
    the last artificial noise. noise, loss, leakage, energy_j, lost, leak : of an episode (see `rl.reward`), NaN for the
    problem of the study. evaluations : power vectors that were tried to find the policy. rounds : of an episode.
    loss_mean : over rounds, where `loss` is that of the last one.
    """

    policy: str
    case: int
    cost: float
    t_th: int
    noise: float = float("nan")
    loss: float = float("nan")
    leakage: float = float("nan")
    energy_j: float = float("nan")
    lost: float = float("nan")
    leak: float = float("nan")
    evaluations: int = 1
    rounds: int = 1
    loss_mean: float = float("nan")

    def mean(self, figure: str) -> float:
        """Of a figure over rounds (see `rl.reward`)."""
        of_all: float = getattr(self, "loss_mean" if figure == "loss" else figure)
        return of_all / self.rounds if figure in ("noise", "energy_j") else of_all


def allocation_score(problems: Sequence[Problem], layers: Layers) -> float:
    """Mean over problems of L, over that of average power, where the policy settles."""
    from rl.policy import forward

    return float(np.mean([p.rollout(lambda o: forward(layers, o))[-1].value / p.start.value for p in problems]))


def evaluate_allocation(
    problems: Sequence[Problem], layers: Layers, visited: float, evaluations: int, rng: Rng
) -> list[Evaluation]:
    """All rows of the study's problem; visited: the least cost of any step of the training (on one problem only)."""
    from rl.baselines import references
    from rl.policy import forward

    rows = []
    for i, problem in enumerate(problems):
        optima = references(problem, evaluations, rng, thorough=len(problems) == 1)
        start = problem.start.value
        rows += [Evaluation(n, i, p.value / start, p.switch, evaluations=p.evaluations) for n, p in optima.items()]
        last = problem.rollout(lambda o: forward(layers, o))[-1]
        rows.append(Evaluation(AGENT, i, last.value / start, last.switch, evaluations=evaluations))
    if len(problems) == 1:
        rows.append(Evaluation(VISITED, 0, visited, -1, evaluations=evaluations))
    return rows


def baselines(task: Online) -> dict[str, Power]:
    """Baseline power policies under the same limits."""
    limits = task.limits
    return {
        "average": Average(total_min_w=limits.total_min_w, total_max_w=limits.total_max_w),
        "full": Full(),
        "fractional 0.8": Fractional(alpha=0.8),
        "fractional 1": Fractional(alpha=1.0),
    }


def worlds(study: Study, purpose: str, n: int) -> list[int]:
    """Seeds of worlds; those of two purposes differ."""
    return [int(x * 2**40) + 2**41 for x in Streams(study.seed).at(f"worlds.{purpose}").uniform("seed", np.arange(n))]


def trained(layers: Layers) -> Act:
    """The action of a trained network."""
    from rl.policy import forward

    return lambda env, seen: forward(layers, seen.astype(np.float32))


def fixed_rule(power: Power) -> Act:
    """The action of a power policy of the slot."""
    from rl.problem import as_action

    def act(env: OnlinePower, seen: FloatArray) -> FloatArray:
        world = env.world
        if world is None:
            raise ValueError("no world")
        links = world.links()
        n = np.arange(len(world.ues))
        power_w, _ = power.power_w(
            links.gain, world.serving(links), env.task.limits.each_max_w, {}, world.ground.streams.at("power", len(n))
        )
        return as_action(np.maximum(power_w, 1e-12), env.task.limits)

    return act


def episode(env: OnlinePower, policy: str, act: Act, world: int, evaluations: int = 1) -> Evaluation:
    """A whole training in one world under one policy, which took so many judged power vectors to find."""
    seen, _ = env.reset(options={"world": world})
    cost, sums, last = 0.0, np.zeros(6), float("nan")
    while True:
        seen, reward, terminated, truncated, info = env.step(act(env, seen).astype(np.float32))
        cost -= reward
        sums += [info[name] for name in ("noise", "leakage", "energy_j", "lost", "leak", "loss")]
        last = info["loss"]
        if terminated or truncated:
            noise, leakage, energy_j, lost, leak, losses = (float(x) for x in sums)
            n = env.steps
            return Evaluation(
                policy, world, cost, info["t_th"], noise, last, leakage / n, energy_j, lost / n, leak / n, evaluations,
                n, losses / n,
            )  # fmt: skip
