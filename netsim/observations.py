"""What UEs measure: fixes (where and when), and observations (what the radio was like there)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from typing import ClassVar, Self

import numpy as np

from netsim.units import FloatArray, IntArray


class _Columns:
    """Equal-length arrays that are selected and joined together."""

    equal_rows: ClassVar[bool] = True
    ue: IntArray

    def __len__(self) -> int:
        return len(self.ue)

    def select(self, index: np.ndarray | slice) -> Self:
        """Rows by boolean mask, index or slice."""
        names = [f.name for f in fields(self)]  # type: ignore[arg-type]
        columns = {name: getattr(self, name) for name in names}
        return type(self)(**{k: v if v is None else v[index] for k, v in columns.items()})

    @classmethod
    def join(cls, pieces: list[Self]) -> Self:
        """All pieces, one after the other; a column that a piece lacks (None) is missing in the result."""
        names = [f.name for f in fields(cls)]  # type: ignore[arg-type]
        columns = {name: [getattr(p, name) for p in pieces] for name in names}
        whole = {k: None if any(c is None for c in v) else np.concatenate(v) for k, v in columns.items()}
        return cls(**whole)


@dataclass(frozen=True, eq=False)
class Fixes(_Columns):
    """Where and when UEs take a measurement.

    ue (n,), time_s (n,), position_m (n, 2) is the position as the UE knows it (GPS noise included). A
    replayed trace may bring its own rsrp_dbm (n,) and cell (n,); otherwise they are None and the radio
    supplies them.
    """

    ue: IntArray
    time_s: FloatArray
    position_m: FloatArray
    rsrp_dbm: FloatArray | None = None
    cell: IntArray | None = None

    @staticmethod
    @cache
    def none() -> Fixes:
        """No fix."""
        return Fixes(np.zeros(0, np.int64), np.zeros(0), np.zeros((0, 2)))


@dataclass(frozen=True, eq=False)
class Observations(_Columns):
    """One row a measured signal: ue (n,), time_s (n,), position_m (n, 2), cell (n,), rsrp_dbm (n,)."""

    ue: IntArray
    time_s: FloatArray
    position_m: FloatArray
    cell: IntArray
    rsrp_dbm: FloatArray

    @classmethod
    def none(cls) -> Observations:
        """No observation."""
        return cls(np.zeros(0, np.int64), np.zeros(0), np.zeros((0, 2)), np.zeros(0, np.int64), np.zeros(0))
