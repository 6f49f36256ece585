"""How near home attacks come: one definition, over UEs, in summary, terminal, page and
comparison."""

import json
from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest
from pages import read_csv
from rows import read_yaml

from scenarios.app.report.run_page import build_run_page
from scenarios.app.result import run
from scenarios.app.results.attacks import flag_homes_ever_named
from scenarios.app.results.outcome import warn_of_useless_models
from scenarios.app.results.read import load_finished_run
from scenarios.app.results.summary_keys import compute_measures
from scenarios.app.results.table import build_lines
from scenarios.app.run.notices import find_summary_notices

COMMUTERS = read_yaml("""
    world.duration_s: 259200, world.tick_s: 600, world.ues.measurement_period_s: null,
    world.ues.count: 5, world.ues.mobility: {kind: commuter}, world.city.width_m: 1200,
    world.city.height_m: 900, world.base_stations: [{name: a, position_m: [100, 100]},
    {name: b, position_m: [1000, 200]}, {name: c, position_m: [600, 800]}],
    learning.round_s: 21600, learning.data: {kind: measured, cell: all},
    learning.learner.activation: relu,
    learning.leakage: {hit_radius_m: 3.0, random_baseline_draws: 20}
""")


@pytest.fixture(scope="module")
def folder(tiny, tmp_path_factory):
    """Five commuters in three cells, attacked for three days."""
    out = tmp_path_factory.mktemp("homes") / "r"
    run(tiny(COMMUTERS), out)
    return out


def read(folder, table):
    return read_csv(folder / f"{table}.csv")


def nearest_by_hand(folder):
    """Distance from each UE's home to the nearest estimate inside the area, from estimates.csv
    alone."""
    x0, y0, x1, y1 = json.loads((folder / "manifest.json").read_text())["area_m"]
    homes = {r["ue"]: (float(r["home_x_m"]), float(r["home_y_m"])) for r in read(folder, "ues")}
    away = {ue: [inf] for ue in homes}
    for r in read(folder, "estimates"):
        if r["x_m"] and x0 <= float(r["x_m"]) <= x1 and y0 <= float(r["y_m"]) <= y1:
            x, y = homes[r["ue"]]
            away[r["ue"]].append(np.hypot(float(r["x_m"]) - x, float(r["y_m"]) - y))
    return np.array([min(v) for v in away.values()])


def test_every_row_of_a_ue_says_the_same(folder):
    text = {}
    cells = {}
    for r in read(folder, "leakage"):
        cells.setdefault(r["ue"], set()).add(r["model"])
        text.setdefault((r["round"], r["ue"]), set()).add(
            tuple(r[k] for k in ("home_m", "home_named_m", "work_m"))
        )
    assert len(set(map(len, cells.values()))) > 1, "or nothing here would tell UEs from rows"
    assert all(len(v) == 1 for v in text.values())
    last = {r["ue"]: float(r["home_m"]) for r in read(folder, "leakage")}
    np.testing.assert_allclose(sorted(last.values()), np.sort(nearest_by_hand(folder)), rtol=1e-6)


def test_a_ue_with_many_rows_counts_once_and_one_without_a_home_does_not():
    rows = {
        "ue": np.array([0.0] * 9 + [1, 2, 3]),
        "home_named_m": np.array([5000.0] * 9 + [4.0, nan, 1.0]),
    }
    result = compute_measures(
        {"home ever": flag_homes_ever_named(rows, np.array([0, 1, 2]), 100.0)}, "a"
    )
    assert result["attack.a.home_located.ever.percent"] == pytest.approx(100 / 3)
    nobody = compute_measures({"home ever": flag_homes_ever_named(rows, np.zeros(0), 100.0)}, "a")
    assert np.isnan(nobody["attack.a.home_located.ever.percent"])


@pytest.mark.parametrize("worth", [{"utility.rmse_db": 21.2}, {"utility.rmse_db": None}])
def test_a_useless_model_excuses_no_leak(folder, worth):
    """Terminal, page and comparison call the model useless, and none says that what it gave away
    means little."""
    loaded = load_finished_run(folder)
    summary = {**loaded.summary, "utility.constant_rmse_db": 7.7, "utility.useful": False, **worth}
    changed = replace(loaded, summary=summary)
    notices = [*find_summary_notices(summary)]
    changed = replace(changed, manifest=changed.manifest.model_copy(update={"notices": notices}))
    texts = [
        build_run_page(changed),
        warn_of_useless_models({"x": build_lines([changed.summary])})[0].says,
        *(item.line for item in notices),
    ]
    assert len(texts) == 3
    assert all("Low leakage proves nothing here" in text for text in texts)
    assert not [*find_summary_notices({**summary, "utility.rmse_db": 7.0, "utility.useful": True})]
