"""Steps d to g of a round: updates are learnt, their uplink is planned, and they are protected before they leave."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fl.availability.base import Conditions
from fl.round.power_context import power_context
from fl.round.setup import Setup
from fl.round.state import PartStates
from fl.round.streams import RoundStreams
from fl.round.transmit import payload_of
from fl.round.upload_context import Overheard, UploadContext
from fl.types import Local, Model, RoundContext, Spend, State, Updates
from netsim.columns import frozen
from netsim.radio.link_budget import RadioLinks
from netsim.radio.uplink import Channel, Cohort, Payload
from netsim.units import BoolArray, FloatArray, IntArray
from netsim.world import World


@dataclass(frozen=True)
class PhaseStart:
    """A phase that begins: where it is played, on which data and from which model, and when the server asked.

    left_s: seconds after which the server discards updates, whatever the uplink's deadline; version: of the model.
    """

    world: World
    setup: Setup
    facts: RoundContext
    name: str
    model: Model
    local: Local
    requested_s: float
    left_s: float
    version: int
    streams: RoundStreams


@frozen
class Upload:
    """Updates that are ready to be sent.

    made: as the learner made them; updates: as they are sent; finite (n,): which did not overflow; spends: of the noise
    that was drawn. cohort: the UEs that send, with their powers; of_row (n,): the UE (an index into the cohort) that
    sends each row; planned: the channel of each UE by the uplink's law for frozen links, None with transmissions as
    events. energy_j: what each UE may spend, None without a limit.
    """

    made: Updates
    updates: Updates
    finite: BoolArray
    spends: list[Spend]
    cohort: Cohort
    of_row: IntArray
    payload: Payload
    planned: Channel | None
    context: UploadContext
    overheard: Overheard | None
    energy_j: FloatArray | None


def prepare(phase: PhaseStart, states: PartStates) -> tuple[Upload, PartStates]:
    """The updates of a phase up to the moment at which they leave, and what parts remember."""
    # d  learn
    made, updates, finite = _learn(phase)
    # e  power
    cohort, of_row, links, power = _powered(phase, made, states)
    states = replace(states, power=power)
    # f  plan the uplink; the fate of transmissions as events is unknown beforehand, and no defense counts on it
    setup = phase.setup
    payload, planned = payload_of(made.n_parameters, states.norm_bound(setup.learning)), None
    if setup.air is None:
        planned = setup.uplink.plan(replace(cohort, limit_s=phase.left_s), payload).within(phase.left_s)
    facts = replace(phase.facts, channel=None if planned is None else planned.select(of_row))
    # g  protect: the UEs' half
    updates, states, spends = _protect(replace(phase, facts=facts), updates, states)
    energy_j = setup.learning.availability.energy_j(states.availability)
    return Upload(
        made=made, updates=updates, finite=finite, spends=spends, cohort=cohort, of_row=of_row, payload=payload,
        planned=planned, context=_upload_context(phase, cohort.ue, links), overheard=_overheard(phase, cohort),
        energy_j=None if energy_j is None else energy_j[cohort.ue],
    ), states  # fmt: skip


def conditions(world: World) -> Conditions:
    """Positions and states of all UEs now, as rules of availability use them."""
    now_s = float(world.env.now)
    return Conditions(
        now_s, float(world.clock.wall_s(np.array(now_s))), np.asarray(world.position_m()), world.places.home_m
    )


def _learn(phase: PhaseStart) -> tuple[Updates, Updates, BoolArray]:
    """Updates as the learner made them, the same with zeros where they overflowed, and which did not (n,)."""
    made = phase.setup.learning.learner.local(phase.model, phase.name, phase.local, phase.streams.learner(phase.name))
    finite = np.isfinite(made.norm())
    return made, made if finite.all() else made.scaled(np.where(finite, 1.0, 0.0), made.bound), finite


def _powered(phase: PhaseStart, made: Updates, states: PartStates) -> tuple[Cohort, IntArray, RadioLinks, State]:
    """Powers of the sending UEs, the UE of each row, the links now, and the next state of the power policy."""
    world, setup = phase.world, phase.setup
    ues, of_row = np.unique(made.ue, return_inverse=True)
    work = setup.learning.learner.passes * np.bincount(of_row, weights=made.count).astype(np.float64)
    links = world.links()
    cohort = world.cohort(ues, links, phase.facts.round, np.bincount(of_row), work)
    power = states.power
    if setup.power.wants_context:
        context = power_context(world, setup, states, made.n_parameters, phase.facts.round, ues)
        power = setup.power.update_context(context, power)
    power_w, power = setup.power.of(ues).power_w(
        cohort.gain, cohort.serving, world.max_power_w, power, phase.streams.at("power")
    )
    return cohort.at_power(power_w), of_row, links, power


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


def _upload_context(phase: PhaseStart, ue: IntArray, links: RadioLinks) -> UploadContext:
    """Positions of the UEs (n,) now, and their links to their base stations."""
    world = phase.world
    serving = world.serving(links)[ue]
    has = serving >= 0
    pick = np.where(has, serving, 0)

    def of_serving(values: FloatArray) -> FloatArray:
        return np.where(has, values[ue, pick], np.nan) if values.shape[1] else np.full(len(ue), np.nan)

    return UploadContext(
        np.asarray(world.position_m())[ue], serving, of_serving(links.distance_m), of_serving(links.rsrp_dbm)
    )


def _overheard(phase: PhaseStart, cohort: Cohort) -> Overheard | None:
    """The UEs at an eavesdropper's antenna; None where there is none."""
    threat, facts = phase.setup.learning.threat, phase.facts
    if threat.position_m is None:
        return None
    heard, links = phase.world.cohort_at(
        threat.position_m, threat.antenna_m, cohort, facts.time_s, facts.round, threat.antennas
    )
    return Overheard(heard, links.distance_m[cohort.ue, 0], links.los[cohort.ue, 0])
