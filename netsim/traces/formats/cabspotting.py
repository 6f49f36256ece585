"""Cabspotting text: a line is latitude, longitude, occupied (0 or 1) and epoch seconds, the newest first."""

from __future__ import annotations

from netsim.traces.source import Source
from netsim.traces.table import Table
from netsim.traces.tracks import LAT, LON, Field, Track, files_in, joined, placed, read_fields, stem
from netsim.traces.values import LATEST_EPOCH_S

_EPOCH = Field(3, "epoch seconds", 0.0, LATEST_EPOCH_S)


def read_cabspotting(path: str, crs: str) -> Table:
    """A file, or a folder of ``new_*.txt``; the user is the rest of the file's name. The oldest row comes first."""
    files = files_in(path, "new_*.txt*")
    return joined(path, files, "cabspotting", crs, [_track(file) for file in files])


def _track(file: str) -> Track:
    lat_deg, lon_deg, time_s = read_fields(Source(file, "Cabspotting"), None, 0, (LAT, LON, _EPOCH))
    return placed(stem(file).removeprefix("new_"), time_s[::-1], lat_deg[::-1], lon_deg[::-1])
