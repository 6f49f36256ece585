"""The places that an attack names of a UE, and what places named by chance find."""

from dataclasses import replace

import numpy as np
import pytest
from estimates import said

from fl.leakage import leakage
from fl.leakage.chance import uniform_shares
from fl.leakage.leakage import ComparedRound, Leakage
from fl.leakage.tracks import answers_of
from fl.types import Local
from netsim.geometry import Area
from netsim.mobility.base import Places
from netsim.rng import Streams

AREA = Area(0.0, 0.0, 2000.0, 1500.0)
HOME, WORK = (100.0, 100.0), (900.0, 100.0)
PLACES = Places(np.array([HOME] * 3), np.array([WORK] * 3))
HOW = Leakage(directions=12, random_baseline_draws=5)
RNG = Streams(1).at("leakage")


def answer(x, y, weight=1.0, ue=0, model=0):
    return (ue, model, "answer", x, y, weight)


def one_row(ue=0, model=0):
    return Local(np.array([ue]), np.array([model]), np.array([0, 1]), np.array([[5.0, 5.0]]), np.zeros(1), np.zeros(1))


def play(*rounds, how=HOW, local=None):
    """State and rows of rounds, each the estimates of attack `a`."""
    state, history = {}, []
    for number, estimates in enumerate(rounds, start=1):
        now = ComparedRound(number, local or one_row(), (local or one_row()).mean_x(), {"a": estimates}, AREA, PLACES)
        state, rows = leakage.observe(how, state, now, RNG)
        history.append(rows)
    return state, history


def named(row):
    return row["home_named_m"], row["work_named_m"]


class TestAnswers:
    def test_the_two_of_largest_weight_best_first(self):
        given = said(answer(1, 1, 0.2), answer(2, 2, 0.9), answer(3, 3, 0.5), (0, 0, "place", 9, 9, 5.0))
        assert answers_of(given, AREA)[0].place_m.tolist() == [[2, 2], [3, 3]]

    def test_one_place_at_every_model_counts_once(self):
        given = said(answer(1, 1, 0.9), answer(1, 1, 0.9, model=4), answer(8, 8, 0.1), answer(8, 8, 0.1, model=4))
        assert answers_of(given, AREA)[0].place_m.tolist() == [[1, 1], [8, 8]]

    def test_where_places_are_said_to_be_home_or_work_other_answers_name_nothing(self):
        """Of two for one place the likelier; home is first though work is likelier, and probabilities stay theirs."""
        given = said(answer(9, 9, 0.99), answer(2, 2, 0.3), answer(3, 3, 0.6), answer(4, 4, 0.8), answer(5, 5, 0.4))
        found = answers_of(replace(given, status=["ok", "home", "third 1", "work", "home"]), AREA)[0]
        assert found.place_m.tolist() == [[5, 5], [4, 4], [3, 3]] and found.rank.tolist() == [1, 2, 3]
        assert found.place == ["home", "work", "third 1"] and found.probability.tolist() == [0.4, 0.8, 0.6]
        assert found.best_two.tolist() == [[5, 5], [4, 4]]


class TestLeakage:
    def test_answers_are_compared_with_home_and_work(self):
        _, ((row,),) = play(said(answer(130, 140), answer(900, 107)))
        assert named(row) == pytest.approx((50.0, 7.0))

    def test_they_replace_earlier_ones_and_last_until_then(self):
        _, history = play(said(answer(103, 100)), said(), said(answer(900, 100)))
        assert [named(rows[0]) for rows in history] == [pytest.approx(v) for v in ((3, 797), (3, 797), (800, 0))]

    def test_they_are_the_ones_at_the_end_and_what_distances_are_of(self):
        state, history = play(*(said((0, 0, "centroid", 100 + 400 * (k % 3 > 1), 300, 1.0)) for k in range(9)))
        end, (row,) = leakage.named_at_end(HOW, state, AREA, PLACES), history[-1]
        assert [(r["x_m"], r["y_m"]) for r in end] == [
            (row["named_x_m"], row["named_y_m"]), (row["second_x_m"], row["second_y_m"])
        ]  # fmt: skip
        away = [np.hypot(r["x_m"] - HOME[0], r["y_m"] - HOME[1]) for r in end]
        assert row["home_named_m"] == pytest.approx(min(away))

    def test_an_answer_at_one_model_is_about_the_ue(self):
        """A cell from which nothing was heard this time keeps no older answer."""
        two = Local(
            np.array([0, 0]), np.array([0, 3]), np.array([0, 1, 2]), np.array([[5.0, 5.0], [6.0, 6.0]]),
            np.zeros(2), np.zeros(2),
        )  # fmt: skip
        first, second = said(answer(*HOME, model=0), answer(*WORK, model=3)), said(answer(100, 110, model=3))
        state, _ = play(first, local=two)
        now = ComparedRound(2, one_row(model=3), np.zeros((1, 2)), {"a": second}, AREA, PLACES)
        state, rows = leakage.observe(HOW, state, now, RNG)
        assert named(rows[0]) == pytest.approx((10.0, np.hypot(800, 10)))
        now = ComparedRound(3, one_row(model=0), np.zeros((1, 2)), {"a": said()}, AREA, PLACES)
        assert named(leakage.observe(HOW, state, now, RNG)[1][0]) == pytest.approx((10.0, np.hypot(800, 10)))

    def test_at_the_end_each_attack_names_what_it_named_last(self):
        centroids = [(0, 0, "centroid", x, y, 1.0) for x, y in ((400, 400), (1500, 900), (402, 400))]
        state, rows = {}, []
        for number, one in enumerate(centroids, start=1):
            estimates = {"a": said(answer(10, 10 * number, 0.5), answer(20, 20, 0.7)), "b": said(one)}
            now = ComparedRound(number, one_row(), np.zeros((1, 2)), estimates, AREA, PLACES)
            state, rows = leakage.observe(HOW, state, now, RNG)
        table = leakage.named_at_end(HOW, state, AREA, PLACES)
        places = {(r["attack"], r["ue"], r["rank"]): (r["x_m"], r["y_m"]) for r in table}
        assert places["a", 0, 1] == (20, 20) and places["a", 0, 2] == (10, 30)
        at = np.array([places["b", 0, 1], places["b", 0, 2]])
        np.testing.assert_allclose(at, [[401, 400], [1500, 900]], atol=15)  # on a grid of 25 m
        home = {r["attack"]: r["home_named_m"] for r in rows}
        assert home == pytest.approx({"a": np.hypot(80, 80), "b": np.linalg.norm(at - HOME, axis=1).min()})
        assert leakage.named_at_end(HOW, state, AREA, Places.unknown(3)) == []


class TestChance:
    def test_two_uniform_places(self):
        """Away from the edges and from each other, by hand; and both at once."""
        home, work = np.array([[500.0, 500.0]]), np.array([[1500.0, 900.0]])
        disc = np.pi * 100**2 / 3e6
        found = uniform_shares(home, work, 100.0, AREA, 2)[0]
        expected = [1 - (1 - disc) ** 2, 1 - (1 - disc) ** 2, 2 * disc**2, 2 * disc]
        np.testing.assert_allclose(found, expected, rtol=1e-9)

    @pytest.mark.parametrize(
        ("home", "work"),
        [((30.0, 20.0), (110.0, 90.0)), ((700.0, 700.0), (700.0, 700.0)), ((1990.0, 0.0), (60.0, 1500.0))],
    )
    def test_against_many_draws(self, home, work):
        """At an edge, overlapping, and at one place."""
        at = np.random.default_rng(0).uniform(size=(400_000, 2, 2)) * [2000, 1500]
        near_home, near_work = (np.linalg.norm(at - np.array(place), axis=-1) <= 150 for place in (home, work))
        drawn = [
            near_home.any(axis=1).mean(), near_work.any(axis=1).mean(),
            (near_home.any(axis=1) & near_work.any(axis=1)).mean(), (near_home | near_work)[:, 0].mean(),
        ]  # fmt: skip
        found = uniform_shares(np.array([home]), np.array([work]), 150.0, AREA, 2)[0]
        np.testing.assert_allclose(found, drawn, atol=4 * 0.5 / np.sqrt(400_000))
