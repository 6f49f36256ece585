"""What an attack believes of where UEs are, cell by cell: the frames that the map plays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netsim.units import BoolArray, FloatArray, IntArray
from scenarios.app.report.replay.grid import NOWHERE, Grid, Numbers, pointers, steps
from scenarios.app.report.replay.rounds import Rounds
from scenarios.app.results.run import Run, Table, where

MOST_CELLS = 800_000
_PLACES = ("answer", "disc", "truth", "plain")
_LEVELS = 255  # of the square root of a probability
PLAIN = "plain"
"""quantity of the estimates of an attack that a tracker wraps"""


def belief_arrays(
    run: Run, rounds: Rounds, grid: Grid, attacks: Sequence[str], n_ue: int
) -> tuple[dict[str, Numbers], dict[str, Any], int]:
    """Frames of (attack, UE, filter or smoother) in order of time, how they are read, and of every how many-th round.

    A frame holds the cells of largest probability, and the places that stand beside them. grid: of these places. All
    are empty where nothing was recorded.
    """
    cells = run.rows("beliefs")
    cells["at"] = rounds.of_rows(cells)
    cells["owner"] = _owners(cells, attacks, n_ue)
    cells = _some(cells, (cells["at"] >= 0) & (cells["owner"] >= 0) & (cells["probability"] > 0))
    rasters, x, y = _on_rasters(cells, attacks, n_ue)
    known = (x >= 0) & (x < NOWHERE) & (y >= 0) & (y < NOWHERE)
    cells, x, y = _some(cells, known), x[known], y[known]
    if not len(x):
        return {}, {}, 1
    stride = _stride(cells["at"])
    shown = np.flatnonzero(cells["at"] % stride == 0)
    shown = shown[np.lexsort((x[shown], y[shown], cells["at"][shown], cells["owner"][shown]))]
    owner, at = cells["owner"][shown], cells["at"][shown]
    first = np.flatnonzero(np.append(True, (owner[1:] != owner[:-1]) | (at[1:] != at[:-1])))
    level = np.ceil(_LEVELS * np.sqrt(np.minimum(cells["probability"][shown], 1.0)))
    arrays = {
        "belief_ptr": steps(pointers(owner[first], 2 * len(attacks) * n_ue)),
        "belief_round": steps(at[first].astype(np.uint32)),
        "belief_cell_ptr": steps(np.append(first, len(shown)).astype(np.uint32)),
        "belief_x": steps(x[shown].astype(np.uint16)),
        "belief_y": steps(y[shown].astype(np.uint16)),
        "belief_level": level.astype(np.uint8),
    }
    return arrays | _beside(run, rounds, grid, attacks, n_ue, (owner[first], at[first])), rasters, stride


def _some(rows: Table, kept: BoolArray) -> Table:
    return where(rows, kept)


def _owners(rows: Table, attacks: Sequence[str], n_ue: int) -> IntArray:
    """Whose belief each row (n,) is part of: an index of attack, UE and hindsight; -1 for none that is drawn."""
    attack = np.full(len(rows["ue"]), -1)
    for k, name in enumerate(attacks):
        attack[rows["attack"] == name] = k
    drawn = (attack >= 0) & (rows["ue"] >= 0) & (rows["ue"] < n_ue) & np.isfinite(rows["hindsight"])
    ue, hindsight = (np.where(drawn, rows[k], 0).astype(np.int64) for k in ("ue", "hindsight"))
    return np.where(drawn, 2 * (attack * n_ue + ue) + hindsight, -1)


def _on_rasters(cells: Table, attacks: Sequence[str], n_ue: int) -> tuple[dict[str, Any], FloatArray, FloatArray]:
    """The raster of each attack's cells, and the column and row (n,) of each cell on it, -1 for none."""
    rasters: list[dict[str, float] | None] = []
    x, y = (np.full(len(cells["ue"]), -1.0) for _ in "xy")
    for k in range(len(attacks)):
        known = np.isfinite(cells["x_m"]) & np.isfinite(cells["y_m"]) & (cells["cell_m"] > 0)
        mine = np.flatnonzero((cells["owner"] // (2 * n_ue) == k) & known)
        if not len(mine):
            rasters.append(None)
            continue
        side_m = float(cells["cell_m"][mine].max())
        west, wide_m, x[mine] = _numbered(cells["x_m"][mine], side_m)
        south, high_m, y[mine] = _numbered(cells["y_m"][mine], side_m)
        rasters.append({"west_m": west, "south_m": south, "wide_m": wide_m, "high_m": high_m})
    return {"rasters": rasters}, x, y


def _numbered(at_m: FloatArray, side_m: float) -> tuple[float, float, FloatArray]:
    """The first of the middles of cells (n,), their distance along this axis, and the number (n,) of each.

    side_m : about the distance; cells need not be square. It is the mean of all gaps that can only be of neighbours.
    """
    middles = np.unique(at_m)
    gaps = np.diff(middles)
    gaps = gaps[(gaps > side_m / 2) & (gaps < 1.5 * side_m)]
    step_m = float(gaps.mean()) if len(gaps) else side_m
    return float(middles[0]), step_m, np.round((at_m - middles[0]) / step_m)


def _stride(at: IntArray) -> int:
    """Of every how many-th round cells are drawn, so that there are not too many."""
    number = np.bincount(at)
    return next(s for s in range(1, len(number) + 1) if s == len(number) or number[::s].sum() <= MOST_CELLS)


def _beside(
    run: Run, rounds: Rounds, grid: Grid, attacks: Sequence[str], n_ue: int, frames: tuple[IntArray, IntArray]
) -> dict[str, Numbers]:
    """What stands beside the cells of each frame: the answer, the best disc, the truth and the plain estimate."""
    n = len(frames[0])
    at_m = {name: np.full((n, 2), np.nan) for name in _PLACES}
    figures = {"disc_probability": np.full(n, np.nan), "area90_m2": np.full(n, np.nan)}
    frame = {key: i for i, key in enumerate(zip(*(a.tolist() for a in frames), strict=True))}

    def put(rows: Table, owner: IntArray, names: Sequence[tuple[str, str, str]], more: Sequence[str] = ()) -> None:
        drawn, at = np.flatnonzero(np.isin(owner, frames[0])), rounds.of_rows(rows)
        for row in drawn.tolist():
            i = frame.get((int(owner[row]), int(at[row])))
            if i is not None:
                for name, x, y in names:
                    at_m[name][i] = rows[x][row], rows[y][row]
                for name in more:
                    figures[name][i] = rows[name][row]

    tracked, estimates = run.rows("tracking"), run.rows("estimates")
    names = [("answer", "x_m", "y_m"), ("disc", "disc_x_m", "disc_y_m"), ("truth", "truth_x_m", "truth_y_m")]
    put(tracked, _owners(tracked, attacks, n_ue), names, list(figures))
    plain = where(estimates, estimates["quantity"] == PLAIN)
    for hindsight in (0.0, 1.0):
        rows = plain | {"hindsight": np.full(len(plain["ue"]), hindsight)}
        put(rows, _owners(rows, attacks, n_ue), [("plain", "x_m", "y_m")])
    arrays: dict[str, Numbers] = {f"belief_{k}": v.astype(np.float32) for k, v in figures.items()}
    for name, place_m in at_m.items():
        x, y = grid.cells(place_m)
        arrays |= {f"belief_{name}_x": steps(x), f"belief_{name}_y": steps(y)}
    return arrays
