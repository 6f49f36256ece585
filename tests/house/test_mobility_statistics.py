"""Statistics of mobility: closed forms, slow forms, series whose statistics are known, and the
command's table."""

import csv

import numpy as np
import pytest
from rows import read_cells
from scipy.stats import entropy

from benchmarks import mobility as st

RESIDENTS = """
title: residents
seed: 1
world:
  duration_s: 1209600
  city: {kind: town, width_m: 500, height_m: 500}
  base_stations: [{name: a, position_m: [250, 250]}]
  ues: {count: 4, mobility: {kind: resident}, measurement_period_s: 3600}
learning:
  round_s: 86400
  learner: {kind: rsrp-net, hidden: [4]}
"""

WEEK = np.arange(4 * st.WEEK_H) % st.WEEK_H


def predictability(series):
    """The bound by Fano's inequality, for the entropy rate of a series of known places."""
    return st.fano(st.entropy_bits(series), len(np.unique(series)))


def slow_match_lengths(series):
    """Lambda_i as the definition says."""
    text = list(series)
    result = []
    for i in range(len(text)):
        length = 1
        while i + length <= len(text) and any(
            text[j : j + length] == text[i : i + length] for j in range(i - length + 1)
        ):
            length += 1
        result.append(length)
    return result


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
        bits = entropy([p, 1 - p], base=2) + (1 - p) * np.log2(n_places - 1)
        assert st.fano(bits, n_places) == pytest.approx(p, abs=1e-9)

    def test_ends(self):
        assert st.fano(0.0, 10) == st.fano(5.0, 1) == 1.0
        assert st.fano(np.log2(10), 10) == st.fano(9.0, 10) == 0.1


class TestPlaces:
    def test_distinct_places_and_their_growth(self):
        assert st.growth(np.arange(500)) == pytest.approx(1.0)
        assert st.growth(np.zeros(500, int)) == pytest.approx(0.0)
        assert st.growth(np.floor(np.sqrt(np.arange(1, 40_001))).astype(int)) == pytest.approx(
            0.5, abs=0.03
        )
        assert np.isnan(st.growth(np.arange(40)))

    @pytest.mark.parametrize("z", [0.5, 1.0, 1.21])
    def test_zipf_of_a_power_law(self, z):
        assert st.zipf_of(np.round(1e6 * np.arange(1, 200) ** -z).astype(int)) == pytest.approx(
            z, abs=1e-3
        )
        assert np.isnan(st.zipf_of(np.array([9, 5, 3, 2, 1, 1])))

    def test_regularity_of_weekly_series(self):
        assert st.regularity(np.tile(np.arange(st.WEEK_H), 4), WEEK) == 1.0
        assert st.regularity(np.repeat([0, 1, 2, 2], st.WEEK_H), WEEK) == 0.5
        assert np.isnan(st.regularity(np.arange(335), WEEK[:335]))

    def test_regularity_weighs_hours_by_how_often_they_are_known(self):
        series = np.where(np.arange(4 * st.WEEK_H) % st.WEEK_H < 100, 5, -1)
        series[: 2 * st.WEEK_H : st.WEEK_H] = [1, 2]  # hour 0: 2 of 4 in one place
        series[-1] = 9  # hour 167: known once
        expected = series >= 0
        assert st.regularity(series[expected], WEEK[expected]) == pytest.approx(
            (4 * 99 + 2 + 1) / (4 * 100 + 1)
        )

    def test_radius_of_gyration(self):
        assert st.gyration_m(np.array([[0.0, 0.0], [6.0, 8.0]])) == pytest.approx(5.0)
        angle = 2 * np.pi * np.arange(12) / 12
        assert st.gyration_m(
            7.0 * np.column_stack([np.cos(angle), np.sin(angle)])
        ) == pytest.approx(7.0)


class TestMeasures:
    def test_every_measure_of_a_simple_life(self):
        """Home at night, work by day, five days of seven."""
        hour = np.arange(4 * st.WEEK_H)
        at_work = (hour % 24 >= 9) & (hour % 24 < 17) & (hour // 24 % 7 < 5)
        at_m = np.where(at_work[:, None], [3000.0, 4000.0], [0.0, 0.0])
        result = st.measures([st.Series(at_work.astype(int), at_m, WEEK)])
        share = 40 / 168
        assert result["top_1"][0] == pytest.approx(1 - share)
        assert result["top_2"][0] == result["regularity"][0] == 1.0
        assert result["gyration_m"][0] == pytest.approx(5000 * np.sqrt(share * (1 - share)))
        assert (result["hours"][0], result["places"][0]) == (672, 2)
        assert np.isnan(result["zipf"][0])
        assert result["predictability"][0] > 0.95


# -- the command


def make_rows(text):
    """Title -> median."""
    lines = text.splitlines()[4:]
    return {line[:30].strip(): line[30:].split()[0] for line in lines}


@pytest.fixture
def commuter(tmp_path):
    """A CSV of four weeks, every half an hour: home, and work in office hours on weekdays."""
    path = tmp_path / "t.csv"
    with path.open("w", newline="") as f:
        out = csv.writer(f)
        out.writerow(["time_s", "user", "x_m", "y_m"])
        for k in range(28 * 48):
            hour = k / 2 % 24
            day = k // 48
            # day 0 is a Thursday
            if 9 <= hour < 17 and (day + 3) % 7 < 5:
                index = (4000, 3000)
            else:
                index = (0, 0)
            out.writerow([1800 * k, "u", *index])
    return path


def test_a_trace(commuter, capsys):
    assert st.main([str(commuter)]) == 0
    text = capsys.readouterr().out
    rows = make_rows(text)
    share = 40 / 168
    assert "1 with at least 24 known hours, of 1" in text
    assert "squares of 250 m" in text
    assert rows["hours with a known place"] == "672"
    assert rows["distinct places S"] == "2"
    assert rows["time at the top place, %"] == f"{100 * (1 - share):.0f}"
    assert rows["time at the top two places, %"] == rows["regularity, %"] == "100"
    assert rows["Zipf exponent of visits"] == "-"
    assert rows["radius of gyration, m"] == f"{5000 * np.sqrt(share * (1 - share)):,.0f}"


@pytest.mark.slow
def test_a_scenario(tmp_path, capsys):
    path = tmp_path / "residents.yaml"
    path.write_text(RESIDENTS)
    tables = []
    day = "--set world.duration_s=90000"
    for options in ("", "--cell-m 0", f"{day} --set seed=1", f"{day} --set seed=2", day):
        assert st.main([str(path), *options.split()]) == 0
        tables.append(capsys.readouterr().out)
    assert tables[4] == tables[2] != tables[3]
    rows = make_rows(tables[0])
    assert rows["hours with a known place"] == "336"
    assert 40 < float(rows["time at the top place, %"]) < 90
    assert int(make_rows(tables[1])["distinct places S"]) > int(rows["distinct places S"])
    assert "4 with at least 24 known hours, of 4" in tables[4]


REFUSED = """
town --cell-m 0                      commuter puts no UE into buildings
town --set world.duration_s=3600     less than 24 h
town --set world.duration_s=1e10     --set world.ues.count=7 or less
nowhere                              nowhere
nowhere.yaml                         nowhere.yaml
TRACE --set a=3                      t.csv: a:
TRACE --set crs                      write PATH=VALUE
"""


@pytest.mark.parametrize("options, words", read_cells(REFUSED))
def test_refused_in_one_line(options, words, commuter, capsys):
    assert st.main(options.replace("TRACE", str(commuter)).split()) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_published_figures_of_a_recorded_life(data_folder, capsys):
    """GeoLife: filled for 12 h its user is at home half of the time and as predictable as the
    literature says."""
    assert st.main([str(data_folder / "mobility_geolife_beijing.csv.gz")]) == 0
    rows = make_rows(capsys.readouterr().out)
    assert int(rows["distinct places S"]) == pytest.approx(78, abs=3)
    assert float(rows["time at the top place, %"]) == pytest.approx(44, abs=2)
    assert float(rows["predictability, %"]) == pytest.approx(87, abs=2)
