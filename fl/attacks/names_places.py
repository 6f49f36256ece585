"""Keys of attacks whose answers are the highest places of one map a UE."""

from abc import abstractmethod

import numpy as np
from pydantic import Field

from fl.attacks.base import Attack, View
from fl.attacks.place_maps import Naming, PlaceMaps, answers, sources_of_owners
from fl.attacks.subspace import AnyFloats
from fl.tracking.place_grid import PlaceGrid
from fl.types import Estimates, RoundContext
from netsim.rng import Rng


class NamesPlaces(Attack):
    """An attack whose answers are the highest places of one map a UE."""

    cell_m: float | None = Field(default=None, ge=0.1, le=1e6)
    """largest distance between the places that are compared, m; none: 1.6 times the shortest length of the learner's
    encoding, wider where that makes more than 100,000 places, at most 25"""
    answers: int = Field(default=2, ge=1, le=8)
    """number of places that are named of each UE"""
    apart_m: float = Field(default=200.0, ge=0, le=1e6)
    """smallest distance between two answers, m"""

    def naming(self, view: View) -> Naming:
        """Reading of its answers: from unsmoothed maps."""
        return Naming(self.answers, self.apart_m, 0.0)


class AddsMaps(NamesPlaces):
    """One whose maps of single rounds are added up over rounds."""

    def start(self) -> PlaceMaps:
        return PlaceMaps.empty()

    def run(self, view: View, facts: RoundContext, state: PlaceMaps, rng: Rng) -> tuple[Estimates, PlaceMaps]:
        owner, source = sources_of_owners(view)
        grid = PlaceGrid.over(facts.public.area, self.cell_m, len(np.union1d(owner, state.owner)), self.label)
        state = state.plus(owner, self.scores(view, grid, rng)[source])
        return answers(view, state, grid, self.naming(view)), state

    @abstractmethod
    def scores(self, view: View, grid: PlaceGrid, rng: Rng) -> AnyFloats:
        """Scores that this round adds to each source's map (n_source, G); 0 of a source that sent nothing."""
