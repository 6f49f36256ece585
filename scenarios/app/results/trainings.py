"""Folders of trainings, read back, and their policies compared in the same cases."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from netsim.errors import BadInput
from netsim.safe import what_is
from netsim.units import FloatArray
from rl.agents import AGENT
from scenarios.app.results.episode import EpisodeRead, read_episode
from scenarios.app.results.failures import read_failures
from scenarios.app.results.folder import SUMMARY, read_json, text_of
from scenarios.app.results.training_folder import CURVE, EVALUATIONS, KIND, TRAINING
from scenarios.app.study.yaml_document import one_line

METRICS = ("cost", "t_th", "noise", "loss", "leakage", "lost", "leak", "energy_j", "evaluations")
"""figures of a policy in a case"""


@dataclass(frozen=True)
class Training:
    """The folder of a training, read back."""

    manifest: dict[str, Any]
    summary: dict[str, Any]
    curve: dict[str, FloatArray]
    evaluations: list[dict[str, Any]]
    episode: EpisodeRead | None

    @property
    def agent(self) -> str:
        """What comparisons call the agent."""
        return str(self.manifest.get("agent", AGENT))

    @property
    def online(self) -> bool:
        """Whether powers are of rounds."""
        return bool(self.manifest.get("task") == "online")


def trainings(folder: Path) -> list[Training]:
    """Those of a folder: its own, or one in each folder inside that did not fail; none where nothing was trained."""
    trained = [folder] if what_is(folder / TRAINING) else sorted(p.parent for p in folder.glob(f"seed-*/{TRAINING}"))
    failed = {one.folder for one in read_failures(folder)}
    return [_read(p) for p in trained if p.name not in failed]


def _read(folder: Path) -> Training:
    manifest = read_json(folder / TRAINING)
    if manifest.get("kind") != KIND or not manifest.get("finished"):
        raise BadInput(one_line(f"{folder}: this training is not finished; start it again and it goes on"))
    try:
        curve = _columns(folder / CURVE, ("step", "score", "reward", "best_reward"))
        with text_of(folder / EVALUATIONS) as f:
            rows = list(csv.DictReader(f))
        evaluations = [{"policy": r["policy"], **{k: float(r[k] or "nan") for k in ("case", *METRICS)}} for r in rows]
        if not evaluations:
            raise ValueError("empty")
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise BadInput(one_line(f"{folder}: damaged ({error!r}); train again")) from None
    return Training(manifest, read_json(folder / SUMMARY), curve, evaluations, read_episode(folder))


def _columns(path: Path, names: tuple[str, ...]) -> dict[str, FloatArray]:
    with text_of(path) as f:
        rows = list(csv.DictReader(f))
    return {name: np.array([float(r[name] or "nan") for r in rows]) for name in names}


def summaries_of(trained: list[Training]) -> list[dict[str, Any]]:
    """Of each training."""
    return [t.summary for t in trained]


def means_of(trained: list[Training]) -> dict[str, dict[str, FloatArray]]:
    """Policy -> metric -> its mean over cases, one entry per training."""
    names = list(dict.fromkeys(r["policy"] for t in trained for r in t.evaluations))
    return {
        n: {f: np.array([np.mean([r[f] for r in t.evaluations if r["policy"] == n]) for t in trained]) for f in METRICS}
        for n in names
    }


def percent_gaps(trained: list[Training], name: str, other: str) -> FloatArray:
    """Cost of a policy over that of another minus 1, in percent: mean over cases, one entry per training."""
    gaps = []
    for t in trained:
        costs = {(r["policy"], r["case"]): r["cost"] for r in t.evaluations}
        cases = [c for p, c in costs if p == name]
        gaps.append(np.mean([100 * (costs[name, c] / costs[other, c] - 1) for c in cases if (other, c) in costs]))
    return np.array(gaps)


def paired(trained: list[Training], name: str) -> tuple[FloatArray, FloatArray]:
    """Costs of the agent and of another policy (seeds, worlds)."""
    costs, others = (np.array([_costs(t, of, t.agent) for t in trained]) for of in (trained[0].agent, name))
    return costs, others


def _costs(trained: Training, name: str, agent: str) -> FloatArray:
    """Cost of a policy in each world of the agent's."""
    costs = {(r["policy"], r["case"]): r["cost"] for r in trained.evaluations}
    return np.array([costs[name, case] for policy, case in costs if policy == agent])
