"""The path loss slot: laws in closed form; those of TR 38.901 stand in `tr38901`."""

from abc import abstractmethod
from math import inf
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.columns import frozen
from netsim.part import Part
from netsim.ues import Indoors
from netsim.units import SPEED_OF_LIGHT_M_S, BoolArray, FloatArray

MIN_DISTANCE_M = 1.0
"""distance, nearer than which laws in closed form keep the loss"""


@frozen
class Pairs:
    """The geometry of all links: distance_2d_m, distance_3d_m (n, n_bs), ue_height_m, bs_height_m (n_bs,).

    ue_height_m is one height for all UEs, or (n, 1).
    los (n, n_bs) says which links are in line of sight; None while it is not yet computed.
    distance_out_m (n, n_bs) is d_2D-out, the horizontal distance up to the facade; None where all UEs are outdoors.
    environment_m (n, n_bs) is the effective environment height h_E; None: 1 m on all links.
    indoors : indoor state, one row a UE; None where all are outdoors.
    """

    distance_2d_m: FloatArray
    distance_3d_m: FloatArray
    ue_height_m: float | FloatArray
    bs_height_m: FloatArray
    los: BoolArray | None = None
    distance_out_m: FloatArray | None = None
    environment_m: FloatArray | None = None
    indoors: Indoors | None = None

    @property
    def outdoor_m(self) -> FloatArray:
        """Horizontal distance out of doors (n, n_bs)."""
        return self.distance_2d_m if self.distance_out_m is None else self.distance_out_m


class PathLoss(Part):
    """Mean loss as a function of distance. `needs_sight`: the loss differs with and without line of sight."""

    kind: str
    needs_sight: ClassVar[bool] = False
    max_distance_m: ClassVar[float] = inf
    """distance up to which the published law is valid"""
    std_db: ClassVar[tuple[float, float] | None] = None
    """published standard deviations of shadowing with and without line of sight; None if there are none"""
    far_std_db: ClassVar[float | None] = None
    """standard deviation in line of sight where `is_far`, for a law with another deviation there"""
    decorrelation_m: ClassVar[float] = 50.0
    """decorrelation distance of shadowing in line of sight, for a law with `std_db`"""
    nlos_decorrelation_m: ClassVar[float | None] = None
    """decorrelation distance of shadowing without line of sight; None: that in line of sight, one field for both"""
    indoor_shadowing: ClassVar[tuple[float, float] | None] = None
    """standard deviation in dB and decorrelation distance in m of shadowing inside buildings; None if there are none"""
    has_high_loss_buildings: ClassVar[bool] = True
    """whether the law was published for buildings of high penetration loss too"""
    ue_heights_m: ClassVar[tuple[float, float]] = (0.0, inf)
    """heights of UEs that the law was published for; those of UEs on floors are clipped to them"""
    environment_above_m: ClassVar[float] = inf
    """height of a UE above which the effective environment height is random"""
    indoor_depth_m: ClassVar[float] = 25.0
    """largest distance of a UE indoors from the facade, m, where none is given [TR 38.901, Section 7.4.3.1]"""
    sight_decorrelation_m: ClassVar[float] = 50.0
    """decorrelation distance of the line-of-sight state, for a law that offers `probability of sight`"""

    @abstractmethod
    def loss_db(self, pairs: Pairs, carrier_hz: float) -> FloatArray:
        """Loss in dB (n, n_bs), positive for attenuation."""

    def los_probability(self, pairs: Pairs) -> FloatArray:
        """Probability of line of sight (n, n_bs), for a law that offers `probability of sight`."""
        raise NotImplementedError(self.kind)

    def environment_m(self, distance_2d_m: FloatArray, ue_height_m: FloatArray, unit: FloatArray) -> FloatArray:
        """Effective environment height (n, n_bs) of UEs of height (n, 1) above `environment_above_m`.

        unit (n, n_bs) : uniform numbers in (0, 1).
        """
        raise NotImplementedError(self.kind)

    def is_far(self, pairs: Pairs, carrier_hz: float) -> BoolArray:
        """Links (n, n_bs) to which `far_std_db` belongs, for a law that has one."""
        raise NotImplementedError(self.kind)

    def check(self, carrier_hz: float, ue_height_m: float, bs_height_m: FloatArray) -> None:
        """Raises BadInput outside the published range of validity."""
        return None


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


class LogDistance(PathLoss):
    r"""Log-distance path loss: the loss grows by 10 n dB per decade of distance::

        PL(d) = PL(d_ref) + 10 n log10(max(d, 1 m) / d_ref)

    where d is the 3D distance in m and n the exponent. The carrier enters through `reference_loss_db` only,
    so `carrier_hz` is not used.
    """

    reference: ClassVar = "Rappaport, 'Wireless Communications', 2nd ed., 2002, Eq. 4.68"
    example: ClassVar = {"kind": "log-distance"}

    kind: Literal["log-distance"] = "log-distance"
    exponent: float = Field(default=3.5, gt=0, le=20)
    """path loss exponent n: 2 in free space, 3 to 4 in cities"""
    reference_m: float = Field(default=10.0, ge=1e-3, le=1e6)
    """distance of the reference loss, m"""
    reference_loss_db: float = Field(default=50.0, ge=-300, le=500)
    """loss at the reference distance, dB"""

    def loss_db(self, pairs: Pairs, carrier_hz: float) -> FloatArray:
        """Loss in dB, shape (n_ue, n_bs)."""
        ratio = np.maximum(pairs.distance_3d_m, MIN_DISTANCE_M) / self.reference_m
        return self.reference_loss_db + 10.0 * self.exponent * np.log10(ratio)
