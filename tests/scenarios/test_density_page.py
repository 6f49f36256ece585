"""Pages of densities: every picture is drawn from the run folder, and the table says what the
pictures show."""

import json
import shutil

import numpy as np
import plotly.graph_objects as go
import pytest
from pages import figures
from refused import line_of

from scenarios.app.report.report import report
from scenarios.app.run.sweep import Sweep
from scenarios.app.study.load import AskedStudy

SMALL = {"world.ues.count": 150, "learning.learner.grid": [16, 14], "learning.threat.n_targets": 5}
GEO = [{"kind": "geo-indistinguishable", "epsilon_per_m": 0.001}]
VARY = {
    "seed": [0, 1],
    "variants": [
        {"label": "exact", "set": {"learning.learner.n_features": "exact"}},
        {
            "label": "B 1",
            "curve": "waves",
            "strength": 1,
            "set": {"learning.learner.n_features": 1},
        },
        {
            "label": "B 8",
            "curve": "waves",
            "strength": 8,
            "set": {"learning.learner.n_features": 8},
        },
        {
            "label": "Geo",
            "curve": "GeoInd",
            "strength": 1,
            "set": {"learning.learner.n_features": "exact", "learning.curation": GEO},
        },
    ],
}


def drawn(page):
    """Figures of a page, each accepted by plotly."""
    found = figures(page)
    for figure in found.values():
        go.Figure(figure)
    return found


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    out = tmp_path_factory.mktemp("sweep") / "s"
    changes = SMALL | {"vary": VARY}
    Sweep(AskedStudy.of("density/nine", changes), out, 1, lambda *a: None).play()
    return out


def test_a_run_shows_its_maps_and_one_answer(swept):
    folder = swept / "B-1" / "seed-0"
    page = report(folder)
    found = json.loads((folder / "summary.json").read_text())
    shown = drawn(page)
    text = page.read_text()
    heat = [t for t in shown["density"]["data"] if t["type"] == "heatmap"]
    assert len(heat) == 4
    assert np.array(heat[0]["z"]).shape == (14, 16)
    assert "utility" in shown
    assert f"{found['utility.rank_correlation']:.3g}" in text
    with np.load(folder / "surfaces.npz") as arrays:
        at = arrays["answer_at_m"]
        answer = arrays["answer"]
        i, j = (np.argmin(np.abs(arrays[a] - v)) for a, v in zip(("x_m", "y_m"), at, strict=True))
        assert answer[i, j] > 0.8
        assert abs(answer).max() <= 1.0
        assert arrays["estimate"].shape == arrays["law"].shape == (16, 14)

    with np.load(swept / "Geo" / "seed-0" / "surfaces.npz") as arrays:
        # places that are geo-indistinguishable have none
        assert "answer" not in arrays
        assert "exact" in arrays


def test_a_sweep_sets_utility_against_privacy(swept):
    page = report(swept)
    shown = drawn(page)
    assert {"tradeoff", "density-answers", "density-maps"} <= set(shown)
    names = {t["name"] for t in shown["tradeoff"]["data"]}
    assert {"waves", "GeoInd", "exact", "B 1", "B 8", "Geo", "baseline: constant answer"} <= names
    answers = [t for t in shown["density-answers"]["data"] if t["type"] == "heatmap"]
    assert len(answers) == 3  # exact and B = 1, 8
    layout = shown["tradeoff"]["layout"]
    titled = [
        k
        for k in layout
        if k.startswith("yaxis") and "distance of named places" in layout[k]["title"]["text"]
    ]
    (axis,) = (name.replace("yaxis", "y") for name in titled)
    place = {
        t["name"]: t["y"]
        for t in shown["tradeoff"]["data"]
        if t["yaxis"] == axis and t["mode"] == "markers"
    }
    assert place["exact"] < place["B 8"] < place["B 1"]


def test_damaged_surfaces_are_one_line(swept, tmp_path):
    shutil.copytree(swept / "B-1" / "seed-0", tmp_path / "r")
    (tmp_path / "r" / "surfaces.npz").write_bytes(b"PK nonsense")
    assert "surfaces.npz: cannot be read" in line_of(report, tmp_path / "r")
