"""A measure: a figure of a summary, declared once with its unit, meaning, rows and statistic.

The summary of a run and docs/records.md read the same declarations, which stand in `summary_keys`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scenarios.app.results.key import Key
from scenarios.app.results.statistics import mean_of, median_of, quantile_of, share_of

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
    "last": lambda values: values[-1].item() if len(values) else None,
}
"""Of numbers (n,). Quantiles count NaN as infinite, but q95; all others leave out what is not finite.

known : median of the finite values. percent, share : percentage for which it holds, as the mean of percentages and as a
percentage of the mean. low, high : ends of the share's 95 % interval (Wilson).
"""


@dataclass(frozen=True)
class Measure(Key):
    """A key whose value is a statistic of one column of some rows.

    rows : name of the rows that it is taken from; where a run has none of them, the summary does not have the key.
    statistic : one of STATISTICS; empty: the last word of the key if it is one, else `last`. weight : column by which
    values are averaged before; empty for none.
    """

    column: str = ""
    rows: str = ""
    statistic: str = ""
    weight: str = ""

    def value(self, rows: Mapping[str, np.ndarray]) -> Any:
        """The value, of the rows that it names."""
        values, word = rows[self.column], self.statistic or self.pattern.rpartition(".")[2]
        if self.weight:
            known = np.isfinite(values) & (rows[self.weight] > 0)
            values = np.average(values[known], weights=rows[self.weight][known])[None] if known.any() else values[:0]
        return STATISTICS.get(word, STATISTICS["last"])(values)
