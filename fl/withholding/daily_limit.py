"""A limit of updates per day."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.types import RoundContext
from fl.withholding.base import RequestedData, Withholding, of_ues
from netsim.columns import frozen
from netsim.rng import Rng
from netsim.units import BoolArray, IntArray


@frozen
class SentToday:
    """day: number of the local day; updates (n_ue,): how many each UE has sent of it."""

    day: int
    updates: IntArray


class DailyLimit(Withholding):
    """A UE sends at most `updates` updates per local day, the first ones that it is asked for.

    A day is that of the wall clock in which the window of data ends; one that ends at midnight belongs to the day
    before. An update counts when it is sent, also if it is lost, and once for all models and phases of a round.

    What the silence gives away: that the UE has sent that often today; later hours reveal less than early ones,
    so what a server learns is who is where in the morning. Take `participation` or `random-silence` beside it to spread
    updates over the day.
    """

    kind: Literal["daily-limit"] = "daily-limit"
    updates: int = Field(ge=1, le=1_000_000)
    """largest number of updates of a UE and a local day"""

    reference: ClassVar = (
        "a bound on contributions by user and day, as in Wilson et al., Differentially Private SQL with Bounded User "
        "Contribution, PoPETs 2020, Section 3"
    )
    example: ClassVar = {"kind": "daily-limit", "updates": 2}
    gives_away: ClassVar = "a UE that is silent has sent its updates of the day already"
    by_history: ClassVar = True

    def start(self, n_ue: int) -> SentToday:
        return SentToday(0, np.zeros(n_ue, dtype=np.int64))

    def keep(self, asked: RequestedData, state: SentToday, rng: Rng) -> BoolArray:
        return of_ues(self._on(asked.facts.day, state).updates < self.updates, asked.local)

    def sent(self, ue: IntArray, facts: RoundContext, state: SentToday, rng: Rng) -> SentToday:
        now = self._on(facts.day, state)
        updates = now.updates.copy()
        updates[ue] += 1
        return SentToday(now.day, updates)

    def _on(self, day: int, state: SentToday) -> SentToday:
        """The state on that day: no UE has sent on a new one."""
        return state if state.day == day else SentToday(day, np.zeros_like(state.updates))
