"""A model that explodes is told of, with its round; so are a reference that failed and rounds that nobody compared."""

import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fl.round.explosion import exploded
from fl.types import NEW_PLACE, HeldOut
from scenarios.app.report.report import report
from scenarios.app.results.folder import read_json, read_table
from scenarios.app.results.shown import run_lines
from scenarios.app.run.runner import run

STEEP = {"kind": "rsrp-net", "profile": "useful", "hidden": [16, 8], "learning_rate": 3.0, "step_limit": "none"}
ROUND = 10  # seconds; the tiny study has twelve of them


@pytest.mark.parametrize("server", ["fedavg", "fedavgm"])
def test_an_explosion_is_told_with_its_round_and_the_remedies(tiny, tmp_path, server):
    """In manifest, terminal and page; nothing of NumPy's own is printed. The limit alone keeps the model whole."""
    changes = {"learning.round_s": ROUND, "learning.learner": STEEP, "learning.server_optimiser": {"kind": server}}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(tiny(changes), tmp_path / "run")
    rounds = read_table(tmp_path / "run", "rounds")
    beyond = ~(rounds["rmse_db"] <= 200.0)  # no signal of the study lies as low
    first = int(rounds["round"][np.flatnonzero(beyond)[0]])
    text = read_json(tmp_path / "run" / "manifest.json")["warnings"][0]
    assert text.startswith("the model exploded in round ") and int(text.split()[5].rstrip(":")) <= first
    assert "learning.learner.learning_rate (here 3), or learning.learner.step_limit: polyak" in text
    assert ("learning.server_optimiser" in text) == (server == "fedavgm")
    assert any(line.strip().startswith("warning: the model exploded") for line in run_lines(tmp_path / "run", "page"))
    page = report(tmp_path / "run").read_text(encoding="utf-8")
    assert "the model exploded in round" in page

    fine = {"learning.learner": STEEP | {"step_limit": "polyak"}, "learning.server_optimiser": {"kind": "fedavg"}}
    summary = run(tiny(changes | fine), tmp_path / "limited")
    assert summary["utility.rmse_db"] < 30
    assert not any("exploded" in text for text in read_json(tmp_path / "limited" / "manifest.json")["warnings"])


def test_what_begins_at_zero_has_not_exploded(tiny, tmp_path):
    """Raw labels start about 80 dB off, which signals span."""
    run(tiny({"learning.learner.labels": "raw"}), tmp_path / "run")
    assert read_table(tmp_path / "run", "rounds")["rmse_db"][0] > 50
    assert not any("exploded" in text for text in read_json(tmp_path / "run" / "manifest.json")["warnings"])


def test_rounds_before_anything_is_scored_have_not_exploded():
    """Blocks are held out from the first round on, days later: until then the error by day is NaN."""
    y, ids = np.array([-80.0, -90.0]), np.zeros(2, dtype=np.int64)
    blocks = HeldOut(x=np.zeros((2, 2)), y=y, model=ids, ue=ids, cell=ids, group=np.full(2, NEW_PLACE))
    whole = SimpleNamespace(parameters=np.zeros((1, 3)))
    state: Any = SimpleNamespace(model=whole, held_out=blocks)
    assert not exploded(state, {"scores": {"rmse_db": np.nan}})
    state.held_out = blocks.plus(replace(blocks, group=ids))
    assert exploded(state, {"scores": {"rmse_db": np.nan}})  # of predictions that overflow
    assert not exploded(state, {"scores": {"rmse_db": 12.0}})


@pytest.mark.parametrize(
    ("changes", "compared"),
    [
        ({}, [1, 5, 10, 12]),
        ({"learning.rounds": 7}, [1, 5, 7]),
        ({"learning.leakage.every_rounds": 100}, [1, 12]),
        ({"learning.leakage.every_rounds": 1}, [*range(1, 13)]),
    ],
)
def test_the_last_round_is_always_compared(tiny, tmp_path, changes, compared):
    summary = run(tiny({"learning.round_s": ROUND, "learning.leakage.every_rounds": 5} | changes), tmp_path / "run")
    rows = read_table(tmp_path / "run", "leakage")
    assert np.unique(rows["round"]).tolist() == compared
    assert summary["attack.closed-form.compared_rounds.count"] == len(compared)
