r"""Frequencies of staying, moving and jumping per UE, learnt from its own estimates, on request by hour of the week.

With n_c the expected uses of each component in class c of hours (24 of weekdays, 24 of weekends), n their sum, and w^0
the weights of a UE of which nothing is known,

    w = (n + m_0 w^0) / (|n| + m_0),     w_c = (n_c + m w) / (|n_c| + m).

Borrowed weights alone made tracks worse than the estimates themselves, so that m_0 is small.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from netsim.clock import DAY_S
from netsim.columns import frozen
from netsim.units import FloatArray, IntArray

CLASSES = 48
_BORROWED = 8.0  # m_0, rounds
_POOLED = 20.0  # m, rounds
_HOUR_S = 3600.0
_STAY, _JUMP = 0.5, 0.1  # of an unknown UE; the Gaussians share the rest
_UNSEEN = 0.1  # of the weights of UEs that the attacker has made up
_STEPS = 60


def hour_class(week_s: FloatArray, round_s: float) -> IntArray:
    """Class (n,) of the middle of rounds that end at week_s (n,), seconds since Monday's midnight; 0 where unknown."""
    middle_s = np.nan_to_num(week_s) - (round_s / 2 if np.isfinite(round_s) else 0.0)
    day, hour = np.floor(middle_s / DAY_S).astype(np.int64) % 7, np.floor(middle_s / _HOUR_S).astype(np.int64) % 24
    return np.where(np.isfinite(week_s), hour + 24 * (day >= 5), 0)


@frozen
class Habits:
    """count (n_ue, C, K + 2) : expected uses of each component of motion by class; C = 1: hours are alike.

    borrowed (K + 2,) : the weights of a UE of which nothing is known.
    """

    count: FloatArray
    borrowed: FloatArray

    @classmethod
    def none(cls, n_ue: int, by_hour: bool, borrowed: FloatArray) -> Habits:
        """Before anything is learnt."""
        return cls(np.zeros((n_ue, CLASSES if by_hour else 1, len(borrowed))), borrowed)

    def weight(self, at: int) -> FloatArray:
        """Weights (n_ue, K + 2) in a class of hours."""
        n = self.count.sum(axis=1)
        pooled = (n + _BORROWED * self.borrowed) / (n.sum(axis=1, keepdims=True) + _BORROWED)
        if self.count.shape[1] == 1:
            return np.asarray(pooled)
        own = self.count[:, at]
        return np.asarray((own + _POOLED * pooled) / (own.sum(axis=1, keepdims=True) + _POOLED))

    def plus(self, at: int, share: FloatArray) -> Habits:
        """With one more round of a class, in which components took part by share (n_ue, K + 2)."""
        count = self.count.copy()
        count[:, at if count.shape[1] > 1 else 0] += share
        return replace(self, count=count)

    def of(self, some: IntArray) -> Habits:
        """Select some UEs (k,)."""
        return replace(self, count=self.count[some])

    def forgotten(self) -> Habits:
        """The same UEs, before anything is learnt."""
        return replace(self, count=np.zeros_like(self.count))


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
    square = displacement_m[:, None] ** 2
    scale = np.concatenate([[cell_m / np.sqrt(6.0)], sigma_m])  # two places in a cell: cell^2 / 6 an axis
    density = np.exp(-square / (2 * scale**2)) / (2 * np.pi * scale**2)
    density = np.concatenate([density, np.full((len(square), 1), 1.0 / float(np.prod(side_m)))], axis=1)
    weight = start
    for _ in range(_STEPS):
        share = density * weight
        share /= share.sum(axis=1, keepdims=True)
        weight = share.mean(axis=0)
    return (1 - _UNSEEN) * weight + _UNSEEN * start
