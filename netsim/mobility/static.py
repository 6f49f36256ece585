"""UEs that do not move: at given or uniform places, or drawn from a Gaussian mixture of known
density.
"""

from typing import Annotated

import numpy as np
from pydantic import Field

from netsim.errors import BadInput
from netsim.mobility.base import Ground, Mobility, Points, State, assign_places
from netsim.part import Coordinates, Part, Positive
from netsim.ues import Fixes
from netsim.units import FloatArray, IntArray

_DRAWS = 1000  # of a place away from all base stations


class Still(Mobility):
    """UEs do not move."""

    def advance(
        self, state: State, t0_s: float, t1_s: float, ground: Ground
    ) -> tuple[State, Fixes]:
        return state, Fixes.none()

    def wake_s(self, state: State, now_s: float, ground: Ground) -> float:
        return float("inf")


class Static(Still, kind="static"):
    """UEs do not move: x_u(t) = x_u(0), drawn uniformly outdoors unless `positions_m` lists the
    places.

    UE u takes place u mod len(positions_m), so adding a UE does not move the others. A listed place
    may be indoors.
    """

    reference = "netsim: a fixed deployment"

    positions_m: Points | None = None
    """places [[x, y], ...] in m; none: uniform outdoors"""
    min_station_distance_m: float = Field(0.0, ge=0, le=1e6)
    """smallest horizontal distance from a base station, m; nearer places are drawn again"""

    def start(self, ue: IntArray, ground: Ground) -> State:
        if self.positions_m is not None:
            return State(
                assign_places(self.positions_m, ue, ground.area, "world.ues.mobility.positions_m")
            )
        from scipy.spatial import cKDTree

        rng = ground.streams.derive_rng("mobility.static")
        position_m = ground.buildings.draw_outdoor_m(ground.area, rng, "start", ue)
        stations = cKDTree(ground.stations_m)
        left = np.flatnonzero(stations.query(position_m)[0] < self.min_station_distance_m)
        for draw in range(1, _DRAWS):
            if not left.size:
                return State(position_m)
            position_m[left] = ground.buildings.draw_outdoor_m(
                ground.area, rng, f"start.{draw}", ue[left]
            )
            left = left[stations.query(position_m[left])[0] < self.min_station_distance_m]
        raise BadInput(
            f"world.ues.mobility.min_station_distance_m: {_DRAWS} random places were all within "
            f"{self.min_station_distance_m:g} m of a base station; take a smaller distance"
        )


Deviation = Annotated[float, Field(gt=0, le=1e9)]


class Component(Part):
    """One Gaussian of a mixture."""

    mean_m: Coordinates
    """mean, metres east and north"""
    std_m: tuple[Deviation, Deviation]
    """standard deviations along the component's two principal axes, metres"""
    turn_rad: float = 0.0
    """angle from east to the first principal axis, counter-clockwise"""
    weight: Positive = 1.0
    """weight of the component, relative to the others"""

    @property
    def axes(self) -> FloatArray:
        """Principal axes (2, 2), as columns of length std_m."""
        c = np.cos(self.turn_rad)
        s = np.sin(self.turn_rad)
        return np.array([[c, -s], [s, c]]) * self.std_m


class Mixture(Still, kind="mixture"):
    r"""UEs do not move; their positions are drawn from p(x) = sum_k w_k N(x; at_k, S_k) / sum_k
    w_k.

    S_k = R(turn) diag(std_m^2) R(turn)^T. The distribution is not truncated, so UEs may lie outside
    the area. The density is known for scoring: an estimated density can be compared with it.
    """

    components: tuple[Component, ...] = Field(min_length=1, max_length=1000)
    """the Gaussian components"""

    reference = "Zong et al., Privacy by Projection, PoPETs 2023, Section 4.1.1"
    example = {"kind": "mixture", "components": [{"mean_m": [200, 150], "std_m": [50, 20]}]}

    @property
    def _share(self) -> FloatArray:
        weight = np.array([c.weight for c in self.components])
        return weight / weight.sum()

    def start(self, ue: IntArray, ground: Ground) -> State:
        rng = ground.streams.derive_rng("mobility.mixture")
        k = np.searchsorted(np.cumsum(self._share)[:-1], rng.uniform("component", ue), side="right")
        at_m = np.array([c.mean_m for c in self.components])
        axes = np.array([c.axes for c in self.components])
        return State(at_m[k] + np.einsum("nij,nj->ni", axes[k], rng.normal("place", ue, (2,))))

    def density(self, position_m: FloatArray) -> FloatArray:
        """p(x) at places (k, 2), per square metre."""
        density = np.zeros(len(position_m))
        for share, c in zip(self._share, self.components, strict=True):
            z = np.linalg.solve(c.axes, (position_m - c.mean_m).T)  # (2, k)
            bell = np.exp(-0.5 * (z**2).sum(axis=0))
            density += share * bell / (2 * np.pi * c.std_m[0] * c.std_m[1])
        return density
