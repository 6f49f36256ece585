"""No encoding: a network reads the position alone."""

from typing import ClassVar, Literal

from fl.encodings.base import Encoding
from netsim.columns import no_places
from netsim.rng import Rng
from netsim.units import FloatArray


class Position(Encoding):
    """The standardised position alone, as in the attack papers: smooth maps, which blur buildings and streets."""

    kind: Literal["position"] = "position"

    reference: ClassVar = "Bakopoulou et al., Location Leakage in Federated Signal Maps, Section 3"

    @property
    def waves(self) -> int:
        return 0

    def wave_vectors(self, rng: Rng) -> FloatArray:
        return no_places()
