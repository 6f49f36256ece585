"""Pages of densities: every picture is drawn from the run folder, and the table says what the
pictures show."""

import shutil

import numpy as np
import plotly.graph_objects as go
import pytest
from pages import figures, read_json
from refused import catch_line
from rows import read_yaml

from scenarios.app.report.report import write_report
from scenarios.app.run.sweep import Sweep
from scenarios.app.study.load import Scenario

SMALL = read_yaml("""
    world.ues.count: 150, learning.learner.grid: [16, 14], learning.threat.n_targets: 5
""")
VARY = read_yaml("""
    vary: {seed: [0, 1], variants: [{label: exact, set: {learning.learner.n_features: exact}},
    {label: B 1, curve: waves, strength: 1, set: {learning.learner.n_features: 1}},
    {label: B 8, curve: waves, strength: 8, set: {learning.learner.n_features: 8}},
    {label: Geo, curve: GeoInd, strength: 1, set: {learning.learner.n_features: exact,
    learning.curation: [{kind: geo-indistinguishable, epsilon_per_m: 0.001}]}}]}
""")


def draw_page(page):
    """Figures of a page, each accepted by plotly."""
    result = figures(page)
    for figure in result.values():
        go.Figure(figure)
    return result


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    out = tmp_path_factory.mktemp("sweep") / "s"
    Sweep(Scenario.from_source("density/nine", SMALL | VARY), out, 1, lambda *a: None).play()
    return out


def test_a_run_shows_its_maps_and_one_answer(swept):
    folder = swept / "B-1/seed-0"
    page = write_report(folder)
    result = read_json(folder / "summary.json")
    shown = draw_page(page)
    text = page.read_text()
    heat = [t for t in shown["density"]["data"] if t["type"] == "heatmap"]
    assert len(heat) == 4
    assert np.array(heat[0]["z"]).shape == (14, 16)
    assert "utility" in shown
    assert f"{result['utility.rank_correlation']:.3g}" in text
    with np.load(folder / "surfaces.npz") as arrays:
        index = arrays["answer_at_m"]
        answer = arrays["answer"]
        i = np.argmin(np.abs(arrays["x_m"] - index[0]))
        j = np.argmin(np.abs(arrays["y_m"] - index[1]))
        assert answer[i, j] > 0.8
        assert abs(answer).max() <= 1.0
        assert arrays["estimate"].shape == arrays["law"].shape == (16, 14)

    with np.load(swept / "Geo/seed-0/surfaces.npz") as arrays:
        # places that are geo-indistinguishable have none
        assert "answer" not in arrays
        assert "exact" in arrays


def test_a_sweep_sets_utility_against_privacy(swept):
    shown = draw_page(write_report(swept))
    assert {"tradeoff", "density-answers", "density-maps"} <= set(shown)
    assert {"waves", "GeoInd", "exact", "B 1", "B 8", "Geo", "baseline: constant answer"} <= {
        t["name"] for t in shown["tradeoff"]["data"]
    }
    answers = [t for t in shown["density-answers"]["data"] if t["type"] == "heatmap"]
    assert len(answers) == 3  # exact and B = 1, 8
    layout = shown["tradeoff"]["layout"]
    (axis,) = [
        name.replace("yaxis", "y")
        for name in layout
        if name.startswith("yaxis") and "distance of named places" in str(layout[name])
    ]
    marks = [t for t in shown["tradeoff"]["data"] if t["mode"] == "markers"]
    place = {t["name"]: t["y"] for t in marks if t["yaxis"] == axis}
    assert place["exact"] < place["B 8"] < place["B 1"]


def test_damaged_surfaces_are_one_line(swept, tmp_path):
    shutil.copytree(swept / "B-1/seed-0", tmp_path / "r")
    (tmp_path / "r/surfaces.npz").write_bytes(b"PK nonsense")
    assert "surfaces.npz: cannot be read" in catch_line(write_report, tmp_path / "r")
