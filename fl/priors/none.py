"""No prior."""

from typing import ClassVar, Literal

import numpy as np

from fl.priors.base import Prior
from fl.types import Public
from netsim.units import FloatArray, IntArray


class NoPrior(Prior):
    """Labels are RSRP itself."""

    kind: Literal["none"] = "none"

    reference: ClassVar = "Bakopoulou et al., Location Leakage in Federated Signal Maps, Section 3"

    def constants(self, public: Public) -> dict[str, FloatArray]:
        return {}

    def expected_dbm(self, constants: dict[str, FloatArray], model_of: IntArray, place_m: FloatArray) -> FloatArray:
        return np.zeros(len(place_m))
