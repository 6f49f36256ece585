"""The chapter Tracking: what its figures and the frames of the map say, from rows made by hand."""

import re
import shutil
from math import nan
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from pages import figures
from refused import catch_line
from rows import read_cells, read_yaml
from tracking_rows import ATTACK, CELL_M, believed, square, tracked, write_rows

from scenarios.app.report import charts
from scenarios.app.report.charts import group_rounds
from scenarios.app.report.laws import average_so_far
from scenarios.app.report.replay import collect_replay_tables
from scenarios.app.report.report import write_report
from scenarios.app.report.run_page import (
    build_reliability_table,
    build_tracking_chart,
    draw_tracking,
)
from scenarios.app.results.read import load_finished_run, open_finished_run
from scenarios.app.results.summary import summarise_run
from scenarios.app.results.table import build_lines
from scenarios.app.study.load import load as load_study

EVIL = "<img src=x onerror=alert(1)>"
TRUTH_M = (200.0, 150.0)
LINKS = {"attack": ATTACK} | read_yaml("""
    seen: 4, linked: 4, right_share: 0.75, chance_share: 0.25, anonymity_set: 2.5,
    time_to_confusion_s: 600, chance_time_to_confusion_s: 120
""")


@pytest.fixture
def folder(tiny_run, tmp_path):
    """The same run with other rows: call it with those of `tracking`, `beliefs` and `linking`."""

    def make(tracking=(), belief=(), linking=()):
        copy = Path(shutil.copytree(tiny_run, tmp_path / "run", dirs_exist_ok=True))
        for table, rows in (("tracking", tracking), ("beliefs", belief), ("linking", linking)):
            write_rows(copy, table, rows)
        return copy

    return make


def rows_of_two_rounds(**options):
    """Four UEs: the filter is 200, 90, 60 and 30 m off, in the second round half as far; the
    smoother is right."""
    rows = []
    for number in (1, 2):
        for ue, away_m in enumerate((200, 90, 60, 30)):
            time_s = 60.0 * number
            named_m = (TRUTH_M[0] + away_m / number, TRUTH_M[1])
            rows += [
                tracked(number, ue, 0, time_s, TRUTH_M, named_m, probability=0.25, **options),
                tracked(number, ue, 1, time_s, TRUTH_M, probability=0.95, **options),
            ]
    return rows


def draw_page(panel, name, tail=""):
    """The curve of a name on the axes that end so, without its band."""
    lines = [t for t in panel.figure["data"] if t.get("fill") is None]
    (trace,) = [t for t in lines if (t["name"], t["yaxis"]) == (name, f"y{tail}")]
    return trace


# -- laws


@given(st.integers(1, 20), st.integers(1, 4), st.integers(1, 7))
def test_rounds_that_make_one_point_keep_all_values(n, n_ue, together):
    grid = np.arange(float(n * n_ue)).reshape(n, n_ue)
    rows = group_rounds(grid, together)
    assert rows.shape == (-(-n // together), together * n_ue)
    assert_array_equal(np.sort(rows[np.isfinite(rows)]), grid.ravel())
    assert_array_equal(np.sort(rows[0][np.isfinite(rows[0])]), grid[:together].ravel())


# -- the chapter


def test_a_run_that_tracks_nothing_has_no_such_chapter(tiny_run, tmp_path):
    assert not any(draw_tracking(load_finished_run(tiny_run)))
    assert (
        "Tracking"
        not in write_report(shutil.copytree(tiny_run, tmp_path / "run"))
        .read_text()
        .split("<script")[0]
    )


def test_medians_hours_and_areas_are_those_of_the_rows(folder):
    loaded = load_finished_run(folder(rows_of_two_rounds()))
    (panel,) = build_tracking_chart(ATTACK).build_panels(loaded)
    # of 200, 90, 60, 30, and half of them
    assert_allclose(draw_page(panel, "filter")["y"], [75, 37.5])
    assert_allclose(draw_page(panel, "plain")["y"], [300, 300])
    assert_allclose(draw_page(panel, "smoother")["y"], [0.1, 0.1])  # a logarithm has no zero
    a_round_h = 60 / 3600
    assert_allclose(
        draw_page(panel, "filter", "2")["y"], [0.75 * a_round_h, 1.75 * a_round_h], rtol=1e-5
    )
    assert_allclose(draw_page(panel, "smoother", "2")["y"], [a_round_h, 2 * a_round_h], rtol=1e-5)
    assert draw_page(panel, "prior", "2")["y"] == [0, 0]
    assert_allclose(draw_page(panel, "prior", "3")["y"], [180, 180])
    assert draw_page(panel, "smoother", "4")["y"] == [100, 100]
    assert_allclose(draw_page(panel, "filter", "5")["y"], [0.04, 0.04])


def test_an_attack_that_only_names_places_has_its_reliability(folder):
    """Of two homes that are named with 0.9 one is right; the third place has no truth."""
    folder_made = folder()
    ues = [{"ue": ue, "name": f"ue{ue}", "home_x_m": 100, "home_y_m": 100} for ue in range(4)]
    named = {"attack": ATTACK, "x_m": 110, "y_m": 100, "probability": 0.9}
    rows = [
        named | {"ue": 0, "rank": 1, "place": "home"},
        named | read_yaml("ue: 1, rank: 1, place: home, x_m: 390"),
        named | {"ue": 1, "rank": 3, "place": "third 1"},
        named | {"ue": 2, "rank": 4, "place": "third " + "9" * 5000},
    ]
    write_rows(folder_made, "ues", ues)
    write_rows(folder_made, "named", rows)
    loaded = load_finished_run(folder_made)
    text = build_reliability_table(loaded)
    cells = re.findall(r"<td[^>]*>(.*?)</td>", text)
    assert cells[:3] == [ATTACK, "places named at the end", "2"]
    assert cells[3] == "40"
    assert text in draw_tracking(loaded)


def test_links_stand_beside_chance(folder):
    loaded = load_finished_run(
        folder(linking=[LINKS | {"round": k, "time_s": 60 * k} for k in (1, 2)])
    )
    (panel,) = charts.CHARTS["linking"].build_panels(loaded)
    for name, tail, value in (
        (ATTACK, "", 75),
        (ATTACK, "2", 2.5),
        (ATTACK, "3", 10),
        (f"{ATTACK}: by chance", "", 25),
        (f"{ATTACK}: by chance", "3", 2),
    ):
        assert draw_page(panel, name, tail)["y"] == [value, value]


def test_shares_of_links_are_so_far_and_by_updates(folder):
    row = {"attack": ATTACK, "chance_share": 0.1, "linked": 1}
    rows = [
        row | {"round": 1, "time_s": 60, "seen": 0},
        row | read_yaml("round: 1, time_s: 60, seen: 4, right_share: 0.75"),
        row | read_yaml("round: 2, time_s: 120, seen: 12, right_share: 0.25"),
    ]
    (panel,) = charts.CHARTS["linking"].build_panels(load_finished_run(folder(linking=rows)))
    assert draw_page(panel, ATTACK)["y"] == [None, 75, 37.5]


def test_unicity_is_a_table_of_its_rows(folder):
    folder_made = folder()
    rows = [
        {"resolution_m": side, "points": n, "ues": 4, "draws": 80, "unique_percent": percent}
        for side, n, percent in ((500, 2, 90), (500, 1, 40), (2500, 1, 10))
    ]
    write_rows(folder_made, "unicity", rows)
    text = str(draw_tracking(load_finished_run(folder_made))[-1])
    assert all(f">{n}</td>" in text for n in ("500", "2,500", "90", "40", "10"))


def test_names_are_text_and_the_page_is_the_same_twice(folder):
    rows = [row | {"attack": EVIL} for row in rows_of_two_rounds()]
    folder_made = folder(rows, believed(rows[0], square(TRUTH_M, 3)))
    text = write_report(folder_made).read_text()
    assert EVIL not in text
    assert "&lt;img src=x" in text
    assert write_report(folder_made).read_text() == text
    assert 'href="#tracking"' in text


def test_many_rounds_are_few_points(folder, monkeypatch):
    monkeypatch.setattr(charts, "MOST_POINTS", 1)
    loaded = load_finished_run(folder(rows_of_two_rounds()))
    (panel,) = build_tracking_chart(ATTACK).build_panels(loaded)
    assert_allclose(draw_page(panel, "filter")["y"], [52.5])
    assert "A point stands for 2 rounds." in panel.caption


# -- the map


def test_the_map_has_the_cells_of_the_rows_and_of_none_that_cannot_be_drawn(folder):
    rows = rows_of_two_rounds()
    own_rows = [row for row in rows if row["ue"] == 1]
    cells = [
        cell for k, row in enumerate(own_rows) for cell in believed(row, square(TRUTH_M, 2 + k))
    ]
    strange = believed(own_rows[0] | {"attack": "other"}, [(50.0, 50.0, 0.5)])
    strange += believed(own_rows[0] | {"hindsight": ""}, [(5.0, 5.0, 1)])
    result = collect_replay_tables(load_finished_run(folder(rows, cells + strange)))[0]["beliefs"]
    assert len(result["ue"]) == len(cells)
    assert set(result["ue"]) == {1}
    assert set(result["cell_m"]) == {CELL_M}
    for hindsight in (0, 1):
        for number in (1, 2):
            selected_rows = (result["hindsight"] == hindsight) & (result["round"] == number)
            wide = 2 * number + hindsight  # rows are in this order
            at_m = [(x, y) for x, y, _ in square(TRUTH_M, wide)]
            x_m, y_m = result["x_m"][selected_rows], result["y_m"][selected_rows]
            assert sorted(zip(x_m, y_m, strict=True)) == sorted(at_m)


@pytest.mark.parametrize(
    "table, change, text",
    read_cells("""
        tracking  disc_probability: 1.5  disc_probability 1.5 is not in [0, 1]
        tracking  ue: 9                  ue 9 is not in
        beliefs   cell_m: -3             cell_m -3 is not in
    """),
)
def test_a_folder_of_what_cannot_be_is_refused_in_one_line(folder, table, change, text):
    tracking = rows_of_two_rounds()[:1]
    belief = believed(tracking[0], square(TRUTH_M, 1))
    folder_made = folder(tracking, belief)
    row = (tracking if table == "tracking" else belief)[0]
    write_rows(folder_made, table, [row | read_yaml(change)])
    line = catch_line(write_report, folder_made)
    assert text in line
    assert f"{table}.csv: row 1" in line


def test_figures_have_no_number_that_json_does_not_know(folder):
    rows = rows_of_two_rounds(
        plain_error_m="", plain_near="", prior_expected_distance_m="", area90_m2=""
    )
    assert {"tracking-0"} <= set(figures(write_report(folder(rows))))


def test_lines_of_a_tracker_and_of_links_stand_beside_one_round_and_chance(folder):
    row = LINKS | {"round": 1, "time_s": 60}
    folder_made = folder(rows_of_two_rounds(), linking=[row])
    study = load_study(str(folder_made / "study.yaml"))
    lines = build_lines([summarise_run(open_finished_run(folder_made), study)])
    assert {
        line.title: (line.result, line.baseline)
        for line in lines
        if line.key.startswith(("track", "link"))
    } == {
        "tracking error, m": ("52.5", "one round 300, prior 150"),
        "tracked within 100 m, %": ("87.5", "one round 0 %, prior 0 %"),
        "names linked, %": ("75", "chance 25 %"),
        "time to confusion, s": ("600", "chance 120"),
    }


def test_means_so_far_count_each_value_by_its_weight():
    values = np.array([[1.0, 5.0], [nan, 2.0], [4.0, nan]])
    weight = np.array([[1.0, 3.0], [2.0, 4.0], [2.0, 9.0]])
    plain = average_so_far(values)
    weighted = average_so_far(values, weight)
    assert_allclose(plain[:, 0], [3.0, 8 / 3, 3.0])
    assert_allclose(weighted[:, 0], [4.0, (16 + 8) / 8, (24 + 8) / 10])
