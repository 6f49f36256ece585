"""Budgets of epsilon over rounds and devices: their laws, their total, and what the ledger makes of them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fl.defenses.arb import Arb
from fl.defenses.budgeted import PRINTED
from fl.defenses.clip import Clip
from fl.defenses.lapa import Lapa
from fl.defenses.noise_switch import NoiseSwitch
from fl.defenses.uniform_dp import UniformDp
from fl.learning import Learning
from fl.privacy import ledger
from fl.privacy.gaussian import epsilon_of
from fl.privacy.zcdp import epsilon_of as zcdp_epsilon
from fl.types import DenseUpdates, Facts, Local, Public, Received
from netsim.geometry import Area
from netsim.radio.uplink import Channel
from netsim.rng import Streams

K, D, N = 15, 40, 2.0
PUBLIC = Public(Area(0.0, 0.0, 1.0, 1.0), 1)


def channel(std, n, interference=0.0):
    """Thermal noise of std (n,), and besides it what other UEs' signals leave: interference (n,)."""
    one, yes = np.ones(n), np.ones(n, bool)
    thermal = np.broadcast_to(np.asarray(std, float), n).copy()
    return Channel(
        power_w=one, sinr=one, noise_std=np.hypot(thermal, interference), thermal_std=thermal, rate_bps=one,
        airtime_s=one, delay_s=one, energy_j=one, decoded=yes, late=~yes,
    )  # fmt: skip


def clipped(ue=range(K), seed=0, samples=96, size=1.0):
    ue = np.asarray(list(ue))
    values = np.random.default_rng(seed).normal(size=(len(ue), D)) * size
    made = DenseUpdates(ue, np.zeros(len(ue), int), np.full(len(ue), float(samples)), values)
    local = Local(ue, 0 * ue, np.zeros(len(ue) + 1, int), np.zeros((0, 2)), np.zeros(0), np.zeros(0))
    return Clip(norm=N).protect(made, local, Facts(1, 0.0, PUBLIC), {}, None)[0], local


def play(part, rounds, ue=range(K), std=0.0, learn=True, state=None, interference=0.0):
    """Epsilon of each device and round (rounds, K), all spends, and the last state."""
    state, every, spends = part.start(K) if state is None else state, [], []
    inner = part.noise if isinstance(part, NoiseSwitch) else part
    for t in range(1, rounds + 1):
        updates, local = clipped(ue, seed=t)
        facts = Facts(t, 0.0, PUBLIC, channel=channel(std, len(updates.ue), interference))
        rng = Streams(7).at("defense.x", t)
        before = state["noise"] if isinstance(part, NoiseSwitch) else state
        asked, _ = inner.noise(updates, facts, before, rng)
        sent, state, spent = part.protect(updates, local, facts, state, rng)
        row = np.zeros(K)
        row[updates.ue] = asked.epsilon
        every.append(row)
        spends.append(spent)
        if learn:
            received = Received(sent, np.ones(len(updates.ue), bool))
            state = part.observe(received, np.full(len(updates.ue), 1 / len(updates.ue)), facts, state)
    return np.array(every), spends, state


class TestLaws:
    @pytest.mark.parametrize(
        "e, shares, spent",
        [
            (0.1, (0.905, 0.965, 1.12, 1.47), 99.8), (0.5, (0.61, 0.79, 1.46, 4.18), 97.3),
            (1.0, (0.37, 0.56, 1.50, 7.52), 87.1), (3.0, (0.05, 0.09, 0.41, 4.04), 22.9),
        ],
    )  # fmt: skip
    def test_budgets_under_a_constant_error(self, e, shares, spent):
        """epsilon[t] = exp(-e) left / rounds left: share of the uniform budget in rounds 1, 50, 90, 100."""
        part = Lapa(epsilon_system_total=100.0 * K, rounds=100, error_most=e, epsilon_cap=1e6)
        every, _, _ = play(part, 100, learn=False)
        system = every.sum(axis=1) / K
        for t, share in zip((1, 50, 90, 100), shares, strict=True):
            assert system[t - 1] == pytest.approx(share, abs=0.011)
        assert 100 * every.sum() / (100 * K) == pytest.approx(spent, abs=0.1)

    def test_constants(self):
        assert UniformDp(epsilon_system_total=1.0).factor == pytest.approx(4.845, abs=1e-3)
        part = Lapa(epsilon_system_total=1.0)
        f = part.mapped(np.linspace(0.5, np.pi, 100))
        assert part.mapped(np.array([1.0]))[0] == pytest.approx(0.632 * 5, abs=1e-3)
        assert (np.diff(f) < 0).all() and 0 < f[-1] < f[0] < 5

    @pytest.mark.parametrize("epsilon, zcdp", [(0.1, 1.01), (0.2, 2.07), (0.4, 4.30), (0.75, 8.63), (1.0, 12.03)])
    def test_what_a_hundred_rounds_cost(self, epsilon, zcdp):
        """rho = sum epsilon^2 / (2 c^2), here with the sensitivity that the noise was set for."""
        part = UniformDp(epsilon_system_total=epsilon * 100 * K, rounds=100)
        _, spends, _ = play(part, 100)
        mu2 = sum((s.sensitivity[0] / s.std[0]) ** 2 for round_ in spends for s in round_)
        assert zcdp_epsilon(mu2 / 2, 1e-5) == pytest.approx(zcdp, abs=0.01)

    def test_noise_has_the_deviation_it_was_set_for(self):
        part = UniformDp(epsilon_system_total=0.5 * 10 * K, rounds=10)
        updates, local = clipped()
        sent, _, (spend,) = part.protect(updates, local, Facts(1, 0.0, PUBLIC), part.start(K), Streams(1).at("x", 1))
        expected = part.factor * 2 * N / 0.5
        assert (spend.std == pytest.approx(expected)) and (spend.sensitivity == 2 * N).all()
        drawn = sent.rows(slice(None)) - updates.rows(slice(None))
        assert drawn.std() == pytest.approx(expected, rel=0.1)

    def test_initial_noise_stands_for_a_total(self):
        for kind, share in ((UniformDp, 1.0), (Arb, 0.6), (Lapa, math.exp(-1.0))):
            part = kind(initial_noise_std=30.0, rounds=10, epsilon_cap=1e6)
            _, spends, state = play(part, 1)
            assert spends[0][0].std == pytest.approx(30.0)
            assert state["total"] == pytest.approx(part.factor * 2 * N / 30.0 * 10 * K / share)


class TestTotal:
    @settings(max_examples=40, deadline=None)
    @given(
        st.sampled_from(["rms", "debias", "l2", "rel", "norm"]), st.floats(0.1, 5000), st.floats(0.05, 5),
        st.floats(0, 4), st.integers(1, 25),
    )  # fmt: skip
    def test_never_exceeded(self, error, total, most, gain, rounds):
        for part in (
            Lapa(
                epsilon_system_total=total, rounds=rounds, error=error, error_most=most, gain_last=gain, gain_mean=gain,
            ),
            Arb(epsilon_system_total=total, rounds=rounds), UniformDp(epsilon_system_total=total, rounds=rounds),
        ):  # fmt: skip
            every, _, _ = play(part, rounds + 3)
            assert every.sum() <= total * (1 + 1e-9) and every.max() <= part.epsilon_cap
            assert (every >= 0).all() and np.isfinite(every).all() and not every[rounds:].any()

    def test_who_is_away_spends_nothing(self):
        part = Lapa(epsilon_system_total=60.0, rounds=20)
        every, _, state = play(part, 5, ue=range(0, K, 2))
        assert not every[:, 1::2].any() and every[:, ::2].all()
        back, _, _ = play(part, 3, state=state)
        assert np.isfinite(back).all() and back.all()

    def test_after_the_last_round_devices_send_zeros(self):
        part = UniformDp(epsilon_system_total=60.0, rounds=2)
        _, _, state = play(part, 2)
        updates, local = clipped()
        sent, _, (spend,) = part.protect(updates, local, Facts(3, 0.0, PUBLIC), state, Streams(1).at("x", 3))
        assert not sent.rows(slice(None)).any() and len(spend.ue) == 0

    def test_agreeing_devices_get_more(self):
        """Device 0 sends the sum's direction, the others noise around it."""
        part, state = Lapa(epsilon_system_total=1e4, rounds=50, epsilon_cap=1e6), None
        state = part.start(K)
        for t in range(1, 6):
            values = np.random.default_rng(t).normal(size=(K, D))
            values[0] = 3.0
            updates = DenseUpdates(np.arange(K), np.zeros(K, int), np.ones(K), values)
            local = clipped()[1]
            bounded = Clip(norm=N).protect(updates, local, Facts(t, 0.0, PUBLIC), {}, None)[0]
            asked, _ = part.noise(bounded, Facts(t, 0.0, PUBLIC), state, Streams(2).at("x", t))
            _, state, _ = part.protect(bounded, local, Facts(t, 0.0, PUBLIC), state, Streams(2).at("x", t))
            received = Received(bounded, np.ones(K, bool))
            weights = np.full(K, 0.02)
            weights[0] = 0.72
            state = part.observe(received, weights, Facts(t, 0.0, PUBLIC), state)
        assert asked.epsilon[0] > 2 * asked.epsilon[1:].max()

    def test_a_round_that_nobody_heard_changes_no_budget(self):
        part = Lapa(epsilon_system_total=60.0, rounds=20)
        _, _, state = play(part, 3)
        updates, _ = clipped()
        after = part.observe(Received(updates, np.zeros(K, bool)), np.zeros(K), Facts(4, 0.0, PUBLIC), state)
        assert after["history"] is state["history"] or len(after["history"]) == len(state["history"])


class TestClaims:
    def test_the_true_account_stands_beside_the_printed_one(self):
        part = UniformDp(epsilon_system_total=0.4 * 10 * K, rounds=10, sensitivity="mean-clip")
        _, spends, _ = play(part, 10)
        state = ledger.empty(K)
        for round_ in spends:
            state = ledger.book(state, round_)
        printed, true = (next(s for s in ledger.statements(state) if s.unit == u) for u in (PRINTED, "user"))
        assert printed.epsilon.max() == pytest.approx(epsilon_of(1e-5, 0.4 / part.factor * math.sqrt(10)), rel=1e-9)
        assert true.epsilon.min() > 50 * printed.epsilon.max()  # 96 samples hide behind one another on paper only

    def test_as_printed_the_noise_shrinks_with_the_step_size(self):
        for kind in ("mean-clip", "paper"):
            part = UniformDp(epsilon_system_total=60.0, rounds=10, sensitivity=kind, paper_step_size=0.05)
            claimed = part.claimed(clipped()[0].bound, np.array([96.0]))[0]
            assert claimed == pytest.approx(2 * N / 96 * (0.05 if kind == "paper" else 1.0))

    def test_one_step_of_a_record_needs_a_bound_on_records(self):
        noise = {"kind": "lapa", "epsilon_system_total": 60.0, "sensitivity": "record-one-step"}
        clip = {"kind": "clip", "norm": 1.0}
        with pytest.raises(ValidationError, match="record bound"):
            Learning(every_s=1.0, learner={"kind": "rsrp-net"}, defenses=(clip, noise))
        learner = {"kind": "rsrp-net", "sample_clip": 1.0}
        assert Learning(every_s=1.0, learner=learner, defenses=(noise,)).defenses[0].needs

    @pytest.mark.parametrize("more", [{}, {"epsilon_system_total": 1.0, "initial_noise_std": 1.0}])
    def test_one_budget(self, more):
        with pytest.raises(ValidationError, match="exactly one of"):
            UniformDp(**more)


class TestSwitch:
    inner = {"kind": "uniform-dp", "epsilon_system_total": 0.5 * 10 * K, "rounds": 10}
    asked = 4.845 * 2 * N / 0.5

    def test_top_up_brings_the_two_to_what_was_asked(self):
        part = NoiseSwitch(noise=self.inner)
        _, spends, _ = play(part, 3, std=0.6 * self.asked)
        (spend,) = spends[0]
        np.testing.assert_allclose(np.hypot(spend.std, spend.channel_std), self.asked, rtol=1e-3)
        _, spends, state = play(part, 1, std=2 * self.asked)
        assert not spends[0][0].std.any() and part.figures(state)["artificial_percent"] == 0

    def test_planned(self):
        part = NoiseSwitch(noise=self.inner, mode="planned", until_round=2)
        _, spends, _ = play(part, 4)
        assert [bool(r[0].std.all()) for r in spends] == [True, True, False, False]

    def test_first_crossing_by_either_criterion(self):
        """One device with a bad channel meets the sum for everybody, and not the demand on each."""
        std = np.full(K, 0.1)
        std[3] = 2 * K * self.asked
        for criterion, crossed in (("aggregate", 1), ("per-device", None)):
            part = NoiseSwitch(noise=self.inner, mode="first-crossing", criterion=criterion)
            _, spends, state = play(part, 2, std=std)
            assert state["crossed"] == crossed and bool(spends[1][0].std.any()) == (crossed is None)

    def test_without_artificial_noise_nothing_is_guaranteed(self):
        part = NoiseSwitch(noise=self.inner, mode="planned", until_round=0)
        _, spends, _ = play(part, 2, std=self.asked)
        state = ledger.book(ledger.empty(K), [s for r in spends for s in r])
        (said,) = ledger.statements(state)
        assert np.isinf(said.epsilon).all() and np.isfinite(said.with_channel).all()

    def test_the_channel_counts_only_where_it_takes_over(self):
        """Two rounds of artificial noise alone, then two of the channel's, device by device."""
        part, std = NoiseSwitch(noise=self.inner, mode="planned", until_round=2), self.asked * np.linspace(0.5, 2, K)
        _, spends, state = play(part, 4, std=std)
        book = ledger.book(ledger.empty(K), [s for r in spends for s in r])
        (said,) = ledger.statements(book)
        reach = 2 * N
        mu2 = 2 * (reach / spends[0][0].std) ** 2 + 2 * (reach / std) ** 2
        np.testing.assert_allclose(said.with_channel, [epsilon_of(1e-5, math.sqrt(m)) for m in mu2], rtol=1e-9)
        assert part.figures(state)["switch_round"] == 2.0

    def test_the_realised_switch_is_the_last_round_with_noise(self):
        part = NoiseSwitch(noise=self.inner, mode="first-crossing")
        _, _, state = play(part, 3)
        assert part.figures(state)["switch_round"] == 3.0
        _, _, state = play(part, 2, std=2 * self.asked, state=state)
        assert part.figures(state)["switch_round"] == 3.0 and state["crossed"] == 4

    def test_a_round_goes_with_a_plan(self):
        with pytest.raises(ValidationError, match="until_round goes with mode: planned"):
            NoiseSwitch(noise=self.inner, mode="top-up", until_round=3)


class TestPromise:
    """What holds whatever the rounds show: fixed before the first of them."""

    @settings(max_examples=30, deadline=None)
    @given(st.sampled_from([Lapa, Arb, UniformDp]), st.floats(1, 3000), st.floats(0.2, 20), st.integers(1, 20))
    def test_no_device_passes_its_own_total(self, kind, total, most, rounds):
        part = kind(epsilon_system_total=total, rounds=rounds, epsilon_device_total=most)
        every, _, state = play(part, rounds + 2)
        spent = ((every / part.factor) ** 2).sum(axis=0)
        found = [epsilon_of(1e-5, math.sqrt(s)) for s in np.unique(spent) if s > 0]
        assert max(found, default=0.0) <= part.promised(total) * (1 + 1e-9) <= most * (1 + 1e-8)
        np.testing.assert_allclose(state["spent"], spent)

    def test_the_caps_promise_too(self):
        """At most T rounds of the cap, or a budget that is gone after total / cap of them."""
        part = UniformDp(epsilon_system_total=1500.0, rounds=100)
        assert part.promised(1500.0) == pytest.approx(epsilon_of(1e-5, 10 / part.factor))
        assert part.promised(9.0) == pytest.approx(epsilon_of(1e-5, 3 / part.factor))
        every, _, state = play(part, 100)
        assert part.figures(state)["epsilon_promised"] == pytest.approx(part.promised(1500.0))
        assert (every == 1.0).all()  # the promise is reached

    def test_an_even_share_of_the_total_is_the_uniform_budget(self):
        """0.4 in each of 100 rounds: a device total of just that changes nothing; half of its mu cuts to half."""
        mu = 10 * 0.4 / UniformDp(epsilon_system_total=1.0).factor
        for share in (1.0, 0.5):
            part = UniformDp(epsilon_system_total=0.4 * 1500, epsilon_device_total=epsilon_of(1e-5, share * mu))
            np.testing.assert_allclose(play(part, 100)[0], 0.4 * share, rtol=1e-6)

    def test_runs_are_told_what_is_no_guarantee(self):
        assert "no guarantee" in UniformDp(epsilon_system_total=1.0, sensitivity="paper").caveat
        assert UniformDp(epsilon_system_total=1.0).caveat == ""
        assert "epsilon_promised" in Lapa(epsilon_system_total=1.0).caveat
        inner = {"kind": "arb", "epsilon_system_total": 1.0, "sensitivity": "mean-clip"}
        said = NoiseSwitch(noise=inner).caveat
        assert all(word in said for word in ("better receiver", "no guarantee", "epsilon_promised"))

    def test_a_budget_too_small_to_train_stays_a_number(self):
        part = Lapa(epsilon_system_total=1e-9, rounds=5)
        every, spends, state = play(part, 5)
        assert (every > 0).all() and all(np.isfinite(s.std).all() for r in spends for s in r)
        assert all(np.isfinite(v) for v in part.figures(state).values())
