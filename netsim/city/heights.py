"""Height of a building from the properties of a GeoJSON feature, in the notations common in OpenStreetMap."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from netsim.maps.geojson import absent

HIGHEST_M = 1e4
LEVEL_M = 3.0
"""height of a storey, used where only the number of storeys is known"""
FOOT_M = 0.3048
_MAX_LENGTH = 30  # characters of a height
_HEIGHTS = ("height", "building:height")
_LEVELS = ("building:levels", "levels")
_NUMBER = r"(\d+(?:[.,]\d+)?)"
_METRES = re.compile(rf"([+-]?){_NUMBER}\s*(?:m|met(?:er|re)s?)?", re.IGNORECASE)
_FEET = re.compile(
    rf"{_NUMBER}\s*(?:'|′|ft\.?|feet|foot)\s*(?:{_NUMBER}\s*(?:\"|''|″|in\.?|inch(?:es)?))?", re.IGNORECASE
)


@dataclass(frozen=True)
class Height:
    """A height in m, NaN if unknown, and the name of the property it was read from, or of the first without one."""

    value_m: float
    source: str
    unread: Any = None
    """the first value that is no height: a text in another form, or a number that is not above 0"""

    @property
    def by_levels(self) -> bool:
        """Whether it is levels times 3 m."""
        return self.source in _LEVELS and not math.isnan(self.value_m)


def height_of(properties: Mapping[str, Any], key: str) -> Height:
    r"""The height stored under `key`, else OpenStreetMap's height, else its number of levels times 3 m.

    Numbers are metres; texts are "12", "12 m", "12.5m", "12,5 m", "40'", "40 ft" or "6'4\"". Texts in
    another form and numbers that are not above 0, as data sets write for an unknown height (-1), are skipped. Raises
    ValueError with the property's name for anything else that cannot be a height.
    """
    unread, source = None, ""
    for name in dict.fromkeys((key, *_HEIGHTS)):
        value = properties.get(name)
        if absent(value):
            continue
        height_m = metres(value) if isinstance(value, str) else value
        if height_m is not None:
            if type(height_m) not in (int, float) or height_m > HIGHEST_M:
                raise ValueError(name)
            if height_m > 0:
                return Height(float(height_m), name, unread)
        if unread is None:
            unread, source = value, name
    for name in _LEVELS:
        levels = _levels(properties.get(name))
        if levels is not None:
            return Height(levels * LEVEL_M, name, unread)
    return Height(math.nan, source, unread)


def metres(text: str) -> float | None:
    """A length as OpenStreetMap's `height` writes it, in m; None if it is none."""
    text = text.strip()
    if len(text) > _MAX_LENGTH:
        return None
    if match := _METRES.fullmatch(text):
        return float(match[1] + match[2].replace(",", "."))
    if match := _FEET.fullmatch(text):
        feet, inches = (float((part or "0").replace(",", ".")) for part in match.groups())
        return (feet + inches / 12.0) * FOOT_M
    return None


def _levels(value: Any) -> float | None:
    """A number of storeys above 0; None for anything else."""
    if isinstance(value, str):
        match = re.fullmatch(_NUMBER, value.strip()) if len(value) <= _MAX_LENGTH else None
        value = float(match[1].replace(",", ".")) if match else None
    good = type(value) in (int, float) and 0 < value <= HIGHEST_M / LEVEL_M
    return float(value) if good else None
