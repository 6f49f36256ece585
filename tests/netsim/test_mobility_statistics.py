"""Statistics of mobility: closed forms, slow forms, and series whose statistics are known."""

import numpy as np
import pytest

from netsim.mobility import statistics as st

WEEK = np.arange(4 * st.WEEK_H) % st.WEEK_H


def predictability(series):
    """The bound by Fano's inequality, for the entropy rate of a series of known places."""
    return st.fano(st.entropy_bits(series), len(np.unique(series)))


def slow_match_lengths(series):
    """Lambda_i as the definition says."""
    text, found = list(series), []
    for i in range(len(text)):
        length = 1
        while i + length <= len(text) and any(
            text[j : j + length] == text[i : i + length] for j in range(i - length + 1)
        ):
            length += 1
        found.append(length)
    return found


class TestEntropy:
    @pytest.mark.parametrize("n_places", [1, 2, 5])
    def test_match_lengths_are_those_of_the_definition(self, n_places):
        series = np.random.default_rng(n_places).integers(0, n_places, 60)
        assert st.match_lengths(series).tolist() == slow_match_lengths(series)

    @pytest.mark.parametrize("n", [2, 7, 100])
    def test_a_constant_series(self, n):
        """Lambda_i = 1 + min(i, n - i), whose sum is n + floor(n^2 / 4)."""
        series = np.full(n, 3)
        assert st.match_lengths(series).sum() == n + n * n // 4
        assert st.entropy_bits(series) == pytest.approx(n * np.log2(n) / (n + n * n // 4))
        assert predictability(series) == 1.0

    def test_distinct_places_are_unpredictable(self):
        """Lambda_i = 1 throughout: S = log2 n."""
        assert st.entropy_bits(np.arange(64)) == pytest.approx(6.0)
        assert predictability(np.arange(64)) == pytest.approx(1 / 64)

    @pytest.mark.parametrize("n_places", [2, 4])
    def test_uniform_draws_reach_the_entropy_of_one_draw(self, n_places):
        series = np.random.default_rng(0).integers(0, n_places, 4000)
        assert st.entropy_bits(series) == pytest.approx(np.log2(n_places), rel=0.1)
        assert st.uncorrelated_entropy_bits(series) == pytest.approx(np.log2(n_places), rel=1e-3)


class TestFano:
    @pytest.mark.parametrize("n_places", [2, 3, 50])
    @pytest.mark.parametrize("p", [0.55, 0.7, 0.93])
    def test_inverts_the_equation(self, n_places, p):
        entropy = -p * np.log2(p) - (1 - p) * np.log2(1 - p) + (1 - p) * np.log2(n_places - 1)
        assert st.fano(entropy, n_places) == pytest.approx(p, abs=1e-9)

    def test_ends(self):
        assert st.fano(0.0, 10) == st.fano(5.0, 1) == 1.0
        assert st.fano(np.log2(10), 10) == st.fano(9.0, 10) == 0.1


class TestPlaces:
    def test_distinct_places_and_their_growth(self):
        assert st.growth(np.arange(500)) == pytest.approx(1.0)
        assert st.growth(np.zeros(500, int)) == pytest.approx(0.0)
        root = np.floor(np.sqrt(np.arange(1, 40_001))).astype(int)
        assert st.growth(root) == pytest.approx(0.5, abs=0.03)
        assert np.isnan(st.growth(np.arange(40)))

    @pytest.mark.parametrize("z", [0.5, 1.0, 1.21])
    def test_zipf_of_a_power_law(self, z):
        count = np.round(1e6 * np.arange(1, 200) ** -z).astype(int)
        assert st.zipf_of(count) == pytest.approx(z, abs=1e-3)
        assert np.isnan(st.zipf_of(np.array([9, 5, 3, 2, 1, 1])))

    def test_regularity_of_weekly_series(self):
        assert st.regularity(np.tile(np.arange(st.WEEK_H), 4), WEEK) == 1.0
        weeks = np.repeat([0, 1, 2, 2], st.WEEK_H)
        assert st.regularity(weeks, WEEK) == 0.5
        assert np.isnan(st.regularity(np.arange(335), WEEK[:335]))

    def test_regularity_weighs_hours_by_how_often_they_are_known(self):
        series = np.where(np.arange(4 * st.WEEK_H) % st.WEEK_H < 100, 5, -1)
        series[: 2 * st.WEEK_H : st.WEEK_H] = [1, 2]  # hour 0: 2 of 4 in one place
        series[-1] = 9  # hour 167: known once
        known = series >= 0
        assert st.regularity(series[known], WEEK[known]) == pytest.approx((4 * 99 + 2 + 1) / (4 * 100 + 1))

    def test_radius_of_gyration(self):
        assert st.gyration_m(np.array([[0.0, 0.0], [6.0, 8.0]])) == pytest.approx(5.0)
        angle = 2 * np.pi * np.arange(12) / 12
        assert st.gyration_m(7.0 * np.column_stack([np.cos(angle), np.sin(angle)])) == pytest.approx(7.0)


class TestMeasures:
    def test_every_measure_of_a_simple_life(self):
        """Home at night, work by day, five days of seven."""
        hour = np.arange(4 * st.WEEK_H)
        at_work = (hour % 24 >= 9) & (hour % 24 < 17) & (hour // 24 % 7 < 5)
        at_m = np.where(at_work[:, None], [3000.0, 4000.0], [0.0, 0.0])
        found = st.measures([st.Series(at_work.astype(int), at_m, WEEK)])
        share = 40 / 168
        assert found["top_1"][0] == pytest.approx(1 - share)
        assert found["top_2"][0] == found["regularity"][0] == 1.0
        assert found["gyration_m"][0] == pytest.approx(5000 * np.sqrt(share * (1 - share)))
        assert (found["hours"][0], found["places"][0]) == (672, 2)
        assert np.isnan(found["zipf"][0])
        assert found["predictability"][0] > 0.95
