"""Uncertainty beside correctness: does the entropy of a belief say how far the attacker is from the
truth?

Shokri et al. (S&P 2011) found no satisfactory correlation between entropy and the success of an
attacker, and take the expected distance as the measure of privacy. `pytest -m slow -s
tests/studies/test_correctness.py` prints what is found.
"""

from dataclasses import dataclass

from pytest import mark
from scipy.stats import spearmanr
from tracked import commuters, estimates, follow, taxis

pytestmark = mark.slow

SEEDS = (0, 1, 2)
SOURCES = {
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


def tell(name, data, bias_m, seed):
    """With a part of the error that stays, and that the attacker does not know of; a row."""
    source = SOURCES[name](data, seed)
    scores = follow(source, estimates(source, seed, bias_m), hindsight=False).filter
    bits = scores.entropy_bits
    with_distance, with_error = (
        spearmanr(bits, error_m).statistic for error_m in (scores.expected_m, scores.error_m)
    )
    followed = Told(with_distance, with_error, scores.expected_m.mean(), bits.mean())
    cells = (
        f"{with_distance:.2f} | {with_error:.2f} | {followed.distance_m:.0f} | {bits.mean():.1f}"
    )
    print(f"| {name}, bias {bias_m:g} m, seed {seed} | {cells} |")
    return followed


@mark.parametrize("name", SOURCES)
def test_entropy_goes_with_distance_and_less_with_errors(name, data_folder):
    for seed in SEEDS:
        figures = tell(name, data_folder, 0.0, seed)
        assert figures.with_distance > 0.8
        assert 0.2 < figures.with_error < figures.with_distance - 0.2


def test_an_unknown_bias_makes_attackers_surer_and_their_beliefs_worse(data_folder):
    for seed in SEEDS:
        right, wrong = (tell("commuters", data_folder, bias_m, seed) for bias_m in (0.0, 250.0))
        assert wrong.entropy_bits < right.entropy_bits - 0.3
        assert wrong.distance_m > right.distance_m + 20
        assert wrong.with_error < right.with_error - 0.1
