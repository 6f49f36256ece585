"""Steps d and g of a round, on the UEs: they learn from their data, and protect what they have
learnt.
"""

from dataclasses import replace

import numpy as np

from fl.round.learning import Learning
from fl.round.probe import SILENT, Probe
from fl.round.setup import PhaseDraws, RoundStreams
from fl.round.state import Phase, States, find_norm_bound
from fl.types import Local, NoUpdates, RoundContext, Spend, Updates


def learn_updates(phase: Phase, local: Local, states: States) -> Updates:
    """Step d: an update (n, d) of each UE and model with data (n,), from the model that the server
    published; malicious UEs poison their data.

    states: changed in place.
    """
    setup = phase.setup
    learning = phase.learning
    if learning.malicious is not None:
        is_malicious = states["malicious"][local.ue[local.row_of_sample]]
        local = learning.malicious.poison_data(local, is_malicious, phase.facts.public)
    if setup.learns:
        rng = phase.streams.derive_learner_rng(phase.name)
        updates, states["learner"] = setup.trainer.train_with_state(
            phase.model, phase.name, local, states["learner"], rng
        )
    else:
        updates = NoUpdates.from_local(local, phase.model.parameters.shape[1])
    return setup.probe.replace_updates(
        phase.facts, phase.model, updates, find_norm_bound(learning, states)
    )


def protect_updates(
    learning: Learning,
    learnt: Updates,
    local: Local,
    facts: RoundContext,
    states: States,
    streams: RoundStreams | PhaseDraws,
    probe: Probe = SILENT,
) -> tuple[Updates, list[Spend]]:
    """Step g: updates (n, d) after the UEs' half of all defenses in their order; zeros of those
    that overflowed.

    states: changed in place.
    """
    finite = np.isfinite(learnt.norm())
    spends = list[Spend]()
    if finite.all():
        updates = learnt
    else:
        updates = learnt.scale_rows(np.where(finite, 1.0, 0.0), learnt.bound)
    for defense in learning.defenses:
        word = defense.word
        before = updates
        updates, states[word], spent = defense.protect(
            before, local, facts, states[word], streams.derive_rng(word)
        )
        probe.record_noise(defense, before, updates, spent, facts, states[word])
        if (
            not defense.adds_noise_only
        ):  # what changes noisy updates does so before the channel adds its noise
            spends = [replace(spend, channel_std=0.0) for spend in spends]
        spends += spent
    return updates, spends
