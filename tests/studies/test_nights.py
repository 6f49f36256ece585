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


def over_seeds(bias_m: float, assumed_m: float) -> dict[int, tuple[float, float]]:
    """By number of nights: share right within 100 m, and the mean probability stated; 120 UEs a
    seed."""
    found = [homes_stated(bias_m, assumed_m, NIGHTS, seed=seed) for seed in SEEDS]
    return {
        night: (
            float(np.mean([one[night][0] for one in found])),
            float(np.mean([one[night][1] for one in found])),
        )
        for night in NIGHTS
    }


def test_a_bias_must_be_modelled() -> None:
    found = {name: over_seeds(*case) for name, case in CASES.items()}
    for night in NIGHTS:
        print(
            "|",
            night,
            "|",
            " | ".join("{:.2f} / {:.2f}".format(*each[night]) for each in found.values()),
            "|",
        )
    for right, stated in [*found["no bias"].values(), *found["bias 100 m, modelled"].values()]:
        assert stated == pytest.approx(right, abs=0.06)
    right, stated = found["no bias"][28]
    assert right > 0.97
    assert stated > 0.97
    right, stated = found["bias 100 m, ignored"][28]
    assert right < 0.5
    assert stated > 0.97
    assert found["bias 100 m, modelled"][28][0] < found["bias 100 m, modelled"][7][0] + 0.1
