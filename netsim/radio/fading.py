"""The fading slot: small-scale fading of every link, constant within a block."""

from abc import abstractmethod
from math import pi
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from netsim.clock import find_last_multiple
from netsim.part import Part
from netsim.rng import Rng
from netsim.units import ComplexArray, IntArray, IntArrayPair

Block = int | IntArray
"""Index of a block, one for all UEs or one each (n,)"""
RoundIndex = int | IntArray
"""Index of a round, one for all UEs or one each (n,)"""


class Fading(Part):
    """Draws amplitudes of unit mean power per antenna, independently for each (UE, base station)
    pair.
    """

    kind: str = ""

    @abstractmethod
    def draw_amplitudes(
        self, ue: IntArray, n_bs: int, block: Block, rng: Rng
    ) -> ComplexArray | None:
        """Amplitudes (n, n_bs, antennas) of UEs (n,) in a block, or each in its own; None: one
        antenna, amplitude 1.
        """

    @abstractmethod
    def find_block(self, round_: RoundIndex, time_s: float) -> Block:
        """Index of the block of a round, or of rounds (n,), at a time in s."""


class NoFading(Fading, kind="none"):
    """One antenna, amplitude 1."""

    reference = "netsim: path loss and shadowing alone"

    def draw_amplitudes(self, ue: IntArray, n_bs: int, block: Block, rng: Rng) -> None:
        return None

    def find_block(self, round_: RoundIndex, time_s: float) -> Block:
        return 0


_MAX_BS = 1 << 20  # so that a UE and a base station make one stable id
_MIN_BLOCK_S = 1e-3  # of a block, so that the longest run counts its blocks in 64 bits


def _list_pairs_and_blocks(ue: IntArray, n_bs: int, block: Block) -> IntArrayPair:
    """Id and block (n n_bs,) of each pair of a UE and a base station."""
    pair = ue[:, None] * _MAX_BS + np.arange(n_bs)
    return pair.reshape(-1), np.repeat(np.broadcast_to(block, len(ue)), n_bs)


class _Block(Fading):
    """Block fading: constant for the whole run, for a round, or for a time."""

    antennas: int = Field(1, ge=1, le=1024)
    """number of antennas of the base station"""
    block: Literal["run", "round"] | float = "round"
    """length of a block: the whole run, a round, or a time in s"""

    @model_validator(mode="after")
    def _check_block(self) -> Self:
        if isinstance(self.block, float) and not self.block >= _MIN_BLOCK_S:
            raise ValueError(f"block: a time must be >= {_MIN_BLOCK_S:g} s, got {self.block:g}")
        return self

    def find_block(self, round_: RoundIndex, time_s: float) -> Block:
        if isinstance(self.block, float):
            return find_last_multiple(time_s, self.block)
        return round_ if self.block == "round" else 0

    def draw_amplitudes(self, ue: IntArray, n_bs: int, block: Block, rng: Rng) -> ComplexArray:
        """CN(0, 1) entries (n, n_bs, antennas)."""
        pair, item = _list_pairs_and_blocks(ue, n_bs, block)
        parts = rng.normal("fading", pair, (self.antennas, 2), item=item)
        entries = (parts[..., 0] + 1j * parts[..., 1]).reshape(len(ue), n_bs, self.antennas)
        return entries / np.sqrt(2.0)


class Rayleigh(_Block, kind="rayleigh"):
    """Rayleigh fading: the amplitude of every antenna is CN(0, 1), independent of the others."""

    reference = "Tse and Viswanath, Fundamentals of Wireless Communication, 2005, Eq. 2.53"


class Rician(_Block, kind="rician"):
    """Rician fading: a line-of-sight component and scattering, sqrt(K/(K+1)) e^(j phi) + CN(0,
    1/(K+1)).

    The line-of-sight component arrives at a half-wavelength array at a random angle, so antenna a
    has phase phi + a psi.
    """

    k_db: float = Field(9.0, ge=-40, le=60)
    """K, power of the line-of-sight component over that of the scattered ones, dB"""
    reference = "Tse and Viswanath, Fundamentals of Wireless Communication, 2005, Eq. 2.55"

    def draw_amplitudes(self, ue: IntArray, n_bs: int, block: Block, rng: Rng) -> ComplexArray:
        k = 10.0 ** (self.k_db / 10.0)
        pair, item = _list_pairs_and_blocks(ue, n_bs, block)
        unit = rng.uniform("steady", pair, (2,), item=item).reshape(len(ue), n_bs, 2)
        angle = pi * np.cos(pi * unit[..., 1, None])
        phase = 2 * pi * unit[..., 0, None]
        steady = np.exp(1j * (phase + angle * np.arange(self.antennas)))
        scattered = super().draw_amplitudes(ue, n_bs, block, rng)
        return np.sqrt(k / (k + 1)) * steady + np.sqrt(1 / (k + 1)) * scattered
