"""A measurement campaign that is made once and used for training in every round."""

from dataclasses import field
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.data.base import HELD_OUT_PLACES, RECORDS_ALONE, SHARED_MODEL, Data, TakenData
from fl.data.measured import STRONGEST, Measured
from fl.data.samples import Signals
from fl.types import HeldOut, Local
from netsim.columns import frozen
from netsim.rng import Rng
from netsim.ues import Observations
from netsim.units import BoolArray, IntArray


@frozen
class Campaign:
    """rounds: of the campaign so far; samples: measured in them; out (N,): which are held out, once it has ended."""

    rounds: int = 0
    samples: Signals = field(default_factory=Signals.none)
    out: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))


class Segments(Data):
    """Every UE owns its segment of one campaign and trains on all of it in every round.

    During the first `campaign_rounds` rounds UEs only measure; training starts in the round that ends the campaign.
    Later measurements are ignored, so the data do not change. To divide one recorded drive into K consecutive segments,
    one per UE, replay it with `users: segments` and `segments: K`. For UEs of a synthetic mobility model the campaign
    consists of the measurements of all UEs.

    `cell: strongest` learns one model of the strongest signal at each moment and place. A random share of every row
    is held out, exactly round(hold_out n) of its n samples, drawn once.
    """

    kind: Literal["segments"] = "segments"
    campaign_rounds: int = Field(default=1, ge=1, le=10_000_000)
    """duration of the campaign in rounds"""
    cell: str = Field(default=STRONGEST, min_length=1)
    """cells that get a model: the name of one cell, strongest (one model of the strongest signal), all, or busiest"""
    thin: int = Field(default=1, ge=1, le=1_000_000)
    """thinning: only every thin-th sample of a UE and model, in order of time, is kept"""
    hold_out: float = Field(default=0.2, ge=0, le=0.9)
    """share of every UE's samples held out of training for evaluation"""

    reference: ClassVar = (
        "Haliloglu et al., Privacy Preserving Federated RSRP Estimation for Future Mobile Networks, Eq. 5"
    )

    @property
    def offers(self) -> frozenset[str]:  # type: ignore[override]
        words = {"positions", "signals", "real labels"} | ({SHARED_MODEL} if self.cell == STRONGEST else set())
        words |= {RECORDS_ALONE} if not self.hold_out and self.thin == 1 and self.cell != STRONGEST else set()
        return frozenset(words | ({HELD_OUT_PLACES} if self.hold_out else set()))

    @property
    def named_cell(self) -> str | None:
        return None if self.cell in ("all", "busiest", STRONGEST) else self.cell

    @property
    def wants_counts(self) -> bool:
        return self.cell == "busiest"

    def models(self, cells: tuple[str, ...], counts: IntArray | None) -> tuple[str, ...]:
        return Measured(cell=self.cell).models(cells, counts)

    def model_of_cell(self, cells: tuple[str, ...], models: tuple[str, ...]) -> IntArray:
        return Measured(cell=self.cell).model_of_cell(cells, models)

    def start(self, n_ue: int, rng: Rng) -> Campaign:
        return Campaign()

    def take(
        self, observed: Observations, model_of_cell: IntArray, state: Campaign, rng: Rng
    ) -> tuple[TakenData, Campaign]:
        if state.rounds == self.campaign_rounds:  # as ever; what is held out and what is learnt from are known by now
            whole, out = state.samples.local(), state.out
            nothing = np.zeros_like(out)
            return TakenData(whole, whole.keep(~out), _held(whole, nothing), whole.keep(nothing)), state
        model = model_of_cell[observed.cell]
        samples = state.samples.plus(Signals.observed(observed.select(model >= 0), model[model >= 0]))
        if state.rounds + 1 < self.campaign_rounds:
            none = Signals.none().local()
            held_out = _held(none, np.zeros(0, dtype=np.bool_))
            return TakenData(none, none, held_out, due=False), Campaign(state.rounds + 1, samples)
        if self.cell == STRONGEST:
            samples = samples.select(samples.strongest())
        samples = samples.select(_place(samples.row) % self.thin == 0)
        out = _drawn(samples.row, self.hold_out, rng)
        whole = samples.local()
        return TakenData(whole, whole.keep(~out), _held(whole, out)), Campaign(state.rounds + 1, samples, out)


def _drawn(row: IntArray, share: float, rng: Rng) -> BoolArray:
    """A random round(share n) of the n samples of each row; `row` (N,) is sorted."""
    count, place = np.unique(row, return_counts=True)[1], _place(row)
    lot = rng.uniform("hold out", row, item=place)
    rank = np.empty(len(row), dtype=np.int64)
    rank[np.lexsort((lot, row))] = place
    return rank < np.repeat(np.rint(share * count), count)


def _place(row: IntArray) -> IntArray:
    """The number of each sample in its row, from 0; `row` (N,) is sorted."""
    _, first, count = np.unique(row, return_index=True, return_counts=True)
    return np.arange(len(row)) - np.repeat(first, count)


def _held(whole: Local, out: BoolArray) -> HeldOut:
    row, held = whole.row_of_sample[out], whole.keep(out)
    if held.y is None or held.cell is None:
        raise ValueError("a campaign measures signals of cells")
    return HeldOut(whole.ue[row], whole.model[row], held.x, held.y, held.cell, time_s=held.time_s)
