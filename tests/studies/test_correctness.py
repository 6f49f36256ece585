"""Uncertainty beside correctness: does the entropy of a belief say how far the attacker is from the
truth?

Shokri et al. (S&P 2011) found no satisfactory correlation between entropy and the success of an
attacker, and take the expected distance as the measure of privacy. `pytest -m slow -s
tests/studies/test_correctness.py` prints what is found.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from scipy.stats import spearmanr
from tracked import Source, commuters, estimates, follow, taxis

pytestmark = pytest.mark.slow

SEEDS = (0, 1, 2)
SOURCES: dict[str, Callable[[Path, int], Source]] = {
    "commuters": lambda data, seed: commuters(20, 3, 1800.0, seed=seed),
    "taxis": lambda data, seed: taxis(data, 1800.0, "2008-05-26"),
}


@dataclass(frozen=True)
class Told:
    """Of the filter, over UEs and rounds: rank correlation of entropy with the expected distance of
    the belief from the truth, and with the error of the best answer; means of this distance and of
    entropy.
    """

    with_distance: float
    with_error: float
    distance_m: float
    entropy_bits: float


def told(name: str, data: Path, bias_m: float, seed: int) -> Told:
    """With a part of the error that stays, and that the attacker does not know of; a row."""
    source = SOURCES[name](data, seed)
    scores = follow(source, estimates(source, seed, bias_m), hindsight=False).filter
    of = [
        float(spearmanr(scores.entropy_bits, each).statistic)
        for each in (scores.expected_m, scores.error_m)
    ]
    found = Told(*of, float(scores.expected_m.mean()), float(scores.entropy_bits.mean()))
    cells = f"{of[0]:.2f} | {of[1]:.2f} | {found.distance_m:.0f} | {found.entropy_bits:.1f}"
    print(f"| {name}, bias {bias_m:g} m, seed {seed} | {cells} |")
    return found


@pytest.mark.parametrize("name", SOURCES)
def test_entropy_goes_with_distance_and_less_with_errors(name: str, data_folder: Path) -> None:
    for seed in SEEDS:
        found = told(name, data_folder, 0.0, seed)
        assert found.with_distance > 0.8
        assert 0.2 < found.with_error < found.with_distance - 0.2


def test_an_unknown_bias_makes_attackers_surer_and_their_beliefs_worse(data_folder: Path) -> None:
    for seed in SEEDS:
        right, wrong = (told("commuters", data_folder, bias_m, seed) for bias_m in (0.0, 250.0))
        assert wrong.entropy_bits < right.entropy_bits - 0.3
        assert wrong.distance_m > right.distance_m + 20
        assert wrong.with_error < right.with_error - 0.1
