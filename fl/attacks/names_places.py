"""Keys of attacks whose answers are the highest places of one map a UE."""

from pydantic import Field

from fl.attacks.base import Attack
from fl.attacks.place_maps import Naming
from fl.tracking.place_grid import PlaceGrid
from netsim.geometry import Area


class NamesPlaces(Attack):
    """An attack whose answers are the highest places of one map a UE, unsmoothed."""

    cell_m: float = Field(default=25.0, ge=0.1, le=1e6)
    """largest distance between the places that are compared, m"""
    answers: int = Field(default=2, ge=1, le=8)
    """number of places that are named of each UE"""
    apart_m: float = Field(default=200.0, ge=0, le=1e6)
    """smallest distance between two answers, m"""

    @property
    def naming(self) -> Naming:
        """How its answers are read."""
        return Naming(self.answers, self.apart_m, 0.0)

    def held_bytes(self, area: Area, n_ue: int) -> float:
        return 64.0 * n_ue * PlaceGrid.places(area, self.cell_m)  # the maps, and those of this round
