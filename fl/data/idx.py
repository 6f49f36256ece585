"""IDX files, the format of MNIST and its relatives: read strictly, plain or gzipped.

A file is a header of big-endian 32-bit words, magic number then sizes, and one byte a number [LeCun, THE MNIST
DATABASE].
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import numpy.typing as npt

from netsim.errors import BadInput
from netsim.safe import opened

Bytes = npt.NDArray[np.uint8]

_UNSIGNED_BYTES = 0x0800  # of the magic number, plus the number of dimensions
_MOST_BYTES = 2**31


def read_idx(path: Path, dimensions: int) -> Bytes:
    """Read the array of a file with the given number of dimensions.

    Raises
    ------
    BadInput : one line: not there, not such a file, cut short, or with bytes left over.
    """
    head = 4 * (1 + dimensions)
    try:
        with opened(path, _MOST_BYTES + head) as raw, _unpacked(raw, path.suffix == ".gz") as file:
            first = file.read(head)
            words = np.frombuffer(first[: len(first) // 4 * 4], dtype=">u4")
            if len(words) and words[0] != _UNSIGNED_BYTES + dimensions:
                raise BadInput(
                    f"{path}: magic number {int(words[0])}, expected {_UNSIGNED_BYTES + dimensions} (unsigned bytes, "
                    f"{dimensions} dimension{'s' * (dimensions > 1)}); is it an IDX file of this kind?"
                )
            if len(first) < head:
                raise BadInput(f"{path}: ends within its header of {head} bytes; fetch the file again")
            shape = tuple(int(n) for n in words[1:])
            size = int(np.prod([float(n) for n in shape]))
            if not 0 < size <= _MOST_BYTES:
                raise BadInput(f"{path}: says that it holds {' x '.join(map(str, shape))} numbers; it is damaged")
            body = file.read(size + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"{path}: cannot be read ({reason}); fetch the file again") from None
    if len(body) != size:
        what = "is cut short" if len(body) < size else "has bytes left over"
        raise BadInput(f"{path}: {what}, {size:,} bytes expected after the header; fetch the file again")
    return np.frombuffer(body, dtype=np.uint8).reshape(shape)


def _unpacked(raw: BinaryIO, packed: bool) -> BinaryIO:
    return cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if packed else raw
