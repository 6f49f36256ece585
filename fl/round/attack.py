"""Step k of a round: the attacks on a merge, each of which sees exactly the view that the threat
grants.
"""

from dataclasses import replace

import numpy as np

from fl.attacks.base import View
from fl.round.replica import PublicReplica
from fl.round.state import Merge, Phase, States
from fl.round.uploads import Uploads
from fl.tracking.pseudonyms import Names, give_names
from fl.types import ESTIMATE_KINDS, Estimates, Model
from netsim.errors import BadInput
from netsim.units import BoolArray, FloatArray, IntArray


def run_attacks(phase: Phase, merge: Merge, states: States) -> Merge:
    """A merge with what all attacks make of the views that the threat grants.

    Single updates are attacked group by group of those that began from the same model, the oldest
    first. Attacks see and say names; what they said is translated afterwards. states: changed in
    place.
    """
    learning = phase.learning
    threat = learning.threat
    views = _build_views(phase, merge, states)
    attacked = replace(merge, view=views[-1], estimates={}, beliefs={}, self_tests={})
    names = states["names"] = _update_names(phase, merge.uploads, views, states["names"])
    if threat.renames:
        views = [_rename_view(phase, merge.uploads, view, names) for view in views]
    # attacks know of the channel what their views say
    facts = replace(phase.facts, channel=None)
    for attack in learning.attacks:
        word = attack.word
        rng = phase.streams.derive_rng(word)
        translated = []
        for view in views:
            estimates, states[word] = attack.run(view, facts, states[word], rng)
            _check_kinds(attack.label, estimates)
            if threat.renames:
                estimates = names.translate(estimates)
            translated.append(estimates)
        attacked.estimates[attack.label] = Estimates.join(translated)
        if phase.setup.self_tests and threat.can_train:
            attacked.self_tests[attack.label] = attack.self_test(views[-1], facts, rng)
        belief = attack.belief(states[word], facts)
        if belief is not None:
            attacked.beliefs[attack.label] = names.translate_belief(belief)
    return attacked


def _check_kinds(label: str, estimates: Estimates) -> None:
    """Raise BadInput where estimates of an attack say what no measure knows."""
    unknown = set(estimates.what).difference(ESTIMATE_KINDS)
    if unknown:
        raise BadInput(
            f"attack {label}: estimates say {min(unknown)!r}, which no measure knows; "
            f"known words are {', '.join(ESTIMATE_KINDS)}"
        )


def _update_names(phase: Phase, uploads: Uploads, views: list[View], names: Names) -> Names:
    """Names of all UEs that the attacker sees: those of the time at which they were asked, in all
    phases of a round.
    """
    learning = phase.learning
    if not learning.threat.renames:
        return names
    ue = np.unique(np.concatenate([view.ue for view in views]))
    asked_s = _find_asked_s(phase, uploads, ue)
    rng = phase.setup.streams.derive_rng("pseudonyms")
    return give_names(names, learning.threat.pseudonyms, ue, asked_s, phase.facts.round, rng)


def _find_asked_s(phase: Phase, uploads: Uploads, ue: IntArray) -> FloatArray:
    """When UEs (n,), each of which has uploads, were asked."""
    if phase.learning.server.in_rounds:
        return np.full(len(ue), phase.facts.time_s)
    first = uploads.first_rows
    return uploads.asked_s[first[np.searchsorted(uploads.ue[first], ue)]]


def _rename_view(phase: Phase, uploads: Uploads, view: View, names: Names) -> View:
    """A view with names for UEs. A name that was asked and never seen would only be a number: it
    stays out.
    """
    asked = view.asked
    if asked is not None:
        asked_s = _find_asked_s(phase, uploads, asked)
        rng = phase.setup.streams.derive_rng("pseudonyms")
        rule = phase.learning.threat.pseudonyms
        asked = names.list_present(
            asked, rule.number_periods(asked, asked_s, phase.facts.round, rng)
        )
    return view.rename(names.name_of_ue[view.ue], asked)


def _build_views(phase: Phase, merge: Merge, states: States) -> list[View]:
    """Views of the attacker: of single updates one per model that they began from."""
    learning = phase.learning
    threat = learning.threat
    uploads = merge.uploads
    observed = uploads.to_observed()
    looks = bool(learning.attacks) or learning.membership is not None
    targeted = threat.is_targeted(uploads.ue, phase.n_ue) & looks
    groups = [(phase.model, targeted)]
    if threat.observes == "updates":
        groups = _group_by_base(phase, uploads.version, observed.decoded, targeted)
    draws = phase.streams.derive_rng("threat")
    timing = uploads.build_timing(phase.version)
    views = []
    for base, is_targeted in groups:
        models = (base, merge.model)
        view = threat.grant_view(
            learning.learner,
            phase.name,
            observed,
            uploads.weight,
            is_targeted,
            models,
            draws,
            timing,
            uploads.group,
        )
        replica = None
        if threat.can_train:
            replica = PublicReplica(phase, uploads, base, states)
        views.append(replace(view, replica=replica, renames=threat.renames))
    return views


def _group_by_base(
    phase: Phase, version: IntArray, decoded: BoolArray, targeted: BoolArray
) -> list[tuple[Model, BoolArray]]:
    """Each model that updates began from, and which of the targeted rows (n,) did, where any of
    these was heard.
    """
    versions = np.unique(version).tolist() or [phase.version]
    groups = [(phase.bases[v], targeted & (version == v)) for v in versions]
    heard = [(base, is_attacked) for base, is_attacked in groups if (is_attacked & decoded).any()]
    return heard or groups[-1:]
