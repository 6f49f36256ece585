"""Local training of the networks of many UEs, whatever computes their gradients.

A UE takes exactly its own steps, whatever others hold: one that has no more leaves the computation.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from fl.optimisers import LocalTraining
from fl.types import Local
from netsim.columns import split_blocks
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray
from netsim.workers import map_in_threads


class Batches(NamedTuple):
    """Samples of each UE in a step, order[start:end], start and end (k,); the epoch, and the step
    of that.
    """

    order: IntArray
    start: IntArray
    end: IntArray
    epoch: int
    step: int


class Gradients(ABC):
    """Local training of the networks of some UEs, those with the most steps first, by gradients of
    their losses.
    """

    def __init__(self, data: Local, settings: LocalTraining, rng: Rng) -> None:
        self.data = data
        self.settings = settings
        self.rng = rng

    @abstractmethod
    def compute(self, w: FloatArray, batches: Batches) -> FloatArray:
        """Gradients (k, d) of the mean loss of each network w (k, d) on its batch."""

    def limit(self, g: FloatArray) -> None:  # noqa: B027 - most have no limit
        """Change in place the gradients last computed, to which penalties were added."""

    def train(
        self, start: FloatArray, values: FloatArray, rows: IntArray, offset: FloatArray | None
    ) -> None:
        """Write updates of networks start (n_model, d) to values[rows]."""
        settings = self.settings
        before = start[self.data.model]
        w = before.copy()
        memory = settings.optimiser.start(w)
        for t, batches in self._plan_steps():
            k = len(t)
            now = w[:k]
            g = self.compute(now, batches)
            if settings.proximal:
                g += settings.proximal * (now - before[:k])
            if settings.weight_decay:
                g += settings.weight_decay * now
            if offset is not None:
                g += offset[rows[:k]]
            self.limit(g)
            moments = [m[:k] for m in memory]
            settings.optimiser.step(now, g, moments, settings.learning_rate, t)
        values[rows] = w - before

    def _plan_steps(self) -> Iterator[tuple[IntArray, Batches]]:
        """Number of each step (k, 1), from 1, of the k UEs that take it, and their batches."""
        data = self.data
        size = self.settings.compute_batch_sizes(data.count)
        steps = -(-data.count // size)
        for epoch in range(self.settings.local_epochs):
            order = self.draw_order(epoch)
            for step in range(steps[0]):
                k = np.count_nonzero(steps > step)
                start = data.ptr[:k] + step * size[:k]
                end = np.minimum(start + size[:k], data.ptr[1 : k + 1])
                yield epoch * steps[:k, None] + step + 1, Batches(order, start, end, epoch, step)

    def draw_order(self, epoch: int) -> IntArray:
        """Samples (N,) of all UEs in the order of an epoch."""
        data = self.data
        if self.settings.is_full_batch:
            return np.arange(len(data.x))
        order = self.rng.draw_orders(f"order{epoch}m", data.row, data.count)
        return order + np.repeat(data.ptr[:-1], data.count)


def train_networks(
    start: FloatArray,
    data: Local,
    settings: LocalTraining,
    together: int,
    begin: Callable[[Local], Gradients],
    offset: FloatArray | None = None,
    each: Callable[..., Iterable[None]] = map_in_threads,
) -> FloatArray:
    """Updates u = w_after - w_before, rows (n, d), of local training from start[data.model]
    (n_model, d), with its number of bits.

    `begin` takes the rows of `together` UEs at a time, those with the most steps first; `each` does
    the work of all such blocks. offset (n, d) is added to every gradient of a row. A row that
    overflows stays non-finite: the round replaces and counts it. A UE without samples sends zeros.
    """
    values = np.empty((len(data.ue), start.shape[1]))
    values[data.count == 0] = 0.0
    ordered = settings.order_rows(data.count)

    def train(block: slice) -> None:
        rows = ordered[block]
        with np.errstate(over="ignore", invalid="ignore"):  # a UE that overflows stays so
            begin(data.select(rows)).train(start, values, rows, offset)

    list(each(train, split_blocks(len(ordered), max(1, together))))
    return values
