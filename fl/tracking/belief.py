"""Belief of an attacker about where UEs are: a probability for every place of a grid."""

from __future__ import annotations

from dataclasses import replace

from fl.tracking.place_grid import PlaceGrid
from netsim.columns import frozen
from netsim.units import BoolArray, Float32Array, FloatArray, IntArray


@frozen
class Belief:
    """Probabilities of places after (or, in hindsight, for) one round.

    round, time_s : of the round that it speaks of; ue (k,) : of whom, by the names that the attacker knows, ascending;
    grid : the G places; probability (k, G) : each row sums to 1; prior (G,) : where a UE is, before any estimate.
    point_m (k, R, 2) : where the estimates of this round put them, finer than cells, NaN where there are none; alone :
    whether these are better answers than the belief (see `fl.tracking.memory`).
    """

    round: int
    time_s: float
    ue: IntArray
    grid: PlaceGrid
    probability: Float32Array
    prior: Float32Array
    point_m: FloatArray | None = None
    alone: bool = False

    def only(self, some: BoolArray | IntArray) -> Belief:
        """Select some UEs (k,), or rows (k,) in that order."""
        point_m = None if self.point_m is None else self.point_m[some]
        return replace(self, ue=self.ue[some], probability=self.probability[some], point_m=point_m)
