"""Distances, density peaks, leakage over time and the places that attacks name, on examples worked
by hand."""

from dataclasses import replace

import numpy as np
import ot
import pandas as pd
from arrays import read_array
from estimates import said
from local_data import make_local
from numpy.linalg import norm
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx, mark
from rows import read_yaml
from tabled import cases

from fl.leakage import leakage
from fl.leakage.chance import compute_hit_probabilities
from fl.leakage.distances import (
    compute_sliced_w1,
    expect_nearest_m,
    find_density_peaks,
    find_highest_peaks,
    measure_nearest_m,
    measure_share_within,
    sort_projections,
)
from fl.leakage.leakage import ComparedRound, Leakage
from fl.leakage.reliability import measure_reliability
from fl.leakage.tracks import Track, collect_answers_inside
from fl.types import Local
from netsim.geometry import Area
from netsim.mobility.base import Places
from netsim.rng import Streams

AREA = Area(0.0, 0.0, 2000.0, 1500.0)
RNG = Streams(6).derive_rng("leakage")


def sw1(a, b, directions=90):
    return float(
        compute_sliced_w1(sort_projections(a, directions), sort_projections(b, directions))
    )


def cloud(n, seed=0, spread=300.0):
    rng = default_rng(seed)
    return rng.normal(size=(n, 2)) * [spread, spread / 3] + rng.uniform(-1000, 1000, 2)


class TestSlicedWasserstein:
    @mark.parametrize(
        "shift",
        cases("""
        0.0, -3.0
        300.0, 400.0
        -0.001, 0.002
    """),
    )
    def test_shift_law(self, shift):
        """A set against itself shifted by d: (2 / pi) d."""
        points = cloud(200)
        d = np.hypot(*shift)
        expected = 2 / np.pi * d
        assert sw1(points, points + shift, 30) == approx(expected, rel=0.005)

    def test_equals_pot_on_the_same_directions(self):
        a = cloud(31, 1)
        b = cloud(17, 2)
        angle = np.pi * (np.arange(90) + 0.5) / 90
        directions = np.stack([np.cos(angle), np.sin(angle)])
        outside = ot.sliced_wasserstein_distance(a, b, projections=directions, p=1)
        assert sw1(a, b) == approx(outside, rel=1e-9)

    def test_many_at_once_equal_one_by_one(self):
        a = cloud(40)
        rest = np.stack([sort_projections(cloud(13, s), 30) for s in range(5)])
        together = compute_sliced_w1(sort_projections(a, 30), rest)
        expected = [sw1(a, cloud(13, s), 30) for s in range(5)]
        assert together.tolist() == expected

    @mark.parametrize(
        "sizes",
        [
            "1x1",
            "2x3",
            "8x1",
            "3x11",
            "100x1",
            "97x12",
            "1000x7",
            "64x8",
            "333x41",
            "64x32",
            "49x99",
            "40x40",
        ],
    )
    def test_one_direction_against_a_naive_integral(self, sizes):
        """Also sets so small that stretches are summed, with ties and points beyond either end."""
        n, m = map(int, sizes.split("x"))
        rng = default_rng(n + m)
        a = np.sort(np.round(rng.normal(size=n), 1))
        drawn = np.sort(np.round(rng.normal(size=m), 1))
        # quantile functions are steps; a grid of n m cells resolves every one of them
        cell = np.arange(n * m)
        for b in (drawn, *(np.full(m, value) for value in (-9.0, 9.0, a[n // 2]))):
            naive = np.abs(a[cell // m] - b[cell // n]).mean()
            assert compute_sliced_w1(a[None], b[None]) == approx(naive, rel=1e-9, abs=1e-9)


class TestDensityPeaks:
    def test_two_clusters_in_order_of_mass(self):
        rng = default_rng(0)
        truth = read_array("1650.0 700; 420 760")
        near = np.repeat(truth, [60, 30], axis=0) + 20 * rng.normal(size=(90, 2))
        points = np.concatenate([near, AREA.sample(rng.uniform(size=(9, 2)))])
        peaks = find_density_peaks(points, np.ones(99), AREA, 75.0, 2)
        assert norm(peaks - truth, axis=1).max() < 30

    @mark.parametrize(
        "shape",
        cases("""
        1, 1
        1, 7
        7, 1
        2, 2
        40, 30
    """),
    )
    @mark.parametrize("least", [0.0, 2.0])
    def test_peaks_are_above_all_eight_neighbours(self, shape, least):
        """Of equal neighbours the first is the peak; cells beyond the edge count for none."""
        values = default_rng(shape[0]).integers(0, 6, shape).astype(float)
        x, y = map(np.arange, shape)
        order = 1e-3 * np.arange(values.size).reshape(shape)
        # among equal ones the earlier is higher
        ranked = np.pad(values - order, 1, constant_values=-np.inf)
        highest = np.lib.stride_tricks.sliding_window_view(ranked, (3, 3)).max(axis=(2, 3))
        peaks = np.argwhere((ranked[1:-1, 1:-1] == highest) & (values > least))
        result = find_highest_peaks(x, y, values, values.size, least)
        assert sorted(result.tolist()) == peaks.tolist()
        assert (np.diff(values[tuple(result.astype(int).T)]) <= 0).all()


# -- leakage over time
# ----------------------------------------------------------------------------------------

PLACES = Places(np.full((3, 2), 100.0), np.tile([900.0, 100.0], (3, 1)))
HOW = Leakage(directions=360, random_baseline_draws=5)


def place_rows(ue, model, places):
    """Local data of rows with one sample each."""
    n = len(ue)
    return make_local([1] * n, np.array(places), np.zeros(n), np.array(ue), np.array(model))


def centroid_at(x, y, ue=0):
    return said((ue, 0, "centroid", x, y, 1.0))


def read_said(text):
    """Centroids from rows of (ue, model, x, y)."""
    return said(*((ue, model, "centroid", x, y, 1.0) for ue, model, x, y in read_array(text)))


def play(rounds, settings=HOW):
    """Rows per round of [(points, {attack: estimates})]."""
    state = {}
    history = []
    for number, (points, estimates) in enumerate(rounds, start=1):
        local = points
        if not isinstance(points, Local):
            n = len(points)
            local = make_local([n], np.array(points, float), np.zeros(n))
        current = ComparedRound(number, local, local.average_x(), estimates, AREA, PLACES)
        state, rows = leakage.compare_round(settings, state, current, RNG)
        history.append(rows)
    return state, history


class TestLeakageByHand:
    """Round 1: points (0,0), (200,0), said (130, 40). Round 2: one point (400, 0), said nothing
    inside."""

    rounds = (
        ([[0, 0], [200, 0]], {"a": centroid_at(130, 40)}),
        ([[400, 0]], {"a": centroid_at(-1.0, 40)}),
        ([[400, 300]], {"a": centroid_at(400, 290)}),
    )

    def rows(self, rounds=None, **options):
        return [r[0] for r in play(rounds or self.rounds, **options)[1]]

    def test_error_of_each_round_and_diverged_estimates_are_counted_not_averaged(self):
        rows = pd.DataFrame(self.rows())
        # (30, 40) off the mean (100, 0)
        assert_allclose(rows.error_m, [50.0, np.nan, 10.0])
        assert rows.diverged.tolist() == [False, True, False]
        assert rows.heard.all()

    def test_distribution_so_far(self):
        rows = self.rows()
        # (0,0), (200,0) against (130,40) and against their mean (100,0), each as a mean over
        # directions
        two = read_array("0.0 0; 200 0")
        first_row = rows[0]
        expected = sw1(two, read_array("130.0 40;"), 360)
        assert first_row["sw1_m"] == approx(expected, rel=1e-9)
        assert first_row["sqrt_sw1"] == approx(np.sqrt(first_row["sw1_m"]))
        assert first_row["true_centroids_sw1_m"] == approx(2 / np.pi * 100, rel=1e-3)
        all_rows = read_array("0.0 0; 200 0; 400 0; 400 300")
        centres = read_array("100.0 0; 400 0; 400 300")
        answers = read_array("130.0 40; 400 290")
        assert rows[2]["sw1_m"] == approx(sw1(all_rows, answers, 360), rel=1e-9)
        assert rows[2]["true_centroids_sw1_m"] == approx(sw1(all_rows, centres, 360), rel=1e-9)

    def test_home_and_work_of_all_estimates_so_far(self):
        rows = self.rows()
        assert rows[0]["home_m"] == rows[2]["home_m"] == approx(np.hypot(30, 60))
        assert rows[2]["work_m"] == approx(np.hypot(500, 190))
        origin = np.zeros((3, 2))
        nowhere = np.full((3, 2), np.nan)
        for points, place in ((origin[:0], origin), (nowhere, origin), (origin, nowhere)):
            assert np.isnan(measure_nearest_m(points, place[0]))

    def test_named_places_are_density_peaks(self):
        estimates = [centroid_at(100, 100)]
        for i in reversed(range(5)):
            centroid = (0, 0, "centroid", 900 + i, 110, 1.0)
            place = (0, 0, "place", 300, 100 + i, 0.5)
            estimates.insert(0, said(centroid, place))
        row = self.rows([([[0, 0]], {"a": named}) for named in estimates])[-1]
        assert row["home_m"] == 0  # the nearest of all estimates flatters the attacker
        assert row["work_named_m"] < 20
        assert 150 < row["home_named_m"] < 250

    def test_attacks_and_tracks_do_not_mix(self):
        two = place_rows([0, 0, 2], [0, 1, 0], read_array("0.0 0; 500 0; 1000 0"))
        first = read_said("2 0 1007 0; 0 1 502 0; 0 0 1 0")
        _, history = play([(two, {"a": first, "b": read_said("0 1 505 0;")})])
        rows = pd.DataFrame(history[0]).sort_values(["attack", "ue", "model"])
        assert "".join(rows.attack) == "aaabbb"
        assert_allclose(rows.error_m, read_array("1 2 7 nan 5 nan"))

    def test_home_belongs_to_the_ue_whatever_the_model(self):
        """One estimate near home, in one of two models: both rows of the UE say so, in every later
        round too."""
        two = place_rows([0, 0, 1], [0, 3, 0], read_array("0.0 0; 500 0; 900 900"))
        first = read_said("0 0 1000 100; 0 3 100 104; 1 0 100 600")
        second = read_said("0 0 1000 200; 1 0 100 700")
        _, history = play([(two, {"a": first}), (two, {"a": second})])
        for rows in map(pd.DataFrame, history):
            rows = rows.sort_values(["ue", "model"])
            assert_allclose(rows.home_m, [4.0, 4.0, 500.0])
        expected = [expect_nearest_m(PLACES.home_m[0], AREA, n) for n in (3, 3, 2)]
        assert_allclose(rows.guess_home_m, expected)


class TestGuesses:
    def test_band_is_the_quantiles_of_the_draws_themselves(self):
        points = cloud(300) % [2000, 1500]
        settings = Leakage(directions=12)
        row = play([(points, {"a": centroid_at(1, 1)})] * 3, settings)[1][-1][0]
        draws = np.arange(settings.random_baseline_draws)
        unit = RNG.uniform("guess", 0 * draws, (3, 2), item=draws)
        all_rows = np.tile(points, (3, 1))
        w1 = np.sort([sw1(all_rows, AREA.sample(u), 12) for u in unit])
        assert len(w1) == 300
        assert row["guess_sw1_m"] == approx(w1.mean(), rel=1e-9)
        # between the 15th and the 16th smallest of 300, and as far from the other end
        assert w1[14] < row["guess_sw1_m_q05"] < w1[15]
        assert w1[284] < row["guess_sw1_m_q95"] < w1[285]

    def test_guesses_speak_as_often_as_the_attack(self):
        """Centroids for the distance of clouds; centroids and places, also those outside, for
        home."""
        places = [(0, 0, "place", x, 9, 0.2) for x in (5, 6, 7, -50)]
        talks = said((0, 0, "centroid", 1, 1, 1.0), *places)
        silent = said()
        rounds = [([[500, 500]], {"a": talks, "b": centroid_at(3, 3), "c": silent})] * 2
        rows = {r["attack"]: r for r in play(rounds)[1][-1]}
        for name, n in (("a", 10), ("b", 2)):
            expected = expect_nearest_m(PLACES.home_m[0], AREA, n)
            assert rows[name]["guess_home_m"] == approx(expected)
        band = ("guess_sw1_m", "guess_sw1_m_q05", "guess_sw1_m_q95")
        for name in band:  # two centroids each
            assert rows["a"][name] == rows["b"][name]
        assert np.isnan([rows["c"][k] for k in (*band, "guess_home_m")]).all()
        quiet = [[500, 500]], {"b": centroid_at(3, 3), "a": silent}
        _, history = play([rounds[0], quiet])
        once = {r["attack"]: r["guess_sw1_m"] for r in history[-1]}
        assert once["a"] != once["b"] == rows["b"]["guess_sw1_m"]  # one against two

    @mark.parametrize(
        "place",
        cases("""
        1650.0, 700.0
        2100.0, -50.0
    """),
    )
    @mark.parametrize("count", [1, 60])
    def test_nearest_guess_is_the_mean_of_many_draws(self, place, count):
        guess = AREA.sample(default_rng(count).uniform(size=(8000, count, 2)))
        nearest = norm(guess - np.array(place), axis=-1).min(axis=1)
        error = nearest.std() / np.sqrt(len(nearest))
        assert abs(expect_nearest_m(np.array(place), AREA, count) - nearest.mean()) < 4 * error

    def test_nearest_guess_in_closed_form(self):
        """One guess from the middle of a square: (sqrt 2 + ln(1 + sqrt 2)) / 6 sides; of very many
        1 / (2 sqrt n)."""
        square = Area(0.0, 0.0, 10.0, 10.0)
        middle = read_array("5.0 5")
        mean = 10 * (np.sqrt(2) + np.log(1 + np.sqrt(2))) / 6
        assert expect_nearest_m(middle, square, 1) == approx(mean, rel=1e-5)
        expected = 10 / (2 * 10**3)
        assert expect_nearest_m(middle, square, 10**6) == approx(expected, rel=1e-3)
        for place, n in ((middle, 0), (middle * np.nan, 3)):
            assert np.isnan(expect_nearest_m(place, square, n))

    @mark.parametrize(
        "place",
        cases("""
        3.0, 8.0
        0.0, 0.0
        -2.0, 5.0
        14.0, 12.0
    """),
    )
    def test_share_of_the_area_within_a_radius(self, place):
        area = Area(0.0, 0.0, 10.0, 9.0)
        radius_m = np.linspace(0, 20, 41)
        x, y = np.meshgrid((np.arange(1000) + 0.5) / 100, (np.arange(900) + 0.5) / 100)
        away = np.hypot(x - place[0], y - place[1]).ravel()
        counted = [np.mean(away <= r) for r in radius_m]
        assert_allclose(measure_share_within(np.array(place), radius_m, area), counted, atol=2e-3)


class TestLongRuns:
    """What a round compares is bounded, and as good as all of it."""

    @mark.parametrize(
        "n, stride",
        cases("""
        1, 1
        100, 1
        101, 2
        5000, 64
    """),
    )
    @mark.parametrize("cut", [7, 5000])
    def test_of_points_every_2_to_the_k_th_is_kept_however_rounds_were_cut(self, n, stride, cut):
        points = np.stack([np.arange(n), np.zeros(n)], axis=1).astype(float)
        track = Track.empty()
        for first in range(0, n, cut):
            track = track.add_round(points[first : first + cut], 100)
            assert len(track.points) <= 100
        assert_array_equal(track.points, points[::stride])
        assert track.seen == n

    @mark.parametrize("rounds", [500, 5000])
    def test_a_distribution_has_at_most_so_many_centroids(self, rounds):
        centroids = cloud(rounds) % [2000, 1500]
        track = replace(Track.empty(), points=cloud(300, 5) % [2000, 1500], centroids=centroids)
        truth = leakage.TrackTruth(Leakage(directions=30), track, 0, AREA, RNG)
        whole = float(compute_sliced_w1(truth.points, sort_projections(centroids, 30)))
        assert truth.centroids_sw1_m == approx(whole, rel=0 if rounds <= 500 else 0.05)


def answer(x, y, weight=1.0, ue=0, model=0):
    return (ue, model, "answer", x, y, weight)


def name_places(*rounds):
    """State and rows of rounds of one UE, each the estimates of attack `a`."""
    return play([([[5, 5]], {"a": estimates}) for estimates in rounds])


def pick_named_m(row):
    return row["home_named_m"], row["work_named_m"]


class TestAnswers:
    def test_all_best_first_of_which_two_are_looked_at(self):
        answers = (answer(x, x, weight) for x, weight in ((1, 0.2), (2, 0.9), (3, 0.5)))
        expected = said(*answers, (0, 0, "place", 9, 9, 5.0))
        named = collect_answers_inside(expected, AREA)[0]
        assert named.place_m.tolist() == [[2, 2], [3, 3], [1, 1]]
        assert named.rank.tolist() == [1, 2, 3]
        assert named.list_candidates_m("home").tolist() == [[2, 2], [3, 3]]

    def test_one_place_at_every_model_counts_once(self):
        places = ((1, 0.9, 0), (1, 0.9, 4), (8, 0.1, 0), (8, 0.1, 4))
        expected = said(*(answer(x, x, weight, model=model) for x, weight, model in places))
        assert collect_answers_inside(expected, AREA)[0].place_m.tolist() == [[1, 1], [8, 8]]

    def test_where_places_are_said_to_be_home_or_work_other_answers_name_nothing(self):
        """Of two for one place the likelier; home is first though work is likelier, and
        probabilities stay theirs."""
        weights = read_yaml("9: 0.99, 2: 0.3, 3: 0.6, 4: 0.8, 5: 0.4")
        expected = said(*(answer(x, x, weight) for x, weight in weights.items()))
        expected = replace(expected, status=["ok", "home", "third 1", "work", "home"])
        result = collect_answers_inside(expected, AREA)[0]
        assert result.place_m.tolist() == [[5, 5], [4, 4], [3, 3]]
        assert result.rank.tolist() == [1, 2, 3]
        assert result.place == ["home", "work", "third 1"]
        assert result.probability.tolist() == [0.4, 0.8, 0.6]
        assert result.home_and_work_m.tolist() == [[5, 5], [4, 4]]


class TestNamed:
    """The places that an attack names of a UE."""

    def test_answers_replace_earlier_ones_and_last_until_then(self):
        _, history = name_places(
            said(answer(103, 100)), said(), said(answer(130, 140), answer(900, 107))
        )
        named_m = [pick_named_m(rows[0]) for rows in history]
        assert_allclose(named_m, [(3, 797), (3, 797), (50, 7)])

    def test_an_answer_at_one_model_is_about_the_ue(self):
        """A cell from which nothing was heard this time keeps no older answer."""
        first = said(answer(*PLACES.home_m[0], model=0), answer(*PLACES.work_m[0], model=3))
        second = said(answer(100, 110, model=3))
        rounds = []
        for models, answers in (([0, 3], first), ([3], second), ([0], said())):
            n = len(models)
            rounds.append((place_rows([0] * n, models, [[5.0, 5.0]] * n), {"a": answers}))
        _, history = play(rounds)
        named_m = [pick_named_m(rows[0]) for rows in history[1:]]
        assert_allclose(named_m, [(10.0, np.hypot(800, 10))] * 2)

    def test_at_the_end_each_attack_names_what_it_named_last(self):
        rounds = []
        for number, place in enumerate(((400, 400), (1500, 900), (402, 400)), start=1):
            answers = said(answer(10, 10 * number, 0.5), answer(20, 20, 0.7))
            rounds.append(([[5, 5]], {"a": answers, "b": centroid_at(*place)}))
        state, history = play(rounds)
        named = leakage.list_named_places(HOW, state, AREA, PLACES)
        places = {(r["attack"], r["rank"]): (r["x_m"], r["y_m"]) for r in named}
        assert places["a", 1] == (20, 20)
        assert places["a", 2] == (10, 30)
        location = np.array([places["b", 1], places["b", 2]])
        assert_allclose(location, [[401, 400], [1500, 900]], atol=15)  # on a grid of 25 m
        rows = {r["attack"]: r for r in history[-1]}
        columns = ["named_x_m", "named_y_m", "second_x_m", "second_y_m"]
        assert [rows["b"][name] for name in columns] == location.ravel().tolist()
        home = {attack: r["home_named_m"] for attack, r in rows.items()}
        away_m = norm(location - PLACES.home_m[0], axis=1).min()
        assert home == approx({"a": np.hypot(80, 80), "b": away_m})
        assert leakage.list_named_places(HOW, state, AREA, Places.unknown(3)) == []


class TestChance:
    def test_two_uniform_places(self):
        """Away from the edges and from each other, by hand; and both at once."""
        home = read_array("500.0 500;")
        work = read_array("1500.0 900;")
        disc = np.pi * 100**2 / 3e6
        result = compute_hit_probabilities(home, work, 100.0, AREA, 2)[0]
        hit = 1 - (1 - disc) ** 2
        expected = [hit, hit, 2 * disc**2, 2 * disc]
        assert_allclose(result, expected, rtol=1e-9)

    @mark.parametrize(
        ("home", "work"),
        cases("""
        (30.0, 20.0), (110.0, 90.0)
        (700.0, 700.0), (700.0, 700.0)
        (1990.0, 0.0), (60.0, 1500.0)
    """),
    )
    def test_against_many_draws(self, home, work):
        """At an edge, overlapping, and at one place."""
        location = default_rng(0).uniform(size=(400_000, 2, 2)) * [2000, 1500]
        is_near = norm(location - np.array([home, work])[:, None, None], axis=-1) <= 150
        finds = is_near.any(axis=2)
        first = is_near[:, :, 0].any(axis=0)
        drawn = [hits.mean() for hits in (*finds, finds.all(axis=0), first)]
        result = compute_hit_probabilities(np.array([home]), np.array([work]), 150.0, AREA, 2)[0]
        assert_allclose(result, drawn, atol=4 * 0.5 / np.sqrt(400_000))


# -- stated probabilities
# ----------------------------------------------------------------------------------------

DRAW = default_rng(7)


def state_hits(ues, rounds, shift=0.0):
    """Each UE's rounds are one draw: all right or all wrong, with the probability stated less the
    shift."""
    p = np.repeat(DRAW.uniform(0.1, 0.9, ues), rounds)
    right = np.repeat(DRAW.uniform(size=ues), rounds) < p - shift
    return np.repeat(np.arange(ues), rounds), p, right


def test_by_hand():
    """Two bins: 3 statements of 0.25, one right; 2 of 1.0, both right."""
    result = measure_reliability(
        np.arange(5), read_array("0.25 0.25 0.25 1 1"), read_array("1 0 0 1 1")
    )
    assert result.count == 5
    assert result.error == approx(abs(3 * 0.25 - 1) / 5)


def test_an_attack_that_is_right_about_itself():
    result = measure_reliability(*state_hits(4000, 1))
    assert result.error < 0.03
    assert result.error == approx(result.by_chance_error, abs=0.012)


def test_rounds_of_one_ue_are_one_draw():
    """A hundred statements of each of ten UEs are no thousand: chance alone is large."""
    ue, p, right = state_hits(10, 100)
    result = measure_reliability(ue, p, right)
    singly = measure_reliability(np.arange(1000), p, right)
    assert result.error == approx(singly.error)
    assert result.by_chance_error > 3 * singly.by_chance_error


def test_too_sure_is_seen():
    result = measure_reliability(*state_hits(2000, 5, shift=0.1))
    assert result.error > 1.5 * result.by_chance_error
    assert result.error == approx(0.1, abs=0.05)
