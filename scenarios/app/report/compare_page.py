"""The page that compares runs: the answer, privacy against utility, curves over time, tables, what
differs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from itertools import product
from math import nan
from pathlib import Path

import numpy as np

from netsim.columns import frozen
from netsim.errors import BadInput
from netsim.units import FloatArray
from scenarios.app.report.charts import CHARTS, QUANTITIES, Chart, Quantity
from scenarios.app.report.drawn_points import plot_drawn_points
from scenarios.app.report.laws import Law, Series
from scenarios.app.report.plot import (
    DARK,
    DASHES,
    GREY,
    Axes,
    Chapter,
    CurveStyle,
    Figure,
    Panel,
    assign_styles,
    build_configuration,
    draw_curve,
    draw_point_marks,
    escape_plotly,
    is_wide,
    lay_out_axes,
    render_block,
    render_outcome,
    render_table,
    to_json_numbers,
)
from scenarios.app.report.run_page import SELECTED, Curves, draw_distributions, select_distributions
from scenarios.app.report.tables import (
    draw_compared_densities,
    name_trace_file,
    render_all_figures,
    render_differences,
)
from scenarios.app.results.folder import STUDY
from scenarios.app.results.gathered import Gathered, describe_sample
from scenarios.app.results.outcome import (
    Cell,
    Cells,
    Mark,
    build_comparison_outcome,
    pick_leading_line,
)
from scenarios.app.results.read import Manifest, Run, load_finished_run
from scenarios.app.results.statistics import (
    compute_quantile_over_tracks,
    format_figure,
    format_mean,
    group_by_label,
)
from scenarios.app.results.table import (
    ByLabel,
    Line,
    build_lines,
    find_model_line,
    is_useful_verdict,
    merge_lines,
)
from scenarios.app.study import Fields
from scenarios.app.study.yaml_document import read_document

MOST_TIMES = 400  # of merges that are drawn
CurveLabels = Mapping[str, Sequence[str]]
"""curve -> its labels in the order of strength"""
_NONE: Series = (np.zeros(0), np.zeros(0))
_SEEDS = (
    " A line per label: the median over seeds, the band their quartiles, at the times of merges; "
    "until the next merge of a run its last value counts."
)
_PROGRESS = CHARTS["progress"]
_UPLINKS = CHARTS["uplink"]
_OF_ATTACK = CHARTS["leakage"]
_LOCATED = [QUANTITIES[name] for name in ("homes", "workplaces", "both")]


@frozen
class Member:
    """A run of a comparison; trends: (attack, law) -> times (n,) of merges and medians over tracks
    (n,).

    Laws of the model and of the uplink have no attack. curves : distributions of a radio study, by
    selection.
    """

    label: str
    study: Fields = field(default_factory=dict)
    attacks: Sequence[str] = ()
    hit_radius_m: float = 0.0
    trends: dict[tuple[str, Law], Series] = field(default_factory=dict)
    curves: dict[str, Curves] = field(default_factory=dict)


Members = Sequence[Member]


def build_member(label: str, run: Run) -> Member:
    """Build the member of a run: its trends, without its tables."""
    trends = {}
    for quantity in dict.fromkeys(
        (*_OF_ATTACK.quantities, *_PROGRESS.quantities, *_UPLINKS.quantities)
    ):
        names = run.attacks if quantity in _OF_ATTACK.quantities else [""]
        laws = [quantity.law, *(baseline.law for baseline in quantity.baselines)]
        for name, law in product(names, laws):
            number, values = law(run, name)
            trends[name, law] = (
                run.find_merge_times_s(number),
                compute_quantile_over_tracks(values, 0.5),
            )
    return Member(label, run.study, run.attacks, run.hit_radius_m, trends)


def build_comparison_page(
    gathered: Gathered, place: Path, command: str = "", reach: float | None = None
) -> str:
    """Build the page; place: the folder in which it will lie.

    reach : RMSE (dB) or accuracy (%) whose first time is shown.
    """
    outcome = build_comparison_outcome(gathered, place)
    if gathered.is_training:
        return render_outcome(
            outcome, [Chapter("tradeoffs", "Settings", plot_drawn_points(place))], [command]
        )
    members = _read_members(gathered)
    labels = group_by_label(gathered.summaries)
    studies = {member.label: member.study for member in reversed(members)}
    names = [label for label in labels if label in studies]
    if gathered.is_radio:
        chapters = _build_radio_chapters(members, names, reach)
    else:
        chapters = _build_learning_chapters(gathered, members, place, reach)
    figures = render_all_figures({name: labels[name] for name in names})
    differing = render_differences({name: studies[name] for name in names})
    attacks = dict.fromkeys(name for member in members for name in member.attacks)
    panels = [p for k, name in enumerate(attacks) for p in draw_attack_panels(members, name, k)]
    chapters += [
        Chapter("variants-all", "All numbers", [figures]),
        Chapter("differences-all", "What differs", [differing]),
        Chapter("attacks", "Attack by attack", panels),
    ]
    manifests = [Manifest.from_folder(path) for _, path in gathered.runs]
    facts = {
        "runs": str(len(manifests)),
        "seeds": _join_distinct(str(manifest.seed) for manifest in manifests),
        "command": command or _join_distinct(manifest.command for manifest in manifests),
        "simulated span": _join_distinct(manifest.period for manifest in manifests),
        "pages of single runs": (
            "the option --pages draws them too, and this page then leads to them"
        ),
    }
    chapters.append(build_configuration(facts))
    sources = dict.fromkeys(
        source
        for member in members
        for source in (member.study.get("paper"), name_trace_file(member.study))
    )
    return render_outcome(
        outcome,
        chapters,
        filter(None, sources),
        says=describe_sample(len(manifests), len(gathered.drawn_indices)),
    )


def _join_distinct(texts: Iterable[str]) -> str:
    """Join texts, each once."""
    return ", ".join(dict.fromkeys(texts))


def _read_members(gathered: Gathered) -> list[Member]:
    """Read the runs that are drawn, each with what the page shows of its kind."""
    if gathered.is_radio:
        return [
            Member(
                label,
                run.study,
                curves={name: select_distributions(run, name) for name in SELECTED},
            )
            for label, run in _load_drawn_runs(gathered)
        ]
    if "utility.rank_correlation" not in gathered.summaries[0][1]:
        return [build_member(label, run) for label, run in _load_drawn_runs(gathered)]
    # such runs are many: their tables are left unread
    folders = dict(reversed(gathered.runs))
    read_study = cache(lambda label: read_document(folders[label] / STUDY).data)
    labels = [gathered.runs[k][0] for k in gathered.drawn_indices]
    return [Member(label, read_study(label)) for label in labels]


def _load_drawn_runs(gathered: Gathered) -> Iterator[tuple[str, Run]]:
    """Load those that are drawn, one at a time: tables are large. Runs of a label share a study."""
    studies = dict[str, Fields]()
    for k in gathered.drawn_indices:
        label, path = gathered.runs[k]
        run = load_finished_run(path, studies.get(label))
        studies.setdefault(label, run.study)
        yield label, run


def _build_radio_chapters(
    members: Members, names: Sequence[str], reach: float | None
) -> list[Chapter]:
    """Build the chapters of radio studies."""
    if reach is not None:
        raise build_goal_error(reach)
    shown = [
        (look, [member.curves["all"] for member in members if member.label == look.name])
        for look in assign_styles(names)
    ]
    shown.append((SELECTED["measured"], [member.curves["measured"] for member in members]))
    return [Chapter("figures", "Distributions", [draw_distributions(shown)])]


def _build_learning_chapters(
    gathered: Gathered, members: Members, place: Path, reach: float | None
) -> list[Chapter]:
    """Build the chapters of runs that learn."""
    drawn = [gathered.summaries[k] for k in gathered.drawn_indices]
    strongest = {}
    for label, runs in group_by_label(drawn).items():
        line = pick_leading_line(build_lines(runs))
        strongest[label] = line.attack if line else ""
    over_time: list[str | Panel] = []
    if reach is not None:
        over_time.append(build_time_table(members, strongest, reach))
    for chart in (_PROGRESS, _UPLINKS):
        over_time += draw_over_time(members, chart, strongest)
    panels = [
        draw_tradeoff(group_by_label(gathered.summaries), gathered.curves),
        *plot_drawn_points(place),
    ]
    return [
        Chapter("tradeoffs", "Privacy and utility", panels),
        Chapter("densities", "Densities", [*draw_compared_densities(gathered.runs)]),
        Chapter("time", "Over time", over_time),
    ]


# -- curves over time


def draw_over_time(members: Members, chart: Chart, attacks: Mapping[str, str]) -> list[Panel]:
    """Draw a chart with a line per label; attacks: the attack of each label."""
    unit, second = choose_time_unit(members)
    quantities = [_share_baselines(quantity) for quantity in chart.quantities]

    def draws(law: Law, look: CurveStyle | None) -> tuple[list[float | None], FloatArray]:
        series = []
        for member in members:
            if look is None or member.label == look.name:
                common = member.trends.get(("", law), _NONE)
                series.append(member.trends.get((attacks[member.label], law), common))
        time_s, grid = align_series(series)
        return to_json_numbers(time_s / second), grid

    axis = {"title": f"simulated time ({unit})", "rangemode": "tozero"}
    shared = replace(chart, quantities=quantities)
    return shared.draw_panels(assign_styles(attacks), draws, axis, members[0].hit_radius_m, _SEEDS)


def _share_baselines(quantity: Quantity) -> Quantity:
    """Let labels share baselines: chances of shares from the least to the largest of all labels."""
    baselines = [baseline for baseline in quantity.baselines if not baseline.is_per_curve]
    if quantity in _LOCATED:
        baselines = [replace(baseline, is_per_curve=False) for baseline in quantity.baselines]
    return replace(quantity, baselines=tuple(baselines))


def draw_attack_panels(members: Members, name: str, k: int = 0) -> list[Panel]:
    """Draw an attack by itself."""
    title = _OF_ATTACK.title.format(attack=name)
    chart = replace(_OF_ATTACK, key=f"{_OF_ATTACK.key}-{k}", title=title)
    return draw_over_time(members, chart, {m.label: name for m in members})


def choose_time_unit(members: Members) -> tuple[str, float]:
    """Choose the unit of an axis of time, and its seconds."""
    series = [series for member in members for series in member.trends.values()]
    longest_s = max((time_s.max(initial=0.0) for time_s, _ in series), default=0.0)
    for unit, second in (("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if longest_s >= 3 * second:
            return unit, second
    return "seconds", 1.0


def align_series(series: Sequence[Series]) -> Series:
    """Align series: times of any of them, and the latest value of each then (n_time, n_series).

    At most MOST_TIMES times.
    """
    time_s = np.unique(np.concatenate([t for t, _ in series]))
    if len(time_s) > MOST_TIMES:
        time_s = np.linspace(time_s[0], time_s[-1], MOST_TIMES)
    return time_s, np.column_stack([find_latest(values, time_s) for values in series])


def find_latest(series: Series, time_s: FloatArray) -> FloatArray:
    """Find the last known values of a series at some times (n,).

    NaN before the first, and at no time.
    """
    known_s, values = series
    is_known = ~np.isnan(values)
    number = np.searchsorted(known_s[is_known], time_s, side="right")
    number = np.where(np.isnan(time_s), 0, number)
    return np.append(nan, values[is_known])[number]


# -- how soon models are good


def build_goal_error(reach: float) -> BadInput:
    """Build the error for runs without a measure."""
    return BadInput(
        f"--reach {reach:g}: none of these runs has an RMSE in dB or an accuracy in %; leave it out"
    )


def build_time_table(members: Members, attack: Mapping[str, str], reach: float) -> str:
    """Build a table with a row per label: when models reach an RMSE or an accuracy.

    And the homes that are named by then. Raises BadInput where no run has either.
    """
    unit, second = choose_time_unit(members)
    measured = [
        quantity
        for quantity in (QUANTITIES["rmse"], QUANTITIES["accuracy"])
        if any(np.isfinite(_get_series(member, quantity)[1]).any() for member in members)
    ]
    if not measured:
        raise build_goal_error(reach)
    quantity = measured[0]
    word = "an accuracy of at least"
    sign = 1
    if quantity is QUANTITIES["rmse"]:
        word = "an RMSE of at most"
        sign = -1
    rows: Cells = []
    for label, name in attack.items():
        ends = []
        for member in members:
            if member.label == label:
                merge_s, values = _get_series(member, quantity)
                first_s = np.append(merge_s[sign * values >= sign * reach], nan)[:1]
                homes = _get_series(member, QUANTITIES["homes"], name)
                ends.append([first_s[0], find_latest(homes, first_s)[0]])
        time_s, named = np.array(ends).T
        reached = f"{np.isfinite(time_s).sum()} of {len(ends)}"
        rows.append([label, _format_mean_cell(time_s / second), reached, _format_mean_cell(named)])
    heads = ["variant", f"time to it ({unit})", "seeds that reach it", "homes named by then (%)"]
    says = (
        "Simulated time until the server first has such a model: mean over the seeds that reach "
        "it, with a 95 % interval (Student's t)."
    )
    title = f"Time to {word} {format_figure(reach)} {quantity.unit}"
    return render_table(title, heads, rows, "times") + render_block("paragraphs", [says], "says")


def _get_series(member: Member, quantity: Quantity, attack: str = "") -> Series:
    """Get a run's values of a quantity over time; empty where it has none."""
    return member.trends.get((attack, quantity.law), _NONE)


def _format_mean_cell(values: FloatArray) -> Cell:
    """Format the mean of the known values."""
    finite = values[np.isfinite(values)]
    if len(finite):
        return Mark(format_mean(finite), float(finite.mean()))
    return nan


# -- leakage against utility

LEAKS = ("both_located", "home_located", "centroid_error_m", "sw1_m", "auc", "place_error_m")
"""measures of leakage that stand against the model, where runs have them"""
Pairs = Mapping[str, tuple[Line, Line]]
"""label -> the lines of its model and of its leakage"""


def draw_tradeoff(labels: ByLabel, curves: CurveLabels | None = None) -> Panel:
    """Draw a mark per label: what the strongest attack finds against how good the model is.

    Lines join labels of a curve.
    """
    key = "tradeoff"
    title = "Privacy against utility"
    cells = []
    models = []
    lines_by_label = {label: build_lines(runs) for label, runs in labels.items()}
    for stem in LEAKS:
        pairs = {}
        for label, label_lines in lines_by_label.items():
            model = find_model_line(label_lines)
            if model is None:
                continue
            for leak in label_lines:
                is_stem = leak.key.split(".")[-2] == stem
                if is_stem and np.isfinite(model.value + leak.value):
                    pairs[label] = model, leak
        if pairs:
            cells.append(_build_tradeoff_axes(pairs, curves or {}, [*labels]))
            models += [model for model, _ in pairs.values()]
    if not cells:
        return Panel(
            key, title, "No label has both an attack's result and a finite measure of its model."
        )
    better = "left" if models[0].unit == "dB" else "right"
    x_axis = {
        "title": f"{models[0].title}<br><i>{better}: a better model</i>",
        "hoverformat": ",.3~r",
    }
    traces = [trace for cell in cells for trace in cell.traces]
    if is_wide(x for trace in traces for x in trace["x"]):
        x_axis["type"] = "log"
    return Panel(
        key,
        title,
        "One mark per label: the mean over seeds, bars over their range; of shares, the 95 % "
        "interval. Hollow: the model is not useful. Lines are baselines, two where labels differ "
        "in one: then the smallest and the largest.",
        lay_out_axes(cells, x_axis, 400, closest=True),
    )


def _build_tradeoff_axes(pairs: Pairs, curves: CurveLabels, labels: Sequence[str]) -> Axes:
    """Build axes of a measure of leakage against that of the model.

    Labels, the curves that join them, and baselines.
    """

    def draw(look: CurveStyle, x: Sequence[float], y: Sequence[float]) -> None:
        traces.append(
            draw_curve(look, to_json_numbers(x), np.array(y), mode="lines", hoverinfo="name")
        )

    looks = [look for look in assign_styles(labels) if look.name in pairs]
    traces = [_mark_label(look, *pairs[look.name]) for look in looks]
    for name, along in curves.items():
        joined = [pairs[label] for label in along if label in pairs]
        xs = [model.value for model, _ in joined]
        draw(CurveStyle(name, GREY), xs, [leak.value for _, leak in joined])
    levels = [merge_lines([pair[k] for pair in pairs.values()])[0] for k in (0, 1)]
    ends = []
    for level, axis in zip(levels, "xy", strict=True):
        shown = [value for _, value in level.baseline_values]
        for trace in traces:
            shown += trace[axis]
        ends.append([min(shown), max(shown)])
    for k, color in enumerate((GREY, DARK)):
        for (name, both), dash in zip(levels[k].spans.items(), DASHES[1:] * 2, strict=False):
            look = CurveStyle(f"baseline: {name}", color, dash=dash)
            for value in sorted({min(both), max(both)}):
                if k == 0:
                    draw(look, [value, value], ends[1])
                else:
                    draw(look, ends[0], [value, value])
    _, leak = next(iter(pairs.values()))
    better = "up" if leak.unit == "m" else "down"
    title = f"{leak.name} ({leak.unit})<br><i>{better}: less is known</i>"
    return Axes(title, traces, log=not leak.n, percent=leak.n > 0)


def _mark_label(look: CurveStyle, x: Line, y: Line) -> Figure:
    """Mark a label: values of both lines with bars to the ends of their intervals."""
    bars = {}
    sentences = [f"<b>{escape_plotly(look.name)}</b>"]
    for axis, line in (("error_x", x), ("error_y", y)):
        bars[axis] = {
            "type": "data",
            "symmetric": False,
            "array": to_json_numbers(np.nan_to_num([line.high - line.value])),
            "arrayminus": to_json_numbers(np.nan_to_num([line.value - line.low])),
            "color": look.color,
            "thickness": 1.4,
            "width": 4,
        }
        sentences.append(f"{line.title}: {line.result} {line.verdict} {line.chance}".rstrip())
    sentences.append(escape_plotly(y.attack))
    symbol = look.symbol if is_useful_verdict(x.verdict) else f"{look.symbol}-open"
    marker = {"symbol": symbol, "size": 12, "color": look.color}
    text = ["<br>".join(sentences)]
    return draw_point_marks(
        look, to_json_numbers([x.value]), np.array([y.value]), text, marker=marker, **bars
    )
