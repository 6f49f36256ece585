"""Signal measurements of moving UEs."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from fl.data.base import HELD_OUT_PLACES, Data, Taken
from fl.types import HeldOut, Local
from netsim.errors import BadInput
from netsim.observations import Observations
from netsim.rng import Rng
from netsim.row_id import row_id, ue_and_model
from netsim.units import BoolArray, FloatArray, IntArray

STRONGEST = "strongest"
SHARED_MODEL = "several cells in one model"
"""offered where one model learns the signals of several cells"""


@dataclass(frozen=True)
class Samples:
    """Measurements of signals, in order of row and time: row id (N,), x (N, 2), y (N,), time_s (N,), cell (N,)."""

    row: IntArray
    x: FloatArray
    y: FloatArray
    time_s: FloatArray
    cell: IntArray

    @classmethod
    def none(cls) -> Self:
        """No measurement."""
        nothing = np.zeros(0, dtype=np.int64)
        return cls(nothing, np.zeros((0, 2)), np.zeros(0), np.zeros(0), nothing)

    @classmethod
    def observed(cls, observed: Observations, model: IntArray) -> Self:
        """Observations (N,) of models (N,), in their own order."""
        row = row_id(observed.ue, model)
        return cls(row, observed.position_m, observed.rsrp_dbm, observed.time_s, observed.cell)

    @classmethod
    def of(cls, local: Local) -> Self:
        """Those of local data. Raises ValueError for data without labels or cells."""
        if local.y is None or local.cell is None:
            raise ValueError("samples of signals have labels and cells")
        row = row_id(local.ue, local.model)[local.row_of_sample]
        return cls(row, local.x, local.y, local.time_s, local.cell)

    def plus(self, more: Samples) -> Samples:
        """With more of them, in order of row and time."""
        both = Samples(
            np.concatenate([self.row, more.row]), np.concatenate([self.x, more.x]), np.concatenate([self.y, more.y]),
            np.concatenate([self.time_s, more.time_s]), np.concatenate([self.cell, more.cell]),
        )  # fmt: skip
        return both.select(np.lexsort((both.time_s, both.row)))

    def select(self, index: IntArray | BoolArray) -> Samples:
        """Some of them."""
        return Samples(self.row[index], self.x[index], self.y[index], self.time_s[index], self.cell[index])

    def local(self) -> Local:
        """Ragged rows of these samples."""
        keys, first = np.unique(self.row, return_index=True)
        ptr = np.append(first, len(self.row)).astype(np.int64)
        return Local(*ue_and_model(keys), ptr, self.x, self.y, self.time_s, self.cell)

    def strongest(self) -> IntArray:
        """The place of the strongest sample of each row and moment."""
        order = np.lexsort((-self.y, self.time_s, self.row))
        row, time_s = self.row[order], self.time_s[order]
        first = np.ones(len(order), dtype=np.bool_)
        first[1:] = (np.diff(row) != 0) | (np.diff(time_s) != 0)
        return np.asarray(order[first])


class Measured(Data):
    """Every UE's RSRP measurements of the round.

    With `memory: round` a UE trains on the measurements of the round; with `memory: all` a UE that measured in the
    round trains on all its measurements so far. There is one model per cell, and a sample belongs to the cell that it
    measured; with `cell: strongest` there is one model of the strongest signal at each moment and place. A random share
    is held out of training and evaluates the maps; it depends on the seed, also for a recorded trace. Held-out samples
    still count as measured, because leakage concerns the positions of the UE.
    """

    kind: Literal["measured"] = "measured"
    cell: str = Field(default="all", min_length=1)
    """cells that get a model: the name of one cell, all, busiest (the cell with most measurements), or strongest (one
    model of the strongest signal)"""
    memory: Literal["round", "all"] = "round"
    """training data of a UE: its measurements of the round, or all of its measurements so far"""
    hold_out: float = Field(default=0.2, ge=0, le=0.9)
    """share of samples held out of training for evaluation"""

    renamed: ClassVar[dict[str, str]] = {"keeps": "memory"}
    reference: ClassVar[str] = "Bakopoulou et al., Location Leakage in Federated Signal Maps, Section 3"
    example: ClassVar[dict[str, Any]] = {"kind": "measured"}

    @property
    def offers(self) -> frozenset[str]:  # type: ignore[override]
        words = {"positions", "signals", "real labels"} | ({SHARED_MODEL} if self.cell == STRONGEST else set())
        return frozenset(words | ({HELD_OUT_PLACES} if self.hold_out else set()))

    @property
    def named_cell(self) -> str | None:
        return None if self.cell in ("all", "busiest", STRONGEST) else self.cell

    @property
    def wants_counts(self) -> bool:
        return self.cell == "busiest"

    def models(self, cells: tuple[str, ...], counts: IntArray | None) -> tuple[str, ...]:
        if self.cell == STRONGEST:
            return (STRONGEST,)
        if self.cell == "all":
            return cells
        if self.cell == "busiest" and counts is not None:
            return (cells[int(np.argmax(counts))],)
        if self.cell not in cells:
            near = difflib.get_close_matches(self.cell, cells, 1, 0.0)
            raise BadInput(
                f"learning.data.cell: no cell {self.cell!r} here; nearest is {', '.join(near)!r} "
                f"({len(cells)} cells in all)"
            )
        return (self.cell,)

    def model_of_cell(self, cells: tuple[str, ...], models: tuple[str, ...]) -> IntArray:
        own = self.cell == STRONGEST
        return np.zeros(len(cells), dtype=np.int64) if own else super().model_of_cell(cells, models)

    def start(self, n_ue: int, rng: Rng) -> Samples:
        return Samples.none()

    def take(self, observed: Observations, model_of_cell: IntArray, state: Samples, rng: Rng) -> tuple[Taken, Samples]:
        model = model_of_cell[observed.cell]
        observed, model = observed.select(model >= 0), model[model >= 0]
        order = np.lexsort((observed.time_s, model, observed.ue))
        observed, model = observed.select(order), model[order]
        if self.cell == STRONGEST:
            best = Samples.observed(observed, model).strongest()
            observed, model = observed.select(best), model[best]
        measured = Samples.observed(observed, model).local()
        # a sample's fate hangs on who, when and which cell, not on how many others there are
        moment = np.round(observed.time_s * 1e3).astype(np.int64)
        out = rng.uniform("hold out", row_id(observed.ue, model), item=moment) < self.hold_out
        held = observed.select(out)
        fresh = measured.keep(~out)
        train, later = with_past(fresh, state) if self.memory == "all" else (fresh, state)
        return Taken(
            measured, train, HeldOut(held.ue, model[out], held.position_m, held.rsrp_dbm, held.cell), fresh
        ), later


def with_past(train: Local, past: Samples) -> tuple[Local, Samples]:
    """The rows with all that they had before, and what to remember: every sample so far, in order of row and time."""
    every = past.plus(Samples.of(train))
    rows = row_id(train.ue, train.model)
    here = every.select(np.isin(every.row, rows))
    count = np.bincount(np.searchsorted(rows, here.row), minlength=len(rows))
    ptr = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    return Local(train.ue, train.model, ptr, here.x, here.y, here.time_s, here.cell), every
