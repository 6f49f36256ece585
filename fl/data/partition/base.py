"""The partition slot: which images of a collection each device holds."""

from abc import abstractmethod

import numpy as np

from netsim.part import Part
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
    owner, index = [], []
    for c in range(classes):
        deck = np.flatnonzero(label == c)
        deck = deck[np.argsort(rng.keys("deck", c, len(deck)), kind="stable")]
        owner.append(np.repeat(np.arange(k), counts[:, c]))
        index.append(deck[: len(owner[-1])])
    who, which = np.concatenate(owner), np.concatenate(index)
    order = np.argsort(who, kind="stable")
    ptr = np.concatenate([[0], np.cumsum(counts.sum(axis=1))]).astype(np.int64)
    return which[order], ptr
