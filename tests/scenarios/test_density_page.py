"""Pages of densities: every picture is drawn from the run folder, and the table says what the pictures show."""

import json
import re

import numpy as np
import plotly.graph_objects as go
import pytest

from netsim.errors import BadInput
from scenarios.app.report.report import report
from scenarios.app.run.runner import run
from scenarios.app.run.sweep import Sweep
from scenarios.app.study.load import load

SMALL = {"world.ues.count": 150, "learning.learner.grid": [16, 14], "learning.threat.n_targets": 5}
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
    Sweep("density/nine", load("density/nine", changes), out, 1, SMALL, lambda *a: None).play()
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


def test_damaged_surfaces_are_one_line(tmp_path):
    run(load("density/nine", SMALL | {"vary": None}), tmp_path / "r")
    (tmp_path / "r" / "surfaces.npz").write_bytes(b"PK nonsense")
    with pytest.raises(BadInput, match=r"surfaces\.npz: cannot be read") as caught:
        report(tmp_path / "r")
    assert len(caught.value.lines) == 1
