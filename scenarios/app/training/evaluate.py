"""Evaluations of policies in worlds: what an episode costs, and what a comparison of policies says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from netsim.radio.power import Average, Fractional, Full, Power
from netsim.record import write_json, write_text
from netsim.rng import Streams
from netsim.units import FloatArray, IntArray
from netsim.world import World
from rl.env import OnlinePower
from rl.look import Look
from rl.oracle import planned_w
from rl.problem import as_action
from rl.radio_records import Air, lost_noise
from rl.recording import Step, look_now, steps_of
from rl.reward import FIGURES, Reward, penalty
from rl.rules import Tuned
from rl.settings import OPTIMUM, VISITED, Online
from scenarios.app.results.folder import (
    EPISODE,
    EPISODE_ROUND_COLUMNS,
    EPISODE_ROUNDS,
    EPISODE_SCENE,
    EPISODE_UE_COLUMNS,
    MOST_ROUNDS,
    MOST_UES,
    csv_text,
)
from scenarios.app.results.statistics import half_width
from scenarios.app.results.trainings import probability_of_improvement
from scenarios.app.study import Fields, Record
from scenarios.app.study.study import Study

Act = Callable[["OnlinePower", Any], FloatArray]
"""An action in the live environment, of what it shows"""
TUNED, TRAINED, CHOSEN, HELD_OUT = "tuned", "trained", "judged", "held-out"
"""Purposes of worlds: to tune rules, to train on, to choose the best policy by, to report."""


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


def worlds(study: Study, purpose: str, n: int) -> list[int]:
    """Seeds of worlds; those of two purposes differ."""
    return [int(x * 2**40) + 2**41 for x in Streams(study.seed).at(f"worlds.{purpose}").uniform("seed", np.arange(n))]


def episode(env: OnlinePower, policy: str, act: Act, world: int, evaluations: int = 1) -> Evaluation:
    """A whole training in one world under one policy. evaluations : power vectors that were judged to find it."""
    costs = [step.cost for step in steps_of(env, act, world)]
    rounds = [[cost.total, *(cost.figures[name] for name in FIGURES)] for cost in costs]
    n = len(rounds)
    sums = np.array(rounds).sum(axis=0).tolist()
    cost = sums[0]
    of = dict(zip(FIGURES, sums[1:], strict=True))
    shares = {name: of[name] / n for name in ("leakage", "lost", "leak")}
    return Evaluation(
        policy, world, cost, env.t_th, of["noise"], env.figures["loss"], energy_j=of["energy_j"], **shares,
        evaluations=evaluations, rounds=n, loss_mean=of["loss"] / n,
    )  # fmt: skip


def live_score(reward: Reward, rows: Sequence[Evaluation]) -> float:
    """Mean cost of episodes, after how well bounds on means are kept: small is good."""
    means = {name: np.array([row.mean(name) for row in rows]) for name in FIGURES}
    return float(np.mean([row.cost for row in rows])) + penalty(reward, means)


def played(power_w: Callable[[Look], FloatArray]) -> Act:
    """A rule as actions of the live environment."""
    return lambda env, seen: as_action(power_w(look_now(env))[0], env.task.limits)


def planned(power_w: FloatArray, progress: FloatArray) -> Act:
    """Powers (S, K) of rounds at these shares (S,) of an episode, as actions; the least power in any other round."""
    of = dict(zip(progress.tolist(), power_w, strict=True))

    def act(env: OnlinePower, seen: Any) -> FloatArray:
        least = np.full(env.n_ue, env.task.limits.each_min_w)
        return as_action(of.get(env.now.progress, least), env.task.limits)

    return act


@dataclass(eq=False)
class OneStep:
    """The optimiser that plans one round ahead, from the powers of a rule. It counts judged power vectors."""

    air: Air
    rule: Tuned
    multipliers: FloatArray
    judged: int = 0

    def __call__(self, env: OnlinePower, seen: Any) -> FloatArray:
        """The action of a round."""
        look = look_now(env)
        task = env.task
        contraction = task.bound.factor(np.full((1, env.n_ue), 1.0 / env.n_ue))
        factor = contraction ** (env.rounds - env.state.played - 1)
        kappa = lost_noise(env.setup.uplink, env.setup.learning.round_s, look.n_bits)
        power_w, judged = planned_w(
            look, factor, kappa, self.air, task.reward, self.multipliers, self.rule.dbw(look)
        )  # fmt: skip
        self.judged += judged
        return as_action(power_w[0], task.limits)


def baselines(task: Online) -> dict[str, Act]:
    """Power policies of the slot under the limits of a task."""
    average = Average(total_min_w=task.limits.total_min_w, total_max_w=task.limits.total_max_w)
    policies: dict[str, Power] = {"average": average, "full": Full()}
    policies |= {f"fractional {alpha:g}": Fractional(alpha=alpha) for alpha in (0.8, 1.0)}
    return {name: _of_slot(power) for name, power in policies.items()}


def _of_slot(power: Power) -> Act:

    def act(env: OnlinePower, seen: FloatArray) -> FloatArray:
        world = env.world
        links = world.links()
        n = np.arange(len(world.ues))
        power_w, _ = power.power_w(
            links.gain, world.serving(links), env.task.limits.each_max_w, {}, world.ground.streams.at("power", len(n))
        )
        return as_action(np.maximum(power_w, 1e-12), env.task.limits)

    return act


def summary_of(agent_name: str, rows: Sequence[Evaluation], bounds: Mapping[str, float]) -> Fields:
    """Flat: the mean over cases of every figure of every policy; the paired difference of the agent's cost to that of
    each of the others; and of each policy and bound the mean over rounds, the half width of its 95 % interval over
    worlds, and the bound.
    """
    of: dict[str, list[Evaluation]] = {}
    for row in rows:
        of.setdefault(row.policy, []).append(row)
    summary: Fields = {"cases": len({row.case for row in rows})}
    figures = [f.name for f in fields(Evaluation) if f.name not in ("policy", "case")]
    for name, own in of.items():
        for figure in figures:
            summary[f"policy.{name}.{figure}.mean"] = float(np.mean([getattr(row, figure) for row in own]))
    agent = {row.case: row.cost for row in of[agent_name]}
    for name in (n for n in of if n not in (agent_name, VISITED)):
        pairs = np.array([[agent[row.case], row.cost] for row in of[name]]).T
        gaps = pairs[0] - pairs[1]
        ratios = pairs[0] / pairs[1] - 1.0
        chance = probability_of_improvement(pairs[:1], pairs[1:])
        found = {
            "cost.mean": float(gaps.mean()), "percent.mean": float(100 * ratios.mean()),
            "percent.max": float(100 * ratios.max()),
            "cost.half_width": half_width(gaps), "wins": int((gaps < 0).sum()),
            **{f"improvement.{word}": x for word, x in zip(("mean", "low", "high"), chance, strict=True)},
        }  # fmt: skip
        summary |= {f"against.{name}.{key}": value for key, value in found.items()}
    if VISITED in of:
        summary["visited.percent"] = 100 * (of[VISITED][-1].cost / of[OPTIMUM][-1].cost - 1.0)
    for name, own in of.items():
        for figure, at_most in bounds.items():
            means = np.array([row.mean(figure) for row in own])
            found = {"mean": float(means.mean()), "half_width": half_width(means), "at_most": at_most}
            summary |= {f"bound.{name}.{figure}.{key}": value for key, value in found.items()}
    return summary


_MOST_CORNERS = 20_000  # of buildings that are drawn


@dataclass(frozen=True)
class PlayedEpisode:
    """A world of the comparison, what stands in it, and its rounds under each policy, the agent first."""

    world: int
    scene: Fields
    steps: dict[str, list[Step]]


def episode_of(
    env: OnlinePower, study: Study, agent: tuple[str, Act], rules: Mapping[str, Act], rows: Iterable[Evaluation]
) -> PlayedEpisode:
    """The first world of a comparison under the agent, and under the rule of least mean cost there."""
    rows = list(rows)
    costs = {name: float(np.mean([r.cost for r in rows if r.policy == name])) for name in rules}
    best = min(costs, key=lambda name: costs[name])
    world = next(r.case for r in rows if r.policy == agent[0])
    acts = {agent[0]: agent[1], best: rules[best]}
    steps = {name: steps_of(env, act, world) for name, act in acts.items()}
    return PlayedEpisode(world, _scene(env.world, study, env), steps)


def _scene(world: World, study: Study, env: OnlinePower) -> Fields:
    """What stands still: the area, base stations, the eavesdropper, walls; and the limits of powers."""
    area = world.area
    threat = study.learned.threat
    rings = [ring for own in world.buildings.rings() for ring in own]
    kept = np.cumsum([len(ring) for ring in rings]) <= _MOST_CORNERS
    return {
        "area_m": [area.x_min_m, area.y_min_m, area.x_max_m, area.y_max_m],
        "stations": [{"name": b.name, "at_m": [float(x) for x in b.position_m]} for b in world.stations],
        "eavesdropper_m": None if threat.position_m is None else [float(x) for x in threat.position_m],
        "buildings_m": [np.round(ring, 1).tolist() for ring, keep in zip(rings, kept, strict=True) if keep],
        "limits_w": [env.task.limits.each_min_w, env.task.limits.each_max_w],
        "weights": {name: _cost_of_one(env.task.reward, name) for name in FIGURES},
    }


def _cost_of_one(reward: Reward, name: str) -> float:
    """What a round costs of whose figures one is 1 and the others are 0: its weight, as costs are linear."""
    return float(reward.cost({figure: np.array([float(figure == name)]) for figure in FIGURES})[0])


def write_episode(folder: Path, episode: PlayedEpisode) -> None:
    """`episode.csv`, a row a policy, round and UE; `episode_rounds.csv`, a row a policy and round; `episode.json`."""
    every = list(episode.steps.values())
    ues = every[0][0].sent.size
    rounds = max(map(len, every))
    shown = spaced(ues, MOST_UES)
    kept = spaced(rounds, MOST_ROUNDS)
    names = [b["name"] for b in episode.scene["stations"]]
    steps = [(name, own[at]) for name, own in episode.steps.items() for at in kept[kept < len(own)]]
    own = [_of_ue(name, step, int(k), names) for name, step in steps for k in shown]
    write_rows(folder / EPISODE, [dict(zip(EPISODE_UE_COLUMNS, row, strict=True)) for row in own])
    write_rows(folder / EPISODE_ROUNDS, [_of_round(name, step) for name, step in steps])
    counts = {"world": episode.world, "policies": list(episode.steps), "ues": ues, "rounds": rounds}
    write_json(folder / EPISODE_SCENE, counts | episode.scene)


def spaced(n: int, most: int) -> IntArray:
    """At most `most` of n numbers, evenly spaced: the same for the same n."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.int64))


def _of_ue(policy: str, step: Step, k: int, names: list[str]) -> list[Any]:
    station = names[step.serving[k]] if step.serving[k] >= 0 else None
    arrived = bool(step.arrived[k]) if step.sent[k] else None
    x_m, y_m = (float(x) for x in step.position_m[k])
    return [policy, step.round, k, x_m, y_m, station, float(step.power_w[k]), arrived, float(step.cost.own[k])]


def _of_round(policy: str, step: Step) -> Fields:
    of = {"policy": policy, "round": step.round, "cost": step.cost.total}
    of |= {"sent": int(step.sent.sum()), "arrived": int(step.arrived.sum())}
    of |= {"artificial": step.cost.artificial, **step.cost.figures}
    return {name: of[name] for name in EPISODE_ROUND_COLUMNS}


def write_rows(path: Path, rows: Sequence[Record]) -> None:
    """Rows of the same columns as a CSV file."""
    write_text(path, csv_text([rows[0].keys(), *(row.values() for row in rows)]))
