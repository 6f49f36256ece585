"""Places of senders by one round alone, and their errors, by which the attack `re-identify` links."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fl.attacks.base import Attack, View
from fl.attacks.learnt_errors import LearntErrors, named_places
from fl.attacks.shadow_ues import Population
from fl.tracking.error_model import ErrorModel
from fl.tracking.place_grid import PlaceGrid
from fl.types import RoundContext
from netsim.geometry import Area
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

_CELLS = 50  # of the grid that made-up UEs are spread over, a side
_OUTLIER = 0.05
_SIMULATED_UES = 32
_ROUGHLY = 0.1  # of the longer side of the area: error of an attack that could not be tried out


@dataclass(frozen=True)
class RoundPlaces:
    """by : the attack that names places, forgetting all at the end of a round; None: places are not used.

    sigma_m, outlier : its error and the share of places that say nothing, where given; shadow_ues : number of UEs
    made up that the error is learnt on, where it is not.
    """

    by: Attack | None
    sigma_m: float | None
    outlier: float | None
    shadow_ues: int | None

    def learnt(self, errors: LearntErrors, view: View, facts: RoundContext, rng: Rng) -> LearntErrors:
        """With what this round tells of errors."""
        if self.by is None or self.sigma_m is not None:
            return errors
        everywhere = Population.uniform(PlaceGrid(facts.public.area, _CELLS, _CELLS))
        n_ue = self.shadow_ues or _SIMULATED_UES
        return errors.plus(view, facts, self.by, everywhere, n_ue, _own(rng), fresh=True)

    def errors_now(self, learnt: LearntErrors, area: Area) -> ErrorModel:
        """Errors of the places."""
        if self.sigma_m is not None:
            return ErrorModel.plain(self.sigma_m, _OUTLIER if self.outlier is None else self.outlier)
        if learnt.fitted is not None:
            return learnt.fitted
        return ErrorModel.plain(_ROUGHLY * float(area.side_m.max()), _OUTLIER)

    def named_m(self, name: IntArray, view: View, facts: RoundContext, rng: Rng) -> FloatArray:
        """Places of the senders (k,) ascending: (k, R, 2), NaN where none is named."""
        if self.by is None:
            return np.full((len(name), 1, 2), np.nan)
        said, _ = self.by.run(view, facts, self.by.start(), _own(rng))
        known, z_m = named_places(said, facts.public.area)
        places_m = np.full((len(name), *z_m.shape[1:]), np.nan)
        places_m[np.searchsorted(name, known)] = z_m
        return places_m


def _own(rng: Rng) -> Rng:
    """Draws of the attack on single rounds."""
    return replace(rng, purpose=f"{rng.purpose}.by")
