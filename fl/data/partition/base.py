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
        """Images of each class (K, classes) of devices that hold size (K,); the collection has per_class."""


def deal(counts: IntArray, label: IntArray, rng: Rng) -> tuple[IntArray, IntArray]:
    """Images (N,) of each device one after the other, and where each device begins (K + 1,).

    Every class is a shuffled deck that is dealt from the top, device by device. A deck that runs out is dealt again
    from the top: only then do two devices share images. No device gets an image twice.
    """
    k, classes = counts.shape
    owner, index = [], []
    for c in range(classes):
        deck = np.flatnonzero(label == c)
        deck = deck[np.argsort(rng.keys("deck", c, len(deck)), kind="stable")]
        who = np.repeat(np.arange(k), counts[:, c])
        index.append(deck[np.arange(len(who)) % max(len(deck), 1)])
        owner.append(who)
    who, which = np.concatenate(owner), np.concatenate(index)
    order = np.argsort(who, kind="stable")
    ptr = np.concatenate([[0], np.cumsum(counts.sum(axis=1))]).astype(np.int64)
    return which[order], ptr
