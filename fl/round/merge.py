"""What a server makes of updates that have come, and an attacker of what it sees of them (steps i, j and l)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fl.attacks.base import View
from fl.round.setup import Setup
from fl.round.state import PartStates
from fl.round.streams import RoundStreams
from fl.server.asynchronous import Asynchronous
from fl.types import Estimates, Facts, Model, Received, Spend, State, Timing
from netsim.units import FloatArray, IntArray


@dataclass(frozen=True)
class Batch:
    """Rows (n,) that are merged together, by increasing (ue, model).

    got: as the server received them; heard: as the attacker did, the same where it is the server. bases: the models
    that updates began from; base (n,): which of them each row did, and how many versions ago, timing.staleness.
    """

    got: Received
    heard: Received
    timing: Timing
    bases: tuple[Model, ...]
    base: IntArray


@dataclass(frozen=True)
class Merging:
    """Where rows are merged: the phase of the learner, the model now, and the draws of this merge."""

    setup: Setup
    facts: Facts
    phase: str
    model: Model
    n_ue: int
    streams: RoundStreams


@dataclass(frozen=True)
class Merge:
    """What the server made of the rows it received: weights (n,), the model."""

    weights: FloatArray
    model: Model
    spends: list[Spend]


@dataclass(frozen=True)
class Attacks:
    """What the attacker saw, and what each attack said of it; self_tests: errors in metres, by attack."""

    view: View
    estimates: dict[str, Estimates]
    self_tests: dict[str, float | None]


def merge(at: Merging, batch: Batch, states: PartStates) -> tuple[Merge, PartStates]:
    """Weights, sum, the server's half of all defenses in reverse order, its optimiser, and the new model.

    Without rounds weights fall with staleness, as the server's policy says.
    """
    learning, facts, got = at.setup.learning, at.facts, batch.got
    weights, aggregation = learning.aggregation.weights(got, facts, states.aggregation)
    server = learning.server
    if isinstance(server, Asynchronous):
        weights = weights * server.staleness_weight(batch.timing.staleness)
    total = got.updates.weighted_sum(weights, at.setup.public.n_model)
    if isinstance(server, Asynchronous) and server.mixes_models:
        total = total + _way_back(at, batch)
    defenses, spends = dict(states.defenses), list[Spend]()
    for defense in reversed(learning.defenses):
        label = defense.label
        total, defenses[label], spent = defense.finish(
            total, len(got.updates.ue), facts, defenses[label], at.streams.defense_at_server(label)
        )
        spends += spent
    change, optimisers = _change(at, total, got.updates.model[weights != 0], states)
    model = learning.learner.step(at.model, at.phase, change)
    states = replace(states, aggregation=aggregation, defenses=defenses, server_optimiser=optimisers)
    return Merge(weights, model, spends), states


def _way_back(at: Merging, batch: Batch) -> FloatArray:
    """alpha_tau (w_t0 - w) of each row that was received, summed per model: (n_model, d)."""
    server, updates = at.setup.learning.server, batch.got.updates
    total = np.zeros_like(at.model.parameters)
    if isinstance(server, Asynchronous):
        share = np.where(batch.got.decoded, server.staleness_weight(batch.timing.staleness), 0.0)
        for i in np.flatnonzero(share):
            m = updates.model[i]
            total[m] += share[i] * (batch.bases[batch.base[i]].parameters[m] - at.model.parameters[m])
    return total


def _change(
    at: Merging, total: FloatArray, contributed: IntArray, states: PartStates
) -> tuple[FloatArray, dict[str, State]]:
    """What the server optimiser makes of the merged update; `contributed`: the models of the rows that count."""
    learning, state = at.setup.learning, states.server_optimiser.get(at.phase)
    came = np.isin(np.arange(len(total)), contributed) | learning.hides_who_came
    change, state = learning.server_optimiser.change(total, came, state)
    return change, states.server_optimiser | {at.phase: state}


def observe(at: Merging, batch: Batch, weights: FloatArray, states: PartStates) -> PartStates:
    """What defenses remember of what was published."""
    learning = at.setup.learning
    defenses = {d.label: d.observe(batch.got, weights, at.facts, states.defenses[d.label]) for d in learning.defenses}
    return replace(states, defenses=defenses)


def attack(at: Merging, batch: Batch, merged: Merge, states: PartStates) -> tuple[Attacks, PartStates]:
    """All attacks on what the threat lets the attacker see.

    Single updates are attacked group by group of those that began from the same model, the oldest first.
    """
    views = _views(at, batch, merged)
    estimates: dict[str, list[Estimates]] = {a.label: [] for a in at.setup.learning.attacks}
    attacks, self_tests = dict(states.attacks), dict[str, float | None]()
    for i, view in enumerate(views):
        for each in at.setup.learning.attacks:
            label, rng = each.label, at.streams.attack(each.label)
            said, attacks[label] = each.run(view, at.facts, attacks[label], rng)
            estimates[label].append(said)
            if at.setup.learning.threat.can_train and i == len(views) - 1:
                self_tests[label] = each.self_test(view, at.facts, rng)
    joined = {label: some[0] if len(some) == 1 else Estimates.join(some) for label, some in estimates.items()}
    return Attacks(views[-1], joined, self_tests), replace(states, attacks=attacks)


def _views(at: Merging, batch: Batch, merged: Merge) -> list[View]:
    """What the attacker sees: of single updates one view a model that they began from."""
    learning, threat = at.setup.learning, at.setup.learning.threat
    heard = batch.heard
    looks = bool(learning.attacks) or learning.membership is not None
    targeted = threat.after(heard.updates.ue, at.n_ue) & looks
    if threat.sees != "rows" or len(batch.bases) == 1:
        begun = batch.bases[0] if len(batch.bases) == 1 and threat.sees == "rows" else at.model
        groups = [(begun, targeted)]
    else:
        some = [(base, targeted & (batch.base == k)) for k, base in enumerate(batch.bases)]
        groups = [(base, mine) for base, mine in some if (mine & heard.decoded).any()] or some[-1:]
    draws = at.streams.at("threat")
    return [
        threat.view(
            learning.learner, at.phase, heard, merged.weights, mine, (base, merged.model), draws, batch.timing
        )
        for base, mine in groups
    ]  # fmt: skip
