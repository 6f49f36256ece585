"""Every bundled scenario runs briefly, and the parts of the shortest walk do what the papers say."""

import os

import pytest

from scenarios.runner import run
from scenarios.study import bundled, load


def needs_data(name):
    """Real data are not bundled: scenarios on them run where the data are."""
    if "${NETSIM_DATA}" in bundled()[name].read_text() and "NETSIM_DATA" not in os.environ:
        pytest.skip("NETSIM_DATA is not set: no real data here")


@pytest.mark.parametrize("name", bundled())
def test_bundled_scenario_runs_briefly(name, tmp_path):
    needs_data(name)
    images = load(name).learning.data.kind_name() == "images"
    small = {"learning.data.samples": 20} if images else {"learning.learner.hidden": [16]}
    study = load(name, {"learning.rounds": 2} | small)
    summary = run(study, tmp_path / "r")
    assert summary["rounds.played"] == 2
    assert summary["utility.accuracy_percent" if images else "utility.rmse_db"] is not None


@pytest.mark.parametrize("name", bundled())
def test_bundled_sweeps_are_legal_at_every_point(name):
    from scenarios.sweep import points

    needs_data(name)
    study = load(name)
    if study.vary is not None:
        for point in points(study, {}):
            assert load(name, point.overrides).seed == point.seed
