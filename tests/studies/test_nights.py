"""How sure one can be of a home after some nights, and what an error that stays makes of it.

`pytest -m slow -s tests/studies/test_nights.py` prints the table of nights of docs/tracking.md.
"""

import numpy as np
import pytest
from nights import homes_stated

pytestmark = pytest.mark.slow

NIGHTS = (1, 3, 7, 28)
SEEDS = (0, 1, 2)
CASES = {
    "no bias": (0.0, 0.0),
    "bias 100 m, ignored": (100.0, 0.0),
    "bias 100 m, modelled": (100.0, 100.0),
}


def over_seeds(bias_m, assumed_m):
    """By number of nights: share right within 100 m, and the mean probability stated; 120 UEs a
    seed."""
    homes = [homes_stated(bias_m, assumed_m, NIGHTS, seed=seed) for seed in SEEDS]
    return {
        night: np.mean([seed_homes[night] for seed_homes in homes], axis=(0, 2)).tolist()
        for night in NIGHTS
    }


def test_a_bias_must_be_modelled():
    homes = {name: over_seeds(*case) for name, case in CASES.items()}
    for night in NIGHTS:
        print(
            "|",
            night,
            "|",
            " | ".join("{:.2f} / {:.2f}".format(*each[night]) for each in homes.values()),
            "|",
        )
    for right, stated in [*homes["no bias"].values(), *homes["bias 100 m, modelled"].values()]:
        assert stated == pytest.approx(right, abs=0.06)
    right, stated = homes["no bias"][28]
    assert right > 0.97
    assert stated > 0.97
    right, stated = homes["bias 100 m, ignored"][28]
    assert right < 0.5
    assert stated > 0.97
    assert homes["bias 100 m, modelled"][28][0] < homes["bias 100 m, modelled"][7][0] + 0.1
