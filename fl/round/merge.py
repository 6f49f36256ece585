"""Merge of received updates, and the defenses' observation of the published model (steps i and j)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fl.round.setup import Setup
from fl.round.state import PartStates
from fl.round.streams import RoundStreams
from fl.server.asynchronous import Asynchronous
from fl.types import Model, Received, RoundContext, Spend, State, Timing
from netsim.columns import frozen
from netsim.units import BoolArray, FloatArray, IntArray


@frozen
class Batch:
    """Rows (n,) that are merged together, by increasing (ue, model).

    got: as the server received them; heard: as the attacker did, the same where it is the server. bases: the models
    that updates began from; base (n,): which of them each row did, and how many versions ago, timing.staleness.
    finite (n,): whose update did not overflow on its UE; the others count for nothing. group (n,): whose updates are
    summed before the server sees them, None where nothing is summed.
    """

    got: Received
    heard: Received
    timing: Timing
    bases: tuple[Model, ...]
    base: IntArray
    finite: BoolArray
    group: IntArray | None = None


@dataclass(frozen=True)
class Merging:
    """Where rows are merged: the phase of the learner, the model now, and the draws of this merge."""

    setup: Setup
    facts: RoundContext
    phase: str
    model: Model
    n_ue: int
    streams: RoundStreams


@frozen
class Merge:
    """Result of merging received rows: weights (n,), the model."""

    weights: FloatArray
    model: Model
    spends: list[Spend]


def merge(at: Merging, batch: Batch, states: PartStates) -> tuple[Merge, PartStates]:
    """Weights, sum, the server's half of all defenses in reverse order, its optimiser, and the new model.

    Without rounds weights fall with staleness, as the server's policy says.
    """
    learning, facts = at.setup.learning, at.facts
    got = replace(batch.got, decoded=batch.got.decoded & batch.finite)
    weights, aggregation = learning.aggregation.weights(got, facts, states.aggregation)
    server = learning.server
    if isinstance(server, Asynchronous):
        weights = weights * server.staleness_weight(batch.timing.staleness)
    total = got.updates.weighted_sum(weights, at.setup.public.n_model)
    if isinstance(server, Asynchronous) and server.mixes_models:
        total = total + _way_back(at, batch, got)
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


def _way_back(at: Merging, batch: Batch, got: Received) -> FloatArray:
    """alpha_tau (w_t0 - w) of each row that was received, summed per model: (n_model, d)."""
    server, updates = at.setup.learning.server, got.updates
    total = np.zeros_like(at.model.parameters)
    if isinstance(server, Asynchronous):
        share = np.where(got.decoded, server.staleness_weight(batch.timing.staleness), 0.0)
        for i in np.flatnonzero(share):
            m = updates.model[i]
            total[m] += share[i] * (batch.bases[batch.base[i]].parameters[m] - at.model.parameters[m])
    return total


def _change(
    at: Merging, total: FloatArray, contributed: IntArray, states: PartStates
) -> tuple[FloatArray, dict[str, State]]:
    """Change of the model by the server optimiser; `contributed`: the models of the rows that count."""
    learning, state = at.setup.learning, states.server_optimiser.get(at.phase)
    came = np.isin(np.arange(len(total)), contributed) | learning.hides_who_came
    change, state = learning.server_optimiser.change(total, came, state)
    return change, states.server_optimiser | {at.phase: state}


def observe(at: Merging, batch: Batch, weights: FloatArray, states: PartStates) -> PartStates:
    """States of defenses after a publication."""
    learning = at.setup.learning
    defenses = {d.label: d.observe(batch.got, weights, at.facts, states.defenses[d.label]) for d in learning.defenses}
    return replace(states, defenses=defenses)
