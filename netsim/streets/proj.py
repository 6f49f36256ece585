"""Longitude and latitude of coordinates whose projection a file describes in PROJ's notation."""

from __future__ import annotations

import re

import numpy as np

from netsim.errors import BadInput
from netsim.traces.values import shown
from netsim.units import FloatArray

_MAX_LENGTH = 500  # characters of a projection
_PROJECTIONS = frozenset(
    (
        "utm",
        "tmerc",
        "etmerc",
        "merc",
        "webmerc",
        "lcc",
        "laea",
        "aea",
        "aeqd",
        "stere",
        "sterea",
        "somerc",
        "eqc",
        "cass",
    )
)
_NUMBERS = frozenset(
    ("lat_0", "lon_0", "lat_1", "lat_2", "lat_ts", "k", "k_0", "x_0", "y_0", "a", "b", "rf", "R", "zone", "towgs84")
)
_NAMES = frozenset(("ellps", "datum"))
_FLAGS = frozenset(("south", "no_defs", "wktext", "over"))
_NUMBER = re.compile(r"[+-]?[\d.eE+-]{1,30}(?:,[+-]?[\d.eE+-]{1,30}){0,6}")
_NAME = re.compile(r"[A-Za-z0-9_]{1,20}")


def inverse(file: str, projection: str, position_m: FloatArray) -> FloatArray:
    """Longitude and latitude (n, 2) of positions (n, 2) in a projection such as ``+proj=utm +zone=32 +ellps=WGS84``.

    Parameters that name files or chains of operations are refused. Raises BadInput with one line.
    """
    from pyproj import CRS, Transformer
    from pyproj.exceptions import CRSError, ProjError

    remedy = "give a network with a projection such as +proj=utm +zone=32 +ellps=WGS84 +units=m"
    if not _harmless(projection):
        raise BadInput(f"{file}: projParameter: {shown(projection)} is no projection in m that is read; {remedy}")
    try:
        system = CRS.from_proj4(projection)
        transformer = Transformer.from_crs(system, "EPSG:4326", always_xy=True)
        lon_lat: FloatArray = np.column_stack(transformer.transform(*position_m.T))
    except (CRSError, ProjError):
        raise BadInput(f"{file}: projParameter: {shown(projection)} is no projection; {remedy}") from None
    if not np.isfinite(lon_lat).all():
        raise BadInput(f"{file}: projParameter: {shown(projection)} does not reach all of the network; {remedy}")
    return lon_lat


def _harmless(projection: str) -> bool:
    """Whether a text holds known parameters of one projection in metres only."""
    words = projection.split()
    if len(projection) > _MAX_LENGTH or not any(word.startswith("+proj=") for word in words):
        return False
    return all(map(_known, words))


def _known(word: str) -> bool:
    key, _, value = word.partition("=")
    key = key.removeprefix("+")
    if key == "proj":
        return value in _PROJECTIONS
    if key in _NUMBERS:
        return _NUMBER.fullmatch(value) is not None
    if key in _NAMES:
        return _NAME.fullmatch(value) is not None
    return (key in _FLAGS and not value) or (key, value) in (("units", "m"), ("type", "crs"), ("nadgrids", "@null"))
