"""The page of a tuning in a browser: figures, tables, and nothing that is cut off or cannot be read."""

import pytest
from browser import violations

from netsim.record import write_json
from scenarios.app.report.report import report

RATE, WIDTH, RMSE, ENERGY = (
    "learning.learner.learning_rate",
    "learning.learner.hidden",
    "utility.rmse_db",
    "uplink.energy_j",
)
EVIL = '<img src=x onerror="alert(1)">'
TRIALS = [
    (0.0001, [16], 12.0, 3.0, "finished"), (0.01, [32, 32], 9.0, 5.0, "finished"), (1.0, [16], 30.0, 1.0, "finished"),
    (0.1, [32, 32], None, None, "failed"),
]  # fmt: skip


def found(objectives=(RMSE,), best=("trial-2",)):
    """What a tuning of two settings found, made up."""
    trials = []
    for n, (rate, width, rmse, energy, state) in enumerate(TRIALS, 1):
        values = {} if rmse is None else {key: v for key, v in ((RMSE, rmse), (ENERGY, energy)) if key in objectives}
        why = "" if values else f"round 2 of seed 1: 40 {EVIL}"
        trials.append(
            {"number": n, "name": f"trial-{n}", "state": state, "settings": {RATE: rate, WIDTH: width},
             "values": values, "kept": state == "finished" and n != 3, "why": why}
        )  # fmt: skip
    return {
        "kind": "tuning", "title": f"Tuned {EVIL}", "scenario": "campus", "command": "netsim tune", "overrides": {},
        "objectives": [{"key": key, "direction": "min"} for key in objectives],
        "constraints": [f"{ENERGY}>=2"], "space": {RATE: {"log": True}, WIDTH: {"log": False}},
        "seeds": [1, 2], "fresh_seeds": [3, 4], "trials": trials, "best": list(best),
        "front": list(best), "verified": {}, "importance": {RMSE: {RATE: 0.9, WIDTH: 0.1}},
    }  # fmt: skip


def page_of(tmp_path, **more):
    write_json(tmp_path / "tuning.json", found(**more))
    return report(tmp_path)


@pytest.fixture
def shown(show, tmp_path):
    page = show(page_of(tmp_path))
    page.evaluate("netsim.drawAll()")
    page.wait_for_selector('[id="plot-settings-utility.rmse_db"] .main-svg')
    return page


def test_several_objectives_have_a_front(show, tmp_path):
    page = show(page_of(tmp_path, objectives=(RMSE, ENERGY), best=("trial-1", "trial-2")))
    page.evaluate("netsim.drawAll()")
    page.wait_for_selector("#plot-front .main-svg")
    data = page.evaluate("document.getElementById('plot-front').data.map(t => [t.name, t.x, t.y])")
    assert data[2] == ["best", [12, 9], [3, 5]]


def test_the_table_has_the_numbers_of_the_figure_and_sorts_by_them(shown):
    head = shown.locator("#trials thead th", has_text="utility.rmse_db")
    head.get_by_role("button").click()
    rows = shown.locator("#trials tbody tr")
    assert [row.split("\t")[0] for row in rows.all_inner_texts()] == ["trial-2 (best)", "trial-1", "trial-3", "trial-4"]
    assert "breaks a constraint" in rows.nth(2).inner_text() and "failed" in rows.nth(3).inner_text()
    assert EVIL in rows.nth(3).inner_text() and shown.locator("img").count() == 0
    shown.fill("input[data-filter=trials]", "failed")
    assert shown.inner_text("#trials-rows") == "1 of 4 rows"


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)])
def test_nothing_is_cut_off_and_everything_can_be_read(show, tmp_path, width, dark):
    page = show(page_of(tmp_path), width=width, dark=dark)
    page.evaluate("netsim.drawAll()")
    page.wait_for_selector('[id="plot-settings-utility.rmse_db"] .main-svg')
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations(page, serious=True) == {}
