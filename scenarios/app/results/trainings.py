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
from rl.settings import VISITED
from scenarios.app.results.episode import EpisodeRead, read_episode
from scenarios.app.results.failures import read_failures
from scenarios.app.results.folder import SUMMARY, one_version, read_json, text_of
from scenarios.app.results.training_folder import CURVE, EVALUATIONS, KIND, TRAINING
from scenarios.app.study.yaml_document import one_line

_CURVE = ("step", "score", "reward", "best_reward")
METRICS = ("cost", "t_th", "noise", "loss", "leakage", "lost", "leak", "energy_j", "evaluations")
"""figures of a policy in a case"""


@dataclass(frozen=True, eq=False)
class FinishedTraining:
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
        raise BadInput(one_line(f"{folder}: this training is not finished; start it again and it goes on"))
    curve = _rows(folder / CURVE, (), _CURVE)
    evaluations = _rows(folder / EVALUATIONS, ("policy",), ("case", *METRICS))
    cases = {policy: {r["case"] for r in evaluations if r["policy"] == policy} for policy in _names(evaluations)}
    agent = str(manifest.get("agent", AGENT))
    short = [policy for policy, own in cases.items() if policy != VISITED and own != cases.get(agent)]
    if short:
        raise BadInput(
            one_line(f"{folder / EVALUATIONS}: {short[0]} and {agent} are not judged in the same cases; train again")
        )
    columns = {name: np.array([row[name] for row in curve]) for name in _CURVE}
    return FinishedTraining(manifest, read_json(folder / SUMMARY), columns, evaluations, read_episode(folder))


def _rows(path: Path, texts: tuple[str, ...], numbers: tuple[str, ...]) -> list[dict[str, Any]]:
    """Rows of a table; a number that is not known is NaN. BadInput: what is wrong, with file and line."""
    rows = list[dict[str, Any]]()
    try:
        with text_of(path) as file:
            reader = csv.DictReader(file)
            lacks = [name for name in (*texts, *numbers) if name not in (reader.fieldnames or ())]
            if lacks:
                raise BadInput(one_line(f"{path}:1: has no column {lacks[0]}; train again"))
            for row in reader:
                rows.append({name: row[name] for name in texts})
                for name in numbers:
                    rows[-1][name] = _number(row[name], f"{path}:{reader.line_num}: {name}")
    except (OSError, csv.Error) as error:
        said = getattr(error, "strerror", None) or error
        raise BadInput(one_line(f"{path}: cannot be read ({said}); train again")) from None
    if not rows:
        raise BadInput(one_line(f"{path}: has no rows; train again"))
    return rows


def _number(text: str | None, where: str) -> float:
    try:
        return float(text or "nan")
    except ValueError:
        raise BadInput(one_line(f"{where}: is {text!r:.60}, a number is expected; train again")) from None


def _names(rows: list[dict[str, Any]]) -> list[str]:
    """Policies, each once."""
    return list(dict.fromkeys(r["policy"] for r in rows))


def summaries_of(trained: list[FinishedTraining]) -> list[dict[str, Any]]:
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
