"""A federated round as one algorithm box, for the whole cohort at once, inside the simulated world."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import numpy as np
import simpy

from fl.leakage import leakage
from fl.learning import Learning
from fl.membership.audit import audit, due
from fl.privacy import ledger
from fl.round import records
from fl.round.baselines import Reference
from fl.round.phase import play_phase
from fl.round.state import Carry, Phase, Setup
from fl.types import (
    AnySpend,
    Curated,
    Estimates,
    Facts,
    Local,
)
from netsim.rng import Streams
from netsim.units import FloatArray, IntArray
from netsim.world import World


def rounds(
    world: World, setup: Setup, carry: Carry, after: Callable[[Carry, dict[str, Any]], None]
) -> Generator[simpy.Event, None, None]:
    """Process: a round at every deadline. `after` gets the new carry, and the figures of the round (if any)."""
    round_s, most = setup.learning.round_s, setup.learning.rounds or np.inf
    while world.env.now < world.duration_s and carry.played < most and not carry.stopped:
        deadline = min(world.clock.end_s(carry.round + 1, round_s), world.duration_s)
        yield world.env.timeout(deadline - world.env.now)
        carry, figures = play(world, setup, carry)
        after(carry, figures)


def first_asked(world: World, learning: Learning, model_of_cell: IntArray, streams: Streams) -> FloatArray:
    """Places (n, 2) of the first round in which the server asks anybody, none if it never does; runs the world."""
    state, number, deadline = learning.data.start(len(world.ues), streams.at("data")), 0, 0.0
    while deadline < world.duration_s:
        number += 1
        deadline = min(number * learning.round_s, world.duration_s)
        world.env.run(until=deadline)
        taken, state = learning.data.take(world.observations(), model_of_cell, state, streams.at("data", number))
        asked = _asked(taken.train.nonempty(), learning, streams.at("participation", number))
        if len(asked.x):
            return asked.x
    return np.zeros((0, 2))


def play(world: World, setup: Setup, carry: Carry) -> tuple[Carry, dict[str, Any]]:
    """One round: steps a to m. A round in which nobody measured leaves no row and only counts, unless noise at the
    server hides who came: then it is played like any other, with noise that is drawn and booked.

    A round that would exceed the budget leaves nothing: what it learnt is forgotten before anybody sees it.
    """
    learning, number = setup.learning, carry.round + 1
    parts = dict(carry.parts)
    coin = learning.participation if learning.sampling == "poisson" else 1.0
    facts = Facts(
        number, float(world.env.now), setup.public, weight=learning.aggregation.weight, sampling_rate=coin,
        request=learning.learner.request(carry.model),
    )  # fmt: skip

    def rng(purpose: str) -> Any:
        return setup.streams.at(purpose, number)

    # a  take: the window's observations become local data
    taken, parts["data"] = learning.data.take(world.observations(), setup.model_of_cell, parts["data"], rng("data"))
    if not taken.due or (len(taken.measured.ue) == 0 and not learning.hides_who_came):
        return replace(carry, round=number, parts=parts), {}
    # b  ask: the server some of those that have data, and every UE its own policy
    asked = _asked(taken.train.nonempty(), learning, rng("participation"))
    accepted, parts["query"] = learning.query.accept(asked.ue, facts, parts["query"])
    local = asked.keep(accepted[asked.row_of_sample]).nonempty()
    # c  curate: what devices do to their data before they learn from them
    spends: list[AnySpend] = []
    curated: dict[str, tuple[Local, Curated]] = {}
    for step in learning.curation:
        key = f"curation.{step.label}"
        done = step.apply(local, facts, parts[key], rng(key))
        curated[step.label] = (local, done)
        local, parts[key], spends = done.local.nonempty(), done.state, spends + done.spends
    parts["aggregation"] = learning.aggregation.told(local, facts, parts["aggregation"])
    model, phases, now_s = carry.model, list[Phase](), facts.time_s
    for name in learning.learner.phases:
        model, phase = play_phase(world, setup, parts, facts, name, model, local, now_s, rng)
        phases.append(phase)
        now_s = phase.merged_s
        spends += phase.spends
    # k  pay: all spends of the round, whether or not packets arrived
    book = ledger.book(carry.ledger, spends)
    if learning.privacy_budget is not None and ledger.exceeds(
        book, learning.privacy_budget.epsilon, learning.privacy_budget.delta
    ):
        return replace(carry, round=number, stopped=True), {}
    # m  record: truth meets estimates only here
    held_out = taken.held_out if learning.data.scores_round_alone else carry.held_out.plus(taken.held_out)
    leaks, rows = carry.leakage, list[dict[str, Any]]()
    if "positions" in learning.data.offers:
        whom = learning.threat.after(taken.measured.ue, len(world.ues))
        watched = taken.measured.keep(whom[taken.measured.row_of_sample]).nonempty()
        now = leakage.Now(
            number, watched, _selected(watched, local), _merge(learning, phases), world.area, world.places,
        )  # fmt: skip
        leaks, rows = leakage.observe(learning.leakage, carry.leakage, now, setup.streams.at("leakage"))
    audited: list[dict[str, Any]] = []
    if learning.membership is not None and due(learning.membership, carry.played + 1):
        others = taken.held_out if len(taken.held_out) else held_out
        audited = audit(learning.membership, phases[-1].view, local, others, rng("membership"))
    reference = carry.reference
    if "signals" in learning.data.offers:
        reference = Reference.add(reference, taken.train if taken.fresh is None else taken.fresh)
    new = Carry(number, carry.played + 1, model, held_out, reference, parts, book, leaks)
    figures = records.write(
        setup.recorder, world, setup.learning, new, taken, local, curated, phases, spends, rows, audited, facts,
        refused=int((~accepted).sum()), before=carry.model,
    )  # fmt: skip
    return new, figures


def _asked(ready: Local, learning: Learning, rng: Any) -> Local:
    """The rows of a random share of the UEs: at least one, or whoever's coin says so."""
    ue, share = np.unique(ready.ue), learning.participation
    if share == 1.0 or len(ue) == 0:
        return ready
    lot = rng.uniform("lot", ue)
    if learning.sampling == "poisson":
        chosen = ue[lot < share]
    else:
        chosen = ue[np.argsort(lot, kind="stable")[: max(1, round(share * len(ue)))]]
    return ready.keep(np.isin(ready.ue, chosen)[ready.row_of_sample]).nonempty()


def _selected(measured: Local, local: Local) -> FloatArray:
    """Mean of what each measured row learnt from (n, 2); NaN where nothing was sent."""
    found = np.full((len(measured.ue), measured.x.shape[1]), np.nan)
    row = {(u, m): i for i, (u, m) in enumerate(zip(local.ue.tolist(), local.model.tolist(), strict=True))}
    means = local.mean_x()
    for i, key in enumerate(zip(measured.ue.tolist(), measured.model.tolist(), strict=True)):
        if key in row:
            found[i] = means[row[key]]
    return found


def _merge(learning: Learning, phases: list[Phase]) -> dict[str, Estimates]:
    """All phases' estimates of each attack."""
    return {a.label: Estimates.join([p.estimates[a.label] for p in phases]) for a in learning.attacks}
