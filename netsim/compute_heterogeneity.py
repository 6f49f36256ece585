"""Unequal UEs: how much longer, or shorter, each of them trains than stated."""

from abc import abstractmethod

from netsim.part import OneOf, Part
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray


class ComputeSpread(Part):
    """A law of the factor by which the training time of a UE is multiplied, drawn once for each UE."""

    kind: str

    @property
    @abstractmethod
    def formula(self) -> str:
        """The factor in terms of N, a standard normal draw."""

    @abstractmethod
    def factor(self, ue: IntArray, rng: Rng) -> FloatArray:
        """The factor (n,) of UEs (n,); that of UE u depends on the seed and u only."""


COMPUTE_SPREADS = OneOf(
    "compute-spread",
    places={
        "half-normal": "netsim.compute_heterogeneity_laws:HalfNormal",
        "log-normal": "netsim.compute_heterogeneity_laws:LogNormal",
    },
)
"""The compute-spread slot: how unequal UEs are in training."""
