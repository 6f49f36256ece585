r"""Home, work and other places of a UE, with the probability that they are right."""

from dataclasses import field, replace
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from fl.attacks.base import Attacked, View
from fl.attacks.believer import Believer, Remembered
from fl.attacks.shadow_ues import Population
from fl.notice import Prepared, notice
from fl.tracking.dwelling import (
    EstimatesOfUe,
    Hours,
    Residences,
    Shares,
    compute_log_evidence,
    find_home_and_work,
    find_visited_places,
    split_rows,
)
from fl.tracking.error_model import ErrorModel
from fl.tracking.history import History, classify_hours
from fl.tracking.place_grid import PlaceGrid, find_best_discs
from fl.types import Estimates, Metrics, Public, RoundContext
from netsim.columns import Columns, frozen, look_up_or_nan, no_ints
from netsim.geometry import Area
from netsim.notice import Notices
from netsim.part import Positive, Probability
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, FloatPair, IntArray

_HourOfDay = Annotated[float, Field(ge=0, le=24)]
HourRange = Annotated[tuple[_HourOfDay, _HourOfDay], Field(strict=False)]
_WHOLE_DAYS = np.array([[0.0, 0.0], [0.3, 0.0], [0.45, 0.40], [0.5, 0.05]])
"""shares of home and work among what is named of a workday and of a day off: one place, or
several"""


_MOST_THIRDS = 8
_CLASSES = 48  # of time: the hours of workdays, then those of days off
_PLACES = ("home", "work", *(f"third {k + 1}" for k in range(_MOST_THIRDS)))


def _format_hours(hours: FloatPair) -> str:
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
    def from_senders(cls, sender: IntArray) -> "DwellPlaces":
        """Before any estimate."""
        return cls(sender, np.full((len(sender), len(_PLACES), 3), np.nan), np.zeros_like(sender))

    def with_rows(self, sender: IntArray) -> "DwellPlaces":
        """A copy with rows for these senders too."""
        joined = self.join([self, self.from_senders(np.setdiff1d(sender, self.sender))])
        return joined.select(np.argsort(joined.sender))


@frozen
class DwellState(Remembered):
    """past : evidence of nights and workdays, and named : what would be answered, of the senders
    that are followed.
    """

    past: Residences = field(default_factory=lambda: Residences.from_senders(no_ints(), 0))
    named: DwellPlaces = field(default_factory=lambda: DwellPlaces.from_senders(no_ints()))


class Dwell(Believer, kind="dwell"):
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

    min_probability: float = Field(0.5, ge=0, lt=1)
    """smallest probability with which a place is named; below 1, which no posterior reaches"""
    hit_radius_m: Positive = 100.0
    """radius of the disc of which the probability is stated, m"""
    cell_m: float = Field(50.0, ge=0.1, le=1e6)
    """largest distance between the places of the grid, m; half of hit_radius_m or less"""
    third_places: int = Field(3, ge=0, le=_MOST_THIRDS)
    """largest number of places besides home and work"""
    home_hours: HourRange = (0.0, 6.0)
    """hours between which a round tells of home, from and to; 20 to 8 goes over midnight. The
    rounds of one night count together: who is not at home then is at one other place"""
    work_hours: HourRange = (10.0, 16.0)
    """hours between which a round on Monday to Friday tells of work"""
    home_share: Probability = 0.93
    """share of nights that people spend at home"""
    work_share: Probability = 0.75
    """share of workdays on which those with a workplace are there"""
    stay_share: Probability = 0.5
    """share of the other workdays that people spend at home"""
    employed_share: Probability = 0.7
    """share of people with a workplace away from home"""
    reference = "A Bayesian posterior of home and work, in the terms of Shokri et al. 2011"
    example = {"kind": "dwell", "shadow_ues": 8, "cell_m": 50.0}
    space = Believer.space | {"min_probability": (0.0, 0.5)}

    @property
    def largest_cell_m(self) -> float:
        """The largest `cell_m` with which a disc has cells."""
        return self.hit_radius_m / 2

    @model_validator(mode="after")
    def _check_hours(self) -> Self:
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
        self._build_grid(public.area, n_ue)

    def notices(self, prepared: Prepared) -> Notices:
        home = f"home in {_format_hours(self.home_hours)}"
        work = f"work in {_format_hours(self.work_hours)} on a workday"
        missed = {home, work}
        for facts in prepared.rounds():
            hours = Hours.from_round(facts)
            if hours is None:
                continue
            if hours.whole_day:
                return
            period = hours.find_period(self.home_hours, self.work_hours)
            if period is not None:
                missed.discard(home if period.night else work)
            if not missed:
                return
        yield notice("attack-hours-missed", self.label, what=" or ".join(sorted(missed)))

    def start(self) -> DwellState:
        return DwellState(self.of.start())

    def figures(self, state: DwellState) -> Metrics:
        return self.summarise_errors(state.errors)

    def run(self, view: View, facts: RoundContext, state: DwellState, rng: Rng) -> Attacked:
        names = np.union1d(view.ue, state.lifetimes.name[state.past.sender])
        grid = self._build_grid(facts.public.area, len(names))
        _, state = self.remember_estimates(view, facts, state, Population.uniform(grid), rng)
        alive = state.lifetimes.is_alive
        past = state.past.select(alive[state.past.sender])
        state = replace(state, past=past, named=state.named.select(alive[state.named.sender]))
        hours = Hours.from_round(facts)
        is_error_known = self.choose_errors(state.errors) is not None
        if hours is not None and is_error_known and len(state.history.select_newest().sender):
            state = self._update_places(state, hours, facts, grid)
        return self._build_answers(view, state), state

    def _build_grid(self, area: Area, n_ue: int) -> PlaceGrid:
        return PlaceGrid.from_area(area, self.cell_m, 3 * n_ue, self.label)

    def _update_places(
        self, state: DwellState, hours: Hours, facts: RoundContext, grid: PlaceGrid
    ) -> DwellState:
        """After the newest estimates."""
        history = state.history
        newest = history.select_newest()
        lasting_m = history.estimate_persistent_std_m()
        sender = newest.sender
        named = state.named.with_rows(sender)
        index = np.searchsorted(named.sender, sender)
        period = hours.find_period(self.home_hours, self.work_hours)
        if hours.whole_day:
            for row in index.tolist():
                estimates = self._collect_estimates(history, named.sender[row], facts, lasting_m)
                named.places[row, :2] = find_home_and_work(estimates, _WHOLE_DAYS)
        elif period is not None:
            shares = Shares(self.home_share, self.work_share, self.stay_share, self.employed_share)
            evidence = compute_log_evidence(newest.z_m, history.looks.errors[-1], grid)
            past = state.past.add_round(sender, evidence, period, shares)
            state = replace(state, past=past)
            for block in split_rows(np.arange(len(sender))):
                rows = past.select(np.searchsorted(past.sender, sender[block]))
                seen, home = rows.estimate_homes(shares, grid, lasting_m)
                work = rows.estimate_workplaces(seen, shares, grid, lasting_m, self.hit_radius_m)
                for k, maps in enumerate((home, work)):
                    named.places[index[block], k] = np.column_stack(
                        find_best_discs(maps, grid, self.hit_radius_m)
                    )
        if self.third_places and not hours.whole_day:
            self._search_thirds(history, named, index, facts, lasting_m)
        return replace(state, named=named)

    def _search_thirds(
        self,
        history: History,
        named: DwellPlaces,
        index: IntArray,
        facts: RoundContext,
        lasting_m: float,
    ) -> None:
        """Write other places of senders, at rows (k,), of which a tenth more has been heard since
        the last time.
        """
        count = np.bincount(history.named.sender, minlength=int(named.sender.max()) + 1)[
            named.sender
        ]
        is_due = count[index] >= np.maximum(1.1 * named.searched[index], 2.0)
        for row in index[is_due].tolist():
            places = named.places[row]
            is_known = places[:2, 2] >= max(self.min_probability, 1e-9)
            known_m = places[:2][is_known, :2]
            thirds = find_visited_places(
                self._collect_estimates(history, named.sender[row], facts, lasting_m),
                known_m,
                _CLASSES,
                self.third_places,
            )
            places[2:] = np.nan
            places[2 : 2 + len(thirds)] = thirds
            named.searched[row] = count[row]

    def _collect_estimates(
        self, history: History, sender: int, facts: RoundContext, lasting_m: float
    ) -> EstimatesOfUe:
        """All that was named of one sender. Class of time is the hour, of days off 24 more; of
        whole days, whether it is off, and 2 more where several places were named.

        A place that stands at several ranks counts once, at that of the largest share.
        """
        named = history.named.select(history.named.sender == sender)
        looks = history.looks.select(named.look)
        errors = ErrorModel.stack_models(looks.errors).remove_persistent_error()
        truths = errors.infer_truths(named.z_m)
        hours = Hours.from_times(looks.time_s, looks.week_s, facts.round_s)
        is_counted = np.isfinite(named.z_m).all(axis=2) & ~_has_better(named.z_m, truths.share)
        row, rank = np.nonzero(is_counted)
        right = truths.share[row, rank]
        time_class = classify_hours(looks.week_s, facts.round_s)
        if hours.whole_day:  # all of its places may be right
            right = np.ones(len(row))
            time_class = hours.is_weekend + 2 * (is_counted.sum(axis=1) > 1)
        place_m = truths.place_m[row, rank]
        sigma_m = truths.sigma_m[row, rank]
        share = (1.0 - np.asarray(errors.outlier)[row]) * right
        day = hours.day[row]
        area_m2 = float(np.prod(facts.public.area.side_m))
        return EstimatesOfUe(
            place_m, sigma_m, share, time_class[row], day, area_m2, lasting_m, self.hit_radius_m
        )

    def _build_answers(self, view: View, state: DwellState) -> Estimates:
        """Answers for each UE of the view, at all of its models; one answer without a place for
        nothing.
        """
        places = look_up_or_nan(
            state.named.sender, state.named.places, state.lifetimes.find_senders(view.ue)
        )
        probability = np.nan_to_num(places[..., 2])
        is_named = (probability >= self.min_probability) & (probability > 0)
        is_answered = is_named.copy()
        is_answered[~is_named.any(axis=1), 0] = True
        row, rank = np.nonzero(is_answered)
        is_sure = is_named[row, rank]
        place_m = np.where(is_sure[:, None], places[row, rank, :2], np.nan)
        weight = np.where(is_sure, probability[row, rank], 0.0)
        status = np.where(is_sure, np.array(_PLACES)[rank], "unsure").tolist()
        return Estimates.from_places(
            view.ue[row], view.model[row], "answer", place_m, weight, status
        )


def _has_better(z_m: FloatArray, share: FloatArray) -> BoolArray:
    """Which ranks of estimates (k, R, 2) name a place that a rank of larger share (k, R) names, or
    an earlier one.
    """
    is_same = (z_m[:, :, None] == z_m[:, None]).all(axis=3)
    ranks = np.arange(z_m.shape[1])
    is_later = ranks[:, None] > ranks
    share = share[:, :, None]
    rival = share.swapaxes(1, 2)
    is_worse = (share < rival) | ((share == rival) & is_later)
    return (is_same & is_worse).any(axis=2)
