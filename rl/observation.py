"""The context of a round as numbers in [-1, 1], the same for training and for use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from fl.power.search import Limits
from netsim.columns import Columns
from netsim.radio.power import PowerContext
from netsim.units import FloatArray, db_from_ratio

_FULL_DB = 40.0  # the ratio in decibels that becomes 1
_OF_UE, _OF_ALL = 5, 2  # numbers of each UE, and of all


def seen_online_size(n_ue: int) -> int:
    """Number of values of an observation for n_ue UEs."""
    return _OF_UE * n_ue + _OF_ALL


def seen_of_ues_size() -> int:
    """Number of values of the observation of one UE."""
    return _OF_UE + _OF_ALL


@dataclass(frozen=True, eq=False)
class Before(Columns):
    """Knowledge before each of n rounds: SNR at 1 W, the noise required of and drawn by each UE in its last round
    (n, K); rho, and the shares of the budget that is left and of the rounds that are over (n,).
    """

    snr_per_w: FloatArray
    required_std: FloatArray
    drawn_std: FloatArray
    scale: FloatArray
    budget_left: FloatArray
    progress: FloatArray

    @classmethod
    def of(cls, now: PowerContext) -> Self:
        """The knowledge before one round."""
        of_ues = (now.snr_per_w[None], now.required_std[None], now.drawn_std[None])
        return cls(*of_ues, *(np.array([x]) for x in (now.scale, now.budget_left, now.progress)))


def seen_online(now: PowerContext, last_w: FloatArray, limits: Limits) -> npt.NDArray[np.float32]:
    """The observation of a round, float32 in [-1, 1], (5 K + 2,). last_w (K,): the last powers."""
    seen: npt.NDArray[np.float32] = seen_before(Before.of(now), last_w[None], limits)[0]
    return seen


def seen_before(known: Before, last_w: FloatArray, limits: Limits) -> npt.NDArray[np.float32]:
    """The observations of rounds, float32 in [-1, 1], (n, 5 K + 2). last_w (n, K).

    Of each UE, five rows of K numbers: 1 if it is there; its SNR at the most power; the SNR at which channel noise
    would meet the requirement of its last round; the SNR that the last power has on today's channel, where the
    channel's noise stands now; 1 if artificial noise was drawn for it. The ratios are in decibels over 40, cut at 1; a
    UE that is away, and what is not known before the first round, is 0. Then the share of the budget that is left and
    of the rounds that are over, both from -1 to 1.
    """
    there, scale = known.snr_per_w > 0, known.scale[:, None]
    asked = there & (known.required_std > 0) & (scale > 0)
    required = np.divide(scale, known.required_std, where=asked, out=np.ones(there.shape)) ** 2
    rows = (
        there,
        np.where(there, _level(known.snr_per_w * limits.each_max_w, there), 0.0),
        np.where(asked, _level(required, asked), 0.0),
        np.where(there, _level(known.snr_per_w * last_w, there), 0.0),
        there & (known.drawn_std > 0),
    )
    of_all = (2.0 * known.budget_left[:, None] - 1.0, 2.0 * known.progress[:, None] - 1.0)
    seen: npt.NDArray[np.float32] = np.clip(np.concatenate([*rows, *of_all], axis=1), -1.0, 1.0).astype(np.float32)
    return seen


def seen_of_ues(seen: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The observation of each UE (K, 7), from that of all (5 K + 2,): its own five numbers, and what is of all."""
    own, of_all = seen[:-_OF_ALL].reshape(_OF_UE, -1).T, seen[-_OF_ALL:]
    return np.hstack([own, np.tile(of_all, (len(own), 1))])


def _level(ratio: FloatArray, known: npt.NDArray[np.bool_]) -> FloatArray:
    return db_from_ratio(np.where(known, ratio, 1.0)) / _FULL_DB
