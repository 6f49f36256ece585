"""What privacy costs: curves through strengths, errors at matched privacy, and what is said where there are none."""

import csv
import json
import re
import shutil
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

from netsim.errors import BadInput
from netsim.record import write_json
from scenarios.app.cli.commands import main
from scenarios.app.report.compare_page import tradeoff_panel
from scenarios.app.report.report import report
from scenarios.app.results.tradeoff import Trial, curves, levels, matched_csv, rmse_db
from scenarios.app.run.runner import run
from scenarios.app.run.sweep import Sweep

A = "attack.closed-form"


def summary(rmse_db=6.0, emd=10.0, error_m=100.0, useful=True, lost=0.0, **more):
    return {
        "utility.rmse_db": rmse_db, "utility.constant_rmse_db": 8.0, "utility.useful": useful,
        "baseline.random_guess.sqrt_sw1.mean": 20.0, "baseline.random_guess.sw1_m.mean": 400.0,
        "baseline.area_centre.error_m.median": 500.0, f"{A}.sqrt_sw1.mean": emd,
        f"{A}.sw1_m.mean": None if emd is None else emd**2,
        f"{A}.centroid_error_m.median": error_m, f"{A}.diverged.percent": lost, **more,
    }  # fmt: skip


def trial(curve, strength, label="", **figures):
    return Trial(label or f"{curve} {strength:g}", curve, strength, summary(**figures))


BOTH = [
    trial("", np.nan, "none", rmse_db=5.0, emd=5.0, error_m=30.0),
    trial("DP", 100, rmse_db=6.0, emd=8.0, error_m=100.0),
    trial("DP", 10, rmse_db=10.0, emd=16.0, error_m=300.0, useful=False),
    trial("Farthest", 100, rmse_db=6.0, emd=6.0, error_m=400.0),
    trial("Farthest", 20, rmse_db=7.0, emd=14.0, error_m=800.0),
]


def matched(trials):
    return list(csv.DictReader(matched_csv(trials).splitlines()))


def test_curves_run_in_the_order_of_strength_over_the_seeds_of_a_label():
    mine = [trial("DP", 10, emd=v) for v in (12.0, 16.0, 13.0)]
    assert {name: [*of] for name, of in curves([*mine, *BOTH[:2]]).items()} == {"DP": ["DP 10", "DP 100"]}
    assert curves(mine)["DP"] == {"DP 10": mine}


def test_rmse_at_a_level_is_linear_between_neighbours_and_the_lowest_of_several():
    for line, error_db in (
        ([(8, 6), (16, 10)], 7.0),
        ([(16, 10), (8, 6), (20, 12)], 7.0),
        ([(8, 6), (16, 10), (8, 4)], 5.5),
        ([(10, 6)], 6.0),
        ([(8, 6), (9, np.inf), (16, 10)], np.nan),  # a model that is not finite interrupts the curve
        ([(12, 6), (16, 10)], np.nan),
    ):
        np.testing.assert_equal(rmse_db(np.array(line, dtype=float), 10), error_db)


def test_levels_are_quartiles_of_the_range_that_most_curves_share():
    def of(*spans):
        return levels([np.array(span, dtype=float) for span in spans])

    assert of((0, 8), (4, 12), (100, 200)) == [5.0, 6.0, 7.0]
    assert of((0, 8), (4, 12), (4, 40)) == [6.0, 8.0, 10.0]
    far = of((0, 8), (4, 12), (4, 40), (5, 8), (20, 30), (4, 8))
    assert far[-1] == 25.0  # two curves reach 20 to 30, most of them only 4 to 8
    assert of((0, 8), (20, np.inf)) == of((0, 8)) == [2.0, 4.0, 6.0]
    assert of((5,), (np.nan, np.inf), ()) == []


def test_every_curve_is_matched():
    found = {(r["measure"], r["level"], r["curve"]): r["rmse_db"] for r in matched(BOTH)}
    assert found["sqrt_sw1.mean", "11", "DP"] == "7.5" and found["sqrt_sw1.mean", "11", "Farthest"] == "6.625"
    assert {r["attack"] for r in matched(BOTH)} == {"closed-form"}


@pytest.mark.parametrize(
    "found",
    [
        BOTH[:3],
        BOTH[1:2],
        [trial(c, s, emd=None, error_m=None, lost=100.0) for c in "ab" for s in (1, 2)],
    ],
    ids=["one curve", "one strength", "all diverged"],
)
def test_where_nothing_can_be_matched_the_table_is_empty(found):
    assert matched(found) == []


def test_the_figure_joins_labels_of_a_curve_and_marks_useless_ones():
    """A model is useful below the constant's 8 dB."""
    panel = tradeoff_panel({t.label: [t.summary] for t in BOTH}, BOTH)
    go.Figure(panel.figure)  # plotly's own schema
    first = [t for t in panel.figure["data"] if t["xaxis"] == "x"]
    marks = {t["name"]: t for t in first if t["mode"] == "markers"}
    assert {name: (t["x"], t["y"]) for name, t in marks.items()} == {
        t.label: ([t.summary["utility.rmse_db"]], [t.summary[f"{A}.centroid_error_m.median"]]) for t in BOTH
    }
    assert [name for name, t in marks.items() if t["marker"]["symbol"].endswith("-open")] == ["DP 10"]
    lines = {t["name"]: (t["x"], t["y"]) for t in first if t["mode"] == "lines"}
    assert lines["DP"] == ([10, 6], [300, 100]) and lines["Farthest"] == ([7, 6], [800, 400])
    assert lines["baseline: constant"][0] == [8, 8] and lines["baseline: map centre"][1] == [500, 500]
    shown = [t["name"] for t in panel.figure["data"] if t["showlegend"]]
    assert sorted(shown) == sorted(set(shown))
    bare = {"DP 1": [{"utility.rmse_db": 6.0, "utility.useful": True}]}
    assert tradeoff_panel(bare).figure is None and tradeoff_panel({"a": [{}]}).figure is None


# -- from a scenario to a page


def test_a_strength_needs_a_curve_and_a_curve_a_strength(tiny):
    def vary(**more):
        return {"vary": {"variants": [{"label": "a", "set": {}, **more}]}}

    with pytest.raises(BadInput, match="strength: 10 stands on no curve"):
        tiny(vary(strength=10))
    with pytest.raises(BadInput, match="strength: 10 stands on no curve"):
        tiny(vary(curve="none", strength=10))
    with pytest.raises(BadInput, match="give a strength"):
        tiny(vary(curve="DP"))
    assert tiny(vary(curve="none")).vary.variants[0].mechanism == ""
    twice = [{"label": "a", "curve": "DP", "strength": s} for s in (1, 2)]
    with pytest.raises(BadInput, match="'a' stands 2 times"):
        tiny({"vary": {"variants": twice}})


def test_curve_and_strength_reach_the_table_of_runs(tmp_path):
    from scenarios.app.study.load import load

    scenario = tmp_path / "s.yaml"
    variants = [
        {"label": "none", "curve": "none"},
        {"label": "clip 1", "curve": "Clip", "strength": 1, "set": {"learning.defenses": [{"kind": "clip"}]}},
    ]
    changes = {"world.duration_s": 604800, "learning.rounds": 1, "learning.learner.hidden": [4]}
    values = {"learning.learner.local_epochs": [1, 2]}
    text = (Path(__file__).parents[2] / "scenarios" / "campus.yaml").read_text()
    scenario.write_text(text + f"\nvary: {json.dumps({'variants': variants, 'values': values})}\n")
    told = []
    Sweep(scenario, load(scenario, changes), tmp_path / "w", 1, changes, lambda *a: told.append(a)).play()
    with (tmp_path / "w" / "runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(r["label"], r["curve"], r["strength"]) for r in rows] == [
        ("none, local_epochs=1", "", ""), ("none, local_epochs=2", "", ""),
        ("clip 1, local_epochs=1", "Clip, local_epochs=1", "1"),
        ("clip 1, local_epochs=2", "Clip, local_epochs=2", "1"),
    ]  # fmt: skip
    assert len(told) == 4


@pytest.fixture
def folder(tiny, tmp_path):
    """A sweep of fakes: one tiny run, copied, with other figures."""
    run(tiny(), tmp_path / "one")
    real = json.loads((tmp_path / "one" / "summary.json").read_text())
    out, rows = tmp_path / "sweep", ["folder,label,seed,curve,strength"]
    for i, one in enumerate(BOTH):
        curve = "DP <b>" if one.curve == "DP" else one.curve
        shutil.copytree(tmp_path / "one", out / f"r{i}")
        write_json(out / f"r{i}" / "summary.json", real | one.summary)
        rows.append(f"r{i},{curve} {one.label},0,{curve},{one.strength if curve else ''}")
    (out / "runs.csv").write_text("\n".join(rows) + "\n")
    return out


def test_the_page_of_a_sweep_with_curves(folder):
    assert main(["report", str(folder)]) == 0
    page = (folder / "report.html").read_text()
    drawn = json.loads(re.search(r'<script type="application/json" id="drawn">(.*?)</script>', page)[1])
    assert "DP &lt;b&gt;" in {t["name"] for t in drawn["tradeoff"]["data"]}
    shown = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.S)
    assert "DP <b>" not in shown and "DP &lt;b&gt;" in shown
    before = (folder / "report.html").read_bytes(), (folder / "matched_privacy.csv").read_bytes()
    report(folder)
    assert before == ((folder / "report.html").read_bytes(), (folder / "matched_privacy.csv").read_bytes())
    lines = list(csv.DictReader((folder / "matched_privacy.csv").read_text().splitlines()))
    assert {line["curve"] for line in lines} == {"DP <b>", "Farthest"}


def test_an_unfinished_run_is_left_out_and_sweeps_without_curves_stay_as_they_were(folder):
    (folder / "r4" / "summary.json").unlink()
    report(folder)
    text = (folder / "runs.csv").read_text()
    (folder / "matched_privacy.csv").unlink()
    (folder / "runs.csv").write_text("\n".join(",".join(x.split(",")[:3]) for x in text.splitlines()) + "\n")
    report(folder)
    assert not (folder / "matched_privacy.csv").exists()


@pytest.mark.parametrize("strength", ["", "much", "nan", "inf"])
def test_a_damaged_strength_is_refused_in_one_line(folder, strength):
    text = (folder / "runs.csv").read_text().replace("DP <b>,10\n", f"DP <b>,{strength}\n")
    (folder / "runs.csv").write_text(text)
    with pytest.raises(BadInput, match="is not a number") as caught:
        report(folder)
    assert len(caught.value.lines) == 1
