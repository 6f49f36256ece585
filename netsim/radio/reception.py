"""Reception of UEs that send over one band: groups, SINR, waiting, latency, energy, and which are
decoded in time.
"""

from typing import NamedTuple

import numpy as np

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


def sort_for_decoding(received_w: FloatArray, serving: IntArray) -> IntArray:
    """Those of UEs with received powers (n,) that have a cell (k,), by cell, then from the
    strongest to the weakest.
    """
    return _sort_by_cell((-received_w).argsort(kind="stable"), serving)


@compiled
def _sort_by_cell(order: IntArray, serving: IntArray) -> IntArray:
    """Those of the UEs order (n,) that have a cell (k,), by cell, then as they were."""
    begins = np.zeros(serving.max() + 2 if len(serving) else 1, np.int64)
    for cell in serving:
        begins[cell + 1] += 1
    begins[0] = 0
    begins = begins.cumsum()
    sorted_order = np.empty(begins[-1], np.int64)
    for k in order:
        if serving[k] >= 0:
            sorted_order[begins[serving[k]]] = k
            begins[serving[k]] += 1
    return sorted_order


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
    on = order[group_of[order].argsort(kind="stable")]
    n, n_bs, size = outer.shape
    flat = outer.reshape(n, n_bs * size)
    _write_sorted_sinr(on, power_w, flat, size, serving, group_of, receiver, sinr)
    return sinr


@compiled
def _write_sorted_sinr(
    row: IntArray,
    power_w: FloatArray,
    outer: FloatArray,
    size: int,
    serving: IntArray,
    group_of: IntArray,
    receiver: Cancellation,
    sinr: FloatArray,
) -> None:
    """Write the SINR of rows (k,) of sinr (n,) as in `compute_noma_sinr`, of UEs sorted by group,
    then cell, then from the strongest to the weakest.

    power_w, serving, group_of (n,), outer (n, n_bs size) with size antennas^2; receiver: the base
    stations.
    """
    elsewhere = np.zeros(outer.shape[1])
    first = 0
    end = 0
    while first < len(row):
        if first == end:  # a new group
            elsewhere[:] = 0.0
            while end < len(row) and group_of[row[end]] == group_of[row[first]]:
                if receiver.decodes_others:
                    k = row[end]
                    own = serving[k] * size
                    sent = outer[k]
                    for a in range(own):
                        elsewhere[a] += power_w[k] * sent[a]
                    for a in range(own + size, len(elsewhere)):
                        elsewhere[a] += power_w[k] * sent[a]
                end += 1
        cell = serving[row[first]]
        last = first
        while last < end and serving[row[last]] == cell:
            last += 1
        own = cell * size
        _write_queue_sinr(
            row[first:last],
            power_w,
            outer[:, own : own + size],
            elsewhere[own : own + size],
            receiver,
            sinr,
        )
        first = last


@compiled
def _write_queue_sinr(
    row: IntArray,
    power_w: FloatArray,
    outer_own: FloatArray,
    elsewhere: FloatArray,
    receiver: Cancellation,
    sinr: FloatArray,
) -> None:
    """Write the SINR of the UEs row (k,) of a cell and group, the strongest first, that meet a
    disturbance from elsewhere (size,); power_w, sinr (n,), outer_own (n, size).

    Running sums begin with the weakest signal, so large numbers do not cancel.
    """
    size = len(elsewhere)
    later = np.zeros(size)
    for k in row[::-1]:
        sinr[k] = 0.0
        for a in range(size):
            sinr[k] += outer_own[k, a] * (later[a] + elsewhere[a])
            later[a] += power_w[k] * outer_own[k, a]
    earlier = np.zeros(size)
    for k in row:
        square = 0.0
        for a in range(int(np.sqrt(size))):  # of the antennas
            square += outer_own[k, a]
        left = 0.0
        for a in range(size):
            left += outer_own[k, a] * earlier[a]
        disturbance = max(sinr[k], 0.0) + square * receiver.noise_w + max(left, 0.0)
        ratio = power_w[k] * square**2 / disturbance
        share = receiver.residual if ratio >= receiver.min_sinr else 1.0
        for a in range(size):
            earlier[a] += share * power_w[k] * outer_own[k, a]
        sinr[k] = ratio if np.isfinite(ratio) else 0.0


def is_received(sinr: FloatArray, min_sinr: float) -> BoolArray:
    """Which UEs (..., n) are decoded: with a SINR of at least `min_sinr`; if none has, the one with
    the highest.
    """
    best = sinr.max(axis=-1, initial=0.0, keepdims=True)
    return (sinr > 0) & (sinr >= np.minimum(min_sinr, best))


class Ends(NamedTuple):
    """How transmissions end (n,): ready_s: time from the request until the UE has trained;
    airtime_s, delay_s, energy_j, decoded, late: as in `Channel`.

    Times are infinite for a UE without a rate.
    """

    ready_s: FloatArray
    airtime_s: FloatArray
    delay_s: FloatArray
    energy_j: FloatArray
    decoded: BoolArray
    late: BoolArray


def compute_waits_s(
    alone: Ends, serving: IntArray, group_of: IntArray, limit_s: float
) -> FloatArray:
    """Waiting time (n,) of each UE until its group may send: the sum of the longest airtimes of
    earlier groups; alone (n,): the ends without a wait or a limit.

    A base station waits neither for UEs that it cannot decode nor for those that would end after
    limit_s.
    """
    wait_s = np.zeros(len(serving))
    begins_s = np.zeros(serving.max(initial=0) + 1)
    for group in range(group_of.max(initial=0) + 1):
        rows = np.flatnonzero((group_of == group) & (serving >= 0))
        wait_s[rows] = begins_s[serving[rows]]
        ends_s = alone.ready_s[rows] + wait_s[rows] + alone.airtime_s[rows]
        rows = rows[alone.decoded[rows] & (ends_s <= limit_s)]
        longest_s = np.zeros(len(begins_s))
        np.maximum.at(longest_s, serving[rows], alone.airtime_s[rows])
        begins_s += longest_s
    return wait_s


class Demands(NamedTuple):
    """What UEs (n,) do: bits of the model as of the update, their rates, time and energy of
    training, and mean power over the airtime.
    """

    bits: FloatArray
    downlink_bps: FloatArray
    rate_bps: FloatArray
    compute_s: FloatArray
    compute_j: FloatArray
    power_w: FloatArray


def compute_ends(demands: Demands, received: BoolArray, wait_s: FloatArray, limit_s: float) -> Ends:
    """The end of each transmission: at its last bit, or at limit_s, where a UE stops all it does,
    training included.
    """
    n = len(wait_s)
    ends = Ends(*np.empty((4, n)), *np.empty((2, n), bool))
    _write_ends(*demands, received, wait_s, limit_s, *ends)
    return ends


@compiled
def _write_ends(
    bits: FloatArray,
    downlink_bps: FloatArray,
    rate_bps: FloatArray,
    compute_s: FloatArray,
    compute_j: FloatArray,
    power_w: FloatArray,
    received: BoolArray,
    wait_s: FloatArray,
    limit_s: float,
    ready_s: FloatArray,
    airtime_s: FloatArray,
    delay_s: FloatArray,
    energy_j: FloatArray,
    decoded: BoolArray,
    late: BoolArray,
) -> None:
    """Write `Ends` (n,) as in `compute_ends`."""
    for k in range(len(bits)):
        has_model = downlink_bps[k] > 0
        ready = (bits[k] / downlink_bps[k] if has_model else np.inf) + compute_s[k]
        # of no model, no update
        airtime = bits[k] / rate_bps[k] if has_model and rate_bps[k] > 0 else np.inf
        delay = ready + wait_s[k] + airtime
        sends = np.isfinite(airtime)
        over = sends and delay > limit_s
        trained = 1.0 if np.isfinite(ready) else 0.0
        if compute_s[k] > 0 and trained > 0:
            trained -= min(max(ready - limit_s, 0.0) / compute_s[k], 1.0)
        if over:
            delay = limit_s
            airtime = min(max(limit_s - ready - wait_s[k], 0.0), airtime)
        ready_s[k] = ready
        airtime_s[k] = airtime
        delay_s[k] = delay
        energy_j[k] = compute_j[k] * trained + power_w[k] * (airtime if sends else 0.0)
        decoded[k] = received[k] and sends and not over
        late[k] = received[k] and over
