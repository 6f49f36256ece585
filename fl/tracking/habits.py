r"""How one UE moves: frequencies of staying, moving and jumping, and the places to which it jumps back.

With n_c the expected uses of each component in class c of hours (24 of weekdays, 24 of weekends, or one of all), n
their sum, and w^0 the weights of a UE of which nothing is known,

    w = (n + m_0 w^0) / (|n| + m_0),     w_c = (n_c + m w) / (|n_c| + m).

Borrowed weights alone made tracks worse than the estimates themselves, so that m_0 is small. A UE with places of its
own jumps to

    0.6 o_part + 0.3 o + 0.1 pi,

with o_part the mean of what was believed of the UE in rounds of this part of the day, o that of all parts, and pi the
prior of jumps, which takes the place of a mean that has no round yet. Parts are quarters of a day, on weekdays and on
weekends.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fl.tracking.motion import Maps, RoundOfMotion, resampled
from fl.tracking.place_grid import PlaceGrid
from netsim.columns import frozen
from netsim.units import FloatArray, IntArray

CLASSES, PARTS = 48, 8
_BORROWED = 8.0  # m_0, rounds
_POOLED = 20.0  # m, rounds
_PART, _ALL = 0.6, 0.3
_STAY, _JUMP = 0.5, 0.1  # of an unknown UE; the Gaussians share the rest
_UNSEEN = 0.1  # of the weights of shadow UEs
_STEPS = 60


@frozen
class Habits:
    """count (n_ue, C, K + 2) : expected uses of each component of motion by class; C = 1: hours are alike. borrowed
    (K + 2,) : the weights of a UE of which nothing is known. beliefs (n_ue, P, ny, nx) : sums by part of the day; P = 0
    where UEs have no places of their own.
    """

    count: FloatArray
    borrowed: FloatArray
    beliefs: Maps

    @classmethod
    def none(cls, n_ue: int, borrowed: FloatArray, grid: PlaceGrid, *, hours: bool, own_places: bool) -> Habits:
        """Before anything is learnt."""
        count = np.zeros((n_ue, CLASSES if hours else 1, len(borrowed)))
        return cls(count, borrowed, np.zeros((n_ue, PARTS if own_places else 0, grid.ny, grid.nx), dtype=np.float32))

    @property
    def own_places(self) -> bool:
        """Whether UEs jump to places of their own."""
        return bool(self.beliefs.shape[1])

    def leg(self, at: int, prior: Maps) -> RoundOfMotion:
        """Motion in a round of a class of hours; prior (1, ny, nx) of jumps."""
        if not self.own_places:
            return RoundOfMotion(self.weight(at), prior)
        part, every = self.beliefs[:, _part_of_day(at)], self.beliefs.sum(axis=1)
        mixed = np.float32(_PART) * _mean(part, prior) + np.float32(_ALL) * _mean(every, prior)
        return RoundOfMotion(self.weight(at), np.asarray(mixed + np.float32(1 - _PART - _ALL) * prior))

    def weight(self, at: int) -> FloatArray:
        """Weights (n_ue, K + 2) in a class of hours."""
        n = self.count.sum(axis=1)
        pooled = (n + _BORROWED * self.borrowed) / (n.sum(axis=1, keepdims=True) + _BORROWED)
        if self.count.shape[1] == 1:
            return np.asarray(pooled)
        own = self.count[:, at]
        return np.asarray((own + _POOLED * pooled) / (own.sum(axis=1, keepdims=True) + _POOLED))

    def add_uses(self, at: int, share: FloatArray) -> None:
        """Count one more round of a class, in which components took part by share (n_ue, K + 2)."""
        self.count[:, at if self.count.shape[1] > 1 else 0] += share

    def add_belief(self, at: int, p: Maps) -> None:
        """Add what is believed (n_ue, ny, nx) of a round in a class of hours."""
        if self.own_places:
            self.beliefs[:, _part_of_day(at)] += p

    def of(self, rows: IntArray | slice) -> Habits:
        """Select some UEs (k,); those of a slice stay parts of these."""
        return replace(self, count=self.count[rows], beliefs=self.beliefs[rows])

    def forgotten(self) -> Habits:
        """The same UEs, before anything is learnt."""
        return replace(self, count=np.zeros_like(self.count), beliefs=np.zeros_like(self.beliefs))

    def resampled(self, grid: PlaceGrid) -> Habits:
        """On another grid of the same area."""
        return replace(self, beliefs=resampled(self.beliefs, grid))


def _part_of_day(at: int) -> int:
    """Quarter of the day, and 4 more on weekends, of a class of hours."""
    return at * PARTS // CLASSES


def _mean(total: Maps, prior: Maps) -> Maps:
    """Maps (n, ny, nx) that sum to 1; the prior for one that is 0."""
    mass = total.sum(axis=(1, 2), keepdims=True)
    return np.where(mass > 0, total / np.maximum(mass, np.float32(1e-30)), prior)


def weights_without_knowledge(sigma_m: FloatArray) -> FloatArray:
    """Weights (K + 2,) that are assumed before any motion was observed: in half of the rounds UEs stay."""
    gaussians = np.full(len(sigma_m), (1 - _STAY - _JUMP) / max(len(sigma_m), 1))
    weight = np.concatenate([[_STAY], gaussians, [_JUMP]])
    return np.asarray(weight / weight.sum())


def weights_of(displacement_m: FloatArray, sigma_m: FloatArray, cell_m: float, side_m: FloatArray) -> FloatArray:
    """Weights (K + 2,) most likely for displacements (n,) between successive rounds, by EM.

    A UE that stays moves within a cell; one that jumps ends anywhere in the area. A tenth is left to what is assumed of
    a UE of which nothing is known, since real UEs move otherwise.
    """
    start = weights_without_knowledge(sigma_m)
    if not len(displacement_m):
        return start
    variance_m2 = np.append(cell_m**2 / 6.0, sigma_m**2)  # two places in a cell: cell^2 / 6 per axis
    density = np.exp(-(displacement_m[:, None] ** 2) / (2 * variance_m2)) / (2 * np.pi * variance_m2)
    density = np.column_stack([density, np.full(len(density), 1.0 / float(np.prod(side_m)))])
    weight = start
    for _ in range(_STEPS):
        share = density * weight
        weight = (share / share.sum(axis=1, keepdims=True)).mean(axis=0)
    return (1 - _UNSEEN) * weight + _UNSEEN * start
