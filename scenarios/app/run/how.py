"""How runs are played and kept: none of it changes a result, so none of it stands in a scenario."""

from __future__ import annotations

import gc
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from math import isinf
from pathlib import Path
from typing import Literal

from fl.round.tables import Column
from netsim.errors import BadInput
from netsim.parquet import check_installed, convert
from scenarios.app.run.memory import GB, limit, within

Format = Literal["csv", "parquet"]
"""of record tables"""


@dataclass(frozen=True)
class How:
    """How runs are kept. records : format of the record tables of a finished run. memory_gb : largest resident set of a
    run, in GB; none: NETSIM_MEMORY_GB, else what the machine has free. of : whose part that is, in words.
    """

    records: Format = "csv"
    memory_gb: float | None = None
    of: str = ""

    def check(self) -> None:
        """Refuse what this machine cannot do."""
        if self.records not in ("csv", "parquet"):
            raise BadInput(f"--records {self.records}: must be csv or parquet")
        if self.records == "parquet":
            check_installed("--records parquet")
        limit(self.memory_gb)

    def within(self) -> AbstractContextManager[None]:
        """Hold what is done within, a run, below its limit of memory. Raises BadInput once it is above that."""
        most, source = limit(self.memory_gb)
        return within(most, self.of or source)

    def among(self, runs: int) -> How:
        """That of one of so many runs at once, which share the limit equally."""
        most, source = limit(self.memory_gb)
        if runs < 2 or isinf(most):
            return self
        return replace(self, memory_gb=most / GB / runs, of=f"{source}, {most / GB:.2f} GB for {runs} runs at once")

    def keep(self, folder: Path, tables: Mapping[str, Mapping[str, Column]]) -> None:
        """Give the finished tables of a run, which are CSVs, their format; CSVs stay until `settle`."""
        if self.records == "parquet":
            convert(folder, {table: {name: c.type for name, c in columns.items()} for table, columns in tables.items()})


USUAL = How()
_ALIVE = 50_000  # objects more than before: a world has more of them than Python expects of a program


@contextmanager
def seldom_collected() -> Generator[None, None, None]:
    """Look for cycles of dead objects whenever 50,000 objects more are alive than before, in place of 700.

    What was set before is set again afterwards, after errors too. Arrays are no objects that are counted.
    """
    before = gc.get_threshold()
    gc.set_threshold(_ALIVE)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def one_thread() -> Generator[None, None, None]:
    """Linear algebra on one thread: sums keep their order, results their bits."""
    import scipy.linalg  # noqa: F401 - compiled loops call its BLAS, which is limited only if it is there by now
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        torch.set_num_threads(before)
