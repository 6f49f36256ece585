"""Doubtful rows of a trace: impossible speeds, two places at one time, places of no fix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.traces.coordinates import GLOBE, Coordinates, look_like_degrees
from netsim.traces.moves import Moves
from netsim.units import FloatArray

TOO_FAST_M_S = 100.0
_CLOCK_S = 1.0  # clocks of traces show seconds: within one, a user may have moved
_FAR_FROM_NO_FIX_DEG = 1.0
_MANY = 10  # rows, from which on one user per row is odd
_MAX_DEGREES = 2.0  # of a trace; and fewer metres than a walk
_MARGIN_DEG = 1e-4  # 11 m around the rows that a box is to keep


@dataclass(frozen=True)
class TraceSteps:
    """Steps between the rows of one user in order of time: their number, those too fast, those without time, and how
    far the longest of these leads.

    A step is too fast beyond 100 m/s, one between two rows of one time beyond 100 m. Rows of one time and place, as of
    several cells, make no step.
    """

    n: int
    n_fast: int
    n_at_once: int
    apart_m: float

    @property
    def speed(self) -> str:
        """The share that is too fast, for a person."""
        return f"{100 * self.n_fast / max(self.n, 1):.3f} % of steps imply more than {TOO_FAST_M_S:.0f} m/s"


def steps_of(moves: Moves) -> TraceSteps:
    """The steps of rows (n,) in any order."""
    away_m = np.diff(moves.sorted(moves.xy_m), axis=0)
    step_m = np.hypot(away_m[:, 0], away_m[:, 1])
    step_m[np.diff(moves.sorted(moves.user)) != 0] = np.nan
    gap_s = np.diff(moves.sorted(moves.time_s))
    at_once = (gap_s == 0) & (step_m > 0)
    fast = step_m > TOO_FAST_M_S * np.where(gap_s == 0, _CLOCK_S, gap_s)
    n = int((at_once | ((gap_s > 0) & np.isfinite(step_m))).sum())
    return TraceSteps(n, int(fast.sum()), int(at_once.sum()), float(step_m[at_once].max(initial=0.0)))


def doubts(coordinates: Coordinates, place: FloatArray, moves: Moves, steps: TraceSteps) -> tuple[str, ...]:
    """Warnings for the user, each with its remedy; place (n, 2) : as the file has it."""
    found, n = list[str](), len(moves.user)
    if n >= _MANY and len(np.unique(moves.user)) == n:
        remedy = "--columns user=HEADER names another"
        found.append(f"every row is another user: the column of users may number rows; {remedy}")
    if n > 1 and np.ptp(moves.time_s) == 0:
        found.append(
            f"all {n:,} rows have the same time: there is one round, and what scores the map is drawn by time, "
            "so of one user's rows in a cell all are held out or none; give rows times of their own"
        )
    if coordinates.crs == GLOBE:
        found += _no_fixes(place)
    wide_m = float(np.ptp(place, axis=0).max())
    if coordinates.crs is None and look_like_degrees(*place.T) and 0 < wide_m < _MAX_DEGREES:
        remedy = "--columns lon=HEADER,lat=HEADER, or --crs EPSG:4326 for SUMO"
        found.append(f"x and y span {wide_m:.3g} m: if they are longitude and latitude, name them: {remedy}")
    if steps.apart_m > TOO_FAST_M_S * _CLOCK_S:
        far = f"{steps.apart_m / 1e3:,.1f} km" if steps.apart_m >= 1e3 else f"{steps.apart_m:,.1f} m"
        rows = f"{steps.n_at_once:,} rows lie elsewhere than the row before of their user at the same time"
        remedy = "if one name stands for several devices, --columns user=HEADER parts them"
        found.append(f"{rows}, up to {far} away: {remedy}")
    if steps.n_fast:
        remedy = "leave out what is wrong (netsim replay --area-deg or --area-m), or correct the file"
        found.append(f"{steps.speed} ({steps.n_fast:,}): {remedy}")
    return tuple(found)


def _no_fixes(place: FloatArray) -> list[str]:
    """A warning on rows at latitude 0, longitude 0, if the others are elsewhere."""
    zero = (place == 0).all(axis=1)
    rows = f"{int(zero.sum()):,} rows lie at latitude 0, longitude 0, as receivers write that have no fix"
    if zero.all():
        return [f"all {rows}"]
    others = place[~zero]
    if not zero.any() or np.abs(np.median(others, axis=0)).max() < _FAR_FROM_NO_FIX_DEG:
        return []
    corners = [*(others.min(axis=0) - _MARGIN_DEG), *(others.max(axis=0) + _MARGIN_DEG)]
    box = ",".join(f"{corner:.4f}" for corner in corners)
    return [f"{rows}: they stretch the area; netsim replay --area-deg {box} takes all others"]
