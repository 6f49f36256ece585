"""Cells of an OpenCelliD file as it is downloaded: with or without a header, packed or not, by commas or semicolons."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from itertools import chain
from typing import Any

import numpy as np

from netsim.errors import BadInput
from netsim.traces.source import Source
from netsim.traces.values import MISSING, listed, missing, number, shown, with_points
from netsim.units import FloatArray

MAX_BYTES = 500 * 2**20
_ORDER = ("radio", "mcc", "net", "area", "cell", "unit", "lon", "lat")
"""the first columns of a file without a header"""
_WANTED = ("radio", "mcc", "net", "area", "cell", "lon", "lat")
_WORDS = {
    "radio": ("radio", "radiotype"),
    "mcc": ("mcc",),
    "net": ("net", "mnc"),
    "area": ("area", "lac", "tac"),
    "cell": ("cell", "cellid", "cid", "ci", "eci"),
    "lon": ("lon", "lng", "long", "longitude"),
    "lat": ("lat", "latitude"),
}
_RADIOS = frozenset(("GSM", "CDMA", "UMTS", "LTE", "NR", "NBIOT"))
_LIMIT = {"lon": 180.0, "lat": 90.0}
_NAMED = re.compile(r"sep=([,;\t|])\s*", re.IGNORECASE)  # how a spreadsheet says what separates columns
_UNKNOWN = MISSING | {"-1", "2147483647"}  # how phones say that they do not know a cell's number
_NOWHERE = (0.0, -1.0)  # longitude and latitude, both at sea


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
    delimiter, rows = _records(Source(path, "CSV"))
    first_line, first = next(rows, (1, []))
    if not first:
        raise BadInput(f"{path}: the file is empty; give a CSV with OpenCelliD's columns")
    bare = _is_data(first)
    at = _columns(path, first_line, list(_ORDER) if bare else first)
    lon_lat_deg: dict[str, tuple[float, float]] = {}
    skipped: Counter[str] = Counter()
    radios: dict[str, None] = {}
    for line, row in chain([(first_line, first)] if bare else [], rows):
        if len(row) <= max(at.values()):
            skipped["cut short"] += 1
            continue
        is_of = row[at["radio"]].strip()
        if radio is not None and is_of.upper() != radio.upper():
            radios[is_of] = None
            continue
        name = "-".join(row[at[column]].strip() for column in _WANTED[:5])[:60]
        texts = with_points([row[at["lon"]], row[at["lat"]]], delimiter)
        if any(map(missing, texts)):
            skipped["without a position"] += 1
        elif row[at["cell"]].strip().lower() in _UNKNOWN:
            skipped["without a cell's number"] += 1
        elif name in lon_lat_deg:
            skipped["of a cell that stands there already"] += 1
        else:
            lon, lat = (_degrees(path, line, key, text) for key, text in zip(_LIMIT, texts, strict=True))
            if lon == lat and lon in _NOWHERE:
                skipped["without a position"] += 1
            else:
                lon_lat_deg[name] = (lon, lat)
    if radio is not None and radios and not lon_lat_deg:
        has = listed(list(radios))
        raise BadInput(f"{path}: base_stations.radio: no cell of {shown(radio)}; the file has {has}; name one of these")
    places = np.array(list(lon_lat_deg.values())).reshape(-1, 2)
    return Cells(tuple(lon_lat_deg), places[:, 0], places[:, 1], dict(skipped))


_Rows = Iterator[tuple[int, list[str]]]


def _records(source: Source) -> tuple[str, _Rows]:
    """The delimiter, and the rows that are not blank, each with its line.

    Above them there may be a line sep=; and comments that begin with #. Without the former the first row tells.
    """
    if source.n_bytes > MAX_BYTES:
        raise BadInput(f"{source.path}: larger than {MAX_BYTES // 2**20} MB; cut it to the region first")
    lines = (line for _, block in source.blocks() for line in StringIO(block))
    above, named = 0, None
    for head in lines:
        named = _NAMED.fullmatch(head) or named
        if head.strip() and not head.startswith("#") and not _NAMED.fullmatch(head):
            break
        above += 1
    else:
        head = ""
    delimiter = named[1] if named else max(",;\t", key=head.count)
    return delimiter, _rows(source.path, csv.reader(chain([head], lines), delimiter=delimiter), above)


def _rows(path: str, reader: Any, above: int) -> _Rows:
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield above + reader.line_num, row
    except csv.Error as error:
        raise BadInput(f"{path}:{above + reader.line_num}: not a CSV text file ({error}); correct the line") from None


def _is_data(row: list[str]) -> bool:
    """Whether a first row is a cell, and no header."""
    return len(row) >= len(_ORDER) and row[0].strip().upper() in _RADIOS and not row[1].strip().isalpha()


def _columns(path: str, line: int, header: list[str]) -> Mapping[str, int]:
    """Our name -> place of the column."""
    plain = {"".join(c for c in name.lower() if c.isalnum()): k for k, name in reversed(list(enumerate(header)))}
    at = {ours: next((plain[word] for word in words if word in plain), -1) for ours, words in _WORDS.items()}
    absent = [ours for ours in _WANTED if at[ours] < 0]
    if absent:
        raise BadInput(
            f"{path}:{line}: no column {absent[0]!r}; OpenCelliD files start with {','.join(_ORDER)}; here: "
            f"{', '.join(header)[:100]}"
        )
    return at


def _degrees(path: str, line: int, name: str, text: str) -> float:
    value, limit = number(text), _LIMIT[name]
    if not (math.isfinite(value) and abs(value) <= limit):
        raise BadInput(
            f"{path}:{line}: {name} {shown(text)} must be a number from -{limit:g} to {limit:g}; mend the row or "
            "cut it out"
        )
    return value
