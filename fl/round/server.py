"""The server of a run, as one algorithm: `LearningServer.play` is a window of time, from a request
to a new model.
"""

from collections.abc import Callable, Generator
from dataclasses import replace
from math import inf
from typing import Any, Protocol

import numpy as np
import simpy

from fl.data import TakenData
from fl.membership.membership import infer_membership
from fl.references import Reference
from fl.round import records
from fl.round.attack import run_attacks
from fl.round.collect import collect_samples, find_cohort, take_data
from fl.round.leaked import measure_leakage
from fl.round.merge import merge_uploads
from fl.round.send import Sending, prepare_uploads, receive_uploads, stop_late
from fl.round.setup import RoundStreams, Setup
from fl.round.state import Collected, Merge, Phase, RoundOutcome, RoundState, note_links
from fl.round.uploads import Uploads
from fl.types import AnySpend, HeldOut, Model, RoundContext
from netsim.checkpoint import save_tree, to_tree
from netsim.radio.air import AirMemory, EndedUploads, EventUplink
from netsim.radio.transmissions import SentUploads
from netsim.radio.uplink import Channel
from netsim.record import Row, TableRows
from netsim.units import FloatPair, IntArray
from netsim.world.world import World, make_look

_ROUNDING = 1e-12  # relative; a deadline may miss the end of a window by as much


class Watcher(Protocol):
    """Observer of a run."""

    def report_round(self, state: RoundState, figures: Row, now_s: float) -> None:
        """A round was played, or passed by without figures; this is the state after it."""

    def report_state(self, state: RoundState) -> None:
        """A run can go on from this state, at this time."""


class LearningServer:
    """Plays the rounds of a run, from a state on; every merge of a policy without rounds counts as
    a round.

    At the end of each window of time (`play`)::

        a     take what UEs measured                              fl.data, fl.round.collect
        b, c  ask some of them, who hold back and curate data     fl.round.collect
        d     those that accept learn from the model              fl.round.learn
        e, f  they choose powers, and the uplink is planned       fl.round.send
        g     protect: the UEs' half of all defenses              fl.round.learn
        h     send (`_transmit`), and receive what has come       fl.round.send, netsim.radio.air
        i, j  merge: weights, sum, the server's half of all
              defenses; they observe rows                         fl.round.merge
        k     attack what the threat lets the attacker see        `judge`, fl.round.attack
        l     pay: a round that exceeds the privacy budget is
              forgotten, and not attacked                         `_book_within_budget`
        m     publish, compare with the truth, and record         `judge`, fl.round.leaked, records

    In rounds the server waits for the updates of all whom it asked (or of as many as it needs, or
    until the deadline). Steps d to j are one phase of the learner; most have one. Without rounds
    `play` ends when updates begin to fly, and `_merge_when_enough` merges as soon as enough of them
    have arrived.

    Noise is booked, whether or not updates arrive: in rounds all of it in step l; without rounds
    that of the UEs when they begin to send, late updates included. Defenses with noise at the
    server need rounds.

    Nothing that is learnt or sent depends on step k, nor on what m compares and records, so that
    `record` may be called in another process than `play`, which goes ahead. Whoever serves has a
    `Watcher`.
    """

    def __init__(self, world: World, setup: Setup, state: RoundState, watcher: Any = None) -> None:
        if any(attack.n_towns and attack.lessons is None for attack in setup.learning.attacks):
            raise RuntimeError("an attack has not learnt on its made-up towns")
        self.world = world
        self.setup = setup
        self.state = state.copy()
        self.learning = setup.learning
        self.policy = setup.learning.server
        self.air = self._build_air(state.air)
        self.watcher = watcher
        self.closed = False
        self._missing = 0
        self._enough = world.env.event()

    def serve(self) -> Generator[simpy.Event, object, None]:
        """Process: until the world ends, all rounds that are wanted are played, or the privacy
        budget is spent.
        """
        while not self.over and (number := self.find_next_window()) is not None:
            yield self.world.env.timeout(max(self.find_end_s(number) - self.now_s, 0.0))
            if self.over:
                break
            self._give_up_lost()
            outcome = yield from self.play(number)
            if self.policy.in_rounds:
                self.record(self.state, outcome, self.now_s)  # k, and the end of m
            del outcome  # all updates of the round: those of the next need the room
            self.state.round = number
            self.state.air = None if self.air is None else self.air.memory()
            self.watcher.report_state(self.state)
            self.state = self.state.copy()
        self._give_up_all()

    def play(self, number: int) -> Generator[simpy.Event, object, RoundOutcome | None]:
        """Window `number`; in rounds what came of it, not yet judged, which lasts as long as
        updates need on the air.

        A round in which no UE has data leaves no outcome and only counts, unless noise at the
        server hides who came: then it is played like any other, with noise that is drawn and
        booked. A round that would exceed the budget leaves nothing: what it learnt is forgotten
        before it is published, but for the updates on the air.
        """
        before = self.state
        self.state = self.state.copy()
        learning = self.learning
        state = self.state
        state.round = number
        facts = self._build_context(number)
        streams = RoundStreams(self.setup.streams, number)
        # a  take, b  ask, hold back, c  curate
        collected = self._collect(facts, streams)
        if collected is None:
            return None
        spends = list(collected.spends)
        merges: list[Merge] = []
        model = state.model
        asked_s = facts.time_s
        limit_s = self.policy.get_limit_s(learning.round_s)
        for name in learning.learner.phases:
            phase_streams = streams.derive_phase(name, first=not merges)
            phase = self._build_phase(
                facts, name, model, asked_s, limit_s - (asked_s - facts.time_s), phase_streams
            )
            # d  learn, e  power, f  plan, g  protect
            before_phase = dict(state.parts)
            uploads, sending, drawn = prepare_uploads(
                self.world, phase, collected.local, state.parts
            )
            if learning.audit is not None:
                from fl.round.canaries import record_canaries  # here, since it loads for long

                state.parts["audit"] = record_canaries(phase, uploads, sending, before_phase)
            spends += drawn
            if (
                not self.policy.in_rounds
            ):  # l and m of what UEs did; h to m of updates: `_merge_when_enough`
                if self._book_within_budget(spends, before):
                    self._fly(phase, uploads, sending, collected, spends)
                return None
            # h  send, receive
            channel = yield from self._transmit(phase, sending)
            self._spend_energy(sending.cohort.ue, channel)
            uploads = receive_uploads(
                self.setup, uploads, channel, sending.of_row, phase_streams, sending
            )
            note_links(uploads, state.parts)
            # i  merge, j  observe; k  attack: in `judge`, what is paid for
            merges.append(self._merge(phase, uploads, self._find_times_s(phase, uploads)))
            spends += merges[-1].spends
            model = merges[-1].model
            asked_s = merges[-1].merged_s
        # l  pay: what costs too much is not published; m  publish (compare, record: `serve`)
        if self._book_within_budget(spends, before):
            return self._publish(facts, collected, merges, spends)
        return None

    # -- time

    def find_next_window(self) -> int | None:
        """The number of the next window of time; None where the world ends before.

        Windows follow one another. Where a round may last longer than one, because transmissions
        take their time or because the server's deadline allows it, those that end before it does
        pass by.
        """
        state = self.state
        number = state.round + 1
        last = self.last_window
        if state.air is not None or self.policy.has_deadline:
            while number <= last and self.find_end_s(number) < state.ended_s * (1 - _ROUNDING):
                number += 1
        return number if number <= last else None

    def find_end_s(self, number: int) -> float:
        """Time at which a window ends, the last one with the world."""
        return min(
            self.world.clock.compute_round_end_s(number, self.learning.round_s),
            self.world.duration_s,
        )

    @property
    def last_window(self) -> int:
        """Number of the window with which the world ends."""
        return self.world.clock.count_rounds(self.world.duration_s, self.learning.round_s)

    @property
    def now_s(self) -> float:
        """The simulated time."""
        return self.world.env.now

    @property
    def over(self) -> bool:
        """Whether no round follows: all are played, or the budget is spent and no update is under
        way.
        """
        done = self.state.played >= (self.learning.rounds or inf)
        return done or (self.state.stopped and not len(self.state.flight.ue))

    # -- steps of a round

    def _build_context(self, number: int) -> RoundContext:
        learning = self.learning
        return RoundContext(
            round=number,
            time_s=self.now_s,
            public=self.setup.public,
            weight=learning.aggregation.weight,
            sampling_rate=learning.sampling_rate,
            request=learning.learner.build_request(self.state.model),
            round_s=learning.round_s,
            week_s=self.world.clock.week_s(self.now_s),
            day=self.world.clock.find_ended_day(self.now_s),
            least_opened=learning.threat.secagg_threshold or 1,
            rounds=min(self.last_window, learning.rounds or self.last_window),
            separation=learning.separation,
            cohort=find_cohort(learning, self.setup.streams, number, len(self.world.ues)),
            on_device=bool(learning.on_device),
        )

    def _collect(self, facts: RoundContext, streams: RoundStreams) -> Collected | None:
        """Steps a to c: the window's measurements become the data that UEs learn from; None where
        no UE is asked.
        """
        world = self.world
        learning = self.learning
        setup = self.setup
        state = self.state
        if not self.policy.in_rounds and (state.stopped or facts.round >= self.last_window):
            # what is asked for in the last window would come after the end, or cost more than the
            # budget
            return None
        taken, state.parts["data"] = take_data(
            world, learning, setup.model_of_cell, state.parts["data"], streams.derive_rng("data")
        )
        empty = len(taken.measured.ue) == 0 and len(taken.train.ue) == 0
        if not taken.due or (empty and not learning.hides_who_came):
            return None
        state.held_out = (
            taken.held_out
            if learning.data.scores_round_alone
            else state.held_out.plus(taken.held_out)
        )
        if "signals" in learning.data.offers:
            fresh = taken.train if taken.fresh is None else taken.fresh
            state.reference = Reference.join([state.reference, Reference.from_training(fresh)])
        max_ues = min(self.policy.room, len(world.ues)) - state.flight.under_way
        if max_ues <= 0:
            return None
        free = ~np.isin(np.arange(len(world.ues)), state.flight.ue)
        collected = collect_samples(world, setup, taken, facts, state.parts, streams, free, max_ues)
        state.model, local = setup.trainer.start_round(facts.round, state.model, collected.local)
        collected = replace(collected, local=local)
        if self.policy.in_rounds or len(collected.local.ue):
            return collected
        return None

    def _build_phase(
        self,
        facts: RoundContext,
        name: str,
        model: Model,
        asked_s: float,
        limit_s: float,
        streams: RoundStreams,
    ) -> Phase:
        version = self.state.played
        bases = self.state.flight.bases | {version: model}
        return Phase(
            self.setup,
            facts,
            name,
            model,
            version,
            asked_s,
            limit_s,
            bases,
            len(self.world.ues),
            streams,
        )

    def _transmit(self, phase: Phase, sending: Sending) -> Generator[simpy.Event, object, Channel]:
        """Step h: wait until all uploads have ended, or those of enough UEs have arrived: then the
        others stop.
        """
        n_wanted = self.policy.waits_for
        if sending.planned is not None:
            return stop_late(sending.planned, n_wanted, self.setup.uplink.share_of_time())
        air, done = self._submit(phase, sending)
        if n_wanted is not None and not done.triggered:
            self._missing = n_wanted
            self._enough = self.world.env.event()
            yield done | self._enough
            if not done.triggered:
                air.stop(air.last_submission)
        yield done
        return done.value

    def _find_times_s(self, phase: Phase, uploads: Uploads) -> FloatPair:
        """When the server merged, and when the attack was made: by an eavesdropper after the last
        update that it heard.

        The server merges with the last update that came in time. If some are missing it waits for
        them until the deadline, if it has one: it does not know that they are lost. Where
        transmissions are events, it merges now.
        """
        first = uploads.first_rows
        n_arrived = uploads.channel.decoded[first].sum()
        n_wanted = min(self.policy.waits_for or len(first), len(first))
        merged_s = uploads.end_s[uploads.channel.decoded].max(initial=phase.asked_s)
        attacked_s = merged_s
        if self.policy.has_deadline and n_arrived < n_wanted:
            merged_s = phase.asked_s + phase.limit_s
        if uploads.overheard is not None:
            heard_s = np.fmin(uploads.end_s, phase.asked_s + phase.limit_s)[
                uploads.overheard.decoded
            ]
            attacked_s = heard_s.max(initial=phase.asked_s)
        if isinstance(
            uploads.uplink, SentUploads
        ):  # time has passed, also for those that were lost
            merged_s = self.now_s
            attacked_s = max(attacked_s, merged_s)
        return merged_s, attacked_s

    def _merge(self, phase: Phase, uploads: Uploads, times_s: FloatPair) -> Merge:
        """Steps i and j: merge uploads; times_s: when that is done, and when it is attacked."""
        phase = replace(phase, facts=replace(phase.facts, channel=uploads.channel))
        return merge_uploads(phase, uploads, times_s, self.state.parts)

    def _spend_energy(self, ue: IntArray, channel: Channel | SentUploads) -> None:
        """Of step h: take the energy of uploads that have ended from the batteries of their UEs
        (k,).
        """
        parts = self.state.parts
        parts["availability"] = self.learning.availability.spend_energy(
            ue, channel.energy_j, parts["availability"]
        )

    def _book_within_budget(self, spends: list[AnySpend], before: RoundState) -> bool:
        """Step l: book all noise that was drawn, whether or not packets arrive; False where that
        exceeds the budget.
        """
        paid = self.state.ledger.add(spends)
        budget = self.learning.privacy_budget
        if budget is not None and paid.exceeds(budget.epsilon, budget.delta):
            self.setup.probe.forget_draws(self.state.round)
            self.state = replace(before, round=self.state.round, stopped=True)
            return False
        self.state.ledger = paid
        return True

    def _publish(
        self, facts: RoundContext, collected: Collected, merges: list[Merge], spends: list[AnySpend]
    ) -> RoundOutcome:
        """Step m, to be judged and recorded: the new model is published."""
        learning = self.learning
        state = self.state
        model = state.model
        if "signals" in learning.data.offers:
            state.baselines = state.baselines.update(
                state.reference, state.held_out, learning.learner.most_held_out
            )
        state.model = merges[-1].model
        state.ended_s = merges[-1].merged_s
        if learning.hides_who_came and self.policy.in_rounds:
            # to the deadline, whatever has arrived: otherwise one slow UE would decide how many
            # rounds are played, and the number of rounds is what epsilon adds up
            state.ended_s = facts.time_s + self.policy.get_limit_s(learning.round_s)
        state.played += 1
        return RoundOutcome(facts, model, state, collected, merges, spends, [], [], [])

    def judge(self, outcome: RoundOutcome) -> RoundOutcome:
        """Steps k and m, of the round that has left this state, which is changed in place: attack
        its merges, and truth meets estimates.
        """
        state = self.state
        collected = outcome.collected
        merges = [run_attacks(merge.of, merge, state.parts) for merge in outcome.merges]
        last = state.played == self.learning.rounds or (
            self.policy.in_rounds and self.find_next_window() is None
        )
        if self.setup.views is not None:
            truth = collected.taken.measured, collected.local, last
            save_tree(self.setup.views / f"truth-{outcome.facts.round:06d}.npz", to_tree(truth))
        rows, tables = measure_leakage(
            self.setup, self.world, state, outcome.facts, collected, merges, last
        )
        membership = self._test_membership(collected, merges[-1])
        return replace(outcome, merges=merges, leakage=rows, tables=tables, membership=membership)

    def take_over(self, state: RoundState) -> None:
        """Go on from a state of the process that plays, with what attackers remember in this
        one.
        """
        state.parts |= {
            word: part
            for word, part in self.state.parts.items()
            if word.startswith(("attack.", "names", "membership"))
        }
        for name in ("leakage", "whereabouts", "linking", "concluded"):
            setattr(state, name, getattr(self.state, name))
        self.state = state

    def _test_membership(self, collected: Collected, last: Merge) -> TableRows:
        """Of step m: rows of the membership test, in rounds that have one."""
        learning = self.learning
        setup = self.setup
        state = self.state
        membership = learning.membership
        if membership is None or last.view is None or not membership.is_due(state.played):
            return []
        non_members = (
            collected.taken.held_out if len(collected.taken.held_out) else state.held_out
        ).usual
        initial = learning.learner.init(setup.public, setup.streams.derive_rng("learner.init"))
        wholes = learning.data.number_wholes if learning.data.holds_out_wholes else None
        number = 0 if membership.remembers else state.round
        rows, state.parts["membership"] = infer_membership(
            membership,
            last.view,
            collected.local,
            non_members,
            setup.streams.derive_rng("membership", number),
            initial,
            wholes,
            state.parts["membership"],
            state.played,
        )
        return rows

    def record(self, state: RoundState, outcome: RoundOutcome | None, now_s: float) -> None:
        """Judge what has left this state at now_s, and the end of step m: rows of tables."""
        self.take_over(state)
        if outcome is None:
            figures = {}
        else:
            outcome = self.judge(outcome)
            figures = records.write_round(self.setup.recorder, self.world, self.learning, outcome)
        self.watcher.report_round(state, figures, now_s)

    # -- transmissions as events, and servers without rounds

    def _build_air(self, memory: AirMemory | None) -> EventUplink | None:
        """The uplink whose transmissions are events, as it was left; None where they are
        planned.
        """
        setup = self.setup
        if setup.air is None:
            return None
        look = None if setup.air.block_s is None else make_look(self.world, setup.power)
        on_end: Callable[[EndedUploads], None] | None = self._merge_when_enough
        if self.policy.in_rounds:
            on_end = None if self.policy.waits_for is None else self._count_arrivals
        air = EventUplink(
            self.world.env,
            setup.uplink,
            len(self.world.ues),
            setup.streams,
            setup.air,
            look,
            on_end,
        )
        if memory is not None:
            air.resume(memory)
        return air

    def _submit(self, phase: Phase, sending: Sending) -> tuple[EventUplink, simpy.Event]:
        """Put updates on the air; the event of the end of the last of them."""
        if self.air is None:
            raise TypeError("there is no air: transmissions are planned")
        cohort = sending.cohort
        energy_j = self.learning.availability.get_max_energy_j(self.state.parts["availability"])
        energy_j = None if energy_j is None else energy_j[cohort.ue]
        return self.air, self.air.submit(
            cohort, sending.payload, phase.limit_s, phase.facts.round, energy_j
        )

    def _fly(
        self,
        phase: Phase,
        uploads: Uploads,
        sending: Sending,
        collected: Collected,
        spends: list[AnySpend],
    ) -> None:
        """Without rounds updates begin to fly: what was asked is recorded, and merges follow as
        they end.

        Rows (n, d) are written out, for a checkpoint reads back no others.
        """
        state = self.state
        measured = collected.taken.measured
        requested = replace(phase.facts, round=state.played + 1)
        records.write_request(
            self.setup.recorder, state.ledger, requested, requested.time_s, collected, spends
        )
        uploads = replace(uploads, made=uploads.made.to_dense(), sent=uploads.sent.to_dense())
        measured = measured.select(np.isin(measured.ue, uploads.ue))
        state.flight = state.flight.with_sent(uploads, measured, phase.model)
        self._submit(phase, sending)

    def _count_arrivals(self, ended: EndedUploads) -> None:
        """In rounds, uploads (k,) have ended: the others stop when enough have arrived."""
        self._missing -= ended.sent.decoded.sum()
        if self._missing <= 0 and not self._enough.triggered:
            self._enough.succeed()

    def _merge_when_enough(self, ended: EndedUploads) -> None:
        """Without rounds, uploads (k,) have ended: merge when there are enough; not after the end
        of the world.
        """
        if self.closed:
            return
        self._spend_energy(ended.ue, ended.sent)
        self._take_from_air(ended)
        enough = self.policy.waits_for or 1
        max_merges = self.learning.rounds or inf
        while (
            self.state.played < max_merges
            and (buffer := self.state.flight.find_buffer(enough)) is not None
        ):
            self._merge_arrived(buffer)

    def _take_from_air(self, ended: EndedUploads) -> None:
        """Step h without rounds: uploads (k,) that have ended have arrived, as received, in the
        order of their ends.

        They are received window by window, for each has its own streams.
        """
        flight = self.state.flight
        flying = flight.flying
        if flying is None or not len(ended.ue):
            return
        place = {ue: i for i, ue in enumerate(ended.ue.tolist())}
        # of all that fly; -1: still does
        of_row = np.array([place.get(ue, -1) for ue in flying.ue.tolist()])
        # of_row of received rows; rows of each window
        order = list[int]()
        pieces = []
        for window in np.unique(flying.window[of_row >= 0]).tolist():
            rows = (of_row >= 0) & (flying.window == window)
            streams = RoundStreams(self.setup.streams, window)
            pieces.append(
                receive_uploads(self.setup, flying.select(rows), ended.sent, of_row[rows], streams)
            )
            order += of_row[rows].tolist()
        received = Uploads.join(pieces).select(np.argsort(order, kind="stable"))
        note_links(received, self.state.parts)
        self.state.flight = flight.with_ended(received)

    def _merge_arrived(self, uploads: Uploads) -> None:
        """Steps i to m of uploads that have ended; the noise of this merge is booked now."""
        before = self.state
        self.state = self.state.copy()
        state = self.state
        name = self.learning.learner.phases[0]
        uploads = uploads.sort_rows()
        facts = self._build_context(state.played + 1)
        streams = RoundStreams(self.setup.streams, state.played + 1)
        phase = self._build_phase(facts, name, state.model, self.now_s, inf, streams)
        measured = state.flight.select_measured(uploads.ue)
        collected = Collected(TakenData(measured, uploads.local, HeldOut.none()), uploads.local)
        result = self._merge(phase, uploads, (self.now_s, self.now_s))
        if not self._book_within_budget(result.spends, before):
            self._write_lost(uploads)
            return
        state.flight = state.flight.drop_ues(uploads.ue)
        self.record(state, self._publish(facts, collected, [result], result.spends), self.now_s)
        self.setup.recorder.write("handovers", records.tabulate_handovers(self.world))

    def _give_up_lost(self) -> None:
        """Record uploads that were lost since the last merge: their UEs are free again."""
        arrived = self.state.flight.arrived
        if arrived is not None and not arrived.channel.decoded.all():
            self._write_lost(arrived.select(~arrived.channel.decoded))

    def _give_up_all(self) -> None:
        """At the end: record uploads that no merge has had, and those that are still under way."""
        self.closed = True
        if self.air is not None and not self.policy.in_rounds:
            self._take_from_air(self.air.collect_unfinished())
        if self.state.flight.arrived is not None:
            self._write_lost(self.state.flight.arrived)

    def _write_lost(self, uploads: Uploads) -> None:
        """Record uploads that no merge will have, those that arrived too late for one included."""
        state = self.state
        number = self.state.played + 1
        recorder = self.setup.recorder
        uploads, measured = uploads.sort_rows(), state.flight.select_measured(uploads.ue)
        name = self.learning.learner.phases[0]
        records.write_uploads(recorder, self.learning, number, state.model, measured, uploads, name)
        records.write_links(recorder, self.world, number, uploads)
        state.flight = state.flight.drop_ues(uploads.ue)
