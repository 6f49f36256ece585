"""The page of claims: counts, verdicts as words, links to pages that are there, and hostile text that stays text."""

import re

import pytest
from browser import violations
from pages import body

from netsim.record import write_json
from scenarios.app.claims.claim import FAILS, HOLDS, OPEN, Claim, Verdict
from scenarios.app.claims.pages import claims_page
from scenarios.app.cli.commands import main
from scenarios.app.report.plot import GENERATOR
from scenarios.app.study.describe import build
from scenarios.app.study.yaml_document import read_text

EVIL = '<img src=x onerror="alert(1)">'


def verdict(name, of, paper="A paper", reason="", ours="a: 15 [12.5, 17.5]", says="it does"):
    written = f"""{{id: {name}, paper: "{paper}", where: Fig. 1, says: '{says}', scenario: campus, value: 12,
      rule: {{kind: at-most, key: utility.rmse_db, bound: 3}}}}"""
    return Verdict(build(Claim, read_text(written, "claims")), of, reason, ours)


MIXED = (
    verdict("one", HOLDS), verdict("two", FAILS, paper="Another"), verdict("three", HOLDS),
    verdict("four", OPEN, reason="no run: campus", ours="-"), verdict("five", OPEN, reason="no run: town"),
)  # fmt: skip


def test_claims_are_counted_and_those_of_a_publication_stand_together_with_a_word_for_each_verdict(tmp_path):
    text = body(claims_page(MIXED, {}, tmp_path))
    assert "2 holds, 1 does not hold, 2 undecided." in text
    table = text[text.index('id="claims"') :].partition("</table>")[0]
    found = re.findall(r"<tr>(.*?)</tr>", table, flags=re.DOTALL)[1:]
    rows = [[re.sub("<[^>]*>", "", c) for c in re.findall(r"<td[^>]*>(.*?)</td>", row)] for row in found]
    assert [row[-1] for row in rows] == ["one", "three", "four", "five", "two"]
    assert [row[5] for row in rows] == [HOLDS, HOLDS, OPEN, OPEN, FAILS]
    assert rows[0][3:5] == ["12", "a: 15 [12.5, 17.5]"] and rows[2][6] == "no run: campus"


def test_links_lead_only_to_pages_that_are_there(tmp_path):
    folder = tmp_path / "runs" / "campus"
    folder.mkdir(parents=True)
    for there in (False, True):
        text = claims_page(MIXED, {"campus": folder}, tmp_path / "out").partition("<h2>Configuration")[0]
        table = text[text.index('id="claims"') :]
        assert ('href="../runs/campus/report.html"' in table) == ("href=" in table) == there
        (folder / "report.html").write_text("")


def test_hostile_claims_stay_text(tmp_path):
    text = claims_page([verdict("one", OPEN, reason=EVIL, ours=EVIL, says=EVIL)], {}, tmp_path, EVIL)
    assert EVIL not in text and "&lt;img src=x" in text


@pytest.fixture
def decided(tmp_path):
    """A file of one claim, and the folder of a run that decides nothing, since it is one seed."""
    (tmp_path / "fake.yaml").write_text("title: A fake\n")
    rule = {"kind": "at-most", "key": "utility.rmse_db", "bound": 20}
    claim = {"id": "one", "paper": "A paper", "where": "Fig. 1", "says": "it does", "scenario": "fake.yaml"}
    write_json(tmp_path / "claims.yaml", {"claims": [claim | {"rule": rule}]})
    (tmp_path / "r").mkdir()
    write_json(tmp_path / "r" / "summary.json", {"utility.rmse_db": 10.0, "utility.useful": True})
    write_json(tmp_path / "r" / "manifest.json", {"title": "A fake", "seed": 1})
    return ["claims", "--file", str(tmp_path / "claims.yaml"), "--run", f"{tmp_path / 'fake.yaml'}={tmp_path / 'r'}"]


def test_the_command_writes_the_page(decided, tmp_path, capsys):
    assert main([*decided, "--out", str(tmp_path / "out")]) == 0
    page = tmp_path / "out" / "claims.html"
    assert f"page in {page}" in capsys.readouterr().out and "one seed gives no interval" in page.read_text()
    assert main([*decided, "--out", str(tmp_path / "out"), "--page", str(tmp_path / "mine.html")]) == 0
    assert GENERATOR in (tmp_path / "mine.html").read_text()
    capsys.readouterr()
    assert main(decided) == 0 and "page in" not in capsys.readouterr().out


def test_a_page_of_somebody_else_is_left_alone_before_anything_is_played(decided, tmp_path, capsys):
    (tmp_path / "mine.html").write_text("mine")
    assert main([*decided, "--out", str(tmp_path / "out"), "--page", str(tmp_path / "mine.html")]) == 2
    assert "is not a page of ours" in capsys.readouterr().err and (tmp_path / "mine.html").read_text() == "mine"
    assert not (tmp_path / "out").exists()
    assert main([*decided[:3], "--page", "x.html"]) == 2 and "what to decide by" in capsys.readouterr().err


def test_in_a_browser_claims_filter_by_verdict(tmp_path, show):
    path = tmp_path / "claims.html"
    path.write_text(claims_page(MIXED, {}, tmp_path), encoding="utf-8")
    shown = show(path, width=400, dark=True)
    shown.fill("input[data-filter=claims]", "does not")
    assert shown.locator("#claims tbody tr:not([hidden]) td:last-child").all_inner_texts() == ["two"]
    assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations(shown, serious=True) == {}
