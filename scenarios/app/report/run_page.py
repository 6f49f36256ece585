"""The page of a run: its head, charts over rounds by chapter, and figures that have another axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fl.leakage.reliability import DRAWS, Reliability, reliability
from netsim.rng import Streams
from netsim.units import FloatArray
from scenarios.app.report.charts import (
    BOTH,
    DIVERGED,
    ERROR,
    HOME,
    MODEL,
    NEARER,
    SW1,
    WORK,
    Beside,
    Chart,
    Laid,
    Law,
    Quantity,
    Series,
    TimeGrid,
    of_table,
    spent,
)
from scenarios.app.report.compare_tables import records_table, summary_chapter
from scenarios.app.report.html import Chapter, page
from scenarios.app.report.maps import density_panels, obstacle_panels
from scenarios.app.report.plot import (
    DARK,
    GREY,
    PALETTE,
    Axes,
    CurveStyle,
    Figure,
    Panel,
    line,
    looks,
    marks,
    mosaic,
    numbers,
)
from scenarios.app.report.radio_page import radio, service
from scenarios.app.report.replay import SCRIPTS, STYLES, replay_chapter
from scenarios.app.report.settings import configuration, run_top
from scenarios.app.report.uploads import uploads_panels
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.attacks import Truth, stated_reliability
from scenarios.app.results.run import Run, Table, where
from scenarios.app.results.statistics import counted, figure_text
from scenarios.app.results.tracking import (
    FILTER,
    PLAIN,
    PRIOR,
    SMOOTHER,
    known_hours,
    of_kind,
    tracked,
    tracking_attacks,
)

MOST_METRICS = 12  # pairs of axes
_ELSEWHERE = frozenset({"rmse_db", "constant_rmse_db", "raw_upload_rmse_db", "rank_correlation", "accuracy_percent"})
"""metrics that have a figure of their own"""


def _the_run(_: Run) -> list[CurveStyle]:
    return [CurveStyle("the run", DARK)]


LEAKAGE = (
    Chart(
        "named", "UEs with a named place within {near} m of home and work", (HOME, WORK, BOTH, NEARER),
        "Share of attacked UEs whose true place lies within {near} m of a place that the attack names, at most two per "
        "UE: its latest answers or, without any, the two highest density peaks of its estimates so far. The higher, "
        "the more the attacker knows; compare with chance: two uniformly random places, the two highest density peaks "
        "of the true positions of all other UEs, and what the same attack names of another UE at the end.",
        "No UE has a known home, or no attack named a place.",
    ),
    Chart(
        "errors", "Centroid error of every attack", (ERROR, DIVERGED),
        "Distance from the attack's estimate to the mean of all points that the UE measured in the round. An estimate "
        "outside the area, or not finite, has diverged and counts as infinite; errors below 0.1 m are drawn there.",
        "No attack made an estimate inside the area, so there is no error to draw.", height=340,
    ),
    Chart(
        "distribution", "Sliced Wasserstein distance (SW1) of every attack", (SW1,),
        "Distance between all points measured so far and all estimates so far. An attack that is not below the 5 % "
        "quantile of random guesses has found nothing. The SW1 of the true centroids is no bound: estimates that "
        "scatter as the points do lie below it.",
        "No attack made an estimate inside the area, so there is no distance to draw.", height=340,
    ),
)  # fmt: skip
UTILITY = Chart(
    "utility", "Model on held-out data", MODEL,
    "A model that is no better than the constant has learned nothing, and low leakage then proves nothing. Raw upload "
    "is the map of a server that receives all measurements. Rounds are scored on at most 2,000 held-out samples, the "
    "last one on all of them.",
    "No error was recorded: nothing was held out, or no round was played.", by=_the_run,
)  # fmt: skip
PRIVACY = Chart(
    "epsilon", "Privacy spent: epsilon of every mechanism so far",
    (Quantity("Largest epsilon of any UE", "", spent, log=True),),
    "All rounds composed, by RDP where UEs are sampled and exactly otherwise; smaller is more private.",
    "No mechanism spent a finite epsilon, so there is no differential privacy.",
    by=lambda run: looks(dict.fromkeys(map(str, run.tables["spends"]["mechanism"]))),
)  # fmt: skip


def run_chapters(run: Run) -> list[Chapter]:
    """All figures of a run by what they are about."""
    of = Laid(run)
    leaks = [] if run.summary.get(keys.ACCURACY.of()) is not None else [p for c in LEAKAGE for p in c.panels(of)]
    maps = [
        *obstacle_panels(run.grid),
        *(density_panels(run.surfaces) if keys.RANK_CORRELATION.key in run.summary else []),
    ]
    return [
        Chapter("leakage", "Leakage", leaks),
        Chapter("tracking", "Tracking", tracking_panels(of)),
        Chapter("utility-chapter", "Model", UTILITY.panels(of)),
        Chapter("privacy", "Privacy spent", [account(run), *PRIVACY.panels(of)]),
        Chapter("radio-figures", "Radio", [service(run), radio(run)]),
        Chapter("uploads", "Uploads", uploads_panels(of)),
        Chapter("method", "Method", [*maps, *_metrics(of)]),
    ]


def account(run: Run) -> str:
    """The account of the UE that spent most, of each mechanism."""
    rows = run.tables["privacy"]
    order = np.argsort(np.nan_to_num(rows["epsilon"], nan=np.inf), kind="stable")
    worst = sorted({rows["mechanism"][k]: k for k in order}.values())
    return records_table("Privacy account of the UE that spent most", where(rows, worst))


# -- what parts report


def _metrics(of: Laid) -> list[Panel]:
    """Each metric that a part reports and that changes, except those drawn elsewhere."""
    rows, quantities = of.run.rows("metrics"), list[Quantity]()
    which = {(str(p), str(n)): None for p, n in zip(rows["part"], rows["name"], strict=True) if n not in _ELSEWHERE}
    for part, name in which:
        mine = where(rows, (rows["part"] == part) & (rows["name"] == name))
        if len(set(mine["value"][np.isfinite(mine["value"])])) > 1:
            law = lambda _of, _name, own=mine: of_table(own)  # noqa: E731
            quantities.append(Quantity(f"{part}: {name}", "", law))
    more = len(quantities) - MOST_METRICS
    caption = "Every metric in its own unit, as the page of its part defines it (netsim list SLOT)."
    caption += f" Not drawn: {counted(more, 'more metric')}." if more > 0 else ""
    chart = Chart(
        "metrics", "What parts report of themselves", quantities[:MOST_METRICS], caption, by=_the_run, height=200
    )
    return chart.panels(of)


# -- attacks that remember

LOOKS = {
    PLAIN: CurveStyle(PLAIN, PALETTE[1], "diamond", "longdash"),
    FILTER: CurveStyle(FILTER, PALETTE[0]),
    SMOOTHER: CurveStyle(SMOOTHER, PALETTE[2], "square"),
    PRIOR: CurveStyle(PRIOR, GREY, "cross", "dash"),
}


_PLACES = CurveStyle("places named at the end", PALETTE[3], "triangle-up", "longdash")


def tracking_panels(of: Laid) -> list[str | Panel]:
    """Figures of attacks that track, state probabilities or link; nothing without any."""
    panels = [
        panel for k, name in enumerate(tracking_attacks(of.run)) for panel in tracking_chart(of.run, name, k).panels(of)
    ]
    return [*panels, *reliability_panel(of.run), *LINKING.panels(of), unicity(of.run)]


def tracking_chart(run: Run, attack: str, k: int = 0) -> Chart:
    """Error over time, hours known and credible areas of an attack."""
    rows = tracked(run, attack)

    def laid(column: str, factor: float = 1.0, kinds: Sequence[str] = (*LOOKS,)) -> Law:
        def law(_: Laid, kind: str) -> Series:
            if kind not in kinds:
                return np.zeros(0), np.zeros((0, 1))
            some, values = of_kind(rows, kind, column)
            grid = TimeGrid.of(some, "ue")
            return grid.round, factor * grid.lay(values)

        return law

    def hours(_: Laid, kind: str) -> Series:
        number, value = known_hours(run, rows, kind)
        return number, value[:, None]

    def inside(of: Laid, kind: str) -> Series:
        number, values = laid("in90", 100.0, (FILTER, SMOOTHER))(of, kind)
        return number, _so_far(values)

    return Chart(
        f"tracking-{k}", f"What {attack} knows over time, with memory and without",
        (Quantity("Error of the answer", "m", laid("error_m"), log=True),
         Quantity("Hours known within {near} m so far, mean over UEs", "h", hours),
         Quantity("Expected distance", "m", laid("expected_distance_m", 1.0, (FILTER, SMOOTHER, PRIOR)), log=True),
         Quantity("Truth in the area of 90 %, so far", "%", inside),
         Quantity("Size of the area of 90 %", "km²", laid("area90_m2", 1e-6, (FILTER, SMOOTHER)), log=True)),
        "Plain: the tracked attack alone; filter: what is known in the round; smoother: what is known of it at the "
        "end; prior: what is known without any update. Error: from the answer to the true mean position of the round; "
        "expected distance: mean distance of the whole belief to it (the privacy of Shokri et al. 2011). A belief that "
        "can be trusted has the truth in its area of 90 % as often.", by=lambda _: [*LOOKS.values()], height=240,
    )  # fmt: skip


def _so_far(values: FloatArray, weight: FloatArray | float = 1.0) -> FloatArray:
    """Mean of all values (n_time, n_track) up to each time (n_time, 1), NaN left out."""
    weight = np.where(np.isfinite(values), np.nan_to_num(weight), 0.0)
    n = np.cumsum(weight.sum(axis=1))
    held = np.cumsum((np.nan_to_num(values) * weight).sum(axis=1))
    return np.asarray(np.divide(held, n, out=np.full(len(n), np.nan), where=n > 0))[:, None]


def _linked(column: str, weight: str = "", factor: float = 1.0) -> Law:
    """A column of `linking`; weight: column by which it is a mean so far."""

    def law(of: Laid, attack: str) -> Series:
        rows = of.run.rows("linking", "attack", attack)
        values = rows[column][:, None]
        values = _so_far(values, rows[weight][:, None]) if weight else values
        return rows["round"], factor * values

    return law


LINKING = Chart(
    "linking", "Pseudonyms that are linked again",
    (Quantity("Links that are right, so far", "%", _linked("right_share", "seen", 100.0),
              (Beside("by chance", _linked("chance_share", "seen", 100.0), each=True),)),
     Quantity("Anonymity set", "UEs", _linked("anonymity_set", "linked")),
     Quantity("Time to confusion", "min", _linked("time_to_confusion_s", factor=1 / 60),
              (Beside("by chance", _linked("chance_time_to_confusion_s", factor=1 / 60), each=True),))),
    "Share of updates under a new name that the attack gave to the track which last held their UE: the higher, the "
    "less a change of names hides. Between how many UEs it wavers (2 to the power of the entropy of its choice). How "
    "long a UE can be followed until it is mixed up.",
    by=lambda run: looks(dict.fromkeys(map(str, run.rows("linking")["attack"]))), height=280,
)  # fmt: skip


def unicity(run: Run) -> str:
    """How few points of its track single a UE out, at several resolutions."""
    title = "Unicity: draws of so many points of a track that no other UE has (de Montjoye et al. 2013)"
    return records_table(title, run.tables["unicity"])


def reliability_panel(run: Run) -> list[Panel]:
    """Share of hits in bins of the stated probability, a pair of axes per attack that states probabilities."""
    named = run.tables["named"]
    names = [*tracking_attacks(run), *map(str, named["attack"][np.isfinite(named["probability"])])]
    cells, gaps = list[Axes](), list[str]()
    for name in dict.fromkeys(names):
        drawn = {look: of for look, of in _reliabilities(run, name).items() if of.count.any()}
        ideal = line(CurveStyle("as stated", DARK, dash="dash"), [0.0, 100.0], np.array([0.0, 100.0]), mode="lines")
        hits = [_hits(look, of) for look, of in drawn.items()]
        cells += [Axes("hits (%)", [ideal, *hits], name, percent=True)] if hits else []
        for look, of in drawn.items():
            ends = [figure_text(100 * v) for v in (of.error, of.error_low, of.error_high, of.by_chance_error)]
            gaps.append("{}, {}: {} points [{}, {}] (right probabilities: {})".format(name, look.name, *ends))
    if not cells:
        return []
    caption = (
        f"How often the truth lies within {run.near_m:g} m of the centre of the best disc, in ten bins of the "
        "probability that the attack gives this disc: on the dashed line it can be trusted, below it is too sure; the "
        "larger a mark, the more answers it stands for. Expected calibration error (ECE) with its 95 % interval over "
        f"UEs: {'; '.join(gaps)}."
    )
    figure = mosaic(cells, {"title": "stated probability (%)", "range": [-3, 103]}, 320, closest=True)
    return [Panel("tracking-reliability", "Reliability: stated probability against hits", caption, figure)]


def _reliabilities(run: Run, name: str) -> dict[CurveStyle, Reliability]:
    """Of the answers of filter and smoother, and of the places named at the end."""
    rows, named = tracked(run, name), run.tables["named"]
    mine = (named["attack"] == name) & np.isfinite(named["ue"])
    truth = Truth.of(run.tables["ues"], np.unique(run.rows("leakage", "attack", name)["ue"]), run.near_m)
    answers = {LOOKS[kind]: _of_answers(rows[kind]) for kind in (FILTER, SMOOTHER)}
    return {**answers, _PLACES: stated_reliability(where(named, mine), truth)}


def _of_answers(rows: Table) -> Reliability:
    ue, stated = rows["ue"].astype(np.int64), np.minimum(rows["disc_probability"], 1.0)
    draws = Streams(0).at("reliability").uniform("ue", np.arange(DRAWS), (len(np.unique(ue)),))
    return reliability(ue, stated, rows["near"] == 1, draws)


def _hits(look: CurveStyle, of: Reliability) -> Figure:
    known = of.count > 0
    n, x, y = of.count[known], 100 * of.stated[known], 100 * of.hit[known]
    texts = [f"stated {a:.3g} %, hit {b:.3g} %, {counted(int(k), 'answer')}" for a, b, k in zip(x, y, n, strict=True)]
    size = {"symbol": look.symbol, "color": look.color, "size": numbers(6 + 10 * n / n.max())}
    return marks(look, numbers(x), y, texts, mode="lines+markers", marker=size)


def single(run: Run) -> str:
    """The page of one run that learns."""
    replay, data = replay_chapter(run)
    chapters = [replay, *run_chapters(run), summary_chapter(run), configuration(run)]
    return page(run.manifest["title"], run_top(run), chapters, data, *((SCRIPTS, STYLES) if data else ()))
