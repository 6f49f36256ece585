"""Transmissions over time: one row each, as arrays, and the laws by which time changes them.

Between two events a rate is constant, so a row keeps what it had at `since_s`, and is brought up to date only where its
rate changes. Looking at a row more often changes none of its numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np

from netsim.columns import Columns
from netsim.radio.fates import ENDED, PREPARING, SENDING, WAITING
from netsim.radio.uplink import ComplexArray, Decoded
from netsim.units import BoolArray, FloatArray, IntArray


@dataclass(eq=False)
class Transmissions(Columns):
    """Transmissions (n,), by increasing ue.

    submission, place: the cohort and the entry in it; ue; round: of the fading; look: block in which its links were
    looked at. requested_s, prepared_s (duration of downlink and training), ready_s, deadline_s, stops_s (when it ends
    early, by the fate `stops_by`), granted_s (first grant, NaN before), ended_s (NaN before).

    serving, gain (n, n_bs), fading, received_w (at its base station), alone_bps; power_w, now; other_j: energy that
    its airtime took more than at that power, for it had others before; air_j: what it may spend on the air;
    max_airtime_s: after which that is spent; compute_s, compute_j. n_bits; rho: scale of the noise on its numbers.

    stage, fate, resource (-1: none); since_s: up to when the following counts: waited_s, airtime_s, left_bits (not yet
    sent, or to be sent again), block_bits (those left when the current block began), lost_bits (wasted in
    earlier tries), block_noise, block_thermal, noise, thermal: sums of bits / SINR and bits / SNR over the current
    block and over the blocks decoded. sinr, snr, rate_bps, decoded: since the last evaluation; failed: whether
    something of the current block was not decoded; tries: of the current block, failed.
    """

    submission: IntArray
    place: IntArray
    ue: IntArray
    round: IntArray
    look: IntArray
    requested_s: FloatArray
    prepared_s: FloatArray
    ready_s: FloatArray
    deadline_s: FloatArray
    stops_s: FloatArray
    stops_by: IntArray
    granted_s: FloatArray
    ended_s: FloatArray
    serving: IntArray
    gain: FloatArray
    fading: ComplexArray | None
    received_w: FloatArray
    alone_bps: FloatArray
    power_w: FloatArray
    other_j: FloatArray
    air_j: FloatArray
    compute_s: FloatArray
    max_airtime_s: FloatArray
    compute_j: FloatArray
    n_bits: FloatArray
    rho: FloatArray
    stage: IntArray
    fate: IntArray
    resource: IntArray
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
    sinr: FloatArray
    snr: FloatArray
    rate_bps: FloatArray
    decoded: BoolArray
    failed: BoolArray
    tries: IntArray

    def __len__(self) -> int:
        return len(self.ue)

    @classmethod
    def none(cls, n: int = 0) -> Self:
        """n rows of zeros, without links."""
        types: dict[str, Any] = {"IntArray": np.int64, "FloatArray": np.float64, "BoolArray": np.bool_}
        values = {f.name: np.zeros(n, dtype=types[str(f.type)]) for f in fields(cls) if str(f.type) in types}
        return cls(**values | {"gain": np.zeros((n, 0))}, fading=None)

    def take(self, rows: IntArray | BoolArray, links: bool = True) -> Self:
        """A copy of some rows (k,); without links, which are large: with the gain (k, 0) of none."""
        own = self if links else replace(self, gain=np.zeros((len(self), 0)), fading=None)
        return own.select(rows)

    def joined(self, others: Self) -> Self:
        """These rows and others, by increasing ue; rows of one UE by submission."""
        if not len(self):
            return others
        both = self.join([self, others])
        return both.select(np.lexsort((both.submission, both.ue)))

    def sent_bits(self) -> FloatArray:
        """Bits (n,) that were on the air up to since_s: delivered, of the current block, and lost."""
        return self.n_bits - self.left_bits + self.lost_bits

    def next_s(self) -> FloatArray:
        """Time at which each row (n,) ends or becomes ready by itself; infinite for an ended one."""
        sends = np.flatnonzero(self.stage == SENDING)
        own_s = np.full(len(self), np.inf)
        own_s[sends] = self.since_s[sends] + self.sends_for_s(sends)
        ready_s = np.where(np.isinf(self.ready_s), self.requested_s, self.ready_s)
        own_s = np.where(self.stage == PREPARING, ready_s, own_s)
        limit_s = np.minimum(self.deadline_s, self.stops_s)
        return np.where(self.stage == ENDED, np.inf, np.minimum(own_s, limit_s))

    def needs_s(self, rows: IntArray) -> FloatArray:
        """Time that rows (k,) that send need for their bits after since_s; infinite at a rate of 0."""
        rate_bps = self.rate_bps[rows]
        needed_s = np.full(len(rows), np.inf)
        np.divide(self.left_bits[rows], rate_bps, out=needed_s, where=rate_bps > 0)
        return needed_s

    def sends_for_s(self, rows: IntArray) -> FloatArray:
        """Time for which rows (k,) that send go on after since_s: until their last bit, or the end of their energy."""
        left_s = np.maximum(self.max_airtime_s[rows] - self.airtime_s[rows], 0.0)
        return np.where(self.rate_bps[rows] == 0, np.inf, np.minimum(self.needs_s(rows), left_s))

    def settle(self, rows: IntArray, time_s: float | FloatArray) -> None:
        """Count waiting and sending of rows (k,) from since_s to time_s, (k,) or one for all."""
        span_s, rate_bps = time_s - self.since_s[rows], self.rate_bps[rows]
        on_air = self.stage[rows] == SENDING
        waits, sends = (self.stage[rows] == WAITING) | (on_air & (rate_bps == 0)), on_air & (rate_bps != 0)
        self.waited_s[rows[waits]] += span_s[waits]
        bits = np.multiply(rate_bps, span_s, out=np.zeros(len(rows)), where=sends & (span_s > 0))
        self._send(rows[sends], span_s[sends], np.minimum(bits, self.left_bits[rows])[sends])
        self.since_s[rows] = time_s

    def _send(self, rows: IntArray, span_s: FloatArray, bits: FloatArray) -> None:
        """Count bits (k,) that rows (k,) sent within spans (k,)."""
        self.airtime_s[rows] += span_s
        self.left_bits[rows] -= bits
        for total, ratio in ((self.block_noise, self.sinr[rows]), (self.block_thermal, self.snr[rows])):
            total[rows] += np.divide(bits, ratio, out=np.zeros(len(rows)), where=ratio > 0)

    def send_with(self, rows: IntArray, power_w: FloatArray) -> None:
        """Other powers (k,) of rows (k,), from since_s on."""
        before_w, self.power_w = self.power_w[rows], self.power_w.copy()  # cohorts keep theirs
        self.power_w[rows] = power_w
        self.other_j[rows] += (before_w - power_w) * self.airtime_s[rows]
        left_j = self.air_j[rows] - self.other_j[rows]
        self.max_airtime_s[rows] = np.divide(left_j, power_w, out=np.full(len(rows), np.inf), where=power_w > 0)

    def sent_j(self) -> FloatArray:
        """Energy (n,) of what was on the air up to since_s."""
        return np.where(self.airtime_s > 0, self.power_w * self.airtime_s + self.other_j, 0.0)

    def send_rest(self, rows: IntArray) -> None:
        """Count all that rows (k,) had left as sent, at their rate: the last bit leaves at since_s."""
        span_s = self.needs_s(rows)
        self._send(rows, span_s, self.left_bits[rows])
        self.since_s[rows] += span_s

    def close_blocks(self, rows: IntArray, again: BoolArray, stuck: BoolArray, max_tries: int) -> IntArray:
        """End the current blocks of rows (k,); the rows among them that failed once too often.

        Blocks that failed, and those of `again` (k,), which do not count as tries, are sent again. stuck (k,): see
        `happenings.stuck`; a whole block without a rate counts as a try for them.
        """
        begun = self.block_bits[rows] > self.left_bits[rows]  # not at this very time
        failed = self.failed[rows] & begun
        tried = ((stuck & ~begun) | failed) & ~again
        self.tries[rows[tried]] += 1
        hopeless = tried & (self.tries[rows] > max_tries)
        repeats = (failed | again) & ~hopeless
        lost, kept, others = rows[repeats], rows[begun & ~repeats & ~hopeless], rows[~hopeless]
        self.lost_bits[lost] += self.block_bits[lost] - self.left_bits[lost]
        self.left_bits[lost] = self.block_bits[lost]
        self.noise[kept] += self.block_noise[kept]
        self.thermal[kept] += self.block_thermal[kept]
        self.tries[kept] = 0
        self.block_bits[others] = self.left_bits[others]
        self.block_noise[others] = self.block_thermal[others] = 0.0
        self.failed[others] = False
        return rows[hopeless]

    def hear(self, rows: IntArray, heard: Decoded, decoded: BoolArray, time_s: float) -> None:
        """New SINR, SNR and rates of rows (k,) that send, from time_s on; those that keep theirs are left alone."""
        changed = (heard.rate_bps != self.rate_bps[rows]) | (heard.sinr != self.sinr[rows])
        changed |= heard.snr != self.snr[rows]
        if changed.any():
            self.settle(rows[changed], time_s)
            self.sinr[rows], self.snr[rows], self.rate_bps[rows] = heard
        self.decoded[rows] = decoded
        self.failed[rows] |= ~decoded & (heard.rate_bps > 0)

    def grant(self, rows: IntArray, resource: IntArray, time_s: float) -> None:
        """Give rows (k,) the resource blocks (k,) from time_s on; -1: they wait."""
        before = self.resource[rows]
        start, stop = rows[(before < 0) & (resource >= 0)], rows[(before >= 0) & (resource < 0)]
        self.settle(start, time_s)
        self.settle(stop, time_s)
        self.stage[start], self.stage[stop] = SENDING, WAITING
        self.rate_bps[start] = self.rate_bps[stop] = 0.0
        first = start[np.isnan(self.granted_s[start])]
        self.granted_s[first] = time_s
        self.resource[rows] = resource

    def end(self, rows: IntArray, time_s: float | FloatArray, fate: int | IntArray) -> None:
        """End rows (k,) at time_s, up to which they are settled."""
        self.stage[rows], self.fate[rows], self.ended_s[rows] = ENDED, fate, time_s
        self.resource[rows] = -1
