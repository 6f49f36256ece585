"""Factors of the exact kernel against exponentials in extended precision."""

import numpy as np
import pytest

from fl.density.bells import END, bells
from fl.density.surfaces import TERMS, kernel_density

_DRAWS = np.random.default_rng(0)
AXES = {
    "even": (np.linspace(0.0, 4000.0, 100), 200.0),
    "a step of one bandwidth": (np.arange(40.0), 1.0),
    "steps that are no binary number": (np.linspace(-3.3, 8.1, 1000), 0.7),
    "far from the origin": (np.linspace(5e6, 5e6 + 4000, 101), 100.0),
    "a hundred steps a bandwidth": (np.arange(3000) * 0.01, 0.999),
    "kernels that end on the grid": (np.linspace(0.0, 4000.0, 1000), 12.0),
    "coarse": (np.arange(100) * 40.0, 2.0),
    "finer than the table": (np.arange(50) * 1e-4, 0.7),
    "off an even spacing by a millionth": (np.linspace(0.0, 40.0, 101) + 1e-6 * _DRAWS.normal(size=101), 2.0),
    "uneven": (np.sort(_DRAWS.uniform(0.0, 40.0, 33)), 2.0),
    "falling": (np.linspace(4000.0, 0.0, 100), 200.0),
    "one place": (np.array([3.0]), 1.0),
    "fewer than a run": (np.arange(7.0) * 10, 20.0),
}


def found(at_m, axis_m, bandwidth_m):
    out = np.full((len(at_m), len(axis_m)), np.nan)
    bells(at_m, axis_m, bandwidth_m, out)
    return out


@pytest.mark.parametrize("name", AXES)
def test_every_factor_is_known_to_its_last_digits(name):
    """Of places on the axis, between its points, and up to 45 bandwidths beyond both ends."""
    (axis_m, h), draws = AXES[name], np.random.default_rng(1)
    low, high = axis_m.min(), axis_m.max()
    at_m = np.concatenate([draws.uniform(low - 45 * h, high + 45 * h, 1500), draws.uniform(low, high, 500), axis_m])
    y = (axis_m.astype(np.longdouble)[None] - at_m.astype(np.longdouble)[:, None]) / np.longdouble(h)
    exact, made = np.exp(-y * y / 2), found(at_m, axis_m, h)
    for above, error in ((1e-10, 3e-14), (1e-290, 4e-13)):
        seen = exact > above
        assert (np.abs(made - exact)[seen] <= error * exact[seen]).all()
    assert (np.abs(made - exact)[exact <= 1e-290] < 1e-299).all() and not made[np.abs(y) > END].any()


def test_density_is_the_mean_of_kernels():
    """Of more places than are multiplied at once, beside a sum over places written out."""
    x_m, y_m, h = np.linspace(0.0, 900.0, 31), np.linspace(-200.0, 500.0, 27), 60.0
    at_m = np.random.default_rng(2).uniform([0, -200], [900, 500], (TERMS + 137, 2))
    total = np.zeros((31, 27))
    for a, b in at_m:
        total += np.exp(-((x_m[:, None] - a) ** 2 + (y_m[None] - b) ** 2) / (2 * h * h))
    np.testing.assert_allclose(kernel_density(at_m, h, x_m, y_m), total / len(at_m), rtol=1e-13)
    assert not kernel_density(at_m[:0], h, x_m, y_m).any()
