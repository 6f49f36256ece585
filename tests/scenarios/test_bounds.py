"""Bounds of the numbers of a run folder: their ends are accepted, what lies beyond is refused with its place."""

from pathlib import Path

import numpy as np
import pytest

from netsim.errors import BadInput
from scenarios.app.results.bounds import calendar_s, check_manifest, check_rows

FOLDER = Path("r")
MANIFEST = {
    "title": "x", "first_day": "2026-01-05", "duration_s": 120, "round_s": 60, "area_m": [0, 0, 400, 300],
    "tracks": {"every_s": 10}, "origin_deg": None, "clock_changes": [],
}  # fmt: skip


def tables(**columns):
    return {"ues": {"ue": np.arange(3.0)}, "rounds": {}, "tracks": {k: np.array(v) for k, v in columns.items()}}


def test_the_calendar_ends_with_the_year_9999():
    assert calendar_s("9999-12-30") == 86_400.0
    assert calendar_s("yesterday") == calendar_s(None) == 0.0


@pytest.mark.parametrize(
    "changes",
    [
        {}, {"area_m": [5, 5, 5, 5]}, {"area_m": [-5e6, -5e6, 5e6, 5e6]}, {"origin_deg": [-33.9, 151.2]},
        {"kind": "radio", "round_s": None},
    ],
)  # fmt: skip
def test_what_runs_write_is_accepted(changes):
    check_manifest(FOLDER, MANIFEST | changes)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("duration_s", float("nan")), ("duration_s", "120"), ("duration_s", 1e12), ("duration_s", False),
        ("area_m", [0, 0, 400, -1]), ("area_m", [1, 0, 0, 1]), ("area_m", [0, 0, 4.2e7, 1]),
        ("area_m", [0, 0, True, 1]),
        ("round_s", None), ("tracks", {"every_s": 0}), ("origin_deg", [1]), ("first_day", 5), ("clock_changes", [[0]]),
    ],
)  # fmt: skip
def test_a_manifest_of_what_cannot_be_is_refused(key, value):
    with pytest.raises(BadInput, match=rf"{key}.* is missing or damaged: it must be .*; run the study again"):
        check_manifest(FOLDER, MANIFEST | {key: value})


def test_empty_cells_and_the_ends_of_bounds_are_accepted():
    last_s = calendar_s(MANIFEST["first_day"])
    check_rows(FOLDER, MANIFEST, tables(time_s=[0.0, np.nan, last_s], ue=[0.0, np.nan, 2.0], round=[1.0, np.nan, 2.0]))


@pytest.mark.parametrize(
    ("column", "value"),
    [("time_s", -1.0), ("time_s", np.inf), ("time_s", 1e12), ("ue", 3.0), ("ue", -1.0), ("ue", 1.5), ("round", 9.0)],
)
def test_the_first_row_beyond_is_named(column, value):
    with pytest.raises(BadInput, match=rf"tracks.csv: row 2: {column} .* is not a .*, 0 to .*; run the study again"):
        check_rows(FOLDER, MANIFEST, tables(**{column: [0.0, value, value]}))


@pytest.mark.parametrize(
    ("table", "column", "value", "kind"),
    [
        ("tracking", "disc_probability", 1.01, "share"), ("tracking", "near", -1.0, "share"),
        ("tracking", "hindsight", 0.5, "flag"), ("tracking", "error_m", -1.0, "size"),
        ("tracking", "ue", -1.0, "whole"),
        ("beliefs", "probability", 2.0, "share"), ("beliefs", "cell_m", 0.0, "side of a cell"),
        ("beliefs", "cell_m", np.inf, "side of a cell"), ("linking", "right_share", 1.5, "share"),
        ("linking", "time_to_confusion_s", -5.0, "size"),
    ],
)  # fmt: skip
def test_probabilities_and_sizes_that_cannot_be_are_refused(table, column, value, kind):
    rows = {"ues": {"ue": np.arange(3.0)}, table: {column: np.array([1.0, value])}}
    with pytest.raises(BadInput, match=rf"{table}.csv: row 2: {column} .* is not a {kind}.*; run the study again"):
        check_rows(FOLDER, MANIFEST, rows)
    check_rows(FOLDER, MANIFEST, rows | {table: {column: np.array([1.0, np.nan])}})


def test_minus_one_stands_for_several_ues_where_there_may_be_several():
    several = {"ues": {"ue": np.arange(3.0)}, "privacy": {"ue": np.array([-1.0])}}
    check_rows(FOLDER, MANIFEST, several)
    with pytest.raises(BadInput, match="ue -2"):
        check_rows(FOLDER, MANIFEST, several | {"privacy": {"ue": np.array([-2.0])}})
