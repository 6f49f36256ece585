"""Whether an attack puts the pseudonyms of a UE together again, over time."""

from __future__ import annotations

import numpy as np

from scenarios.app.report.plot import Cell, Figure, Look, Panel, line, looks, mosaic
from scenarios.app.report.series import DATES
from scenarios.app.results.run import Run

MOST_POINTS = 400  # of a curve
_CELLS = (
    ("right_share", "chance_share", "linked right (%)", "Links that are right", 100.0, "%"),
    ("anonymity_set", "", "UEs", "Anonymity set", 1.0, ""),
    ("time_to_confusion_s", "chance_time_to_confusion_s", "time (min)", "Time to confusion", 1.0 / 60.0, "min"),
)
"""column, its chance, axis, title, factor, unit"""


def linking_panel(run: Run) -> list[Panel]:
    """Share of right links, anonymity set and time to confusion; nothing where no attack links."""
    if "linking" not in run.tables:
        return []
    rows = run.rows("linking")
    names = list(dict.fromkeys(map(str, rows["attack"])))
    cells = list[Cell]()
    for column, chance, axis, title, factor, unit in _CELLS:
        traces: list[Figure] = []
        for look in looks(names):
            mine = np.flatnonzero(rows["attack"] == look.name)
            mine = mine[:: max(1, -(-len(mine) // MOST_POINTS))]
            x = run.dates(rows["time_s"][mine])
            by_chance = Look(f"{look.name}: by chance", look.color, look.symbol, "dot")
            for of, one in ((column, look), (chance, by_chance)):
                if of and np.isfinite(rows[of][mine]).any():
                    how = f"%{{y:,.3~r}} {unit}"
                    traces.append(line(one, x, factor * rows[of][mine], hovertemplate=how, showlegend=not cells))
        if traces:
            cells.append(Cell(axis, traces, title, percent=factor == 100.0))
    if not cells:
        return []
    caption = (
        "Left the share of updates under a new name that the attack gives to the track which last held their UE: the "
        "higher, the less a change of names hides. Middle between how many UEs it wavers (2 to the power of the "
        "entropy of its choice). Right how long a UE can be followed until it is mixed up. Dotted: the same by chance, "
        "which grows with the length of a round."
    )
    return [Panel("linking", "Pseudonyms that are linked again", caption, mosaic(cells, DATES, 280))]
