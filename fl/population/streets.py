"""People along streets."""

from typing import ClassVar, Literal

import numpy as np

from fl.population.base import PopulationPrior, spread
from fl.tracking.place_grid import PlaceGrid
from fl.types import Public
from netsim.errors import BadInput
from netsim.units import FloatArray

_STEPS_A_CELL = 4


class AlongStreets(PopulationPrior):
    """The length of streets in each cell; a tenth of the people are anywhere. For a city with streets."""

    kind: Literal["streets"] = "streets"
    of_the_city: ClassVar = True

    reference: ClassVar = "netsim's own; a map of streets is public knowledge"

    def probability(self, grid: PlaceGrid, public: Public) -> FloatArray:
        if public.street_m is None or not len(public.street_m):
            raise BadInput(
                "learning.attacks: population: streets: the city has no streets; take a town, an OpenStreetMap or SUMO "
                "file, or population: {kind: uniform}"
            )
        a, b = public.street_m[:, 0], public.street_m[:, 1]
        length = np.hypot(*(b - a).T)
        count = np.maximum(np.ceil(length / float(grid.cell_m.min()) * _STEPS_A_CELL), 1).astype(np.int64)
        of = np.repeat(np.arange(len(a)), count)
        share = (np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count) + 0.5) / count[of]
        return spread(grid, a[of] + share[:, None] * (b - a)[of], length[of] / count[of])
