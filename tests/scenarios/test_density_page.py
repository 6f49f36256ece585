"""Pages of densities: every picture is drawn from the run folder, and the table says what the pictures show."""

import json
import re

import numpy as np
import plotly.graph_objects as go
import pytest

from netsim.errors import BadInput
from scenarios.app.report.report import report
from scenarios.app.run.runner import run
from scenarios.app.run.sweep import sweep
from scenarios.app.study.load import load

SMALL = {"world.ues.count": 150, "learning.learner.grid": [16, 14], "learning.threat.targets": 5}
GEO = [{"kind": "geo-indistinguishable", "epsilon_per_m": 0.001}]
VARY = {
    "seed": [0, 1],
    "variants": [
        {"label": "exact", "set": {"learning.learner.n_features": "exact"}},
        *(
            {"label": f"B {b}", "curve": "waves", "strength": b, "set": {"learning.learner.n_features": b}}
            for b in (1, 3, 8)
        ),
        {"label": "Geo", "curve": "GeoInd", "strength": 1,
         "set": {"learning.learner.n_features": "exact", "learning.curation": GEO}},
    ],
}  # fmt: skip


def drawn(page):
    """Figures of a page, each accepted by plotly."""
    found = json.loads(re.search(r'id="drawn">(.*?)</script>', page.read_text(), re.S)[1].replace("\\u003c", "<"))
    for figure in found.values():
        go.Figure(figure)
    return found


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    out = tmp_path_factory.mktemp("sweep") / "s"
    changes = SMALL | {"vary": VARY}
    sweep("density/nine", load("density/nine", changes), out, 1, SMALL, lambda *a: None)
    return out


def test_a_run_shows_its_maps_and_one_answer(tmp_path):
    found = run(load("density/nine", SMALL | {"vary": None}), tmp_path / "r")
    page = report(tmp_path / "r")
    figures, text = drawn(page), page.read_text()
    heat = [t for t in figures["density"]["data"] if t["type"] == "heatmap"]
    assert len(heat) == 4 and np.array(heat[0]["z"]).shape == (14, 16)
    assert "utility" in figures and f"{found['utility.rank_correlation']:.3g}" in text
    with np.load(tmp_path / "r" / "surfaces.npz") as arrays:
        at, answer = arrays["answer_at_m"], arrays["answer"]
        i, j = (np.argmin(np.abs(arrays[a] - v)) for a, v in zip(("x_m", "y_m"), at, strict=True))
        assert answer[i, j] > 0.8 and abs(answer).max() <= 1.0
        assert arrays["estimate"].shape == arrays["law"].shape == (16, 14)


def test_a_line_is_drawn_as_curves(tmp_path):
    changes = {"world.ues.count": 60, "learning.learner.grid": [50], "vary": None}
    run(load("density/convergence", changes), tmp_path / "r")
    figures = drawn(report(tmp_path / "r"))
    assert {t["type"] for t in figures["density"]["data"]} == {"scatter"} and len(figures["density"]["data"]) == 4


def test_geo_indistinguishable_places_have_no_answer_to_show(tmp_path):
    changes = SMALL | {"vary": None, "learning.learner.n_features": "exact", "learning.curation": GEO}
    run(load("density/nine", changes), tmp_path / "r")
    with np.load(tmp_path / "r" / "surfaces.npz") as arrays:
        assert "answer" not in arrays and "exact" in arrays


def test_a_sweep_sets_utility_against_privacy(swept):
    page = report(swept)
    figures = drawn(page)
    assert {"tradeoff", "density-answers", "density-maps"} <= set(figures)
    names = {t["name"] for t in figures["tradeoff"]["data"]}
    assert {"waves", "GeoInd", "exact", "B 1", "B 3", "B 8", "Geo", "baseline: constant answer"} <= names
    answers = [t for t in figures["density-answers"]["data"] if t["type"] == "heatmap"]
    assert len(answers) == 4  # exact and B = 1, 3, 8
    layout = figures["tradeoff"]["layout"]
    titled = [k for k in layout if k.startswith("yaxis") and "distance of named places" in layout[k]["title"]["text"]]
    (axis,) = (name.replace("yaxis", "y") for name in titled)
    place = {t["name"]: t["y"] for t in figures["tradeoff"]["data"] if t["yaxis"] == axis and t["mode"] == "markers"}
    assert place["exact"] < place["B 8"] < place["B 1"]
    assert "Lemma 3 gives across the area: 3 bands with probability 0.0348." in page.read_text()


def test_the_same_folder_gives_the_same_page(swept):
    assert report(swept).read_bytes() == report(swept).read_bytes()


def test_a_sweep_without_curves_has_its_table(tmp_path):
    vary = {"variants": [{"label": "kept"}, {"label": "anew", "set": {"learning.learner.draws": "each-round"}}]}
    small = {"world.ues.count": 40, "learning.learner.grid": [12, 12], "learning.threat.targets": 3, "seed": 4}
    study = load("density/questions", small | {"vary": vary})
    sweep("density/questions", study, tmp_path / "s", 1, small | {"learning.rounds": 2}, lambda *a: None)
    assert "kept" in report(tmp_path / "s").read_text()


def test_damaged_surfaces_are_one_line(tmp_path):
    run(load("density/nine", SMALL | {"vary": None}), tmp_path / "r")
    (tmp_path / "r" / "surfaces.npz").write_bytes(b"PK nonsense")
    with pytest.raises(BadInput, match=r"surfaces\.npz: cannot be read") as caught:
        report(tmp_path / "r")
    assert len(caught.value.lines) == 1


def test_the_table_of_labels_sorts_by_its_medians(swept, show):
    shown = show(report(swept))
    table = shown.locator("table", has=shown.locator("th", has_text="distance of named places"))
    table.get_by_role("button", name="distance of named places").click()
    labels, values = table.locator("tbody td:first-child"), table.locator("tbody td:nth-child(5)")
    found = [float(value.get_attribute("data-value")) for value in values.all()]
    assert labels.first.inner_text() == "exact" and found == sorted(found)
    assert all(head.inner_text() for head in shown.locator("table.sortable th button").all() if head.is_visible())
    assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")
