"""Latency, energy and success of transmissions, compiled: one loop over the UEs of a band."""

from __future__ import annotations

from math import sqrt

import numpy as np

from netsim.compiled import compiled
from netsim.radio.rate import Adaptation
from netsim.units import BoolArray, FloatArray, IntArray

_MIN_SINR = 1e-30  # so that the noise of an update that is not received stays finite


@compiled
def decoding_threshold(sinr: FloatArray, min_sinr: float) -> float:
    """The SINR from which UEs (n,) are decoded: min_sinr, or the highest if none reaches that."""
    best = 0.0
    for u in range(len(sinr)):
        best = max(best, sinr[u])
    return best if best < min_sinr else min_sinr


@compiled
def noise_std(rho: float, sinr: float) -> float:
    """Standard deviation of the noise on each number of an update that was decoded with a SINR."""
    return rho / sqrt(max(sinr, _MIN_SINR))


@compiled
def noise_stds(rho: FloatArray, sinr: FloatArray) -> FloatArray:
    """`noise_std` of several updates (n,)."""
    std = np.empty(len(rho))
    for u in range(len(rho)):
        std[u] = noise_std(rho[u], sinr[u])
    return std


@compiled
def rates(sinr: FloatArray, bandwidth_hz: float, law: Adaptation) -> FloatArray:
    """Bandwidth times the bit/s/Hz of a rate law, of several SINR (n,); NaN for a NaN."""
    out = np.empty(len(sinr))
    for u in range(len(sinr)):
        efficiency = law.attenuation * np.log2(1.0 + sinr[u])
        out[u] = bandwidth_hz * (law.max_bps_per_hz if efficiency > law.max_bps_per_hz else efficiency)
        if sinr[u] < law.min_sinr:
            out[u] = 0.0
    return out


@compiled
def transmissions(
    sinr: FloatArray,
    snr: FloatArray,
    rate_bps: FloatArray,
    downlink_bps: FloatArray,
    rows: IntArray,
    wait_s: FloatArray,
    compute_s: FloatArray,
    compute_j: FloatArray,
    power_w: FloatArray,
    n_bits: float,
    deadline_s: float,
    min_sinr: float,
    rho: float,
    numbers: FloatArray,
    ends: BoolArray,
) -> None:
    """The transmission of every UE: downlink, training, wait for its group, and `rows` updates of n_bits on the air.

    Writes noise_std, thermal_std, airtime_s, delay_s and energy_j to the rows of `numbers` (5, n), decoded and late to
    those of `ends` (2, n); see `Channel`. At deadline_s a UE stops what it does, training included; one without a rate
    in either direction never sends, and airtime and delay are infinite.

    A UE is decoded if its SINR is at least `min_sinr`; if none reaches that, the one with the highest SINR is. Each
    number of a decoded update carries noise of standard deviation rho / sqrt(sinr), of which rho / sqrt(snr) is
    thermal. A transmission that needs longer than deadline_s is late.
    """
    n = len(sinr)
    std, thermal_std, airtime_s, delay_s, energy_j = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    decoded, late = ends[0], ends[1]
    least = decoding_threshold(sinr, min_sinr)
    for u in range(n):
        bits = n_bits * rows[u]
        granted = rate_bps[u] > 0 and downlink_bps[u] > 0
        airtime_s[u] = bits / rate_bps[u] if granted else np.inf
        downlink_s = bits / downlink_bps[u] if downlink_bps[u] > 0 else np.inf
        ready_s = downlink_s + compute_s[u]
        delay_s[u] = ready_s + wait_s[u] + airtime_s[u]
        std[u] = noise_std(rho, sinr[u])
        thermal_std[u] = noise_std(rho, snr[u]) if snr[u] > 0 else 0.0
        heard = sinr[u] > 0 and sinr[u] >= least and airtime_s[u] < np.inf
        late[u] = heard and delay_s[u] > deadline_s
        decoded[u] = heard and not late[u]
        energy_j[u] = compute_j[u] if ready_s < np.inf else 0.0
        if ready_s > deadline_s and compute_s[u] > 0:
            energy_j[u] *= max(0.0, 1.0 - (ready_s - deadline_s) / compute_s[u])
        if airtime_s[u] < np.inf:
            if delay_s[u] > deadline_s:
                airtime_s[u] = max(0.0, min(airtime_s[u], deadline_s - ready_s - wait_s[u]))
                delay_s[u] = deadline_s
            energy_j[u] += power_w[u] * airtime_s[u]


@compiled
def waits(
    sinr: FloatArray,
    rate_bps: FloatArray,
    downlink_bps: FloatArray,
    rows: IntArray,
    compute_s: FloatArray,
    serving: IntArray,
    group_of: IntArray,
    n_bits: float,
    limit_s: float,
    min_sinr: float,
) -> FloatArray:
    """Waiting time (n,) of each UE until its group may send: the sum of the longest airtimes of earlier groups.

    group_of (n,) is the index of the group in the cell. A base station does not wait for UEs that it cannot decode (see
    `transmissions`), nor for those whose transmission would end after limit_s.
    """
    n = len(sinr)
    wait_s = np.zeros(n)
    least = decoding_threshold(sinr, min_sinr)
    n_bs = 0
    for u in range(n):
        n_bs = max(n_bs, serving[u] + 1)
    begins_s, longest_s, current = np.zeros(n_bs), np.zeros(n_bs), np.zeros(n_bs, np.int64)
    for u in np.argsort(group_of, kind="mergesort"):
        b = serving[u]
        if b < 0:
            continue
        if group_of[u] > current[b]:
            begins_s[b] += longest_s[b]
            longest_s[b], current[b] = 0.0, group_of[u]
        wait_s[u] = begins_s[b]
        if sinr[u] > 0 and sinr[u] >= least and rate_bps[u] > 0 and downlink_bps[u] > 0:
            bits = n_bits * rows[u]
            airtime_s = bits / rate_bps[u]
            if bits / downlink_bps[u] + compute_s[u] + wait_s[u] + airtime_s <= limit_s:
                longest_s[b] = max(longest_s[b], airtime_s)
    return wait_s
