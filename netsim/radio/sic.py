r"""Successive interference cancellation, compiled: decoding order and SINR of each UE.

    gamma_k = x_k ||h_k||^4 / ( sum_later x_j |h_k^H h_j|^2 + r sum_earlier x_j |h_k^H h_j|^2
                                + sum_other-cells x_j |h_k^H h_jb|^2 + ||h_k||^2 N )

A UE with gamma_k < least is not cancelled: r is 1 for it. Since gamma_k depends on the UEs before k, this is evaluated
in decoding order.

Every loop runs over UEs in decoding order and keeps running sums per base station, so the cost grows with
n * n_bs for one antenna and n * n_bs * antennas^2 for several (interference is then a quadratic form in a sum of
h h^H). Sums run from the weakest signal up, which avoids cancellation between large numbers.
"""

from __future__ import annotations

import numpy as np

from netsim.compiled import compiled
from netsim.radio.uplink import ComplexArray
from netsim.units import FloatArray, IntArray


@compiled
def groups(received_w: FloatArray, serving: IntArray, n_bs: int, group_size: int) -> IntArray:
    """The index t (n,) of the group of every UE, from received powers (n,) at the serving base station.

    UEs of a cell form groups of `group_size` by decreasing received power; groups send one after the other.
    """
    group_of, rank = np.zeros(len(serving), np.int64), np.zeros(n_bs, np.int64)
    for u in np.argsort(-received_w, kind="mergesort"):
        b = serving[u]
        if b >= 0:
            group_of[u] = rank[b] // group_size
            rank[b] += 1
    return group_of


@compiled
def decoding_order(received_w: FloatArray, serving: IntArray, group_of: IntArray) -> tuple[IntArray, IntArray]:
    """Decoding order (n_attached,) and first (n_groups + 1,).

    The order lists the UEs that have a cell by group, then by decreasing received power; those of group t are
    order[first[t] : first[t + 1]].
    """
    by_power = np.argsort(-received_w, kind="mergesort")
    n_groups = 1
    for u in range(len(serving)):
        if serving[u] >= 0:
            n_groups = max(n_groups, group_of[u] + 1)
    first = np.zeros(n_groups + 1, np.int64)
    for u in range(len(serving)):
        if serving[u] >= 0:
            first[group_of[u] + 1] += 1
    first = np.cumsum(first)
    order, filled = np.empty(first[-1], np.int64), first.copy()
    for u in by_power:
        if serving[u] >= 0:
            order[filled[group_of[u]]] = u
            filled[group_of[u]] += 1
    return order, first


@compiled
def own_powers(power_w: FloatArray, strength: FloatArray, serving: IntArray) -> FloatArray:
    """Powers (n,) at the serving base stations of UEs that send with power_w (n,) over links of strength (n, n_bs); 0
    without a cell.
    """
    signal = np.zeros(len(serving))
    for u in range(len(serving)):
        if serving[u] >= 0:
            signal[u] = power_w[u] * strength[u, serving[u]]
    return signal


@compiled
def own_amplitudes(h: ComplexArray, serving: IntArray) -> tuple[ComplexArray, FloatArray]:
    """Amplitudes (n, antennas) at the serving base stations, of those (n, n_bs, antennas) at all, and the sums (n,) of
    their squares; 0 without a cell.
    """
    strength, own = np.zeros(len(serving)), np.zeros((len(serving), h.shape[2]), np.complex128)
    for u in range(len(serving)):
        if serving[u] >= 0:
            own[u] = h[u, serving[u]]
            strength[u] = np.sum(own[u].real ** 2 + own[u].imag ** 2)
    return own, strength


@compiled
def one_antenna(
    power_w: FloatArray,
    strength: FloatArray,
    serving: IntArray,
    group_of: IntArray,
    noise_w: float,
    residual: float,
    others: bool,
    least: float,
) -> FloatArray:
    """SINR (n,), 0 without a cell, of UEs that send with power_w (n,) over links of strength (n, n_bs).

    UEs of a group send together. `others`: UEs in the group of the same index in other cells interfere too. UEs below
    the SINR `least` are not cancelled.
    """
    n, n_bs = strength.shape
    if not n:
        return np.zeros(0)
    signal = own_powers(power_w, strength, serving)
    order, first = decoding_order(signal, serving, group_of)
    disturbance, so_far = np.zeros(n), np.empty(n_bs)
    for t in range(len(first) - 1):
        group = order[first[t] : first[t + 1]]
        if others:
            so_far[:] = 0.0
            for u in group[::-1]:
                own, sent_w = serving[u], power_w[u]
                for b in range(n_bs):  # without a branch, so that it takes vector instructions
                    so_far[b] += 0.0 if b == own else sent_w * strength[u, b]
            for u in group:
                disturbance[u] = so_far[serving[u]]
        so_far[:] = 0.0
        for u in group[::-1]:
            disturbance[u] += so_far[serving[u]]
            so_far[serving[u]] += signal[u]
        if residual > 0 or least > 0:
            _left_of_powers(group, serving, signal, noise_w, residual, least, disturbance)
    return _ratio(signal, disturbance, np.ones(n), noise_w)


@compiled
def many_antennas(
    power_w: FloatArray,
    h: ComplexArray,
    own: ComplexArray,
    strength: FloatArray,
    serving: IntArray,
    group_of: IntArray,
    noise_w: float,
    residual: float,
    others: bool,
    least: float,
) -> FloatArray:
    """The same after maximum-ratio combining, from amplitudes h (n, n_bs, antennas) of path and fading, and
    `own_amplitudes`.
    """
    n, n_bs, n_antennas = h.shape
    order, first = decoding_order(power_w * strength, serving, group_of)
    disturbance = np.zeros(n)
    so_far = np.empty((n_bs, n_antennas, n_antennas), np.complex128)
    for t in range(len(first) - 1):
        group = order[first[t] : first[t + 1]]
        if others:
            so_far[:] = 0.0
            for u in group[::-1]:
                for b in range(n_bs):
                    if b != serving[u]:
                        _add(so_far[b], power_w[u], h[u, b])
            for u in group:
                disturbance[u] = _quadratic(own[u], so_far[serving[u]])
        so_far[:] = 0.0
        for u in group[::-1]:
            disturbance[u] += _quadratic(own[u], so_far[serving[u]])
            _add(so_far[serving[u]], power_w[u], own[u])
        if residual > 0 or least > 0:
            _left_of_vectors(group, serving, power_w, own, strength, noise_w, residual, least, so_far, disturbance)
    return _ratio(power_w * strength**2, disturbance, strength, noise_w)


@compiled
def _left_of_powers(
    group: IntArray,
    serving: IntArray,
    signal: FloatArray,
    noise_w: float,
    residual: float,
    least: float,
    disturbance: FloatArray,
) -> None:
    """Adds to `disturbance` (n,) the residual power of UEs decoded earlier in a group, given in decoding order."""
    n_bs = serving.max() + 1
    cancelled, kept = np.zeros(n_bs), np.zeros(n_bs)
    for u in group:
        b = serving[u]
        disturbance[u] += residual * cancelled[b] + kept[b]
        if _sinr(signal[u], disturbance[u], 1.0, noise_w) >= least:
            cancelled[b] += signal[u]
        else:
            kept[b] += signal[u]


@compiled
def _left_of_vectors(
    group: IntArray,
    serving: IntArray,
    power_w: FloatArray,
    own: ComplexArray,
    strength: FloatArray,
    noise_w: float,
    residual: float,
    least: float,
    cancelled: ComplexArray,
    disturbance: FloatArray,
) -> None:
    """The same from amplitudes own (n, antennas) and their squares strength (n,); `cancelled` is a work array."""
    cancelled[:] = 0.0
    kept = np.zeros_like(cancelled) if least > 0 else cancelled
    some_kept = np.zeros(len(cancelled), np.bool_)
    for u in group:
        b = serving[u]
        if residual > 0:
            disturbance[u] += residual * _quadratic(own[u], cancelled[b])
        if some_kept[b]:
            disturbance[u] += _quadratic(own[u], kept[b])
        if _sinr(power_w[u] * strength[u] ** 2, disturbance[u], strength[u], noise_w) >= least:
            _add(cancelled[b], power_w[u], own[u])
        else:
            _add(kept[b], power_w[u], own[u])
            some_kept[b] = True


@compiled
def _ratio(signal: FloatArray, disturbance: FloatArray, strength: FloatArray, noise_w: float) -> FloatArray:
    """signal / (disturbance + strength noise) (n,), 0 where there is no signal."""
    sinr = np.zeros(len(signal))
    for u in range(len(signal)):
        sinr[u] = _sinr(signal[u], disturbance[u], strength[u], noise_w)
    return sinr


@compiled
def _sinr(signal: float, disturbance: float, strength: float, noise_w: float) -> float:
    """signal / (disturbance + strength noise), 0 where there is no signal."""
    if not signal > 0:
        return 0.0
    value = signal / (disturbance + strength * noise_w)
    return value if np.isfinite(value) else 0.0


@compiled
def _add(covariance: ComplexArray, power_w: float, h: ComplexArray) -> None:
    """Adds power h h^H to the lower triangle of `covariance`; the upper triangle is not used."""
    for i in range(len(h)):
        for j in range(i + 1):
            covariance[i, j] += power_w * h[i] * np.conj(h[j])


@compiled
def _quadratic(h: ComplexArray, covariance: ComplexArray) -> float:
    """h^H R h from the lower triangle of a Hermitian R, as a real number, at least 0."""
    total = 0.0
    for i in range(len(h)):
        row = 0j
        for j in range(i):
            row += covariance[i, j] * h[j]
        total += 2.0 * (np.conj(h[i]) * row).real + covariance[i, i].real * (h[i].real ** 2 + h[i].imag ** 2)
    return max(total, 0.0)
