"""Which coordinates a trace has: `auto`, `local` metres, or the EPSG code of a system."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.errors import BadInput
from netsim.traces.points import Degrees, Metres, Points
from netsim.units import FloatArray

AUTO, LOCAL, GLOBE = "auto", "local", "EPSG:4326"


def check_crs(path: str, crs: str) -> None:
    """Raises `BadInput` unless `crs` is auto, local, EPSG:4326 or the code of a projected system in metres."""
    if crs in (AUTO, LOCAL, GLOBE):
        return
    remedy = "use auto, local, EPSG:4326 for degrees, or a projected system in metres such as EPSG:25832"
    system = _system(crs)
    if system is None:
        raise BadInput(f"{path}: crs: {crs!r} is no known EPSG code; {remedy}")
    if not system.is_projected or any(axis.unit_name != "metre" for axis in system.axis_info):
        raise BadInput(f"{path}: crs: {crs!r} is {system.name}, not a projected system in metres; {remedy}")


def in_metres(path: str, crs: str, x_m: FloatArray, y_m: FloatArray) -> Metres:
    """x and y of a file that has metres."""
    if crs == GLOBE:
        raise BadInput(f"{path}: crs: {crs} is degrees, but the file has metres; use local, or a system in metres")
    return Metres(x_m, y_m, None if crs in (AUTO, LOCAL) else crs)


def in_degrees(path: str, crs: str, lat_deg: FloatArray, lon_deg: FloatArray) -> Points:
    """Latitude and longitude of a file that has degrees."""
    if crs not in (AUTO, GLOBE):
        raise BadInput(f"{path}: crs: {crs} is metres, but the file has latitude and longitude; use auto")
    return Degrees(lat_deg, lon_deg)


def look_like_degrees(x: FloatArray, y: FloatArray) -> bool:
    """Whether x and y may be longitude and latitude."""
    return bool(np.all(np.abs(x) <= 180.0) and np.all(np.abs(y) <= 90.0))


def _system(crs: str) -> Any:
    """The system of an EPSG code, None if there is none."""
    from pyproj import CRS
    from pyproj.exceptions import CRSError

    word, _, code = crs.partition(":")
    if word.upper() != "EPSG" or not code.isdecimal():
        return None
    try:
        return CRS.from_epsg(int(code))
    except CRSError:
        return None
