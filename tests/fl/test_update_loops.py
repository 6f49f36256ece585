"""The loops over guesses and updates, against matrix products."""

import numpy as np
import pytest

from fl.attacks.update_loops import pull, turn

SIZES = [(2, 1), (2, 5), (9, 1), (1, 3), (4, 4), (7, 6), (33, 17)]  # a layer's; whole fours of rows and not


def guesses(n_in, n_out, lengths=(1, 8, 9, 21, 3), before=3):
    """Of updates in any order: as many as stand together in one, two and three blocks."""
    rng = np.random.default_rng(n_in * 100 + n_out)
    of = np.repeat([2, 0, 4, 1, 2], lengths)
    direction = rng.normal(size=(5, before + (n_in + 1) * n_out + 2))
    a, d = rng.normal(size=(len(of), n_in)), rng.normal(size=(len(of), n_out))
    return direction, before, of, a, d


def answers(direction, at, of, a, d):
    """q, p, inner and norm2, begun at 0.5 and 0.25."""
    q, p = np.full_like(a, np.nan), np.full_like(d, np.nan)
    inner, norm2 = np.full(len(of), 0.5), np.full(len(of), 0.25)
    pull(direction, at, of, a, d, q, p, inner, norm2)
    return q, p, inner, norm2


@pytest.mark.parametrize("n_in, n_out", SIZES)
def test_pull_is_both_products(n_in, n_out):
    direction, at, of, a, d = guesses(n_in, n_out)
    matrix = direction[:, at : at + n_in * n_out].reshape(5, n_in, n_out)[of]
    bias = direction[of, at + n_in * n_out : at + (n_in + 1) * n_out]
    q, p, inner, norm2 = answers(direction, at, of, a, d)
    gradient = a[:, :, None] * d[:, None, :]
    np.testing.assert_allclose(p, np.einsum("mi,mio->mo", a, matrix) + bias, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(q, np.einsum("mo,mio->mi", d, matrix), rtol=1e-12, atol=1e-12)
    expected = (gradient * matrix).sum((1, 2)) + (d * bias).sum(1)
    np.testing.assert_allclose(inner - 0.5, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(norm2 - 0.25, (gradient**2).sum((1, 2)) + (d**2).sum(1), rtol=1e-12)


@pytest.mark.parametrize("n_in, n_out", SIZES)
def test_turn_is_the_slope_of_the_cosine(n_in, n_out):
    direction, at, of, a, d = guesses(n_in, n_out)

    def cosine(a, d):
        _, _, inner, norm2 = answers(direction, at, of, a, d)
        return inner / np.sqrt(norm2)

    q, p, inner, norm2 = answers(direction, at, of, a, d)
    turn(a, d, q, p, inner, norm2)
    for found, k in ((q, 0), (p, 1)):
        for j in range(found.shape[1]):
            step = [np.zeros_like(a), np.zeros_like(d)]
            step[k][:, j] = 1e-6
            slope = (cosine(a + step[0], d + step[1]) - cosine(a - step[0], d - step[1])) / 2e-6
            np.testing.assert_allclose(found[:, j], slope, rtol=1e-5, atol=1e-7)
