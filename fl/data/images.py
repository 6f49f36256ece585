"""Images that UEs own from the start: collections read from IDX files, and partitions of them among
devices.
"""

from __future__ import annotations

import math
from functools import lru_cache
from gzip import GzipFile
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from fl.data import RECORDS_ALONE
from fl.data.owned import Counts, OwnedSamples
from fl.data.partitions import (
    PARTITIONS,
    Division,
    LabelSkew,
    Partition,  # noqa: F401 - where packages of their own import it from
)
from fl.data.sample_files import Array, blame_source, check_samples
from fl.data.samples import SampleSet
from netsim.errors import BadInput
from netsim.part import FileName
from netsim.safe import open_regular
from netsim.units import ByteArray

_UNSIGNED_BYTES = 0x0800  # of the magic number, plus the number of dimensions
_MOST_BYTES = 2**31


def read_idx(path: Path, dimensions: int) -> ByteArray:
    """Read the array of a file with the given number of dimensions.

    Raises
    ------
    BadInput : one line: not there, not such a file, cut short, or with bytes left over.
    """
    expected = _UNSIGNED_BYTES + dimensions
    with blame_source(path), open_regular(path, _MOST_BYTES) as raw:
        file: Any = GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
        magic, *shape = np.frombuffer(file.read(4 * (1 + dimensions)), ">u4").tolist()
        size = math.prod(shape)
        if magic != expected or not 0 < size <= _MOST_BYTES:
            raise ValueError(
                f"magic number {magic}, expected {expected}, and {size:,} bytes of {shape}"
            )
        return np.frombuffer(file.read(size + 1), np.uint8).reshape(shape)


_EVERY = 5  # every fifth image of each class of the digits is held out


@lru_cache(maxsize=2)
def load_collection(folder: str | None) -> SampleSet:
    """The collection of a folder of IDX files; of None: scikit-learn's digits.

    The same folder is read once: files that change during a run are not noticed.
    """
    if folder is None:
        return check_samples("digits", _load_digits())
    with blame_source(folder):
        columns = _read_folder(Path(folder))
    return check_samples(folder, columns)


def _load_digits() -> dict[str, Array]:
    """1,797 digits of 8 x 8 pixels; of each class every fifth is held out."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = np.rint(digits.images * (255.0 / 16.0)).astype(np.uint8)
    out = np.zeros(len(pixels), bool)
    for c in range(10):
        out[np.flatnonzero(digits.target == c)[_EVERY - 1 :: _EVERY]] = True
    return {"x": pixels[:, None], "y": digits.target, "held_out": out}


def _read_folder(folder: Path) -> dict[str, Array]:
    """MNIST, Fashion-MNIST, or files like theirs: train-* are learnt from, t10k-* held out."""
    parts = []
    for name in ("train", "t10k"):
        images = _read_part(folder, f"{name}-images", 3)
        label = _read_part(folder, f"{name}-labels", 1)
        if len(images) != len(label):
            raise ValueError(f"{len(images):,} {name} images and {len(label):,} labels")
        parts.append((images, label))
    x, y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return {"x": x[:, None], "y": y, "held_out": np.arange(len(y)) >= len(parts[0][1])}


def _read_part(folder: Path, name: str, dimensions: int) -> ByteArray:
    files = sorted(folder.glob(f"{name}[-.]idx{dimensions}-ubyte*"))
    if not files:
        raise BadInput(
            f"learning.data.folder: {folder} holds no {name}-idx{dimensions}-ubyte, nor with .gz"
        )
    return read_idx(files[0], dimensions)


class Images(OwnedSamples, kind="images"):
    """Every UE owns labelled images, the same ones in every round; all UEs train one model.

    Images have no position, so parts that need positions are refused; the world models only
    mobility and radio. A UE takes part in the rounds in which it measures its radio; an absent UE
    cannot be sampled. Without a folder the images are scikit-learn's digits (8 x 8). A sample x is
    a row of pixels, 0 to 255, one byte each; y is its class.
    """

    folder: FileName | None = None
    """folder of IDX files (MNIST, Fashion-MNIST), plain or gzipped; none: the digits"""
    partition: Annotated[Division, PARTITIONS] = LabelSkew()
    """which images each UE holds"""
    samples: Counts = None
    """number of images of each UE, |D_k|; for a list UE k takes entry k mod length; none: equal
    shares of all images, fewer where the classes of a UE run out"""

    reference = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Section V"
    example = {"kind": "images", "samples": 20, "partition": {"kind": "label-skew", "iid": 1}}
    offers = frozenset({"images", "class labels", "labelled samples", RECORDS_ALONE})

    memory: ClassVar = "all"  # type: ignore[misc]

    def load(self) -> SampleSet:
        return load_collection(self.folder)
