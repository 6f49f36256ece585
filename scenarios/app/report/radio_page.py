"""The page of a radio study, and that of a tuning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from netsim.safe import what_is
from netsim.units import FloatArray
from scenarios.app.report.charts import UPLINK, Chart
from scenarios.app.report.plot import (
    DARK,
    GREY,
    PALETTE,
    Axes,
    Cell,
    Chapter,
    CurveStyle,
    Figure,
    Mark,
    Panel,
    block,
    line,
    marks,
    mosaic,
    numbers,
    page,
    plain,
    table,
)
from scenarios.app.report.replay import replay_chapter
from scenarios.app.report.tables import head, last_chapters
from scenarios.app.results.folder import SHOWN, read_json
from scenarios.app.results.read import SWEEP, Run
from scenarios.app.results.statistics import counted, figure_text, quantile
from scenarios.app.results.tuning_folder import WINNER_HEADS, failed_lines, set_line, tuning_lines, winner_rows
from scenarios.app.study import Fields, Record
from scenarios.app.study.describe import flow

# Tol's colours, distinguishable with colour blindness; no attack has one of them
SEEN = CurveStyle("line of sight", "#44AA99")
HIDDEN = CurveStyle("no line of sight", "#882255", "diamond")
SELECTED = {
    "all": CurveStyle("all samples", DARK),
    "indoor": CurveStyle("indoors", PALETTE[1], dash="longdash"),
    "outdoor": CurveStyle("outdoors", PALETTE[0], dash="dot"),
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
    traces = list[Figure]()
    for look, sight in ((SEEN, 1.0), (HIDDEN, 0.0)):
        dots = good & (ground["los"] == sight)
        if dots.any():
            marker = {"size": 4, "color": look.color, "opacity": 0.4, "symbol": look.symbol}
            distance_m = numbers(ground["distance_m"][dots])
            rsrp_dbm = ground["rsrp_dbm"][dots]
            traces.append(line(look, distance_m, rsrp_dbm, mode="markers", marker=marker))
    if not traces:
        return Panel(key, title, "There is no outdoor place, so no link was sampled.")
    caption = (
        f"Mean received power without small-scale fading, from {counted(good.shape[1], 'base station')} at "
        f"{counted(len(good), 'place')}. A dot is a link."
    )
    x_axis: Figure = {"type": "log", "title": "distance (m)"}
    return Panel(key, title, caption, mosaic([Axes("RSRP (dBm)", traces, near=True)], x_axis, 380, closest=True))


SERVICE = Chart(
    "service", "Uplink over rounds: decoded updates, latency, energy, SINR", UPLINK,
    "The more updates arrive in time, the more the model learns and the attacker sees. Latency is from the request to "
    "the last bit. Energy is that of all uplinks and all training of the round.",
    "The uplink is ideal, or no SINR was recorded.", by=lambda run: [CurveStyle("all UEs", DARK)],
)  # fmt: skip


def service(run: Run) -> Panel:
    """Decoded updates, latency, energy and SINR of each round."""
    if not np.isfinite(run.rows("links")["sinr_db"]).any():
        return Panel(SERVICE.key, SERVICE.title, SERVICE.missing)
    return SERVICE.panels(run)[0]


# -- a radio study

MOST_PAIRS = 10  # of cells, in the table of handovers


def radio_single(run: Run) -> str:
    """The page of one radio study."""
    return page(run.manifest.title, [replay_chapter(run), *radio_chapters(run), *last_chapters(run)], **head(run))


def radio_chapters(run: Run) -> list[Chapter]:
    """All figures and tables of a radio study by what they are about."""
    received = [distributions([(look, [curves(run, name)]) for name, look in SELECTED.items()]), radio(run)]
    return [Chapter("samples", "What UEs receive", received), Chapter("handover", "Handover", [_pairs(run)])]


def curves(run: Run, selection: str = "all") -> Curves:
    """The distributions of one selection of samples."""
    cdf = run.tables["radio_cdf"]
    mine = cdf["selection"] == selection
    return {name: cdf["value"][mine & (cdf["quantity"] == name)] for name in SHOWN}


def distributions(shown: Sequence[tuple[CurveStyle, Sequence[Curves]]]) -> Panel:
    """Cumulative distributions of all quantities; of several runs the median of each quantile."""
    title = "Distributions over UEs and time"
    cells = list[Axes]()
    for name, (word, unit, factor) in SHOWN.items():
        traces = list[Figure]()
        for look, runs in shown:
            known = np.array([run[name] for run in runs if len(run[name])])
            if np.isfinite(known).any():
                x = numbers(factor * quantile(known.T, 0.5))
                percent = np.linspace(0.0, 100.0, known.shape[1])
                hover = f"%{{y:.0f}} % up to %{{x:.3~r}} {unit}"
                traces.append(line(look, x, percent, mode="lines", hovertemplate=hover))
        if traces:
            cells.append(Axes("samples (%)", traces, f"{word} ({unit})", percent=True))
    if not cells:
        return Panel("distributions", title, "There were no samples.")
    caption = (
        "Share of samples at most at a value; a sample is a UE that is present at a sampling time. Gain is antenna "
        "gain minus path loss plus shadowing and, indoors, minus penetration loss; geometry is the power of the "
        "serving cell over the sum of all others', SINR the same with noise. The rate is that of a UE that is given "
        "the whole band of its cell (see the channel card). Of several seeds a line is the median of each quantile."
    )
    return Panel("distributions", title, caption, mosaic(cells, {}, 300, closest=True))


def _pairs(run: Run) -> str:
    """A table of the pairs of cells with the most handovers."""
    rows = run.rows("handovers")
    cells = np.array([rows["source"], rows["target"]], dtype=str)
    pairs, number = np.unique(cells, axis=1, return_counts=True)
    order = np.argsort(-number, kind="stable")[:MOST_PAIRS]
    ordered: list[list[Cell]] = [[str(pairs[0, k]), int(number[k]), str(pairs[1, k])] for k in order]
    return table("Handovers between cells, the most frequent first", ["from", "handovers", "to"], ordered)


_KEPT = CurveStyle("trials", PALETTE[0])
_BROKEN = CurveStyle("break a constraint", GREY, "cross")
BEST = CurveStyle("best", PALETTE[1], "diamond")
Found = Record
Groups = Sequence[tuple[CurveStyle, Sequence[Found]]]
"""looks, and the rows (`settings`, `values`, `name`) drawn so"""
PairOfAxes = tuple[str, str, Callable[[Found], float | str]]
"""key of the value that is drawn, heading, and x of a row"""


def of_settings(key: str, title: str, caption: str, groups: Groups) -> Panel:
    """A pair of axes for each setting: its value, and the figure `key` of each row."""
    names = dict.fromkeys(name for _, rows in groups for row in rows for name in row["settings"])
    axes = [(key, plain(name), lambda row, name=name: _at(row["settings"][name])) for name in names]
    return _panel(Panel(f"settings-{key}", title, caption), groups, axes, "value")


def tradeoff_panel(found: Found) -> Panel:
    """The first objective against each other one; trials of the front are marked."""
    first, *others = [o["key"] for o in found["objectives"]]
    caption = "Marked as best is the front: no other trial is as good in every objective and better in one."
    axes = [(key, "", lambda row: row["values"][first]) for key in others]
    return _panel(Panel("front", "Trade-off", caption), groups(found), axes, plain(first))


def _panel(panel: Panel, groups: Groups, axes: Sequence[PairOfAxes], x_title: str) -> Panel:
    """The panel with marks of all rows."""
    cells = []
    for value, heading, x in axes:
        traces = [
            marks(look, [x(row) for row in rows], np.array([row["values"][value] for row in rows], dtype=float),
                  [f"{plain(row['name'])}<br>{x(row)}<br>{figure_text(row['values'][value])}" for row in rows])
            for look, rows in groups if rows
        ]  # fmt: skip
        cells.append(Axes(value, traces, heading, near=True))
    if not any(cell.traces for cell in cells):
        return replace(panel, caption="No trial finished.")
    return replace(panel, figure=mosaic(cells, {"title": x_title}, closest=True))


def groups(found: Found) -> list[tuple[CurveStyle, list[Found]]]:
    """Finished trials: those that keep all bounds, those that do not, and once more the best."""
    done = [row for row in found["trials"] if row["state"] == "finished"]
    return [
        (_KEPT, [row for row in done if row["kept"]]), (_BROKEN, [row for row in done if not row["kept"]]),
        (BEST, [row for row in done if row["name"] in found["best"]]),
    ]  # fmt: skip


def _at(value: object) -> float | str:
    """Where a value stands on its axis: a number, or its text."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else plain(flow(value))


def draws_panels(folder: Path, runs: Sequence[tuple[str, Found, Found]]) -> list[Panel]:
    """Of a sweep of random points: the model's figure against each drawn key; runs: name, study, summary."""
    drawn = read_json(folder / SWEEP).get("drawn") if what_is(folder / SWEEP) else None
    caption = "One mark per run: the figure of its model against each key that was drawn at random."
    panels = []
    for key in ("utility.rmse_db", "utility.accuracy_percent", "utility.rank_correlation"):
        rows = [
            {"name": name, "values": summary,
             "settings": {str(path): _within(study, str(path)) for path in drawn or []}}
            for name, study, summary in runs if summary.get(key) is not None
        ]  # fmt: skip
        if drawn and rows:
            panels.append(of_settings(key, f"{key} by drawn value", caption, [(CurveStyle("runs", PALETTE[0]), rows)]))
    return panels


def _within(study: Fields, path: str) -> object:
    """The value at a dotted path."""
    for name in path.split("."):
        study = study[int(name)] if isinstance(study, list) else study.get(name)
    return study


_HONEST = (
    "The figure of the search is optimistic: the winner is the luckiest of many on the same seeds. The figure on fresh "
    "seeds, which no trial used, is the one to quote."
)


def tuning_page(found: Found) -> str:
    """The page; a pure function of `tuning.json`."""
    objectives = [o["key"] for o in found["objectives"]]
    first, *lines = tuning_lines(found)
    winners = [] if found["best"] else [("no winner", lines[-1])]
    caption = "One mark per finished trial: its mean over seeds, against each setting that was searched."
    settings = [of_settings(key, f"{key} by setting", caption, groups(found)) for key in objectives]
    facts = {
        "objectives": ", ".join(f"{o['key']} ({o['direction']})" for o in found["objectives"]),
        "constraints": ", ".join(map(str, found["constraints"])) or "none",
        "seeds of every trial": ", ".join(map(str, found["seeds"])),
        "fresh seeds": ", ".join(map(str, found["fresh_seeds"])) or "none",
        "command": found["command"],
        "winner as a scenario": "best.yaml" if found["best"] else "none",
    }
    chapters = [
        Chapter("search", "Search", [tradeoff_panel(found)] if len(objectives) > 1 else []),
        Chapter("settings", "Settings", [_importance(found), *settings]),
        Chapter("trials-all", "Trials", [_table(found)]),
        Chapter("configuration", "Configuration", [block("facts", facts)]),
    ]
    failed = failed_lines(found)
    return page(
        found["title"],
        chapters,
        below=f"tuning of {found['scenario']}",
        answers=[("search", first), *winners],
        results=table("Winners", WINNER_HEADS, winner_rows(found)),
        says=[_HONEST] if found["best"] and found["fresh_seeds"] else [],
        warns=[" ".join(failed)] if failed else [],
        folded={f"play {name}": set_line(found, name) for name in found["best"]},
    )


def _importance(found: Found) -> str:
    """Shares of the variance by setting, a column for each objective."""
    shares = found["importance"]
    rows = [[name, *(float(of.get(name, 0.0)) for of in shares.values())] for name in found["space"]]
    title = "Importance: share of the variance over trials that a setting explains"
    return table(title, ["setting", *shares], rows if shares else [])


def _table(found: Found) -> str:
    """A row per trial, with a link to its runs."""
    keys = dict.fromkeys(key for row in found["trials"] for key in row["values"])
    rows = list[list[Cell]]()
    for row in found["trials"]:
        name = row["name"] + " (best)" * (row["name"] in found["best"])
        figures = [float(row["values"].get(key, np.nan)) for key in keys]
        state = row["state"] if row["state"] != "finished" or row["kept"] else "breaks a constraint"
        why = row["why"] or Mark(links=[("records", row["name"])])
        rows.append([Mark(name, row["number"]), *figures, *map(flow, row["settings"].values()), state, why])
    return table("All trials", ["trial", *keys, *found["space"], "state", "why"], rows, "trials")
