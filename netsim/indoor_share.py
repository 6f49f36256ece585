"""UEs that are drawn to be indoors in open ground, with floor and distance from the facade."""

from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Field, Strict, model_validator

from netsim.indoors import Indoors
from netsim.part import Part
from netsim.radio.base import PathLoss
from netsim.rng import Rng
from netsim.units import IntArray

# YAML knows lists only; the two numbers stay strict
Floors = Annotated[tuple[int, int], Strict(False)]


class IndoorShare(Part):
    """A share of the UEs is indoors for the whole run, each in a separate building.

    The number of floors N is uniform on `floors`, the UE's floor uniform on 1..N, and its distance from the facade
    the smaller of two U(0, depth_m).
    """

    share: float = Field(default=0.8, ge=0, le=1)
    """share of UEs indoors"""
    floors: Floors = (4, 8)
    """lowest and highest number of floors of a building"""
    depth_m: float | None = Field(default=None, ge=0, le=1000)
    """largest distance from the facade, m; none: 25, and 10 beside path loss rma"""
    reference: ClassVar = "3GPP TR 38.901 V17.0.0, Tables 7.2-1 and 7.8-1, Section 7.4.3.1"

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        low, high = self.floors
        if not 1 <= low <= high <= 200:
            raise ValueError(f"floors: {low}, {high}: give the lowest, then the highest number of floors, 1 to 200")
        return self

    def deepest_m(self, law: PathLoss) -> float:
        """The largest distance from the facade beside a path loss law."""
        return law.indoor_depth_m if self.depth_m is None else self.depth_m

    def drawn(self, ue: IntArray, law: PathLoss, rng: Rng) -> Indoors:
        """Draw which UEs (n,) are indoors, and where; the draw of UE u depends on (seed, u) only."""
        unit = rng.uniform("indoor", ue, (5,)).T
        low, high = self.floors
        inside = unit[0] < self.share
        storeys = low + np.minimum((unit[1] * (high - low + 1)).astype(np.int64), high - low)
        floor = np.minimum((unit[2] * storeys).astype(np.int64), storeys - 1)
        depth_m = self.deepest_m(law) * np.minimum(unit[3], unit[4])
        out = Indoors.outdoors(ue)
        return Indoors(
            ue=ue,
            building=np.where(inside, ue, -1),
            floor=np.where(inside, floor, 0),
            depth_m=np.where(inside, depth_m, 0.0),
            stay=out.stay,
            in_vehicle=out.in_vehicle,
        )
