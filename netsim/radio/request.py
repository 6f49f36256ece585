"""From requests to rows of transmissions, and from rows to the cohort that is on the air."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import inf, nan
from typing import TypeVar

import numpy as np

from netsim.radio.fates import Fate
from netsim.radio.lives import Transmissions
from netsim.radio.outlook import SeenLinks
from netsim.radio.shared_band import own_signal_w
from netsim.radio.uplink import Cohort, ComplexArray, Payload, Uplink
from netsim.rng import Streams
from netsim.units import FloatArray, IntArray

Links = TypeVar("Links", FloatArray, ComplexArray)


def begun(
    cohort: Cohort,
    payload: Payload,
    uplink: Uplink,
    now_s: float,
    number: int,
    look: int,
    limit_s: float,
    round_: int,
) -> Transmissions:
    """Rows (n,), by increasing ue, of transmissions that are requested now: they receive the model and train."""
    cohort, place = _by_ue(cohort)
    n = len(place)
    n_bits = np.array(payload.n_bits * cohort.rows, dtype=np.float64)
    with np.errstate(divide="ignore"):
        prepared_s = n_bits / uplink.downlink_bps(cohort) + cohort.compute_s
    numbers, times = partial(np.full, n, dtype=np.int64), partial(np.full, n)
    rows = replace(
        Transmissions.none(n), submission=numbers(number), place=place, ue=np.array(cohort.ue, dtype=np.int64),
        round=numbers(round_), look=numbers(look), requested_s=times(now_s), prepared_s=prepared_s,
        ready_s=now_s + prepared_s, deadline_s=times(now_s + min(limit_s, uplink.limit_s())), stops_s=times(inf),
        granted_s=times(nan), ended_s=times(nan), serving=_cells(cohort.serving, uplink), gain=cohort.gain,
        fading=cohort.fading, power_w=cohort.power_w, air_j=times(inf), compute_s=cohort.compute_s,
        max_airtime_s=times(inf), compute_j=cohort.compute_j, n_bits=n_bits, rho=times(uplink.noise_scale(payload)),
        resource=numbers(-1), since_s=times(now_s), left_bits=n_bits.copy(), block_bits=n_bits.copy(),
    )  # fmt: skip
    _measure(rows, np.arange(n), uplink)
    return rows


def _by_ue(cohort: Cohort) -> tuple[Cohort, IntArray]:
    """The cohort by increasing ue, and the place (n,) of each in the old order; nothing is copied that has it."""
    if (cohort.ue[1:] > cohort.ue[:-1]).all():
        return cohort, np.arange(len(cohort.ue))
    place = np.argsort(cohort.ue, kind="stable")
    return cohort.take(place), place


def see(lives: Transmissions, rows: IntArray, seen: SeenLinks, uplink: Uplink) -> None:
    """Give rows (k,) their links."""
    lives.serving[rows] = _cells(seen.serving, uplink)
    lives.gain = _replaced(lives.gain, rows, seen.gain)
    if lives.fading is not None and seen.fading is not None:
        lives.fading = _replaced(lives.fading, rows, seen.fading)
    if seen.power_w is not None:
        lives.send_with(rows, seen.power_w)
    _measure(lives, rows, uplink)


def _replaced(links: Links, rows: IntArray, seen: Links) -> Links:
    """A copy with other rows (k,): cohorts keep theirs."""
    result = links.copy()
    result[rows] = seen
    return result


def _cells(serving: IntArray, uplink: Uplink) -> IntArray:
    """The cells of UEs (n,); without a shared band there are none, and all UEs are served."""
    return np.array(serving, dtype=np.int64) if uplink.shares_band else np.zeros(len(serving), dtype=np.int64)


def _measure(lives: Transmissions, rows: IntArray, uplink: Uplink) -> None:
    """Calculate received power and rate of rows (k,) without interference."""
    lives.received_w[rows] = own_signal_w(on_air(lives, rows))
    lives.alone_bps[rows] = uplink.alone_bps(lives.received_w[rows])


def on_air(lives: Transmissions, rows: IntArray) -> Cohort:
    """The cohort of some rows (k,), in increasing order."""
    zero, complete = np.zeros(len(rows)), len(rows) == len(lives)  # then nothing is copied
    gain, fading = lives.gain, lives.fading
    if not complete:
        gain, fading = gain[rows], None if fading is None else fading[rows]
    return Cohort(
        lives.ue[rows], lives.serving[rows], gain, fading, lives.power_w[rows], np.ones(len(rows), dtype=np.int64),
        zero, zero, zero,
    )  # fmt: skip


def may_drop_out(lives: Transmissions, per_s: float, streams: Streams) -> None:
    """Draw when each UE (n,) leaves, at a rate of per_s from the request on."""
    if per_s == 0 or not len(lives):
        return
    moment_ms = np.round(lives.requested_s * 1e3).astype(np.int64)
    stays = streams.at("radio.dropout").exponential("stays", lives.ue, item=moment_ms) / per_s
    lives.stops_s, lives.stops_by[:] = lives.requested_s + stays, Fate.DROPPED


def may_exhaust(lives: Transmissions, battery_j: FloatArray) -> None:
    """Limit the energy of each UE (n,) to battery_j: first on training, then on the air."""
    short = battery_j < lives.compute_j
    with np.errstate(divide="ignore", invalid="ignore"):
        missing_s = lives.compute_s * (1.0 - battery_j / lives.compute_j)
    empty_s = np.where(short, lives.ready_s - missing_s, inf)
    first = empty_s < lives.stops_s
    lives.stops_s[first], lives.stops_by[first] = empty_s[first], Fate.EXHAUSTED
    lives.air_j = battery_j - lives.compute_j
    lives.send_with(np.arange(len(lives)), lives.power_w)
