"""A finished run in Python: a mapping of its summary, frames, figures, the page."""

import json
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pandas
from conftest import ROOT
from plotly.graph_objects import Figure
from pytest import fixture, raises
from refused import catch_line

import scenarios
from netsim.errors import BadInput
from scenarios.app.results.folder import read_json, read_record_table, read_summary
from scenarios.app.results.read import load_finished_run as read_run

SMALL = {
    "world.duration_s": 259_200,
    "world.tick_s": 3600,
    "learning.round_s": 86_400,
    "world.ues": {"count": 3, "mobility": {"kind": "commuter"}},
    "learning.learner.hidden": [8],
}


@fixture(scope="module")
def result(tiny, tmp_path_factory):
    return scenarios.run(tiny(SMALL), tmp_path_factory.mktemp("result") / "r")


def test_it_is_the_summary_as_a_mapping(result):
    summary = read_summary(result.folder)
    assert result.summary == summary
    assert result == summary
    assert result["ues.count"] == 3
    assert list(result) == list(summary)
    assert {**result, "x": 1} == {**summary, "x": 1}
    with raises(KeyError):
        result["nothing"]
    assert pickle.loads(pickle.dumps(result)) == result


def test_a_folder_opens_as_what_its_run_returned(result):
    again = scenarios.open_run(result.folder)
    assert again == result
    assert scenarios.open_run(str(result.folder))["ues.count"] == 3


def test_frames_hold_the_records(result):
    assert {"rounds", "leakage", "updates", "links", "ues"} <= set(result.tables)
    assert "coverage_of" not in result.tables
    for name in ("rounds", "leakage", "links"):
        frame = result.tables[name]
        columns = read_record_table(result.folder, name)
        assert isinstance(frame, pandas.DataFrame)
        assert set(columns) <= set(frame.columns)
        for column, values in columns.items():
            if values.dtype == object:
                assert frame[column].tolist() == values.tolist()
            else:
                np.testing.assert_array_equal(frame[column].to_numpy(float), values)
    assert result.tables["leakage"] is result.tables["leakage"]
    with raises(KeyError, match=r"no table 'leak'.*leakage"):
        result.tables["leak"]


def test_times_are_what_the_wall_clock_shows(result, out):
    """After clocks went forward by an hour the local time is an hour ahead."""
    folder = shutil.copytree(result.folder, out)
    manifest = read_json(folder / "manifest.json")
    changed_s = 1.5 * 86_400
    (folder / "manifest.json").write_text(
        json.dumps({**manifest, "clock_changes": [[changed_s, 3600.0]]})
    )
    rounds = scenarios.open_run(folder).tables["rounds"]
    before = result.tables["rounds"]
    ahead = (rounds["time"] - before["time"]).dt.total_seconds()
    assert ahead.tolist() == [3600.0 if t >= changed_s else 0.0 for t in rounds["time_s"]]
    assert {*ahead} == {0.0, 3600.0}


def test_figures_are_those_of_the_page(result):
    from scenarios.app.report.run_page import build_run_chapters

    panels = {
        p.key: p.figure
        for chapter in build_run_chapters(read_run(result.folder))
        for p in chapter.panels
    }
    assert list(result.figures) == list(panels)
    assert len(panels) > 2
    for key, figure in result.figures.items():
        assert isinstance(figure, Figure)
        assert len(figure.data) == len(panels[key]["data"])


def test_the_page_is_drawn_when_it_is_asked_for(result, monkeypatch):
    from scenarios.app import result as module

    assert not (result.folder / "report.html").exists() or result.page.unlink() is None
    assert result.page == result.folder / "report.html"
    assert result.page.is_file()
    before = result.page.stat().st_mtime_ns
    opened = []
    monkeypatch.setattr(module, "show_page", lambda page: opened.append(page) or True)
    assert result.show() == result.page
    assert opened == [result.page]
    assert result.page.stat().st_mtime_ns == before


def test_what_is_no_finished_run_is_refused_in_a_line(result, tmp_path):
    for folder, word in (
        (tmp_path / "nowhere", "no such folder"),
        (ROOT / "docs", "neither the folder of a run"),
    ):
        with raises(BadInput, match=word):
            scenarios.open_run(folder)
    several = tmp_path / "several"
    shutil.copytree(result.folder, several / "one")
    with raises(BadInput, match=r"several runs; open one of them, such as .*one"):
        scenarios.open_run(several)
    (several / "one/summary.json").unlink()
    assert "not finished" in catch_line(scenarios.open_run, several / "one")


def test_damaged_records_are_refused_in_a_line(result, out):
    folder = shutil.copytree(result.folder, out)
    manifest = read_json(folder / "manifest.json")
    (folder / "rounds.csv").write_text((folder / "rounds.csv").read_text() + "1,2\n")
    with raises(BadInput, match=r"rounds.csv: damaged"):
        scenarios.open_run(folder).tables["rounds"]
    for wrong, message in (
        ({"first_day": "yesterday"}, "first_day is missing or damaged"),
        ({"clock_changes": [["x", 3600]]}, r"clock_changes\S* is missing or damaged"),
        ({"clock_changes": [[np.nan, 3600]]}, "NaN is no finite number"),
    ):
        (folder / "manifest.json").write_text(json.dumps(manifest | wrong))
        with raises(BadInput, match=f"manifest.json: .*{message}"):
            scenarios.open_run(folder).tables["links"]


def test_a_run_imports_no_frames_and_no_figures():
    """Workers of a sweep return a plain summary and load neither pandas nor plotly."""
    code = (
        "import sys, scenarios.app.run.sweep, scenarios.app.run.runner; "
        "print(sorted(set(sys.modules) & {'pandas', 'plotly', 'pyarrow', 'stable_baselines3'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.strip() == "[]"
