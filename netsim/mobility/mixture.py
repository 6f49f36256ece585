"""Static UEs at positions drawn from a Gaussian mixture, so that the population density is known."""

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.mobility.base import Ground, Mobility, State
from netsim.part import Coordinates, Part
from netsim.ues import Fixes
from netsim.units import FloatArray, IntArray


class Component(Part):
    """One Gaussian of a mixture."""

    mean_m: Coordinates
    """mean, metres east and north"""
    std_m: tuple[Annotated[float, Field(gt=0, le=1e9)], Annotated[float, Field(gt=0, le=1e9)]]
    """standard deviations along the component's two principal axes, metres"""
    turn_rad: float = 0.0
    """angle from east to the first principal axis, counter-clockwise"""
    weight: float = Field(default=1.0, gt=0, le=1e6)
    """weight of the component, relative to the others"""

    renamed: ClassVar = {"at_m": "mean_m"}

    @property
    def axes(self) -> FloatArray:
        """Principal axes (2, 2), as columns of length std_m."""
        c, s = np.cos(self.turn_rad), np.sin(self.turn_rad)
        return np.asarray(np.array([[c, -s], [s, c]]) * np.array(self.std_m))


class Mixture(Mobility):
    r"""UEs do not move; their positions are drawn from p(x) = sum_k w_k N(x; at_k, S_k) / sum_k w_k.

    S_k = R(turn) diag(std_m^2) R(turn)^T. The distribution is not truncated, so UEs may lie outside the area. The
    density is known for scoring: an estimated density can be compared with it.
    """

    kind: Literal["mixture"] = "mixture"
    components: tuple[Component, ...] = Field(min_length=1, max_length=1000)
    """the Gaussian components"""

    reference: ClassVar = "Zong et al., Privacy by Projection, PoPETs 2023, Section 4.1.1"
    example: ClassVar = {"kind": "mixture", "components": [{"mean_m": [200, 150], "std_m": [50, 20]}]}

    @property
    def _share(self) -> FloatArray:
        weight = np.array([c.weight for c in self.components])
        return np.asarray(weight / weight.sum())

    def start(self, ue: IntArray, ground: Ground) -> State:
        """Positions (n_ue, 2), which do not change."""
        rng = ground.streams.at("mobility.mixture")
        edges = np.cumsum(self._share)[:-1]
        k = np.searchsorted(edges, rng.uniform("component", ue), side="right")
        at_m, axes = np.array([c.mean_m for c in self.components]), np.array([c.axes for c in self.components])
        return State(at_m[k] + np.einsum("nij,nj->ni", axes[k], rng.normal("place", ue, (2,))))

    def advance(self, state: State, t0_s: float, t1_s: float, ground: Ground) -> tuple[State, Fixes]:
        """The same state, without fixes."""
        return state, Fixes.none()

    def wake_s(self, state: State, now_s: float, ground: Ground) -> float:
        """Infinity: no UE ever moves."""
        return float("inf")

    def density(self, position_m: FloatArray) -> FloatArray:
        """p(x) at places (k, 2), per square metre."""
        density = np.zeros(len(position_m))
        for share, c in zip(self._share, self.components, strict=True):
            z = np.linalg.solve(c.axes, (position_m - np.array(c.mean_m)).T)  # (2, k)
            density += share * np.exp(-0.5 * (z**2).sum(axis=0)) / (2 * np.pi * c.std_m[0] * c.std_m[1])
        return density
