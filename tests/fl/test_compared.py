"""The table `tracking` of one round, column by column, from its definitions."""

import numpy as np
import pytest

from fl.leakage.tracks import Whereabouts
from fl.round.leaked import compared
from fl.tracking.belief import Belief
from fl.tracking.place_grid import PlaceGrid
from fl.types import Estimates
from netsim.geometry import Area

GRID = PlaceGrid(Area(0.0, 0.0, 1100.0, 1000.0), 11, 10)
NEAR_M = 40.0
"""within a cell of 100 m a side: a disc around its middle holds a share of this cell alone"""
SHARE = np.pi * NEAR_M**2 / 100.0**2


def cell(x_m, y_m):
    return int(GRID.nearest(np.array([[x_m, y_m]]))[0])


def belief():
    """Humps at both ends of a line and some between: the median lies where no disc holds most."""
    p = np.zeros((2, len(GRID)), dtype=np.float32)
    p[0, [cell(150, 450), cell(550, 450), cell(850, 450), cell(950, 450)]] = 0.4, 0.2, 0.2, 0.2
    p[1, [cell(150, 850), cell(450, 150)]] = 0.7, 0.3
    prior = np.zeros(len(GRID), dtype=np.float32)
    prior[[cell(150, 450), cell(450, 450), cell(750, 450), cell(850, 450)]] = 0.4, 0.25, 0.2, 0.15
    return Belief(3, 1800.0, np.array([4, 9]), GRID, p, prior)


def row(truth_m, plain_m=None):
    """That of UE 4, which is truly there; UE 7 was measured and is unknown, UE 9 the other way round."""
    there = Whereabouts(np.array([3, 3]), np.array([4, 7]), np.array([truth_m, [0.0, 0.0]]))
    plain = None
    if plain_m is not None:
        n = np.zeros(2, int)
        plain = Estimates(
            np.array([9, 4]), n, ["plain", "plain"], np.array([[1.0, 1.0], plain_m]), np.ones(2), np.zeros(2), n, n,
            ["ok", "ok"],
        )  # fmt: skip
    found = compared("tracker", belief(), there, plain, NEAR_M, hindsight=False)
    assert found["ue"].tolist() == [4] and found["round"] == [3] and found["time_s"] == [1800.0]
    return {key: values[0] for key, values in found.items()}


def distance_m(place_m):
    """To the middles of all cells; of a cell to itself 0.3826 of its side."""
    away = np.linalg.norm(GRID.place_m - np.asarray(place_m), axis=1)
    return np.where(away < 1.0, 38.26, away)


@pytest.mark.parametrize(
    ("truth_m", "of_answer", "of_disc"),
    [((150.0, 470.0), False, True), ((550.0, 470.0), True, False), ((350.0, 450.0), False, False)],
)
def test_success_is_that_of_the_disc_and_error_that_of_the_answer(truth_m, of_answer, of_disc):
    """The answer of least distance is the middle of the line, and the disc that holds most is at its end."""
    found = row(truth_m)
    assert (found["x_m"], found["y_m"]) == pytest.approx((550.0, 450.0), abs=10.0)  # finer than cells
    assert (found["disc_x_m"], found["disc_y_m"]) == (150.0, 450.0)
    assert found["disc_probability"] == pytest.approx(0.4 * SHARE, rel=0.03)
    assert found["error_m"] == pytest.approx(np.hypot(truth_m[0] - 550, truth_m[1] - 450), abs=10.0)
    assert (found["error_m"] <= NEAR_M) == of_answer and found["near"] == of_disc


def test_what_is_stated_is_the_mean_over_the_belief_and_what_is_true_the_mean_to_the_truth():
    found, p = row((550.0, 470.0)), belief().probability[0]
    assert found["stated_error_m"] == pytest.approx(p @ distance_m([550, 450]), rel=1e-4)
    assert found["expected_distance_m"] == pytest.approx(p @ np.hypot(*(GRID.place_m - [550.0, 470.0]).T), abs=8.0)
    assert found["entropy_bits"] == pytest.approx(-sum(x * np.log2(x) for x in (0.4, 0.2, 0.2, 0.2)), abs=1e-5)
    assert found["area50_m2"] < found["area90_m2"]


def test_a_truth_is_in_the_area_of_half_only_where_belief_is_highest():
    for truth_m, in50, in90 in (((150.0, 450.0), 1, 1), ((350.0, 450.0), 0, 0)):
        found = row(truth_m)
        assert (found["in50"], found["in90"]) == (in50, in90)
        assert found["prior_expected_distance_m"] == pytest.approx(belief().prior @ distance_m(truth_m), rel=1e-3)
    two = belief().only(np.array([1]))  # 0.7 and 0.3: the second is in the area of 90 % alone
    there = Whereabouts(np.array([3]), np.array([9]), np.array([[450.0, 150.0]]))
    found = compared("tracker", two, there, None, NEAR_M, hindsight=True)
    assert (found["in50"][0], found["in90"][0], found["hindsight"][0]) == (False, True, True)
