"""The withholding slot: what a UE holds back that was asked and has accepted, decided on the device."""

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from fl.types import Local, RoundContext, State
from netsim.columns import frozen
from netsim.part import Named, OneOf
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray


@frozen
class RequestedData:
    """A request, as devices see it.

    local: the rows (n,) of the UEs that were asked, N samples that they would learn from, earlier ones that they hold
    included; measured: all measurements of the round, held-out ones too, of whichever UE; home_m (n_ue, 2): NaN for a
    UE without a home; position_m (n_ue, 2), serving (n_ue,): where each UE is now, NaN for one that is absent, and by
    which cell it is served, -1 for none.
    """

    local: Local
    measured: Local
    facts: RoundContext
    home_m: FloatArray
    position_m: FloatArray
    serving: IntArray


class Withholding(Named):
    """A rule by which devices hold samples or whole updates back.

    Several rules stand beside each other: each of them decides from the request alone, what one of them holds back is
    held back, and their order has no effect. A UE that sends nothing says so at once and gives no reason, as one whose
    query policy refuses: the server does not wait for it. The server sees who is silent.
    """

    role: ClassVar[str] = "withholding"
    kind: str
    gives_away: ClassVar[str]
    """what the silence itself reveals, in words"""
    by_place: ClassVar[bool] = False
    """whether what is held back depends on positions of the UE"""
    by_history: ClassVar[bool] = False
    """whether silence depends on earlier updates: then a coin of the server amplifies no noise"""

    @property
    def waits_for_a_cell(self) -> bool:
        """Whether it depends on the cell that serves a UE when it is asked."""
        return False

    @property
    def records_alone(self) -> bool:
        """Whether a sample is held back because of that sample alone, or of none at all."""
        return True

    def start(self, n_ue: int) -> State:
        """The first state; None for a rule without memory."""
        return None

    def looked(self, asked: RequestedData, state: State, rng: Rng) -> State:
        """The next state after devices have seen where they are, before any of them answers the request."""
        return state

    @abstractmethod
    def keep(self, asked: RequestedData, state: State, rng: Rng) -> BoolArray:
        """Which samples (N,) of `asked.local` may be learnt from; a UE with none of them sends nothing.

        rng : one stream for the whole run, the same at every call; a draw of each round has the round as `item`.
        """

    def sent(self, ue: IntArray, facts: RoundContext, state: State, rng: Rng) -> State:
        """The next state after these UEs (n,), each once, have learnt from something and send an update."""
        return state


def of_ues(speaks: BoolArray, local: Local) -> BoolArray:
    """The samples (N,) of UEs that speak (n_ue,)."""
    return np.repeat(speaks[local.ue], local.count)


WITHHOLDINGS = OneOf(
    "withholding",
    places={
        "cooldown": "fl.withholding.silences:Cooldown",
        "daily-limit": "fl.withholding.silences:DailyLimit",
        "home-zone": "fl.withholding.home_zone:HomeZone",
        "random-silence": "fl.withholding.silences:RandomSilence",
    },
)
