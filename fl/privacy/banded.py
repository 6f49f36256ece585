r"""Noise correlated over rounds by a banded Toeplitz matrix: its sensitivity, its errors, and the
noise itself.

The published models are prefix sums of updates, A x with A = ones on and below the diagonal. With A
= B C the server adds B z, so the update of round t gets row t of C^-1 z, z i.i.d. Gaussian of std
`multiplier * sensitivity * clip`. That is one Gaussian mechanism on C x, whatever the number of
rounds [Denisov et al. 2022]. C is lower triangular with

    c_0 = 1,   c_j = c_{j-1} (2 j - 1) / (2 j)   for j < bands, else 0

the square root of A for as many bands as rounds [Fichtenberger, Henzinger, Upadhyay 2023, Eq. 5],
cut as by Choquette-Choo et al. 2023, "(Amplified) Banded Matrix Factorization", Section 4. Any C is
valid for any server optimiser: momentum changes A, so the error, and not the guarantee.
"""

import numpy as np

from netsim.units import ArrayPair, FloatArray, FloatPair


def compute_coefficients(bands: int) -> FloatArray:
    """The first column c (bands,) of C."""
    j = np.arange(1.0, bands)
    ratio = (2.0 * j - 1.0) / (2.0 * j)
    return np.concatenate([[1.0], np.cumprod(ratio)])


def compute_banded_sensitivity(rounds: int, bands: int, separation: int = 1) -> float:
    """Largest norm of C x for updates of norm 1 of a user that takes part in rounds r, r +
    separation, ..., or in some.

    C has no negative entry, so the largest is that of updates that agree, in all of these rounds,
    for the worst r.
    """
    c = compute_coefficients(min(bands, rounds))
    largest = 0.0
    for first in range(min(separation, rounds)):
        takes_part = np.zeros(rounds)
        takes_part[first::separation] = 1.0
        moved = np.convolve(takes_part, c)[:rounds]
        largest = max(largest, float(np.linalg.norm(moved)))
    return largest


def compute_prefix_errors(rounds: int, bands: int, separation: int = 1) -> FloatPair:
    """Root mean square and largest std of the noise on prefix sums, for multiplier and clip norm
    1.
    """
    from scipy.signal import lfilter

    c = compute_coefficients(min(bands, rounds))
    inverse = lfilter([1.0], c, np.eye(1, rounds)[0])  # first column of C^-1
    variance = np.cumsum(np.cumsum(inverse) ** 2)  # B = A C^-1 is Toeplitz as well
    worst = compute_banded_sensitivity(rounds, bands, separation)
    mean = np.sqrt(variance.mean())
    return worst * mean, worst * np.sqrt(variance[-1])


def colour_noise(white: FloatArray, past: FloatArray) -> ArrayPair:
    """The next row of C^-1 z, and the rows to remember, of z_t (...) and the latest rows (k, ...),
    newest first.

    k is at most bands - 1: fewer in the first rounds.
    """
    c = compute_coefficients(len(past) + 1)
    row = white - np.tensordot(c[1:], past, axes=1)
    return row, np.concatenate([row[None], past])
