"""What is named from beliefs, against slow searches over all places."""

import numpy as np
from numpy.random import default_rng
from pytest import approx, mark

from fl.tracking.belief import (
    Memory,
    answer_beliefs,
    compute_disc_shares,
    compute_expected_distances_m,
    compute_probability_within,
    is_in_credible_area,
)
from fl.tracking.place_grid import PlaceGrid
from netsim.geometry import Area

AREA = Area(-500.0, 200.0, 3500.0, 2700.0)
GRID = PlaceGrid.from_area(AREA, 50.0, 1, "test")
DRAW = default_rng(5)


def beliefs(n=12):
    """Humps of several widths on a floor, as filters leave them."""
    p = np.full((n, len(GRID)), 1e-6)
    for i in range(n):
        for _ in range(1 + i % 3):
            place_m = AREA.sample(DRAW.uniform(size=(1, 2)))
            width = 10 ** DRAW.uniform(1, 2.7)
            square = ((GRID.place_m - place_m) ** 2).sum(axis=1)
            hump = np.exp(-square / (2 * width**2))
            p[i] += DRAW.uniform() * hump / width**2 * 2500
    return (p / p.sum(axis=1, keepdims=True)).astype(np.float32)


def distance(a, b):
    min_square_m2 = 0.3826**2 * GRID.cell_m.prod()
    return np.sqrt(np.maximum(((a[:, None] - b) ** 2).sum(axis=2), min_square_m2))


P = beliefs()
SAID = answer_beliefs(P, GRID, 100.0)


def test_no_cell_has_a_smaller_expected_distance():
    slow = P.astype(np.float64) @ distance(GRID.place_m, GRID.place_m).T
    assert (slow.min(axis=1) >= SAID.stated_error_m - 1.0).all()
    of_answer = (P * distance(SAID.place_m, GRID.place_m)).sum(axis=1)
    assert SAID.stated_error_m == approx(of_answer, rel=1e-5)


def test_no_disc_holds_more():
    masses = [
        compute_probability_within(P, GRID, np.tile(place_m, (len(P), 1)), 100.0)
        for place_m in GRID.place_m
    ]
    slow = np.stack(masses, axis=1)
    most = slow.max(axis=1)
    assert (SAID.disc_probability >= 0.98 * most).all()
    assert (SAID.disc_probability <= most * (1 + 1e-5)).all()
    cell = GRID.find_cells(SAID.place_m)
    around = slow[np.arange(len(P)), cell]
    best = np.where(around >= 0.98 * most, cell, slow.argmax(axis=1))
    disc = GRID.find_cells(SAID.disc_m)
    assert disc.tolist() == best.tolist()
    assert len(set(disc) - set(cell)) > 1  # some discs lie elsewhere


def test_an_answer_in_the_cell_of_an_estimate_is_that_estimate():
    exact = GRID.place_m[GRID.find_cells(SAID.place_m)] + np.array([7.0, -9.0])
    points = np.stack([np.full_like(exact, np.nan), exact, exact + 3.0], axis=1)
    points[0] = np.nan  # nothing was estimated
    points[1] += 500.0  # elsewhere
    points[2, 1] = -1e6  # outside of the area: the next one counts
    expected = np.concatenate([SAID.place_m[:2], points[2, [2]], exact[3:]])
    answers = answer_beliefs(P, GRID, 100.0, points)
    assert answers.place_m.tolist() == expected.tolist()
    assert answers.stated_error_m.tolist() == SAID.stated_error_m.tolist()


@mark.parametrize("cell_m", [250.0, 900.0, 9000.0])
def test_a_disc_within_one_cell_holds_its_share_of_the_likeliest(cell_m):
    grid = PlaceGrid.from_area(AREA, cell_m, 1, "test")
    p = np.arange(1, len(grid) + 1, dtype=np.float32)
    p /= p.sum()
    answers = answer_beliefs(np.stack([p, np.full_like(p, 1 / len(grid))]), grid, 100.0)
    share = compute_disc_shares(grid, 100.0).max()
    assert share == approx(np.pi * 100**2 / grid.cell_m.prod(), abs=0.01)
    assert answers.disc_probability == approx([share * p.max(), share / len(grid)])
    assert answers.disc_m[0] == approx(grid.place_m[-1])


@mark.parametrize("mass, percent", [(0.5, 50), (0.9, 90)])
def test_credible_areas_are_the_smallest(mass, percent):
    ordered = -np.sort(-P.astype(np.float64), axis=1)
    cells = 1 + (np.cumsum(ordered, axis=1) < mass).sum(axis=1)
    area_m2 = getattr(SAID, f"area{percent}_m2")
    assert area_m2 / GRID.cell_m.prod() == approx(cells, rel=0.02, abs=1)
    threshold = getattr(SAID, f"least{percent}")[:, None]
    assert (np.where(threshold <= P, P, 0).sum(axis=1) >= mass - 1e-6).all()


def test_a_truth_is_covered_as_often_as_stated():
    """Truths drawn from the beliefs themselves lie in the areas with their probability."""
    p = P.astype(np.float64) / P.sum(axis=1, keepdims=True, dtype=np.float64)
    truth_m = GRID.place_m[np.concatenate([DRAW.choice(len(GRID), 400, p=row) for row in p])]
    again = np.repeat(np.arange(len(P)), 400)
    for mass, threshold in ((0.5, SAID.least50), (0.9, SAID.least90)):
        inside = is_in_credible_area(P[again], GRID, truth_m, threshold[again])
        assert mass - 0.03 < inside.mean() < mass + 0.06  # cells are whole


def test_expected_distance_to_a_place():
    place_m = AREA.sample(DRAW.uniform(size=(len(P), 2)))
    slow = (P * distance(place_m, GRID.place_m)).sum(axis=1)
    assert compute_expected_distances_m(P, GRID, place_m) == approx(slow, rel=1e-5)
    assert answer_beliefs(P[:0], GRID, 100.0).place_m.shape == (0, 2)


# -- whether memory helps, told by the next estimates


UES = np.arange(5)
WALK = default_rng(0)


def play(rounds, answer):
    """UEs that walk, with estimates of 100 m; answer(truth, estimate) : what is believed."""
    memory = Memory()
    place_m = WALK.uniform(0, 5000, (5, 2))
    for number in range(rounds):
        place_m = place_m + WALK.normal(0, 50, (5, 2))
        point_m = place_m + WALK.normal(0, 100, (5, 2))
        memory = memory.add_round(number, UES, answer(place_m, point_m), point_m)
    return memory


def test_answers_nearer_to_the_truth_help_and_those_that_stay_behind_mislead():
    memory = play(60, lambda truth, point: 0.5 * (truth + point))
    assert memory.total_m < 0
    assert not memory.is_misleading
    assert play(60, lambda truth, point: point + np.array([300.0, 0.0])).is_misleading


def test_terms_are_of_successive_rounds_and_of_ues_in_both():
    two = np.array([1, 4])
    three = np.array([1, 2, 4])
    points = np.array([[6.0, 8], [1, 1], [np.nan] * 2])
    memory = Memory().add_round(3, two, np.array([[0.0, 0], [10, 0]]), np.array([[3.0, 4], [0, 0]]))
    memory = memory.add_round(4, three, np.zeros((3, 2)), points)
    assert memory.count == 1
    assert memory.total_m == approx(10 - 5)
    assert memory.square_m2 == approx(25)
    look = (two, np.zeros((2, 2)), np.ones((2, 2)))
    assert memory.add_round(4, *look) is memory  # a second look
    assert memory.add_round(6, *look).count == 1  # a round was left out
