r"""For how long an attacker follows a name, where names change.

An attacker that knows that names change does not wait for ever: a name is given up once nothing has been estimated of
it for longer than

    max(six rounds, the longest silence from which any name came back so far).

Names of one round never come back, so that six rounds of them are followed; names that pause at night are waited for
once one of them has come back in the morning. A name that comes back later is followed from scratch, as an unknown one.
Its cost depends on the number of names that can still be alive, not on all names so far.
"""

from __future__ import annotations

from dataclasses import field, replace

import numpy as np

from fl.tracking.history import History
from netsim.clock import slack_s
from netsim.columns import frozen, no_floats, no_ints
from netsim.units import BoolArray, FloatArray, IntArray

LEAST_ROUNDS = 6.0
_WITHOUT_ROUNDS_S = 3600.0  # where the length of a round is unknown
NEVER = np.iinfo(np.int64).max


def _none() -> IntArray:
    return no_ints()


@frozen
class Lifetimes:
    """Times in which names were followed, in the order in which they began: name, first, gone (n,), the first round and
    the one from which on it is followed no more, NEVER so far; last_s (n,) : when it was heard last.

    longest_s : the longest silence from which a name came back. A name has several, if it came back too late.
    """

    name: IntArray = field(default_factory=_none)
    first: IntArray = field(default_factory=_none)
    gone: IntArray = field(default_factory=_none)
    last_s: FloatArray = field(default_factory=no_floats)
    longest_s: float = 0.0

    def __len__(self) -> int:
        return len(self.name)

    @property
    def alive(self) -> BoolArray:
        """Which of them (n,) have not ended."""
        return np.asarray(self.gone == NEVER)

    def follows(self, names: IntArray) -> BoolArray:
        """Which of names (k,) are followed now."""
        return np.isin(names, self.name[self.alive])

    def after(self, names: IntArray, round_: int, time_s: float, round_s: float, renames: bool) -> Lifetimes:
        """After a round in which names (k,), each once, were heard; without `renames` none is ever given up."""
        at = self._latest(names)
        before, known = at[at >= 0], np.zeros(len(names), dtype=np.bool_)
        known[at >= 0] = self.alive[before]
        last_s = self.last_s.copy()
        last_s[at[known]] = time_s
        new = names[~known]
        longest_s = max(self.longest_s, float((time_s - self.last_s[before]).max(initial=0.0)))
        heard = Lifetimes(
            np.concatenate([self.name, new]),
            np.concatenate([self.first, np.full(len(new), round_)]),
            np.concatenate([self.gone, np.full(len(new), NEVER)]),
            np.concatenate([last_s, np.full(len(new), time_s)]),
            longest_s,
        )
        if not renames:
            return heard
        least_s = LEAST_ROUNDS * round_s if np.isfinite(round_s) else _WITHOUT_ROUNDS_S
        most_s = max(least_s, longest_s)
        silent = heard.alive & (time_s - heard.last_s > most_s + slack_s(most_s, time_s))
        return replace(heard, gone=np.where(silent, round_, heard.gone))

    def together(self) -> list[IntArray]:
        """Names in groups (k,): no name twice, and each began while the first one was followed."""
        order = np.argsort(self.first, kind="stable")
        groups, start = list[IntArray](), 0
        while start < len(order):
            end = int(np.searchsorted(self.first[order], self.gone[order[start]], "left"))
            group = order[start:end]
            new = np.sort(np.unique(self.name[group], return_index=True)[1])  # where a name stands first
            group = group[: int(np.argmin(np.append(new == np.arange(len(new)), False)))]
            groups.append(group[np.argsort(self.name[group])])
            start += len(group)
        return groups

    def past(self, history: History, group: IntArray) -> History:
        """The looks at a group (k,) while it was followed; all looks where nothing has ended."""
        if self.alive.all():
            return history
        mine = np.isin(self._of(history.ue, history.round[history.look]), group)
        low = int(history.look[mine].min(initial=len(history)))
        return history.part(mine, low, int(np.searchsorted(history.round, self.gone[group].max(), "left")))

    def _latest(self, names: IntArray) -> IntArray:
        """The latest lifetime (k,) of each of names (k,), -1 where there is none."""
        if not len(self):
            return np.full(len(names), -1)
        order = np.argsort(self.name, kind="stable")
        found = order[np.searchsorted(self.name[order], names, "right") - 1]  # -1 is the last one, of another name
        return np.where(self.name[found] == names, found, -1)

    def _of(self, name: IntArray, round_: IntArray) -> IntArray:
        """The lifetime (n,) in which names (n,) were heard in rounds (n,)."""
        n, m = len(self), len(name)
        kind = np.repeat([0, 1], [n, m])  # a lifetime begins before what is heard in its first round
        order = np.lexsort((kind, np.concatenate([self.first, round_]), np.concatenate([self.name, name])))
        latest = np.maximum.accumulate(np.where(order < n, np.arange(n + m), 0))
        found = np.zeros(n + m, dtype=np.int64)
        found[order] = order[latest]
        return found[n:]
