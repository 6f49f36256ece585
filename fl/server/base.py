"""The server slot: when the server merges what has come, and what an update is worth that comes late."""

from math import inf
from typing import ClassVar

import numpy as np

from netsim.part import Part
from netsim.units import FloatArray, IntArray


class Server(Part):
    """A policy by which the server asks for updates and merges them.

    In rounds : every UE that is asked gets the same model, and the next model is made of their updates. Without rounds
    the server asks UEs whenever it has room for more, and merges updates that began from different models.
    """

    kind: str
    in_rounds: ClassVar[bool] = True
    """whether all UEs are asked at once, and all updates of a round are merged together"""
    mixes_models: ClassVar[bool] = False
    """whether an update counts as the model that a UE has arrived at, not as the way to it"""

    @property
    def waits_for(self) -> int | None:
        """Number of UEs whose updates are merged at a time; None for all that come."""
        return None

    @property
    def room(self) -> float:
        """Number of UEs that may be under way at a time."""
        return inf

    @property
    def has_deadline(self) -> bool:
        """Whether a round may last longer than its window, up to a deadline."""
        return False

    def limit_s(self, round_s: float) -> float:
        """Seconds that an update may take, from the request."""
        return inf

    def staleness_weight(self, staleness: IntArray) -> FloatArray:
        """Factor (n,) of updates whose models are staleness (n,) versions old."""
        return np.ones(len(staleness))
