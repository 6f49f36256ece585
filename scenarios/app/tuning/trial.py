"""One trial: the study with some settings, played on every seed, ended early where it is worse than others were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from fl.round.tables import TABLES
from netsim.errors import BadInput
from scenarios.app.results.folder import SUMMARY, read_table
from scenarios.app.results.statistics import counted
from scenarios.app.run.events import Event, Watch, ignore
from scenarios.app.run.how import USUAL, How
from scenarios.app.run.job import do
from scenarios.app.run.runner import run_job
from scenarios.app.study.load import load
from scenarios.app.tuning.goals import Goals, Objective, check_found
from scenarios.app.tuning.journal import STARTS

Curves = Mapping[int, Mapping[int, float]]
"""seed -> round -> figure"""


@dataclass(frozen=True)
class Plan:
    """What a trial plays. others: the curves of the finished trials that it is compared with."""

    number: int
    source: str
    overrides: Mapping[str, Any]
    seeds: tuple[int, ...]
    out: Path
    goals: Goals
    others: Sequence[Curves] = ()
    command: str = "netsim tune"
    how: How = USUAL

    def folder(self, seed: int) -> Path:
        """Of the run with this seed."""
        return self.out / name_of(self.number) / f"seed-{seed}"

    def changes(self, seed: int) -> dict[str, Any]:
        """What a run changes in the scenario."""
        return {**self.overrides, "seed": seed, "vary": None}


@dataclass(frozen=True)
class Played:
    """What became of it: means over seeds by key, the curves, where it was ended early, why it failed."""

    values: Mapping[str, float]
    curves: Curves
    ended: str = ""
    error: str = ""
    missing: tuple[str, ...] = ()
    """the complaint about a key that no trial can have"""


class _Worse(Exception):
    """The trial is worse than the median of the others at a round of a seed."""


def name_of(number: int) -> str:
    """What folders and figures call a trial, from 1."""
    return f"trial-{number}"


def play(plan: Plan) -> Played:
    """Play it, or read back what is finished; a run that a killed program began goes on."""
    found: list[dict[str, Any]] = []
    try:
        for seed in plan.seeds:
            found.append(_one(plan, seed))
    except _Worse as worse:
        return Played({}, {}, ended=str(worse))
    except BadInput as error:
        return Played({}, {}, error=error.lines[0])
    except Exception as error:  # one setting that fails is a result of the search, and does not end it
        return Played({}, {}, error=f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
    try:
        check_found(plan.goals, found[0])
    except BadInput as error:
        return Played({}, {}, error=error.lines[0], missing=tuple(error.lines))
    values = {}
    for key in plan.goals.keys:
        each = [np.nan if summary.get(key) is None else float(summary[key]) for summary in found]
        if not np.isfinite(each).all():
            without = sum(not np.isfinite(value) for value in each)
            return Played({}, {}, error=f"{key} has no finite value with {counted(without, 'seed')} of {len(each)}")
        values[key] = float(np.mean(each))
    return Played(values, _curves(plan))


def _one(plan: Plan, seed: int) -> dict[str, Any]:
    """The summary of the run with this seed."""
    folder, changes = plan.folder(seed), plan.changes(seed)
    study = load(plan.source, changes)
    watcher = _watch(plan.goals.by, seed, plan.others) if plan.goals.by and plan.others else ignore
    summary: dict[str, Any] = do(run_job(study, folder, command=plan.command, replace=True, how=plan.how), watcher)
    return summary


def _watch(by: Objective, seed: int, others: Sequence[Curves]) -> Watch:
    """Ends a run at the first round after which it is worse than the median of the others."""
    before = [curves.get(seed, {}) for curves in others]

    def watch(now: Event) -> None:
        value = now.values.get(by.scored)
        at = [curve[now.done] for curve in before if now.done in curve]
        if value is not None and not now.last and is_worse(by.loss(float(value)), [by.loss(one) for one in at]):
            raise _Worse(f"round {now.done} of seed {seed}: {value:.4g}, median of others {median(at):.4g}")

    return watch


def is_worse(value: float, others: Sequence[float]) -> bool:
    """Whether a figure, of which less is better, lies above the median of enough others."""
    return len(others) >= STARTS and value > median(others)


def _curves(plan: Plan) -> Curves:
    """The figure in every round that has one, as the records have it: in rounds.csv, or in metrics.csv."""
    if plan.goals.by is None:
        return {}
    name, curves = plan.goals.by.scored, {}
    for seed in plan.seeds:
        folder = plan.folder(seed)
        if not (folder / SUMMARY).exists():
            continue
        if name in TABLES["rounds"]:
            table = read_table(folder, "rounds")
            numbers, values = table["round"], table[name]
        else:
            table = read_table(folder, "metrics")
            mine = (table["part"] == "learner") & (table["name"] == name)
            numbers, values = table["round"][mine], table["value"][mine]
        pairs = zip(numbers.tolist(), values.tolist(), strict=True)
        curves[seed] = {int(n): float(value) for n, value in pairs if np.isfinite(value)}
    return curves
