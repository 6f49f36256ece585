"""Arrays of samples from outside: of an .npz, a Parquet table, a folder of images, or of Python.
Nothing is unpickled, and large arrays stay in their file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from fl.data.samples import SampleSet, StoredRows
from fl.types import SampleFormat
from netsim.columns import split_blocks
from netsim.errors import BadInput, squeeze_text
from netsim.safe import describe_file_kind, format_size, list_files_below, open_regular
from netsim.units import ByteArray

Array = npt.NDArray[Any]

_LARGEST = 1e9  # of a number in a checkpoint
COLUMNS = {
    "y": (-_LARGEST, _LARGEST),
    "ue": (0.0, 1e8),
    "time_s": (0.0, 1e12),
    "lat": (-90.0, 90.0),
    "lon": (-180.0, 180.0),
    "x_m": (-_LARGEST, _LARGEST),
    "y_m": (-_LARGEST, _LARGEST),
    "held_out": (0.0, 1.0),
    "x": (-_LARGEST, _LARGEST),
}
"""names of arrays of samples, each with one row per sample, and between which numbers theirs are"""

_NAMED = ("y", "ue")  # may be text
_BLOCK = 4096  # samples that are looked at together
_MOST_BYTES = 2**31  # of an array that is read whole
_MOST_FILE_BYTES = 2**44
_MOST_HEADER_BYTES = 2**16


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
        reason = getattr(error, "strerror", None) or squeeze_text(error, 120)
        raise BadInput(f"{source}: cannot be read ({reason}); get or write it again") from None


def open_table(path: Path) -> Any:
    """Columns by their names, of a file or a folder of images; to be read within `blame_source`."""
    if describe_file_kind(path) == "folder":
        return _read_image_folder(path)
    with open_regular(path, _MOST_FILE_BYTES) as file:
        if path.suffix != ".parquet":
            return _read_npz(file)
        from pyarrow.parquet import read_table as read_parquet

        return read_parquet(file)


def _read_npz(file: BinaryIO) -> dict[str, Array]:
    from zipfile import ZipFile  # not for studies of other data

    columns: dict[str, Array] = {}
    with ZipFile(file) as archive:
        whole = np.memmap(file, np.uint8, "r")
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if name not in COLUMNS or name in columns:
                raise ValueError(f"{name!r:.40} is none of {', '.join(COLUMNS)}, or stands twice")
            if name == "x" and not member.compress_type:
                sizes_at = member.header_offset + 26  # [APPNOTE 6.3.10, Section 4.3.7]
                begin = sizes_at + 4
                name_and_extra_bytes = whole[sizes_at:begin].view("<u2")
                content = whole[begin + name_and_extra_bytes.sum(dtype=int) :][: member.file_size]
            elif member.file_size > _MOST_BYTES:
                raise ValueError(f"{name} has over {format_size(_MOST_BYTES)}; do not compress x")
            else:
                content = np.frombuffer(archive.read(member), np.uint8)
            columns[name] = _view_array(content)
    return columns


def _view_array(content: ByteArray) -> Array:
    """The array of the bytes of an .npy; ValueError or TypeError where it is not as its header
    says, and for objects.
    """
    head = BytesIO(content[:_MOST_HEADER_BYTES].tobytes())
    np.lib.format.read_magic(head)
    shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(head)
    return content[head.tell() :].view(dtype).reshape(shape, order="F" if is_fortran else "C")


def _read_image_folder(folder: Path) -> dict[str, Any]:
    """Images x, and their classes y, which are names of the folders that they lie in."""
    from PIL import Image

    paths = [p for p in list_files_below(folder) if p.suffix.lower() in (".png", ".jpg", ".jpeg")]
    images = []
    for path in paths:
        with blame_source(path), Image.open(path, formats=("PNG", "JPEG")) as image:
            if image.mode not in ("L", "RGB"):
                raise ValueError(f"colours are {image.mode}, and neither L (grey) nor RGB")
            images.append(image.copy())
    return {"x": images, "y": [path.parent.name for path in paths]}


def read_table(table: Any, features: Sequence[str], label: str) -> dict[str, Array]:
    """Arrays by the names of COLUMNS of a table (arrays by name, pandas, Arrow, Hugging Face), of
    which other columns are passed over.

    features : columns that are inputs, one of lists or images, or several of numbers; none: x,
    where it is there. label : the column of labels.
    """
    names = getattr(table, "column_names", None) or [*table]
    missing = {label, *features}.difference(names)
    if missing:
        raise ValueError(f"no column {', '.join(sorted(missing))} beside {', '.join(names)}")
    columns = {name: _stack_values(table[name]) for name in COLUMNS if name in names}
    columns["y"] = _stack_values(table[label])
    if features:
        columns["x"] = np.column_stack([_stack_values(table[name]) for name in features])
    return columns


def _stack_values(values: Any) -> Array:
    """An array of numbers or text, or of as many arrays or images of one shape; images (N,
    channels, height, width).
    """
    array = np.asarray(values)
    if array.dtype.hasobject:
        array = np.asarray(array.tolist())
    if hasattr(next(iter(values), None), "getbands"):
        return np.moveaxis(array.reshape(*array.shape[:3], -1), 3, 1)
    return array


def check_samples(source: str, columns: dict[str, Array]) -> SampleSet:
    """The samples of arrays by the names of COLUMNS; places of degrees are left as they are.

    Raises
    ------
    BadInput : one line: what does not fit together, and the first sample that is no number.
    """
    count = max(columns["y"].size, 1)
    checked = {}
    for name, values in columns.items():
        is_text = name in _NAMED and values.dtype.kind in "US"
        is_wide = values.ndim > 1 and name != "x"
        if values.shape[:1] != (count,) or is_wide or not (is_text or values.dtype.kind in "biuf"):
            raise BadInput(
                f"{source}: {name} is of shape {values.shape} and type {values.dtype}; give a "
                "number (of ue and y: or a name) for each label y, of x as many for each"
            )
        checked[name] = values
        if is_text:
            checked[name] = np.unique(values, return_inverse=True)[1]
        elif name != "x" or values.dtype != np.uint8:
            _check_bounds(f"{source}: {name}", values, *COLUMNS[name])
    axes = [name for name in ("lat", "lon", "x_m", "y_m") if name in columns]
    if axes not in ([], ["lat", "lon"], ["x_m", "y_m"]) or not ("x" in columns or axes):
        raise BadInput(
            f"{source}: has places by {axes}; give inputs x, or lat and lon, or x_m and y_m"
        )
    y = checked["y"]
    held_out = checked.get("held_out", np.zeros(count)) > 0
    owner = checked["ue"].astype(int) if "ue" in checked else None
    place = np.column_stack([checked[name] for name in axes]).astype(float) if axes else None
    x: Any = place
    sample_format = None
    if "x" in checked:
        inputs = checked["x"]
        largest = 255.0 if inputs.dtype == np.uint8 else 1.0
        sample_format = SampleFormat(inputs.shape[1:] or (1,), _count_classes(source, y), largest)
        x = StoredRows(inputs.reshape(count, -1), np.arange(count))
    time_s = checked.get("time_s", np.zeros(count)).astype(float)
    return SampleSet(
        sample_format, x, y.astype(float), time_s, held_out, owner, place, "lat" in axes
    )


def _check_bounds(source: str, values: Array, low: float, high: float) -> None:
    for block in split_blocks(len(values), _BLOCK):
        numbers = values[block].astype(float)
        bad = np.argwhere(~((numbers >= low) & (numbers <= high)))
        if len(bad):
            raise BadInput(
                f"{source}: sample {block.start + bad[0][0]:,} has {numbers[tuple(bad[0])]:g}, "
                f"which is no number from {low:g} to {high:g}; correct it, or leave the sample out"
            )


def _count_classes(source: str, y: Array) -> int:
    """Number of classes; 0: labels are numbers."""
    if y.dtype.kind == "f":
        return 0
    classes = len(np.unique(y))
    if classes < 2 or y.min() < 0 or y.max() >= classes:
        raise BadInput(
            f"{source}: y: {classes} classes from {y.min()} to {y.max()}; number two or more from "
            "0 without a gap, name them, or give floats, which are no classes"
        )
    return classes
