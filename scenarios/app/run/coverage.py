"""Coverage: the strongest base station at street level, and the map that was learnt, on a grid over the area."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from netsim.radio.downlink import Downlink, reception
from netsim.units import FloatArray
from netsim.world import World

MOST_CELLS = 100  # of the grid along the longer side
_MOST_LINKS = 200_000  # that are computed at once


def coverage_grid(world: World) -> FloatArray:
    """Centres (n, 2) of square cells over the area, 100 along its longer side; those in buildings are left out."""
    area = world.area
    side_m = float(area.side_m.max()) / MOST_CELLS
    x_m, y_m = (
        low + (np.arange(max(1, ceil(length / side_m - 1e-9))) + 0.5) * side_m
        for low, length in zip(area.low_m, area.side_m, strict=True)
    )
    place_m = np.stack(np.meshgrid(x_m, y_m), axis=-1).reshape(-1, 2)
    return place_m[~world.buildings.inside(place_m)]


def coverage(world: World, downlink: Downlink, place_m: FloatArray, learnt_dbm: FloatArray | None) -> dict[str, Any]:
    """Rows of the table `coverage` at places (n, 2): the radio where it is modelled, and what was learnt of it (n,)."""
    modelled = bool(world.stations) and (world.trace is None or world.trace.rsrp_dbm is None)
    if not modelled and learnt_dbm is None:
        place_m = place_m[:0]
    truth = _truth(world, place_m, downlink) if modelled else _unknown(len(place_m))
    learnt_dbm = np.full(len(place_m), np.nan) if learnt_dbm is None else learnt_dbm
    return {"x_m": place_m[:, 0], "y_m": place_m[:, 1], **truth, "learnt_dbm": learnt_dbm}


def _truth(world: World, place_m: FloatArray, downlink: Downlink) -> dict[str, Any]:
    """The strongest base station at each place (n, 2), and how it is received."""
    names = [b.name for b in world.stations]
    size = max(1, _MOST_LINKS // len(names))
    cells: list[str] = []
    columns: list[FloatArray] = [np.zeros((0, 3))]
    for first in range(0, len(place_m), size):
        links = world.budget.links(0.0, place_m[first : first + size])
        got = reception(links, links.serving, downlink)
        columns.append(np.column_stack([got.rsrp_dbm, got.sinr_db, got.los]))
        cells += [names[c] for c in links.serving]
    rsrp_dbm, sinr_db, los = np.concatenate(columns).T
    return {"cell": cells, "rsrp_dbm": rsrp_dbm, "sinr_db": sinr_db, "los": los.astype(np.int64)}


def _unknown(n: int) -> dict[str, Any]:
    """Where a trace brings what was measured."""
    return {"cell": [""] * n, **{name: np.full(n, np.nan) for name in ("rsrp_dbm", "sinr_db", "los")}}
