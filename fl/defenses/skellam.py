r"""Noise in shares in the ring of a secure sum: whole numbers of few bits, with the noise of a
Skellam law.
"""

from dataclasses import field, replace

import numpy as np
from pydantic import Field

from fl.defenses import NEEDS_BOUND, WHOLE_BOUND, Defense, Finished, Protected
from fl.defenses.gaussian import FIXED_WEIGHT
from fl.types import Local, Metrics, RoundContext, Spend, Updates
from netsim.columns import frozen, no_floats, no_ints, split_blocks
from netsim.part import Amount, Probability, Share
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

# -ln of the share of roundings that would exceed the bound on the norm, which are drawn again
_BETA = 0.5
_ROWS = 64  # that are rotated at a time: bounds the memory


@frozen
class Ring:
    """Rotation of a round, by the order (d,) and signs (d,) of the numbers; grain: value of one
    step of the ring; figures: wrapped_percent, of the numbers of the last sum, that left the ring.
    """

    order: IntArray
    sign: FloatArray
    grain: float
    figures: Metrics = field(default_factory=dict)


def transform_hadamard(x: FloatArray) -> FloatArray:
    """The orthonormal Walsh-Hadamard transform of rows (n, 2^k), its own inverse."""
    n, size = x.shape
    half = 1
    while half < size:
        pair = x.reshape(n, -1, 2, half)
        left = pair[:, :, 0]
        right = pair[:, :, 1]
        x = np.stack([left + right, left - right], axis=2).reshape(n, size)
        half *= 2
    return x / np.sqrt(size)


def rotate_rows(
    x: FloatArray, order: IntArray, sign: FloatArray, is_inverse: bool = False
) -> FloatArray:
    """Rows (n, d) after random signs, a random order, and Hadamard transforms of blocks of the
    powers of two in d.

    An orthonormal map, so no number is padded. `is_inverse`: its inverse.
    """
    out = np.empty_like(x)
    for rows in split_blocks(len(x), _ROWS):
        part = x[rows] if is_inverse else (x[rows] * sign)[:, order]
        part = part.copy()
        first = 0
        for k in reversed(range(len(order).bit_length())):
            if len(order) >> k & 1:
                end = first + 2**k
                part[:, first:end] = transform_hadamard(part[:, first:end])
                first = end
        if is_inverse:
            unordered = np.empty_like(part)
            unordered[:, order] = part
            part = unordered * sign
        out[rows] = part
    return out


def bound_norm_in_steps(steps: float, d: int) -> float:
    """Bound on the L2 norm of rounded rows whose norm was at most `steps` [Agarwal et al. 2021,
    Proposition 22].
    """
    by_chance = steps**2 + d / 4 + np.sqrt(2 * _BETA) * (steps + np.sqrt(d) / 2)
    return float(np.sqrt(min((steps + np.sqrt(d)) ** 2, by_chance)))


class Skellam(Defense, kind="skellam"):
    r"""Rounds each update to whole numbers in a ring of 2^bits, with a share of Skellam noise: what
    can be summed.

    With norm bound c, sensitivity s = c or 2 c, and m, h as in `distributed-gaussian`, each UE

    - rotates its update by a random orthonormal map that all know (signs, an order, Hadamard
      transforms of blocks);
    - divides by the grain g and rounds at random to whole numbers beside, again where the norm
      exceeds its bound;
    - adds the difference of two Poisson numbers of mean (z s / g)^2 / (2 floor(h m)) to each: a
      share of Skellam noise.

    The server gets the sum modulo 2^bits, takes it for a number from -2^(bits-1), and rotates it
    back. Numbers beyond that wrap (`wrapped_percent` in `metrics`); attacks see the sum before
    that, which tells no less. The grain is such that `tail` standard deviations of the sum of all
    UEs (1 / weight of them), with its noise, fit. An upload has `bits` per number in place of 32,
    so airtime, energy and losses follow.

    Accounted by Renyi costs, which hold for whole numbers: with Delta_2 the bound on the rounded
    norm, Delta_1 = min(Delta_2^2, sqrt(d) Delta_2) and mu the variance of the noise, in steps,
    order alpha costs

        alpha Delta_2^2 / (2 mu) + min(((2 alpha - 1) Delta_2^2 + 6 Delta_1) / (4 mu^2), 3 Delta_1 /
        (2 mu))

    That is 6 to 10 % above the epsilon of as much Gaussian noise, with enough bits. All UEs pay for
    every round, whether a sum is opened, and for every model. Neighbours are those of
    `distributed-gaussian`. Departs from the paper: blocks in place of one transform of padded
    numbers.
    """

    noise_multiplier: Amount
    """standard deviation of the noise on the sum in units of the sensitivity (z)"""
    bits: int = Field(16, ge=2, le=24)
    """bits of a number in the ring (b)"""
    tail: float = Field(4.0, gt=0, le=100)
    """standard deviations of a number of the sum that the ring holds to either side"""
    honest_share: Share = 1.0
    """share of the UEs of a sum whose noise the server does not know (h)"""
    delta: Probability = 1e-7
    """delta at which epsilon is stated"""

    reference = (
        "Agarwal, Kairouz, Liu, The Skellam Mechanism for Differentially Private Federated "
        "Learning, 2021"
    )
    example = {"kind": "skellam", "noise_multiplier": 1.0}
    contracts = True
    offers = frozenset({"spend", "shared noise", "whole numbers"})
    needs = (
        NEEDS_BOUND
        | FIXED_WEIGHT
        | {WHOLE_BOUND: "it rounds to whole numbers within its norm; put a clip before it"}
    )
    needs_rounds = "its accounting adds up rounds of all UEs"

    @property
    def bits_per_number(self) -> int:
        return self.bits

    def start(self, n_ue: int) -> Ring:
        return Ring(no_ints(), no_floats(), 1.0)

    def choose_grain(self, norm: float, sensitivity: float, d: int, facts: RoundContext) -> float:
        """Value of a step, from public numbers alone: `tail` deviations of a sum of all updates of
        d numbers, with noise, fit.
        """
        n = max(1.0 / (facts.weight or 1.0), facts.least_opened)
        scale = np.sqrt(n / facts.count_honest(self.honest_share))
        noise = self.noise_multiplier * sensitivity * scale
        return float(2 * self.tail * np.hypot(n * norm / np.sqrt(d), noise) / 2.0**self.bits)

    def protect(
        self, updates: Updates, local: Local, facts: RoundContext, state: Ring, rng: Rng
    ) -> Protected:
        bound = updates.promise
        d = updates.n_parameters
        grain = self.choose_grain(bound.norm, bound.sensitivity, d, facts)
        order = np.argsort(rng.draw_keys("order", 0, d), kind="stable")
        sign = np.where(rng.draw_keys("sign", 0, d) < 0.5, -1.0, 1.0)
        variance = (self.noise_multiplier * bound.sensitivity / grain) ** 2
        share = variance / facts.count_honest(self.honest_share)
        steps = rotate_rows(updates.all_rows, order, sign) / grain
        max_norm = bound_norm_in_steps(bound.norm / grain, d)
        for row, owner in zip(steps, updates.row.tolist(), strict=True):
            draws = rng.make_generator("ring", owner)
            exact = row.copy()
            while True:
                row[:] = np.floor(exact + draws.random(d))
                if row @ row <= max_norm**2:
                    break
            row += draws.poisson(share / 2, d) - draws.poisson(share / 2, d)
        models = np.arange(facts.public.n_model)
        moved = max_norm * bound.sensitivity / bound.norm
        n = len(models)
        spend = Spend(
            self.label,
            np.full(n, -1),
            models,
            np.full(n, np.sqrt(variance)),
            np.full(n, moved),
            bound.unit,
            bound.zeroed.relation,
            self.delta,
            l1_sensitivity=np.full(n, min(moved**2, np.sqrt(d) * moved)),
        )
        sent = rotate_rows(steps, order, sign, is_inverse=True) * grain
        return updates.with_values(sent, None), Ring(order, sign, grain, state.figures), [spend]

    def finish(
        self, total: FloatArray, n_expected: int, facts: RoundContext, state: Ring, rng: Rng
    ) -> Finished:
        weight = facts.weight or 1.0
        steps = np.rint(rotate_rows(total / weight, state.order, state.sign) / state.grain)
        half = 2.0 ** (self.bits - 1)
        inside = np.mod(steps + half, 2 * half) - half
        wrapped_percent = float(np.mean(100.0 * (inside != steps)))
        ring = replace(state, figures={"wrapped_percent": wrapped_percent})
        out = rotate_rows(inside, state.order, state.sign, is_inverse=True)
        return out * state.grain * weight, ring, []
