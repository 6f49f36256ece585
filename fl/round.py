"""A federated round as one algorithm box, for the whole cohort at once, inside the simulated world."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import simpy

from fl import leakage, report_rows
from fl.attacks.base import View
from fl.learning import Learning
from fl.membership.audit import audit, due
from fl.privacy import ledger
from fl.reference import Reference
from fl.situation import situation
from fl.transmit import overheard, payload_of, send
from fl.types import (
    AnySpend,
    Curated,
    Estimates,
    Facts,
    HeldOut,
    Local,
    Model,
    Public,
    Received,
    Spend,
    State,
    Updates,
)
from netsim.radio.power import Power
from netsim.radio.uplink import Channel, Cohort, Payload, Uplink
from netsim.record import Recorder
from netsim.rng import Streams
from netsim.units import BoolArray, FloatArray, IntArray
from netsim.world import World


@dataclass(frozen=True)
class Setup:
    """What a run of rounds is made of; none of it changes."""

    learning: Learning
    power: Power
    uplink: Uplink
    public: Public
    models: tuple[str, ...]
    model_of_cell: IntArray
    streams: Streams
    recorder: Recorder


@dataclass(frozen=True)
class Carry:
    """Everything that goes from one round to the next, as values; stopped: the next one would exceed the budget."""

    round: int
    played: int
    model: Model
    held_out: HeldOut
    reference: State
    parts: dict[str, State]
    ledger: State
    leakage: State
    stopped: bool = False


@dataclass(frozen=True)
class Overheard:
    """An eavesdropper's side of the uplink: its channel, one entry a row; distance_m and los, one a UE."""

    channel: Channel
    distance_m: FloatArray
    los: BoolArray


@dataclass(frozen=True)
class Phase:
    """One phase of a round, as it came out.

    asked_s: when the server asked; arrived_s (n,): when each row's last bit came, NaN where it never does; merged_s:
    when the last row that counts had come, and the server merged, published, and (if it is the attacker) attacked;
    attacked_s: when the attack was made.
    """

    name: str
    asked_s: float
    arrived_s: FloatArray
    merged_s: float
    attacked_s: float
    made: Updates
    received: Received
    channel: Channel
    spends: list[Spend]
    weights: FloatArray
    estimates: dict[str, Estimates]
    self_tests: dict[str, float | None]
    overheard: Overheard | None
    non_finite: int
    view: View


def begin(setup: Setup, n_ue: int) -> Carry:
    """Before the first round."""
    learning = setup.learning
    parts: dict[str, State] = {"power": {}, "query": learning.query.start(n_ue)}
    parts |= {f"defense.{d.label}": d.start(n_ue) for d in learning.defenses}
    parts |= {f"curation.{c.label}": {} for c in learning.curation}
    parts |= {f"attack.{a.label}": {} for a in learning.attacks}
    parts["aggregation"] = learning.aggregation.start()
    parts["data"] = learning.data.start(n_ue, setup.streams.at("data"))
    return Carry(
        round=0,
        played=0,
        model=learning.learner.init(setup.public, setup.streams.at("learner.init")),
        held_out=HeldOut.none(),
        reference=Reference.empty(),
        parts=parts,
        ledger=ledger.empty(n_ue),
        leakage=leakage.empty(),
    )


def rounds(
    world: World, setup: Setup, carry: Carry, after: Callable[[Carry, dict[str, Any]], None]
) -> Generator[simpy.Event, None, None]:
    """Process: a round at every deadline. `after` gets the new carry, and the figures of the round (if any)."""
    every_s, most = setup.learning.every_s, setup.learning.rounds or np.inf
    while world.env.now < world.duration_s and carry.played < most and not carry.stopped:
        deadline = min(world.clock.end_s(carry.round + 1, every_s), world.duration_s)
        yield world.env.timeout(deadline - world.env.now)
        carry, figures = play(world, setup, carry)
        after(carry, figures)


def first_asked(world: World, learning: Learning, model_of_cell: IntArray, streams: Streams) -> FloatArray:
    """Places (n, 2) of the first round in which the server asks anybody, none if it never does; runs the world."""
    state, number, deadline = learning.data.start(len(world.ues), streams.at("data")), 0, 0.0
    while deadline < world.duration_s:
        number += 1
        deadline = min(number * learning.every_s, world.duration_s)
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
        model, phase = _phase(world, setup, parts, facts, name, model, local, now_s, rng)
        phases.append(phase)
        now_s = phase.merged_s
        spends += phase.spends
    # k  pay: all spends of the round, whether or not packets arrived
    book = ledger.book(carry.ledger, spends)
    if learning.stop_at is not None and ledger.exceeds(book, learning.stop_at.epsilon, learning.stop_at.delta):
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
    figures = report_rows.write(
        setup.recorder, world, setup.learning, new, taken, local, curated, phases, spends, rows, audited, facts,
        refused=int((~accepted).sum()), before=carry.model,
    )  # fmt: skip
    return new, figures


def _phase(
    world: World,
    setup: Setup,
    parts: dict[str, State],
    facts: Facts,
    name: str,
    model: Model,
    local: Local,
    asked_s: float,
    rng: Callable[[str], Any],
) -> tuple[Model, Phase]:
    """Steps d to j, and l, of one phase that begins at asked_s; `parts` is this round's own and is updated in place."""
    learning, spends = setup.learning, []
    first = name == learning.learner.phases[0]

    def drawn(purpose: str) -> Any:
        """The stream of a part in this phase: phases never share a draw."""
        return rng(purpose if first else f"{purpose}.{name}")

    # d  learn
    made = learning.learner.local(model, name, local, rng(f"learner.{name}"))
    bad = ~np.isfinite(made.norm())
    updates = made.scaled(np.where(bad, 0.0, 1.0), made.bound) if bad.any() else made
    # e  power, f  plan the uplink
    ues, of_row = np.unique(made.ue, return_inverse=True)
    work = learning.learner.passes * np.bincount(of_row, weights=made.count).astype(np.float64)
    cohort = world.cohort(ues, world.links(), facts.round, np.bincount(of_row), work)
    if setup.power.wants_situation:
        known = situation(world, learning, setup.uplink, parts, made.n_parameters, facts.round, ues)
        parts["power"] = setup.power.told(known, parts["power"])
    power_w, parts["power"] = setup.power.of(ues).power_w(
        cohort.gain, cohort.serving, world.max_power_w, parts["power"], drawn("power")
    )
    payload = payload_of(learning, parts, made.n_parameters)
    # who has not come when the next round begins is too late, whatever the uplink's own deadline
    left_s = learning.every_s - (asked_s - facts.time_s)
    sending = replace(cohort.at_power(power_w), limit_s=left_s)
    channel = setup.uplink.plan(sending, payload).within(left_s).rows(of_row)
    facts = replace(facts, channel=channel)
    # g  protect: the devices' half
    for defense in learning.defenses:
        key = f"defense.{defense.label}"
        updates, parts[key], spent = defense.protect(updates, local, facts, parts[key], drawn(key))
        spends += spent
    # h  send
    received = send(updates, channel, drawn("uplink.send"))
    # i  merge, then the defenses' server half in reverse order
    weights, parts["aggregation"] = learning.aggregation.weights(received, facts, parts["aggregation"])
    total = received.updates.weighted_sum(weights, setup.public.n_model)
    merged = total
    for defense in reversed(learning.defenses):
        key = f"defense.{defense.label}"
        merged, parts[key], spent = defense.finish(merged, len(made.ue), facts, parts[key], drawn(f"{key}.server"))
        spends += spent
    after = learning.learner.step(model, name, merged)
    # j  observe what was published
    for defense in learning.defenses:
        key = f"defense.{defense.label}"
        parts[key] = defense.observe(received, weights, facts, parts[key])
    # l  spy: exactly the view that the threat grants
    caught, spied = received, None
    if learning.threat.at_m is not None:
        spied = _overhear(world, setup, facts, cohort.at_power(power_w), payload, channel, of_row)
        caught = send(updates, spied.channel, drawn("eavesdropper.send"))
    looks = bool(learning.attacks) or learning.membership is not None
    whom = learning.threat.after(caught.updates.ue, len(world.ues)) & looks
    caught = replace(caught, decoded=caught.decoded & whom)  # rows that nobody looks at are not written out
    view = learning.threat.view(learning.learner, name, caught, total, model, after)
    estimates, self_tests = {}, {}
    for attack in learning.attacks:
        key = f"attack.{attack.label}"
        estimates[attack.label], parts[key] = attack.run(view, facts, parts[key], drawn(key))
        if learning.threat.can_train:
            self_tests[attack.label] = attack.self_test(view, facts, drawn(key))
    arrived_s = np.where(np.isfinite(channel.delay_s), asked_s + channel.delay_s, np.nan)
    merged_s = _latest_s(asked_s, arrived_s[channel.decoded])
    attacked_s = merged_s
    if spied is not None:  # she has heard what the devices sent, until the next round silences them
        attacked_s = _latest_s(asked_s, np.fmin(arrived_s, asked_s + left_s)[spied.channel.decoded])
    return after, Phase(
        name, asked_s, arrived_s, merged_s, attacked_s, made, received, channel, spends, weights, estimates, self_tests,
        spied, int(bad.sum()), view,
    )  # fmt: skip


def _latest_s(asked_s: float, arrived_s: FloatArray) -> float:
    """When the last of those who came (n,) had come; at the request itself where nobody did."""
    return float(arrived_s.max(initial=asked_s))


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


def _overhear(
    world: World, setup: Setup, facts: Facts, cohort: Cohort, payload: Payload, channel: Channel, of_row: IntArray
) -> Overheard:
    """The same transmissions at the eavesdropper's antenna; `channel` has the rows of the round."""
    threat = setup.learning.threat
    if threat.at_m is None:
        raise ValueError("nobody overhears")
    heard, links = world.cohort_at(threat.at_m, threat.antenna_m, cohort, facts.time_s, facts.round)
    first = np.unique(of_row, return_index=True)[1]
    found = overheard(setup.uplink, heard, payload, channel.rows(first))
    return Overheard(found.rows(of_row), links.distance_m[cohort.ue, 0], links.los[cohort.ue, 0])


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
