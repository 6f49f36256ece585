"""The seeds of a training, those that failed among them: a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scenarios.app.report.html import Cell, Mark, table
from scenarios.app.results.failures import Failed
from scenarios.app.results.folder import ERROR
from scenarios.app.results.statistics import figure_text
from scenarios.app.results.trainings import Training, means_of


def seeds_table(trained: Sequence[Training], failed: Sequence[Failed]) -> str:
    """A row a seed: the cost of its policy, or why there is none; empty for a single seed."""
    if len(trained) + len(failed) < 2:
        return ""
    costs = means_of(list(trained))[trained[0].agent]["cost"]
    rows: dict[int, list[Cell]] = {}
    for one, cost in zip(trained, costs, strict=True):
        seed, best = int(one.manifest.get("seed", 0)), one.summary.get("steps.best")
        steps = Mark("–", np.nan) if best is None else Mark(f"{best:,}", float(best))
        rows[seed] = [Mark(str(seed), seed), "finished", Mark(figure_text(float(cost)), float(cost)), steps, ""]
    for bad in failed:
        none = Mark("–", np.nan)
        why = f"{bad.kind}: {bad.error} ({bad.folder}/{ERROR})"
        rows[bad.seed] = [Mark(str(bad.seed), bad.seed), "failed", none, none, why]
    heads = ["seed", "state", "cost", "steps to the best policy", "why"]
    return table("Seeds", heads, [rows[seed] for seed in sorted(rows)], "seeds", texts=(1, 4))
