"""Any torch module as a learner of signals at places, of classes, or of numbers."""

import json
from dataclasses import replace
from math import nan
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PrivateAttr

from fl.learners import PLACE_GRADIENTS, PUBLIC_LEVEL, LayeredLearner
from fl.networks.user_code import UserCode
from fl.optimisers import Adam, LocalTraining
from fl.server_optimiser import MODEL_CHANGES
from fl.types import (
    DenseUpdates,
    HeldOut,
    Local,
    Metrics,
    Model,
    Public,
    SampleFormat,
    Updates,
    compute_bounds,
    list_offers,
)
from netsim.errors import BadInput
from netsim.part import CODE_NAME
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

if TYPE_CHECKING:
    from torch import nn

    from fl.networks.stacked import StackedModule

BUNDLED = ("cnn", "perceptron")
_CENTRAL = {
    "learning_rate": 1e-3,
    "batch_size": 64,
    "batch_share": None,
    "optimiser": Adam(),
    "proximal": 0.0,
    "weight_decay": 0.0,
    "sample_clip": None,
    "precision": 32,
}


class TorchNet(LocalTraining, LayeredLearner):
    """Learns with any torch module, by FedSGD or FedAvg: local training from the global weights w::

        repeat local_epochs times: w <- w - learning_rate * grad l(w; batch)      update u = w -
        w_before

    The module maps samples x (B, *shape) to outputs (B,), or of samples with classes to logits (B,
    classes). Of signals x (B, 2) is the standardised position, z = (x - centre) / scale with the
    centre of the area and half its side / sqrt(3), and the label is RSRP; other samples are divided
    by the largest value of their format. A constructor with parameters `shape` and `classes` gets
    those of the samples, unless `arguments` say them.

    A row of parameters or of an update is the arrays of `module.named_parameters()` that require a
    gradient, in this order, each flattened in C order. Weights start as the module's constructor
    draws them from the run's stream, other ones for each model.

    UEs are trained together (torch.func.vmap), or one after the other where the output for a sample
    depends on its batch, where vmap cannot or with convolutions, which are slower so; a notice
    tells. Batch normalisation uses the mean and variance over the current batch: that of training,
    and up to 2,000 samples evaluated together; running statistics are neither kept nor sent.
    Dropout draws from the run's stream.

    Local training and evaluation have `precision` bits; global models and updates, differences of
    weights before and after, have double precision. The same seed gives the same bytes on the same
    machine; other processors may differ in the last digits.

    With `sample_clip` C and one full-batch step of plain SGD, replacing one of a device's n samples
    moves its update by at most 2 learning_rate C / n, and noise may follow without a clip; n is
    that of the device with the fewest, and taken as known. Clipped gradients are added up in double
    precision, and the bound includes what weights round by.
    """

    kind: Literal["torch"] = "torch"
    module: Literal["cnn", "perceptron"] | Annotated[str, CODE_NAME]
    """module that is trained: a bundled one, FILE.py:CLASS beside the scenario, or the name of an
    entry point of netsim.module; a run imports the file"""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """arguments of the module's constructor, by name"""
    loss: Literal["mse", "cross-entropy"] | Annotated[str, CODE_NAME] | None = None
    """mse, cross-entropy, or FILE.py:FUNCTION from outputs and labels of B samples to B losses;
    none: cross-entropy for classes, else mse"""
    labels: Literal["raw", "standardised"] = "raw"
    """training target of signals: RSRP in dBm, or standardised by the public values"""
    public_rsrp_mean_dbm: float = Field(-95.0, ge=-160, le=0)
    """public mean RSRP, dBm: centre of standardised labels"""
    public_rsrp_std_db: float = Field(9.0, gt=0, le=60)
    """public standard deviation of RSRP, dB: scale of standardised labels"""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """torch device of the training; auto: the GPU if there is one"""
    _source: Any = PrivateAttr(None)
    """a module that is no file but an object"""
    _stacked: Any = PrivateAttr(None)
    """the module as it was built for the data; none: it was not imported yet"""

    reference: ClassVar = (
        "McMahan et al., Communication-Efficient Learning of Deep Networks, 2017, Algorithm 1"
    )
    example: ClassVar = {"kind": "torch", "module": "perceptron", "arguments": {"hidden": [8]}}
    needs: ClassVar = {
        "labelled samples": "it learns labels; take data of kind measured, segments or images"
    }

    @classmethod
    def from_module(cls, module: "nn.Module", **options: Any) -> Self:
        """A learner of a module that is an object, with other keys as options; all models start at
        its weights.
        """
        learner = cls(module=type(module).__name__, **options)
        learner._source = module
        return learner

    # -- what it is

    @property
    def offers(self) -> frozenset[str]:  # type: ignore[override]
        """What the module has, once it is imported (`prepare`); before, what it may have."""
        net: StackedModule | None = self._stacked
        is_single = net is None or not net.mixes
        n_layers = self.layers
        linear = self.optimiser.linear
        is_unscaled = self.sample_clip is None and not self.weight_decay
        bounded = self._has_record_bound
        words = {MODEL_CHANGES: True, "record loss": True}
        words |= dict.fromkeys(("layers", "hidden activations"), n_layers > 0)
        words |= {f"layer {i + 1}": True for i in range(n_layers)}
        of_one = "record gradient", "record gradients", PLACE_GRADIENTS
        words |= dict.fromkeys(of_one, is_single)
        words |= dict.fromkeys(("bound", "record bound"), bounded)
        return list_offers(
            words
            | {
                "biased first layer": net is None or self._reads_positions,
                "linear local steps": linear,
                "sample gradient": linear and is_single and is_unscaled,
                PUBLIC_LEVEL: self.labels != "raw",
            }
        )

    @property
    def _reads_positions(self) -> bool:
        net: StackedModule = self._stacked
        return net.blueprint.samples is None and net.reads_positions

    @property
    def loss_in_nats(self) -> bool:  # type: ignore[override]
        """Whether the loss is the cross-entropy."""
        net: StackedModule | None = self._stacked
        return (self.loss if net is None else net.blueprint.loss) == "cross-entropy"

    @property
    def _has_record_bound(self) -> bool:
        is_plain = self.optimiser.kind_name() == "sgd" and not self.weight_decay
        return self.sample_clip is not None and self.takes_one_step and is_plain

    @property
    def passes(self) -> float:
        return float(self.local_epochs)

    @property
    def layers(self) -> int:
        """Fully connected layers with biases; before the module is imported at most two are taken
        for there.
        """
        return 2 if self._stacked is None else len(self._stacked.layers)

    # -- building

    def prepare(self, samples: SampleFormat | None, may_import: bool) -> Self:
        sources = (self._module_code, self._loss_source(samples))
        for source in sources:
            if isinstance(source, UserCode):
                source.check()
        if not may_import and self._source is None and self.module not in BUNDLED:
            return self
        prepared = self.model_copy()
        prepared._stacked = self._build(samples)
        if prepared._stacked.mixes and self.sample_clip is not None:
            raise BadInput(
                "learning.learner.sample_clip: no gradient belongs to one sample alone, since "
                f"{prepared._stacked.one_by_one}; take a module without batch normalisation, or "
                "leave sample_clip out"
            )
        return prepared

    @property
    def _module_code(self) -> UserCode:
        text = self.module
        if text in BUNDLED:
            import fl.networks

            text = f"{fl.networks.__path__[0]}/modules.py:{text.capitalize()}"
        return UserCode("learning.learner.module", text, "netsim.module")

    def _loss_source(self, samples: SampleFormat | None) -> Any:
        has_classes = samples is not None and samples.classes > 0
        usual = "cross-entropy" if has_classes else "mse"
        if self.loss in (None, usual):
            return usual
        if self.loss in ("mse", "cross-entropy"):
            raise BadInput(
                f"learning.learner.loss: {self.loss} does not fit to labels that are "
                f"{'classes' if has_classes else 'numbers'}; take {usual}, or leave it out"
            )
        return UserCode("learning.learner.loss", self.loss, "netsim.loss")

    def _build(self, samples: SampleFormat | None) -> "StackedModule":
        from fl.networks.stacked import Blueprint, build_stacked

        return build_stacked(
            Blueprint(
                self._module_code if self._source is None else self._source,
                json.dumps(self.arguments, sort_keys=True),
                samples,
                self._loss_source(samples),
                self.precision,
                self.device,
            )
        )

    def _net(self, model: Model) -> "StackedModule":
        """The module for the samples of a model."""
        if "format" not in model.constants:
            return self._build(None)
        *shape, classes, largest = model.constants["format"][0].tolist()
        shape = tuple(int(n) for n in shape)
        return self._build(SampleFormat(shape, int(classes), largest))

    def init(self, public: Public, rng: Rng) -> Model:
        n = public.n_model
        samples = public.samples
        net = self._build(samples)
        parameters = net.draw_parameters(n, rng)
        if samples is not None:
            sample_format = [*samples.shape, samples.classes, samples.largest]
            return Model(parameters, {"format": np.tile(np.array(sample_format, float), (n, 1))})
        constants = {
            "centre_m": np.tile(public.area.centre_m, (n, 1)),
            "scale_m": np.tile(public.area.side_m / 2 / np.sqrt(3.0), (n, 1)),
            "rsrp_mean_dbm": np.full(n, self.public_rsrp_mean_dbm),
            "rsrp_std_db": np.full(n, self.public_rsrp_std_db),
        }
        return Model(parameters, constants)

    # -- learning

    def train_locally(self, model: Model, phase: str, data: Local, rng: Rng) -> Updates:
        return self.train(model, data, rng)

    def train(
        self, model: Model, data: Local, rng: Rng, offset: FloatArray | None = None
    ) -> DenseUpdates:
        """Updates of local training; offset (n, d) is added to every gradient of a row."""
        x, y = self._prepare_samples(model, data.model[data.row_of_sample], data.x, data.y)
        values = self._net(model).train(
            model.parameters, replace(data, x=x, y=y), self, rng, offset
        )
        bound = self.bound_record(data, model) if self._has_record_bound else None
        return DenseUpdates(data.ue, data.model, data.count.astype(float), values, bound=bound)

    def step(self, model: Model, phase: str, merged: FloatArray) -> Model:
        return replace(model, parameters=model.parameters + merged)

    def train_from_scratch(self, model: Model, samples: HeldOut, epochs: int, rng: Rng) -> Model:
        """As UEs that hold all samples of a model each, with Adam [Kingma and Ba 2015, Algorithm
        1].
        """
        central = self.model_copy(update={**_CENTRAL, "local_epochs": epochs})
        start = replace(
            model, parameters=self._net(model).draw_parameters(len(model.parameters), rng)
        )
        order = np.argsort(samples.model, kind="stable")
        number = np.arange(len(model.parameters))
        ptr = compute_bounds(np.bincount(samples.model, minlength=len(number)))
        time_s = np.zeros(len(order))
        everything = Local(number * 0, number, ptr, samples.x[order], samples.y[order], time_s)
        updates = central.train(start, everything, rng)
        return replace(model, parameters=start.parameters + updates.values)

    # -- asking

    def evaluate(self, model: Model, held_out: HeldOut) -> Metrics:
        figures = self._score(model, held_out) if len(held_out) else None
        if "format" not in model.constants:
            names: tuple[str, ...] = ("rmse_db", "mape_percent")
        elif model.constants["format"][0][-2]:
            names = ("accuracy_percent", "constant_accuracy_percent", "cross_entropy_nats")
        else:
            names = ("rmse",)
        return dict(zip(names, figures or [nan] * len(names), strict=True))

    def _score(self, model: Model, held_out: HeldOut) -> list[float]:
        net = self._net(model)
        y = held_out.y
        if net.samples.classes:
            from fl.networks.stacked import compute_cross_entropies

            logits = net.predict(model.parameters, held_out.model, held_out.x)
            loss = compute_cross_entropies(logits, net.to_labels(y).cpu())
            right = logits.argmax(dim=1).numpy() == y
            commonest = np.unique(y, return_counts=True)[1].max()
            share = float(commonest / len(y))
            return [100.0 * float(right.mean()), 100.0 * share, float(loss.double().mean())]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            error = self.predict_labels(model, held_out.model, held_out.x) - y
            rmse = float(np.sqrt((error**2).mean()))
            if net.blueprint.samples is not None:
                return [rmse]
            return [rmse, float(100 * np.abs(error / y).mean())]

    def predict_labels(self, model: Model, model_of: IntArray, x: FloatArray) -> FloatArray:
        """Labels (N,) that models model_of (N,) predict of samples x (N, p): dBm at places."""
        z, _ = self._prepare_samples(model, model_of, x, None)
        out = self._net(model).predict(model.parameters, model_of, z).double().numpy()
        if self.labels == "raw" or "format" in model.constants:
            return out
        c = model.constants
        return c["rsrp_mean_dbm"][model_of] + c["rsrp_std_db"][model_of] * out

    def predict_dbm(
        self, model: Model, model_of: IntArray, position_m: FloatArray
    ) -> FloatArray | None:
        if "format" in model.constants:
            return None
        return self.predict_labels(model, model_of, position_m)

    def compute_record_losses(
        self, model: Model, model_of: IntArray, x: FloatArray, y: FloatArray
    ) -> FloatArray:
        """Loss of each record; batch normalisation takes its statistics from the records asked
        together.
        """
        z, target = self._prepare_samples(model, model_of, x, y)
        return self._net(model).compute_record_losses(model.parameters, model_of, z, target)

    def compute_record_gradients(
        self, model: Model, model_of: IntArray, x: FloatArray, y: FloatArray
    ) -> FloatArray:
        z, target = self._prepare_samples(model, model_of, x, y)
        gradients = np.empty((len(x), model.parameters.shape[1]))
        net = self._net(model)
        for block, g in net.compute_record_gradients(model.parameters, model_of, z, target):
            gradients[block] = g
        return gradients

    def compute_record_gradient_norms(
        self, model: Model, model_of: IntArray, x: FloatArray, y: FloatArray
    ) -> FloatArray:
        z, target = self._prepare_samples(model, model_of, x, y)
        norm = np.empty(len(x))
        net = self._net(model)
        for block, g in net.compute_record_gradients(model.parameters, model_of, z, target):
            norm[block] = np.linalg.norm(g, axis=1)
        return norm

    def _prepare_samples(
        self, model: Model, model_of: IntArray, x: FloatArray, y: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Standardised positions (N, 2) and targets (N,) of signals; other samples as they are."""
        c = model.constants
        target = np.zeros(len(x)) if y is None else y
        if "format" in c:
            return x, target
        if self.labels == "standardised":
            target = (target - c["rsrp_mean_dbm"][model_of]) / c["rsrp_std_db"][model_of]
        return (x - c["centre_m"][model_of]) / c["scale_m"][model_of], target

    # -- what attacks read

    @property
    def update_over_gradient(self) -> float:
        """The learning rate; NaN where steps have a size of their own."""
        return self.learning_rate if self.optimiser.linear else nan

    def standardisation(self, model: Model) -> tuple[FloatArray, FloatArray]:
        return model.constants["centre_m"], model.constants["scale_m"]

    def first_layer(self, updates: FloatArray) -> tuple[FloatArray, FloatArray]:
        weights = self.select_layer(updates, 1)
        return weights[:, :2].transpose(0, 2, 1), weights[:, -1]

    def select_layer(self, updates: FloatArray, layer: int) -> FloatArray:
        net: StackedModule = self._stacked or self._build(None)
        name = net.layers[layer - 1]
        weight, bias = net.select(updates, f"{name}.weight"), net.select(updates, f"{name}.bias")
        return np.concatenate([weight.transpose(0, 2, 1), bias[:, None]], axis=1)

    def compute_layer_input(
        self, model: Model, model_index: int, place_m: FloatArray, layer: int
    ) -> FloatArray:
        net = self._net(model)
        z, _ = self._prepare_samples(model, np.full(len(place_m), model_index), place_m, None)
        h = net.compute_layer_inputs(model.parameters[model_index], z, net.layers[layer - 1])
        return np.column_stack([h, np.ones(len(h))])
