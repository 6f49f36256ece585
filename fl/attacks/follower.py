"""How the attack `tracker` follows UEs from round to round: what its filter and its smoother believe, and what it
learns of how they move.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fl.attacks.base import recall
from fl.attacks.tracker_state import TrackerState
from fl.tracking.belief import Belief
from fl.tracking.emission import Emission
from fl.tracking.filter import RoundOfMotion, step
from fl.tracking.habits import Habits, hour_class, weights_of
from fl.tracking.history import History
from fl.tracking.place_grid import PlaceGrid
from fl.tracking.smoother import Chain, learnt_habits, smoothed
from netsim.units import IntArray


@dataclass(frozen=True)
class Follower:
    """chain : motion, where jumps end and UEs begin, the length of rounds; hours : whether motion is learnt for each
    hour; own_places : whether UEs jump back to places of their own.
    """

    chain: Chain
    hours: bool
    own_places: bool

    @property
    def grid(self) -> PlaceGrid:
        """The places that it tells apart."""
        return self.chain.motion.grid

    @property
    def _components(self) -> int:
        """Number of components of motion: to stay, Gaussians, to jump."""
        return len(self.chain.motion.sigma_m) + 2

    def filtered(self, state: TrackerState, week_s: float) -> TrackerState:
        """After the last look of the history, at a time of the week; a new UE begins with the prior."""
        look = len(state.history) - 1
        mine = state.history.look == look
        ue, z_m = state.history.ue[mine], state.history.z_m[mine]
        state = state.only(state.lifetimes.follows(state.ue))
        every = np.union1d(state.ue, ue)
        known, old = self._with_rows(state, every), np.isin(every, state.ue)
        now, seen_m = state.history.errors[look].without_bias(), recall(ue, z_m, every)
        classes = state.history.classes(look, self.chain.round_s)
        emission = Emission.of(now, seen_m, self.grid)
        motion, prior, habits = self.chain.motion, self.chain.prior, self._habits(known)
        legs = [RoundOfMotion(habits.weight(c), known.own.target(c, prior)) for c in classes]
        p = known.p.reshape(-1, self.grid.ny, self.grid.nx)
        share, log_ratio, new = np.zeros((len(old), self._components)), np.zeros(len(old)), np.empty_like(p)
        for some, way in ((old, legs), (~old, [])):
            rows = np.flatnonzero(some)
            done = step(motion, p[rows], [leg.take(rows) for leg in way], emission.select(rows))
            new[rows], log_ratio[rows], share[rows] = done.p, done.log_ratio, done.share
        own, at = known.own, int(hour_class(np.array([week_s]), self.chain.round_s)[0])
        if classes or look == 0:
            own = own.plus(at, new)
        return replace(
            known,
            p=new.reshape(len(old), len(self.grid)),
            count=habits.plus(classes[-1], share).count if len(classes) == 1 else known.count,
            own=own,
            log_likelihood=known.log_likelihood + log_ratio,
        )

    def relearnt(self, state: TrackerState) -> Habits:
        """From all rounds until now, by what each tells of the others: one step alone hardly tells staying from a
        short way.
        """
        lives = state.lifetimes
        past = lives.past(state.history, np.flatnonzero(lives.alive))
        return learnt_habits(self.chain, past, state.ue, self._habits(state), state.own)[0]

    def smoothed(self, state: TrackerState, ue: IntArray, history: History) -> Iterator[Belief]:
        """Smoothed beliefs of UEs (n,) ascending, some of which the filter knows."""
        state = self._with_rows(state, ue)
        return smoothed(self.chain, history, ue, self._habits(state), state.own)

    def _with_rows(self, state: TrackerState, every: IntArray) -> TrackerState:
        """With a row for every UE (n,) ascending."""
        return state.with_rows(every, self.chain.prior, self._components, self.hours, self.own_places)

    def _habits(self, state: TrackerState) -> Habits:
        """Habits learnt until now, beginning with the motion of UEs that the attacker has made up, or of none."""
        widest_m = float(self.grid.cell_m.max())
        borrowed = weights_of(state.errors.displacements_m, self.chain.motion.sigma_m, widest_m, self.grid.area.side_m)
        return Habits(state.count, borrowed)
