"""Latency, energy and success of transmissions, compiled: one loop over the UEs of a band."""

from __future__ import annotations

from math import sqrt

import numpy as np

from netsim.compiled import compiled
from netsim.radio.cohort_loops import own_signal_w
from netsim.units import BoolArray, FloatArray, IntArray

_LEAST_SINR = 1e-30  # so that the noise of an update that is not heard stays finite


@compiled
def least_decoded(sinr: FloatArray, least_sinr: float) -> float:
    """The SINR from which UEs (n,) are decoded: least_sinr, or the highest if none reaches that."""
    best = 0.0
    for u in range(len(sinr)):
        best = max(best, sinr[u])
    return best if best < least_sinr else least_sinr


@compiled
def noise_std(rho: float, sinr: float) -> float:
    """Standard deviation of the noise on each number of an update that was decoded with a SINR."""
    return rho / sqrt(max(sinr, _LEAST_SINR))


@compiled
def noise_stds(rho: FloatArray, sinr: FloatArray) -> FloatArray:
    """`noise_std` of several updates (n,)."""
    std = np.empty(len(rho))
    for u in range(len(rho)):
        std[u] = noise_std(rho[u], sinr[u])
    return std


@compiled
def rates(sinr: FloatArray, bandwidth_hz: float, most_bps_per_hz: float) -> FloatArray:
    """Bandwidth times log2(1 + SINR), which is at most so much, of several SINR (n,)."""
    out = np.empty(len(sinr))
    for u in range(len(sinr)):
        efficiency = np.log2(1.0 + sinr[u])
        out[u] = bandwidth_hz * (most_bps_per_hz if efficiency > most_bps_per_hz else efficiency)
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
    least_sinr: float,
    rho: float,
    numbers: FloatArray,
    ends: BoolArray,
) -> None:
    """The transmission of every UE: downlink, training, wait for its group, and `rows` updates of n_bits on the air.

    Writes noise_std, thermal_std, airtime_s, delay_s and energy_j to the rows of `numbers` (5, n), decoded and late to
    those of `ends` (2, n); see `Channel`.

    A UE is decoded if its SINR is at least `least_sinr`; if none reaches that, the one with the highest SINR is. Each
    number of a decoded update carries noise of standard deviation rho / sqrt(sinr), of which rho / sqrt(snr) is
    thermal. A transmission that takes longer than deadline_s is late.
    """
    n = len(sinr)
    std, thermal_std, airtime_s, delay_s, energy_j = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    decoded, late = ends[0], ends[1]
    least = least_decoded(sinr, least_sinr)
    for u in range(n):
        bits = n_bits * rows[u]
        airtime_s[u] = bits / rate_bps[u] if rate_bps[u] > 0 else np.inf
        downlink_s = bits / downlink_bps[u] if downlink_bps[u] > 0 else np.inf
        delay_s[u] = downlink_s + compute_s[u] + wait_s[u] + airtime_s[u]
        energy_j[u] = compute_j[u]
        if airtime_s[u] < np.inf:
            energy_j[u] += power_w[u] * airtime_s[u]
        std[u] = noise_std(rho, sinr[u])
        thermal_std[u] = noise_std(rho, snr[u]) if snr[u] > 0 else 0.0
        heard = sinr[u] > 0 and sinr[u] >= least and airtime_s[u] < np.inf
        late[u] = heard and delay_s[u] > deadline_s
        decoded[u] = heard and not late[u]


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
    least_sinr: float,
) -> FloatArray:
    """Waiting time (n,) of each UE until its group may send: the sum of the longest airtimes of earlier groups.

    group_of (n,) is the index of the group in the cell. A base station does not wait for UEs that it cannot decode (see
    `transmissions`), nor for those whose transmission would end after limit_s.
    """
    n = len(sinr)
    wait_s = np.zeros(n)
    least = least_decoded(sinr, least_sinr)
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


@compiled
def superposed(
    sinr: FloatArray,
    strength: FloatArray,
    serving: IntArray,
    group_of: IntArray,
    downlink_sinr: FloatArray,
    rows: IntArray,
    compute_s: FloatArray,
    compute_j: FloatArray,
    power_w: FloatArray,
    noise_w: float,
    in_turn: bool,
    group_limit_s: float,
    n_bits: float,
    deadline_s: float,
    least_sinr: float,
    rho: float,
    bandwidth_hz: float,
    most_bps_per_hz: float,
    numbers: FloatArray,
    ends: BoolArray,
) -> None:
    """`transmissions` over one band of UEs with SINR (n,), rates among what is written: numbers (6, n), the first row.

    strength as in `own_signal_w`, which over noise_w is the SNR. Groups (n,) send one after the other if `in_turn`,
    none waiting for one that ends after group_limit_s (see `waits`). The downlink has the same bandwidth.
    """
    numbers[0] = rates(sinr, bandwidth_hz, most_bps_per_hz)
    downlink_bps = rates(downlink_sinr, bandwidth_hz, most_bps_per_hz)
    wait_s = np.zeros(len(sinr))
    if in_turn:
        wait_s = waits(
            sinr, numbers[0], downlink_bps, rows, compute_s, serving, group_of, n_bits, group_limit_s, least_sinr
        )
    transmissions(
        sinr, own_signal_w(power_w, strength, serving, noise_w), numbers[0], downlink_bps, rows, wait_s, compute_s,
        compute_j, power_w, n_bits, deadline_s, least_sinr, rho, numbers[1:], ends,
    )  # fmt: skip
