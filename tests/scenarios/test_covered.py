"""What a whole run books and admits: one coin for all draws of a round, windows without data, and
its caveats."""

import numpy as np
from noticed import lines, of_run
from pytest import approx, mark

from fl.notice import notice as of_learning
from fl.privacy import rdp
from fl.privacy.compose import RoundKinds, compose_rounds
from fl.privacy.gaussian import compute_gaussian_epsilon
from scenarios.app.result import run
from scenarios.app.results.folder import read_record_table
from scenarios.app.study.load import parse_value

CLIP = {"kind": "clip", "norm": 0.5, "relation": "add-remove"}
NOISE = {"kind": "central-gaussian", "noise_multiplier": 4.0, "delta": 1e-5}
CENTRAL = {
    "learning.defenses": [CLIP, NOISE],
    "learning.aggregation": {"kind": "uniform", "clients": 4},
    "learning.attacks": [],
}
SAMPLED = parse_value(
    "{learning.round_s: 20, learning.participation: 0.25, "
    "learning.sampling: poisson, learning.aggregation: {kind: uniform, clients: 4, "
    "participation: 0.25}}"
)
SELDOM = {
    "learning.round_s": 20,
    "world.ues.measurement_period_s": 45,
}  # windows 2, 4 and 6 of 6 are empty
MAP = parse_value(
    "{world.ues.measure: all, learning.data: {kind: links, memory: round}, "
    "learning.learner: {kind: radio-map, cell_m: 25}}"
)


class TestOneCoin:
    @mark.slow
    @mark.parametrize(
        "rest, draws",
        [
            ({}, 2),  # two models
            (MAP, 2),  # two phases of one model
            (
                {"learning.defenses": [CLIP, NOISE, NOISE | {"name": "again"}]},
                4,
            ),  # two mechanisms on two models
            ({"learning.threat": {"observes": "aggregate"}}, 2),
            (
                parse_value(
                    "{world.radio.uplink: {kind: oma, decoding: error-free, deadline_s: 1e-06}}"
                ),
                2,
            ),  # all is lost
            (SELDOM, 2),  # in windows without data too
            (MAP | SELDOM, 2),
        ],
        ids=[
            "models",
            "phases",
            "mechanisms",
            "sum",
            "lost",
            "empty windows",
            "empty windows of two phases",
        ],
    )
    def test_all_draws_of_a_round_hang_on_it(self, rest, draws, play_tiny, out):
        """z = 4 and n draws a round for six rounds at q = 1/4: six sampled rounds of z /
        sqrt(n)."""
        summary = play_tiny(CENTRAL | SAMPLED | rest)
        assert summary["rounds.played"] == 6
        assert summary["rounds.empty"] == 0
        spends = read_record_table(out, "spends")
        account = read_record_table(out, "privacy")
        assert np.bincount(spends["round"].astype(int))[1:].tolist() == [draws] * 6
        assert (spends["sampling_rate"] == 0.25).all()
        assert (spends["noise_multiplier"] == 4.0).all()
        row = {k: v[-1] for k, v in account.items()}  # of all mechanisms, where there are several
        expected = compose_rounds(RoundKinds.from_rounds([(4 / np.sqrt(draws), 0.25, 6)]), 1e-5)
        assert row["accountant"] == "PLD"
        assert row["draws"] == 6 * draws
        assert row["epsilon"] == approx(expected.best.epsilon, rel=1e-6)
        rounds = read_record_table(out, "rounds")["epsilon_max"]
        by_hand = [
            rdp.compute_renyi_epsilon(n * rdp.compute_renyi_cost(4 / np.sqrt(draws), 0.25), 1e-5)
            for n in range(1, 7)
        ]
        np.testing.assert_allclose(rounds, by_hand, rtol=1e-6)
        as_many = compose_rounds(
            RoundKinds.from_rounds([(4.0, 0.25, 6 * draws)]), 1e-5
        ).best.epsilon
        # a sampled round for each draw promised more than holds
        assert row["epsilon"] > 1.05 * as_many

    def test_a_budget_ends_learning_by_it(self, play_tiny):
        cost = rdp.compute_renyi_cost(4 / np.sqrt(2), 0.25)
        budget = float(rdp.compute_renyi_epsilon(3.5 * cost, 1e-5))
        # by a round for each draw three and a half last
        assert rdp.compute_renyi_epsilon(7 * rdp.compute_renyi_cost(4.0, 0.25), 1e-5) < budget
        summary = play_tiny(CENTRAL | SAMPLED | {"learning.privacy_budget": {"epsilon": budget}})
        assert summary["rounds.played"] == 3
        assert summary["rounds.stopped_by_budget"] is True


class TestWindowsWithoutData:
    def read_spends(self, study, out):
        run(study, out)
        table = read_record_table(out, "spends")
        return table["round"].tolist(), table["epsilon"].tolist()

    @mark.parametrize("rest", [{}, MAP])
    def test_what_is_spent_does_not_follow_the_data(self, rest, tiny, tmp_path):
        """Measuring in every window, in every other, or never costs the same and leaves the same
        rounds."""
        all_rows = {"learning.round_s": 20}
        paid = [
            self.read_spends(
                tiny(CENTRAL | rest | all_rows | {"world.ues.measurement_period_s": often}),
                tmp_path / str(often),
            )
            for often in (5, 45, 100_000)
        ]
        assert paid[0] == paid[1] == paid[2]
        assert set(paid[0][0]) == {1, 2, 3, 4, 5, 6}
        assert paid[0][1][-1] == approx(compute_gaussian_epsilon(1e-5, np.sqrt(12) / 4), rel=1e-6)

    def test_the_model_moves_by_noise_in_them(self, play_tiny, out):
        play_tiny(CENTRAL | SELDOM)
        updates = read_record_table(out, "updates")
        figures = read_record_table(out, "metrics")
        assert set(updates["round"]) == {1, 3, 5}
        ratio = {
            r: v
            for r, v, n in zip(figures["round"], figures["value"], figures["name"], strict=True)
            if n == "signal_to_noise"
        }
        assert [ratio[r] for r in (2, 4, 6)] == [0.0] * 3
        assert all(ratio[r] > 0 for r in (1, 3, 5))

    def test_an_adaptive_clip_pays_in_them_too(self, tiny, out):
        chain = [{"kind": "adaptive-clip", "relation": "add-remove"}, NOISE]
        rounds, _ = self.read_spends(tiny(CENTRAL | SELDOM | {"learning.defenses": chain}), out)
        assert rounds == sorted([1, 2, 3, 4, 5, 6] * 3)

    def test_noise_on_devices_leaves_them_out(self, play_tiny):
        """Who sends is public there, and the run says so."""
        chain = [CLIP, {"kind": "gaussian", "noise_multiplier": 4.0}]
        summary = play_tiny(SELDOM | {"learning.defenses": chain})
        assert summary["rounds.played"] == 3
        assert summary["rounds.empty"] == 3


class TestCaveats:
    def find_caveats(self, study, out):
        run(study, out)
        return lines(item for item in of_run(out) if item.key in of_learning.entries)

    def test_an_adaptive_clip_tells_the_server_its_bits(self, tiny, tmp_path):
        """Before noise on the device, which promises to hold against the server; noise at the
        server promises less."""
        adaptive = {"kind": "adaptive-clip", "name": "follow"}
        local = {"kind": "gaussian", "noise_multiplier": 1.0}
        chains = (
            ([adaptive, local], True),
            (
                [
                    adaptive | {"relation": "add-remove"},
                    {**CLIP, "norm": 0.1},
                    {**local, "name": "mine"},
                ],
                True,
            ),
            ([adaptive | {"relation": "add-remove"}, NOISE], False),
            ([CLIP, local], False),
        )
        for k, (chain, printed) in enumerate(chains):
            name = chain[-1].get("name", chain[-1]["kind"])
            warnings = self.find_caveats(
                tiny(CENTRAL | {"learning.defenses": chain}), tmp_path / str(k)
            )
            result = [
                w
                for w in warnings
                if w.startswith("follow: every device tells the server in clear")
            ]
            assert len(result) == printed
            assert all(f"the epsilon of {name} does not cover that bit" in w for w in result)

    def test_noise_on_devices_hides_numbers_alone(self, tiny, tmp_path):
        chain = [CLIP, {"kind": "gaussian", "noise_multiplier": 4.0}]
        (message,) = self.find_caveats(tiny({"learning.defenses": chain}), tmp_path / "r")
        assert message.startswith(
            "gaussian: noise covers the numbers sent; which windows are played, who sends"
        )
        assert self.find_caveats(tiny(CENTRAL), tmp_path / "c") == []
        assert self.find_caveats(tiny({"learning.defenses": [CLIP]}), tmp_path / "n") == []

    def test_losses_on_a_shared_band_are_taken_as_given(self, tiny, out):
        shared = {"world.radio.uplink": {"kind": "noma", "decoding": "error-free"}}
        (message,) = self.find_caveats(tiny(CENTRAL | shared), out)
        assert message.startswith(
            "central-gaussian: on a shared band whose updates are lost can hang on who else sends"
        )
