"""How runs are played and kept: none of it changes a result, so none of it stands in a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fl.round.tables import Column
from netsim.errors import BadInput
from netsim.parquet import check_installed, convert
from scenarios.app.run.memory import check_memory
from scenarios.app.run.memory_limit import GB, VARIABLE, limit

if TYPE_CHECKING:
    from scenarios.app.study.study import Study

Format = Literal["csv", "parquet"]
"""of record tables"""


@dataclass(frozen=True)
class How:
    """How runs are kept. records : format of the record tables of a finished run. memory_gb : most that a run may need,
    in GB; none: NETSIM_MEMORY_GB, else what the machine has free. at_once : runs that share this limit on one machine.
    """

    records: Format = "csv"
    memory_gb: float | None = None
    at_once: int = 1

    def check(self) -> None:
        """Refuse what this machine cannot do."""
        if self.records not in ("csv", "parquet"):
            raise BadInput(f"--records {self.records}: must be csv or parquet")
        if self.records == "parquet":
            check_installed("--records parquet")
        limit(self.memory_gb)

    def admit(self, study: Study) -> float:
        """Bytes that a run of the study needs at most, about. BadInput where that is more than it may take."""
        return check_memory(study, self.memory_gb, self.records == "parquet", self.at_once)

    def among(self, runs: int) -> How:
        """The same for so many runs at once, at least one."""
        return replace(self, at_once=max(runs, 1))

    @property
    def each(self) -> How:
        """That of one of the runs that share the limit: its part of a stated one. What is free it looks at itself."""
        most = limit(self.memory_gb)
        stated = self.at_once > 1 and (self.memory_gb is not None or most.source == VARIABLE)
        return replace(self, memory_gb=most.bytes / GB / self.at_once if stated else self.memory_gb, at_once=1)

    def keep(self, folder: Path, tables: Mapping[str, Mapping[str, Column]]) -> None:
        """Give the finished tables of a run, which are CSVs, their format; CSVs stay until `settle`."""
        if self.records == "parquet":
            convert(folder, {table: {name: c.type for name, c in columns.items()} for table, columns in tables.items()})


USUAL = How()
