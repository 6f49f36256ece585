"""Every key of summary.json, declared once in measures.toml: its name, unit and meaning.

A key is GROUP[.NAME].QUANTITY[_unit][.SELECTION][.STATISTIC]:

NAME       a part of the study: an attack, a mechanism, a step of curation, ...
QUANTITY   what is measured, ending with its unit: sw1_m, sinr_db, energy_j
SELECTION  the part of the values that is taken: inside (estimates inside the area), last20 (the
last 20 rounds), ever
           (at any time, not only at the end), round and day (number of the round, or of the day),
           shuffled (each UE with what was named of another one), less_baseline (each value less
           that of the baseline)
STATISTIC  mean, median, min, max, std, rms, q05, q95; last; low and high (ends of a 95 % interval);
percent (share for
           which something holds)

A key without a statistic is a count, a total, a setting, or a single value.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import resources
from typing import ClassVar, Literal

import numpy as np
from pydantic import ConfigDict, TypeAdapter

from scenarios.app.results.statistics import mean_of, median_of, quantile_of
from scenarios.app.study import Fields, Record

Rows = Mapping[str, np.ndarray]
"""columns by name"""
NAME = "NAME"
"""stands for a part of the study in a pattern of keys"""
STATISTICS: dict[str, Callable[[np.ndarray], float | None]] = {
    "mean": mean_of,
    "rms": lambda values: float(np.sqrt(mean_of(values**2))),
    "median": lambda values: quantile_of(values, 0.5),
    "q95": lambda values: float(np.quantile(values, 0.95)) if len(values) else float("nan"),
    "max": lambda values: quantile_of(values, 1.0),
    "known": median_of,
    "percent": lambda values: mean_of(100.0 * values),
    "share": lambda values: 100.0 * mean_of(values),
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
    beside: tuple[tuple[str, str], ...] = ()
    count: str = ""
    infinite: str = ""
    lost: str = "∞"
    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    def __post_init__(self) -> None:
        if self.statistic and self.statistic not in STATISTICS:
            raise ValueError(
                f"{self.key}: no statistic {self.statistic!r}; one of {', '.join(STATISTICS)}"
            )

    def value(self, some: Rows) -> float | None:
        """The value, of the rows that it names."""
        word = self.statistic or self.key.rpartition(".")[2]
        if self.column not in some:
            raise ValueError(
                f"measure {self.key}: rows {self.rows!r} have no column {self.column!r}; "
                f"they have {', '.join(some)}"
            )
        values = some[self.column]
        if self.weight:
            known = np.isfinite(values) & (some[self.weight] > 0)
            if known.any():
                values = np.average(values[known], weights=some[self.weight][known])[None]
            else:
                values = values[:0]
        return STATISTICS.get(word, STATISTICS["last"])(values)

    def of(self, name: str = "") -> str:
        """The key itself, of the part `name` if it is a pattern. Raises ValueError for a name too
        many or missing.
        """
        if bool(name) != self.named:
            raise ValueError(f"{self.key}: {'needs' if self.named else 'takes no'} name")
        return self.key.replace(NAME, name)

    def name_in(self, key: str) -> str | None:
        """NAME in a key of this pattern (empty for a single key); None for a key of another one."""
        if not self.named:
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
    def named(self) -> bool:
        """Whether it is a pattern."""
        return NAME in self.key.split(".")

    @cached_property
    def ends(self) -> tuple[str, str]:
        """What stands before and after NAME, with the dots."""
        before, _, after = self.key.partition(NAME)
        return before, after

    @cached_property
    def group(self) -> str:
        """What stands before NAME; empty for a single key."""
        if self.named:
            return self.ends[0].rstrip(".")
        return ""


_TEXT = resources.files(__package__).joinpath("measures.toml").read_text(encoding="utf-8")
KEYS = TypeAdapter(tuple[Measure, ...]).validate_python(tomllib.loads(_TEXT)["measure"])
"""all of them, in the order of the file; of a key that fits several the first counts"""
BY_KEY = {measure.key: measure for measure in KEYS}


@lru_cache(maxsize=4096)
def declaration(key: str) -> Measure | None:
    """The declaration of a key of a summary; None for one that has none."""
    return next((one for one in KEYS if one.name_in(key) is not None), None)


def value_in(run: Record, key: str) -> float:
    """The value of a key in a summary: infinite where its null means infinity or never, NaN where
    it is missing.
    """
    value = run.get(key)
    if value is not None:
        return float(value)
    known = declaration(key) if key in run else None
    if known is None:
        return np.nan
    other = known.infinite.replace(NAME, str(known.name_in(key)).rpartition(".")[2])
    if other.startswith("as "):
        is_infinite = np.isinf(value_in(run, other.removeprefix("as ")))
    else:
        is_infinite = other == "always" or value_in(run, other) > 0
    return np.inf if is_infinite else np.nan


_PARTIAL = ("final", "list", "plan")
"""rows that have only some of the columns"""


def measured(rows: Mapping[str, Mapping[str, np.ndarray]], name: str = "") -> Fields:
    """Values of the measures of some rows, by key, of the part `name`; rows: columns by the name of
    the rows.
    """
    return {
        key.of(name): key.value(rows[key.rows])
        for key in KEYS
        if key.rows in rows and key.named == bool(name)
        if key.rows not in _PARTIAL or key.column in rows[key.rows]
    }


def check_declared(keys: Iterable[str]) -> None:
    """Raise KeyError for keys of a summary that are not declared here."""
    if unknown := [key for key in keys if declaration(key) is None]:
        raise KeyError(f"summary: no key {', '.join(unknown)} is declared")
