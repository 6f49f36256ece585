"""Path loss laws in closed form: free space, a power law, two slopes."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.radio.base import MIN_DISTANCE_M, Pairs, PathLoss
from netsim.units import SPEED_OF_LIGHT_M_S, FloatArray

_GAINS_DB = 5.0  # of the antennas of base station and UE together


def free_space_db(distance_m: FloatArray, carrier_hz: float) -> FloatArray:
    """20 log10(4 pi f d / c) [Friis 1946]."""
    return 20.0 * np.log10(4.0 * np.pi * carrier_hz * distance_m / SPEED_OF_LIGHT_M_S)


class FreeSpace(PathLoss):
    """Free-space loss 20 log10(4 pi f d / c) with isotropic antennas; d is the 3D distance."""

    reference: ClassVar = "Friis, 'A note on a simple transmission formula', Proc. IRE 34(5), 1946"
    example: ClassVar = {"kind": "free-space"}

    kind: Literal["free-space"] = "free-space"

    def loss_db(self, pairs: Pairs, carrier_hz: float) -> FloatArray:
        return free_space_db(np.maximum(pairs.distance_3d_m, MIN_DISTANCE_M), carrier_hz)


class PowerLaw(PathLoss):
    """Free-space gain with another exponent: gain = G (c / (4 pi f d))^P, linear.

    P = 2 is free space. The antenna gain G = 5 dB is part of the law, as in its source.
    """

    reference: ClassVar = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Eq. 39"
    example: ClassVar = {"kind": "power-law"}

    kind: Literal["power-law"] = "power-law"
    exponent: float = Field(default=3.76, gt=0, le=20)
    """exponent P"""

    def loss_db(self, pairs: Pairs, carrier_hz: float) -> FloatArray:
        distance = np.maximum(pairs.distance_3d_m, MIN_DISTANCE_M)
        return self.exponent / 2.0 * free_space_db(distance, carrier_hz) - _GAINS_DB


class LosNlos(PathLoss):
    """Gain in dB: -22 log10(d) - 28 in line of sight, -36 log10(d) - 22 without; d is the 3D distance in m."""

    reference: ClassVar = "Geometry-Aligned Differential Privacy for Federated Radio Map Construction, Section V"
    example: ClassVar = {"kind": "los-nlos"}
    needs_sight: ClassVar[bool] = True

    kind: Literal["los-nlos"] = "los-nlos"

    def loss_db(self, pairs: Pairs, carrier_hz: float) -> FloatArray:
        decades = np.log10(np.maximum(pairs.distance_3d_m, MIN_DISTANCE_M))
        los = -22.0 * decades - 28.0
        nlos = -36.0 * decades - 22.0
        seen = np.ones(los.shape, dtype=bool) if pairs.los is None else pairs.los
        return -np.where(seen, los, nlos)
