"""Noise on the cells of a radio map's gradients whose size, and shape, follow the gradient itself."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.defenses.alignment import aligned, at_edge
from fl.defenses.base import Defense
from fl.radio_map.grid import CELLS, HEIGHTS, Grid
from fl.types import Facts, LastFigures, Local, Spend, Updates
from netsim.rng import Rng
from netsim.row_id import row_id
from netsim.units import FloatArray


class ShapedNoise(Defense):
    """Adds n_m ~ N(0, sigma_m^2) to each cell of a height gradient, sum_m sigma_m^2 = mu |g|^2.

    It books nothing: the variance follows the private gradient, and so does the shape, so no epsilon can be stated.
    Other phases pass as they are. Figures: noise_over_gradient (mean of |n|^2 / |g|^2), spread_percent (share of the
    cells that got noise, mean over devices) and largest_share_percent (of the budget on one cell, mean).
    """

    mu: float = Field(ge=0, le=1e9)
    """energy of the noise over that of the (clipped) gradient"""

    reference: ClassVar[str] = (
        "Geometry-Aligned Differential Privacy for Location-Safe Federated Radio Map Construction, Eq. 21"
    )
    needs: ClassVar[dict[str, str]] = {
        CELLS: "its noise has a shape in space, so updates must have a number for each cell of a grid (radio-map)"
    }
    caveat: ClassVar[str] = (
        "no guarantee: the variance of its noise follows the private gradient, so the ledger books nothing; gradients "
        "of the propagation phase travel without noise"
    )

    def start(self, n_ue: int) -> LastFigures:
        return LastFigures()

    @abstractmethod
    def variance(self, g: FloatArray, local: Local, facts: Facts) -> FloatArray:
        """sigma^2 (n, M) from squared gradients g (n, M)."""

    def protect(
        self, updates: Updates, local: Local, facts: Facts, state: LastFigures, rng: Rng
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

    def figures(self, state: LastFigures) -> dict[str, float]:
        return state.figures


class UniformNoise(ShapedNoise):
    """The same variance on every cell, mu |g|^2 / n_cell."""

    kind: Literal["uniform-noise"] = "uniform-noise"
    example: ClassVar[dict[str, Any]] = {"kind": "uniform-noise", "mu": 1.0}

    def variance(self, g: FloatArray, local: Local, facts: Facts) -> FloatArray:
        return np.broadcast_to(self.mu * g.mean(axis=1, keepdims=True), g.shape)


class GeometryAligned(ShapedNoise):
    """Variance along a ramp that leads an attacker away from the device, so wide that it is not conspicuous.

    sigma_m^2 = max(0, r u.c_m + b - g_m): direction u and slope r maximise the attacker's squared error P less
    rho times the spatial variance V; b spends the budget exactly (`fl.defenses.alignment`). The device knows its own
    place.

    Departs from the paper: V is divided by the squared mean and multiplied by 100 m^2, since it is smaller than P by
    eight orders of magnitude; and a table of directions and slopes, refined, stands for the nested ascent.
    """

    kind: Literal["geometry-aligned"] = "geometry-aligned"
    rho: float = Field(default=50.0, ge=0, le=1e9)
    """what spreading the noise counts against leading astray"""
    refine: int = Field(default=1, ge=0, le=10)
    """rounds of local search after the table"""

    reference: ClassVar[str] = (
        "Geometry-Aligned Differential Privacy for Location-Safe Federated Radio Map Construction, Algorithm 1"
    )
    example: ClassVar[dict[str, Any]] = {"kind": "geometry-aligned", "mu": 1.0}

    def variance(self, g: FloatArray, local: Local, facts: Facts) -> FloatArray:
        return aligned(g, facts.public.area, local.mean_x(), self.mu, self.rho, self.refine)


class EdgeNoise(ShapedNoise):
    """The whole budget on that side of the area's edge which is farthest from the gradient's own centroid.

    What maximises the attacker's error alone looks like: it hides nothing of the pattern (the paper's Fig. 3b).
    """

    kind: Literal["edge-noise"] = "edge-noise"
    example: ClassVar[dict[str, Any]] = {"kind": "edge-noise", "mu": 1.0}

    def variance(self, g: FloatArray, local: Local, facts: Facts) -> FloatArray:
        area = facts.public.area
        energy = np.maximum(g.sum(axis=1, keepdims=True), 1e-300)
        return at_edge(g, area, g @ Grid.of(area, g.shape[1]).centre_m / energy, self.mu)


def _mean(values: FloatArray) -> float:
    return float(values.mean()) if len(values) else float("nan")
