"""Random Fourier features of the position."""

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.encodings.base import Encoding
from netsim.rng import Rng
from netsim.units import FloatArray


class Fourier(Encoding):
    """Random public waves: w_j ~ N(0, I) / L_j, where L_j cycles through `lengths_m`.

    A wave of length scale L resolves structure of about L metres, which plain coordinates do not within the steps of
    federated training.
    """

    kind: Literal["fourier"] = "fourier"
    frequencies: int = Field(default=64, ge=1, le=4096)
    """number of waves (J); the network reads a cosine and a sine of each"""
    lengths_m: tuple[Annotated[float, Field(ge=0.1, le=1e6)], ...] = Field(
        default=(100.0, 200.0, 400.0), min_length=1, max_length=16
    )
    """length scales of the waves (L), m, taken in turn"""

    reference: ClassVar = (
        "Rahimi and Recht, Random Features for Large-Scale Kernel Machines, 2007; Tancik et al., Fourier Features Let "
        "Networks Learn High Frequency Functions, 2020"
    )
    example: ClassVar = {"kind": "fourier", "frequencies": 4}

    @property
    def waves(self) -> int:
        return self.frequencies

    @property
    def shortest_m(self) -> float:
        return min(self.lengths_m)

    def wave_vectors(self, rng: Rng) -> FloatArray:
        length_m = np.resize(np.array(self.lengths_m), self.frequencies)
        return rng.normal("wave vectors", np.arange(self.frequencies), (2,)) / length_m[:, None]
