"""Encodings: public waves over the plane, whose cosines and sines a network reads beside the
position.
"""

from abc import abstractmethod
from math import inf
from typing import Annotated

import numpy as np
from pydantic import Field

from netsim.columns import no_places
from netsim.part import OneOf, Part
from netsim.rng import Rng
from netsim.units import FloatArray


class Encoding(Part):
    """A network's inputs are [z, cos a, sin a] with z the standardised position and a_j = w_j . (x
    - centre).

    The wave vectors w are drawn once, before the first round, and are public.
    """

    kind: str = ""

    @property
    @abstractmethod
    def waves(self) -> int:
        """Number of waves (J); a network reads 2 J numbers beside the two of the position."""

    @property
    def shortest_m(self) -> float:
        """Length of the shortest structure that a wave resolves, m; infinite without waves."""
        return inf

    @abstractmethod
    def draw_wave_vectors(self, rng: Rng) -> FloatArray:
        """w (J, 2), radians per metre."""


def encode_positions(z: FloatArray, offset_m: FloatArray, wave_vectors: FloatArray) -> FloatArray:
    """[z, cos a, sin a] (N, 2 + 2 J) of standardised positions z (N, 2) and offsets from the centre
    (N, 2), metres.
    """
    a = offset_m @ wave_vectors.T
    return np.concatenate([z, np.cos(a), np.sin(a)], axis=1)


class Position(Encoding, kind="position"):
    """The standardised position alone, as in the attack papers: smooth maps, which blur buildings
    and streets.
    """

    reference = "Bakopoulou et al., Location Leakage in Federated Signal Maps, Section 3"

    @property
    def waves(self) -> int:
        return 0

    def draw_wave_vectors(self, rng: Rng) -> FloatArray:
        return no_places()


class Fourier(Encoding, kind="fourier"):
    """Random public waves: w_j ~ N(0, I) / L_j, where L_j cycles through `lengths_m`.

    A wave of length scale L resolves structure of about L metres, which plain coordinates do not
    within the steps of federated training.
    """

    frequencies: int = Field(64, ge=1, le=4096)
    """number of waves (J); the network reads a cosine and a sine of each"""
    lengths_m: tuple[Annotated[float, Field(ge=0.1, le=1e6)], ...] = Field(
        default=(100.0, 200.0, 400.0), min_length=1, max_length=16
    )
    """length scales of the waves (L), m, taken in turn"""

    reference = (
        "Rahimi and Recht, Random Features for Large-Scale Kernel Machines, 2007; Tancik et al., "
        "Fourier Features Let Networks Learn High Frequency Functions, 2020"
    )
    example = {"kind": "fourier", "frequencies": 4}

    @property
    def waves(self) -> int:
        return self.frequencies

    @property
    def shortest_m(self) -> float:
        return min(self.lengths_m)

    def draw_wave_vectors(self, rng: Rng) -> FloatArray:
        length_m = np.resize(np.array(self.lengths_m), self.frequencies)
        return rng.normal("wave vectors", np.arange(self.frequencies), (2,)) / length_m[:, None]


ENCODINGS = OneOf(
    "encoding",
    places={
        "position": "fl.encodings:Position",
        "fourier": "fl.encodings:Fourier",
    },
)
