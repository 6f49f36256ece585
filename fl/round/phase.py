"""Steps d to j, and l, of one phase of a round."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fl.attacks.base import View
from fl.round.power_context import power_context
from fl.round.state import Eavesdropped, PartStates, PhaseOutcome, Setup
from fl.round.streams import RoundStreams
from fl.round.transmit import payload_of, send
from fl.types import Estimates, Facts, Local, Model, Received, Spend, State, Timing, Updates
from netsim.radio.uplink import Channel, Cohort, Payload
from netsim.units import FloatArray, IntArray
from netsim.world import World


@dataclass(frozen=True)
class PhaseStart:
    """A phase that begins: where it is played, on which data and from which model, and when the server asked."""

    world: World
    setup: Setup
    facts: Facts
    name: str
    model: Model
    local: Local
    requested_s: float
    streams: RoundStreams

    @property
    def left_s(self) -> float:
        """Time until the next round begins: who has not come by then is too late, whatever the uplink's deadline."""
        return self.setup.learning.round_s - (self.requested_s - self.facts.time_s)


@dataclass(frozen=True)
class _Transmission:
    """The planned uplink of a phase.

    cohort: the UEs that send, with their powers; of_row (n,): the UE (an index into the cohort) that sends each row of
    updates; channel: one entry a row.
    """

    cohort: Cohort
    of_row: IntArray
    payload: Payload
    channel: Channel


@dataclass(frozen=True)
class _Merge:
    """What the server made of the rows it received: weights (n,), the model."""

    weights: FloatArray
    model: Model
    spends: list[Spend]


@dataclass(frozen=True)
class _Attacks:
    """What the attacker saw, and what each attack said of it; self_tests: errors in metres, by attack."""

    view: View
    eavesdropped: Eavesdropped | None
    estimates: dict[str, Estimates]
    self_tests: dict[str, float | None]


def play_phase(phase: PhaseStart, states: PartStates) -> tuple[PhaseOutcome, PartStates]:
    """One phase as it came out, and what its parts remember afterwards."""
    # d  learn
    made, updates, bad = _learn(phase)
    # e  power, f  plan the uplink
    planned, power = _plan(phase, made, states)
    phase = replace(phase, facts=replace(phase.facts, channel=planned.channel))
    states = replace(states, power=power)
    # g  protect: the UEs' half
    updates, states, spends = _protect(phase, updates, states)
    # h  send
    received = send(updates, planned.channel, phase.streams.at("uplink.send"))
    # i  merge, then the defenses' server half in reverse order
    merge, states = _merge(phase, received, states)
    # j  observe what was published
    states = _observe(phase, received, merge.weights, states)
    # l  attack: exactly the view that the threat grants
    attacks, states = _attack(phase, planned, updates, received, merge, states)
    arrived_s, merged_s, attacked_s = _times_s(phase, planned.channel, attacks.eavesdropped)
    return PhaseOutcome(
        name=phase.name, requested_s=phase.requested_s, arrived_s=arrived_s, merged_s=merged_s, attacked_s=attacked_s,
        made=made, received=received, channel=planned.channel, spends=[*spends, *merge.spends], weights=merge.weights,
        model=merge.model, estimates=attacks.estimates, self_tests=attacks.self_tests,
        eavesdropped=attacks.eavesdropped, non_finite=bad, view=attacks.view,
    ), states  # fmt: skip


def _learn(phase: PhaseStart) -> tuple[Updates, Updates, int]:
    """Updates as the learner made them, the same with zeros where they overflowed, and how many did."""
    made = phase.setup.learning.learner.local(phase.model, phase.name, phase.local, phase.streams.learner(phase.name))
    bad = ~np.isfinite(made.norm())
    return made, made.scaled(np.where(bad, 0.0, 1.0), made.bound) if bad.any() else made, int(bad.sum())


def _plan(phase: PhaseStart, made: Updates, states: PartStates) -> tuple[_Transmission, State]:
    """The uplink of all rows, and the next state of the power policy."""
    world, setup, learning = phase.world, phase.setup, phase.setup.learning
    ues, of_row = np.unique(made.ue, return_inverse=True)
    work = learning.learner.passes * np.bincount(of_row, weights=made.count).astype(np.float64)
    cohort = world.cohort(ues, world.links(), phase.facts.round, np.bincount(of_row), work)
    power = states.power
    if setup.power.wants_context:
        context = power_context(world, setup, states, made.n_parameters, phase.facts.round, ues)
        power = setup.power.update_context(context, power)
    power_w, power = setup.power.of(ues).power_w(
        cohort.gain, cohort.serving, world.max_power_w, power, phase.streams.at("power")
    )
    cohort = cohort.at_power(power_w)
    payload = payload_of(made.n_parameters, states.norm_bound(learning))
    channel = setup.uplink.plan(replace(cohort, limit_s=phase.left_s), payload).within(phase.left_s)
    return _Transmission(cohort, of_row, payload, channel.rows(of_row)), power


def _protect(phase: PhaseStart, updates: Updates, states: PartStates) -> tuple[Updates, PartStates, list[Spend]]:
    """The UEs' half of all defenses, in the order written."""
    defenses, spends = dict(states.defenses), list[Spend]()
    for defense in phase.setup.learning.defenses:
        label = defense.label
        updates, defenses[label], spent = defense.protect(
            updates, phase.local, phase.facts, defenses[label], phase.streams.defense(label)
        )
        spends += spent
    return updates, replace(states, defenses=defenses), spends


def _merge(phase: PhaseStart, received: Received, states: PartStates) -> tuple[_Merge, PartStates]:
    """Weights, sum, the server's half of all defenses in reverse order, its optimiser, and the new model."""
    learning, facts = phase.setup.learning, phase.facts
    weights, aggregation = learning.aggregation.weights(received, facts, states.aggregation)
    merged = received.updates.weighted_sum(weights, phase.setup.public.n_model)
    defenses, spends = dict(states.defenses), list[Spend]()
    for defense in reversed(learning.defenses):
        label = defense.label
        merged, defenses[label], spent = defense.finish(
            merged, len(received.updates.ue), facts, defenses[label], phase.streams.defense_at_server(label)
        )
        spends += spent
    change, optimisers = _change(phase, merged, received.updates.model[weights != 0], states)
    model = learning.learner.step(phase.model, phase.name, change)
    states = replace(states, aggregation=aggregation, defenses=defenses, server_optimiser=optimisers)
    return _Merge(weights, model, spends), states


def _change(
    phase: PhaseStart, merged: FloatArray, contributed: IntArray, states: PartStates
) -> tuple[FloatArray, dict[str, State]]:
    """What the server optimiser makes of the merged update; `contributed`: the models of the rows that count."""
    learning, state = phase.setup.learning, states.server_optimiser.get(phase.name)
    came = np.isin(np.arange(len(merged)), contributed) | learning.hides_who_came
    change, state = learning.server_optimiser.change(merged, came, state)
    return change, states.server_optimiser | {phase.name: state}


def _observe(phase: PhaseStart, received: Received, weights: FloatArray, states: PartStates) -> PartStates:
    """What defenses remember of what was published."""
    learning = phase.setup.learning
    defenses = {d.label: d.observe(received, weights, phase.facts, states.defenses[d.label]) for d in learning.defenses}
    return replace(states, defenses=defenses)


def _attack(
    phase: PhaseStart,
    planned: _Transmission,
    sent: Updates,
    received: Received,
    merge: _Merge,
    states: PartStates,
) -> tuple[_Attacks, PartStates]:
    """All attacks on what the threat lets the attacker see; an eavesdropper hears the updates sent by itself."""
    learning, threat = phase.setup.learning, phase.setup.learning.threat
    eavesdropped = _eavesdrop(phase, planned)
    heard = received
    if eavesdropped is not None:
        heard = send(sent, eavesdropped.channel, phase.streams.at("eavesdropper.send"))
    looks = bool(learning.attacks) or learning.membership is not None
    targeted = threat.after(heard.updates.ue, len(phase.world.ues)) & looks
    models, groups = (phase.model, merge.model), phase.streams.at("threat")
    timing = _timing(phase, planned)
    view = threat.view(learning.learner, phase.name, heard, merge.weights, targeted, models, groups, timing)
    attacks, estimates, self_tests = dict(states.attacks), {}, {}
    for attack in learning.attacks:
        label, rng = attack.label, phase.streams.attack(attack.label)
        estimates[label], attacks[label] = attack.run(view, phase.facts, attacks[label], rng)
        if threat.can_train:
            self_tests[label] = attack.self_test(view, phase.facts, rng)
    return _Attacks(view, eavesdropped, estimates, self_tests), replace(states, attacks=attacks)


def _timing(phase: PhaseStart, planned: _Transmission) -> Timing:
    """When the server asked, and when the last bit of each row came."""
    of_row, n = planned.of_row, len(planned.of_row)
    return Timing(
        np.full(n, phase.requested_s), phase.requested_s + planned.channel.delay_s, planned.cohort.serving[of_row],
        np.asarray(planned.payload.n_bits * planned.cohort.rows[of_row], dtype=np.float64), np.zeros(n, dtype=np.int64),
    )  # fmt: skip


def _eavesdrop(phase: PhaseStart, planned: _Transmission) -> Eavesdropped | None:
    """The same transmissions at the eavesdropper's antenna; None where there is none."""
    threat, facts, cohort = phase.setup.learning.threat, phase.facts, planned.cohort
    if threat.at_m is None:
        return None
    heard, links = phase.world.cohort_at(threat.at_m, threat.antenna_m, cohort, facts.time_s, facts.round)
    first = np.unique(planned.of_row, return_index=True)[1]
    channel = phase.setup.uplink.eavesdropped(heard, planned.payload, planned.channel.rows(first))
    return Eavesdropped(channel.rows(planned.of_row), links.distance_m[cohort.ue, 0], links.los[cohort.ue, 0])


def _times_s(phase: PhaseStart, channel: Channel, eavesdropped: Eavesdropped | None) -> tuple[FloatArray, float, float]:
    """When each row's last bit came (n,), NaN where it never does; when the server merged; when the attack was made."""
    arrived_s = np.where(np.isfinite(channel.delay_s), phase.requested_s + channel.delay_s, np.nan)
    merged_s = _latest_s(phase.requested_s, arrived_s[channel.decoded])
    if eavesdropped is None:
        return arrived_s, merged_s, merged_s
    # she has heard what the UEs sent, until the next round silences them
    heard_s = np.fmin(arrived_s, phase.requested_s + phase.left_s)[eavesdropped.channel.decoded]
    return arrived_s, merged_s, _latest_s(phase.requested_s, heard_s)


def _latest_s(requested_s: float, arrived_s: FloatArray) -> float:
    """When the last of those who came (n,) had come; at the request itself where nobody did."""
    return float(arrived_s.max(initial=requested_s))
