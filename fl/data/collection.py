"""Collections of labelled images, read from IDX files: what devices hold, and what scores the model."""

from __future__ import annotations

import gzip
import math
import zlib
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import numpy.typing as npt

from fl.types import ImageFormat
from netsim.columns import frozen
from netsim.errors import BadInput
from netsim.safe import opened, what_is
from netsim.units import IntArray

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
        with opened(path, _MOST_BYTES + head) as raw:
            packed = path.suffix == ".gz"
            file = cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if packed else raw
            first = file.read(head)
            words = np.frombuffer(first[: len(first) // 4 * 4], dtype=">u4")
            shape = tuple(int(n) for n in words[1:])
            size = math.prod(shape)
            body = file.read(size + 1) if size <= _MOST_BYTES else b""
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"{path}: cannot be read ({reason}); fetch the file again") from None
    if len(words) and words[0] != _UNSIGNED_BYTES + dimensions:
        raise BadInput(
            f"{path}: magic number {int(words[0])}, expected {_UNSIGNED_BYTES + dimensions} (unsigned bytes, "
            f"{dimensions} dimension{'s' * (dimensions > 1)}); is it an IDX file of this kind?"
        )
    if len(first) < head or not 0 < size <= _MOST_BYTES or len(body) != size:
        raise BadInput(
            f"{path}: a header of {head} bytes says {' x '.join(map(str, shape))} numbers, and {len(body):,} bytes "
            "follow; it is damaged, fetch the file again"
        )
    return np.frombuffer(body, dtype=np.uint8).reshape(shape)


_NAMES = {
    "images": ("-images-idx3-ubyte", "-images.idx3-ubyte"),
    "labels": ("-labels-idx1-ubyte", "-labels.idx1-ubyte"),
}
_EVERY = 5  # every fifth image of each class of the digits is held out


@frozen
class Collection:
    """Images (N, height * width), one byte a pixel, and their classes (N,), counted from 0: to train, and held out."""

    format: ImageFormat
    train: Bytes
    label: IntArray
    held_out: Bytes
    held_out_label: IntArray

    @property
    def per_class(self) -> IntArray:
        """Training images of each class (classes,)."""
        return np.bincount(self.label, minlength=self.format.classes)


@lru_cache(maxsize=2)
def collection(folder: str | None) -> Collection:
    """The collection of a folder of IDX files; of None: scikit-learn's digits.

    The same folder is read once: files that change during a run are not noticed.
    """
    return _digits() if folder is None else _of_folder(Path(folder))


def _digits() -> Collection:
    """1,797 digits of 8 x 8 pixels; of each class every fifth is held out."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = np.rint(digits.data * (255.0 / 16.0)).astype(np.uint8)
    label = digits.target.astype(np.int64)
    place = np.zeros(len(label), dtype=np.int64)  # of each image within its class
    for c in range(10):
        place[label == c] = np.arange((label == c).sum())
    out = place % _EVERY == _EVERY - 1
    return Collection(ImageFormat(8, 8, 10), pixels[~out], label[~out], pixels[out], label[out])


def _of_folder(folder: Path) -> Collection:
    """MNIST, Fashion-MNIST, or files like theirs: train-* are learnt from, t10k-* held out."""
    if what_is(folder) != "folder":
        raise BadInput(f"learning.data.folder: {folder}: no such folder; give the one that holds the IDX files")
    (train, label), (held, held_label) = (_pair(folder, name) for name in ("train", "t10k"))
    if train.shape[1:] != held.shape[1:]:
        sizes = " and ".join(f"{h} x {w}" for h, w in (train.shape[1:], held.shape[1:]))
        raise BadInput(
            f"{folder}: training and held-out images differ in size ({sizes}); they are not of one collection"
        )
    classes = int(label.max()) + 1
    if held_label.max() >= classes:
        raise BadInput(f"{folder}: class {int(held_label.max())} is held out and never trained; files are mixed up")
    if classes < 2:
        raise BadInput(f"{folder}: all training images have one class; there is nothing to learn")
    height, width = train.shape[1:]
    return Collection(
        ImageFormat(height, width, classes),
        train.reshape(len(train), -1),
        label,
        held.reshape(len(held), -1),
        held_label,
    )


def _pair(folder: Path, name: str) -> tuple[Bytes, IntArray]:
    """Images (n, height, width) and classes (n,) of one part of a collection."""
    images, label = (read_idx(_file(folder, name, what), n) for what, n in (("images", 3), ("labels", 1)))
    if len(images) != len(label):
        raise BadInput(
            f"{folder}: {len(images):,} {name} images and {len(label):,} labels; the files are not of one collection"
        )
    return images, label.astype(np.int64)


def _file(folder: Path, name: str, what: str) -> Path:
    for middle in _NAMES[what]:
        for end in ("", ".gz"):
            path = folder / f"{name}{middle}{end}"
            if what_is(path) == "file":
                return path
    raise BadInput(f"learning.data.folder: {folder} holds no {name}{_NAMES[what][0]} or {name}{_NAMES[what][0]}.gz")
