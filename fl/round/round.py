"""A federated round as one algorithm box, for the whole cohort at once, inside the simulated world."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import simpy

from fl.data import TakenData
from fl.learning import Learning
from fl.membership.audit import audit, due
from fl.round import records
from fl.round.baselines import Reference
from fl.round.collect import collect, looked
from fl.round.leaked import leaked
from fl.round.phase import play_phase
from fl.round.setup import Setup
from fl.round.state import PartStates, PhaseOutcome, RoundOutcome, RoundState
from fl.round.streams import RoundStreams
from fl.round.transmit import Transmitter
from fl.round.upload import PhaseStart
from fl.server.synchronous import Synchronous
from fl.types import HeldOut, Local, RoundContext, State
from netsim.record import Row
from netsim.world import World

_ROUNDING = 1e-12  # relative; a deadline may miss the end of a window by as much


class Watcher(Protocol):
    """Observer of a run."""

    def played(self, state: RoundState, figures: dict[str, Any]) -> None:
        """A round was played, or passed by without figures; this is the state after it."""

    def rested(self, state: RoundState) -> None:
        """A run can go on from this state, at this time."""


def rounds(world: World, setup: Setup, state: RoundState, watcher: Watcher) -> Generator[simpy.Event, None, None]:
    """Process: a round at the end of every window of time in which the one before has ended."""
    transmitter, most = Transmitter(world, setup, state.air), setup.learning.rounds or np.inf
    while state.played < most and not state.stopped:
        number = next_round(world, setup.learning, state)
        if number is None:
            return
        begins_s = _ends_s(world, setup.learning, number)
        yield world.env.timeout(max(begins_s - float(world.env.now), 0.0))
        state, outcome = yield from play(world, setup, transmitter, replace(state, round=number - 1))
        figures = {} if outcome is None else records.write(setup.recorder, world, setup.learning, outcome)
        watcher.played(state, figures)
        watcher.rested(state)


def next_round(world: World, learning: Learning, state: RoundState) -> int | None:
    """The number of the next round, which is that of a window of time; None where the world ends before.

    The windows follow one another. Where a round may last longer than one, because transmissions take their time or
    because the server's deadline allows it, those that end before it does pass by.
    """
    number, last = state.round + 1, world.clock.rounds(world.duration_s, learning.round_s)
    server = learning.server
    if state.air is not None or (isinstance(server, Synchronous) and server.deadline_s is not None):
        ended_s = state.ended_s * (1 - _ROUNDING)
        while number <= last and _ends_s(world, learning, number) < ended_s:
            number += 1
    return number if number <= last else None


def _ends_s(world: World, learning: Learning, number: int) -> float:
    """Time at which a window ends, the last one with the world."""
    return min(world.clock.end_s(number, learning.round_s), world.duration_s)


def play(
    world: World, setup: Setup, transmitter: Transmitter, before: RoundState
) -> Generator[simpy.Event, None, tuple[RoundState, RoundOutcome | None]]:
    """One round: steps a to l, and what its records are made of; it lasts as long as updates need on the air.

    A round in which no UE has data leaves no outcome and only counts, unless noise at the server hides who came: then
    it is played like any other, with noise that is drawn and booked.

    A round that would exceed the budget leaves nothing: what it learnt is forgotten before it is published.
    """
    learning, number, states = setup.learning, before.round + 1, before.parts
    streams, facts = RoundStreams(setup.streams, number), _facts(world, setup, before)
    # a  take: the window's observations become local data
    taken, data = learning.data.take(world.observations(), setup.model_of_cell, states.data, streams.at("data"))
    states = looked(world, setup, taken, replace(states, data=data))
    empty = len(taken.measured.ue) == 0 and len(taken.train.ue) == 0
    if not taken.due or (empty and not learning.hides_who_came):
        return replace(before, round=number, parts=states), None
    # b  sample and query, c  curate
    collected, states = collect(world, learning, taken, facts, states, streams)
    # d to j, and l
    phases, states = yield from _play_phases(world, setup, transmitter, facts, before, collected.local, states, streams)
    spends = [*collected.spends, *(spend for phase in phases for spend in phase.spends)]
    # k  pay: all spends of the round, whether or not packets arrived
    paid = before.ledger.add(spends)
    if learning.privacy_budget is not None and paid.exceeds(
        learning.privacy_budget.epsilon, learning.privacy_budget.delta
    ):
        return replace(before, round=number, stopped=True), None
    # truth meets estimates only here
    held_out = taken.held_out if learning.data.scores_round_alone else before.held_out.plus(taken.held_out)
    reference = _reference(learning, before, taken)
    after = replace(before, round=number, ended_s=phases[-1].merged_s)
    last = before.played + 1 == learning.rounds or next_round(world, learning, after) is None
    leaks = leaked(setup, world, before, states, facts, collected, phases, last)
    audits, memory = _audits(setup, before, states, taken, held_out, collected.local, phases, streams)
    states = replace(states, membership=memory)
    state = RoundState(
        round=number, played=before.played + 1, model=phases[-1].model, held_out=held_out,
        reference=reference, parts=states, ledger=paid,
        leakage=leaks.tracks, whereabouts=leaks.whereabouts, linking=leaks.linking,
        baselines=records.baselines(learning, before.baselines, reference, held_out),
        ended_s=_ended_s(learning, facts, phases), air=transmitter.memory(),
    )  # fmt: skip
    return state, RoundOutcome(facts, before.model, state, collected, phases, spends, leaks, audits)


def _ended_s(learning: Learning, facts: RoundContext, phases: list[PhaseOutcome]) -> float:
    """Time at which the round is over: windows that end before it pass by.

    At the merge; with noise at the server at the deadline, whatever has arrived: otherwise one slow UE would decide
    how many rounds are played, and the number of rounds is what epsilon adds up.
    """
    server = learning.server
    if learning.hides_who_came and isinstance(server, Synchronous):
        return facts.time_s + server.limit_s(learning.round_s)
    return phases[-1].merged_s


def _facts(world: World, setup: Setup, before: RoundState) -> RoundContext:
    """Context of the round."""
    learning = setup.learning
    return RoundContext(
        round=before.round + 1,
        time_s=float(world.env.now),
        public=setup.public,
        weight=learning.aggregation.weight,
        sampling_rate=learning.sampling_rate,
        request=learning.learner.request(before.model),
        round_s=learning.round_s,
        week_s=world.clock.week_s(float(world.env.now)),
        day=world.clock.day_ended(float(world.env.now)),
    )


def _play_phases(
    world: World,
    setup: Setup,
    transmitter: Transmitter,
    facts: RoundContext,
    before: RoundState,
    local: Local,
    states: PartStates,
    streams: RoundStreams,
) -> Generator[simpy.Event, None, tuple[list[PhaseOutcome], PartStates]]:
    """Play all phases of the learner; each begins from the model that the one before published."""
    phases, requested_s, model, server = list[PhaseOutcome](), facts.time_s, before.model, setup.learning.server
    if not isinstance(server, Synchronous):
        raise TypeError(f"{server.kind_name()}: it has no rounds")
    limit_s = server.limit_s(setup.learning.round_s)
    for i, name in enumerate(setup.learning.learner.phases):
        own, left_s = streams.of_phase(name, first=i == 0), limit_s - (requested_s - facts.time_s)
        phase = PhaseStart(world, setup, facts, name, model, local, requested_s, left_s, before.played, own)
        outcome, states = yield from play_phase(phase, states, transmitter, server.merge_after_updates)
        phases.append(outcome)
        model, requested_s = outcome.model, outcome.merged_s
    return phases, states


def _reference(learning: Learning, before: RoundState, taken: TakenData) -> Reference:
    """The samples that maps without learning are drawn from, with those of the round."""
    if "signals" not in learning.data.offers:
        return before.reference
    fresh = Reference.of(taken.train if taken.fresh is None else taken.fresh)
    return Reference.join([before.reference, fresh])


def _audits(
    setup: Setup,
    before: RoundState,
    states: PartStates,
    taken: TakenData,
    held_out: HeldOut,
    local: Local,
    phases: list[PhaseOutcome],
    streams: RoundStreams,
) -> tuple[list[Row], dict[str, State]]:
    """Rows of the audit of membership, in rounds that have one, and what attacks remember."""
    learning, view = setup.learning, phases[-1].attacks.view
    if learning.membership is None or view is None or not due(learning.membership, before.played + 1):
        return [], states.membership
    others: HeldOut = (taken.held_out if len(taken.held_out) else held_out).usual
    initial = learning.learner.init(setup.public, setup.streams.at("learner.init"))
    wholes = learning.data.wholes if learning.data.holds_out_wholes else None
    rng = (setup.streams if learning.membership.remembers else streams).at("membership")
    return audit(learning.membership, view, local, others, rng, initial, wholes, states.membership)
