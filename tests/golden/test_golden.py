"""Built-in studies give the numbers that they gave: each is played briefly, and compared with golden.json.

What failed says study, file, column and how far it moved. Where the change is meant, `python tests/golden/golden.py
--renew STUDY` keeps the new numbers, and the changelog says so.
"""

import json
import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
from brief import ROUNDS, TRAINED, brief, names, needs_data, play
from golden import GOLDEN, golden, played
from sketch import column, differences, sketch

HERE = Path(__file__).parent
SLOW = {
    "city/asynchronous", "cities/pedestrians", "power/city (training)", "radio/calibration", "rsrp-dp/budget",
    "rsrp-dp/noise", "signal-maps/interval", "signal-maps/santa-monica/batch-size", "signal-maps/santa-monica/interval",
    "signal-maps/santa-monica/ranking", "signal-maps/santa-monica/users", "tracking/names", "useful/drives",
    "useful/geolife", "useful/santa-monica",
    "campus-public", "campus/settings", "cities/town-radio-maps", "cities/town-rsrp-dp", "cities/town-signal-maps",
    "density/midtown",
    "lapa/mnist-privacy", "radio-maps/etoile", "radio-maps/leak", "radio-maps/munich", "radio-maps/noise",
    "radio-maps/rho", "radio-maps/theory", "radio-maps/train", "rsrp-dp/clip", "rsrp-dp/cork", "rsrp-dp/labels",
    "rsrp-dp/santa-monica", "tracking/check-ins", "tracking/drives", "tracking/people", "tracking/taxis",
    "useful/leakage", "power/pedestrians (training)",
    "city", "tracking/city", "radio-maps/moving", "cities/town-density", "power/paper (training)",
    "rsrp-dp/membership", "lapa/mnist", "power/streets (training)", "cities/munich",
}  # fmt: skip
"""what takes more than two seconds"""
SMALL = "cities/sensors"


def skip_without_data(name):
    if needs_data(name) and "NETSIM_DATA" not in os.environ:
        pytest.skip("NETSIM_DATA is not set: no real data here")


def marked(name):
    return pytest.param(name, marks=pytest.mark.slow if name in SLOW else ())


@pytest.mark.parametrize("name", [marked(name) for name in names()])
def test_a_short_run_gives_the_golden_numbers(name, tmp_path):
    skip_without_data(name)
    files = play(name, tmp_path / "run")
    assert differences(name, golden()[name], sketch(tmp_path / "run", files)) == []
    if name.endswith(TRAINED):
        return
    study, summary = brief(name), json.loads((tmp_path / "run" / "summary.json").read_text())
    if study.learning is None:
        assert summary["radio.samples"] > 0
        return
    kind, lasts_s = study.learning.learner.kind_name(), study.world.duration_s  # a trace lasts as long as it does
    possible = lasts_s // study.round_s if lasts_s else 1 if kind == "density" else ROUNDS  # people are asked once
    assert summary["rounds.played"] == min(ROUNDS, possible)
    said = {"density": "rank_correlation", "image-net": "accuracy_percent"}.get(kind, "rmse_db")
    assert summary[f"utility.{said}"] is not None


def test_every_study_has_golden_numbers_and_nothing_else_has():
    assert list(golden()) == names() and set(names()) > SLOW
    assert GOLDEN.stat().st_size < 3e6


# -- what is found


def test_one_constant_of_the_path_loss_moved_by_a_thousandth_of_a_decibel_is_found(tmp_path):
    key = "world.radio.path_loss.reference_loss_db"
    loss_db = brief("campus").world.radio.path_loss.reference_loss_db
    lines = differences("campus", golden()["campus"], played("campus", tmp_path / "run", {key: loss_db + 1e-3}))
    assert any(line.startswith("campus: links.csv, column rsrp_dbm: mean was -") for line in lines)
    assert any(line.startswith("campus: updates.csv, column norm: ") for line in lines)
    assert not any("x_m" in line and "links.csv" in line for line in lines)  # where people are is as it was


def test_another_seed_is_found(tmp_path):
    lines = differences(SMALL, golden()[SMALL], played(SMALL, tmp_path / "run", {"seed": brief(SMALL).seed + 1}))
    assert any(line.startswith(f"{SMALL}: links.csv, column x_m: mean was ") for line in lines)
    assert any(line.startswith(f"{SMALL}: summary.json, column utility.rmse_db: mean was ") for line in lines)


def moved(values, by):
    """Lines for a file of one column whose first number moves."""
    was = {"a.csv": {"rows": len(values), "columns": {"x_m": column([repr(v) for v in values])}}}
    changed = [repr(values[0] + by), *map(repr, values[1:])]
    return differences("study", was, {"a.csv": {"rows": len(values), "columns": {"x_m": column(changed)}}})


def test_one_number_of_many_that_moves_is_found_and_rounding_is_not():
    values = [float(v) for v in np.random.default_rng(1).normal(100, 10, 1000)]
    (line,) = moved(values, 1.0)
    assert line.startswith("study: a.csv, column x_m: ") and line.endswith(" is rounding")
    assert moved(values, 1e-4) == moved(values, 0.0) == []


def test_rows_that_change_places_are_found():
    values = [repr(v) for v in (1.5, 2.5, 3.5)]
    was, now = (
        {"a.csv": {"rows": 3, "columns": {"x_m": column(cells)}}}
        for cells in (values, [values[1], values[0], values[2]])
    )
    (line,) = differences("study", was, now)
    assert "weighted sum was" in line


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        (["1", "2"], ["1", "3"], "other values: the sum was 3, is 4"),
        (["1", "2"], ["2", "1"], "other values"),
        (["a", "b"], ["a", "c"], "other values"),
        (["1.5", ""], ["", "1.5"], "other cells are empty or infinite"),
        (["1.5", "inf"], ["1.5", "-inf"], "other cells are empty or infinite"),
        (["1.5", "2"], ["1", "2"], "other kinds of values"),
        (
            ["1.5", "2.5"],
            ["1.5", "2.50001"],
            "largest magnitude was 2.5, is 2.50001: by 1e-05, at most 2.5e-06 is rounding",
        ),
        (["0", "0"], ["0", "1"], "other values: the sum was 0, is 1"),
    ],
)
def test_what_is_exact_is_compared_exactly(was, now, said):
    one, two = ({"a.csv": {"rows": 2, "columns": {"k": column(cells)}}} for cells in (was, now))
    assert differences("s", one, deepcopy(one)) == []
    (line,) = differences("s", one, two)
    assert line.startswith(f"s: a.csv, column k: {said}")


def test_files_rows_and_columns_that_come_or_go_are_named():
    one = {"a.csv": {"rows": 2, "columns": {"k": column(["1", "2"])}}, "b.csv": {"rows": 1, "columns": {}}}
    two = {"a.csv": {"rows": 1, "columns": {"n": column(["1"])}}}
    assert sorted(differences("s", one, two)) == [
        "s: a.csv, column k: only in the golden run", "s: a.csv, column n: only in this run",
        "s: a.csv: had 2 rows, has 1", "s: b.csv: only in the golden run",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "was", "now", "same"),
    [
        ("x_m", ["100.5"], ["100.500005"], True),
        ("x_m", ["100.5"], ["100.502"], False),
        ("rmse_db", ["100.5"], ["100.50005"], True),
        ("rmse_db", ["100.5"], ["100.502"], False),
        ("noise", ["0", "0"], ["0", "1.1e-16"], True),  # nothing, and nothing but rounding
        ("evaluations", ["20", "21"], ["22", "21"], True),
        ("evaluations", ["20", "21"], ["50", "21"], False),
        ("attack.dlg.evaluations.mean", ["20.5"], ["21"], True),
        ("self_test_m", ["1e-13", "2e-13"], ["5e-13", "1e-13"], True),
        ("decoded", ["1", "1"], ["1", "0"], False),
    ],
)
def test_what_hangs_on_the_processor_is_allowed_and_no_more(name, was, now, same):
    one, two = ({"a.csv": {"rows": len(was), "columns": {name: column(cells)}}} for cells in (was, now))
    assert (differences("s", one, two) == []) == same


# -- other processors

OLD = {
    "OMP_NUM_THREADS": "2", "OPENBLAS_CORETYPE": "Prescott", "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE", "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
}  # fmt: skip
"""libraries that take this machine for one without wide vector units, and have two threads"""


@pytest.mark.slow
def test_the_golden_numbers_are_those_of_an_old_processor_too():
    command = [
        sys.executable,
        str(HERE / "golden.py"),
        "campus",
        "cities/",
        "city",
        "lapa/",
        "power/",
        "radio",
        "replay",
    ]
    done = subprocess.run(
        command, env=os.environ | OLD | {"PYTHONPATH": str(HERE.parents[1])}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
