"""What pages and terminals show: nothing is cut off, axes have figures that can be read, every scenario its title."""

import json
import re

import numpy as np
import pytest
from conftest import TINY

from netsim.errors import BadInput
from netsim.part import OneOf
from scenarios.app.cli.commands import main
from scenarios.app.report.figures.maps import obstacle_panels
from scenarios.app.report.plot import Cell, Look, line, mosaic
from scenarios.app.report.report import report
from scenarios.app.report.series import DATES
from scenarios.app.run.runner import run
from scenarios.app.run.sweep import sweep
from scenarios.app.study.describe import list_slot
from scenarios.app.study.load import bundled, load, title_of
from scenarios.app.study.slots import SLOTS


def figures(folder):
    """Key -> figure of the page of a folder."""
    text = report(folder).read_text()
    return json.loads(re.search(r'id="drawn">(.*?)</script>', text, flags=re.DOTALL)[1])


def test_a_single_moment_has_one_tick_within_hours():
    one = mosaic([Cell("m", [line(Look("a", "#000000"), ["2026-01-05 00:01:00"], np.array([3.0]))])], DATES)
    axis = one["layout"]["xaxis"]
    assert axis["range"] == ["2026-01-04 23:01:00", "2026-01-05 01:01:00"]
    assert axis["tickvals"] == ["2026-01-05 00:01:00"]
    two = mosaic([Cell("m", [line(Look("a", "#000000"), ["2026-01-05", "2026-01-06"], np.ones(2))])], DATES)
    assert "range" not in two["layout"]["xaxis"] and "tickvals" not in two["layout"]["xaxis"]


def test_maps_of_a_grid_say_what_their_colours_span():
    plane = np.arange(12.0).reshape(3, 4)
    grid = {"roof_m": plane, "height_m": plane, "made": plane, "sent": plane, "place_m": np.ones(2)}
    (panel,) = obstacle_panels(grid | {"area_m": np.array([0.0, 0.0, 40.0, 30.0])})
    titles = [a["text"] for a in panel.figure["layout"]["annotations"]]
    assert len(titles) == 4 and titles[0] == "<b>true obstacles, 0 to 11 m</b>" and titles[3].endswith(" decades</b>")
    assert panel.figure["layout"]["grid"]["rows"] == panel.figure["layout"]["grid"]["columns"] == 2


def test_a_sweep_over_the_radio_draws_the_radio(tmp_path):
    document = json.loads(json.dumps(TINY))
    document["world"]["radio"]["uplink"] = {"kind": "noma", "sic_residual": 0.01}
    document["learning"] |= {"attacks": [], "defenses": [{"kind": "clip", "norm": 1.0}]}
    document["vary"] = {"values": {"world.ues.max_power_dbm": [23.0, -20.0]}}
    path = tmp_path / "study.yaml"
    path.write_text(json.dumps(document))
    sweep(path, load(path), tmp_path / "radio", 1, {}, lambda *_: None)
    drawn = figures(tmp_path / "radio")["uplink"]
    titles = [a["text"] for a in drawn["layout"]["annotations"]]
    assert any("SINR" in t for t in titles) and any("Energy" in t for t in titles)
    sinr = [t["y"] for t in drawn["data"] if t["yaxis"] == "y2" and t.get("fill") is None]
    links = [
        [np.median(_column(table.parent, "sinr_db", k)) for k in (1, 2)]
        for table in (tmp_path / "radio").rglob("links.csv")
    ]
    np.testing.assert_allclose(np.sort(sinr, axis=0), np.sort(links, axis=0), rtol=1e-4)


def _column(folder, name, round_):
    rows = np.genfromtxt(folder / "links.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    return rows[name][rows["round"] == round_]


@pytest.mark.parametrize(("most", "said"), [(None, [(1, 4), (2, 4), (3, 4), (4, 4)]), (2, [(1, 2), (2, 2)])])
def test_progress_counts_to_the_last_round_that_is_played(tiny, tmp_path, most, said):
    seen = []
    study = tiny({"world.duration_s": 240, "learning.rounds": most})
    run(study, tmp_path / "out", lambda now: seen.append((now.done, now.of)))
    assert seen == said


def test_every_part_has_a_first_sentence_that_ends():
    for slot, union in SLOTS.items():
        for block in list_slot(slot, union).split("\n\n")[1:]:
            assert "::" not in block.split("\n  ")[0], block
    assert isinstance(SLOTS["mobility"], OneOf)


def test_the_list_has_the_titles_of_all_bundled_scenarios(capsys):
    assert main(["list"]) == 0
    said = capsys.readouterr().out
    assert all(len(row) <= 110 for row in said.splitlines())
    lines = " ".join(said.split())
    for name, path in bundled().items():
        title = title_of(path)
        assert title and f" {name} {title[:30]}" in lines
    assert title_of(bundled()["campus"]) == load("campus").title


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_the_matrix_fits_the_terminal(capsys, monkeypatch, columns):
    combination = {"learner": "rsrp-net", "defenses": "none", "attack": "closed-form", "threat": "server sees rows"}
    combination["curation"] = "none"
    threats = [f"{who} sees {what}" for who in ("server", "analyst", "eavesdropper") for what in ("rows", "sum")]
    found = [(combination | {"threat": t, "defenses": f"a > {i}"}, "legal") for t in threats for i in range(30)]
    found += [(combination | {"defenses": "b"}, "a reason " * 40)]
    monkeypatch.setattr("scenarios.app.study.slots.combinations", lambda: iter(found))
    monkeypatch.setattr(
        "scenarios.app.study.slots.beside",  # whose parts are none of ours
        lambda slot, other, verdicts: ((combination | {other: "synchronous"}, why) for combination, why in verdicts),
    )
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["list", "--matrix"]) == 0
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= columns
    said = " ".join(said.split())
    assert all(t in said for t in threats) and "a > 29" in said
    assert " ".join(("a reason " * 40).split()) in said


def test_a_page_of_somebody_else_is_not_replaced(tiny, tmp_path):
    for name in "ab":
        run(tiny(), tmp_path / "mine" / name)
    page = tmp_path / "mine" / "report.html"
    page.write_text("dear")
    with pytest.raises(BadInput, match=r"report\.html: is not a page of ours"):
        report(tmp_path / "mine")
    assert page.read_text() == "dear"
    page.unlink()
    first = report(tmp_path / "mine").read_bytes()
    assert report(tmp_path / "mine").read_bytes() == first
