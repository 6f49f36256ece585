"""Every bundled scenario runs briefly, and the parts of the shortest walk do what the papers say."""

import os

import pytest

from scenarios.app.run.runner import run
from scenarios.app.study.load import bundled, load


def needs_data(name):
    """Real data are not bundled: scenarios on them run where the data are."""
    if "${NETSIM_DATA}" in bundled()[name].read_text() and "NETSIM_DATA" not in os.environ:
        pytest.skip("NETSIM_DATA is not set: no real data here")


@pytest.mark.parametrize("name", bundled())
def test_bundled_scenario_runs_briefly(name, tmp_path):
    needs_data(name)
    learning = load(name).learning
    if learning is None:
        short = load(name, {"world.duration_s": 10 * load(name).world.tick_s})
        assert run(short, tmp_path / "r")["radio.samples"] > 0
        return
    kind = learning.learner.kind_name()
    small = {"learning.learner.hidden": [16]}
    if kind == "density":
        small = {"learning.learner.grid": [20, 20]}
    if kind == "image-net":
        small = {"learning.data.samples": 20}
    if kind == "radio-map":
        small = {"learning.learner.cell_m": 100 if name.startswith("cities/") else 30}
    if getattr(learning.data, "hold_out_by", "sample") == "day":  # two rounds may have no such day
        small["learning.data.hold_out_by"] = "sample"
    study = load(name, {"learning.rounds": 2} | small)
    summary = run(study, tmp_path / "r")
    lasts_s = study.world.duration_s  # a trace lasts as long as it does; people are asked once
    possible = lasts_s // study.round_s if lasts_s else 1 if kind == "density" else 2
    assert summary["rounds.played"] == min(2, possible)
    said = {"density": "rank_correlation", "image-net": "accuracy_percent"}.get(kind, "rmse_db")
    assert summary[f"utility.{said}"] is not None


@pytest.mark.parametrize("name", bundled())
def test_bundled_sweeps_are_legal_at_every_point(name):
    from scenarios.app.run.points import points

    needs_data(name)
    study = load(name)
    if study.vary is not None:
        for point in points(study, {}):
            assert load(name, point.overrides).seed == point.seed
