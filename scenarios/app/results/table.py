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
inconclusive  neither; of SW1 also where the true centroids fail the same test; of a map where
fewer than 12 blocks
              of ground are held out, and nothing else: a street or two decide
prevented     at chance, with a useful model, where another variant of the comparison is found
no meaningful guarantee   epsilon above 20; of moved locations within the hit radius
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, isinf, isnan, nan

import numpy as np

from netsim.columns import average_or_nan
from netsim.units import FloatPair
from scenarios.app.results.statistics import (
    MEANINGFUL,
    compute_ci95_half_width,
    compute_percent_and_wilson_interval,
    format_figure,
    group_by_label,
)
from scenarios.app.results.summary_keys import KEYS, NAME, Measure, Rule, read_value
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
"""of fewer Wilson's interval of a share of one half is wider than 50 points; blocks likewise"""

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


def judge_error(value: float, constant: float, good: bool | None = None) -> str:
    """Judge a map by its error; good: whether it beats its references, None where that is not
    known.
    """
    if not isfinite(value) or value > FAR_DB:
        return DIVERGED
    if value >= constant:
        return NOT_USEFUL
    if value <= GOOD_SHARE * constant and good is not False:
        return GOOD
    return USEFUL


def is_useful_verdict(verdict: str) -> bool:
    """Whether a model's verdict allows to conclude anything from low leakage."""
    return verdict in (GOOD, USEFUL)


def judge_interval(low: float, high: float, chance: float, near: float = NEAR_POINTS) -> str:
    """Judge a figure that grows with leakage, by its 95 % interval; near: how far above chance it
    may end at chance.
    """
    if low > chance:
        return FOUND
    if high <= chance + near:
        return AT_CHANCE
    return INCONCLUSIVE


def judge_share(hits: int, n: int, chances: Sequence[float]) -> str:
    """Judge `hits` of `n` UEs of all seeds; chances: percent, of each kind; inconclusive where none
    is known.
    """
    known_chances = [chance for chance in chances if not isnan(chance)]
    if not n or not known_chances:
        return INCONCLUSIVE
    from scipy.special import bdtrc  # here, since it loads for long

    if hits and bdtrc(hits - 1, n, max(known_chances) / 100.0) <= MOST_BY_CHANCE:
        return FOUND
    return judge_interval(-inf, compute_percent_and_wilson_interval(hits, n)[2], max(known_chances))


def judge_distance(low: float, high: float, baseline: float) -> str:
    """Judge the 95 % interval of error minus baseline."""
    return judge_interval(-high, -low, 0.0, NEAR_SHARE * baseline)


def judge_sw1(value: float, low: float, high: float, true_centroids: float) -> str:
    """Judge a sliced Wasserstein distance against the 5 % and 95 % quantiles of random guesses."""
    if value < low:
        return FOUND
    if value <= high and not true_centroids >= low:
        return AT_CHANCE
    return INCONCLUSIVE


def judge_epsilon(value: float) -> str:
    """Judge an epsilon; empty up to 20."""
    return NO_GUARANTEE if value > MEANINGFUL else ""


def judge_prevention(verdict: str, model: str, is_found_elsewhere: bool) -> str:
    """Judge the verdict of an attack beside that of its model; is_found_elsewhere: whether another
    variant of the comparison is found.
    """
    if verdict == AT_CHANCE and is_found_elsewhere and is_useful_verdict(model):
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

    name: str
    unit: str
    value: float
    low: float = nan
    high: float = nan
    baseline_values: tuple[tuple[str, float], ...] = ()
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
            return self.name
        return f"{self.name}, {self.unit}"

    @property
    def plain(self) -> str:
        """What it is, in the words of a sentence."""
        return "error over all positions" if self.name == "SW1" else self.name

    @property
    def figure(self) -> str:
        """The value alone."""
        if self.n:
            return f"{self.hits}/{self.n}"
        if isinf(self.value):
            return self.lost
        return format_figure(self.value, self.unit)

    @property
    def amount(self) -> str:
        """The figure with its unit."""
        if self.n or isinf(self.value):
            return self.figure
        return f"{self.figure} {self.unit}".rstrip()

    @property
    def interval(self) -> str:
        """`[91.2, 100 %]`; empty where there is none."""
        low, high = (format_figure(end, self.unit) for end in (self.low, self.high))
        if np.isnan(self.low) or low == high:
            return ""
        return f"[{low}, {high}{' %' if self.n else ''}]"

    @property
    def result(self) -> str:
        """Value and interval."""
        return f"{self.figure} {self.interval}".rstrip()

    @property
    def verdict_text(self) -> str:
        """The verdict, and that it is of few UEs."""
        if self.verdict == FOUND and 0 < self.n < FEW_UES:
            return FEW
        return self.verdict

    @property
    def levels(self) -> tuple[tuple[str, float], ...]:
        """The baselines by which it is judged: of a share the largest chance."""
        if self.n:
            return tuple(sorted(self.baseline_values, key=lambda pair: pair[1])[-1:])
        return self.baseline_values

    @property
    def chance(self) -> str:
        """The largest chance of a share; empty of anything else."""
        if self.n:
            return "".join(f"chance {format_figure(value)} %" for _, value in self.levels)
        return ""

    @property
    def spans(self) -> dict[str, list[float]]:
        """Name of a baseline -> its values."""
        return group_by_label(self.baseline_values)

    @property
    def baselines(self) -> dict[str, str]:
        """Name -> value, several of one name as a range."""
        return {name: _format_range(values, self.unit) for name, values in self.spans.items()}

    @property
    def baseline(self) -> str:
        """All baselines."""
        return ", ".join(f"{name} {value}" for name, value in self.baselines.items())


Lines = Sequence[Line]


def build_lines(summaries: Runs, attack: str = "") -> list[Line]:
    """Build a line for each headline that a run has a value of.

    From the attack that finds most, or from this one.
    """
    shown = [measure for measure in KEYS if measure.headline and ": " not in measure.headline]
    shown.sort(key=lambda measure: measure.rule not in _FIRST)
    line_by_key = dict[str, Line]()
    for measure in shown:
        stem, _, _ = measure.key.partition(".day.")
        share = line_by_key.get(f"{stem}.percent")  # of whose attack the day is
        only = share.attack if share else attack
        names = [name for name in _list_names(summaries, measure) if only in ("", name)]
        if names:
            pick = max if measure.better == "high" else min
            candidates = [_build_line(measure, name, summaries) for name in names]
            line_by_key[measure.key] = pick(candidates, key=lambda line: line.value)
    return list(line_by_key.values())


_FIRST = ("error", "accuracy", "ranks", "share")
"""rules of models, and of the shares of UEs that are found: their lines come first"""


def merge_lines(label_lines: Lines) -> tuple[Line, bool]:
    """Take the first of the lines of several labels, judged by the baselines of all.

    And whether they differ in chance.
    """
    levels = tuple(level for line in label_lines for level in line.levels)
    chances = {line.chance for line in label_lines}
    return replace(label_lines[0], baseline_values=levels), len(chances) > 1


def format_group_row(summaries: Runs, group: str) -> str:
    """Format figures that share a row below the table: `SINR -9.78 dB, latency 3.13 s`."""
    figures = []
    for measure in KEYS:
        start, _, word = measure.headline.partition(": ")
        if not word or start != group:
            continue
        for name in _list_names(summaries, measure):
            if value := average_over_runs(summaries, measure.to_key(name)):
                figures.append(
                    " ".join(filter(None, (name, word, format_figure(value), measure.unit)))
                )
    return ", ".join(figures)


GROUPS = tuple(dict.fromkeys(m.headline.partition(": ")[0] for m in KEYS if ": " in m.headline))
"""names of the rows below the table"""


def find_model_line(run_lines: Lines) -> Line | None:
    """Find the line of the model; None where nothing was held out."""
    return next((line for line in run_lines if line.key.startswith("utility.")), None)


def find_model_verdict(run_lines: Lines) -> str:
    """Find the verdict of the model; empty where nothing was held out."""
    return getattr(find_model_line(run_lines), "verdict", "")


def rank_at_tie(label_lines: Lines) -> tuple[bool, float, float]:
    """Rank a variant among those that leave an attack as much; the lowest is preferred.

    First those without noise that is accounted for; then the better model, of three digits; then
    the larger epsilon, which is less noise.
    """
    spent = [line.value for line in label_lines if line.key.startswith("privacy.")]
    model = find_model_line(label_lines)
    loss = inf
    if model:
        loss = float(f"{model.value:.3g}") * (1.0 if model.unit == "dB" else -1.0)
    return bool(spent), loss, -max(spent, default=0.0)


def average_over_runs(runs: Runs, key: str) -> float:
    """Average a value over the runs that have it; NaN of none."""
    return average_or_nan(np.array(_list_values(runs, key)))


def _list_values(runs: Runs, key: str) -> list[float]:
    """List values of a key over the runs that have it, infinite ones among them."""
    return [value for run in runs if not isnan(value := read_value(run, key))]


def _list_names(runs: Runs, measure: Measure) -> list[str]:
    """NAME of a measure, empty for a single key, of which some run has a value."""
    names = dict.fromkeys(measure.parse_name(key) for run in runs for key in run)
    return [n for n in names if n is not None and _list_values(runs, measure.to_key(n))]


def _build_line(measure: Measure, name: str, runs: Runs) -> Line:
    """Build the line of one part; of a share over the UEs of all seeds."""
    key = measure.to_key(name)
    scale = 1.0
    unit = measure.unit
    if unit == "bit/s":
        scale = 1e-6
        unit = "Mbit/s"
    values = [scale * value for value in _list_values(runs, key)]
    lost = measure.lost
    if len(values) > 1:
        lost += f" in {sum(map(isinf, values))} of {len(values)}"
    baselines = []
    for word, baseline_key in measure.beside:
        baseline = average_over_runs(runs, baseline_key.replace(NAME, name))
        if not isnan(baseline):
            baselines.append((word, baseline))
    headline = measure.headline.format(
        near=format_figure(average_over_runs(runs, "leakage.hit_radius_m"))
    )
    attack = name
    if measure.group not in ATTACKED:
        attack = ""
        if name:
            headline += f" ({name})"
    combine = np.max if measure.rule == "epsilon" else np.mean
    low, high = (min(values), max(values)) if len(values) > 1 else (nan, nan)
    line = Line(
        headline,
        unit,
        float(combine(values)),
        low,
        high,
        tuple(baselines),
        attack=attack,
        key=key,
        lost=lost,
    )
    if measure.rule == "share":
        return _add_share(line, runs, measure.count.replace(NAME, name))
    if measure.rule == "area":
        return _add_auc_interval(line, runs)
    if measure.rule in _ENDS:
        stem, _, _ = key.rpartition(".")
        low, high = (scale * average_over_runs(runs, stem + end) for end in _ENDS[measure.rule])
        line = replace(line, low=low, high=high)
    return replace(line, verdict=_judge_line(measure.rule, line, runs))


_ENDS = {"quantiles": (".q05", ".q95"), "rate": (".low", ".high")}
ATTACKED = ("attack", "tracking", "linking", "identities", "membership")
"""groups of keys that are named by an attack"""


def _add_share(line: Line, runs: Runs, count: str) -> Line:
    """Add with hits of all UEs, and Wilson's interval. Users of a trace are the same people with
    every seed: each counts once, by its mean over seeds.
    """
    shares = [
        (float(run[line.key]), int(run[count]))
        for run in runs
        if run.get(line.key) is not None and run.get(count)
    ]
    n = sum(n for _, n in shares)
    hits = round(sum(share * n / 100 for share, n in shares))
    if len(shares) > 1 and any("homes.none" in run for run in runs):
        n = max(n for _, n in shares)
        hits = int(hits / len(shares) + 0.5)  # half of the seeds are enough
    verdict = judge_share(hits, n, [value for _, value in line.baseline_values])
    _, low, high = compute_percent_and_wilson_interval(hits, n)
    return replace(line, hits=hits, n=n, low=low, high=high, verdict=verdict)


def _add_auc_interval(line: Line, runs: Runs) -> Line:
    """Add the interval of an AUC, and its verdict.

    Its chance is 0.5, or the AUC before training where that is known.
    """
    stem = line.key.removesuffix(".last")
    low, high = _pool_interval(runs, stem, "last")
    low_gain, high_gain = _pool_interval(runs, f"{stem}_difference", "last")
    if np.isnan(low_gain):
        low_gain = low - 0.5
        high_gain = high - 0.5
    return replace(
        line, low=low, high=high, verdict=judge_interval(100 * low_gain, 100 * high_gain, 0.0)
    )


def _judge_line(rule: Rule | None, line: Line, runs: Runs) -> str:
    """Judge a line by the rule of a measure.

    Empty without a rule, or where a baseline is missing.
    """
    value = line.value
    if rule == "ranks":
        return USEFUL if value >= USEFUL_RANKS else NOT_USEFUL
    if rule == "epsilon":
        if line.unit == "1/m":
            return judge_epsilon(value * average_over_runs(runs, "leakage.hit_radius_m"))
        return judge_epsilon(value)
    baselines = dict(line.baseline_values)
    values = [baseline for _, baseline in line.baseline_values]
    if not values:
        return ""
    if rule == "error":
        if average_over_runs(runs, "utility.held_out.blocks") < FEW_UES:
            return INCONCLUSIVE
        good = [run["utility.good"] for run in runs if run.get("utility.good") is not None]
        is_good = all(good) if good else value <= baselines.get("three-number law", inf)
        return judge_error(value, values[0], is_good)
    if rule == "accuracy":
        return USEFUL if value > values[0] else NOT_USEFUL
    if rule == "distance":
        stem, _, _ = line.key.rpartition(".")
        low, high = _pool_interval(runs, f"{stem}.less_baseline")
        verdict = judge_distance(low, high, values[0])
        if verdict == FOUND and isinf(value):
            return INCONCLUSIVE
        return verdict
    if rule == "sw1" and len(values) == 3:
        return judge_sw1(value, *values)
    if rule == "list":
        return _judge_precision_gap(line, runs, baselines.get("random", 0.0))
    return ""


def _judge_precision_gap(line: Line, runs: Runs, uniform: float) -> str:
    """Judge paired by seed: precision for those who take part less that for others, with Student's
    95 % interval.

    Inconclusive where more than half of uniformly random places are right.
    """
    aside = line.key.replace(".listed.", ".listed.aside.")
    less = np.array([run[line.key] - run[aside] for run in runs if run.get(aside) is not None])
    if not len(less) or uniform > _MOST_UNIFORM:
        return INCONCLUSIVE
    mean_less = float(less.mean())
    half = compute_ci95_half_width(less)
    return judge_interval(mean_less - half, mean_less + half, 0.0)


_MOST_UNIFORM = 50.0
"""percent of random places that are right, above which a list cannot show anything"""


def _pool_interval(runs: Runs, stem: str, middle: str = "mean") -> FloatPair:
    """Pool the 95 % interval of the mean over seeds, from those of each seed."""
    ends = [[run.get(f"{stem}.{end}") for end in (middle, "low", "high")] for run in runs]
    intervals = np.array([interval for interval in ends if None not in interval], dtype=float)
    n = len(intervals)
    if not n:
        return nan, nan
    mean, low, high = intervals.T
    half = np.sqrt(np.sum(((high - low) / 2) ** 2)) / n
    value = intervals[0, 1:].mean() if n == 1 else mean.mean()
    return float(value - half), float(value + half)


def _format_range(values: Sequence[float], unit: str) -> str:
    """Format values as `344-556 m`, or a single value."""
    ends = dict.fromkeys(format_figure(end, unit) for end in (min(values), max(values)))
    return "-".join(ends) + " %" * (unit == "%")
