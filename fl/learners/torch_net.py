"""Any torch module as a learner of signals at places, of classes, or of numbers."""

import hashlib
import json
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, PrivateAttr

from fl.learners import PLACE_GRADIENTS
from fl.learners.position_net import PositionNet, Read
from fl.networks.user_code import UserCode
from fl.notice import Prepared, notice
from fl.types import (
    HeldOut,
    Local,
    Metrics,
    Model,
    Public,
    SampleFormat,
    State,
    Updates,
)
from netsim.errors import BadInput
from netsim.notice import Notices
from netsim.part import CODE_NAME, read_source
from netsim.rng import Rng
from netsim.units import ArrayPair, FloatArray, IntArray

if TYPE_CHECKING:
    from torch import nn

    from fl.networks.stacked import StackedModule

_BUNDLED = ("cnn", "perceptron")


class TorchNet(PositionNet, kind="torch"):
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
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """torch device of the training; auto: the GPU if there is one"""
    _source: Any = PrivateAttr(None)
    """the module where it is an object; None: it is code"""
    _net: Any = PrivateAttr(None)
    """the module as it was built for the data; None: it was not imported yet"""

    reference = (
        "McMahan et al., Communication-Efficient Learning of Deep Networks, 2017, Algorithm 1; "
        "batch normalisation: Ioffe and Szegedy 2015"
    )
    example = {"kind": "torch", "module": "perceptron", "arguments": {"hidden": [8]}}
    needs = {"labelled samples": "it learns labels; take data of kind measured, segments or images"}

    @classmethod
    def from_module(cls, module: "nn.Module", **options: Any) -> Self:
        """A learner of a module that is an object, with other keys as options; all models start at
        its weights. Of a class they start as its constructor draws them.
        """
        learner = cls(module=getattr(module, "__name__", type(module).__name__), **options)
        learner._source = module
        return learner

    @property
    def digest(self) -> str:
        """Of a module that is an object: its code and tensors; of a class its code."""
        module = self._source
        if module is None:
            return ""
        is_class = isinstance(module, type)
        kinds = [module] if is_class else [type(part) for part in module.modules()]
        tensors = [] if is_class else module.state_dict().values()
        digest = hashlib.sha256("".join([str(module), *map(read_source, kinds)]).encode())
        for tensor in tensors:
            digest.update(tensor.double().numpy(force=True).tobytes())
        return digest.hexdigest()

    # -- what it is

    @property
    def offers(self) -> frozenset[str]:  # type: ignore[override]
        """What the module has, once it was imported (`prepare`); before, what it may have."""
        net: StackedModule | None = self._net
        lacks = set[str]()
        if net is not None and not net.reads_positions:
            lacks.add("biased first layer")
        if net is not None and net.mixes:
            lacks |= {"record gradient", "record gradients", PLACE_GRADIENTS, "sample gradient"}
        return super().offers - lacks

    @property
    def loss_in_nats(self) -> bool:  # type: ignore[override]
        """Whether the loss is the cross-entropy."""
        return (self.loss if self._net is None else self._net.loss_name) == "cross-entropy"

    @property
    def _has_record_bound(self) -> bool:
        return super()._has_record_bound and not self.weight_decay

    @property
    def layers(self) -> int:
        """Fully connected layers with biases; two before the module was imported."""
        return 2 if self._net is None else len(self._net.layers)

    def notices(self, prepared: Prepared) -> Notices:
        yield from super().notices(prepared)
        if self._net is not None and self._net.one_by_one:
            yield notice("trained-one-by-one", reason=self._net.one_by_one)

    # -- building

    def prepare(self, samples: SampleFormat | None, may_import: bool) -> Self:
        for source in (self._code, self._choose_loss(samples)):
            if isinstance(source, UserCode) and self._source is None:
                source.check()
        prepared = self.model_copy()
        if may_import or self.module in _BUNDLED:
            prepared._net = net = self._build(samples)
            if net.mixes and self.sample_clip is not None:
                raise BadInput(
                    "learning.learner.sample_clip: no gradient belongs to one sample alone, since "
                    f"{net.one_by_one}; take a module without batch normalisation, or leave it out"
                )
        return prepared

    @property
    def _code(self) -> UserCode:
        text = self.module
        if text in _BUNDLED and self._source is None:
            text = f"{__file__.replace('learners/torch_net', 'networks/modules')}:build_{text}"
        return UserCode("learning.learner.module", text, "netsim.module")

    def _choose_loss(self, samples: SampleFormat | None) -> str | UserCode:
        has_classes = samples is not None and samples.classes > 0
        usual = "cross-entropy" if has_classes else "mse"
        if self.loss is None or self.loss == usual:
            return usual
        if self.loss not in ("mse", "cross-entropy"):
            return UserCode("learning.learner.loss", self.loss, "netsim.loss")
        raise BadInput(
            f"learning.learner.loss: {self.loss} does not fit to labels that are "
            f"{'classes' if has_classes else 'numbers'}; take {usual}, or leave it out"
        )

    def _build(self, samples: SampleFormat | None) -> "StackedModule":
        from fl.networks.stacked import build_stacked

        arguments = json.dumps(self.arguments, sort_keys=True)
        made_of = self._code, self._source, arguments, samples, self._choose_loss(samples)
        return build_stacked(*made_of, self.precision, self.device)

    def build_net(self, model: Model) -> "StackedModule":
        """The module for the samples of a model."""
        if "format" not in model.constants:
            return self._build(None)
        *numbers, largest = model.constants["format"][0].tolist()
        *shape, classes = map(int, numbers)
        return self._build(SampleFormat(tuple(shape), classes, largest))

    def init(self, public: Public, rng: Rng) -> Model:
        samples = public.samples
        parameters = self._build(samples).draw_parameters(public.n_model, rng)
        if samples is None:
            return Model(parameters, self.compute_constants(*self.standardise_by_area(public)))
        numbers = np.array([*samples.shape, samples.classes, samples.largest], float)
        return Model(parameters, {"format": np.tile(numbers, (public.n_model, 1))})

    # -- learning

    def train_locally(self, model: Model, phase: str, data: Local, rng: Rng) -> Updates:
        return self.train_with_state(model, phase, data, self.start_ues(0), rng)[0]

    def train_with_state(
        self, model: Model, phase: str, data: Local, state: State, rng: Rng
    ) -> tuple[Updates, State]:
        return self.train(model, data, rng), state

    def _draw_weights(self, model: Model, rng: Rng) -> FloatArray:
        return self.build_net(model).draw_parameters(len(model.parameters), rng)

    def _train_rows(
        self, model: Model, data: Local, rng: Rng, read: Read, offset: FloatArray | None
    ) -> FloatArray:
        return self.build_net(model).train(model.parameters, data, self, rng, read, offset)

    # -- asking

    def evaluate(self, model: Model, held_out: HeldOut) -> Metrics:
        if "format" not in model.constants:
            return super().evaluate(model, held_out)
        import torch

        from fl.networks.stacked import LOSSES

        net = self.build_net(model)
        out = net.predict(model.parameters, held_out.model, held_out.x)
        if not net.samples.classes:
            error = out.double() - torch.from_numpy(held_out.y)
            return {"rmse": error.square().mean().sqrt().item()}
        label = net.to_labels(held_out.y).cpu()
        is_right = (out.argmax(dim=1) == label).double()
        commonest = torch.bincount(label, minlength=net.samples.classes).max()
        figures = {
            "accuracy_percent": 100.0 * is_right.mean(),
            "constant_accuracy_percent": 100.0 * commonest.double() / len(label),
            "cross_entropy_nats": LOSSES["cross-entropy"](out, label).double().mean(),
        }
        return {name: figure.item() for name, figure in figures.items()}

    def predict_strongest_dbm(
        self, model: Model, place_m: FloatArray, models: IntArray
    ) -> FloatArray | None:
        if "format" in model.constants:
            return None
        return super().predict_strongest_dbm(model, place_m, models)

    def compute_record_losses(
        self, model: Model, model_of: IntArray, x: FloatArray, y: FloatArray
    ) -> FloatArray:
        """Loss of each record; batch normalisation takes its statistics from the records asked
        together.
        """
        z, target = self._prepare_samples(model, model_of, x, y)
        net = self.build_net(model)
        out = net.predict(model.parameters, model_of, z)
        return net.apply_loss(out, net.to_labels(target).cpu()).double().numpy()

    def _prepare_samples(
        self, model: Model, model_of: IntArray, x: FloatArray, y: FloatArray | None
    ) -> ArrayPair:
        if "format" not in model.constants:
            return super()._prepare_samples(model, model_of, x, y)
        return x, np.zeros(len(x)) if y is None else y

    # -- what attacks read

    def select_layer(self, updates: FloatArray, layer: int) -> FloatArray:
        net = self._build(None) if self._net is None else self._net
        return net.select_layer(updates, net.layers[layer - 1])

    def compute_layer_input(
        self, model: Model, model_index: int, place_m: FloatArray, layer: int
    ) -> FloatArray:
        net = self.build_net(model)
        z = self._encode_inputs(model, np.full(len(place_m), model_index), place_m)
        h = net.compute_layer_input(model.parameters[model_index], z, net.layers[layer - 1])
        return np.column_stack([h, np.ones(len(h))])
