"""Log-distance path loss, the law of a scenario that names none."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.radio.base import MIN_DISTANCE_M, Pairs, PathLoss
from netsim.units import FloatArray


class LogDistance(PathLoss):
    r"""Log-distance path loss: the loss grows by 10 n dB per decade of distance::

        PL(d) = PL(d_ref) + 10 n log10(max(d, 1 m) / d_ref)

    where d is the 3D distance in m and n the exponent. The carrier enters through `reference_loss_db` only,
    so `carrier_hz` is not used.
    """

    reference: ClassVar = "Rappaport, 'Wireless Communications', 2nd ed., 2002, Eq. 4.68"
    example: ClassVar = {"kind": "log-distance"}

    kind: Literal["log-distance"] = "log-distance"
    exponent: float = Field(default=3.5, gt=0, le=20)
    """path loss exponent n: 2 in free space, 3 to 4 in cities"""
    reference_m: float = Field(default=10.0, ge=1e-3, le=1e6)
    """distance of the reference loss, m"""
    reference_loss_db: float = Field(default=50.0, ge=-300, le=500)
    """loss at the reference distance, dB"""

    def loss_db(self, pairs: Pairs, carrier_hz: float) -> FloatArray:
        """Loss in dB, shape (n_ue, n_bs)."""
        ratio = np.maximum(pairs.distance_3d_m, MIN_DISTANCE_M) / self.reference_m
        return self.reference_loss_db + 10.0 * self.exponent * np.log10(ratio)
