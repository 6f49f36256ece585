"""The population slot: public knowledge of where people are, before any estimate."""

from abc import abstractmethod
from functools import lru_cache
from typing import ClassVar

import numpy as np

from fl.tracking.place_grid import PlaceGrid
from fl.types import Public
from netsim.columns import rank_in_groups
from netsim.errors import BadInput
from netsim.geometry import measure_lengths
from netsim.part import FileName, OneOf, Part
from netsim.units import FloatArray

ANYWHERE = 0.1
"""share of people who may be anywhere, whatever is known of the others"""


class PopulationPrior(Part):
    """A law of where people are. It depends on public facts alone."""

    kind: str = ""
    reads_city: ClassVar = False
    """whether it reads streets or buildings from the public facts"""

    @abstractmethod
    def compute_probability(self, grid: PlaceGrid, public: Public) -> FloatArray:
        """Probability (G,) of each cell; raises BadInput where the facts are not there."""


def spread_weights(grid: PlaceGrid, place_m: FloatArray, weight: FloatArray) -> FloatArray:
    """Probability (G,) of weights (n,) at places (n, 2), of which those inside count; a share
    ANYWHERE is uniform.
    """
    inside = grid.area.contains(place_m)
    cell = grid.find_cells(place_m[inside])
    counted = np.bincount(cell, weights=weight[inside], minlength=len(grid))
    total = counted.sum()
    even = np.full(len(grid), 1.0 / len(grid))
    if not total > 0:
        return even
    return (1.0 - ANYWHERE) * counted / total + ANYWHERE * even


class Everywhere(PopulationPrior, kind="uniform"):
    """People may be anywhere in the area."""

    reference = "Shokri et al., Quantifying Location Privacy, Section III (no knowledge)"

    def compute_probability(self, grid: PlaceGrid, public: Public) -> FloatArray:
        return np.full(len(grid), 1.0 / len(grid))


_STEPS_A_CELL = 4
_FARTHEST_M = 1e9


class AlongStreets(PopulationPrior, kind="streets"):
    """The length of streets in each cell; a tenth of the people are anywhere. For a city with
    streets.
    """

    reads_city = True

    reference = "netsim: a map of streets is public knowledge"

    def compute_probability(self, grid: PlaceGrid, public: Public) -> FloatArray:
        if public.street_m is None or not len(public.street_m):
            raise BadInput(
                "learning.attacks: population: streets: the city has no streets; take a town, an "
                "OpenStreetMap or SUMO file, or population: {kind: uniform}"
            )
        a = public.street_m[:, 0]
        b = public.street_m[:, 1]
        length = measure_lengths(b - a)
        count = np.maximum(np.ceil(length / grid.cell_m.min() * _STEPS_A_CELL), 1).astype(int)
        street = np.repeat(np.arange(len(a)), count)
        share = (rank_in_groups(count) + 0.5) / count[street]
        place_m = a[street] + share[:, None] * (b - a)[street]
        return spread_weights(grid, place_m, length[street] / count[street])


class InBuildings(PopulationPrior, kind="buildings"):
    """The floor area of buildings by the cell of their middle; a tenth of the people are anywhere.

    A building has a floor each 3 m. For a city with buildings.
    """

    reads_city = True

    reference = "netsim: a map of buildings is public knowledge"

    def compute_probability(self, grid: PlaceGrid, public: Public) -> FloatArray:
        if public.floor_area is None or not len(public.floor_area):
            raise BadInput(
                "learning.attacks: population: buildings: the city has no buildings; take a town "
                "or a file of footprints, or population: {kind: uniform}"
            )
        return spread_weights(grid, public.floor_area[:, :2], public.floor_area[:, 2])


class AtPlaces(PopulationPrior, kind="places"):
    """Positions of other people, published as a CSV file with columns x_m and y_m (metres east and
    north of the world).

    Every row counts alike; a tenth of the people are anywhere.
    """

    file: FileName
    """path of the CSV file"""

    reference = "Shokri et al., Quantifying Location Privacy, Section III (traces known beforehand)"
    example = {"kind": "places", "file": "places.csv"}

    def compute_probability(self, grid: PlaceGrid, public: Public) -> FloatArray:
        place_m = _read_places(self.file)
        if not grid.area.contains(place_m).any():
            raise BadInput(
                f"{self.file}: none of its {len(place_m):,} places lies in the area of the world"
            )
        return spread_weights(grid, place_m, np.ones(len(place_m)))


@lru_cache(maxsize=4)
def _read_places(name: str) -> FloatArray:
    """The places (n, 2) of a file."""
    from netsim.traces.source import read_number_table  # not for scenarios without such a file

    bounds = dict.fromkeys(("x_m", "y_m"), (-_FARTHEST_M, _FARTHEST_M))
    return np.asarray(read_number_table(name, bounds, [*bounds]), float)


POPULATIONS = OneOf("population", Everywhere, AlongStreets, InBuildings, AtPlaces)
