"""What is named from beliefs, against slow searches over all places."""

import numpy as np
import pytest

from fl.tracking.belief import (
    Memory,
    answers,
    disc_shares,
    expected_distance_m,
    in_area,
    probability_within,
)
from fl.tracking.place_grid import PlaceGrid
from netsim.geometry import Area

AREA = Area(-500.0, 200.0, 3500.0, 2700.0)
GRID = PlaceGrid.over(AREA, 50.0, 1, "test")
DRAW = np.random.default_rng(5)


def beliefs(n=12):
    """Humps of several widths on a floor, as filters leave them."""
    p = np.full((n, len(GRID)), 1e-6)
    for i in range(n):
        for _ in range(1 + i % 3):
            at = AREA.sample(DRAW.uniform(size=(1, 2)))
            width = 10 ** DRAW.uniform(1, 2.7)
            p[i] += (
                DRAW.uniform()
                * np.exp(-((GRID.place_m - at) ** 2).sum(axis=1) / (2 * width**2))
                / width**2
                * 2500
            )
    return (p / p.sum(axis=1, keepdims=True)).astype(np.float32)


def distance(a, b):
    own = 0.3826**2 * GRID.cell_m.prod()
    return np.sqrt(np.maximum(((a[:, None] - b) ** 2).sum(axis=2), own))


P = beliefs()
SAID = answers(P, GRID, 100.0)


def test_no_cell_has_a_smaller_expected_distance():
    slow = P.astype(np.float64) @ distance(GRID.place_m, GRID.place_m).T
    assert (slow.min(axis=1) >= SAID.stated_error_m - 1.0).all()
    of_answer = (P * distance(SAID.place_m, GRID.place_m)).sum(axis=1)
    assert SAID.stated_error_m == pytest.approx(of_answer, rel=1e-5)


def test_no_disc_holds_more():
    slow = np.stack(
        [probability_within(P, GRID, np.tile(at, (len(P), 1)), 100.0) for at in GRID.place_m],
        axis=1,
    )
    assert (SAID.disc_probability >= 0.98 * slow.max(axis=1)).all()
    assert (SAID.disc_probability <= slow.max(axis=1) * (1 + 1e-5)).all()
    around = np.take_along_axis(slow, GRID.nearest(SAID.place_m)[:, None], axis=1)[:, 0]
    best = np.where(
        around >= 0.98 * slow.max(axis=1), GRID.nearest(SAID.place_m), slow.argmax(axis=1)
    )
    assert GRID.nearest(SAID.disc_m).tolist() == best.tolist()
    assert (
        len(set(GRID.nearest(SAID.disc_m)) - set(GRID.nearest(SAID.place_m))) > 1
    )  # some discs lie elsewhere


def test_an_answer_in_the_cell_of_an_estimate_is_that_estimate():
    exact = GRID.place_m[GRID.nearest(SAID.place_m)] + np.array([7.0, -9.0])
    points = np.stack([np.full_like(exact, np.nan), exact, exact + 3.0], axis=1)
    points[0] = np.nan  # nothing was estimated
    points[1] += 500.0  # elsewhere
    points[2, 1] = -1e6  # outside of the area: the next one counts
    said = answers(P, GRID, 100.0, points)
    assert said.place_m[:2].tolist() == SAID.place_m[:2].tolist()
    assert said.place_m[2].tolist() == points[2, 2].tolist()
    assert said.place_m[3:].tolist() == exact[3:].tolist()
    assert said.stated_error_m.tolist() == SAID.stated_error_m.tolist()


@pytest.mark.parametrize("cell_m", [250.0, 900.0, 9000.0])
def test_a_disc_within_one_cell_holds_its_share_of_the_likeliest(cell_m):
    grid = PlaceGrid.over(AREA, cell_m, 1, "test")
    p = np.arange(1, len(grid) + 1, dtype=np.float32)
    p /= p.sum()
    said = answers(np.stack([p, np.full_like(p, 1 / len(grid))]), grid, 100.0)
    share = disc_shares(grid, 100.0).max()
    assert share == pytest.approx(np.pi * 100**2 / grid.cell_m.prod(), abs=0.01)
    assert said.disc_probability == pytest.approx([share * p.max(), share / len(grid)])
    assert said.disc_m[0] == pytest.approx(grid.place_m[-1])


@pytest.mark.parametrize(
    ("wanted", "area", "least"), [(0.5, "area50_m2", "least50"), (0.9, "area90_m2", "least90")]
)
def test_credible_areas_are_the_smallest(wanted, area, least):
    ordered = -np.sort(-P.astype(np.float64), axis=1)
    cells = 1 + (np.cumsum(ordered, axis=1) < wanted).sum(axis=1)
    assert getattr(SAID, area) / GRID.cell_m.prod() == pytest.approx(cells, rel=0.02, abs=1)
    held = np.where(getattr(SAID, least)[:, None] <= P, P, 0).sum(axis=1)
    assert (held >= wanted - 1e-6).all()


def test_a_truth_is_covered_as_often_as_stated():
    """Truths drawn from the beliefs themselves lie in the areas with their probability."""
    p = P.astype(np.float64) / P.sum(axis=1, keepdims=True, dtype=np.float64)
    many = np.concatenate([DRAW.choice(len(GRID), size=400, p=row) for row in p])
    again = np.repeat(np.arange(len(P)), 400)
    for wanted, least in ((0.5, SAID.least50), (0.9, SAID.least90)):
        inside = in_area(P[again], GRID, GRID.place_m[many], least[again])
        assert wanted - 0.03 < inside.mean() < wanted + 0.06  # cells are whole


def test_expected_distance_to_a_place():
    at = AREA.sample(DRAW.uniform(size=(len(P), 2)))
    slow = (P * distance(at, GRID.place_m)).sum(axis=1)
    assert expected_distance_m(P, GRID, at) == pytest.approx(slow, rel=1e-5)
    assert answers(P[:0], GRID, 100.0).place_m.shape == (0, 2)


# -- whether memory helps, told by the next estimates


UES = np.arange(5)
WALK = np.random.default_rng(0)


def played(rounds, answer):
    """UEs that walk, with estimates of 100 m; answer(truth, estimate, before) : what is
    believed."""
    memory = Memory()
    at_m = WALK.uniform(0, 5000, (5, 2))
    before_m = np.zeros((5, 2))
    for number in range(rounds):
        before_m = at_m
        at_m = at_m + WALK.normal(0, 50, (5, 2))
        point_m = at_m + WALK.normal(0, 100, (5, 2))
        memory = memory.plus(number, UES, answer(at_m, point_m, before_m), point_m)
    return memory


def test_answers_nearer_to_the_truth_help_and_those_that_stay_behind_mislead():
    memory = played(60, lambda truth, point, before: 0.5 * (truth + point))
    assert memory.total_m < 0
    assert not memory.misleads
    assert played(60, lambda truth, point, before: point + np.array([300.0, 0.0])).misleads


def test_terms_are_of_successive_rounds_and_of_ues_in_both():
    two = np.array([1, 4])
    three = np.array([1, 2, 4])
    none = np.full(2, np.nan)
    memory = Memory().plus(3, two, np.array([[0.0, 0], [10, 0]]), np.array([[3.0, 4], [0, 0]]))
    memory = memory.plus(4, three, np.zeros((3, 2)), np.array([[6.0, 8], [1, 1], none]))
    assert memory.count == 1
    assert memory.total_m == pytest.approx(10 - 5)
    assert memory.square_m2 == pytest.approx(25)
    assert memory.plus(4, two, np.zeros((2, 2)), np.ones((2, 2))) is memory  # a second look
    assert memory.plus(6, two, np.zeros((2, 2)), np.ones((2, 2))).count == 1  # a round was left out
