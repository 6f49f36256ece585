"""What a training leaves: tables of its curve and comparison, and the summary."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import asdict, fields
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.record import cell_text, write_text
from rl.settings import OPTIMUM, VISITED
from scenarios.app.results.improvement import probability_of_improvement
from scenarios.app.results.statistics import half_width, interquartile_mean
from scenarios.app.training.evaluate import Evaluation

if TYPE_CHECKING:
    from rl.train import CurvePoint


def curve_row(point: CurvePoint, bounds: Mapping[str, float]) -> dict[str, Any]:
    """A row of the curve: one column for the multiplier of each bound."""
    row = asdict(point)
    multipliers = row.pop("multipliers") or (0.0,) * len(bounds)
    return row | {f"multiplier.{name}": x for name, x in zip(bounds, multipliers, strict=True)}


def write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    """Rows of the same columns as a CSV file."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(list(rows[0]))
    writer.writerows([cell_text(v) for v in row.values()] for row in rows)
    write_text(path, text.getvalue())


def summary_of(agent_name: str, best_steps: int, rows: list[Evaluation]) -> dict[str, Any]:
    """Flat: the mean over cases of every figure of every policy, and the paired difference to each of the others."""
    summary: dict[str, Any] = {"steps.best": best_steps, "cases": _cases(rows)}
    names = list(dict.fromkeys(r.policy for r in rows))
    figures = [f.name for f in fields(Evaluation) if f.name not in ("policy", "case")]
    for name in names:
        own = [r for r in rows if r.policy == name]
        for figure in figures:
            summary[f"policy.{name}.{figure}.mean"] = float(np.mean([getattr(r, figure) for r in own]))
    agent = {r.case: r.cost for r in rows if r.policy == agent_name}
    for name in (n for n in names if n not in (agent_name, VISITED)):
        others = {r.case: r.cost for r in rows if r.policy == name}
        gaps = np.array([agent[c] - others[c] for c in others])
        ratios = np.array([agent[c] / others[c] - 1.0 for c in others])
        summary[f"against.{name}.cost.mean"] = float(gaps.mean())
        summary[f"against.{name}.percent.mean"] = float(100 * ratios.mean())
        summary[f"against.{name}.percent.max"] = float(100 * ratios.max())
        summary[f"against.{name}.cost.half_width"] = half_width(gaps)
        summary[f"against.{name}.wins"] = int((gaps < 0).sum())
        summary[f"against.{name}.cost.interquartile_mean"] = interquartile_mean(gaps)
        pair = [np.array([[of[c] for c in others]]) for of in (agent, others)]
        chance = zip(("mean", "low", "high"), probability_of_improvement(*pair), strict=True)
        summary |= {f"against.{name}.improvement.{word}": value for word, value in chance}
    if any(r.policy == VISITED for r in rows):
        best = {r.policy: r.cost for r in rows}
        summary["visited.percent"] = 100 * (best[VISITED] / best[OPTIMUM] - 1.0)
    return summary


def _cases(rows: list[Evaluation]) -> int:
    return len({r.case for r in rows})
