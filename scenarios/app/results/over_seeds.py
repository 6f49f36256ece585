"""The values of summaries on a page: grouped by part, as text, and over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scenarios.app.results.shown import value_text
from scenarios.app.results.statistics import Quartiles, figure_text, quartiles_of
from scenarios.app.results.summary_keys import AUC_LAST, DIVERGED, EPSILON_MAX, ERROR_MEDIAN, KEYS, METRIC_LAST, Measure

BY_NAME = tuple(key.group for key in (ERROR_MEDIAN, EPSILON_MAX, AUC_LAST, METRIC_LAST))
"""groups of keys whose names have a column, or a table, each"""


@dataclass(frozen=True)
class Entry:
    """A key of a summary on a page: `label` leaves out the group and the name that stand above it.

    pattern : its declaration's; it and `meaning` are empty for an undeclared key.
    """

    key: str
    label: str
    pattern: str
    meaning: str
    unit: str


def blocks(keys: Sequence[str]) -> dict[tuple[str, str], list[Entry]]:
    """(group, name) -> its entries in the order of KEYS; keys outside of BY_NAME stand under ("", "")."""
    placed = [(key, *_declared(key)) for key in keys]
    grouped: dict[tuple[str, str], list[Entry]] = {}
    for key, _, declared, name in sorted(placed, key=lambda p: (p[1], p[0])):
        if declared is not None and declared.group in BY_NAME:
            grouped.setdefault((declared.group, name), []).append(
                Entry(key, declared.rest, declared.key, meaning(declared), declared.unit)
            )
        else:
            about = ("", "", "") if declared is None else (declared.key, meaning(declared), declared.unit)
            grouped.setdefault(("", ""), []).append(Entry(key, key, *about))
    return grouped


def _declared(key: str) -> tuple[int, Measure | None, str]:
    """Place in KEYS, declaration and NAME of a key; after all others, None and empty for an undeclared one."""
    for i, declared in enumerate(KEYS):
        name = declared.name_in(key)
        if name is not None:
            return i, declared, name
    return len(KEYS), None, ""


def meaning(key: Measure) -> str:
    """What a key says, with its unit."""
    return f"{key.says} ({key.unit})" if key.unit else key.says


def over_seeds(runs: Sequence[Mapping[str, Any]], key: str) -> Quartiles:
    """Quartiles of a value; a centroid error that is missing because estimates diverged counts as infinite."""
    head, error, _ = key.partition(".centroid_error_m.")
    lost = DIVERGED.of(head.partition(".")[2]) if error else ""
    return quartiles_of(np.inf if run.get(key) is None and (run.get(lost) or 0) > 0 else run.get(key) for run in runs)


def cell_text(runs: Sequence[Mapping[str, Any]], key: str) -> str:
    """A value over seeds, with its quartiles where there are several."""
    values = [run.get(key) for run in runs]
    if all(isinstance(v, bool) for v in values):
        return f"{values.count(True)} of {len(values)}" if len(values) > 1 else value_text(values[0])
    low, median, high = over_seeds(runs, key)
    known, declared = sum(v is not None for v in values), _declared(key)[1]
    unit = "" if declared is None else declared.unit
    if len(runs) == 1 or np.isnan(median):
        return figure_text(median, unit)
    few = f" ({known} of {len(runs)})" if known < len(runs) and np.isfinite(high) else ""
    return f"{figure_text(median, unit)} [{figure_text(low, unit)}, {figure_text(high, unit)}]{few}"
