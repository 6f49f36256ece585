r"""The penetration slot: loss of walls and car bodies for UEs inside, after 3GPP TR 38.901, Section 7.4.3.

With f the carrier in GHz, the losses of materials in dB are [Table 7.4.3-1]::

    L_glass = 2 + 0.2 f,   L_IRR = 23 + 0.3 f,   L_concrete = 5 + 4 f
"""

from abc import abstractmethod
from collections.abc import Callable
from math import log10
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.errors import BadInput
from netsim.indoors import Indoors
from netsim.part import Part
from netsim.radio.base import PathLoss
from netsim.rng import Rng
from netsim.units import FloatArray

PenetrationLaw = Callable[[Indoors], FloatArray]
"""indoors -> loss in dB (n,), 0 for a UE out of doors."""

_INSIDE_DB_M = 0.5  # [TR 38.901, Section 7.4.3.1] PL_in = 0.5 d_2D-in
_HIGH_SHARE = 0.5  # [TR 38.901, Table 7.8-1]
_LOW_STD_DB, _HIGH_STD_DB = 4.4, 6.5  # [TR 38.901, Table 7.4.3-2] sigma_P
_VEHICLE_DB = {"standard": 9.0, "metallised": 20.0}  # [TR 38.901, Section 7.4.3.2]
_VEHICLE_STD_DB = 5.0


def wall_loss_db(carrier_hz: float, high: bool) -> float:
    r"""PL_tw in dB [TR 38.901, Table 7.4.3-2]::

    low   5 - 10 log10(0.3 10^(-L_glass / 10) + 0.7 10^(-L_concrete / 10))
    high  5 - 10 log10(0.7 10^(-L_IRR / 10) + 0.3 10^(-L_concrete / 10))
    """
    f = carrier_hz / 1e9
    concrete_db = 5.0 + 4.0 * f
    glass_db, share = (23.0 + 0.3 * f, 0.7) if high else (2.0 + 0.2 * f, 0.3)
    return 5.0 - 10.0 * log10(share * 10 ** (-glass_db / 10) + (1.0 - share) * 10 ** (-concrete_db / 10))


class Penetration(Part):
    """Loss through walls and car bodies, the same for all base stations."""

    kind: str

    @abstractmethod
    def law(self, path_loss: PathLoss, carrier_hz: float, rng: Rng) -> PenetrationLaw:
        """The loss of UEs in the buildings and vehicles of one world."""

    def walls(self, path_loss: PathLoss, carrier_hz: float, depth_m: float) -> list[tuple[float, float, float]]:
        """Kinds of buildings: share, mean loss and its standard deviation in dB so far from the facade."""
        return [(1.0, 0.0, 0.0)]

    def check(self, path_loss: PathLoss) -> None:
        """Raises BadInput for a combination that was not published."""
        return None


class NoPenetration(Penetration):
    """No penetration loss: a UE inside is received as one in front of the facade, at the height of its floor."""

    kind: Literal["none"] = "none"
    reference: ClassVar = "none: path loss alone"
    example: ClassVar = {"kind": "none"}

    def law(self, path_loss: PathLoss, carrier_hz: float, rng: Rng) -> PenetrationLaw:
        return lambda indoors: np.zeros(len(indoors))


class Tr38901Penetration(Penetration):
    r"""Outdoor-to-indoor and outdoor-to-car loss of 3GPP, constant during a stay::

        building   PL_tw + 0.5 d_2D-in + N(0, sigma_P^2),   sigma_P = 4.4 dB (low loss) or 6.5 dB (high loss)
        vehicle    N(9 dB, (5 dB)^2), metallised windows N(20 dB, (5 dB)^2)

    PL_tw is `wall_loss_db`; low or high loss belongs to the building. The normal term is drawn for each (UE, stay).
    The loss of vehicles was published for 0.6 to 60 GHz.
    """

    kind: Literal["tr38901"] = "tr38901"
    high_loss_share: float | None = Field(default=None, ge=0, le=1)
    """share of buildings with high loss (metallised glass); none: 0.5, and 0 for rma, which was published without"""
    vehicle: Literal["standard", "metallised"] = "standard"
    """windows of vehicles"""
    reference: ClassVar = "3GPP TR 38.901 V17.0.0, Sections 7.4.3.1 and 7.4.3.2"
    example: ClassVar = {"kind": "tr38901"}

    def check(self, path_loss: PathLoss) -> None:
        if self.high_loss_share and not path_loss.has_high_loss_buildings:
            raise BadInput(
                f"radio.penetration.high_loss_share: path loss {path_loss.kind_name()} was published for buildings of "
                f"low loss only, got {self.high_loss_share:g}; set 0, or leave it out"
            )

    def walls(self, path_loss: PathLoss, carrier_hz: float, depth_m: float) -> list[tuple[float, float, float]]:
        share, inside_db = self._share(path_loss), _INSIDE_DB_M * depth_m
        kinds = ((1.0 - share, False, _LOW_STD_DB), (share, True, _HIGH_STD_DB))
        return [(part, wall_loss_db(carrier_hz, high) + inside_db, std_db) for part, high, std_db in kinds]

    def _share(self, path_loss: PathLoss) -> float:
        """Share of buildings with high loss."""
        usual = _HIGH_SHARE if path_loss.has_high_loss_buildings else 0.0
        return usual if self.high_loss_share is None else self.high_loss_share

    def law(self, path_loss: PathLoss, carrier_hz: float, rng: Rng) -> PenetrationLaw:
        share = self._share(path_loss)
        low_db, high_db = (wall_loss_db(carrier_hz, high) for high in (False, True))

        def law(indoors: Indoors) -> FloatArray:
            loss_db = np.zeros(len(indoors))
            rows = np.flatnonzero(indoors.inside)
            if rows.size:
                some = indoors.select(rows)
                high = rng.uniform("wall", some.building) < share
                std_db = np.where(high, _HIGH_STD_DB, _LOW_STD_DB)
                spread_db = std_db * rng.normal("building", some.ue, item=some.stay)
                loss_db[rows] = np.where(high, high_db, low_db) + _INSIDE_DB_M * some.depth_m + spread_db
            rows = np.flatnonzero(indoors.in_vehicle & ~indoors.inside)
            if rows.size:
                some = indoors.select(rows)
                spread_db = _VEHICLE_STD_DB * rng.normal("vehicle", some.ue, item=some.stay)
                loss_db[rows] = _VEHICLE_DB[self.vehicle] + spread_db
            return loss_db

        return law
