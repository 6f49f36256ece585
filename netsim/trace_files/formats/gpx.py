"""GPX: tracks of one or several segments. Routes and waypoints are no movement and are passed
over.
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from netsim.notice import notice
from netsim.safe import describe_file_kind
from netsim.trace_files.formats.base import TraceFormat
from netsim.traces.source import Attributes, XmlFile, find_files, strip_endings, to_relative
from netsim.traces.table import PLACES, FixBuilder, TrackPoints
from netsim.traces.values import (
    Refused,
    Times,
    parse_bounded,
    quote_text,
    squeeze_blanks,
)
from netsim.units import IntArray

_OVERLAP = 0.1  # of the shorter of two tracks, which one phone's may overlap by


class GpxTrack(NamedTuple):
    """Points of a track, or of all tracks of a file, and their name."""

    file: str
    name: str
    points: TrackPoints


class Gpx(TraceFormat, kind="gpx"):
    """GPX tracks, a file or a folder.

    Tracks of a file, and files of a folder below the path that is named, are one user's unless two
    of them overlap in time, as a user is in one place at a time. Of those that overlap each is a
    user; copies, and overlaps of a tenth of the shorter one, do not count. Every file that lies
    directly in the path stands alone.
    """

    endings = (".gpx",)
    content = r"\A\s*(?=<)(?s:.*?)<(\w+:)?gpx\b"
    folder = "*.gpx*"
    reference = "topografix.com, GPX 1.1"

    def read(self, fixes: FixBuilder) -> None:
        files: dict[Path, list[str]] = {}
        for file in find_files(fixes.path, self.folder):
            files.setdefault(Path(file).parent, []).append(file)
        decisions: list[str] = []
        for folder, paths in files.items():
            below = describe_file_kind(fixes.path) == "folder" and folder != Path(fixes.path)
            whole: list[GpxTrack] = []  # files of one user, unless they overlap
            for file in paths:
                names, track_of, points = _read_tracks(file, fixes)
                tracks = [
                    GpxTrack(file, name, points.select(track_of == k))
                    for k, name in enumerate(names)
                ]
                if below and not _has_overlap(tracks):
                    whole.append(GpxTrack(file, strip_endings(file), points))
                else:
                    named = set(filter(None, names))
                    only = named.pop() if len(named) == 1 else strip_endings(file)
                    decisions += _add_tracks(fixes, file, only, tracks, "tracks")
            decisions += _add_tracks(fixes, str(folder), folder.name, whole, "files")
        rest = f", and {len(decisions) - 1} more such" if len(decisions) > 1 else ""
        fixes.notices += [
            notice("trace-tracks", decision=decision, more=rest) for decision in decisions[:1]
        ]


class _GpxFile(XmlFile):
    """Collects the names of tracks and, of each point, its line, track, segment and texts."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "GPX")
        self.names, self.lat, self.lon, self.time, self._inside = (list[str]() for _ in range(5))
        self.places: list[tuple[int, int, int]] = []
        self._n_segments = 0
        self.read(self._begin, self._end)

    def _begin(self, name: str, attributes: Attributes) -> None:
        self._inside.append(name)
        if name == "trk":
            self.names.append("")
        elif name == "trkseg":
            self._n_segments += 1
        elif name == "trkpt":
            if not self.names:
                self.refuse("a trkpt outside a trk; give a GPX file of tracks")
            self.lat.append(attributes.get("lat", ""))
            self.lon.append(attributes.get("lon", ""))
            self.time.append("")
            self.places.append(
                (self.parser.CurrentLineNumber, len(self.names) - 1, self._n_segments)
            )

    def _end(self, name: str, text: str) -> None:
        self._inside.pop()
        if name == "time" and self._inside[-1:] == ["trkpt"]:
            self.time[-1] = text.strip()
        elif name == "name" and self._inside[-1:] == ["trk"]:
            self.names[-1] = squeeze_blanks(text)


def _read_tracks(path: str, fixes: FixBuilder) -> tuple[list[str], IntArray, TrackPoints]:
    """The names of the tracks of a file, the track of each point (n,), and all points (n,) with a
    time.
    """
    file = _GpxFile(path)
    times = Times(fixes.zone, "")
    lines, track, segment = np.array(file.places, int).reshape(-1, 3).T
    timed = np.array([*map(bool, file.time)], bool)
    fixes.left_out["time_missing"] += (~timed).sum()
    row = np.arange(len(lines))
    place = "trkpt, lat"
    time_s = np.zeros(0)
    try:
        lat_deg = parse_bounded(file.lat, *PLACES["lat"])
        place = "trkpt, lon"
        lon_deg = parse_bounded(file.lon, *PLACES["lon"])
        row = row[timed]
        place = "time"
        if timed.any():
            texts = [*filter(None, file.time)]
            time_s = times.settle_passes(times.read_times(texts, 1), segment[timed])
    except Refused as refusal:
        file.source.refuse(lines[row[refusal.row]], f"{place}: {refusal}")
    fixes.notices += [message for message in times.notices if message not in fixes.notices]
    points = TrackPoints(lines[timed], time_s, lat_deg[timed], lon_deg[timed], segment[timed])
    return (
        file.names,
        track[timed],
        points,
    )


def _add_tracks(
    fixes: FixBuilder, owner: str, name: str, tracks: Sequence[GpxTrack], kind: str
) -> list[str]:
    """Add the tracks as one user's; where they overlap in time, one user per name; where those
    overlap, one per track.

    Copies count once. Returns what was decided of several tracks.
    """
    path = to_relative(fixes.path, owner)
    tracks = [track for track in tracks if len(track.points.line)]
    apart = _has_overlap(tracks)
    first = {track.points.to_key(): track.name for track in reversed(tracks)}
    alike: dict[str, list[GpxTrack]] = {}
    for track in tracks:
        alike.setdefault(first[track.points.to_key()] if apart else name, []).append(track)
    for user, user_tracks in alike.items():
        is_apart = apart and _has_overlap(user_tracks)
        for k, track in enumerate(user_tracks, 1):
            longer = f"{path}/{user} {k if is_apart else ''}" if apart else path
            fixes.add_track(
                track.file, fixes.number_user(user or name, squeeze_blanks(longer)), track.points
            )
    are = (
        "overlap in time and are several users"
        if apart
        else "do not overlap in time and are one user"
    )
    decision = f"{len(tracks)} {kind} of {quote_text(Path(owner).name, quote=False)} {are}"
    return [decision] * (len(tracks) > 1)


def _has_overlap(tracks: Sequence[GpxTrack]) -> bool:
    """Whether one begins before another ends, by more than a tenth of the shorter, and is no copy
    of it.
    """
    once = {
        track.points.to_key(): track.points.time_s for track in tracks if len(track.points.line)
    }
    ends_s = sorted((time_s.min(), time_s.max()) for time_s in once.values())
    return any(
        before[1] - after[0] > _OVERLAP * min(before[1] - before[0], after[1] - after[0])
        and after[0] < before[1]
        for before, after in pairwise(ends_s)
    )
