"""Coverage as layers of the map: one number for each square of a grid."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from scenarios.app.report.figures.radio_study import nearest
from scenarios.app.report.replay.grid import BEYOND_M, NOWHERE, Numbers
from scenarios.app.results.run import Run, where

TENTH = 10.0  # levels are stored in tenths of a decibel
NO_LEVEL, MOST_DB = -32_768, 3276.7
MOST_SQUARES = 400  # along the longer side
LEVELS = ("rsrp_dbm", "sinr_db", "learnt_dbm")


def coverage_arrays(run: Run, cells: dict[str, int]) -> tuple[dict[str, Numbers], dict[str, Any] | None]:
    """Layers from south to north, each row from west to east, and where the grid lies; nothing without a grid.

    Squares in buildings take the value of a neighbour outdoors, if there is one.
    """
    rows = run.tables["coverage"]
    known = (np.abs(rows["x_m"]) <= BEYOND_M) & (np.abs(rows["y_m"]) <= BEYOND_M)
    if known.sum() < 2:
        return {}, None
    rows = where(rows, known)
    west, south, east, north = run.manifest["area_m"]
    gaps_m = [np.diff(np.unique(rows[k])).min(initial=np.inf) for k in ("x_m", "y_m")]
    side_m = max(float(min(gaps_m)), max(east - west, north - south) / MOST_SQUARES)
    nx, ny = (max(1, ceil((high - low) / side_m - 1e-6)) for low, high in ((west, east), (south, north)))
    column = np.clip((rows["x_m"] - west) // side_m, 0, nx - 1).astype(np.int64)
    row = np.clip((rows["y_m"] - south) // side_m, 0, ny - 1).astype(np.int64)
    at = nearest(row, column, (ny, nx)).ravel()
    arrays: dict[str, Numbers] = {}
    for name in LEVELS:
        level = np.where(at >= 0, rows[name][at], np.nan)
        if np.isfinite(level).any():
            tenths = np.round(TENTH * np.clip(np.nan_to_num(level), -MOST_DB, MOST_DB))
            arrays[f"coverage_{name}"] = np.where(np.isfinite(level), tenths, NO_LEVEL).astype(np.int16)
    if "coverage_rsrp_dbm" in arrays:
        number = np.array([cells.get(str(name), NOWHERE) for name in rows["cell"]])
        arrays["coverage_cell"] = np.where(at >= 0, number[at], NOWHERE).astype(np.uint16)
        if 0 < np.nansum(rows["los"]) < len(rows["los"]):
            arrays["coverage_los"] = np.where(at >= 0, rows["los"][at] == 1, 2).astype(np.uint8)
    return arrays, {"west_m": west, "south_m": south, "side_m": side_m, "columns": nx, "rows": ny} if arrays else None
