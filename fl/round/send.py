"""Steps d to h of a round: UEs learn, choose powers, protect and send updates over the uplink; what
is received.
"""

from dataclasses import replace
from math import inf

import numpy as np

from fl.defenses import Standing
from fl.round.learn import learn_updates, protect_updates
from fl.round.setup import RoundStreams, Setup
from fl.round.state import Phase, States, collect_standings, find_norm_bound
from fl.round.uploads import Uploads
from fl.types import Local, Spend, Updates
from netsim.columns import frozen
from netsim.radio.power import PowerContext
from netsim.radio.transmissions import SentUploads
from netsim.radio.uplink import Channel, Cohort, Payload, Uplink, compute_noise_std
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray
from netsim.world.world import World

# relative; the rate of a transmission that took its time is computed from its bits
_ROUNDING = 1e-9


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


def prepare_uploads(
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
    learnt = learn_updates(phase, local, states)
    # e  power, f  plan
    sending = _plan_sending(world, phase, learnt, states)
    # g  protect
    of_row = sending.of_row
    channel = None if sending.planned is None else sending.planned.select(of_row)
    facts = replace(facts, channel=channel)
    sent, spends = protect_updates(
        learning, learnt, local, facts, states, phase.streams, setup.probe
    )
    if learning.malicious is not None:
        sent = learning.malicious.poison_updates(sent, states["malicious"][sent.ue])
    links = world.compute_links()
    position_m = world.locate_ues()
    cell = world.find_serving(links)
    threat = learning.threat
    network = None
    if threat.operator and phase.name == learning.learner.phases[0]:
        network = world.measure_network(links, position_m, cell, threat.operator).select(learnt.ue)
    ue = learnt.ue
    n = len(ue)
    serving = cell[ue]
    bits_of_ue = sending.payload.count_bits(sending.cohort.rows)
    uploads = Uploads(
        window=np.full(n, facts.round),
        version=np.full(n, phase.version),
        asked_s=np.full(n, phase.asked_s),
        local=local,
        made=learnt,
        sent=sent,
        bits=bits_of_ue[of_row],
        rho=np.full(n, setup.uplink.noise_scale(sending.payload)),
        position_m=position_m[ue],
        serving=serving,
        distance_m=_select_serving(links.distance_m, ue, serving),
        rsrp_dbm=_select_serving(links.rsrp_dbm, ue, serving),
        weight=np.zeros(n),
        staleness=np.full(n, -1),
        network=network,
    )
    if threat.receiver is None:
        return uploads, sending, spends
    antenna, antenna_links = world.build_cohort_at(
        threat.receiver, sending.cohort, facts.time_s, facts.round, threat.antennas
    )
    strength = np.where(antenna.serving >= 0, antenna.strength[:, 0], 0.0)
    antenna_m = np.full(n, np.nan)
    los = np.full(n, np.nan)
    if threat.position_m is not None:
        antenna_m = antenna_links.distance_m[ue, 0]
        if world.setting.radio.sight_is_modelled:
            los = antenna_links.los[ue, 0]
    uploads = replace(uploads, strength=strength[of_row], antenna_m=antenna_m, los=los)
    return uploads, replace(sending, at_antenna=antenna), spends


def _select_serving(values: FloatArray, ue: IntArray, serving: IntArray) -> FloatArray:
    """Values (n_ue, n_bs) of UEs (n,) and their base stations, NaN without one."""
    if not values.shape[1]:
        return np.full(len(ue), np.nan)
    return np.where(serving >= 0, values[ue, serving], np.nan)


def _plan_sending(world: World, phase: Phase, learnt: Updates, states: States) -> Sending:
    """Steps e and f: the UEs (k,) that send, with their powers, and their uplink; states: changed
    in place.
    """
    # e  power
    setup = phase.setup
    power = states["power"]
    round_ = phase.facts.round
    ues, of_row = np.unique(learnt.ue, return_inverse=True)
    samples = np.bincount(of_row, weights=learnt.count).astype(np.float64)
    work = setup.learning.learner.passes * samples
    cohort = world.build_cohort(ues, world.compute_links(), round_, np.bincount(of_row), work)
    if setup.power.wants_context:
        context = build_power_context(world, setup, states, learnt.n_parameters, round_, ues)
        power = setup.power.update_context(context, power)
    policy = setup.power.select_ues(ues)
    rng = phase.streams.derive_rng("power")
    power_w, states["power"] = policy.power_w(
        cohort.gain, cohort.serving, world.max_power_w, power, rng
    )
    # f  plan
    cohort = cohort.with_power_w(power_w)
    payload = build_payload(setup, learnt.n_parameters, states)
    planned = None
    # the fate of transmissions as events is unknown beforehand, and no defense counts on it
    if setup.air is None:
        planned = setup.uplink.plan(replace(cohort, limit_s=phase.limit_s), payload)
        planned = planned.stop_late(phase.limit_s, setup.uplink.share_of_time())
    return Sending(cohort, payload, of_row, planned)


def stop_late(planned: Channel, enough: int | None, share_of_time: float) -> Channel:
    """A planned channel in which all are late that come after the first `enough` UEs; None: no UE
    is late.

    share_of_time: as for `Channel.stop_late`.
    """
    if enough is None or planned.decoded.sum() < enough:
        return planned
    last_s = np.sort(planned.delay_s[planned.decoded])[enough - 1]
    if not np.isfinite(last_s):
        last_s = inf
    return planned.stop_late(last_s, share_of_time)


def receive_uploads(
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
    got = add_decoder_noise(uploads.sent, uplink, streams.derive_rng("uplink.send"))
    uploads = replace(uploads, uplink=uplink, got=got)
    if isinstance(uplink, SentUploads) and uploads.strength is not None:
        overheard = _link_eavesdropper(setup.uplink, uploads, uplink, uploads.strength)
    elif sending is not None and sending.at_antenna is not None:
        group_of = setup.uplink.group_ues(sending.cohort)
        overheard = setup.uplink.eavesdrop(
            sending.at_antenna, sending.payload, channel, group_of
        ).select(of_row)
    else:
        return uploads
    heard = add_decoder_noise(uploads.sent, overheard, streams.derive_rng("eavesdropper.send"))
    return replace(uploads, overheard=overheard, heard=heard)


def _link_eavesdropper(
    uplink: Uplink, uploads: Uploads, channel: SentUploads, strength: FloatArray
) -> Channel:
    """The channels (n,) of uploads that took their time to an antenna of which they have a strength
    (n,).

    It is left out who sent at the same time: each is heard alone, at its mean power and in its mean
    share of the band, which is the most that can be heard.
    """
    signal_w = channel.power_w * strength
    signal_w = np.where(np.isfinite(signal_w), signal_w, 0.0)
    # all of it for one that did not send
    thermal_w = np.fmin(channel.thermal_w, uplink.band_noise_w())
    snr = signal_w / thermal_w
    rate_bps = uplink.rate_bps(snr) * (thermal_w / uplink.band_noise_w())
    std = compute_noise_std(uploads.rho, snr)
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
    return updates.add_noise(channel.noise_std, "decoder", rng)


def build_payload(setup: Setup, n_numbers: int, states: States) -> Payload:
    """Payload of an update of n_numbers, whose norm the defenses bound."""
    return Payload(
        n_numbers * setup.learning.bits_per_number,
        n_numbers,
        find_norm_bound(setup.learning, states),
    )


def build_power_context(
    world: World, setup: Setup, states: States, n_numbers: int, round_: int, ue: IntArray
) -> PowerContext:
    """Context of a power policy before a round in which the UEs (n,) send updates of n_numbers.

    states : of all parts, as they were left by the round before. Noise of several budgets adds in
    variance.
    """
    n = len(world.ues)
    learning = setup.learning
    threat = learning.threat
    every_ue = np.arange(n)
    one_row = np.ones(n, dtype=np.int64)
    cohort = world.build_cohort(every_ue, world.compute_links(), round_, one_row, np.zeros(n))
    budgets = collect_standings(learning, states)
    planned = float(world.clock.count_rounds(world.duration_s, learning.round_s))
    rounds = min(planned, learning.rounds or np.inf)
    payload = build_payload(setup, n_numbers, states)
    time_s = world.env.now
    overheard = None
    if threat.receiver is not None:
        overheard, _ = world.build_cohort_at(
            threat.receiver, cohort, time_s, round_, threat.antennas
        )
    row_ue, _, row_std, _ = collect_budget_rows(budgets)
    return PowerContext(
        sends=ue,
        snr_per_w=setup.uplink.snr_per_w(cohort),
        scale=setup.uplink.noise_scale(payload),
        required_std=_add_stds([s.required_std for s in budgets], n),
        drawn_std=_add_stds([s.drawn_std for s in budgets], n),
        budget_left=min((s.budget_left for s in budgets), default=1.0),
        progress=min((round_ - 1) / rounds, 1.0),
        row_ue=row_ue,
        row_required_std=row_std,
        cohort=cohort,
        overheard=overheard,
        n_bits=payload.n_bits,
        uplink=setup.uplink,
        max_power_w=world.max_power_w,
    )


def collect_budget_rows(
    budgets: list[Standing],
) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """UE, model, and noise required of and drawn on each row (R,) of the last round, of all budgets
    together; by UE, then by model.
    """
    columns = [(s.row_ue, s.row_model, s.row_required_std, s.row_drawn_std) for s in budgets]
    ue, model, required, drawn = np.concatenate([np.zeros((4, 0)), *columns], axis=1)
    pairs = np.stack([ue, model]).astype(np.int64)
    (ue, model), row_of_budget = np.unique(pairs, axis=1, return_inverse=True)
    row = row_of_budget.reshape(-1)
    required_variance = np.bincount(row, weights=required**2, minlength=len(ue))
    drawn_variance = np.bincount(row, weights=drawn**2, minlength=len(ue))
    return ue, model, np.sqrt(required_variance), np.sqrt(drawn_variance)


def _add_stds(stds: list[FloatArray], n: int) -> FloatArray:
    """Standard deviation (n,) of independent noises added."""
    return np.sqrt(sum((s**2 for s in stds), np.zeros(n)))
