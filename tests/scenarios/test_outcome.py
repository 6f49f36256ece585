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
from scenarios.app.report.report import write_report
from scenarios.app.results.outcome import Outcome, OutcomeTable
from scenarios.app.results.screen import MOST_ROWS, lay_out_screen, lay_out_table


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
    page = html.unescape(re.sub(r"<[^>]*>", "", Path(write_report(folder)).read_text()))
    assert result["kind"] == kind
    assert result["answer"]
    assert result["title"] in page
    assert kind == "run" or result["title"] in printed
    for requested, text in (item.values() for item in result["answer"]):
        assert f"{requested}{text}" in page
        assert text in printed
    for message in result["notices"]:
        line = Notice(**message).line
        assert line in page
        assert line in printed
    assert kind == "run" or "models-not-useful" in [message["key"] for message in result["notices"]]


def test_a_terminal_keeps_what_fits_and_names_the_rest():
    rows = [[f"label {k}", *map(float, range(30))] for k in range(MOST_ROWS + 2)]
    heads = ["variant", *(f"measure {k}, m" for k in range(30))]
    messages = " ".join(
        " ".join(
            lay_out_table(OutcomeTable("all", heads, rows, narrow=25, drops=True, foot=[{}] * 30))
        ).split()
    )
    assert "also on the page: measure" in messages
    assert "measure 23" in messages
    assert "measure 24" not in messages
    assert "and 2 more rows on the page" in messages
    assert f"label {MOST_ROWS - 1}" in messages
    assert f"label {MOST_ROWS} " not in messages
    assert lay_out_table(OutcomeTable("none", heads, rows, narrow=0)) == []


def test_only_what_there_is_has_a_line():
    assert lay_out_screen(
        Outcome("training", "t", facts={"empty": "", "full": "x"}), {"page": "p"}
    ) == [": t", "full  x", "page  p"]
