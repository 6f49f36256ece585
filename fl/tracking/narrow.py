r"""Narrow Gaussians of motion: sums over the cells around each cell.

A Gaussian G = D^-1 T on an axis: T is symmetric with the masses t_|i - j| in a cell at a distance, D its row sums, so
that what would leave the area ends inside. Distances end where both tails hold less than 3e-7.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fl.tracking.maps import Maps
from netsim.columns import frozen
from netsim.rng import ndtr, ndtri
from netsim.units import Float32Array

_TAILS = 3e-7
_AT_ONCE = 4  # neighbours a side that the compiled loop adds at once


@frozen
class NarrowAxis:
    """tap (h + 1,) : t, h a multiple of 4; norm (n,) : 1 / D; one (n,) : 1; matrix (n, n) : G transposed."""

    tap: Float32Array
    norm: Float32Array
    one: Float32Array
    matrix: Float32Array

    @classmethod
    def of(cls, n: int, cell_m: float, sigma_m: float) -> NarrowAxis:
        """Narrow Gaussian over n cells."""
        reach = min(int(np.ceil(-ndtri(_TAILS / 2) * sigma_m / cell_m)), n - 1)
        edge = (np.arange(reach + 2) - 0.5) * (cell_m / sigma_m)
        tap = np.append(ndtr(-edge[:-1]) - ndtr(-edge[1:]), [0.0] * (-reach % _AT_ONCE))
        away = np.abs(np.arange(n)[:, None] - np.arange(n))
        mass = np.where(away < len(tap), tap[np.minimum(away, len(tap) - 1)], 0.0)
        norm, one = 1.0 / mass.sum(axis=1), np.ones(n, dtype=np.float32)
        return cls(tap.astype(np.float32), norm.astype(np.float32), one, np.asarray(mass * norm, dtype=np.float32))


@dataclass(frozen=True)
class Narrow:
    """A Gaussian along both axes."""

    y: NarrowAxis
    x: NarrowAxis

    def add(self, out: Maps, p: Maps, weight: Maps) -> None:
        """out += w p G for maps (n_ue, ny, nx), weight (n_ue,)."""
        from fl.tracking.narrow_loops import add_spread

        y, x = self.y, self.x
        add_spread(out, p, weight, y.tap, x.tap, y.norm, x.norm, y.one, x.one, p[:0])

    def add_back(self, out: Maps, v: Maps, weight: Maps, p: Maps) -> Maps:
        """out += w G v; <p, G v> (n_ue,), or none (0,) of no maps p."""
        from fl.tracking.narrow_loops import add_spread

        y, x = self.y, self.x
        return add_spread(out, v, weight, y.tap, x.tap, y.one, x.one, y.norm, x.norm, p)
