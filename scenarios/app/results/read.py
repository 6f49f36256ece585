"""Run folders read back for a page; what is damaged is refused in one line."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, Field, ValidationError

from fl.round.tables import TABLES, Column
from netsim.checkpoint import read_arrays
from netsim.clock import DAY_S
from netsim.errors import BadInput
from netsim.safe import what_is
from scenarios.app.results.folder import (
    ARRAYS,
    EVERY,
    GRID,
    MANIFEST,
    MAP,
    RADIO,
    RADIO_STUDY,
    STUDY,
    SUMMARY,
    SURFACES,
    finished_manifest,
    read_rows,
    read_summary,
    read_table,
    table_path,
)
from scenarios.app.results.marker import marked
from scenarios.app.results.run import Run, Table
from scenarios.app.study import Fields, Record
from scenarios.app.study.yaml_document import read

RUNS = "runs.csv"
SWEEP = "sweep.json"

_PTR = ("footprint_ptr", "footprint_building", "street_ptr", "scenery_ptr")
_GROUND = {
    "footprint_m": 2, "footprint_ptr": 1, "footprint_building": 1, "building_height_m": 1, "station_m": 2,
    "station_azimuth_deg": 1, "distance_m": 2, "rsrp_dbm": 2, "los": 2, "street_m": 2, "street_ptr": 1,
    "street_class": 1, "door_m": 2, "scenery_m": 2, "scenery_ptr": 1, "scenery_kind": 1,
}  # fmt: skip
"""what map.npz holds, with dimensions; the first six always"""


def load(folder: Path, study: Fields | None = None) -> Run:
    """The run of a folder, checked.

    study : where it is known, as of a run of the same label; none: it is read.
    """
    manifest = finished_manifest(folder)
    summary = read_summary(folder)
    _check_manifest(folder / MANIFEST, manifest)
    radio = manifest.get("kind") == RADIO_STUDY
    tables = {name: checked_table(folder, name) for name in (RADIO if radio else TABLES)}
    _check_rows(folder, manifest, tables)
    tables = {name: _no_rows(columns) for name, columns in EVERY.items()} | tables
    ground = _ground(folder / MAP)
    grid = _arrays(folder / GRID, ARRAYS, needed=[*ARRAYS]) if what_is(folder / GRID) else {}
    study = study or read(folder / STUDY).data
    return Run(manifest, summary, study, tables, ground, read_surfaces(folder), grid)


_Number = Annotated[float, Field(allow_inf_nan=False, ge=-4.1e7, le=4.1e7)]  # once around the Earth, in metres
_Seconds = Annotated[float, Field(gt=0, le=400 * 365.25 * DAY_S)]


class _TracksEntry(BaseModel, strict=True):
    every_s: _Seconds


class _Manifest(BaseModel, strict=True):
    """What a page needs of a manifest."""

    title: str
    first_day: Annotated[str, AfterValidator(date.fromisoformat)]
    duration_s: _Seconds
    area_m: Annotated[list[_Number], Field(min_length=4, max_length=4)]
    origin_deg: Annotated[list[_Number], Field(min_length=2, max_length=2)] | None = None
    tracks: _TracksEntry
    round_s: _Seconds | None = None
    cells: list[str] = []
    clock_changes: list[Annotated[list[_Number], Field(min_length=2, max_length=2)]] = []


def _check_manifest(path: Path, manifest: Record) -> None:
    try:
        _Manifest.model_validate(manifest)
    except ValidationError as error:
        wrong = ".".join(map(str, error.errors()[0]["loc"]))
        raise BadInput(f"{path}: {wrong} is missing or damaged; run the study again") from None


def _check_rows(folder: Path, manifest: Record, tables: Mapping[str, Table]) -> None:
    """Refuse times outside of the calendar, UEs that the run does not have, and what is no probability."""
    latest_s = (date.max - date.fromisoformat(manifest["first_day"])).days * DAY_S
    limits = {
        **dict.fromkeys(("time_s", "requested_s", "ready_s", "granted_s", "ended_s"), (0.0, latest_s)),
        **dict.fromkeys(("probability", "disc_probability"), (0.0, 1.000001)),  # sums of single precision
        "round": (0.0, 1e6), "ue": (-1.0, len(tables["ues"]["ue"]) - 1.0), "cell_m": (1e-3, 4.1e7),
    }  # fmt: skip
    for name, columns in tables.items():
        for column in columns.keys() & limits:
            low, high = limits[column]
            wrong = np.flatnonzero((columns[column] < low) | (columns[column] > high))
            if len(wrong):
                found = f"row {wrong[0] + 1}: {column} {columns[column][wrong[0]]:g} is not in [{low:g}, {high:g}]"
                raise BadInput(f"{table_path(folder, name)}: {found}; run the study again")


def checked_table(folder: Path, name: str) -> Table:
    """A record table with all its columns."""
    columns = read_table(folder, name)
    missing = [column for column in EVERY[name] if column not in columns]
    if missing:
        raise BadInput(f"{table_path(folder, name)}: column {missing[0]} is missing; run the study again")
    return columns


def _no_rows(columns: Mapping[str, Column]) -> Table:
    """A table that this kind of run does not write."""
    return {name: np.zeros(0, dtype=object if c.type == "text" else np.float64) for name, c in columns.items()}


def _ground(path: Path) -> dict[str, NDArray[Any]]:
    """What map.npz holds, indices as integers; nothing where there is none."""
    if not what_is(path):
        return {}
    ground: dict[str, NDArray[Any]] = {**_arrays(path, _GROUND, needed=[*_GROUND][:6])}
    ground |= {name: ground[name].astype(np.int64) for name in _PTR if name in ground}
    for of in ("footprint", "street", "scenery"):
        ptr = ground.get(f"{of}_ptr", np.zeros(1))
        points_m = ground.get(f"{of}_m", ())
        if len(ptr) == 0 or ptr[0] or ptr[-1] != len(points_m) or (np.diff(ptr) < 0).any():
            raise BadInput(f"{path}: its parts do not fit together; run the study again")
    return ground


def _arrays(path: Path, dimensions: Mapping[str, int], needed: Collection[str] = ()) -> dict[str, NDArray[Any]]:
    """Arrays of an npz file by name, those of `dimensions`; only `needed` ones must be there."""
    try:
        arrays = {name: np.asarray(array, np.float64) for name, array in read_arrays(path).items()}
    except (ValueError, TypeError) as error:
        raise BadInput(f"{path}: cannot be read ({error}); run the study again") from None
    found = {name: arrays[name] for name in dimensions if name in arrays}
    wrong = [name for name in needed if name not in found] or [n for n in found if found[n].ndim != dimensions[n]]
    if wrong:
        raise BadInput(f"{path}: {wrong[0]} is missing or has the wrong shape; run the study again")
    return found


def listed(folder: Path) -> list[tuple[str, Path]]:
    """Label and folder of each run of a sweep, or else of each run that lies directly in the folder."""
    if what_is(folder / RUNS):
        return _sweep(folder)
    if what_is(folder / SWEEP) or marked(folder) == "sweep":
        raise BadInput(f"{folder}: this sweep is not finished; start it again and it goes on")
    runs = [(p.name, p) for p in sorted(folder.iterdir()) if (p / MANIFEST).exists()]
    if not runs:
        what = f"neither the folder of a run (no {MANIFEST}) nor of a sweep (no {RUNS})"
        raise BadInput(f"{folder}: {what}; give a folder that netsim wrote")
    return runs


def finished(folder: Path) -> list[tuple[str, Path]]:
    """Those of them that are finished; of a sweep, runs may have failed."""
    return [(label, path) for label, path in listed(folder) if what_is(path / SUMMARY)]


def _sweep(folder: Path) -> list[tuple[str, Path]]:
    path = folder / RUNS
    try:
        runs = [(row["label"] or "as written", folder / row["folder"]) for row in read_rows(path)]
    except KeyError as error:
        raise BadInput(f"{path}: has no column {error}; start the sweep again") from None
    if not runs:
        raise BadInput(f"{path}: lists no run; start the sweep again")
    for _, run in runs:
        if not run.resolve().is_relative_to(folder.resolve()):
            raise BadInput(f"{path}: the run {run} lies outside of {folder}; move it inside")
    return runs


def curves_of(folder: Path) -> dict[str, list[str]]:
    """Curve -> its labels in the order of strength, of a sweep."""
    path = folder / RUNS
    rows = [row for row in read_rows(path) if row.get("curve")]
    try:
        rows.sort(key=lambda row: float(row["strength"]))
    except (KeyError, ValueError) as error:
        raise BadInput(f"{path}: damaged ({error}); start the sweep again") from None
    labels: dict[str, dict[str, None]] = {}
    for row in rows:
        labels.setdefault(row["curve"], {})[row["label"]] = None
    return {curve: [*along] for curve, along in labels.items()}


# -- surfaces.npz

MAPS = ("estimate", "exact", "law", "answer")

Surfaces = dict[str, NDArray[Any]]
"""x_m (P,), y_m (Q,), and those of MAPS that there are, (P, Q) each; answer_at_m (2,)."""


def read_surfaces(folder: Path) -> Surfaces:
    """What was written, checked; nothing where nothing was."""
    path = folder / SURFACES
    if not what_is(path):
        return {}
    arrays = _arrays(path, {"x_m": 1, "y_m": 1, "answer_at_m": 1, **dict.fromkeys(MAPS, 2)}, needed=("x_m", "y_m"))
    shape = (len(arrays["x_m"]), len(arrays["y_m"]))
    if any(arrays[name].shape != shape for name in MAPS if name in arrays):
        raise BadInput(f"{path}: its maps do not fit the grid; run the study again")
    return arrays
