"""GPX: tracks of one or several segments. Routes and waypoints are no movement and are passed over."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import numpy as np

from netsim.errors import BadInput
from netsim.traces.source import Source
from netsim.traces.table import Table
from netsim.traces.tracks import LAT, LON, Track, files_in, joined, one_line, stem
from netsim.traces.values import number, shown
from netsim.traces.xml import Elements, stream

MOST_BYTES = 32 * 2**20  # gpxpy holds a file as objects, some 16 bytes for each of its own


def read_gpx(path: str, crs: str) -> Table:
    """A file, or a folder of them; the user is the track's name, or the file's where a track has none."""
    tracks: list[Track] = []
    n_timeless = 0
    files = files_in(path, "*.gpx*")
    for file in files:
        for track in _parsed(file).tracks:
            points = [point for segment in track.segments for point in segment.points]
            timed = [point for point in points if point.time is not None]
            n_timeless += len(points) - len(timed)
            tracks.append(_track(one_line(track.name or "") or stem(file), timed))
    notes = (f"{n_timeless:,} track points without a time left out",) if n_timeless else ()
    return joined(path, files, "gpx", crs, tracks, notes)


class _Checked(Elements):
    """Looks at every point before gpxpy does, because here the line is known."""

    def begin(self, name: str, attributes: Any) -> None:
        if name != "trkpt":
            return
        for field in (LAT, LON):
            text = attributes.get(field.name, "")
            if not field.low <= number(text) <= field.high:
                problem = f"{shown(text)} is not a number in [{field.low:g}, {field.high:g}]"
                self.refuse(f"trkpt, {field.name}: {problem}; correct or remove the point")


def _parsed(file: str) -> Any:
    """The file by gpxpy, after it was found to hold neither entities nor a document type."""
    import gpxpy

    source = Source(file, "GPX")
    chunks, n_bytes = [], 0
    for chunk in source.chunks():
        chunks.append(chunk)
        n_bytes += len(chunk)
        if n_bytes > MOST_BYTES:
            problem = f"larger than {MOST_BYTES / 2**20:g} MiB unpacked, the most that is read of a GPX file"
            raise BadInput(f"{file}: {problem}; split it, or convert it to CSV")
    stream(source, _Checked(file))
    try:
        return gpxpy.parse(b"".join(chunks))
    except (gpxpy.gpx.GPXException, ValueError) as error:
        raise BadInput(f"{file}: not GPX ({shown(str(error), quote=False)}); correct the file") from error


def _track(name: str, points: list[Any]) -> Track:
    time_s = [(p.time if p.time.tzinfo else p.time.replace(tzinfo=UTC)).timestamp() for p in points]
    columns = (time_s, [p.latitude for p in points], [p.longitude for p in points])
    at_s, lat_deg, lon_deg = (np.array(column, dtype=np.float64) for column in columns)
    return Track(name, at_s, lat_deg, lon_deg)
