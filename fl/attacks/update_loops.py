"""Loops over guesses and the directions of their updates, layer by layer (notation of `fl.attacks.gradient_matching`).

Guesses are few for each update: a library's matrix product would pack an update's matrix again for each of the two
products with it. Here a matrix is read once, four of its rows at a time, for both products of up to eight guesses.
"""

from __future__ import annotations

from netsim.compiled import compiled_sums
from netsim.units import FloatArray, IntArray

_TOGETHER = 8  # guesses whose rows stay in the nearest cache


@compiled_sums
def pull(
    direction: FloatArray, at: int, of: IntArray, a: FloatArray, d: FloatArray, q: FloatArray, p: FloatArray,
    inner: FloatArray, norm2: FloatArray,
) -> None:  # fmt: skip
    """Terms that one layer adds to inner, I (m,), and to norm2, N^2 (m,); q = D U^T (m, in) and p = a U + v (m, out).

    direction (n, parameters), C-contiguous, of which the layer's begin at `at`; of (m,): the row of each guess, equal
    ones together; a (m, in), d (m, out).
    """
    n_in, n_out = a.shape[1], d.shape[1]
    bias = at + n_in * n_out
    begin = 0
    while begin < len(of):
        u = direction[of[begin]]
        end = begin + 1
        while end < len(of) and end < begin + _TOGETHER and of[end] == of[begin]:
            end += 1
        if n_out == 1:  # the matrix is a row
            u_1 = u[at:bias]
            for m in range(begin, end):
                a_m, q_m, d_1, total = a[m], q[m], d[m, 0], u[bias]
                for i in range(n_in):
                    total += a_m[i] * u_1[i]
                    q_m[i] = d_1 * u_1[i]
                p[m, 0] = total
        else:
            _both(u, at, begin, end, a, d, q, p)
        for m in range(begin, end):
            both, d2, a2 = 0.0, 0.0, 1.0
            for j in range(n_out):
                both += p[m, j] * d[m, j]
                d2 += d[m, j] * d[m, j]
            for j in range(n_in):
                a2 += a[m, j] * a[m, j]
            inner[m] += both
            norm2[m] += d2 * a2
        begin = end


@compiled_sums
def _both(
    u: FloatArray, at: int, begin: int, end: int, a: FloatArray, d: FloatArray, q: FloatArray, p: FloatArray
) -> None:
    """q and p of guesses begin to end, which share u (parameters,)."""
    n_in, n_out = a.shape[1], d.shape[1]
    for m in range(begin, end):
        for j in range(n_out):
            p[m, j] = u[at + n_in * n_out + j]
    whole = n_in - n_in % 4
    for i in range(0, whole, 4):
        row = at + i * n_out
        u_1, u_2 = u[row : row + n_out], u[row + n_out : row + 2 * n_out]
        u_3, u_4 = u[row + 2 * n_out : row + 3 * n_out], u[row + 3 * n_out : row + 4 * n_out]
        for m in range(begin, end):
            p_m, d_m = p[m], d[m]
            a_1, a_2, a_3, a_4 = a[m, i], a[m, i + 1], a[m, i + 2], a[m, i + 3]
            q_1 = q_2 = q_3 = q_4 = 0.0
            for j in range(n_out):
                p_m[j] += a_1 * u_1[j] + a_2 * u_2[j] + a_3 * u_3[j] + a_4 * u_4[j]
                q_1 += u_1[j] * d_m[j]
                q_2 += u_2[j] * d_m[j]
                q_3 += u_3[j] * d_m[j]
                q_4 += u_4[j] * d_m[j]
            q[m, i], q[m, i + 1], q[m, i + 2], q[m, i + 3] = q_1, q_2, q_3, q_4
    for i in range(whole, n_in):
        u_1 = u[at + i * n_out : at + (i + 1) * n_out]
        for m in range(begin, end):
            p_m, d_m, a_1, total = p[m], d[m], a[m, i], 0.0
            for j in range(n_out):
                p_m[j] += a_1 * u_1[j]
                total += u_1[j] * d_m[j]
            q[m, i] = total


@compiled_sums
def turn(a: FloatArray, d: FloatArray, q: FloatArray, p: FloatArray, inner: FloatArray, norm2: FloatArray) -> None:
    """Make of p and q of one layer, in place, the derivatives of I / N in d (m, out) and in a (m, in)."""
    for m in range(len(a)):
        over = 1.0 / norm2[m] ** 0.5
        share = inner[m] * over / norm2[m]
        a2, d2 = 1.0, 0.0
        for j in range(a.shape[1]):
            a2 += a[m, j] * a[m, j]
        for j in range(d.shape[1]):
            d2 += d[m, j] * d[m, j]
        for j in range(d.shape[1]):
            p[m, j] = p[m, j] * over - d[m, j] * (share * a2)
        for j in range(a.shape[1]):
            q[m, j] = q[m, j] * over - a[m, j] * (share * d2)
