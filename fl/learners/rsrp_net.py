"""Signal-strength maps: a small network from position to RSRP, one per cell."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from math import nan
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fl.encodings import ENCODINGS, Encoding, Fourier, Position, encode_positions
from fl.learners.position_net import PositionNet, Read
from fl.optimisers import RegressionTraining
from fl.priors import PRIORS, NoPrior, Prior
from fl.types import Local, Metrics, Model, Public
from netsim.columns import pick_even_indices
from netsim.part import Part
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray, Ints

if TYPE_CHECKING:
    from fl.networks.mlp import Mlp


_MOST_DIAGNOSED = 20_000  # samples

_PUBLISHED: dict[str, Any] = {
    "activation": "elu",
    "labels": "raw",
    "encoding": Position(),
    "learning_rate": 1e-3,
    "batch_size": "all",
    "local_epochs": 1,
    "step_limit": "none",
}
PROFILES: dict[str, dict[str, Any]] = {
    "published": _PUBLISHED,
    "useful": {
        "activation": "relu",
        "labels": "standardised",
        "encoding": Fourier(),
        "learning_rate": 3e-2,
        "batch_size": 64,
        "local_epochs": 5,
        "step_limit": "polyak",
    },
}
"""The defaults of keys that follow the profile."""


def _get_profile_default(key: str) -> Callable[[dict[str, Any]], Any]:
    return lambda settings: PROFILES[settings.get("profile", "published")][key]


def _choose_step_limit(settings: dict[str, Any]) -> Literal["none", "polyak"]:
    linear = getattr(settings.get("optimiser"), "linear", True)
    if linear and _get_profile_default("step_limit")(settings) == "polyak":
        return "polyak"
    return "none"


def _choose_batch_size(settings: dict[str, Any]) -> Any:
    if settings.get("batch_share") is not None:
        return "all"
    return _get_profile_default("batch_size")(settings)


class _Profiled(Part):
    """Stands before the keys whose defaults follow it."""

    profile: Literal["published", "useful"] = "published"
    """defaults of the other keys: published, those of the attack papers; useful, those that learn a
    map worth having (relu, standardised labels, Fourier encoding, learning rate 3e-2 with Polyak's
    limit, batches of 64, 5 epochs)"""


class RsrpNet(PositionNet, RegressionTraining, _Profiled, kind="rsrp-net"):
    """Learns RSRP (dBm) from position with a fully connected network, by FedSGD or FedAvg.

    Loss: mean squared error. Local work is SGD from the global weights w, or another `optimiser`::

        repeat local_epochs times: w <- w - learning_rate * grad l(w; batch)      update u = w -
        w_before

    `proximal` mu adds mu / 2 |w - w_before|^2 to the loss of every batch [Li et al. 2020, Eq. 2];
    in the first step of a round it changes nothing. `weight_decay` lambda adds lambda w to every
    gradient: weights that no sample needs go back to 0, and what a map predicts at unmeasured
    places to its prior. An update then has a part of w itself, which the server knows. Frozen
    layers have updates of exactly zero, which are sent like others.

    `step_limit: polyak` bounds the learning rate of each step by the batch itself [Loizou et al.
    2021, SPS_max with c = 1/3 and f* = 0]: gamma = min(learning_rate, 3 l / |g|^2), where l is the
    mean squared error of the batch (without a proximal term) and g the gradient. Of one sample, or
    of many alike, the linearised network then errs by at most half as much after the step; without
    it such a batch explodes as soon as 2 learning_rate |dF/dw|^2 > 2. Batches of many places are
    seldom that steep, and keep their step. The direction of a gradient stays, so an update is still
    a linear combination of gradients; a record, however, moves the step of all others, so no
    `sample_clip` bounds it.

    FedSGD is the default (batch_size: all, local_epochs: 1). Weights start Glorot-uniform, biases
    at zero. Inputs are standardised, z = (x - centre) / scale, with constants that the server
    knows. The reference study attacks networks with smooth activations (elu or tanh) and learns its
    best maps with relu.

    With `labels: raw` (dBm) all residuals initially have one sign, and the batch centroid can be
    recovered from updates; `centred` starts the output bias at the public mean RSRP, which removes
    most of that leakage under FedSGD. `standardise_by: dataset` standardises by the mean and
    deviation of the data, as in the paper; a deployment does not know them. `public` uses the
    centre of the area and half its side / sqrt(3). With a `prior` labels are differences to it,
    whose public mean is 0.

    `sample_clip` C scales the gradient of every sample to norm C at most before a batch is
    averaged. For one full-batch step with `standardise_by: public`, replacing one of a device's n
    records by any other moves its update by at most 2 learning_rate C / n: the update then has a
    bound of unit `record` (n, the number of records, is taken as known), and noise may follow
    without a clip. One number holds for all rows, that of the device with the fewest samples. Data
    in which a record decides when its device sends, or how many others are learnt from, have no
    such bound.

    `precision: 32` is local training alone: global models, updates as the server gets them
    (differences of weights before and after, in double precision), clips, noise, sums and
    evaluation keep 64 bits. A weight of size w is then known to 6e-8 w, and so is an update,
    however small. A proven bound of a record needs `precision: 64`.
    """

    hidden: Ints = Field((256, 128), min_length=1, max_length=8)
    """units of each hidden layer"""
    activation: Literal["elu", "tanh", "sigmoid", "relu"] = Field(
        default_factory=_get_profile_default("activation")
    )
    """activation of the hidden layers"""
    labels: Literal["raw", "centred", "standardised"] = Field(
        default_factory=_get_profile_default("labels")
    )
    """training target: RSRP in dBm, with the output bias at its public mean, or standardised"""
    standardise_by: Literal["public", "dataset"] = "public"
    """constants that standardise positions: public ones, or those of the data"""
    encoding: Annotated[Encoding, ENCODINGS] = Field(
        default_factory=_get_profile_default("encoding")
    )
    """what the network reads beside the standardised position"""
    prior: Annotated[Prior, PRIORS] = NoPrior()
    """public law of RSRP to which the network learns the difference"""
    learning_rate: float = Field(default_factory=_get_profile_default("learning_rate"), gt=0, le=10)
    """learning rate of local training"""
    step_limit: Literal["none", "polyak"] = Field(default_factory=_choose_step_limit)
    """what shortens a local step that is too long for its batch: nothing, or Polyak's rule, with
    which a learning rate too high for the data slows training down and makes no model explode"""
    batch_size: int | Literal["all"] = Field(default_factory=_choose_batch_size)
    """number of samples in a mini-batch; all: full batch, or what batch_share says"""
    local_epochs: int = Field(default_factory=_get_profile_default("local_epochs"), ge=1, le=1000)
    """passes over the local data in a round"""
    precision: Literal[32, 64] = 64
    """bits of the numbers of local training; 32 takes about two thirds of the time, and weights
    have 7 digits"""

    central = RegressionTraining(**dict(PositionNet.central))
    reference = "Bakopoulou et al., Location Leakage in Federated Signal Maps, Algorithm 1"
    example = {"kind": "rsrp-net", "hidden": [8]}
    needs = {"signals": "it learns signals at positions; take data of kind measured or segments"}

    @property
    def offers(self) -> frozenset[str]:  # type: ignore[override]
        frozen = {f"layer {i + 1}" for i in range(self.frozen_layers)}
        if not self.optimiser.linear:
            frozen.add("record gradients")
        if self.frozen_layers:
            frozen |= {"biased first layer", "record gradients", "sample gradient"}
        return super().offers - frozen | {"positions", "signals"}

    @property
    def _has_record_bound(self) -> bool:
        is_fixed = self.step_limit == "none" and self.standardise_by == "public"
        return is_fixed and super()._has_record_bound

    @model_validator(mode="after")
    def _sizes(self) -> Self:
        if any(not 1 <= h <= 4096 for h in self.hidden):
            raise ValueError("hidden layers have 1 to 4096 units")
        return self

    @property
    def shortest_m(self) -> float:
        return self.encoding.shortest_m

    @property
    def wants_dataset_statistics(self) -> bool:
        return self.standardise_by == "dataset"

    @property
    def discloses(self) -> str:
        if not self.wants_dataset_statistics:
            return ""
        return "the mean and deviation of all true positions (standardise_by: dataset)"

    @property
    def net(self) -> "Mlp":
        """The network's shape."""
        from fl.networks.mlp import Mlp

        return Mlp((2 + 2 * self.encoding.waves, *self.hidden, 1), self.activation)

    def init(self, public: Public, rng: Rng) -> Model:
        n = public.n_model
        if self.standardise_by == "dataset":
            if public.dataset is None:
                raise ValueError("standardise_by: dataset needs the dataset's statistics")
            centre = public.dataset.mean_m
            scale = public.dataset.std_m
        else:
            centre, scale = self.standardise_by_area(public)
        wave_vectors = self.encoding.draw_wave_vectors(rng)  # all models read the same waves
        constants = {"wave_vectors": np.tile(wave_vectors, (n, 1, 1))}
        constants |= self.compute_constants(centre, scale)
        constants |= self.prior.compute_constants(public)
        model = Model(np.empty((n, 0)), constants)
        return replace(model, parameters=self._draw_weights(model, rng))

    def _draw_weights(self, model: Model, rng: Rng) -> FloatArray:
        """Glorot-uniform weights, zero biases; the output bias at the mean for centred labels."""
        n = len(model.parameters)
        rows = []
        for layer, (a, b) in enumerate(pairwise(self.net.sizes)):
            limit = np.sqrt(6.0 / (a + b))
            unit = rng.uniform(f"weights{layer}", np.arange(n), (a * b,))
            rows += [limit * (2.0 * unit - 1.0), np.zeros((n, b))]
        if self.labels == "centred":
            rows[-1] = self._get_label_mean_dbm(model.constants)[:, None].copy()
        return np.concatenate(rows, axis=1)

    def build_net(self, model: Model) -> "Mlp":
        return self.net

    def _train_rows(
        self, model: Model, data: Local, rng: Rng, read: Read, offset: FloatArray | None
    ) -> FloatArray:
        from fl.networks.sgd_regression import train_regression

        return train_regression(self.net, model.parameters, data, self, rng, read)

    def step(self, model: Model, phase: str, merged: FloatArray) -> Model:
        # noise or a projection may have moved what is frozen
        first = self._count_parameters_before(self.frozen_layers + 1)
        moved = np.where(np.arange(merged.shape[1]) < first, 0.0, merged)
        return super().step(model, phase, moved)

    def _predict_prior_dbm(
        self, model: Model, model_of: IntArray, position_m: FloatArray
    ) -> FloatArray:
        level_dbm = super()._predict_prior_dbm(model, model_of, position_m)
        return self.prior.predict_dbm(model.constants, model_of, position_m) + level_dbm

    def _get_label_mean_dbm(self, constants: dict[str, FloatArray]) -> FloatArray:
        mean_dbm = constants["rsrp_mean_dbm"]  # 0 for differences to a prior
        if self.prior.kind_name() == "none":
            return mean_dbm
        return np.zeros_like(mean_dbm)

    def compute_record_losses(
        self, model: Model, model_of: IntArray, x: FloatArray, y: FloatArray
    ) -> FloatArray:
        z, target = self._prepare_samples(model, model_of, x, y)
        with np.errstate(over="ignore", invalid="ignore"):
            return (self.net.predict(model.parameters, model_of, z) - target) ** 2

    def get_dense_network(
        self, model: Model, model_index: int
    ) -> "tuple[Mlp, FloatArray, FloatArray]":
        scale_m = model.constants["scale_m"][model_index]
        waves = scale_m[:, None] * model.constants["wave_vectors"][0].T
        return self.net, model.parameters[model_index], waves

    def diagnose(self, model: Model, data: Local) -> Metrics:
        """`step_stability` = learning_rate * 2 * mean |dF/dw|^2: full-batch descent on MSE is
        unstable above 2, unless `step_limit` shortens its steps.

        The mean is that of at most 20,000 samples, evenly thinned. Of plain SGD in all layers
        alone: otherwise nothing.
        """
        if self.optimiser.kind_name() != "sgd" or self.frozen_layers:
            return {}
        few = pick_even_indices(len(data.x), _MOST_DIAGNOSED)
        model_of = data.model[data.row_of_sample[few]]
        z = self._encode_inputs(model, model_of, data.x[few])
        squared = self.net.compute_mean_squared_gradient(model.parameters, model_of, z)
        return {"step_stability": 2 * self.learning_rate * squared}

    def compute_centroid_bound_m(self, model: Model, data: Local) -> FloatArray:
        r"""Theorem 1 of Bakopoulou et al., for the least-squares estimate over all units of one
        full-batch step.

        With g_ih the delta of unit h at sample i, one unit errs by at most (1 / (2 n |gbar_h|))
        sum_i ((g_ih - gbar_h)^2 + |z_i - zbar|^2), and the estimate is their mean with weights
        gbar_h^2; standardised lengths become metres with the larger scale. Units are mixed, as in
        the source, so the bound depends on the scale of the labels. NaN unless FedSGD on whole
        gradients in double precision.
        """
        bound_m = np.full(len(data.ue), nan)
        is_exact = self.takes_one_step and self.precision == 64 and not self.dropout
        if data.y is None or not is_exact or "sample gradient" not in self.offers:
            return bound_m
        z, y = self._prepare_rows(model, data)
        for i in np.flatnonzero(data.count):
            samples = slice(data.ptr[i], data.ptr[i + 1])
            m = data.model[i]
            with np.errstate(
                all="ignore"
            ):  # a model that has diverged, or places that were moved out of sight
                mean, squares = self.net.summarise_first_layer_deltas(
                    model.parameters[m], z[samples], y[samples]
                )
                spread = z[samples, :2].var(axis=0).sum() * data.count[i]
                total = (np.abs(mean) * (squares + spread)).sum()
                bound = total / (2 * data.count[i] * (mean**2).sum())
            bound_m[i] = bound * model.constants["scale_m"][m].max()
        return bound_m

    @property
    def layers(self) -> int:
        return self.last_layer + 1

    @property
    def last_layer(self) -> int:
        """Number of layers before the output's."""
        return len(self.hidden)

    def _count_parameters_before(self, layer: int) -> int:
        """Number of parameters of the layers before `layer`, from 1."""
        return sum((a + 1) * b for a, b in list(pairwise(self.net.sizes))[: layer - 1])

    def select_layer(self, updates: FloatArray, layer: int) -> FloatArray:
        inputs, units = self.net.sizes[layer - 1 : layer + 1]
        start = self._count_parameters_before(layer)
        end = self._count_parameters_before(layer + 1)
        return updates[:, start:end].reshape(-1, inputs + 1, units)

    def compute_layer_input(
        self, model: Model, model_index: int, place_m: FloatArray, layer: int
    ) -> FloatArray:
        z = self._encode_inputs(model, np.full(len(place_m), model_index), place_m)
        return self.net.compute_layer_inputs(model.parameters[model_index], z, layer)

    def _encode_inputs(self, model: Model, model_of: IntArray, x: FloatArray) -> FloatArray:
        """The network's inputs (N, p) at positions x (N, 2) in metres."""
        c = model.constants
        offset_m = x - c["centre_m"][model_of]
        z = offset_m / c["scale_m"][model_of]
        return encode_positions(z, offset_m, c["wave_vectors"][:1].reshape(-1, 2))
