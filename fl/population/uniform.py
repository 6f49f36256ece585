"""Nothing is known."""

from typing import ClassVar, Literal

import numpy as np

from fl.population.base import PopulationPrior
from fl.tracking.place_grid import PlaceGrid
from fl.types import Public
from netsim.units import FloatArray


class Everywhere(PopulationPrior):
    """People may be anywhere in the area."""

    kind: Literal["uniform"] = "uniform"

    reference: ClassVar = "Shokri et al., Quantifying Location Privacy, Section III (no knowledge)"

    def probability(self, grid: PlaceGrid, public: Public) -> FloatArray:
        return np.full(len(grid), 1.0 / len(grid))
