"""Everything that the replay of a run is drawn from, and what of the run it leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from netsim.units import FloatArray
from scenarios.app.report.plot import looks
from scenarios.app.report.replay.beliefs import belief_arrays
from scenarios.app.report.replay.coverage import coverage_arrays
from scenarios.app.report.replay.curves import curves
from scenarios.app.report.replay.grid import BEYOND_M, NOWHERE, Grid, Numbers, pointers, steps
from scenarios.app.report.replay.ground import ground_arrays, stations
from scenarios.app.report.replay.rounds import Drawn, Rounds, round_arrays
from scenarios.app.report.replay.tracks import Tracks, of_first_ues, simplified
from scenarios.app.results.run import Run, clock_of, part, where

MOST_UES = 1000
MOST_HANDOVERS = 50_000
MOST_ROWS = 100_000  # of tracks
GROUND_M, MOVING_M = 0.1, 0.5  # finest steps of what stands and of what moves
UNITS_S = (3600.0, 900.0, 300.0, 60.0, 30.0, 10.0, 5.0, 1.0, 0.5, 0.1, 0.05, 0.01, 0.001)
ABSENT, INDOOR = 1, 2  # bits of the state of a track's row
COUNTED = ("_ptr", "_x", "_y", "_round", "_of", "_time", "_begin")
"""ends of the names of arrays that hold differences"""


@dataclass(frozen=True)
class Replay:
    """The header and the arrays of a replay, and what was left out of it.

    tracked : of how many of the first UEs the tracks are drawn. belief_stride : of every how many-th round beliefs are.
    """

    meta: dict[str, Any]
    arrays: dict[str, Numbers]
    n_ue: int
    tracks: Tracks
    tracked: int
    drawn: Drawn
    far: int
    belief_stride: int

    def has(self, name: str) -> bool:
        """Whether there is anything in an array."""
        return name in self.arrays and len(self.arrays[name]) > 0


def replay_of(run: Run, names: Sequence[str]) -> Replay:
    """What a run gives to draw; names: its attacks."""
    area_m = run.manifest["area_m"]
    n_ue = min(len(run.tables["ues"]["ue"]), MOST_UES)
    ground, moving = Grid.of(area_m, GROUND_M), Grid.of(area_m, MOVING_M)
    drawn_stations, far = stations(run)
    cells = {station["name"]: k for k, station in enumerate(drawn_stations[:NOWHERE])}
    rounds = Rounds.of(run)
    tracks, tracked = of_first_ues(simplified(_tracks(run, n_ue, cells), MOST_ROWS), n_ue, MOST_ROWS)
    moments_s = np.concatenate([tracks.time_s, run.rows("handovers")["time_s"]])
    unit_s = time_unit_s(moments_s, float(run.manifest["duration_s"]))
    coverage, squares = coverage_arrays(run, cells)
    by_round, scales, drawn = round_arrays(run, rounds, moving, n_ue, names, cells)
    found, values = curves(run, rounds, names)
    beliefs, belief, belief_stride = belief_arrays(run, rounds, moving, names, n_ue)
    arrays: dict[str, Any] = {
        **ground_arrays(run, ground),
        **_track_arrays(tracks, n_ue, moving, unit_s),
        **coverage,
        **by_round,
        **beliefs,
        **_places(run, n_ue, moving),
        **_handovers(run, n_ue, unit_s),
        "told_s": rounds.told_s,
        "number": rounds.number,
        "curve": _single(values).ravel(),
    }
    clock = clock_of(run.manifest)
    meta = {
        "area_m": area_m, "ground": ground.said(), "moving": moving.said(), "unit_s": unit_s, **scales,
        "end_s": max(float(run.manifest["duration_s"]), float(np.max(rounds.told_s, initial=0.0))),
        "first_day": str(clock.first_day), "clock_changes": [list(change) for change in clock.changes],
        "near_m": run.near_m, "ues": [str(name) for name in run.tables["ues"]["name"][:n_ue]],
        "attacks": [{"name": look.name, "color": look.color} for look in looks(names)],
        "stations": drawn_stations, "coverage": squares, "curves": found, "belief": belief,
        "steps": sorted(name for name in arrays if name.endswith(COUNTED)),
    }  # fmt: skip
    return Replay(meta, arrays, n_ue, tracks, tracked, drawn, far, belief_stride)


def _single(values: FloatArray) -> Numbers:
    """In single precision; what is too large for it, as the error of a model that diverged, is infinite."""
    with np.errstate(over="ignore"):
        return np.asarray(values, dtype=np.float64).astype(np.float32)


def time_unit_s(time_s: FloatArray, duration_s: float) -> float:
    """The longest unit of which all times are multiples, or else a millisecond; 32 bits must hold the duration."""
    least_s = duration_s / 2**31
    for unit_s in UNITS_S:
        number = time_s / unit_s
        if unit_s > least_s and np.allclose(number, np.round(number), rtol=0.0, atol=1e-6):
            return unit_s
    return max(UNITS_S[-1], least_s)


def _tracks(run: Run, n_ue: int, cells: dict[str, int]) -> Tracks:
    """The recorded tracks of the first UEs, in order."""
    rows = run.rows("tracks")
    rows = where(rows, (rows["ue"] >= 0) & (rows["ue"] < n_ue))
    order = np.lexsort((rows["time_s"], rows["ue"]))
    rows = where(rows, order)
    at_m = np.column_stack([rows["x_m"], rows["y_m"]])
    at_m = np.clip(np.where(np.isfinite(at_m).all(axis=1)[:, None], at_m, np.nan), -BEYOND_M, BEYOND_M)
    cell = np.array([cells.get(str(name), NOWHERE) for name in rows["cell"]], dtype=np.int64)
    return Tracks(rows["ue"].astype(np.int64), rows["time_s"], at_m, rows["indoor"] == 1, cell)


def _track_arrays(tracks: Tracks, n_ue: int, grid: Grid, unit_s: float) -> dict[str, Numbers]:
    """Rows of tracks as whole numbers; a place beyond the map is absent."""
    x, y = grid.cells(tracks.at_m)
    state = np.where(x == NOWHERE, ABSENT, 0) | np.where(tracks.indoor, INDOOR, 0)
    arrays = {
        "track_ptr": steps(pointers(tracks.ue, n_ue)),
        "track_time": steps(np.round(tracks.time_s / unit_s).astype(np.uint32)),
        "track_x": steps(x), "track_y": steps(y), "track_state": state.astype(np.uint8),
    }  # fmt: skip
    served = tracks.cell.astype(np.uint16)
    return arrays | ({"track_cell": served} if (served != NOWHERE).any() else {})


def _places(run: Run, n_ue: int, grid: Grid) -> dict[str, Numbers]:
    """Homes and workplaces."""
    ues, arrays = run.tables["ues"], dict[str, Numbers]()
    for place in ("home", "work"):
        x, y = grid.cells(np.column_stack([ues[f"{place}_{axis}_m"][:n_ue] for axis in "xy"]))
        if (x != NOWHERE).any():
            arrays |= {f"{place}_x": steps(x), f"{place}_y": steps(y)}
    return arrays


def _handovers(run: Run, n_ue: int, unit_s: float) -> dict[str, Numbers]:
    """When which UE was handed over; evenly thinned beyond a limit."""
    rows = run.rows("handovers")
    kept = np.flatnonzero((rows["ue"] >= 0) & (rows["ue"] < n_ue))
    kept = kept[np.argsort(rows["time_s"][kept], kind="stable")]
    kept = kept[:: -(-len(kept) // MOST_HANDOVERS) or 1]
    if not len(kept):
        return {}
    return {
        "handover_time": steps(np.round(rows["time_s"][kept] / unit_s).astype(np.uint32)),
        "handover_ue": rows["ue"][kept].astype(np.uint16),
    }


def tracked_every_s(run: Run) -> float | None:
    """The interval at which tracks were recorded."""
    value = part(run.manifest, "tracks").get("every_s")
    return float(value) if isinstance(value, int | float) else None
