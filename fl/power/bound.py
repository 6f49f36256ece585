r"""Convergence bound of the LAPA study under noise, as a law of transmit power.

With artificial noise of std sigma_k[t] and channel noise of std c_k[t] / sqrt(x_k) on every number
of a row (x_k the UE's power, c_k[t] the noise at 1 W), weights G_k[t], and the contraction A of a
round::

    L(x) = sum_t A^(T-1-t) sum_k G_k[t]^2 c_k[t]^2 / x_k  +  sum_(t < T_th(x)) w_t sum_k G_k[t]^2
    sigma_k[t]^2

    w_t = A^(T-1-t)   "reordered": the recursion E[t+1] = A E[t] + B[t] weighs late rounds more
    w_t = A^t         "paper": as printed, time reversed

T_th(x) is the number of rounds that need artificial noise: after it, the channel's is enough in
every round. In a still world the first sum is (1 - A^T) / (1 - A) sum_k G_k^2 c_k^2 / x_k, the
study's Eq. 28. Both sums leave out the factor q L lambda^2 / 2, which moves no optimum.
Cross-entropy of a network is not strongly convex: L is a proxy, no guarantee.

Shapes: T rounds, K UEs, n power vectors. Everything is arrays: where they come from does not matter
here.
"""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Self

import numpy as np
from pydantic import Field, PositiveFloat

from netsim.columns import frozen, split_blocks
from netsim.part import Part
from netsim.units import BoolArray, FloatArray, IntArray

Criterion = Literal["aggregate", "per-device", "top-up"]
_MARGIN = 1e-9  # by which calibrated noise is more than enough
_STEP = 0.01  # learning rate of the bound, where it contracts fast enough
_BLOCK = 4_000_000  # numbers of a block of power vectors x rounds x UEs


@frozen
class Trajectory:
    """A reference run, round by round: arrays (T, K).

    std : artificial noise that its budgets ask for, per number, in the unit of updates; weight :
    G_k[t]; gain : SNR of the UE's uplink at 1 W, linear. scale : rho = C / sqrt(q), so that channel
    noise has std scale / sqrt(x gain). A UE that was away in a round has weight, std and gain 0
    there.
    """

    std: FloatArray
    weight: FloatArray
    gain: FloatArray
    scale: float
    power_w: FloatArray | None = None

    def __post_init__(self) -> None:
        shape = np.shape(self.std)
        is_alike = np.shape(self.weight) == shape and np.shape(self.gain) == shape
        if len(shape) != 2 or 0 in shape or not is_alike:
            raise ValueError(
                f"trajectory: std, weight and gain are rounds x UEs, got {shape}, "
                f"{np.shape(self.weight)} and {np.shape(self.gain)}"
            )
        for name in ("std", "weight", "gain"):
            values = getattr(self, name)
            if not (np.isfinite(values) & (values >= 0)).all():
                raise ValueError(f"trajectory: {name} must be finite and not negative")
        if not 0 < self.scale < np.inf:
            raise ValueError(f"trajectory: scale must be finite and above 0, got {self.scale}")
        if self.power_w is not None and (
            np.shape(self.power_w) != shape[1:] or not np.isfinite(self.power_w).all()
        ):
            raise ValueError("trajectory: power_w must be finite, one number for each UE")
        if ((self.weight > 0) & (self.gain == 0)).any():
            raise ValueError(
                "trajectory: a UE that counts in the merge has no gain; give its SNR at 1 W"
            )

    @cached_property
    def channel_std(self) -> FloatArray:
        """Channel noise at 1 W (T, K); 0 where a UE is away."""
        with np.errstate(divide="ignore"):
            return np.where(self.gain > 0, self.scale / np.sqrt(self.gain), 0.0)

    @property
    def still(self) -> bool:
        """Whether the channel is the same in all rounds."""
        return bool((self.channel_std == self.channel_std[0]).all())

    def scale_noise(self, factor: float) -> Self:
        """The same with `factor` times the receiver's noise power."""
        return replace(self, gain=self.gain / factor)

    @property
    def content(self) -> str:
        """A hash of all numbers."""
        arrays = (self.std, self.weight, self.gain, np.array([self.scale]))
        text = b"".join(np.ascontiguousarray(a, dtype=float).tobytes() for a in arrays)
        return hashlib.sha256(repr(self.std.shape).encode() + text).hexdigest()[:16]


class Convergence(Part):
    r"""The constants of the bound.

    The contraction of a round is A = 1 + mu L l^2 d^2 s - 2 l mu, with s = sum_k G_k^2 as printed,
    or s = 1 (`jensen`): the printed step from |sum_k G_k g_k|^2 to sum_k G_k^2 |g_k|^2 holds for
    orthogonal gradients only, the one with sum_k G_k |g_k|^2 for all. s is that of the round in
    which weights are most concentrated, so that one A holds for all.
    """

    strong_convexity: PositiveFloat = 1.0
    """strong convexity mu"""
    smoothness: PositiveFloat = 10.0
    """smoothness L, at least mu"""
    dissimilarity: float = Field(1.2, ge=1)
    """dissimilarity d of local and global gradients (delta in the study)"""
    learning_rate: PositiveFloat | None = None
    """learning rate l of the bound, which may differ from that of the training; none: 0.01, or 1 /
    (L d^2 s) where that is less, with which A is least"""
    order: Literal["paper", "reordered"] = "reordered"
    """weights w_t of the rounds: as printed (paper), or as in the recursion (reordered)"""
    contraction: Literal["paper", "jensen"] = "paper"
    """s in A: sum_k G_k^2 (paper), or 1 (jensen)"""

    reference = (
        "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Eqs. 24-28"
    )

    def compute_contraction(self, weight: FloatArray) -> float:
        """A of weights (T, K); refused where the bound does not contract."""
        spread = 1.0 if self.contraction == "jensen" else (weight**2).sum(axis=1).max()
        mu = self.strong_convexity
        smooth = self.smoothness
        d2 = self.dissimilarity**2
        step = self.learning_rate or _STEP / max(1.0, _STEP * smooth * d2 * spread)
        contraction = 1.0 + mu * smooth * step**2 * d2 * spread - 2.0 * step * mu
        if contraction >= 1.0:
            max_rate = 2.0 / (smooth * d2 * spread)
            raise ValueError(
                f"learning_rate: {step:g} makes A = {contraction:.4g}, which must be "
                f"below 1; take less than {max_rate:.4g}"
            )
        if contraction < 0.0:
            raise ValueError(
                f"learning_rate: {step:g} makes A = {contraction:.4g}, below 0; take a smaller one"
            )
        return contraction


@dataclass(frozen=True)
class PowerLoss:
    """L as a function of power vectors, for one trajectory.

    criterion : when the channel's noise is enough in a round: `aggregate`, sum_k channel >= sum_k
    sigma (Eq. 23, which one starved UE can meet for all); `device`, channel_k >= sigma_k for every
    k; `top-up`, artificial noise makes up what each UE's channel lacks, variance max(0, sigma^2 -
    channel^2), in every round.
    """

    trajectory: Trajectory
    law: Convergence
    criterion: Criterion = "per-device"

    @cached_property
    def contraction(self) -> float:
        """A."""
        return self.law.compute_contraction(self.trajectory.weight)

    @cached_property
    def _late(self) -> FloatArray:
        """A^(T-1-t) (T,)."""
        return self.contraction ** np.arange(len(self.trajectory.std) - 1, -1, -1, dtype=float)

    @cached_property
    def _required(self) -> FloatArray:
        """sum_k sigma_k[t] (T,)."""
        return self.trajectory.std.sum(axis=1)

    @cached_property
    def round_weight(self) -> FloatArray:
        """w_t of artificial noise (T,)."""
        if self.law.order == "reordered":
            return self._late
        return self._late[::-1]

    @cached_property
    def cost_w(self) -> FloatArray:
        """Channel term of each UE at 1 W (K,): the channel part of L is sum_k cost_k / x_k."""
        t = self.trajectory
        return self._late @ (t.weight * t.channel_std) ** 2

    @cached_property
    def artificial(self) -> FloatArray:
        """The artificial part of L (T + 1,) when the first 0, 1, ... T rounds carry noise."""
        t = self.trajectory
        noise = ((t.weight * t.std) ** 2).sum(axis=1)
        return np.concatenate([[0.0], np.cumsum(self.round_weight * noise)])

    def find_switch(self, power_w: FloatArray) -> IntArray:
        """T_th (n,) of power vectors (n, K): rounds after the last one in which the channel's noise
        is too little.
        """
        switch = np.empty(len(power_w), int)
        number = np.arange(1, len(self._required) + 1)
        for rows in self._split_blocks(len(power_w)):
            short = self._find_short_rounds(1.0 / np.sqrt(power_w[rows]))
            switch[rows] = (short * number).max(axis=1)
        return switch

    def find_noise_factor(self, power_w: FloatArray, switch: int) -> float:
        """By how much the receiver's noise power must change for T_th to come nearest `switch` at a
        power (K,).

        The noise that is just enough from round t on is the largest that any later round needs:
        T_th = t can be had where the round before needs more. Not with top-up, where nothing
        switches.
        """
        t = self.trajectory
        required = t.std
        brought = t.channel_std / np.sqrt(power_w)
        if self.criterion == "aggregate":
            required = required.sum(axis=1, keepdims=True)
            brought = brought.sum(axis=1, keepdims=True)
        if ((brought == 0) & (required > 0)).any():
            raise ValueError("noise_factor: a UE that needs noise has no channel")
        with np.errstate(invalid="ignore", divide="ignore"):
            need = np.where(required > 0, required / brought, 0.0).max(axis=1)
        need = np.maximum.accumulate(need[::-1])[::-1]  # (T,) of this round or any later one
        need_before = np.append(np.inf, need[:-1])
        reachable = np.flatnonzero((need > 0) & (need_before > need))
        if not len(reachable):
            raise ValueError("noise_factor: no noise is asked for; there is nothing to switch")
        nearest = reachable[np.argmin(np.abs(reachable - switch))]
        return need[nearest] ** 2 * (1 + _MARGIN)

    def _find_short_rounds(self, root: FloatArray) -> BoolArray:
        """Rounds (n, T) in which the channel's noise is too little; root (n, K) is 1 /
        sqrt(power).
        """
        t = self.trajectory
        if self.criterion == "aggregate":
            return root @ t.channel_std.T < self._required
        return np.any(root[:, None, :] * t.channel_std < t.std, axis=2)

    def __call__(self, power_w: FloatArray, switch: IntArray | None = None) -> FloatArray:
        """L (n,) of power vectors (n, K); switch (n,) : their T_th, if it is known."""
        channel = (1.0 / power_w) @ self.cost_w
        if self.criterion != "top-up":
            switch = self.find_switch(power_w) if switch is None else switch
            return channel + self.artificial[switch]
        t = self.trajectory
        total = channel
        for rows in self._split_blocks(len(power_w)):
            channel_variance = t.channel_std**2 / power_w[rows][:, None, :]  # (n, T, K)
            lacking = np.maximum(t.std**2 - channel_variance, 0.0)
            total[rows] += np.einsum("t,tk,ntk->n", self.round_weight, t.weight**2, lacking)
        return total

    def _split_blocks(self, n: int) -> list[slice]:
        """Stretches of n power vectors that fit the memory."""
        return split_blocks(n, max(1, _BLOCK // self.trajectory.std.size))
