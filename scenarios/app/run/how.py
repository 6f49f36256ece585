"""How runs are played and kept: none of it changes a result, so none of it stands in a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fl.round.tables import Column
from netsim.errors import BadInput
from netsim.parquet import check_installed, convert

Format = Literal["csv", "parquet"]
"""of record tables"""


@dataclass(frozen=True)
class How:
    """How runs are kept. records : format of the record tables of a finished run."""

    records: Format = "csv"

    def check(self) -> None:
        """Refuse what this machine cannot do."""
        if self.records not in ("csv", "parquet"):
            raise BadInput(f"--records {self.records}: must be csv or parquet")
        if self.records == "parquet":
            check_installed("--records parquet")

    def keep(self, folder: Path, tables: Mapping[str, Mapping[str, Column]]) -> None:
        """Give the finished tables of a run, which are CSVs, their format; CSVs stay until `settle`."""
        if self.records == "parquet":
            convert(folder, {table: {name: c.type for name, c in columns.items()} for table, columns in tables.items()})


USUAL = How()
