"""An episode that the page of a training replays: one world under the agent and under the best rule, as tables."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.record import cell_text, write_json, write_text
from netsim.units import IntArray
from rl.reward import FIGURES, Figures, Reward
from scenarios.app.results.folder import (
    EPISODE,
    EPISODE_ROUND_COLUMNS,
    EPISODE_ROUNDS,
    EPISODE_SCENE,
    EPISODE_UE_COLUMNS,
    MOST_ROUNDS,
    MOST_UES,
)
from scenarios.app.study.study import Study
from scenarios.app.training.evaluate import Act, Evaluation

if TYPE_CHECKING:
    from netsim.world import World
    from rl.env_online import OnlinePower
    from rl.steps import Step

_MOST_CORNERS = 20_000  # of buildings that are drawn


@dataclass(frozen=True)
class PlayedEpisode:
    """A world of the comparison, what stands in it, and its rounds under each policy, the agent first."""

    world: int
    scene: dict[str, Any]
    steps: dict[str, list[Step]]


def episode_of(
    env: OnlinePower, study: Study, agent: tuple[str, Act], rules: Mapping[str, Act], rows: Iterable[Evaluation]
) -> PlayedEpisode:
    """The first world of a comparison under the agent, and under the rule of least mean cost there."""
    from rl.steps import steps_of

    rows = list(rows)
    costs = {name: float(np.mean([r.cost for r in rows if r.policy == name])) for name in rules}
    best = min(costs, key=lambda name: costs[name])
    world = next(r.case for r in rows if r.policy == agent[0])
    acts = {agent[0]: agent[1], best: rules[best]}
    steps = {name: steps_of(env, act, world) for name, act in acts.items()}
    if env.world is None:
        raise ValueError("no world")
    return PlayedEpisode(world, _scene(env.world, study, env), steps)


def _scene(world: World, study: Study, env: OnlinePower) -> dict[str, Any]:
    """What stands still: the area, base stations, the eavesdropper, walls; and the limits of powers."""
    area, threat = world.area, study.learned.threat
    rings = [ring for own in world.buildings.rings() for ring in own]
    kept = np.cumsum([len(ring) for ring in rings]) <= _MOST_CORNERS
    return {
        "area_m": [area.x_min_m, area.y_min_m, area.x_max_m, area.y_max_m],
        "stations": [{"name": b.name, "at_m": [float(x) for x in b.at_m]} for b in world.stations],
        "eavesdropper_m": None if threat.at_m is None else [float(x) for x in threat.at_m],
        "buildings_m": [np.round(ring, 1).tolist() for ring, keep in zip(rings, kept, strict=True) if keep],
        "limits_w": [env.task.limits.each_min_w, env.task.limits.each_max_w],
        "weights": {name: _cost_of_one(env.task.reward, name) for name in FIGURES},
    }


def _cost_of_one(reward: Reward, name: str) -> float:
    """What a round costs of whose figures one is 1 and the others are 0: its weight, as costs are linear."""
    return float(reward.cost(Figures(*(np.array([float(figure == name)]) for figure in FIGURES)))[0])


def write_episode(folder: Path, episode: PlayedEpisode) -> None:
    """`episode.csv`, a row a policy, round and UE; `episode_rounds.csv`, a row a policy and round; `episode.json`."""
    every = list(episode.steps.values())
    ues, rounds = every[0][0].sent.size, max(map(len, every))
    shown, kept = spaced(ues, MOST_UES), spaced(rounds, MOST_ROUNDS)
    names = [b["name"] for b in episode.scene["stations"]]
    steps = [(name, own[at]) for name, own in episode.steps.items() for at in kept[kept < len(own)]]
    own = [_of_ue(name, step, int(k), names) for name, step in steps for k in shown]
    write_rows(folder / EPISODE, [dict(zip(EPISODE_UE_COLUMNS, row, strict=True)) for row in own])
    write_rows(folder / EPISODE_ROUNDS, [_of_round(name, step) for name, step in steps])
    counts = {"world": episode.world, "policies": list(episode.steps), "ues": ues, "rounds": rounds}
    write_json(folder / EPISODE_SCENE, counts | episode.scene)


def spaced(n: int, most: int) -> IntArray:
    """At most so many of n numbers, evenly spaced: the same for the same n."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.int64))


def _of_ue(policy: str, step: Step, k: int, names: list[str]) -> list[Any]:
    station = names[step.serving[k]] if step.serving[k] >= 0 else None
    arrived = bool(step.arrived[k]) if step.sent[k] else None
    x_m, y_m = (float(x) for x in step.position_m[k])
    return [policy, step.round, k, x_m, y_m, station, float(step.power_w[k]), arrived, float(step.cost.own[k])]


def _of_round(policy: str, step: Step) -> dict[str, Any]:
    of = {"policy": policy, "round": step.round, "cost": step.cost.total}
    of |= {"sent": int(step.sent.sum()), "arrived": int(step.arrived.sum())}
    return {name: of[name] if name in of else getattr(step.cost, name) for name in EPISODE_ROUND_COLUMNS}


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows of the same columns as a CSV file."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(list(rows[0]))
    writer.writerows([cell_text(v) for v in row.values()] for row in rows)
    write_text(path, text.getvalue())
