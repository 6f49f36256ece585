"""True owners of names, which only the simulation knows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fl.pseudonyms import Pseudonyms
from fl.tracking.belief import Belief
from fl.types import Estimates
from netsim.columns import frozen
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray


@frozen
class Names:
    """All names so far, numbered from 0 in the order in which they were given, at random within a round.

    of (N,), since (N,) : whose each name is, and the round in which it was first used. now, period (n_ue,) : the name
    that each UE has now, and the period of the rule in which it got it; -1 of a UE without any.
    """

    of: IntArray
    since: IntArray
    now: IntArray
    period: IntArray

    @classmethod
    def start(cls, rule: Pseudonyms, n_ue: int) -> Names:
        """Before the first round: UEs have no names, or permanently their numbers."""
        n = 0 if rule.changes else n_ue
        every, nameless, never = np.arange(n, dtype=np.int64), np.full(n_ue, -1), np.zeros(n, dtype=np.int64)
        return cls(every, never, nameless if rule.changes else every, nameless)

    def given(self, ue: IntArray, period: IntArray, round_: int, rng: Rng) -> Names:
        """With new names for those of UEs (k,), each once, whose period (k,) is not that of their name."""
        due = (self.now[ue] < 0) | (self.period[ue] != period)
        new = ue[due]
        new = new[np.argsort(rng.uniform("name", new, item=round_), kind="stable")]
        now, known = self.now.copy(), self.period.copy()
        now[new], known[ue] = len(self.of) + np.arange(len(new)), period
        of, since = np.concatenate([self.of, new]), np.concatenate([self.since, np.full(len(new), round_)])
        return replace(self, of=of, since=since, now=now, period=known)

    def current(self, name: IntArray) -> BoolArray:
        """Which of names (k,) are those that their UEs have now."""
        return np.asarray(self.now[self.of[name]] == name)

    def of_ues(self, belief: Belief) -> Belief:
        """A belief about names as one about UEs, ascending: each by the name that it had last by that round."""
        known = np.flatnonzero(self.since <= belief.round)
        last = np.full(len(self.now), -1)
        np.maximum.at(last, self.of[known], known)  # names are numbered in the order in which they were given
        then = belief.only(np.asarray(last[self.of[belief.ue]] == belief.ue))
        then = then.only(np.argsort(self.of[then.ue], kind="stable"))
        return replace(then, ue=self.of[then.ue])

    def translated(self, estimates: Estimates) -> Estimates:
        """Estimates about names as estimates about UEs; what is said of names that are given up is left out."""
        rows = np.flatnonzero(self.current(estimates.ue))
        some = estimates if len(rows) == len(estimates.ue) else estimates.select(rows)
        return replace(some, ue=self.of[some.ue])


def asked(names: Names, rule: Pseudonyms, ue: IntArray, asked_s: FloatArray, round_: int, rng: Rng) -> Names:
    """Names after UEs (n,), asked for an update at asked_s (n,), have been seen in a round; rng: one for the run."""
    if not rule.changes:
        return names
    each, first = np.unique(ue, return_index=True)
    return names.given(each, rule.period(each, asked_s[first], round_, rng), round_, rng)
