"""Record tables as pandas frames, for people who go on with them in Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netsim.errors import BadInput
from netsim.safe import what_is
from scenarios.app.results.folder import EVERY, MANIFEST, read_json, table_path
from scenarios.app.results.read import checked_table
from scenarios.app.results.run import clock_of

if TYPE_CHECKING:
    import pandas

_INDICES = frozenset({"ue", "other", "model", "round", "rank"})
"""columns of whole numbers that say which one"""


class Frames(Mapping[str, "pandas.DataFrame"]):
    """The tables of a run folder by name, each read when it is first asked for.

    Columns are those of the records. Besides, a table of UEs has `ue_name`, and one with times has `time`: local time,
    as the wall clock of the simulated place shows it. Indices are whole numbers and flags are truth values where no
    cell is empty.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[str, pandas.DataFrame] = {}

    def __getitem__(self, name: str) -> pandas.DataFrame:
        if name not in self._read:
            if name not in EVERY or not what_is(table_path(self.folder, name)):
                raise KeyError(f"no table {name!r} in {self.folder}; there are: {', '.join(self)}")
            self._read[name] = self._frame(name)
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name in EVERY if what_is(table_path(self.folder, name)))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"tables of {self.folder}: {', '.join(self)}"

    def _frame(self, name: str) -> pandas.DataFrame:
        import pandas

        frame = pandas.DataFrame(checked_table(self.folder, name))
        for column in frame.columns[frame.notna().all()]:
            declared = EVERY[name].get(column)
            if declared is not None and declared.type == "flag":
                frame[column] = frame[column].astype(bool)
            elif column in _INDICES:
                frame[column] = frame[column].astype(np.int64)
        if "ue" in frame and name != "ues":
            known = checked_table(self.folder, "ues")
            names = frame["ue"].map(dict(zip(known["ue"], known["name"], strict=True)))
            frame.insert(frame.columns.get_loc("ue") + 1, "ue_name", names.fillna(""))
        if "time_s" in frame:
            frame.insert(frame.columns.get_loc("time_s") + 1, "time", self._times(frame["time_s"].to_numpy()))
        return frame

    def _times(self, time_s: np.ndarray) -> pandas.DatetimeIndex:
        """Local time (n,); NaT where there is none."""
        import pandas

        path = self.folder / MANIFEST
        try:
            clock = clock_of(read_json(path))
            return pandas.Timestamp(clock.first_day) + pandas.to_timedelta(clock.wall_s(time_s), unit="s")
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise BadInput(f"{path}: no calendar for these times ({error}); run the study again") from None
