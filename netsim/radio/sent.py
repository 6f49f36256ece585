"""Outcome of the transmissions of a cohort."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.radio.fates import ENDED, Fate
from netsim.radio.lives import Transmissions
from netsim.radio.uplink import Channel
from netsim.units import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class SentUploads(Channel):
    """The channel of transmissions over time (n,).

    power_w: mean over airtime_s; sinr: mean over the bits sent, harmonic, so that noise_std is its noise; rate_bps:
    bits sent over airtime_s, those sent again included; delay_s and airtime_s: until the end of an update that did not
    arrive, so far for one that is under way, infinite for a UE that could not send at all. fate: see `Fate`; ready_s,
    granted_s, ended_s: times of the simulation, NaN for what did not happen; lost_bits: sent in tries that failed and
    were repeated.
    """

    fate: IntArray
    ready_s: FloatArray
    granted_s: FloatArray
    ended_s: FloatArray
    sent_bits: FloatArray
    lost_bits: FloatArray


def sent(lives: Transmissions, rows: IntArray) -> SentUploads:
    """The outcome of a submission, whose rows (k,) have ended, in the order of its cohort."""
    in_order = len(rows) == len(lives) and bool((lives.place[1:] > lives.place[:-1]).all())
    return _outcome(lives) if in_order else outcome(lives, rows[np.argsort(lives.place[rows])])


def outcome(lives: Transmissions, rows: IntArray) -> SentUploads:
    """The outcome of rows (k,), in this order; so far, of those that have not ended."""
    return _outcome(lives.take(rows, links=False))


def _outcome(lives: Transmissions) -> SentUploads:
    from netsim.radio.airtime import noise_stds

    sent_bits, sent_j, airtime_s = lives.sent_bits(), lives.sent_j(), lives.airtime_s
    until_s = np.where(lives.stage == ENDED, lives.ended_s, lives.since_s)
    arrived_bits = lives.n_bits - lives.left_bits
    with np.errstate(divide="ignore", invalid="ignore"):
        sinr = np.where(arrived_bits > 0, arrived_bits / (lives.noise + lives.block_noise), lives.sinr)
        snr = np.where(arrived_bits > 0, arrived_bits / (lives.thermal + lives.block_thermal), lives.snr)
        rate_bps = np.where(airtime_s > 0, sent_bits / airtime_s, lives.rate_bps)
        power_w = np.where(lives.other_j != 0, sent_j / airtime_s, lives.power_w)
    energy_j = lives.compute_j * _trained(lives, until_s) + sent_j
    ready = until_s >= lives.ready_s
    delay_s = np.where(ready, lives.prepared_s + lives.waited_s + airtime_s, until_s - lives.requested_s)
    arrived = lives.fate == Fate.ARRIVED
    never = np.isin(lives.fate, (Fate.UNDECODED, Fate.NO_CELL)) & (sent_bits == 0)
    std, thermal = noise_stds(lives.rho, sinr), np.where(snr > 0, noise_stds(lives.rho, snr), 0.0)
    return SentUploads(
        power_w=power_w, sinr=sinr, rate_bps=rate_bps, noise_std=std, thermal_std=thermal,
        airtime_s=np.where(never, np.inf, airtime_s), delay_s=np.where(never, np.inf, delay_s), energy_j=energy_j,
        decoded=arrived, late=(lives.fate == Fate.LATE) & ~lives.failed, fate=lives.fate,
        ready_s=np.where(ready, lives.ready_s, np.nan), granted_s=lives.granted_s, ended_s=lives.ended_s,
        sent_bits=sent_bits, lost_bits=lives.lost_bits,
    )  # fmt: skip


def _trained(lives: Transmissions, until_s: FloatArray) -> FloatArray:
    """The share (n,) of its training that each UE did until until_s (n,)."""
    missing_s = np.maximum(lives.ready_s - until_s, 0.0)
    share = np.divide(missing_s, lives.compute_s, out=np.zeros(len(lives)), where=lives.compute_s > 0)
    return np.where(np.isinf(lives.ready_s), 0.0, 1.0 - np.minimum(share, 1.0))
