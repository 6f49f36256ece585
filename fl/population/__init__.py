"""The population slot: public knowledge of where people are, before any estimate."""

from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np

from fl.tracking.place_grid import PlaceGrid
from fl.types import Public
from netsim.part import OneOf, Part
from netsim.units import FloatArray

ANYWHERE = 0.1
"""share of people who may be anywhere, whatever is known of the others"""


class PopulationPrior(Part):
    """A law of where people are. It depends on public facts alone."""

    kind: str
    of_the_city: ClassVar[bool] = False
    """whether it reads streets or buildings from the public facts"""

    @abstractmethod
    def probability(self, grid: PlaceGrid, public: Public) -> FloatArray:
        """Probability (G,) of each cell; raises BadInput where the facts are not there."""


def spread(grid: PlaceGrid, place_m: FloatArray, weight: FloatArray) -> FloatArray:
    """Probability (G,) of weights (n,) at places (n, 2), of which those inside count; a share ANYWHERE is uniform."""
    inside = grid.area.contains(place_m)
    counted = np.bincount(grid.nearest(place_m[inside]), weights=weight[inside], minlength=len(grid))
    total, even = float(counted.sum()), np.full(len(grid), 1.0 / len(grid))
    return even if not total > 0 else (1.0 - ANYWHERE) * counted / total + ANYWHERE * even


class Everywhere(PopulationPrior):
    """People may be anywhere in the area."""

    kind: Literal["uniform"] = "uniform"

    reference: ClassVar = "Shokri et al., Quantifying Location Privacy, Section III (no knowledge)"

    def probability(self, grid: PlaceGrid, public: Public) -> FloatArray:
        return np.full(len(grid), 1.0 / len(grid))


POPULATIONS = OneOf(
    "population",
    Everywhere,
    places={
        "streets": "fl.population.priors:AlongStreets",
        "buildings": "fl.population.priors:InBuildings",
        "places": "fl.population.priors:AtPlaces",
    },
)
