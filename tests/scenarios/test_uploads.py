"""Uploads that take their time: what summaries, words and figures say of them, from rows made by
hand."""

import json
import shutil
from datetime import datetime
from math import nan
from pathlib import Path

import numpy as np
import pytest
from browser import violations
from numpy.testing import assert_allclose, assert_array_equal
from refused import catch_line
from rows import read_cells
from uploads import MIXED, change_rows, upload, write_uploads

from netsim.record import write_json
from scenarios.app.report.charts import CHARTS
from scenarios.app.report.report import write_report
from scenarios.app.report.run_page import draw_latency, draw_uploads
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.folder import read_record_table
from scenarios.app.results.read import load_finished_run as load_run
from scenarios.app.results.read import open_finished_run
from scenarios.app.results.summary import (
    compute_wasted_bit_share,
    measure_durations_s,
    summarise_run,
)
from scenarios.app.results.table import format_group_row
from scenarios.app.study.load import load

EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture
def folder(tiny_run, tmp_path):
    """The same run with other rows: call it with them."""

    def make(rows=MIXED):
        copy = Path(shutil.copytree(tiny_run, tmp_path / "run", dirs_exist_ok=True))
        write_uploads(copy, rows)
        summary = summarise_run(open_finished_run(copy), load(copy / "study.yaml"))
        write_json(copy / "summary.json", summary)
        return copy

    return make


def summarise_uploads(folder):
    return json.loads((folder / "summary.json").read_text())


# -- numbers


def test_a_run_whose_uploads_take_no_time_says_nothing_of_them(tiny_run, tmp_path):
    item = shutil.copytree(tiny_run, tmp_path / "run")
    summary = summarise_uploads(item)
    assert not [key for key in summary if key.startswith("uploads.")]
    assert format_group_row([summary], "uploads") == ""
    assert draw_uploads(load_run(item)) == []
    assert "Uploads" not in write_report(item).read_text().split("<script")[0]


def test_times_and_bits_of_the_summary(folder):
    """Three arrive after 20, 30 and 12 s; of 4,000 bits 3,000 were of use."""
    summary = summarise_uploads(folder())
    assert summary["uploads.count"] == len(MIXED)
    assert summary["uploads.arrived"] == 3
    assert summary["uploads.time_s.mean"] == pytest.approx(62 / 3)
    assert summary["uploads.time_s.q95"] == pytest.approx(29.0)  # 20 + 0.9 (30 - 20)
    assert summary["uploads.wasted_bits.percent"] == pytest.approx(100 * 1000 / 4000)
    assert summary["uploads.staleness.mean"] == pytest.approx(1 / 3)
    assert {item.to_key() for item in keys.KEYS if item.key.startswith("uploads.")} == {
        key for key in summary if key.startswith("uploads.")
    }


def test_of_uploads_that_all_failed_no_time_is_known(folder):
    summary = summarise_uploads(folder([upload(1, 0, (60, None, None, 61), fate="dropped")]))
    assert summary["uploads.time_s.mean"] is summary["uploads.staleness.mean"] is None
    assert summary["uploads.wasted_bits.percent"] is None
    assert format_group_row([summary], "uploads") == "requested 1"


def test_parts_follow_each_other_and_a_cut_one_ends_with_the_upload(folder):
    uploads = read_record_table(folder(), "transmissions")
    length_s = measure_durations_s(uploads)
    parts = np.column_stack([length_s[part] for part in ("preparing", "waiting", "sending")])
    assert_array_equal(parts[3], [3, nan, nan])  # dropped while it prepared
    assert_array_equal(parts[5], [10, 20, nan])  # stopped while it waited
    assert_array_equal(parts[7], [5, 2, nan])  # still sending
    ended = np.isfinite(uploads["ended_s"])
    assert_allclose(np.nansum(parts, axis=1)[ended], length_s["whole"][ended])


def test_nothing_sent_is_not_sent_in_vain(folder):
    silent = folder([upload(1, 0, (60, 60, 60, 60), bits=0)])
    assert np.isnan(compute_wasted_bit_share(read_record_table(silent, "transmissions")))


# -- bad files


@pytest.mark.parametrize(
    "column, value, says",
    read_cells("""
        granted_s  inf   row 1: granted_s inf is not in [0,
        ue         4     row 1: ue 4 is not in [-1, 3]
        bits       many  column bits
    """),
)
def test_rows_that_cannot_be_are_refused_in_one_line(folder, column, value, says):
    copy = folder()
    first = iter([value])
    change_rows(copy, "transmissions", lambda row: row | {column: next(first, row[column])})
    line = catch_line(load_run, copy)
    assert "transmissions.csv" in line
    assert says in line


# -- figures


def draw_page(panel):
    """Traces by name."""
    return {trace["name"]: trace for trace in panel.figure["data"]}


def test_the_distribution_is_of_uploads_that_arrived(folder):
    loaded = load_run(folder())
    traces = draw_page(draw_latency(loaded.tables["transmissions"]))
    assert (min(traces["sending"]["x"]), max(traces["sending"]["x"])) == (10, 28)
    assert max(traces["from request to arrival"]["x"]) == 30
    assert traces["from request to arrival"]["y"][-1] == 100
    uploads = loaded.tables["transmissions"]
    lost = uploads["fate"] != "arrived"
    assert draw_latency({name: column[lost] for name, column in uploads.items()}).figure is None


def test_staleness_is_drawn_where_something_is_stale(folder):
    loaded = load_run(folder())
    uploads = loaded.tables["transmissions"]
    (panel,) = CHARTS["uploads-staleness"].build_panels(loaded)
    mean = draw_page(panel)["mean over the updates of the merge"]
    assert mean["y"] == [0, 1]
    times = [str(datetime.fromisoformat(x)) for x in mean["x"]]
    assert times == ["2026-01-05 00:01:00", "2026-01-05 00:02:00"]
    loaded.tables["transmissions"] = uploads | {"staleness": uploads["staleness"] * 0}
    assert CHARTS["uploads-staleness"].build_panels(loaded) == []


def test_the_chapter_stands_on_the_page_and_is_drawn(folder, show):
    shown = show(write_report(folder()))
    shown.evaluate("netsim.drawAll()")
    shown.wait_for_selector("#plot-uploads-latency .main-svg")
    names = [t.text_content() for t in shown.locator("#plot-uploads-latency .legendtext").all()]
    assert names == [
        "preparing: downlink and training",
        "waiting for a grant",
        "sending",
        "from request to arrival",
    ]
    with shown.expect_download() as download:
        shown.click("#uploads-latency [data-save=csv]")
    assert b"waiting for a grant" in download.value.path().read_bytes()
    assert shown.get_attribute("#plot-uploads-latency", "role") == "img"
    assert shown.get_attribute("#plot-uploads-latency", "aria-label").startswith(
        "How long uploads take"
    )


@pytest.mark.slow
@pytest.mark.parametrize("width, dark", [(400, True), (1280, False)])
def test_the_chapter_fits_and_can_be_read_by_everybody(folder, show, width, dark):
    shown = show(write_report(folder()), width=width, dark=dark)
    shown.evaluate("netsim.drawAll()")
    shown.wait_for_selector("#plot-uploads-latency .main-svg")
    assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations(shown, "#uploads") == {}
