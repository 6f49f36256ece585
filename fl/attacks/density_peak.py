"""Attack on population density: the maximum of a UE's surface."""

from typing import ClassVar, Literal, cast

import numpy as np
from pydantic import Field
from scipy import ndimage

from fl.attacks.base import Attack, View
from fl.learners import SurfaceLearner
from fl.types import Estimates, RoundContext, State
from netsim.columns import row_id
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray

TIE = 1e-12  # neighbours on a ridge differ by rounding


def local_maxima(surface: FloatArray, tie: float = TIE) -> BoolArray:
    """Whether points of surfaces (n, P, Q) are no lower than their 8 neighbours; the border takes part.

    Ties count on both sides, within `tie` of the largest value: a constant surface is all maxima.
    """
    slack = tie * np.abs(surface).max(axis=(1, 2), keepdims=True)
    highest = ndimage.maximum_filter(surface, size=(1, 3, 3), mode="constant", cval=-np.inf)
    return np.asarray(surface + slack >= highest)


class DensityPeak(Attack):
    r"""Estimates the position as the maximum of a UE's surface, and places as all local maxima of similar height.

    Estimates: `centroid`, the highest point (the best single guess); `place`, every local maximum of at least the
    highest over `within`, weighted by its height: e_j / sum e. With the mean distance of places by weight
    (`place_error_m`, the Z of the paper) the error of the single guess is recorded, because Z understates leakage: the
    exact height B is reached at the true position only, so with 3 features the maximum is correct although Z includes
    other places.

    A surface that is negative everywhere has one place, its maximum. For a constant surface all points are places. If
    there are more than `max_places`, a random subset is used. Of several bandwidths the first is used.
    """

    kind: Literal["density-peak"] = "density-peak"
    within: float = Field(default=1.1, ge=1, le=1e6)
    """largest ratio of the highest maximum to a local maximum that counts as a place (epsilon_z)"""
    max_places: int = Field(default=500, ge=1, le=100_000)
    """largest number of estimated places per UE and round"""

    reference: ClassVar = "Zong et al., Privacy by Projection, PoPETs 2023, Lemma 1, Section 4.2.2, Eq. 16"
    needs: ClassVar = {
        "surfaces": "reads answers about a grid of points",
        "updates": "reads every device's own surface; a merged one has no UE's peak",
    }

    def run(self, view: View, facts: RoundContext, state: State, rng: Rng) -> tuple[Estimates, State]:
        learner = cast(SurfaceLearner, view.learner)
        surface = learner.surfaces(view.model_before, view.update)[:, 0]
        grid = learner.grid_m(view.model_before)
        said, status = best_points(surface, grid)
        source, p, q = self._named(surface, view.source_model, view.ue, rng)
        height = surface[source, p, q]
        total = np.bincount(source, weights=height, minlength=len(surface))
        flat = total[source] == 0
        many = np.bincount(source, minlength=len(surface))[source]
        weight = np.where(flat, 1.0 / many, height / np.where(flat, 1.0, total[source]))
        sources = np.arange(len(surface))
        estimates = [
            view.spread("centroid", sources, said, status=status),
            view.spread("place", source, grid[p, q], weight=weight),
        ]
        return Estimates.join(estimates), state

    def _named(
        self, surface: FloatArray, model: IntArray, ue: IntArray, rng: Rng
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Source and grid indices (k,) of the places named."""
        peak = local_maxima(surface)
        highest = surface.max(axis=(1, 2), keepdims=True, initial=-np.inf)
        peak &= surface >= np.minimum(highest, highest / self.within)
        source, p, q = np.nonzero(peak)
        owner, place = row_id(ue[source], model[source]), p * surface.shape[2] + q
        order = np.lexsort((rng.uniform("places", owner, item=place), source))
        rank = np.arange(len(source)) - np.searchsorted(source, source)  # both are in the order of sources
        keep = np.sort(order[rank < self.max_places])
        return source[keep], p[keep], q[keep]


def best_points(surface: FloatArray, grid_m: FloatArray) -> tuple[FloatArray, list[str]]:
    """The highest point of each surface (n, P, Q) as a place (n, 2), the middle of the grid of one that is constant."""
    flat = surface.reshape(len(surface), surface.shape[1] * surface.shape[2])
    places = grid_m.reshape(-1, 2)
    constant = np.ptp(flat, axis=1) == 0
    said = np.where(constant[:, None], (places[0] + places[-1]) / 2, places[np.argmax(flat, axis=1)])
    return said, ["constant surface" if c else "ok" for c in constant]
