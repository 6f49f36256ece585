"""Selection of UEs in a round, and of the samples they learn from (steps b and c)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fl.availability import Conditions
from fl.data import TakenData
from fl.learning import Learning
from fl.round.setup import RoundStreams
from fl.round.state import Collected, CurationStep, PartStates, Withheld
from fl.types import AnySpend, Local, RoundContext, State
from fl.withholding import RequestedData
from netsim.columns import frozen, no_places
from netsim.rng import Rng, Streams
from netsim.units import BoolArray, FloatArray, IntArray
from netsim.world import World


@frozen
class FreeUes:
    """Whom a server without rounds may ask: ue (n_ue,), and at most how many of them."""

    ue: BoolArray
    most: float


def first_sampled(
    world: World, learning: Learning, model_of_cell: IntArray, days: IntArray, streams: Streams
) -> FloatArray:
    """Places (n, 2) of the first round in which the server samples UEs, none if it never does; runs the world.

    days (n,) : on which UEs may measure.
    """
    state = learning.data.with_days(learning.data.start(len(world.ues), streams.at("data")), days)
    number, deadline = 0, 0.0
    while deadline < world.duration_s:
        number += 1
        deadline = min(number * learning.round_s, world.duration_s)
        world.env.run(until=deadline)
        taken, state = learning.data.take(world.observations(), model_of_cell, state, streams.at("data", number))
        sampled = sample_ues(taken.train.nonempty(), learning, streams, number, len(world.ues))
        if len(sampled.x):
            return sampled.x
    return no_places()


def collect(
    world: World,
    learning: Learning,
    taken: TakenData,
    facts: RoundContext,
    states: PartStates,
    streams: RoundStreams,
    free: FreeUes | None = None,
) -> tuple[Collected, PartStates]:
    """The data that UEs learn from, and what the parts remember that chose them; free: whom the server may ask."""
    # b  the server samples some of those that are there and have data, and every UE has its own policy
    now = _conditions(world)
    there, availability = learning.availability.available(now, states.availability, streams.streams.at("availability"))
    states, ready = replace(states, availability=availability), taken.train.nonempty()
    there = there if free is None else there & free.ue
    sampled = sample_ues(ready.select(there[ready.ue]), learning, streams.streams, streams.round, len(there))
    if free is not None:
        sampled = _at_most(sampled, free.most, streams.at("concurrency"))
    accepted, query = learning.request_policy.accept(sampled.ue, facts, states.query)
    local = sampled.keep(accepted[sampled.row_of_sample]).nonempty()
    # what they hold back, each rule by itself
    looks = any(rule.waits_for_a_cell for rule in learning.withholding)
    serving = world.serving(world.links()) if looks else np.full(len(now.home_m), -1)
    asked = RequestedData(local, taken.measured, facts, now.home_m, now.position_m, serving)
    silence = {
        rule.label: rule.looked(asked, states.withholding[rule.label], streams.withholding(rule.label))
        for rule in learning.withholding
    }
    local, withheld = _withhold(asked, learning, silence, streams)
    # c  curate: what UEs do to their data before they learn from them
    spends, steps, curation = list[AnySpend](), list[CurationStep](), dict(states.curation)
    for step in learning.curation:
        curated = step.apply(local, facts, curation[step.label], streams.at(f"curation.{step.label}"))
        steps.append(CurationStep(step.label, local, curated))
        local, curation[step.label], spends = curated.local.nonempty(), curated.state, spends + curated.spends
    aggregation = learning.aggregation.receive_disclosed(local, facts, states.aggregation)
    senders = np.unique(local.ue)
    for rule in learning.withholding:
        silence[rule.label] = rule.sent(senders, facts, silence[rule.label], streams.withholding(rule.label))
    collected = Collected(taken, local, int((~accepted).sum()), withheld, steps, spends)
    return collected, replace(states, query=query, withholding=silence, curation=curation, aggregation=aggregation)


def _conditions(world: World) -> Conditions:
    """Positions and states of all UEs now, as rules of availability use them."""
    now_s = float(world.env.now)
    wall_s = float(world.clock.wall_s(np.array(now_s)))
    return Conditions(now_s, wall_s, np.asarray(world.position_m()), world.places.home_m)


def _withhold(
    asked: RequestedData, learning: Learning, silence: dict[str, State], streams: RoundStreams
) -> tuple[Local, list[Withheld]]:
    """Samples left after all withholding rules, and after each rule by itself."""
    withheld, kept = list[Withheld](), np.ones(len(asked.local.x), dtype=np.bool_)
    for rule in learning.withholding:
        own = rule.keep(asked, silence[rule.label], streams.withholding(rule.label))
        withheld.append(Withheld(rule.label, asked.local, own))
        kept &= own
    return asked.local.keep(kept).nonempty() if withheld else asked.local, withheld


def sample_ues(ready: Local, learning: Learning, streams: Streams, number: int, n_ue: int) -> Local:
    """The rows of a random share of the UEs: at least one, or those chosen by independent coins.

    A cohort that is kept is drawn from all n_ue UEs by the lots of its first round.
    """
    ue, share, kept = np.unique(ready.ue), learning.participation, learning.cohort_rounds
    if share == 1.0 or len(ue) == 0:
        return ready
    ue = ue if kept == 1 else np.arange(n_ue)
    lot = streams.at("participation", number - (number - 1) % kept).uniform("lot", ue)
    if learning.sampling == "poisson":
        chosen = ue[lot < share]
    else:
        chosen = ue[np.argsort(lot, kind="stable")[: max(1, round(share * len(ue)))]]
    return ready.keep(np.isin(ready.ue, chosen)[ready.row_of_sample]).nonempty()


def _at_most(ready: Local, most: float, rng: Rng) -> Local:
    """The rows of `most` UEs, drawn at random."""
    ue = np.unique(ready.ue)
    if len(ue) <= most:
        return ready
    chosen = ue[np.argsort(rng.uniform("lot", ue), kind="stable")[: int(most)]]
    return ready.keep(np.isin(ready.ue, chosen)[ready.row_of_sample]).nonempty()
