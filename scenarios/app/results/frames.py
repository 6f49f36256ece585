"""Record tables as pandas frames, for people who go on with them in Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.errors import BadInput
from netsim.safe import what_is
from scenarios.app.results.folder import EVERY, MANIFEST, read_json, table_path
from scenarios.app.results.read import checked_table
from scenarios.app.results.run import clock_of
from scenarios.app.study.yaml_document import one_line

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

        table = checked_table(self.folder, name)
        columns: dict[str, Any] = {}
        for column, values in table.items():
            columns[column] = _typed(name, column, values)
            if column == "ue" and name != "ues":
                columns["ue_name"] = self._names(values)
            if column == "time_s":
                columns["time"] = self._times(values)
        return pandas.DataFrame(columns)

    def _names(self, ue: np.ndarray) -> np.ndarray:
        """The name of each UE; empty for -1, which stands for all of them."""
        known = checked_table(self.folder, "ues")
        name_of = dict(zip(known["ue"].tolist(), known["name"].tolist(), strict=True))
        return np.array([name_of.get(one, "") for one in ue.tolist()], dtype=object)

    def _times(self, time_s: np.ndarray) -> np.ndarray:
        """Local time (n,) to the microsecond; NaT where there is none."""
        path = self.folder / MANIFEST
        manifest = read_json(path)
        try:
            clock = clock_of(manifest)
            shown_s = clock.wall_s(np.where(np.isfinite(time_s), time_s, 0.0))
            _check_calendar(clock.first_day, shown_s)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise BadInput(one_line(f"{path}: no calendar for these times ({error}); run the study again")) from None
        time = np.datetime64(clock.first_day, "us") + np.round(shown_s * 1e6).astype("timedelta64[us]")
        return np.where(np.isfinite(time_s), time, np.datetime64("NaT", "us"))


def _check_calendar(first_day: date, shown_s: np.ndarray) -> None:
    """Raise OverflowError for a time that no calendar has."""
    for end_s in (shown_s.min(initial=0.0), shown_s.max(initial=0.0)):
        first_day + timedelta(seconds=float(end_s))


def _typed(table: str, column: str, values: np.ndarray) -> np.ndarray:
    """Whole numbers and truth values where every cell has one."""
    declared = EVERY[table].get(column)
    if values.dtype == object or not np.isfinite(values).all():
        return values
    if declared is not None and declared.type == "flag":
        return values.astype(bool)
    return values.astype(np.int64) if column in _INDICES else values
