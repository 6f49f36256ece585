"""The fading slot: small-scale fading of every link, constant within a block."""

from abc import abstractmethod
from typing import ClassVar, Literal

from netsim.part import Part
from netsim.radio.uplink import ComplexArray
from netsim.rng import Rng
from netsim.units import IntArray


class Fading(Part):
    """Draws amplitudes of unit mean power per antenna, independently for each (UE, base station) pair."""

    kind: str

    @abstractmethod
    def draw(self, ue: IntArray, n_bs: int, block: int, rng: Rng) -> ComplexArray | None:
        """Amplitudes (n, n_bs, antennas) of the UEs (n,) in a block; None means one antenna with amplitude 1."""

    @abstractmethod
    def block_index(self, round_: int, time_s: float) -> int:
        """Index of the block of a round at a time."""


class NoFading(Fading):
    """One antenna, amplitude 1."""

    kind: Literal["none"] = "none"
    reference: ClassVar = "path loss and shadowing alone"
    example: ClassVar = {"kind": "none"}

    def draw(self, ue: IntArray, n_bs: int, block: int, rng: Rng) -> None:
        return None

    def block_index(self, round_: int, time_s: float) -> int:
        return 0
