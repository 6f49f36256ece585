"""Local optimisers: how a device moves its weights along the gradients of its batches."""

from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from netsim.part import OneOf, Part, Share
from netsim.units import FloatArray, IntArray


class Optimiser(Part):
    """Moves weights w by a step along the gradient g of a batch; t, or t (k, 1), counts the steps
    of a round from 1.

    Its memory begins at zero in every round, so an update depends on the data of its round alone.
    """

    kind: str = ""
    linear: ClassVar = True
    """whether the change of the weights is a linear combination of the gradients, with the same
    factors for all parameters"""

    def start(self, w: FloatArray) -> list[FloatArray]:
        """The memory before the first step of networks w (k, d): arrays of the shape and type of
        w.
        """
        return []

    @abstractmethod
    def step(
        self,
        w: FloatArray,
        g: FloatArray,
        memory: list[FloatArray],
        learning_rate: float,
        t: int | IntArray,
    ) -> None:
        """Changes weights w (k, d) and memory in place; in the precision of w, from gradients g (k,
        d).

        Rows are networks, and contiguous. They become fewer when devices have taken all their
        steps, and lack the parameters of frozen layers.
        """


class Sgd(Optimiser, kind="sgd"):
    """w <- w - learning_rate g."""

    reference = (
        "McMahan et al., Communication-Efficient Learning of Deep Networks, 2017, Algorithm 1"
    )

    def step(
        self,
        w: FloatArray,
        g: FloatArray,
        memory: list[FloatArray],
        learning_rate: float,
        t: int | IntArray,
    ) -> None:
        w -= w.dtype.type(learning_rate) * g


class Momentum(Optimiser, kind="momentum"):
    """v <- momentum v + g, w <- w - learning_rate v, from v = 0 in every round."""

    momentum: float = Field(0.9, ge=0, lt=1)
    """share of the velocity that is kept from step to step"""

    reference = "Goodfellow, Bengio, Courville, Deep Learning, 2016, Section 8.3.2"

    def start(self, w: FloatArray) -> list[FloatArray]:
        return [np.zeros_like(w)]

    def step(
        self,
        w: FloatArray,
        g: FloatArray,
        memory: list[FloatArray],
        learning_rate: float,
        t: int | IntArray,
    ) -> None:
        velocity = memory[0]
        number = w.dtype.type
        velocity *= number(self.momentum)
        velocity += g
        w -= number(learning_rate) * velocity


class Adam(Optimiser, kind="adam"):
    """Steps of each parameter's own size: w <- w - learning_rate m' / (sqrt(v') + epsilon).

    m <- beta1 m + (1 - beta1) g, v <- beta2 v + (1 - beta2) g^2, both from zero in every round, and
    m' = m / (1 - beta1^t), v' = v / (1 - beta2^t). An update is no linear combination of gradients:
    the first step of every parameter has the same size.
    """

    beta1: float = Field(0.9, ge=0, lt=1)
    """decay of the mean of gradients"""
    beta2: float = Field(0.999, ge=0, lt=1)
    """decay of the mean of their squares"""
    epsilon: float = Field(1e-8, ge=1e-16, le=1)
    """what is added to the root of the mean square"""

    linear = False
    reference = "Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015, Algorithm 1"

    def start(self, w: FloatArray) -> list[FloatArray]:
        return [np.zeros_like(w), np.zeros_like(w)]

    def step(
        self,
        w: FloatArray,
        g: FloatArray,
        memory: list[FloatArray],
        learning_rate: float,
        t: int | IntArray,
    ) -> None:
        (m, v) = memory
        number = w.dtype.type
        size = number(learning_rate / (1.0 - self.beta1**t))
        root = number((1.0 - self.beta2**t) ** 0.5)
        m *= number(self.beta1)
        m += number(1.0 - self.beta1) * g
        v *= number(self.beta2)
        v += number(1.0 - self.beta2) * g * g
        w -= size * m / (np.sqrt(v) / root + number(self.epsilon))


OPTIMISERS = OneOf("optimiser", Sgd, Momentum, Adam)
"""The slot of a learner's local optimiser."""


class LocalTraining(Part):
    """Options of local training, which are the same for every learner that trains a network.

    A mini-batch holds `batch_size` samples, or a share of those of the UE. `proximal` mu adds mu /
    2 |w - w_before|^2 to the loss of every batch [Li et al. 2020, Eq. 2]; `weight_decay` lambda
    adds lambda w to every gradient. `sample_clip` C scales the gradient of every sample to norm C
    at most before a batch is averaged.
    """

    learning_rate: float = Field(0.01, gt=0, le=10)
    """learning rate of local training"""
    optimiser: Annotated[Optimiser, OPTIMISERS] = Sgd()
    """optimiser of local training; its memory begins at zero in every round"""
    proximal: float = Field(0.0, ge=0, le=1e6)
    """weight of a proximal term (mu of FedProx); 0: none"""
    weight_decay: float = Field(0.0, ge=0, le=1e3)
    """share of the weights that is added to every gradient; 0: none"""
    batch_share: Share | None = None
    """share of a UE's samples in a mini-batch, in place of their number; 1: full batch"""
    batch_size: int | Literal["all"] = "all"
    """number of samples in a mini-batch; all: full batch, or what batch_share says"""
    local_epochs: int = Field(1, ge=1, le=1000)
    """passes over the local data in a round"""
    precision: Literal[32, 64] = 32
    """bits of the numbers of local training"""
    sample_clip: float | None = Field(None, ge=1e-12, le=1e12)
    """largest L2 norm of one sample's gradient (C); none: no clipping"""

    @model_validator(mode="after")
    def _check_batches(self) -> Self:
        if self.batch_size == "all":
            return self
        if self.batch_size < 1:
            raise ValueError("batch_size: must be 1 or more, or the word all")
        if self.batch_share is not None:
            raise ValueError("batch_share: batch_size is a number already; leave one of them out")
        return self

    @property
    def passes(self) -> float:
        """Passes over every sample in a round."""
        return float(self.local_epochs)

    @property
    def is_full_batch(self) -> bool:
        """Whether a batch holds all samples of a UE."""
        return self.batch_size == "all" and self.batch_share in (None, 1)

    @property
    def takes_one_step(self) -> bool:
        """Whether a UE takes one full-batch step a round."""
        return self.is_full_batch and self.local_epochs == 1

    @property
    def dtype(self) -> Any:
        """The type of the numbers of local training."""
        return np.float32 if self.precision == 32 else np.float64

    def compute_batch_sizes(self, count: IntArray) -> IntArray:
        """Samples of a full mini-batch (n,) of UEs with count (n,) samples, one at least."""
        size = count
        if self.batch_share is not None:
            size = np.ceil(self.batch_share * count - 1e-9).astype(int)
        elif self.batch_size != "all":
            size = np.minimum(count, self.batch_size)
        return np.maximum(size, 1)

    def order_rows(self, count: IntArray) -> IntArray:
        """Rows with samples of counts (n,): most steps, then most samples first."""
        steps = -(-count // self.compute_batch_sizes(count))
        return np.lexsort((-count, -steps))[: np.count_nonzero(count)]


class RegressionTraining(LocalTraining):
    """Options of local training by gradients that are written by hand."""

    step_limit: Literal["none", "polyak"] = "none"
    """what shortens a local step that is too long for its batch: nothing, or Polyak's rule"""
    frozen_layers: int = Field(0, ge=0, le=8)
    """number of first layers that stay at their initial weights; 0: none"""
    dropout: float = Field(0.0, ge=0, lt=1)
    """share of hidden units left out at each training step (inverted dropout)"""
