"""Budgets of epsilon over rounds and devices: their laws, their total, and what the ledger makes of
them."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fl.aggregation import by_angle
from fl.defenses.budgeted import PRINTED, Arb, UniformDp
from fl.defenses.clip import Clip
from fl.defenses.gaussian import CentralGaussian, Gaussian
from fl.defenses.lapa import Lapa, NoiseSwitch
from fl.privacy.gaussian import epsilon_of
from fl.privacy.ledger import Ledger
from fl.round.learn import protected
from fl.round.learning import Learning
from fl.round.setup import RoundStreams
from fl.types import Bound, DenseUpdates, Local, Public, Received, RoundContext
from netsim import compiled
from netsim.geometry import Area
from netsim.radio.uplink import Channel
from netsim.rng import Streams

K = 15
D = 40
N = 2.0
PUBLIC = Public(Area(0.0, 0.0, 1.0, 1.0), 1)


def channel(std, n, interference=0.0):
    """Thermal noise of std (n,), and besides it what other UEs' signals leave: interference
    (n,)."""
    one = np.ones(n)
    yes = np.ones(n, bool)
    thermal = np.broadcast_to(np.asarray(std, float), n).copy()
    return Channel(
        power_w=one,
        sinr=one,
        noise_std=np.hypot(thermal, interference),
        thermal_std=thermal,
        rate_bps=one,
        airtime_s=one,
        delay_s=one,
        energy_j=one,
        decoded=yes,
        late=~yes,
    )


def clipped(ue=range(K), seed=0, samples=96, size=1.0):
    ue = np.asarray(list(ue))
    values = np.random.default_rng(seed).normal(size=(len(ue), D)) * size
    made = DenseUpdates(ue, np.zeros(len(ue), int), np.full(len(ue), float(samples)), values)
    local = Local(
        ue, 0 * ue, np.zeros(len(ue) + 1, int), np.zeros((0, 2)), np.zeros(0), np.zeros(0)
    )
    return Clip(norm=N).protect(
        made, local, RoundContext(1, 0.0, PUBLIC), Clip(norm=N).start(0), None
    )[0], local


def play(part, rounds, ue=range(K), std=0.0, learn=True, state=None, interference=0.0):
    """Epsilon of each device and round (rounds, K), all spends, and the last state."""
    state = part.start(K) if state is None else state
    every = []
    spends = []
    inner = part.noise if isinstance(part, NoiseSwitch) else part
    for t in range(1, rounds + 1):
        updates, local = clipped(ue, seed=t)
        facts = RoundContext(t, 0.0, PUBLIC, channel=channel(std, len(updates.ue), interference))
        rng = Streams(7).at("defense.x", t)
        before = state.noise if isinstance(part, NoiseSwitch) else state
        asked, _ = inner.noise(updates, facts, before, rng)
        sent, state, spent = part.protect(updates, local, facts, state, rng)
        row = np.zeros(K)
        epsilon = inner.factor * asked.claimed / np.where(asked.silent, np.inf, asked.std)
        row[updates.ue] = epsilon
        every.append(row)
        spends.append(spent)
        if learn:
            received = Received(sent, np.ones(len(updates.ue), bool))
            state = part.observe(
                received, np.full(len(updates.ue), 1 / len(updates.ue)), facts, state
            )
    return np.array(every), spends, state


class TestLaws:
    @pytest.mark.parametrize(
        "e, shares, spent",
        [
            (0.1, (0.905, 0.965, 1.12, 1.47), 99.8),
            (0.5, (0.61, 0.79, 1.46, 4.18), 97.3),
            (1.0, (0.37, 0.56, 1.50, 7.52), 87.1),
            (3.0, (0.05, 0.09, 0.41, 4.04), 22.9),
        ],
    )
    def test_budgets_under_a_constant_error(self, e, shares, spent):
        """epsilon[t] = exp(-e) left / rounds left: share of the uniform budget in rounds 1, 50, 90,
        100."""
        part = Lapa(epsilon_system_total=100.0 * K, rounds=100, error_max=e, epsilon_cap=1e6)
        every, _, _ = play(part, 100, learn=False)
        system = every.sum(axis=1) / K
        for t, share in zip((1, 50, 90, 100), shares, strict=True):
            assert system[t - 1] == pytest.approx(share, abs=0.011)
        assert 100 * every.sum() / (100 * K) == pytest.approx(spent, abs=0.1)

    def test_noise_has_the_deviation_it_was_set_for(self):
        part = UniformDp(epsilon_system_total=0.5 * 10 * K, rounds=10)
        (updates, local) = clipped()
        given = updates, local, RoundContext(1, 0.0, PUBLIC), part.start(K), Streams(1).at("x", 1)
        sent, _, (spend,) = part.protect(*given)
        expected = part.factor * 2 * N / 0.5
        assert spend.std == pytest.approx(expected)
        assert (spend.sensitivity == 2 * N).all()
        drawn = sent.rows(slice(None)) - updates.rows(slice(None))
        assert drawn.std() == pytest.approx(expected, rel=0.1)

    def test_initial_noise_stands_for_a_total(self):
        for kind, share in ((UniformDp, 1.0), (Arb, 0.6), (Lapa, math.exp(-1.0))):
            part = kind(initial_noise_std=30.0, rounds=10, epsilon_cap=1e6)
            _, spends, state = play(part, 1)
            assert spends[0][0].std == pytest.approx(30.0)
            assert state.total == pytest.approx(part.factor * 2 * N / 30.0 * 10 * K / share)


class TestFirstNoise:
    """`initial_noise_std` is the noise of the first round in which a UE sends, mean over those that
    send in it."""

    ue = [1, 1, 1, 4, 9, 9]
    model = [0, 1, 2, 0, 0, 1]
    samples = np.array([96.0, 96, 96, 3, 50, 50])
    none = DenseUpdates(
        np.zeros(0, int), np.zeros(0, int), np.zeros(0), np.zeros((0, 3)), bound=Bound(N)
    )

    @pytest.mark.parametrize("sensitivity", ["update", "mean-clip", "paper"])
    @pytest.mark.parametrize("kind", ["uniform-dp", "arb", "lapa"])
    @pytest.mark.parametrize("before", [0, 1, 6])
    def test_follows_the_first_rows_however_late(self, kind, sensitivity, before):
        """Rounds without a row fix no budget; afterwards few UEs, unlike samples and several models
        change no mean."""
        noise = {
            "kind": kind,
            "initial_noise_std": 0.006,
            "rounds": 8,
            "epsilon_cap": 1e6,
            "sensitivity": sensitivity,
        }
        part = NoiseSwitch(noise=noise)
        at = facts(3, np.zeros(0))
        state = part.start(K)
        for _ in range(before):
            _, state, (spend, *_) = part.protect(self.none, EMPTY, at, state, ROWS)
            said = part.figures(state)
            assert not len(spend.std)
            assert "budget_total" not in said
            assert part.standing(state).budget_left == 1.0
        rows = replace(made(self.ue, self.model), count=self.samples)
        _, state, (spend, *_) = part.protect(rows, EMPTY, facts(3, np.full(6, 1e-4)), state, ROWS)
        asked = state.noise.standing.row_required_std
        assert np.mean([asked[:3].mean(), asked[3], asked[4:].mean()]) == pytest.approx(
            0.006, rel=1e-12
        )
        np.testing.assert_allclose(np.hypot(spend.std, 1e-4), asked, rtol=1e-9)
        total = part.figures(state)["budget_total"]
        for t in range(before + 2, 12):
            _, state, _ = part.protect(
                clipped(seed=t)[0], EMPTY, facts(1, np.zeros(K)), state, ROWS
            )
        said = part.figures(state)
        assert said["budget_total"] == total
        assert -1e-9 * total <= said["budget_left"]
        promised = said["epsilon_promised_with_channel"]
        assert epsilon_of(1e-5, math.sqrt(state.noise.mu2.max())) <= promised * (1 + 1e-9)

    def test_rows_after_the_planned_rounds_are_silent(self):
        part = Lapa(initial_noise_std=1.0, rounds=1)
        state = part.protect(self.none, EMPTY, facts(1, np.zeros(0)), part.start(K), ROWS)[1]
        sent, state, (spend,) = part.protect(
            made([0, 1], [0, 0]), EMPTY, facts(1, np.zeros(2)), state, ROWS
        )
        assert not sent.values.any()
        assert not len(spend.ue)
        assert state.total is None

    @pytest.mark.parametrize(
        "limit", [{"epsilon_cap": 0.5}, {"epsilon_cap": 1e6, "epsilon_device_total": 0.5}]
    )
    def test_more_noise_by_a_limit_on_epsilon_is_said(self, limit, monkeypatch):
        lines = []
        monkeypatch.setattr(compiled, "tell", lines.append)
        part = UniformDp(initial_noise_std=30.0, rounds=10, **limit)
        _, spends, _ = play(part, 2)
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
    def test_never_exceeded(self, error, total, most, gain, rounds):
        for part in (
            Lapa(
                epsilon_system_total=total,
                rounds=rounds,
                error=error,
                error_max=most,
                gain_last=gain,
                gain_mean=gain,
            ),
            Arb(epsilon_system_total=total, rounds=rounds),
            UniformDp(epsilon_system_total=total, rounds=rounds),
        ):
            every, _, _ = play(part, rounds + 3)
            assert every.sum() <= total * (1 + 1e-9)
            assert every.max() <= part.epsilon_cap
            assert (every >= 0).all()
            assert np.isfinite(every).all()
            assert not every[rounds:].any()

    def test_who_is_away_spends_nothing(self):
        part = Lapa(epsilon_system_total=60.0, rounds=20)
        every, _, state = play(part, 5, ue=range(0, K, 2))
        assert not every[:, 1::2].any()
        assert every[:, ::2].all()
        back, _, _ = play(part, 3, state=state)
        assert np.isfinite(back).all()
        assert back.all()


class TestClaims:
    def test_the_true_account_stands_beside_the_printed_one(self):
        part = UniformDp(epsilon_system_total=0.4 * 10 * K, rounds=10, sensitivity="mean-clip")
        _, spends, _ = play(part, 10)
        state = Ledger(K)
        for round_ in spends:
            state = state.add(round_)
        printed, true = (
            next(s for s in state.statements() if s.unit == u) for u in (PRINTED, "user")
        )
        assert printed.epsilon.max() == pytest.approx(
            epsilon_of(1e-5, 0.4 / part.factor * math.sqrt(10)), rel=1e-9
        )
        assert (
            true.epsilon.min() > 50 * printed.epsilon.max()
        )  # 96 samples hide behind one another on paper only

    def test_as_printed_the_noise_shrinks_with_the_step_size(self):
        for kind in ("mean-clip", "paper"):
            part = UniformDp(
                epsilon_system_total=60.0, rounds=10, sensitivity=kind, paper_learning_rate=0.05
            )
            claimed = part.claimed(clipped()[0].bound, np.array([96.0]))[0]
            assert claimed == pytest.approx(2 * N / 96 * (0.05 if kind == "paper" else 1.0))

    def test_one_step_of_a_record_needs_a_bound_on_records(self):
        noise = {"kind": "lapa", "epsilon_system_total": 60.0, "sensitivity": "record-one-step"}
        clip = {"kind": "clip", "norm": 1.0}
        with pytest.raises(ValidationError, match="record bound"):
            Learning(round_s=1.0, learner={"kind": "rsrp-net"}, defenses=(clip, noise))
        learner = {"kind": "rsrp-net", "sample_clip": 1.0}
        assert Learning(round_s=1.0, learner=learner, defenses=(noise,)).defenses[0].needs

    @pytest.mark.parametrize("more", [{}, {"epsilon_system_total": 1.0, "initial_noise_std": 1.0}])
    def test_one_budget(self, more):
        with pytest.raises(ValidationError, match="exactly one of"):
            UniformDp(**more)


class TestSwitch:
    inner = {"kind": "uniform-dp", "epsilon_system_total": 0.5 * 10 * K, "rounds": 10}
    asked = 4.845 * 2 * N / 0.5

    def test_a_device_that_does_not_send_keeps_what_was_drawn_for_it(self):
        """The second round has half of the devices; enough of the receiver's noise stood on the
        others in the first."""
        part = NoiseSwitch(noise=self.inner)
        std = np.where(np.arange(K) < 7, 0.6, 2.0) * self.asked
        _, _, state = play(part, 1, std=std)
        assert state.noise.standing.drawn_std[:7].all()
        assert not state.noise.standing.drawn_std[7:].any()
        _, _, after = play(part, 1, ue=range(4), std=2 * self.asked, state=state)
        assert not after.noise.standing.drawn_std[:4].any()
        np.testing.assert_array_equal(
            after.noise.standing.drawn_std[4:], state.noise.standing.drawn_std[4:]
        )

    def test_first_crossing_by_either_criterion(self):
        """One device with a bad channel meets the sum for everybody, and not the demand on each."""
        std = np.full(K, 0.1)
        std[3] = 2 * K * self.asked
        for criterion, crossed in (("aggregate", 1), ("per-device", None)):
            part = NoiseSwitch(noise=self.inner, mode="first-crossing", criterion=criterion)
            _, spends, state = play(part, 2, std=std)
            assert state.crossed == crossed
            assert bool(spends[1][0].std.any()) == (crossed is None)

    def test_the_channel_counts_only_where_it_takes_over(self):
        """Two rounds of artificial noise alone, then two of the channel's, device by device."""
        part = NoiseSwitch(noise=self.inner, mode="planned", until_round=2)
        std = self.asked * np.linspace(0.5, 2, K)
        _, spends, state = play(part, 4, std=std)
        book = Ledger(K).add([s for r in spends for s in r])
        (said,) = book.statements()
        reach = 2 * N
        mu2 = 2 * (reach / spends[0][0].std) ** 2 + 2 * (reach / std) ** 2
        np.testing.assert_allclose(
            said.with_channel, [epsilon_of(1e-5, math.sqrt(m)) for m in mu2], rtol=1e-9
        )
        assert part.figures(state)["switch_round"] == 2.0

    def test_the_realised_switch_is_the_last_round_with_noise(self):
        part = NoiseSwitch(noise=self.inner, mode="first-crossing")
        _, _, state = play(part, 3)
        assert part.figures(state)["switch_round"] == 3.0
        _, _, state = play(part, 2, std=2 * self.asked, state=state)
        assert part.figures(state)["switch_round"] == 3.0
        assert state.crossed == 4

    # -- other devices' signals disturb the sum; whoever decodes them subtracts them, so they hide
    # nobody

    @pytest.mark.parametrize("std", [0.0, 0.6])
    def test_top_up_makes_up_for_what_thermal_noise_lacks(self, std):
        part = NoiseSwitch(noise=self.inner)
        _, (spends,), state = play(part, 1, std=std * self.asked, interference=5 * self.asked)
        exact = part.noise.factor * 2 * N / 0.5
        np.testing.assert_allclose(spends[0].std, math.sqrt(exact**2 - (std * self.asked) ** 2))
        np.testing.assert_allclose(spends[0].channel_std, std * self.asked)
        said = part.figures(state)
        assert said["enough_percent"] == 0
        assert said["noise_channel_sum"] == pytest.approx(K * std * self.asked)
        _, (spends,), state = play(part, 1, std=2 * self.asked)
        assert not spends[0].std.any()
        assert part.figures(state)["artificial_percent"] == 0

    @pytest.mark.parametrize("criterion", ["aggregate", "per-device"])
    def test_the_switch_waits_for_thermal_noise(self, criterion):
        part = NoiseSwitch(noise=self.inner, mode="first-crossing", criterion=criterion)
        _, _, state = play(part, 2, std=0.9 * self.asked, interference=5 * self.asked)
        assert state.crossed is None
        _, _, state = play(part, 2, std=1.1 * self.asked, interference=0.0)
        assert state.crossed == 1

    @pytest.mark.parametrize("noise", [inner, {"kind": "gaussian", "noise_multiplier": 2.0}])
    def test_accounts_do_not_hang_on_who_else_sends(self, noise):
        part = Gaussian(**noise) if noise["kind"] == "gaussian" else UniformDp(**noise)
        said = []
        for interference in (0.0, 50.0):
            updates, local = clipped()
            facts = RoundContext(1, 0.0, PUBLIC, channel=channel(3.0, K, interference))
            _, _, spends = part.protect(
                updates, local, facts, part.start(K), Streams(7).at("defense.x", 1)
            )
            (statement,) = Ledger(K).add(spends).statements()
            said.append((statement.epsilon, statement.with_channel))
        np.testing.assert_array_equal(said[0], said[1])
        assert (said[0][1] < said[0][0]).all()

    def test_the_channel_adds_to_no_noise_that_a_later_step_changes(self):
        """A clip cuts noise down along the update, so its variance and that of the channel are not
        those of one sum."""
        switch = {"kind": "noise-switch", "noise": self.inner}
        for again in ({"kind": "clip", "name": "again"}, {"kind": "quantise", "bits": 4}):
            with pytest.raises(ValidationError, match=r"defenses\[2\].*put it before noise-switch"):
                Learning(
                    round_s=1.0,
                    learner={"kind": "rsrp-net"},
                    defenses=({"kind": "clip"}, switch, again),
                )
        own = {"kind": "gaussian", "noise_multiplier": 1.0}
        chain = ({"kind": "clip"}, own, {"kind": "clip", "name": "again"})
        learning = Learning(round_s=1.0, learner={"kind": "rsrp-net"}, defenses=chain)
        made, local = clipped()
        at = RoundContext(1, 0.0, PUBLIC, channel=channel(3.0, K))
        for chain, counted in ((learning.defenses[:2], 3.0), (learning.defenses, 0.0)):
            part = learning.model_copy(update={"defenses": chain})
            states = {each.word: each.start(K) for each in chain}
            _, (spend,) = protected(part, made, local, at, states, RoundStreams(Streams(7), 1))
            assert np.all(spend.channel_std == counted)

    def test_central_noise_counts_no_channel(self):
        """Whose receiver gets single updates, before that noise is drawn."""
        part = CentralGaussian(noise_multiplier=1.0)
        (updates, local) = clipped()
        facts = RoundContext(
            1, 0.0, PUBLIC, channel=channel(3.0, K, interference=50.0), weight=1 / K
        )
        _, state, _ = part.protect(updates, local, facts, part.start(0), None)
        _, _, (spend,) = part.finish(
            np.zeros((1, D)), K, facts, state, Streams(7).at("defense.x", 1)
        )
        assert spend.channel_std == 0.0

    @pytest.mark.parametrize("wrapped", [False, True])
    def test_the_sum_suffers_both(self, wrapped):
        """What `debias` takes off is all that disturbed the sum."""
        noise = {"kind": "lapa", "epsilon_system_total": 75.0, "rounds": 10, "error": "debias"}
        part = NoiseSwitch(noise=noise) if wrapped else Lapa(**noise)
        _, spends, state = play(part, 1, std=3.0, interference=4.0)
        inner = state.noise if wrapped else state
        np.testing.assert_allclose(inner.drawn_var, spends[0][0].std ** 2 + 5.0**2)


class TestLapaReads:
    """What LAPA keeps of the sums and rows that were published, against slow formulas."""

    def received(self, ue, seed, decoded=None):
        g = np.random.default_rng(seed)
        updates = DenseUpdates(
            np.array(ue), np.zeros(len(ue), int), np.ones(len(ue)), g.normal(size=(len(ue), D))
        )
        return Received(updates, np.ones(len(ue), bool) if decoded is None else np.array(decoded))

    def test_angles_are_means_over_the_rounds_that_a_device_was_heard_in(self):
        part = Lapa(epsilon_system_total=60.0)
        state = replace(part.start(4), scale=2.0, drawn_var=np.zeros(4))
        heard: dict[int, list[float]] = {k: [] for k in range(4)}
        facts = RoundContext(1, 0.0, PUBLIC)
        for t, (ue, decoded) in enumerate(
            [([0, 1, 2], [1, 1, 1]), ([0, 1, 2], [1, 0, 1]), ([1, 2], [1, 1]), ([0, 2], [1, 1])], 1
        ):
            got = self.received(ue, t, np.array(decoded, bool))
            weights = np.array(decoded) / sum(decoded) * np.linspace(1, 2, len(ue))
            state = part.observe(got, weights, facts, replace(state, drawn_var=np.zeros(len(ue))))
            rows = got.updates.rows(slice(None))
            total = weights @ rows
            for row, k, yes in zip(rows, ue, decoded, strict=True):
                if yes:
                    cosine = row @ total / math.sqrt(row @ row) / math.sqrt(total @ total)
                    heard[k].append(math.acos(cosine))
        for k in range(3):
            assert state.rule.theta[k] == pytest.approx(np.mean(heard[k]), rel=1e-12)
        assert state.rule.rounds.tolist() == [3, 2, 4, 0] == [len(heard[k]) for k in range(4)]
        theta = state.rule.theta[:3]
        part_of = by_angle(np.append(theta, theta.mean()), part.beta)  # a stranger is average
        state = replace(state, rule=replace(state.rule, sums=state.rule.sums[-1:]))
        epsilon, _ = part.share(state, 10.0, 10.0, 1, None)
        np.testing.assert_allclose(
            epsilon, part_of / part_of.sum() * 10.0 * math.exp(-part.error_max)
        )

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
            got = self.received([0, 1, 2], t)
            weights = np.array([0.2, 0.3, 0.5])
            variance = 0.01 * np.array([1.0, 2.0, 3.0]) * t
            state = replace(state, scale=scale, drawn_var=variance)
            state = part.observe(got, weights, RoundContext(t, 0.0, PUBLIC), state)
            sums.append(weights @ got.updates.rows(slice(None)) / scale)
            floors.append(
                sum(D * w**2 * v / scale**2 for w, v in zip(weights, variance, strict=True))
            )
        np.testing.assert_allclose([h.floor for h in state.rule.sums], floors, rtol=1e-12)
        away = math.sqrt(((sums[1] - sums[0]) ** 2).sum() - floors[0] - floors[1])
        _, after = part.share(state, 10.0, 10.0, 1, Streams(0).at("x", 1))
        assert after.error == pytest.approx(1.5 * away, rel=1e-12)


class TestPromise:
    """What holds whatever the rounds show: fixed before the first of them."""

    @settings(max_examples=30, deadline=None)
    @given(
        st.sampled_from([Lapa, Arb, UniformDp]),
        st.floats(1, 3000),
        st.floats(0.2, 20),
        st.integers(1, 20),
    )
    def test_no_device_passes_its_own_total(self, kind, total, most, rounds):
        part = kind(epsilon_system_total=total, rounds=rounds, epsilon_device_total=most)
        every, _, state = play(part, rounds + 2)
        spent = ((every / part.factor) ** 2).sum(axis=0)
        found = [epsilon_of(1e-5, math.sqrt(s)) for s in np.unique(spent) if s > 0]
        assert max(found, default=0.0) <= part.promised(total) * (1 + 1e-9) <= most * (1 + 1e-8)
        np.testing.assert_allclose(state.mu2, spent)

    def test_the_caps_promise_too(self):
        """At most T rounds of the cap, or a budget that is gone after total / cap of them."""
        part = UniformDp(epsilon_system_total=1500.0, rounds=100)
        assert part.promised(1500.0) == pytest.approx(epsilon_of(1e-5, 10 / part.factor))
        assert part.promised(9.0) == pytest.approx(epsilon_of(1e-5, 3 / part.factor))
        every, _, state = play(part, 100)
        assert part.figures(state)["epsilon_promised"] == pytest.approx(part.promised(1500.0))
        assert (every == 1.0).all()  # the promise is reached

    def test_an_even_share_of_the_total_is_the_uniform_budget(self):
        """0.4 in each of 100 rounds: a device total of just that changes nothing; half of its mu
        cuts to half."""
        mu = 10 * 0.4 / UniformDp(epsilon_system_total=1.0).factor
        for share in (1.0, 0.5):
            part = UniformDp(
                epsilon_system_total=0.4 * 1500, epsilon_device_total=epsilon_of(1e-5, share * mu)
            )
            np.testing.assert_allclose(play(part, 100)[0], 0.4 * share, rtol=1e-6)

    @pytest.mark.parametrize("mode", ["planned", "first-crossing"])
    @pytest.mark.parametrize("kind", ["lapa", "arb", "uniform-dp"])
    def test_a_switch_that_ends_artificial_noise_promises_nothing(self, kind, mode):
        inner = {"kind": kind, "epsilon_system_total": 60.0, "rounds": 4}
        part = NoiseSwitch(noise=inner, mode=mode, until_round=1 if mode == "planned" else None)
        for rounds in (1, 4):
            _, spends, state = play(part, rounds, std=1e6)
            assert not [name for name in part.figures(state) if "promised" in name]
        (said,) = Ledger(K).add([s for r in spends for s in r]).statements()
        assert np.isinf(said.epsilon).all()

    @pytest.mark.parametrize("kind", ["lapa", "arb", "uniform-dp"])
    def test_a_top_up_promises_with_its_receiver_only(self, kind):
        """With the receiver's noise no device passes it; without that noise the account does."""
        inner = {"kind": kind, "epsilon_system_total": 60.0, "rounds": 6, "epsilon_cap": 2.0}
        part = NoiseSwitch(noise=inner)
        _, spends, state = play(part, 6, std=np.linspace(0.3, 3.0, K) * 30.0)
        found = part.figures(state)
        assert "epsilon_promised" not in found
        (said,) = Ledger(K).add([s for r in spends for s in r]).statements()
        assert said.with_channel.max() <= found["epsilon_promised_with_channel"] * (1 + 1e-9)
        assert said.epsilon.max() > found["epsilon_promised_with_channel"]


# -- devices with several rows

D_ROWS = 12
ROWS = Streams(5).at("defense.x", 1)
EMPTY = Local(
    np.zeros(0, int), np.zeros(0, int), np.zeros(1, int), np.zeros((0, 2)), np.zeros(0), np.zeros(0)
)


def made(ue, model):
    """Updates within the bound N, one row each (UE, model)."""
    ue, values = np.asarray(ue), np.random.default_rng(1).normal(size=(len(ue), D_ROWS))
    values *= N / np.linalg.norm(values, axis=1, keepdims=True)
    return DenseUpdates(ue, np.asarray(model), np.full(len(ue), 10.0), values, bound=Bound(N))


def facts(n_model, noise_std):
    return RoundContext(
        1, 0.0, Public(PUBLIC.area, n_model), channel=channel(noise_std, len(noise_std))
    )


class TestRowsOfOneDevice:
    ue = [0, 0, 0, 1, 2, 2]
    model = [0, 1, 2, 0, 0, 1]

    @pytest.mark.parametrize("kind", [UniformDp, Lapa])
    def test_share_its_epsilon(self, kind):
        """Three rows have a third each: noise three times as large, and no more of the budget gone;
        mu^2 of a device with n rows is n (epsilon / (n c))^2, a third of that of one row, for
        three."""
        part = kind(epsilon_system_total=6.0, rounds=10)
        _, state, spends = part.protect(
            made(self.ue, self.model), EMPTY, facts(3, np.zeros(6)), part.start(3), ROWS
        )
        each = part.first_share() * 6.0 / 10 / 3
        std = part.factor * 2 * N / each * np.array([3, 3, 3, 1, 2, 2])
        np.testing.assert_allclose(spends[0].std, std, rtol=1e-12)
        assert state.epsilon_spent == pytest.approx(3 * each, rel=1e-12)
        mu2 = (each / part.factor) ** 2 / np.array([3, 1, 2])
        (said,) = Ledger(3).add(spends).statements()
        np.testing.assert_allclose(
            said.epsilon, [epsilon_of(1e-5, math.sqrt(m)) for m in mu2], rtol=1e-9
        )
        np.testing.assert_allclose(state.mu2, mu2, rtol=1e-12)


class TestKnownNoise:
    """What LAPA takes off a change of the sum: the variance of all that was added on the way, drawn
    and received."""

    def test_is_the_channels_alone_where_a_device_is_silent(self):
        part = Lapa(epsilon_system_total=6.0, rounds=1)
        radio = np.array([2.0, 3.0])
        updates = made([0, 1], [0, 0])
        at = facts(1, radio)
        _, state, _ = part.protect(updates, EMPTY, at, part.start(2), ROWS)
        sent, state, (spend,) = part.protect(updates, EMPTY, at, state, ROWS)
        assert not sent.values.any()
        assert not len(spend.ue)
        np.testing.assert_allclose(state.drawn_var, radio**2, rtol=1e-12)

    def test_stands_in_the_floor_by_squared_weights(self):
        """d sum_k w_k^2 (sigma_k^2 + sigma_ch,k^2), in units of the clip norm: its mean over draws
        of the noise."""
        part = Lapa(epsilon_system_total=600.0, rounds=10)
        radio = np.array([1.0, 9.0])
        weights = np.array([0.3, 0.7])
        updates = made([0, 1], [0, 0])
        at = facts(1, radio)
        sent, state, (spend,) = part.protect(updates, EMPTY, at, part.start(2), ROWS)
        after = part.observe(Received(sent, np.ones(2, bool)), weights, at, state)
        by_hand = D_ROWS * (weights**2 * (spend.std**2 + radio**2)).sum() / N**2
        assert after.rule.sums[-1].floor == pytest.approx(by_hand, rel=1e-12)
        clean = (updates.values * weights[:, None]).sum(axis=0)
        gone = []
        for draw in range(400):
            at_draw = Streams(5).at("defense.x", draw)
            noisy = part.protect(updates, EMPTY, at, part.start(2), at_draw)[0].values
            noisy = noisy + radio[:, None] * at_draw.normal("decoder", np.arange(2), (D_ROWS,))
            gone.append((((noisy * weights[:, None]).sum(axis=0) - clean) ** 2).sum() / N**2)
        assert np.mean(gone) == pytest.approx(by_hand, rel=0.08)
