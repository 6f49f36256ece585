"""The lines of a result: what was measured, its value with an interval, its baselines, the verdict
and the attack.

Terminal, page, sweep and comparison draw the same lines, of one run or of the seeds of one label.
The verdicts are a short fixed list of words, each with its rule:

good          map error at most 0.7 x the constant's, and no worse than a law of three numbers where
that is scored
useful        error below the constant's; accuracy above the most frequent class; density rank
correlation >= 0.2
not useful    any other model
diverged      model not finite, or RMSE above 1000 dB
found         share: so many hits or more (UEs of all seeds) have a probability of at most 5 % by
the largest chance
              (binomial, exact). Distance: finite, and 95 % interval of error minus baseline below
              0. SW1: below the 5 % quantile of random guesses. AUC: lower end above chance
at chance     not found, and share or AUC: upper end within five points of chance; distance: no end
more than 10 % of
              the baseline below it; SW1: inside the band of random guesses
found (few)   found of fewer than 12 UEs: the 95 % interval may span more than half of all shares
inconclusive  neither; of SW1 also where the true centroids fail the same test
prevented     at chance, with a useful model, where another variant of the comparison is found
no meaningful guarantee   epsilon above 20; of moved locations within the hit radius
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, isinf, isnan

import numpy as np

from scenarios.app.results.statistics import MEANINGFUL, figure_text, half_width, wilson
from scenarios.app.results.summary_keys import KEYS, NAME, Measure, Rule, value_in
from scenarios.app.study import Record

GOOD = "good"
USEFUL = "useful"
NOT_USEFUL = "not useful"
DIVERGED = "diverged"
FOUND = "found"
FEW = f"{FOUND} (few)"
AT_CHANCE = "at chance"
INCONCLUSIVE = "inconclusive"
PREVENTED = "prevented"
NO_GUARANTEE = "no meaningful guarantee"
FEW_UES = 12
"""of fewer Wilson's interval of a share of one half is wider than 50 points"""

GOOD_SHARE = 0.7
FAR_DB = 1000.0
USEFUL_RANKS = 0.2
MOST_BY_CHANCE = 0.05
"""probability of so many hits by chance, at which a share is found; Wilson's interval begins above
chance too early"""
NEAR_POINTS = 5.0
NEAR_SHARE = 0.1
"""how far above chance the end of an interval may lie at chance: percentage points, and as a share
of a distance"""


def of_error(value: float, constant: float, good: bool | None = None) -> str:
    """Of a map's error; good: whether it beats its references, None where that is not known."""
    if not isfinite(value) or value > FAR_DB:
        return DIVERGED
    if value >= constant:
        return NOT_USEFUL
    if value <= GOOD_SHARE * constant and good is not False:
        return GOOD
    return USEFUL


def is_useful(verdict: str) -> bool:
    """Whether a model's verdict allows to conclude anything from low leakage."""
    return verdict in (GOOD, USEFUL)


def of_interval(low: float, high: float, chance: float, near: float = NEAR_POINTS) -> str:
    """Of a figure that grows with leakage, by its 95 % interval; near: how far above chance it may
    end at chance.
    """
    if low > chance:
        return FOUND
    if high <= chance + near:
        return AT_CHANCE
    return INCONCLUSIVE


def of_share(hits: int, n: int, chances: Sequence[float]) -> str:
    """Of `hits` of `n` UEs of all seeds; chances: percent, of each kind; inconclusive where none is
    known.
    """
    known = [chance for chance in chances if not isnan(chance)]
    if not n or not known:
        return INCONCLUSIVE
    from scipy.stats import binom

    if hits and binom.sf(hits - 1, n, max(known) / 100.0) <= MOST_BY_CHANCE:
        return FOUND
    return of_interval(-np.inf, wilson(hits, n)[2], max(known))


def of_distance(low: float, high: float, baseline: float) -> str:
    """Of the 95 % interval of error minus baseline."""
    return of_interval(-high, -low, 0.0, NEAR_SHARE * baseline)


def of_sw1(value: float, low: float, high: float, true_centroids: float) -> str:
    """Of a sliced Wasserstein distance against the 5 % and 95 % quantiles of random guesses."""
    if value < low:
        return FOUND
    if value <= high and not true_centroids >= low:
        return AT_CHANCE
    return INCONCLUSIVE


def of_epsilon(value: float) -> str:
    """Of an epsilon; empty up to 20."""
    return NO_GUARANTEE if value > MEANINGFUL else ""


def prevents(verdict: str, model: str, found: bool) -> str:
    """The verdict of an attack beside that of its model; found: whether another variant of the
    comparison is found.
    """
    if verdict == AT_CHANCE and found and is_useful(model):
        return PREVENTED
    return verdict


Summary = Record
Runs = Sequence[Summary]
"""summaries of a label's runs"""
ByLabel = Mapping[str, Runs]


@dataclass(frozen=True)
class Line:
    """A figure of one run, or its mean over the seeds of a label.

    low, high : 95 % interval; over seeds of anything but a share their range; NaN where there is
    none. beside : names and values of baselines. hits, n : of a share, over all seeds. key : its
    key in the summary. lost : what an infinite value is called, and of how many seeds.
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
    lost: str = "∞"

    @property
    def title(self) -> str:
        """What it is, with its unit."""
        if self.n or not self.unit:
            return self.what
        return f"{self.what}, {self.unit}"

    @property
    def plain(self) -> str:
        """What it is, in the words of a sentence."""
        return "error over all positions" if self.what == "SW1" else self.what

    @property
    def figure(self) -> str:
        """The value alone."""
        if self.n:
            return f"{self.hits}/{self.n}"
        if isinf(self.value):
            return self.lost
        return figure_text(self.value, self.unit)

    @property
    def amount(self) -> str:
        """The figure with its unit."""
        if self.n or isinf(self.value):
            return self.figure
        return f"{self.figure} {self.unit}".rstrip()

    @property
    def interval(self) -> str:
        """`[91.2, 100 %]`; empty where there is none."""
        low, high = (figure_text(end, self.unit) for end in (self.low, self.high))
        if np.isnan(self.low) or low == high:
            return ""
        return f"[{low}, {high}{' %' if self.n else ''}]"

    @property
    def result(self) -> str:
        """Value and interval."""
        return f"{self.figure} {self.interval}".rstrip()

    @property
    def told(self) -> str:
        """The verdict, and that it is of few UEs."""
        if self.verdict == FOUND and 0 < self.n < FEW_UES:
            return FEW
        return self.verdict

    @property
    def levels(self) -> tuple[tuple[str, float], ...]:
        """The baselines by which it is judged: of a share the largest chance."""
        if self.n:
            return tuple(sorted(self.beside, key=lambda pair: pair[1])[-1:])
        return self.beside

    @property
    def chance(self) -> str:
        """The largest chance of a share; empty of anything else."""
        if self.n:
            return "".join(f"chance {figure_text(value)} %" for _, value in self.levels)
        return ""

    @property
    def spans(self) -> dict[str, list[float]]:
        """Name of a baseline -> its values."""
        named: dict[str, list[float]] = {}
        for name, value in self.beside:
            named.setdefault(name, []).append(value)
        return named

    @property
    def baselines(self) -> dict[str, str]:
        """Name -> value, several of one name as a range."""
        return {name: _span(values, self.unit) for name, values in self.spans.items()}

    @property
    def baseline(self) -> str:
        """All baselines."""
        return ", ".join(f"{name} {value}" for name, value in self.baselines.items())


def lines(summaries: Runs, attack: str = "") -> list[Line]:
    """A line for each headline that a run has a value of, from the attack that finds most, or from
    this one.
    """
    shown = [measure for measure in KEYS if measure.headline and ": " not in measure.headline]
    shown.sort(key=lambda measure: measure.rule not in _FIRST)
    found = dict[str, Line]()
    for m in shown:
        share = found.get(f"{m.key.partition('.day.')[0]}.percent")  # of whose attack the day is
        only = share.attack if share else attack
        names = [name for name in _names(summaries, m) if only in ("", name)]
        if line := _best([_line(m, name, summaries) for name in names], m.better):
            found[m.key] = line
    return list(found.values())


_FIRST = ("error", "accuracy", "ranks", "share")
"""rules of models, and of the shares of UEs that are found: their lines come first"""


def together(of: Sequence[Line]) -> tuple[Line, bool]:
    """The first of the lines of several labels, judged by the baselines of all; and whether they
    differ in chance.
    """
    return replace(of[0], beside=tuple(pair for one in of for pair in one.levels)), len(
        {one.chance for one in of}
    ) > 1


def row(summaries: Runs, group: str) -> str:
    """Figures that share a row below the table, such as those of the uplink: `SINR -9.78 dB,
    latency 3.13 s`.
    """
    return ", ".join(
        " ".join(filter(None, (name, m.headline.partition(": ")[2], figure_text(value), m.unit)))
        for m in KEYS
        if m.headline.startswith(f"{group}: ")
        for name in _names(summaries, m)
        if (value := mean(summaries, m.of(name)))
    )


GROUPS = tuple(dict.fromkeys(m.headline.partition(": ")[0] for m in KEYS if ": " in m.headline))
"""names of the rows below the table"""


def model_line(of: Sequence[Line]) -> Line | None:
    """The line of the model; None where nothing was held out."""
    return next((line for line in of if line.key.startswith("utility.")), None)


def model_verdict(of: Sequence[Line]) -> str:
    """The verdict of the model; empty where nothing was held out."""
    return getattr(model_line(of), "verdict", "")


def mean(runs: Runs, key: str) -> float:
    """Mean of a value over the runs that have it; NaN of none."""
    known = _values(runs, key)
    if known:
        return float(np.mean(known))
    return np.nan


def _values(runs: Runs, key: str) -> list[float]:
    """Values of a key over the runs that have it, infinite ones among them."""
    return [value for run in runs if not isnan(value := value_in(run, key))]


def _names(runs: Runs, measure: Measure) -> list[str]:
    """NAME of a measure, empty for a single key, of which some run has a value."""
    every = dict.fromkeys(measure.name_in(key) for run in runs for key in run)
    return [n for n in every if n is not None and _values(runs, measure.of(n))]


def _line(measure: Measure, name: str, runs: Runs) -> Line:
    """The line of one part; of a share over the UEs of all seeds."""
    key = measure.of(name)
    scale, unit = (1e-6, "Mbit/s") if measure.unit == "bit/s" else (1.0, measure.unit)
    values = [scale * value for value in _values(runs, key)]
    if len(values) > 1:
        times = f" in {sum(map(isinf, values))} of {len(values)}"
    else:
        times = ""
    beside = tuple((word, mean(runs, other.replace(NAME, name))) for word, other in measure.beside)
    what = measure.headline.format(near=figure_text(mean(runs, "leakage.hit_radius_m")))
    attacks = measure.group in ATTACKED
    line = Line(
        what if attacks or not name else f"{what} ({name})",
        unit,
        float((np.max if measure.rule == "epsilon" else np.mean)(values)),
        *_range(values),
        tuple(pair for pair in beside if not np.isnan(pair[1])),
        attack=name if attacks else "",
        key=key,
        lost=f"{measure.lost}{times}",
    )
    if measure.rule == "share":
        line = _share(line, runs, measure.count.replace(NAME, name))
    elif measure.rule == "area":
        line = _area(line, runs)
    elif measure.rule in _ENDS:
        low, high = (
            scale * mean(runs, key.rpartition(".")[0] + end) for end in _ENDS[measure.rule]
        )
        line = replace(line, low=low, high=high)
    return replace(line, verdict=line.verdict or _verdict(measure.rule, line, runs))


_ENDS = {"quantiles": (".q05", ".q95"), "rate": (".low", ".high")}
ATTACKED = ("attack", "tracking", "linking", "identities", "membership")
"""groups of keys that are named by an attack"""


def _share(line: Line, runs: Runs, count: str) -> Line:
    """With hits of all UEs, and Wilson's interval. Users of a trace are the same people with every
    seed: each counts once, by its mean over seeds.
    """
    known = [
        (float(run[line.key]), int(run[count]))
        for run in runs
        if run.get(line.key) is not None and run.get(count)
    ]
    n = sum(n for _, n in known)
    hits = round(sum(share * n / 100 for share, n in known))
    if len(known) > 1 and any("homes.none" in run for run in runs):
        n = max(n for _, n in known)
        hits = int(hits / len(known) + 0.5)  # half of the seeds are enough
    verdict = of_share(hits, n, [value for _, value in line.beside])
    _, low, high = wilson(hits, n)
    return replace(line, hits=hits, n=n, low=low, high=high, verdict=verdict)


def _area(line: Line, runs: Runs) -> Line:
    """With the interval of an AUC; its chance is 0.5, or the AUC before training where that is
    known.
    """
    stem = line.key.removesuffix(".last")
    low, high = _pooled(runs, stem, "last")
    more = _pooled(runs, f"{stem}_difference", "last")
    if np.isnan(more[0]):
        ends = (low - 0.5, high - 0.5)
    else:
        ends = more
    return replace(line, low=low, high=high, verdict=of_interval(100 * ends[0], 100 * ends[1], 0.0))


def _verdict(rule: Rule | None, line: Line, runs: Runs) -> str:
    """By the rule of a measure; empty without a rule, or where a baseline is missing."""
    baseline = [value for _, value in line.beside]
    if rule == "error" and baseline:
        good = [run["utility.good"] for run in runs if run.get("utility.good") is not None]
        law_db = dict(line.beside).get("three-number law", np.inf)
        return of_error(line.value, baseline[0], all(good) if good else line.value <= law_db)
    if rule == "accuracy" and baseline:
        if line.value > baseline[0]:
            return USEFUL
        return NOT_USEFUL
    if rule == "distance" and baseline:
        verdict = of_distance(
            *_pooled(runs, f"{line.key.rpartition('.')[0]}.less_baseline"), baseline[0]
        )
        if verdict == FOUND and isinf(line.value):
            return INCONCLUSIVE
        return verdict
    if rule == "sw1" and len(baseline) == 3:
        return of_sw1(line.value, *baseline)
    if rule == "list" and baseline:
        return _list_verdict(line, runs, dict(line.beside).get("random", 0.0))
    if rule == "ranks":
        return USEFUL if line.value >= USEFUL_RANKS else NOT_USEFUL
    within_m = mean(runs, "leakage.hit_radius_m") if line.unit == "1/m" else 1.0
    if rule == "epsilon":
        return of_epsilon(line.value * within_m)
    return ""


def _list_verdict(line: Line, runs: Runs, uniform: float) -> str:
    """Paired by seed: precision for those who take part less that for others, with Student's 95 %
    interval.

    Inconclusive where more than half of uniformly random places are right.
    """
    aside = line.key.replace(".listed.", ".listed.aside.")
    less = np.array([run[line.key] - run[aside] for run in runs if run.get(aside) is not None])
    if not len(less) or uniform > _MOST_UNIFORM:
        return INCONCLUSIVE
    mean_less = float(less.mean())
    half = half_width(less)
    return of_interval(mean_less - half, mean_less + half, 0.0)


_MOST_UNIFORM = 50.0
"""percent of random places that are right, above which a list cannot show anything"""


def _pooled(runs: Runs, stem: str, middle: str = "mean") -> tuple[float, float]:
    """95 % interval of the mean over seeds, from those of each seed."""
    ends = [[run.get(f"{stem}.{end}") for end in (middle, "low", "high")] for run in runs]
    known = np.array([three for three in ends if None not in three], dtype=float).reshape(-1, 3)
    if not len(known):
        return np.nan, np.nan
    half = np.sqrt(np.sum(((known[:, 2] - known[:, 1]) / 2) ** 2)) / len(known)
    if len(known) > 1:
        value = known[:, 0].mean()
    else:
        value = known[0, 1:].mean()
    return float(value - half), float(value + half)


def _range(values: Sequence[float]) -> tuple[float, float]:
    if len(values) > 1:
        return (min(values), max(values))
    return (np.nan, np.nan)


def _best(found: Sequence[Line], better: str) -> Line | None:
    """The line of the attack that finds most, or of the best model."""
    return (max if better == "high" else min)(found, key=lambda line: line.value, default=None)


def _span(values: Sequence[float], unit: str) -> str:
    """`344-556 m`, or a single value."""
    low, high = (figure_text(end, unit) for end in (min(values), max(values)))
    percent = " %" if unit == "%" else ""
    if low == high:
        return f"{low}{percent}"
    return f"{low}-{high}{percent}"
