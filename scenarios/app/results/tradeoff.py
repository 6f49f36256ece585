"""The model's error at matched privacy: curves of a sweep over their strength, each read where it crosses a level.

Every measure of privacy here is larger where the attacker learns less. A label has the medians over its seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from netsim.errors import BadInput
from netsim.safe import what_is
from netsim.units import FloatArray
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.attacks import attacks
from scenarios.app.results.folder import SUMMARY, csv_text, read_rows, read_summary
from scenarios.app.results.read import RUNS, listed
from scenarios.app.results.statistics import figure_text, quartiles_of

MATCHED_CSV = "matched_privacy.csv"
MATCHED = (keys.SQRT_SW1, keys.ERROR_MEDIAN)
"""measures of privacy at whose levels curves are compared"""


@dataclass(frozen=True)
class Trial:
    """One finished run of a sweep, with its place on a curve; no curve: undefended."""

    label: str
    curve: str
    strength: float
    summary: Mapping[str, Any]


def read_trials(folder: Path) -> list[Trial]:
    """The finished runs of a sweep with at least one curve; of any other folder nothing."""
    rows = read_rows(folder / RUNS) if what_is(folder / RUNS) else []
    if not any(row.get("curve") for row in rows):
        return []
    return [
        Trial(label, row["curve"], _strength(folder / RUNS, row), read_summary(path))
        for (label, path), row in zip(listed(folder), rows, strict=True)
        if what_is(path / SUMMARY)
    ]


def _strength(path: Path, row: Mapping[str, str]) -> float:
    try:
        value = float(row["strength"] or "nan")
    except ValueError:
        value = np.nan
    if row["curve"] and not np.isfinite(value):
        raise BadInput(f"{path}: strength {row['strength']!r} is not a number; start the sweep again")
    return value


def curves(trials: Sequence[Trial]) -> dict[str, dict[str, list[Trial]]]:
    """Curve -> label -> its runs, in the order of strength."""
    grouped: dict[str, dict[str, list[Trial]]] = {trial.curve: {} for trial in trials if trial.curve}
    for trial in sorted(trials, key=lambda trial: trial.strength):
        if trial.curve:
            grouped[trial.curve].setdefault(trial.label, []).append(trial)
    return grouped


def matched_csv(trials: Sequence[Trial]) -> str:
    """The RMSE of every curve at levels of privacy, by attack and measure; empty where a curve does not reach one."""
    rows: list[list[Any]] = [["attack", "measure", "level", "curve", "rmse_db"]]
    every = curves(trials)
    for attack in dict.fromkeys(name for trial in trials for name in attacks(trial.summary)):
        for measure in MATCHED if len(every) > 1 else ():
            lines = {name: _line(of, attack, measure) for name, of in every.items()}
            for level in levels([line[:, 0] for line in lines.values()]):
                rows += [[attack, measure.rest, level, name, rmse_db(line, level)] for name, line in lines.items()]
    return csv_text(rows)


def _line(labels: Mapping[str, Sequence[Trial]], attack: str, measure: keys.Measure) -> FloatArray:
    """Privacy and RMSE of each label of a curve (n, 2), medians over its seeds; infinite where one diverged."""
    every = [(_private(of, attack, measure), map(_error_db, of)) for of in labels.values()]
    return np.array([[quartiles_of(values)[1] for values in both] for both in every])


def _private(trials: Sequence[Trial], attack: str, measure: keys.Measure) -> list[float]:
    every = [(t.summary.get(measure.of(attack)), t.summary.get(keys.DIVERGED.of(attack))) for t in trials]
    return [value if value is not None else np.inf if diverged else np.nan for value, diverged in every]


def _error_db(trial: Trial) -> float:
    error, constant = trial.summary.get(keys.RMSE.key), trial.summary.get(keys.CONSTANT_RMSE.key)
    return float(error) if error is not None else np.nan if constant is None else np.inf


def levels(lines: Sequence[FloatArray]) -> list[float]:
    """The quartiles of the range that more than half of the curves share, or as many as share one; else nothing.

    Above them comes the middle of the highest range that two curves reach, where privacy costs most. Levels that read
    alike are one.
    """
    finite = [line[np.isfinite(line)] for line in lines]
    spans = [(line.min(), line.max()) for line in finite if len(set(line)) > 1]
    for least in range(len(spans) // 2 + 1, 0, -1):
        if shared := _shared(spans, least):
            quarters = np.linspace(shared[0][0], shared[-1][1], 5)[1:-1].tolist()
            top = [sum(stretch) / 2 for stretch in _shared(spans, 2)[-1:]]
            every = quarters + [level for level in top if level > quarters[-1]]
            return list({figure_text(level): level for level in reversed(every)}.values())[::-1]
    return []


def _shared(spans: Sequence[tuple[float, float]], least: int) -> list[tuple[float, float]]:
    """Ranges, ascending, that at least so many of the spans cover."""
    ends = sorted({end for span in spans for end in span})
    return [(low, high) for low, high in pairwise(ends) if sum(a <= low and high <= b for a, b in spans) >= least]


def rmse_db(line: FloatArray, level: float) -> float:
    """The smallest RMSE at which a curve (n, 2) crosses a level, linear between neighbours; NaN where it does not.

    A point that is not finite interrupts the curve.
    """
    found = [error for privacy, error in line if privacy == level]
    for (before, first), (after, second) in pairwise(line):
        if np.isfinite([before, first, after, second]).all() and min(before, after) < level < max(before, after):
            found.append(first + (level - before) / (after - before) * (second - first))
    return min(found, default=np.nan)
