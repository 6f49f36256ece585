"""Partitions of samples among UEs: by the classes of their labels, by number, or by place."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from pydantic import Field

from fl.data.samples import SampleSet
from netsim.errors import BadInput
from netsim.part import OneOf, Part
from netsim.rng import Rng
from netsim.units import IntArray, IntArrayPair


class Division(Part):
    """Says which samples each UE owns; no two UEs own the same one."""

    kind: str = ""

    @abstractmethod
    def deal(self, samples: SampleSet, size: IntArray, rng: Rng) -> IntArrayPair:
        """Samples (M,) with an owner, and the UEs (M,), ascending, that own them; BadInput where it
        lacks classes or places.

        size (K,) : samples that each UE is to own.
        """


class Partition(Division):
    """Says how many samples of each class every device holds; which ones is a matter of dealing
    (`deal_decks`).
    """

    def deal(self, samples: SampleSet, size: IntArray, rng: Rng) -> IntArrayPair:
        label = samples.label
        if label is None:
            raise BadInput(
                f"learning.data.partition: {self.kind} divides classes, and labels are numbers; "
                "take quantity, or place"
            )
        counts = self.draw_counts(size, np.bincount(label), rng)
        return deal_decks(counts, label, rng), np.repeat(np.arange(len(size)), counts.sum(axis=1))

    @abstractmethod
    def draw_counts(self, size: IntArray, per_class: IntArray, rng: Rng) -> IntArray:
        """Samples of each class (K, classes) of devices that are to hold size (K,), of a collection
        that has per_class.

        All devices together hold at most per_class; a device whose classes have run out holds fewer
        than its size.
        """


def deal_decks(counts: IntArray, label: IntArray, rng: Rng) -> IntArray:
    """Samples (N,) of each device one after the other.

    Every class is a shuffled deck that is dealt from the top, device by device: no two devices
    share a sample.
    """
    owner = []
    index = []
    for c, count in enumerate(counts.T):
        deck = np.flatnonzero(label == c)
        deck = deck[np.argsort(rng.draw_keys("deck", c, len(deck)), kind="stable")]
        owner.append(np.repeat(np.arange(len(count)), count))
        index.append(deck[: count.sum()])
    return np.concatenate(index)[np.argsort(np.concatenate(owner), kind="stable")]


class LabelSkew(Partition, kind="label-skew"):
    """The first `iid` UEs hold images of all classes, each of the others `labels` classes in equal
    numbers.

    Classes are assigned to the skewed UEs in turn, in a random order, so the numbers of UEs per
    class differ by at most one. The images of an IID UE are drawn at random from all images, no
    image twice. Of a class with fewer images left than its UEs want they get equal numbers, and the
    rest from their other classes, as far as these last.
    """

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
        if self.iid > devices or self.labels > classes:
            raise BadInput(
                f"learning.data.partition: iid: {self.iid} IID devices of {devices}; labels: "
                f"{self.labels} classes a device of {classes}; take as many at most"
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


class Dirichlet(Partition, kind="dirichlet"):
    """Each UE draws its class shares from Dirichlet(alpha, ..., alpha), and its images from these
    shares.

    A small alpha gives few classes per UE, a large one nearly equal shares. UEs draw one after the
    other, and no image twice: of a class that has run out a UE takes none, and its shares of the
    other classes grow in proportion. The more of the images are dealt, the more the last UEs hold
    what is left.
    """

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


class QuantitySkew(Division, kind="quantity"):
    """UEs own random samples, whatever their labels, in numbers that are drawn once.

    The shares of all samples are from Dirichlet(alpha, ..., alpha); each UE owns one sample at
    least. A small alpha gives few UEs most samples. Without an alpha numbers are equal, or those
    that are asked for.
    """

    alpha: float | None = Field(None, ge=1e-3, le=1e6)
    """concentration parameter of the Dirichlet distribution of numbers of samples; none: equal
    numbers"""

    reference = (
        "Li et al., Federated Learning on Non-IID Data Silos: An Experimental Study, 2022 "
        "(quantity skew)"
    )

    def deal(self, samples: SampleSet, size: IntArray, rng: Rng) -> IntArrayPair:
        count = len(samples)
        devices = len(size)
        if self.alpha is not None and count >= devices:
            draw = rng.make_generator("sizes")
            share = draw.dirichlet(np.full(devices, self.alpha))
            size = 1 + draw.multinomial(count - devices, share)
        ue = np.repeat(np.arange(devices), size)[:count]
        return np.argsort(rng.draw_keys("deck", 0, count), kind="stable")[: len(ue)], ue


class NearPlace(Division, kind="place"):
    """UEs own the samples around a place of their own, so that neighbours in space have one owner.

    Each UE draws a sample, no two the same one, whose place is its seed, and a sample belongs to
    the UE with the nearest seed. Numbers of samples differ as the areas around seeds do.
    """

    reference = (
        "Hsu, Qi, Brown, Federated Visual Classification with Real-World Data Distribution, 2020 "
        "(iNaturalist-Geo)"
    )

    def deal(self, samples: SampleSet, size: IntArray, rng: Rng) -> IntArrayPair:
        from scipy.spatial import cKDTree

        place = samples.place
        if place is None:
            raise BadInput(
                "learning.data.partition: place divides samples by where they are, and they have "
                "no places; take quantity, or dirichlet"
            )
        seed = np.argsort(rng.draw_keys("seeds", 0, len(place)), kind="stable")[: len(size)]
        owner = cKDTree(place[seed]).query(place)[1]
        owner[seed] = np.arange(len(seed))  # also of several at one place
        order = np.argsort(owner, kind="stable")
        return order, owner[order]


PARTITIONS = OneOf("partition", LabelSkew, Dirichlet, QuantitySkew, NearPlace)
