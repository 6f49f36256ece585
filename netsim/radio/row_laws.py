"""The laws by which time changes rows of transmissions, compiled: one loop over rows, and no copies.

Arguments are columns (n,) of `Lives`, by their names; rows (k,) says which of them a law is about.
"""

from __future__ import annotations

import numpy as np

from netsim.compiled import compiled
from netsim.radio.fates import ENDED, PREPARING, SENDING, WAITING
from netsim.units import BoolArray, FloatArray, IntArray


@compiled
def need_s(left_bits: float, rate_bps: float) -> float:
    """How long bits take at a rate; infinite at a rate of 0."""
    return left_bits / rate_bps if rate_bps > 0 else np.inf


@compiled
def needs_s(rows: IntArray, left_bits: FloatArray, rate_bps: FloatArray) -> FloatArray:
    """How long rows need for the bits that they have left (k,)."""
    result = np.empty(len(rows))
    for k, u in enumerate(rows):
        result[k] = need_s(left_bits[u], rate_bps[u])
    return result


@compiled
def send_for_s(left_bits: float, rate_bps: float, airtime_s: float, most_airtime_s: float) -> float:
    """How long a row goes on: until its last bit, or until its energy is spent; infinite while it is silent."""
    if rate_bps == 0:
        return np.inf
    return min(need_s(left_bits, rate_bps), max(most_airtime_s - airtime_s, 0.0))


@compiled
def sends_for_s(
    rows: IntArray, left_bits: FloatArray, rate_bps: FloatArray, airtime_s: FloatArray, most_airtime_s: FloatArray
) -> FloatArray:
    """How long rows go on (k,)."""
    result = np.empty(len(rows))
    for k, u in enumerate(rows):
        result[k] = send_for_s(left_bits[u], rate_bps[u], airtime_s[u], most_airtime_s[u])
    return result


@compiled
def next_s(
    stage: IntArray,
    requested_s: FloatArray,
    ready_s: FloatArray,
    since_s: FloatArray,
    left_bits: FloatArray,
    rate_bps: FloatArray,
    airtime_s: FloatArray,
    most_airtime_s: FloatArray,
    deadline_s: FloatArray,
    stops_s: FloatArray,
) -> FloatArray:
    """When each row (n,) ends or becomes ready by itself; infinite for an ended one."""
    result = np.full(len(stage), np.inf)
    for u in range(len(stage)):
        if stage[u] == ENDED:
            continue
        own = np.inf
        if stage[u] == PREPARING:
            own = requested_s[u] if np.isinf(ready_s[u]) else ready_s[u]
        elif stage[u] == SENDING:
            own = since_s[u] + send_for_s(left_bits[u], rate_bps[u], airtime_s[u], most_airtime_s[u])
        result[u] = min(own, deadline_s[u], stops_s[u])
    return result


@compiled
def settle(
    rows: IntArray,
    time_s: FloatArray,
    stage: IntArray,
    since_s: FloatArray,
    waited_s: FloatArray,
    airtime_s: FloatArray,
    left_bits: FloatArray,
    rate_bps: FloatArray,
    sinr: FloatArray,
    snr: FloatArray,
    block_noise: FloatArray,
    block_thermal: FloatArray,
) -> None:
    """Count what rows did from since_s to time_s (k,): they waited, also for a rate, or sent at their rate."""
    for k, u in enumerate(rows):
        span_s = time_s[k] - since_s[u]
        if stage[u] == WAITING or (stage[u] == SENDING and rate_bps[u] == 0):
            waited_s[u] += span_s
        elif stage[u] == SENDING:
            bits = min(rate_bps[u] * span_s, left_bits[u]) if span_s > 0 else 0.0
            airtime_s[u] += span_s
            left_bits[u] -= bits
            block_noise[u] += _noise(bits, sinr[u])
            block_thermal[u] += _noise(bits, snr[u])
        since_s[u] = time_s[k]


@compiled
def send_rest(
    rows: IntArray,
    since_s: FloatArray,
    airtime_s: FloatArray,
    left_bits: FloatArray,
    rate_bps: FloatArray,
    sinr: FloatArray,
    snr: FloatArray,
    block_noise: FloatArray,
    block_thermal: FloatArray,
) -> None:
    """Count all that rows had left as sent, at their rate: the last bit leaves at since_s."""
    for u in rows:
        span_s = need_s(left_bits[u], rate_bps[u])
        since_s[u] += span_s
        airtime_s[u] += span_s
        block_noise[u] += _noise(left_bits[u], sinr[u])
        block_thermal[u] += _noise(left_bits[u], snr[u])
        left_bits[u] = 0.0


@compiled
def _noise(bits: float, ratio: float) -> float:
    """What bits at a SINR, or SNR, add to the sum of bits over it."""
    return bits / ratio if ratio > 0 else 0.0


@compiled
def close_blocks(
    rows: IntArray,
    again: BoolArray,
    stuck: BoolArray,
    most_tries: int,
    left_bits: FloatArray,
    block_bits: FloatArray,
    lost_bits: FloatArray,
    block_noise: FloatArray,
    block_thermal: FloatArray,
    noise: FloatArray,
    thermal: FloatArray,
    failed: BoolArray,
    tries: IntArray,
) -> BoolArray:
    """End the current blocks of rows; which of them (k,) failed once too often (see `Lives.close_blocks`)."""
    hopeless = np.zeros(len(rows), np.bool_)
    for k, u in enumerate(rows):
        begun = block_bits[u] > left_bits[u]  # not at this very time
        if ((stuck[k] and not begun) or (failed[u] and begun)) and not again[k]:
            tries[u] += 1
            hopeless[k] = tries[u] > most_tries
        if hopeless[k]:
            continue
        if again[k] or (failed[u] and begun):
            lost_bits[u] += block_bits[u] - left_bits[u]
            left_bits[u] = block_bits[u]
        elif begun:
            noise[u] += block_noise[u]
            thermal[u] += block_thermal[u]
            tries[u] = 0
        block_bits[u] = left_bits[u]
        block_noise[u] = block_thermal[u] = 0.0
        failed[u] = False
    return hopeless
