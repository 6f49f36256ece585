"""Views of an attacker at a merge, and its attacks on them (step l)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fl.attacks.base import View
from fl.pseudonyms.names import Names, asked
from fl.round.merge import Batch, Merge, Merging
from fl.round.replica import PublicReplica
from fl.round.state import Attacks, PartStates
from fl.types import Estimates


def attack(at: Merging, batch: Batch, merged: Merge, states: PartStates) -> tuple[Attacks, PartStates]:
    """Run all attacks on the views that the threat grants.

    Single updates are attacked group by group of those that began from the same model, the oldest first. Attacks see
    and say names; what they said is translated afterwards.
    """
    seen = _views(at, batch, merged, states)
    names = _named(at, batch, seen, states)
    views = [view.renamed(names.now[view.ue]) for view in seen] if at.setup.learning.threat.renames else seen
    estimates: dict[str, list[Estimates]] = {a.label: [] for a in at.setup.learning.attacks}
    attacks, self_tests = dict(states.attacks), dict[str, float | None]()
    for i, view in enumerate(views):
        for each in at.setup.learning.attacks:
            label, rng = each.label, at.streams.attack(each.label)
            said, attacks[label] = each.run(view, at.facts, attacks[label], rng)
            estimates[label].append(names.translated(said) if at.setup.learning.threat.renames else said)
            if at.setup.self_tests and at.setup.learning.threat.can_train and i == len(views) - 1:
                self_tests[label] = each.self_test(view, at.facts, rng)
    joined = {label: some[0] if len(some) == 1 else Estimates.join(some) for label, some in estimates.items()}
    beliefs = {a.label: a.belief(attacks[a.label], at.facts) for a in at.setup.learning.attacks}
    held = {label: names.of_ues(belief) for label, belief in beliefs.items() if belief is not None}
    return Attacks(seen[-1], joined, held, self_tests), replace(states, attacks=attacks, names=names)


def _named(at: Merging, batch: Batch, views: list[View], states: PartStates) -> Names:
    """Names of all UEs that the attacker sees: those of the time at which they were asked, in all phases of a round."""
    learning = at.setup.learning
    if not learning.threat.renames:
        return states.names
    ue = np.unique(np.concatenate([view.ue for view in views]))
    _, first = np.unique(batch.heard.updates.ue, return_index=True)
    asked_s = np.full(len(ue), at.facts.time_s)
    if not learning.server.in_rounds:
        asked_s = batch.timing.requested_s[first][np.searchsorted(batch.heard.updates.ue[first], ue)]
    rng = at.setup.streams.at("pseudonyms")
    return asked(states.names, learning.threat.pseudonyms, ue, asked_s, at.facts.round, rng)


def _views(at: Merging, batch: Batch, merged: Merge, states: PartStates) -> list[View]:
    """Views of the attacker: of single updates one per model that they began from."""
    learning, threat = at.setup.learning, at.setup.learning.threat
    heard = batch.heard
    looks = bool(learning.attacks) or learning.membership is not None
    targeted = threat.after(heard.updates.ue, at.n_ue) & looks
    if threat.observes != "updates" or len(batch.bases) == 1:
        begun = batch.bases[0] if len(batch.bases) == 1 and threat.observes == "updates" else at.model
        groups = [(begun, targeted)]
    else:
        some = [(base, targeted & (batch.base == k)) for k, base in enumerate(batch.bases)]
        groups = [(base, mine) for base, mine in some if (mine & heard.decoded).any()] or some[-1:]
    draws, views = at.streams.at("threat"), list[View]()
    for base, mine in groups:
        models = (base, merged.model)
        view = threat.view(
            learning.learner, at.phase, heard, merged.weights, mine, models, draws, batch.timing, batch.group
        )
        replica = PublicReplica(at, batch, base, states) if threat.can_train else None
        views.append(replace(view, replica=replica, renames=threat.renames))
    return views
