"""The server of a run, as one algorithm: it asks at the end of every window, and merges when its policy says so."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import simpy

from fl.data import TakenData
from fl.membership.audit import audit, due
from fl.references.maps import Reference
from fl.round import records
from fl.round.collect import FreeUes, collect
from fl.round.leaked import leaked
from fl.round.merge import merged
from fl.round.send import Departure, Transmitter, depart, landed, overhear, receive
from fl.round.setup import RoundStreams, Setup
from fl.round.state import Collected, Merged, Phase, RoundOutcome, RoundState
from fl.round.uploads import Uploads
from fl.types import AnySpend, HeldOut, Model, RoundContext, Spend, State
from netsim.radio.air import Ended
from netsim.radio.transmissions import SentUploads
from netsim.record import Row
from netsim.world import World

_ROUNDING = 1e-12  # relative; a deadline may miss the end of a window by as much


class Watcher(Protocol):
    """Observer of a run."""

    def played(self, state: RoundState, figures: dict[str, Any]) -> None:
        """A round was played, or passed by without figures; this is the state after it."""

    def rested(self, state: RoundState) -> None:
        """A run can go on from this state, at this time."""


class LearningServer:
    """Plays the rounds of a run, from a state on; every merge of a policy without rounds counts as a round.

    In rounds the server waits for the updates of all whom it asked (or of as many as it needs, or until the deadline)
    and merges them. Without rounds it goes on, and merges as soon as enough updates have arrived.
    """

    def __init__(self, world: World, setup: Setup, state: RoundState) -> None:
        self.world = world
        self.setup = setup
        self.state = state
        self.learning = setup.learning
        self.policy = setup.learning.server
        self.air = Transmitter(world, setup, state.air, None if self.policy.in_rounds else self._on_end)
        self.watcher: Watcher | None = None
        self.closed = False

    def _keep(self, **fields: Any) -> None:
        """Set these fields of the state."""
        self.state = replace(self.state, **fields)

    # -- time

    def serve(self, watcher: Watcher) -> Generator[simpy.Event, Any, None]:
        """Process: until the world ends, all rounds that are wanted are played, or the privacy budget is spent."""
        self.watcher = watcher
        number = self.next_window()
        while number is not None and not self.over:
            yield self.world.env.timeout(max(self.ends_s(number) - self.now_s, 0.0))
            if not self.over:
                self._give_up_lost()
                outcome = yield from self.play(number)
                if self.policy.in_rounds:
                    self._record(outcome)
            self._keep(round=number, air=self.air.memory())
            watcher.rested(self.state)
            number = self.next_window()
        self._give_up_all()

    def play(self, number: int) -> Generator[simpy.Event, Any, RoundOutcome | None]:
        """Window `number`, steps a to l; in rounds what came of it, which lasts as long as updates need on the air.

        A round in which no UE has data leaves no outcome and only counts, unless noise at the server hides who came:
        then it is played like any other, with noise that is drawn and booked. A round that would exceed the budget
        leaves nothing: what it learnt is forgotten before it is published.
        """
        before = self.state
        self._keep(round=number)
        facts, streams = self._facts(number), RoundStreams(self.setup.streams, number)
        collected = self._collect(facts, streams)  # a take, b ask, c curate
        if collected is None:
            return None
        if not self.policy.in_rounds:
            self._ask(facts, collected, streams, before)
            return None
        phases, spends, asked_s = list[Merged](), list(collected.spends), facts.time_s
        limit_s = self.policy.limit_s(self.learning.round_s)
        for name in self.learning.learner.phases:
            model = phases[-1].model if phases else before.model
            own = streams.of_phase(name, first=not phases)
            phase = self._phase(facts, name, model, asked_s, limit_s - (asked_s - facts.time_s), own)
            uploads, departure, drawn = self._depart(phase, collected)  # d learn, e power, f plan, g protect
            result = yield from self._merge_when_all_came(phase, uploads, departure)  # h send, i merge, l attack
            phases.append(result)
            spends += [*drawn, *result.spends]
            asked_s = result.merged_s
        if not self._pay(spends, before):  # k pay
            return None
        return self._close(facts, collected, phases, spends)

    def _ask(self, facts: RoundContext, collected: Collected, streams: RoundStreams, before: RoundState) -> None:
        """Without rounds: UEs learn, protect and begin to send; the noise that they drew is booked now."""
        name, state = self.learning.learner.phases[0], self.state
        limit_s = self.policy.limit_s(self.learning.round_s)
        phase = self._phase(facts, name, state.model, facts.time_s, limit_s, streams)
        uploads, departure, drawn = self._depart(phase, collected)
        spends = [*collected.spends, *drawn]
        if not self._pay(spends, before):
            return
        asked = replace(facts, round=state.played + 1)
        records.write_request(self.setup.recorder, self.state.ledger, asked, facts.time_s, collected, spends)
        measured = collected.taken.measured
        measured = measured.select(np.isin(measured.ue, uploads.ue))
        uploads = replace(uploads, made=uploads.made.dense(), updates=uploads.updates.dense())
        self._keep(flight=self.state.flight.with_sent(uploads, measured, phase.model))
        self.air.submit(departure)

    def _depart(self, phase: Phase, collected: Collected) -> tuple[Uploads, Departure, list[Spend]]:
        """Steps d to g, and what the parts remember of them."""
        parts = dict(self.state.parts)
        left = depart(self.world, phase, collected.local, parts)
        self._keep(parts=parts)
        return left

    def next_window(self) -> int | None:
        """The number of the next window of time; None where the world ends before.

        Windows follow one another. Where a round may last longer than one, because transmissions take their time or
        because the server's deadline allows it, those that end before it does pass by.
        """
        state, number = self.state, self.state.round + 1
        last = self.last_window
        if state.air is not None or self.policy.has_deadline:
            while number <= last and self.ends_s(number) < state.ended_s * (1 - _ROUNDING):
                number += 1
        return number if number <= last else None

    def ends_s(self, number: int) -> float:
        """Time at which a window ends, the last one with the world."""
        return min(self.world.clock.end_s(number, self.learning.round_s), self.world.duration_s)

    @property
    def last_window(self) -> int:
        """Number of the window with which the world ends."""
        return self.world.clock.rounds(self.world.duration_s, self.learning.round_s)

    @property
    def now_s(self) -> float:
        """The simulated time."""
        return float(self.world.env.now)

    @property
    def over(self) -> bool:
        """Whether no round follows: all are played, or the budget is spent and no update is under way."""
        done = self.state.played >= (self.learning.rounds or np.inf)
        return done or (self.state.stopped and not len(self.state.flight.ue))

    # -- a round

    def _facts(self, number: int) -> RoundContext:
        """Context of the round that ends now."""
        learning = self.learning
        return RoundContext(
            round=number,
            time_s=self.now_s,
            public=self.setup.public,
            weight=learning.aggregation.weight,
            sampling_rate=learning.sampling_rate,
            request=learning.learner.request(self.state.model),
            round_s=learning.round_s,
            week_s=self.world.clock.week_s(self.now_s),
            day=self.world.clock.day_ended(self.now_s),
        )

    def _collect(self, facts: RoundContext, streams: RoundStreams) -> Collected | None:
        """Steps a to c: the window's measurements become the data that UEs learn from; None where no UE is asked."""
        world, learning, setup, state = self.world, self.learning, self.setup, self.state
        if not self.policy.in_rounds and (state.stopped or facts.round >= self.last_window):
            return None  # updates would come after the end, or cost more than the budget
        parts = dict(state.parts)
        taken, parts["data"] = learning.data.take(
            world.observations(), setup.model_of_cell, parts["data"], streams.at("data")
        )
        self._keep(parts=parts)
        empty = len(taken.measured.ue) == 0 and len(taken.train.ue) == 0
        if not taken.due or (empty and not learning.hides_who_came):
            return None
        held_out = taken.held_out if learning.data.scores_round_alone else state.held_out.plus(taken.held_out)
        self._keep(held_out=held_out, reference=_reference(setup, state.reference, taken))
        n_ue = len(world.ues)
        free = FreeUes(~np.isin(np.arange(n_ue), state.flight.ue), min(self.policy.room, n_ue) - state.flight.under_way)
        if free.most <= 0:
            return None
        collected = collect(world, setup, taken, facts, parts, streams, free)
        return collected if self.policy.in_rounds or len(collected.local.ue) else None

    def _phase(
        self, facts: RoundContext, name: str, model: Model, asked_s: float, limit_s: float, streams: RoundStreams
    ) -> Phase:
        """A phase of the learner that begins with a model."""
        version = self.state.played
        bases = self.state.flight.bases | {version: model}
        return Phase(self.setup, facts, name, model, version, asked_s, limit_s, bases, len(self.world.ues), streams)

    def _merge_when_all_came(
        self, phase: Phase, uploads: Uploads, departure: Departure
    ) -> Generator[simpy.Event, Any, Merged]:
        """Steps h to j, and l, of a round: send, wait, and merge what has come."""
        sent = yield from self.air.send(departure, self.policy.waits_for)
        self._spend_energy(departure.cohort.ue, sent)
        uploads = receive(landed(self.setup, uploads, departure, sent), phase.streams)
        now = replace(phase, facts=replace(phase.facts, channel=uploads.channel))
        parts = dict(self.state.parts)
        result = merged(now, uploads, parts)
        self._keep(parts=parts)
        merged_s, attacked_s = self._times_s(phase, uploads)
        return replace(result, merged_s=merged_s, attacked_s=attacked_s)

    def _times_s(self, phase: Phase, uploads: Uploads) -> tuple[float, float]:
        """When the server merged, and when the attack was made: by an eavesdropper after the last update that it heard.

        The server does not know that missing updates are lost: it waits for them until the deadline.
        """
        channel, overheard = uploads.channel, uploads.overheard
        first = uploads.first
        came, wanted = int(channel.decoded[first].sum()), min(self.policy.waits_for or len(first), len(first))
        merged_s = float(uploads.came_s[channel.decoded].max(initial=phase.asked_s))
        attacked_s = merged_s
        if self.policy.has_deadline and came < wanted:
            merged_s = phase.asked_s + phase.limit_s
        if overheard is not None and overheard.channel is not None:
            heard_s = np.fmin(uploads.came_s, phase.asked_s + phase.limit_s)[overheard.channel.decoded]
            attacked_s = float(heard_s.max(initial=phase.asked_s))
        if isinstance(uploads.sent, SentUploads):  # time has passed, also for those that were lost
            merged_s = self.now_s
            attacked_s = max(attacked_s, merged_s)
        return merged_s, attacked_s

    def _spend_energy(self, ue: Any, sent: Any) -> None:
        """Take the energy of uploads that have ended from the batteries of their UEs (k,)."""
        parts = self.state.parts
        availability = self.learning.availability.spent(ue, sent.energy_j, parts["availability"])
        self._keep(parts=parts | {"availability": availability})

    def _pay(self, spends: list[AnySpend], before: RoundState) -> bool:
        """Step k: book all noise that was drawn, whether or not packets arrive; False where that exceeds the budget."""
        paid, budget = self.state.ledger.add(spends), self.learning.privacy_budget
        if budget is not None and paid.exceeds(budget.epsilon, budget.delta):
            self.state = replace(before, round=self.state.round, stopped=True)
            return False
        self._keep(ledger=paid)
        return True

    def _close(
        self, facts: RoundContext, collected: Collected, phases: list[Merged], spends: list[AnySpend]
    ) -> RoundOutcome:
        """The last of a round: truth meets estimates, and the model is scored. Afterwards it is published."""
        learning, before, played = self.learning, self.state, self.state.played + 1
        self._keep(
            played=played,
            model=phases[-1].model,
            baselines=records.baselines(learning, before.baselines, before.reference, before.held_out),
            ended_s=phases[-1].merged_s,
        )
        last = played == learning.rounds or (self.policy.in_rounds and self.next_window() is None)
        leaks = leaked(self.setup, self.world, self.state, facts, collected, phases, last)
        audits, memory = self._audits(collected, phases)
        self._keep(
            parts=self.state.parts | {"membership": memory},
            leakage=leaks.tracks,
            whereabouts=leaks.whereabouts,
            linking=leaks.linking,
            ended_s=self._ended_s(facts, phases),
        )
        return RoundOutcome(facts, before.model, self.state, collected, phases, spends, leaks, audits)

    def _ended_s(self, facts: RoundContext, phases: list[Merged]) -> float:
        """Time at which the round is over: windows that end before it pass by.

        At the merge; with noise at the server at the deadline, whatever has arrived: otherwise one slow UE would decide
        how many rounds are played, and the number of rounds is what epsilon adds up.
        """
        if self.learning.hides_who_came and self.policy.in_rounds:
            return facts.time_s + self.policy.limit_s(self.learning.round_s)
        return phases[-1].merged_s

    def _audits(self, collected: Collected, phases: list[Merged]) -> tuple[list[Row], dict[str, State]]:
        """Rows of the audit of membership, in rounds that have one, and what attacks remember."""
        learning, setup, state = self.learning, self.setup, self.state
        view, states = phases[-1].attacks.view, state.parts["membership"]
        if learning.membership is None or view is None or not due(learning.membership, state.played):
            return [], states
        taken = collected.taken
        others: HeldOut = (taken.held_out if len(taken.held_out) else state.held_out).usual
        initial = learning.learner.init(setup.public, setup.streams.at("learner.init"))
        wholes = learning.data.wholes if learning.data.holds_out_wholes else None
        own = RoundStreams(setup.streams, state.round)
        rng = (setup.streams if learning.membership.remembers else own).at("membership")
        return audit(learning.membership, view, collected.local, others, rng, initial, wholes, states)

    def _record(self, outcome: RoundOutcome | None) -> None:
        """Step m: write what came of a round, and tell the observer."""
        figures = {} if outcome is None else records.write(self.setup.recorder, self.world, self.learning, outcome)
        if self.watcher is not None:
            self.watcher.played(self.state, figures)

    # -- without rounds

    def _on_end(self, ended: Ended) -> None:
        """Uploads (k,) have ended: remember them, and merge as soon as there are enough; not after the end."""
        if self.closed:
            return
        self._spend_energy(ended.ue, ended.sent)
        self._take_from_air(ended)
        k, most = self.policy.waits_for or 1, self.learning.rounds or np.inf
        arrived = self.state.flight.arrived
        while arrived is not None and self.state.played < most:
            came = np.cumsum(arrived.channel.decoded & np.isin(np.arange(len(arrived.ue)), arrived.first))
            if came[-1] < k:
                return
            last_ue = arrived.ue[np.searchsorted(came, k)]  # the one that makes the buffer full
            self._merge_arrived(arrived.select(slice(0, int(np.flatnonzero(arrived.ue == last_ue)[-1]) + 1)))
            arrived = self.state.flight.arrived

    def _take_from_air(self, ended: Ended) -> None:
        """Move uploads (k,) that have ended, in this order, from the air to those that have arrived, as received."""
        flight = self.state.flight
        if flight.flying is None or not len(ended.ue):
            return
        place = {ue: i for i, ue in enumerate(ended.ue.tolist())}
        entry = np.array([place.get(ue, -1) for ue in flight.flying.ue.tolist()])
        rows = np.argsort(entry, kind="stable")
        rows = rows[entry[rows] >= 0]
        uploads = overhear(self.setup, replace(flight.flying.select(rows), sent=ended.sent.select(entry[rows])))
        pieces = list[Uploads]()
        for window in np.unique(uploads.window).tolist():
            pieces.append(receive(uploads.select(uploads.window == window), RoundStreams(self.setup.streams, window)))
        uploads = Uploads.join(pieces)
        order = np.argsort([place[ue] for ue in uploads.ue.tolist()], kind="stable")
        self._keep(flight=flight.with_ended(uploads.select(order)))

    def _merge_arrived(self, uploads: Uploads) -> None:
        """Steps h to j, l and m, of uploads that have ended; the noise of this merge is booked now."""
        number, name = self.state.played + 1, self.learning.learner.phases[0]
        uploads = uploads.in_order()
        facts = replace(self._facts(number), channel=uploads.channel)
        streams = RoundStreams(self.setup.streams, number)
        phase = self._phase(facts, name, self.state.model, self.now_s, np.inf, streams)
        measured = self.state.flight.measured_of(uploads.ue)
        collected = Collected(TakenData(measured, uploads.local, HeldOut.none()), uploads.local)
        parts = dict(self.state.parts)
        result = merged(phase, uploads, parts)
        flight = self.state.flight.without(uploads.ue)
        self._keep(parts=parts, flight=flight, ledger=self.state.ledger.add(result.spends))
        outcome = self._close(facts, collected, [result], result.spends)
        asked = replace(facts, time_s=float(uploads.asked_s.min()))
        self._record(replace(outcome, facts=asked))

    def _give_up_lost(self) -> None:
        """Record uploads that were lost since the last merge: their UEs are free again."""
        arrived = self.state.flight.arrived
        if arrived is not None and not arrived.channel.decoded.all():
            self._write_lost(arrived.select(~arrived.channel.decoded))

    def _give_up_all(self) -> None:
        """At the end: record uploads that no merge has had, and those that are still under way."""
        self.closed = True
        if self.air.events is not None and not self.policy.in_rounds:
            self._take_from_air(self.air.events.under_way())
        if self.state.flight.arrived is not None:
            self._write_lost(self.state.flight.arrived)

    def _write_lost(self, uploads: Uploads) -> None:
        """Record uploads that no merge will have, those that arrived too late for one included."""
        state, number, recorder = self.state, self.state.played + 1, self.setup.recorder
        uploads, measured = uploads.in_order(), state.flight.measured_of(uploads.ue)
        name = self.learning.learner.phases[0]
        records.write_uploads(recorder, self.learning, number, state.model, measured, uploads, name)
        records.write_links(recorder, self.world, number, uploads)
        self._keep(flight=state.flight.without(uploads.ue))


def _reference(setup: Setup, before: Reference, taken: TakenData) -> Reference:
    """The samples that maps without learning are drawn from, with those of a window."""
    if "signals" not in setup.learning.data.offers:
        return before
    return Reference.join([before, Reference.of(taken.train if taken.fresh is None else taken.fresh)])
