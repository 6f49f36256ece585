"""Steps i, j and l of a round: the merge of received updates, what defenses see of it, and the attacks on it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fl.attacks.base import View
from fl.pseudonyms import Names, asked
from fl.round.collect import curated
from fl.round.send import decoded, protected
from fl.round.setup import PhaseDraws
from fl.round.state import Attacks, Merged, Phase, States, Sums
from fl.round.uploads import Uploads
from fl.types import WORDS, AnySpend, Estimates, Local, Model, Received, RoundContext, State
from netsim.checkpoint import from_tree, to_tree
from netsim.columns import frozen, row_id
from netsim.errors import BadInput
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray


@frozen
class Batch:
    """Rows (n,) that are merged together, by increasing (ue, model).

    got: as the server received them; heard: as the attacker did, the same where it is the server. group (n,): whose
    updates are summed before the server sees them, None where nothing is summed.
    """

    uploads: Uploads
    got: Received
    heard: Received
    group: IntArray | None = None


@frozen
class MergedModel:
    """Result of a merge: weights of the received rows (n,), the new model, and spends of the server's noise."""

    weights: FloatArray
    model: Model
    spends: list[AnySpend]


def merged(phase: Phase, uploads: Uploads, times_s: tuple[float, float], states: States) -> Merged:
    """Merge uploads into the next model, and attack that; times_s: when each of both is done."""
    facts = replace(phase.facts, channel=uploads.channel)
    phase, learning = replace(phase, facts=facts), phase.learning
    batch, sums = in_groups(phase, uploads)
    stale = phase.version - uploads.version
    # i  merge, then the defenses' server half in reverse order
    # of single updates the server drops what is not finite; in a secure sum the zeros sent instead carry their noise
    kept = uploads.finite | learning.noise_in_shares
    got = replace(batch.got, decoded=batch.got.decoded & kept)
    step = merge(phase, got, stale, states)
    # j  observe what was published
    for defense in learning.defenses:
        word = defense.word
        states[word] = defense.observe(batch.got, step.weights, facts, states[word])
    # l  attack: exactly the view that the threat grants
    attacks = attack(phase, batch, step, states)
    uploads = replace(uploads, weight=step.weights, staleness=np.where(batch.got.decoded, stale, -1))
    at_arrival = not learning.server.in_rounds and learning.threat.observes == "updates"
    return Merged(phase.name, uploads, step.model, step.spends, *times_s, at_arrival, sums, attacks)


def in_groups(phase: Phase, uploads: Uploads) -> tuple[Batch, Sums | None]:
    """Rows as secure aggregation leaves them: those of a group that is not opened are as if they had not come.

    Groups are those of all UEs that sent, before the uplink loses any of them. None where nothing is summed.
    """
    threat, got, overheard = phase.learning.threat, uploads.received(), uploads.overheard
    if not threat.sums:
        heard = got
        if overheard is not None and overheard.channel is not None and overheard.updates is not None:
            heard = Received(overheard.updates, overheard.channel.decoded)
        return Batch(uploads, got, heard), None
    company = phase.setup.streams.at("threat.company")
    group = threat.grouped(uploads.ue, phase.n_ue, phase.streams.at("threat"), company)
    number, of_row = np.unique(group, return_inverse=True)
    of_row = of_row.reshape(-1)
    first = uploads.first
    came = first[got.decoded[first]]
    ues, came_of = (np.bincount(of_row[rows], minlength=len(number)) for rows in (first, came))
    least = threat.secagg_threshold or 1
    opened = came_of >= least
    there = opened[of_row]
    if phase.learning.noise_in_shares:  # of each model as many shares must have come
        _, of_sum = np.unique(row_id(of_row, uploads.made.model), return_inverse=True)
        of_sum = of_sum.reshape(-1)
        there &= np.bincount(of_sum, weights=got.decoded)[of_sum] >= least
    got = replace(got, decoded=got.decoded & there)
    return Batch(uploads, got, got, group), Sums(number, ues, came_of, opened)


def merge(phase: Phase, got: Received, stale: IntArray, states: States) -> MergedModel:
    """Weights, sum, the server's half of all defenses in reverse order, its optimiser, and the new model.

    Without rounds weights fall with staleness (n,), as the server's policy says.
    """
    learning, facts, server = phase.learning, phase.facts, phase.learning.server
    weights, states["aggregation"] = learning.aggregation.weights(got, facts, states["aggregation"])
    share = server.staleness_weight(stale)
    weights = weights * share
    total = got.updates.weighted_sum(weights, phase.setup.public.n_model)
    if server.mixes_models:
        total = total + _way_back(phase, got, stale, share)
    spends = list[AnySpend]()
    for defense in reversed(learning.defenses):
        word = defense.word
        rng = phase.streams.at(f"{word}.server")
        total, states[word], spent = defense.finish(total, len(got.updates.ue), facts, states[word], rng)
        spends += spent
    change = _change(phase, total, got.updates.model[weights != 0], states)
    return MergedModel(weights, learning.learner.step(phase.model, phase.name, change), spends)


def _way_back(phase: Phase, got: Received, stale: IntArray, share: FloatArray) -> FloatArray:
    """alpha_tau (w_t0 - w) of each row that was received, summed per model: (n_model, d)."""
    now, total = phase.model.parameters, np.zeros_like(phase.model.parameters)
    for i in np.flatnonzero(got.decoded):
        m = got.updates.model[i]
        total[m] += share[i] * (phase.bases[phase.version - int(stale[i])].parameters[m] - now[m])
    return total


def _change(phase: Phase, total: FloatArray, contributed: IntArray, states: States) -> FloatArray:
    """Change of the model by the server optimiser; `contributed`: the models of the rows that count."""
    learning, word = phase.learning, f"server_optimiser.{phase.name}"
    came = np.isin(np.arange(len(total)), contributed) | learning.hides_who_came
    change, states[word] = learning.server_optimiser.change(total, came, states[word])
    return change


def attack(phase: Phase, batch: Batch, step: MergedModel, states: States) -> Attacks:
    """Run all attacks on the views that the threat grants.

    Single updates are attacked group by group of those that began from the same model, the oldest first. Attacks see
    and say names; what they said is translated afterwards.
    """
    learning, threat = phase.learning, phase.learning.threat
    views = _views(phase, batch, step, states)
    last = views[-1]
    names = states["names"] = _named(phase, batch, views, states["names"])
    if threat.renames:
        views = [view.renamed(names.now[view.ue]) for view in views]
    found = Attacks(last)
    for each in learning.attacks:
        word = each.word
        rng, said = phase.streams.at(word), list[Estimates]()
        for view in views:
            some, states[word] = each.run(view, phase.facts, states[word], rng)
            if unknown := set(some.what).difference(WORDS):
                raise BadInput(
                    f"attack {each.label}: estimates say {min(unknown)!r}, which no measure knows; known words are "
                    f"{', '.join(WORDS)}"
                )
            said.append(names.translated(some) if threat.renames else some)
        found.estimates[each.label] = Estimates.join(said)
        if phase.setup.self_tests and threat.can_train:
            found.self_tests[each.label] = each.self_test(views[-1], phase.facts, rng)
        belief = each.belief(states[word], phase.facts)
        if belief is not None:
            found.beliefs[each.label] = names.of_ues(belief)
    return found


def _named(phase: Phase, batch: Batch, views: list[View], names: Names) -> Names:
    """Names of all UEs that the attacker sees: those of the time at which they were asked, in all phases of a round."""
    learning, uploads = phase.learning, batch.uploads
    if not learning.threat.renames:
        return names
    ue = np.unique(np.concatenate([view.ue for view in views]))
    asked_s = np.full(len(ue), phase.facts.time_s)
    if not learning.server.in_rounds:
        first = uploads.first
        asked_s = uploads.asked_s[first][np.searchsorted(uploads.ue[first], ue)]
    rng = phase.setup.streams.at("pseudonyms")
    return asked(names, learning.threat.pseudonyms, ue, asked_s, phase.facts.round, rng)


def _views(phase: Phase, batch: Batch, step: MergedModel, states: States) -> list[View]:
    """Views of the attacker: of single updates one per model that they began from."""
    learning, threat, heard = phase.learning, phase.learning.threat, batch.heard
    looks = bool(learning.attacks) or learning.membership is not None
    targeted = threat.after(heard.updates.ue, phase.n_ue) & looks
    groups = [(phase.model, targeted)]
    if threat.observes == "updates":
        groups = _by_base(phase, batch, targeted)
    draws, timing = phase.streams.at("threat"), batch.uploads.timing(phase.version)
    views = list[View]()
    for base, mine in groups:
        models = (base, step.model)
        view = threat.view(learning.learner, phase.name, heard, step.weights, mine, models, draws, timing, batch.group)
        replica = PublicReplica(phase, batch, base, states) if threat.can_train else None
        views.append(replace(view, replica=replica, renames=threat.renames))
    return views


def _by_base(phase: Phase, batch: Batch, targeted: BoolArray) -> list[tuple[Model, BoolArray]]:
    """Each model that updates began from, and which of the targeted rows (n,) did, where any of these was heard."""
    version = batch.uploads.version
    versions = np.unique(version).tolist() or [phase.version]
    groups = [(phase.bases[v], targeted & (version == v)) for v in versions]
    return [(base, mine) for base, mine in groups if (mine & batch.heard.decoded).any()] or groups[-1:]


_ROOM, _OF_PARTS = "n_ue", "parts"  # of what the parts remember


@dataclass(frozen=True)
class PublicReplica:
    """The real round of one merge, repeated with other data: the parts and their settings are public, and the models.

    UEs made up have budgets, memories and draws of their own. Their channels are those of UEs that were heard, drawn at
    random. base : the model that they begin from; states : what the real parts remember, of which only that of the
    server optimiser is read, which follows from published models.
    """

    at: Phase
    batch: Batch
    base: Model
    states: States

    @property
    def displacement_per_m(self) -> float | None:
        """Displacement by the last step of curation that moves places."""
        return next((s.displacement_per_m for s in reversed(self.at.learning.curation) if s.displacement_per_m), None)

    def made_up(self, wanted: int) -> int:
        """Number of shadow UEs: as wanted for single updates, whole groups for sums of groups, all for one sum."""
        threat, heard = self.at.learning.threat, self.batch.heard
        if threat.observes == "updates":
            return wanted
        together, group = max(len(np.unique(heard.updates.ue[heard.decoded])), 1), threat.secagg_group_size
        return together if group is None or together < 2 * group else -(-wanted // group) * group

    def play(self, data: Local, state: State, rng: Rng) -> tuple[View, State]:
        """View of UEs with this data, numbered from 0, and the next states of their parts."""
        learning, draws = self.at.learning, PhaseDraws(rng)
        room, before = self._room(data, state or {})
        known: States = {step.word: step.start(room) for step in learning.curation}
        known |= {defense.word: defense.start(room) for defense in learning.defenses}
        known |= {word: from_tree(tree, known[word]) for word, tree in before.items()}
        facts, channel, heard = self.at.facts, self.at.facts.channel, np.flatnonzero(self.batch.got.decoded)
        data, _ = curated(learning, data, replace(facts, channel=None), known, draws)
        if channel is not None:
            pick = (draws.at("channel").uniform("of", data.ue) * len(heard)).astype(np.int64)
            channel = channel.select(heard[pick]) if len(heard) else None
        facts = replace(facts, channel=channel)
        made = learning.learner.local(self.base, self.at.name, data, draws.at("learner"))
        updates, _ = protected(learning, made, data, facts, known, draws)
        if channel is not None:
            updates = decoded(updates, channel, draws.at("uplink"))
        got = Received(updates, np.ones(len(updates.ue), dtype=np.bool_))
        return self._seen(got, data, facts, known, draws.at("threat")), {_ROOM: room, _OF_PARTS: to_tree(known)}

    def _room(self, data: Local, state: State) -> tuple[int, State]:
        """Capacity of the parts in UEs, and their states; more UEs than before start from scratch.

        As many as are in a sum may take part, which is another number in each round.
        """
        needed = int(data.ue.max(initial=0)) + 1
        if state and needed <= state[_ROOM]:
            return state[_ROOM], state[_OF_PARTS]
        return needed if self.at.learning.threat.observes == "updates" else max(needed, self.at.n_ue), {}

    def _seen(self, got: Received, data: Local, facts: RoundContext, known: States, rng: Rng) -> View:
        """View that the threat grants of received rows."""
        learning, at, n = self.at.learning, self.at, len(got.updates.ue)
        every, weights, after = np.ones(n, dtype=np.bool_), np.ones(n), self.base
        if learning.threat.observes != "updates":
            aggregation = learning.aggregation.receive_disclosed(data, facts, learning.aggregation.start())
            states = self.states | known | {"aggregation": aggregation}
            streams = replace(at.streams, phase=f"{at.name}.replica")
            phase = replace(at, facts=facts, model=self.base, bases={at.version: self.base}, streams=streams)
            made = merge(phase, got, np.zeros(n, dtype=np.int64), states)
            weights, after = made.weights, made.model
        return learning.threat.view(learning.learner, at.name, got, weights, every, (self.base, after), rng)
