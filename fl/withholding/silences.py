"""Pauses after updates, limits per day, and silence at random."""

from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fl.types import RoundContext, State
from fl.withholding import RequestedData, Withholding, of_ues
from netsim.columns import frozen
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray

_ROUNDING = 1e-12  # relative: a pause of whole rounds ends with one of them


@frozen
class Pauses:
    """until (n_ue,): the number of the round, or the time in s, from which each UE may send again."""

    until: FloatArray


class Cooldown(Withholding):
    """A UE that has sent an update does not send another for `rounds` rounds, or for `time_s`.

    With jitter j each pause is longer by a share drawn each time, uniform between 0 and j; rounds are rounded to whole
    ones. Without rounds of the server, windows of round_s count. An update counts when it is sent, also if it is lost.

    What the silence gives away: that the UE sent not long ago, which an attacker that linked it knows already; a fixed
    pause also says when it will come back, and a UE that answers after exactly that time is likely the same one, also
    under another pseudonym. Jitter blurs this. Places have no effect. What is measured during a pause is not lost where
    devices keep records (data `memory`): it is learnt from after the pause.
    """

    kind: Literal["cooldown"] = "cooldown"
    rounds: int | None = Field(default=None, ge=1, le=1_000_000)
    """rounds after an update in which a UE does not send"""
    time_s: float | None = Field(default=None, gt=0, le=1e9)
    """time after an update for which a UE does not send, s, instead of rounds"""
    jitter: float = Field(default=0.0, ge=0, le=100)
    """largest share by which a pause is longer at random; 0: all pauses are alike"""

    reference: ClassVar = (
        "Gruteser and Grunwald, Anonymous Usage of Location-Based Services Through Spatial and Temporal Cloaking, "
        "MobiSys 2003: less often in time; the pause on the device is assumed"
    )
    example: ClassVar = {"kind": "cooldown", "rounds": 2}
    gives_away: ClassVar = "a UE that is silent has sent not long ago, and a fixed pause says when it comes back"
    by_history: ClassVar = True

    @model_validator(mode="after")
    def _one_measure(self) -> Self:
        if (self.rounds is None) == (self.time_s is None):
            raise ValueError("cooldown: give exactly one of rounds and time_s")
        return self

    def start(self, n_ue: int) -> Pauses:
        return Pauses(np.zeros(n_ue))

    def keep(self, asked: RequestedData, state: Pauses, rng: Rng) -> BoolArray:
        now = asked.facts.time_s if self.rounds is None else float(asked.facts.round)
        return of_ues(state.until * (1 - _ROUNDING) <= now, asked.local)

    def sent(self, ue: IntArray, facts: RoundContext, state: Pauses, rng: Rng) -> Pauses:
        longer = 1 + self.jitter * rng.uniform("pause", ue, item=facts.round)
        until = state.until.copy()
        if self.rounds is not None:
            until[ue] = facts.round + 1 + np.rint(self.rounds * longer)
        elif self.time_s is not None:
            until[ue] = facts.time_s + self.time_s * longer
        return Pauses(until)


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


class RandomSilence(Withholding):
    """A UE that is asked sends nothing with a given probability, by a coin of its own for each round.

    What the silence gives away: nothing about places or times. It also hides: with other rules beside it, an attacker
    that is silent need not be so for their reasons. It costs as many updates as a smaller `participation`, which the
    server decides; here the device does.
    """

    kind: Literal["random-silence"] = "random-silence"
    probability: float = Field(gt=0, lt=1)
    """probability with which a UE that is asked sends nothing"""

    reference: ClassVar = (
        "Huang et al., Enhancing Wireless Location Privacy Using Silent Period, IEEE WCNC 2005: silence at random; a "
        "coin a round is assumed"
    )
    example: ClassVar = {"kind": "random-silence", "probability": 0.5}
    gives_away: ClassVar = "its silence tells nothing but that a coin fell so"

    def keep(self, asked: RequestedData, state: State, rng: Rng) -> BoolArray:
        coin = rng.uniform("silence", np.arange(len(asked.home_m)), item=asked.facts.round)
        return of_ues(coin >= self.probability, asked.local)
