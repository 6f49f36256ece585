"""Unicity: the number of points of a trace that distinguish its owner from all others.

Of p points of a UE, drawn at random, each known as a round and a square of the grid, it is asked whether the trace of
another UE has them all. [de Montjoye et al., Unique in the Crowd, Sci. Rep. 3:1376, 2013.] Names do not matter: this
is what is left of anonymity where nothing but names is hidden and each UE keeps one.
"""

from __future__ import annotations

import numpy as np

from fl.leakage.tracking import Whereabouts
from netsim.record import Row
from netsim.rng import Rng
from netsim.units import IntArray

RESOLUTIONS_M = (100.0, 500.0, 2500.0)
MOST_POINTS = 6
DRAWS = 20
MOST_UES = 500
"""UEs of smallest number that points are drawn of; they are distinguished from all"""


def unicity(traces: Whereabouts, rng: Rng) -> list[Row]:
    """Rows of the table `unicity`: for each resolution and number of points p, the share of draws that one trace alone
    matches; UEs with fewer than p points are left out, and p of which no UE has as many.
    """
    ues, owner = np.unique(traces.ue, return_inverse=True)
    rows = []
    for resolution_m in RESOLUTIONS_M:
        point, has = _points(traces, owner, len(ues), resolution_m)
        for p in range(1, MOST_POINTS + 1):
            alone = _alone(owner, point, has, p, rng)
            if len(alone):
                row = {"resolution_m": resolution_m, "points": p, "ues": len(alone) // DRAWS, "draws": len(alone)}
                rows.append({**row, "unique_percent": 100.0 * float(np.mean(alone))})
    return rows


def _points(traces: Whereabouts, owner: IntArray, n: int, resolution_m: float) -> tuple[IntArray, np.ndarray]:
    """The point (N,) of each entry, and which UEs have which: bits, packed over UEs, (points, n / 8)."""
    square = np.floor(traces.place_m / resolution_m).astype(np.int64)
    _, point = np.unique(np.column_stack([traces.round, square]), axis=0, return_inverse=True)
    point = point.reshape(-1)
    has = np.zeros((int(point.max(initial=-1)) + 1, -(-n // 8)), dtype=np.uint8)
    np.bitwise_or.at(has, (point, owner // 8), (1 << (owner % 8)).astype(np.uint8))
    return point, has


def _alone(owner: IntArray, point: IntArray, has: np.ndarray, p: int, rng: Rng) -> list[bool]:
    """Whether no other UE has the points of each draw."""
    alone = []
    order = np.argsort(owner, kind="stable")
    start = np.searchsorted(owner[order], np.arange(owner.max(initial=-1) + 2))
    for ue in range(min(len(start) - 1, MOST_UES)):
        mine = point[order[start[ue] : start[ue + 1]]]
        if len(mine) < p:
            continue
        keys = rng.uniform("points", np.full(DRAWS, ue), (len(mine),), item=np.arange(DRAWS) + DRAWS * p)
        chosen = mine[np.argsort(keys, axis=1)[:, :p]]
        matches = np.bitwise_and.reduce(has[chosen], axis=1)  # (DRAWS, n / 8)
        alone += (np.unpackbits(matches, axis=1).sum(axis=1) == 1).tolist()
    return alone
