r"""Places named by chance: uniformly random ones, and those at the density of other people.

k uniformly random places in the area all miss a region that covers a share F of it with probability (1 - F)^k. With
H and W the shares of the area within the same distance of home and of work, and U that of the two discs together,

    P(home found)          = 1 - (1 - H)^k
    P(home and work found) = 1 - (1 - H)^k - (1 - W)^k + (1 - U)^k

A disc around an unknown place is empty, so nothing finds it.
"""

from __future__ import annotations

import numpy as np

from fl.evenly import evenly
from fl.leakage.distances import density_axes, gaussian_density, highest_peaks, within
from netsim.geometry import Area
from netsim.units import FloatArray

_CELLS = 400  # a side, of the grid on which two discs that overlap are integrated


def discs_share(home_m: FloatArray, work_m: FloatArray, radius_m: float, area: Area) -> FloatArray:
    """Shares of the area (3,) within a distance of home (2,), of work (2,), and of either; 0 for an unknown place."""
    home, work = (_disc_share(place, radius_m, area) for place in (home_m, work_m))
    return np.array([home, work, home + work - _overlap_share(home_m, work_m, radius_m, area)])


def _disc_share(place_m: FloatArray, radius_m: float, area: Area) -> float:
    """Share of the area within a distance of one place."""
    if not np.isfinite(place_m).all():
        return 0.0
    reach_m = min(radius_m, float(area.farthest_m(place_m[None])[0]))
    return float(np.clip(within(place_m, np.array([reach_m]), area)[0], 0.0, 1.0))


def _overlap_share(a_m: FloatArray, b_m: FloatArray, radius_m: float, area: Area) -> float:
    """Share of the area within the same distance of two places: by midpoints of a grid over both their squares."""
    if not np.linalg.norm(a_m - b_m) < 2 * radius_m:  # nor where one is unknown
        return 0.0
    low = np.maximum(np.maximum(a_m, b_m) - radius_m, area.low_m)
    high = np.minimum(np.minimum(a_m, b_m) + radius_m, area.high_m)
    if (high <= low).any():
        return 0.0
    x, y = low[:, None] + (high - low)[:, None] * (np.arange(_CELLS) + 0.5) / _CELLS
    near = [np.hypot(x[:, None] - place[0], y - place[1]) <= radius_m for place in (a_m, b_m)]
    return float((near[0] & near[1]).mean() * np.prod((high - low) / area.side_m))


def uniform_shares(home_m: FloatArray, work_m: FloatArray, radius_m: float, area: Area, count: int) -> FloatArray:
    """Probabilities (n, 4) that `count` uniformly random places find home, work and both, and the first one either.

    home_m, work_m (n, 2): NaN where there is none.
    """
    share = np.array([discs_share(h, w, radius_m, area) for h, w in zip(home_m, work_m, strict=True)]).reshape(-1, 3)
    no_home, no_work, neither = ((1.0 - share) ** count).T
    return np.column_stack([1 - no_home, 1 - no_work, 1 - no_home - no_work + neither, share[:, 2]])


def others_peaks(
    ue: FloatArray, points_m: FloatArray, of: FloatArray, area: Area, width_m: float, count: int
) -> list[FloatArray]:
    """The highest density peaks (<= count, 2) of the true positions of all UEs but one, for each UE of `of`.

    ue (n,), points_m (n, 2): positions, and whose they are. Every UE has the same weight, whatever it measured.
    """
    x, y = density_axes(area, width_m)
    order = np.argsort(ue, kind="stable")

    def density(one: float) -> FloatArray:
        own = order[np.searchsorted(ue, one, "left", order) : np.searchsorted(ue, one, "right", order)]
        own = own[evenly(len(own), _MOST_POINTS)]
        return gaussian_density(points_m[own], np.full(len(own), 1 / max(len(own), 1)), x, y, width_m)

    together = sum((density(one) for one in np.unique(ue)), np.zeros((len(x), len(y))))
    least = _RESIDUE * float(together.max())  # where only the one UE was, the difference is a rounding error
    return [highest_peaks(x, y, together - density(one), count, least) for one in of]


_MOST_POINTS = 200  # of a UE in the density of others, evenly taken
_RESIDUE = 1e-9
