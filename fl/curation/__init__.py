"""The curation slot: processing of a UE's data of the round before training."""

from abc import abstractmethod
from typing import ClassVar

from fl.types import Curated, Local, RoundContext, State
from netsim.part import Named, OneOf
from netsim.rng import Rng

UNTOUCHED = "untouched places"  # what data with positions offer, until a step of curation depends on them


class Curation(Named):
    """One step of a chain on the local data of all UEs; a step that adds noise spends privacy in its own unit."""

    role: ClassVar[str] = "curation"
    kind: str
    by_place: ClassVar[bool] = False
    """whether the selection or the change of a record depends on the positions of the UE's records"""

    @property
    def displacement_per_m(self) -> float | None:
        """epsilon of the planar Laplace noise that it adds to places, a public setting; None: it adds none."""
        return None

    def start(self, n_ue: int) -> State:
        """The first state; None for a step without memory."""
        return None

    @abstractmethod
    def apply(self, local: Local, facts: RoundContext, state: State, rng: Rng) -> Curated:
        """The curated data of all devices, with the same rows; they may become empty."""


CURATIONS = OneOf(
    "curation",
    places={
        "random": "fl.curation.batches:RandomBatch",
        "diverse-batch": "fl.curation.batches:DiverseBatch",
        "farthest-batch": "fl.curation.batches:FarthestBatch",
        "geo-indistinguishable": "fl.curation.geo_ind:GeoIndistinguishable",
        "gan": "fl.curation.gan:Gan",
    },
)
