"""The round of a merge as the attacker plays it again: with UEs that it makes up, by all that is
public.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fl.attacks.base import View
from fl.round.collect import curated
from fl.round.learn import protected
from fl.round.merge import aggregated
from fl.round.send import add_decoder_noise
from fl.round.setup import PhaseDraws
from fl.round.state import Phase, States
from fl.round.uploads import Uploads
from fl.types import Local, Model, Received, RoundContext, State
from netsim.checkpoint import from_tree, to_tree
from netsim.rng import Rng

# of what the parts remember
_ROOM = "n_ue"
_OF_PARTS = "parts"


@dataclass(frozen=True)
class PublicReplica:
    """The real round of one merge, repeated with other data: the parts and their settings are
    public, and the models.

    UEs made up have budgets, memories and draws of their own. Their channels are those of UEs that
    were heard, drawn at random. uploads : those of the merge; base : the model that they begin
    from; states : what the real parts remember, of which only that of the server optimiser is read,
    which follows from published models; fresh : nothing, the server has memories of its own.
    """

    at: Phase
    uploads: Uploads
    base: Model
    states: States
    fresh: bool = False

    @property
    def displacement_per_m(self) -> float | None:
        """Displacement by the last step of curation that moves places."""
        return next(
            (
                s.displacement_per_m
                for s in reversed(self.at.learning.curation)
                if s.displacement_per_m
            ),
            None,
        )

    def made_up(self, wanted: int) -> int:
        """Number of shadow UEs: as wanted for single updates, whole groups for sums of groups, all
        for one sum.
        """
        threat = self.at.learning.threat
        heard = self.uploads.observed()
        if threat.observes == "updates":
            return wanted
        together = max(len(np.unique(heard.updates.ue[heard.decoded])), 1)
        group = threat.secagg_group_size
        if group is None or together < 2 * group:
            return together
        return -(-wanted // group) * group

    def play(
        self, data: Local, state: State, rng: Rng, base: Model | None = None
    ) -> tuple[View, State]:
        """View of UEs with this data, numbered from 0, and the next states of their parts."""
        if base is not None:
            return replace(self, base=base, fresh=True).play(data, state, rng)
        learning = self.at.learning
        draws = PhaseDraws(rng)
        room, before = self._room(data, state or {})
        known = {step.word: step.start(room) for step in learning.curation}
        known |= {defense.word: defense.start(room) for defense in learning.defenses}
        if self.fresh:
            known[f"server_optimiser.{self.at.name}"] = learning.server_optimiser.start()
        known |= {word: from_tree(tree, known[word]) for word, tree in before.items()}
        heard = np.flatnonzero(self.uploads.received().decoded)
        channel = None
        data, _ = curated(learning, data, replace(self.at.facts, channel=None), known, draws)
        if len(heard):
            pick = (draws.at("channel").uniform("of", data.ue) * len(heard)).astype(np.int64)
            channel = self.uploads.channel.select(heard[pick])
        facts = replace(self.at.facts, channel=channel)
        made = learning.learner.local(self.base, self.at.name, data, draws.at("learner"))
        updates, _ = protected(learning, made, data, facts, known, draws)
        if channel is not None:
            updates = add_decoder_noise(updates, channel, draws.at("uplink"))
        got = Received(updates, np.ones(len(updates.ue), dtype=np.bool_))
        return self._seen(got, data, facts, known, draws.at("threat")), {
            _ROOM: room,
            _OF_PARTS: to_tree(known),
        }

    def _room(self, data: Local, state: State) -> tuple[int, State]:
        """Capacity of the parts in UEs, and their states; more UEs than before start from scratch.

        As many as are in a sum may take part, which is another number in each round.
        """
        needed = int(data.ue.max(initial=0)) + 1
        if state and needed <= state[_ROOM]:
            return state[_ROOM], state[_OF_PARTS]
        return needed if self.at.learning.threat.observes == "updates" else max(
            needed, self.at.n_ue
        ), {}

    def _seen(
        self, got: Received, data: Local, facts: RoundContext, known: States, rng: Rng
    ) -> View:
        """View that the threat grants of received rows."""
        learning = self.at.learning
        at = self.at
        n = len(got.updates.ue)
        every = np.ones(n, dtype=np.bool_)
        weights = np.ones(n)
        after = self.base
        if learning.threat.observes != "updates":
            aggregation = learning.aggregation.receive_disclosed(
                data, facts, learning.aggregation.start()
            )
            states = self.states | known | {"aggregation": aggregation}
            streams = replace(at.streams, phase=f"{at.name}.{rng.purpose}")
            phase = replace(
                at, facts=facts, model=self.base, bases={at.version: self.base}, streams=streams
            )
            weights, after, _ = aggregated(phase, got, np.zeros(n, dtype=np.int64), states)
            if self.fresh:
                known |= {word: states[word] for word in known}
        return learning.threat.view(
            learning.learner, at.name, got, weights, every, (self.base, after), rng
        )
