"""The rule of every verdict, with its borders, and figures as people read them."""

import math

import numpy as np
import pytest
from rows import read_cells
from scipy.stats import binomtest, t
from tabled import cases

from scenarios.app.results.statistics import (
    compute_ci95_half_width,
    compute_percent_and_wilson_interval,
    format_figure,
)
from scenarios.app.results.table import (
    Line,
    judge_distance,
    judge_epsilon,
    judge_error,
    judge_interval,
    judge_prevention,
    judge_share,
    judge_sw1,
)

SHARES = """
39   40  1.7       found
 0   40  1.7       inconclusive
 0  120  1.7       at chance
 0    1  1.7       inconclusive
 1   12  1.7 nan   inconclusive
29   31  2.0 4.0   found
 5  100  10.0      at chance
12  100  1.0 8.0   inconclusive
20  100  1.0 8.0   found
 1   10  1.47      inconclusive
 2   10  1.47      found
 1    1  2.08      found
 1    1  5.1       inconclusive
 1    3  0.0       found
 0    0  1.0       inconclusive
40   40  nan       inconclusive
"""
"""hits, UEs, chances in percent, and the verdict: upper ends of no hits are 8.8, 3.1 and 79 %; five
points above chance are not enough; the largest chance counts; of 1 in 10 chance has 14 %, though
Wilson's interval begins at 1.8 %, of 2 in 10 it has 0.9 %"""


@pytest.mark.parametrize("hits, n, chances, verdict", read_cells(SHARES))
def test_shares_of_all_seeds(hits, n, chances, verdict):
    assert judge_share(int(hits), int(n), list(map(float, chances.split()))) == verdict


def test_a_share_without_a_known_chance_is_inconclusive():
    assert judge_share(40, 40, []) == "inconclusive"


FIGURES = "0.12345 0.123  26.64 26.6  1010.4 1,010  6.7e109 6.7e+109  -2e9 -2e+09  nan –  inf ∞"


@pytest.mark.parametrize("figure", FIGURES.split("  "))
def test_a_figure_has_three_digits(figure):
    value, text = figure.split()
    assert format_figure(float(value)) == text


@pytest.mark.parametrize("n", [1, 2, 7, 40, 41, 1000])
def test_an_interval_of_hits_has_the_bits_of_scipy(n):
    for hits in range(0, n + 1, 1 + n // 50):
        interval = binomtest(hits, n).proportion_ci(method="wilson")
        expected = (100 * hits / n, 100 * interval.low, 100 * interval.high)
        assert compute_percent_and_wilson_interval(hits, n) == expected


def test_half_an_interval_of_a_mean_has_the_bits_of_scipy():
    for n in range(2, 50):
        values = np.sqrt(np.arange(n))
        expected = t.ppf(0.975, n - 1) * np.std(values, ddof=1) / np.sqrt(n)
        assert compute_ci95_half_width(values) == expected


def test_wilson():
    assert compute_percent_and_wilson_interval(0, 40)[2] == pytest.approx(8.762, abs=1e-3)
    assert compute_percent_and_wilson_interval(0, 120)[2] == pytest.approx(3.102, abs=1e-3)
    assert compute_percent_and_wilson_interval(0, 40)[1] == 0
    assert compute_percent_and_wilson_interval(40, 40)[2] == 100
    assert math.isnan(compute_percent_and_wilson_interval(0, 0)[0])


MODELS = """
11.2    19.7    -      good
0.7     1.0     -      good
0.71    1.0     -      useful
0.5     1.0     worse  useful
16.7    15.1    -      not useful
15.1    15.1    -      not useful
inf     15.1    -      diverged
nan     15.1    -      diverged
1000.1  2000.0  -      diverged
"""
"""error, that of a constant, whether a law of three numbers beats the map, and the verdict"""


@pytest.mark.parametrize("value, constant, law, verdict", read_cells(MODELS))
def test_models(value, constant, law, verdict):
    assert judge_error(float(value), float(constant), False if law == "worse" else None) == verdict


DISTANCES = """
-300  -270  found
-300  1     inconclusive
-20   20    at chance
-22   20    inconclusive
30    50    at chance
nan   nan   inconclusive
"""


@pytest.mark.parametrize("low, high, verdict", read_cells(DISTANCES))
def test_distances(low, high, verdict):
    assert judge_distance(float(low), float(high), 211.0) == verdict


SW1 = """
176  344  556  60   found
400  344  556  60   at chance
600  344  556  60   inconclusive
298  260  400  301  inconclusive
"""
"""distance, 5 % and 95 % quantiles of random guesses, distance of true centroids, and the
verdict"""


@pytest.mark.parametrize("row", read_cells(SW1))
def test_sliced_wasserstein_distances(row):
    *figures, verdict = row
    assert judge_sw1(*map(float, figures)) == verdict


@pytest.mark.parametrize(
    "low, high, verdict",
    cases("""
50.1, 60.0, "found"
49.0, 55.0, "at chance"
49.0, 56.0, "inconclusive"
"""),
)
def test_areas(low, high, verdict):
    assert judge_interval(low, high, 50.0) == verdict


def test_epsilons():
    assert judge_epsilon(20.0) == ""
    assert judge_epsilon(20.1) == judge_epsilon(math.inf) == "no meaningful guarantee"


def test_prevented_needs_a_useful_model_and_a_variant_that_is_found():
    for model in ("good", "useful"):
        assert judge_prevention("at chance", model, True) == "prevented"
    for model in ("not useful", "diverged", ""):
        assert judge_prevention("at chance", model, True) == "at chance"
    for verdict in ("found", "inconclusive"):
        assert judge_prevention(verdict, "good", True) == verdict
    assert judge_prevention("at chance", "good", False) == "at chance"


def test_an_interval_is_written_where_its_ends_differ():
    assert Line("x", "m", 12.34, 11.0, 13.5).result == "12.3 [11, 13.5]"
    assert Line("x", "m", 12.34, 12.341, 12.342).result == Line("x", "m", 12.34).result == "12.3"
    assert Line("x", "", 50.0, 9.49, 90.5, hits=1, n=2).result == "1/2 [9.49, 90.5 %]"
