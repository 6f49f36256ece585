"""The exact kernel on a grid."""

import numpy as np

from fl.learners.density import TERMS, kernel_density


def test_density_is_the_mean_of_kernels():
    """Of more places than are multiplied at once, beside a sum over places written out."""
    x_m, y_m, h = np.linspace(0.0, 900.0, 31), np.linspace(-200.0, 500.0, 27), 60.0
    at_m = np.random.default_rng(2).uniform([0, -200], [900, 500], (TERMS + 137, 2))
    total = np.zeros((31, 27))
    for a, b in at_m:
        total += np.exp(-((x_m[:, None] - a) ** 2 + (y_m[None] - b) ** 2) / (2 * h * h))
    np.testing.assert_allclose(kernel_density(at_m, h, x_m, y_m), total / len(at_m), rtol=1e-13)
    assert not kernel_density(at_m[:0], h, x_m, y_m).any()
