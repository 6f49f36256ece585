"""Steps d to h of a round: UEs learn, choose powers, protect and send updates over the uplink; what
is received.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np

from fl.defenses import Standing
from fl.round.learn import learn, protected
from fl.round.setup import RoundStreams, Setup
from fl.round.state import Phase, States, norm_bound, standings
from fl.round.uploads import Uploads
from fl.types import Local, Spend, Updates
from netsim.columns import frozen
from netsim.radio.power import PowerContext
from netsim.radio.transmissions import SentUploads
from netsim.radio.uplink import Channel, Cohort, Payload, Uplink, noise_std
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray
from netsim.world.world import World

_ROUNDING = (
    1e-9  # relative; the rate of a transmission that took its time is computed from its bits
)


@frozen
class Sending:
    """What the radio needs of the UEs (k,) that send: each sends all its rows (n,) at once.

    cohort (k,): with their powers; payload: of a row; of_row (n,): the entry of the UE that sends
    each row; planned (k,): the uplink by the law for frozen links, None with transmissions as
    events; at_antenna (k,): the same UEs with their links to an eavesdropper's antenna, None
    without one.
    """

    cohort: Cohort
    payload: Payload
    of_row: IntArray
    planned: Channel | None
    at_antenna: Cohort | None = None


def depart(
    world: World, phase: Phase, local: Local, states: States
) -> tuple[Uploads, Sending, list[Spend]]:
    """Steps d to g: uploads (n,) of UEs that learn from their data, at the moment at which they
    leave; noise drawn.

    states: of all parts, changed in place. `weight` and `staleness` of uploads are to be replaced
    by the merge.
    """
    setup = phase.setup
    learning = phase.learning
    facts = phase.facts
    # d  learn
    made = learn(phase, local, states)
    # e  power, f  plan
    sending = _plan_sending(world, phase, made, states)
    # g  protect
    planned = sending.planned
    of_row = sending.of_row
    facts = replace(facts, channel=None if planned is None else planned.select(of_row))
    sent, spends = protected(learning, made, local, facts, states, phase.streams, setup.probe)
    links = world.links()
    ue = made.ue
    n = len(made.ue)
    serving = world.serving(links)[ue]
    uploads = Uploads(
        window=np.full(n, facts.round),
        version=np.full(n, phase.version),
        asked_s=np.full(n, phase.asked_s),
        local=local,
        made=made,
        sent=sent,
        bits=sending.payload.bits(sending.cohort.rows)[of_row],
        rho=np.full(n, setup.uplink.noise_scale(sending.payload)),
        position_m=world.position_m()[ue],
        serving=serving,
        distance_m=_of_serving(links.distance_m, ue, serving),
        rsrp_dbm=_of_serving(links.rsrp_dbm, ue, serving),
        weight=np.zeros(n),
        staleness=np.full(n, -1),
    )
    threat = learning.threat
    if threat.receiver is None:
        return uploads, sending, spends
    antenna, there = world.cohort_at(
        threat.receiver, sending.cohort, facts.time_s, facts.round, threat.antennas
    )
    strength = np.where(antenna.serving >= 0, antenna.strength[:, 0], 0.0)[of_row]
    uploads = replace(
        uploads, strength=strength, antenna_m=np.full(n, np.nan), los=np.full(n, np.nan)
    )
    if threat.position_m is not None:
        if world.setting.radio.knows_sight:
            los = there.los[ue, 0]
        else:
            los = uploads.los
        uploads = replace(uploads, antenna_m=there.distance_m[ue, 0], los=los)
    return uploads, replace(sending, at_antenna=antenna), spends


def _of_serving(values: FloatArray, ue: IntArray, serving: IntArray) -> FloatArray:
    """Values (n_ue, n_bs) of UEs (n,) and their base stations, NaN without one."""
    if not values.shape[1]:
        return np.full(len(ue), np.nan)
    return np.where(serving >= 0, values[ue, serving], np.nan)


def _plan_sending(world: World, phase: Phase, made: Updates, states: States) -> Sending:
    """Steps e and f: the UEs (k,) that send, with their powers, and their uplink; states: changed
    in place.
    """
    # e  power
    setup = phase.setup
    power = states["power"]
    round_ = phase.facts.round
    ues, of_row = np.unique(made.ue, return_inverse=True)
    work = setup.learning.learner.passes * np.bincount(of_row, weights=made.count).astype(
        np.float64
    )
    cohort = world.cohort(ues, world.links(), round_, np.bincount(of_row), work)
    if setup.power.wants_context:
        power = setup.power.update_context(
            power_context(world, setup, states, made.n_parameters, round_, ues), power
        )
    policy = setup.power.of(ues)
    rng = phase.streams.at("power")
    power_w, states["power"] = policy.power_w(
        cohort.gain, cohort.serving, world.max_power_w, power, rng
    )
    # f  plan
    cohort = cohort.at_power(power_w)
    payload = payload_of(setup, made.n_parameters, states)
    planned = None
    if (
        setup.air is None
    ):  # the fate of transmissions as events is unknown beforehand, and no defense counts on it
        planned = setup.uplink.plan(replace(cohort, limit_s=phase.limit_s), payload)
        planned = planned.within(phase.limit_s, setup.uplink.share_of_time())
    return Sending(cohort, payload, of_row, planned)


def first_of(planned: Channel, enough: int | None, share_of_time: float) -> Channel:
    """A planned channel in which all are late that come after the first `enough` UEs; None: no UE
    is late.

    share_of_time: as for `Channel.within`.
    """
    if enough is None or planned.decoded.sum() < enough:
        return planned
    last_s = np.sort(planned.delay_s[planned.decoded])[enough - 1]
    return planned.within(float(last_s) if np.isfinite(last_s) else inf, share_of_time)


def receive(
    setup: Setup,
    uploads: Uploads,
    channel: Channel,
    of_row: IntArray,
    streams: RoundStreams,
    sending: Sending | None = None,
) -> Uploads:
    """Step h: uploads (n,) as the server decodes them, and as an eavesdropper does by herself.

    channel (k,): the uplinks of UEs, of which `of_row` (n,) says whose a row is; sending: needed
    where they were planned, for then UEs disturb one another at her antenna as they do at base
    stations.
    """
    uplink = channel.select(of_row)
    uploads = replace(
        uploads,
        uplink=uplink,
        got=add_decoder_noise(uploads.sent, uplink, streams.at("uplink.send")),
    )
    if isinstance(uplink, SentUploads) and uploads.strength is not None:
        overheard = _heard_alone(setup.uplink, uploads, uplink, uploads.strength)
    elif sending is not None and sending.at_antenna is not None:
        group_of = setup.uplink.groups(sending.cohort)
        overheard = setup.uplink.eavesdropped(
            sending.at_antenna, sending.payload, channel, group_of
        ).select(of_row)
    else:
        return uploads
    heard = add_decoder_noise(uploads.sent, overheard, streams.at("eavesdropper.send"))
    return replace(uploads, overheard=overheard, heard=heard)


def _heard_alone(
    uplink: Uplink, uploads: Uploads, channel: SentUploads, strength: FloatArray
) -> Channel:
    """The channels (n,) of uploads that took their time to an antenna of which they have a strength
    (n,).

    It is left out who sent at the same time: each is heard alone, at its mean power and in its mean
    share of the band, which is the most that can be heard.
    """
    signal_w = channel.power_w * strength
    signal_w = np.where(np.isfinite(signal_w), signal_w, 0.0)
    thermal_w = np.fmin(
        channel.thermal_w, uplink.band_noise_w()
    )  # all of it for one that did not send
    snr = signal_w / thermal_w
    rate_bps = uplink.rate_bps(snr) * (thermal_w / uplink.band_noise_w())
    std = noise_std(uploads.rho, snr)
    whole = channel.sent_bits - channel.lost_bits >= uploads.bits
    fast = rate_bps >= channel.rate_bps * (1 - _ROUNDING)
    heard = whole & (snr > 0) & (channel.rate_bps > 0) & ((uploads.rho > 0) | fast)
    return Channel(
        channel.power_w,
        snr,
        rate_bps,
        std,
        np.where(snr > 0, std, 0.0),
        channel.airtime_s,
        channel.delay_s,
        channel.energy_j,
        heard,
        np.zeros(len(snr), dtype=np.bool_),
    )


def add_decoder_noise(updates: Updates, channel: Channel, rng: Rng) -> Updates:
    """Updates (n, d) with the decoder's noise, of std channel.noise_std (n,) on each number."""
    if not channel.noise_std.any():
        return updates
    return updates.noisy(channel.noise_std, "decoder", rng)


def payload_of(setup: Setup, n_numbers: int, states: States) -> Payload:
    """Payload of an update of n_numbers, whose norm the defenses bound."""
    learning = setup.learning
    return Payload(n_numbers * learning.bits_per_number, n_numbers, norm_bound(learning, states))


def power_context(
    world: World, setup: Setup, states: States, n_numbers: int, round_: int, ue: IntArray
) -> PowerContext:
    """Context of a power policy before a round in which the UEs (n,) send updates of n_numbers.

    states : of all parts, as they were left by the round before. Noise of several budgets adds in
    variance.
    """
    n = len(world.ues)
    learning = setup.learning
    threat = setup.learning.threat
    cohort = world.cohort(
        np.arange(n), world.links(), round_, np.ones(n, dtype=np.int64), np.zeros(n)
    )
    budgets = standings(learning, states)
    planned = float(world.clock.rounds(world.duration_s, learning.round_s))
    payload = payload_of(setup, n_numbers, states)
    time_s = world.env.now
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
    """UE, model, and noise required of and drawn on each row (R,) of the last round, of all budgets
    together; by UE, then by model.
    """
    ue, model, required, drawn = (
        np.concatenate([getattr(s, name) for s in budgets]) if budgets else np.zeros(0)
        for name in ("row_ue", "row_model", "row_required_std", "row_drawn_std")
    )
    rows, of = np.unique(np.stack([ue, model]).astype(np.int64), axis=1, return_inverse=True)
    stds = [
        np.sqrt(np.bincount(of.reshape(-1), weights=s**2, minlength=rows.shape[1]))
        for s in (required, drawn)
    ]
    return rows[0], rows[1], stds[0], stds[1]


def _together(stds: list[FloatArray], n: int) -> FloatArray:
    """Standard deviation (n,) of independent noises added."""
    return np.sqrt(sum((s**2 for s in stds), np.zeros(n)))
