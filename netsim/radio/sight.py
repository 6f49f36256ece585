"""The line-of-sight slot: which links are in line of sight."""

from abc import abstractmethod
from collections.abc import Callable
from functools import cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.part import Part
from netsim.radio.path_loss import Pairs, PathLoss
from netsim.radio.shadowing import Correlated
from netsim.rng import Rng, ndtr
from netsim.units import BoolArray, FloatArray, IntArray

SightLaw = Callable[[Pairs, FloatArray], BoolArray]
"""(pairs, position_m (n, 2)) -> line of sight (n, n_bs)."""
Geometry = Callable[[FloatArray, Pairs], BoolArray]
"""position_m (n, 2), pairs -> line of sight (n, n_bs) by the city's buildings, without the one that
a UE is in."""


class Sight(Part):
    """Decides which links are in line of sight."""

    kind: str = ""
    needs_of_law: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def build_law(
        self, area: Area, site: IntArray, path_loss: PathLoss, geometry: Geometry, rng: Rng
    ) -> SightLaw:
        """The line-of-sight function of one city, drawn once; site (n_bs,) is the site index of
        each base station.
        """


class AlwaysInSight(Sight, kind="always"):
    """Every link is in line of sight."""

    reference = "netsim: open field"

    def build_law(
        self, area: Area, site: IntArray, path_loss: PathLoss, geometry: Geometry, rng: Rng
    ) -> SightLaw:
        # an absent UE has no sight
        return lambda pairs, position_m: np.isfinite(pairs.distance_2d_m)


class Never(Sight, kind="never"):
    """No link is in line of sight."""

    reference = "netsim: worst case"

    def build_law(
        self, area: Area, site: IntArray, path_loss: PathLoss, geometry: Geometry, rng: Rng
    ) -> SightLaw:
        return lambda pairs, position_m: np.zeros(pairs.distance_2d_m.shape, bool)


class ByGeometry(Sight, kind="geometry"):
    """A link is in line of sight unless a building of the city blocks it.

    The building that a UE is in does not block its links: its walls are the penetration loss.
    """

    reference = "netsim: ray between the antennas against footprints and heights"
    needs = {"buildings": "without any, every link is in sight: take kind always"}

    def build_law(
        self, area: Area, site: IntArray, path_loss: PathLoss, geometry: Geometry, rng: Rng
    ) -> SightLaw:
        return lambda pairs, position_m: geometry(position_m, pairs)


class ByProbability(Sight, kind="probability"):
    """Line of sight with the probability of the path loss law, constant in time.

    A link at distance d is in line of sight where U(place, site) < P_LOS(d). U is uniform and
    spatially correlated: the normal distribution function of a Gaussian field with exponential
    correlation, at the nearest node of a grid of a tenth of the decorrelation distance. Sectors of
    one site share U.
    """

    decorrelation_m: float = Field(50.0, gt=0, le=1e5)
    """decorrelation distance of the line-of-sight state, m"""
    reference = "3GPP TR 38.901 V17.0.0, Table 7.4.2-1; spatial consistency after Section 7.6.3.3"
    needs_of_law = frozenset({"probability of sight"})

    def build_law(
        self, area: Area, site: IntArray, path_loss: PathLoss, geometry: Geometry, rng: Rng
    ) -> SightLaw:
        try:
            field = Correlated(decorrelation_m=self.decorrelation_m).draw_field(
                area, site, rng, 1.0
            )
        except BadInput:  # it names the key of shadowing
            raise BadInput(
                f"world.radio.line_of_sight.decorrelation_m: {self.decorrelation_m:g} m "
                f"needs too fine a grid for "
                f"{len(site)} base stations in this area; give a larger one, or a smaller area"
            ) from None

        @cache
        def draw_at_nodes() -> npt.NDArray[np.float32]:
            return np.asarray(ndtr(field.draw()), np.float32)

        def draw_sight(pairs: Pairs, position_m: FloatArray) -> BoolArray:
            # NaN of an absent UE, which sees no base station
            return field.is_below(draw_at_nodes(), position_m, path_loss.los_probability(pairs))

        return draw_sight
