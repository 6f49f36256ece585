"""What learners of RSRP from position have in common, whatever their network is."""

from abc import abstractmethod
from math import nan

import numpy as np
from pydantic import Field

from fl.learners import LayeredLearner
from fl.optimisers import LocalTraining
from fl.types import HeldOut, Metrics, Model, Public
from netsim.units import FloatArray, IntArray


class PositionNet(LocalTraining, LayeredLearner):
    """A network of which the first layer reads the standardised position, and may read more."""

    public_rsrp_mean_dbm: float = Field(-95.0, ge=-160, le=0)
    """public mean RSRP, dBm: initial output bias, centre of standardised labels"""
    public_rsrp_std_db: float = Field(9.0, gt=0, le=60)
    """public standard deviation of RSRP, dB: scale of standardised labels"""

    @staticmethod
    def standardise_by_area(public: Public) -> tuple[FloatArray, FloatArray]:
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
            relative = np.abs(error / held_out.y).mean()
            return {"rmse_db": rmse_db, "mape_percent": 100 * relative}

    @abstractmethod
    def predict_dbm(self, model: Model, model_of: IntArray, position_m: FloatArray) -> FloatArray:
        """RSRP (N,) at positions (N, 2) by the models model_of (N,)."""

    def predict_strongest_dbm(
        self, model: Model, place_m: FloatArray, models: IntArray
    ) -> FloatArray | None:
        largest = np.full(len(place_m), nan)
        for m in np.unique(models).tolist():
            with np.errstate(over="ignore", invalid="ignore"):  # a model that has diverged
                rsrp_dbm = self.predict_dbm(model, np.full(len(place_m), m), place_m)
                largest = np.fmax(largest, rsrp_dbm)
        return largest

    @property
    def update_over_gradient(self) -> float:
        """The learning rate; NaN where steps have a size of their own."""
        if self.optimiser.linear:
            return self.learning_rate
        return nan

    def first_layer(self, updates: FloatArray) -> tuple[FloatArray, FloatArray]:
        weights = self.select_layer(updates, 1)
        return weights[:, :2].transpose(0, 2, 1), weights[:, -1]

    def standardisation(self, model: Model) -> tuple[FloatArray, FloatArray]:
        return model.constants["centre_m"], model.constants["scale_m"]
