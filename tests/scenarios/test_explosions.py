"""A model that explodes is told of, with its round; so are a reference that failed and rounds that
nobody compared."""

import warnings

import numpy as np
import pytest
from noticed import by_key, of_run
from rows import read_yaml
from tabled import cases

from scenarios.app.report.report import write_report
from scenarios.app.result import run
from scenarios.app.results.folder import read_record_table
from scenarios.app.results.read import open_finished_run
from scenarios.app.results.screen import lay_out_run

STEEP = read_yaml("""
    kind: rsrp-net, profile: useful, hidden: [16, 8], learning_rate: 3.0, step_limit: none
""")
ROUND = 10  # seconds; the tiny study has twelve of them


def test_an_explosion_is_reported_with_its_round(tiny, tmp_path):
    """In manifest, terminal and page; nothing of NumPy's own is printed. The limit alone keeps the
    model whole."""
    changes = {"learning.round_s": ROUND, "learning.learner": STEEP}
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        run(tiny(changes), tmp_path / "run")
    rounds = read_record_table(tmp_path / "run", "rounds")
    beyond = ~(rounds["rmse_db"] <= 200.0)  # no signal of the study lies as low
    first = int(rounds["round"][np.flatnonzero(beyond)[0]])
    text = of_run(tmp_path / "run")[0].line
    assert text.startswith("the model exploded in round ")
    assert int(text.split()[5].rstrip(":")) <= first
    printed = lay_out_run(open_finished_run(tmp_path / "run"), "page")
    assert any(line.strip().startswith("warning: the model exploded") for line in printed)
    assert "the model exploded in round" in write_report(tmp_path / "run").read_text()

    limited = tiny(changes | {"learning.learner": STEEP | {"step_limit": "polyak"}})
    assert run(limited, tmp_path / "limited")["utility.rmse_db"] < 30
    assert "model-exploded" not in by_key(of_run(tmp_path / "limited"))


@pytest.mark.parametrize(
    "changes, compared",
    cases("""
"", [1, 5, 10, 12]
"learning.rounds: 7", [1, 5, 7]
"learning.leakage.every_rounds: 100", [1, 12]
"learning.leakage.every_rounds: 1", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
"""),
)
def test_the_last_round_is_always_compared(tiny, tmp_path, changes, compared):
    every = {"learning.round_s": ROUND, "learning.leakage.every_rounds": 5}
    summary = run(tiny(every | read_yaml(changes)), tmp_path / "run")
    assert np.unique(read_record_table(tmp_path / "run", "leakage")["round"]).tolist() == compared
    assert summary["attack.closed-form.compared_rounds.count"] == len(compared)
