"""When one record's share of an update is bounded: the data, the layers and the devices that it holds for."""

import csv

import numpy as np
import pytest

from fl.data.measured import Measured, Segments
from fl.defenses.gaussian import Gaussian
from fl.learners.rsrp_net import RsrpNet
from fl.learning import Learning
from fl.types import Local, Public
from netsim.geometry import Area
from netsim.rng import Streams

RNG = Streams(4).at("tests", 1)
PUBLIC = Public(Area(0.0, 0.0, 1000.0, 800.0), 1)


def nobody():
    none = np.zeros(0, dtype=np.int64)
    return Local(none, none, np.zeros(1, np.int64), np.zeros((0, 2)), np.zeros(0), np.zeros(0))


class TestRecordsByThemselves:
    def learning(self, data):
        learner, noise = RsrpNet(hidden=(4,), sample_clip=1.0), Gaussian(noise_multiplier=1.0)
        return Learning(round_s=60.0, data=data, learner=learner, defenses=(noise,))

    @pytest.mark.parametrize("data", [
        Measured(), Measured(memory="all"), Measured(hold_out_by="day"), Measured(hold_out_by="block"),
        Segments(hold_out=0.0, cell="all"),
    ], ids=str)  # fmt: skip
    def test_noise_may_follow(self, data):
        self.learning(data)

    @pytest.mark.parametrize("data", [
        Measured(memory=5), Measured(hold_out_by="session"), Measured(cell="strongest"), Segments(cell="all"),
    ], ids=str)  # fmt: skip
    def test_where_one_record_changes_which_others_are_learnt_from_there_is_no_bound(self, data):
        with pytest.raises(ValueError, match="gaussian needs a bound"):
            self.learning(data)

    def test_a_cohort_of_nobody_has_the_bound_of_a_device_with_one_record(self):
        learner = RsrpNet(hidden=(4,), sample_clip=0.5, learning_rate=0.01)
        made = learner.local(learner.init(PUBLIC, RNG), "all", nobody(), RNG)
        assert made.bound.norm == pytest.approx(0.01 * 0.5)


def test_a_round_without_anybody_steps_on_where_noise_hides_who_came(tiny, tmp_path):
    from scenarios.app.run.runner import run

    study = tiny({
        "world.ues.measurement_period_s": 120, "world.duration_s": 240, "learning.round_s": 60,
        "learning.server_optimiser": {"kind": "fedavgm", "momentum": 0.9},
        "learning.defenses": [
            {"kind": "clip", "norm": 0.1, "relation": "add-remove"},
            {"kind": "central-gaussian", "noise_multiplier": 1.0},
        ],
        "learning.aggregation": {"kind": "uniform", "clients": 4},
    })  # fmt: skip
    run(study, tmp_path / "run")
    with (tmp_path / "run" / "rounds.csv").open() as f:
        rows = list(csv.DictReader(f))
    assert len({r["rmse_db"] for r in rows}) == len(rows) == 4
    assert "0" in {r["ues"] for r in rows}
