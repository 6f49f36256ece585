r"""What particles say: probabilities of cells, the place to name, and how probable it is.

In cells a particle is no point: with d_i the distance to its sqrt(P)-th nearest neighbour, it is a Gaussian of d_i / 2
a axis, inside the area. Where particles are far denser than cells this counts them; where they are few, cells between
them are not left empty.

[Silverman 1986, Section 2.6, the variable kernel method]
"""

from __future__ import annotations

import numpy as np

from fl.tracking.cloud import Cloud
from fl.tracking.place_grid import PlaceGrid
from fl.tracking.wide import Maps
from netsim.normal import ndtr
from netsim.units import FloatArray

_STEPS, _NEAREST_M = 60, 0.1  # of the median
_WIDTH = 0.5  # of the distance to the neighbour


def counted(cloud: Cloud, grid: PlaceGrid) -> Maps:
    """Probability (n, G) of the cells of a grid."""
    out = np.empty((len(cloud.place_m), grid.ny, grid.nx), dtype=np.float32)
    for i, (place_m, log_weight) in enumerate(zip(cloud.place_m, cloud.log_weight, strict=True)):
        wide_m = _WIDTH * _neighbour_m(place_m)
        x, y = (
            _shares(place_m[:, axis], wide_m, grid.area.low_m[axis], grid.cell_m[axis], cells)
            for axis, cells in enumerate((grid.nx, grid.ny))
        )
        out[i] = (y * np.exp(log_weight)[:, None]).T @ x
    return out.reshape(len(out), len(grid))


def middle_m(cloud: Cloud) -> FloatArray:
    """Place (n, 2) of least expected distance to particles: their median, by Weiszfeld's iteration."""
    p, x = np.exp(cloud.log_weight), cloud.place_m
    at = np.einsum("np,npc->nc", p, x)
    for _ in range(_STEPS):
        pull = p / np.maximum(np.linalg.norm(x - at[:, None], axis=2), _NEAREST_M)
        at = np.einsum("np,npc->nc", pull, x) / pull.sum(axis=1)[:, None]
    return np.asarray(at)


def probability_within(cloud: Cloud, place_m: FloatArray, near_m: float, bias_m: float) -> FloatArray:
    """Probability (n,) that UEs are within near_m of places (n, 2), where particles are displaced by bias_m a axis."""
    away = np.linalg.norm(cloud.place_m - place_m[:, None], axis=2)
    inside = (away <= near_m).astype(np.float64)
    if bias_m > 0:  # a distance from a displaced place has a Rice distribution
        close = away < near_m + 8 * bias_m
        from scipy.special import chndtr

        inside = np.where(close, chndtr((near_m / bias_m) ** 2, 2.0, (np.where(close, away, 0.0) / bias_m) ** 2), 0.0)
    return np.asarray((np.exp(cloud.log_weight) * inside).sum(axis=1))


def _neighbour_m(place_m: FloatArray) -> FloatArray:
    """Distance (P,) of particles (P, 2) of one UE to a near one."""
    from scipy.spatial import cKDTree

    found = cKDTree(place_m).query(place_m, k=[int(len(place_m) ** 0.5) + 1])[0]
    return np.asarray(found[:, 0])


def _shares(at_m: FloatArray, wide_m: FloatArray, low_m: float, cell_m: float, cells: int) -> FloatArray:
    """Share (P, cells) of Gaussians around places (P,) in each cell of an axis; rows sum to 1."""
    edge = low_m + cell_m * np.arange(cells + 1)
    below = ndtr((edge - at_m[:, None]) / np.maximum(wide_m, 1e-6 * cell_m)[:, None])
    share = np.diff(below, axis=1)
    return np.asarray(share / share.sum(axis=1, keepdims=True))
