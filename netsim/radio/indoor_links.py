"""Random terms of the links of UEs inside buildings: shadowing indoors, and effective environment heights.

Both are numbers of a (site, UE) pair that are computed where they are needed: a city has more rooms than memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from netsim.indoors import Indoors
from netsim.radio.base import Pairs, PathLoss
from netsim.rng import Rng
from netsim.row_id import MAX_STATIONS
from netsim.units import FloatArray, IntArray

_WORDS = 4  # random numbers of one block of the generator: as many sites share it
_GROUPS = MAX_STATIONS // _WORDS
_NODES = 1 << 20  # of a lattice along one axis, around the origin
_FLOORS = 1 << 12
LATTICE_CORRELATION = 0.9027
"""distance over spacing at which two random points have correlation 1/e in `IndoorShadow`"""
_MIN_EFFECTIVE_M = 4.0  # [TR 38.901, Table 7.4.1-1] h_BS - h_E at h_BS = 25 m and the highest h_E, 21 m
_BLOCK = 2048  # UEs at once, to bound memory


def _of_sites(rng: Rng, what: str, owner: IntArray, item: IntArray, site: IntArray) -> FloatArray:
    """Uniform numbers (n, n_bs): that of site s depends on (seed, owner, item, s) only."""
    groups, column = np.unique(site // _WORDS, return_inverse=True)
    owners = (owner[:, None] * _GROUPS + groups).reshape(-1)
    unit = rng.uniform(what, owners, (_WORDS,), item=np.repeat(item, len(groups)))
    return unit.reshape(len(owner), -1).take(column * _WORDS + site % _WORDS, axis=1)


@dataclass(frozen=True, eq=False)
class IndoorShadow:
    """Shadowing of UEs inside buildings: one field for each (site, building, floor).

    Buildings and floors are independent, and so are sites but for `site_correlation`.

    Standard normal numbers at the nodes of a square lattice, interpolated bilinearly and divided by the standard
    deviation of the interpolated value, so that every position has exactly `std_db`. The spacing is chosen such that
    two random points at distance `decorrelation_m` have correlation 1/e; beyond two spacings they are independent.
    """

    std_db: float
    decorrelation_m: float
    site: IntArray
    rng: Rng
    site_correlation: float = 0.0

    def __call__(self, position_m: FloatArray, indoors: Indoors) -> FloatArray:
        """Shadowing in dB (n, n_bs) of UEs at positions (n, 2), all of them inside."""
        sites, column = np.unique(self.site, return_inverse=True)
        value = np.empty((len(position_m), len(sites)))
        for at in range(0, len(position_m), _BLOCK):
            some = slice(at, at + _BLOCK)
            value[some] = self._interpolated(position_m[some], indoors.select(some), sites)
        return value.take(column, axis=1)

    def _interpolated(self, position_m: FloatArray, indoors: Indoors, sites: IntArray) -> FloatArray:
        from scipy.special import ndtri

        at = position_m * (LATTICE_CORRELATION / self.decorrelation_m)
        known = np.isfinite(at)
        cell = np.floor(np.where(known, at, 0.0)).astype(np.int64)
        part = at - cell
        x, y = part.T
        weight = np.stack([(1 - x) * (1 - y), x * (1 - y), (1 - x) * y, x * y])  # (4, n)
        weight /= np.sqrt((weight**2).sum(axis=0))
        owner = indoors.building * _FLOORS + indoors.floor % _FLOORS
        total = np.zeros((len(at), len(sites)))
        for k, corner in enumerate(((0, 0), (1, 0), (0, 1), (1, 1))):
            node = (cell + np.array(corner) + _NODES // 2) % _NODES
            item = node[:, 0] * _NODES + node[:, 1]
            value = ndtri(_of_sites(self.rng, "indoors", owner, item, sites))
            if self.site_correlation:
                common = self.rng.normal("indoors.common", owner, item=item)
                value *= sqrt(1.0 - self.site_correlation)
                value += sqrt(self.site_correlation) * common[:, None]
            total += weight[k, :, None] * value
        return self.std_db * total


@dataclass(frozen=True, eq=False)
class Environment:
    """Effective environment heights h_E of the links of UEs indoors above `PathLoss.environment_above_m`.

    Drawn for each (UE, stay, site); 1 m for UEs below and for UEs outdoors.

    Departs from the source for base stations below 25 m: h_E is at most 4 m below the antenna, which is what the table
    gives at its own 25 m. Else the breakpoint distance would fall to 0.
    """

    path_loss: PathLoss
    site: IntArray
    rng: Rng

    def __call__(self, pairs: Pairs, indoors: Indoors) -> FloatArray | None:
        """h_E (n, n_bs) in m; None where it is 1 m on all links."""
        height_m = pairs.ue_height_m
        if not isinstance(height_m, np.ndarray):
            return None
        rows = np.flatnonzero(indoors.inside & (height_m[:, 0] > self.path_loss.environment_above_m))
        if not rows.size:
            return None
        unit = _of_sites(self.rng, "environment", indoors.ue[rows], indoors.stay[rows], self.site)
        environment_m = np.ones(pairs.distance_2d_m.shape)
        drawn_m = self.path_loss.environment_m(pairs.distance_2d_m[rows], height_m[rows], unit)
        environment_m[rows] = np.minimum(drawn_m, np.maximum(pairs.bs_height_m - _MIN_EFFECTIVE_M, 1.0))
        return environment_m
