"""Stages and outcomes of a transmission."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from math import inf, nan
from typing import Any, NamedTuple, Self

import numpy as np

from netsim.columns import (
    Columns,
    copy_with,
    divide_or_zero,
    frozen,
    no_floats,
    no_ints,
    replace_values,
)
from netsim.compiled import compiled
from netsim.radio.uplink import Channel, Cohort, Decoded, Payload, Uplink, compute_noise_std
from netsim.rng import Streams
from netsim.units import BoolArray, ComplexArray, FloatArray, IntArray


class SeenLinks(NamedTuple):
    """Links of UEs (n,) now: serving (n,), gain (n, n_bs) and fading (n, n_bs, antennas) as in
    `Cohort`; power_w (n,): what UEs send with on these links, None where they keep the power that
    they have.
    """

    serving: IntArray
    gain: FloatArray
    fading: ComplexArray | None
    power_w: FloatArray | None = None


Look = Callable[[IntArray, IntArray], SeenLinks]
"""From ue (n,) and the round (n,) that each sends in to their links now."""


PREPARING, WAITING, SENDING, ENDED = range(4)
"""Stages of a transmission; preparing: request, downlink and training."""


class Fate(IntEnum):
    """Outcome of a transmission.

    undecoded: a block exhausted its retransmissions, or the UE cannot be received at all; late: not
    complete at the deadline; dropped: the UE left; exhausted: its energy was spent; no cell: no
    base station serves the UE; stopped: the server no longer needed it.
    """

    UNDER_WAY = 0
    ARRIVED = 1
    UNDECODED = 2
    LATE = 3
    DROPPED = 4
    EXHAUSTED = 5
    NO_CELL = 6
    STOPPED = 7

    @property
    def word(self) -> str:
        """The name as records have it: `no-cell`."""
        return self.name.lower().replace("_", "-")


@dataclass(eq=False)
class Transmissions(Columns):
    """Transmissions (n,), by increasing ue.

    cohort: the UEs with their links and powers now; submission, place: the submission and the entry
    in it; round: of the fading; look: block in which its links were looked at. requested_s,
    ready_s (after downlink and training), stops_s (when it ends at the latest, by
    the fate `stops_by`), granted_s (first rate, NaN before), ended_s (NaN before).

    alone_bps; sent_j, left_j: energy spent on the air, and what may still be. n_bits; rho: scale of
    the noise on its numbers; share_of_time: of the airtime in which it sends.

    stage, fate; since_s: up to when the following counts: waited_s, airtime_s, left_bits (not yet
    sent, or to be sent again), block_bits (those left when the current block began), lost_bits
    (wasted in earlier tries), block_noise, block_thermal, noise, thermal: sums of bits / SINR and
    bits / SNR over the current block and over the blocks decoded; thermal_j: energy of thermal
    noise in the part of the band and in the airtime in which it was sent. sinr, snr, rate_bps,
    decoded: since the last evaluation; failed: whether something of the current block was not
    decoded; tries: of the current block, failed.
    """

    cohort: Cohort
    submission: IntArray
    place: IntArray
    round: IntArray
    look: IntArray
    requested_s: FloatArray
    ready_s: FloatArray
    stops_s: FloatArray
    stops_by: IntArray
    granted_s: FloatArray
    ended_s: FloatArray
    alone_bps: FloatArray
    sent_j: FloatArray
    left_j: FloatArray
    n_bits: FloatArray
    rho: FloatArray
    stage: IntArray
    fate: IntArray
    since_s: FloatArray
    waited_s: FloatArray
    airtime_s: FloatArray
    left_bits: FloatArray
    block_bits: FloatArray
    lost_bits: FloatArray
    block_noise: FloatArray
    block_thermal: FloatArray
    noise: FloatArray
    thermal: FloatArray
    thermal_j: FloatArray
    sinr: FloatArray
    snr: FloatArray
    rate_bps: FloatArray
    decoded: BoolArray
    failed: BoolArray
    tries: IntArray
    share_of_time: float = 1.0

    def __len__(self) -> int:
        return len(self.stage)

    @property
    def ue(self) -> IntArray:
        """The UE of each row (n,)."""
        return self.cohort.ue

    @property
    def serving(self) -> IntArray:
        """The cell of each row (n,), -1 for none."""
        return self.cohort.serving

    @classmethod
    def from_cohort(cls, cohort: Cohort) -> Self:
        """Rows of zeros."""
        types = {"IntArray": np.int64, "FloatArray": np.float64, "BoolArray": np.bool_}
        zeros: dict[str, Any] = {
            column.name: np.zeros(len(cohort.ue), types[str(column.type)])
            for column in fields(cls)
            if str(column.type) in types
        }
        return cls(cohort, **zeros)

    @classmethod
    def none(cls) -> Self:
        """No transmission."""
        zero = no_floats()
        return cls.from_cohort(
            Cohort(no_ints(), no_ints(), np.zeros((0, 0)), None, zero, no_ints(), zero, zero, zero)
        )

    def join_rows(self, new: Self) -> Self:
        """These rows and others, by increasing ue; rows of one UE by submission."""
        if not len(self):
            return new
        both = self.join([self, new])
        return both.select(np.lexsort((both.submission, both.ue)))

    def find_ends(self) -> OwnEnds:
        """When each row (n,) ends or becomes ready by itself."""
        return _find_ends(
            self.stage,
            self.since_s,
            self.left_bits,
            self.rate_bps,
            self.left_j,
            self.cohort.power_w * self.share_of_time,
            self.ready_s,
            self.stops_s,
        )

    def stop_at(self, at_s: FloatArray, by: Fate) -> None:
        """End rows (n,) at at_s, where nothing ends them before."""
        first = at_s < self.stops_s
        self.stops_s[first] = at_s[first]
        self.stops_by[first] = by

    def settle(self, rows: IntArray, time_s: float | FloatArray) -> None:
        """Count waiting and sending of rows (k,) from since_s to time_s, (k,) or one for all."""
        if not len(rows):
            return
        span_s = time_s - self.since_s[rows]
        self.since_s[rows] = time_s
        stage = self.stage[rows]
        sends = (stage == SENDING) & (self.rate_bps[rows] > 0)
        waits = ~sends & (stage != PREPARING)
        self.waited_s[rows[waits]] += span_s[waits]
        rows = rows[sends]
        span_s = span_s[sends]
        bits = np.zeros(len(rows))
        np.multiply(self.rate_bps[rows], span_s, out=bits, where=span_s > 0)
        self._send(rows, span_s, np.minimum(bits, self.left_bits[rows]))

    def _send(self, rows: IntArray, span_s: FloatArray, bits: FloatArray) -> None:
        """Count bits (k,) that rows (k,) sent within spans (k,)."""
        if not len(rows):
            return
        spent_j = self.cohort.power_w[rows] * self.share_of_time * span_s
        self.airtime_s[rows] += span_s
        self.sent_j[rows] += spent_j
        self.left_j[rows] -= spent_j
        self.left_bits[rows] -= bits
        self.failed[rows] |= ~self.decoded[rows] & (bits > 0)
        snr = self.snr[rows]  # of a UE with a rate neither this nor its SINR is 0
        self.block_noise[rows] += bits / self.sinr[rows]
        self.block_thermal[rows] += bits / snr
        self.thermal_j[rows] += self.cohort.signal_w[rows] * span_s / snr

    def send_rest(self, rows: IntArray) -> None:
        """Count all that rows (k,) had left as sent, at their rate: the last bit leaves at
        since_s.
        """
        span_s = self.left_bits[rows] / self.rate_bps[rows]
        self._send(rows, span_s, self.left_bits[rows])
        self.since_s[rows] += span_s

    def close_blocks_and_find_failed(
        self, rows: IntArray, again: BoolArray, stuck: BoolArray, max_tries: int
    ) -> IntArray:
        """End the current blocks of rows (k,); the rows among them that failed once too often.

        Blocks that failed, and those of `again` (k,), which do not count as tries, are sent again.
        stuck (k,): see `netsim.radio.air.find_stuck`; a whole block without a rate counts as a try
        for them.
        """
        begun = self.block_bits[rows] > self.left_bits[rows]  # not at this very time
        failed = self.failed[rows] & begun
        tried = ((stuck & ~begun) | failed) & ~again
        self.tries[rows[tried]] += 1
        hopeless = tried & (self.tries[rows] > max_tries)
        repeats = (failed | again) & ~hopeless
        lost = rows[repeats]
        kept = rows[begun & ~repeats & ~hopeless]
        remaining = rows[~hopeless]
        self.lost_bits[lost] += self.block_bits[lost] - self.left_bits[lost]
        self.left_bits[lost] = self.block_bits[lost]
        self.noise[kept] += self.block_noise[kept]
        self.thermal[kept] += self.block_thermal[kept]
        self.tries[kept] = 0
        self.block_bits[remaining] = self.left_bits[remaining]
        self.block_noise[remaining] = self.block_thermal[remaining] = 0.0
        self.failed[remaining] = False
        return rows[hopeless]

    def update_reception(
        self, rows: IntArray, heard: Decoded, decoded: BoolArray, time_s: float
    ) -> None:
        """New SINR, SNR and rates of rows (k,) that send, from time_s on; those that keep theirs,
        or go on without a rate, are left alone.
        """
        before_bps = self.rate_bps[rows]
        changed = heard.rate_bps != before_bps
        changed |= (before_bps > 0) & (
            (heard.sinr != self.sinr[rows]) | (heard.snr != self.snr[rows])
        )
        self.settle(rows[changed], time_s)
        self.sinr[rows] = heard.sinr
        self.snr[rows] = heard.snr
        self.rate_bps[rows] = heard.rate_bps
        self.decoded[rows] = decoded
        is_first = (heard.rate_bps > 0) & np.isnan(self.granted_s[rows])
        self.granted_s[rows[is_first]] = time_s

    def grant(self, rows: IntArray, sends: BoolArray, time_s: float) -> None:
        """Let rows (k,) that wait or send do so from time_s on: send, or wait."""
        changed = rows[sends != (self.stage[rows] == SENDING)]
        self.settle(changed[self.rate_bps[changed] > 0], time_s)
        self.stage[rows] = np.where(sends, SENDING, WAITING)
        self.rate_bps[changed] = 0.0

    def end(self, rows: IntArray, time_s: float | FloatArray, fate: int | IntArray) -> None:
        """End rows (k,) at time_s, up to which they are settled."""
        self.stage[rows] = ENDED
        self.fate[rows] = fate
        self.ended_s[rows] = time_s


class OwnEnds(NamedTuple):
    """next_s (n,): time at which a row ends or becomes ready by itself, infinite for an ended one;
    sent_s (n,): when one that sends has sent its last bit, or spent its energy, infinite for the
    others; is_whole (n,): whether it is the last bit.
    """

    next_s: FloatArray
    sent_s: FloatArray
    is_whole: BoolArray


@compiled
def _find_ends(
    stage: IntArray,
    since_s: FloatArray,
    left_bits: FloatArray,
    rate_bps: FloatArray,
    left_j: FloatArray,
    spent_w: FloatArray,
    ready_s: FloatArray,
    stops_s: FloatArray,
) -> OwnEnds:
    n = len(stage)
    ends = OwnEnds(np.full(n, inf), np.full(n, inf), np.ones(n, np.bool_))
    for k in range(n):
        if stage[k] == SENDING and rate_bps[k] > 0:
            span_s = left_bits[k] / rate_bps[k]
            if spent_w[k] > 0 and max(left_j[k], 0.0) / spent_w[k] < span_s:
                span_s = max(left_j[k], 0.0) / spent_w[k]
                ends.is_whole[k] = False
            ends.sent_s[k] = since_s[k] + span_s
        if stage[k] == PREPARING:
            # one that cannot receive the model ends at the request
            ends.next_s[k] = min(ready_s[k] if ready_s[k] < inf else since_s[k], stops_s[k])
        elif stage[k] != ENDED:
            ends.next_s[k] = min(ends.sent_s[k], stops_s[k])
    return ends


def request_transmissions(
    cohort: Cohort,
    payload: Payload,
    uplink: Uplink,
    now_s: float,
    number: int,
    look: int,
    limit_s: float,
    round_: int,
) -> Transmissions:
    """Rows (n,), by increasing ue, of transmissions that are requested now: they receive the model
    and train.
    """
    place = np.argsort(cohort.ue, kind="stable")
    if (place[1:] < place[:-1]).any():
        cohort = cohort.select(place)
    if not uplink.shares_band:
        cohort = replace(cohort, serving=_find_cells(cohort.serving, uplink))
    n_bits = payload.count_bits(cohort.rows)
    with np.errstate(divide="ignore"):
        ready_s = now_s + (n_bits / uplink.downlink_bps(cohort) + cohort.compute_s)
    rows = Transmissions.from_cohort(cohort)
    rows.share_of_time = uplink.share_of_time()
    rows.place = place
    rows.ready_s = ready_s
    rows.n_bits = n_bits
    rows.left_bits = n_bits.copy()
    rows.block_bits = n_bits.copy()
    rows.submission[:] = number
    rows.round[:] = round_
    rows.look[:] = look
    rows.requested_s[:] = now_s
    rows.since_s[:] = now_s
    rows.stops_s[:] = now_s + min(limit_s, uplink.limit_s())
    rows.stops_by[:] = Fate.LATE
    rows.granted_s[:] = nan
    rows.ended_s[:] = nan
    rows.left_j[:] = inf
    rows.rho[:] = uplink.noise_scale(payload)
    rows.alone_bps = uplink.alone_bps(cohort.signal_w)
    return rows


def set_links(lives: Transmissions, rows: IntArray, seen: SeenLinks, uplink: Uplink) -> None:
    """Give rows (k,) their links."""
    cohort = lives.cohort
    fading = cohort.fading
    if fading is not None and seen.fading is not None:
        fading = replace_values(fading, rows, seen.fading)
    serving = replace_values(cohort.serving, rows, _find_cells(seen.serving, uplink))
    gain = replace_values(cohort.gain, rows, seen.gain)
    if seen.power_w is None:
        power_w = cohort.power_w
    else:
        power_w = replace_values(cohort.power_w, rows, seen.power_w)
    lives.cohort = replace(cohort, serving=serving, gain=gain, fading=fading, power_w=power_w)
    lives.alone_bps = uplink.alone_bps(lives.cohort.signal_w)


def _find_cells(serving: IntArray, uplink: Uplink) -> IntArray:
    """The cells of UEs (n,); without a shared band there are none, and all UEs are served."""
    if uplink.shares_band:
        return np.array(serving, int)
    return np.zeros(len(serving), int)


def draw_drop_outs(lives: Transmissions, per_s: float, streams: Streams) -> None:
    """Draw when each UE (n,) leaves, at a rate of per_s from the request on."""
    if per_s == 0 or not len(lives):
        return
    moment_ms = np.round(lives.requested_s * 1e3).astype(int)
    stays = (
        streams.derive_rng("radio.dropout").exponential("stays", lives.ue, item=moment_ms) / per_s
    )
    lives.stop_at(lives.requested_s + stays, Fate.DROPPED)


def limit_energy(lives: Transmissions, battery_j: FloatArray) -> None:
    """Limit the energy of each UE (n,) to battery_j: first on training, then on the air."""
    cohort = lives.cohort
    with np.errstate(divide="ignore", invalid="ignore"):
        missing_s = cohort.compute_s * (1.0 - battery_j / cohort.compute_j)
    empty_s = np.where(battery_j < cohort.compute_j, lives.ready_s - missing_s, inf)
    lives.stop_at(empty_s, Fate.EXHAUSTED)
    lives.left_j = battery_j - cohort.compute_j


@frozen
class SentUploads(Channel):
    """The channel of transmissions over time (n,).

    power_w: mean over airtime_s; sinr: mean over the bits sent, harmonic, so that noise_std is its
    noise; rate_bps: bits sent over airtime_s, those sent again included; delay_s and airtime_s:
    until the end of an update that did not arrive, so far for one that is under way, infinite for a
    UE that could not send at all; thermal_w: thermal noise in the part of the band that it was sent
    in, mean over airtime_s, NaN without any. fate: see `Fate`; ready_s, granted_s, ended_s: times
    of the simulation, NaN for what did not happen; lost_bits: sent in tries that failed and were
    repeated.
    """

    fate: IntArray
    ready_s: FloatArray
    granted_s: FloatArray
    ended_s: FloatArray
    sent_bits: FloatArray
    lost_bits: FloatArray
    thermal_w: FloatArray


def summarise_uploads(lives: Transmissions, rows: IntArray) -> SentUploads:
    """The outcome of rows (k,), in this order; so far, of those that have not ended."""
    # the links are most of a cohort, and are not asked for
    lives = copy_with(lives, cohort=copy_with(lives.cohort, gain=None, fading=None)).select(rows)
    # on the air up to since_s: delivered, of the current block, and lost
    sent_bits = lives.n_bits - lives.left_bits + lives.lost_bits
    airtime_s = lives.airtime_s
    cohort = lives.cohort
    until_s = np.where(lives.stage == ENDED, lives.ended_s, lives.since_s)
    arrived_bits = lives.n_bits - lives.left_bits
    ready_s = lives.ready_s
    ready = until_s >= ready_s  # of others what is known already is not counted
    with np.errstate(divide="ignore", invalid="ignore"):
        sinr = arrived_bits / (lives.noise + lives.block_noise)
        sinr = np.where(arrived_bits > 0, sinr, lives.sinr * ready)
        snr = arrived_bits / (lives.thermal + lives.block_thermal)
        snr = np.where(arrived_bits > 0, snr, lives.snr * ready)
        rate_bps = np.where(airtime_s > 0, sent_bits / airtime_s, lives.rate_bps)
        power_w = lives.sent_j / (lives.share_of_time * airtime_s)
        power_w = np.where(airtime_s > 0, power_w, cohort.power_w)
        thermal_w = lives.thermal_j / airtime_s
    missing_s = np.maximum(ready_s - until_s, 0.0)
    trained = 1.0 - np.minimum(divide_or_zero(missing_s, cohort.compute_s), 1.0)
    trained = np.where(np.isinf(ready_s), 0.0, trained)
    energy_j = cohort.compute_j * trained + lives.sent_j
    on_air_s = ready_s - lives.requested_s + lives.waited_s + airtime_s
    delay_s = np.where(ready, on_air_s, until_s - lives.requested_s)
    never = np.isin(lives.fate, (Fate.UNDECODED, Fate.NO_CELL)) & (sent_bits == 0)
    thermal = np.where(snr > 0, compute_noise_std(lives.rho, snr), 0.0)
    return SentUploads(
        power_w=power_w,
        sinr=sinr,
        rate_bps=rate_bps,
        noise_std=compute_noise_std(lives.rho, sinr),
        thermal_std=thermal,
        airtime_s=np.where(never, inf, airtime_s),
        delay_s=np.where(never, inf, delay_s),
        energy_j=energy_j,
        decoded=lives.fate == Fate.ARRIVED,
        late=(lives.fate == Fate.LATE) & ~lives.failed,
        fate=lives.fate,
        ready_s=np.where(ready, lives.ready_s, nan),
        granted_s=lives.granted_s,
        ended_s=lives.ended_s,
        sent_bits=sent_bits,
        lost_bits=lives.lost_bits,
        thermal_w=thermal_w,
    )
