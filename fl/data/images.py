"""Images that UEs own from the start."""

from dataclasses import replace
from typing import Annotated, ClassVar, Literal, cast

import numpy as np
from pydantic import Field

from fl.data import RECORDS_ALONE, Data, TakenData
from fl.data.collection import collection
from fl.data.partition import PARTITIONS, LabelSkew, Partition, deal
from fl.types import HeldOut, ImageFormat, Local
from netsim.columns import frozen
from netsim.errors import BadInput
from netsim.part import FILE_NAME
from netsim.rng import Rng
from netsim.ues import Observations
from netsim.units import FloatArray, IntArray

Count = Annotated[int, Field(ge=1, le=100_000_000)]


@frozen
class ImageOwners:
    """Which images each UE holds: index (N,) into the collection, UE k those from ptr[k] to ptr[k + 1].

    scored: whether the held-out images have been returned, which happens once.
    """

    index: IntArray
    ptr: IntArray
    scored: bool = False


class Images(Data):
    """Every UE owns labelled images, the same ones in every round; all UEs train one model.

    Images have no position, so parts that need positions are refused; the world models only mobility and radio. A UE
    takes part in the rounds in which it measures its radio; an absent UE cannot be sampled. Without a folder the images
    are scikit-learn's digits (8 x 8). A sample x is a row of pixels, 0 to 255, one byte each; y is its class.
    """

    kind: Literal["images"] = "images"
    folder: Annotated[str, FILE_NAME] | None = Field(default=None, min_length=1)
    """folder of IDX files (MNIST, Fashion-MNIST), plain or gzipped; none: the digits"""
    partition: Annotated[Partition, PARTITIONS] = LabelSkew()
    """which images each UE holds"""
    samples: Count | Annotated[tuple[Count, ...], Field(min_length=1)] | None = None
    """number of images of each UE, |D_k|; for a list UE k takes entry k mod length; none: equal shares of all images,
    fewer where the classes of a UE run out"""

    reference: ClassVar = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Section V"
    example: ClassVar = {"kind": "images", "samples": 20, "partition": {"kind": "label-skew", "iid": 1}}
    offers: ClassVar = frozenset({"images", "class labels", RECORDS_ALONE})

    def models(self, cells: tuple[str, ...], counts: IntArray | None) -> tuple[str, ...]:
        return ("images",)

    def image_format(self) -> ImageFormat:
        return collection(self.folder).format

    def start(self, n_ue: int, rng: Rng) -> ImageOwners:
        whole = collection(self.folder)
        shared = (max(len(whole.label) // n_ue, 1),) if self.samples is None else np.atleast_1d(self.samples)
        size = np.resize(np.asarray(shared, dtype=np.int64), n_ue)
        counts = self.partition.counts(size, whole.per_class, rng)
        short = np.flatnonzero(counts.sum(axis=1) < (1 if self.samples is None else size))
        if len(short):
            ue = short[0]
            kind = self.partition.kind
            place = "learning.data.samples"
            remedy = "samples or UEs, or leave samples out"
            if self.samples is None:
                place = "world.ues.count"
                remedy = "UEs"
            raise BadInput(
                f"{place}: ue{ue} is to hold {size[ue]:,} of {len(whole.label):,} images, and of the classes that "
                f"{kind} gives it {counts[ue].sum():,} are left that no other UE holds; take fewer {remedy}"
            )
        index, ptr = deal(counts, whole.label, rng)
        return ImageOwners(index, ptr)

    def take(
        self, observed: Observations, model_of_cell: IntArray, state: ImageOwners, rng: Rng
    ) -> tuple[TakenData, ImageOwners]:
        whole = collection(self.folder)
        here = np.unique(observed.ue)
        begin = state.ptr[here]
        count = np.diff(state.ptr)[here]
        ptr = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
        chosen = state.index[np.arange(ptr[-1]) - np.repeat(ptr[:-1] - begin, count)]
        local = Local(
            ue=here,
            model=np.zeros(len(here), dtype=np.int64),
            ptr=ptr,
            x=cast(FloatArray, whole.train[chosen]),  # bytes: eight times smaller
            y=whole.label[chosen].astype(np.float64),
            time_s=np.zeros(len(chosen)),
        )
        scored = slice(0) if state.scored else slice(None)
        pixels = whole.held_out[scored]
        label = whole.held_out_label[scored]
        no_ue = np.full(len(label), -1, dtype=np.int64)
        held_out = HeldOut(no_ue, np.zeros_like(no_ue), cast(FloatArray, pixels), label.astype(np.float64), no_ue)
        return TakenData(local, local, held_out), replace(state, scored=state.scored or len(here) > 0)
