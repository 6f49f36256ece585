"""Places of UEs: listed in the scenario, or drawn at random."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field, Strict

from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

# YAML knows lists only; the two numbers inside stay strict
Point = Annotated[tuple[float, float], Strict(False)]
Points = Annotated[tuple[Point, ...], Strict(False), Field(min_length=1)]

_MARGIN = 0.05  # of each side of the area, without places drawn at random
_TRIES = 64  # candidates for a place; each is too near with probability below 0.5


def listed_m(points: tuple[tuple[float, float], ...], ue: IntArray, area: Area, key: str) -> FloatArray:
    """The place (n_ue, 2) of each UE: UE u takes point u mod len(points). A point outside is refused."""
    at_m = np.array(points, dtype=np.float64)
    outside = np.flatnonzero(~area.contains(at_m))
    if outside.size:
        i = int(outside[0])
        raise BadInput(
            f"{key}[{i}]: {points[i]} lies outside the area x {area.x_min_m:g} to {area.x_max_m:g} m, "
            f"y {area.y_min_m:g} to {area.y_max_m:g} m; move the point or enlarge the area"
        )
    return at_m[ue % len(points)]


def inside_m(area: Area, unit: FloatArray) -> FloatArray:
    """Uniform numbers (..., 2) mapped to places inside the margin of the area."""
    return area.sample(_MARGIN + (1 - 2 * _MARGIN) * unit)


def drawn_m(rng: Rng, what: str, ue: IntArray, area: Area, away_from: FloatArray | None) -> FloatArray:
    """A uniform place (n, 2) per UE, at least a third of the shorter side away from another (n, 2)."""
    if away_from is None:
        return inside_m(area, rng.uniform(what, ue, (2,)))
    candidate = inside_m(area, rng.uniform(what, ue, (_TRIES, 2)))  # (n, tries, 2)
    far = np.linalg.norm(candidate - away_from[:, None], axis=2) >= area.side_m.min() / 3
    return np.asarray(candidate[np.arange(len(ue)), far.argmax(axis=1)])
