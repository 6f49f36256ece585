"""The pseudonym slot: for how long an update's sender keeps the name under which the attacker sees it."""

from abc import abstractmethod
from math import inf
from typing import ClassVar

import numpy as np

from fl.types import Public, State
from netsim.columns import frozen
from netsim.part import Part
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray


@frozen
class SeenSamples:
    """Where UEs were in a window: sample i is of ue (N,) at place_m (N, 2) and time_s (N,)."""

    ue: IntArray
    place_m: FloatArray
    time_s: FloatArray


class Pseudonyms(Part):
    """A rule that cuts the time of each UE into periods; in each of them it has one name, which never comes back."""

    kind: str
    changes: ClassVar[bool] = True
    """whether names ever change; where they do not, a UE's name is its number"""
    looks: ClassVar[bool] = False
    """whether it looks at where UEs are"""

    def check(self, public: Public) -> None:
        """BadInput where the public facts of a world lack what it needs."""
        return None

    def start(self, n_ue: int) -> State:
        """The first state; None for a rule without memory."""
        return None

    def looked(self, seen: SeenSamples, public: Public, state: State) -> State:
        """The next state, once positions of a window are known; a rule that looks at places overrides this."""
        return state

    def silent(self, position_m: FloatArray, public: Public) -> BoolArray:
        """Which UEs at positions (n, 2), NaN for absent ones, may send nothing there."""
        return np.zeros(len(position_m), dtype=np.bool_)

    def lasts_until_s(self, asked_s: float) -> float:
        """Time of the last request under the names of a request at asked_s, where all UEs change at once; else inf."""
        return inf

    @abstractmethod
    def period(self, ue: IntArray, asked_s: FloatArray, round_: int, state: State, rng: Rng) -> IntArray:
        """The number of the period (n,) of UEs (n,) that were asked for an update at asked_s (n,), for merge round_.

        rng : one stream for the whole run.
        """
