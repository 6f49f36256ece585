r"""Which track an update under a new name belongs to: costs, the best assignment, and how sure it is.

A track is what an attacker believes of one UE: where it was last, as a Gaussian N(m_j, P_j I), and when. Motion in one
round is a mixture of K Gaussians of variance q_k and weights w_k, the first of which stays; after g rounds, g q_k.
With an estimate z_i of the error model of `fl.tracking.error_model`, and a fingerprint x_i, update i costs track j

    C_ji = - log[p_seen ((1 - outlier) sum_kr w_k s_r N(z_i; m_j, (P_j + g q_k + sigma_r^2) I) + outlier / A)]
           - log[f(x_i | track j) / f(x_i)],

a new track - log(lambda / A), a track that nothing belongs to - log(1 - p_seen). The assignment of least total cost is
sought; a pair that costs more than a birth and a miss together is never linked.
[Reid 1979, for the costs; Kuhn 1955, for the assignment.]
"""

from __future__ import annotations

import numpy as np

from fl.tracking.error_model import ErrorModel
from netsim.columns import frozen, no_ints
from netsim.units import BoolArray, FloatArray, IntArray

_NUMBERS = 5_000_000  # of one block of densities


@frozen
class NameLinks:
    """Tracks that an attack gives the names (k,) of one round.

    born (k,) : whether the track is new; entropy_bits (k,) : of p_i ~ exp(-C_ji) over the new names i that track j
    could have gone on as; 0 for a name that it had seen before, NaN for a new track, and where it does not say.
    """

    round: int
    name: IntArray
    track: IntArray
    born: BoolArray
    entropy_bits: FloatArray

    @classmethod
    def none(cls) -> NameLinks:
        """Before the first round."""
        no = no_ints()
        return cls(0, no, no, np.zeros(0, dtype=np.bool_), np.zeros(0))

    def plus(self, more: NameLinks) -> NameLinks:
        """With those of another part of the round; of a round before nothing is left."""
        if self.round != more.round:
            return more
        new = ~np.isin(more.name, self.name)
        return NameLinks(
            more.round, *(np.concatenate([a, b[new]]) for a, b in (
                (self.name, more.name), (self.track, more.track), (self.born, more.born),
                (self.entropy_bits, more.entropy_bits),
            ))
        )  # fmt: skip


@frozen
class Displacement:
    """Displacement in one round: weight (K,), sums to 1, var_m2 (K,) a axis."""

    weight: FloatArray
    var_m2: FloatArray


@frozen
class LastSeen:
    """Last known places of tracks (m,): mean_m (m, 2), var_m2 (m,) a axis."""

    mean_m: FloatArray
    var_m2: FloatArray


def _components(
    at: LastSeen, gap: FloatArray, z_m: FloatArray, error: ErrorModel, motion: Displacement
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Components of pairs (...,): the places y (..., R, 2) that the estimates mean, variances (..., K) before and (R,)
    of the estimate, and weighted densities (..., R, K).

    at: mean_m (..., 2) and var_m2 (...,); gap (...,) rounds; z_m (..., R, 2), NaN where no place was named.
    """
    ranks = min(z_m.shape[-2], len(error.share))
    gain, share = error.gain[:ranks], error.share[:ranks]
    y = (z_m[..., :ranks, :] - error.offset_m[:ranks]) / gain[:, None]
    there = np.isfinite(y).all(axis=-1)
    share = np.where(there, share, 0.0)
    total = share.sum(axis=-1, keepdims=True)
    share = np.divide(share, total, out=np.zeros_like(share), where=total > 0)
    noise = (error.sigma_m[:ranks] / gain) ** 2
    before = at.var_m2[..., None] + gap[..., None] * motion.var_m2
    var = before[..., None, :] + noise[:, None]
    square = np.where(there, ((y - at.mean_m[..., None, :]) ** 2).sum(axis=-1), 0.0)
    density = np.exp(-square[..., None] / (2 * var)) / (2 * np.pi * var) / gain[:, None] ** 2
    return y, before, noise, share[..., None] * motion.weight * density


def densities(
    at: LastSeen, gap: FloatArray, z_m: FloatArray, error: ErrorModel, motion: Displacement, area_m2: float
) -> FloatArray:
    """p(z_i | track j) in 1 / m^2 of tracks (m,), seen gap (m,) rounds ago, and estimates z_m (k, R, 2): (m, k).

    Relative to what a UE anywhere would be named, times 1 / A; so 1 / A where nothing was named.
    """
    size = max(1, _NUMBERS // max(z_m.shape[0] * z_m.shape[1] * len(motion.weight), 1))
    summed = np.zeros((len(gap), len(z_m)))
    for i in range(0, len(gap), size):
        some = slice(i, i + size)
        pair = LastSeen(at.mean_m[some, None], at.var_m2[some, None])
        *_, density = _components(pair, gap[some, None], z_m[None], error, motion)
        summed[some] = density.sum(axis=(2, 3))
    ranks = min(z_m.shape[1], len(error.share))
    share = np.where(np.isfinite(z_m[:, :ranks, 0]), error.share[:ranks], 0.0)
    named = share.sum(axis=1)
    share = np.divide(share, named[:, None], out=np.zeros_like(share), where=named[:, None] > 0)
    anywhere = (1.0 - error.outlier) * (share / error.gain[:ranks] ** 2).sum(axis=1) + error.outlier
    mixed = (1.0 - error.outlier) * summed + error.outlier / area_m2
    return np.where(named > 0, mixed / np.where(named > 0, anywhere, 1.0), 1.0 / area_m2)


def moved(
    at: LastSeen, gap: FloatArray, z_m: FloatArray, error: ErrorModel, motion: Displacement, area_m2: float
) -> tuple[LastSeen, FloatArray]:
    """Tracks (n,) after estimates z_m (n, R, 2) of theirs, and the share (n, K) of each component of the motion.

    The posterior is a mixture; a Gaussian of its mean and variance stands for it.
    """
    y, before, noise, density = _components(at, gap, z_m, error, motion)
    n, parts = len(z_m), density.shape[1] * density.shape[2]
    density = (1.0 - error.outlier) * density.reshape(n, parts)
    false = np.where(density.sum(axis=1) > 0, error.outlier / area_m2, 1.0)[:, None] * motion.weight
    gain = before[:, None, :] / (before[:, None, :] + noise[:, None])
    away = np.where(np.isfinite(y), y - at.mean_m[:, None], 0.0)
    shift = (gain[..., None] * away[:, :, None]).reshape(n, parts, 2)
    shift = np.concatenate([shift, np.zeros((n, len(motion.weight), 2))], axis=1)
    left = np.concatenate([((1 - gain) * before[:, None, :]).reshape(n, parts), before], axis=1)
    weight = np.concatenate([density, false], axis=1)
    weight = weight / weight.sum(axis=1, keepdims=True)
    mean = (weight[..., None] * shift).sum(axis=1)
    var = (weight * (left + ((shift - mean[:, None]) ** 2).sum(axis=2) / 2)).sum(axis=1)
    k = len(motion.weight)
    share = weight.reshape(n, density.shape[1] // k + 1, k).sum(axis=1)
    return LastSeen(at.mean_m + mean, var), share


def placed(z_m: FloatArray, error: ErrorModel, centre_m: FloatArray, area_m2: float) -> LastSeen:
    """Where new tracks (n,) are by their first estimates z_m (n, R, 2) alone."""
    nowhere = LastSeen(np.tile(centre_m, (len(z_m), 1)), np.full(len(z_m), area_m2 / 12.0))
    still = Displacement(np.ones(1), np.zeros(1))
    return moved(nowhere, np.zeros(len(z_m)), z_m, error, still, area_m2)[0]


def assigned(cost: FloatArray, birth: float, miss: float) -> IntArray:
    """The track (k,) of each name in the assignment of least cost, -1 for a new one; cost (m, k)."""
    gain = np.minimum(cost - birth - miss, 0.0)  # against leaving both alone
    track = np.full(cost.shape[1], -1)
    from scipy.optimize import linear_sum_assignment

    row, column = linear_sum_assignment(gain)
    linked = gain[row, column] < 0
    track[column[linked]] = row[linked]
    return track


def entropies_bits(cost: FloatArray) -> FloatArray:
    """-sum_i p_i log2 p_i of p_i ~ exp(-C_ji) over the names (k,) that each track (m,) could go on as."""
    if not cost.size:
        return np.zeros(len(cost))
    p = np.exp(cost.min(axis=1, keepdims=True) - cost)
    p /= p.sum(axis=1, keepdims=True)
    return np.asarray(-(p * np.log2(np.where(p > 0, p, 1.0))).sum(axis=1))


def shares(cost: FloatArray, birth: float) -> FloatArray:
    """The probability (m, k) with which each name goes on as each track, other names left out of account."""
    best = np.minimum(cost.min(axis=0, initial=np.inf), birth)
    weight = np.exp(best - cost)
    return np.asarray(weight / (weight.sum(axis=0) + np.exp(best - birth)))
