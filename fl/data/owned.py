"""Samples that UEs own wherever they are: who owns which, and which of them a round learns from."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.data import Data, TakenData
from fl.data.measured import draw_held_out
from fl.data.partitions import Division
from fl.data.samples import SampleSet, Signals, recall_samples
from fl.types import HeldOut, Local, SampleFormat
from netsim.columns import frozen, number_row
from netsim.errors import BadInput
from netsim.rng import Rng
from netsim.ues import Observations
from netsim.units import BoolArray, FloatArray, IntArray

Count = Annotated[int, Field(ge=1, le=100_000_000)]
Counts = Count | Annotated[tuple[Count, ...], Field(min_length=1)] | None
Memory = int | Literal["round", "all"]


@frozen
class SampleOwners:
    """Samples that UEs own: index (M,) in order of ue (M,) and time; out (M,) : held out.

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

    noun: ClassVar = "samples"
    if TYPE_CHECKING:
        partition: Division
        samples: Counts

    @property
    def drawn_share(self) -> float:
        """Share of the samples of each UE that is held out, where the samples do not say which."""
        return 0.0

    @property
    def past(self) -> Memory:
        """Earlier samples that a UE learns from beside new ones: all, a number, or (round) none."""
        return "all"

    @abstractmethod
    def load(self) -> SampleSet:
        """The samples; raises BadInput where they cannot be read."""

    def choose_models(self, cells: tuple[str, ...], counts: IntArray | None) -> tuple[str, ...]:
        return (self.noun,)

    def read_sample_format(self) -> SampleFormat | None:
        return self.load().format

    def start(self, n_ue: int, rng: Rng) -> SampleOwners:
        samples = self.load()
        index = np.arange(len(samples))
        ue = samples.owner
        if ue is None:
            if samples.held_out is not None:
                index = index[~samples.held_out]
            index, ue = self._deal(samples, index, n_ue, rng)
        elif ue.max() >= n_ue:
            raise BadInput(
                f"world.ues.count: samples belong to {ue.max() + 1:,} UEs, and the world has "
                f"{n_ue:,}; let it have as many"
            )
        order = np.lexsort((samples.time_s[index], ue))
        index = index[order]
        ue = ue[order]
        if samples.held_out is None:
            out = draw_held_out(ue, self.drawn_share, rng)
        else:
            out = samples.held_out[index]
        return SampleOwners(index, ue, out, np.full(n_ue, -np.inf))

    def _deal(
        self, samples: SampleSet, pool: IntArray, n_ue: int, rng: Rng
    ) -> tuple[IntArray, IntArray]:
        """Samples (M,) of the pool that have an owner, and their UEs (M,), ascending."""
        partition = self.partition
        count = len(pool)
        if self.samples is None:
            share = count if partition.divides_all else count // n_ue
            size = np.full(n_ue, max(share, 1))
            min_size = np.ones_like(size)
        else:
            size = min_size = np.resize(self.samples, n_ue)
        index, ue = partition.deal(samples.select(pool), size, rng)
        held = np.bincount(ue, minlength=n_ue)
        short = np.flatnonzero(held < min_size)
        if len(short):
            first = short[0]
            key = "learning.data.samples"
            remedy = "samples or UEs, or leave samples out"
            if self.samples is None:
                key = "world.ues.count"
                remedy = "UEs"
            raise BadInput(
                f"{key}: ue{first} is to hold {min_size[first]:,} of {count:,} {self.noun}, and of "
                f"those that {partition.kind} gives it {held[first]:,} are left that no other UE "
                f"holds; take fewer {remedy}"
            )
        return pool[index], ue

    def take(
        self, observed: Observations, model_of_cell: IntArray, state: SampleOwners, rng: Rng
    ) -> tuple[TakenData, SampleOwners]:
        samples = self.load()
        now_s = np.full_like(state.last_s, -np.inf)
        np.maximum.at(now_s, observed.ue, observed.time_s)
        time_s = samples.time_s[state.index]
        is_there = time_s <= now_s[state.ue]
        is_new = is_there & (time_s > state.last_s[state.ue])
        is_past = is_there & ~is_new & (self.past != "round")
        # the columns of signals, with the number of each sample in place of its cell
        stored = Signals(
            number_row(state.ue, np.zeros_like(state.ue)),
            np.zeros((len(time_s), 0)),
            time_s,
            time_s,
            state.index,
        )
        rows = np.unique(stored.row[is_there])
        new = stored.select(is_new & ~state.out)
        most = self.past if isinstance(self.past, int) else None
        train = recall_samples(new, stored.select(is_past & ~state.out), rows, most, rng)
        measured = stored.select(is_new | is_past).to_local(rows)
        held_out = HeldOut.none()
        if not state.scored and len(rows):
            held_out = self._score(samples, state)
        taken = TakenData(
            _fill(samples, measured, samples.format is None),
            _fill(samples, train),
            held_out,
            _fill(samples, new.to_local(rows)),
        )
        last_s = np.maximum(state.last_s, now_s)
        return taken, replace(state, last_s=last_s, scored=state.scored or len(rows) > 0)

    def _score(self, samples: SampleSet, state: SampleOwners) -> HeldOut:
        """All held-out samples; those that were not dealt belong to nobody, UE -1."""
        number = state.index[state.out]
        ue = state.ue[state.out]
        if samples.held_out is not None and samples.owner is None:
            number = np.flatnonzero(samples.held_out)
            ue = np.full(len(number), -1)
        zero = np.zeros_like(number)
        return HeldOut(ue, zero, np.asarray(samples.x[number]), samples.y[number], zero)


def _fill(samples: SampleSet, chosen: Local, with_inputs: bool = True) -> Local:
    """Samples whose numbers stand in `cell`, with inputs and labels."""
    number = np.asarray(chosen.cell)
    x = samples.x[number] if with_inputs else chosen.x
    filled = replace(chosen, x=x, y=samples.y[number], cell=np.zeros_like(number))
    return filled.nonempty()
