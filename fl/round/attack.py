"""Step k of a round: the attacks on a merge, each of which sees exactly the view that the threat
grants.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from fl.attacks.base import View
from fl.round.replica import PublicReplica
from fl.round.state import Merge, Phase, States
from fl.round.uploads import Uploads
from fl.tracking.pseudonyms import Names, give_names
from fl.types import Estimates
from netsim.checkpoint import save_tree, to_tree


def run_attacks(phase: Phase, merge: Merge, states: States) -> Merge:
    """A merge with what all attacks make of the views that the threat grants.

    Single updates are attacked group by group of those that began from the same model, the oldest
    first. Attacks see and say names; what they said is translated afterwards. states: changed in
    place.
    """
    views = _build_views(phase, merge, states)
    seen = views
    if phase.learning.threat.renames:
        states["names"], seen = _rename_views(phase, merge.uploads, views, states["names"])
    if phase.setup.views is not None:
        _keep_views(phase.setup.views, phase, merge, seen, states)
    return replace(attack_views(phase, merge, seen, states), view=views[-1])


def _keep_views(
    folder: Path, phase: Phase, merge: Merge, views: list[View], states: States
) -> None:
    """Write what the attacker receives of a merge, by the names that it sees, and beside it what no
    attack reads: whose these names are, and how updates were sent.
    """
    folder.mkdir(exist_ok=True)
    uploads = merge.uploads
    rows = uploads.made.with_values(np.zeros((len(uploads.ue), 0)), None)
    heard = None if uploads.heard is None else rows
    merge = replace(merge, uploads=replace(uploads, made=rows, sent=rows, got=None, heard=heard))
    facts = replace(phase.facts, channel=None)
    truth = merge, states["names"], states[f"server_optimiser.{phase.name}"]
    name = f"{facts.round:06d}-{phase.name}.npz"
    save_tree(folder / name, to_tree((facts, views)))
    save_tree(folder / f"truth-{name}", to_tree(truth))


def attack_views(phase: Phase, merge: Merge, views: list[View], states: States) -> Merge:
    """A merge with what all attacks make of the views of it; states: changed in place."""
    names: Names = states["names"]
    attacked = replace(merge, view=views[-1], estimates={}, beliefs={}, self_tests={})
    # links are the attacker's as far as they are in the view
    facts = replace(phase.facts, channel=None)
    for attack in phase.learning.attacks:
        word = attack.word
        rng = phase.streams.derive_rng(word)
        translated = []
        for view in views:
            estimates, states[word] = attack.run(view, facts, states[word], rng)
            translated.append(names.translate(estimates))
        attacked.estimates[attack.label] = Estimates.join(translated)
        if phase.setup.self_tests and phase.learning.threat.can_train:
            attacked.self_tests[attack.label] = attack.self_test(views[-1], facts, rng)
        belief = attack.belief(states[word], facts)
        if belief is not None:
            attacked.beliefs[attack.label] = names.translate_belief(belief)
    return attacked


def _rename_views(
    phase: Phase, uploads: Uploads, views: list[View], names: Names
) -> tuple[Names, list[View]]:
    """Names of all UEs that the attacker sees, those of the time at which they were asked, in all
    phases of a round; and views with names for UEs.

    A UE that was asked, was lost, and has not been seen under the name of that time stays out: the
    attacker could not tell it from any other.
    """
    rule = phase.learning.threat.pseudonyms
    number = phase.facts.round
    asked_s = np.full(phase.n_ue, phase.facts.time_s)
    if not phase.learning.server.in_rounds:
        asked_s[uploads.ue] = uploads.asked_s
    ue = np.unique(np.concatenate([view.ue for view in views]))
    rng = phase.setup.streams.derive_rng("pseudonyms")
    names = give_names(names, rule, ue, asked_s[ue], number, rng)
    period = rule.number_periods(np.arange(phase.n_ue), asked_s, number, rng)
    renamed = []
    for view in views:
        asked = view.asked
        if asked is not None:
            asked = names.name_of_ue[asked[names.period[asked] == period[asked]]]
        renamed.append(view.rename(names.name_of_ue[view.ue], asked))
    return names, renamed


def _build_views(phase: Phase, merge: Merge, states: States) -> list[View]:
    """Views of the attacker: of single updates one per model that they began from."""
    learning = phase.learning
    threat = learning.threat
    uploads = merge.uploads
    observed = uploads.to_observed()
    looks = bool(learning.attacks or learning.membership or phase.setup.views)
    targeted = threat.is_targeted(uploads.ue, phase.n_ue) & looks
    groups = [(phase.model, targeted)]
    if threat.observes == "updates":
        versions = np.unique(uploads.version).tolist() or [phase.version]
        of_base = [(phase.bases[v], targeted & (uploads.version == v)) for v in versions]
        heard = [group for group in of_base if (group[1] & observed.decoded).any()]
        groups = heard or of_base[-1:]
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
