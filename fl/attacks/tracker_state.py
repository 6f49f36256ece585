"""State of the attack `tracker`: estimates, and a belief about each name that it follows."""

from __future__ import annotations

from dataclasses import field, replace

import numpy as np

from fl.attacks.learnt_errors import MOST_RANKS, LearntErrors
from fl.tracking.habits import Habits
from fl.tracking.history import History
from fl.tracking.lifetimes import Lifetimes
from fl.tracking.maps import Maps
from fl.tracking.memory import Memory
from fl.tracking.own_places import OwnPlaces
from fl.types import State
from netsim.columns import frozen, no_floats, no_ints
from netsim.units import BoolArray, Float32Array, FloatArray, IntArray


@frozen
class TrackerState:
    """of : the state of the tracked attack; errors : what it has learnt of its errors; history : its
    estimates; lifetimes : of all names in it; ue (k,) ascending : who is followed now; p (k, G) : what the filter
    believes of each; count (k, C, K + 2) : expected uses of the components of motion; own : their places;
    log_likelihood (k,) : of the model, against one in which estimates say nothing; memory : whether it helps.
    """

    of: State
    errors: LearntErrors = field(default_factory=LearntErrors)
    history: History = field(default_factory=lambda: History.empty(MOST_RANKS))
    lifetimes: Lifetimes = field(default_factory=Lifetimes)
    ue: IntArray = field(default_factory=no_ints)
    p: Float32Array = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float32))
    count: FloatArray = field(default_factory=lambda: np.zeros((0, 0, 0)))
    own: OwnPlaces = field(default_factory=lambda: OwnPlaces([]))
    log_likelihood: FloatArray = field(default_factory=no_floats)
    memory: Memory = field(default_factory=Memory)

    def only(self, some: BoolArray) -> TrackerState:
        """Select some of those (k,) that it follows."""
        if some.all():
            return self
        rows = np.flatnonzero(some)
        return replace(
            self, ue=self.ue[rows], p=self.p[rows], count=self.count[rows], own=self.own.of(rows),
            log_likelihood=self.log_likelihood[rows],
        )  # fmt: skip

    def with_rows(self, every: IntArray, prior: Maps, components: int, by_hour: bool, own_places: bool) -> TrackerState:
        """With a row for every UE (n,) ascending; one that it does not know begins with the prior (1, ny, nx)."""
        if len(self.ue) and len(self.ue) == len(every):
            return self
        n, at = len(every), np.searchsorted(every, self.ue)
        count, total = Habits.none(n, by_hour, np.zeros(components)).count, np.zeros(n)
        own = OwnPlaces.none(n, own_places, *prior.shape[1:])
        p = np.repeat(prior.reshape(1, -1), n, axis=0)
        p[at] = self.p.reshape(len(at), p.shape[1])
        if len(at):
            total[at], count[at] = self.log_likelihood, self.count
            for new, known in zip(own.occupancy, self.own.occupancy, strict=True):
                new[at] = known
        return replace(self, ue=every, p=p, count=count, own=own, log_likelihood=total)
