"""Image classification with federated averaging."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from fl.learners import Learner
from fl.networks import NETWORKS
from fl.networks.classifiers import Cnn, Network
from fl.server_optimiser import MODEL_CHANGES
from fl.types import (
    Bound,
    HeldOut,
    Local,
    Metrics,
    Model,
    Public,
    SampleFormat,
    Updates,
    list_offers,
)
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

if TYPE_CHECKING:
    from fl.networks.sgd_classification import Classifier


class ImageNet(Learner):
    """Learns the class of images by FedAvg: local SGD on the cross-entropy, from the global weights
    w::

        repeat S times: w <- w - learning_rate * grad l(w; batch)      update u = w - w_before

    An epoch of mini-batches that hold a share of the device's images has S = 1 / batch_share steps.
    In the pseudo-gradient g = -u / (eta S) of the LAPA study, with eta the learning rate, a clip of
    g at C is a clip of u at eta S C, and noise on g of std s is noise on u of std eta S s; channels
    are alike in either unit.

    `sample_clip` C scales every image's gradient to norm C at most before a batch is averaged. For
    one full-batch step (`batch_share: 1`) replacing one of a device's n images moves its update by
    at most 2 eta C / n, and noise may follow without a clip; n is that of the device with the
    fewest, and taken as known. Clipped gradients are added up in double precision, and the bound
    includes what weights round by.

    Weights start uniform within 1 / sqrt(fan in). Training has single precision unless `precision:
    64`, evaluation always; global models and updates have double precision. One processor core
    gives the same numbers wherever it runs, a graphics card others in the last digits. The figure
    `accuracy_percent` is the share of held-out images whose likeliest class is right,
    `constant_accuracy_percent` that of naming their commonest class, `cross_entropy_nats` the mean
    loss on them.
    """

    kind: Literal["image-net"] = "image-net"
    network: Annotated[Network, NETWORKS] = Cnn()
    """network of the classifier"""
    learning_rate: float = Field(0.01, gt=0, le=10)
    """learning rate of local training (lambda)"""
    batch_share: float = Field(0.1, gt=0, le=1)
    """share of a UE's images in a mini-batch; 1: full batch"""
    local_epochs: int = Field(1, ge=1, le=1000)
    """passes over the local images in a round"""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """torch device of the training; auto: the GPU if there is one"""
    precision: Literal[32, 64] = 32
    """bits of the numbers of local training"""
    sample_clip: float | None = Field(None, ge=1e-12, le=1e12)
    """largest L2 norm of one image's gradient (C); none: no clipping"""

    reference = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Eqs. 1-3"
    example = {"kind": "image-net", "network": {"kind": "mlp", "hidden": [8]}}
    needs = {"images": "it classifies images; take data of kind images"}
    loss_in_nats = True

    @property
    def offers(self) -> frozenset[str]:  # type: ignore[override]
        """`bound` and `record bound` where one image's share of an update is bounded; `record
        gradients` where each image has one of its own.
        """
        words = dict.fromkeys(("bound", "record bound"), self._has_record_bound)
        words |= {
            "record loss": True,
            MODEL_CHANGES: True,
            "record gradients": not self.network.mixes_images,
        }
        return list_offers(words)

    @property
    def _has_record_bound(self) -> bool:
        return self.sample_clip is not None and self.batch_share == 1 and self.local_epochs == 1

    @property
    def passes(self) -> float:
        return float(self.local_epochs)

    def init(self, public: Public, rng: Rng) -> Model:
        image = public.samples
        if image is None:
            raise ValueError("image-net: the format of the images is unknown")
        from fl.networks.sgd_classification import choose_device

        self.network.check(image)
        choose_device(self.device)  # which may not be there
        image_format = [image.shape[-2], image.shape[-1], image.classes]
        constants = {"format": np.tile(image_format, (public.n_model, 1))}
        return Model(self.network.draw_parameters(public.n_model, image, rng), constants)

    def _build_classifier(self, model: Model) -> "Classifier":
        from fl.networks.sgd_classification import Classifier, choose_device

        height, width, classes = model.constants["format"][0].astype(int).tolist()
        return Classifier(
            self.network,
            SampleFormat((1, height, width), classes, 255.0),
            choose_device(self.device),
        )

    def train_locally(self, model: Model, phase: str, data: Local, rng: Rng) -> Updates:
        from fl.networks.sgd_classification import ClassificationSettings

        settings = ClassificationSettings(
            self.learning_rate,
            self.batch_share,
            self.local_epochs,
            self.sample_clip,
            self.precision,
        )
        updates = self._build_classifier(model).train(model.parameters, data, settings, rng)
        if self.sample_clip is None or not self._has_record_bound:
            return updates
        bound = Bound.from_record(self.learning_rate * self.sample_clip, data, model)
        return replace(updates, bound=bound)

    def step(self, model: Model, phase: str, merged: FloatArray) -> Model:
        return replace(model, parameters=model.parameters + merged)

    def compute_record_losses(
        self, model: Model, model_of: IntArray, x: FloatArray, y: FloatArray
    ) -> FloatArray:
        """Cross-entropy of each record; batch normalisation takes its statistics from the records
        asked together.
        """
        return self._build_classifier(model).compute_losses_and_hits(
            model.parameters, model_of, x, y
        )[0]

    def compute_record_gradients(
        self, model: Model, model_of: IntArray, x: FloatArray, y: FloatArray
    ) -> FloatArray:
        return self._build_classifier(model).compute_image_gradients(
            model.parameters, model_of, x, y
        )

    def evaluate(self, model: Model, held_out: HeldOut) -> Metrics:
        if len(held_out) == 0:
            return dict.fromkeys(
                ("accuracy_percent", "constant_accuracy_percent", "cross_entropy_nats"),
                float("nan"),
            )
        loss, right = self._build_classifier(model).compute_losses_and_hits(
            model.parameters, held_out.model, held_out.x, held_out.y
        )
        commonest = np.unique(held_out.y, return_counts=True)[1].max()
        return {
            "accuracy_percent": float(100.0 * right.mean()),
            "constant_accuracy_percent": float(100.0 * commonest / len(right)),
            "cross_entropy_nats": float(loss.mean()),
        }
