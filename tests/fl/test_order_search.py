"""The Renyi epsilon of many different rounds: that of a scan of all orders, from a few of them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fl.privacy import order_search, rdp


def scan(z, q, count, delta):
    cost = sum(n * rdp.renyi(float(a), float(b)) for a, b, n in zip(z, q, count, strict=True))
    return float(rdp.epsilon_of(cost, delta))


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1), low=st.floats(0.2, 50.0), wide=st.floats(1.0, 5.0),
    q=st.sampled_from([1e-4, 0.01, 0.1, 0.3, 0.5, 0.9]), repeats=st.sampled_from([1.0, 20.0, 1000.0]),
    delta=st.sampled_from([1e-9, 1e-5, 0.01, 0.3]), whole=st.booleans(),
)  # fmt: skip
def test_it_is_that_of_all_orders(seed, low, wide, q, repeats, delta, whole):
    """Rates around q, some of them 1: low orders do not converge there, and others are found."""
    rng, n = np.random.default_rng(seed), 20
    z, rates = rng.uniform(low, wide * low, n), np.minimum(rng.uniform(q, 1.5 * q, n), 0.99)
    rates[: 3 * whole] = 1.0
    count = repeats * rng.integers(1, 3, n)
    found, wanted = order_search.epsilon_of(z, rates, count, delta), scan(z, rates, count, delta)
    assert found == pytest.approx(wanted, rel=1e-12, abs=1e-15)


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
    assert math.isinf(order_search.epsilon_of(np.zeros(n), np.full(n, 0.5), np.ones(n), 1e-5))
    assert math.isinf(
        order_search.epsilon_of(np.r_[0.0, np.ones(n)], np.r_[1.0, np.full(n, 0.5)], np.ones(n + 1), 1e-5)
    )
    assert order_search.epsilon_of(np.ones(n), np.zeros(n), np.ones(n), 1e-5) == 0.0
    assert order_search.epsilon_of(np.zeros(0), np.zeros(0), np.zeros(0), 1e-5) == 0.0
    for delta in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(ValueError, match=r"delta must lie in \(0, 1\)"):
            order_search.epsilon_of(np.ones(n), np.full(n, 0.5), np.ones(n), delta)
