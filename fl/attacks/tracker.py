r"""Tracking: where UEs are, from the estimates of all rounds together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from fl.attacks.base import Attack, View, recall
from fl.attacks.closed_form import ClosedForm
from fl.attacks.density_peak import DensityPeak
from fl.attacks.dlg import Dlg
from fl.attacks.learnt_errors import LearntErrors
from fl.attacks.likelihood import Likelihood
from fl.attacks.link_rounds import LinkRounds
from fl.attacks.multi_query import MultiQuery
from fl.attacks.over_rounds import OUTLIER, OverRounds
from fl.attacks.ramp_aware import RampAware
from fl.attacks.simulated_inversion import SimulatedInversion
from fl.attacks.simulated_ues import ROAMING, SPEED_MPS, Population
from fl.attacks.span import Span
from fl.attacks.tracker_state import TrackerState
from fl.attacks.unit_votes import UnitVotes
from fl.attacks.weighted_centroid import WeightedCentroid
from fl.population import POPULATIONS
from fl.population.base import PopulationPrior
from fl.population.uniform import Everywhere
from fl.tracking import scattered, trajectories
from fl.tracking.answers import places_of_least_distance_m, probability_within
from fl.tracking.belief import Belief
from fl.tracking.cloud import Sight
from fl.tracking.discs import blurred
from fl.tracking.emission import Emission
from fl.tracking.error_model import ErrorModel
from fl.tracking.filter import Leg, step
from fl.tracking.habits import Habits, hour_class, weights_of
from fl.tracking.history import History
from fl.tracking.motion import Motion
from fl.tracking.particles import Kernel, followed
from fl.tracking.place_grid import PlaceGrid
from fl.tracking.smoother import Chain, learnt_habits, smoothed
from fl.tracking.wide import Maps
from fl.types import Estimates, Facts, Public
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.part import OneOf
from netsim.rng import Rng, Streams
from netsim.units import BoolArray, FloatArray, IntArray

TRACKED = OneOf(
    "attack", ClosedForm, Dlg, SimulatedInversion, Span, UnitVotes, WeightedCentroid, RampAware, Likelihood,
    DensityPeak, LinkRounds, MultiQuery,
)  # fmt: skip
"""Attacks whose estimates of rounds can be tracked"""
_RELEARNT = tuple(2**k for k in range(4, 13))  # looks after which motion is learnt anew from the whole past
_MOST_PARTICLES = 10_000_000  # of all UEs: 240 MB


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

    Estimates: `centroid`, the place of least expected distance, with the probability within `near_m` as weight and the
    status `ok`, `moved on` (no estimate in this round) or `unknown`; `plain`, what the tracked attack says itself.
    Models of a UE count together. What is estimated of a sum, or of a published model, speaks of every UE in it.
    """

    kind: Literal["tracker"] = "tracker"
    of: Annotated[Attack, TRACKED] = ClosedForm(cloud=False)
    """the attack whose estimates are tracked"""
    cell_m: float = Field(default=50.0, ge=0.1, le=1e6)
    """largest side of a cell, m; half of near_m makes stated probabilities right, a larger one is faster"""
    particles: int | None = Field(default=None, ge=100, le=100_000)
    """so many weighted points a UE carry the belief instead of cells; none: cells"""
    near_m: float = Field(default=100.0, gt=0, le=1e6)
    """distance of which estimates state the probability, m"""
    largest_speed_mps: float = Field(default=30.0, gt=0, le=1000)
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
    reference: ClassVar[str] = "Shokri et al., Quantifying Location Privacy, S&P 2011, Section III (tracking attack)"
    example: ClassVar[dict[str, Any]] = {"kind": "tracker", "simulated_ues": 8, "cell_m": 200.0}
    made_up_by: ClassVar[tuple[str, ...]] = ("simulated_ues", "roaming", "speed_mps")

    @model_validator(mode="after")
    def _places_are_cells(self) -> Self:
        if self.particles is not None and self.own_places:
            raise ValueError(
                f"particles: {self.particles} with own_places, which are maps of cells; leave one of them out"
            )
        return self

    @property
    def reads_the_city(self) -> bool:
        return self.population.of_the_city

    def check(self, public: Public, n_ue: int) -> None:
        """BadInput where so many maps are too many, or nothing is known of the population."""
        self.of.check(public, n_ue)
        self.population.probability(self._grid(public.area, n_ue), public)

    def start(self) -> TrackerState:
        return TrackerState(self.of.start())

    def run(self, view: View, facts: Facts, state: TrackerState, rng: Rng) -> tuple[Estimates, TrackerState]:
        grid = self._grid(facts.public.area, len(np.union1d(view.ue, state.ue)))
        look = self.looked(view, facts, state.of, state.errors, self._made_up(grid, facts), rng)
        errors, z_m = self.errors_now(look.errors), look.z_m
        if errors is None:  # nothing can be made of estimates of which nothing is known
            errors, z_m = ErrorModel.plain(1.0, OUTLIER), np.full_like(z_m, np.nan)
        history = state.history.plus(
            facts.round, facts.time_s, facts.week_s, facts.round_s, errors, look.names, z_m
        )  # fmt: skip
        if not len(state.history):  # what particles are drawn from, in hindsight as well
            state = replace(state, seed=int(replace(rng, round=0).uniform("particles", 0)[0] * 2**53))
        state = replace(state, of=look.of, errors=look.errors, history=history)
        lifetimes = state.lifetimes.after(look.names, facts.round, facts.time_s, facts.round_s, view.renames)
        state = replace(state, lifetimes=lifetimes)
        state = self._filtered(state, facts, grid)
        if len(history) in _RELEARNT and len(state.ue):
            state = replace(state, count=self._relearnt(state, facts, grid).count)
        ues = np.intersect1d(view.ue, state.ue)
        rows = np.searchsorted(state.ue, ues)
        alone_m = history.points_m(facts.round, ues, alone=True)[:, 0]
        p = None if self.particles is not None else self._shown(state.p[rows], self.errors_now(state.errors), grid)
        place_m = self._answers(state, rows, grid, p)
        state = replace(state, memory=state.memory.plus(facts.round, ues, place_m, alone_m))
        if state.memory.misleads:
            place_m = np.where(np.isfinite(alone_m), alone_m, place_m)
        sure = self._sure(state, rows, grid, p, place_m)
        return self._estimates(view, look.said, look.names, ues, place_m, sure), state

    def figures(self, state: TrackerState) -> dict[str, float]:
        figures = self.error_figures(state.errors)
        used = state.count.sum(axis=(0, 1))
        if used.sum() > 0:
            stay, jump = float(used[0] / used.sum()), float(used[-1] / used.sum())
            figures |= {"stay_share": stay, "jump_share": jump}
        return figures

    def belief(self, state: TrackerState, facts: Facts) -> Belief | None:
        if not len(state.ue):
            return None
        grid = self._grid(facts.public.area, len(state.ue))
        p, prior = (
            self._shown(self._counted(state, grid), self.errors_now(state.errors), grid),
            self._prior(grid, facts),
        )
        alone = state.memory.misleads
        points_m = state.history.points_m(facts.round, state.ue, alone)
        return Belief(facts.round, facts.time_s, state.ue, grid, p, prior.reshape(-1), points_m, alone)

    def hindsight(self, state: TrackerState, facts: Facts) -> Iterator[Belief]:
        """Of names that were given up as long as they were followed: their motion is learnt from the beginning."""
        grid, history, lives = self._grid(facts.public.area, len(state.ue)), state.history, state.lifetimes
        errors = {int(history.round[look]): history.errors[look] for look in history.last_looks()}
        for group in lives.together():
            ue, gone = lives.name[group], lives.gone[group]
            now = state.only(np.isin(state.ue, ue[lives.alive[group]]))
            for belief in self._smoothed(now, ue, lives.past(history, group), facts, grid):
                told = belief.only(belief.round < gone[np.searchsorted(ue, belief.ue)])
                if len(told.ue):
                    p = self._shown(told.probability, errors[told.round], grid)
                    points_m = history.points_m(told.round, told.ue, state.memory.misleads)
                    yield replace(told, probability=p, point_m=points_m, alone=state.memory.misleads)

    def _smoothed(
        self, state: TrackerState, ue: IntArray, history: History, facts: Facts, grid: PlaceGrid
    ) -> Iterator[Belief]:
        """Of UEs (n,) ascending, some of which the filter knows."""
        chain = self._chain(facts, grid)
        state = self._with_rows(state, ue, chain.motion, chain.prior)
        habits = self._habits(state, facts, grid)
        if self.particles is None:
            return smoothed(chain, history, ue, habits, state.own)
        kernel = Kernel.of(chain.motion, chain.prior)
        return trajectories.smoothed(kernel, facts.round_s, history, ue, habits, self.particles, state.seed)

    def _with_rows(self, state: TrackerState, every: IntArray, motion: Motion, prior: Maps) -> TrackerState:
        """With a row for every UE (n,) ascending."""
        return state.with_rows(every, prior, len(motion.sigma_m) + 2, self.hours, self.own_places, self.particles)

    def _grid(self, area: Area, n_ue: int) -> PlaceGrid:
        """Of the area; a UE has maps, or particles, of its own."""
        if n_ue * (self.particles or 0) > _MOST_PARTICLES:
            raise BadInput(
                f"learning.attacks: {self.label}: particles {self.particles:,} of {n_ue:,} UEs, at most "
                f"{_MOST_PARTICLES:,} together; take fewer, or attack fewer UEs with threat.targets"
            )
        return PlaceGrid.over(area, self.cell_m, n_ue * (10 if self.own_places else 2), self.label)

    def _made_up(self, grid: PlaceGrid, facts: Facts) -> Population:
        """Of the UEs that the attacker makes up."""
        roaming, speed_mps = self.roaming, self.speed_mps
        return Population(
            grid,
            self.population.probability(grid, facts.public),
            ROAMING if roaming is None else roaming,
            SPEED_MPS if speed_mps is None else speed_mps,
            match_roaming=roaming is None,
            match_speed=speed_mps is None,
        )

    def _prior(self, grid: PlaceGrid, facts: Facts) -> Maps:
        """Where jumps end, and UEs begin (1, ny, nx)."""
        return self.population.probability(grid, facts.public).astype(np.float32).reshape(1, grid.ny, grid.nx)

    @staticmethod
    def _borrowed(learnt: LearntErrors, motion: Motion) -> FloatArray:
        """Weights (K + 2,) of motion of UEs that the attacker has made up, or of nobody."""
        grid = motion.grid
        return weights_of(learnt.displacements_m, motion.sigma_m, float(grid.cell_m.max()), grid.area.side_m)

    def _chain(self, facts: Facts, grid: PlaceGrid) -> Chain:
        return Chain(Motion.over(grid, self.largest_speed_mps, facts.round_s), self._prior(grid, facts), facts.round_s)

    def _habits(self, state: TrackerState, facts: Facts, grid: PlaceGrid) -> Habits:
        """As learnt until now."""
        return Habits(state.count, self._borrowed(state.errors, self._chain(facts, grid).motion))

    def _relearnt(self, state: TrackerState, facts: Facts, grid: PlaceGrid) -> Habits:
        """From all rounds until now, by what each tells of the others: one step alone hardly tells staying from a
        short way.
        """
        habits, lives = self._habits(state, facts, grid), state.lifetimes
        past = lives.past(state.history, np.flatnonzero(lives.alive))
        return learnt_habits(self._chain(facts, grid), past, state.ue, habits, state.own)[0]

    def _filtered(self, state: TrackerState, facts: Facts, grid: PlaceGrid) -> TrackerState:
        """After the last look of the history; who is new begins with the prior."""
        motion, prior = Motion.over(grid, self.largest_speed_mps, facts.round_s), self._prior(grid, facts)
        look = len(state.history) - 1
        mine = state.history.look == look
        ue, z_m = state.history.ue[mine], state.history.z_m[mine]
        state = state.only(state.lifetimes.follows(state.ue))
        every = np.union1d(state.ue, ue)
        known = self._with_rows(state, every, motion, prior)
        now = state.history.errors[look].without_bias()
        habits = Habits(known.count, self._borrowed(state.errors, motion))
        classes = state.history.classes(look, facts.round_s)
        if self.particles is not None:
            kernel, sight = Kernel.of(motion, prior), Sight.of(now, recall(ue, z_m, every), grid)
            return self._scattered(known, kernel, sight, habits, classes, ~np.isin(every, state.ue))
        emission = Emission.of(now, recall(ue, z_m, every), grid)
        legs = [Leg(habits.weight(c), known.own.target(c, prior)) for c in classes]
        old, p = np.isin(every, state.ue), known.p.reshape(-1, grid.ny, grid.nx)
        share, log_ratio, new = np.zeros((len(every), len(motion.sigma_m) + 2)), np.zeros(len(every)), np.empty_like(p)
        for some, way in ((old, legs), (~old, [])):
            rows = np.flatnonzero(some)
            done = step(motion, p[rows], [leg.take(rows) for leg in way], emission.take(rows))
            new[rows], log_ratio[rows], share[rows] = done.p, done.log_ratio, done.share
        own, at = known.own, int(hour_class(np.array([facts.week_s]), facts.round_s)[0])
        if classes or look == 0:
            own = own.plus(at, new)
        return replace(
            known,
            p=new.reshape(len(every), len(grid)),
            count=habits.plus(classes[-1], share).count if len(classes) == 1 else known.count,
            own=own,
            log_likelihood=known.log_likelihood + log_ratio,
        )

    def _scattered(
        self, known: TrackerState, kernel: Kernel, sight: Sight, habits: Habits, classes: list[int], new: BoolArray
    ) -> TrackerState:
        """`_filtered`, with particles; new (n,) : who begins with the prior."""
        rng, weights = (
            Streams(known.seed).at(trajectories.PURPOSE, len(known.history) - 1),
            [habits.weight(c) for c in classes],
        )
        *_, last = followed(kernel, known.cloud, new, weights, sight, rng, known.ue)
        if len(classes) == 1:
            habits = habits.plus(classes[0], np.where(new[:, None], 0.0, last.share))
        total = known.log_likelihood + last.log_ratio
        return replace(known, cloud=last.cloud, count=habits.count, log_likelihood=total)

    def _counted(self, state: TrackerState, grid: PlaceGrid) -> Maps:
        """What the filter believes (k, G)."""
        return state.p if self.particles is None else scattered.counted(state.cloud, grid)

    def _shown(self, p: npt.NDArray[np.float32], errors: ErrorModel | None, grid: PlaceGrid) -> Maps:
        """Beliefs (k, G) of where UEs are: of where estimates show them, moved by the error that persists."""
        return p if errors is None else blurred(p, grid, errors.bias_m)

    def _answers(self, state: TrackerState, rows: IntArray, grid: PlaceGrid, p: Maps | None) -> FloatArray:
        """Places (k, 2) of least expected distance of UEs (k,) with beliefs p (k, G), or particles."""
        if p is None:
            return scattered.middle_m(state.cloud.of(rows))
        points_m = state.history.points_m(int(state.history.round[-1]), state.ue[rows])
        return places_of_least_distance_m(p, grid, points_m)

    def _sure(
        self, state: TrackerState, rows: IntArray, grid: PlaceGrid, p: Maps | None, place_m: FloatArray
    ) -> FloatArray:
        """Probabilities (k,) within near_m of places (k, 2)."""
        if p is None:
            errors = self.errors_now(state.errors)
            bias_m = 0.0 if errors is None else errors.bias_m
            return scattered.probability_within(state.cloud.of(rows), place_m, self.near_m, bias_m)
        return probability_within(p, grid, place_m, self.near_m)

    def _estimates(
        self, view: View, said: Estimates, named: IntArray, ues: IntArray, place_m: FloatArray, sure: FloatArray
    ) -> Estimates:
        """The answers (k, 2) about UEs (k,) ascending, for every target, then what the tracked attack says itself."""
        none = np.zeros(len(view.ue), dtype=np.int64)
        known, new = np.isin(view.ue, ues), np.isin(view.ue, named)
        own = Estimates(
            ue=view.ue, model=view.model, what=["centroid"] * len(view.ue), position_m=recall(ues, place_m, view.ue),
            weight=np.nan_to_num(recall(ues, sure, view.ue)), loss=np.full(len(view.ue), np.nan), iterations=none,
            evaluations=none,
            status=["ok" if n else "moved on" if k else "unknown" for n, k in zip(new, known, strict=True)],
        )  # fmt: skip
        return Estimates.join([own, _plain(said)])


def _plain(said: Estimates) -> Estimates:
    """Places that the tracked attack names, as estimates of kind `plain`."""
    some = np.flatnonzero([what in ("centroid", "place", "answer") for what in said.what])
    return Estimates(
        ue=said.ue[some], model=said.model[some], what=["plain"] * len(some), position_m=said.position_m[some],
        weight=said.weight[some], loss=said.loss[some], iterations=said.iterations[some],
        evaluations=said.evaluations[some], status=[said.status[i] for i in some],
    )  # fmt: skip
