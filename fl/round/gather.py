"""Uploads of several waves, put together into the rows of one merge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fl.round.flight import Come, Flight, Wave
from fl.round.merge import Batch
from fl.round.overhear import overhear
from fl.round.setup import Setup
from fl.round.state import Eavesdropped
from fl.round.streams import RoundStreams
from fl.round.transmit import Uploads, received
from fl.round.whence import Whence
from fl.types import DenseUpdates, Local, Received, Timing, Updates
from netsim.radio.sent import SentUploads
from netsim.radio.uplink import Channel
from netsim.row_id import row_id
from netsim.units import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class GatheredUploads:
    """Uploads (k,) and their rows (n,), both by increasing UE.

    batch: the rows as server and attacker have them; measured, local: data of the UEs; channel, arrived_s: one entry a
    row, NaN where the last bit never came; uploads, whence: one entry an upload; overheard: at an eavesdropper.
    """

    batch: Batch
    measured: Local
    local: Local
    made: DenseUpdates
    channel: Channel
    arrived_s: FloatArray
    uploads: Uploads
    whence: Whence
    overheard: Eavesdropped | None


@dataclass(frozen=True, eq=False)
class _Piece:
    """What one wave brings to a merge: uploads by entry of its cohort, and rows as the wave has them."""

    wave: Wave
    place: IntArray
    sent: SentUploads
    channel: Channel
    made: DenseUpdates
    got: Received
    heard: Received
    local: Local
    measured: Local
    row_entry: IntArray
    overheard: Channel | None


def gather(setup: Setup, flight: Flight, done: Come, version: int) -> GatheredUploads:
    """The uploads `done`, as the rows of a merge into the model of this version."""
    numbers = np.unique(done.wave).tolist()
    pieces = [_piece(setup, flight.wave(number), done.select(done.wave == number)) for number in numbers]
    versions = sorted({piece.wave.version for piece in pieces})
    bases = {piece.wave.version: piece.wave.base for piece in pieces}
    made = _stacked([piece.made for piece in pieces])
    order = np.argsort(row_id(made.ue, made.model), kind="stable")
    base = np.concatenate([np.full(len(p.made.ue), versions.index(p.wave.version)) for p in pieces])[order]
    channel = Channel.join([piece.channel for piece in pieces]).select(order)
    uploads, whence, by_ue = _uploads(pieces, version)
    entry = np.concatenate([p.row_entry + first for p, first in zip(pieces, _starts(pieces), strict=True)])[order]
    requested_s = np.concatenate([np.full(len(p.place), p.wave.requested_s) for p in pieces])[entry]
    arrived_s = np.concatenate([p.sent.ended_s for p in pieces])[entry]
    serving = np.concatenate([p.wave.cohort.serving[p.place] for p in pieces])[entry]
    bits = np.concatenate([p.wave.payload.bits(p.wave.cohort.rows[p.place]) for p in pieces])[entry]
    timing = Timing(requested_s, arrived_s, serving, bits, version - np.array(versions, dtype=np.int64)[base])
    batch = Batch(
        _received([p.got for p in pieces], order), _received([p.heard for p in pieces], order), timing,
        tuple(bases[v] for v in versions), base, np.isfinite(made.norm())[order],
    )  # fmt: skip
    local, measured = Local.join([p.local for p in pieces]), Local.join([p.measured for p in pieces])
    return GatheredUploads(
        batch=batch, measured=measured.take(np.argsort(row_id(measured.ue, measured.model), kind="stable")),
        local=local.take(order), made=_rows(made, order), channel=channel,
        arrived_s=np.where(channel.decoded, arrived_s, np.nan), uploads=uploads, whence=whence,
        overheard=_overheard(pieces, order, by_ue),
    )  # fmt: skip


def _piece(setup: Setup, wave: Wave, done: Come) -> _Piece:
    """Some uploads of one wave: what the server receives of them, and an eavesdropper."""
    order = np.argsort(done.place)
    place, sent = done.place[order], done.sent.select(order)
    rows = np.flatnonzero(np.isin(wave.of_row, place))
    entry = np.searchsorted(place, wave.of_row[rows])
    channel, updates = sent.select(entry), _rows(wave.updates, rows)
    streams = RoundStreams(setup.streams, wave.number)
    got = received(updates, channel, streams.at("uplink.send"))
    antenna, overheard, heard = wave.overheard, None, got
    if antenna is not None:
        overheard = overhear(setup, antenna.cohort.take(place), wave.payload, sent)
        heard = received(updates, overheard.select(entry), streams.at("eavesdropper.send"))
    asked = np.isin(wave.measured.ue, wave.cohort.ue[place])
    return _Piece(
        wave, place, sent, channel, _rows(wave.made, rows), got, heard, wave.local.take(rows),
        wave.measured.take(np.flatnonzero(asked)), entry, overheard,
    )  # fmt: skip


def _uploads(pieces: list[_Piece], version: int) -> tuple[Uploads, Whence, IntArray]:
    """The uploads of all pieces and where their UEs were, by increasing UE, and the order (k,) that makes it so."""
    ue = np.concatenate([p.wave.cohort.ue[p.place] for p in pieces])
    order = np.argsort(ue, kind="stable")
    sent = SentUploads.join([p.sent for p in pieces]).select(order)
    began = np.concatenate([np.full(len(p.place), p.wave.version) for p in pieces])[order]
    requested_s = np.concatenate([np.full(len(p.place), p.wave.requested_s) for p in pieces])[order]
    bits = np.concatenate([p.wave.payload.bits(p.wave.cohort.rows[p.place]) for p in pieces])[order]
    uploads = Uploads(ue[order], requested_s, bits, sent, began, np.where(sent.decoded, version - began, -1))
    whence = Whence.join([p.wave.whence.select(p.place) for p in pieces]).select(order)
    return uploads, whence, order


def _overheard(pieces: list[_Piece], order: IntArray, by_ue: IntArray) -> Eavesdropped | None:
    """The eavesdropper's side of all rows and UEs; None where there is none."""
    channels, antennas = [], []
    for p in pieces:
        if p.overheard is None or p.wave.overheard is None:
            return None
        channels.append(p.overheard.select(p.row_entry))
        antennas.append((p.wave.overheard.distance_m[p.place], p.wave.overheard.los[p.place]))
    distance_m, los = (np.concatenate(some)[by_ue] for some in zip(*antennas, strict=True))
    return Eavesdropped(Channel.join(channels).select(order), distance_m, los)


def _starts(pieces: list[_Piece]) -> list[int]:
    """Where the uploads of each piece begin among those of all."""
    return [0, *np.cumsum([len(p.place) for p in pieces])[:-1].tolist()]


def _rows(updates: DenseUpdates, rows: IntArray) -> DenseUpdates:
    """Some rows (k,), in this order."""
    return DenseUpdates(
        updates.ue[rows], updates.model[rows], updates.count[rows], updates.values[rows], updates.phase, updates.bound
    )


def _stacked(pieces: list[DenseUpdates]) -> DenseUpdates:
    """Updates one after the other."""
    ue, model, count, values = (
        np.concatenate([getattr(p, name) for p in pieces]) for name in ("ue", "model", "count", "values")
    )
    return DenseUpdates(ue, model, count, values, pieces[0].phase, pieces[0].bound)


def _received(pieces: list[Received], order: IntArray) -> Received:
    """What was received, in the order of the rows."""
    updates = _stacked([dense(p.updates) for p in pieces])
    return Received(_rows(updates, order), np.concatenate([p.decoded for p in pieces])[order])


def dense(updates: Updates) -> DenseUpdates:
    """Updates as one array."""
    return updates.replaced(updates.rows(slice(None)), updates.bound)
