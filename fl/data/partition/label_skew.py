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
    one. The images of an IID UE are drawn at random from all images.
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
        order = np.argsort(rng.keys("classes", 0, classes), kind="stable")
        skewed = np.arange(devices - self.iid)
        held = order[(skewed[:, None] * self.labels + np.arange(self.labels)) % classes]  # (skewed, labels)
        wanted = size[self.iid :]
        share = wanted[:, None] // self.labels + (np.arange(self.labels) < wanted[:, None] % self.labels)
        counts = np.zeros((devices, classes), dtype=np.int64)
        counts[self.iid + skewed[:, None], held] = share
        for k in range(self.iid):
            counts[k] = _sampled(int(size[k]), per_class, k, rng)
        return counts


def _sampled(size: int, per_class: IntArray, device: int, rng: Rng) -> IntArray:
    """Images of each class (classes,) among `size` of all images, drawn without replacement."""
    whole = np.repeat(np.arange(len(per_class)), per_class)
    if size > len(whole):
        raise BadInput(
            f"learning.data.samples: ue{device} is to hold {size:,} images of {len(whole):,}; take fewer samples"
        )
    chosen = whole[np.argsort(rng.keys("images", device, len(whole)), kind="stable")[:size]]
    return np.bincount(chosen, minlength=len(per_class))
