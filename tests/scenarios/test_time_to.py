"""Comparisons over true time: curves at the times of merges, and how soon a model is good."""

import re
from math import nan

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from pages import fake_sweep, figures
from tabled import cases
from uploads import change_rows, upload, write_uploads

from netsim.errors import BadInput
from scenarios.app.cli.commands import main
from scenarios.app.report.charts import QUANTITIES
from scenarios.app.report.compare_page import (
    MOST_TIMES,
    Member,
    align_series,
    build_member,
    build_time_table,
)
from scenarios.app.results.read import load_finished_run

RUNS = cases("""
"slow", 3, (70, 170), (9, 6)
"slow", 4, (80, 190), (8, 5)
"fast", 3, (61, 90), (6.5, 4)
"fast", 4, (65, 122), (5.5, 4.5)
""")
"""label, seed, times of merges in seconds, and errors in dB then"""


@pytest.fixture
def swept(tiny_run, tmp_path):
    """A sweep of two variants and two seeds, whose merges come at times of their own."""
    timed = {"uploads.count": 2, "uploads.time_s.mean": 4.0, "utility.constant_rmse_db": 20.0}
    rows = [
        (label, seed, timed | {"utility.rmse_db": errors_db[-1]})
        for label, seed, _, errors_db in RUNS
    ]
    out = fake_sweep(tiny_run, tmp_path / "swept", rows)
    for k, (*_, times_s, errors_db) in enumerate(RUNS):
        folder = out / f"r{k}"
        write_uploads(folder, [upload(i + 1, 0, (60, 60, 60, t)) for i, t in enumerate(times_s)])
        scores = zip(map(str, times_s), map(str, errors_db), strict=True)
        ends = (dict(zip(("time_s", "rmse_db"), score, strict=True)) for score in scores)
        change_rows(folder, "rounds", lambda row, ends=ends: row | next(ends))
    return out


# -- curves


def test_members_have_the_times_of_merges_where_uploads_take_time(swept):
    loaded = load_finished_run(swept / "r3")
    assert_array_equal(
        build_member("x", loaded).trends["", QUANTITIES["rmse"].law], [(65, 122), (5.5, 4.5)]
    )
    assert (
        build_member("x", loaded).trends["closed-form", QUANTITIES["sw1"].law][0] == (65, 122)
    ).all()


def test_at_common_times_each_run_counts_with_its_latest_value(swept):
    runs = [build_member("slow", load_finished_run(swept / f"r{k}")) for k in (0, 1)]
    time_s, grid = align_series([m.trends["", QUANTITIES["rmse"].law] for m in runs])
    assert time_s.tolist() == [70, 80, 170, 190]
    assert_array_equal(grid, [[9, nan], [9, 8], [6, 8], [6, 5]])


def test_of_very_many_merges_evenly_spaced_times_are_drawn(swept):
    runs = [build_member("slow", load_finished_run(swept / "r0"))]
    times_s = np.arange(5000.0)
    runs[0].trends["", QUANTITIES["rmse"].law] = times_s, times_s
    drawn_s, grid = align_series([m.trends["", QUANTITIES["rmse"].law] for m in runs])
    assert len(drawn_s) == MOST_TIMES
    assert (drawn_s[0], drawn_s[-1]) == (0, 4999)
    assert_array_equal(grid[:, 0], np.floor(np.linspace(0, 4999, MOST_TIMES)))


def make_comparison(label, errors_db, homes, ends_s=(3600.0, 7200.0)):
    """A run of two merges."""
    ends_s, errors_db, homes = np.array([ends_s, errors_db, homes], dtype=float)
    trends = {
        ("", QUANTITIES["rmse"].law): (ends_s, errors_db),
        ("span", QUANTITIES["homes"].law): (ends_s, homes),
    }
    return Member(label, {}, ["span"], 100.0, trends)


def test_the_table_of_times_has_means_with_intervals_and_what_is_known_by_then():
    """Goal: 8 dB. Seeds of "a" reach it after 2 and 4 h; Student's 95 % quantile for one degree is
    12.7."""
    runs = [
        make_comparison(*row)
        for row in cases("""
"a", [9.0, 7.0], [10.0, 30.0]
"a", [9.0, 6.0], [20.0, 50.0], (3600.0, 14400.0)
"b", [8.0, None], [5.0, 95.0]
"b", [15.0, 8.0], [5.0, 95.0]
"far", [30.0, 25.0], [0.0, 0.0]
""")
    ]
    text = build_time_table(runs, dict.fromkeys(("a", "b", "far"), "span"), 8.0)
    assert "Time to an RMSE of at most 8 dB" in text
    assert "time to it (hours)" in text
    cells = re.findall(r"<td[^>]*>(.*?)</td>", text)
    assert (
        " ".join(cells) == "a 3 ± 12.7 2 of 2 40 ± 127 b 1.5 ± 6.35 2 of 2 50 ± 572 far – 0 of 1 –"
    )


def test_without_a_measure_a_goal_is_refused():
    nothing = [make_comparison("a", [nan, nan], [0.0, 0.0])]
    with pytest.raises(BadInput, match="--reach 9: none of these runs has an RMSE"):
        build_time_table(nothing, {"a": "span"}, 9.0)


def test_the_page_is_over_true_time_and_tells_how_soon_models_are_good(swept, tmp_path, capsys):
    """6 dB is reached by slow runs at 170 and 190 s, by fast ones at 90 and 65 s."""
    page = tmp_path / "page.html"
    assert main(["compare", str(swept), "--out", str(page), "--reach", "6"]) == 0
    text = page.read_text()
    assert "Time to an RMSE of at most 6 dB" in text
    assert "2 of 2" in text
    rows = dict(
        re.findall(
            r'<tr><td class="text">(slow|fast)</td><td data-value="([\d.]+)">',
            text.split('id="times"')[1].split("</table>")[0],
        )
    )
    assert {label: float(value) for label, value in rows.items()} == pytest.approx(
        {"slow": 3.0, "fast": 77.5 / 60}
    )
    x = {
        x
        for t in figures(page)["progress"]["data"]
        if t["name"] == "fast"
        for x in t["x"]
        if x is not None
    }
    assert max(x) == pytest.approx(122 / 60, rel=1e-4)
    capsys.readouterr()
    page.unlink()
    for value in ("0", "nan", "inf", "-3"):
        assert main(["compare", str(swept), "--out", str(page), f"--reach={value}"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"--reach {value}: must be a number from" in line
        assert not page.exists()
