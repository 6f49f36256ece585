"""The places that attacks name beside true homes and workplaces: on a map, and as shares of UEs over time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netsim.units import BoolArray, FloatArray
from scenarios.app.report.figures.map import ground_traces, joined, landmarks, map_figure
from scenarios.app.report.plot import DARK, GREY, Cell, Figure, Look, Panel, line, mosaic, numbers, plain
from scenarios.app.report.series import DATES, TimeGrid
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.run import Run, Table
from scenarios.app.results.statistics import carried, figure_text

_SHARES = ("home", "work", "both")
_UNIFORM = Look("chance: two random places", GREY, dash="dot")
_OTHERS = Look("chance: others' density", DARK, dash="dash")


def named_panels(run: Run, own: Sequence[Look]) -> list[Panel]:
    """Shares over time and the map; nothing where no attacked UE has a home or a workplace."""
    ues = run.tables["ues"]
    known = _known(ues, "home") | _known(ues, "work")
    if not known.any() or not len(own) or not np.isin(run.tables["leakage"]["ue"], ues["ue"][known]).any():
        return []
    return [shares(run, own), places(run, own)]


def _known(ues: Table, place: str) -> BoolArray:
    """Which UEs have one."""
    return np.asarray(np.isfinite(ues[f"{place}_x_m"]) & np.isfinite(ues[f"{place}_y_m"]))


def shares(run: Run, own: Sequence[Look]) -> Panel:
    """Of how many UEs home, work and both are named over time, beside chance."""
    key, title = "named", f"UEs with a named place within {run.near_m:g} m of home and work"
    cells = list[Cell]()
    for k, (place, what) in enumerate(zip(_SHARES, ("Home", "Work", "Both home and work"), strict=True)):
        traces, dates = list[Figure](), list[str]()
        for look in own:
            number, share = share_over_time(run, look.name, place)
            if len(number):
                x = run.dates(run.requested_s(number))
                dates = sorted({*dates, *x})
                traces.append(line(look, x, share, hovertemplate="%{y:.3~r} %", showlegend=not cells))
        if not traces:
            continue
        chance = [(_UNIFORM, keys.UNIFORM[k].of()), (_OTHERS, keys.OTHERS[k].of())]
        chance += [
            (Look(f"{look.name}: with another UE's places", look.color, dash="dot"), keys.SHUFFLED[k].of(look.name))
            for look in own
        ]
        ends = [dates[0], dates[-1]]
        for look, of in chance:
            value = run.summary.get(of)
            if value is not None:
                flat = np.full(2, float(value))
                traces.append(line(look, ends, flat, mode="lines", hovertemplate="%{y:.3~r} %", showlegend=not cells))
        cells.append(Cell("share of UEs (%)", traces, what, percent=True))
    if not cells:
        return Panel(key, title, "No attack named a place.")
    caption = (
        f"The share of attacked UEs whose true home (workplace, both) lies within {run.near_m:g} m of a place that the "
        "attack names: the higher, the more is known; compare with the lines of chance. An attack names at most two "
        "places of a UE: its latest answers or, where it gives none, the two highest density peaks of its estimates so "
        "far. Over the attacked UEs that have the place; a share can fall when an attack changes its mind. Chance: two "
        "uniformly random places in the area, the two highest density peaks of the true positions of all other UEs, "
        "and the places that the same attack names of another UE at the end."
    )
    return Panel(key, title, caption, mosaic(cells, DATES, 300))


def share_over_time(run: Run, attack: str, place: str) -> tuple[FloatArray, FloatArray]:
    """Rounds, and the percentage of UEs whose home, work or both is named then; of none where no attacked UE has it."""
    rows, ues = run.rows("leakage", "attack", attack), run.tables["ues"]
    wanted = ("home", "work") if place == "both" else (place,)
    have = np.logical_and.reduce([_known(ues, one) for one in wanted])
    mine = np.isin(rows["ue"], ues["ue"][have])
    if not mine.any():
        return np.zeros(0), np.zeros(0)
    grid = TimeGrid.of({k: v[mine] for k, v in rows.items()}, "ue")
    hit = np.ones((len(grid.time_s), len(grid.ue)), dtype=bool)
    for one in wanted:
        away_m = grid.rows[f"{one}_named_m"]
        hit &= carried(grid.lay(np.where(np.isnan(away_m), np.inf, away_m))) <= run.near_m
    return grid.round, 100.0 * hit.mean(axis=1)


def places(run: Run, own: Sequence[Look]) -> Panel:
    """Homes, workplaces and the places that each attack names at the end, joined where they are near."""
    key, title = "named-map", "Map of true homes and workplaces and of the places named at the end"
    traces, table = list[Figure](), run.tables["named"]
    finite = np.isfinite(table["x_m"]) & np.isfinite(table["y_m"])
    for k, look in enumerate(own):
        mine = finite & np.array([a == look.name for a in table["attack"]], dtype=bool)
        if mine.any():
            traces += _of_attack(run, look, {c: v[mine] for c, v in table.items()}, shown=k == 0)
    if not traces:
        return Panel(key, title, "No attack named a place inside the area.")
    west, south, east, north = run.manifest["area_m"]
    caption = (
        "Each true home (star) and workplace (hourglass) is joined to the nearer of the places that the attack names "
        f"of that UE: a thick line within {run.near_m:g} m, a thin dotted one beyond. Filled: the place named first. "
        "Further attacks are hidden; click on their names."
    )
    figure = map_figure([*ground_traces(run), *traces, *landmarks(run)], (west, south, east, north), [])
    return Panel(key, title, caption, figure)


def _of_attack(run: Run, look: Look, named: Table, shown: bool) -> list[Figure]:
    """Lines from true places to the nearer named one, and the named places."""
    names = dict(zip(run.tables["ues"]["ue"].tolist(), run.tables["ues"]["name"], strict=True))
    near, far = list[FloatArray](), list[FloatArray]()
    at_m = np.column_stack([named["x_m"], named["y_m"]])
    for truth in _truth(run):
        mine = named["ue"] == truth[0]
        if mine.any():
            away_m = np.linalg.norm(at_m[mine] - truth[1:], axis=1)
            ends = np.array([truth[1:], at_m[mine][np.argmin(away_m)]])
            (near if away_m.min() <= run.near_m else far).append(ends)
    group = {"legendgroup": plain(look.name), "visible": True if shown else "legendonly"}
    traces = list[Figure]()
    for text, lines, width, dash in (("found", near, 2.5, "solid"), ("not found", far, 0.8, "dot")):
        x, y = joined(lines)
        traces.append(
            {
                "type": "scatter", "mode": "lines", "x": x, "y": y, "name": plain(f"{look.name}: {text}"),
                "line": {"color": look.color, "width": width, "dash": dash}, "hoverinfo": "skip", "showlegend": False,
                **group,
            }
        )  # fmt: skip
    first = named["rank"] == 1
    texts = [
        f"{plain(look.name)}: named {'first' if r == 1 else 'second'} of {plain(names.get(u, figure_text(u)))}"
        for u, r in zip(named["ue"], named["rank"], strict=True)
    ]
    traces.append(
        {
            "type": "scatter", "mode": "markers", "name": plain(look.name), "x": numbers(at_m[:, 0]),
            "y": numbers(at_m[:, 1]), "hovertext": texts, "hoverinfo": "text",
            "marker": {"symbol": look.symbol, "size": 9, "color": [look.color if one else "#ffffff" for one in first],
                       "line": {"width": 1.8, "color": look.color}},
            **group,
        }
    )  # fmt: skip
    return [trace for trace in traces if trace["x"]]


def _truth(run: Run) -> FloatArray:
    """UE and place (n, 3) of all homes and workplaces."""
    ues = run.tables["ues"]
    rows = [np.column_stack([ues["ue"], ues[f"{p}_x_m"], ues[f"{p}_y_m"]])[_known(ues, p)] for p in ("home", "work")]
    return np.concatenate(rows)
