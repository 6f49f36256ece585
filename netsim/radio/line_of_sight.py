"""The line-of-sight slot: which links are in line of sight."""

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np

from netsim.geometry import Area
from netsim.part import Part
from netsim.radio.base import Pairs, PathLoss
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray

SightLaw = Callable[[Pairs, FloatArray], BoolArray]
"""(pairs, position_m (n, 2)) -> line of sight (n, n_bs)."""
Geometry = Callable[[FloatArray, Pairs], BoolArray]
"""position_m (n, 2), pairs -> line of sight (n, n_bs) by the city's buildings, without the one that a UE is in."""


class Sight(Part):
    """Decides which links are in line of sight."""

    kind: str
    needs_of_law: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def law(self, area: Area, site: IntArray, path_loss: PathLoss, geometry: Geometry, rng: Rng) -> SightLaw:
        """The line-of-sight function of one city, drawn once; site (n_bs,) is the site index of each base station."""


class AlwaysInSight(Sight):
    """Every link is in line of sight."""

    kind: Literal["always"] = "always"
    reference: ClassVar = "open field"
    example: ClassVar = {"kind": "always"}

    def law(self, area: Area, site: IntArray, path_loss: PathLoss, geometry: Geometry, rng: Rng) -> SightLaw:
        return lambda pairs, position_m: np.isfinite(pairs.distance_2d_m)  # an absent UE has no sight
