"""From requests to rows of transmissions, and from rows to the cohort that is on the air."""

from __future__ import annotations

from math import inf

import numpy as np

from netsim.radio.fates import PREPARING, Fate
from netsim.radio.lives import Lives
from netsim.radio.outlook import Seen
from netsim.radio.shared_band import own_signal_w
from netsim.radio.uplink import Cohort, Payload, Uplink
from netsim.rng import Streams
from netsim.units import FloatArray, IntArray


def begun(
    cohort: Cohort,
    payload: Payload,
    uplink: Uplink,
    now_s: float,
    number: int,
    look: int,
    limit_s: float,
    round_: int,
) -> Lives:
    """Rows (n,), by increasing ue, of transmissions that are requested now: they receive the model and train."""
    n = len(cohort.ue)
    zero, nan, none = np.zeros(n), np.full(n, np.nan), np.zeros(n, dtype=np.int64)
    n_bits = np.asarray(payload.n_bits * cohort.rows, dtype=np.float64)
    with np.errstate(divide="ignore"):
        prepared_s = n_bits / uplink.downlink_bps(cohort) + cohort.compute_s
    rows = Lives(
        submission=none + number, place=np.arange(n), ue=np.asarray(cohort.ue, dtype=np.int64), round=none + round_,
        look=none + look, requested_s=zero + now_s, prepared_s=prepared_s, ready_s=now_s + prepared_s,
        deadline_s=zero + (now_s + min(limit_s, uplink.limit_s())), stops_s=zero + inf, stops_by=none, granted_s=nan,
        ended_s=nan.copy(), serving=none, gain=cohort.gain, fading=cohort.fading, received_w=zero, alone_bps=zero,
        power_w=cohort.power_w, compute_s=cohort.compute_s, most_airtime_s=zero + inf, compute_j=cohort.compute_j,
        n_bits=n_bits, rho=zero + uplink.noise_scale(payload), stage=none + PREPARING, fate=none + Fate.UNDER_WAY,
        resource=none - 1, since_s=zero + now_s, waited_s=zero, airtime_s=zero, left_bits=n_bits, block_bits=n_bits,
        lost_bits=zero, block_noise=zero, block_thermal=zero, noise=zero, thermal=zero, sinr=zero, snr=zero,
        rate_bps=zero, decoded=none > 0, failed=none > 0, tries=none,
    ).take(np.argsort(cohort.ue, kind="stable"))  # fmt: skip
    rows.serving[:] = _cells(cohort.serving[rows.place], uplink)
    _measure(rows, np.arange(n), uplink)
    return rows


def see(lives: Lives, rows: IntArray, seen: Seen, uplink: Uplink) -> None:
    """Give rows (k,) their links."""
    lives.serving[rows] = _cells(seen.serving, uplink)
    lives.gain[rows] = seen.gain
    if lives.fading is not None and seen.fading is not None:
        lives.fading[rows] = seen.fading
    _measure(lives, rows, uplink)


def _cells(serving: IntArray, uplink: Uplink) -> IntArray:
    """The cells of UEs (n,); without a shared band there are none, and everybody is served."""
    return serving if uplink.shares_band else np.zeros_like(serving)


def _measure(lives: Lives, rows: IntArray, uplink: Uplink) -> None:
    """What base stations know of rows (k,) before these send."""
    lives.received_w[rows] = own_signal_w(on_air(lives, rows))
    lives.alone_bps[rows] = uplink.alone_bps(lives.received_w[rows])


def on_air(lives: Lives, rows: IntArray) -> Cohort:
    """The cohort of some rows (k,), in increasing order, as an uplink hears it."""
    zero, everybody = np.zeros(len(rows)), len(rows) == len(lives)  # then nothing is copied
    gain, fading = lives.gain, lives.fading
    if not everybody:
        gain, fading = gain[rows], None if fading is None else fading[rows]
    return Cohort(
        lives.ue[rows], lives.serving[rows], gain, fading, lives.power_w[rows], np.ones(len(rows), dtype=np.int64),
        zero, zero, zero,
    )  # fmt: skip


def may_drop_out(lives: Lives, per_s: float, streams: Streams) -> None:
    """Draw when each UE (n,) leaves, at a rate of per_s from the request on."""
    if per_s == 0 or not len(lives):
        return
    moment_ms = np.round(lives.requested_s * 1e3).astype(np.int64)
    stays = streams.at("radio.dropout").exponential("stays", lives.ue, item=moment_ms) / per_s
    lives.stops_s, lives.stops_by[:] = lives.requested_s + stays, Fate.DROPPED


def may_exhaust(lives: Lives, battery_j: FloatArray) -> None:
    """Limit what each UE (n,) spends to battery_j: first on training, then on the air."""
    short = battery_j < lives.compute_j
    with np.errstate(divide="ignore", invalid="ignore"):
        missing_s = lives.compute_s * (1.0 - battery_j / lives.compute_j)
        most_s = (battery_j - lives.compute_j) / lives.power_w
    empty_s = np.where(short, lives.ready_s - missing_s, inf)
    first = empty_s < lives.stops_s
    lives.stops_s[first], lives.stops_by[first] = empty_s[first], Fate.EXHAUSTED
    lives.most_airtime_s = np.where(lives.power_w > 0, most_s, inf)
