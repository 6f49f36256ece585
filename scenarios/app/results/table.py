"""The lines of a result: what was measured, its value with an interval, its baselines, the verdict and the attack.

Terminal, page, sweep and comparison draw the same lines, of one run or of the seeds of one label.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scenarios.app.results import verdicts
from scenarios.app.results.measures import NAME, Measure
from scenarios.app.results.statistics import figure_text, wilson
from scenarios.app.results.summary_keys import KEYS

Summary = Mapping[str, Any]
Runs = Sequence[Summary]
"""summaries of a label's runs"""


@dataclass(frozen=True)
class Line:
    """A figure of one run, or its mean over the seeds of a label.

    low, high : 95 % interval; over seeds of anything but a share their range; NaN where there is none. beside : names
    and values of baselines. hits, n : of a share, over all seeds. key : its key in the summary.
    """

    what: str
    unit: str
    value: float
    low: float = np.nan
    high: float = np.nan
    beside: tuple[tuple[str, float], ...] = ()
    verdict: str = ""
    attack: str = ""
    hits: int = 0
    n: int = 0
    key: str = ""

    @property
    def title(self) -> str:
        """What it is, with its unit."""
        return self.what if self.n or not self.unit else f"{self.what}, {self.unit}"

    @property
    def result(self) -> str:
        """Value and interval."""
        value = f"{self.hits}/{self.n}" if self.n else figure_text(self.value, self.unit)
        low, high = (figure_text(end, self.unit) for end in (self.low, self.high))
        percent = " %" if self.n else ""
        return value if np.isnan(self.low) or low == high else f"{value} [{low}, {high}{percent}]"

    @property
    def baseline(self) -> str:
        """Every baseline by its name, several of one name as a range."""
        named: dict[str, list[float]] = {}
        for name, value in self.beside:
            named.setdefault(name, []).append(value)
        return ", ".join(f"{name} {_span(values, self.unit)}" for name, values in named.items())


def lines(summaries: Runs) -> list[Line]:
    """A line for each headline that a run has a value of, from the attack that finds most."""
    found = (
        _best([_line(measure, name, summaries) for name in names], measure.better)
        for measure, names in _headlines(summaries)
    )
    return [line for line in found if line is not None]


def row(summaries: Runs, group: str) -> str:
    """Figures that share a row below the table, such as those of the uplink: `SINR -9.78 dB, latency 3.13 s`."""
    mine = [(m, mean(summaries, m.key)) for m in KEYS if m.headline.startswith(f"{group}: ")]
    words = [(m.headline.partition(": ")[2], figure_text(v), m.unit) for m, v in mine if not np.isnan(v)]
    return ", ".join(" ".join(of).rstrip() for of in words)


GROUPS = ("uplink", "uploads", "eavesdropper")
"""rows below the table"""


def model_verdict(of: Sequence[Line]) -> str:
    """The verdict of the model; empty where nothing was held out."""
    return next((line.verdict for line in of if line.key.startswith("utility.")), "")


def mean(runs: Runs, key: str) -> float:
    """Mean of a value over the runs that have it; NaN of none."""
    known = [float(v) for run in runs if (v := run.get(key)) is not None]
    return float(np.mean(known)) if known else np.nan


def _headlines(runs: Runs) -> Iterator[tuple[Measure, list[str]]]:
    """Measures of the table, and the names that each has a value of."""
    every = list(dict.fromkeys(key for run in runs for key in run))
    for measure in KEYS:
        if measure.headline and ": " not in measure.headline:
            names = [measure.name_in(key) for key in every]
            yield measure, [n for n in names if n is not None and any(_known(r, measure.of(n)) for r in runs)]


def _known(run: Summary, key: str) -> bool:
    return run.get(key) is not None or _diverged(run, key)


def _diverged(run: Summary, key: str) -> bool:
    """Whether a value is missing since the model, or an attack's estimates, diverged."""
    if key == "utility.rmse_db":
        return run.get(key) is None and run.get("utility.constant_rmse_db") is not None
    head, error, _ = key.partition(".centroid_error_m.")
    return bool(error) and run.get(key) is None and (run.get(f"{head}.diverged.percent") or 0) > 0


def _line(measure: Measure, name: str, runs: Runs) -> Line:
    """The line of one part; of a share over the UEs of all seeds."""
    key = measure.of(name)
    values = [np.inf if _diverged(run, key) else float(run[key]) for run in runs if _known(run, key)]
    beside = tuple((word, mean(runs, other.replace(NAME, name))) for word, other in measure.beside)
    what = measure.headline.format(near=figure_text(mean(runs, "leakage.near_m")))
    attacks = measure.group in ATTACKED
    line = Line(
        what if attacks or not name else f"{what} ({name})", measure.unit, float(np.mean(values)), *_range(values),
        tuple(pair for pair in beside if not np.isnan(pair[1])), attack=name if attacks else "", key=key,
    )  # fmt: skip
    if measure.verdict == "share":
        line = _share(line, runs, measure.count.replace(NAME, name))
    elif measure.verdict == "area":
        line = _area(line, runs)
    return replace(line, verdict=line.verdict or _verdict(measure.verdict, line, runs, name))


ATTACKED = ("attack", "tracking", "linking", "identities", "membership")
"""groups of keys that are named by an attack"""


def _share(line: Line, runs: Runs, count: str) -> Line:
    """With hits of all UEs, and Wilson's interval."""
    known = [
        (float(run[line.key]), int(run[count])) for run in runs if run.get(line.key) is not None and run.get(count)
    ]
    n = sum(n for _, n in known)
    hits = round(sum(share * n / 100 for share, n in known))
    verdict = verdicts.of_share(hits, n, [value for _, value in line.beside])
    _, low, high = wilson(hits, n)
    return replace(line, hits=hits, n=n, low=low, high=high, verdict=verdict)


def _area(line: Line, runs: Runs) -> Line:
    """With the interval of an AUC; its chance is 0.5, or the AUC before training where that is known."""
    stem = line.key.removesuffix(".last")
    low, high = _pooled(runs, stem, "last")
    own = [100.0 * (end - 0.5) for end in (low, high)]
    more = [100.0 * end for end in _pooled(runs, f"{stem}_difference", "last")]
    return replace(line, low=low, high=high, verdict=verdicts.of_interval(*(own if np.isnan(more[0]) else more), 0.0))


def _verdict(rule: str, line: Line, runs: Runs, name: str) -> str:
    """By the rule of a measure; empty without a rule, or where a baseline is missing."""
    baseline = [value for _, value in line.beside]
    if rule == "error" and baseline:
        good = [run["utility.good"] for run in runs if run.get("utility.good") is not None]
        return verdicts.of_error(line.value, baseline[0], all(good) if good else None)
    if rule == "accuracy" and baseline:
        return verdicts.of_accuracy(line.value, baseline[0])
    if rule == "distance" and baseline:
        return verdicts.of_distance(*_pooled(runs, f"{line.key.rpartition('.')[0]}.less_baseline"), baseline[0])
    if rule == "sw1" and len(baseline) == 3:
        return verdicts.of_sw1(line.value, *baseline)
    return (
        verdicts.of_ranks(line.value)
        if rule == "ranks"
        else verdicts.of_epsilon(line.value)
        if rule == "epsilon"
        else ""
    )


def _pooled(runs: Runs, stem: str, middle: str = "mean") -> tuple[float, float]:
    """95 % interval of the mean over seeds, from those of each seed."""
    ends = [[run.get(f"{stem}.{end}") for end in (middle, "low", "high")] for run in runs]
    known = np.array([three for three in ends if None not in three], dtype=np.float64).reshape(-1, 3)
    if not len(known):
        return np.nan, np.nan
    half = np.sqrt(np.sum(((known[:, 2] - known[:, 1]) / 2) ** 2)) / len(known)
    value = known[:, 0].mean() if len(known) > 1 else known[0, 1:].mean()
    return float(value - half), float(value + half)


def _range(values: Sequence[float]) -> tuple[float, float]:
    return (min(values), max(values)) if len(values) > 1 else (np.nan, np.nan)


def _best(found: Sequence[Line], better: str) -> Line | None:
    """The line of the attack that finds most, or of the best model."""
    return (max if better == "high" else min)(found, key=lambda line: line.value, default=None)


def _span(values: Sequence[float], unit: str) -> str:
    """`344-556 m`, or a single value."""
    low, high = (figure_text(end, unit) for end in (min(values), max(values)))
    percent = " %" if unit == "%" else ""
    return f"{low}{percent}" if low == high else f"{low}-{high}{percent}"
