"""Rules that decide a claim of a publication by the values of several seeds.

A rule turns values into statements of one form: the median over seeds of a quantity lies between two bounds. Each is
decided by the distribution-free interval of that median (David and Nagaraja, Order Statistics, 3rd ed., Sec. 7.1). It
assumes no normal distribution and takes infinities.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import comb
from typing import Any, Literal, Self, TypeVar

import numpy as np
from pydantic import Field, field_validator, model_validator

from netsim.part import OneOf, Part
from netsim.units import FloatArray
from scenarios.app.results.over_seeds import over_seeds
from scenarios.app.results.statistics import counted
from scenarios.app.results.summary_keys import KEYS, UTILITY, declaration
from scenarios.app.study.error_messages import nearest

CONFIDENCE = 0.95
_ABOVE_ZERO = float(np.nextafter(0.0, 1.0))


@dataclass(frozen=True, eq=False)
class Statement:
    """The median over seeds of `values` (n,) lies in [low, high]; NaN where a seed cannot say."""

    values: FloatArray
    low: float = -np.inf
    high: float = np.inf

    def holds(self) -> bool | None:
        """Whether it is true: the interval of the median lies inside (True) or outside (False); None where neither."""
        low, high, _ = median_interval(self.values)
        if self.low <= low and high <= self.high:
            return True
        return False if high < self.low or low > self.high else None

    def text(self) -> str:
        """What the seeds say, for people."""
        low, high, coverage = median_interval(self.values)
        return (
            f"median between {low:.4g} and {high:.4g} ({100 * coverage:.0f} % interval, "
            f"{counted(_known(self.values), 'seed')})"
        )


def median_interval(values: FloatArray) -> tuple[float, float, float]:
    """Lower end, upper end and coverage of the interval of a median, from order statistics.

    With x_(1) <= ... <= x_(n) it is [x_(k), x_(n+1-k)], which covers the median with probability
    1 - 2 P(Bin(n, 1/2) < k) at least; k is the largest with a coverage of 95 %. Fewer than six values do not reach it:
    then it is their range, which covers 1 - 2^(1-n). NaN is left out; (NaN, NaN, 0) of nothing.
    """
    ordered = np.sort(values[~np.isnan(values)])
    n = len(ordered)
    if not n:
        return np.nan, np.nan, 0.0
    tail = 1 / 2**n  # P(Bin < k) for k = 1
    k, outside = 1, tail
    while 2 * (tail + comb(n, k) / 2**n) <= 1 - CONFIDENCE:
        tail += comb(n, k) / 2**n
        k, outside = k + 1, tail
    return float(ordered[k - 1]), float(ordered[n - k]), max(1 - 2 * outside, 0.0)


def _known(values: FloatArray) -> int:
    return int((~np.isnan(values)).sum())


class Rule(Part):
    """How a key of the summary, over seeds, decides a claim."""

    key: str
    """key of the summary, as `netsim list --records` has it"""
    labels: tuple[str, ...] = ()
    """labels of the sweep; none: all of them, or the single run"""

    @field_validator("key")
    @classmethod
    def _known_key(cls, key: str) -> str:
        return _declared(key)

    @field_validator("labels")
    @classmethod
    def _once(cls, labels: tuple[str, ...]) -> tuple[str, ...]:
        if twice := [label for label in labels if labels.count(label) > 1]:
            raise ValueError(f"the label {twice[0]!r} stands {labels.count(twice[0])} times; name it once")
        return labels

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of a run's summary that it reads."""
        return (self.key,)

    def value(self, run: Mapping[str, Any]) -> float:
        """What it looks at in a run, NaN where that is missing; a centroid error of diverged estimates is infinite."""
        return over_seeds([run], self.key)[1]

    def statements(self, values: FloatArray, printed: float) -> list[Statement]:
        """What must be true of the values (label, seed), seeds paired; `printed` is the publication's value."""
        raise NotImplementedError


def _declared(key: str) -> str:
    """The key, if summaries have it."""
    known = declaration(key)
    if known is None or known is UTILITY or (known.named and key == known.key):
        near = nearest(key, [one.key for one in KEYS])
        raise ValueError(f"no summary has a key {key[:60]!r}{near or '; see docs/records.md'}")
    return key


class AtMost(Rule):
    """No label's median is above the bound."""

    kind: Literal["at-most"] = "at-most"
    bound: float

    def statements(self, values: FloatArray, printed: float) -> list[Statement]:
        return [Statement(row, high=self.bound) for row in values]


class AtLeast(Rule):
    """No label's median is below the bound."""

    kind: Literal["at-least"] = "at-least"
    bound: float

    def statements(self, values: FloatArray, printed: float) -> list[Statement]:
        return [Statement(row, low=self.bound) for row in values]


class Within(Rule):
    """Every label's median is the printed value, give or take the tolerance."""

    kind: Literal["within"] = "within"
    tolerance: float = Field(ge=0)

    def statements(self, values: FloatArray, printed: float) -> list[Statement]:
        return [Statement(row, printed - self.tolerance, printed + self.tolerance) for row in values]


class _AgainstOther(Rule):
    """A key beside another one of the same run, for instance a share beside that of chance."""

    other: str
    """key of the summary that it is compared with"""
    margin: float = 0.0
    """difference that counts, in the unit of the keys"""

    @field_validator("other")
    @classmethod
    def _known_other(cls, other: str) -> str:
        return _declared(other)

    @model_validator(mode="after")
    def _comparable(self) -> Self:
        unit, than = ((known := declaration(key)) and known.unit for key in self.keys)
        if unit != than:
            raise ValueError(f"other: {self.other} is in {than or 'no unit'}, and {self.key} in {unit or 'no unit'}")
        return self

    @property
    def keys(self) -> tuple[str, ...]:
        return self.key, self.other

    def value(self, run: Mapping[str, Any]) -> float:
        return _less(over_seeds([run], self.key)[1], over_seeds([run], self.other)[1])


class Exceeds(_AgainstOther):
    """With every label the value is at least `margin` above that of the other key, compared run by run."""

    kind: Literal["exceeds"] = "exceeds"

    def statements(self, values: FloatArray, printed: float) -> list[Statement]:
        return [Statement(row, low=self.margin) for row in values]


class NoMoreThan(_AgainstOther):
    """With every label the value is at most `margin` above that of the other key, compared run by run."""

    kind: Literal["no-more-than"] = "no-more-than"

    def statements(self, values: FloatArray, printed: float) -> list[Statement]:
        return [Statement(row, high=self.margin) for row in values]


class Order(Rule):
    """Values increase from label to label, compared seed by seed."""

    kind: Literal["order"] = "order"
    labels: tuple[str, ...] = Field(min_length=2)

    def statements(self, values: FloatArray, printed: float) -> list[Statement]:
        return [Statement(_less(b, a), low=_ABOVE_ZERO) for a, b in pairwise(values)]


class Ratio(Rule):
    """The first label's value is at least `bound` times the second's of the same seed."""

    kind: Literal["ratio"] = "ratio"
    labels: tuple[str, ...] = Field(min_length=2, max_length=2)
    bound: float = Field(gt=0)

    def statements(self, values: FloatArray, printed: float) -> list[Statement]:
        return [Statement(_less(values[0], self.bound * values[1]), low=0.0)]


class Alike(Rule):
    """Neither label's value is more than `bound` times the other's of the same seed."""

    kind: Literal["alike"] = "alike"
    labels: tuple[str, ...] = Field(min_length=2, max_length=2)
    bound: float = Field(gt=1)

    def statements(self, values: FloatArray, printed: float) -> list[Statement]:
        a, b = values
        return [Statement(_less(self.bound * x, y), low=0.0) for x, y in ((a, b), (b, a))]


class Diminishing(Rule):
    """From the second label to the third there is at most `share` of the gain from the first to the second."""

    kind: Literal["diminishing"] = "diminishing"
    labels: tuple[str, ...] = Field(min_length=3, max_length=3)
    share: float = Field(gt=0, lt=1)

    def statements(self, values: FloatArray, printed: float) -> list[Statement]:
        first, later = _less(values[1], values[0]), _less(values[2], values[1])
        return [Statement(first, low=_ABOVE_ZERO), Statement(_less(self.share * first, later), low=0.0)]


_Numbers = TypeVar("_Numbers", float, FloatArray)


def _less(a: _Numbers, b: _Numbers) -> _Numbers:
    """a - b, NaN where both are infinite."""
    with np.errstate(invalid="ignore"):
        return a - b


def decided(statements: Sequence[Statement]) -> bool | None:
    """Whether all are true: False if one is false, None if the seeds leave one undecided."""
    each = [s.holds() for s in statements]
    return False if False in each else None if None in each else True


RULES = OneOf("rule", AtMost, AtLeast, Within, Exceeds, NoMoreThan, Order, Ratio, Alike, Diminishing)
