"""Step k of a round: the attacks on a merge, each of which sees exactly the view that the threat
grants.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fl.attacks.base import View
from fl.round.replica import PublicReplica
from fl.round.state import Merge, Phase, States
from fl.round.uploads import Uploads
from fl.tracking.pseudonyms import Names, asked
from fl.types import WORDS, Estimates, Model
from netsim.errors import BadInput
from netsim.units import BoolArray, IntArray


def attack(phase: Phase, merge: Merge, states: States) -> Merge:
    """A merge with what all attacks make of the views that the threat grants.

    Single updates are attacked group by group of those that began from the same model, the oldest
    first. Attacks see and say names; what they said is translated afterwards. states: changed in
    place.
    """
    learning = phase.learning
    threat = phase.learning.threat
    views = _views(phase, merge, states)
    found = replace(merge, view=views[-1], estimates={}, beliefs={}, self_tests={})
    names = states["names"] = _named(phase, merge.uploads, views, states["names"])
    if threat.renames:
        views = [view.renamed(names.now[view.ue]) for view in views]
    for each in learning.attacks:
        word = each.word
        rng = phase.streams.at(word)
        said = list[Estimates]()
        for view in views:
            some, states[word] = each.run(view, phase.facts, states[word], rng)
            if unknown := set(some.what).difference(WORDS):
                raise BadInput(
                    f"attack {each.label}: estimates say {min(unknown)!r}, which no measure "
                    f"knows; known words are {', '.join(WORDS)}"
                )
            said.append(names.translated(some) if threat.renames else some)
        found.estimates[each.label] = Estimates.join(said)
        if phase.setup.self_tests and threat.can_train:
            found.self_tests[each.label] = each.self_test(views[-1], phase.facts, rng)
        belief = each.belief(states[word], phase.facts)
        if belief is not None:
            found.beliefs[each.label] = names.of_ues(belief)
    return found


def _named(phase: Phase, uploads: Uploads, views: list[View], names: Names) -> Names:
    """Names of all UEs that the attacker sees: those of the time at which they were asked, in all
    phases of a round.
    """
    learning = phase.learning
    if not learning.threat.renames:
        return names
    ue = np.unique(np.concatenate([view.ue for view in views]))
    asked_s = np.full(len(ue), phase.facts.time_s)
    if not learning.server.in_rounds:
        first = uploads.first
        asked_s = uploads.asked_s[first][np.searchsorted(uploads.ue[first], ue)]
    rng = phase.setup.streams.at("pseudonyms")
    return asked(names, learning.threat.pseudonyms, ue, asked_s, phase.facts.round, rng)


def _views(phase: Phase, merge: Merge, states: States) -> list[View]:
    """Views of the attacker: of single updates one per model that they began from."""
    learning = phase.learning
    threat = phase.learning.threat
    uploads = merge.uploads
    observed = uploads.observed()
    looks = bool(learning.attacks) or learning.membership is not None
    targeted = threat.after(uploads.ue, phase.n_ue) & looks
    groups = [(phase.model, targeted)]
    if threat.observes == "updates":
        groups = _by_base(phase, uploads.version, observed.decoded, targeted)
    draws = phase.streams.at("threat")
    timing = uploads.timing(phase.version)
    views = list[View]()
    for base, mine in groups:
        models = (base, merge.model)
        view = threat.view(
            learning.learner,
            phase.name,
            observed,
            uploads.weight,
            mine,
            models,
            draws,
            timing,
            uploads.group,
        )
        replica = PublicReplica(phase, uploads, base, states) if threat.can_train else None
        views.append(replace(view, replica=replica, renames=threat.renames))
    return views


def _by_base(
    phase: Phase, version: IntArray, decoded: BoolArray, targeted: BoolArray
) -> list[tuple[Model, BoolArray]]:
    """Each model that updates began from, and which of the targeted rows (n,) did, where any of
    these was heard.
    """
    versions = np.unique(version).tolist() or [phase.version]
    groups = [(phase.bases[v], targeted & (version == v)) for v in versions]
    return [(base, mine) for base, mine in groups if (mine & decoded).any()] or groups[-1:]
