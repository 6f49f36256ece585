"""The pseudonym slot: for how long an update's sender keeps the name under which the attacker sees
it.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fl.types import Estimates
from netsim.columns import frozen, no_ints, replace_values
from netsim.part import Amount, OneOf, Part
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

if TYPE_CHECKING:
    from fl.tracking.belief import Belief


class Pseudonyms(Part):
    """A rule that cuts the time of each UE into periods; in each of them it has one name, which
    never comes back.
    """

    kind: str = ""
    changes: ClassVar = True
    """whether names ever change; where they do not, a UE's name is its number"""

    def lasts_until_s(self, asked_s: float) -> float:
        """Time of the last request under the names of a request at asked_s, where all UEs change at
        once; else inf.
        """
        return inf

    @abstractmethod
    def number_periods(self, ue: IntArray, asked_s: FloatArray, round_: int, rng: Rng) -> IntArray:
        """The number of the period (n,) of UEs (n,) that were asked for an update at asked_s (n,),
        for merge round_.

        rng : one stream for the whole run.
        """


class Permanent(Pseudonyms, kind="permanent"):
    """Every UE keeps its name for the whole run."""

    changes = False

    reference = "McMahan et al., Algorithm 1: the server knows its clients"

    def number_periods(self, ue: IntArray, asked_s: FloatArray, round_: int, rng: Rng) -> IntArray:
        return np.zeros_like(ue)


class PerRound(Pseudonyms, kind="per-round"):
    """A new name for every round; of a server without rounds, for every update."""

    reference = "Pfitzmann and Hansen 2010: transaction pseudonyms"

    def number_periods(self, ue: IntArray, asked_s: FloatArray, round_: int, rng: Rng) -> IntArray:
        return np.full(len(ue), round_)


_ROUNDING = 1e-9  # of a period; times of requests are sums


class Periodic(Pseudonyms, kind="every"):
    """A new name every period_s, from the beginning of the run; an update that is asked for when a
    period ends, of what was measured in it, still has the name of that period.

    All UEs change at once, so that a new name may belong to any UE; or each at times of its own
    (stagger), shifted by a draw from 0 to period_s: then only few others change with it, and they
    are the ones to confuse it with.
    """

    period_s: Amount
    """how long a name lasts, s"""
    stagger: bool = False
    """whether each UE changes at times of its own"""

    reference = (
        "Bluetooth Core Specification 5.4, Vol 3, Part C, Appendix A: private addresses, 15 min"
    )
    example = {"kind": "every", "period_s": 900}

    def number_periods(self, ue: IntArray, asked_s: FloatArray, round_: int, rng: Rng) -> IntArray:
        shift = rng.uniform("stagger", ue) if self.stagger else np.zeros(len(ue))
        return np.ceil(asked_s / self.period_s + shift - _ROUNDING).astype(int) - 1

    def lasts_until_s(self, asked_s: float) -> float:
        if self.stagger:
            return inf
        return float(np.ceil(asked_s / self.period_s - _ROUNDING)) * self.period_s


PSEUDONYMS = OneOf("pseudonyms", Permanent, PerRound, Periodic)


@frozen
class Names:
    """All names so far, whose owners only the simulation knows, numbered from 0 in the order in
    which they came, at random within a round.

    of (N,), since (N,) : whose each name is, and the round in which it was first used. now, period
    (n_ue,) : the name that each UE has now, and the period of the rule in which it got it; -1 of a
    UE without any.
    """

    owner: IntArray
    first_round: IntArray
    name_of_ue: IntArray
    period: IntArray

    @classmethod
    def start(cls, rule: Pseudonyms, n_ue: int) -> Names:
        """Before the first round: UEs have no names, or permanently their numbers."""
        nameless = np.full(n_ue, -1)
        if rule.changes:
            return cls(no_ints(), no_ints(), nameless, nameless)
        number = np.arange(n_ue)
        return cls(number, np.zeros_like(number), number, nameless)

    def add_new(self, ue: IntArray, period: IntArray, round_: int, rng: Rng) -> Names:
        """With new names for those of UEs (k,), each once, whose period (k,) is not that of their
        name.
        """
        new = ue[(self.name_of_ue[ue] < 0) | (self.period[ue] != period)]
        new = new[np.argsort(rng.uniform("name", new, item=round_), kind="stable")]
        name_of_ue = replace_values(self.name_of_ue, new, len(self.owner) + np.arange(len(new)))
        periods = replace_values(self.period, ue, period)
        owner = np.concatenate([self.owner, new])
        since = np.concatenate([self.first_round, np.full(len(new), round_)])
        return replace(self, owner=owner, first_round=since, name_of_ue=name_of_ue, period=periods)

    def translate_belief(self, belief: Belief) -> Belief:
        """A belief about names as one about UEs, ascending: each by the name that it had last by
        that round.
        """
        named = np.flatnonzero(self.first_round <= belief.round)
        last = np.full(len(self.name_of_ue), -1)
        # names are numbered in the order in which they were given
        np.maximum.at(last, self.owner[named], named)
        latest = belief.select_ues(last[self.owner[belief.ue]] == belief.ue)
        latest = latest.select_ues(np.argsort(self.owner[latest.ue], kind="stable"))
        return replace(latest, ue=self.owner[latest.ue])

    def translate(self, estimates: Estimates) -> Estimates:
        """Estimates about names as estimates about UEs; what is said of names that are given up is
        left out.
        """
        rows = np.flatnonzero(self.name_of_ue[self.owner[estimates.ue]] == estimates.ue)
        current = estimates if len(rows) == len(estimates.ue) else estimates.select(rows)
        return replace(current, ue=self.owner[current.ue])


def give_names(
    names: Names, rule: Pseudonyms, ue: IntArray, asked_s: FloatArray, round_: int, rng: Rng
) -> Names:
    """Names after UEs (n,), asked for an update at asked_s (n,), have been seen in a round; rng:
    one for the run.
    """
    if not rule.changes:
        return names
    ues, first = np.unique(ue, return_index=True)
    return names.add_new(ues, rule.number_periods(ues, asked_s[first], round_, rng), round_, rng)
