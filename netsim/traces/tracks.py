"""Tracks: what formats of one person a file have in common, and folders of such files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from netsim.errors import BadInput
from netsim.safe import what_is
from netsim.traces.crs import in_degrees
from netsim.traces.source import Source
from netsim.traces.table import Table, moves
from netsim.traces.values import Names, Refused, bounded, bounded_or_missing
from netsim.units import FloatArray


@dataclass(frozen=True, eq=False)
class Track:
    """Where and when one user was: (n,) each, in any order of time."""

    user: str
    time_s: FloatArray
    lat_deg: FloatArray
    lon_deg: FloatArray
    n_placeless: int = 0
    """rows of its file that have no position"""


@dataclass(frozen=True)
class Field:
    """A number in a row of text: its place, its name in messages, and its bounds."""

    at: int
    name: str
    low: float
    high: float


LAT, LON = Field(0, "lat", -90.0, 90.0), Field(1, "lon", -180.0, 180.0)


def files_in(path: str, pattern: str) -> list[str]:
    """The file, or all files of a folder and below that fit the pattern, in order of name."""
    if what_is(path) != "folder":
        return [path]
    files = [str(p) for p in sorted(Path(path).rglob(pattern)) if what_is(p) == "file"]
    if not files:
        raise BadInput(f"{path}: the folder holds no file {pattern}; give another folder, or the file itself")
    return files


def read_fields(source: Source, delimiter: str | None, skip: int, fields: Sequence[Field]) -> list[FloatArray]:
    """Columns (n,) of numbers from the lines after the first `skip`; latitude and longitude may be missing: NaN.

    Raises `BadInput` with one line.
    """
    pieces: list[list[FloatArray]] = [[np.zeros(0)] for _ in fields]
    width = 1 + max(field.at for field in fields)
    for first, text in source.blocks():
        lines = [(at, line.split(delimiter)) for at, line in enumerate(text.split("\n"), first) if line.strip()]
        lines = [(at, cells) for at, cells in lines if at > skip]
        for at, cells in lines:
            if len(cells) < width:
                problem = f"{len(cells)} fields, but {source.wanted} has {width} or more"
                raise BadInput(f"{source.path}: line {at}: {problem}; correct or remove the line (is it cut short?)")
        for field, column in zip(fields, pieces, strict=True):
            try:
                read = bounded_or_missing if field in (LAT, LON) else bounded
                column.append(read([cells[field.at] for _, cells in lines], field.low, field.high))
            except Refused as refusal:
                where = f"{source.path}: line {lines[refusal.row][0]}, {field.name}"
                raise BadInput(f"{where}: {refusal}") from None
    return [np.concatenate(column) for column in pieces]


def placed(user: str, time_s: FloatArray, lat_deg: FloatArray, lon_deg: FloatArray) -> Track:
    """The rows of a track that have a position, and how many have none."""
    there = np.isfinite(lat_deg) & np.isfinite(lon_deg)
    return Track(user, time_s[there], lat_deg[there], lon_deg[there], int((~there).sum()))


def joined(
    path: str, files: Sequence[str], format: str, crs: str, tracks: Sequence[Track], notes: Sequence[str] = ()
) -> Table:
    """One table of all tracks of the files; tracks of one name are one user's."""
    n_placeless = sum(track.n_placeless for track in tracks)
    tracks = [track for track in tracks if len(track.time_s)]
    if not tracks:
        raise BadInput(f"{path}: has no positions with a time; give a {format} file that has some")
    names = Names()
    code = names.read([track.user for track in tracks])
    lat_deg, lon_deg = (np.concatenate([getattr(t, name) for t in tracks]) for name in ("lat_deg", "lon_deg"))
    return moves(
        path,
        sum(Source(file).n_bytes for file in files),
        format,
        np.concatenate([track.time_s for track in tracks]),
        np.repeat(code, [len(track.time_s) for track in tracks]),
        names.all(),
        in_degrees(path, crs, lat_deg, lon_deg),
        notes,
        n_placeless,
    )


def stem(path: str) -> str:
    """The name of a file without folders and endings."""
    return one_line(Path(path).name.removesuffix(".gz").rsplit(".", 1)[0])


def one_line(name: str) -> str:
    """A name without line breaks and runs of blanks."""
    return " ".join(name.split())
