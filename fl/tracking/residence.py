r"""Evidence of nights and workdays about UEs so far, as sums over days (see `fl.tracking.dwelling`).

Three numbers are kept a UE and place: log-likelihood of home, of work, and of the night or workday that is not over
yet, whose rounds belong together. With 10,000 places they take 120 kB a UE.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fl.tracking.dwelling import Maps, home_posterior, log_away, log_evidence, log_mean, log_mixed, work_posterior
from fl.tracking.error_model import ErrorModel
from fl.tracking.place_grid import PlaceGrid
from netsim.columns import frozen, no_floats, no_ints
from netsim.units import FloatArray, IntArray

_APART = 2.0  # a workplace is that many times hit_radius_m from home
_BLOCK = 64  # UEs whose posteriors are computed at once


@dataclass(frozen=True)
class Shares:
    """Habits of people: home, the share of nights at home; work, of workdays at the workplace; stay, of other workdays
    at home; employed, of people with a workplace away from home.
    """

    home: float
    work: float
    stay: float
    employed: float


@dataclass(frozen=True)
class Period:
    """A night, or the office hours of a workday: number of the day, and which of the two; -1 before the first."""

    day: int = -1
    night: bool = True


def _empty() -> Maps:
    return np.zeros((0, 0), dtype=np.float32)


@frozen
class Residences:
    """By UE, owner (k,) ascending: home, work, open (k, G) and none (k,), sums of log-likelihoods; nights, days (k,),
    how many are in them; rounds (k,) of the period that is open.
    """

    owner: IntArray = field(default_factory=no_ints)
    home: Maps = field(default_factory=_empty)
    work: Maps = field(default_factory=_empty)
    open: Maps = field(default_factory=_empty)
    none: FloatArray = field(default_factory=no_floats)
    nights: IntArray = field(default_factory=no_ints)
    days: IntArray = field(default_factory=no_ints)
    rounds: IntArray = field(default_factory=no_ints)
    period: Period = Period()

    def plus(
        self, owner: IntArray, z_m: FloatArray, errors: ErrorModel, grid: PlaceGrid, period: Period, shares: Shares
    ) -> Residences:
        """With the estimates (n, R, 2) of one round in this period, of UEs owner (n,), each once."""
        known = self if self.period == period else replace(self._closed(shares), period=period)
        known = known._with(owner, len(grid))
        at = np.searchsorted(known.owner, owner)
        for some in _blocks(np.arange(len(owner))):
            known.open[at[some]] += log_evidence(z_m[some], errors, grid)
        known.rounds[at] += 1
        return known

    def posteriors(
        self, owner: IntArray, shares: Shares, grid: PlaceGrid, errors: ErrorModel, hit_radius_m: float
    ) -> tuple[Maps, Maps]:
        """Probabilities (n, G) of the home and of the workplace of UEs owner (n,) that are known.

        Those of a home sum to 1, or are 0 before the first night; so are those of a workplace before the first workday,
        and before the first night: a place of the day alone may be the home of a UE that stays there.
        """
        prior, at = _even(len(grid)), np.searchsorted(self.owner, owner)
        homes, works = (np.zeros((len(owner), len(grid)), np.float32) for _ in range(2))
        for some in _blocks(np.arange(len(owner))):
            rows = self.rows(at[some])._closed(shares)
            seen, homes[some] = rows._home(grid, errors.bias_m)
            apart_m = _APART * hit_radius_m
            work = work_posterior(rows.work, rows.none, seen, shares.employed, prior, grid, errors, apart_m)
            works[some] = work * ((rows.days > 0) & (rows.nights > 0))[:, None]
        return homes, works

    def homes(self, owner: IntArray, shares: Shares, grid: PlaceGrid, bias_m: float) -> Maps:
        """The probabilities (n, G) of the home alone, of UEs owner (n,) that are known."""
        at, homes = np.searchsorted(self.owner, owner), np.zeros((len(owner), len(grid)), np.float32)
        for some in _blocks(np.arange(len(owner))):
            homes[some] = self.rows(at[some])._closed(shares)._home(grid, bias_m)[1]
        return homes

    def _home(self, grid: PlaceGrid, bias_m: float) -> tuple[Maps, Maps]:
        """Posterior of the home (n, G) as estimates show it, and of the true home, 0 before the first night."""
        seen, home = home_posterior(self.home, _even(len(grid)), grid, bias_m)
        return seen, home * (self.nights > 0)[:, None]

    def _closed(self, shares: Shares) -> Residences:
        """With the open period counted as it stands."""
        home, work, none = self.home.copy(), self.work.copy(), self.none.copy()
        heard = np.flatnonzero(self.rounds > 0)
        for some in _blocks(heard):
            log_e, prior = self.open[some], _even(self.open.shape[1])
            if self.period.night:
                home[some] += log_mixed(shares.home, log_e, log_mean(log_e, prior))
            else:
                p = np.exp(home[some] - home[some].max(axis=1, keepdims=True))
                away = log_away(shares.stay, log_e, p / p.sum(axis=1, keepdims=True), prior)
                work[some] += log_mixed(shares.work, log_e, away)
                none[some] += away
        more = (self.rounds > 0).astype(np.int64)
        return replace(
            self, home=home, work=work, open=np.zeros_like(self.open), none=none,
            nights=self.nights + more * self.period.night, days=self.days + more * (not self.period.night),
            rounds=np.zeros_like(self.rounds),
        )  # fmt: skip

    def _with(self, owner: IntArray, places: int) -> Residences:
        """With rows for these UEs too; what a round adds to is copied."""
        every = np.union1d(self.owner, owner)
        if len(every) == len(self.owner):
            return replace(self, open=self.open.copy(), rounds=self.rounds.copy())
        old, new = np.searchsorted(every, self.owner), dict[str, Any]()
        for name in _ROWS:
            value = getattr(self, name)
            new[name] = np.zeros((len(every), places) if value.ndim == 2 else len(every), dtype=value.dtype)
            if len(old):
                new[name][old] = value
        return replace(self, owner=every, **new)

    def rows(self, at: IntArray) -> Residences:
        """Select some UEs by index (k,)."""
        some: dict[str, Any] = {name: getattr(self, name)[at] for name in _ROWS}
        return replace(self, owner=self.owner[at], **some)


_ROWS = ("home", "work", "open", "none", "nights", "days", "rounds")


def _blocks(rows: IntArray) -> Iterator[IntArray]:
    """Rows in blocks that keep memory small."""
    return (rows[i : i + _BLOCK] for i in range(0, len(rows), _BLOCK))


def _even(places: int) -> Maps:
    """The prior (1, G): everywhere alike."""
    return np.full((1, places), 1 / places, np.float32)
