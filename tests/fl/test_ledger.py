"""What is spent together: mechanisms of one unit, sampled users, channel noise, budgets that end
learning."""

import re

import numpy as np
import pandas as pd
import pytest
from fl_values import read_changes
from pytest import approx, raises
from scipy.stats import norm

from fl.aggregation import Uniform
from fl.defenses.gaussian import CentralGaussian
from fl.privacy import rdp
from fl.privacy.compose import RoundKinds, compose_rounds
from fl.privacy.gaussian import compute_gaussian_epsilon
from fl.privacy.ledger import ALL, ALL_UES, Ledger, tabulate_account
from fl.round.learning import Learning
from fl.types import MetricSpend, Spend
from scenarios.app.result import run
from scenarios.app.results.folder import read_record_table
from scenarios.app.results.summary import complete_account
from scenarios.app.results.summary_keys import compute_measures
from scenarios.app.study.load import load

parametrize = pytest.mark.parametrize

CLIP = {"kind": "clip", "norm": 0.5, "relation": "add-remove"}
SMALL = {
    "world.duration_s": 200,
    "world.ues.count": 6,
    "learning.data.campaign_rounds": 5,
    "learning.aggregation.clients": 6,
    "learning.learner.batch_size": "all",
    "learning.references": {"central": False, "kriging_samples": 0},
}


def price(mu2, delta=1e-5):
    """Epsilon of Gaussian noise by the sum of its squared shares, sensitivity over std."""
    return compute_gaussian_epsilon(delta, np.sqrt(mu2))


def spend(
    ue=(-1,),
    z=1.0,
    mechanism="noise",
    q=1.0,
    relation="add-remove",
    delta=1e-5,
    channel=0.0,
    unit="user",
):
    ue = np.asarray(ue)
    ones = np.ones(len(ue))
    model = np.zeros(len(ue), int)
    std = float(z) * ones
    noise = float(channel) * ones
    return Spend(mechanism, ue, model, std, ones, unit, relation, delta, q, noise)


def state_user(state, mechanism="noise"):
    return next(s for s in state.list_statements() if s.mechanism == mechanism)


COLUMNS = re.findall(
    r"\w+", "mechanism ue std sensitivity unit sampling_rate relation delta channel_std"
)


def columns(spends, rounds=None):
    """The table `spends` of some spends, a round each unless it is said."""
    rounds = range(1, len(spends) + 1) if rounds is None else rounds
    tables = []
    for number, spend in zip(rounds, spends, strict=True):
        table = pd.DataFrame({name: getattr(spend, name) for name in COLUMNS})
        tables.append(table.assign(round=number))
    return {name: column.to_numpy() for name, column in pd.concat(tables).items()}


class TestLedger:
    def test_two_mechanisms_of_one_unit_cost_what_one_gaussian_costs(self):
        """mu^2 = 1 / 2^2 + 1 / 1^2, at the smaller delta."""
        state = Ledger(3).add([spend(z=2.0, delta=1e-6), spend(z=1.0, mechanism="count")])
        together = state_user(state, ALL)
        assert together.delta == 1e-6
        expected = compute_gaussian_epsilon(1e-6, np.sqrt(1.25))
        np.testing.assert_allclose(together.epsilon, expected, rtol=1e-12)

    def test_one_mechanism_needs_no_sum(self):
        state = Ledger(3).add([spend(), spend()])
        assert [s.mechanism for s in state.list_statements()] == ["noise"]

    def test_units_and_relations_are_never_added_up(self):
        state = Ledger(1).add([spend(), spend(unit="record"), spend(relation="replace")])
        assert all(s.mechanism != ALL for s in state.list_statements())

    def test_sampled_rounds_go_by_renyi(self):
        state = Ledger(2)
        for _ in range(100):
            state = state.add([spend(z=1.0, q=10 / 38, delta=1e-7)])
        expected = rdp.compute_renyi_epsilon(100 * rdp.compute_renyi_cost(1.0, 10 / 38), 1e-7)
        np.testing.assert_allclose(state_user(state).epsilon, expected, rtol=1e-12)
        assert expected == approx(25.4, abs=0.3)  # Haliloglu et al.'s setting with 10 of 38 clients

    def test_only_noise_that_hides_all_ues_counts_on_sampling(self):
        with raises(ValueError, match="hides all UEs"):
            Ledger(2).add([spend(ue=(0, 1), q=0.5)])

    def test_channel_noise_stands_beside_and_never_inside(self):
        statement = state_user(Ledger(1).add([spend(z=3.0, channel=4.0)]))
        assert statement.epsilon[0] == approx(price(1 / 9), rel=1e-12)
        assert statement.with_channel[0] == approx(price(1 / 25), rel=1e-12)

    def test_the_worst_user_decides(self):
        state = Ledger(3).add([spend(ue=(0, 2)), spend(ue=(2,))])
        two = price(2.0)
        assert state.exceeds(0.99 * two, None)
        assert not state.exceeds(1.01 * two, None)
        assert not state.exceeds(0.99 * two, 1e-2)  # a larger delta costs less

    def test_where_no_delta_is_given_the_smallest_decides(self):
        """Two mechanisms of z = 1: at 1e-7 they cost more than at the 1e-3 that one of them
        states."""
        state = Ledger(1).add([spend(delta=1e-3), spend(delta=1e-7, mechanism="other")])
        dear = price(2.0, 1e-7)
        cheap = price(2.0, 1e-3)
        assert cheap < dear
        assert state.exceeds(0.99 * dear, None)
        assert not state.exceeds(1.01 * dear, None)
        assert state.exceeds(0.99 * cheap, 1e-3)
        assert not state.exceeds(1.01 * cheap, 1e-3)

    def test_each_unit_and_relation_is_held_to_the_budget(self):
        """Whichever of them was booked first; moved locations have an epsilon per metre, and no
        share in it."""
        small = spend(z=10.0)
        large = spend(z=0.5, relation="replace")
        for order in ([small, large], [large, small]):
            state = Ledger(1).add(order)
            assert state.exceeds(0.99 * price(4.0), None)
            assert not state.exceeds(1.01 * price(4.0), None)

        def move(mechanism, points):
            none = np.zeros(1, int)
            return MetricSpend(mechanism, none, none, np.array([points]), np.array([1e3]))

        moved = Ledger(1).add([move("moved", 5)])
        assert not moved.exceeds(1e-3, None)
        twice = moved.add([move("moved again", 1)]).list_statements()
        assert {s.mechanism: s.epsilon[0] for s in twice} == {"moved": 5e3, "moved again": 1e3}

    def test_a_coin_and_what_counts_on_none_add_up_in_a_budget(self):
        """Sampled rounds beside one in which everybody takes part: more than either by itself, by
        RDP."""
        coin = spend(q=0.01)
        certain = spend(z=2.0, mechanism="other")
        state = Ledger(1).add([coin, certain])
        costs = rdp.compute_full_cost(0.25) + rdp.compute_renyi_cost(1.0, 0.01)
        both = float(rdp.compute_renyi_epsilon(costs, 1e-5))
        assert both > float(rdp.compute_renyi_epsilon(rdp.compute_renyi_cost(1.0, 0.01), 1e-5))
        assert state_user(state, ALL).epsilon[0] == approx(both, rel=1e-12)
        assert state.exceeds(0.999 * both, None)
        assert not state.exceeds(1.001 * both, None)


def hockey_stick(p, q, epsilon, cell):
    """delta at epsilon of densities on a grid: the larger of the two directions."""
    return max((np.maximum(a - np.exp(epsilon) * b, 0).sum() * cell) for a, b in ((p, q), (q, p)))


def convolve(z, q, rounds, delta):
    """Epsilon of so many rounds on a coin, by losses on a grid of our own and their characteristic
    function."""
    x = np.linspace(-16 * z, 16 * z, 1_600_001)
    cell = x[1] - x[0]
    without = norm.pdf(x, 0.0, z) * cell
    with_ = (1 - q) * without + q * norm.pdf(x, 1.0, z) * cell
    result = []
    n = 2**18
    width = 2.5e-4
    for p, loss in ((with_, np.log(with_ / without)), (without, np.log(without / with_))):
        position = np.rint(loss / width).astype(int) % n
        spectrum = np.fft.rfft(np.bincount(position, weights=p, minlength=n)) ** rounds
        total = np.fft.irfft(spectrum, n)
        losses = (np.arange(n) - n * (np.arange(n) >= n // 2)) * width
        low = 0.0
        high = 30.0
        for _ in range(60):
            middle = (low + high) / 2
            above = losses > middle
            over = (total[above] * -np.expm1(middle - losses[above])).sum() > delta
            low, high = (middle, high) if over else (low, middle)
        result.append(high)
    return max(result)


class TestOneCoin:
    """A user that is asked sends to all models in all phases: the coin is tossed once a round, not
    once a draw."""

    @parametrize("draws", [1, 2])
    @parametrize("epsilon", [0.0, 0.3, 1.0])
    def test_draws_of_a_round_are_one_gaussian_before_the_coin(self, draws, epsilon):
        """The hockey stick of the joint density in as many dimensions, against that of one with
        mu^2 summed."""
        q = 0.3
        z = 1.25
        x = np.arange(-9, 10, 0.02)
        joint = norm.pdf(x)
        shifted = norm.pdf(x, 1 / z)
        if draws == 2:
            joint = np.outer(joint, joint)
            shifted = np.outer(shifted, shifted)
        exact = hockey_stick((1 - q) * joint + q * shifted, joint, epsilon, 0.02**draws)
        line = np.arange(-12, 14, 1e-3)
        without = norm.pdf(line)
        with_ = norm.pdf(line, np.sqrt(draws) / z)
        single = hockey_stick((1 - q) * without + q * with_, without, epsilon, 1e-3)
        assert exact == approx(single, rel=2e-3)
        assert exact > 0

    @parametrize("models, epsilon", [(1, 1.315), (3, 3.216), (16, 18.48)])
    def test_models_of_31_rounds(self, models, epsilon):
        """q = 0.1, z = 2, delta 1e-5; a sampled round for each draw would have said 2.25 for 3
        models."""
        rounds = [spend(ue=(-1,) * models, z=2.0, q=0.1)] * 31
        (row,) = tabulate_account(columns(rounds))
        assert row["accountant"] == "PLD"
        assert row["epsilon"] == approx(epsilon, rel=1e-3)
        assert row["draws"] == 31 * models
        expected = convolve(2 / np.sqrt(models), 0.1, 31, 1e-5)
        assert row["epsilon"] == approx(expected, rel=2e-3)
        state = Ledger(2)
        for epsilon_of_rounds in rounds:
            state = state.add([epsilon_of_rounds])
        assert state_user(state).epsilon[0] == approx(row["rdp"], rel=1e-6)
        assert row["rdp"] > row["epsilon"]

    def test_dp_accounting_agrees(self):
        from dp_accounting import ComposedDpEvent, GaussianDpEvent, PoissonSampledDpEvent
        from dp_accounting.rdp import RdpAccountant

        draws = [GaussianDpEvent(2.0), GaussianDpEvent(3.0), GaussianDpEvent(2.0)]
        library = RdpAccountant(rdp.ORDERS).compose(
            PoissonSampledDpEvent(0.1, ComposedDpEvent(draws)), 31
        )
        state = Ledger(1)
        for _ in range(31):
            state = state.add([spend(z=z, q=0.1) for z in (2.0, 3.0, 2.0)])
        assert state_user(state).epsilon[0] == approx(library.get_epsilon(1e-5), rel=1e-9)

    def test_models_phases_and_mechanisms_of_a_round_share_it(self):
        """2 models x 2 phases x 2 mechanisms are 8 draws on one coin; each mechanism by itself has
        4."""
        state = Ledger(1)
        models = []
        position = []
        for r in range(1, 21):
            drawn = [
                spend(ue=(-1, -1), z=4.0, q=0.2, mechanism=m)
                for m in ("a", "b")
                for _ in ("heights", "losses")
            ]
            state = state.add(drawn)
            models = models + drawn
            position = position + [r] * 4
        rows = {row["mechanism"]: row for row in tabulate_account(columns(models, position))}
        for mechanism, draws in (("a", 4), ("b", 4), (ALL, 8)):
            cost = 20 * rdp.compute_renyi_cost(4 / np.sqrt(draws), 0.2)
            by_hand = rdp.compute_renyi_epsilon(cost, 1e-5)
            assert state_user(state, mechanism).epsilon[0] == approx(by_hand, rel=1e-12)
            row = rows[mechanism]
            assert row["rdp"] == approx(by_hand, rel=1e-6)
            assert row["draws"] == 20 * draws
        assert state.exceeds(0.999 * by_hand, None)
        assert not state.exceeds(1.001 * by_hand, None)

    def test_a_round_has_one_rate(self):
        with raises(ValueError, match="one rate per round"):
            Ledger(1).add([spend(q=0.1), spend(q=0.2)])


class TestFinalAccount:
    def test_every_accountant_beside_the_best(self):
        row = tabulate_account(columns([spend(delta=1e-7)] * 100))[0]
        expected = compose_rounds(RoundKinds.from_rounds([(1.0, 1.0, 100)]), 1e-7)
        assert row["ue"] == ALL_UES
        assert row["draws"] == 100
        assert row["accountant"] == "exact"
        assert row["epsilon"] == approx(101.2, abs=0.1)
        assert row["rdp"] == approx(105.1, abs=0.5)
        assert (row["naive"], row["zcdp"]) == (expected.naive.epsilon, expected.zcdp.epsilon)
        assert row["epsilon"] < row["rdp"] < row["zcdp"] < row["naive"]
        assert np.isnan(row["with_channel"])

    def test_a_row_a_user_with_what_hides_everybody_in_each(self):
        rows = tabulate_account(columns([spend(ue=(0, 3)), spend(ue=(3,)), spend()]))
        assert [r["ue"] for r in rows] == [0, 3]
        assert [r["draws"] for r in rows] == [2, 3]
        assert rows[1]["epsilon"] == approx(price(3.0), rel=1e-9)

    def test_all_mechanisms_of_a_unit(self):
        rows = tabulate_account(columns([spend(), spend(mechanism="count", z=10.0, delta=1e-6)]))
        assert [r["mechanism"] for r in rows] == ["noise", "count", "all"]
        assert rows[2]["delta"] == 1e-6
        assert rows[2]["epsilon"] == approx(price(1.01, 1e-6), rel=1e-9)

    def test_whose_channel_never_counted_is_not_left_out(self):
        """A UE whose channel adds nothing has its epsilon there, in an account in which another's
        does count."""
        quiet, noisy = tabulate_account(columns([spend(ue=(0, 1)), spend(ue=(1,), channel=7.0)]))
        assert quiet["with_channel"] == quiet["epsilon"] == approx(price(1.0), rel=1e-9)
        assert noisy["with_channel"] == approx(price(1 + 1 / 50), rel=1e-9)
        quiet = tabulate_account(columns([spend(ue=(0, 1), channel=0.0)]))
        assert all(np.isnan(r["with_channel"]) for r in quiet)

    def test_a_switch_that_never_came_leaves_epsilon(self):
        """The channel's noise stood ready and replaced none: its figure is the epsilon, and `all`
        has one as well."""
        spends = [spend(ue=(0, 1)), spend(ue=(1,), mechanism="other")]
        rows = tabulate_account(columns(spends), ["noise"])
        assert [row["mechanism"] for row in rows] == ["noise", "noise", "other", ALL, ALL]
        for row in rows:
            assert (row["with_channel"] == row["epsilon"]) == (row["mechanism"] != "other")
        assert np.isnan(tabulate_account(columns([spend(q=0.5)]), ["noise"])[0]["with_channel"])

    @parametrize("uplink", ["noma", "ideal"])
    def test_a_run_without_a_switch_states_it(self, uplink, tmp_path):
        """Two rounds of noise that is planned for ten: no other noise counts over `noma`, and none
        is over `ideal`."""
        study = read_changes("""
        learning.defenses:
        - {kind: clip, norm: 0.5, relation: add-remove}
        - kind: noise-switch
          mode: planned
          until_round: 10
          noise: {kind: uniform-dp, epsilon_system_total: 60.0, rounds: 10, sensitivity: mean-clip}
        learning.rounds: 2
        learning.attacks: []
        learning.references: {central: false, kriging_samples: 0}
        learning.membership: null
        learning.aggregation: {kind: fedavg}
        """)
        radio = {"interference": "none", "decoding": "noisy"} if uplink == "noma" else {}
        study["world.radio.uplink"] = {"kind": uplink, **radio}
        result = run(load("rsrp-dp/live", study), tmp_path)
        account = pd.read_csv(tmp_path / "privacy.csv")
        assert set(account.mechanism) == {"noise-switch", "noise-switch-as-printed"}
        stated = account.with_channel == account.epsilon
        assert stated.all() if uplink == "noma" else account.with_channel.isna().all()
        summary = result.get("privacy.noise-switch.with_channel.max")
        assert summary == (result["privacy.noise-switch.epsilon.max"] if uplink == "noma" else None)

    def test_the_largest_with_the_channel_is_over_all_ues(self, tmp_path):
        """That of a UE without a channel too, in an account of its own too; null where it is
        infinite."""

        def largest(*spends):
            rows = pd.DataFrame(tabulate_account(columns(spends)))
            rows.to_csv(tmp_path / "privacy.csv", index=False)
            account = read_record_table(tmp_path, "privacy")
            is_noise = account["mechanism"] == "noise"
            rows = complete_account({k: v[is_noise] for k, v in account.items()})
            return compute_measures({"account": rows}, "noise")["privacy.noise.with_channel.max"]

        never = spend(ue=(0,), z=0.5)
        noisy = spend(ue=(1,), z=1.0, channel=7.0)
        for neighbour in (noisy, spend(ue=(1,), channel=7.0, delta=1e-6)):
            assert largest(never, neighbour) == approx(price(4.0), rel=1e-6)
        # no finite one: null, and never that of the others
        assert np.isnan(largest(spend(ue=(0,), z=0.0), noisy))
        assert np.isnan(largest(never, spend(ue=(1,))))

    @parametrize("first", [True, False])
    def test_what_one_row_of_many_says_counts(self, first):
        """One draw on a coin is enough for no figure with the channel, one with channel noise for
        one, one UE's own draw for a row a UE: whichever comes first."""

        def rows(*two):
            return tabulate_account(columns(list(two) if first else list(two)[::-1]))

        (row,) = rows(spend(q=0.5, channel=1.0), spend(channel=1.0))
        assert np.isnan(row["with_channel"])
        (row,) = rows(spend(channel=1.0), spend())
        assert row["with_channel"] == approx(compute_gaussian_epsilon(1e-5, np.sqrt(1.5)), rel=1e-9)
        result = rows(spend(), spend(ue=(2,)))
        assert [(r["ue"], r["draws"]) for r in result] == [(2, 2)]

    def test_a_coin_that_counts_nothing_leaves_the_channel_its_figure(self):
        (row,) = tabulate_account(columns([spend(q=0.5, relation="replace", channel=1.0)]))
        assert row["with_channel"] == approx(compute_gaussian_epsilon(1e-5, np.sqrt(0.5)), rel=1e-9)

    def test_moved_locations_are_another_account(self):
        table = columns([spend()])
        table["unit"][:] = "location"
        assert tabulate_account(table) == []


class TestStopAt:
    def play(self, folder, budget, **changes):
        chain = [CLIP, {"kind": "central-gaussian", "noise_multiplier": 5.0}]
        limits = {"learning.defenses": chain, "learning.privacy_budget": budget}
        return run(load("rsrp-dp/budget", SMALL | limits | changes), folder)

    def test_learning_ends_before_the_round_that_would_exceed(self, tmp_path):
        result = self.play(tmp_path / "r", {"epsilon": 2.0})
        n = result["rounds.played"]
        assert result["rounds.stopped_by_budget"] is True
        assert 1 < n < 15
        spent = price(n / 25, 1e-7)
        assert spent <= 2.0 < price((n + 1) / 25, 1e-7)
        assert result["privacy.central-gaussian.epsilon.max"] == approx(spent, rel=1e-6)
        assert result["rounds.empty"] == 4
        self.play(tmp_path / "free", None, **{"learning.rounds": n})
        # the rounds before are those without a budget
        for table in ("rounds", "spends", "metrics", "final"):
            expected = (tmp_path / "free" / f"{table}.csv").read_bytes()
            assert (tmp_path / "r" / f"{table}.csv").read_bytes() == expected

    def test_a_budget_too_small_for_one_round_learns_nothing(self, tmp_path):
        result = self.play(tmp_path, {"epsilon": 0.01})
        assert result["rounds.played"] == 0
        assert result["rounds.stopped_by_budget"] is True


class TestCentral:
    def test_what_may_move_updates_apart_cannot_follow(self):
        from fl.defenses import Defense

        assert not Defense.contracts
        part = CentralGaussian(noise_multiplier=1.0)
        assert part.contracts
        assert "central noise" in part.offers

    @parametrize("local", [False, True])
    def test_no_channel_counts_beside_noise_at_the_server(self, local, tmp_path):
        """Its receiver gets single updates, without that noise; nor does it add to noise that a
        clip has cut down.

        UEs take turns, so that neighbours send alike: otherwise the receiver's noise would show who
        sends.
        """
        study = read_changes("""
        learning.rounds: 1
        world.radio.uplink.decoding: noisy
        world.radio.uplink.interference: none
        learning.attacks: []
        learning.references: {central: false, kriging_samples: 0}
        learning.sampling: cyclic
        learning.participation: 0.5
        learning.aggregation.participation: 0.5
        learning.defenses:
        - {kind: clip, norm: 0.5, relation: add-remove}
        - {kind: gaussian, noise_multiplier: 1.0}
        - {kind: clip, norm: 0.5, relation: add-remove, name: again}
        - {kind: central-gaussian, noise_multiplier: 1.0}
        """)
        if not local:
            del study["learning.defenses"][1:3]
        summary = run(load("rsrp-dp/live", study), tmp_path)
        links = pd.read_csv(tmp_path / "links.csv")
        spends = pd.read_csv(tmp_path / "spends.csv")
        assert (links.noise_std > 0).any()
        assert (spends.channel_std == 0).all()
        assert (spends.epsilon_with_channel == spends.epsilon).all()
        assert pd.read_csv(tmp_path / "privacy.csv").with_channel.isna().all()
        assert summary["privacy.central-gaussian.epsilon.max"] > 0

    def test_weights_count_on_the_share_that_is_asked(self):
        with raises(ValueError, match="give both the same"):
            uniform = Uniform(clients=4, participation=0.5)
            Learning(round_s=1.0, learner={"kind": "rsrp-net"}, aggregation=uniform)
