"""Budgets of epsilon over rounds and devices: their laws, their total, and what the ledger makes of
them."""

import math
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from fl_values import build_context, build_local, build_updates
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_allclose
from pydantic import ValidationError
from pytest import approx, raises
from tabled import cases

from fl.aggregation import compute_angle_exponent
from fl.defenses.budgeted import PRINTED, Arb, UniformDp
from fl.defenses.clip import Clip
from fl.defenses.gaussian import CentralGaussian, Gaussian
from fl.defenses.lapa import Lapa, NoiseSwitch
from fl.privacy.gaussian import compute_gaussian_epsilon
from fl.privacy.ledger import Ledger
from fl.round.learn import protect_updates
from fl.round.learning import Learning
from fl.round.setup import RoundStreams
from fl.types import Bound, DenseUpdates, Public, Received, RoundContext
from netsim import compiled
from netsim.geometry import Area
from netsim.radio.uplink import Channel
from netsim.rng import Streams

parametrize = pytest.mark.parametrize

K = 15
D = 40
N = 2.0
PUBLIC = Public(Area(0.0, 0.0, 1.0, 1.0), 1)


def channel(std, n, interference=0.0):
    """Thermal noise of std (n,), and besides it what other UEs' signals leave: interference
    (n,)."""
    ones = np.ones(n)
    yes = np.ones(n, bool)
    thermal = np.broadcast_to(np.asarray(std, float), n).copy()
    noise = {"noise_std": np.hypot(thermal, interference), "thermal_std": thermal}
    names = ["power_w", "sinr", "rate_bps", "airtime_s", "delay_s", "energy_j"]
    return Channel(**dict.fromkeys(names, ones), **noise, decoded=yes, late=~yes)


RNG = Streams(7).derive_rng("defense.x", 1)
EMPTY = build_local()


def build_clipped(ue=range(K), seed=0, samples=96, size=1.0):
    ue = np.asarray(list(ue))
    values = default_rng(seed).normal(size=(len(ue), D)) * size
    updates = DenseUpdates(ue, np.zeros(len(ue), int), np.full(len(ue), float(samples)), values)
    clip = Clip(norm=N)
    return clip.protect(updates, EMPTY, build_context(), clip.start(0), None)[0]


def play(part, rounds, ue=range(K), std=0.0, learn=True, state=None, interference=0.0):
    """Epsilon of each device and round (rounds, K), all spends, and the last state."""
    state = part.start(K) if state is None else state
    epsilons = []
    spends = []
    inner = part.noise if isinstance(part, NoiseSwitch) else part
    for t in range(1, rounds + 1):
        updates = build_clipped(ue, seed=t)
        facts = RoundContext(t, 0.0, PUBLIC, channel=channel(std, len(updates.ue), interference))
        rng = Streams(7).derive_rng("defense.x", t)
        before = state.noise if isinstance(part, NoiseSwitch) else state
        required, _ = inner.determine_noise(updates, facts, before, rng)
        sent, state, spent = part.protect(updates, EMPTY, facts, state, rng)
        row = np.zeros(K)
        epsilon = inner.factor * required.claimed / np.where(required.silent, np.inf, required.std)
        row[updates.ue] = epsilon
        epsilons.append(row)
        spends.append(spent)
        if learn:
            n = len(updates.ue)
            received = Received(sent, np.ones(n, bool))
            state = part.observe(received, np.full(n, 1 / n), facts, state)
    return np.array(epsilons), spends, state


class TestLaws:
    @parametrize(
        "e, shares, spent",
        cases("""
        0.1, (0.905, 0.965, 1.12, 1.47), 99.8
        0.5, (0.61, 0.79, 1.46, 4.18), 97.3
        1.0, (0.37, 0.56, 1.50, 7.52), 87.1
        3.0, (0.05, 0.09, 0.41, 4.04), 22.9
        """),
    )
    def test_budgets_under_a_constant_error(self, e, shares, spent):
        """epsilon[t] = exp(-e) left / rounds left: share of the uniform budget in rounds 1, 50, 90,
        100."""
        part = Lapa(epsilon_system_total=100.0 * K, rounds=100, error_max=e, epsilon_cap=1e6)
        epsilons, _, _ = play(part, 100, learn=False)
        system = epsilons.sum(axis=1) / K
        assert system[[0, 49, 89, 99]] == approx(shares, abs=0.011)
        assert system.sum() == approx(spent, abs=0.1)

    def test_noise_has_the_deviation_it_was_set_for(self):
        part = UniformDp(epsilon_system_total=0.5 * 10 * K, rounds=10)
        updates = build_clipped()
        sent, _, (spend,) = part.protect(updates, EMPTY, build_context(), part.start(K), RNG)
        expected = part.factor * 2 * N / 0.5
        assert spend.std == approx(expected)
        assert (spend.sensitivity == 2 * N).all()
        drawn = sent.rows(slice(None)) - updates.rows(slice(None))
        assert drawn.std() == approx(expected, rel=0.1)

    def test_initial_noise_stands_for_a_total(self):
        for kind, share in ((UniformDp, 1.0), (Arb, 0.6), (Lapa, math.exp(-1.0))):
            part = kind(initial_noise_std=30.0, rounds=10, epsilon_cap=1e6)
            _, spends, state = play(part, 1)
            assert spends[0][0].std == approx(30.0)
            expected = part.factor * 2 * N / 30.0 * 10 * K / share
            assert state.total == approx(expected)


class TestFirstNoise:
    """`initial_noise_std` is the noise of the first round in which a UE sends, mean over those that
    send in it."""

    ue = [1, 1, 1, 4, 9, 9]
    model = [0, 1, 2, 0, 0, 1]
    samples = np.array([96.0, 96, 96, 3, 50, 50])
    none = build_updates(np.zeros((0, 3)), bound=Bound(N))

    @parametrize("sensitivity", ["update", "mean-clip", "paper"])
    @parametrize("kind", ["uniform-dp", "arb", "lapa"])
    @parametrize("before", [0, 1, 6])
    def test_follows_the_first_rows_however_late(self, kind, sensitivity, before):
        """Rounds without a row fix no budget; afterwards few UEs, unlike samples and several models
        change no mean."""
        limits = {"initial_noise_std": 0.006, "rounds": 8, "epsilon_cap": 1e6}
        part = NoiseSwitch(noise={"kind": kind, "sensitivity": sensitivity, **limits})
        context = facts(3, np.zeros(0))
        state = part.start(K)
        for _ in range(before):
            _, state, (spend, *_) = part.protect(self.none, EMPTY, context, state, ROWS)
            statement = part.collect_figures(state)
            assert not len(spend.std)
            assert "budget_total" not in statement
            assert part.get_standing(state).budget_left == 1.0
        rows = replace(build_rows(self.ue, self.model), count=self.samples)
        _, state, (spend, *_) = part.protect(rows, EMPTY, facts(3, np.full(6, 1e-4)), state, ROWS)
        required = state.noise.standing.row_required_std
        result = np.mean([required[:3].mean(), required[3], required[4:].mean()])
        assert result == approx(0.006, rel=1e-12)
        assert_allclose(np.hypot(spend.std, 1e-4), required, rtol=1e-9)
        total = part.collect_figures(state)["budget_total"]
        for t in range(before + 2, 12):
            updates = build_clipped(seed=t)
            _, state, _ = part.protect(updates, EMPTY, facts(1, np.zeros(K)), state, ROWS)
        statement = part.collect_figures(state)
        assert statement["budget_total"] == total
        assert -1e-9 * total <= statement["budget_left"]
        spent = compute_gaussian_epsilon(1e-5, math.sqrt(state.noise.mu2.max()))
        assert spent <= statement["epsilon_promised_with_channel"] * (1 + 1e-9)

    def test_rows_after_the_planned_rounds_are_silent(self):
        part = Lapa(initial_noise_std=1.0, rounds=1)
        context = facts(1, np.zeros(0))
        start = part.start(K)
        state = part.protect(self.none, EMPTY, context, start, ROWS)[1]
        updates = build_rows([0, 1], [0, 0])
        context = facts(1, np.zeros(2))
        sent, state, (spend,) = part.protect(updates, EMPTY, context, state, ROWS)
        assert not sent.values.any()
        assert not len(spend.ue)
        assert state.total is None

    @parametrize("limit", [{"epsilon_cap": 0.5}, {"epsilon_cap": 1e6, "epsilon_device_total": 0.5}])
    def test_more_noise_by_a_limit_on_epsilon_is_said(self, limit, monkeypatch):
        lines = []
        monkeypatch.setattr(compiled, "tell", lines.append)
        _, spends, _ = play(UniformDp(initial_noise_std=30.0, rounds=10, **limit), 2)
        std = spends[0][0].std[0]
        assert std > 31
        assert f"has a std of {std:.4g}, not initial_noise_std 30" in lines[0]
        lines.clear()
        play(UniformDp(initial_noise_std=30.0, rounds=10, epsilon_cap=1e6), 2)
        assert not lines


class TestTotal:
    @settings(max_examples=40, deadline=None)
    @given(
        st.sampled_from(["rms", "debias", "l2"]),
        st.floats(0.1, 5000),
        st.floats(0.05, 5),
        st.floats(0, 4),
        st.integers(1, 25),
    )
    def test_never_exceeded(self, error, total, limit, gain, rounds):
        budget = {"epsilon_system_total": total, "rounds": rounds}
        gains = {"gain_last": gain, "gain_mean": gain}
        lapa = Lapa(**budget, error=error, error_max=limit, **gains)
        for part in (lapa, Arb(**budget), UniformDp(**budget)):
            epsilons, _, _ = play(part, rounds + 3)
            assert epsilons.sum() <= total * (1 + 1e-9)
            assert epsilons.max() <= part.epsilon_cap
            assert (epsilons >= 0).all()
            assert not epsilons[rounds:].any()

    def test_who_is_away_spends_nothing(self):
        part = Lapa(epsilon_system_total=60.0, rounds=20)
        epsilons, _, state = play(part, 5, ue=range(0, K, 2))
        assert not epsilons[:, 1::2].any()
        assert epsilons[:, ::2].all()
        back, _, _ = play(part, 3, state=state)
        assert ((back > 0) & (back < np.inf)).all()


def learn_behind(*defenses, **learner):
    learner = {"kind": "rsrp-net", **learner}
    return Learning(round_s=1.0, learner=learner, defenses=defenses)


class TestClaims:
    def test_the_true_account_stands_beside_the_printed_one(self):
        part = UniformDp(epsilon_system_total=0.4 * 10 * K, rounds=10, sensitivity="mean-clip")
        _, spends, _ = play(part, 10)
        statements = Ledger(K).add(chain.from_iterable(spends)).list_statements()
        epsilon = {statement.unit: statement.epsilon for statement in statements}
        expected = compute_gaussian_epsilon(1e-5, 0.4 / part.factor * math.sqrt(10))
        assert epsilon[PRINTED].max() == approx(expected, rel=1e-9)
        # 96 samples hide behind one another on paper only
        assert epsilon["user"].min() > 50 * epsilon[PRINTED].max()

    def test_as_printed_the_noise_shrinks_with_the_step_size(self):
        budget = {"epsilon_system_total": 60.0, "rounds": 10, "paper_learning_rate": 0.05}
        for kind, factor in (("mean-clip", 1.0), ("paper", 0.05)):
            part = UniformDp(sensitivity=kind, **budget)
            claimed = part.compute_claimed_sensitivity(build_clipped().bound, np.array([96.0]))
            assert claimed == approx(2 * N / 96 * factor)

    def test_one_step_of_a_record_needs_a_bound_on_records(self):
        noise = {"kind": "lapa", "epsilon_system_total": 60.0, "sensitivity": "record-one-step"}
        clip = {"kind": "clip", "norm": 1.0}
        with raises(ValidationError, match="record bound"):
            learn_behind(clip, noise)
        assert learn_behind(noise, sample_clip=1.0).defenses[0].needs

    @parametrize("options", [{}, {"epsilon_system_total": 1.0, "initial_noise_std": 1.0}])
    def test_one_budget(self, options):
        with raises(ValidationError, match="exactly one of"):
            UniformDp(**options)


class TestSwitch:
    inner = {"kind": "uniform-dp", "epsilon_system_total": 0.5 * 10 * K, "rounds": 10}
    required = 4.845 * 2 * N / 0.5

    def test_a_device_that_does_not_send_keeps_what_was_drawn_for_it(self):
        """The second round has half of the devices; enough of the receiver's noise stood on the
        others in the first."""
        part = NoiseSwitch(noise=self.inner)
        std = np.where(np.arange(K) < 7, 0.6, 2.0) * self.required
        _, _, state = play(part, 1, std=std)
        assert state.noise.standing.drawn_std[:7].all()
        assert not state.noise.standing.drawn_std[7:].any()
        _, _, after = play(part, 1, ue=range(4), std=2 * self.required, state=state)
        assert not after.noise.standing.drawn_std[:4].any()
        expected = state.noise.standing.drawn_std[4:]
        np.testing.assert_array_equal(after.noise.standing.drawn_std[4:], expected)

    def test_first_crossing_by_either_criterion(self):
        """One device with a bad channel meets the sum for everybody, and not the demand on each."""
        std = np.full(K, 0.1)
        std[3] = 2 * K * self.required
        for criterion, crossed in (("aggregate", 1), ("per-device", None)):
            part = NoiseSwitch(noise=self.inner, mode="first-crossing", criterion=criterion)
            _, spends, state = play(part, 2, std=std)
            assert state.crossed == crossed
            assert bool(spends[1][0].std.any()) == (crossed is None)

    def test_the_channel_counts_only_where_it_takes_over(self):
        """Two rounds of artificial noise alone, then two of the channel's, device by device."""
        part = NoiseSwitch(noise=self.inner, mode="planned", until_round=2)
        std = self.required * np.linspace(0.5, 2, K)
        _, spends, state = play(part, 4, std=std)
        book = Ledger(K).add(chain.from_iterable(spends))
        (statement,) = book.list_statements()
        reach = 2 * N
        mu2 = 2 * (reach / spends[0][0].std) ** 2 + 2 * (reach / std) ** 2
        expected = [compute_gaussian_epsilon(1e-5, math.sqrt(m)) for m in mu2]
        assert_allclose(statement.with_channel, expected, rtol=1e-9)
        assert part.collect_figures(state)["switch_round"] == 2.0

    def test_the_realised_switch_is_the_last_round_with_noise(self):
        part = NoiseSwitch(noise=self.inner, mode="first-crossing")
        _, _, state = play(part, 3)
        assert part.collect_figures(state)["switch_round"] == 3.0
        _, _, state = play(part, 2, std=2 * self.required, state=state)
        assert part.collect_figures(state)["switch_round"] == 3.0
        assert state.crossed == 4

    # -- other devices' signals disturb the sum; whoever decodes them subtracts them, so they hide
    # nobody

    @parametrize("std", [0.0, 0.6])
    def test_top_up_makes_up_for_what_thermal_noise_lacks(self, std):
        part = NoiseSwitch(noise=self.inner)
        _, (spends,), state = play(part, 1, std=std * self.required, interference=5 * self.required)
        exact = part.noise.factor * 2 * N / 0.5
        expected = math.sqrt(exact**2 - (std * self.required) ** 2)
        assert_allclose(spends[0].std, expected)
        assert_allclose(spends[0].channel_std, std * self.required)
        statement = part.collect_figures(state)
        assert statement["enough_percent"] == 0
        assert statement["noise_channel_sum"] == approx(K * std * self.required)
        _, (spends,), state = play(part, 1, std=2 * self.required)
        assert not spends[0].std.any()
        assert part.collect_figures(state)["artificial_percent"] == 0

    @parametrize("criterion", ["aggregate", "per-device"])
    def test_the_switch_waits_for_thermal_noise(self, criterion):
        part = NoiseSwitch(noise=self.inner, mode="first-crossing", criterion=criterion)
        _, _, state = play(part, 2, std=0.9 * self.required, interference=5 * self.required)
        assert state.crossed is None
        _, _, state = play(part, 2, std=1.1 * self.required, interference=0.0)
        assert state.crossed == 1

    @parametrize("noise", [inner, {"kind": "gaussian", "noise_multiplier": 2.0}])
    def test_accounts_do_not_hang_on_who_else_sends(self, noise):
        part = Gaussian(**noise) if noise["kind"] == "gaussian" else UniformDp(**noise)
        statements = []
        for interference in (0.0, 50.0):
            context = build_context(channel=channel(3.0, K, interference))
            _, _, spends = part.protect(build_clipped(), EMPTY, context, part.start(K), RNG)
            (statement,) = Ledger(K).add(spends).list_statements()
            statements.append((statement.epsilon, statement.with_channel))
        np.testing.assert_array_equal(statements[0], statements[1])
        assert (statements[0][1] < statements[0][0]).all()

    def test_the_channel_adds_to_no_noise_that_a_later_step_changes(self):
        """A clip cuts noise down along the update, so its variance and that of the channel are not
        those of one sum."""
        switch = {"kind": "noise-switch", "noise": self.inner}
        for again in ({"kind": "clip", "name": "again"}, {"kind": "quantise", "bits": 4}):
            with raises(ValidationError, match=r"defenses\[2\].*put it before noise-switch"):
                learn_behind({"kind": "clip"}, switch, again)
        gaussian = {"kind": "gaussian", "noise_multiplier": 1.0}
        parts = {"kind": "clip"}, gaussian, {"kind": "clip", "name": "again"}
        context = build_context(channel=channel(3.0, K))
        streams = RoundStreams(Streams(7), 1)
        for n, counted in ((2, 3.0), (3, 0.0)):
            learning = learn_behind(*parts[:n])
            states = {part.word: part.start(K) for part in learning.defenses}
            args = learning, build_clipped(), EMPTY, context, states, streams
            _, (spend,) = protect_updates(*args)
            assert np.all(spend.channel_std == counted)

    def test_central_noise_counts_no_channel(self):
        """Whose receiver gets single updates, before that noise is drawn."""
        part = CentralGaussian(noise_multiplier=1.0)
        context = build_context(channel=channel(3.0, K, interference=50.0), weight=1 / K)
        _, state, _ = part.protect(build_clipped(), EMPTY, context, part.start(0), None)
        _, _, (spend,) = part.finish(np.zeros((1, D)), K, context, state, RNG)
        assert spend.channel_std == 0.0

    @parametrize("wrapped", [False, True])
    def test_the_sum_suffers_both(self, wrapped):
        """What `debias` takes off is all that disturbed the sum."""
        noise = {"kind": "lapa", "epsilon_system_total": 75.0, "rounds": 10, "error": "debias"}
        part = NoiseSwitch(noise=noise) if wrapped else Lapa(**noise)
        _, spends, state = play(part, 1, std=3.0, interference=4.0)
        inner = state.noise if wrapped else state
        expected = spends[0][0].std ** 2 + 5.0**2
        assert_allclose(inner.drawn_var, expected)


class TestLapaReads:
    """What LAPA keeps of the sums and rows that were published, against slow formulas."""

    def build_received(self, ue, seed, decoded=True):
        values = default_rng(seed).normal(size=(len(ue), D))
        return Received(build_updates(values, ue), np.broadcast_to(decoded, len(ue)))

    def test_angles_are_means_over_the_rounds_that_a_device_was_heard_in(self):
        part = Lapa(epsilon_system_total=60.0)
        state = replace(part.start(4), scale=2.0, drawn_var=np.zeros(4))
        heard = [[], [], []]
        sent_and_lost = ("012", ""), ("012", "1"), ("12", ""), ("02", "")
        for t, (sent, lost) in enumerate(sent_and_lost, 1):
            ue = np.array(list(sent), int)
            decoded = ~np.isin(list(sent), list(lost))
            got = self.build_received(ue, t, decoded)
            weights = decoded / decoded.sum() * np.linspace(1, 2, len(ue))
            before = replace(state, drawn_var=np.zeros(len(ue)))
            state = part.observe(got, weights, build_context(), before)
            rows = got.updates.rows(slice(None))
            total = weights @ rows
            cosines = rows @ total / np.linalg.norm(rows, axis=1) / np.linalg.norm(total)
            for k, cosine in zip(ue[decoded], cosines[decoded], strict=True):
                heard[k].append(math.acos(cosine))
        theta = state.rule.theta[:3]
        assert_allclose(theta, [np.mean(angles) for angles in heard], rtol=1e-12)
        assert state.rule.rounds.tolist() == [3, 2, 4, 0]
        # a stranger is average
        part_of = compute_angle_exponent(np.append(theta, theta.mean()), part.beta)
        state = replace(state, rule=replace(state.rule, sums=state.rule.sums[-1:]))
        epsilon, _ = part.allot_epsilon(state, 10.0, 10.0, 1, None)
        expected = part_of / part_of.sum() * 10.0 * math.exp(-part.error_max)
        assert_allclose(epsilon, expected)

    def test_debias_takes_the_noise_of_both_sums_off(self):
        """floor = q sum_k G_k^2 (sigma_k^2 + sigma_ch,k^2), in units of the clip norm."""
        part = Lapa(
            epsilon_system_total=60.0, error="debias", gain_last=1.0, gain_mean=0.5, error_max=50.0
        )
        state = part.start(3)
        sums = []
        floors = []
        scale = 4.0
        for t in (1, 2):
            got = self.build_received([0, 1, 2], t)
            weights = np.array([0.2, 0.3, 0.5])
            variance = 0.01 * np.array([1.0, 2.0, 3.0]) * t
            state = replace(state, scale=scale, drawn_var=variance)
            state = part.observe(got, weights, RoundContext(t, 0.0, PUBLIC), state)
            sums.append(weights @ got.updates.rows(slice(None)) / scale)
            floors.append(D * (weights**2 * variance).sum() / scale**2)
        assert_allclose([h.floor for h in state.rule.sums], floors, rtol=1e-12)
        away = math.sqrt(((sums[1] - sums[0]) ** 2).sum() - floors[0] - floors[1])
        _, after = part.allot_epsilon(state, 10.0, 10.0, 1, Streams(0).derive_rng("x", 1))
        assert after.error == approx(1.5 * away, rel=1e-12)


class TestPromise:
    """What holds whatever the rounds show: fixed before the first of them."""

    @settings(max_examples=30, deadline=None)
    @given(
        st.sampled_from([Lapa, Arb, UniformDp]),
        st.floats(1, 3000),
        st.floats(0.2, 20),
        st.integers(1, 20),
    )
    def test_no_device_passes_its_own_total(self, kind, total, limit, rounds):
        part = kind(epsilon_system_total=total, rounds=rounds, epsilon_device_total=limit)
        epsilons, _, state = play(part, rounds + 2)
        spent = ((epsilons / part.factor) ** 2).sum(axis=0)
        promised = part.compute_promised_epsilon(total) * (1 + 1e-9)
        worst = spent.max()
        assert worst == 0 or compute_gaussian_epsilon(1e-5, math.sqrt(worst)) <= promised
        assert promised <= limit * (1 + 1e-8)
        assert_allclose(state.mu2, spent)

    def test_the_caps_promise_too(self):
        """At most T rounds of the cap, or a budget that is gone after total / cap of them."""
        part = UniformDp(epsilon_system_total=1500.0, rounds=100)
        promised = [part.compute_promised_epsilon(total) for total in (1500.0, 9.0)]
        mu = 10 / part.factor, 3 / part.factor
        assert promised == approx([compute_gaussian_epsilon(1e-5, m) for m in mu])
        epsilons, _, state = play(part, 100)
        assert part.collect_figures(state)["epsilon_promised"] == approx(promised[0])
        assert (epsilons == 1.0).all()  # the promise is reached

    def test_an_even_share_of_the_total_is_the_uniform_budget(self):
        """0.4 in each of 100 rounds: a device total of just that changes nothing; half of its mu
        cuts to half."""
        mu = 10 * 0.4 / UniformDp(epsilon_system_total=1.0).factor
        for share in (1.0, 0.5):
            limit = compute_gaussian_epsilon(1e-5, share * mu)
            part = UniformDp(epsilon_system_total=0.4 * 1500, epsilon_device_total=limit)
            assert_allclose(play(part, 100)[0], 0.4 * share, rtol=1e-6)

    @parametrize("mode", ["planned", "first-crossing"])
    @parametrize("kind", ["lapa", "arb", "uniform-dp"])
    def test_a_switch_that_ends_artificial_noise_promises_nothing(self, kind, mode):
        inner = {"kind": kind, "epsilon_system_total": 60.0, "rounds": 4}
        part = NoiseSwitch(noise=inner, mode=mode, until_round=1 if mode == "planned" else None)
        for rounds in (1, 4):
            _, spends, state = play(part, rounds, std=1e6)
            assert not [name for name in part.collect_figures(state) if "promised" in name]
        (statement,) = Ledger(K).add(chain.from_iterable(spends)).list_statements()
        assert np.isinf(statement.epsilon).all()

    @parametrize("kind", ["lapa", "arb", "uniform-dp"])
    def test_a_top_up_promises_with_its_receiver_only(self, kind):
        """With the receiver's noise no device passes it; without that noise the account does."""
        inner = {"kind": kind, "epsilon_system_total": 60.0, "rounds": 6, "epsilon_cap": 2.0}
        part = NoiseSwitch(noise=inner)
        _, spends, state = play(part, 6, std=np.linspace(0.3, 3.0, K) * 30.0)
        result = part.collect_figures(state)
        assert "epsilon_promised" not in result
        (statement,) = Ledger(K).add(chain.from_iterable(spends)).list_statements()
        assert statement.with_channel.max() <= result["epsilon_promised_with_channel"] * (1 + 1e-9)
        assert statement.epsilon.max() > result["epsilon_promised_with_channel"]


# -- devices with several rows

D_ROWS = 12
ROWS = Streams(5).derive_rng("defense.x", 1)


def build_rows(ue, model):
    """Updates within the bound N, one row each (UE, model)."""
    ue, values = np.asarray(ue), default_rng(1).normal(size=(len(ue), D_ROWS))
    values *= N / np.linalg.norm(values, axis=1, keepdims=True)
    return DenseUpdates(ue, np.asarray(model), np.full(len(ue), 10.0), values, bound=Bound(N))


def facts(n_model, noise_std):
    return build_context(Public(PUBLIC.area, n_model), channel=channel(noise_std, len(noise_std)))


class TestRowsOfOneDevice:
    ue = [0, 0, 0, 1, 2, 2]
    model = [0, 1, 2, 0, 0, 1]

    @parametrize("kind", [UniformDp, Lapa])
    def test_share_its_epsilon(self, kind):
        """Three rows have a third each: noise three times as large, and no more of the budget gone;
        mu^2 of a device with n rows is n (epsilon / (n c))^2, a third of that of one row, for
        three."""
        part = kind(epsilon_system_total=6.0, rounds=10)
        updates = build_rows(self.ue, self.model)
        context = facts(3, np.zeros(6))
        start = part.start(3)
        _, state, spends = part.protect(updates, EMPTY, context, start, ROWS)
        share = part.compute_first_share() * 6.0 / 10 / 3
        std = part.factor * 2 * N / share * np.array([3, 3, 3, 1, 2, 2])
        assert_allclose(spends[0].std, std, rtol=1e-12)
        assert state.epsilon_spent == approx(3 * share, rel=1e-12)
        mu2 = (share / part.factor) ** 2 / np.array([3, 1, 2])
        (statement,) = Ledger(3).add(spends).list_statements()
        expected = [compute_gaussian_epsilon(1e-5, math.sqrt(m)) for m in mu2]
        assert_allclose(statement.epsilon, expected, rtol=1e-9)
        assert_allclose(state.mu2, mu2, rtol=1e-12)


class TestKnownNoise:
    """What LAPA takes off a change of the sum: the variance of all that was added on the way, drawn
    and received."""

    def test_is_the_channels_alone_where_a_device_is_silent(self):
        part = Lapa(epsilon_system_total=6.0, rounds=1)
        radio = np.array([2.0, 3.0])
        updates = build_rows([0, 1], [0, 0])
        context = facts(1, radio)
        _, state, _ = part.protect(updates, EMPTY, context, part.start(2), ROWS)
        sent, state, (spend,) = part.protect(updates, EMPTY, context, state, ROWS)
        assert not sent.values.any()
        assert not len(spend.ue)
        assert_allclose(state.drawn_var, radio**2, rtol=1e-12)

    def test_stands_in_the_floor_by_squared_weights(self):
        """d sum_k w_k^2 (sigma_k^2 + sigma_ch,k^2), in units of the clip norm: its mean over draws
        of the noise."""
        part = Lapa(epsilon_system_total=600.0, rounds=10)
        radio = np.array([1.0, 9.0])
        weights = np.array([0.3, 0.7])
        updates = build_rows([0, 1], [0, 0])
        context = facts(1, radio)
        sent, state, (spend,) = part.protect(updates, EMPTY, context, part.start(2), ROWS)
        after = part.observe(Received(sent, np.ones(2, bool)), weights, context, state)
        by_hand = D_ROWS * (weights**2 * (spend.std**2 + radio**2)).sum() / N**2
        assert after.rule.sums[-1].floor == approx(by_hand, rel=1e-12)
        clean = weights @ updates.values
        losses = []
        for draw in range(400):
            at_draw = Streams(5).derive_rng("defense.x", draw)
            noisy = part.protect(updates, EMPTY, context, part.start(2), at_draw)[0].values
            noisy = noisy + radio[:, None] * at_draw.normal("decoder", np.arange(2), (D_ROWS,))
            losses.append(((weights @ noisy - clean) ** 2).sum() / N**2)
        assert np.mean(losses) == approx(by_hand, rel=0.08)
