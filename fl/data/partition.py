"""Partitions: which images of a collection each device holds."""

from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.errors import BadInput
from netsim.part import OneOf, Part
from netsim.rng import Rng
from netsim.units import IntArray


class Partition(Part):
    """Says how many images of each class every device holds; which ones is a matter of dealing (`deal`)."""

    kind: str

    @abstractmethod
    def counts(self, size: IntArray, per_class: IntArray, rng: Rng) -> IntArray:
        """Images of each class (K, classes) of devices that are to hold size (K,), of a collection that has per_class.

        All devices together hold at most per_class; a device whose classes have run out holds fewer than its size.
        """


def deal(counts: IntArray, label: IntArray, rng: Rng) -> tuple[IntArray, IntArray]:
    """Images (N,) of each device one after the other, and where each device begins (K + 1,).

    Every class is a shuffled deck that is dealt from the top, device by device: no two devices share an image.
    """
    k, classes = counts.shape
    owner = []
    index = []
    for c in range(classes):
        deck = np.flatnonzero(label == c)
        deck = deck[np.argsort(rng.keys("deck", c, len(deck)), kind="stable")]
        owner.append(np.repeat(np.arange(k), counts[:, c]))
        index.append(deck[: len(owner[-1])])
    who = np.concatenate(owner)
    which = np.concatenate(index)
    order = np.argsort(who, kind="stable")
    ptr = np.concatenate([[0], np.cumsum(counts.sum(axis=1))]).astype(np.int64)
    return which[order], ptr


class LabelSkew(Partition):
    """The first `iid` UEs hold images of all classes, each of the others `labels` classes in equal numbers.

    Classes are assigned to the skewed UEs in turn, in a random order, so the numbers of UEs per class differ by at most
    one. The images of an IID UE are drawn at random from all images, no image twice. Of a class with fewer images left
    than its UEs want they get equal numbers, and the rest from their other classes, as far as these last.
    """

    kind: Literal["label-skew"] = "label-skew"
    iid: int = Field(default=3, ge=0, le=1_000_000)
    """number of UEs that hold images of all classes"""
    labels: int = Field(default=1, ge=1, le=256)
    """number of classes of each other UE"""

    reference: ClassVar = (
        "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Section V; McMahan et al., "
        "Communication-Efficient Learning of Deep Networks, 2017, Section 3"
    )
    example: ClassVar = {"kind": "label-skew", "iid": 1}

    def counts(self, size: IntArray, per_class: IntArray, rng: Rng) -> IntArray:
        devices = len(size)
        classes = len(per_class)
        if self.iid > devices:
            raise BadInput(f"learning.data.partition.iid: {self.iid} IID devices of {devices}; take {devices} at most")
        if self.labels > classes:
            raise BadInput(
                f"learning.data.partition.labels: {self.labels} classes a device, the images have {classes}; take fewer"
            )
        counts = np.zeros((devices, classes), dtype=np.int64)
        left = per_class.copy()
        for k in range(self.iid):
            counts[k] = rng.generator("images", k).multivariate_hypergeometric(left, min(size[k], left.sum()))
            left -= counts[k]
        order = np.argsort(rng.keys("classes", 0, classes), kind="stable")
        skewed = np.arange(self.iid, devices)
        held = order[((skewed - self.iid)[:, None] * self.labels + np.arange(self.labels)) % classes]
        while True:
            lacking, there = (size - counts.sum(axis=1))[skewed, None], left[held] > 0  # (skewed, 1), (skewed, labels)
            among = np.maximum(there.sum(axis=1, keepdims=True), 1)
            wanted = there * (lacking // among + (np.cumsum(there, axis=1) <= lacking % among))
            if not wanted.any():
                return counts
            for c in range(classes):
                who, which = np.nonzero(held == c)
                got = _fairly(wanted[who, which], int(left[c]))
                counts[skewed[who], c] += got
                left[c] -= got.sum()


def _fairly(wanted: IntArray, there: int) -> IntArray:
    """Share a number fairly (n,): each gets what it wants, or as many as any other that lacks some, or one more."""
    got = np.zeros_like(wanted)
    for at, i in enumerate(np.argsort(wanted, kind="stable").tolist()):
        got[i] = min(int(wanted[i]), there // (len(wanted) - at))
        there -= int(got[i])
    return got


_LEAST = 1e-300  # share of a class, so that some class is left to draw from when all others have run out


class Dirichlet(Partition):
    """Each UE draws its class shares from Dirichlet(alpha, ..., alpha), and its images from these shares.

    A small alpha gives few classes per UE, a large one nearly equal shares. UEs draw one after the other, and no image
    twice: of a class that has run out a UE takes none, and its shares of the other classes grow in proportion. The more
    of the images are dealt, the more the last UEs hold what is left.
    """

    kind: Literal["dirichlet"] = "dirichlet"
    alpha: float = Field(default=0.5, ge=1e-3, le=1e6)
    """concentration parameter of the Dirichlet distribution"""

    reference: ClassVar = "Hsu, Qi, Brown, Measuring the Effects of Non-Identical Data Distribution, 2019, Section 3"

    def counts(self, size: IntArray, per_class: IntArray, rng: Rng) -> IntArray:
        counts = np.zeros((len(size), len(per_class)), dtype=np.int64)
        left = per_class.copy()
        for k, own in enumerate(counts):
            draw = rng.generator("shares", k)
            share = np.maximum(draw.dirichlet(np.full(len(left), self.alpha)), _LEAST)
            while (lacking := min(size[k] - own.sum(), left.sum())) > 0:
                there = share * (left > 0)
                taken = np.minimum(draw.multinomial(lacking, there / there.sum()), left)
                own += taken
                left -= taken
        return counts


PARTITIONS = OneOf(
    "partition",
    places={
        "label-skew": "fl.data.partition:LabelSkew",
        "dirichlet": "fl.data.partition:Dirichlet",
    },
)
