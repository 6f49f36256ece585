"""Outcomes of a round's transmissions at many power vectors, compiled: one loop over vectors.

The laws are those of `netsim.radio.shared_band` and `netsim.radio.airtime`, called with each power vector in turn.
"""

from __future__ import annotations

import numpy as np

from netsim.compiled import compiled
from netsim.radio import sic
from netsim.radio.airtime import rates, transmissions, waits
from netsim.radio.rate import Adaptation
from netsim.radio.uplink import ComplexArray
from netsim.units import BoolArray, FloatArray, IntArray
from rl.radio_records import ALL, NONE, Air, RadioCosts, Rounds, Sent, costs_of


@compiled
def _sinr(
    power_w: FloatArray, h: ComplexArray, own: ComplexArray, strength: FloatArray, serving: IntArray, air: Air
) -> tuple[FloatArray, IntArray]:
    """SINR (K,) and group (K,) of UEs at one power vector (K,); as in `SharedBand.granted`."""
    group_of, others = sic.groups(power_w * strength, serving, h.shape[1], air.group_size), air.interference == ALL
    if air.interference == NONE:
        return power_w * strength / air.noise_w, group_of
    sinr = sic.many_antennas(
        power_w, h, own, strength, serving, group_of, air.noise_w, air.residual, others, air.min_sinr
    )
    refused = sinr < air.floor_sinr
    if refused.any():  # the others have a higher SINR than before
        sends = np.where(refused, -1, serving)
        again = sic.many_antennas(
            power_w, h, own, strength, sends, group_of, air.noise_w, air.residual, others, air.min_sinr
        )
        sinr = np.where(refused, sinr, again)
    return sinr, group_of


@compiled
def received(
    power_w: FloatArray,
    which: IntArray,
    h: ComplexArray,
    serving: IntArray,
    downlink_bps: FloatArray,
    rows: IntArray,
    compute_s: FloatArray,
    compute_j: FloatArray,
    n_bits: FloatArray,
    air: Air,
) -> tuple[FloatArray, FloatArray, BoolArray, FloatArray]:
    """SINR, SNR, whether decoded in time, and energy in J (B, K) of power vectors (B, K), each in one of S rounds.

    which (B,) says in which; h (S, K, n_bs, antennas); serving, downlink_bps, rows, compute_s, compute_j (S, K); n_bits
    (S,) of a row.
    """
    b_max, k = power_w.shape
    sinr, snr, energy_j = np.zeros((b_max, k)), np.zeros((b_max, k)), np.zeros((b_max, k))
    decoded = np.zeros((b_max, k), np.bool_)
    numbers, ends = np.empty((5, k)), np.empty((2, k), np.bool_)
    for b in range(b_max):
        s = which[b]
        own, strength = sic.own_amplitudes(h[s], serving[s])
        hears = np.where(downlink_bps[s] > 0, serving[s], -1)  # a UE without the model has nothing to send
        x, group_of = _sinr(power_w[b], h[s], own, strength, hears, air)
        sinr[b], snr[b] = x, power_w[b] * strength / air.noise_w
        rate_bps = rates(x, air.bandwidth_hz, Adaptation(air.attenuation, air.max_bps_per_hz, air.floor_sinr))
        wait_s = np.zeros(k)
        if air.group_size < k:
            wait_s = waits(
                x, rate_bps, downlink_bps[s], rows[s], compute_s[s], serving[s], group_of, n_bits[s], air.deadline_s,
                air.min_sinr,
            )  # fmt: skip
        transmissions(
            x, snr[b], rate_bps, downlink_bps[s], rows[s], wait_s, compute_s[s], compute_j[s], power_w[b], n_bits[s],
            air.deadline_s, air.min_sinr, 1.0, numbers, ends,
        )  # fmt: skip
        energy_j[b], decoded[b] = numbers[4], ends[0]
    return sinr, snr, decoded, energy_j


@compiled
def sinrs(power_w: FloatArray, which: IntArray, h: ComplexArray, serving: IntArray, air: Air) -> FloatArray:
    """SINR (B, K) at the receivers `serving` (S, K), h (S, K, n, antennas); an eavesdropper cancels alike."""
    sinr = np.zeros(power_w.shape)
    for b in range(len(power_w)):
        s = which[b]
        own, strength = sic.own_amplitudes(h[s], serving[s])
        sinr[b] = _sinr(power_w[b], h[s], own, strength, serving[s], air)[0]
    return sinr


def judged(rounds: Rounds, air: Air, power_w: FloatArray, which: IntArray) -> RadioCosts:
    """Costs of power vectors (B, K) in rounds which (B,)."""
    links = rounds.links
    sinr, snr, decoded, energy_j = received(
        power_w, which, links.h, links.serving, links.downlink_bps, rounds.rows, rounds.compute_s, rounds.compute_j,
        rounds.n_bits, air,
    )  # fmt: skip
    hears = sinr
    if links.heard.shape[2]:
        there = np.where(links.serving >= 0, 0, -1)
        alone = air._replace(floor_sinr=0.0, min_sinr=0.0, deadline_s=np.inf)
        sends = (sinr >= air.floor_sinr) & (links.downlink_bps[which] > 0)
        hears = sinrs(np.where(sends, power_w, 0.0), which, links.heard, there, alone)
    return costs_of(
        Sent(sinr, snr, decoded, hears), energy_j, rounds.of[which], rounds.weight[which],
        rounds.required_std[which], rounds.rho[which], rounds.factor[which], rounds.lost_noise[which],
    )  # fmt: skip
