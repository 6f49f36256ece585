"""What a round leaks: the table `tracking` from its definitions, lists of places against chance,
and a run in two."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from arrays import read_array
from interrupted import run_in_two
from numpy.random import default_rng
from pytest import approx, mark
from tabled import cases

from benchmarks.growth import Work, document
from fl.attacks.place_maps import NeuronVotes, PlaceMaps
from fl.leakage.chance import (
    find_named_peaks,
    score_buildings,
    score_list,
    score_uniform_places,
    tabulate_list_scores,
)
from fl.leakage.distances import project_points
from fl.leakage.leakage import Leakage, is_due
from fl.leakage.tracks import Track, Whereabouts
from fl.round.leaked import tabulate_tracking
from fl.tracking.belief import Belief
from fl.tracking.place_grid import PlaceGrid
from netsim.geometry import Area
from netsim.mobility.base import Places
from scenarios import load, run

GRID = PlaceGrid(Area(0.0, 0.0, 1100.0, 1000.0), 11, 10)
NEAR_M = 40.0
"""within a cell of 100 m a side: a disc around its middle holds a share of this cell alone"""
SHARE = np.pi * NEAR_M**2 / 100.0**2


def cell(x_m, y_m):
    return int(GRID.find_cells(np.array([[x_m, y_m]]))[0])


def belief():
    """Humps at both ends of a line and some between: the median lies where no disc holds most."""
    p = np.zeros((2, len(GRID)), dtype=np.float32)
    p[0, [cell(150, 450), cell(550, 450), cell(850, 450), cell(950, 450)]] = 0.4, 0.2, 0.2, 0.2
    p[1, [cell(150, 850), cell(450, 150)]] = 0.7, 0.3
    prior = np.zeros(len(GRID), dtype=np.float32)
    prior[[cell(150, 450), cell(450, 450), cell(750, 450), cell(850, 450)]] = 0.4, 0.25, 0.2, 0.15
    return Belief(3, 1800.0, read_array("4 9"), GRID, p, prior)


def row(truth_m):
    """That of UE 4, which is truly there; UE 7 was measured and is unknown, UE 9 the other way
    round."""
    is_present = Whereabouts(read_array("3 3"), read_array("4 7"), np.array([truth_m, [0.0, 0.0]]))
    result = tabulate_tracking("tracker", belief(), is_present, None, NEAR_M)
    assert result["ue"].tolist() == [4]
    assert result["round"] == [3]
    assert result["time_s"] == [1800.0]
    return {key: values[0] for key, values in result.items()}


def distance_m(place_m):
    """To the middles of all cells; of a cell to itself 0.3826 of its side."""
    away = np.linalg.norm(GRID.place_m - np.asarray(place_m), axis=1)
    return np.where(away < 1.0, 38.26, away)


@mark.parametrize(
    ("truth_m", "of_answer", "of_disc"),
    cases("""
    (150.0, 470.0), False, True
    (550.0, 470.0), True, False
    (350.0, 450.0), False, False
"""),
)
def test_success_is_that_of_the_disc_and_error_that_of_the_answer(truth_m, of_answer, of_disc):
    """The answer of least distance is the middle of the line, and the disc that holds most is at
    its end."""
    result = row(truth_m)
    assert (result["x_m"], result["y_m"]) == approx((550.0, 450.0), abs=10.0)  # finer than cells
    assert (result["disc_x_m"], result["disc_y_m"]) == (150.0, 450.0)
    assert result["disc_probability"] == approx(0.4 * SHARE, rel=0.03)
    expected = np.hypot(truth_m[0] - 550, truth_m[1] - 450)
    assert result["error_m"] == approx(expected, abs=10.0)
    assert (result["error_m"] <= NEAR_M) == of_answer
    assert result["near"] == of_disc


def test_what_is_stated_is_the_mean_over_the_belief_and_what_is_true_the_mean_to_the_truth():
    result = row((550.0, 470.0))
    p = belief().probability[0]
    assert result["stated_error_m"] == approx(p @ distance_m([550, 450]), rel=1e-4)
    expected = p @ np.hypot(*(GRID.place_m - [550.0, 470.0]).T)
    assert result["expected_distance_m"] == approx(expected, abs=8.0)
    expected = -sum(x * np.log2(x) for x in (0.4, 0.2, 0.2, 0.2))
    assert result["entropy_bits"] == approx(expected, abs=1e-5)
    assert result["area50_m2"] < result["area90_m2"]


def test_a_truth_is_in_the_area_of_half_only_where_belief_is_highest():
    for truth_m, in50, in90 in (((150.0, 450.0), 1, 1), ((350.0, 450.0), 0, 0)):
        result = row(truth_m)
        assert (result["in50"], result["in90"]) == (in50, in90)
        assert result["prior_expected_distance_m"] == approx(
            belief().prior @ distance_m(truth_m), rel=1e-3
        )
    two = belief().select_ues(np.array([1]))  # 0.7 and 0.3: the second is in the area of 90 % alone
    is_present = Whereabouts(np.array([3]), np.array([9]), read_array("450.0 150;"))
    result = tabulate_tracking("tracker", two, is_present, None, NEAR_M)
    assert (result["in50"][0], result["in90"][0], result["hindsight"][0]) == (False, True, True)


def test_a_projection_has_the_same_bits_whatever_stands_beside_it():
    points = default_rng(4).normal(0, 300, (257, 2))
    whole = project_points(points, 90)
    for first, end in ((0, 1), (3, 4), (10, 21), (100, 257)):
        expected = project_points(points[first:end], 90).tobytes()
        assert whole[:, first:end].tobytes() == expected


def test_a_run_that_goes_on_has_the_bytes_of_one_that_never_stopped(tmp_path, table_bytes):
    target = document(Work(8, 2, 2))
    del target["learning"]["defenses"][1]
    (file := tmp_path / "s.yaml").write_text(json.dumps(target))
    study = load(str(file))
    run(study, tmp_path / "whole")
    run_in_two(study, tmp_path / "two", lambda progress: progress.done == 4)
    assert table_bytes(tmp_path / "two") == table_bytes(tmp_path / "whole")


# -- lists of places of nobody in particular: precision, coverage, and what chance reaches

AREA = Area(0.0, 0.0, 2000.0, 1500.0)
TRUE = read_array("300.0 300; 1000 700; 1010 700; 1990 1490")


def draw_score(draw, radius_m, count, tries=4_000):
    """Mean precision and coverage of lists drawn at random."""
    rng = default_rng(1)
    return np.mean(
        [score_list(draw(rng, count), TRUE, radius_m, count) for _ in range(tries)], axis=0
    )


class TestScores:
    def test_a_planted_list(self):
        listed_m = read_array("310.0 300; 1005 700; 50 50")
        assert score_list(listed_m, TRUE, 20.0, 4).tolist() == [
            2 / 4,
            3 / 4,
        ]  # the fourth is missing: wrong

    def test_uniform_places_find_one_disc_by_its_area(self):
        share = np.pi * 50**2 / (2000 * 1500)
        expected = [share, 1 - (1 - share) ** 8]
        assert score_uniform_places(TRUE[:1], AREA, 50.0, 8) == approx(expected, rel=5e-4)

    def test_middles_of_buildings_as_drawn_by_floor_area(self):
        middle_m = default_rng(2).uniform(0, 1500, (40, 2))
        weight = np.arange(1.0, 41.0)
        result = draw_score(
            lambda rng, n: middle_m[rng.choice(40, n, p=weight / weight.sum())], 250.0, 5
        )
        expected = score_buildings(TRUE, np.column_stack([middle_m, weight]), 250.0, 5)
        assert expected == approx(result, rel=0.05)

    def test_rows_hold_the_same_list_against_those_who_take_part_and_those_who_do_not(self):
        home_m = TRUE[:2]
        work_m = np.array([[np.nan, np.nan], [1500.0, 200.0]])
        town = {
            "participants": Places(home_m, work_m),
            "aside": Places(TRUE[2:], np.full((2, 2), np.nan)),
        }
        settings = Leakage(list_places=2, list_hit_radius_m=25.0)
        rows = list(tabulate_list_scores({"a": home_m}, town, AREA, np.zeros((0, 3)), settings))
        expected = [
            ("attack", "a", "participants"),
            ("uniform", "", "participants"),
            ("attack", "a", "aside"),
            ("uniform", "", "aside"),
        ]
        assert [(row["source"], row["attack"], row["residents"]) for row in rows] == expected
        expected = [
            (100, approx(200 / 3)),
            (50, 50),
        ]
        assert [
            (rows[k]["precision_percent"], rows[k]["coverage_percent"]) for k in (0, 2)
        ] == expected


class TestLists:
    def test_the_best_places_of_all_maps_added_up(self):
        """Each of two maps is highest elsewhere; their sum where both are high."""
        score = np.zeros((2, 4, 4), dtype=np.float32)
        score[0, 0, 0] = 3
        score[1, 3, 3] = 2.5
        score[:, 1, 2] = 2
        maps = PlaceMaps(read_array("4 9"), score.reshape(2, 16))
        area = Area(0.0, 0.0, 400.0, 400.0)
        result = NeuronVotes(cell_m=100.0, apart_m=100.0, width_m=1.0).find_best_of_all(
            maps, area, 3
        )
        assert result.tolist() == [[250, 150], [50, 50], [350, 350]]

    def test_of_an_attack_without_maps_where_most_of_what_it_names_lies(self):
        place = [
            (300.0, 300.0),
            (310.0, 300.0),
            (305.0, 295.0),
            (1000.0, 700.0),
            (1001.0, 700.0),
            (50.0, 1400.0),
        ]
        named = [{"attack": "a", "x_m": x, "y_m": y} for x, y in place] + [
            {"attack": "b", "x_m": 9.0, "y_m": 9.0}
        ]
        result = find_named_peaks(named, "a", AREA, Leakage(list_places=2))
        assert result == approx(read_array("305.0 300; 1000 700"), abs=25)


@mark.parametrize("every", [1, 3, 4])
def test_leakage_is_measured_once_in_each_block_of_rounds_whoever_was_there(every):
    """Of two UEs in turn: one that was not there in the last measured round changes nothing."""
    settings = Leakage(every_rounds=every)
    tracks = {(ue, 0): Track.empty() for ue in (0, 1)}
    measured = []
    for number in range(1, 25):
        current = SimpleNamespace(round=number, last=False, heard=number != 8, names_end=0)
        if is_due(settings, tracks, current):
            measured.append(number)
            owner = (len(measured) % 2, 0)
            tracks[owner] = replace(tracks[owner], compared=number)
    blocks = {}
    for number in range(1, 25):
        if number != 8 or every == 1:
            blocks.setdefault(number // every, number)
    assert measured == list(blocks.values())
