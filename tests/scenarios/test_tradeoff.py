"""What privacy costs: leakage against the error of the model, with curves through the strengths of
a defense."""

import json
import shutil

import plotly.graph_objects as go
import pytest
from conftest import TINY
from pages import body, figures, read_csv, read_json
from rows import read_cells, read_yaml

from netsim.errors import BadInput
from netsim.record import write_json
from scenarios.app.report.compare_page import draw_tradeoff
from scenarios.app.report.report import write_report
from scenarios.app.results.read import read_curves
from scenarios.app.run.sweep import Sweep
from scenarios.app.study.load import Scenario

A = "attack.closed-form"


def summary(rmse_db=6.0, emd=10.0, error_m=100.0, useful=True, lost=0.0, **options):
    return {
        "utility.rmse_db": rmse_db,
        "utility.constant_rmse_db": 8.0,
        "utility.useful": useful,
        "baseline.random_guess.sqrt_sw1.mean": 20.0,
        "baseline.random_guess.sw1_m.mean": 400.0,
        "baseline.area_centre.error_m.median": 500.0,
        f"{A}.sqrt_sw1.mean": emd,
        f"{A}.sw1_m.mean": None if emd is None else emd**2,
        f"{A}.centroid_error_m.median": error_m,
        f"{A}.diverged.percent": lost,
        **options,
    }


LABELS = {
    label: summary(*map(float, figures), useful=label != "DP 10")
    for label, *figures in read_cells("""
        none          5   5   30
        DP 100        6   8   100
        DP 10         10  16  300
        Farthest 100  6   6   400
        Farthest 20   7   14  800
    """)
}
CURVES = read_yaml("DP: [DP 10, DP 100], Farthest: [Farthest 20, Farthest 100]")


def test_the_figure_joins_labels_of_a_curve_and_marks_useless_ones():
    """A model is useful below the constant's 8 dB."""
    panel = draw_tradeoff({label: [values] for label, values in LABELS.items()}, CURVES)
    go.Figure(panel.figure)  # plotly's own schema
    first = [t for t in panel.figure["data"] if t["xaxis"] == "x"]
    marks = {t["name"]: t for t in first if t["mode"] == "markers"}
    assert list(marks) == list(LABELS)
    for label, values in LABELS.items():
        assert marks[label]["x"] == [values["utility.rmse_db"]]
        assert marks[label]["y"] == [values[f"{A}.centroid_error_m.median"]]
    useless = [name for name, t in marks.items() if t["marker"]["symbol"].endswith("-open")]
    assert useless == ["DP 10"]
    lines = {t["name"]: (t["x"], t["y"]) for t in first if t["mode"] == "lines"}
    assert lines["DP"] == ([10, 6], [300, 100])
    assert lines["Farthest"] == ([7, 6], [800, 400])
    assert lines["baseline: constant"][0] == [8, 8]
    assert lines["baseline: map centre"][1] == [500, 500]
    shown = [t["name"] for t in panel.figure["data"] if t["showlegend"]]
    assert sorted(shown) == sorted(set(shown))
    assert (
        draw_tradeoff(read_yaml("DP 1: [{utility.rmse_db: 6.0, utility.useful: true}]")).figure
        is None
    )
    assert draw_tradeoff({"a": [{}]}).figure is None


# -- from a scenario to a page


def test_a_strength_needs_a_curve_and_a_curve_a_strength(tiny):
    def vary(**options):
        return {"vary": {"variants": [{"label": "a", "set": {}, **options}]}}

    for options, text in (
        ({"strength": 10}, "strength: 10 stands on no curve"),
        ({"curve": "none", "strength": 10}, "strength: 10 stands on no curve"),
        ({"curve": "DP"}, "give a strength"),
    ):
        with pytest.raises(BadInput, match=text):
            tiny(vary(**options))
    assert tiny(vary(curve="none")).vary.variants[0].mechanism == ""
    twice = [{"label": "a", "curve": "DP", "strength": s} for s in (1, 2)]
    with pytest.raises(BadInput, match="'a' stands 2 times"):
        tiny({"vary": {"variants": twice}})


def test_curve_and_strength_reach_the_table_of_runs(tmp_path):
    scenario = tmp_path / "s.yaml"
    changes = read_yaml("""
        vary: {variants: [{label: none, curve: none}, {label: clip 1, curve: Clip, strength: 1,
        set: {learning.defenses: [{kind: clip}]}}], values: {learning.learner.local_epochs: [1, 2]}}
    """)
    scenario.write_text(json.dumps(TINY | changes))
    messages = []
    Sweep(Scenario.from_source(scenario), tmp_path / "w", 1, lambda *a: messages.append(a)).play()
    rows = read_csv(tmp_path / "w/runs.csv")
    assert [" | ".join((r["label"], r["curve"], r["strength"])) for r in rows] == [
        "none, local_epochs=1 |  | ",
        "none, local_epochs=2 |  | ",
        "clip 1, local_epochs=1 | Clip, local_epochs=1 | 1",
        "clip 1, local_epochs=2 | Clip, local_epochs=2 | 1",
    ]
    assert len(messages) == 4


def test_the_page_of_a_sweep_joins_finished_labels_in_the_order_of_strength(tiny_run, tmp_path):
    """A sweep of fakes: one tiny run, copied, with other figures."""
    real = read_json(tiny_run / "summary.json")
    out = tmp_path / "sweep"
    rows = ["folder,label,seed,curve,strength"]
    for i, (label, values) in enumerate(LABELS.items()):
        curve, _, strength = label.partition(" ")
        shutil.copytree(tiny_run, out / f"r{i}")
        write_json(out / f"r{i}" / "summary.json", real | values)
        rows.append(f"r{i},{label},0,{curve} <b>,{strength}" if strength else f"r{i},{label},0,,")
    (out / "runs.csv").write_text("\n".join(rows) + "\n")
    (out / "r4/summary.json").unlink()
    assert read_curves(out) == {f"{curve} <b>": along for curve, along in CURVES.items()}
    page = write_report(out)
    drawn = figures(page)["tradeoff"]["data"]
    assert next(t["x"] for t in drawn if t["name"] == "DP &lt;b&gt;") == [10, 6]
    assert "DP <b>" not in body(page)
    (out / "runs.csv").write_text("\n".join(rows).replace("DP <b>,10", "DP <b>,much") + "\n")
    with pytest.raises(BadInput, match="damaged"):
        write_report(out)
