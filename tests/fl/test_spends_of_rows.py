"""How an audit of membership compares devices."""

import numpy as np

from fl.membership.audit import Membership, _centred, audit
from fl.membership.base import LossThreshold
from fl.types import HeldOut, Local, Public
from netsim.geometry import Area
from netsim.rng import Streams

RNG = Streams(5).at("defense.x", 1)


class Told(LossThreshold):
    """Scores that are given: the first feature of a record."""

    def score(self, asked):
        return asked.x[:, 0]


class TestDevicesAreCompared:
    def test_scores_count_from_the_median_of_the_device(self):
        score = np.array([5.0, 1.0, 9.0, 100.0, 102.0, 101.0, 104.0, -3.0])
        device = np.array([0, 0, 0, 1, 1, 1, 1, 2])
        expected = np.array([0.0, -4.0, 4.0, -1.5, 0.5, -0.5, 2.5, 0.0])
        shuffled = np.random.default_rng(2).permutation(8)
        np.testing.assert_allclose(_centred(score[shuffled], device[shuffled]), expected[shuffled])

    def test_a_device_that_all_records_fit_badly_hides_nobody(self):
        """Members score 1 above the others of their device, and devices lie 100 apart: every member is found."""
        from fl.attacks.base import View
        from fl.learners.rsrp_net import RsrpNet

        devices, n = np.arange(4), 10
        base = 100.0 * np.repeat(devices, n) + np.tile(np.linspace(0, 0.5, n), 4)
        inside, outside = (np.stack([base + more, base], axis=1) for more in (1.0, 0.0))
        ue, zero = np.repeat(devices, n), np.zeros(4 * n, int)
        local = Local(devices, 0 * devices, np.arange(5) * n, inside, 0.0 * ue, 0.0 * ue)
        learner = RsrpNet(hidden=(3,))
        model = learner.init(Public(Area(0.0, 0.0, 1.0, 1.0), 1), RNG)
        rows = np.zeros((4, model.parameters.shape[1]))
        view = View("updates", "all", rows, 0 * devices, devices, 0 * devices, devices, model, model, learner)
        ((row,), _) = audit(Membership(attacks=(Told(),)), view, local, HeldOut(ue, zero, outside, 0.0 * ue, zero), RNG)
        assert row["members"] == row["non_members"] == 40
        assert row["auc"] == 1.0 and row["tpr_percent"] == 100.0
