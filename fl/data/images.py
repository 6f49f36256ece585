"""Images that UEs own from the start: collections read from IDX files, and partitions of them among
devices.
"""

from __future__ import annotations

import gzip
import math
import zlib
from functools import lru_cache
from pathlib import Path
from typing import Annotated, BinaryIO, Literal, cast

import numpy as np
import numpy.typing as npt
from pydantic import Field

from fl.data import RECORDS_ALONE
from fl.data.owned import Counts, OwnedSamples
from fl.data.partitions import (
    PARTITIONS,
    Division,
    LabelSkew,
    Partition,  # noqa: F401 - where packages of their own import it from
)
from fl.data.samples import Rows, SampleSet
from fl.types import SampleFormat
from netsim.errors import BadInput
from netsim.part import FILE_NAME
from netsim.safe import describe_file_kind, open_regular
from netsim.units import BoolArray, IntArray

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
        with open_regular(path, _MOST_BYTES + head) as raw:
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
            f"{path}: magic number {words[0]}, expected "
            f"{_UNSIGNED_BYTES + dimensions} (unsigned bytes, "
            f"{dimensions} dimension{'s' * (dimensions > 1)}); is it an IDX file of this kind?"
        )
    if len(first) < head or not 0 < size <= _MOST_BYTES or len(body) != size:
        raise BadInput(
            f"{path}: a header of {head} bytes says {' x '.join(map(str, shape))} numbers, and "
            f"{len(body):,} bytes follow; it is damaged, fetch the file again"
        )
    return np.frombuffer(body, dtype=np.uint8).reshape(shape)


_NAMES = {
    "images": ("-images-idx3-ubyte", "-images.idx3-ubyte"),
    "labels": ("-labels-idx1-ubyte", "-labels.idx1-ubyte"),
}
_EVERY = 5  # every fifth image of each class of the digits is held out


@lru_cache(maxsize=2)
def load_collection(folder: str | None) -> SampleSet:
    """The collection of a folder of IDX files; of None: scikit-learn's digits.

    The same folder is read once: files that change during a run are not noticed.
    """
    if folder is None:
        return _load_digits()
    return _read_folder(Path(folder))


def _load_digits() -> SampleSet:
    """1,797 digits of 8 x 8 pixels; of each class every fifth is held out."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = np.rint(digits.data * (255.0 / 16.0)).astype(np.uint8)
    label = digits.target.astype(int)
    out = np.zeros(len(label), bool)
    for c in range(10):
        out[np.flatnonzero(label == c)[_EVERY - 1 :: _EVERY]] = True
    return _join_parts((1, 8, 8), 10, pixels, label, out)


def _read_folder(folder: Path) -> SampleSet:
    """MNIST, Fashion-MNIST, or files like theirs: train-* are learnt from, t10k-* held out."""
    if describe_file_kind(folder) != "folder":
        raise BadInput(
            f"learning.data.folder: {folder}: no such folder; give the one that holds the IDX files"
        )
    train, label = _read_pair(folder, "train")
    held, held_label = _read_pair(folder, "t10k")
    if train.shape[1:] != held.shape[1:]:
        sizes = " and ".join(f"{h} x {w}" for h, w in (train.shape[1:], held.shape[1:]))
        raise BadInput(
            f"{folder}: training and held-out images differ in size ({sizes}); they are "
            f"not of one collection"
        )
    classes = int(label.max()) + 1
    if held_label.max() >= classes:
        raise BadInput(
            f"{folder}: class {held_label.max()} is held out and never trained; files are mixed up"
        )
    if classes < 2:
        raise BadInput(f"{folder}: all training images have one class; there is nothing to learn")
    pixels = np.concatenate([train, held])
    out = np.arange(len(pixels)) >= len(train)
    return _join_parts(
        (1, *train.shape[1:]), classes, pixels, np.concatenate([label, held_label]), out
    )


def _join_parts(
    shape: tuple[int, ...], classes: int, pixels: Bytes, label: IntArray, out: BoolArray
) -> SampleSet:
    """Images with one byte a pixel, of which some (N,) are held out."""
    count = len(label)
    x = Rows(pixels.reshape(count, -1), np.arange(count))
    sample_format = SampleFormat(shape, classes, 255.0)
    return SampleSet(sample_format, x, label.astype(float), np.zeros(count), out)


def _read_pair(folder: Path, name: str) -> tuple[Bytes, IntArray]:
    """Images (n, height, width) and classes (n,) of one part of a collection."""
    images = read_idx(_find_file(folder, name, "images"), 3)
    label = read_idx(_find_file(folder, name, "labels"), 1)
    if len(images) != len(label):
        raise BadInput(
            f"{folder}: {len(images):,} {name} images and {len(label):,} labels; the "
            f"files are not of one collection"
        )
    return images, label.astype(int)


def _find_file(folder: Path, name: str, content: str) -> Path:
    for middle in _NAMES[content]:
        for end in ("", ".gz"):
            path = folder / f"{name}{middle}{end}"
            if describe_file_kind(path) == "file":
                return path
    file = f"{name}{_NAMES[content][0]}"
    raise BadInput(f"learning.data.folder: {folder} holds no {file} or {file}.gz")


class Images(OwnedSamples):
    """Every UE owns labelled images, the same ones in every round; all UEs train one model.

    Images have no position, so parts that need positions are refused; the world models only
    mobility and radio. A UE takes part in the rounds in which it measures its radio; an absent UE
    cannot be sampled. Without a folder the images are scikit-learn's digits (8 x 8). A sample x is
    a row of pixels, 0 to 255, one byte each; y is its class.
    """

    kind: Literal["images"] = "images"
    folder: Annotated[str, FILE_NAME] | None = Field(None, min_length=1)
    """folder of IDX files (MNIST, Fashion-MNIST), plain or gzipped; none: the digits"""
    partition: Annotated[Division, PARTITIONS] = LabelSkew()
    """which images each UE holds"""
    samples: Counts = None
    """number of images of each UE, |D_k|; for a list UE k takes entry k mod length; none: equal
    shares of all images, fewer where the classes of a UE run out"""

    reference = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Section V"
    example = {"kind": "images", "samples": 20, "partition": {"kind": "label-skew", "iid": 1}}
    offers = frozenset({"images", "class labels", "labelled samples", RECORDS_ALONE})

    noun = "images"

    def load(self) -> SampleSet:
        return load_collection(self.folder)
