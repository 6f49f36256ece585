"""Cabspotting text: a line is latitude, longitude, occupied (0 or 1) and epoch seconds, the newest first."""

from __future__ import annotations

import numpy as np

from netsim.traces.source import Source
from netsim.traces.table import Table
from netsim.traces.times import LATEST_EPOCH_S
from netsim.traces.tracks import (
    LAT,
    LON,
    Field,
    UserTrack,
    files_in,
    in_order,
    joined,
    placed,
    read_fields,
    relative,
    stem,
)

_EPOCH = Field(3, "epoch seconds", 0.0, LATEST_EPOCH_S)


def read_cabspotting(path: str, crs: str) -> Table:
    """A file, or a folder of ``new_*.txt``; the user is the rest of the file's name. The oldest row comes first."""
    files = files_in(path, "new_*.txt*")
    return joined(path, files, "cabspotting", crs, [_track(path, file) for file in files])


def _track(path: str, file: str) -> UserTrack:
    columns = read_fields(Source(file, "Cabspotting"), None, 0, (LAT, LON, _EPOCH))
    if (np.diff(columns[2]) < 0).any():
        columns = [column[::-1] for column in columns]
    lat_deg, lon_deg, time_s = columns
    user = stem(file).removeprefix("new_")
    return in_order(placed(user, time_s, lat_deg, lon_deg, relative(path, file)), file)
