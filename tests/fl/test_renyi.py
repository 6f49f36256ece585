"""The Renyi epsilon of many different rounds."""

import math

import numpy as np
import pytest
from scipy.special import log_ndtr

from fl.privacy import rdp, rdp_loops


def test_each_round_at_an_order_of_its_own():
    """Costs of many rounds at once are those one by one, past the number that is taken at a time."""
    n = 5000
    rng = np.random.default_rng(3)
    z, q = rng.choice([0.0, 0.4, 1.0, 3.0, math.inf], n), rng.choice([0.0, 1e-3, 0.2, 1.0], n)
    at = rng.integers(0, len(rdp.ORDERS), n)
    known = {(a, b): rdp.renyi(float(a), float(b)) for a, b in {*zip(z.tolist(), q.tolist(), strict=True)}}
    wanted = [known[a, b][i] for a, b, i in zip(z.tolist(), q.tolist(), at.tolist(), strict=True)]
    np.testing.assert_allclose(rdp.at_orders(z, q, at), wanted, rtol=1e-13)


def test_no_noise_is_no_guarantee_and_nobody_costs_nothing():
    n = 30
    assert math.isinf(rdp.epsilon_of_rounds(np.zeros(n), np.full(n, 0.5), np.ones(n), 1e-5))
    assert math.isinf(rdp.epsilon_of_rounds(np.r_[0.0, np.ones(n)], np.r_[1.0, np.full(n, 0.5)], np.ones(n + 1), 1e-5))
    assert rdp.epsilon_of_rounds(np.ones(n), np.zeros(n), np.ones(n), 1e-5) == 0.0
    assert rdp.epsilon_of_rounds(np.zeros(0), np.zeros(0), np.zeros(0), 1e-5) == 0.0
    for delta in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(ValueError, match=r"delta must lie in \(0, 1\)"):
            rdp.epsilon_of_rounds(np.ones(n), np.full(n, 0.5), np.ones(n), delta)


def test_the_tail_of_a_normal_distribution():
    x = np.concatenate([np.linspace(-60, 12, 2001), [-1e4, -1e150, 40.0]])
    np.testing.assert_allclose([rdp_loops.log_ndtr(v) for v in x], log_ndtr(x), rtol=1e-12, atol=0)
