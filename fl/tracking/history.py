"""What was estimated in all rounds so far, and for how long each name was followed.

An attacker that knows that names change does not wait for ever: a name is given up once nothing has
been estimated of it for longer than

    max(six rounds, the longest silence from which any name came back so far).

Names of one round never come back, so that six rounds of them are followed; names that pause at
night are waited for once one of them has come back in the morning. A name that comes back later is
another sender, and is followed from scratch. The cost depends on the number of names that can still
be alive, not on all names so far.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from fl.tracking.error_model import ErrorModel
from fl.types import RoundContext
from netsim.clock import DAY_S, WEEK_S, compute_rounding_s
from netsim.columns import (
    Columns,
    find_last_rows,
    frozen,
    match_rows,
    no_floats,
    no_ints,
    replace_values,
)
from netsim.units import BoolArray, FloatArray, IntArray, IntArrayPair

MAX_STEPS = 500
"""rounds after which motion has reached what it tends to: a longer silence is treated alike"""
MIN_SILENT_ROUNDS = 6.0
NEVER = np.iinfo(np.int64).max
_WITHOUT_ROUNDS_S = 3600.0  # where the length of a round is unknown
_HOUR_S = 3600.0


@frozen
class LookTimes(Columns):
    """Looks (S,) at UEs, in order of time: number of the round, its time and time of the week, and
    the errors of estimates then, which change as the model learns.
    """

    bounds: ClassVar = {"time_s": (0, 1e11), "week_s": (0, WEEK_S)}
    round: IntArray = field(default_factory=no_ints)
    time_s: FloatArray = field(default_factory=no_floats)
    week_s: FloatArray = field(default_factory=no_floats)
    errors: list[ErrorModel] = field(default_factory=list)


@frozen
class NamedAtLook(Columns):
    """Estimates z_m (n, R, 2) at a look of a sender, NaN where nothing was named: look, sender
    (n,), in this order.
    """

    look: IntArray
    sender: IntArray
    z_m: FloatArray


@dataclass(frozen=True)
class History:
    """All looks, and what was estimated then."""

    looks: LookTimes
    named: NamedAtLook

    @classmethod
    def empty(cls, ranks: int) -> History:
        """Before the first look."""
        return cls(LookTimes(), NamedAtLook(no_ints(), no_ints(), np.zeros((0, ranks, 2))))

    def __len__(self) -> int:
        return len(self.looks.round)

    def add_look(
        self, facts: RoundContext, errors: ErrorModel, sender: IntArray, z_m: FloatArray
    ) -> History:
        """With one more look at senders (k,), at a time that is not before the last."""
        round_ = np.array([facts.round])
        time_s = np.array([facts.time_s])
        week_s = np.array([facts.week_s])
        look = LookTimes(round_, time_s, week_s, [errors.pad_ranks(self.named.z_m.shape[1])])
        number = np.full(len(sender), len(self))
        new = NamedAtLook(number, sender, z_m).select(np.argsort(sender))
        return History(LookTimes.join([self.looks, look]), NamedAtLook.join([self.named, new]))

    def select_newest(self) -> NamedAtLook:
        """What was estimated at the last look."""
        return self.named.select(self.named.look == len(self) - 1)

    def estimate_persistent_std_m(self) -> float:
        """The part of errors that persists, in what all looks tell together: those count most that
        tell most.
        """
        models = ErrorModel.stack_models(self.looks.errors)
        return np.sqrt(np.average(np.square(models.bias_m), weights=models.mean_precision_per_m2))

    def count_steps(self, look: int, round_s: float) -> int:
        """Rounds that have passed since the look before: 0 for two looks at one instant."""
        if look == 0:
            return 0
        time_s = self.looks.time_s
        since_s = time_s[look] - time_s[look - 1]
        if not np.isfinite(round_s):
            return int(since_s > 0)
        return min(round(since_s / round_s), MAX_STEPS)

    def classify_steps(self, look: int, round_s: float) -> list[int]:
        """Class of hours of each of the rounds that a look comes after, in order."""
        length_s = round_s if np.isfinite(round_s) else 0.0
        before_s = np.arange(self.count_steps(look, round_s))[::-1] * length_s
        return classify_hours(self.looks.week_s[look] - before_s, round_s).tolist()

    def select_estimates(self, sender: IntArray) -> tuple[FloatArray, IntArray]:
        """Estimates (S, k, R, 2) of senders (k,) ascending, NaN where there are none, and the first
        look at each (k,).
        """
        named = self.named.select(np.isin(self.named.sender, sender))
        column = np.searchsorted(sender, named.sender)
        first = np.full(len(sender), len(self))
        shape = (len(self), len(sender), *named.z_m.shape[1:])
        z_m = np.full(shape, np.nan)
        z_m[named.look, column] = named.z_m
        np.minimum.at(first, column, named.look)
        return z_m, first

    def select_senders(self, sender: IntArray, until: int) -> History:
        """Looks at senders (k,), from the first one on, before the round `until`."""
        named = self.named.select(np.isin(self.named.sender, sender))
        low = named.look.min(initial=len(self))
        high = np.searchsorted(self.looks.round, until, "left")
        named = replace(named, look=named.look - low)
        return History(self.looks.select(slice(low, high)), named)

    def _find_last_look(self, round_: int) -> int:
        """The last look by the end of a round."""
        return int(np.searchsorted(self.looks.round, round_, "right")) - 1

    def select_error_model(self, round_: int) -> ErrorModel:
        """Errors of estimates at the last look by the end of a round."""
        return self.looks.errors[self._find_last_look(round_)]

    def collect_points_m(self, round_: int, sender: IntArray, alone: bool = False) -> FloatArray:
        """Where estimates in the last look of a round put senders (k,): (k, R, 2), NaN where there
        are none; alone : as the first of them stands, NaN where estimates are no places.
        """
        errors = self.select_error_model(round_)
        named = self.named.select(self.named.look == self._find_last_look(round_))
        shape = (len(sender), *self.named.z_m.shape[1:])
        points = np.full(shape, np.nan)
        rows, matched = match_rows(sender, named.sender)
        points_m = named.z_m[matched, :1] if alone else errors.rank_truths_m(named.z_m[matched])
        if errors.has_unit_gain or not alone:
            points[rows, : points_m.shape[1]] = points_m
        return points


def match_successive(round_: int, ue: IntArray, last: int, before: IntArray) -> IntArrayPair:
    """Rows (n,) of UEs that are among those of a round (k,) and those `before` (m,), both
    ascending: none where the `last` round is not the one before.
    """
    if round_ != last + 1:
        return no_ints(), no_ints()
    return match_rows(ue, before)


def classify_hours(week_s: FloatArray, round_s: float) -> IntArray:
    """Class (n,) of the middle of rounds that end at week_s (n,), seconds since Monday's midnight;
    0 where unknown.
    """
    middle_s = np.nan_to_num(week_s) - (round_s / 2 if np.isfinite(round_s) else 0.0)
    day = np.floor(middle_s / DAY_S).astype(int) % 7
    hour = np.floor(middle_s / _HOUR_S).astype(int) % 24
    return np.where(np.isfinite(week_s), hour + 24 * (day >= 5), 0)


@frozen
class Lifetimes(Columns):
    """Senders (n,), in the order in which they were first heard, by which they are numbered: the
    name of each, the first round and the one from which on it is followed no more, NEVER so far;
    last_s : when it was heard last; silent_s : the longest silence from which its name came back to
    it or as another sender.
    """

    name: IntArray = field(default_factory=no_ints)
    first: IntArray = field(default_factory=no_ints)
    gone: IntArray = field(default_factory=no_ints)
    last_s: FloatArray = field(default_factory=no_floats)
    silent_s: FloatArray = field(default_factory=no_floats)

    @property
    def is_alive(self) -> BoolArray:
        """Which of them (n,) are followed."""
        return self.gone == NEVER

    def add_round(self, names: IntArray, facts: RoundContext, renames: bool) -> Lifetimes:
        """After a round in which names (k,), each once, were heard; without `renames` none is ever
        given up.
        """
        latest = find_last_rows(self.name, names)
        time_s = facts.time_s
        before = latest[latest >= 0]
        silent_s = np.maximum(self.silent_s[before], time_s - self.last_s[before])
        again = before[self.is_alive[before]]
        updated = replace(
            self,
            last_s=replace_values(self.last_s, again, time_s),
            silent_s=replace_values(self.silent_s, before, silent_s),
        )
        new = names[~np.isin(names, self.name[again])]
        n = len(new)
        round_ = np.full(n, facts.round)
        begun = Lifetimes(new, round_, np.full(n, NEVER), np.full(n, time_s), np.zeros(n))
        heard = Lifetimes.join([updated, begun])
        if not renames:
            return heard
        least_s = _WITHOUT_ROUNDS_S
        if np.isfinite(facts.round_s):
            least_s = MIN_SILENT_ROUNDS * facts.round_s
        most_s = heard.silent_s.max(initial=least_s)
        is_silent = time_s - heard.last_s > most_s + compute_rounding_s(most_s, time_s)
        return replace(heard, gone=np.where(heard.is_alive & is_silent, facts.round, heard.gone))

    def find_senders(self, names: IntArray) -> IntArray:
        """The sender (k,) that each of names (k,) stands for now, -1 where none is followed."""
        latest = find_last_rows(self.name, names)
        is_alive = np.append(self.is_alive, False)[latest]
        return np.where((latest >= 0) & is_alive, latest, -1)

    def group_senders(self) -> list[IntArray]:
        """Senders in groups (k,): each began while the first one of its group was followed."""
        groups = []
        start = 0
        while start < len(self.name):
            end = np.searchsorted(self.first, self.gone[start], "left")
            groups.append(np.arange(start, end))
            start = end
        return groups
