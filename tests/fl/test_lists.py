"""Lists of places of nobody in particular: precision, coverage, and what chance reaches."""

import numpy as np
import pytest

from fl.attacks.place_maps import KeptNumbers, PlaceMaps
from fl.leakage.chance import buildings_score, listed_score, most_named, scores, uniform_score
from fl.leakage.leakage import Leakage
from netsim.geometry import Area
from netsim.mobility.base import Places

AREA = Area(0.0, 0.0, 2000.0, 1500.0)
TRUE = np.array([[300.0, 300.0], [1000.0, 700.0], [1010.0, 700.0], [1990.0, 1490.0]])


def drawn_score(draw, radius_m, count, tries=10_000):
    """Mean precision and coverage of lists drawn at random."""
    rng = np.random.default_rng(1)
    return np.mean([listed_score(draw(rng, count), TRUE, radius_m, count) for _ in range(tries)], axis=0)


class TestScores:
    def test_a_planted_list(self):
        listed_m = np.array([[310.0, 300.0], [1005.0, 700.0], [50.0, 50.0]])
        assert listed_score(listed_m, TRUE, 20.0, 4).tolist() == [2 / 4, 3 / 4]  # the fourth is missing: wrong

    def test_uniform_places_find_one_disc_by_its_area(self):
        share = np.pi * 50**2 / (2000 * 1500)
        assert uniform_score(TRUE[:1], AREA, 50.0, 8) == pytest.approx([share, 1 - (1 - share) ** 8], rel=5e-4)

    def test_middles_of_buildings_as_drawn_by_floor_area(self):
        middle_m, weight = np.random.default_rng(2).uniform(0, 1500, (40, 2)), np.arange(1.0, 41.0)
        found = drawn_score(lambda rng, n: middle_m[rng.choice(40, n, p=weight / weight.sum())], 250.0, 5)
        expected = buildings_score(TRUE, np.column_stack([middle_m, weight]), 250.0, 5)
        assert expected == pytest.approx(found, rel=0.05)

    def test_rows_hold_the_same_list_against_those_who_take_part_and_those_who_do_not(self):
        home_m, work_m = TRUE[:2], np.array([[np.nan, np.nan], [1500.0, 200.0]])
        town = {"participants": Places(home_m, work_m), "aside": Places(TRUE[2:], np.full((2, 2), np.nan))}
        how = Leakage(list_places=2, list_hit_radius_m=25.0)
        rows = list(scores({"a": home_m}, town, AREA, np.zeros((0, 3)), how))
        assert [(row["source"], row["attack"], row["residents"]) for row in rows] == [
            ("attack", "a", "participants"), ("uniform", "", "participants"),
            ("attack", "a", "aside"), ("uniform", "", "aside"),
        ]  # fmt: skip
        assert [(rows[k]["precision_percent"], rows[k]["coverage_percent"]) for k in (0, 2)] == [
            (100, pytest.approx(200 / 3)), (50, 50),
        ]  # fmt: skip


class TestLists:
    def test_the_best_places_of_all_maps_added_up(self):
        """Each of two maps is highest elsewhere; their sum where both are high."""
        score = np.zeros((2, 4, 4), dtype=np.float32)
        score[0, 0, 0], score[1, 3, 3], score[:, 1, 2] = 3, 2.5, 2
        maps = PlaceMaps(np.array([4, 9]), score.reshape(2, 16))
        area = Area(0.0, 0.0, 400.0, 400.0)
        found = KeptNumbers(cell_m=100.0, apart_m=100.0).best_of_all(maps, area, 3)
        assert found.tolist() == [[250, 150], [50, 50], [350, 350]]

    def test_of_an_attack_without_maps_where_most_of_what_it_names_lies(self):
        at = [(300.0, 300.0), (310.0, 300.0), (305.0, 295.0), (1000.0, 700.0), (1001.0, 700.0), (50.0, 1400.0)]
        named = [{"attack": "a", "x_m": x, "y_m": y} for x, y in at] + [{"attack": "b", "x_m": 9.0, "y_m": 9.0}]
        found = most_named(named, "a", AREA, Leakage(list_places=2))
        assert found == pytest.approx(np.array([[305.0, 300.0], [1000.0, 700.0]]), abs=25)
