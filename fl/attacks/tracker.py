r"""Tracking: where UEs are, from the estimates of all rounds together."""

from collections.abc import Iterator
from dataclasses import field, replace
from typing import Annotated

import numpy as np
from pydantic import Field

from fl.attacks.base import Attacked, View
from fl.attacks.believer import Believer, Remembered
from fl.attacks.shadow_ues import ROAMING, SPEED_MPS, Population
from fl.tracking.belief import (
    Belief,
    Memory,
    compute_probability_within,
    find_geometric_medians_m,
    refine_places,
)
from fl.tracking.chain import PARTS, Chain, Habits, Motion, blur_maps, fit_weights
from fl.tracking.history import NEVER, classify_hours
from fl.tracking.place_grid import PlaceGrid
from fl.tracking.population import POPULATIONS, Everywhere, PopulationPrior
from fl.types import Estimates, Metrics, Public, RoundContext
from netsim.columns import frozen, look_up_or_nan, no_ints
from netsim.geometry import Area
from netsim.part import Fraction, Positive
from netsim.rng import Rng
from netsim.units import BoolArray, Float32Array, IntArray

_RELEARNT = tuple(2**k for k in range(4, 13))
"""looks after which motion is learnt again from the whole past: one step hardly tells staying from
a short way"""


@frozen
class TrackerState(Remembered):
    """sender (k,) ascending : who is followed now; p (k, G) : what the filter believes of each;
    habits : what is known of their motion; memory : whether it helps.
    """

    sender: IntArray = field(default_factory=no_ints)
    p: Float32Array = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float32))
    habits: Habits = field(default_factory=Habits.empty)
    memory: Memory = field(default_factory=Memory)

    @property
    def name(self) -> IntArray:
        """The names (k,) of those that are followed."""
        return self.lifetimes.name[self.sender]

    def select(self, rows: BoolArray) -> "TrackerState":
        """Select some of those (k,) that it follows."""
        return replace(
            self, sender=self.sender[rows], p=self.p[rows], habits=self.habits.select(rows)
        )


class Tracker(Believer, kind="tracker"):
    r"""Follows UEs over a grid of places: a Bayesian filter, and a smoother once all rounds are
    known.

    With e_t(j) how likely the estimates of round t are of a UE in cell j
    (`fl.tracking.error_model`), and K how UEs move within a round (`fl.tracking.chain`: stay,
    Gaussians of 150 to 2500 m, jump),

        a_t(j) ~ e_t(j) sum_i a_{t-1}(i) K(i, j)                          (filter: what is known
        now)
        p_t(i) ~ a_t(i) sum_j K(i, j) e_{t+1}(j) b_{t+1}(j)               (smoother: what is known
        afterwards)

    A round without an estimate of a UE moves it only. How wide estimates scatter is learnt on UEs
    that the attacker makes up, unless `sigma_m` is given; how a UE moves begins as theirs, and is
    learnt from its own estimates (EM). With `own_places` a UE that jumps returns to where it was
    believed to be at this time of day: in the filter in past rounds, in the smoother in all. A part
    of the error that persists over rounds (`bias_m`) widens beliefs, and no number of rounds
    removes it.

    Estimates: `centroid`, the place of least expected distance, with the probability within
    `hit_radius_m` as weight and the status `ok`, `moved on` (no estimate in this round) or
    `unknown`; `plain`, what the tracked attack says itself. Models of a UE count together. What is
    estimated of a sum, or of a published model, speaks of every UE in it.
    """

    cell_m: float = Field(50.0, ge=0.1, le=1e6)
    """largest side of a cell, m; half of hit_radius_m makes stated probabilities right, a larger
    one is faster"""
    hit_radius_m: Positive = 100.0
    """distance of which estimates state the probability, m"""
    max_speed_mps: float = Field(30.0, gt=0, le=1000)
    """no Gaussian of motion is wider than half the way at this speed in a round, m/s"""
    own_places: bool = False
    """jump back to places of one's own"""
    population: Annotated[PopulationPrior, POPULATIONS] = Everywhere()
    """where people are, as far as the attacker knows beforehand: where jumps end, and where UEs
    begin"""
    roaming: Fraction | None = None
    """share of the UEs made up that travel all the time; the others have homes and workplaces;
    none: 0.2, then as estimates of real UEs have it"""
    speed_mps: float | None = Field(None, gt=0, le=1000)
    """how fast they travel, m/s; none: 8, then as estimates of real UEs have it"""
    reference = (
        "Shokri et al., Quantifying Location Privacy, S&P 2011, Section III (tracking attack)"
    )
    example = {"kind": "tracker", "shadow_ues": 8, "cell_m": 200.0}

    @property
    def reads_the_city(self) -> bool:  # type: ignore[override]
        return self.population.reads_city

    def check(self, public: Public, n_ue: int) -> None:
        """BadInput where n_ue maps are too many, or the population is unknown."""
        self.of.check(public, n_ue)
        self.population.compute_probability(self._build_grid(public.area, n_ue), public)

    def start(self) -> TrackerState:
        return TrackerState(self.of.start())

    def run(self, view: View, facts: RoundContext, state: TrackerState, rng: Rng) -> Attacked:
        chain = self._build_chain(facts, len(np.union1d(view.ue, state.name)))
        population = Population(
            chain.grid,
            self.population.compute_probability(chain.grid, facts.public),
            ROAMING if self.roaming is None else self.roaming,
            self.speed_mps or SPEED_MPS,
            match_roaming=self.roaming is None,
            match_speed=self.speed_mps is None,
        )
        estimates, state = self.remember_estimates(view, facts, state, population, rng)
        state = self._filter(chain, state)
        if len(state.history) in _RELEARNT and len(state.sender):
            past = state.history.select_senders(state.sender, NEVER)
            learnt = chain.learn_habits(
                past, state.sender, self._collect_habits(chain, state, state.sender)
            )
            state = replace(state, habits=replace(state.habits, count=learnt.count))
        return self._answer(view, facts, estimates, chain.grid, state)

    def _filter(self, chain: Chain, state: TrackerState) -> TrackerState:
        """After the last look of the history; a new UE begins with the prior."""
        history = state.history
        look = len(history) - 1
        alive = state.lifetimes.is_alive
        state = state.select(alive[state.sender])
        sender = np.flatnonzero(alive)
        is_old = np.isin(sender, state.sender)
        habits = self._collect_habits(chain, state, sender)
        p = np.repeat(chain.prior, len(sender), axis=0)
        p[is_old] = state.p.reshape(-1, *p.shape[1:])
        newest = history.select_newest()
        z_m = look_up_or_nan(newest.sender, newest.z_m, sender)
        emission = (
            history.looks.errors[look].remove_persistent_error().compute_emission(z_m, chain.grid)
        )
        classes = history.classify_steps(look, chain.round_s)
        for is_chosen, steps in ((is_old, classes), (~is_old, [])):
            chosen_habits = habits.select(is_chosen)
            p[is_chosen], uses = chain.filter_beliefs(
                p[is_chosen], chosen_habits, steps, emission.select(is_chosen)
            )
            habits.count[is_chosen] += uses
        if classes or look == 0:
            habits.add_belief(classify_hours(history.looks.week_s[[look]], chain.round_s)[0], p)
        p = p.reshape(len(sender), len(chain.grid))
        return replace(state, sender=sender, p=p, habits=habits)

    def _answer(
        self,
        view: View,
        facts: RoundContext,
        estimates: Estimates,
        grid: PlaceGrid,
        state: TrackerState,
    ) -> Attacked:
        """The answers about every target, then what the tracked attack says itself; and whether
        memory helps.
        """
        ues = np.intersect1d(view.ue, state.name)
        sender = state.lifetimes.find_senders(ues)
        history = state.history
        bias_m = history.select_error_model(facts.round).bias_m
        believed = blur_maps(state.p[np.searchsorted(state.sender, sender)], grid, bias_m)
        place_m = refine_places(
            find_geometric_medians_m(believed, grid),
            grid,
            history.collect_points_m(facts.round, sender),
        )
        alone_m = history.collect_points_m(facts.round, sender, alone=True)[:, 0]
        state = replace(state, memory=state.memory.add_round(facts.round, ues, place_m, alone_m))
        if state.memory.is_misleading:
            place_m = np.where(np.isfinite(alone_m), alone_m, place_m)
        weight = np.nan_to_num(
            look_up_or_nan(
                ues, compute_probability_within(believed, grid, place_m, self.hit_radius_m), view.ue
            )
        )
        unheard = np.where(np.isin(view.ue, ues), "moved on", "unknown")
        named = state.lifetimes.name[history.select_newest().sender]
        status = np.where(np.isin(view.ue, named), "ok", unheard).tolist()
        tracked = Estimates.from_places(
            view.ue, view.model, "centroid", look_up_or_nan(ues, place_m, view.ue), weight, status
        )
        is_place = np.isin(estimates.what, ["centroid", "place", "answer"])
        plain = estimates.select(np.flatnonzero(is_place))
        plain = replace(plain, what=["plain"] * len(plain.ue))
        return Estimates.join([tracked, plain]), state

    def figures(self, state: TrackerState) -> Metrics:
        figures = self.summarise_errors(state.errors)
        used = state.habits.count.sum(axis=0)
        if used.sum() > 0:
            share = used / used.sum()
            figures |= {"stay_share": float(share[0]), "jump_share": float(share[-1])}
        return figures

    def belief(self, state: TrackerState, facts: RoundContext) -> Belief | None:
        if not len(state.sender):
            return None
        chain = self._build_chain(facts, len(state.sender))
        return self._build_belief(chain, state, facts.round, facts.time_s, state.sender, state.p)

    def smooth_beliefs(self, state: TrackerState, facts: RoundContext) -> Iterator[Belief]:
        """Beliefs about given-up names while they were followed: their motion is learnt from the
        beginning.
        """
        chain = self._build_chain(facts, len(state.sender))
        lives = state.lifetimes
        for group in lives.group_senders():
            history = state.history.select_senders(group, lives.gone[group].max())
            looks = history.looks
            habits = self._collect_habits(chain, state.select(np.isin(state.sender, group)), group)
            _, first = history.select_estimates(group)
            for rows, p in chain.smooth_beliefs(history, group, habits):
                sender = group[rows]
                # the last look of each round
                for look in np.flatnonzero(np.diff(looks.round, append=-1)).tolist():
                    round_ = int(looks.round[look])
                    is_followed = (first[rows] <= look) & (round_ < lives.gone[sender])
                    if not is_followed.any():
                        continue
                    flat = p[look, is_followed].reshape(-1, len(chain.grid))
                    yield self._build_belief(
                        chain, state, round_, float(looks.time_s[look]), sender[is_followed], flat
                    )

    def _build_belief(
        self,
        chain: Chain,
        state: TrackerState,
        round_: int,
        time_s: float,
        sender: IntArray,
        p: Float32Array,
    ) -> Belief:
        """What is believed of senders (k,) in a round, by their names: p (k, G) says where
        estimates show them, which the error that persists displaces.
        """
        alone = state.memory.is_misleading
        points_m = state.history.collect_points_m(round_, sender, alone)
        shown = blur_maps(p, chain.grid, state.history.select_error_model(round_).bias_m)
        names = state.lifetimes.name[sender]
        belief = Belief(
            round_, time_s, names, chain.grid, shown, chain.prior.reshape(-1), points_m, alone
        )
        return belief.select_ues(np.argsort(names))

    def _build_grid(self, area: Area, n_ue: int) -> PlaceGrid:
        return PlaceGrid.from_area(
            area, self.cell_m, n_ue * (2 + PARTS * self.own_places), self.label
        )

    def _build_chain(self, facts: RoundContext, n_ue: int) -> Chain:
        grid = self._build_grid(facts.public.area, n_ue)
        probability = self.population.compute_probability(grid, facts.public)
        prior = probability.astype(np.float32).reshape(1, grid.ny, grid.nx)
        return Chain(
            Motion.from_max_speed(grid, self.max_speed_mps, facts.round_s), prior, facts.round_s
        )

    def _collect_habits(self, chain: Chain, state: TrackerState, sender: IntArray) -> Habits:
        """Habits of senders (n,) ascending as learnt until now, which begin with the motion of
        shadow UEs, if any.
        """
        grid = chain.grid
        borrowed = fit_weights(
            state.errors.displacements_m,
            chain.motion.sigma_m,
            float(grid.cell_m.max()),
            grid.area.side_m,
        )
        habits = Habits.from_weights(len(sender), borrowed, grid, has_places=self.own_places)
        if not len(state.sender):
            return habits
        index = np.searchsorted(sender, state.sender)
        return habits.replace_rows(index, replace(state.habits, borrowed=habits.borrowed[index]))
