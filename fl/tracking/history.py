"""The estimates of all rounds so far, as the smoother reads them again."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from fl.tracking.error_model import ErrorModel, ErrorModels
from fl.tracking.habits import hour_class
from netsim.clock import WEEK_S
from netsim.columns import frozen, no_ints
from netsim.units import BoolArray, FloatArray, IntArray

MOST_STEPS = 500
"""rounds after which motion has reached what it tends to: a longer silence is treated alike"""


@frozen
class History:
    """S looks at UEs, in order of time: round, time_s, week_s, steps (S,), the rounds that have passed since the last.

    errors (S,) : of estimates then, which change as the model learns; look, ue (n,) : at which look estimates
    z_m (n, R, 2) of which UE came, NaN where nothing was named.
    """

    bounds: ClassVar[dict[str, tuple[float, float]]] = {"time_s": (0, 1e11), "week_s": (0, WEEK_S)}
    round: IntArray
    time_s: FloatArray
    week_s: FloatArray
    steps: IntArray
    errors: list[ErrorModel]
    look: IntArray
    ue: IntArray
    z_m: FloatArray

    @classmethod
    def empty(cls, ranks: int) -> History:
        """Before the first look."""
        whole, real = no_ints(), np.zeros(0)
        return cls(whole, real, real, whole, [], whole, whole, np.zeros((0, ranks, 2)))

    def __len__(self) -> int:
        return len(self.round)

    def plus(
        self,
        round_: int,
        time_s: float,
        week_s: float,
        round_s: float,
        errors: ErrorModel,
        ue: IntArray,
        z_m: FloatArray,
    ) -> History:
        """With a look at UEs (k,) at a time that is not before the last."""
        return History(
            np.append(self.round, round_),
            np.append(self.time_s, time_s),
            np.append(self.week_s, week_s),
            np.append(self.steps, self._steps(time_s, round_s)),
            [*self.errors, errors],
            np.concatenate([self.look, np.full(len(ue), len(self))]),
            np.concatenate([self.ue, ue]),
            np.concatenate([self.z_m, z_m]),
        )

    def _steps(self, time_s: float, round_s: float) -> int:
        """Rounds since the last look: 0 for two looks at one instant."""
        if not len(self):
            return 0
        since_s = time_s - float(self.time_s[-1])
        if not np.isfinite(round_s):
            return int(since_s > 0)
        return int(min(round(since_s / round_s), MOST_STEPS))

    def classes(self, look: int, round_s: float) -> list[int]:
        """Class of hours of each of the rounds that a look comes after, in order."""
        before = np.arange(int(self.steps[look]))[::-1]
        length_s = round_s if np.isfinite(round_s) else 0.0
        return [int(c) for c in hour_class(self.week_s[look] - before * length_s, round_s)]

    def all_classes(self, round_s: float) -> list[list[int]]:
        """`classes` of every look."""
        length_s, ends = round_s if np.isfinite(round_s) else 0.0, np.cumsum(self.steps)
        before = np.repeat(ends, self.steps) - np.arange(int(self.steps.sum())) - 1
        every = hour_class(np.repeat(self.week_s, self.steps) - before * length_s, round_s).tolist()
        return [every[end - n : end] for end, n in zip(ends.tolist(), self.steps.tolist(), strict=True)]

    @cached_property
    def models(self) -> ErrorModels:
        """Error models of every look, without the persistent part."""
        return ErrorModels.of([each.without_bias() for each in self.errors], self.z_m.shape[1])

    def last_looks(self) -> IntArray:
        """The last look of each round, in order."""
        return np.flatnonzero(np.append(self.round[1:] != self.round[:-1], True)) if len(self) else self.round

    def part(self, some: BoolArray, low: int, high: int) -> History:
        """The looks low ... high - 1, with some (n,) of the estimates, all of which came then."""
        looks = slice(low, high)
        return History(
            self.round[looks], self.time_s[looks], self.week_s[looks], self.steps[looks], self.errors[looks],
            self.look[some] - low, self.ue[some], self.z_m[some],
        )  # fmt: skip

    def points_m(self, round_: int, ue: IntArray, alone: bool = False) -> FloatArray:
        """Where estimates in the last look of a round put UEs (k,): (k, R, 2), NaN where there are none; alone : as the
        first of them stands, NaN where estimates are no places.
        """
        look = int(np.searchsorted(self.round, round_, "right")) - 1
        low, high = np.searchsorted(self.look, [look, look + 1])
        points = np.full((len(ue), *self.z_m.shape[1:]), np.nan)
        _, mine, theirs = np.intersect1d(ue, self.ue[low:high], assume_unique=True, return_indices=True)
        z_m = self.z_m[low:high][theirs]
        if alone and not self.errors[look].names_places:
            return points
        found = z_m[:, :1] if alone else self.errors[look].points_m(z_m)
        points[mine, : found.shape[1]] = found
        return points

    def of(self, ue: IntArray) -> tuple[FloatArray, IntArray]:
        """Estimates (S, k, R, 2) of UEs (k,) ascending, NaN where there are none, and the first look at each (k,)."""
        z = np.full((len(self), len(ue), *self.z_m.shape[1:]), np.nan)
        at = np.minimum(np.searchsorted(ue, self.ue), len(ue) - 1)
        mine = ue[at] == self.ue
        z[self.look[mine], at[mine]] = self.z_m[mine]
        first = np.full(len(ue), len(self))
        np.minimum.at(first, at[mine], self.look[mine])
        return z, first
