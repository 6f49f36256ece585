"""People in buildings."""

from typing import ClassVar, Literal

from fl.population.base import PopulationPrior, spread
from fl.tracking.place_grid import PlaceGrid
from fl.types import Public
from netsim.errors import BadInput
from netsim.units import FloatArray


class InBuildings(PopulationPrior):
    """The floor area of buildings by the cell of their middle; a tenth of the people are anywhere.

    A building has a floor each 3 m. For a city with buildings.
    """

    kind: Literal["buildings"] = "buildings"
    of_the_city: ClassVar = True

    reference: ClassVar = "netsim's own; a map of buildings is public knowledge"

    def probability(self, grid: PlaceGrid, public: Public) -> FloatArray:
        if public.floor_area is None or not len(public.floor_area):
            raise BadInput(
                "learning.attacks: population: buildings: the city has no buildings; take a town or a file of "
                "footprints, or population: {kind: uniform}"
            )
        return spread(grid, public.floor_area[:, :2], public.floor_area[:, 2])
