"""Cells of an OpenCelliD file as it is downloaded: with or without a header, packed or not, by commas or semicolons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from netsim.errors import BadInput
from netsim.traces.source import Source, read_rows
from netsim.traces.values import MISSING, listed, missing, number, shown, with_points
from netsim.units import FloatArray

MAX_BYTES = 500 * 2**20
_ORDER = ("radio", "mcc", "net", "area", "cell", "unit", "lon", "lat")
"""the first columns of a file without a header"""
_WANTED = ("radio", "mcc", "net", "area", "cell", "lon", "lat")
_WORDS = {
    "radio": "radio radiotype", "net": "net mnc", "area": "area lac tac", "cell": "cell cellid cid ci eci",
    "lon": "lon lng long longitude", "lat": "lat latitude",
}  # fmt: skip
_RADIOS = frozenset(("GSM", "CDMA", "UMTS", "LTE", "NR", "NBIOT"))
_UNKNOWN = MISSING | {"-1", "2147483647"}  # how phones say that they do not know a cell's number
_NOWHERE = ((0.0, 0.0), (-1.0, -1.0))  # longitude and latitude, both at sea


@dataclass(frozen=True, eq=False)
class Cells:
    """name (n,), each once; lon_deg, lat_deg (n,); skipped : rows that are left out, by reason."""

    name: tuple[str, ...]
    lon_deg: FloatArray
    lat_deg: FloatArray
    skipped: dict[str, int]


def read_cells(path: str, radio: str | None) -> Cells:
    """The cells of a file, those of one technology if `radio` names it in capitals or not.

    A row without a position (none, or 0, 0 or -1, -1) or without the number of its cell, one that is cut short, and one
    of a cell that stands there already are counted. Raises BadInput with one line for what cannot be read.
    """
    source = Source(path, "CSV")
    if source.n_bytes > MAX_BYTES:
        raise BadInput(f"{path}: larger than {MAX_BYTES // 2**20} MB; cut it to the region first")
    delimiter, rows = read_rows(source, ",".join(_ORDER))
    first_line, first = next(rows)
    bare = len(first) >= len(_ORDER) and first[0].strip().upper() in _RADIOS and not first[1].strip().isalpha()
    places = _columns(source, first_line, _ORDER if bare else first)
    lon_lat_deg: dict[str, tuple[float, float]] = {}
    skipped, others = Counter[str](), dict[str, None]()
    for line, row in chain([(first_line, first)] if bare else [], rows):
        if len(row) <= max(places):
            skipped["cut short"] += 1
            continue
        *identity, lon, lat = (row[at].strip() for at in places)
        if radio is not None and identity[0].upper() != radio.upper():
            others[identity[0]] = None
            continue
        name = "-".join(identity)[:60]
        lon, lat = with_points([lon, lat], delimiter)
        if missing(lon) or missing(lat):
            skipped["without a position"] += 1
        elif identity[-1].lower() in _UNKNOWN:
            skipped["without a cell's number"] += 1
        elif name in lon_lat_deg:
            skipped["of a cell that stands there already"] += 1
        else:
            place = _degrees(source, line, "lon", lon, 180.0), _degrees(source, line, "lat", lat, 90.0)
            if place in _NOWHERE:
                skipped["without a position"] += 1
            else:
                lon_lat_deg[name] = place
    if others and not lon_lat_deg:
        problem = f"no cell of {shown(radio or '')}; the file has {listed(list(others))}"
        raise BadInput(f"{path}: base_stations.radio: {problem}; name one of these")
    lon_deg, lat_deg = np.array(list(lon_lat_deg.values())).reshape(-1, 2).T
    return Cells(tuple(lon_lat_deg), lon_deg, lat_deg, dict(skipped))


def _columns(source: Source, line: int, header: Sequence[str]) -> list[int]:
    """Places of the columns that are wanted."""
    plain = {"".join(c for c in name.lower() if c.isalnum()): k for k, name in reversed(list(enumerate(header)))}
    places = []
    for ours in _WANTED:
        found = [plain[word] for word in _WORDS.get(ours, ours).split() if word in plain]
        if not found:
            problem = f"no column {ours!r}; OpenCelliD files start with {','.join(_ORDER)}"
            source.refuse(line, f"{problem}; here: {', '.join(header)[:100]}")
        places.append(found[0])
    return places


def _degrees(source: Source, line: int, name: str, text: str, limit: float) -> float:
    value = number(text)
    if not abs(value) <= limit:
        problem = f"{name} {shown(text)} must be a number from -{limit:g} to {limit:g}"
        source.refuse(line, f"{problem}; mend the row or cut it out")
    return value
