"""Arrays of samples from outside: of an .npz, a Parquet table or a folder of images. Nothing is
unpickled, and large arrays stay in their file.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from netsim.errors import BadInput
from netsim.safe import describe_file_kind, format_size, list_files_below, open_regular

Array = npt.NDArray[Any]

COLUMNS = ("y", "ue", "time_s", "lat", "lon", "x_m", "y_m", "held_out", "x")
"""names of arrays of samples, each with one row per sample"""

_MOST_BYTES = 2**31  # of what is read whole
_MOST_FILE_BYTES = 2**44
_FEATURE = re.compile(r"x_\d+")
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


@contextmanager
def blame_source(source: str | Path) -> Iterator[None]:
    """Raise BadInput, one line with the source, for whatever damaged samples make of a reader."""
    try:
        yield
    except BadInput:
        raise
    except ImportError as error:
        raise BadInput(
            f"{source}: {error.name} is not installed; pip install 'netsim-fl[samples]'"
        ) from None
    except Exception as error:  # those of zipfile, numpy, Arrow and PIL have no common type
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:120]
        raise BadInput(f"{source}: cannot be read ({reason}); write it again") from None


def read_sample_file(path: Path, features: Sequence[str], label: str) -> dict[str, Array]:
    """Arrays by the names of COLUMNS of a file or a folder; features, label : see `read_table`.

    Raises
    ------
    BadInput : one line: it cannot be read, or is not what its header says.
    """
    with blame_source(path):
        if describe_file_kind(path) == "folder":
            return _read_image_folder(path)
        if path.suffix == ".parquet":
            import pandas as pd
            import pyarrow  # noqa: F401 - pandas does not name it where it is missing

            with open_regular(path, _MOST_BYTES) as file:
                return read_table(str(path), pd.read_parquet(file), features, label)
        with open_regular(path, _MOST_FILE_BYTES) as file:
            return _read_npz(path, file)


def _read_npz(path: Path, file: BinaryIO) -> dict[str, Array]:
    from zipfile import ZipFile  # not for studies of other data

    columns: dict[str, Array] = {}
    with ZipFile(file) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if name not in COLUMNS or name in columns:
                raise BadInput(
                    f"{path}: array {name[:60]!r} is unknown, or stands twice; give each of "
                    f"{', '.join(COLUMNS)} once at most"
                )
            is_mapped = name == "x" and not member.compress_type
            if not is_mapped and member.file_size > _MOST_BYTES:
                raise BadInput(
                    f"{path}: {name}: more than {format_size(_MOST_BYTES)} are not read whole; "
                    "save x with numpy.savez, which does not compress"
                )
            with archive.open(member) as stream:
                if is_mapped:
                    columns[name] = _map_array(path, file, stream, member)
                else:
                    columns[name] = np.lib.format.read_array(stream, allow_pickle=False)
    return columns


def _map_array(path: Path, file: BinaryIO, stream: IO[bytes], member: Any) -> Array:
    """The array of a member of an archive, which stays in the file."""
    version = np.lib.format.read_magic(stream)
    shape, is_fortran, dtype = _HEADERS[version](stream)
    header_bytes = stream.tell()
    if header_bytes + np.prod(shape, dtype=float) * dtype.itemsize != member.file_size:
        raise ValueError(f"x is not of {shape}, as its header says")
    file.seek(member.header_offset + 26)  # [APPNOTE 6.3.10, Section 4.3.7]
    name_bytes, extra_bytes = struct.unpack("<HH", file.read(4))
    offset = member.header_offset + 30 + name_bytes + extra_bytes + header_bytes
    return np.memmap(path, dtype, "r", offset, shape, "F" if is_fortran else "C")


def read_table(source: str, table: Any, features: Sequence[str], label: str) -> dict[str, Array]:
    """Arrays of a table with named columns (pandas, Hugging Face), of which others are passed over.

    features : columns that are inputs, one of lists or images, or several of numbers; none: x, or
    x_0, x_1, and so on, where they are there. label : the column of labels.
    """
    names = [str(name) for name in getattr(table, "column_names", None) or table.columns]
    numbered = sorted(filter(_FEATURE.fullmatch, names), key=lambda name: (len(name), name))
    inputs = [*features] or [name for name in names if name == "x"] or numbered
    missing = {label, *inputs}.difference(names)
    if missing:
        raise BadInput(
            f"{source}: no column {', '.join(sorted(missing))}; give some of {', '.join(names)}"
        )
    columns = {name: stack_values(table[name]) for name in COLUMNS if name in names}
    columns["y"] = stack_values(table[label])
    if inputs:
        parts = [stack_values(table[name]) for name in inputs]
        columns["x"] = parts[0] if len(parts) == 1 else np.column_stack(parts)
    return columns


def stack_values(values: Any) -> Array:
    """An array of numbers or text, or of as many arrays or images of one shape."""
    if not isinstance(values, list):
        array = np.asarray(values)
        if not array.dtype.hasobject:
            return array
    return np.stack([to_array(value) for value in values])


def to_array(value: Any) -> Array:
    """An array of a value; of an image (PIL) its bytes (channels, height, width)."""
    array = np.asarray(value)
    if hasattr(value, "getbands"):
        return np.moveaxis(array.reshape(value.height, value.width, -1), 2, 0)
    return array


def _read_image_folder(folder: Path) -> dict[str, Array]:
    """Images of folders CLASS/, or UE/CLASS/: x (N, channels, height, width), y and ue names."""
    from PIL import Image

    paths = [p for p in list_files_below(folder) if p.suffix.lower() in (".png", ".jpg", ".jpeg")]
    parents = [path.relative_to(folder).parts[:-1] for path in paths]
    if {len(names) for names in parents} not in ({1}, {2}):
        raise BadInput(
            f"{folder}: images (png, jpg) lie in folders of several depths, or there are none; put "
            "all into CLASS/, or all into UE/CLASS/"
        )
    images = []
    for path in paths:
        with blame_source(path), Image.open(path, formats=("PNG", "JPEG")) as image:
            if image.mode not in ("L", "RGB"):
                raise BadInput(f"{path}: colours {image.mode}; convert images to L (grey) or RGB")
            images.append(to_array(image))
    owners = {"ue": np.array([names[0] for names in parents])} if len(parents[0]) == 2 else {}
    return {"x": np.stack(images), "y": np.array([names[-1] for names in parents]), **owners}
