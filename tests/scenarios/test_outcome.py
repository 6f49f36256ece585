"""Terminal, page head and JSON of a folder say the same title, answers and notices."""

import html
import json
import re
import shutil
from pathlib import Path

import pytest
from pages import fake_sweep

from netsim.notice import Notice
from scenarios.app.cli.commands import main
from scenarios.app.report.report import report
from scenarios.app.results.outcome import Outcome, TableOf
from scenarios.app.results.screen import MOST_ROWS, screen, table_lines


@pytest.mark.parametrize("kind", ["run", "sweep"])
def test_terminal_page_and_json_say_the_same(kind, tiny_run, tmp_path, capsys):
    rows = [(label, k, {"utility.rmse_db": 20.0 + k}) for k, label in enumerate("ab")]
    folder = tmp_path / "one"
    if kind == "run":
        shutil.copytree(tiny_run, folder)
    else:
        fake_sweep(tiny_run, folder, rows)
    assert main(["show", str(folder)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert main(["show", str(folder), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    page = html.unescape(re.sub(r"<[^>]*>", "", Path(report(folder)).read_text()))
    assert result["kind"] == kind
    assert result["answer"]
    assert result["title"] in page
    assert kind == "run" or result["title"] in printed
    for asked, text in (each.values() for each in result["answer"]):
        assert f"{asked}{text}" in page
        assert text in printed
    for said in result["notices"]:
        line = Notice(**said).line
        assert line in page
        assert line in printed
    assert kind == "run" or "models-not-useful" in [said["key"] for said in result["notices"]]


def test_a_terminal_keeps_what_fits_and_names_the_rest():
    rows = [[f"label {k}", *map(float, range(30))] for k in range(MOST_ROWS + 2)]
    heads = ["variant", *(f"measure {k}, m" for k in range(30))]
    table = TableOf("all", heads, rows, narrow=25, drops=True, foot=[{}] * 30)
    told = " ".join(" ".join(table_lines(table)).split())
    assert "also on the page: measure" in told
    assert "measure 23" in told
    assert "measure 24" not in told
    assert "and 2 more rows on the page" in told
    assert f"label {MOST_ROWS - 1}" in told
    assert f"label {MOST_ROWS} " not in told
    assert table_lines(TableOf("none", heads, rows, narrow=0)) == []


def test_only_what_there_is_has_a_line():
    of = Outcome("training", "t", facts={"empty": "", "full": "x"})
    assert screen(of, {"page": "p"}) == [": t", "full  x", "page  p"]
