"""Replica of the training with shadow UEs, played by the attacker."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fl.attacks.base import View
from fl.round.merge import Batch, Merging, merge
from fl.round.state import PartStates
from fl.round.transmit import received
from fl.types import Local, Model, Received, RoundContext, State, Timing
from netsim.checkpoint import from_tree, to_tree
from netsim.rng import Rng
from netsim.units import IntArray

_ROOM, _OF_PARTS = "n_ue", "parts"  # of what the parts remember


@dataclass(frozen=True)
class PublicReplica:
    """The real round of one merge, repeated with other data: the parts and their settings are public, and the models.

    UEs made up have budgets, memories and draws of their own. Their channels are those of UEs that were heard, drawn at
    random. base : the model that they begin from; states : what the real parts remember, of which only that of the
    server optimiser is read, which follows from published models.
    """

    at: Merging
    batch: Batch
    base: Model
    states: PartStates

    @property
    def displacement_per_m(self) -> float | None:
        """Displacement by the last step of curation that moves places."""
        return next(
            (s.displacement_per_m for s in reversed(self.at.setup.learning.curation) if s.displacement_per_m), None
        )

    def made_up(self, wanted: int) -> int:
        """Number of shadow UEs: as wanted for single updates, whole groups for sums of groups, all for one sum."""
        threat, heard = self.at.setup.learning.threat, self.batch.heard
        if threat.observes == "updates":
            return wanted
        together, group = max(len(np.unique(heard.updates.ue[heard.decoded])), 1), threat.secagg_group_size
        return together if group is None or together < 2 * group else -(-wanted // group) * group

    def play(self, data: Local, state: State, rng: Rng) -> tuple[View, State]:
        """View of UEs with this data, numbered from 0, and the next states of their parts."""
        learning, phase = self.at.setup.learning, self.at.phase
        room, before = self._room(data, state or {})
        known = self._start(room)
        known |= {label: from_tree(tree, known[label]) for label, tree in before.items()}
        facts = replace(self.at.facts, channel=None)
        for step in learning.curation:
            label = f"curation.{step.label}"
            curated = step.apply(data, facts, known[label], _own(rng, label))
            data, known[label] = curated.local.nonempty(), curated.state
        facts = self._with_channels(facts, data.ue, rng)
        updates = learning.learner.local(self.base, phase, data, _own(rng, "learner"))
        bad = ~np.isfinite(updates.norm())
        if bad.any():
            updates = updates.scaled(np.where(bad, 0.0, 1.0), updates.bound)
        for defense in learning.defenses:
            label = f"defense.{defense.label}"
            updates, known[label], _ = defense.protect(updates, data, facts, known[label], _own(rng, label))
        got = Received(updates, np.ones(len(updates.ue), dtype=np.bool_))
        if facts.channel is not None:
            got = replace(received(updates, facts.channel, _own(rng, "uplink")), decoded=got.decoded)
        return self._seen(got, data, facts, known, _own(rng, "threat")), {_ROOM: room, _OF_PARTS: to_tree(known)}

    def _room(self, data: Local, state: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Capacity of the parts in UEs, and their states; more UEs than before start from scratch.

        As many as are in a sum may take part, which is another number in each round.
        """
        needed = int(data.ue.max(initial=0)) + 1
        if state and needed <= state[_ROOM]:
            return state[_ROOM], state[_OF_PARTS]
        return needed if self.at.setup.learning.threat.observes == "updates" else max(needed, self.at.n_ue), {}

    def _start(self, n_ue: int) -> dict[str, State]:
        """First states of curation and defenses."""
        learning = self.at.setup.learning
        curation = {f"curation.{step.label}": step.start(n_ue) for step in learning.curation}
        return curation | {f"defense.{defense.label}": defense.start(n_ue) for defense in learning.defenses}

    def _with_channels(self, facts: RoundContext, ue: IntArray, rng: Rng) -> RoundContext:
        """With channels of UEs (n,) drawn from those that were heard, where any was."""
        channel, heard = self.at.facts.channel, np.flatnonzero(self.batch.got.decoded)
        if channel is None or not len(heard):
            return facts
        pick = (_own(rng, "channel").uniform("of", ue) * len(heard)).astype(np.int64)
        return replace(facts, channel=channel.select(heard[pick]))

    def _seen(self, got: Received, data: Local, facts: RoundContext, known: dict[str, State], rng: Rng) -> View:
        """View that the threat grants of received rows."""
        learning, at, n = self.at.setup.learning, self.at, len(got.updates.ue)
        every, weights, after = np.ones(n, dtype=np.bool_), np.ones(n), self.base
        if learning.threat.observes != "updates":
            states = replace(
                self.states,
                aggregation=learning.aggregation.receive_disclosed(data, facts, learning.aggregation.start()),
                defenses={defense.label: known[f"defense.{defense.label}"] for defense in learning.defenses},
            )
            none = np.zeros(n, dtype=np.int64)
            timing = Timing(np.zeros(n), np.zeros(n), none - 1, np.zeros(n), none)
            batch = Batch(got, got, timing, (self.base,), none, every)
            streams = replace(at.streams, phase=f"{at.phase}.replica")
            made, _ = merge(replace(at, facts=facts, model=self.base, streams=streams), batch, states)
            weights, after = made.weights, made.model
        return learning.threat.view(learning.learner, at.phase, got, weights, every, (self.base, after), rng)


def _own(rng: Rng, word: str) -> Rng:
    """Draws of a part of the replica."""
    return replace(rng, purpose=f"{rng.purpose}.{word}")
