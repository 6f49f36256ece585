"""Samples of all rounds so far, in a few pieces: what a round adds costs as much in the thousandth as in the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from fl.evenly import evenly
from fl.round.baselines import Reference
from fl.types import HeldOut, Local
from netsim.units import IntArray

FEW = 5_000  # samples up to which baselines are measured in every round,
GROWN = 50  # and beyond which they are measured when samples have grown by one such part

Columns = TypeVar("Columns", HeldOut, Reference)


@dataclass(frozen=True)
class HeldOutSoFar:
    """Held-out samples, in order of their rounds."""

    pieces: tuple[HeldOut, ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    def plus(self, more: HeldOut) -> HeldOutSoFar:
        """With those of a round."""
        return HeldOutSoFar(_plus(self.pieces, more))

    @property
    def whole(self) -> HeldOut:
        """All of them."""
        return _joined(self.pieces) if self.pieces else HeldOut.none()

    def thinned(self, most: int) -> HeldOut:
        """At most so many of them, evenly spaced in their order; only these are copied."""
        if len(self) <= most:
            return self.whole
        return _at(self.pieces, evenly(len(self), most))


@dataclass(frozen=True)
class ReferenceSoFar:
    """Training samples that maps without learning are drawn from."""

    pieces: tuple[Reference, ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    def plus(self, train: Local) -> ReferenceSoFar:
        """With a round's training samples."""
        return ReferenceSoFar(_plus(self.pieces, Reference.of(train)))

    @property
    def whole(self) -> Reference:
        """All of them."""
        return _joined(self.pieces) if self.pieces else Reference.empty()


@dataclass(frozen=True)
class Baselines:
    """Figures of maps without learning (see `Reference.evaluate`), and of how many samples they are.

    They are measured anew in every round while there are few samples; then whenever those that were trained on, or
    those held out, have grown by a fiftieth. All measurements of a run together then take O(n log n).
    """

    trained: int = 0
    held: int = 0
    figures: dict[str, float] = field(default_factory=dict)

    def after(self, reference: ReferenceSoFar, held_out: HeldOutSoFar, most: int) -> Baselines:
        """Of the samples so far, scored on at most so many held-out ones; as they stand where little has come."""
        trained, held = len(reference), len(held_out)
        few = trained <= FEW and held <= FEW
        if self.figures and not (few or _grown(self.trained, trained) or _grown(self.held, held)):
            return self
        return Baselines(trained, held, reference.whole.evaluate(held_out.thinned(most).usual))


def _grown(before: int, now: int) -> bool:
    return now > before and GROWN * (now - before) >= before


def _plus(pieces: tuple[Columns, ...], more: Columns) -> tuple[Columns, ...]:
    """Each piece is at least twice as long as the next, so a sample is copied O(log n) times in all."""
    if not len(more):
        return pieces
    alone, length = len(pieces), len(more)
    while alone and len(pieces[alone - 1]) < 2 * length:
        alone -= 1
        length += len(pieces[alone])
    grown = list[Columns](pieces[alone:])
    grown.append(more)
    rest: tuple[Any, ...] = pieces[:alone]
    return (*rest, _joined(grown))


def _joined(pieces: Sequence[Columns]) -> Columns:
    """One after the other."""
    return pieces[0] if len(pieces) == 1 else pieces[0].join(pieces)


def _at(pieces: tuple[Columns, ...], index: IntArray) -> Columns:
    """Those at the places index (k,), ascending, of all pieces one after the other."""
    first = np.cumsum([0, *map(len, pieces)])
    edge = np.searchsorted(index, first)
    picked = [index[a:b] - start for a, b, start in zip(edge, edge[1:], first, strict=False)]
    return _joined([piece.select(mine) for piece, mine in zip(pieces, picked, strict=True)])
