"""The slot of a public law of RSRP: a network learns the difference to it."""

from abc import abstractmethod

from fl.types import Public
from netsim.part import Part
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
