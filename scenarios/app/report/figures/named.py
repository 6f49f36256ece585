"""Of how many UEs attacks name home and workplace, over time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netsim.units import BoolArray, FloatArray
from scenarios.app.report.plot import DARK, GREY, Cell, Figure, Look, Panel, line, mosaic
from scenarios.app.report.series import DATES, TimeGrid
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.run import Run, Table, where
from scenarios.app.results.statistics import carried

_SHARES = ("home", "work", "both")
_UNIFORM = Look("chance: two random places", GREY, dash="dot")
_OTHERS = Look("chance: others' density", DARK, dash="dash")


def named_panels(run: Run, own: Sequence[Look]) -> list[Panel]:
    """Shares over time; nothing where no attacked UE has a home or a workplace."""
    ues = run.tables["ues"]
    known = _known(ues, "home") | _known(ues, "work")
    if not known.any() or not len(own) or not np.isin(run.tables["leakage"]["ue"], ues["ue"][known]).any():
        return []
    return [shares(run, own)]


def _known(ues: Table, place: str) -> BoolArray:
    """Which UEs have one."""
    return np.isfinite(ues[f"{place}_x_m"]) & np.isfinite(ues[f"{place}_y_m"])


def shares(run: Run, own: Sequence[Look]) -> Panel:
    """Of how many UEs home, work and both are named over time, beside chance."""
    key, title = "named", f"UEs with a named place within {run.near_m:g} m of home and work"
    cells = list[Cell]()
    for k, (place, what) in enumerate(zip(_SHARES, ("Home", "Work", "Both home and work"), strict=True)):
        traces, dates = list[Figure](), list[str]()
        for look in own:
            number, share = share_over_time(run, look.name, place)
            if len(number):
                x = run.dates(run.moment_s(number, run.takes_time))
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
    number, hit = named_over_time(run, attack, place)
    return (number, 100.0 * hit.mean(axis=1)) if hit.size else (np.zeros(0), np.zeros(0))


def named_over_time(run: Run, attack: str, place: str) -> tuple[FloatArray, BoolArray]:
    """Rounds (n,), and of which attacked UEs that have it home, work or both is named then (n, n_ue)."""
    rows, ues = run.rows("leakage", "attack", attack), run.tables["ues"]
    wanted = ("home", "work") if place == "both" else (place,)
    have = np.logical_and.reduce([_known(ues, one) for one in wanted])
    mine = np.isin(rows["ue"], ues["ue"][have])
    grid = TimeGrid.of(where(rows, mine), "ue")
    hit = np.ones((len(grid.time_s), len(grid.ue)), dtype=bool)
    for one in wanted:
        away_m = grid.rows[f"{one}_named_m"]
        hit &= carried(grid.lay(np.where(np.isnan(away_m), np.inf, away_m))) <= run.near_m
    return grid.round, hit
