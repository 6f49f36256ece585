"""Path loss laws in closed form: free space, a power law, two slopes."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.radio.base import Pairs, PathLoss
from netsim.units import SPEED_OF_LIGHT_M_S, FloatArray


def free_space_db(distance_m: FloatArray, carrier_hz: float) -> FloatArray:
    """20 log10(4 pi f d / c) [Friis 1946]."""
    return 20.0 * np.log10(4.0 * np.pi * carrier_hz * distance_m / SPEED_OF_LIGHT_M_S)


class FreeSpace(PathLoss):
    """Free-space loss 20 log10(4 pi f d / c) with isotropic antennas; d is the 3D distance."""

    reference: ClassVar = "Friis, 'A note on a simple transmission formula', Proc. IRE 34(5), 1946"
    example: ClassVar = {"kind": "free-space"}

    kind: Literal["free-space"] = "free-space"
    min_distance_m: float = Field(default=1.0, ge=1e-3, le=1e6)
    """nearer than this the loss stays as it is here, m"""

    def loss_db(self, pairs: Pairs, carrier_hz: float) -> FloatArray:
        return free_space_db(np.maximum(pairs.distance_3d_m, self.min_distance_m), carrier_hz)


class PowerLaw(PathLoss):
    """Free-space gain with another exponent: gain = G_BS G_UE (c / (4 pi f d))^P, linear.

    P = 2 is free space. The antenna gains are part of the law, as in its source.
    """

    reference: ClassVar = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Eq. 39"
    example: ClassVar = {"kind": "power-law"}

    kind: Literal["power-law"] = "power-law"
    exponent: float = Field(default=3.76, gt=0, le=20)
    """exponent P"""
    bs_gain_db: float = Field(default=5.0, ge=-30, le=60)
    """antenna gain of the base station, dBi"""
    ue_gain_db: float = Field(default=0.0, ge=-30, le=60)
    """antenna gain of the UE, dBi"""
    min_distance_m: float = Field(default=1.0, ge=1e-3, le=1e6)
    """nearer than this the loss stays as it is here, m"""

    def loss_db(self, pairs: Pairs, carrier_hz: float) -> FloatArray:
        distance = np.maximum(pairs.distance_3d_m, self.min_distance_m)
        return self.exponent / 2.0 * free_space_db(distance, carrier_hz) - self.bs_gain_db - self.ue_gain_db


class LosNlos(PathLoss):
    """Gain in dB = slope log10(d) + intercept, with one slope and intercept with and one without line of sight."""

    reference: ClassVar = "Geometry-Aligned Differential Privacy for Federated Radio Map Construction, Section V"
    example: ClassVar = {"kind": "los-nlos"}
    needs_sight: ClassVar[bool] = True

    kind: Literal["los-nlos"] = "los-nlos"
    los_slope_db: float = Field(default=-22.0, ge=-200, lt=0)
    """slope in line of sight, dB per decade of distance"""
    los_gain_db: float = Field(default=-28.0, ge=-500, le=300)
    """gain at 1 m in line of sight, dB"""
    nlos_slope_db: float = Field(default=-36.0, ge=-200, lt=0)
    """slope without line of sight, dB per decade of distance"""
    nlos_gain_db: float = Field(default=-22.0, ge=-500, le=300)
    """gain at 1 m without line of sight, dB"""
    min_distance_m: float = Field(default=1.0, ge=1e-3, le=1e6)
    """nearer than this the loss stays as it is here, m"""

    def loss_db(self, pairs: Pairs, carrier_hz: float) -> FloatArray:
        decades = np.log10(np.maximum(pairs.distance_3d_m, self.min_distance_m))
        los = self.los_slope_db * decades + self.los_gain_db
        nlos = self.nlos_slope_db * decades + self.nlos_gain_db
        seen = np.ones(los.shape, dtype=bool) if pairs.los is None else pairs.los
        return -np.where(seen, los, nlos)
