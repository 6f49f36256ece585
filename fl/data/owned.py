"""Samples that UEs own wherever they are: who owns which, and which of them a round learns from."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from fl.data import Data, TakenData
from fl.data.measured import draw_held_out
from fl.data.partitions import Division
from fl.data.samples import SampleSet, Signals, recall_samples
from fl.types import HeldOut, SampleFormat
from netsim.columns import frozen, number_row
from netsim.errors import BadInput
from netsim.rng import Rng
from netsim.ues import Observations
from netsim.units import BoolArray, FloatArray, IntArray, IntArrayPair, Texts

Count = Annotated[int, Field(ge=1, le=100_000_000)]
Counts = Count | Annotated[tuple[Count, ...], Field(min_length=1)] | None
Memory = int | Literal["round", "all"]


@frozen
class SampleOwners:
    """Samples that UEs own: index (M,) in order of ue (M,) and time; out (N,) : held out, of all.

    last_s (n_ue,) : until when they were there in earlier rounds. scored : whether held-out samples
    have been returned, which happens once.
    """

    index: IntArray
    ue: IntArray
    out: BoolArray
    last_s: FloatArray
    scored: bool = False


class OwnedSamples(Data):
    """UEs own samples, and take part in the rounds in which they measure their radio; all UEs train
    one model.
    """

    if TYPE_CHECKING:
        partition: Division
        samples: Counts
        hold_out: float
        """share of the samples of each UE that is held out, where the samples do not say which"""
        memory: Memory
        """earlier samples that a UE learns from beside new ones: all, a number, or (round) none"""

    @abstractmethod
    def load(self) -> SampleSet:
        """The samples; raises BadInput where they cannot be read."""

    def choose_models(self, cells: Texts, counts: IntArray | None) -> Texts:
        return (self.kind,)

    def read_sample_format(self) -> SampleFormat | None:
        return self.load().format

    def start(self, n_ue: int, rng: Rng) -> SampleOwners:
        samples = self.load()
        owner = samples.owner
        if owner is None:
            index, ue = self._deal(samples, n_ue, rng)
        elif owner.max() < n_ue:
            index, ue = np.arange(len(samples)), owner
        else:
            raise BadInput(
                f"world.ues.count: samples belong to {owner.max() + 1:,} UEs, and the world has "
                f"{n_ue:,}; let it have as many"
            )
        order = np.lexsort((samples.time_s[index], ue))
        index = index[order]
        ue = ue[order]
        out = samples.held_out.copy()
        if not out.any():
            out[index] = draw_held_out(ue, self.hold_out, rng)
        return SampleOwners(index, ue, out, np.full(n_ue, -np.inf))

    def _deal(self, samples: SampleSet, n_ue: int, rng: Rng) -> IntArrayPair:
        """Samples (M,) that have an owner, and their UEs (M,), ascending."""
        pool = np.flatnonzero(~samples.held_out)
        size = np.resize(self.samples or max(len(pool) // n_ue, 1), n_ue)
        index, ue = self.partition.deal(samples.select(pool), size, rng)
        held = np.bincount(ue, minlength=n_ue)
        wrong = np.flatnonzero(held != size if self.samples else held == 0)
        if len(wrong):
            first = wrong[0]
            raise BadInput(
                f"learning.data.samples: ue{first} is to hold {size[first]:,} of {len(pool):,} "
                f"{self.kind}, and {self.partition.kind} gives it {held[first]:,}, of those that "
                "are left; take fewer samples, or fewer UEs (world.ues.count)"
            )
        return pool[index], ue

    def take(
        self, observed: Observations, model_of_cell: IntArray, state: SampleOwners, rng: Rng
    ) -> tuple[TakenData, SampleOwners]:
        samples = self.load()
        index = state.index
        zero = np.zeros_like(index)
        row = number_row(state.ue, zero)
        time_s = samples.time_s[index]
        stored = Signals(row, samples.x[index], samples.y[index], time_s, zero)
        now_s = np.full_like(state.last_s, -np.inf)
        np.maximum.at(now_s, observed.ue, observed.time_s)
        is_there = time_s <= now_s[state.ue]
        is_new = is_there & (time_s > state.last_s[state.ue])
        is_past = is_there & ~is_new & (self.memory != "round")
        is_trained = ~state.out[index]
        new = stored.select(is_new & is_trained)
        most = self.memory if isinstance(self.memory, int) else None
        rows = np.unique(row[is_there])
        train = recall_samples(new, stored.select(is_past & is_trained), rows, most, rng)
        measured = stored.select(is_new | is_past)
        if samples.format is not None:  # they are nowhere
            measured = replace(measured, x=np.zeros((len(measured.y), 0)))
        held_out = HeldOut.none()
        if not state.scored and len(rows):
            held_out = _score_held_out(samples, state)
        taken = TakenData(measured.to_local(), train.nonempty(), held_out, new.to_local())
        last_s = np.maximum(state.last_s, now_s)
        return taken, replace(state, last_s=last_s, scored=state.scored or len(rows) > 0)


def _score_held_out(samples: SampleSet, state: SampleOwners) -> HeldOut:
    """All held-out samples; those that were not dealt belong to nobody, UE -1."""
    owner = np.full(len(samples), -1)
    owner[state.index] = state.ue
    number = np.flatnonzero(state.out)
    zero = np.zeros_like(number)
    return HeldOut(owner[number], zero, np.asarray(samples.x[number]), samples.y[number], zero)
