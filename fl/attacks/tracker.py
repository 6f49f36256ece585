r"""Tracking: where UEs are, from the estimates of all rounds together."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.attacks import ATTACKS
from fl.attacks.base import Attack, View
from fl.attacks.closed_form import ClosedForm
from fl.attacks.follower import Follower
from fl.attacks.over_rounds import OUTLIER, OverRounds
from fl.attacks.shadow_ues import ROAMING, SPEED_MPS, Population
from fl.attacks.tracker_answers import estimates, shown
from fl.attacks.tracker_state import TrackerState
from fl.population import POPULATIONS
from fl.population.base import PopulationPrior
from fl.population.uniform import Everywhere
from fl.tracking import answers
from fl.tracking.belief import Belief
from fl.tracking.error_model import ErrorModel
from fl.tracking.motion import Motion
from fl.tracking.place_grid import PlaceGrid
from fl.tracking.smoother import Chain
from fl.types import Estimates, Metrics, Public, RoundContext
from netsim.geometry import Area
from netsim.rng import Rng

TRACKED = ATTACKS.only(
    "closed-form",
    "dlg",
    "span",
    "neuron-votes",
    "weighted-centroid",
    "link-filter",
    "density-peak",
    "posterior",
)
"""Attacks whose estimates of rounds can be tracked"""
_RELEARNT = tuple(2**k for k in range(4, 13))  # looks after which motion is learnt again from the whole past


class Tracker(OverRounds):
    r"""Follows UEs over a grid of places: a Bayesian filter, and a smoother once all rounds are known.

    With e_t(j) how likely the estimates of round t are of a UE in cell j (`fl.tracking.error_model`), and K how UEs
    move within a round (`fl.tracking.motion`: stay, Gaussians of 150 to 2500 m, jump),

        a_t(j) ~ e_t(j) sum_i a_{t-1}(i) K(i, j)                          (filter: what is known now)
        p_t(i) ~ a_t(i) sum_j K(i, j) e_{t+1}(j) b_{t+1}(j)               (smoother: what is known afterwards)

    A round without an estimate of a UE moves it only. How wide estimates scatter is learnt on UEs that the attacker
    makes up, unless `sigma_m` is given; how a UE moves begins as theirs, and is learnt from its own estimates (EM),
    with `hours` for each hour of weekdays and weekends. With `own_places` a UE that jumps returns to where it was
    believed to be at this time of day: in the filter in past rounds, in the smoother in all. A part of the error that
    persists over rounds (`bias_m`) widens beliefs, and no number of rounds removes it.

    Estimates: `centroid`, the place of least expected distance, with the probability within `hit_radius_m` as weight
    and the status `ok`, `moved on` (no estimate in this round) or `unknown`; `plain`, what the tracked attack says
    itself. Models of a UE count together. What is estimated of a sum, or of a published model, speaks of every UE in
    it.
    """

    kind: Literal["tracker"] = "tracker"
    of: Annotated[Attack, TRACKED] = ClosedForm(cloud=False)
    """the attack whose estimates are tracked"""
    cell_m: float = Field(default=50.0, ge=0.1, le=1e6)
    """largest side of a cell, m; half of hit_radius_m makes stated probabilities right, a larger one is faster"""
    hit_radius_m: float = Field(default=100.0, gt=0, le=1e6)
    """distance of which estimates state the probability, m"""
    max_speed_mps: float = Field(default=30.0, gt=0, le=1000)
    """no Gaussian of motion is wider than half the way at this speed in a round, m/s"""
    own_places: bool = False
    """jump back to places of one's own"""
    hours: bool = False
    """learn motion for each hour of weekdays and of weekends"""
    population: Annotated[PopulationPrior, POPULATIONS] = Everywhere()
    """where people are, as far as the attacker knows beforehand: where jumps end, and where UEs begin"""
    roaming: float | None = Field(default=None, ge=0, le=1)
    """share of the UEs made up that travel all the time; the others have homes and workplaces; none: 0.2, then as
    estimates of real UEs have it"""
    speed_mps: float | None = Field(default=None, gt=0, le=1000)
    """how fast they travel, m/s; none: 8, then as estimates of real UEs have it"""
    renamed: ClassVar = {"near_m": "hit_radius_m", "largest_speed_mps": "max_speed_mps"}
    reference: ClassVar = "Shokri et al., Quantifying Location Privacy, S&P 2011, Section III (tracking attack)"
    example: ClassVar = {"kind": "tracker", "shadow_ues": 8, "cell_m": 200.0}
    made_up_by: ClassVar[tuple[str, ...]] = ("shadow_ues", "roaming", "speed_mps")

    @property
    def reads_the_city(self) -> bool:
        return self.population.of_the_city

    def check(self, public: Public, n_ue: int) -> None:
        """BadInput where n_ue maps are too many, or the population is unknown."""
        self.of.check(public, n_ue)
        self.population.probability(self._grid(public.area, n_ue), public)

    def start(self) -> TrackerState:
        return TrackerState(self.of.start())

    def run(self, view: View, facts: RoundContext, state: TrackerState, rng: Rng) -> tuple[Estimates, TrackerState]:
        grid = self._grid(facts.public.area, len(np.union1d(view.ue, state.ue)))
        look = self.looked(view, facts, state.of, state.errors, self._made_up(grid, facts), rng)
        errors, z_m = self.errors_now(look.errors), look.z_m
        if errors is None:  # nothing can be made of estimates of which nothing is known
            errors, z_m = ErrorModel.plain(1.0, OUTLIER), np.full_like(z_m, np.nan)
        history = state.history.plus(facts.round, facts.time_s, facts.week_s, facts.round_s, errors, look.names, z_m)
        state = replace(state, of=look.of, errors=look.errors, history=history)
        lifetimes = state.lifetimes.after(look.names, facts.round, facts.time_s, facts.round_s, view.renames)
        state = replace(state, lifetimes=lifetimes)
        follower = self._follower(facts, grid)
        state = follower.filtered(state, facts.week_s)
        if len(history) in _RELEARNT and len(state.ue):
            state = replace(state, count=follower.relearnt(state).count)
        ues = np.intersect1d(view.ue, state.ue)
        rows = np.searchsorted(state.ue, ues)
        alone_m = history.points_m(facts.round, ues, alone=True)[:, 0]
        believed = shown(state.p[rows], self.errors_now(state.errors), grid)
        place_m = answers.places_of_least_distance_m(believed, grid, history.points_m(facts.round, ues))
        state = replace(state, memory=state.memory.plus(facts.round, ues, place_m, alone_m))
        if state.memory.misleads:
            place_m = np.where(np.isfinite(alone_m), alone_m, place_m)
        sure = answers.probability_within(believed, grid, place_m, self.hit_radius_m)
        return estimates(view, look.said, look.names, ues, place_m, sure), state

    def figures(self, state: TrackerState) -> Metrics:
        figures = self.error_figures(state.errors)
        used = state.count.sum(axis=(0, 1))
        if used.sum() > 0:
            stay, jump = float(used[0] / used.sum()), float(used[-1] / used.sum())
            figures |= {"stay_share": stay, "jump_share": jump}
        return figures

    def belief(self, state: TrackerState, facts: RoundContext) -> Belief | None:
        if not len(state.ue):
            return None
        grid = self._grid(facts.public.area, len(state.ue))
        follower, errors = self._follower(facts, grid), self.errors_now(state.errors)
        p, prior = shown(state.p, errors, grid), follower.chain.prior
        alone = state.memory.misleads
        points_m = state.history.points_m(facts.round, state.ue, alone)
        return Belief(facts.round, facts.time_s, state.ue, grid, p, prior.reshape(-1), points_m, alone)

    def hindsight(self, state: TrackerState, facts: RoundContext) -> Iterator[Belief]:
        """Beliefs about given-up names while they were followed: their motion is learnt from the beginning."""
        grid, history, lives = self._grid(facts.public.area, len(state.ue)), state.history, state.lifetimes
        follower = self._follower(facts, grid)
        errors = {int(history.round[look]): history.errors[look] for look in history.last_looks()}
        for group in lives.together():
            ue, gone = lives.name[group], lives.gone[group]
            now = state.only(np.isin(state.ue, ue[lives.alive[group]]))
            for belief in follower.smoothed(now, ue, lives.past(history, group)):
                past = belief.only(belief.round < gone[np.searchsorted(ue, belief.ue)])
                if len(past.ue):
                    p = shown(past.probability, errors[past.round], grid)
                    points_m = history.points_m(past.round, past.ue, state.memory.misleads)
                    yield replace(past, probability=p, point_m=points_m, alone=state.memory.misleads)

    def _grid(self, area: Area, n_ue: int) -> PlaceGrid:
        """Grid of the area; each UE has its maps."""
        return PlaceGrid.over(area, self.cell_m, n_ue * (10 if self.own_places else 2), self.label)

    def _made_up(self, grid: PlaceGrid, facts: RoundContext) -> Population:
        """Errors and motion of the UEs that the attacker makes up."""
        roaming, speed_mps = self.roaming, self.speed_mps
        return Population(
            grid,
            self.population.probability(grid, facts.public),
            ROAMING if roaming is None else roaming,
            SPEED_MPS if speed_mps is None else speed_mps,
            match_roaming=roaming is None,
            match_speed=speed_mps is None,
        )

    def _follower(self, facts: RoundContext, grid: PlaceGrid) -> Follower:
        """Follower of beliefs over a grid."""
        prior = self.population.probability(grid, facts.public).astype(np.float32).reshape(1, grid.ny, grid.nx)
        chain = Chain(Motion.over(grid, self.max_speed_mps, facts.round_s), prior, facts.round_s)
        return Follower(chain, self.hours, self.own_places)
