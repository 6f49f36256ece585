"""Learners whose UEs remember: state per UE, and SCAFFOLD."""

from dataclasses import replace

import numpy as np
import pytest

from fl.learners.rsrp_net import RsrpNet
from netsim.columns import ByKey
from scenarios.app.result import run


class Counting(RsrpNet):
    """Updates of all ones times the number of times that their UE has trained."""

    def start_ues(self, n_ue):
        assert n_ue == 4
        return ByKey.empty(1)

    def train_with_state(self, model, phase, data, state, rng):
        updates = self.train_locally(model, phase, data, rng)
        trained = np.nan_to_num(state.look_up(data.row)).reshape(-1, 1) + 1.0
        values = trained * np.ones(updates.n_parameters)
        return replace(updates, values=values), state.overwrite_values(data.row, trained)


@pytest.fixture
def counting(monkeypatch):
    for name in ("start_ues", "train_with_state"):
        monkeypatch.setattr(RsrpNet, name, vars(Counting)[name])


def test_ues_remember_from_round_to_round_and_over_an_interruption(
    tiny, tmp_path, counting, check_resumed
):
    study = tiny({"world.duration_s": 240})
    folder = tmp_path / "counted"
    run(study, folder)
    updates = np.genfromtxt(folder / "updates.csv", delimiter=",", names=True, encoding=None)
    d = study.learning.learner.net.n_parameters
    times = updates["norm"] / np.sqrt(d)
    rounds = updates["round"].astype(int)
    assert set(times[rounds == 1].round(9)) == {1.0}
    assert times.max() == pytest.approx(4.0)
    check_resumed(study, 2)
