"""The rule of every verdict, with its borders, and figures as people read them."""

import math

import pytest

from scenarios.app.results.statistics import figure_text, wilson
from scenarios.app.results.table import (
    Line,
    of_distance,
    of_epsilon,
    of_error,
    of_interval,
    of_share,
    of_sw1,
    prevents,
)


@pytest.mark.parametrize(
    ("hits", "n", "chances", "verdict"),
    [
        (39, 40, [1.7], "found"),
        (0, 40, [1.7], "inconclusive"),  # its upper end is 8.8 %
        (0, 120, [1.7], "at chance"),  # 3.1 %
        (0, 1, [1.7], "inconclusive"),  # 79 %
        (1, 12, [1.7, math.nan], "inconclusive"),  # five points above chance are not enough
        (29, 31, [2.0, 4.0], "found"),
        (5, 100, [10.0], "at chance"),
        (12, 100, [1.0, 8.0], "inconclusive"),  # the largest chance counts
        (20, 100, [1.0, 8.0], "found"),
        (1, 10, [1.47], "inconclusive"),  # by chance 14 %, though Wilson's interval begins at 1.8 %
        (2, 10, [1.47], "found"),  # 0.9 %
        (1, 1, [2.08], "found"),
        (1, 1, [5.1], "inconclusive"),
        (1, 3, [0.0], "found"),
        (0, 0, [1.0], "inconclusive"),
        (40, 40, [], "inconclusive"),  # no chance is known
        (40, 40, [math.nan], "inconclusive"),
    ],
)
def test_shares_of_all_seeds(hits, n, chances, verdict):
    assert of_share(hits, n, chances) == verdict


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.12345, "0.123"),
        (26.64, "26.6"),
        (1010.4, "1,010"),
        (6.7e109, "6.7e+109"),
        (-2e9, "-2e+09"),
        (math.nan, "–"),
        (math.inf, "∞"),
    ],
)
def test_a_figure_has_three_digits(value, text):
    assert figure_text(value) == text


def test_wilson():
    assert wilson(0, 40)[2] == pytest.approx(8.762, abs=1e-3)
    assert wilson(0, 120)[2] == pytest.approx(3.102, abs=1e-3)
    assert wilson(0, 40)[1] == 0
    assert wilson(40, 40)[2] == 100
    assert math.isnan(wilson(0, 0)[0])


@pytest.mark.parametrize(
    ("value", "constant", "good", "verdict"),
    [
        (11.2, 19.7, None, "good"),
        (0.7, 1.0, None, "good"),
        (0.71, 1.0, None, "useful"),
        (0.5, 1.0, False, "useful"),  # worse than a law of three numbers
        (16.7, 15.1, None, "not useful"),
        (15.1, 15.1, None, "not useful"),
        (math.inf, 15.1, None, "diverged"),
        (math.nan, 15.1, None, "diverged"),
        (1000.1, 2000.0, None, "diverged"),
    ],
)
def test_models(value, constant, good, verdict):
    assert of_error(value, constant, good) == verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-300.0, -270.0, "found"),
        (-300.0, 1.0, "inconclusive"),
        (-20.0, 20.0, "at chance"),  # of 211 m
        (-22.0, 20.0, "inconclusive"),
        (30.0, 50.0, "at chance"),
        (math.nan, math.nan, "inconclusive"),
    ],
)
def test_distances(low, high, verdict):
    assert of_distance(low, high, 211.0) == verdict


def test_sliced_wasserstein_distances():
    assert of_sw1(176.0, 344.0, 556.0, 60.0) == "found"
    assert of_sw1(400.0, 344.0, 556.0, 60.0) == "at chance"
    assert of_sw1(600.0, 344.0, 556.0, 60.0) == "inconclusive"
    assert of_sw1(298.0, 260.0, 400.0, 301.0) == "inconclusive"  # true centroids are no better


def test_areas_and_epsilons():
    assert [
        of_interval(low, high, 50.0) for low, high in ((50.1, 60.0), (49.0, 55.0), (49.0, 56.0))
    ] == [
        "found",
        "at chance",
        "inconclusive",
    ]
    assert [of_epsilon(v) for v in (20.0, 20.1, math.inf)] == [
        "",
        "no meaningful guarantee",
        "no meaningful guarantee",
    ]


def test_prevented_needs_a_useful_model_and_a_variant_that_is_found():
    assert [
        prevents("at chance", m, True) for m in ("good", "useful", "not useful", "diverged", "")
    ] == [
        "prevented",
        "prevented",
        "at chance",
        "at chance",
        "at chance",
    ]
    assert prevents("found", "good", True) == "found"
    assert prevents("inconclusive", "good", True) == "inconclusive"
    assert prevents("at chance", "good", False) == "at chance"


def test_an_interval_is_written_where_its_ends_differ():
    assert Line("x", "m", 12.34, 11.0, 13.5).result == "12.3 [11, 13.5]"
    assert Line("x", "m", 12.34, 12.341, 12.342).result == Line("x", "m", 12.34).result == "12.3"
    assert Line("x", "", 50.0, 9.49, 90.5, hits=1, n=2).result == "1/2 [9.49, 90.5 %]"
