"""Whether an attack puts the pseudonyms of a UE together again, over time."""

from __future__ import annotations

import numpy as np

from netsim.units import FloatArray
from scenarios.app.report.plot import Cell, Figure, Look, Panel, line, looks, mosaic, numbers
from scenarios.app.report.series import DATES
from scenarios.app.results.run import Run, Table, where
from scenarios.app.results.statistics import counted

MOST_POINTS = 400  # of a curve
_CELLS = (
    ("right_share", "chance_share", "linked right (%)", "Links that are right", 100.0, "%"),
    ("anonymity_set", "", "UEs", "Anonymity set", 1.0, ""),
    ("time_to_confusion_s", "chance_time_to_confusion_s", "time (min)", "Time to confusion", 1.0 / 60.0, "min"),
)
"""column, its chance, axis, title, factor, unit"""
_WEIGHTS = {"right_share": "seen", "chance_share": "seen", "anonymity_set": "linked"}


def linking_panels(run: Run) -> list[Panel]:
    """Links over time, and unicity; nothing where no attack links."""
    return [*_links(run), *_unicity(run)]


def _links(run: Run) -> list[Panel]:
    """Share of right links, anonymity set and time to confusion."""
    rows = run.rows("linking")
    names = list(dict.fromkeys(map(str, rows["attack"])))
    cells = list[Cell]()
    for column, chance, axis, title, factor, unit in _CELLS:
        traces: list[Figure] = []
        for look in looks(names):
            own = where(rows, rows["attack"] == look.name)
            some = slice(None, None, max(1, -(-len(own["round"]) // MOST_POINTS)))
            x = run.dates(own["time_s"][some])
            by_chance = Look(f"{look.name}: by chance", look.color, look.symbol, "dot")
            for of, one in ((column, look), (chance, by_chance)):
                if of and np.isfinite(own[of]).any():
                    how, values = f"%{{y:,.3~r}} {unit}", factor * _so_far(own, of)[some]
                    traces.append(line(one, x, values, hovertemplate=how, showlegend=not cells))
        if traces:
            cells.append(Cell(axis, traces, title, percent=factor == 100.0))
    if not cells:
        return []
    caption = (
        "Left the share of updates under a new name, so far, that the attack gave to the track which last held their "
        "UE: the higher, the less a change of names hides. Middle between how many UEs it wavers (2 to the power of "
        "the entropy of its choice). Right how long a UE can be followed until it is mixed up. Dotted: the same by "
        "chance, which grows with the length of a round."
    )
    return [Panel("linking", "Pseudonyms that are linked again", caption, mosaic(cells, DATES, 280))]


def _so_far(own: Table, column: str) -> FloatArray:
    """Values (n,) of rounds in order, each the mean so far by numbers of updates; times to confusion are so already."""
    if column not in _WEIGHTS:
        return own[column]
    weight = np.where(np.isfinite(own[column]), np.nan_to_num(own[_WEIGHTS[column]]), 0.0)
    total = np.cumsum(weight)
    summed = np.cumsum(weight * np.nan_to_num(own[column]))
    return np.asarray(np.divide(summed, total, out=np.full(len(total), np.nan), where=total > 0))


def _unicity(run: Run) -> list[Panel]:
    """How few points of its track single a UE out, at several resolutions."""
    rows = run.tables["unicity"]
    sides_m = np.unique(rows["resolution_m"][np.isfinite(rows["resolution_m"])])
    traces = list[Figure]()
    for look, side_m in zip(looks(f"squares of {side_m:g} m" for side_m in sides_m), sides_m, strict=True):
        mine = np.flatnonzero(rows["resolution_m"] == side_m)
        mine = mine[np.argsort(rows["points"][mine], kind="stable")]
        traces.append(line(look, numbers(rows["points"][mine]), rows["unique_percent"][mine], mode="lines+markers"))
    if not traces:
        return []
    caption = (
        "The share of draws of so many points (a round and a square each) of a true track that no other UE has (de "
        f"Montjoye et al. 2013), over {counted(int(np.nanmax(rows['ues'])), 'UE')}: where it is high, new names hide "
        "nobody of whom a few places are known. It grows as UEs get fewer."
    )
    x_axis: Figure = {"title": {"text": "known points"}, "dtick": 1}
    figure = mosaic([Cell("unique (%)", traces, percent=True)], x_axis, 300)
    return [Panel("unicity", "How few points single a UE out", caption, figure)]
