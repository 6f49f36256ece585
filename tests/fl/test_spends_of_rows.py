"""What a device with several rows spends, what is known to be in a sum, and how an audit compares devices."""

import math

import numpy as np
import pytest

from fl.defenses.budgeted import UniformDp
from fl.defenses.lapa import Lapa
from fl.membership.audit import Membership, _centred, audit
from fl.membership.base import LossThreshold
from fl.privacy.gaussian import epsilon_of
from fl.privacy.ledger import Ledger
from fl.types import Bound, DenseUpdates, HeldOut, Local, Public, Received, RoundContext
from netsim.geometry import Area
from netsim.radio.uplink import Channel
from netsim.rng import Streams

D, N = 12, 2.0
RNG = Streams(5).at("defense.x", 1)
NOBODY = Local(np.zeros(0, int), np.zeros(0, int), np.zeros(1, int), np.zeros((0, 2)), np.zeros(0), np.zeros(0))


def made(ue, model):
    """Updates within the bound N, one row each (UE, model)."""
    ue, values = np.asarray(ue), np.random.default_rng(1).normal(size=(len(ue), D))
    values *= N / np.linalg.norm(values, axis=1, keepdims=True)
    return DenseUpdates(ue, np.asarray(model), np.full(len(ue), 10.0), values, bound=Bound(N))


def facts(n_model, noise_std):
    std = np.asarray(noise_std, float)
    one, yes = np.ones(len(std)), np.ones(len(std), bool)
    channel = Channel(
        power_w=one, sinr=one, noise_std=std, thermal_std=std, rate_bps=one, airtime_s=one, delay_s=one, energy_j=one,
        decoded=yes, late=~yes,
    )  # fmt: skip
    return RoundContext(1, 0.0, Public(Area(0.0, 0.0, 1.0, 1.0), n_model), channel=channel)


class TestRowsOfOneDevice:
    ue, model = [0, 0, 0, 1, 2, 2], [0, 1, 2, 0, 0, 1]

    @pytest.mark.parametrize("kind", [UniformDp, Lapa])
    def test_share_its_epsilon(self, kind):
        """Three rows have a third each: noise three times as large, and no more of the budget gone."""
        part = kind(epsilon_system_total=6.0, rounds=10)
        at = facts(3, np.zeros(6))
        asked, state = part.noise(made(self.ue, self.model), at, part.start(3), RNG)
        each = part.first_share() * 6.0 / 10 / 3
        np.testing.assert_allclose(asked.epsilon, each / np.array([3, 3, 3, 1, 2, 2]), rtol=1e-12)
        np.testing.assert_allclose(asked.std, part.factor * 2 * N / asked.epsilon, rtol=1e-12)
        assert state.epsilon_spent == pytest.approx(3 * each, rel=1e-12)

    def test_cost_less_than_a_row_that_has_it_all(self):
        """mu^2 of a device with n rows is n (epsilon / (n c))^2: a third of that of one row, for three."""
        part = UniformDp(epsilon_system_total=6.0, rounds=10)
        _, state, spends = part.protect(made(self.ue, self.model), NOBODY, facts(3, np.zeros(6)), part.start(3), RNG)
        (said,) = Ledger.empty(3).add(spends).statements()
        mu2 = (0.2 / part.factor) ** 2 / np.array([3, 1, 2])
        np.testing.assert_allclose(said.epsilon, [epsilon_of(1e-5, math.sqrt(m)) for m in mu2], rtol=1e-9)
        np.testing.assert_allclose(state.mu2, mu2, rtol=1e-12)


class TestKnownNoise:
    """What LAPA takes off a change of the sum: the variance of all that was added on the way, drawn and received."""

    def test_is_what_was_drawn_and_what_the_channel_added(self):
        part, radio = Lapa(epsilon_system_total=6.0, rounds=10), np.array([0.0, 3.0, 500.0])
        _, state, (spend,) = part.protect(made([0, 1, 2], [0, 0, 0]), NOBODY, facts(1, radio), part.start(3), RNG)
        assert (spend.std > 0).all()
        np.testing.assert_allclose(state.drawn_var, spend.std**2 + radio**2, rtol=1e-12)

    def test_is_the_channels_alone_where_a_device_is_silent(self):
        part, radio = Lapa(epsilon_system_total=6.0, rounds=1), np.array([2.0, 3.0])
        updates, at = made([0, 1], [0, 0]), facts(1, radio)
        _, state, _ = part.protect(updates, NOBODY, at, part.start(2), RNG)
        sent, state, (spend,) = part.protect(updates, NOBODY, at, state, RNG)
        assert not sent.values.any() and not len(spend.ue)
        np.testing.assert_allclose(state.drawn_var, radio**2, rtol=1e-12)

    def test_stands_in_the_floor_by_squared_weights(self):
        """d sum_k w_k^2 (sigma_k^2 + sigma_ch,k^2), in units of the clip norm: its mean over draws of the noise."""
        part, radio, weights = Lapa(epsilon_system_total=600.0, rounds=10), np.array([1.0, 9.0]), np.array([0.3, 0.7])
        updates, at = made([0, 1], [0, 0]), facts(1, radio)
        sent, state, (spend,) = part.protect(updates, NOBODY, at, part.start(2), RNG)
        after = part.observe(Received(sent, np.ones(2, bool)), weights, at, state)
        by_hand = D * (weights**2 * (spend.std**2 + radio**2)).sum() / N**2
        assert after.rule.sums[-1].floor == pytest.approx(by_hand, rel=1e-12)
        clean, gone = (updates.values * weights[:, None]).sum(axis=0), []
        for draw in range(400):
            at_draw = Streams(5).at("defense.x", draw)
            noisy = part.protect(updates, NOBODY, at, part.start(2), at_draw)[0].values
            noisy = noisy + radio[:, None] * at_draw.normal("decoder", np.arange(2), (D,))
            gone.append((((noisy * weights[:, None]).sum(axis=0) - clean) ** 2).sum() / N**2)
        assert np.mean(gone) == pytest.approx(by_hand, rel=0.08)


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
