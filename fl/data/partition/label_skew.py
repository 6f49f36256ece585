"""Label skew: some UEs hold images of all classes, the others of few classes."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.data.partition.base import Partition
from netsim.errors import BadInput
from netsim.rng import Rng
from netsim.units import IntArray


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
        devices, classes = len(size), len(per_class)
        if self.iid > devices:
            raise BadInput(f"learning.data.partition.iid: {self.iid} IID devices of {devices}; take {devices} at most")
        if self.labels > classes:
            raise BadInput(
                f"learning.data.partition.labels: {self.labels} classes a device, the images have {classes}; take fewer"
            )
        counts, left = np.zeros((devices, classes), dtype=np.int64), per_class.copy()
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
