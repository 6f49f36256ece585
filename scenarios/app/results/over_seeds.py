"""The keys of summaries on a page: what each says, whose it is, and its figure over seeds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scenarios.app.results.statistics import figure_text, quantile
from scenarios.app.results.summary_keys import KEYS


def split_key(key: str) -> tuple[str, str, str, str]:
    """A key of a summary -> (`attack`, `privacy` or empty; name; what; what it says), after summary.KEYS."""
    near, known = re.search(r"_([0-9.e+]+)m_", key), _usual(key)
    for pattern, says in KEYS.items():
        head, slot, tail = pattern.partition("NAME")
        if not slot and key == pattern:
            return "", "", key, says
        if slot and known.startswith(head) and known.endswith(tail):
            name = known[len(head) : len(known) - len(tail)]
            says = says if near is None else says.replace("100 m", f"{near[1]} m")
            return head.rstrip("."), name, key[len(head) + len(name) + 1 :], says
    return "", "", key, ""


def _usual(key: str) -> str:
    """The key as KEYS has it: there, what counts as near is 100 m."""
    return re.sub(r"\bhome_(within|named)_[0-9.e+]+m_", r"home_\1_100m_", key)


def blocks(keys: Sequence[str]) -> dict[tuple[str, str], list[tuple[str, str, str]]]:
    """(kind, name) -> its (key, what, what it says), in the order of KEYS."""
    order = {pattern.partition("NAME.")[2] or pattern: i for i, pattern in enumerate(KEYS)}
    found: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    split = [(key, *split_key(key)) for key in keys]
    for key, kind, name, what, says in sorted(split, key=lambda s: (order.get(s[3], len(order)), s[0])):
        found.setdefault((kind, name), []).append((key, what, says))
    return found


def value_text(value: Any) -> str:
    """A figure of a summary for people."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else figure_text(value)
    return str(value)


def over_seeds(runs: Sequence[Mapping[str, Any]], key: str) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile of a figure; where estimates diverged, none means infinite."""
    lost = key.rsplit(".centroid_error_m.", 1)[0] + ".diverged_percent" if ".centroid_error_m." in key else ""
    values = [np.inf if run.get(key) is None and (run.get(lost) or 0) > 0 else run.get(key, np.nan) for run in runs]
    grid = np.array([[np.nan if v is None else float(v) for v in values]])
    low, median, high = (float(quantile(grid, q)[0]) for q in (0.25, 0.5, 0.75))
    return low, median, high


def cell_text(runs: Sequence[Mapping[str, Any]], key: str) -> str:
    """A figure over seeds, with its quartiles where there are several."""
    values = [run.get(key) for run in runs]
    if all(isinstance(v, bool) for v in values):
        return f"{values.count(True)} of {len(values)}" if len(values) > 1 else value_text(values[0])
    low, median, high = over_seeds(runs, key)
    known = sum(v is not None for v in values)
    if len(runs) == 1 or np.isnan(median):
        return figure_text(median)
    few = f" ({known} of {len(runs)})" if known < len(runs) and np.isfinite(high) else ""
    return f"{figure_text(median)} [{figure_text(low)}, {figure_text(high)}]{few}"
