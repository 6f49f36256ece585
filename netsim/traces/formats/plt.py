"""GeoLife PLT: six lines of header, then latitude, longitude, 0, feet, days since 1899-12-30, date, time (GMT)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from netsim.safe import what_is
from netsim.traces.source import Source
from netsim.traces.table import Table
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

HEADER_LINES = 6
DAY_OF_1970 = 25_569.0
_DAYS = Field(4, "days since 1899-12-30", DAY_OF_1970, 73_050.0)  # to the end of 2099


def read_plt(path: str, crs: str) -> Table:
    """A file, or a folder of them, such as GeoLife's ``Data/000/Trajectory/*.plt``.

    In a folder the user is called as the folder of the files, or the one above Trajectory. A file read alone is
    called so below Trajectory, and by its own name elsewhere. Times are those of the day number, to the
    millisecond, which its ten decimals carry.
    """
    files = files_in(path, "*.plt*")
    return joined(path, files, "plt", crs, [_track(path, file) for file in files])


def _track(path: str, file: str) -> UserTrack:
    lat_deg, lon_deg, days = read_fields(Source(file, "PLT"), ",", HEADER_LINES, (LAT, LON, _DAYS))
    time_s = np.round((days - DAY_OF_1970) * 86_400.0, 3)
    user, owner = _user(path, file)
    return in_order(placed(user, time_s, lat_deg, lon_deg, relative(path, owner)), file)


def _user(path: str, file: str) -> tuple[str, str]:
    """The user of a file: its name, and the folder or file that is its own."""
    folder = Path(file).resolve().parent
    if folder.name.lower() == "trajectory":
        return folder.parent.name, str(folder.parent)
    return (folder.name, str(folder)) if what_is(path) == "folder" else (stem(file), file)
