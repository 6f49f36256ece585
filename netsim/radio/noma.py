r"""Non-orthogonal multiple access: everybody of a group at once, told apart by successive cancellation."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.radio.shared_band import SharedBand
from netsim.radio.uplink import Channel, Cohort, ComplexArray, Payload
from netsim.units import BoolArray, FloatArray, IntArray


class Noma(SharedBand):
    r"""Uplinks of a cell superposed on one band; maximum-ratio combining, then successive cancellation (SIC).

    At base station b with N_a antennas UE k arrives as h_k = sqrt(gain_kb) z_kb. Decoding goes from the strongest
    received power x_k ||h_k||^2 to the weakest; those decoded earlier are subtracted but for a share r::

        gamma_k = x_k ||h_k||^4 / ( sum_later x_j |h_k^H h_j|^2 + r sum_earlier x_j |h_k^H h_j|^2
                                    + sum_other-cells x_j |h_k^H h_jb|^2 + ||h_k||^2 N )

    with r = `sic_residual` (0 cancels wholly, 1 not at all). `interference: none` leaves only N (the literature's
    perfect SIC), `intra` leaves out other cells. For r = 0, one antenna and one cell the sum of log2(1 + gamma)
    is log2(1 + sum x g / N). A cell with more UEs than `group_size` serves groups one after the other, in order of
    received power; UEs of the same turn in other cells interfere.
    """

    kind: Literal["noma"] = "noma"
    sic_residual: float = Field(default=0.0, ge=0, le=1)
    """share of a decoded signal's power that cancellation leaves"""
    group_size: int | None = Field(default=None, ge=1)
    """most UEs superposed at a time; none: all of the cell"""

    reference: ClassVar[str] = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Eqs. 4-6"
    example: ClassVar[dict[str, Any]] = {"kind": "noma", "norm_bound": 1.0}

    def plan(self, cohort: Cohort, payload: Payload) -> Channel:
        order = self._decoding_order(cohort)
        turn = self._turns(cohort, order)
        sinr = noma_sinr(
            cohort.gain, cohort.fading, cohort.serving, turn, order, cohort.power_w,
            self.band_noise_w(), self.sic_residual, self.interference,
        )  # fmt: skip
        rate = self.bandwidth_hz * self.efficiency(sinr)
        wait = self._waits(cohort, payload, rate, turn)
        return self.outcome(cohort, payload, sinr, rate, wait)

    def _decoding_order(self, cohort: Cohort) -> IntArray:
        """UEs by cell, then by received power from the strongest; UEs without a cell last."""
        n = np.arange(len(cohort.ue))
        own = np.maximum(cohort.serving, 0)
        fading = cohort.fading[n, own]
        received = cohort.power_w * cohort.gain[n, own] * (np.abs(fading) ** 2).sum(axis=-1)
        cell = np.where(cohort.serving < 0, np.iinfo(np.int64).max, cohort.serving)
        return np.lexsort((-received, cell))

    def _turns(self, cohort: Cohort, order: IntArray) -> IntArray:
        """Which group of its cell each UE belongs to (n,)."""
        rank = _rank_in_cell(cohort.serving, order)
        return rank // (self.group_size or max(len(order), 1))

    def _waits(self, cohort: Cohort, payload: Payload, rate: FloatArray, turn: IntArray) -> FloatArray:
        """Time until a UE's group may send: the longest airtime of every earlier group of its cell."""
        if not turn.any():
            return np.zeros(len(turn))
        with np.errstate(divide="ignore"):
            air = np.where(rate > 0, payload.n_bits * cohort.rows / rate, 0.0)
        longest = np.zeros((int(cohort.serving.max()) + 2, int(turn.max()) + 1))
        np.maximum.at(longest, (cohort.serving, turn), air)
        before = np.cumsum(longest, axis=1) - longest
        return np.asarray(before[cohort.serving, turn])


def _rank_in_cell(serving: IntArray, order: IntArray) -> IntArray:
    """Place of each UE in its cell's decoding order (n,), from 0."""
    cells = serving[order]
    first = np.searchsorted(cells[: np.count_nonzero(cells >= 0)], np.arange(cells.max(initial=0) + 1))
    rank = np.empty(len(order), dtype=np.int64)
    start = np.where(cells >= 0, first[np.maximum(cells, 0)], np.count_nonzero(cells >= 0))
    rank[order] = np.arange(len(order)) - start
    return rank


def noma_sinr(
    gain: FloatArray,
    fading: ComplexArray,
    serving: IntArray,
    turn: IntArray,
    order: IntArray,
    power_w: FloatArray,
    noise_w: float,
    residual: float,
    interference: Literal["none", "intra", "all"],
) -> FloatArray:
    """SINR (n,) of every UE after combining and cancellation; 0 for a UE without a cell (see `Noma`).

    gain (n, n_bs), fading (n, n_bs, antennas), serving, turn (n,), order (n,) decoding order by cell. Cost grows
    with n * n_bs * antennas^2: interference is a quadratic form in a covariance summed once a cell and turn.
    """
    n, own = np.arange(len(serving)), np.maximum(serving, 0)
    h = np.sqrt(gain[n, own])[:, None] * fading[n, own]  # (n, antennas) at the serving base station
    strength = (np.abs(h) ** 2).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        if interference == "none":
            sinr = power_w * strength / noise_w
        else:
            within = _cancelled(h, power_w, serving, turn, order, residual)
            if interference == "all":
                within = within + _other_cells(gain, fading, h, power_w, serving, turn)
            sinr = power_w * strength**2 / (within + strength * noise_w)
    return np.where((serving >= 0) & np.isfinite(sinr), sinr, 0.0)


def _outer(h: ComplexArray, power_w: FloatArray) -> ComplexArray:
    """x h h^H of each UE: (n, antennas, antennas)."""
    return np.asarray(power_w[:, None, None] * h[:, :, None] * h[:, None, :].conj())


def _quadratic(h: ComplexArray, covariance: ComplexArray) -> FloatArray:
    """h^H R h for matched rows, real and not negative."""
    if h.shape[1] == 1:
        return np.asarray(np.maximum((np.abs(h[:, 0]) ** 2) * covariance[:, 0, 0].real, 0.0))
    return np.asarray(np.maximum(np.einsum("na,nab,nb->n", h.conj(), covariance, h, optimize=True).real, 0.0))


def _cancelled(
    h: ComplexArray, power_w: FloatArray, serving: IntArray, turn: IntArray, order: IntArray, residual: float
) -> FloatArray:
    """Interference from the same cell and turn after cancellation (n,): later ones whole, earlier ones by r."""
    ordered = h[order]
    outer = _outer(ordered, power_w[order])
    new = _starts(serving[order], turn[order])
    group = np.cumsum(new) - 1
    count = np.bincount(group)
    slot = np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count)
    padded = np.zeros((len(count), int(count.max(initial=0)), *outer.shape[1:]), dtype=outer.dtype)
    padded[group, slot] = outer
    later = np.flip(np.cumsum(np.flip(padded, 1), axis=1), 1)  # from the weakest up, so that nothing cancels badly
    found = np.empty(len(order))
    after = np.zeros_like(padded)
    after[:, :-1] = later[:, 1:]
    found[order] = _quadratic(ordered, after[group, slot])
    if residual > 0:
        before = np.zeros_like(padded)
        before[:, 1:] = np.cumsum(padded, axis=1)[:, :-1]
        found[order] += residual * _quadratic(ordered, before[group, slot])
    return found


def _starts(serving: IntArray, turn: IntArray) -> BoolArray:
    """Where a new (cell, turn) begins in decoding order."""
    if len(serving) == 0:
        return np.zeros(0, dtype=bool)
    changed = (np.diff(serving) != 0) | (np.diff(turn) != 0)
    return np.concatenate([[True], changed])


def _other_cells(
    gain: FloatArray, fading: ComplexArray, h: ComplexArray, power_w: FloatArray, serving: IntArray, turn: IntArray
) -> FloatArray:
    """Interference at the serving base station from UEs of other cells that send in the same turn (n,)."""
    n_bs, antennas = gain.shape[1], h.shape[1]
    found = np.zeros(len(serving))
    present = np.flatnonzero(serving >= 0)
    for t in np.unique(turn[present]):
        now = present[turn[present] == t]
        at_all = np.sqrt(gain[now])[:, :, None] * fading[now]  # (m, n_bs, antennas)
        away = np.arange(n_bs) != serving[now, None]
        weight = power_w[now, None] * away
        if antennas == 1:
            covariance = (weight * np.abs(at_all[:, :, 0]) ** 2).sum(axis=0)[:, None, None].astype(complex)
        else:
            covariance = np.einsum("mb,mbi,mbj->bij", weight, at_all, at_all.conj(), optimize=True)
        found[now] = _quadratic(h[now], covariance[serving[now]])
    return found
