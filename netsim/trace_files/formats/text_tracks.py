"""Text with a point a line: GeoLife PLT and Cabspotting."""

import re
from itertools import islice
from pathlib import Path

import numpy as np

from netsim.safe import describe_file_kind
from netsim.trace_files.formats.base import TraceFormat
from netsim.traces.source import (
    LAT,
    LON,
    Field,
    Source,
    find_files,
    read_lines_and_fields,
    strip_endings,
    to_relative,
)
from netsim.traces.table import FixBuilder, TrackPoints
from netsim.traces.values import LATEST_EPOCH_S, quote_text
from netsim.units import TextPair

_HEADER_LINES = 6
# the days since 1899-12-30 have five digits
_ROW = re.compile(r"[^,]+,[^,]+,[^,]*,[^,]*,\s*\d{5}\b")
_WGS_84 = re.compile(r"WGS[ _-]?(19)?84", re.IGNORECASE)
_DAY_OF_1970 = 25_569.0
_DAYS = Field(4, "days since 1899-12-30", _DAY_OF_1970, 73_050.0)  # to the end of 2099


class Plt(TraceFormat, kind="plt"):
    """GeoLife PLT, a file or a folder.

    In a folder, such as GeoLife's ``Data/000/Trajectory/*.plt``, the user is called as the folder
    of the files, or the one above Trajectory. A file read alone is called so below Trajectory, and
    by its own name elsewhere. Times are those of the day number, to the millisecond, which its ten
    decimals carry. The six lines above the rows, the second with the datum WGS 84, may be missing.
    """

    endings = (".plt",)
    content = r"\A(?i:Geolife trajectory|OziExplorer Track Point File)"
    folder = "*.plt*"
    reference = "Zheng et al., GeoLife, 2010"

    def read(self, fixes: FixBuilder) -> None:
        for file in find_files(fixes.path, self.folder):
            source = Source(file, "PLT")
            line, lat_deg, lon_deg, days = read_lines_and_fields(
                source, (LAT, LON, _DAYS), _count_header_lines(source), ","
            )
            name, owner = _find_user(fixes.path, file)
            time_s = np.round((days - _DAY_OF_1970) * 86_400.0, 3)
            user = fixes.number_user(name, to_relative(fixes.path, owner))
            fixes.add_track(file, user, TrackPoints(line, time_s, lat_deg, lon_deg))


def _count_header_lines(source: Source) -> int:
    """How many lines stand above the rows, the second with the datum: six, or fewer. Raises
    `BadInput` for another.
    """
    head = list(islice(source.read_lines(), _HEADER_LINES))
    above = next((k for k, text in enumerate(head) if _ROW.match(text)), _HEADER_LINES)
    datum = "".join(head[1:2]).strip()
    if above and not _WGS_84.fullmatch(datum):
        source.refuse(
            2,
            f"{quote_text(datum)} is not the datum WGS 84; convert the places, and begin with the "
            f"six lines of a PLT, or with a row",
        )
    return above


def _find_user(path: str, file: str) -> TextPair:
    """The user of a file: its name, and the folder or file that is its own."""
    folder = Path(file).resolve().parent
    if folder.name.lower() == "trajectory":
        return folder.parent.name, str(folder.parent)
    if describe_file_kind(path) == "folder":
        return (folder.name, str(folder))
    return (strip_endings(file), file)


_EPOCH = Field(3, "epoch seconds", 0.0, LATEST_EPOCH_S)


class Cabspotting(TraceFormat, kind="cabspotting"):
    """Cabspotting text, a file or a folder.

    Files of a folder are called ``new_*.txt``; the user is the rest of the file's name. The oldest
    row comes first.
    """

    content = r"\A\s*-?\d+\.\d+ -?\d+\.\d+ [01] \d+\s*(\n|$)"
    folder = "new_*.txt*"
    reference = "Piorkowski et al., CRAWDAD epfl/mobility, 2009"

    def read(self, fixes: FixBuilder) -> None:
        for file in find_files(fixes.path, self.folder):
            columns = read_lines_and_fields(Source(file, "Cabspotting"), (LAT, LON, _EPOCH))
            if (np.diff(columns[3]) < 0).any():
                columns = tuple(column[::-1] for column in columns)
            line, lat_deg, lon_deg, time_s = columns
            user = fixes.number_user(
                strip_endings(file).removeprefix("new_"), to_relative(fixes.path, file)
            )
            fixes.add_track(file, user, TrackPoints(line, time_s, lat_deg, lon_deg))
