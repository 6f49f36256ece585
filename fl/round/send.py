"""Steps d to h of a round: UEs learn, choose powers, protect their updates and send them; what is received."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np

from fl.defenses import Standing
from fl.round.learning import Learning
from fl.round.probe import SILENT, Probe
from fl.round.setup import PhaseDraws, RoundStreams, Setup
from fl.round.state import Phase, States, norm_bound, standings
from fl.round.uploads import Overheard, UploadContext, Uploads
from fl.types import Local, NoUpdates, RoundContext, Spend, Updates
from netsim.columns import frozen
from netsim.radio.link_budget import RadioLinks
from netsim.radio.power import PowerContext
from netsim.radio.transmissions import SentUploads
from netsim.radio.uplink import Channel, Cohort, Payload, noise_std
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray
from netsim.world.world import World

_ROUNDING = 1e-9  # relative; the rate of a transmission that took its time is computed from its bits


@frozen
class Departure:
    """UEs (k,) at the moment at which their updates leave.

    cohort: with their powers; of_row (n,): the entry of the UE that sends each row; planned: the uplink of each UE by
    the law for frozen links, None with transmissions as events; energy_j (k,): what each may spend, None without a
    limit; antenna: the same UEs with their links to an eavesdropper's antenna, None without one.
    """

    cohort: Cohort
    of_row: IntArray
    payload: Payload
    round: int
    limit_s: float
    planned: Channel | None
    energy_j: FloatArray | None
    antenna: Cohort | None


def depart(
    world: World, phase: Phase, local: Local, states: States
) -> tuple[Uploads, Departure, list[Spend]]:  # fmt: skip
    """The updates of UEs that learn from their data, up to the moment at which they leave; noise that they drew."""
    setup, learning, window = phase.setup, phase.learning, phase.facts.round
    # d  learn
    rng = phase.streams.learner(phase.name)
    made = (
        learning.learner.local(phase.model, phase.name, local, rng)
        if setup.learns
        else NoUpdates.of(local, phase.model.parameters.shape[1])
    )
    made = setup.probe.made(made, norm_bound(learning, states))
    # e  power
    links = world.links()
    cohort, of_row = _powered(world, phase, made, links, states)
    # f  plan the uplink; the fate of transmissions as events is unknown beforehand, and no defense counts on it
    payload, planned = payload_of(made.n_parameters, norm_bound(learning, states), learning.bits_per_number), None
    if setup.air is None:
        planned = setup.uplink.plan(replace(cohort, limit_s=phase.limit_s), payload)
        planned = planned.within(phase.limit_s, setup.uplink.share_of_time())
    facts = replace(phase.facts, channel=None if planned is None else planned.select(of_row))
    # g  protect: the UEs' half
    updates, spends = protected(learning, made, local, facts, states, phase.streams, setup.probe)
    antenna, overheard = _overheard(world, phase, cohort, of_row)
    energy_j = learning.availability.energy_j(states["availability"])
    if energy_j is not None:
        energy_j = energy_j[cohort.ue]
    departure = Departure(cohort, of_row, payload, window, phase.limit_s, planned, energy_j, antenna)
    n = len(of_row)
    return Uploads(
        window=np.full(n, window), version=np.full(n, phase.version), asked_s=np.full(n, phase.asked_s), local=local,
        made=made, updates=updates, bits=payload.bits(cohort.rows)[of_row],
        rho=np.full(n, setup.uplink.noise_scale(payload)), context=_context(world, links, cohort.ue).select(of_row),
        weight=np.zeros(n), staleness=np.full(n, -1), overheard=overheard,
    ), departure, spends  # fmt: skip


def protected(
    learning: Learning, made: Updates, local: Local, facts: RoundContext, states: States,
    streams: RoundStreams | PhaseDraws, probe: Probe = SILENT,
) -> tuple[Updates, list[Spend]]:  # fmt: skip
    """Updates after the UEs' half of all defenses, in the order written; those that overflowed are zeros."""
    finite, spends = np.isfinite(made.norm()), list[Spend]()
    updates = made if finite.all() else made.scaled(np.where(finite, 1.0, 0.0), made.bound)
    for defense in learning.defenses:
        word = defense.word
        before = updates
        updates, states[word], spent = defense.protect(before, local, facts, states[word], streams.at(word))
        probe.drew(defense, before, updates, spent, facts, states[word])
        if not defense.adds_noise_only:  # what changes noisy updates does so before the channel adds its noise
            spends = [replace(each, channel_std=0.0) for each in spends]
        spends += spent
    return updates, spends


def _powered(
    world: World, phase: Phase, made: Updates, links: RadioLinks, states: States
) -> tuple[Cohort, IntArray]:  # fmt: skip
    """The sending UEs with their powers, and the UE of each row."""
    setup, power = phase.setup, states["power"]
    ues, of_row = np.unique(made.ue, return_inverse=True)
    work = setup.learning.learner.passes * np.bincount(of_row, weights=made.count).astype(np.float64)
    cohort = world.cohort(ues, links, phase.facts.round, np.bincount(of_row), work)
    if setup.power.wants_context:
        context = power_context(world, setup, states, made.n_parameters, phase.facts.round, ues)
        power = setup.power.update_context(context, power)
    policy, rng = setup.power.of(ues), phase.streams.at("power")
    power_w, states["power"] = policy.power_w(cohort.gain, cohort.serving, world.max_power_w, power, rng)
    return cohort.at_power(power_w), of_row


def _context(world: World, links: RadioLinks, ue: IntArray) -> UploadContext:
    """Positions of the UEs (k,) now, and their links to their base stations."""
    serving = world.serving(links)[ue]
    has = serving >= 0
    pick = np.where(has, serving, 0)

    def of_serving(values: FloatArray) -> FloatArray:
        return np.where(has, values[ue, pick], np.nan) if values.shape[1] else np.full(len(ue), np.nan)

    position_m = np.asarray(world.position_m())[ue]
    return UploadContext(position_m, serving, of_serving(links.distance_m), of_serving(links.rsrp_dbm))


def _overheard(
    world: World, phase: Phase, cohort: Cohort, of_row: IntArray
) -> tuple[Cohort | None, Overheard | None]:  # fmt: skip
    """The UEs at an eavesdropper's antenna, and the links of each row to it; None where there is none."""
    threat, facts, ue = phase.learning.threat, phase.facts, cohort.ue
    if threat.receiver is None:
        return None, None
    antenna, links = world.cohort_at(threat.receiver, cohort, facts.time_s, facts.round, threat.antennas)
    strength = np.where(antenna.serving >= 0, antenna.strength[:, 0], 0.0)
    unknown = np.full(len(ue), np.nan)
    is_placed = threat.position_m is not None
    distance_m = links.distance_m[ue, 0] if is_placed else unknown
    los = links.los[ue, 0] if is_placed and world.setting.radio.knows_sight else unknown
    return antenna, Overheard(strength, distance_m, los).select(of_row)


def first_of(planned: Channel, enough: int | None, share_of_time: float) -> Channel:
    """A planned channel in which all are late that come after the first `enough` UEs; None: no UE is late.

    share_of_time: as for `Channel.within`.
    """
    if enough is None or planned.decoded.sum() < enough:
        return planned
    last_s = np.sort(planned.delay_s[planned.decoded])[enough - 1]
    return planned.within(float(last_s) if np.isfinite(last_s) else inf, share_of_time)


def landed(setup: Setup, uploads: Uploads, departure: Departure, sent: Channel) -> Uploads:
    """Uploads whose UEs have sent: with their channels, also those to an eavesdropper."""
    uploads = replace(uploads, sent=sent.select(departure.of_row))
    if uploads.overheard is None or departure.antenna is None:
        return uploads
    if isinstance(sent, SentUploads):
        return overhear(setup, uploads)
    group_of = setup.uplink.groups(departure.cohort)
    there = setup.uplink.eavesdropped(departure.antenna, departure.payload, sent, group_of)
    return replace(uploads, overheard=replace(uploads.overheard, channel=there.select(departure.of_row)))


def overhear(setup: Setup, uploads: Uploads) -> Uploads:
    """Uploads that took their time, as an eavesdropper hears them, if there is one.

    It is left out who sent at the same time: she hears each alone, at its mean power and in its mean share of the
    band, which is the most that she can hear. Planned ones disturb one another there as they do at base stations.
    """
    sent, overheard = uploads.sent, uploads.overheard
    if overheard is None or not isinstance(sent, SentUploads):
        return uploads
    uplink, signal_w = setup.uplink, sent.power_w * overheard.strength
    signal_w = np.where(np.isfinite(signal_w), signal_w, 0.0)
    thermal_w = np.fmin(sent.thermal_w, uplink.band_noise_w())  # all of it for one that did not send
    snr = signal_w / thermal_w
    rate_bps = uplink.rate_bps(snr) * (thermal_w / uplink.band_noise_w())
    std = noise_std(uploads.rho, snr)
    whole = sent.sent_bits - sent.lost_bits >= uploads.bits
    fast = rate_bps >= sent.rate_bps * (1 - _ROUNDING)
    heard = whole & (snr > 0) & (sent.rate_bps > 0) & ((uploads.rho > 0) | fast)
    channel = Channel(
        sent.power_w, snr, rate_bps, std, np.where(snr > 0, std, 0.0), sent.airtime_s, sent.delay_s, sent.energy_j,
        heard, np.zeros(len(snr), dtype=np.bool_),
    )  # fmt: skip
    return replace(uploads, overheard=replace(overheard, channel=channel))


def receive(uploads: Uploads, streams: RoundStreams) -> Uploads:
    """Uploads with the noise of decoding, at the server and at an eavesdropper, who hears the same by herself."""
    overheard, updates = uploads.overheard, uploads.updates
    if overheard is not None and overheard.channel is not None:
        heard = decoded(updates, overheard.channel, streams.at("eavesdropper.send"))
        overheard = replace(overheard, updates=heard)
    return replace(uploads, overheard=overheard, updates=decoded(updates, uploads.channel, streams.at("uplink.send")))


def decoded(updates: Updates, channel: Channel, rng: Rng) -> Updates:
    """Updates with the decoder's noise, of std channel.noise_std (n,) on each number."""
    if not channel.noise_std.any():
        return updates
    return updates.noisy(channel.noise_std, "decoder", rng)


def payload_of(n_numbers: int, norm_bound: float | None, bits: int) -> Payload:
    """Payload of an update of n_numbers of some bits; norm_bound: bound of its L2 norm by the defenses."""
    return Payload(n_numbers * bits, n_numbers, norm_bound)


def power_context(
    world: World, setup: Setup, states: States, n_numbers: int, round_: int, ue: IntArray
) -> PowerContext:
    """Context of a power policy before a round in which the UEs (n,) send updates of n_numbers.

    states : of all parts, as they were left by the round before. Noise of several budgets adds in variance.
    """
    n, learning, threat = len(world.ues), setup.learning, setup.learning.threat
    cohort = world.cohort(np.arange(n), world.links(), round_, np.ones(n, dtype=np.int64), np.zeros(n))
    budgets = standings(learning, states)
    planned = float(world.clock.rounds(world.duration_s, learning.round_s))
    payload, time_s = (
        payload_of(n_numbers, norm_bound(learning, states), learning.bits_per_number),
        float(world.env.now),
    )
    overheard = None
    if threat.receiver is not None:
        overheard, _ = world.cohort_at(threat.receiver, cohort, time_s, round_, threat.antennas)
    row_ue, _, row_std, _ = rows_of(budgets)
    return PowerContext(
        sends=ue,
        snr_per_w=setup.uplink.snr_per_w(cohort),
        scale=setup.uplink.noise_scale(payload),
        required_std=_together([s.required_std for s in budgets], n),
        drawn_std=_together([s.drawn_std for s in budgets], n),
        budget_left=min((s.budget_left for s in budgets), default=1.0),
        progress=min((round_ - 1) / min(planned, learning.rounds or np.inf), 1.0),
        row_ue=row_ue,
        row_required_std=row_std,
        cohort=cohort,
        overheard=overheard,
        n_bits=payload.n_bits,
        uplink=setup.uplink,
        max_power_w=world.max_power_w,
    )


def rows_of(budgets: list[Standing]) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """UE, model, and noise required of and drawn on each row (R,) of the last round, of all budgets together; by UE,
    then by model.
    """
    ue, model, required, drawn = (
        np.concatenate([getattr(s, name) for s in budgets]) if budgets else np.zeros(0)
        for name in ("row_ue", "row_model", "row_required_std", "row_drawn_std")
    )
    rows, of = np.unique(np.stack([ue, model]).astype(np.int64), axis=1, return_inverse=True)
    stds = [np.sqrt(np.bincount(of.reshape(-1), weights=s**2, minlength=rows.shape[1])) for s in (required, drawn)]
    return rows[0], rows[1], stds[0], stds[1]


def _together(stds: list[FloatArray], n: int) -> FloatArray:
    """Standard deviation (n,) of independent noises added."""
    return np.sqrt(sum((s**2 for s in stds), np.zeros(n)))
