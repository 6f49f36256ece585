"""What federated maps of a cell in Santa Monica reach, whole days held out: bands of an independent
prototype."""

import numpy as np
import pytest
from pytest import mark

from scenarios.app.result import run
from scenarios.app.run.sweep import plan_points
from scenarios.app.study.load import load

SEEDS = (1, 2, 3)
DATA = {"kind": "measured", "hold_out_by": "day", "hold_out": 0.3}
MEMORY = {**DATA, "memory": "all"}
HOLDING = {**MEMORY, "participants": "holding"}
POSITION = {
    "kind": "rsrp-net",
    "profile": "useful",
    "encoding": {"kind": "position"},
    "learning_rate": 0.01,
    "local_epochs": 20,
}


@pytest.fixture
def average(data_folder, tmp_path):
    """Mean over seeds of a figure of the final model: call it with changes of the scenario."""

    def play(changes):
        runs = [
            run(
                load("useful/santa-monica", {"seed": seed, **changes}),
                tmp_path / f"{len(list(tmp_path.iterdir()))}",
            )
            for seed in SEEDS
        ]
        keys = (
            "rmse_db",
            "constant_rmse_db",
            "central_rmse_db",
            "federated_over_central",
            "kriging_rmse_db",
        )
        return {
            key: float(np.mean([summary.get(f"utility.{key}", np.nan) for summary in runs]))
            for key in keys
        }

    return play


@mark.slow
class TestSantaMonica:
    def test_drives_without_memory(self, average):
        figures = average({"learning.data": DATA})
        assert abs(figures["constant_rmse_db"] - 9.1) < 0.3
        assert 3.6 < figures["rmse_db"] < 4.7
        assert 2.8 < figures["kriging_rmse_db"] < 4.0

    def test_drives_that_stay_come_within_15_percent_of_central_training(self, average):
        figures = average({"learning.data": HOLDING})
        assert figures["rmse_db"] < 4.0
        assert figures["federated_over_central"] < 1.15

    def test_one_client_with_memory_is_as_good_as_central_training(self, average):
        figures = average({"learning.data": MEMORY, "world.ues.mobility.users": "all"})
        assert figures["rmse_db"] < 3.5
        assert figures["rmse_db"] - figures["central_rmse_db"] < 0.4

    def test_the_position_alone_blurs_the_map(self, average):
        figures = average(
            {
                "learning.data": DATA,
                "learning.learner": POSITION,
                "learning.references": {"central": False},
            }
        )
        assert 5.4 < figures["rmse_db"] < 6.0


@mark.slow
def test_a_home_needs_nights_in_the_rows(data_folder, tmp_path):
    """The walker lives somewhere by his log; by a row every 15 min too few nights have two, and
    taxis live nowhere."""
    changes = {
        point.label: point.overrides
        for point in plan_points(load("useful/geolife"), {})
        if point.seed == 1
    }
    figures = [
        run(
            load("useful/geolife", changes[label] | {"learning.rounds": 2, "learning.attacks": []}),
            tmp_path / label,
        )
        for label in ("useful", "useful, every 15 min", "useful, taxis")
    ]
    assert [(summary["homes.none"], summary["homes.few_nights"]) for summary in figures] == [
        (0, 0),
        (1, 0),
        (4, 0),
    ]
