"""What federated maps of a cell in Santa Monica reach, whole days held out: bands of an independent
prototype."""

import numpy as np
import pytest

from scenarios.app.result import run
from scenarios.app.run.sweep import points
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
def mean_of(data_folder, tmp_path):
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
            key: float(np.mean([one.get(f"utility.{key}", np.nan) for one in runs])) for key in keys
        }

    return play


@pytest.mark.slow
class TestSantaMonica:
    def test_drives_without_memory(self, mean_of):
        found = mean_of({"learning.data": DATA})
        assert abs(found["constant_rmse_db"] - 9.1) < 0.3
        assert 3.6 < found["rmse_db"] < 4.7
        assert 2.8 < found["kriging_rmse_db"] < 4.0

    def test_drives_that_stay_come_within_15_percent_of_central_training(self, mean_of):
        found = mean_of({"learning.data": HOLDING})
        assert found["rmse_db"] < 4.0
        assert found["federated_over_central"] < 1.15

    def test_one_client_with_memory_is_as_good_as_central_training(self, mean_of):
        found = mean_of({"learning.data": MEMORY, "world.ues.mobility.users": "all"})
        assert found["rmse_db"] < 3.5
        assert found["rmse_db"] - found["central_rmse_db"] < 0.4

    def test_the_position_alone_blurs_the_map(self, mean_of):
        found = mean_of(
            {
                "learning.data": DATA,
                "learning.learner": POSITION,
                "learning.references": {"central": False},
            }
        )
        assert 5.4 < found["rmse_db"] < 6.0


@pytest.mark.slow
def test_a_home_needs_nights_in_the_rows(data_folder, tmp_path):
    """The walker lives somewhere by his log; by a row every 15 min too few nights have two, and
    taxis live nowhere."""
    changes = {
        point.label: point.overrides
        for point in points(load("useful/geolife"), {})
        if point.seed == 1
    }
    found = [
        run(
            load("useful/geolife", changes[label] | {"learning.rounds": 2, "learning.attacks": []}),
            tmp_path / label,
        )
        for label in ("useful", "useful, every 15 min", "useful, taxis")
    ]
    assert [(one["homes.none"], one["homes.few_nights"]) for one in found] == [
        (0, 0),
        (1, 0),
        (4, 0),
    ]
