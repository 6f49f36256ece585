"""Checks of a world: places outside of its area, laws beyond their range, masts inside buildings.

Each function gives warnings for the user. Those that also refuse say so.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netsim.base_stations import BaseStation
from netsim.city.buildings import Buildings
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.indoors import STOREY_M, Indoors
from netsim.mobility.base import Ground
from netsim.setting import WorldSetting
from netsim.traces.trace import Trace
from netsim.units import FloatArray

_MAX_OUTSIDE_M = 100e3  # an antenna outside of the area
_MAX_OUTSIDE = 0.1  # of UEs that start outside of the area, or of rows of a trace, without a warning
_SAME_ORIGIN_M = 10.0  # between the origins of a trace and of a city
_MIN_SIDE_M = 10.0  # of an area in which places differ


def trace_outside(setting: WorldSetting, area: Area, trace: Trace | None) -> tuple[str, ...]:
    """Warnings on doubtful rows of a trace, and on rows outside of the city; raises BadInput where all are outside."""
    if trace is None or not setting.city.has_size:
        return () if trace is None else trace.doubts
    own, city = trace.origin_deg, setting.city.origin()
    if own is not None and city is not None:
        away_m = _apart_m(own, city)
        if away_m > _SAME_ORIGIN_M:
            raise BadInput(
                f"world.city.origin_deg: the (0, 0) of the trace is {away_m:,.0f} m from that of the city; set it to "
                f"[{own[0]:.7g}, {own[1]:.7g}], which is the trace's"
            )
    outside = float(np.mean(~area.contains(trace.position_m)))
    (x_m, y_m), (right_m, top_m) = area.low_m, area.high_m
    where = f"the area x {x_m:g} to {right_m:g} m, y {y_m:g} to {top_m:g} m"
    if outside == 1.0:
        raise BadInput(f"world.city: the whole trace lies outside of {where}; take the city that it was recorded in")
    warned = () if outside <= _MAX_OUTSIDE else (f"{100 * outside:.3g} % of the trace lies outside of {where}",)
    return (*trace.doubts, *warned)


def _apart_m(a_deg: tuple[float, float], b_deg: tuple[float, float]) -> float:
    """Distance of two places given by latitude and longitude."""
    from pyproj import Geod

    return float(Geod(ellps="WGS84").inv(a_deg[1], a_deg[0], b_deg[1], b_deg[0])[2])


def tall_floors(setting: WorldSetting, ground: Ground, indoors: Indoors | None) -> tuple[str, ...]:
    """A warning where floors lie above the UE heights that the path loss law was published for."""
    if indoors is None:
        return ()
    law = setting.radio.path_loss
    floors = int(max(ground.premises.floors.max(initial=1) - 1, indoors.floor.max(initial=0)))
    height_m, max_m = setting.ues.height_m + STOREY_M * floors, law.ue_heights_m[1]
    if height_m <= max_m:
        return ()
    return (
        f"path loss {law.kind_name()} was published for UEs up to {max_m:g} m high; on floors up to {height_m:g} m it "
        f"has the loss at {max_m:g} m",
    )


def long_links(setting: WorldSetting, stations: tuple[BaseStation, ...], area: Area) -> tuple[str, ...]:
    """Warnings where base stations stand far outside of the area, or links are longer than the path loss law was
    published for; raises BadInput where that must be an error.
    """
    if not stations:
        return ()
    away_m = area.farthest_m(np.array([b.position_m for b in stations]))
    far = int(np.argmax(away_m))
    check_near(area, stations[far].position_m, f"world.base_stations[{far}].position_m: {stations[far].name}")
    law = setting.radio.path_loss
    outside = _far_stations(setting, area)
    if away_m[far] <= law.max_distance_m:
        return outside
    return (
        *outside,
        f"path loss {law.kind_name()} was published for links of up to {law.max_distance_m:g} m; those of "
        f"{stations[far].name} reach {away_m[far]:.0f} m and are extrapolated",
    )


def _far_stations(setting: WorldSetting, area: Area) -> tuple[str, ...]:
    """A warning where listed base stations stand farther outside of the area than its longer side is long."""
    stations = setting.listed_stations
    at_m = np.array([b.position_m for b in stations]).reshape(-1, 2)
    away_m = np.linalg.norm(at_m - np.clip(at_m, area.low_m, area.high_m), axis=1)
    far = np.flatnonzero(away_m > area.side_m.max())
    if not len(far):
        return ()
    farthest, (width_m, height_m) = int(np.argmax(away_m)), area.side_m
    more = f", and {len(far) - 1} more do as well" if len(far) > 1 else ""
    return (
        f"base station {stations[farthest].name} stands {away_m[farthest]:,.0f} m outside of the area of {width_m:g} x "
        f"{height_m:g} m{more}; give position_m in metres in the plane of the area",
    )


def check_near(area: Area, at_m: tuple[float, float], who: str) -> None:
    """Raises BadInput where an antenna stands implausibly far from the area."""
    away_m = float(area.farthest_m(np.array([at_m]))[0])
    max_m = float(np.linalg.norm(area.side_m)) + _MAX_OUTSIDE_M
    if away_m > max_m:
        raise BadInput(
            f"{who} stands {away_m / 1e3:g} km from the far corner of the area, at most {max_m / 1e3:g} km are "
            "plausible; give metres in the plane of the area"
        )


def check_zones(area: Area, centres_m: Sequence[tuple[float, float]], radius_m: float, where: str, who: str) -> None:
    """Raises BadInput where a whole zone, a circle, lies outside of the area. where, who : whose centres_m they are."""
    for i, at_m in enumerate(centres_m):
        if np.hypot(*(np.clip(at_m, area.low_m, area.high_m) - at_m)) > radius_m:
            raise BadInput(
                f"{where}: centres_m[{i}] of {who} is [{at_m[0]:g}, {at_m[1]:g}], and nothing within {radius_m:g} m of "
                f"it lies in the area, from [{area.x_min_m:g}, {area.y_min_m:g}] to [{area.x_max_m:g}, "
                f"{area.y_max_m:g}]; mend it, or leave it out"
            )


def tiny_area(area: Area) -> tuple[str, ...]:
    """A warning where the area is too small for places to differ."""
    if area.side_m.min() >= _MIN_SIDE_M:
        return ()
    width, height = (f"{side:.3g} m" for side in area.side_m)
    return (f"the area is {width} x {height}: all places are nearly one, so maps and attacks mean little",)


def ues_outside(area: Area, position_m: FloatArray) -> tuple[str, ...]:
    """A warning where many UEs start outside of the area."""
    there = np.isfinite(position_m).all(axis=1)
    share = float(np.mean(~area.contains(position_m[there]))) if there.any() else 0.0
    if share <= _MAX_OUTSIDE:
        return ()
    return (f"{100 * share:.3g} % of the UEs start outside of the area; let ues.mobility place them inside",)


def low_stations(stations: tuple[BaseStation, ...], buildings: Buildings) -> tuple[str, ...]:
    """Warnings on base stations below the roof of a building."""
    if not stations:
        return ()
    roof_m = buildings.height_at(np.array([b.position_m for b in stations]))
    return tuple(
        f"base station {b.name} stands inside a building ({roof:g} m high, its antenna at {b.height_m:g} m)"
        for b, roof in zip(stations, roof_m, strict=True)
        if roof > b.height_m
    )
