"""What learners of RSRP from position have in common, whatever their network is."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from math import nan
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from fl.learners import PLACE_GRADIENTS, PUBLIC_LEVEL, LayeredLearner
from fl.optimisers import Adam, LocalTraining
from fl.server_optimiser import MODEL_CHANGES
from fl.types import (
    Bound,
    DenseUpdates,
    HeldOut,
    Local,
    Metrics,
    Model,
    Public,
    Updates,
    list_offers,
)
from netsim.columns import compute_bounds, split_blocks
from netsim.rng import Rng
from netsim.units import ArrayPair, FloatArray, IntArray

Read = Callable[[Local], Local]
_OF_RECORDS = ("biased first layer", "record gradient", "record gradients", PLACE_GRADIENTS)
_BLOCK = 16_384  # places predicted at once


class PositionNet(LocalTraining, LayeredLearner):
    """A network of which the first layer reads the standardised position, and may read more."""

    labels: str
    public_rsrp_mean_dbm: float = Field(-95.0, ge=-160, le=0)
    """public mean RSRP, dBm: initial output bias, centre of standardised labels"""
    public_rsrp_std_db: float = Field(9.0, gt=0, le=60)
    """public standard deviation of RSRP, dB: scale of standardised labels"""

    central: ClassVar[LocalTraining] = LocalTraining(
        learning_rate=2e-3, batch_size=64, optimiser=Adam(), precision=32
    )
    """options of central training; the learning rate falls from this one to 0"""

    @staticmethod
    def standardise_by_area(public: Public) -> ArrayPair:
        """Centre and scale (n_model, 2), m: centre of the area, and half its side / sqrt(3)."""
        centre = np.tile(public.area.centre_m, (public.n_model, 1))
        return centre, np.tile(public.area.side_m / 2 / np.sqrt(3.0), (public.n_model, 1))

    def compute_constants(self, centre_m: FloatArray, scale_m: FloatArray) -> dict[str, FloatArray]:
        """Public constants of models that standardise positions so."""
        n = len(centre_m)
        return {
            "centre_m": centre_m,
            "scale_m": np.maximum(scale_m, 1e-9),
            "rsrp_mean_dbm": np.full(n, self.public_rsrp_mean_dbm),
            "rsrp_std_db": np.full(n, self.public_rsrp_std_db),
        }

    def evaluate(self, model: Model, held_out: HeldOut) -> Metrics:
        if len(held_out) == 0:
            return {"rmse_db": nan, "mape_percent": nan}
        error = self.predict_dbm(model, held_out.model, held_out.x) - held_out.y
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            rmse_db = np.sqrt((error**2).mean())
            return {"rmse_db": rmse_db, "mape_percent": 100 * np.abs(error / held_out.y).mean()}

    @abstractmethod
    def build_net(self, model: Model) -> Any:
        """What computes outputs and gradients of rows of parameters."""

    @abstractmethod
    def _draw_weights(self, model: Model, rng: Rng) -> FloatArray:
        """First parameters (n_model, d)."""

    def _prepare_samples(
        self, model: Model, model_of: IntArray, x: FloatArray, y: FloatArray | None
    ) -> ArrayPair:
        """Inputs (N, p) and targets (N,) of the network, of samples x and labels y (N,)."""
        c = model.constants
        target = np.zeros(len(x))
        if y is not None:
            target = y - self._predict_prior_dbm(model, model_of, x)
        if self.labels == "standardised":
            target = (target - self._get_label_mean_dbm(c)[model_of]) / c["rsrp_std_db"][model_of]
        return self._encode_inputs(model, model_of, x), target

    def _prepare_rows(self, model: Model, data: Local) -> ArrayPair:
        """Inputs and targets of all samples of rows."""
        return self._prepare_samples(model, data.model[data.row_of_sample], data.x, data.y)

    def _encode_inputs(self, model: Model, model_of: IntArray, x: FloatArray) -> FloatArray:
        """The network's inputs (N, p) at positions x (N, 2) in metres."""
        c = model.constants
        return (x - c["centre_m"][model_of]) / c["scale_m"][model_of]

    def _predict_prior_dbm(
        self, model: Model, model_of: IntArray, position_m: FloatArray
    ) -> FloatArray | float:
        """The part of RSRP (N,) that is not learnt."""
        level_dbm = model.constants.get("level_dbm")
        return 0.0 if level_dbm is None else level_dbm[model_of]

    def _get_label_mean_dbm(self, constants: dict[str, FloatArray]) -> FloatArray:
        """Public mean (n_model,) of labels in dB or dBm."""
        return constants["rsrp_mean_dbm"]

    @abstractmethod
    def _train_rows(
        self, model: Model, data: Local, rng: Rng, read: Read, offset: FloatArray | None
    ) -> FloatArray:
        """Updates (n, d) of local training on what `read` makes of some rows of data."""

    @property
    def offers(self) -> frozenset[str]:  # type: ignore[override]
        """Capabilities that later parts may require.

        `bound` where one record's share of an update is bounded, `linear local steps` where an
        update is a linear combination of gradients, with the same factors for all parameters;
        `record gradients` where these are gradients in all parameters, `sample gradient` where they
        are those of positions and labels alone, unscaled; `layer 2` where that layer is trained.
        """
        linear = self.optimiser.linear
        is_unscaled = self.sample_clip is None and not self.weight_decay
        words = {MODEL_CHANGES: True, "record loss": True, "linear local steps": linear}
        words |= {f"layer {i + 1}": True for i in range(self.layers)}
        words |= dict.fromkeys(("layers", "hidden activations"), self.layers > 0)
        words |= dict.fromkeys(("bound", "record bound"), self._has_record_bound)
        words |= dict.fromkeys(_OF_RECORDS, True)
        words["sample gradient"] = linear and is_unscaled
        words[PUBLIC_LEVEL] = self.labels != "raw"
        return list_offers(words)

    @property
    def _has_record_bound(self) -> bool:
        """Whether one record's share of an update is bounded: in one step of plain SGD. A step of
        others is as long as it is, whatever a record's gradient is cut down to.
        """
        is_plain = self.optimiser.kind_name() == "sgd"
        return self.sample_clip is not None and self.takes_one_step and is_plain

    def train_locally(self, model: Model, phase: str, data: Local, rng: Rng) -> Updates:
        return self.train(model, data, rng)

    def train(
        self, model: Model, data: Local, rng: Rng, offset: FloatArray | None = None
    ) -> DenseUpdates:
        """Updates of local training; offset (n, d) is added to every gradient of a row."""

        def read(rows: Local) -> Local:
            x, y = self._prepare_rows(model, rows)
            return replace(rows, x=x, y=y)

        values = self._train_rows(model, data, rng, read, offset)
        bound = None
        if self.sample_clip is not None and self._has_record_bound:
            bound = Bound.from_record(self.learning_rate * self.sample_clip, data, model)
        return DenseUpdates(data.ue, data.model, data.count.astype(float), values, bound=bound)

    def train_from_scratch(self, model: Model, samples: HeldOut, epochs: int, rng: Rng) -> Model:
        """As one UE for each model that holds all its samples, with Adam that starts anew in every
        pass, at learning rates that fall linearly to 0.

        In single precision, which is faster and as good [Kingma and Ba 2015, Algorithm 1]. Raw
        labels are learnt as differences to their public mean, which the new model's constants keep.
        A model without samples stays as it starts.
        """
        start = self._draw_weights(model, rng)
        constants = dict(model.constants)
        if self.labels == "raw" and "rsrp_mean_dbm" in constants:
            constants["level_dbm"] = self._get_label_mean_dbm(constants)
        order = np.argsort(samples.model, kind="stable")
        number = np.arange(len(start))
        ptr = compute_bounds(np.bincount(samples.model, minlength=len(start)))
        x, y = samples.x[order], samples.y[order]
        everything = Local(np.zeros_like(number), number, ptr, x, y, np.zeros(len(order)))
        trained = replace(model, parameters=start, constants=constants)
        for epoch in range(epochs):
            rate = self.central.learning_rate * (1 - (epoch + 0.5) / epochs)
            central = self.model_copy(update=dict(self.central) | {"learning_rate": rate})
            updates = central.train(trained, everything, replace(rng, round=epoch))
            trained = replace(trained, parameters=trained.parameters + updates.values)
        return trained

    def compute_record_gradients(
        self, model: Model, model_of: IntArray, x: FloatArray, y: FloatArray
    ) -> FloatArray:
        z, target = self._prepare_samples(model, model_of, x, y)
        return self.build_net(model).compute_sample_gradients(model.parameters, model_of, z, target)

    def compute_record_gradient_norms(
        self, model: Model, model_of: IntArray, x: FloatArray, y: FloatArray
    ) -> FloatArray:
        z, target = self._prepare_samples(model, model_of, x, y)
        net = self.build_net(model)
        return net.compute_sample_gradient_norms(model.parameters, model_of, z, target)

    def predict_dbm(self, model: Model, model_of: IntArray, position_m: FloatArray) -> FloatArray:
        """RSRP (N,) at positions (N, 2) by the models model_of (N,)."""
        c = model.constants
        rsrp_dbm = np.empty(len(position_m))
        for block in split_blocks(len(position_m), _BLOCK):
            m, place_m = model_of[block], position_m[block]
            z = self._encode_inputs(model, m, place_m)
            out = np.asarray(self.build_net(model).predict(model.parameters, m, z), float)
            if self.labels == "standardised":
                out = self._get_label_mean_dbm(c)[m] + c["rsrp_std_db"][m] * out
            rsrp_dbm[block] = out + self._predict_prior_dbm(model, m, place_m)
        return rsrp_dbm

    def predict_strongest_dbm(
        self, model: Model, place_m: FloatArray, models: IntArray
    ) -> FloatArray | None:
        largest = np.full(len(place_m), nan)
        for m in np.unique(models).tolist():
            with np.errstate(over="ignore", invalid="ignore"):  # a model that has diverged
                rsrp_dbm = self.predict_dbm(model, np.full(len(place_m), m), place_m)
                largest = np.fmax(largest, rsrp_dbm)
        return largest

    def step(self, model: Model, phase: str, merged: FloatArray) -> Model:
        return replace(model, parameters=model.parameters + merged)

    @property
    def update_over_gradient(self) -> float:
        """The learning rate; NaN where steps have a size of their own."""
        if self.optimiser.linear:
            return self.learning_rate
        return nan

    def first_layer(self, updates: FloatArray) -> ArrayPair:
        weights = self.select_layer(updates, 1)
        return weights[:, :2].transpose(0, 2, 1), weights[:, -1]

    def standardisation(self, model: Model) -> ArrayPair:
        return model.constants["centre_m"], model.constants["scale_m"]
