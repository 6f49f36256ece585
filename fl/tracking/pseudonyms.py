"""The pseudonym slot: for how long an update's sender keeps the name under which the attacker sees
it.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.types import Estimates
from netsim.columns import frozen, replaced
from netsim.part import OneOf, Part
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

if TYPE_CHECKING:
    from fl.tracking.belief import Belief


class Pseudonyms(Part):
    """A rule that cuts the time of each UE into periods; in each of them it has one name, which
    never comes back.
    """

    kind: str
    changes: ClassVar = True
    """whether names ever change; where they do not, a UE's name is its number"""

    def lasts_until_s(self, asked_s: float) -> float:
        """Time of the last request under the names of a request at asked_s, where all UEs change at
        once; else inf.
        """
        return inf

    @abstractmethod
    def period(self, ue: IntArray, asked_s: FloatArray, round_: int, rng: Rng) -> IntArray:
        """The number of the period (n,) of UEs (n,) that were asked for an update at asked_s (n,),
        for merge round_.

        rng : one stream for the whole run.
        """


class Permanent(Pseudonyms):
    """Every UE keeps its name for the whole run."""

    kind: Literal["permanent"] = "permanent"
    changes = False

    reference = "McMahan et al., Algorithm 1: the server knows its clients"

    def period(self, ue: IntArray, asked_s: FloatArray, round_: int, rng: Rng) -> IntArray:
        return np.zeros_like(ue)


class PerRound(Pseudonyms):
    """A new name for every round; of a server without rounds, for every update."""

    kind: Literal["per-round"] = "per-round"

    reference = "Pfitzmann and Hansen 2010: transaction pseudonyms"

    def period(self, ue: IntArray, asked_s: FloatArray, round_: int, rng: Rng) -> IntArray:
        return np.full(len(ue), round_)


_ROUNDING = 1e-9  # of a period; times of requests are sums


class Every(Pseudonyms):
    """A new name every period_s, from the beginning of the run; an update that is asked for when a
    period ends, of what was measured in it, still has the name of that period.

    All UEs change at once, so that a new name may belong to any UE; or each at times of its own
    (stagger), shifted by a draw from 0 to period_s: then only few others change with it, and they
    are the ones to confuse it with.
    """

    kind: Literal["every"] = "every"
    period_s: float = Field(gt=0, le=1e9)
    """how long a name lasts, s"""
    stagger: bool = False
    """whether each UE changes at times of its own"""

    reference = (
        "Bluetooth Core Specification 5.4, Vol 3, Part C, Appendix A: private addresses, 15 min"
    )
    example = {"kind": "every", "period_s": 900}

    def period(self, ue: IntArray, asked_s: FloatArray, round_: int, rng: Rng) -> IntArray:
        if self.stagger:
            shift = rng.uniform("stagger", ue)
        else:
            shift = np.zeros(len(ue))
        return np.ceil(asked_s / self.period_s + shift - _ROUNDING).astype(int) - 1

    def lasts_until_s(self, asked_s: float) -> float:
        if self.stagger:
            return inf
        return float(np.ceil(asked_s / self.period_s - _ROUNDING)) * self.period_s


PSEUDONYMS = OneOf("pseudonyms", Permanent, PerRound, Every)


@frozen
class Names:
    """All names so far, whose owners only the simulation knows, numbered from 0 in the order in
    which they came, at random within a round.

    of (N,), since (N,) : whose each name is, and the round in which it was first used. now, period
    (n_ue,) : the name that each UE has now, and the period of the rule in which it got it; -1 of a
    UE without any.
    """

    of: IntArray
    since: IntArray
    now: IntArray
    period: IntArray

    @classmethod
    def start(cls, rule: Pseudonyms, n_ue: int) -> Names:
        """Before the first round: UEs have no names, or permanently their numbers."""
        n = 0 if rule.changes else n_ue
        every = np.arange(n)
        nameless = np.full(n_ue, -1)
        never = np.zeros_like(every)
        return cls(every, never, nameless if rule.changes else every, nameless)

    def given(self, ue: IntArray, period: IntArray, round_: int, rng: Rng) -> Names:
        """With new names for those of UEs (k,), each once, whose period (k,) is not that of their
        name.
        """
        due = (self.now[ue] < 0) | (self.period[ue] != period)
        new = ue[due]
        new = new[np.argsort(rng.uniform("name", new, item=round_), kind="stable")]
        now = replaced(self.now, new, len(self.of) + np.arange(len(new)))
        known = replaced(self.period, ue, period)
        of = np.concatenate([self.of, new])
        since = np.concatenate([self.since, np.full(len(new), round_)])
        return replace(self, of=of, since=since, now=now, period=known)

    def of_ues(self, belief: Belief) -> Belief:
        """A belief about names as one about UEs, ascending: each by the name that it had last by
        that round.
        """
        known = np.flatnonzero(self.since <= belief.round)
        last = np.full(len(self.now), -1)
        np.maximum.at(
            last, self.of[known], known
        )  # names are numbered in the order in which they were given
        then = belief.only(last[self.of[belief.ue]] == belief.ue)
        then = then.only(np.argsort(self.of[then.ue], kind="stable"))
        return replace(then, ue=self.of[then.ue])

    def translated(self, estimates: Estimates) -> Estimates:
        """Estimates about names as estimates about UEs; what is said of names that are given up is
        left out.
        """
        rows = np.flatnonzero(self.now[self.of[estimates.ue]] == estimates.ue)
        if len(rows) == len(estimates.ue):
            some = estimates
        else:
            some = estimates.select(rows)
        return replace(some, ue=self.of[some.ue])


def asked(
    names: Names, rule: Pseudonyms, ue: IntArray, asked_s: FloatArray, round_: int, rng: Rng
) -> Names:
    """Names after UEs (n,), asked for an update at asked_s (n,), have been seen in a round; rng:
    one for the run.
    """
    if not rule.changes:
        return names
    each, first = np.unique(ue, return_index=True)
    return names.given(each, rule.period(each, asked_s[first], round_, rng), round_, rng)
