"""What stands in the area: water and green, streets, buildings with courtyards, base stations and their sectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.units import BoolArray, IntArray
from scenarios.app.report.replay.grid import FAR, Grid, Numbers, steps
from scenarios.app.results.run import Run

MOST_CORNERS = 40_000  # of buildings, of streets, and of areas
LEVELS = 5  # shades of buildings


def ground_arrays(run: Run, grid: Grid) -> dict[str, Numbers]:
    """Shapes as coordinates (k,) and the first corner of each shape; what there is too much of is left out."""
    return _buildings(run, grid) | _streets(run, grid) | _scenery(run, grid)


def buildings_left_out(run: Run) -> bool:
    """Whether there are too many corners of buildings: then only the widest are drawn."""
    return len(run.ground.get("footprint_m", ())) > MOST_CORNERS


def _shapes(run: Run, what: str, kept: IntArray, grid: Grid) -> dict[str, Numbers]:
    """Corners of the shapes (k,) of map.npz under one name."""
    first = run.ground[f"{what}_ptr"]
    size = np.diff(first)[kept]
    ends = np.cumsum(size)
    corner = np.repeat(first[kept] - (ends - size), size) + np.arange(ends[-1] if len(ends) else 0)
    x, y = grid.clipped(run.ground[f"{what}_m"][corner])
    ptr = np.append(0, ends).astype(np.uint32)
    return {f"{what}_x": steps(x), f"{what}_y": steps(y), f"{what}_ptr": steps(ptr)}


def _buildings(run: Run, grid: Grid) -> dict[str, Numbers]:
    """Rings of walls and courtyards, and their shade, 0 for the lowest buildings."""
    height = run.ground.get("building_height_m", np.zeros(0))
    if not len(height):
        return {}
    ptr, owner, corners = (run.ground[f"footprint_{k}"] for k in ("ptr", "building", "m"))
    size = np.diff(ptr)
    full = np.flatnonzero(size)
    ring = np.repeat(np.arange(len(size)), size)
    low, high = (np.full((len(size), 2), v) for v in (np.inf, -np.inf))
    np.minimum.at(low, ring, corners)
    np.maximum.at(high, ring, corners)
    width, count = np.zeros(len(height)), np.zeros(len(height), dtype=np.int64)
    np.maximum.at(width, owner[full], (high - low)[full].max(axis=1))
    np.add.at(count, owner, size)
    order = np.argsort(-width, kind="stable")
    drawn: BoolArray = np.zeros(len(height), dtype=np.bool_)
    drawn[order[np.cumsum(count[order]) <= MOST_CORNERS]] = True
    kept = np.flatnonzero(drawn[owner])
    least, most = float(np.nanmin(height)), float(np.nanmax(height))
    share = (np.nan_to_num(height, nan=least) - least) / (most - least) if most > least else np.zeros(len(height))
    shade = np.minimum(LEVELS * share, LEVELS - 1).astype(np.uint8)
    return _shapes(run, "footprint", kept, grid) | {"footprint_shade": shade[owner[kept]]}


def _streets(run: Run, grid: Grid) -> dict[str, Numbers]:
    """Centre lines, main streets first; beyond a limit minor ones are left out."""
    if "street_m" not in run.ground:
        return {}
    kind, size = run.ground["street_class"], np.diff(run.ground["street_ptr"])
    order = np.argsort(kind, kind="stable")
    kept = order[np.cumsum(size[order]) <= MOST_CORNERS]
    return _shapes(run, "street", kept, grid) | {"street_class": np.clip(kind[kept], 0, 255).astype(np.uint8)}


def _scenery(run: Run, grid: Grid) -> dict[str, Numbers]:
    """Green areas, water and railways."""
    if "scenery_m" not in run.ground:
        return {}
    kind, size = run.ground["scenery_kind"], np.diff(run.ground["scenery_ptr"])
    kept = np.flatnonzero(np.cumsum(size) <= MOST_CORNERS)
    return _shapes(run, "scenery", kept, grid) | {"scenery_kind": np.clip(kind[kept], 0, 255).astype(np.uint8)}


def stations(run: Run) -> tuple[list[dict[str, Any]], int]:
    """Name, place and azimuth (None: no sector) of the base stations, and how many lie too far outside to be drawn."""
    if run.replayed:
        return [], 0
    west, south, east, north = run.manifest["area_m"]
    reach_m = FAR * max(east - west, north - south)
    every = run.stations
    azimuth = run.ground.get("station_azimuth_deg", np.zeros(0))
    degrees = azimuth.tolist() if len(azimuth) == len(every) else [np.nan] * len(every)
    near = [
        {"name": name, "x_m": x, "y_m": y, "azimuth_deg": turn if np.isfinite(turn) else None}
        for (name, x, y), turn in zip(every, degrees, strict=True)
        if west - reach_m <= x <= east + reach_m and south - reach_m <= y <= north + reach_m
    ]
    return near, len(every) - len(near)
