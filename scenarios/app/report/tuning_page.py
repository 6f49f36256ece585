"""The page of a tuning: the winner and its figure on fresh seeds, the search over time, what each setting does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from scenarios.app.report.figures.scatter import history_panel, settings_panel, tradeoff_panel
from scenarios.app.report.html import (
    Cell,
    Chapter,
    Link,
    Mark,
    answers,
    facts,
    folded,
    headings,
    page,
    paragraphs,
    table,
)
from scenarios.app.results.tuning_folder import failed_lines, set_line, tuning_lines
from scenarios.app.study.describe import flow

Found = Mapping[str, Any]
_HONEST = (
    "The figure of the search is optimistic: the winner is the luckiest of many on the same seeds. The figure on fresh "
    "seeds, which no trial used, is the one to quote."
)


def tuning_page(found: Found) -> str:
    """The page; a pure function of `tuning.json`."""
    objectives = [o["key"] for o in found["objectives"]]
    several = len(objectives) > 1
    lines = tuning_lines(found)
    said = [("search", lines[0]), *(("winner" if found["best"] else "no winner", line) for line in lines[1:-1])]
    top = (
        headings(found["title"], f"tuning of {found['scenario']}")
        + answers(said if found["best"] else [("search", lines[0]), ("no winner", lines[-1])])
        + paragraphs([_HONEST] if found["best"] and found["fresh_seeds"] else [], "says")
        + paragraphs([" ".join(failed)] if (failed := failed_lines(found)) else [], "warns")
        + "".join(folded(f"play {name}", set_line(found, name)) for name in found["best"])
    )
    chapters = [
        Chapter("search", "Search", [tradeoff_panel(found) if several else history_panel(found)]),
        Chapter("settings", "Settings", [_importance(found), *(settings_panel(found, key) for key in objectives)]),
        Chapter("trials-all", "Trials", [_table(found)]),
        Chapter("configuration", "Configuration", [facts(_facts(found))]),
    ]
    return page(found["title"], top, chapters)


def _importance(found: Found) -> str:
    """Shares of the variance by setting, a column for each objective."""
    shares = found["importance"]
    rows = [[name, *(float(of.get(name, 0.0)) for of in shares.values())] for name in found["space"]]
    title = "Importance: share of the variance over trials that a setting explains"
    return table(title, ["setting", *shares], rows) if shares else ""


def _table(found: Found) -> str:
    """A row per trial, with a link to its runs."""
    figures = list(dict.fromkeys(key for row in found["trials"] for key in row["values"]))
    rows: list[list[Cell]] = [
        [
            Mark(row["name"] + " (best)" * (row["name"] in found["best"]), row["number"]),
            *(float(row["values"].get(key, np.nan)) for key in figures),
            *map(flow, row["settings"].values()),
            row["state"] if row["state"] != "finished" or row["kept"] else "breaks a constraint",
            row["why"] or Link("records", row["name"]),
        ]
        for row in found["trials"]
    ]
    return table("All trials", ["trial", *figures, *found["space"], "state", "why"], rows, "trials")


def _facts(found: Found) -> dict[str, str]:
    goals = [f"{o['key']} ({o['direction']})" for o in found["objectives"]]
    return {
        "objectives": ", ".join(goals),
        "constraints": ", ".join(map(str, found["constraints"])) or "none",
        "ended early by": found["ended_by"] or "nothing",
        "seeds of every trial": ", ".join(map(str, found["seeds"])),
        "fresh seeds": ", ".join(map(str, found["fresh_seeds"])) or "none",
        "command": found["command"],
        "winner as a scenario": "best.yaml" if found["best"] else "none",
    }
