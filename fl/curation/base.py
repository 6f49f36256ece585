"""The curation slot: what a device does to its data of the round before it learns from them."""

from __future__ import annotations

from abc import abstractmethod

from fl.types import Curated, Facts, Local, State
from netsim.part import Named
from netsim.rng import Rng


class Curation(Named):
    """One step of a chain on every device's data; a step that adds noise spends privacy in its own unit."""

    kind: str

    @abstractmethod
    def apply(self, local: Local, facts: Facts, state: State, rng: Rng) -> Curated:
        """The curated data of all devices, with the same rows; they may become empty."""
