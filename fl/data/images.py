"""Images that UEs own from the start: collections read from IDX files, and partitions of them among
devices.
"""

from __future__ import annotations

import gzip
import math
import zlib
from abc import abstractmethod
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, BinaryIO, Literal, cast

import numpy as np
import numpy.typing as npt
from pydantic import Field

from fl.data import RECORDS_ALONE, Data, TakenData
from fl.types import HeldOut, Local, SampleFormat, compute_bounds
from netsim.columns import frozen
from netsim.errors import BadInput
from netsim.part import FILE_NAME, OneOf, Part
from netsim.rng import Rng
from netsim.safe import describe_file_kind, open_regular
from netsim.ues import Observations
from netsim.units import FloatArray, IntArray

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


@frozen
class Collection:
    """Images (N, height * width), one byte a pixel, and their classes (N,), counted from 0: to
    train, and held out.
    """

    format: SampleFormat
    train: Bytes
    label: IntArray
    held_out: Bytes
    held_out_label: IntArray

    @property
    def per_class(self) -> IntArray:
        """Training images of each class (classes,)."""
        return np.bincount(self.label, minlength=self.format.classes)


@lru_cache(maxsize=2)
def load_collection(folder: str | None) -> Collection:
    """The collection of a folder of IDX files; of None: scikit-learn's digits.

    The same folder is read once: files that change during a run are not noticed.
    """
    if folder is None:
        return _load_digits()
    return _read_folder(Path(folder))


def _load_digits() -> Collection:
    """1,797 digits of 8 x 8 pixels; of each class every fifth is held out."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = np.rint(digits.data * (255.0 / 16.0)).astype(np.uint8)
    label = digits.target.astype(int)
    out = np.zeros(len(label), bool)
    for c in range(10):
        out[np.flatnonzero(label == c)[_EVERY - 1 :: _EVERY]] = True
    return Collection(
        SampleFormat((1, 8, 8), 10, 255.0), pixels[~out], label[~out], pixels[out], label[out]
    )


def _read_folder(folder: Path) -> Collection:
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
    height, width = train.shape[1:]
    return Collection(
        SampleFormat((1, height, width), classes, 255.0),
        train.reshape(len(train), -1),
        label,
        held.reshape(len(held), -1),
        held_label,
    )


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


class Partition(Part):
    """Says how many images of each class every device holds; which ones is a matter of dealing
    (`deal_images`).
    """

    kind: str

    @abstractmethod
    def draw_counts(self, size: IntArray, per_class: IntArray, rng: Rng) -> IntArray:
        """Images of each class (K, classes) of devices that are to hold size (K,), of a collection
        that has per_class.

        All devices together hold at most per_class; a device whose classes have run out holds fewer
        than its size.
        """


def deal_images(counts: IntArray, label: IntArray, rng: Rng) -> tuple[IntArray, IntArray]:
    """Images (N,) of each device one after the other, and where each device begins (K + 1,).

    Every class is a shuffled deck that is dealt from the top, device by device: no two devices
    share an image.
    """
    owner = []
    index = []
    for c, count in enumerate(counts.T):
        deck = np.flatnonzero(label == c)
        deck = deck[np.argsort(rng.draw_keys("deck", c, len(deck)), kind="stable")]
        owner.append(np.repeat(np.arange(len(count)), count))
        index.append(deck[: count.sum()])
    order = np.argsort(np.concatenate(owner), kind="stable")
    return np.concatenate(index)[order], compute_bounds(counts.sum(axis=1))


class LabelSkew(Partition):
    """The first `iid` UEs hold images of all classes, each of the others `labels` classes in equal
    numbers.

    Classes are assigned to the skewed UEs in turn, in a random order, so the numbers of UEs per
    class differ by at most one. The images of an IID UE are drawn at random from all images, no
    image twice. Of a class with fewer images left than its UEs want they get equal numbers, and the
    rest from their other classes, as far as these last.
    """

    kind: Literal["label-skew"] = "label-skew"
    iid: int = Field(3, ge=0, le=1_000_000)
    """number of UEs that hold images of all classes"""
    labels: int = Field(1, ge=1, le=256)
    """number of classes of each other UE"""

    reference = (
        "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Section V; "
        "McMahan et al., Communication-Efficient Learning of Deep Networks, 2017, Section 3"
    )
    example = {"kind": "label-skew", "iid": 1}

    def draw_counts(self, size: IntArray, per_class: IntArray, rng: Rng) -> IntArray:
        devices = len(size)
        classes = len(per_class)
        if self.iid > devices:
            raise BadInput(
                f"learning.data.partition.iid: {self.iid} IID devices of {devices}; take "
                f"{devices} at most"
            )
        if self.labels > classes:
            raise BadInput(
                f"learning.data.partition.labels: {self.labels} classes a device, the "
                f"images have {classes}; take fewer"
            )
        counts = np.zeros((devices, classes), int)
        left = per_class.copy()
        for k in range(self.iid):
            counts[k] = rng.make_generator("images", k).multivariate_hypergeometric(
                left, min(size[k], left.sum())
            )
            left -= counts[k]
        order = np.argsort(rng.draw_keys("classes", 0, classes), kind="stable")
        skewed = np.arange(self.iid, devices)
        first = (skewed - self.iid)[:, None] * self.labels
        held = order[(first + np.arange(self.labels)) % classes]
        while True:
            lacking = (size - counts.sum(axis=1))[skewed, None]  # (skewed, 1)
            is_left = left[held] > 0  # (skewed, labels)
            among = np.maximum(is_left.sum(axis=1, keepdims=True), 1)
            demand = is_left * (lacking // among + (np.cumsum(is_left, axis=1) <= lacking % among))
            if not demand.any():
                return counts
            for c in range(classes):
                device, slot = np.nonzero(held == c)
                got = _share_fairly(demand[device, slot], left[c])
                counts[skewed[device], c] += got
                left[c] -= got.sum()


def _share_fairly(demand: IntArray, left: int) -> IntArray:
    """Share a number fairly (n,): each gets what it wants, or as many as any other that lacks some,
    or one more.
    """
    got = np.zeros_like(demand)
    for rank, i in enumerate(np.argsort(demand, kind="stable").tolist()):
        got[i] = min(demand[i], left // (len(demand) - rank))
        left -= got[i]
    return got


# share of a class, so that some class is left to draw from when all others have run out
_LEAST = 1e-300


class Dirichlet(Partition):
    """Each UE draws its class shares from Dirichlet(alpha, ..., alpha), and its images from these
    shares.

    A small alpha gives few classes per UE, a large one nearly equal shares. UEs draw one after the
    other, and no image twice: of a class that has run out a UE takes none, and its shares of the
    other classes grow in proportion. The more of the images are dealt, the more the last UEs hold
    what is left.
    """

    kind: Literal["dirichlet"] = "dirichlet"
    alpha: float = Field(0.5, ge=1e-3, le=1e6)
    """concentration parameter of the Dirichlet distribution"""

    reference = (
        "Hsu, Qi, Brown, Measuring the Effects of Non-Identical Data Distribution, 2019, Section 3"
    )

    def draw_counts(self, size: IntArray, per_class: IntArray, rng: Rng) -> IntArray:
        counts = np.zeros((len(size), len(per_class)), int)
        left = per_class.copy()
        for k, count in enumerate(counts):
            draw = rng.make_generator("shares", k)
            share = np.maximum(draw.dirichlet(np.full(len(left), self.alpha)), _LEAST)
            while (lacking := min(size[k] - count.sum(), left.sum())) > 0:
                available = share * (left > 0)
                taken = np.minimum(draw.multinomial(lacking, available / available.sum()), left)
                count += taken
                left -= taken
        return counts


PARTITIONS = OneOf("partition", LabelSkew, Dirichlet)


Count = Annotated[int, Field(ge=1, le=100_000_000)]


@frozen
class ImageOwners:
    """Which images each UE holds: index (N,) into the collection, UE k those from ptr[k] to ptr[k +
    1].

    scored: whether the held-out images have been returned, which happens once.
    """

    index: IntArray
    ptr: IntArray
    scored: bool = False


class Images(Data):
    """Every UE owns labelled images, the same ones in every round; all UEs train one model.

    Images have no position, so parts that need positions are refused; the world models only
    mobility and radio. A UE takes part in the rounds in which it measures its radio; an absent UE
    cannot be sampled. Without a folder the images are scikit-learn's digits (8 x 8). A sample x is
    a row of pixels, 0 to 255, one byte each; y is its class.
    """

    kind: Literal["images"] = "images"
    folder: Annotated[str, FILE_NAME] | None = Field(None, min_length=1)
    """folder of IDX files (MNIST, Fashion-MNIST), plain or gzipped; none: the digits"""
    partition: Annotated[Partition, PARTITIONS] = LabelSkew()
    """which images each UE holds"""
    samples: Count | Annotated[tuple[Count, ...], Field(min_length=1)] | None = None
    """number of images of each UE, |D_k|; for a list UE k takes entry k mod length; none: equal
    shares of all images, fewer where the classes of a UE run out"""

    reference = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Section V"
    example = {"kind": "images", "samples": 20, "partition": {"kind": "label-skew", "iid": 1}}
    offers = frozenset({"images", "class labels", "labelled samples", RECORDS_ALONE})

    def choose_models(self, cells: tuple[str, ...], counts: IntArray | None) -> tuple[str, ...]:
        return ("images",)

    def read_sample_format(self) -> SampleFormat:
        return load_collection(self.folder).format

    def start(self, n_ue: int, rng: Rng) -> ImageOwners:
        whole = load_collection(self.folder)
        if self.samples is None:
            size = np.full(n_ue, max(len(whole.label) // n_ue, 1))
            min_size = np.ones_like(size)
        else:
            size = min_size = np.resize(self.samples, n_ue)
        counts = self.partition.draw_counts(size, whole.per_class, rng)
        short = np.flatnonzero(counts.sum(axis=1) < min_size)
        if len(short):
            ue = short[0]
            place = "learning.data.samples"
            remedy = "samples or UEs, or leave samples out"
            if self.samples is None:
                place = "world.ues.count"
                remedy = "UEs"
            raise BadInput(
                f"{place}: ue{ue} is to hold {size[ue]:,} of {len(whole.label):,} images, and of "
                f"the classes that {self.partition.kind} gives it {counts[ue].sum():,} are left "
                f"that no other UE holds; take fewer {remedy}"
            )
        return ImageOwners(*deal_images(counts, whole.label, rng))

    def take(
        self, observed: Observations, model_of_cell: IntArray, state: ImageOwners, rng: Rng
    ) -> tuple[TakenData, ImageOwners]:
        whole = load_collection(self.folder)
        ues = np.unique(observed.ue)
        count = np.diff(state.ptr)[ues]
        ptr = compute_bounds(count)
        offset = np.repeat(state.ptr[ues] - ptr[:-1], count)
        chosen = state.index[np.arange(ptr[-1]) + offset]
        x = cast(FloatArray, whole.train[chosen])  # bytes: eight times smaller
        y = whole.label[chosen].astype(float)
        local = Local(ues, np.zeros_like(ues), ptr, x, y, np.zeros(len(chosen)))
        scored = slice(0) if state.scored else slice(None)
        pixels = cast(FloatArray, whole.held_out[scored])
        label = whole.held_out_label[scored].astype(float)
        no_ue = np.full(len(label), -1)
        held_out = HeldOut(no_ue, np.zeros_like(no_ue), pixels, label, no_ue)
        state = replace(state, scored=state.scored or len(ues) > 0)
        return TakenData(local, local, held_out), state
