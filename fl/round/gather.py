"""Uploads of several waves, put together into the rows of one merge."""

from __future__ import annotations

import numpy as np

from fl.round.flight import ArrivedUploads, Flight, Wave
from fl.round.merge import Batch
from fl.round.overhear import overhear
from fl.round.setup import Setup
from fl.round.state import Eavesdropped
from fl.round.streams import RoundStreams
from fl.round.transmit import Uploads, received
from fl.round.upload_context import UploadContext
from fl.types import DenseUpdates, Local, Received, Timing
from netsim.columns import Columns, frozen, row_id
from netsim.radio.uplink import Channel
from netsim.units import BoolArray, FloatArray, IntArray


@frozen
class GatheredUploads:
    """Uploads (k,) and their rows (n,), both by increasing UE.

    batch: the rows as server and attacker have them; measured, local: data of the UEs; channel, arrived_s: one entry a
    row, NaN where the last bit never came; uploads, context: one entry an upload; overheard: at an eavesdropper.
    """

    batch: Batch
    measured: Local
    local: Local
    made: DenseUpdates
    channel: Channel
    arrived_s: FloatArray
    uploads: Uploads
    context: UploadContext
    overheard: Eavesdropped | None


@frozen
class _WaveRows(Columns):
    """Rows (n,): as UEs made them, as the server and the attacker received them, and the version they began from."""

    made: DenseUpdates
    got: Received
    heard: Received
    channel: Channel
    timing: Timing
    version: IntArray
    overheard: Channel | None


@frozen
class _WaveSenders(Columns):
    """UEs (k,): their uploads, where they were, and how an eavesdropper saw them, if there is one."""

    uploads: Uploads
    context: UploadContext
    distance_m: FloatArray | None
    los: BoolArray | None


def gather(setup: Setup, flight: Flight, done: ArrivedUploads, version: int) -> GatheredUploads:
    """The uploads `done`, as the rows of a merge into the model of this version."""
    waves = [flight.wave(number) for number in np.unique(done.wave).tolist()]
    pieces = [_piece(setup, wave, done.select(done.wave == wave.number), version) for wave in waves]
    every, senders, local, measured = zip(*pieces, strict=True)
    rows = _WaveRows.join(every)
    order = np.argsort(row_id(rows.made.ue, rows.made.model), kind="stable")
    rows, sent, data = rows.select(order), _WaveSenders.join(senders), Local.join(list(measured))
    sent = sent.select(np.argsort(sent.uploads.ue, kind="stable"))
    bases = {wave.version: wave.base for wave in waves}
    versions = sorted(bases)
    batch = Batch(
        rows.got, rows.heard, rows.timing, tuple(bases[v] for v in versions), np.searchsorted(versions, rows.version),
        np.isfinite(rows.made.norm()),
    )  # fmt: skip
    overheard = None
    if rows.overheard is not None and sent.distance_m is not None and sent.los is not None:
        overheard = Eavesdropped(rows.overheard, sent.distance_m, sent.los)
    return GatheredUploads(
        batch=batch, measured=data.take(np.argsort(row_id(data.ue, data.model), kind="stable")),
        local=Local.join(list(local)).take(order), made=rows.made, channel=rows.channel,
        arrived_s=np.where(rows.channel.decoded, rows.timing.arrived_s, np.nan), uploads=sent.uploads,
        context=sent.context, overheard=overheard,
    )  # fmt: skip


def _piece(
    setup: Setup, wave: Wave, done: ArrivedUploads, version: int
) -> tuple[_WaveRows, _WaveSenders, Local, Local]:
    """Some uploads of one wave, merged into the model of this version, and what their UEs learnt from and measured."""
    order = np.argsort(done.place)
    place, sent = done.place[order], done.sent.select(order)
    ue, n = wave.cohort.ue[place], len(place)
    requested_s, began, bits = np.full(n, wave.requested_s), np.full(n, wave.version), wave.bits[place]
    rows = np.flatnonzero(np.isin(wave.of_row, place))
    entry = np.searchsorted(place, wave.of_row[rows])
    channel, updates = Channel.join([sent.select(entry)]), wave.updates.select(rows)
    streams = RoundStreams(setup.streams, wave.number)
    got = received(updates, channel, streams.at("uplink.send"))
    antenna, overheard, heard = wave.overheard, None, got
    if antenna is not None:
        overheard = overhear(setup, antenna.cohort.take(place), wave.payload, sent).select(entry)
        heard = received(updates, overheard, streams.at("eavesdropper.send"))
    timing = Timing(requested_s, sent.ended_s, wave.cohort.serving[place], bits, version - began).select(entry)
    asked = np.isin(wave.measured.ue, ue)
    return (
        _WaveRows(wave.made.select(rows), got, heard, channel, timing, began[entry], overheard),
        _WaveSenders(
            Uploads(ue, requested_s, bits, sent, began, np.where(sent.decoded, version - began, -1)),
            wave.context.select(place),
            None if antenna is None else antenna.distance_m[place],
            None if antenna is None else antenna.los[place],
        ),
        wave.local.take(rows),
        wave.measured.take(np.flatnonzero(asked)),
    )
