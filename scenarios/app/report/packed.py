"""Arrays as text in a page: gzip in base64, which browsers read back without a library."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ALIGNED = 8  # bytes, as the browser's typed arrays want it


def packed(meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """A header of JSON, then the arrays, flat and little-endian: `netsim.unpacked(id)` in the page gives both back.

    arrays : integers of 1, 2 or 4 bytes, or floats of 4 or 8. Raises ValueError for others, and for NaN in `meta`.
    """
    pieces, listed, at = [], [], 0
    for name, values in arrays.items():
        kind, size = values.dtype.kind, values.dtype.itemsize
        if (kind, size) not in {
            (k, n) for k, sizes in (("i", (1, 2, 4)), ("u", (1, 2, 4)), ("f", (4, 8))) for n in sizes
        }:
            raise ValueError(f"{name}: an array of {values.dtype} cannot be packed")
        data = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).tobytes()
        listed.append({"name": name, "type": f"{kind}{size}", "size": int(values.size), "at": at})
        pieces.append(data + bytes(-len(data) % _ALIGNED))
        at += len(pieces[-1])
    head = _head(meta, listed)
    return in_base64(len(head).to_bytes(4, "little") + head + b"".join(pieces))


def _head(meta: Mapping[str, Any], listed: list[dict[str, Any]]) -> bytes:
    """The header, as long as its own offsets say: where arrays begin depends on its length."""
    length = 0
    while True:
        first = -(-(4 + length) // _ALIGNED) * _ALIGNED
        text = json.dumps(
            {"meta": meta, "arrays": [{**a, "at": a["at"] + first} for a in listed]}, allow_nan=False, sort_keys=True
        ).encode()
        if len(text) <= length:
            return text + b" " * (first - 4 - len(text))
        length = len(text)


def in_base64(data: bytes) -> str:
    """Bytes, compressed; the same bytes give the same text."""
    return base64.b64encode(gzip.compress(data, compresslevel=9, mtime=0)).decode("ascii")
