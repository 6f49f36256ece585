"""The round of a merge as the attacker plays it again: with UEs that it makes up, by all that is
public.
"""

from dataclasses import dataclass, replace

import numpy as np

from fl.attacks.base import View
from fl.round.collect import curate
from fl.round.learn import protect_updates
from fl.round.merge import aggregate_updates
from fl.round.send import add_decoder_noise
from fl.round.setup import PhaseDraws
from fl.round.state import Phase, States
from fl.round.uploads import Uploads
from fl.types import Local, Model, Received, RoundContext, State
from netsim.checkpoint import from_tree, to_tree
from netsim.radio.uplink import Channel
from netsim.rng import Rng
from netsim.units import IntArray


@dataclass(frozen=True)
class PublicReplica:
    """The real round of one merge, repeated with other data: the parts and their settings are
    public, and the models.

    UEs made up have budgets, memories and draws of their own. Their channels are those of UEs that
    were heard, drawn at random. uploads : those of the merge; base : the model that they begin
    from; states : what the real parts remember, of which only that of the server optimiser is read,
    which follows from published models; fresh : nothing, the server has memories of its own.
    """

    phase: Phase
    uploads: Uploads
    base: Model
    states: States
    fresh: bool = False

    @property
    def displacement_per_m(self) -> float | None:
        """Displacement by the last step of curation that moves places."""
        for step in reversed(self.phase.learning.curation):
            if step.displacement_per_m:
                return step.displacement_per_m
        return None

    def count_shadow_ues(self, n_wanted: int) -> int:
        """Number of shadow UEs: as wanted for single updates, whole groups for sums of groups, all
        for one sum.
        """
        threat = self.phase.learning.threat
        if threat.observes == "updates":
            return n_wanted
        observed = self.uploads.to_observed()
        together = max(len(np.unique(observed.updates.ue[observed.decoded])), 1)
        group = threat.secagg_group_size
        if group is None or together < 2 * group:
            return together
        return -(-n_wanted // group) * group

    def play(
        self, data: Local, state: State, rng: Rng, base: Model | None = None
    ) -> tuple[View, State]:
        """View of UEs with this data, numbered from 0, and the next states of their parts."""
        if base is not None:
            return replace(self, base=base, fresh=True).play(data, state, rng)
        learning = self.phase.learning
        name = self.phase.name
        draws = PhaseDraws(rng)
        n_ue, before = self._restore_states(data, state or {})
        states = {step.word: step.start(n_ue) for step in learning.curation}
        states |= {defense.word: defense.start(n_ue) for defense in learning.defenses}
        states["learner"] = learning.learner.start_ues(n_ue)
        if self.fresh:
            states[f"server_optimiser.{name}"] = learning.server_optimiser.start()
        states |= {word: from_tree(tree, states[word]) for word, tree in before.items()}
        facts = replace(self.phase.facts, channel=None)
        data, _ = curate(learning, data, facts, states, draws)
        channel = self._draw_channel(data.ue, draws.derive_rng("channel"))
        facts = replace(facts, channel=channel)
        learnt, states["learner"] = learning.learner.train_with_state(
            self.base, name, data, states["learner"], draws.derive_rng("learner")
        )
        updates, _ = protect_updates(learning, learnt, data, facts, states, draws)
        if channel is not None:
            updates = add_decoder_noise(updates, channel, draws.derive_rng("uplink"))
        received = Received(updates, np.ones(len(updates.ue), dtype=np.bool_))
        view = self._grant_view(received, data, facts, states, draws.derive_rng("threat"))
        return view, {"n_ue": n_ue, "parts": to_tree(states)}

    def _draw_channel(self, ue: IntArray, rng: Rng) -> Channel | None:
        """Draw for each UE (n,) the uplink of a row that was received; None where none was."""
        heard = np.flatnonzero(self.uploads.to_received().decoded)
        if not len(heard):
            return None
        pick = (rng.uniform("of", ue) * len(heard)).astype(np.int64)
        return self.uploads.channel.select(heard[pick])

    def _restore_states(self, data: Local, state: State) -> tuple[int, State]:
        """Capacity of the parts in UEs, and their states; more UEs than before start from scratch.

        As many as are in a sum may take part, which is another number in each round.
        """
        needed = int(data.ue.max(initial=0)) + 1
        if state and needed <= state["n_ue"]:
            return state["n_ue"], state["parts"]
        if self.phase.learning.threat.observes == "updates":
            return needed, {}
        return max(needed, self.phase.n_ue), {}

    def _grant_view(
        self, received: Received, data: Local, facts: RoundContext, states_of_play: States, rng: Rng
    ) -> View:
        """View that the threat grants of received rows."""
        learning = self.phase.learning
        name = self.phase.name
        base = self.base
        n = len(received.updates.ue)
        weights = np.ones(n)
        after = base
        if learning.threat.observes != "updates":
            start = learning.aggregation.start()
            aggregation = learning.aggregation.receive_disclosed(data, facts, start)
            states = self.states | states_of_play | {"aggregation": aggregation}
            streams = replace(self.phase.streams, phase=f"{name}.{rng.purpose}")
            bases = {self.phase.version: base}
            phase = replace(self.phase, facts=facts, model=base, bases=bases, streams=streams)
            fresh = np.zeros(n, dtype=np.int64)
            weights, after, _ = aggregate_updates(phase, received, fresh, states)
            if self.fresh:
                states_of_play |= {word: states[word] for word in states_of_play}
        models = (base, after)
        return learning.threat.grant_view(
            learning.learner, name, received, weights, received.decoded, models, rng
        )
