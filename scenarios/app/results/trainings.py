"""Folders of trainings, read back, and their policies compared in the same cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, Field, FiniteFloat, PositiveFloat, ValidationError

from netsim.errors import BadInput
from netsim.safe import what_is
from netsim.units import FloatArray
from rl.settings import AGENT, VISITED
from scenarios.app.results.failures import read_failures
from scenarios.app.results.folder import (
    CURVE,
    EPISODE,
    EPISODE_ROUND_COLUMNS,
    EPISODE_ROUNDS,
    EPISODE_SCENE,
    EPISODE_UE_COLUMNS,
    EVALUATIONS,
    KIND,
    SUMMARY,
    TRAINING,
    one_version,
    read_json,
    read_rows,
)
from scenarios.app.study import Fields

# -- the episode: one world under the agent and under the best rule

TERMS = {
    "noise": "noise", "loss": "loss", "leakage": "leakage", "lost": "lost updates", "leak": "leak",
    "energy_j": "energy",
}  # fmt: skip
"""figures of a round, and what pages call what they cost"""


@dataclass(frozen=True)
class EpisodeRead:
    """The scene, and rows by policy and round: of UEs, and of the round as a whole."""

    scene: Fields
    ues: dict[tuple[str, int], list[Fields]]
    rounds: dict[tuple[str, int], Fields]

    @property
    def policies(self) -> list[str]:
        """The agent, and the rule beside it."""
        return [str(name) for name in self.scene["policies"]]

    @property
    def numbers(self) -> list[int]:
        """Rounds that both have."""
        return sorted({n for _, n in self.rounds if all((p, n) in self.rounds for p in self.policies)})

    def terms(self, policy: str, number: int) -> dict[str, float]:
        """Weighted terms of the cost of a round, those that count."""
        row, weights = self.rounds[policy, number], self.scene["weights"]
        return {key: weight * row[key] for key, weight in weights.items() if weight}


def read_episode(folder: Path) -> EpisodeRead | None:
    """The episode of a training; None where it has none. BadInput: the file that is damaged."""
    path = folder / EPISODE_SCENE
    if not what_is(path):
        return None
    scene = read_json(path)
    try:
        _Scene.model_validate(scene)
    except ValidationError as error:
        wrong = ".".join(map(str, error.errors()[0]["loc"]))
        raise BadInput(f"{path}: damaged ({wrong}); train again") from None
    ues = dict[tuple[str, int], list[Fields]]()
    of_ues = [name for name in EPISODE_UE_COLUMNS if name not in _TEXTS]
    for row in _rows(folder / EPISODE, _TEXTS, of_ues):
        ues.setdefault((row["policy"], int(row["round"])), []).append(row)
    of_rounds = _rows(folder / EPISODE_ROUNDS, _TEXTS[:1], EPISODE_ROUND_COLUMNS[1:])
    rounds = {(row["policy"], int(row["round"])): row for row in of_rounds}
    if set(ues) - set(rounds) or {name for name, _ in rounds} != set(scene["policies"]):
        raise BadInput(f"{folder / EPISODE}: damaged (other policies or rounds than its scene); train again")
    return EpisodeRead(scene, ues, rounds)


_TEXTS = ("policy", "base_station")
_Place = Annotated[list[FiniteFloat], Field(min_length=2, max_length=2)]


class _Station(BaseModel):
    at_m: _Place


class _Scene(BaseModel):
    """What a page needs of the scene of an episode."""

    area_m: Annotated[list[FiniteFloat], Field(min_length=4, max_length=4)]
    limits_w: Annotated[list[PositiveFloat], Field(min_length=2, max_length=2)]
    eavesdropper_m: _Place | None
    stations: list[_Station]
    buildings_m: list[list[_Place]]
    policies: Annotated[list[str], Field(min_length=2, max_length=2)]
    weights: Annotated[dict[str, FiniteFloat], Field(min_length=len(TERMS), max_length=len(TERMS))]
    ues: FiniteFloat
    rounds: FiniteFloat
    world: FiniteFloat


# -- trainings

_CURVE = ("step", "score", "reward", "best_reward")
METRICS = ("cost", "t_th", "noise", "loss", "leakage", "lost", "leak", "energy_j", "evaluations")
"""figures of a policy in a case"""


@dataclass(frozen=True, eq=False)
class FinishedTraining:
    """The folder of a training, read back."""

    manifest: Fields
    summary: Fields
    curve: dict[str, FloatArray]
    evaluations: list[Fields]
    episode: EpisodeRead | None

    @property
    def agent(self) -> str:
        """What comparisons call the agent."""
        return str(self.manifest.get("agent", AGENT))

    @property
    def online(self) -> bool:
        """Whether powers are of rounds."""
        return bool(self.manifest.get("task") == "online")


def trainings(folder: Path) -> list[FinishedTraining]:
    """Those of a folder: its own, or one in each folder inside that did not fail; none where nothing was trained."""
    trained = [folder] if what_is(folder / TRAINING) else sorted(p.parent for p in folder.glob(f"seed-*/{TRAINING}"))
    failed = {one.folder for one in read_failures(folder)}
    found = {p: _read(p) for p in trained if p.name not in failed}
    one_version({str(one.manifest.get("program")): path for path, one in found.items()})
    return list(found.values())


def _read(folder: Path) -> FinishedTraining:
    manifest = read_json(folder / TRAINING)
    if manifest.get("kind") != KIND or not manifest.get("finished"):
        raise BadInput(f"{folder}: this training is not finished; start it again and it goes on")
    curve = _rows(folder / CURVE, (), _CURVE)
    evaluations = _rows(folder / EVALUATIONS, ("policy",), ("case", *METRICS))
    cases = {policy: {r["case"] for r in evaluations if r["policy"] == policy} for policy in _names(evaluations)}
    agent = str(manifest.get("agent", AGENT))
    short = [policy for policy, own in cases.items() if policy != VISITED and own != cases.get(agent)]
    if short:
        raise BadInput(f"{folder / EVALUATIONS}: {short[0]} and {agent} are not judged in the same cases; train again")
    columns = {name: np.array([row[name] for row in curve]) for name in _CURVE}
    return FinishedTraining(manifest, read_json(folder / SUMMARY), columns, evaluations, read_episode(folder))


def _rows(path: Path, texts: Sequence[str], numbers: Sequence[str]) -> list[Fields]:
    """Rows of a table; a number that is not known is NaN. BadInput: what is wrong, with the file."""
    rows = read_rows(path, "train again")
    if not rows:
        raise BadInput(f"{path}: has no rows; train again")
    try:
        return [{n: row[n] for n in texts} | {n: float(row[n] or "nan") for n in numbers} for row in rows]
    except KeyError as error:
        raise BadInput(f"{path}: has no column {error}; train again") from None
    except ValueError as error:
        raise BadInput(f"{path}: {error}; train again") from None


def _names(rows: list[Fields]) -> list[str]:
    """Policies, each once."""
    return list(dict.fromkeys(r["policy"] for r in rows))


def summaries_of(trained: list[FinishedTraining]) -> list[Fields]:
    """Of each training."""
    return [t.summary for t in trained]


def means_of(trained: list[FinishedTraining]) -> dict[str, dict[str, FloatArray]]:
    """Policy -> metric -> its mean over cases, one entry per training."""
    names = list(dict.fromkeys(r["policy"] for t in trained for r in t.evaluations))
    return {
        n: {f: np.array([np.mean([r[f] for r in t.evaluations if r["policy"] == n]) for t in trained]) for f in METRICS}
        for n in names
    }


def percent_gaps(trained: list[FinishedTraining], name: str, other: str) -> FloatArray:
    """Cost of a policy over that of another minus 1, in percent: mean over cases, one entry per training."""
    gaps = []
    for t in trained:
        costs = {(r["policy"], r["case"]): r["cost"] for r in t.evaluations}
        cases = [c for p, c in costs if p == name]
        gaps.append(np.mean([100 * (costs[name, c] / costs[other, c] - 1) for c in cases if (other, c) in costs]))
    return np.array(gaps)


def paired(trained: list[FinishedTraining], name: str) -> tuple[FloatArray, FloatArray]:
    """Costs of the agent and of another policy (seeds, worlds)."""
    costs, others = (np.array([_costs(t, of, t.agent) for t in trained]) for of in (trained[0].agent, name))
    return costs, others


def _costs(trained: FinishedTraining, name: str, agent: str) -> FloatArray:
    """Cost of a policy in each world of the agent's."""
    costs = {(r["policy"], r["case"]): r["cost"] for r in trained.evaluations}
    return np.array([costs[name, case] for policy, case in costs if policy == agent])


# -- how probable it is that one policy costs less than another

_DRAWS, _CHUNK = 2000, 200
_LEVELS = (0.025, 0.975)


def probability_of_improvement(costs: FloatArray, others: FloatArray) -> tuple[float, float, float]:
    """P(X < Y) and its 95 % interval; costs, others (seeds, worlds), whose seeds are paired with nothing.

    P(X < Y) = mean over worlds m of mean over seeds i, j of S(x_mi, y_mj),  S = 1 for x < y, 1/2 for x = y, 0 otherwise

    [Agarwal et al., Deep Reinforcement Learning at the Edge of the Statistical Precipice, 2021, where more is better]
    Its interval is that of a stratified bootstrap: seeds are drawn with replacement within each world. Agarwal et al.
    keep their tasks; worlds are draws themselves, and are drawn with replacement as well. The same numbers give the
    same interval.
    """
    wins = _wins(costs, others)
    worlds, n, k = wins.shape
    draw = np.random.default_rng(0)
    found = list[float]()
    for _ in range(_DRAWS // _CHUNK):
        world = draw.integers(worlds, size=(_CHUNK, worlds))[..., None, None]
        own = draw.integers(n, size=(_CHUNK, worlds, n))[..., :, None]
        other = draw.integers(k, size=(_CHUNK, worlds, k))[..., None, :]
        found += wins[world, own, other].mean(axis=(1, 2, 3)).tolist()
    low, high = np.quantile(found, _LEVELS)
    return float(wins.mean()), float(low), float(high)


def _wins(costs: FloatArray, others: FloatArray) -> FloatArray:
    """S (worlds, seeds, seeds of the others)."""
    x, y = costs.T[:, :, None], others.T[:, None, :]
    return np.asarray((x < y) + 0.5 * (x == y))
