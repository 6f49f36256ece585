"""A measure: a figure of a summary, declared once; summary, terminal, page, sweep, comparison and docs read it.

The declarations stand in `summary_keys`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np

from scenarios.app.results.statistics import mean_of, median_of, quantile_of, share_of

Rows = Mapping[str, np.ndarray]
"""columns by name"""
NAME = "NAME"
"""stands for a part of the study in a pattern of keys"""
STATISTICS: dict[str, Callable[[np.ndarray], Any]] = {
    "mean": mean_of,
    "rms": lambda values: float(np.sqrt(mean_of(values**2))),
    "median": lambda values: quantile_of(values, 0.5),
    "q25": lambda values: quantile_of(values, 0.25),
    "q75": lambda values: quantile_of(values, 0.75),
    "min": lambda values: quantile_of(values, 0.0),
    "q95": lambda values: float(np.quantile(values, 0.95)) if len(values) else float("nan"),
    "max": lambda values: quantile_of(values, 1.0),
    "known": median_of,
    "percent": lambda values: mean_of(100.0 * values),
    "share": lambda values: 100.0 * mean_of(values),
    "low": lambda values: share_of(values)[1],
    "high": lambda values: share_of(values)[2],
    "count": len,
    "distinct": lambda values: len(np.unique(values)),
    "sum": lambda values: int(values.sum()),
    "total": lambda values: float(values.sum()),
    "last": lambda values: values.tolist()[-1] if len(values) else None,
}
"""Of numbers (n,). Quantiles count NaN as infinite, but q95; all others leave out what is not finite.

known : median of the finite values. percent, share : percentage for which it holds, as the mean of percentages and as a
percentage of the mean. low, high : ends of the share's 95 % interval (Wilson).
"""


@dataclass(frozen=True)
class Measure:
    """A figure, or a pattern of figures in which NAME stands for a part of the study.

    key, unit, says : its name in the summary, its unit and its meaning. column, rows : the column of the rows, or a law
    on them, that it is a statistic of; a run without them does not have the key. statistic : one of STATISTICS; empty:
    the last word of the key if it is one, else `last`. weight : column by which values are averaged before.

    headline : its name in tables of results; empty for a figure that stands in none; {near} is leakage.near_m; before
    a colon stands the row that it shares with others. rule : how `table` judges it. better : whether low or high values
    are those of a better model, or of a stronger attack. beside : names and keys of its baselines. count : key of the
    number that a share is of.
    """

    key: str
    unit: str
    says: str
    rows: str = ""
    column: str | Callable[[Rows], np.ndarray] = ""
    statistic: str = ""
    weight: str = ""
    headline: str = ""
    rule: str = ""
    better: Literal["low", "high"] = "low"
    beside: tuple[tuple[str, str], ...] = ()
    count: str = ""

    def value(self, some: Rows) -> Any:
        """The value, of the rows that it names."""
        word = self.statistic or self.key.rpartition(".")[2]
        values = some[self.column] if isinstance(self.column, str) else self.column(some)
        if self.weight:
            known = np.isfinite(values) & (some[self.weight] > 0)
            values = np.average(values[known], weights=some[self.weight][known])[None] if known.any() else values[:0]
        return STATISTICS.get(word, STATISTICS["last"])(values)

    def of(self, name: str = "") -> str:
        """The key itself, of the part `name` if it is a pattern. Raises ValueError for a name too many or missing."""
        if bool(name) != self.named:
            raise ValueError(f"{self.key}: {'needs' if self.named else 'takes no'} name")
        return self.key.replace(NAME, name)

    def name_in(self, key: str) -> str | None:
        """NAME in a key of this pattern (empty for a single key); None for a key of another one."""
        if not self.named:
            return "" if key == self.key else None
        return _name_in(self, key) if key.startswith(f"{self.group}.") else None

    @cached_property
    def named(self) -> bool:
        """Whether it is a pattern."""
        return NAME in self.key.split(".")

    @cached_property
    def group(self) -> str:
        """What stands before NAME; empty for a single key."""
        return self.key.partition(f".{NAME}")[0] if self.named else ""

    @property
    def rest(self) -> str:
        """What stands after NAME; the whole key where there is none."""
        return self.key.partition(f"{NAME}.")[2] if self.named else self.key

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """Matches the keys of a pattern."""
        name = r"(.+\..+)" if self.group == "metric" else r"([^.]+)"  # PART.METRIC
        return re.compile(re.escape(self.key).replace(NAME, name))


@lru_cache(maxsize=65_536)
def _name_in(pattern: Measure, key: str) -> str | None:
    """NAME in a key; the summaries of many runs have the same keys."""
    match = pattern.regex.fullmatch(key)
    return match[1] if match else None
