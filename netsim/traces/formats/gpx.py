"""GPX: tracks of one or several segments. Routes and waypoints are no movement and are passed over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from netsim.errors import BadInput
from netsim.safe import what_is
from netsim.traces.order import first_backwards
from netsim.traces.source import Source
from netsim.traces.table import Table
from netsim.traces.times import Times
from netsim.traces.tracks import LAT, LON, UserTrack, files_in, joined, one_line, placed, relative, stem
from netsim.traces.values import Codes, Refused, missing, number, shown
from netsim.traces.xml import Elements, stream
from netsim.units import FloatArray

_OVERLAP = 0.1  # of the shorter of two tracks, which one phone's may overlap by


def read_gpx(path: str, crs: str, zone: tzinfo | None = None) -> Table:
    """A file, or a folder of them; `zone` is that of times without one.

    Tracks of a file, and files of a folder below `path`, are one user's unless two of them overlap in time, as a user
    is in one place at a time. Of those that overlap each is a user; copies, and overlaps of a tenth of the shorter one,
    do not count. Every file that lies directly in `path` stands alone.
    """
    files = files_in(path, "*.gpx*")
    read = [(file, _read(file, zone)) for file in files]
    tracks, decisions = list[UserTrack](), list[str]()
    for folder in dict.fromkeys(Path(file).parent for file in files):
        many = list[UserTrack]()  # of a folder below, whose files are one user's unless they overlap
        for file, found in read:
            if Path(file).parent != folder:
                continue
            if what_is(path) == "folder" and folder != Path(path) and not _overlap(found.tracks()):
                many.append(_one(stem(file), found))
                continue
            names = {name for name in found.names if name}
            only = names.pop() if len(names) == 1 else stem(file)
            tracks += _users(path, file, only, found.tracks(), "tracks", decisions)
        tracks += _users(path, str(folder), folder.name, many, "files", decisions)
    n_timeless = sum(found.n_timeless for _, found in read)
    notes = [f"{n_timeless:,} track points without a time left out"] if n_timeless else []
    notes += list(dict.fromkeys(note for _, found in read for note in found.times.notes))
    if decisions:
        notes.append(f"{decisions[0]}{f', and {len(decisions) - 1} more such' if len(decisions) > 1 else ''}")
    return joined(path, files, "gpx", crs, tracks, notes)


@dataclass(frozen=True, eq=False)
class _File:
    """Points of a file (n,), in its order, the track of each, and the names of the tracks."""

    time_s: FloatArray
    lat_deg: FloatArray
    lon_deg: FloatArray
    track: Codes
    names: Sequence[str]
    n_timeless: int
    times: Times

    def tracks(self) -> list[UserTrack]:
        """Each track, also without points."""
        rows = [self.track == k for k in range(len(self.names))]
        return [
            placed(name, self.time_s[own], self.lat_deg[own], self.lon_deg[own])
            for name, own in zip(self.names, rows, strict=True)
        ]


class _TrackPoints(Elements):
    """Collects track points, and the texts of their times."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.lat_deg, self.lon_deg, self.line = list[float](), list[float](), list[int]()
        self.track, self.segment, self.time, self.names = list[int](), list[int](), list[str](), list[str]()
        self._open, self._text, self._n_segments = list[str](), "", 0

    def begin(self, name: str, attributes: Any) -> None:
        self._open.append(name)
        self._text = ""
        if name == "trk":
            self.names.append("")
        elif name == "trkseg":
            self._n_segments += 1
        elif name == "trkpt":
            if not self.names:
                self.refuse("a trkpt outside a trk; give a GPX file of tracks")
            self.lat_deg.append(self._degrees(attributes, LAT.name, LAT.high))
            self.lon_deg.append(self._degrees(attributes, LON.name, LON.high))
            self.track.append(len(self.names) - 1)
            self.segment.append(self._n_segments)
            self.line.append(self.place.getLineNumber())
            self.time.append("")

    def characters(self, content: str) -> None:
        self._text += content

    def endElement(self, name: str) -> None:  # noqa: N802 - named by SAX
        super().endElement(name)
        match (*self._open[-2:],):
            case ("trkpt", "time"):
                self.time[-1] = self._text.strip()
            case ("trk", "name"):
                self.names[-1] = one_line(self._text)
        self._open.pop()

    def _degrees(self, attributes: Any, name: str, most: float) -> float:
        """A latitude or longitude, NaN where there is none."""
        text = attributes.get(name, "")
        if not (missing(text) or abs(number(text)) <= most):
            problem = f"{shown(text)} is not a number in [{-most:g}, {most:g}]"
            self.refuse(f"trkpt, {name}: {problem}; correct or remove the point")
        return number(text)


def _read(file: str, zone: tzinfo | None) -> _File:
    found, times = _TrackPoints(file), Times(zone, "")
    stream(Source(file, "GPX"), found)
    timed = np.array([bool(text) for text in found.time], dtype=np.bool_)
    line, segment, track = (np.array(c, dtype=np.int32)[timed] for c in (found.line, found.segment, found.track))
    try:
        text = [text for text in found.time if text]
        time_s = times.settled(times.read(text, 1), segment) if text else np.zeros(0)
    except Refused as refusal:
        raise BadInput(f"{file}: line {line[refusal.row]}, time: {refusal}") from None
    if (rows := first_backwards(segment, time_s)) is not None:
        before, after = (f"{shown(text[row])} at line {line[row]}" for row in rows)
        raise BadInput(f"{file}: {after} is before {before} of the same segment; sort the points by time")
    lat_deg, lon_deg = (np.array(c, dtype=np.float64)[timed] for c in (found.lat_deg, found.lon_deg))
    return _File(time_s, lat_deg, lon_deg, track, found.names, int((~timed).sum()), times)


def _one(name: str, found: _File) -> UserTrack:
    """All points of a file, whatever their track."""
    return placed(name, found.time_s, found.lat_deg, found.lon_deg)


def _users(
    path: str, owner: str, name: str, tracks: Sequence[UserTrack], what: str, decisions: list[str]
) -> list[UserTrack]:
    """The tracks as one user's; where they overlap in time, one user per name; where those overlap, one per track.
    Adds a note to `decisions`. Copies count once.
    """
    at = relative(path, owner)
    tracks = [track for track in tracks if len(track.time_s) or track.n_placeless]
    apart = _overlap(tracks)
    if len(tracks) > 1:
        are = "overlap in time and are several users" if apart else "do not overlap in time and are one user"
        decisions.append(f"{len(tracks)} {what} of {shown(Path(owner).name, quote=False)} {are}")
    if not apart:
        return [track.of(name, at) for track in tracks]
    first = {_content(track): track.user for track in reversed(tracks)}
    tracks = [replace(track, user=first[_content(track)]) for track in tracks]
    found = list[UserTrack]()
    for user in dict.fromkeys(track.user for track in tracks):
        alike = [track for track in tracks if track.user == user]
        each = _overlap(alike)
        found += [track.of(user or name, f"{at}/{user} {k if each else ''}") for k, track in enumerate(alike, 1)]
    return found


def _content(track: UserTrack) -> tuple[bytes, ...]:
    """The content of a track, equal for copies."""
    return track.time_s.tobytes(), track.lat_deg.tobytes(), track.lon_deg.tobytes()


def _overlap(tracks: Sequence[UserTrack]) -> bool:
    """Whether one begins before another ends, by more than a tenth of the shorter, and is no copy of it."""
    once = {_content(track): track for track in tracks if len(track.time_s)}
    ends_s = sorted((track.time_s.min(), track.time_s.max()) for track in once.values())
    return any(
        before[1] - after[0] > _OVERLAP * min(before[1] - before[0], after[1] - after[0]) and after[0] < before[1]
        for before, after in pairwise(ends_s)
    )
