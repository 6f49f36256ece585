"""Noise on the height gradients of a radio map whose variance depends on the gradient."""

from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.defenses.alignment import aligned, at_edge
from fl.defenses.base import Defense
from fl.radio_map.grid import CELLS, HEIGHTS, HeightGrid
from fl.types import LastFigures, Local, RoundContext, Spend, Updates
from netsim.columns import row_id
from netsim.rng import Rng
from netsim.units import FloatArray


class ShapedNoise(Defense):
    """Adds n_m ~ N(0, sigma_m^2) to each cell of a height gradient, sum_m sigma_m^2 = mu |g|^2.

    There is no spend: the variance depends on the private gradient, so no epsilon can be stated. Updates of other
    phases do not change. Figures: noise_over_gradient (mean of |n|^2 / |g|^2), spread_percent (share of the
    cells that got noise, mean over devices) and largest_share_percent (of the budget on one cell, mean).
    """

    mu: float = Field(ge=0, le=1e9)
    """ratio of the energy of the noise to that of the (clipped) gradient"""

    reference: ClassVar = (
        "Geometry-Aligned Differential Privacy for Location-Safe Federated Radio Map Construction, Eq. 21"
    )
    needs: ClassVar = {
        CELLS: "its noise has a shape in space, so updates must have a number for each cell of a grid (radio-map)"
    }
    caveat: ClassVar[str] = (
        "no guarantee: the variance of its noise follows the private gradient, so the ledger books nothing; gradients "
        "of the propagation phase travel without noise"
    )

    def start(self, n_ue: int) -> LastFigures:
        return LastFigures()

    @abstractmethod
    def variance(self, g: FloatArray, local: Local, facts: RoundContext) -> FloatArray:
        """sigma^2 (n, M) from squared gradients g (n, M)."""

    def protect(
        self, updates: Updates, local: Local, facts: RoundContext, state: LastFigures, rng: Rng
    ) -> tuple[Updates, LastFigures, list[Spend]]:
        if updates.phase != HEIGHTS or not len(updates.ue):
            return updates, state, []
        rows = updates.rows(slice(None))
        # squares of tiny gradients are zero: every row is scaled by its largest number first
        largest = np.abs(rows).max(axis=1, keepdims=True)
        g = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0) ** 2
        sigma2 = self.variance(g, local, facts)
        unit = rng.normal("noise", row_id(updates.ue, updates.model), (updates.n_parameters,))
        noise = np.sqrt(sigma2) * unit
        energy = g.sum(axis=1)
        live = energy > 0
        said = {
            "noise_over_gradient": _mean((noise**2).sum(axis=1)[live] / energy[live]),
            "spread_percent": _mean(100.0 * (sigma2[live] > 0).mean(axis=1)),
            "largest_share_percent": _mean(
                100.0 * sigma2[live].max(axis=1) / np.maximum(sigma2[live].sum(axis=1), 1e-300)
            ),
        }
        return updates.plus(noise * largest), LastFigures(said), []


class UniformNoise(ShapedNoise):
    """The same variance on every cell, mu |g|^2 / n_cell."""

    kind: Literal["uniform-noise"] = "uniform-noise"
    example: ClassVar = {"kind": "uniform-noise", "mu": 1.0}

    def variance(self, g: FloatArray, local: Local, facts: RoundContext) -> FloatArray:
        return np.broadcast_to(self.mu * g.mean(axis=1, keepdims=True), g.shape)


class GeometryAligned(ShapedNoise):
    """Noise variance along a ramp that shifts the weighted centroid of the update away from the UE.

    sigma_m^2 = max(0, r u.c_m + b - g_m): direction u and slope r maximise the attacker's squared error P minus
    rho times the spatial variance V; b is set such that the budget is used exactly (`fl.defenses.alignment`). The UE
    knows its own position.

    Departs from the paper: V is divided by the squared mean and multiplied by 100 m^2, because it is smaller than P by
    eight orders of magnitude; and a refined table of directions and slopes replaces the nested ascent.
    """

    kind: Literal["geometry-aligned"] = "geometry-aligned"
    rho: float = Field(default=50.0, ge=0, le=1e9)
    """weight of the spatial variance of the noise against the attacker's squared error"""
    refine: int = Field(default=1, ge=0, le=10)
    """number of refinement steps after the table search"""

    reference: ClassVar = (
        "Geometry-Aligned Differential Privacy for Location-Safe Federated Radio Map Construction, Algorithm 1"
    )
    example: ClassVar = {"kind": "geometry-aligned", "mu": 1.0}

    def variance(self, g: FloatArray, local: Local, facts: RoundContext) -> FloatArray:
        return aligned(g, facts.public.area, local.mean_x(), self.mu, self.rho, self.refine)


class EdgeNoise(ShapedNoise):
    """The whole budget on the side of the area that is farthest from the centroid of the gradient.

    This maximises the attacker's error only; the pattern of the gradient remains visible (the paper's Fig. 3b).
    """

    kind: Literal["edge-noise"] = "edge-noise"
    example: ClassVar = {"kind": "edge-noise", "mu": 1.0}

    def variance(self, g: FloatArray, local: Local, facts: RoundContext) -> FloatArray:
        area = facts.public.area
        energy = np.maximum(g.sum(axis=1, keepdims=True), 1e-300)
        return at_edge(g, area, g @ HeightGrid.of(area, g.shape[1]).centre_m / energy, self.mu)


def _mean(values: FloatArray) -> float:
    return float(values.mean()) if len(values) else float("nan")
