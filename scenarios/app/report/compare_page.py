"""The page that compares runs: the answer, privacy against utility, curves over time, tables, what
differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np

from netsim.errors import BadInput
from netsim.units import FloatArray
from scenarios.app.report.charts import (
    ACCURACY,
    BOTH,
    EPSILON,
    ERROR,
    HOME,
    NEARER,
    RANK,
    RMSE,
    SW1,
    UPLINK,
    WORK,
    Chart,
    Law,
    Quantity,
    Series,
)
from scenarios.app.report.drawn_points import draws_panels
from scenarios.app.report.plot import (
    DARK,
    DASHES,
    GREY,
    Axes,
    Chapter,
    CurveStyle,
    Figure,
    Panel,
    block,
    configuration,
    line,
    looks,
    marks,
    mosaic,
    numbers,
    outcome_page,
    plain,
    table,
    wide,
)
from scenarios.app.report.run_page import SELECTED, Curves, curves, distributions
from scenarios.app.report.tables import (
    compared_densities,
    differences_table,
    figures_table,
    trace_said,
)
from scenarios.app.results.folder import STUDY
from scenarios.app.results.gathered import Gathered, drawn_sentence
from scenarios.app.results.outcome import Cell, Cells, Mark, leading, runs_outcome
from scenarios.app.results.read import Manifest, Run, load
from scenarios.app.results.shown import labels_of
from scenarios.app.results.statistics import figure_text, mean_text, quantile
from scenarios.app.results.table import ByLabel, Line, is_useful, lines, model_line, together
from scenarios.app.study import Fields
from scenarios.app.study.yaml_document import read

MOST_TIMES = 400  # of merges that are drawn
_NONE: Series = (np.zeros(0), np.zeros(0))
_SEEDS = (
    " A line per label: the median over seeds, the band their quartiles, at the times of merges; "
    "until the next merge of a run its last value counts."
)
PROGRESS = Chart(
    "progress",
    "What is known, what the model is worth, and what was spent",
    (HOME, RMSE, ACCURACY, RANK, EPSILON, ERROR),
    "Of the attack that finds most with each label; epsilon where noise was drawn.",
    height=280,
)
UPLINKS = Chart(
    "uplink",
    "Uplink of every label",
    UPLINK,
    "Latency is from the server's request to the last bit; energy is that of all "
    "uplinks and all training.",
    height=280,
)
OF_ATTACK = (HOME, WORK, BOTH, ERROR, SW1, NEARER)


@dataclass(frozen=True, eq=False)
class Member:
    """A run of a comparison; trends: (attack, law) -> times (n,) of merges and medians over tracks
    (n,).

    Laws of the model and of the uplink have no attack. curves : distributions of a radio study, by
    selection.
    """

    label: str
    summary: Fields
    study: Fields = field(default_factory=dict)
    attacks: Sequence[str] = ()
    hit_radius_m: float = 0.0
    trends: dict[tuple[str, Law], Series] = field(default_factory=dict)
    curves: dict[str, Curves] = field(default_factory=dict)


def member(label: str, run: Run) -> Member:
    """The run's trends, without its tables."""
    trends = {}
    for quantity in dict.fromkeys((*OF_ATTACK, *PROGRESS.quantities, *UPLINKS.quantities)):
        for name in run.attacks if quantity in OF_ATTACK else [""]:
            for law in (quantity.law, *(beside.of for beside in quantity.beside)):
                number, values = law(run, name)
                trends[name, law] = run.moment_s(number), quantile(values, 0.5)
    return Member(label, run.summary, run.study, run.attacks, run.hit_radius_m, trends)


def comparison(of: Gathered, place: Path, command: str = "", reach: float | None = None) -> str:
    """The page; place: the folder in which it will lie. reach : RMSE (dB) or accuracy (%) whose
    first time is shown.
    """
    outcome = runs_outcome(of, place)
    labels = labels_of(of.summaries)
    if of.trained:
        return outcome_page(
            outcome, [Chapter("tradeoffs", "Settings", draws_panels(place))], [command]
        )
    drawn = [of.summaries[k] for k in of.drawn]
    if of.radio:
        shown = [
            Member(label, run.summary, run.study, curves={of: curves(run, of) for of in SELECTED})
            for label, run in _loaded(of)
        ]
    elif (
        "utility.rank_correlation" in of.summaries[0][1]
    ):  # such runs are many: their tables are left unread
        study_of = cache(lambda label: read(dict(reversed(of.runs))[label] / STUDY).data)
        shown = [Member(label, summary, study_of(label)) for label, summary in drawn]
    else:
        shown = [member(label, run) for label, run in _loaded(of)]
    studies = {m.label: m.study for m in reversed(shown)}
    names = [label for label in labels if label in studies]
    attacks = enumerate(dict.fromkeys(name for m in shown for name in m.attacks))
    chapters = [
        *(
            _of_radio(shown, names, reach)
            if of.radio
            else _of_learning(of, shown, labels_of(drawn), place, reach)
        ),
        Chapter("variants-all", "All numbers", [figures_table({k: labels[k] for k in names})]),
        Chapter(
            "differences-all",
            "What differs",
            [differences_table({label: studies[label] for label in names})],
        ),
        Chapter(
            "attacks",
            "Attack by attack",
            [p for k, name in attacks for p in attack_panels(shown, name, k)],
        ),
    ]
    manifests = [Manifest.of(path) for _, path in of.runs]
    facts = {
        "runs": str(len(manifests)),
        "seeds": ", ".join(dict.fromkeys(str(m.seed) for m in manifests)),
        "command": command or ", ".join(dict.fromkeys(m.command for m in manifests)),
        "simulated span": ", ".join(dict.fromkeys(m.period for m in manifests)),
        "pages of single runs": (
            "the option --pages draws them too, and this page then leads to them"
        ),
    }
    papers = dict.fromkeys(
        text
        for m in shown
        for text in (str(m.study.get("paper") or ""), trace_said(m.study))
        if text
    )
    sampled = drawn_sentence(len(manifests), len(of.drawn))
    return outcome_page(outcome, [*chapters, configuration(facts)], papers, says=sampled)


def _loaded(of: Gathered) -> Iterator[tuple[str, Run]]:
    """Label and run of those that are drawn, one at a time: tables are large. Runs of a label share
    a study.
    """
    studies = dict[str, Fields]()
    for label, path in (of.runs[place] for place in of.drawn):
        run = load(path, studies.get(label))
        studies.setdefault(label, run.study)
        yield label, run


def _of_radio(shown: Sequence[Member], names: Sequence[str], reach: float | None) -> list[Chapter]:
    """The chapters of radio studies."""
    if reach is not None:
        raise no_goal(reach)
    own = [
        (look, [m.curves["all"] for m in shown if m.label == look.name]) for look in looks(names)
    ]
    own.append((SELECTED["measured"], [m.curves["measured"] for m in shown]))
    return [Chapter("figures", "Distributions", [distributions(own)])]


def _of_learning(
    of: Gathered, shown: Sequence[Member], drawn: ByLabel, place: Path, reach: float | None
) -> list[Chapter]:
    """The chapters of runs that learn."""
    strongest = {
        label: getattr(leading(lines(runs)), "attack", "") for label, runs in drawn.items()
    }
    over = [] if reach is None else [time_table(shown, strongest, reach)]
    curves_over = [
        panel for chart in (PROGRESS, UPLINKS) for panel in drawn_over_time(shown, chart, strongest)
    ]
    draws = draws_panels(place)
    return [
        Chapter(
            "tradeoffs",
            "Privacy and utility",
            [tradeoff_panel(labels_of(of.summaries), of.curves), *draws],
        ),
        Chapter("densities", "Densities", [*compared_densities(of.runs)]),
        Chapter("time", "Over time", [*over, *curves_over]),
    ]


# -- curves over time


def drawn_over_time(
    members: Sequence[Member], chart: Chart, attacks: Mapping[str, str]
) -> list[Panel]:
    """A chart with a line per label; attacks: the attack of each label."""
    unit, second = time_unit(members)
    shares = (
        HOME,
        WORK,
        BOTH,
    )  # whose chances are drawn from the least to the largest of all labels
    shared = [
        replace(
            q, beside=tuple(replace(b, each=False) for b in q.beside if q in shares or not b.each)
        )
        for q in chart.quantities
    ]

    def draws(law: Law, look: CurveStyle | None) -> tuple[list[float | None], FloatArray]:
        of = [m for m in members if look is None or m.label == look.name]
        time_s, grid = laid(
            [m.trends.get((attacks[m.label], law), m.trends.get(("", law), _NONE)) for m in of]
        )
        return numbers(time_s / second), grid

    axis = {"title": f"simulated time ({unit})", "rangemode": "tozero"}
    return replace(chart, quantities=shared).drawn(
        looks(attacks), draws, axis, members[0].hit_radius_m, _SEEDS
    )


def attack_panels(members: Sequence[Member], name: str, k: int = 0) -> list[Panel]:
    """An attack by itself."""
    caption = "Each run counts with its median over UEs."
    chart = Chart(f"leakage-{k}", f"The attack {name} over time", OF_ATTACK, caption)
    return drawn_over_time(members, chart, {m.label: name for m in members})


def time_unit(members: Sequence[Member]) -> tuple[str, float]:
    """The unit of an axis of time, and its seconds."""
    longest_s = max(
        (t.max(initial=0.0) for m in members for t, _ in m.trends.values()), default=0.0
    )
    for unit, second in (("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if longest_s >= 3 * second:
            return unit, second
    return "seconds", 1.0


def laid(series: Sequence[Series]) -> Series:
    """Times of any of the series, and the latest value of each then (n_time, n_series); at most
    MOST_TIMES times.
    """
    time_s = np.unique(np.concatenate([t for t, _ in series]))
    if len(time_s) > MOST_TIMES:
        time_s = np.linspace(time_s[0], time_s[-1], MOST_TIMES)
    return time_s, np.column_stack([latest(one, time_s) for one in series])


def latest(series: Series, time_s: FloatArray) -> FloatArray:
    """The last known values of a series at some times (n,); NaN before the first, and at no
    time.
    """
    known = ~np.isnan(series[1])
    at_s = series[0][known]
    values = series[1][known]
    at = np.where(np.isnan(time_s), 0, np.searchsorted(at_s, time_s, side="right"))
    return np.append(np.nan, values)[at]


# -- how soon models are good


def no_goal(reach: float) -> BadInput:
    """The error for runs without a measure."""
    return BadInput(
        f"--reach {reach:g}: none of these runs has an RMSE in dB or an accuracy in %; leave it out"
    )


def time_table(members: Sequence[Member], attack: Mapping[str, str], reach: float) -> str:
    """A row per label: the time at which models reach an RMSE or an accuracy, and the homes that
    are named by then.

    Raises BadInput where no run has either.
    """
    unit, second = time_unit(members)
    known = [
        q for q in (RMSE, ACCURACY) if any(np.isfinite(_series(m, q)[1]).any() for m in members)
    ]
    if not known:
        raise no_goal(reach)
    quantity = known[0]
    word, sign = ("an RMSE of at most", -1) if quantity is RMSE else ("an accuracy of at least", 1)
    rows: Cells = []
    for label, name in attack.items():
        own = [m for m in members if m.label == label]
        models = [_series(m, quantity) for m in own]
        times_s = np.array(
            [
                np.append(time_s[sign * values >= sign * reach], np.nan)[0]
                for time_s, values in models
            ]
        )
        named = [
            latest(_series(m, HOME, name), t)[0] for m, t in zip(own, times_s[:, None], strict=True)
        ]
        reached = f"{np.isfinite(times_s).sum()} of {len(own)}"
        rows.append([label, _between(times_s / second), reached, _between(np.array(named))])
    heads = ["variant", f"time to it ({unit})", "seeds that reach it", "homes named by then (%)"]
    says = (
        "Simulated time until the server first has such a model: mean over the seeds that reach "
        "it, with a 95 % interval (Student's t)."
    )
    title = f"Time to {word} {figure_text(reach)} {quantity.unit}"
    return table(title, heads, rows, "times") + block("paragraphs", [says], "says")


def _series(of: Member, quantity: Quantity, attack: str = "") -> Series:
    """A run's values of a quantity over time; empty where it has none."""
    return of.trends.get((attack, quantity.law), _NONE)


def _between(values: FloatArray) -> Cell:
    """The mean of the known values."""
    known = values[np.isfinite(values)]
    if len(known):
        return Mark(mean_text(known), float(known.mean()))
    return np.nan


# -- leakage against utility

LEAKS = ("both_located", "home_located", "centroid_error_m", "sw1_m", "auc", "place_error_m")
"""measures of leakage that stand against the model, where runs have them"""
Pairs = Mapping[str, tuple[Line, Line]]
"""label -> the lines of its model and of its leakage"""


def tradeoff_panel(labels: ByLabel, curves: Mapping[str, Sequence[str]] | None = None) -> Panel:
    """A mark per label: what the strongest attack finds against how good the model is; lines join
    labels of a curve.
    """
    title = "Privacy against utility"
    cells = []
    models = []
    every = {label: lines(runs) for label, runs in labels.items()}
    for stem in LEAKS:
        pairs = {
            label: (model, leak)
            for label, of in every.items()
            if (model := model_line(of))
            for leak in of
            if leak.key.split(".")[-2] == stem and np.isfinite(model.value + leak.value)
        }
        if pairs:
            cells.append(_tradeoff_axes(pairs, curves or {}, [*labels]))
            models += [model for model, _ in pairs.values()]
    if not cells:
        return Panel(
            "tradeoff",
            title,
            "No label has both an attack's result and a finite measure of its model.",
        )
    better = "left" if models[0].unit == "dB" else "right"
    x_axis: Figure = {
        "title": f"{models[0].title}<br><i>{better}: a better model</i>",
        "hoverformat": ",.3~r",
    }
    if wide(x for cell in cells for trace in cell.traces for x in trace["x"]):
        x_axis["type"] = "log"
    caption = (
        "One mark per label: the mean over seeds, bars over their range; of shares, the 95 % "
        "interval. Hollow: the model is not useful. Lines are baselines, two where labels differ "
        "in one: then the smallest and the largest."
    )
    return Panel("tradeoff", title, caption, mosaic(cells, x_axis, 400, closest=True))


def _tradeoff_axes(
    pairs: Pairs, curves: Mapping[str, Sequence[str]], labels: Sequence[str]
) -> Axes:
    """A measure of leakage against that of the model: labels, the curves that join them, and
    baselines.
    """
    traces = [_point(look, *pairs[look.name]) for look in looks(labels) if look.name in pairs]
    for name, of in curves.items():
        along = [pairs[label] for label in of if label in pairs]
        x, y = (np.array([pair[k].value for pair in along]) for k in (0, 1))
        traces.append(line(CurveStyle(name, GREY), numbers(x), y, mode="lines", hoverinfo="name"))
    levels = [together([both[k] for both in pairs.values()])[0] for k in (0, 1)]
    shown = [
        [
            *(value for _, value in of.beside),
            *(value for trace in traces for value in trace[axis]),
        ]
        for of, axis in zip(levels, "xy", strict=True)
    ]
    for k, color in enumerate((GREY, DARK)):
        for (name, both), dash in zip(levels[k].spans.items(), DASHES[1:] * 2, strict=False):
            look = CurveStyle(f"baseline: {name}", color, dash=dash)
            for value in sorted({min(both), max(both)}):
                ends = [np.array([value, value]), np.array([min(shown[1 - k]), max(shown[1 - k])])]
                x, y = ends if k == 0 else ends[::-1]
                traces.append(line(look, numbers(x), y, mode="lines", hoverinfo="name"))
    leak = next(leak for _, leak in pairs.values())
    title = (
        f"{leak.what} ({leak.unit})<br><i>{'up' if leak.unit == 'm' else 'down'}: less is known</i>"
    )
    return Axes(title, traces, log=not leak.n, percent=leak.n > 0)


def _point(look: CurveStyle, x: Line, y: Line) -> Figure:
    """A label: values of both lines with bars to the ends of their intervals."""
    bars = {}
    for axis, of in (("error_x", x), ("error_y", y)):
        above = numbers(np.nan_to_num([of.high - of.value]))
        below = numbers(np.nan_to_num([of.value - of.low]))
        bar = {"type": "data", "symmetric": False, "array": above, "arrayminus": below}
        bars[axis] = bar | {"color": look.color, "thickness": 1.4, "width": 4}
    said = [
        f"<b>{plain(look.name)}</b>",
        *(f"{of.title}: {of.result} {of.verdict} {of.chance}".rstrip() for of in (x, y)),
        plain(y.attack),
    ]
    marker = {
        "symbol": look.symbol if is_useful(x.verdict) else f"{look.symbol}-open",
        "size": 12,
        "color": look.color,
    }
    return marks(
        look, numbers([x.value]), np.array([y.value]), ["<br>".join(said)], marker=marker, **bars
    )
