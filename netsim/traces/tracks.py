"""Tracks: common base of formats with one user a file, and folders of such files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path

import numpy as np

from netsim.errors import BadInput
from netsim.safe import what_is
from netsim.traces.crs import in_degrees
from netsim.traces.source import Source
from netsim.traces.table import Table, moves
from netsim.traces.values import ColumnNames, Refused, bounded, bounded_or_missing, listed
from netsim.units import FloatArray


@dataclass(frozen=True, eq=False)
class UserTrack:
    """Places and times of one user: (n,) each.

    user : its name, not unique among owners; owner : the folder or file, below the path given, with the tracks of one
    user.
    """

    user: str
    time_s: FloatArray
    lat_deg: FloatArray
    lon_deg: FloatArray
    n_placeless: int = 0
    """rows of its file that have no position"""
    owner: str = ""

    def of(self, user: str, owner: str) -> UserTrack:
        """The track as another user's."""
        return replace(self, user=user, owner=owner)


@dataclass(frozen=True)
class Field:
    """A number in a row of text: its place, its name in messages, and its bounds."""

    at: int
    name: str
    low: float
    high: float


LAT, LON = Field(0, "lat", -90.0, 90.0), Field(1, "lon", -180.0, 180.0)


def files_in(path: str, pattern: str) -> list[str]:
    """The file, or all files of a folder and below that fit the pattern in any case, in order of name.

    Hidden files and folders are passed over, and files that archives of macOS add.
    """
    if what_is(path) != "folder":
        return [path]
    files = [str(p) for p in fitting(path, pattern) if what_is(p) == "file"]
    if not files:
        raise BadInput(f"{path}: the folder holds no file {pattern}; give another folder, or the file itself")
    return files


def fitting(path: str, pattern: str) -> list[Path]:
    """Paths that match the pattern in a folder and below, in any case and not hidden, in order of name."""
    below = (p for p in sorted(Path(path).rglob("*")) if fnmatch(p.name.lower(), pattern))
    return [p for p in below if not any(part.startswith((".", "__MACOSX")) for part in p.relative_to(path).parts)]


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


def placed(user: str, time_s: FloatArray, lat_deg: FloatArray, lon_deg: FloatArray, owner: str = "") -> UserTrack:
    """The rows of a track that have a position, and how many have none."""
    there = np.isfinite(lat_deg) & np.isfinite(lon_deg)
    return UserTrack(user, time_s[there], lat_deg[there], lon_deg[there], int((~there).sum()), owner)


def in_order(track: UserTrack, file: str) -> UserTrack:
    """The track, if its times never run backwards. Raises `BadInput` with one line."""
    back = np.flatnonzero(np.diff(track.time_s) < 0)
    if back.size:
        before, after = (f"{datetime.fromtimestamp(t, UTC):%Y-%m-%dT%H:%M:%SZ}" for t in track.time_s[back[0] :][:2])
        where = f"row {back[0] + 2} of those with a position"
        raise BadInput(f"{file}: {where}: {after} comes after {before}; sort the rows by time")
    return track


def joined(
    path: str, files: Sequence[str], format: str, crs: str, tracks: Sequence[UserTrack], notes: Sequence[str] = ()
) -> Table:
    """One table of all tracks of the files; tracks of one name and owner are one user's."""
    n_placeless = sum(track.n_placeless for track in tracks)
    tracks = [track for track in tracks if len(track.time_s)]
    if not tracks:
        raise BadInput(f"{path}: has no positions with a time; give a {format} file that has some")
    owners: dict[str, set[str]] = {}
    for track in tracks:
        owners.setdefault(track.user, set()).add(track.owner)
    shared = [user for user, those in owners.items() if len(those) > 1]
    if shared:
        n = sum(len(owners[user]) for user in shared)
        notes = [*notes, f"{n:,} users of equal names ({listed(shared[:3])}) are distinguished by folder and file"]
    names = ColumnNames()
    code = names.read([one_line(t.owner if t.user in shared else t.user) for t in tracks])
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


def relative(path: str, owner: str) -> str:
    """A file or folder as it is called below the path that was named, without endings."""
    below = Path(os.path.relpath(owner, path) if what_is(path) == "folder" else Path(owner).name)
    return str(below.parent / stem(owner)) if what_is(owner) == "file" else str(below)


def stem(path: str) -> str:
    """The name of a file without folders and endings."""
    return one_line(Path(path).name.removesuffix(".gz").rsplit(".", 1)[0])


def one_line(name: str) -> str:
    """A name without line breaks and runs of blanks."""
    return " ".join(name.split())
