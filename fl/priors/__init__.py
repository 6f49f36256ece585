"""Priors: public laws of RSRP, to which a network learns the difference."""

from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.types import Public
from netsim.errors import BadInput
from netsim.part import Coordinates, OneOf, Part
from netsim.units import FloatArray, IntArray


class Prior(Part):
    """RSRP as expected from public constants. Labels are differences to it, and it is added to predictions."""

    kind: str

    @abstractmethod
    def constants(self, public: Public) -> dict[str, FloatArray]:
        """Constants of the model; raises BadInput where something is unknown."""

    @abstractmethod
    def expected_dbm(self, constants: dict[str, FloatArray], model_of: IntArray, place_m: FloatArray) -> FloatArray:
        """RSRP (N,) at places (N, 2) for the models model_of (N,)."""


class NoPrior(Prior):
    """Labels are RSRP itself."""

    kind: Literal["none"] = "none"

    reference: ClassVar = "Bakopoulou et al., Location Leakage in Federated Signal Maps, Section 3"

    def constants(self, public: Public) -> dict[str, FloatArray]:
        return {}

    def expected_dbm(self, constants: dict[str, FloatArray], model_of: IntArray, place_m: FloatArray) -> FloatArray:
        return np.zeros(len(place_m))


class LogDistancePrior(Prior):
    """rsrp_dbm - 10 exponent log10(max(d, reference_m) / reference_m) at horizontal distance d.

    d is the distance to the base station of the model's cell, and to the nearest of them where a model learns several.
    """

    kind: Literal["log-distance"] = "log-distance"
    position_m: Coordinates | None = None
    """place of the base station, metres east and north; none: where the world has it"""
    exponent: float = Field(default=3.5, gt=0, le=10)
    """path-loss exponent"""
    reference_m: float = Field(default=100.0, ge=1, le=1e5)
    """reference distance, m; nearer places have its RSRP"""
    rsrp_dbm: float = Field(default=-80.0, ge=-160, le=20)
    """RSRP at the reference distance, dBm"""

    renamed: ClassVar = {"at_m": "position_m"}
    reference: ClassVar = "Rappaport 2002, Wireless Communications, Section 4.9.1"

    def constants(self, public: Public) -> dict[str, FloatArray]:
        """prior_at_m (n_cell, 2) and prior_model (n_cell,): base stations, and the model of each (-1: none)."""
        model = np.zeros(public.n_cell, dtype=np.int64) if public.model_of_cell is None else public.model_of_cell
        if self.position_m is not None:
            if (model >= 0).sum() > 1:
                raise BadInput(
                    f"learning.learner.prior.position_m: one place, and {(model >= 0).sum()} cells are learnt; learn "
                    "one cell (learning.data.cell), or leave position_m out where base stations are known"
                )
            return {"prior_at_m": np.tile(self.position_m, (len(model), 1)), "prior_model": model.astype(np.float64)}
        if public.antennas is None:
            raise BadInput(
                "learning.learner.prior: the places of base stations are not known here (a trace brings cells without "
                "places); give position_m, or take prior: {kind: none}"
            )
        return {"prior_at_m": public.antennas.at_m[:, :2], "prior_model": model.astype(np.float64)}

    def rsrp_dbm_at(self, distance_m: FloatArray) -> FloatArray:
        """The law of distance."""
        ratio = np.maximum(distance_m, self.reference_m) / self.reference_m
        return self.rsrp_dbm - 10.0 * self.exponent * np.log10(ratio)

    def expected_dbm(self, constants: dict[str, FloatArray], model_of: IntArray, place_m: FloatArray) -> FloatArray:
        nearest_m = np.full(len(place_m), np.inf)
        for at_m, model in zip(constants["prior_at_m"], constants["prior_model"], strict=True):
            theirs = model_of == model
            distance_m = np.hypot(*(place_m[theirs] - at_m).T)
            nearest_m[theirs] = np.minimum(nearest_m[theirs], distance_m)
        return self.rsrp_dbm_at(nearest_m)


PRIORS = OneOf(
    "prior",
    places={
        "none": "fl.priors:NoPrior",
        "coverage": "fl.priors.coverage:Coverage",
        "log-distance": "fl.priors:LogDistancePrior",
    },
)
"""The slot of a public law of RSRP, to which a network learns the difference."""
