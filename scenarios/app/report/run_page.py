"""The page of a run or of a radio study: charts over rounds by chapter, and figures that have
another axis.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from fl.leakage.reliability import Reliability, measure_reliability
from netsim.errors import format_count
from netsim.units import FloatArray
from scenarios.app.report.charts import CHARTS, Chart, Quantity
from scenarios.app.report.laws import Law
from scenarios.app.report.plot import (
    GREY,
    Axes,
    Chapter,
    CurveStyle,
    Panel,
    assign_styles,
    draw_curve,
    lay_out_axes,
    read_styles,
    render_outcome,
    render_table,
    to_json_numbers,
)
from scenarios.app.report.replay import build_replay_chapter
from scenarios.app.report.tables import (
    build_last_chapters,
    draw_densities,
    draw_obstacles,
    name_trace_file,
    render_records,
)
from scenarios.app.results.attacks import Truth, measure_stated_reliability
from scenarios.app.results.folder import SHOWN
from scenarios.app.results.outcome import Cells, Mark, build_run_outcome
from scenarios.app.results.read import (
    Run,
    Table,
    get_section,
    iterate_cells,
    list_tracking_attacks,
    select_rows,
    select_tracking,
)
from scenarios.app.results.shown import list_protections, select_worst_accounts, select_worst_audits
from scenarios.app.results.statistics import compute_quantile_over_tracks, format_figure
from scenarios.app.results.summary import has_arrived, measure_durations_s

_ACCOUNTS = "Privacy accounts of the UE that spent most"
_AUDITED = "What moved most before noise, and what is proven, against what is booked (netsim audit)"
MOST_METRICS = 12  # pairs of axes
_ELSEWHERE = (
    "rmse_db",
    "constant_rmse_db",
    "raw_upload_rmse_db",
    "rank_correlation",
    "accuracy_percent",
)
"""metrics that have a figure of their own"""


def build_run_page(run: Run) -> str:
    """Build the page of one run."""
    outcome = build_run_outcome(run)
    learning = get_section(run.study, "learning")
    below = [
        str(run.study.get("paper") or ""),
        name_trace_file(run.study),
        f"seed {run.manifest.seed}",
    ]
    facts = dict(outcome.facts)
    if learning:
        threat = get_section(learning, "threat")
        facts = {
            "attacker": f"{threat.get('viewpoint')}, observes {threat.get('observes')}",
            "defenses": ", ".join(list_protections(learning))
            or "none: the server receives unmodified updates",
            **facts,
        }
    else:
        below.append(format_count(run.n_ue, "UE"))
    parts = [build_replay_chapter(run), *build_chapters(run), *build_last_chapters(run)]
    return render_outcome(replace(outcome, facts=facts), parts, below)


def build_chapters(run: Run) -> list[Chapter]:
    """Build all figures and tables by what they are about."""
    if run.manifest.is_radio:
        return build_radio_chapters(run)
    return build_run_chapters(run)


def build_run_chapters(run: Run) -> list[Chapter]:
    """Build all figures of a run by what they are about."""
    leaks = []
    if run.summary.get("utility.accuracy_percent") is None:
        for name in ("named", "errors", "distribution"):
            leaks += CHARTS[name].build_panels(run)
    method = draw_obstacles(run.grid)
    if "utility.rank_correlation" in run.summary:
        method += draw_densities(run.surfaces)
    method += _draw_metrics(run)
    spent = render_records(_ACCOUNTS, select_worst_accounts(run.tables["privacy"]))
    audited = render_records(_AUDITED, select_worst_audits(run.tables["audit"]))
    return [
        Chapter("leakage", "Leakage", leaks + draw_roc(run)),
        Chapter("tracking", "Tracking", draw_tracking(run)),
        Chapter("utility-chapter", "Model", CHARTS["utility"].build_panels(run)),
        Chapter(
            "privacy",
            "Privacy spent",
            [spent, *CHARTS["epsilon"].build_panels(run), *CHARTS["bounds"].build_panels(run)],
        ),
        Chapter("audit", "Audit of privacy", [audited]),
        Chapter("radio-figures", "Radio", [draw_service(run), draw_radio(run)]),
        Chapter("uploads", "Uploads", draw_uploads(run)),
        Chapter("method", "Method", method),
    ]


def draw_roc(run: Run) -> list[Panel]:
    """Draw ROC curves of the last membership test, both axes logarithmic; nothing without one."""
    looks = assign_styles(dict.fromkeys(map(str, run.tables["roc"]["attack"])))
    if not looks:
        return []
    traces = [
        draw_curve(CurveStyle("chance", GREY, dash="dash"), (0.1, 100.0), np.array([0.1, 100.0]))
    ]
    for look in looks:
        rows = run.get_rows("roc", "attack", look.name)
        x = to_json_numbers(rows["false_positive_percent"][-30:])  # each test has 30 rates
        traces.append(draw_curve(look, x, rows["true_positive_percent"][-30:]))
    caption = (
        "Members that an attack finds, by the share of non-members that it takes for members, in "
        "the last round with a test. What it finds on the left it is sure of; an attack at "
        "chance follows the dashed line."
    )
    return [
        Panel(
            "roc",
            "Membership inference (ROC)",
            caption,
            lay_out_axes(
                [Axes("members found (%)", traces, log=True)],
                {"type": "log", "title": "non-members taken for members (%)"},
                380,
                closest=True,
            ),
        )
    ]


def _draw_metrics(run: Run) -> list[Panel]:
    """Draw each metric that a part reports and that changes, except those drawn elsewhere."""
    rows = run.get_rows("metrics")
    quantities = []
    for source, name in dict.fromkeys(iterate_cells(rows, "part", "name")):
        metric = select_rows(rows, (rows["part"] == source) & (rows["name"] == name))
        values = metric["value"]
        if name not in _ELSEWHERE and len(set(values[np.isfinite(values)])) > 1:
            quantities.append(Quantity(f"{source}: {name}", _make_metric_law(metric)))
    chart = CHARTS["metrics"]
    caption = chart.caption
    n_more = len(quantities) - MOST_METRICS
    if n_more > 0:
        caption += f" Not drawn: {format_count(n_more, 'more metric')}."
    chart = replace(chart, quantities=quantities[:MOST_METRICS], caption=caption)
    return chart.build_panels(run)


def _make_metric_law(rows: Table) -> Law:
    return lambda run, _: (rows["round"], rows["value"][:, None])


# -- attacks that remember


def draw_tracking(run: Run) -> list[str | Panel]:
    """Draw figures of attacks that track, state probabilities or link; nothing without any."""
    panels = []
    for k, name in enumerate(list_tracking_attacks(run)):
        panels += build_tracking_chart(name, k).build_panels(run)
    return [
        *panels,
        build_reliability_table(run),
        *CHARTS["linking"].build_panels(run),
        render_records(_UNICITY, run.tables["unicity"]),
    ]


def build_tracking_chart(attack: str, k: int = 0) -> Chart:
    """Build a chart of error over time, hours known and credible areas of an attack."""
    chart = CHARTS["tracking"]
    quantities = [
        replace(quantity, law=partial(quantity.law, attack=attack)) for quantity in chart.quantities
    ]
    title = chart.title.format(attack=attack)
    return replace(chart, key=f"{chart.key}-{k}", title=title, quantities=quantities)


_UNICITY = "Unicity: draws of points of a track that no other UE has (de Montjoye et al. 2013)"


def build_reliability_table(run: Run) -> str:
    """Build a table of how well each attack knows its own error.

    Where it states probabilities: a row for each kind of answer.
    """
    named = run.tables["named"]
    stated = named["attack"][np.isfinite(named["probability"])]
    rows: Cells = []
    for name in dict.fromkeys([*list_tracking_attacks(run), *map(str, stated)]):
        for kind, measured in _measure_reliabilities(run, name):
            if measured.count:
                error = Mark(format_figure(100 * measured.error), measured.error)
                rows.append(
                    [
                        name,
                        kind,
                        measured.count,
                        error,
                        format_figure(100 * measured.by_chance_error),
                    ]
                )
    return render_table(
        "Expected calibration error (ECE) of stated probabilities, in percentage points",
        ["attack", "answers", "number", "ECE", "ECE of right probabilities"],
        rows,
        "calibration",
    )


def _measure_reliabilities(run: Run, name: str) -> Iterator[tuple[str, Reliability]]:
    """Measure reliabilities of answers of filter and smoother, and of places named at the end."""
    for kind, rows in select_tracking(run, name).items():
        yield (
            kind,
            measure_reliability(
                rows["ue"].astype(np.int64),
                np.minimum(rows["disc_probability"], 1.0),
                rows["near"] == 1,
            ),
        )
    attacked = np.unique(run.get_rows("leakage", "attack", name)["ue"])
    truth = Truth.from_ues(run.tables["ues"], attacked, run.hit_radius_m)
    named = run.tables["named"]
    stated = select_rows(named, (named["attack"] == name) & np.isfinite(named["ue"]))
    yield "places named at the end", measure_stated_reliability(stated, truth)


# -- uploads that take their time

_PARTS = read_styles("parts of an upload")


def draw_uploads(run: Run) -> list[Panel]:
    """Draw how long uploads and their parts last, and how stale merged updates are; nothing where
    uploads take no time.
    """
    uploads = run.tables["transmissions"]
    uploads = select_rows(uploads, np.isfinite(uploads["requested_s"]) & np.isfinite(uploads["ue"]))
    if len(uploads["ue"]):
        return [draw_latency(uploads), *CHARTS["uploads-staleness"].build_panels(run)]
    return []


def draw_latency(uploads: Table) -> Panel:
    """Draw distributions of the time from request to arrival, and of its parts."""
    key = "uploads-latency"
    title = "How long uploads take, part by part"
    traces = []
    durations_s = measure_durations_s(select_rows(uploads, has_arrived(uploads)))
    percent = np.linspace(0.0, 100.0, 201)
    hover = "%{y:.0f} % at most %{x:,.3~r}"
    for name, look in _PARTS.items():
        known_s = durations_s[name][np.isfinite(durations_s[name])]
        if (known_s > 0).any():
            quantile_s = np.quantile(known_s, percent / 100.0)
            is_shown = quantile_s > 0  # the axis has no zero
            traces.append(
                draw_curve(
                    look,
                    to_json_numbers(quantile_s[is_shown]),
                    percent[is_shown],
                    mode="lines",
                    hovertemplate=hover,
                )
            )
    if not traces:
        return Panel(key, title, "No upload arrived.")
    caption = (
        "The share of uploads that took at most the time on the axis below, of those that "
        "arrived. Waiting is until the first grant; sending includes pauses between grants. A "
        "part of length zero lies to the left of the axis."
    )
    return Panel(
        key,
        title,
        caption,
        lay_out_axes(
            [Axes("uploads that arrived (%)", traces, percent=True)],
            {"title": "time (s)", "type": "log"},
            320,
            closest=True,
        ),
    )


# -- the radio, and a study of it alone

SELECTED = read_styles("samples")
MOST_LINKS = 2000
Curves = Mapping[str, FloatArray]
"""quantity -> quantiles (101,) from 0 % to 100 %"""


def draw_radio(run: Run) -> Panel:
    """Draw RSRP by distance, in line of sight and without."""
    key = "radio"
    title = "Radio links at sampled outdoor places, by distance"
    ground = run.ground
    if run.is_replayed:
        return Panel(key, title, "The RSRP was read from a trace; no radio was modelled.")
    if "rsrp_dbm" not in ground:
        return Panel(key, title, "This run recorded no radio map.")
    is_drawn = np.isfinite(ground["rsrp_dbm"]) & (ground["distance_m"] > 0)
    n_place, n_station = is_drawn.shape
    # whole places are left out, so that each base station keeps its share of the dots
    step = -(-is_drawn.size // MOST_LINKS)
    is_drawn &= (np.arange(n_place) % step == 0)[:, None]
    sight = np.nan_to_num(ground["los"], nan=-1.0)
    traces = []
    for value, look in read_styles("sight").items():
        dots = is_drawn & (sight == float(value))
        if dots.any():
            marker = {"size": 6, "color": look.color, "opacity": 0.4, "symbol": look.symbol}
            traces.append(
                draw_curve(
                    look,
                    to_json_numbers(ground["distance_m"][dots]),
                    ground["rsrp_dbm"][dots],
                    mode="markers",
                    marker=marker,
                )
            )
    if not traces:
        return Panel(key, title, "There is no outdoor place, so no link was sampled.")
    caption = (
        "Mean received power without small-scale fading, from "
        f"{format_count(n_station, 'base station')} at {format_count(n_place, 'place')}. "
        "A dot is a link."
    )
    return Panel(
        key,
        title,
        caption,
        lay_out_axes(
            [Axes("RSRP (dBm)", traces, near=True)],
            {"type": "log", "title": "distance (m)"},
            380,
            closest=True,
        ),
    )


def draw_service(run: Run) -> Panel:
    """Draw decoded updates, latency, energy and SINR of each round."""
    chart = CHARTS["service"]
    if not np.isfinite(run.get_rows("links")["sinr_db"]).any():
        return Panel(chart.key, chart.title, chart.missing)
    return chart.build_panels(run)[0]


MOST_PAIRS = 10  # of cells, in the table of handovers


def build_radio_chapters(run: Run) -> list[Chapter]:
    """Build all figures and tables of a radio study by what they are about."""
    shown = [(look, [select_distributions(run, name)]) for name, look in SELECTED.items()]
    received = [draw_distributions(shown), draw_radio(run)]
    return [
        Chapter("samples", "What UEs receive", received),
        Chapter("handover", "Handover", [_build_handover_table(run)]),
    ]


def select_distributions(run: Run, selection: str) -> Curves:
    """Select the distributions of one selection of samples."""
    cdf = run.tables["radio_cdf"]
    is_selected = cdf["selection"] == selection
    return {name: cdf["value"][is_selected & (cdf["quantity"] == name)] for name in SHOWN}


def draw_distributions(shown: Sequence[tuple[CurveStyle, Sequence[Curves]]]) -> Panel:
    """Draw cumulative distributions of all quantities; of several runs their median quantiles."""
    title = "Distributions over UEs and time"
    cells = []
    for name, (word, unit, factor) in SHOWN.items():
        traces = []
        for look, runs in shown:
            quantiles = np.array([run[name] for run in runs if len(run[name])])
            if np.isfinite(quantiles).any():
                x = to_json_numbers(factor * compute_quantile_over_tracks(quantiles.T, 0.5))
                percent = np.linspace(0.0, 100.0, quantiles.shape[1])
                traces.append(
                    draw_curve(
                        look,
                        x,
                        percent,
                        mode="lines",
                        hovertemplate=f"%{{y:.0f}} % up to %{{x:.3~r}} {unit}",
                    )
                )
        if traces:
            cells.append(Axes("samples (%)", traces, x_title=f"{word} ({unit})", percent=True))
    if not cells:
        return Panel("distributions", title, "There were no samples.")
    return Panel(
        "distributions",
        title,
        "Share of samples at most at a value; a sample is a UE that is present at a sampling "
        "time. Gain is antenna gain minus path loss plus shadowing and, indoors, minus "
        "penetration loss; geometry is the power of the serving cell over the sum of all "
        "others', SINR the same with noise. The rate is that of a UE that is given the whole "
        "band of its cell (see the channel card). Of several seeds a line is the median of each "
        "quantile.",
        lay_out_axes(cells, {}, 300, closest=True),
    )


def _build_handover_table(run: Run) -> str:
    """Build a table of the pairs of cells with the most handovers."""
    rows = run.get_rows("handovers")
    cells = np.array([rows["source"], rows["target"]], dtype=str)
    pairs, number = np.unique(cells, axis=1, return_counts=True)
    order = np.argsort(-number, kind="stable")[:MOST_PAIRS]
    ordered: Cells = [[str(pairs[0, k]), int(number[k]), str(pairs[1, k])] for k in order]
    return render_table(
        "Handovers between cells, the most frequent first", ["from", "handovers", "to"], ordered
    )
