"""Local training of the networks of many UEs, whatever computes their gradients.

A UE takes exactly its own steps, whatever others hold: one that has no more leaves the computation.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from fl.optimisers import LocalTraining
from fl.types import Local
from netsim.columns import split_blocks
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray


class Batches(NamedTuple):
    """Samples of each UE in a step, order[start:end], start and end (k,), and the epoch."""

    order: IntArray
    start: IntArray
    end: IntArray
    epoch: int


class Gradients(ABC):
    """Gradients of the losses of networks on the samples of some UEs."""

    @abstractmethod
    def compute(self, w: FloatArray, batches: Batches) -> FloatArray:
        """Gradients (k, d) of the mean loss of each network w (k, d) on its batch."""

    def limit(self, g: FloatArray) -> None:  # noqa: B027 - most have no limit
        """Change in place the gradients last computed, to which penalties were added."""


Begin = Callable[[Local], Gradients]


def train_networks(
    start: FloatArray,
    data: Local,
    settings: LocalTraining,
    rng: Rng,
    together: int,
    begin: Begin,
    offset: FloatArray | None = None,
) -> FloatArray:
    """Updates u = w_after - w_before, rows (n, d), of local training from start[data.model]
    (n_model, d), with its number of bits.

    `begin` takes the rows of `together` UEs at a time, those with the most steps first. offset (n,
    d) is added to every gradient of a row. A row that overflows stays non-finite: the round
    replaces and counts it. A UE without samples sends zeros.
    """
    values = np.zeros((len(data.ue), start.shape[1]))
    ordered = settings.order_rows(data.count)
    for block in split_blocks(len(ordered), max(1, together)):
        rows = ordered[block]
        pull = None if offset is None else offset[rows]
        chosen = data.select(rows)
        values[rows] = _train(start[chosen.model], chosen, settings, rng, begin(chosen), pull)
    return values


def _train(
    before: FloatArray,
    data: Local,
    settings: LocalTraining,
    rng: Rng,
    gradients: Gradients,
    offset: FloatArray | None,
) -> FloatArray:
    """Updates (k, d) of k UEs from networks before (k, d)."""
    w = before.copy()
    memory = settings.optimiser.start(w)
    for t, batches in _plan_steps(data, settings, rng):
        k = len(t)
        now = w[:k]
        moments = [m[:k] for m in memory]
        g = gradients.compute(now, batches)
        with np.errstate(over="ignore", invalid="ignore"):  # a UE that overflows stays so
            if settings.proximal:
                g += settings.proximal * (now - before[:k])
            if settings.weight_decay:
                g += settings.weight_decay * now
            if offset is not None:
                g += offset[:k]
            gradients.limit(g)
            settings.optimiser.step(now, g, moments, settings.learning_rate, t)
    with np.errstate(invalid="ignore"):
        return w - before


def _plan_steps(
    data: Local, settings: LocalTraining, rng: Rng
) -> Iterator[tuple[IntArray, Batches]]:
    """Number of each step (k, 1), from 1, of the k UEs that take it, and their batches."""
    size = settings.compute_batch_sizes(data.count)
    steps = -(-data.count // size)
    for epoch in range(settings.local_epochs):
        order = np.arange(len(data.x))
        if not settings.is_full_batch:
            order = rng.draw_orders(f"order{epoch}m", data.row, data.count)
            order += np.repeat(data.ptr[:-1], data.count)
        for step in range(steps[0]):
            k = np.count_nonzero(steps > step)
            start = data.ptr[:k] + step * size[:k]
            end = np.minimum(start + size[:k], data.ptr[1 : k + 1])
            yield epoch * steps[:k, None] + step + 1, Batches(order, start, end, epoch)
