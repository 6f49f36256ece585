"""Reception of UEs that send over one band: groups, SINR, waiting, latency, energy, and which are
decoded in time.
"""

import math
from typing import NamedTuple, Self

import numpy as np

from netsim.columns import divide_or, divide_or_zero
from netsim.compiled import compiled
from netsim.radio.schedulers import rank_in_cells
from netsim.units import BoolArray, FloatArray, IntArray


class Cancellation(NamedTuple):
    """A receiver with successive interference cancellation: noise_w N; residual: share r of a
    decoded signal that remains; others: whether UEs of the same group in other cells interfere;
    least: the SINR below which a UE is not cancelled, so that r is 1 for it.
    """

    noise_w: float
    residual: float
    decodes_others: bool
    min_sinr: float


def group_by_power(received_w: FloatArray, serving: IntArray, size: int) -> IntArray:
    """The index (n,) of the group of each UE: `size` UEs of a cell by decreasing received power
    (n,); 0 without one.
    """
    return np.where(serving >= 0, rank_in_cells(serving, -received_w) // size, 0)


def sort_for_decoding(power_w: FloatArray, outer: FloatArray, serving: IntArray) -> IntArray:
    """Those of UEs with powers (n,) that have a cell (k,), by cell, then from the strongest
    received power to the weakest; outer (n, n_bs, antennas^2): `compute_outer_products`.
    """
    has = np.flatnonzero(serving >= 0)
    square = outer[has, serving[has], : math.isqrt(outer.shape[2])].sum(axis=1)
    return has[np.lexsort((-power_w[has] * square, serving[has]))]


def compute_noma_sinr(
    order: IntArray,
    power_w: FloatArray,
    outer: FloatArray,
    serving: IntArray,
    group_of: IntArray,
    receiver: Cancellation,
) -> FloatArray:
    r"""SINR (n,) of UEs (k,) that send, in the order of `sort_for_decoding`, 0 for others::

        gamma_k = x_k ||h_k||^4 / ( sum_later x_j |h_k^H h_j|^2 + r sum_earlier x_j |h_k^H h_j|^2
                                    + sum_other-cells x_j |h_k^H h_jb|^2 + ||h_k||^2 N )

    A cell decodes the UEs of a group from the strongest to the weakest. Every sum over j is the
    inner product of the UE's outer product and a running sum of others, and time grows with n n_bs
    antennas^2. UEs of different groups do not meet.
    """
    sinr = np.zeros(len(serving))
    on = order[np.argsort(group_of[order], kind="stable")]
    n, n_bs, size = outer.shape
    flat = outer.reshape(n, n_bs * size)
    sinr[on] = _compute_sorted_sinr(
        on, power_w[on], flat, size, serving[on], group_of[on], receiver
    )
    return sinr


@compiled
def _compute_sorted_sinr(
    row: IntArray,
    x_w: FloatArray,
    outer: FloatArray,
    size: int,
    cell: IntArray,
    group: IntArray,
    receiver: Cancellation,
) -> FloatArray:
    """SINR (n,) as in `compute_noma_sinr`, of UEs sorted by group, then cell, then from the
    strongest to the weakest.

    row, x_w, cell, group (n,), outer (rows, n_bs size) with size antennas^2, which is not copied;
    receiver: the base stations.
    """
    n = len(row)
    sinr = np.empty(n)
    elsewhere = np.zeros(outer.shape[1])
    first = 0
    end = 0
    while first < n:
        if first == end:  # a new group
            elsewhere[:] = 0.0
            while end < n and group[end] == group[first]:
                if receiver.decodes_others:
                    sent = outer[row[end]]
                    own = cell[end] * size
                    for a in range(own):
                        elsewhere[a] += x_w[end] * sent[a]
                    for a in range(own + size, len(elsewhere)):
                        elsewhere[a] += x_w[end] * sent[a]
                end += 1
        last = first
        while last < end and cell[last] == cell[first]:
            last += 1
        own = cell[first] * size
        _write_queue_sinr(
            x_w[first:last],
            outer[row[first:last], own : own + size],
            elsewhere[own : own + size],
            receiver,
            sinr[first:last],
        )
        first = last
    return sinr


@compiled
def _write_queue_sinr(
    x_w: FloatArray,
    outer_own: FloatArray,
    elsewhere: FloatArray,
    receiver: Cancellation,
    sinr: FloatArray,
) -> None:
    """Write the SINR (n,) of the UEs of a cell and group, the strongest first, that meet a
    disturbance from elsewhere (size,).

    Running sums begin with the weakest signal, so large numbers do not cancel.
    """
    n, size = outer_own.shape
    later = np.zeros(size)
    for k in range(n - 1, -1, -1):
        sinr[k] = 0.0
        for a in range(size):
            sinr[k] += outer_own[k, a] * (later[a] + elsewhere[a])
            later[a] += x_w[k] * outer_own[k, a]
    earlier = np.zeros(size)
    for k in range(n):
        square = 0.0
        for a in range(int(np.sqrt(size))):  # of the antennas
            square += outer_own[k, a]
        left = 0.0
        for a in range(size):
            left += outer_own[k, a] * earlier[a]
        ratio = (
            x_w[k] * square**2 / (max(sinr[k], 0.0) + square * receiver.noise_w + max(left, 0.0))
        )
        share = receiver.residual if ratio >= receiver.min_sinr else 1.0
        for a in range(size):
            earlier[a] += share * x_w[k] * outer_own[k, a]
        sinr[k] = ratio if np.isfinite(ratio) else 0.0


class Durations(NamedTuple):
    """Seconds (n,) of what a UE does before its update has arrived: downlink, training, wait for
    its group, airtime.

    Infinite for a UE without a rate.
    """

    downlink_s: FloatArray
    compute_s: FloatArray
    wait_s: FloatArray
    airtime_s: FloatArray

    @classmethod
    def from_rates(
        cls, bits: FloatArray, downlink_bps: FloatArray, compute_s: FloatArray, rate_bps: FloatArray
    ) -> Self:
        """Without a wait; bits (n,) of the model as of the update."""
        downlink_s = divide_or(bits, downlink_bps, np.inf)
        # of no model, no update
        airtime_s = np.where(downlink_bps > 0, divide_or(bits, rate_bps, np.inf), np.inf)
        return cls(downlink_s, compute_s, np.zeros(np.shape(bits)), airtime_s)

    @property
    def ready_s(self) -> FloatArray:
        """Time from the request until the UE has trained (n,)."""
        return self.downlink_s + self.compute_s

    @property
    def delay_s(self) -> FloatArray:
        """Time from the request to the last bit (n,)."""
        return self.ready_s + self.wait_s + self.airtime_s


def is_received(sinr: FloatArray, min_sinr: float) -> BoolArray:
    """Which UEs (..., n) are decoded: with a SINR of at least `min_sinr`; if none has, the one with
    the highest.
    """
    best = sinr.max(axis=-1, initial=0.0, keepdims=True)
    return (sinr > 0) & (sinr >= np.minimum(min_sinr, best))


def compute_waits_s(
    spans: Durations, received: BoolArray, serving: IntArray, group_of: IntArray, limit_s: float
) -> FloatArray:
    """Waiting time (n,) of each UE until its group may send: the sum of the longest airtimes of
    earlier groups.

    A base station waits neither for UEs that it cannot decode nor for those that would end after
    limit_s.
    """
    wait_s = np.zeros(len(serving))
    begins_s = np.zeros(serving.max(initial=0) + 1)
    for group in range(group_of.max(initial=0) + 1):
        rows = np.flatnonzero((group_of == group) & (serving >= 0))
        wait_s[rows] = begins_s[serving[rows]]
        ends_s = spans.ready_s[rows] + wait_s[rows] + spans.airtime_s[rows]
        is_awaited = np.isfinite(ends_s) & (ends_s <= limit_s)
        rows = rows[received[rows] & is_awaited]
        longest_s = np.zeros(len(begins_s))
        np.maximum.at(longest_s, serving[rows], spans.airtime_s[rows])
        begins_s += longest_s
    return wait_s


class Ends(NamedTuple):
    """How transmissions end (n,): airtime_s, delay_s, energy_j, decoded, late; as in `Channel`."""

    airtime_s: FloatArray
    delay_s: FloatArray
    energy_j: FloatArray
    decoded: BoolArray
    late: BoolArray


def compute_ends(
    spans: Durations,
    received: BoolArray,
    power_w: FloatArray,
    compute_j: FloatArray,
    limit_s: float,
) -> Ends:
    """The end of each transmission: at its last bit, or at limit_s, where a UE stops all it does,
    training included.

    power_w (n,): mean over the airtime.
    """
    sends = np.isfinite(spans.airtime_s)
    over = spans.delay_s > limit_s
    with np.errstate(invalid="ignore"):  # infinity less infinity: a UE without the model
        missing_s = np.maximum(spans.ready_s - limit_s, 0.0)
        left_s = np.clip(limit_s - spans.ready_s - spans.wait_s, 0.0, spans.airtime_s)
    trained = 1.0 - np.minimum(divide_or_zero(missing_s, spans.compute_s), 1.0)
    trained = np.where(np.isfinite(spans.ready_s), trained, 0.0)
    airtime_s = np.where(sends & over, left_s, spans.airtime_s)
    delay_s = np.where(sends & over, limit_s, spans.delay_s)
    energy_j = compute_j * trained + power_w * np.where(sends, airtime_s, 0.0)
    decoded = received & sends
    return Ends(airtime_s, delay_s, energy_j, decoded & ~over, decoded & over)
