"""Cabspotting text: a line is latitude, longitude, occupied (0 or 1) and epoch seconds, the newest first."""

from typing import ClassVar, Literal

import numpy as np

from netsim.traces.formats.base import TraceFormat
from netsim.traces.source import LAT, LON, Field, Source, files_in, read_fields, relative, stem
from netsim.traces.table import FixBuilder, TrackPoints
from netsim.traces.values import LATEST_EPOCH_S

_EPOCH = Field(3, "epoch seconds", 0.0, LATEST_EPOCH_S)


class Cabspotting(TraceFormat):
    """Cabspotting text, a file or a folder.

    Files of a folder are called ``new_*.txt``; the user is the rest of the file's name. The oldest row comes first.
    """

    kind: Literal["cabspotting"] = "cabspotting"
    content: ClassVar[str] = r"\A\s*-?\d+\.\d+ -?\d+\.\d+ [01] \d+\s*(\n|$)"
    folder: ClassVar[str] = "new_*.txt*"
    reference: ClassVar = "Piorkowski et al., CRAWDAD epfl/mobility, 2009"

    def read(self, fixes: FixBuilder) -> None:
        for file in files_in(fixes.path, self.folder):
            columns = read_fields(Source(file, "Cabspotting"), (LAT, LON, _EPOCH))
            if (np.diff(columns[3]) < 0).any():
                columns = tuple(column[::-1] for column in columns)
            line, lat_deg, lon_deg, time_s = columns
            user = fixes.user(stem(file).removeprefix("new_"), relative(fixes.path, file))
            fixes.add_track(file, user, TrackPoints(line, time_s, lat_deg, lon_deg))
