"""UEs that stand where a mixture of Gaussians puts them: a population whose density is known."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.mobility.base import Ground, Mobility, State
from netsim.observations import Fixes
from netsim.part import Coordinates, Part
from netsim.units import FloatArray, IntArray


class Component(Part):
    """One Gaussian of a mixture."""

    at_m: Coordinates
    """its middle, metres east and north"""
    std_m: tuple[Annotated[float, Field(gt=0, le=1e9)], Annotated[float, Field(gt=0, le=1e9)]]
    """standard deviations along its own two axes, metres"""
    turn_rad: float = 0.0
    """angle from east to its first axis, counter-clockwise"""
    weight: float = Field(default=1.0, gt=0, le=1e6)
    """how many UEs it has, against the others"""

    @property
    def axes(self) -> FloatArray:
        """Its axes, as columns of length std_m: (2, 2)."""
        c, s = np.cos(self.turn_rad), np.sin(self.turn_rad)
        return np.asarray(np.array([[c, -s], [s, c]]) * np.array(self.std_m))


class Mixture(Mobility):
    r"""Nobody moves: UEs stand at places drawn from p(x) = sum_k w_k N(x; at_k, S_k) / sum_k w_k.

    S_k = R(turn) diag(std_m^2) R(turn)^T. The tails reach beyond the area, and so may UEs. The law is known, for
    scoring only: an estimate of the density can be compared with the density.
    """

    kind: Literal["mixture"] = "mixture"
    components: tuple[Component, ...] = Field(min_length=1, max_length=1000)
    """the Gaussians"""

    reference: ClassVar[str] = "Zong et al., Privacy by Projection, PoPETs 2023, Section 4.1.1"
    example: ClassVar[dict[str, Any]] = {"kind": "mixture", "components": [{"at_m": [200, 150], "std_m": [50, 20]}]}

    @property
    def _share(self) -> FloatArray:
        weight = np.array([c.weight for c in self.components])
        return np.asarray(weight / weight.sum())

    def start(self, ue: IntArray, ground: Ground) -> State:
        """Positions (n_ue, 2), for good."""
        rng = ground.streams.at("mobility.mixture")
        edges = np.cumsum(self._share)[:-1]
        k = np.searchsorted(edges, rng.uniform("component", ue), side="right")
        at_m, axes = np.array([c.at_m for c in self.components]), np.array([c.axes for c in self.components])
        return State(at_m[k] + np.einsum("nij,nj->ni", axes[k], rng.normal("place", ue, (2,))))

    def advance(self, state: State, t0_s: float, t1_s: float, ground: Ground) -> tuple[State, Fixes]:
        """Time passes."""
        return state, Fixes.none()

    def wake_s(self, state: State, now_s: float, ground: Ground) -> float:
        """Never."""
        return float("inf")

    def density(self, position_m: FloatArray) -> FloatArray:
        """p(x) at places (k, 2), per square metre."""
        density = np.zeros(len(position_m))
        for share, c in zip(self._share, self.components, strict=True):
            z = np.linalg.solve(c.axes, (position_m - np.array(c.at_m)).T)  # (2, k)
            density += share * np.exp(-0.5 * (z**2).sum(axis=0)) / (2 * np.pi * c.std_m[0] * c.std_m[1])
        return density
