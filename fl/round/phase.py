"""A phase of a round: updates are made and sent, merged, observed and attacked (steps d to j, and l)."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import numpy as np
import simpy

from fl.round.attack import attack
from fl.round.merge import Batch, Merging, merge, observe
from fl.round.overhear import overhear
from fl.round.state import Eavesdropped, PartStates, PhaseOutcome
from fl.round.sums import in_groups
from fl.round.transmit import Transmitter, UploadRequest, Uploads, planned_within, received
from fl.round.upload import PhaseStart, Upload, prepare
from fl.server.synchronous import Synchronous
from fl.types import Timing
from netsim.radio.transmissions import SentUploads
from netsim.radio.uplink import Channel
from netsim.units import BoolArray, FloatArray


def play_phase(
    phase: PhaseStart, states: PartStates, transmitter: Transmitter, enough: int | None
) -> Generator[simpy.Event, None, tuple[PhaseOutcome, PartStates]]:
    """One phase as it came out, and what its parts remember afterwards; lasts as long as updates need on the air.

    enough: number of UEs after whose updates the server waits no longer.
    """
    upload, states = prepare(phase, states)
    sent: Channel
    if upload.planned is not None:
        sent = planned_within(upload.planned, enough)
    else:
        asked = UploadRequest(upload.cohort, upload.payload, phase.facts.round, phase.left_s, upload.energy_j, enough)
        sent = yield from transmitter.send(asked)
    availability = phase.setup.learning.availability.spent(upload.cohort.ue, sent.energy_j, states.availability)
    return _finish(phase, upload, sent, replace(states, availability=availability), enough)


def _finish(
    phase: PhaseStart, upload: Upload, sent: Channel, states: PartStates, enough: int | None
) -> tuple[PhaseOutcome, PartStates]:  # fmt: skip
    """Finish a phase by merge and attack; sent: the channel of each UE."""
    channel, n = sent.select(upload.of_row), len(upload.cohort.ue)
    facts = replace(phase.facts, channel=channel)
    # h  send; an eavesdropper hears the same updates by herself
    got = received(upload.updates, channel, phase.streams.at("uplink.send"))
    antenna, overheard, heard = upload.overheard, None, got
    if antenna is not None:
        there = overhear(phase.setup, antenna.cohort, upload.payload, sent)
        overheard = Eavesdropped(there.select(upload.of_row), antenna.distance_m, antenna.los)
        heard = received(upload.updates, overheard.channel, phase.streams.at("eavesdropper.send"))
    timing = timing_of(upload, sent, np.full(n, phase.requested_s)).select(upload.of_row)
    batch = Batch(got, heard, timing, (phase.model,), np.zeros(len(upload.of_row), dtype=np.int64), upload.finite)
    at = Merging(phase.setup, facts, phase.name, phase.model, len(phase.world.ues), phase.streams)
    # what secure aggregation leaves of them, where there is any
    batch, sums = in_groups(at, batch)
    # i  merge, then the defenses' server half in reverse order
    merged, states = merge(at, batch, states)
    # j  observe what was published
    states = observe(at, batch, merged.weights, states)
    # l  attack: exactly the view that the threat grants
    attacks, states = attack(at, batch, merged, states)
    arrived_s, merged_s, attacked_s = _times_s(phase, channel, overheard)
    asked_s, uploads = facts.time_s, None
    server = phase.setup.learning.server
    if isinstance(server, Synchronous) and server.deadline_s is not None and sent.decoded.sum() < min(enough or n, n):
        merged_s = phase.requested_s + phase.left_s  # the server does not know that the missing ones are lost
    if isinstance(sent, SentUploads):
        arrived_s = np.where(channel.decoded, arrived_s, np.nan)
        merged_s, asked_s = float(phase.world.env.now), phase.requested_s  # the server waited for those lost as well
        attacked_s, uploads = max(attacked_s, merged_s), _uploads(phase, upload, sent, batch.got.decoded)
    return PhaseOutcome(
        name=phase.name, requested_s=phase.requested_s, asked_s=np.full(n, asked_s),
        arrived_s=arrived_s, merged_s=merged_s, attacked_s=attacked_s, made=upload.made, received=got, channel=channel,
        spends=[*upload.spends, *merged.spends], weights=merged.weights, model=merged.model, eavesdropped=overheard,
        non_finite=int((~upload.finite).sum()), context=upload.context, uploads=uploads, attacks=attacks, sums=sums,
    ), states  # fmt: skip


def timing_of(upload: Upload, sent: Channel, requested_s: FloatArray) -> Timing:
    """When the server asked each UE (n,), and when its last bit came; all began from the model now."""
    cohort = upload.cohort
    bits = upload.payload.bits(cohort.rows)
    return Timing(requested_s, requested_s + sent.delay_s, cohort.serving, bits, np.zeros(len(bits), dtype=np.int64))


def _uploads(phase: PhaseStart, upload: Upload, sent: SentUploads, merged: BoolArray) -> Uploads:
    """The uploads of all UEs; those whose rows (n,) were merged were so into the version they began from."""
    n = len(upload.cohort.ue)
    counts = np.isin(np.arange(n), upload.of_row[merged])
    return Uploads(
        upload.cohort.ue, np.full(n, phase.requested_s),
        upload.payload.bits(upload.cohort.rows), sent,
        np.full(n, phase.version), np.where(counts, 0, -1),
    )  # fmt: skip


def _times_s(phase: PhaseStart, channel: Channel, overheard: Eavesdropped | None) -> tuple[FloatArray, float, float]:
    """When each row's last bit came (n,), NaN where it never does; when the server merged; when the attack was made."""
    arrived_s = np.where(np.isfinite(channel.delay_s), phase.requested_s + channel.delay_s, np.nan)
    merged_s = _latest_s(phase.requested_s, arrived_s[channel.decoded])
    if overheard is None:
        return arrived_s, merged_s, merged_s
    # she has heard what the UEs sent, until the next round silences them
    heard_s = np.fmin(arrived_s, phase.requested_s + phase.left_s)[overheard.channel.decoded]
    return arrived_s, merged_s, _latest_s(phase.requested_s, heard_s)


def _latest_s(requested_s: float, arrived_s: FloatArray) -> float:
    """Time at which the last received update (n,) arrived; the request itself where none did."""
    return float(arrived_s.max(initial=requested_s))
