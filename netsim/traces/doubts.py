"""Doubtful rows of a trace: impossible speeds, two places at one time, places of no fix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.traces.crs import look_like_degrees
from netsim.traces.order import Index, arranged
from netsim.traces.points import Degrees, Metres, Points
from netsim.traces.resample import Moves
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

    @property
    def at_once(self) -> str:
        """Rows in two places at one time, for a person; empty if there are none."""
        if not self.n_at_once:
            return ""
        far = f"{self.apart_m / 1e3:,.1f} km" if self.apart_m >= 1e3 else f"{self.apart_m:,.1f} m"
        rows = f"{self.n_at_once:,} rows lie elsewhere than the row before of their user at the same time"
        return f"{rows}, up to {far} away: if one name stands for several devices, --columns user=HEADER parts them"


def steps_of(moves: Moves) -> TraceSteps:
    """The steps of rows (n,) in any order."""
    user, time_s, xy_m, order = moves.user, moves.time_s, moves.xy_m, moves.order
    user, time_s = user if order is None else user[order], arranged(time_s, order)
    away_m = np.diff(arranged(xy_m, order), axis=0)
    step_m = np.hypot(away_m[:, 0], away_m[:, 1])
    step_m[user[1:] != user[:-1]] = np.nan
    gap_s = np.diff(time_s)
    moved = (gap_s > 0) | (step_m > 0)
    at_once = (gap_s == 0) & (step_m > 0)
    fast = step_m > TOO_FAST_M_S * np.where(gap_s == 0, _CLOCK_S, gap_s)
    n = int((moved & np.isfinite(step_m)).sum())
    return TraceSteps(n, int(fast.sum()), int(at_once.sum()), float(step_m[at_once].max(initial=0.0)))


def doubts(points: Points, moves: Moves, steps: TraceSteps) -> tuple[str, ...]:
    """Warnings for the user, each with its remedy."""
    found = [*_as_many_users(moves.user), *_at_once(moves.time_s), *_no_fixes(points), *_degrees_as_metres(points)]
    found += [steps.at_once] if steps.apart_m > TOO_FAST_M_S * _CLOCK_S else []
    if steps.n_fast:
        remedy = "leave out what is wrong (netsim replay --area-deg or --area-m), or correct the file"
        found.append(f"{steps.speed} ({steps.n_fast:,}): {remedy}")
    return tuple(found)


def _as_many_users(user: Index) -> tuple[str, ...]:
    """A warning where every row is another user."""
    if len(user) < _MANY or len(np.unique(user)) < len(user):
        return ()
    return ("every row is another user: the column of users may number rows; --columns user=HEADER names another",)


def _at_once(time_s: FloatArray) -> tuple[str, ...]:
    """A warning where all rows have one time."""
    if len(time_s) < 2 or np.ptp(time_s) > 0:
        return ()
    return (
        f"all {len(time_s):,} rows have the same time: there is one round, and what scores the map is drawn by time, "
        "so of one user's rows in a cell all are held out or none; give rows times of their own",
    )


def _degrees_as_metres(points: Points) -> tuple[str, ...]:
    """A warning on metres that could be longitude and latitude, and span next to nothing."""
    if not isinstance(points, Metres) or points.crs is not None or not look_like_degrees(*points.columns):
        return ()
    wide_m = max(float(np.ptp(column)) for column in points.columns)
    if not 0 < wide_m < _MAX_DEGREES:
        return ()
    remedy = (
        "if they are longitude and latitude, name them: --columns lon=HEADER,lat=HEADER, or --crs EPSG:4326 for SUMO"
    )
    return (f"x and y span {wide_m:.3g} m: {remedy}",)


def _no_fixes(points: Points) -> tuple[str, ...]:
    """A warning on rows at latitude 0, longitude 0, if the others are elsewhere."""
    if not isinstance(points, Degrees):
        return ()
    lat_deg, lon_deg = points.columns
    zero = (lat_deg == 0) & (lon_deg == 0)
    others = lat_deg[~zero], lon_deg[~zero]
    if zero.all():
        return (f"all {len(zero):,} rows lie at latitude 0, longitude 0, as receivers write that have no fix",)
    if not zero.any() or max(abs(float(np.median(o))) for o in others) < _FAR_FROM_NO_FIX_DEG:
        return ()
    corners = [o.min() - _MARGIN_DEG for o in others] + [o.max() + _MARGIN_DEG for o in others]
    box = ",".join(f"{corner:.4f}" for corner in corners)
    rows = f"{int(zero.sum()):,} rows lie at latitude 0, longitude 0, as receivers write that have no fix"
    return (f"{rows}: they stretch the area; netsim replay --area-deg {box} takes all others",)
