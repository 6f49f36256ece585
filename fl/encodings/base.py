"""The encoding slot: public waves over the plane, whose cosines and sines a network reads beside the position."""

from abc import abstractmethod
from math import inf

import numpy as np

from netsim.part import Part
from netsim.rng import Rng
from netsim.units import FloatArray


class Encoding(Part):
    """A network's inputs are [z, cos a, sin a] with z the standardised position and a_j = w_j . (x - centre).

    The wave vectors w are drawn once, before the first round, and are public.
    """

    kind: str

    @property
    @abstractmethod
    def waves(self) -> int:
        """Number of waves (J); a network reads 2 J numbers beside the two of the position."""

    @property
    def shortest_m(self) -> float:
        """Length of the shortest structure that a wave resolves, m; infinite without waves."""
        return inf

    @abstractmethod
    def wave_vectors(self, rng: Rng) -> FloatArray:
        """w (J, 2), radians per metre."""


def encoded(z: FloatArray, offset_m: FloatArray, wave_vectors: FloatArray) -> FloatArray:
    """[z, cos a, sin a] (N, 2 + 2 J) of standardised positions z (N, 2) and offsets from the centre (N, 2), metres."""
    if not len(wave_vectors):
        return z
    a = offset_m @ wave_vectors.T
    return np.concatenate([z, np.cos(a), np.sin(a)], axis=1)
