"""The radio slots: path loss and shadowing."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

from netsim.geometry import Area
from netsim.part import Part
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray


class PathLoss(Part):
    """Mean loss over distance."""

    kind: str

    @abstractmethod
    def loss_db(self, distance_3d_m: FloatArray, carrier_hz: float) -> FloatArray:
        """Loss in dB, positive, of the same shape (n_ue, n_bs) as the distances."""


class ShadowField(Protocol):
    """A law of place: the shadowing of every base station at every position, the same on every day."""

    def __call__(self, position_m: FloatArray, bs: IntArray | None = None) -> FloatArray:
        """Shadowing in dB at positions (n, 2), NaN where the position is NaN.

        All base stations, shape (n, n_bs), unless `bs` (n,) names one for each position: then shape (n,).
        """
        ...


class Shadowing(Part):
    """Loss by obstacles, around the mean that path loss gives: zero on average, added in dB."""

    kind: str

    @abstractmethod
    def field(self, area: Area, n_bs: int, rng: Rng) -> ShadowField:
        """The law of one city, drawn once; base station b uses numbers of its own."""
