"""Every key of summary.json, declared once in measures.toml: its name, unit and meaning.

A key is GROUP[.NAME].QUANTITY[_unit][.SELECTION][.STATISTIC]:

NAME       a part of the study: an attack, a mechanism, a step of curation, ...
QUANTITY   what is measured, ending with its unit: sw1_m, sinr_db, energy_j
SELECTION  the part of the values that is taken: inside (estimates inside the area), last20 (the
last 20 rounds), ever
           (at any time, not only at the end), round and day (number of the round, or of the day),
           shuffled (each UE with what was named of another one), given_one (of two where one is
           known), less_baseline (each value less that of the baseline)
STATISTIC  mean, median, min, max, std, rms, q05, q95; last; low and high (ends of a 95 % interval);
percent (share for
           which something holds)

A key without a statistic is a count, a total, a setting, or a single value.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import inf, nan
from typing import ClassVar, Literal

import numpy as np
from pydantic import ConfigDict, TypeAdapter

from netsim.fit import read_toml
from netsim.units import TextPair
from scenarios.app.results.statistics import (
    compute_finite_mean,
    compute_quantile,
)
from scenarios.app.study import Fields, Record

Rows = Mapping[str, np.ndarray]
"""columns by name"""
NAME = "NAME"
"""stands for a part of the study in a pattern of keys"""
STATISTICS: dict[str, Callable[[np.ndarray], float | None]] = {
    "mean": compute_finite_mean,
    "rms": lambda values: float(np.sqrt(compute_finite_mean(values**2))),
    "median": lambda values: compute_quantile(values, 0.5),
    "q95": lambda values: float(np.quantile(values, 0.95)) if len(values) else nan,
    "max": lambda values: compute_quantile(values, 1.0),
    "known": lambda values: (
        float(np.median(finite)) if len(finite := values[np.isfinite(values)]) else nan
    ),
    "percent": lambda values: compute_finite_mean(100.0 * values),
    "share": lambda values: 100.0 * compute_finite_mean(values),
    "count": len,
    "distinct": lambda values: len(np.unique(values)),
    "sum": lambda values: int(values.sum()),
    "total": lambda values: float(values.sum()),
    "last": lambda values: values.tolist()[-1] if len(values) else None,
}
"""Of numbers (n,). Quantiles count NaN as infinite, but q95; all others leave out what is not
finite.

known : median of the finite values. percent, share : percentage for which it holds, as the mean of
percentages and as a percentage of the mean.
"""


Rule = Literal[
    "error",
    "accuracy",
    "ranks",
    "share",
    "rate",
    "area",
    "distance",
    "sw1",
    "list",
    "quantiles",
    "epsilon",
]


@dataclass(frozen=True)
class Measure:
    """A figure, or a pattern of figures in which NAME stands for a part of the study.

    key, unit, says : its name in the summary, its unit and its meaning. column, rows : the column
    of the rows that it is a statistic of; a run without them does not have the key. statistic : one
    of STATISTICS; empty: the last word of the key if it is one, else `last`. weight : column by
    which values are averaged before.

    headline : its name in tables of results; empty for a figure that stands in none; {near} is
    leakage.hit_radius_m; before a colon stands the row that it shares with others. rule : how
    `table` judges it. better : whether low or high values are those of a better model, or of a
    stronger attack. beside : names and keys of its baselines. count : key of the number that a
    share is of.

    infinite : when null means infinity, or never, and no missing value: `always`; KEY: where that
    has a value above 0; `as KEY`: where that is infinite. NAME in it is the same part, of a metric
    PART.METRIC the METRIC. lost : word for it in tables of results.
    """

    key: str
    unit: str = ""
    says: str = ""
    rows: str = ""
    column: str = ""
    statistic: str = ""
    weight: str = ""
    headline: str = ""
    rule: Rule | None = None
    better: Literal["low", "high"] = "low"
    beside: tuple[TextPair, ...] = ()
    count: str = ""
    infinite: str = ""
    lost: str = "∞"
    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    def __post_init__(self) -> None:
        if self.statistic and self.statistic not in STATISTICS:
            raise ValueError(
                f"{self.key}: no statistic {self.statistic!r}; one of {', '.join(STATISTICS)}"
            )

    def compute_value(self, rows: Rows) -> float | None:
        """Compute the value, of the rows that it names."""
        word = self.statistic or self.key.rpartition(".")[2]
        if self.column not in rows:
            raise ValueError(
                f"measure {self.key}: rows {self.rows!r} have no column {self.column!r}; "
                f"they have {', '.join(rows)}"
            )
        values = rows[self.column]
        if self.weight:
            is_known = np.isfinite(values) & (rows[self.weight] > 0)
            if is_known.any():
                values = np.average(values[is_known], weights=rows[self.weight][is_known])[None]
            else:
                values = values[:0]
        return STATISTICS.get(word, STATISTICS["last"])(values)

    def to_key(self, name: str = "") -> str:
        """The key itself, of the part `name` if it is a pattern. Raises ValueError for a name too
        many or missing.
        """
        if bool(name) != self.is_pattern:
            raise ValueError(f"{self.key}: {'needs' if self.is_pattern else 'takes no'} name")
        return self.key.replace(NAME, name)

    def parse_name(self, key: str) -> str | None:
        """NAME in a key of this pattern (empty for a single key); None for a key of another one."""
        if not self.is_pattern:
            return "" if key == self.key else None
        before, after = self.ends
        if not (key.startswith(before) and key.endswith(after)):
            return None
        name = key[len(before) : len(key) - len(after)]
        # PART.METRIC
        if name and ("." in name) == (self.group == "metric"):
            return name
        return None

    @cached_property
    def is_pattern(self) -> bool:
        """Whether it is a pattern."""
        return NAME in self.key.split(".")

    @cached_property
    def ends(self) -> TextPair:
        """What stands before and after NAME, with the dots."""
        before, _, after = self.key.partition(NAME)
        return before, after

    @cached_property
    def group(self) -> str:
        """What stands before NAME; empty for a single key."""
        if self.is_pattern:
            return self.ends[0].rstrip(".")
        return ""


_DECLARED = read_toml(__package__, "measures.toml")["measure"]
KEYS = TypeAdapter(tuple[Measure, ...]).validate_python(_DECLARED)
"""all of them, in the order of the file; of a key that fits several the first counts"""
BY_KEY = {measure.key: measure for measure in KEYS}


@lru_cache(maxsize=4096)
def find_measure(key: str) -> Measure | None:
    """Find the declaration of a key of a summary; None for one that has none."""
    return next((measure for measure in KEYS if measure.parse_name(key) is not None), None)


def read_value(run: Record, key: str) -> float:
    """Read the value of a key in a summary: infinite where its null means infinity or never, NaN
    where it is missing.
    """
    value = run.get(key)
    if value is not None:
        return float(value)
    measure = find_measure(key) if key in run else None
    if measure is None:
        return nan
    condition = measure.infinite.replace(NAME, str(measure.parse_name(key)).rpartition(".")[2])
    if condition.startswith("as "):
        is_infinite = np.isinf(read_value(run, condition.removeprefix("as ")))
    else:
        is_infinite = condition == "always" or read_value(run, condition) > 0
    return inf if is_infinite else nan


_PARTIAL = ("final", "list", "plan")
"""rows that have only some of the columns"""


def compute_measures(rows: Mapping[str, Rows], name: str = "") -> Fields:
    """Compute values of the measures of some rows, by key, of the part `name`; rows: columns by the
    name of the rows.
    """
    return {
        key.to_key(name): key.compute_value(rows[key.rows])
        for key in KEYS
        if key.rows in rows and key.is_pattern == bool(name)
        if key.rows not in _PARTIAL or key.column in rows[key.rows]
    }


def check_declared(keys: Iterable[str]) -> None:
    """Raise KeyError for keys of a summary that are not declared here."""
    if unknown := [key for key in keys if find_measure(key) is None]:
        raise KeyError(f"summary: no key {', '.join(unknown)} is declared")
