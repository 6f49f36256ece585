"""The page of a run or of a radio study: charts over rounds by chapter, and figures that have
another axis.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from fl.leakage.reliability import Reliability, reliability
from netsim.errors import counted
from netsim.units import FloatArray
from scenarios.app.report.charts import (
    BOTH,
    DIVERGED,
    ERROR,
    HOME,
    MODEL,
    NEARER,
    SMALLEST_M,
    SW1,
    UPLINK,
    WORK,
    Beside,
    Chart,
    Law,
    Quantity,
    Series,
    TimeGrid,
    column,
    largest,
    positive,
    ratio,
)
from scenarios.app.report.plot import (
    DARK,
    GREY,
    PALETTE,
    Axes,
    Chapter,
    CurveStyle,
    Panel,
    line,
    looks,
    mosaic,
    numbers,
    outcome_page,
    table,
)
from scenarios.app.report.replay import replay_chapter
from scenarios.app.report.tables import (
    density_panels,
    last_chapters,
    obstacle_panels,
    records_table,
    trace_said,
)
from scenarios.app.results.attacks import Truth, stated_reliability
from scenarios.app.results.folder import SHOWN
from scenarios.app.results.outcome import Cells, Mark, run_outcome
from scenarios.app.results.read import (
    FILTER,
    KINDS,
    PLAIN,
    PRIOR,
    SMOOTHER,
    Run,
    Table,
    known_hours,
    of_kind,
    part,
    tracked,
    tracking_attacks,
    where,
)
from scenarios.app.results.shown import protections, worst_accounts, worst_audits
from scenarios.app.results.statistics import figure_text, quantile
from scenarios.app.results.summary import arrived, durations_s

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


def one_curve(name: str) -> Callable[[Run], list[CurveStyle]]:
    """The looks of a chart with one curve."""
    return lambda run: [CurveStyle(name, DARK)]


def names_in(table: str, column: str) -> Callable[[Run], list[CurveStyle]]:
    """The looks of a chart with a curve for each name in a column."""
    return lambda run: looks(dict.fromkeys(map(str, run.tables[table][column])))


SPENT = largest(column("spends", "epsilon", "mechanism", lasts=True))
"""the largest epsilon of any UE so far"""

LEAKAGE = (
    Chart(
        "named",
        "UEs whose home or workplace is named",
        (HOME, WORK, BOTH, NEARER),
        "Share of attacked UEs whose true place lies within {near} m of a place that the attack "
        "names, at most two per UE: its latest answers or, without any, the two highest density "
        "peaks of its estimates so far. The higher, the more the attacker knows; compare with "
        "chance: two uniformly random places, the two highest density peaks of the true "
        "positions of all other UEs, and what the same attack names of another UE at the end.",
        "No UE has a known home, or no attack named a place.",
    ),
    Chart(
        "errors",
        "Centroid error of every attack",
        (ERROR, DIVERGED),
        "Distance from the attack's estimate to the mean of all points that the UE measured in "
        "the round. An estimate outside the area, or not finite, has diverged and counts as "
        "infinite; errors below 0.1 m are drawn there.",
        "No attack made an estimate inside the area, so there is no error to draw.",
        height=340,
    ),
    Chart(
        "distribution",
        "Sliced Wasserstein distance (SW1) of every attack",
        (SW1,),
        "Distance between all points measured so far and all estimates so far. An attack that "
        "is not below the 5 % quantile of random guesses has found nothing. The SW1 of the true "
        "centroids is no bound: estimates that scatter as the points do lie below it.",
        "No attack made an estimate inside the area, so there is no distance to draw.",
        height=340,
    ),
)
UTILITY = Chart(
    "utility",
    "Model on held-out data",
    MODEL,
    "A model that is no better than the constant has learned nothing, and low leakage then "
    "proves nothing. Raw upload is the map of a server that receives all measurements. Rounds "
    "are scored on at most 2,000 held-out samples, the last one on all of them.",
    "No error was recorded: nothing was held out, or no round was played.",
    by=one_curve("the run"),
)
PRIVACY = Chart(
    "epsilon",
    "Privacy spent: epsilon of every mechanism so far",
    (Quantity("Largest epsilon of any UE", "", SPENT, log=True),),
    "All rounds composed, by RDP where UEs are sampled and exactly otherwise; smaller "
    "is more private.",
    "No noise with a finite epsilon was drawn: nothing bounds what updates reveal.",
    by=names_in("spends", "mechanism"),
)


def _bounds(run: Run, name: str) -> Series:
    """A bound of canaries (n_time, 1), the largest of a round."""
    rows = run.tables["audit"]
    mine = where(rows, (rows["half"] == "canaries") & (rows["round"] > 0))
    number, first = np.unique(mine["round"], return_index=True)
    return number, np.maximum.reduceat(mine[name], first)[:, None]


AUDIT = Chart(
    "bounds",
    "What canaries prove of epsilon, and what the ledger states",
    (Quantity("Epsilon of all rounds so far", "", _bounds, log=True),),
    "lower: the largest epsilon that scores of canaries prove, each bound at a significance of "
    "0.001; upper: that of the ledger at the same delta. Where the lower one is above the "
    "other, the guarantee does not hold.",
    by=lambda run: looks(["lower", "upper"]),
)


def single(run: Run) -> str:
    """The page of one run."""
    of = run_outcome(run)
    learning = part(run.study, "learning")
    threat = part(learning, "threat")
    setting = {
        "attacker": f"{threat.get('viewpoint')}, observes {threat.get('observes')}",
        "defenses": ", ".join(protections(learning))
        or "none: the server receives unmodified updates",
    }
    below = [
        str(run.study.get("paper") or ""),
        trace_said(run.study),
        f"seed {run.manifest.seed}",
        "" if learning else counted(len(run.tables["ues"]["ue"]), "UE"),
    ]
    parts = [replay_chapter(run), *chapters(run), *last_chapters(run)]
    return outcome_page(of, parts, below, facts=(setting if learning else {}) | of.facts)


def chapters(run: Run) -> list[Chapter]:
    """All figures and tables by what they are about."""
    if run.manifest.radio:
        return radio_chapters(run)
    return run_chapters(run)


def run_chapters(run: Run) -> list[Chapter]:
    """All figures of a run by what they are about."""
    leaks = LEAKAGE if run.summary.get("utility.accuracy_percent") is None else ()
    densities = density_panels(run.surfaces) if "utility.rank_correlation" in run.summary else []
    spent = records_table(_ACCOUNTS, worst_accounts(run.tables["privacy"]))
    return [
        Chapter(
            "leakage",
            "Leakage",
            [*(panel for chart in leaks for panel in chart.panels(run)), *roc(run)],
        ),
        Chapter("tracking", "Tracking", tracking_panels(run)),
        Chapter("utility-chapter", "Model", UTILITY.panels(run)),
        Chapter("privacy", "Privacy spent", [spent, *PRIVACY.panels(run), *AUDIT.panels(run)]),
        Chapter(
            "audit",
            "Audit of privacy",
            [records_table(_AUDITED, worst_audits(run.tables["audit"]))],
        ),
        Chapter("radio-figures", "Radio", [service(run), radio(run)]),
        Chapter("uploads", "Uploads", uploads_panels(run)),
        Chapter("method", "Method", [*obstacle_panels(run.grid), *densities, *_metrics(run)]),
    ]


def roc(run: Run) -> list[Panel]:
    """ROC curves of the last membership test, both axes logarithmic; nothing without one."""
    traces = [line(CurveStyle("chance", GREY, dash="dash"), (0.1, 100.0), np.array([0.1, 100.0]))]
    for look in names_in("roc", "attack")(run):
        rows = run.rows("roc", "attack", look.name)
        x = numbers(rows["false_positive_percent"][-30:])  # each test has 30 rates
        traces.append(line(look, x, rows["true_positive_percent"][-30:]))
    caption = (
        "Members that an attack finds, by the share of non-members that it takes for members, in "
        "the last round with a test. What it finds on the left it is sure of; an attack at "
        "chance follows the dashed line."
    )
    figure = mosaic(
        [Axes("members found (%)", traces, log=True)],
        {"type": "log", "title": "non-members taken for members (%)"},
        380,
        closest=True,
    )
    if traces[1:]:
        return [Panel("roc", "Membership inference (ROC)", caption, figure)]
    return []


def _metrics(run: Run) -> list[Panel]:
    """Each metric that a part reports and that changes, except those drawn elsewhere."""
    rows = run.rows("metrics")
    quantities = []
    for source, name in dict.fromkeys(
        zip(map(str, rows["part"]), map(str, rows["name"]), strict=True)
    ):
        mine = where(rows, (rows["part"] == source) & (rows["name"] == name))
        if name not in _ELSEWHERE and len(set(mine["value"][np.isfinite(mine["value"])])) > 1:
            quantities.append(Quantity(f"{source}: {name}", "", _values(mine)))
    more = len(quantities) - MOST_METRICS
    caption = "Every metric in its own unit, as the page of its part defines it (netsim list SLOT)."
    caption += f" Not drawn: {counted(more, 'more metric')}." if more > 0 else ""
    title = "What parts report of themselves"
    look = one_curve("the run")
    return Chart("metrics", title, quantities[:MOST_METRICS], caption, by=look, height=200).panels(
        run
    )


def _values(rows: Table) -> Law:
    return lambda run, _: (rows["round"], rows["value"][:, None])


# -- attacks that remember

LOOKS = {
    PLAIN: CurveStyle(PLAIN, PALETTE[1], "diamond", "longdash"),
    FILTER: CurveStyle(FILTER, PALETTE[0]),
    SMOOTHER: CurveStyle(SMOOTHER, PALETTE[2], "square"),
    PRIOR: CurveStyle(PRIOR, GREY, "cross", "dash"),
}


def tracking_panels(run: Run) -> list[str | Panel]:
    """Figures of attacks that track, state probabilities or link; nothing without any."""
    charts = [tracking_chart(run, name, k) for k, name in enumerate(tracking_attacks(run))]
    tracks = [panel for chart in charts for panel in chart.panels(run)]
    return [
        *tracks,
        reliability_table(run),
        *LINKING.panels(run),
        records_table(_UNICITY, run.tables["unicity"]),
    ]


def tracking_chart(run: Run, attack: str, k: int = 0) -> Chart:
    """Error over time, hours known and credible areas of an attack."""
    rows = tracked(run, attack)

    def laid(column: str, kinds: Sequence[str], factor: float = 1.0, least: float = -np.inf) -> Law:
        def law(run: Run, kind: str) -> Series:
            if kind not in kinds:
                return np.zeros(0), np.zeros((0, 1))
            some, values = of_kind(rows, kind, column)
            grid = TimeGrid.of(some)
            return grid.round, factor * grid.lay(np.maximum(values, least))

        return law

    def hours(run: Run, kind: str) -> Series:
        number, value = known_hours(run, rows, kind)
        return number, value[:, None]

    believed = (FILTER, SMOOTHER)
    return Chart(
        f"tracking-{k}",
        f"What {attack} knows over time, with memory and without",
        (
            Quantity(
                "Error of the answer", "m", laid("error_m", KINDS, least=SMALLEST_M), log=True
            ),
            Quantity("Hours known so far, mean over UEs", "h", hours),
            Quantity(
                "Expected distance",
                "m",
                laid("expected_distance_m", (*believed, PRIOR), least=SMALLEST_M),
                log=True,
            ),
            Quantity(
                "Truth in the area of 90 %, so far", "%", so_far(laid("in90", believed, 100.0))
            ),
            Quantity(
                "Size of the area of 90 %", "km²", laid("area90_m2", believed, 1e-6), log=True
            ),
        ),
        "Plain: the tracked attack alone; filter: what is known in the round; smoother: what is "
        "known of it at the end; prior: what is known without any update. Error: from the "
        "answer to the true mean position of the round; known: within {near} m; expected "
        "distance: mean distance of the whole belief to the truth (the privacy of Shokri et al. "
        "2011). A belief that can be trusted has the truth in its area of 90 % as often.",
        by=lambda run: [*LOOKS.values()],
        height=240,
    )


def so_far(of: Law, weight: Law | None = None) -> Law:
    """The mean of all values up to each round (n_time, 1), NaN left out."""

    def law(run: Run, name: str) -> Series:
        number, values = of(run, name)
        weights = np.where(np.isfinite(values), weight(run, name)[1] if weight else 1.0, 0.0)
        held = np.cumsum((np.nan_to_num(values) * weights).sum(axis=1))
        return number, ratio(held, np.cumsum(weights.sum(axis=1)))

    return law


def _linked(name: str, factor: float = 1.0) -> Law:
    """A column of `linking`, which has several rows per round."""

    def law(run: Run, attack: str) -> Series:
        rows = run.rows("linking", "attack", attack)
        return rows["round"], factor * rows[name][:, None]

    return law


_UNICITY = "Unicity: draws of points of a track that no other UE has (de Montjoye et al. 2013)"
_SEEN = _linked("seen")
LINKING = Chart(
    "linking",
    "Pseudonyms that are linked again",
    (
        Quantity(
            "Links that are right, so far",
            "%",
            so_far(_linked("right_share", 100.0), _SEEN),
            (Beside("by chance", so_far(_linked("chance_share", 100.0), _SEEN), each=True),),
        ),
        Quantity("Anonymity set", "UEs", so_far(_linked("anonymity_set"), _linked("linked"))),
        Quantity(
            "Time to confusion",
            "min",
            _linked("time_to_confusion_s", 1 / 60),
            (Beside("by chance", _linked("chance_time_to_confusion_s", 1 / 60), each=True),),
        ),
    ),
    "Share of updates under a new name that the attack gave to the track which last held their "
    "UE: the higher, the less a change of names hides. Between how many UEs it wavers (2 to the "
    "power of the entropy of its choice). How long a UE can be followed until it is mixed up.",
    by=names_in("linking", "attack"),
    height=280,
)


def reliability_table(run: Run) -> str:
    """How well each attack knows its own error, where it states probabilities: a row for each kind
    of answer.
    """
    named = run.tables["named"]
    rows: Cells = []
    for name in dict.fromkeys(
        [*tracking_attacks(run), *map(str, named["attack"][np.isfinite(named["probability"])])]
    ):
        for kind, of in _reliabilities(run, name):
            if of.count:
                error, perfect = (
                    figure_text(100 * value) for value in (of.error, of.by_chance_error)
                )
                rows.append([name, kind, of.count, Mark(error, of.error), perfect])
    title = "Expected calibration error (ECE) of stated probabilities, in percentage points"
    return table(
        title,
        ["attack", "answers", "number", "ECE", "ECE of right probabilities"],
        rows,
        "calibration",
    )


def _reliabilities(run: Run, name: str) -> Iterator[tuple[str, Reliability]]:
    """Of the answers of filter and smoother, and of the places named at the end."""
    for kind, rows in tracked(run, name).items():
        ue = rows["ue"].astype(np.int64)
        yield kind, reliability(ue, np.minimum(rows["disc_probability"], 1.0), rows["near"] == 1)
    named = run.tables["named"]
    truth = Truth.of(
        run.tables["ues"], np.unique(run.rows("leakage", "attack", name)["ue"]), run.hit_radius_m
    )
    mine = where(named, (named["attack"] == name) & np.isfinite(named["ue"]))
    yield "places named at the end", stated_reliability(mine, truth)


# -- uploads that take their time

_PARTS = {
    "preparing": CurveStyle("preparing: downlink and training", GREY, dash="longdash"),
    "waiting": CurveStyle("waiting for a grant", PALETTE[5], dash="dot"),
    "sending": CurveStyle("sending", PALETTE[0], dash="dashdot"),
    "whole": CurveStyle("from request to arrival", DARK),
}


def uploads_panels(run: Run) -> list[Panel]:
    """How long uploads and their parts last, and how stale merged updates are; nothing where
    uploads take no time.
    """
    uploads = run.tables["transmissions"]
    uploads = where(uploads, np.isfinite(uploads["requested_s"]) & np.isfinite(uploads["ue"]))
    if len(uploads["ue"]):
        return [latency(uploads), *STALENESS.panels(run)]
    return []


def latency(uploads: Table) -> Panel:
    """Distributions of the time from request to arrival, and of its parts."""
    key = "uploads-latency"
    title = "How long uploads take, part by part"
    traces = []
    length_s = durations_s(where(uploads, arrived(uploads)))
    percent = np.linspace(0.0, 100.0, 201)
    hover = "%{y:.0f} % at most %{x:,.3~r}"
    for name, look in _PARTS.items():
        known_s = length_s[name][np.isfinite(length_s[name])]
        if (known_s > 0).any():
            at_s = np.quantile(known_s, percent / 100.0)
            shown = at_s > 0  # the axis has no zero
            traces.append(
                line(look, numbers(at_s[shown]), percent[shown], mode="lines", hovertemplate=hover)
            )
    if not traces:
        return Panel(key, title, "No upload arrived.")
    caption = (
        "The share of uploads that took at most the time on the axis below, of those that "
        "arrived. Waiting is until the first grant; sending includes pauses between grants. A "
        "part of length zero lies to the left of the axis."
    )
    x_axis = {"title": "time (s)", "type": "log"}
    cells = [Axes("uploads that arrived (%)", traces, percent=True)]
    return Panel(key, title, caption, mosaic(cells, x_axis, 320, closest=True))


def _stale(of: Callable[[FloatArray], FloatArray]) -> Law:
    """Mean or largest staleness of the updates of each merge; nothing where all are fresh."""

    def law(run: Run, _: str) -> Series:
        uploads = run.tables["transmissions"]
        merged = where(uploads, np.isfinite(uploads["staleness"]) & np.isfinite(uploads["ue"]))
        order = np.argsort(merged["round"], kind="stable")
        number, first = np.unique(merged["round"][order], return_index=True)
        merges = np.split(merged["staleness"][order], first)[1:]
        return number, np.array([of(staleness) for staleness in merges]).reshape(-1, 1)

    return positive(law)


STALENESS = Chart(
    "uploads-staleness",
    "Staleness of merged updates",
    (
        Quantity(
            "Mean over the updates of the merge",
            "versions",
            _stale(np.mean),
            (Beside("oldest update of the merge", _stale(np.max)),),
        ),
    ),
    "How many times the model had changed since the updates of a merge began from it.",
    by=one_curve("mean over the updates of the merge"),
    height=260,
)


# -- the radio, and a study of it alone

# Tol's colours, distinguishable with colour blindness; no attack has one of them
SEEN = CurveStyle("line of sight", "#44AA99")
HIDDEN = CurveStyle("no line of sight", "#882255", "diamond")
ANY = CurveStyle("sight not known", DARK)
SELECTED = {
    "all": CurveStyle("all samples", DARK),
    "indoor": CurveStyle("indoors", PALETTE[1], dash="longdash"),
    "outdoor": CurveStyle("outdoors", PALETTE[0], dash="dot"),
    "measured": CurveStyle("measured", PALETTE[5], dash="dashdot"),
}
MOST_LINKS = 2000
Curves = Mapping[str, FloatArray]
"""quantity -> quantiles (101,) from 0 % to 100 %"""


def radio(run: Run) -> Panel:
    """RSRP by distance, in line of sight and without."""
    key = "radio"
    title = "Radio links at sampled outdoor places, by distance"
    ground = run.ground
    if run.replayed:
        return Panel(key, title, "The RSRP was read from a trace; no radio was modelled.")
    if "rsrp_dbm" not in ground:
        return Panel(key, title, "This run recorded no radio map.")
    good = np.isfinite(ground["rsrp_dbm"]) & (ground["distance_m"] > 0)
    # whole places are left out, so that each base station keeps its share of the dots
    good &= (np.arange(len(good)) % (-(-good.size // MOST_LINKS)) == 0)[:, None]
    traces = []
    for look, sight in ((SEEN, 1.0), (HIDDEN, 0.0), (ANY, -1.0)):
        dots = good & (np.nan_to_num(ground["los"], nan=-1.0) == sight)
        if dots.any():
            marker = {"size": 6, "color": look.color, "opacity": 0.4, "symbol": look.symbol}
            distance_m = numbers(ground["distance_m"][dots])
            traces.append(
                line(look, distance_m, ground["rsrp_dbm"][dots], mode="markers", marker=marker)
            )
    if not traces:
        return Panel(key, title, "There is no outdoor place, so no link was sampled.")
    caption = (
        f"Mean received power without small-scale fading, from "
        f"{counted(good.shape[1], 'base station')} at "
        f"{counted(len(good), 'place')}. A dot is a link."
    )
    x_axis = {"type": "log", "title": "distance (m)"}
    return Panel(
        key,
        title,
        caption,
        mosaic([Axes("RSRP (dBm)", traces, near=True)], x_axis, 380, closest=True),
    )


SERVICE = Chart(
    "service",
    "Uplink over rounds: decoded updates, latency, energy, SINR",
    UPLINK,
    "The more updates arrive in time, the more the model learns and the attacker sees. "
    "Latency is from the request to "
    "the last bit. Energy is that of all uplinks and all training of the round.",
    "The uplink is ideal, or no SINR was recorded.",
    by=lambda run: [CurveStyle("all UEs", DARK)],
)


def service(run: Run) -> Panel:
    """Decoded updates, latency, energy and SINR of each round."""
    if not np.isfinite(run.rows("links")["sinr_db"]).any():
        return Panel(SERVICE.key, SERVICE.title, SERVICE.missing)
    return SERVICE.panels(run)[0]


MOST_PAIRS = 10  # of cells, in the table of handovers


def radio_chapters(run: Run) -> list[Chapter]:
    """All figures and tables of a radio study by what they are about."""
    received = [
        distributions([(look, [curves(run, name)]) for name, look in SELECTED.items()]),
        radio(run),
    ]
    return [
        Chapter("samples", "What UEs receive", received),
        Chapter("handover", "Handover", [_pairs(run)]),
    ]


def curves(run: Run, selection: str) -> Curves:
    """The distributions of one selection of samples."""
    cdf = run.tables["radio_cdf"]
    mine = cdf["selection"] == selection
    return {name: cdf["value"][mine & (cdf["quantity"] == name)] for name in SHOWN}


def distributions(shown: Sequence[tuple[CurveStyle, Sequence[Curves]]]) -> Panel:
    """Cumulative distributions of all quantities; of several runs the median of each quantile."""
    title = "Distributions over UEs and time"
    cells = []
    for name, (word, unit, factor) in SHOWN.items():
        traces = []
        for look, runs in shown:
            known = np.array([run[name] for run in runs if len(run[name])])
            if np.isfinite(known).any():
                x = numbers(factor * quantile(known.T, 0.5))
                percent = np.linspace(0.0, 100.0, known.shape[1])
                hover = f"%{{y:.0f}} % up to %{{x:.3~r}} {unit}"
                traces.append(line(look, x, percent, mode="lines", hovertemplate=hover))
        if traces:
            cells.append(Axes("samples (%)", traces, x_title=f"{word} ({unit})", percent=True))
    if not cells:
        return Panel("distributions", title, "There were no samples.")
    caption = (
        "Share of samples at most at a value; a sample is a UE that is present at a sampling "
        "time. Gain is antenna gain minus path loss plus shadowing and, indoors, minus "
        "penetration loss; geometry is the power of the serving cell over the sum of all "
        "others', SINR the same with noise. The rate is that of a UE that is given the whole "
        "band of its cell (see the channel card). Of several seeds a line is the median of each "
        "quantile."
    )
    return Panel("distributions", title, caption, mosaic(cells, {}, 300, closest=True))


def _pairs(run: Run) -> str:
    """A table of the pairs of cells with the most handovers."""
    rows = run.rows("handovers")
    cells = np.array([rows["source"], rows["target"]], dtype=str)
    pairs, number = np.unique(cells, axis=1, return_counts=True)
    order = np.argsort(-number, kind="stable")[:MOST_PAIRS]
    ordered: Cells = [[str(pairs[0, k]), int(number[k]), str(pairs[1, k])] for k in order]
    return table(
        "Handovers between cells, the most frequent first", ["from", "handovers", "to"], ordered
    )
