"""The page of a tuning, and points of a space of settings: a figure against each setting."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from netsim.safe import what_is
from scenarios.app.report.html import Cell, Chapter, Mark, block, page, table
from scenarios.app.report.plot import GREY, PALETTE, Axes, CurveStyle, Panel, marks, mosaic, plain
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.folder import read_json
from scenarios.app.results.read import SWEEP
from scenarios.app.results.statistics import figure_text
from scenarios.app.results.tuning_folder import WINNER_HEADS, failed_lines, set_line, tuning_lines, winner_rows
from scenarios.app.study import Record
from scenarios.app.study.describe import flow

_KEPT = CurveStyle("trials", PALETTE[0])
_BROKEN = CurveStyle("break a constraint", GREY, "cross")
BEST = CurveStyle("best", PALETTE[1], "diamond")
Found = Record
Groups = Sequence[tuple[CurveStyle, Sequence[Found]]]
"""looks, and the rows (`settings`, `values`, `name`) drawn so"""


def of_settings(key: str, title: str, caption: str, groups: Groups) -> Panel:
    """A pair of axes for each setting: its value, and the figure `key` of each row."""
    names = dict.fromkeys(name for _, rows in groups for row in rows for name in row["settings"])
    axes = [(key, plain(name), lambda row, name=name: _at(row["settings"][name])) for name in names]
    return _panel(f"settings-{key}", title, caption, groups, axes, "value")


def settings_panel(found: Found, key: str) -> Panel:
    """What each setting does to an objective, over the finished trials."""
    caption = "One mark per finished trial: its mean over seeds, against each setting that was searched."
    return of_settings(key, f"{key} by setting", caption, groups(found))


def tradeoff_panel(found: Found) -> Panel:
    """The first objective against each other one; trials of the front are marked."""
    first, *others = [o["key"] for o in found["objectives"]]
    caption = "Marked as best is the front: no other trial is as good in every objective and better in one."
    axes = [(key, "", lambda row: row["values"][first]) for key in others]
    return _panel("front", "Trade-off", caption, groups(found), axes, plain(first))


def _panel(key: str, title: str, caption: str, groups: Groups, axes: Sequence[Any], x_title: str) -> Panel:
    """Marks of all rows; axes: key of the value that is drawn, heading, x of a row."""
    cells = []
    for value, heading, x in axes:
        traces = [
            marks(look, [x(row) for row in rows], np.array([row["values"][value] for row in rows], dtype=float),
                  [f"{plain(row['name'])}<br>{x(row)}<br>{figure_text(row['values'][value])}" for row in rows])
            for look, rows in groups if rows
        ]  # fmt: skip
        cells.append(Axes(value, traces, heading, near=True))
    if not any(cell.traces for cell in cells):
        return Panel(key, title, "No trial finished.")
    return Panel(key, title, caption, mosaic(cells, {"title": x_title}, closest=True))


def groups(found: Found) -> list[tuple[CurveStyle, list[Found]]]:
    """Finished trials: those that keep all bounds, those that do not, and once more the best."""
    done = [row for row in found["trials"] if row["state"] == "finished"]
    return [
        (_KEPT, [row for row in done if row["kept"]]), (_BROKEN, [row for row in done if not row["kept"]]),
        (BEST, [row for row in done if row["name"] in found["best"]]),
    ]  # fmt: skip


def _at(value: Any) -> Any:
    """Where a value stands on its axis: a number, or its text."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else plain(flow(value))


def draws_panels(folder: Path, runs: Sequence[tuple[str, Found, Found]]) -> list[Panel]:
    """Of a sweep of random points: the model's figure against each drawn key; runs: name, study, summary."""
    drawn = read_json(folder / SWEEP).get("drawn") if what_is(folder / SWEEP) else None
    caption = "One mark per run: the figure of its model against each key that was drawn at random."
    panels = []
    for key in (keys.RMSE.of(), keys.ACCURACY.of(), keys.RANK_CORRELATION.of()):
        rows = [
            {"name": name, "values": summary,
             "settings": {str(path): _within(study, str(path)) for path in drawn or []}}
            for name, study, summary in runs if summary.get(key) is not None
        ]  # fmt: skip
        if drawn and rows:
            panels.append(of_settings(key, f"{key} by drawn value", caption, [(CurveStyle("runs", PALETTE[0]), rows)]))
    return panels


def _within(study: Any, path: str) -> Any:
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
    settings = [settings_panel(found, key) for key in objectives]
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
