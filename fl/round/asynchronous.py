"""A server without rounds: it asks every free UE, and merges updates as they arrive."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from math import inf

import numpy as np
import simpy

from fl.data import TakenData
from fl.round import records
from fl.round.attack import attack
from fl.round.baselines import Reference
from fl.round.collect import FreeUes, collect, looked
from fl.round.flight import ArrivedUploads, Flight, Wave
from fl.round.gather import GatheredUploads, gather
from fl.round.leaked import leaked
from fl.round.merge import Merge, Merging, merge, observe
from fl.round.round import Watcher
from fl.round.setup import Setup
from fl.round.state import Attacks, Collected, PhaseOutcome, RoundOutcome, RoundState
from fl.round.streams import RoundStreams
from fl.round.sums import in_groups
from fl.round.transmit import Transmitter, UploadRequest
from fl.round.upload import PhaseStart, Upload, prepare
from fl.server.asynchronous import Asynchronous
from fl.types import AnySpend, HeldOut, RoundContext
from netsim.radio.air import Ended
from netsim.world import World


class AsynchronousServer:
    """Plays a run without rounds. At the end of every window it asks UEs that are free; every merge counts as a round.

    `watcher` hears of every merge, and gets the state after every window, from which a run can go on.
    """

    def __init__(self, world: World, setup: Setup, state: RoundState, watcher: Watcher) -> None:
        self.world, self.setup, self.state, self.watcher = world, setup, state, watcher
        server = setup.learning.server
        if not isinstance(server, Asynchronous) or state.flight is None:
            raise TypeError(f"{server.kind_name()}: it has rounds")
        self.server: Asynchronous = server
        self.flight: Flight = state.flight
        self.transmitter = Transmitter(world, setup, state.air, self._ended)
        self.most = setup.learning.rounds or np.inf
        self.closed = False

    def serve(self) -> Generator[simpy.Event, None, None]:
        """Process: until the world ends, all merges that are wanted are made, or the budget is spent."""
        learning, clock, world = self.setup.learning, self.world.clock, self.world
        last = clock.rounds(world.duration_s, learning.round_s)
        while self.state.round < last and not self._over():
            number = self.state.round + 1
            ends_s = min(clock.end_s(number, learning.round_s), world.duration_s)
            yield world.env.timeout(max(ends_s - float(world.env.now), 0.0))
            over = self._over()
            if not over:
                self._give_up_lost()
            if not over and not self.state.stopped and number < last:
                self._ask(number)
            self.state = replace(self.state, round=number, flight=self.flight, air=self.transmitter.memory())
            self.watcher.rested(self.state)
        self._write_unfinished()

    def _over(self) -> bool:
        return self.state.played >= self.most or (self.state.stopped and not self.flight.waves)

    def _ask(self, number: int) -> None:
        """Steps a to g, and k: UEs that are free learn from what they have, and begin to send."""
        world, setup, state, learning = self.world, self.setup, self.state, self.setup.learning
        streams = RoundStreams(setup.streams, number)
        facts = RoundContext(
            round=number, time_s=float(world.env.now), public=setup.public, weight=learning.aggregation.weight,
            request=learning.learner.request(state.model), round_s=learning.round_s,
            week_s=world.clock.week_s(float(world.env.now)), day=world.clock.day_ended(float(world.env.now)),
        )  # fmt: skip
        taken, data = learning.data.take(
            world.observations(), setup.model_of_cell, state.parts.data, streams.at("data")
        )
        parts = looked(world, setup, taken, replace(state.parts, data=data))
        held_out = taken.held_out if learning.data.scores_round_alone else state.held_out.plus(taken.held_out)
        state = replace(state, parts=parts, held_out=held_out, reference=_reference(setup, state.reference, taken))
        self.state = state
        room = (self.server.concurrency or len(world.ues)) - self.flight.under_way
        if not taken.due or room <= 0:
            return
        free = FreeUes(~self.flight.busy(len(world.ues)), room)
        collected, parts = collect(world, learning, taken, facts, parts, streams, free)
        if not len(collected.local.ue):
            self.state = replace(state, parts=parts)
            return
        left_s = inf if self.server.deadline_s is None else self.server.deadline_s
        phase = PhaseStart(
            world, setup, facts, learning.learner.phases[0], state.model, collected.local, facts.time_s, left_s,
            state.played, streams,
        )  # fmt: skip
        upload, parts = prepare(phase, parts)
        spends: list[AnySpend] = [*collected.spends, *upload.spends]
        paid, budget = state.ledger.add(spends), learning.privacy_budget
        if budget is not None and paid.exceeds(budget.epsilon, budget.delta):
            self.state = replace(state, stopped=True)
            return
        asked = records.RequestTimes(state.played + 1, facts.time_s, facts.time_s)
        records.write_asked(setup.recorder, asked, paid, collected.withheld, collected.curation, spends)
        self.state = replace(state, parts=parts, ledger=paid)
        self._send(phase, collected, upload)

    def _send(self, phase: PhaseStart, collected: Collected, upload: Upload) -> None:
        """Put updates on the air, and remember whose they are."""
        air = self.transmitter.air
        if air is None:
            raise TypeError("a server without rounds needs transmissions as events")
        measured, asked = collected.taken.measured, upload.cohort.ue
        wave = Wave(
            number=phase.facts.round, submission=air.last_submission + 1, version=phase.version,
            requested_s=phase.requested_s, base=phase.model, measured=measured.only(np.isin(measured.ue, asked)),
            local=collected.local, made=upload.made.dense(), updates=upload.updates.dense(), cohort=upload.cohort,
            of_row=upload.of_row, payload=upload.payload, context=upload.context, overheard=upload.overheard,
            left=np.ones(len(asked), dtype=np.bool_),
        )  # fmt: skip
        self.flight = replace(self.flight, waves=(*self.flight.waves, wave.unlinked()))
        self.transmitter.ask(
            UploadRequest(upload.cohort, upload.payload, phase.facts.round, phase.left_s, upload.energy_j)
        )  # fmt: skip

    def _ended(self, ended: Ended) -> None:
        """Uploads (k,) have ended: remember them, and merge as soon as there are enough; not after the end."""
        if self.closed:
            return
        spent = self.setup.learning.availability.spent(ended.ue, ended.sent.energy_j, self.state.parts.availability)
        self.state = replace(self.state, parts=replace(self.state.parts, availability=spent))
        self.flight = replace(self.flight, arrived=self._with_arrived(ended))
        while self._merge_full():
            pass

    def _merge_full(self) -> bool:
        """Merge the uploads up to the one that makes the buffer full, if there is one."""
        arrived, k = self.flight.arrived, self.server.merged_at_once
        if arrived is None or self.state.played >= self.most or arrived.sent.decoded.sum() < k:
            return False
        self._merge(int(np.flatnonzero(arrived.sent.decoded)[k - 1]) + 1)
        return True

    def _merge(self, n: int) -> None:
        """Steps h to j, l and m, for the first n uploads that have ended."""
        arrived = self.flight.arrived
        if arrived is None:
            return
        done, rest = arrived.select(slice(n)), arrived.select(slice(n, None))
        flight, state, setup = self.flight, self.state, self.setup
        self.flight = flight.without(done, rest)
        learning, number, now_s = setup.learning, state.played + 1, float(self.world.env.now)
        got = gather(setup, flight, done, number - 1)
        streams = RoundStreams(setup.streams, number)
        facts = RoundContext(
            number, now_s, setup.public, got.channel, learning.aggregation.weight, round_s=learning.round_s,
            week_s=self.world.clock.week_s(now_s),
        )  # fmt: skip
        at = Merging(setup, facts, learning.learner.phases[0], state.model, len(self.world.ues), streams)
        batch, sums = in_groups(at, got.batch)
        counts = np.isin(got.uploads.ue, batch.got.updates.ue[batch.got.decoded])
        got = replace(got, uploads=replace(got.uploads, staleness=np.where(counts, got.uploads.staleness, -1)))
        merged, parts = merge(at, batch, state.parts)
        parts = observe(at, batch, merged.weights, parts)
        attacks, parts = attack(at, batch, merged, parts)
        phase = replace(self._phase(now_s, got, merged), attacks=attacks, sums=sums)
        collected = Collected(TakenData(got.measured, got.local, HeldOut.none()), got.local)
        leaks = leaked(setup, self.world, state, parts, facts, collected, [phase], number == self.most)
        self.state = replace(
            state, played=number, model=merged.model, parts=parts, leakage=leaks.tracks, ended_s=now_s,
            whereabouts=leaks.whereabouts, linking=leaks.linking,
            baselines=records.baselines(learning, state.baselines, state.reference, state.held_out),
            ledger=state.ledger.add(merged.spends) if merged.spends else state.ledger,
        )  # fmt: skip
        asked = replace(facts, time_s=phase.requested_s)
        outcome = RoundOutcome(asked, state.model, self.state, collected, [phase], [*phase.spends], leaks)
        figures = records.write(setup.recorder, self.world, learning, outcome)
        self.watcher.played(self.state, figures)

    def _phase(self, now_s: float, got: GatheredUploads, merged: Merge) -> PhaseOutcome:
        """A merge without attacks, as the one phase of a round."""
        return PhaseOutcome(
            name=self.setup.learning.learner.phases[0], requested_s=float(got.uploads.requested_s.min()),
            asked_s=got.uploads.requested_s,
            arrived_s=got.arrived_s, merged_s=now_s, attacked_s=now_s, made=got.made,
            received=got.batch.got, channel=got.channel, spends=merged.spends, weights=merged.weights,
            model=merged.model, eavesdropped=got.overheard, non_finite=int((~got.batch.finite).sum()),
            context=got.context, uploads=got.uploads, attacks=Attacks(),
            at_arrival=self.setup.learning.threat.observes == "updates",
        )  # fmt: skip

    def _give_up_lost(self) -> None:
        """Record uploads that were lost since the last merge: their UEs are free again."""
        arrived = self.flight.arrived
        if arrived is None or arrived.sent.decoded.all():
            return
        lost, rest = arrived.select(~arrived.sent.decoded), arrived.select(arrived.sent.decoded)
        got = gather(self.setup, self.flight, lost, self.state.played)
        self.flight = self.flight.without(lost, rest)
        self._write_lost(got)

    def _write_lost(self, got: GatheredUploads) -> None:
        """Rows of uploads that no merge will have, those that arrived too late for one included."""
        setup, state = self.setup, self.state
        got = replace(got, uploads=replace(got.uploads, staleness=np.full(len(got.uploads.ue), -1)))
        phase = self._phase(float(self.world.env.now), got, Merge(np.zeros(len(got.made.ue)), state.model, []))
        collected = Collected(TakenData(got.measured, got.local, HeldOut.none()), got.local)
        records.write_uploads(
            setup.recorder, self.world, setup.learning, state.played + 1, state.model, collected, [phase]
        )

    def _write_unfinished(self) -> None:
        """At the end: uploads that no merge has had, and those that are still under way; nothing is merged any more."""
        self.closed, air = True, self.transmitter.air
        arrived = None if air is None else self._with_arrived(air.under_way())
        if arrived is not None and len(arrived.wave):
            self._write_lost(gather(self.setup, self.flight, arrived, self.state.played))

    def _with_arrived(self, ended: Ended) -> ArrivedUploads:
        """Uploads that have ended before, then these."""
        number = {wave.submission: wave.number for wave in self.flight.waves}
        wave = np.array([number[s] for s in ended.submission.tolist()], dtype=np.int64)
        more = ArrivedUploads(wave, ended.place, ended.sent)
        return more if self.flight.arrived is None else ArrivedUploads.join([self.flight.arrived, more])


def _reference(setup: Setup, before: Reference, taken: TakenData) -> Reference:
    """The samples that maps without learning are drawn from, with those of the window."""
    fresh = taken.train if taken.fresh is None else taken.fresh
    signals = "signals" in setup.learning.data.offers and len(fresh.x)
    return Reference.join([before, Reference.of(fresh)]) if signals else before
