r"""Home, work and other places of a UE, with the probability that they are right."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fl.attacks import ATTACKS
from fl.attacks.base import Attack, View
from fl.attacks.closed_form import ClosedForm
from fl.attacks.dwell_state import MOST_THIRDS, DwellPlaces, DwellState, Hours, NamedSoFar
from fl.attacks.learnt_errors import LearntErrors
from fl.attacks.over_rounds import OverRounds
from fl.attacks.shadow_ues import Population
from fl.tracking.discs import best_discs
from fl.tracking.error_model import ErrorModel
from fl.tracking.place_grid import PlaceGrid
from fl.tracking.residence import Residences, Shares
from fl.tracking.visited import habits, home_and_work
from fl.types import Estimates, Metrics, Public, RoundContext
from netsim.geometry import Area
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray

OF_ROUNDS = ATTACKS.only(
    "closed-form",
    "dlg",
    "span",
    "neuron-votes",
    "weighted-centroid",
    "link-filter",
    "density-peak",
    "posterior",
)
"""Attacks that name places in every round"""
HourOfDay = Annotated[float, Field(ge=0, le=24)]
_WHOLE_DAYS = np.array([[0.0, 0.0], [0.3, 0.0], [0.45, 0.40], [0.5, 0.05]])
"""shares of home and work among what is named of a workday and of a day off: one place, or several"""


def _hours_text(hours: tuple[float, float]) -> str:
    return f"{hours[0]:g} to {hours[1]:g} o'clock"


class Dwell(OverRounds):
    r"""Names home, work and other places of a UE once it is sure enough, from what another attack says in each round.

    Rounds of at most 6 h have a time of day, that of their middle by the wall clock. Those of `home_hours` tell of
    home, those of `work_hours` on Monday to Friday of work: the posterior over a grid is that of
    `fl.tracking.dwelling`, with an error that stays the same over rounds. All rounds tell of other places, by a mixture
    with shares for each hour of workdays and of days off (`fl.tracking.visited`).

    Longer rounds have no time of day. Where several places are named of a round, home and work are those two that
    return: a share of 0.45 of what is named on workdays is home and 0.40 work, on days off 0.50 and 0.05. Workdays
    alone hardly tell which is which, and the probability says so. Where one place is named, the mean of a day at home
    and at work is neither: workdays tell nothing, and of days off 0.3 are at home. These shares are assumed.

    The answer is the disc of radius `hit_radius_m` that holds most of the posterior, its probability the mass in it. An
    answer below `min_probability` is not given (status `unsure`), and takes back an earlier one. Status: home, work,
    third 1, third 2, ...; weight: the probability.

    Errors are learnt on UEs that the attacker makes up, unless `sigma_m` is given. The rounds of a UE count together,
    of all its models, also from sums that it is in. Limits: who works at night has home and work exchanged, and who
    moves house has one home, or none.
    """

    kind: Literal["dwell"] = "dwell"
    of: Annotated[Attack, OF_ROUNDS] = ClosedForm(cloud=False)
    """the attack that names places in every round"""
    min_probability: float = Field(default=0.5, ge=0, lt=1)
    """smallest probability with which a place is named; below 1, which no posterior reaches"""
    hit_radius_m: float = Field(default=100.0, gt=0, le=1e6)
    """radius of the disc of which the probability is stated, m"""
    cell_m: float = Field(default=50.0, ge=0.1, le=1e6)
    """largest distance between the places of the grid, m; half of hit_radius_m or less"""
    third_places: int = Field(default=3, ge=0, le=MOST_THIRDS)
    """largest number of places besides home and work"""
    home_hours: Annotated[tuple[HourOfDay, HourOfDay], Field(strict=False)] = (0.0, 6.0)
    """hours between which a round tells of home, from and to; 20 to 8 goes over midnight. The rounds of one night count
    together: who is not at home then is at one other place"""
    work_hours: Annotated[tuple[HourOfDay, HourOfDay], Field(strict=False)] = (10.0, 16.0)
    """hours between which a round on Monday to Friday tells of work"""
    home_share: float = Field(default=0.93, gt=0, lt=1)
    """share of nights that people spend at home"""
    work_share: float = Field(default=0.75, gt=0, lt=1)
    """share of workdays on which those with a workplace are there"""
    stay_share: float = Field(default=0.5, gt=0, lt=1)
    """share of the other workdays that people spend at home"""
    employed_share: float = Field(default=0.7, gt=0, lt=1)
    """share of people with a workplace away from home"""
    renamed: ClassVar = {"near_m": "hit_radius_m", "least_probability": "min_probability"}
    reference: ClassVar = "A Bayesian posterior of home and work, in the terms of Shokri et al. 2011"
    example: ClassVar = {"kind": "dwell", "shadow_ues": 8, "cell_m": 50.0}
    space: ClassVar = OverRounds.space | {"min_probability": (0.0, 0.5)}

    @model_validator(mode="after")
    def _fine_enough(self) -> Self:
        if self.cell_m > self.hit_radius_m / 2:
            raise ValueError(
                f"cell_m: at most half of hit_radius_m {self.hit_radius_m:g}: a disc needs cells, got {self.cell_m:g}; "
                f"take {self.hit_radius_m / 2:g} or less"
            )
        return self

    @model_validator(mode="after")
    def _hours(self) -> Self:
        (home, until), (work, end) = self.home_hours, self.work_hours
        if home == until:
            raise ValueError(f"home_hours: from {home:g} to {until:g} is no time at all; take two different hours")
        if work >= end:
            raise ValueError(f"work_hours: {work:g} to {end:g} must be hours of one day; take the earlier one first")
        return self

    def check(self, public: Public, n_ue: int) -> None:
        self.of.check(public, n_ue)
        self._grid(public.area, n_ue)

    def notes_on_rounds(self, rounds: Iterable[RoundContext]) -> tuple[str, ...]:
        none = {f"home in {_hours_text(self.home_hours)}", f"work in {_hours_text(self.work_hours)} on a workday"}
        for facts in rounds:
            hours = Hours.of(facts)
            period = None if hours is None else hours.period(self.home_hours, self.work_hours)
            if hours is not None and hours.whole_day:
                return ()
            if period is not None:
                none -= {text for text in none if text.startswith("home" if period.night else "work")}
            if not none:
                return ()
        return (
            f"attack {self.label}: no round has its middle in the hours that tell of {' or '.join(sorted(none))}, so "
            "it never names that; set home_hours and work_hours to hours of the rounds, or let the world last longer",
        )

    def start(self) -> DwellState:
        return DwellState(self.of.start(), LearntErrors(), Residences(), NamedSoFar(), DwellPlaces.empty())

    def figures(self, state: DwellState) -> Metrics:
        return self.error_figures(state.errors)

    def run(self, view: View, facts: RoundContext, state: DwellState, rng: Rng) -> tuple[Estimates, DwellState]:
        grid = self._grid(facts.public.area, len(np.union1d(view.ue, state.past.owner)))
        look = self.looked(view, facts, state.of, state.errors, Population.uniform(grid), rng)
        lifetimes = state.lifetimes.after(look.names, facts.round, facts.time_s, facts.round_s, view.renames)
        known = replace(state.followed(lifetimes), of=look.of, errors=look.errors)
        errors, hours = self.errors_now(look.errors), Hours.of(facts)
        if errors is not None and hours is not None and len(look.names):
            known = self._told(known, look.names, look.z_m, errors, hours, grid)
        return self._answers(view, known.named), known

    def _grid(self, area: Area, n_ue: int) -> PlaceGrid:
        """Grid of the area; a UE has three maps."""
        return PlaceGrid.over(area, self.cell_m, 3 * n_ue, self.label)

    def _told(
        self, state: DwellState, names: IntArray, z_m: FloatArray, errors: ErrorModel, hours: Hours, grid: PlaceGrid
    ) -> DwellState:
        """After the estimates (k, R, 2) of one round of UEs names (k,)."""
        shares = Shares(self.home_share, self.work_share, self.stay_share, self.employed_share)
        heard, past, named = state.heard.plus(names, z_m, errors, hours), state.past, state.named.with_rows(names)
        state = state.with_errors(errors)
        whole = replace(errors, bias_m=state.lasting_m)
        period = hours.period(self.home_hours, self.work_hours)
        if hours.whole_day:
            named = named.home_and_work(names, *self._of_days(heard, names, whole, grid))
        elif period is not None:
            past = past.plus(names, z_m, errors, grid, period, shares)
            maps = past.posteriors(names, shares, grid, whole, self.hit_radius_m)
            discs = [best_discs(each, grid, self.hit_radius_m) for each in maps]
            named = named.home_and_work(names, *(np.stack(of, axis=1) for of in zip(*discs, strict=True)))
        if self.third_places and not hours.whole_day:
            named = self._thirds(heard, named, names, whole, grid)
        return replace(state, past=past, heard=heard, named=named)

    def _of_days(
        self, heard: NamedSoFar, names: IntArray, errors: ErrorModel, grid: PlaceGrid
    ) -> tuple[FloatArray, FloatArray]:
        """Home and work (k, 2, 2) with probabilities (k, 2), of rounds as long as days."""
        area_m2 = float(np.prod(grid.area.side_m))
        found = [
            home_and_work(heard.of(ue), _WHOLE_DAYS, area_m2, errors.bias_m, self.hit_radius_m) for ue in names.tolist()
        ]
        return np.stack([one.place_m for one in found]), np.stack([one.probability for one in found])

    def _thirds(
        self, heard: NamedSoFar, named: DwellPlaces, names: IntArray, errors: ErrorModel, grid: PlaceGrid
    ) -> DwellPlaces:
        """Other places of those UEs of whom a tenth more has been heard since the last time."""
        area_m2, count = float(np.prod(grid.area.side_m)), heard.count(names)
        due = named.grown(names, count)
        for ue, n in zip(names[due].tolist(), count[due].tolist(), strict=True):
            known_m = named.sure(ue, self.min_probability)
            found = habits(
                heard.of(ue), known_m, NamedSoFar.CLASSES, area_m2, errors.bias_m, self.hit_radius_m, self.third_places
            )
            named = named.thirds(ue, found.place_m, found.probability, n)
        return named

    def _answers(self, view: View, named: DwellPlaces) -> Estimates:
        """Answers for each UE of the view, at all of its models; one answer without a place for nothing."""
        place_m, probability = named.recalled(view.ue)
        spoken: BoolArray = (probability >= self.min_probability) & (probability > 0)
        silent = np.asarray(~spoken.any(axis=1))
        row, rank = np.nonzero(spoken | (silent[:, None] & (np.arange(spoken.shape[1]) == 0)))
        where = np.where(spoken[row, rank, None], place_m[row, rank], np.nan)
        weight = np.where(spoken[row, rank], probability[row, rank], 0.0)
        status = ["unsure" if silent[i] else DwellPlaces.PLACES[k] for i, k in zip(row, rank, strict=True)]
        return Estimates.of(view.ue[row], view.model[row], "answer", where, weight, status)
