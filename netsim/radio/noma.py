r"""Non-orthogonal multiple access: everybody of a group at once, told apart by successive cancellation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from netsim.radio.shared_band import SharedBand
from netsim.radio.uplink import Channel, Cohort, ComplexArray, Payload
from netsim.units import FloatArray, IntArray


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
        turns = self.turns(cohort)
        sinr = noma_sinr(cohort, turns, self.band_noise_w(), self.sic_residual, self.interference)
        rate = self.bandwidth_hz * self.efficiency(sinr)
        wait = self._waits(cohort, payload, rate, turns.turn)
        return self.outcome(cohort, payload, sinr, rate, wait)

    def turns(self, cohort: Cohort) -> Turns:
        """Who is decoded after whom, and in which group of its cell."""
        n = np.arange(len(cohort.ue))
        received = cohort.power_w * cohort.strength[n, cohort.serving]
        order = np.lexsort((-received, cohort.serving.astype(np.int16)))  # UEs without a cell (-1) come first
        cell = cohort.serving[order]
        new = np.ones(len(order), dtype=bool)
        new[1:] = cell[1:] != cell[:-1]
        rank = n - np.maximum.accumulate(np.where(new, n, 0))
        turn = np.zeros(len(order), dtype=np.int64)
        if self.group_size is not None:
            turn[order] = rank // self.group_size
            new |= rank % self.group_size == 0
            rank = rank % self.group_size
        return Turns(order, turn, np.cumsum(new) - 1, rank)

    def _waits(self, cohort: Cohort, payload: Payload, rate: FloatArray, turn: IntArray) -> FloatArray:
        """Time until a UE's group may send: the longest airtime of every earlier group of its cell."""
        if self.group_size is None:
            return np.zeros(len(turn))
        with np.errstate(divide="ignore"):
            air = np.where(rate > 0, payload.n_bits * cohort.rows / rate, 0.0)
        longest = np.zeros((int(cohort.serving.max(initial=0)) + 2, int(turn.max(initial=0)) + 1))
        np.maximum.at(longest, (cohort.serving, turn), air)
        before = np.cumsum(longest, axis=1) - longest
        return np.asarray(before[cohort.serving, turn])


@dataclass(frozen=True)
class Turns:
    """Decoding: order (n,) of UEs by cell and falling received power; turn (n,) of each UE in its cell.

    group (n,) and slot (n,) follow the order: which (cell, turn) the UE at that place belongs to, and its place in it.
    """

    order: IntArray
    turn: IntArray
    group: IntArray
    slot: IntArray

    def spread(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Values (n, ...) of UEs laid out as (groups, 1 + longest group, ...), with zeros after the last."""
        longest = int(self.slot.max(initial=-1)) + 1
        wide = np.zeros((int(self.group.max(initial=-1)) + 1, longest + 1, *values.shape[1:]), dtype=values.dtype)
        wide[self.group, self.slot] = values[self.order]
        return wide

    def later(self, wide: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """For each place of the order the sum over those decoded after it."""
        # from the weakest up, so that small sums are not differences of large ones
        return np.asarray(np.cumsum(wide[:, ::-1], axis=1)[:, ::-1][self.group, self.slot + 1])

    def earlier(self, wide: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """For each place of the order the sum over those decoded before it."""
        so_far = np.cumsum(wide, axis=1)
        first = self.slot == 0
        found = so_far[self.group, self.slot - 1]
        found[first] = 0.0
        return np.asarray(found)


def noma_sinr(
    cohort: Cohort, turns: Turns, noise_w: float, residual: float, interference: Literal["none", "intra", "all"]
) -> FloatArray:
    """SINR (n,) of every UE after combining and cancellation; 0 for a UE without a cell (see `Noma`).

    Cost grows with n * n_bs * antennas^2: interference is a quadratic form in a covariance that is summed once a cell
    and turn, and with one antenna a plain sum of received powers.
    """
    n, own = np.arange(len(cohort.ue)), cohort.serving
    strength = cohort.strength[n, own]
    with np.errstate(invalid="ignore", divide="ignore"):
        if interference == "none":
            sinr = cohort.power_w * strength / noise_w
        elif cohort.fading is None or cohort.fading.shape[2] == 1:
            sinr = _one_antenna(cohort, turns, noise_w, residual, interference)
        else:
            h = np.sqrt(cohort.gain[n, own])[:, None] * cohort.fading[n, own]
            disturbance = _cancelled(h, cohort.power_w, turns, residual)
            if interference == "all":
                disturbance = disturbance + _other_cells(cohort, h, turns.turn)
            sinr = cohort.power_w * strength**2 / (disturbance + strength * noise_w)
    return np.where((own >= 0) & np.isfinite(sinr), sinr, 0.0)


def _one_antenna(
    cohort: Cohort, turns: Turns, noise_w: float, residual: float, interference: Literal["intra", "all"]
) -> FloatArray:
    """The same in received powers: gamma = s / (later + r earlier + other cells + N)."""
    n, own = np.arange(len(cohort.ue)), cohort.serving
    received = cohort.power_w[:, None] * cohort.strength  # (n, n_bs)
    signal = received[n, own]
    wide = turns.spread(signal)
    disturbance = np.empty(len(n))
    disturbance[turns.order] = turns.later(wide)
    if residual > 0:
        disturbance[turns.order] += residual * turns.earlier(wide)
    if interference == "all":
        received[n, own] = 0.0
        received[own < 0] = 0.0
        if turns.turn.any():
            by_turn = np.zeros((int(turns.turn.max()) + 1, received.shape[1]))
            np.add.at(by_turn, turns.turn, received)
            disturbance += by_turn[turns.turn, own]
        else:
            disturbance += received.sum(axis=0)[own]
    return np.asarray(signal / (disturbance + noise_w))


def _quadratic(h: ComplexArray, covariance: ComplexArray) -> FloatArray:
    """h^H R h for matched rows, real and not negative."""
    return np.asarray(np.maximum(np.einsum("na,nab,nb->n", h.conj(), covariance, h, optimize=True).real, 0.0))


def _cancelled(h: ComplexArray, power_w: FloatArray, turns: Turns, residual: float) -> FloatArray:
    """Interference from the same cell and turn after cancellation (n,): later ones whole, earlier ones by r."""
    wide = turns.spread(power_w[:, None, None] * h[:, :, None] * h[:, None, :].conj())
    ordered, found = h[turns.order], np.empty(len(h))
    found[turns.order] = _quadratic(ordered, turns.later(wide))
    if residual > 0:
        found[turns.order] += residual * _quadratic(ordered, turns.earlier(wide))
    return found


def _other_cells(cohort: Cohort, h: ComplexArray, turn: IntArray) -> FloatArray:
    """Interference at the serving base station from UEs of other cells that send in the same turn (n,)."""
    found = np.zeros(len(cohort.ue))
    if cohort.fading is None:
        return found
    cells = np.arange(cohort.gain.shape[1])
    present = np.flatnonzero(cohort.serving >= 0)
    for t in np.unique(turn[present]):
        now = present[turn[present] == t]
        at_all = np.sqrt(cohort.gain[now])[:, :, None] * cohort.fading[now]  # (m, n_bs, antennas)
        weight = cohort.power_w[now, None] * (cells != cohort.serving[now, None])
        covariance = np.einsum("mb,mbi,mbj->bij", weight, at_all, at_all.conj(), optimize=True)
        found[now] = _quadratic(h[now], covariance[cohort.serving[now]])
    return found
