r"""Home, work and other places of a UE, with the probability that they are right."""

from collections.abc import Iterator
from dataclasses import field, replace
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fl.attacks.base import View, recall
from fl.attacks.believer import Believer, Remembered
from fl.attacks.shadow_ues import Population
from fl.notice import Prepared, notice
from fl.tracking.dwelling import (
    EstimatesOfUe,
    Hours,
    Residences,
    Shares,
    blocks,
    habits,
    home_and_work,
    log_evidence,
)
from fl.tracking.error_model import ErrorModel
from fl.tracking.history import History, hour_class
from fl.tracking.place_grid import PlaceGrid, best_discs
from fl.types import Estimates, Metrics, Public, RoundContext
from netsim.columns import Columns, frozen, no_ints
from netsim.geometry import Area
from netsim.notice import Notice
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray

HourOfDay = Annotated[float, Field(ge=0, le=24)]
_WHOLE_DAYS = np.array([[0.0, 0.0], [0.3, 0.0], [0.45, 0.40], [0.5, 0.05]])
"""shares of home and work among what is named of a workday and of a day off: one place, or
several"""


_MOST_THIRDS = 8
_CLASSES = 48  # of time: the hours of workdays, then those of days off
_PLACES = ("home", "work", *(f"third {k + 1}" for k in range(_MOST_THIRDS)))


def _hours_text(hours: tuple[float, float]) -> str:
    return f"{hours[0]:g} to {hours[1]:g} o'clock"


@frozen
class DwellPlaces(Columns):
    """Places to name of senders (k,), ascending: places (k, P, 3) of home, work and third places, x
    and y in m and the probability, NaN where there is none; searched (k,) : number of estimates at
    the search for third places.
    """

    sender: IntArray
    places: FloatArray
    searched: IntArray

    @classmethod
    def nothing(cls, sender: IntArray) -> "DwellPlaces":
        """Before any estimate."""
        return cls(sender, np.full((len(sender), len(_PLACES), 3), np.nan), np.zeros_like(sender))

    def with_rows(self, sender: IntArray) -> "DwellPlaces":
        """A copy with rows for these senders too."""
        every = self.join([self, self.nothing(np.setdiff1d(sender, self.sender))])
        return every.select(np.argsort(every.sender))


@frozen
class DwellState(Remembered):
    """past : evidence of nights and workdays, and named : what would be answered, of the senders
    that are followed.
    """

    past: Residences = field(default_factory=lambda: Residences.nothing(no_ints(), 0))
    named: DwellPlaces = field(default_factory=lambda: DwellPlaces.nothing(no_ints()))


class Dwell(Believer):
    r"""Names home, work and other places of a UE once it is sure enough, from what another attack
    says in each round.

    Rounds of at most 6 h have a time of day, that of their middle by the wall clock. Those of
    `home_hours` tell of home, those of `work_hours` on Monday to Friday of work: the posterior over
    a grid is that of `fl.tracking.dwelling`, with an error that stays the same over rounds. All
    rounds tell of other places, by a mixture with shares for each hour of workdays and of days off
    (`fl.tracking.dwelling`).

    Longer rounds have no time of day. Where several places are named of a round, home and work are
    those two that return: a share of 0.45 of what is named on workdays is home and 0.40 work, on
    days off 0.50 and 0.05. Workdays alone hardly tell which is which, and the probability says so.
    Where one place is named, the mean of a day at home and at work is neither: workdays tell
    nothing, and of days off 0.3 are at home. These shares are assumed.

    The answer is the disc of radius `hit_radius_m` that holds most of the posterior, its
    probability the mass in it. An answer below `min_probability` is not given (status `unsure`),
    and takes back an earlier one. Status: home, work, third 1, third 2, ...; weight: the
    probability.

    Errors are learnt on UEs that the attacker makes up, unless `sigma_m` is given. The rounds of a
    UE count together, of all its models, also from sums that it is in. Limits: who works at night
    has home and work exchanged, and who moves house has one home, or none.
    """

    kind: Literal["dwell"] = "dwell"
    min_probability: float = Field(0.5, ge=0, lt=1)
    """smallest probability with which a place is named; below 1, which no posterior reaches"""
    hit_radius_m: float = Field(100.0, gt=0, le=1e6)
    """radius of the disc of which the probability is stated, m"""
    cell_m: float = Field(50.0, ge=0.1, le=1e6)
    """largest distance between the places of the grid, m; half of hit_radius_m or less"""
    third_places: int = Field(3, ge=0, le=_MOST_THIRDS)
    """largest number of places besides home and work"""
    home_hours: Annotated[tuple[HourOfDay, HourOfDay], Field(strict=False)] = (0.0, 6.0)
    """hours between which a round tells of home, from and to; 20 to 8 goes over midnight. The
    rounds of one night count together: who is not at home then is at one other place"""
    work_hours: Annotated[tuple[HourOfDay, HourOfDay], Field(strict=False)] = (10.0, 16.0)
    """hours between which a round on Monday to Friday tells of work"""
    home_share: float = Field(0.93, gt=0, lt=1)
    """share of nights that people spend at home"""
    work_share: float = Field(0.75, gt=0, lt=1)
    """share of workdays on which those with a workplace are there"""
    stay_share: float = Field(0.5, gt=0, lt=1)
    """share of the other workdays that people spend at home"""
    employed_share: float = Field(0.7, gt=0, lt=1)
    """share of people with a workplace away from home"""
    reference = "A Bayesian posterior of home and work, in the terms of Shokri et al. 2011"
    example = {"kind": "dwell", "shadow_ues": 8, "cell_m": 50.0}
    space = Believer.space | {"min_probability": (0.0, 0.5)}

    @property
    def largest_cell_m(self) -> float:
        """The largest `cell_m` with which a disc has cells."""
        return self.hit_radius_m / 2

    @model_validator(mode="after")
    def _hours(self) -> Self:
        (home, until) = self.home_hours
        (work, end) = self.work_hours
        if home == until:
            raise ValueError(
                f"home_hours: from {home:g} to {until:g} is no time at all; take two "
                f"different hours"
            )
        if work >= end:
            raise ValueError(
                f"work_hours: {work:g} to {end:g} must be hours of one day; take the "
                f"earlier one first"
            )
        return self

    def check(self, public: Public, n_ue: int) -> None:
        self.of.check(public, n_ue)
        self._grid(public.area, n_ue)

    def notices(self, known: Prepared) -> Iterator[Notice]:
        none = {
            f"home in {_hours_text(self.home_hours)}",
            f"work in {_hours_text(self.work_hours)} on a workday",
        }
        for facts in known.rounds():
            hours = Hours.of_round(facts)
            if hours is None:
                continue
            if hours.whole_day:
                return
            period = hours.period(self.home_hours, self.work_hours)
            if period is not None:
                none -= {
                    text for text in none if text.startswith("home" if period.night else "work")
                }
            if not none:
                return
        yield notice("attack-hours-missed", self.label, what=" or ".join(sorted(none)))

    def start(self) -> DwellState:
        return DwellState(self.of.start())

    def figures(self, state: DwellState) -> Metrics:
        return self.error_figures(state.errors)

    def run(
        self, view: View, facts: RoundContext, state: DwellState, rng: Rng
    ) -> tuple[Estimates, DwellState]:
        grid = self._grid(
            facts.public.area, len(np.union1d(view.ue, state.lifetimes.name[state.past.sender]))
        )
        _, state = self.remembered(view, facts, state, Population.uniform(grid), rng)
        alive = state.lifetimes.alive
        state = replace(
            state,
            past=state.past.select(alive[state.past.sender]),
            named=state.named.select(alive[state.named.sender]),
        )
        hours = Hours.of_round(facts)
        if (
            hours is not None
            and self.errors_now(state.errors) is not None
            and len(state.history.newest().sender)
        ):
            state = self._with_newest(state, hours, facts, grid)
        return self._answers(view, state), state

    def _grid(self, area: Area, n_ue: int) -> PlaceGrid:
        return PlaceGrid.over(area, self.cell_m, 3 * n_ue, self.label)

    def _with_newest(
        self, state: DwellState, hours: Hours, facts: RoundContext, grid: PlaceGrid
    ) -> DwellState:
        """After the newest estimates."""
        history = state.history
        newest = history.newest()
        lasting_m = history.lasting_m()
        sender = newest.sender
        named = state.named.with_rows(sender)
        at = np.searchsorted(named.sender, sender)
        period = hours.period(self.home_hours, self.work_hours)
        if hours.whole_day:
            for row in at.tolist():
                said = self._estimates_of(history, named.sender[row], facts, lasting_m)
                named.places[row, :2] = home_and_work(said, _WHOLE_DAYS)
        elif period is not None:
            shares = Shares(self.home_share, self.work_share, self.stay_share, self.employed_share)
            past = state.past.plus(
                sender, log_evidence(newest.z_m, history.looks.errors[-1], grid), period, shares
            )
            state = replace(state, past=past)
            for some in blocks(np.arange(len(sender))):
                rows = past.select(np.searchsorted(past.sender, sender[some]))
                seen, home = rows.homes(shares, grid, lasting_m)
                work = rows.workplaces(seen, shares, grid, lasting_m, self.hit_radius_m)
                for k, maps in enumerate((home, work)):
                    named.places[at[some], k] = np.column_stack(
                        best_discs(maps, grid, self.hit_radius_m)
                    )
        if self.third_places and not hours.whole_day:
            self._search_thirds(history, named, at, facts, lasting_m)
        return replace(state, named=named)

    def _search_thirds(
        self,
        history: History,
        named: DwellPlaces,
        at: IntArray,
        facts: RoundContext,
        lasting_m: float,
    ) -> None:
        """Write other places of senders, at rows (k,), of which a tenth more has been heard since
        the last time.
        """
        count = np.bincount(history.named.sender, minlength=int(named.sender.max()) + 1)[
            named.sender
        ]
        for row in at[count[at] >= np.maximum(1.1 * named.searched[at], 2.0)].tolist():
            places = named.places[row]
            known_m = places[:2][places[:2, 2] >= max(self.min_probability, 1e-9), :2]
            said = self._estimates_of(history, named.sender[row], facts, lasting_m)
            found = habits(said, known_m, _CLASSES, self.third_places)
            places[2:] = np.nan
            places[2 : 2 + len(found)] = found
            named.searched[row] = count[row]

    def _estimates_of(
        self, history: History, sender: int, facts: RoundContext, lasting_m: float
    ) -> EstimatesOfUe:
        """All that was named of one sender. Class of time is the hour, of days off 24 more; of
        whole days, whether it is off, and 2 more where several places were named.

        A place that stands at several ranks counts once, at that of the largest share.
        """
        mine = history.named.select(history.named.sender == sender)
        looks = history.looks.select(mine.look)
        errors = ErrorModel.stacked(looks.errors).without_bias()
        truths = errors.truths(mine.z_m)
        hours = Hours.of(looks.time_s, looks.week_s, facts.round_s)
        there = np.isfinite(mine.z_m).all(axis=2) & ~_has_better(mine.z_m, truths.share)
        row, rank = np.nonzero(there)
        right = truths.share[row, rank]
        of_class = hour_class(looks.week_s, facts.round_s)
        if hours.whole_day:  # all of its places may be right
            right = np.ones(len(row))
            of_class = hours.off + 2 * (there.sum(axis=1) > 1)
        return EstimatesOfUe(
            truths.place_m[row, rank],
            truths.sigma_m[row, rank],
            (1.0 - np.asarray(errors.outlier)[row]) * right,
            of_class[row],
            hours.day[row],
            float(np.prod(facts.public.area.side_m)),
            lasting_m,
            self.hit_radius_m,
        )

    def _answers(self, view: View, state: DwellState) -> Estimates:
        """Answers for each UE of the view, at all of its models; one answer without a place for
        nothing.
        """
        places = recall(state.named.sender, state.named.places, state.lifetimes.senders(view.ue))
        probability = np.nan_to_num(places[..., 2])
        spoken: BoolArray = (probability >= self.min_probability) & (probability > 0)
        silent = np.asarray(~spoken.any(axis=1))
        row, rank = np.nonzero(spoken | (silent[:, None] & (np.arange(spoken.shape[1]) == 0)))
        where = np.where(spoken[row, rank, None], places[row, rank, :2], np.nan)
        weight = np.where(spoken[row, rank], probability[row, rank], 0.0)
        status = ["unsure" if silent[i] else _PLACES[k] for i, k in zip(row, rank, strict=True)]
        return Estimates.of(view.ue[row], view.model[row], "answer", where, weight, status)


def _has_better(z_m: FloatArray, share: FloatArray) -> BoolArray:
    """Which ranks of estimates (k, R, 2) name a place that a rank of larger share (k, R) names, or
    an earlier one.
    """
    equal = (z_m[:, :, None] == z_m[:, None]).all(axis=3)
    ranks = np.arange(z_m.shape[1])
    tie = (share[:, :, None] == share[:, None]) & (ranks[:, None] > ranks)
    return np.asarray((equal & ((share[:, :, None] < share[:, None]) | tie)).any(axis=2))
