"""Noise in shares under secure sums, and noise correlated over rounds: laws, accounts and what is
refused."""

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
import pytest
from interrupted import run_in_two

from fl.aggregation import Uniform
from fl.attacks.threat import Threat
from fl.defenses import DEFENSES
from fl.defenses.clip import AdaptiveClip, Clip
from fl.defenses.gaussian import CentralGaussian, DistributedGaussian, Gaussian
from fl.defenses.skellam import Skellam, least_multiplier, rotated
from fl.privacy import rdp
from fl.privacy.banded import coefficients, coloured, errors, sensitivity
from fl.privacy.gaussian import epsilon_of
from fl.round.learn import protected
from fl.round.learning import Learning
from fl.round.setup import RoundStreams
from fl.types import Bound, DenseUpdates, Local, Public, Received, RoundContext
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Streams
from scenarios.app.result import run

CLIP = {"kind": "clip", "norm": 0.5, "relation": "add-remove"}
SHARES = {"kind": "distributed-gaussian", "noise_multiplier": 2.0}
RING = {"kind": "skellam", "noise_multiplier": 2.0}
GROUPS = {"observes": "aggregate", "secagg_threshold": 2, "secagg_group_size": 2}
UNIFORM = {"kind": "uniform", "clients": 4}


def sums(least=3, **more):
    return {
        "learning.threat": {"observes": "aggregate", "secagg_threshold": least},
        "learning.attacks": [],
        "learning.aggregation": UNIFORM,
        "learning.defenses": [CLIP, SHARES],
    } | more


BANDED = {"kind": "central-gaussian", "noise_multiplier": 2.0, "correlation": "banded", "bands": 3}


def matrix(rounds, bands):
    c = coefficients(bands)
    return sum(np.diag(np.full(rounds - j, c[j]), -j) for j in range(min(bands, rounds)))


def test_noise_on_each_number_is_that_of_its_ue_however_many_rows_are_drawn_at_once():
    # three rows at a time
    draw = np.random.default_rng(0)
    n = 7
    d = 300_001
    ue = draw.permutation(n)
    std = draw.uniform(0, 2, n)
    sent = DenseUpdates(
        ue,
        np.zeros(n, int),
        np.ones(n),
        draw.normal(size=(n, d)),
        "all",
        Bound(1.0, "user", "replace"),
    )
    before = sent.values.copy()
    found = sent.noisy(std, "noise", Streams(5).at("x"))
    for k in range(n):
        alone = Streams(5).at("x").normal("noise", sent.row[k : k + 1], (d,))[0]
        assert (found.values[k] == before[k] + std[k] * alone).all()
    assert found.bound is None
    assert (sent.values == before).all()


def test_whole_numbers_stay_whole_until_something_makes_them_fractions():
    """What a ring sends, and what an eavesdropper hears of it."""
    sent = DenseUpdates(np.arange(2), np.zeros(2, int), np.ones(2), np.array([[1, 2], [3, 5]]))
    alone = Streams(5).at("x").normal("decoder", sent.row, (2,))
    assert (
        sent.noisy(np.array([0.0, 2.0]), "decoder", Streams(5).at("x")).values
        == sent.values + [[0], [2]] * alone
    ).all()
    kept = sent.scaled(np.array([0.0, 1.0]), None).values
    assert kept.dtype == sent.values.dtype
    assert kept.tolist() == [[0, 0], [3, 5]]
    assert sent.scaled(np.array([0.5, 1.0]), None).values.tolist() == [[0.5, 1.0], [3.0, 5.0]]


# -- noise correlated over rounds


@pytest.mark.parametrize(
    ("rounds", "separation", "bands", "moved", "rms", "largest"),
    [
        (28, 7, 1, 2.000000, 7.615773, 10.583005),
        (28, 7, 3, 2.358495, 5.145715, 6.915802),
        (28, 7, 7, 2.588050, 4.212777, 5.317182),
        (112, 7, 1, 4.0, 30.066593, None),
        (112, 7, 3, None, 19.279436, None),
        (112, 7, 7, None, 14.207585, None),
        (365, 30, 1, None, 48.774994, None),
        (365, 30, 15, None, 16.442025, None),
        (365, 30, 30, None, 13.107118, None),
        (28, 28, 1, None, 3.807887, None),
        (28, 28, 14, None, 1.962576, None),
        (28, 28, 28, None, 1.970291, None),
    ],
)
def test_errors_of_banded_noise_are_those_of_a_dense_computation(
    rounds, separation, bands, moved, rms, largest
):
    found = errors(rounds, bands, separation)
    assert found[0] == pytest.approx(rms, abs=1e-6)
    assert largest is None or found[1] == pytest.approx(largest, abs=1e-6)
    assert moved is None or sensitivity(rounds, bands, separation) == pytest.approx(moved, abs=1e-6)
    c = matrix(rounds, bands)
    b = np.tril(np.ones((rounds, rounds))) @ np.linalg.inv(c)
    dense = np.linalg.norm(b, axis=1) * sensitivity(rounds, bands, separation)
    assert found == pytest.approx((np.sqrt((dense**2).mean()), dense.max()))


@pytest.mark.parametrize("rounds", [1, 2, 5, 9, 12])
@pytest.mark.parametrize("bands", [1, 2, 3, 5, 12])
@pytest.mark.parametrize("separation", [1, 2, 3, 4])
def test_no_pattern_of_participation_moves_more_than_the_sensitivity(rounds, bands, separation):
    """All subsets of the rounds of one cohort; and, where columns of a user are apart, all rounds
    that are apart."""
    c = matrix(rounds, bands)
    most = 0.0
    for k in range(1, rounds + 1):
        for pattern in combinations(range(rounds), k):
            apart = all(b - a >= separation for a, b in pairwise(pattern))
            one = len({t % separation for t in pattern}) == 1
            if one or (apart and bands <= separation):
                most = max(most, np.linalg.norm(c[:, pattern].sum(axis=1)))
    assert sensitivity(rounds, bands, separation) == pytest.approx(most)


@pytest.mark.parametrize("bands", [1, 2, 4, 30])
def test_rows_of_noise_are_those_of_the_inverse(bands):
    z = np.random.default_rng(1).normal(size=(12, 3, 5))
    past = np.zeros((0, 3, 5))
    rows = []
    for white in z:
        row, past = coloured(white, past)
        past = past[: bands - 1]
        rows.append(row)
    dense = np.linalg.solve(matrix(12, bands), z.reshape(12, -1))
    np.testing.assert_allclose(np.reshape(rows, (12, -1)), dense, atol=1e-12)


def facts(**more):
    area = Area(0.0, 0.0, 100.0, 100.0)
    return RoundContext(1, 0.0, Public(area, 1), weight=0.1, **more)


def rows(n, d=20_000, scale=0.0):
    values = scale * np.random.default_rng(2).normal(size=(n, d))
    return DenseUpdates(
        np.arange(n),
        np.zeros(n, dtype=int),
        np.ones(n),
        values,
        bound=Bound(0.5, "user", "add-remove"),
    )


NO_DATA = Local(
    np.zeros(0, int), np.zeros(0, int), np.zeros(1, int), np.zeros((0, 2)), None, np.zeros(0)
)


def test_banded_noise_of_a_run_has_the_covariance_of_the_inverse():
    part = CentralGaussian(noise_multiplier=2.0, correlation="banded", bands=3)
    drawn = []
    state = part.start(4)
    spends = []
    for t in range(1, 7):
        _, state, _ = part.protect(rows(4), NO_DATA, facts(rounds=6, separation=2), state, None)
        noise, state, spent = part.finish(
            np.zeros((1, 20_000)), 4, facts(rounds=6, separation=2), state, Streams(t).at("noise")
        )
        drawn.append(noise[0])
        spends += spent
    inverse = np.linalg.inv(matrix(6, 3))
    std = 2.0 * 0.5 * 0.1 * sensitivity(6, 3, 2)
    np.testing.assert_allclose(np.cov(drawn), std**2 * inverse @ inverse.T, atol=0.05 * std**2)
    assert len(spends) == 1  # one release of multiplier 2, whatever the number of rounds
    assert spends[0].cost(False) == pytest.approx([1 / 4])
    assert spends[0].relation == "zero-out"  # one more UE would move others to other cohorts


@pytest.mark.parametrize("separation", [1, 3])
def test_where_ues_take_turns_neighbours_take_part_alike(separation):
    at = facts(separation=separation)
    gaussian = CentralGaussian(noise_multiplier=1.0)
    clip = AdaptiveClip(relation="add-remove")
    for part in (gaussian, clip):
        _, state, _ = part.protect(rows(4), NO_DATA, at, part.start(4), None)
        spent = part.finish(np.zeros((1, 3)), 4, at, state, Streams(0).at("noise"))[2]
        assert [s.relation for s in spent] == ["zero-out" if separation > 1 else "add-remove"]


@pytest.mark.parametrize("wrong", [{"correlation": "banded"}, {"bands": 3}])
def test_bands_and_correlation_need_each_other(wrong):
    with pytest.raises(ValueError, match="banded and bands need each other"):
        CentralGaussian(noise_multiplier=1.0, **wrong)


def cyclic(k, **more):
    return {
        "world.duration_s": 720,
        "learning.participation": 1 / k,
        "learning.sampling": "cyclic",
        "learning.defenses": [CLIP, BANDED],
        "learning.attacks": [],
        "learning.aggregation": UNIFORM | {"participation": 1 / k},
    } | more


def test_cohorts_take_turns_and_the_run_is_one_release(tiny, tmp_path):
    run(tiny(cyclic(4)), tmp_path)
    sent = pd.read_csv(tmp_path / "updates.csv").groupby("ue")["round"].unique()
    assert sorted({rounds[0] for rounds in sent}) == [1, 2, 3, 4]
    assert all((np.diff(rounds) == 4).all() and len(rounds) == 3 for rounds in sent)
    account = pd.read_csv(tmp_path / "privacy.csv")
    models = 2  # of two cells, with the noise of each
    assert account["epsilon"].tolist() == pytest.approx([epsilon_of(1e-7, np.sqrt(models) / 2.0)])


ONCE = {"kind": "central-gaussian", "noise_multiplier": 2.0}


@pytest.mark.parametrize(
    ("k", "worst", "more"),
    [
        (4, 3, {}),
        (5, 3, {}),
        (4, 1, {"learning.rounds": 3}),
        (2, 2, {"learning.server": {"kind": "synchronous", "deadline_s": 170}}),
        (
            4,
            3,
            {
                "learning.availability": {
                    "kind": "charging",
                    "from_hour": 0.05,
                    "from_spread_hours": 0.1,
                }
            },
        ),
    ],
)
def test_without_bands_each_ue_pays_for_the_rounds_of_its_cohort(tiny, tmp_path, k, worst, more):
    """Whether it is there or not, as often as the server's windows fall to it: of 12 windows, or of
    every third."""
    run(tiny(cyclic(k, **{"learning.defenses": [CLIP, ONCE]}) | more), tmp_path)
    spends = pd.read_csv(tmp_path / "spends.csv")
    account = pd.read_csv(tmp_path / "privacy.csv")
    assert account["epsilon"].max() == pytest.approx(
        epsilon_of(1e-7, np.sqrt(2 * worst) / 2.0)
    )  # of two cells
    live = pd.read_csv(tmp_path / "rounds.csv")["epsilon_max"]
    assert live.iloc[-1] == pytest.approx(account["epsilon"].max())
    assert set(spends["relation"]) == {"zero-out"}
    assert len(spends.drop_duplicates(["ue", "model", "round"])) == len(spends)
    paid = set(zip(spends["round"], spends["ue"], strict=True))
    updates = pd.read_csv(tmp_path / "updates.csv")
    assert set(zip(updates["round"], updates["ue"], strict=True)) <= paid


@pytest.mark.parametrize("noise", [BANDED, ONCE])
def test_a_run_that_goes_on_draws_and_books_the_same_noise(tiny, tmp_path, table_bytes, noise):
    study = cyclic(2, **{"learning.defenses": [CLIP, noise]})
    run(tiny(study), tmp_path / "whole")
    run_in_two(tiny(study), tmp_path / "parts", lambda progress: progress.values["time_s"] >= 250)
    assert table_bytes(tmp_path / "parts") == table_bytes(tmp_path / "whole")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {
                "learning.participation": 0.4,
                "learning.aggregation": UNIFORM | {"participation": 0.4},
            },
            "not one over a whole number",
        ),
        (
            {"learning.participation": 1.0, "learning.aggregation": UNIFORM},
            "not one over a whole number",
        ),
        ({"learning.cohort_rounds": 2}, "take turns; leave it out"),
        ({"learning.server": {"kind": "synchronous", "deadline_s": 100}}, "lets windows pass"),
        (
            {"learning.defenses": [{"kind": "adaptive-clip", "relation": "add-remove"}, BANDED]},
            "adaptive-clip moves it",
        ),
    ],
)
def test_what_would_spoil_correlated_noise_is_refused(changes, line, tiny):
    with pytest.raises(BadInput, match=line):
        tiny(cyclic(2) | changes)


# -- noise in shares


@pytest.mark.parametrize(
    ("n", "m", "honest"),
    [(8, 8, 1.0), (32, 8, 1.0), (8, 8, 0.5), (20, 5, 0.8), (9, 5, 0.3), (4, 2, 0.1)],
)
def test_the_sum_has_the_noise_of_as_many_shares_as_come(n, m, honest):
    part = DistributedGaussian(noise_multiplier=2.0, honest_share=honest)
    sent, _, spends = part.protect(
        rows(n), NO_DATA, facts(least_opened=m), None, Streams(5).at("x")
    )
    total = sent.weighted_sum(np.ones(n), 1)[0]
    sure = {(5, 0.3): 1, (2, 0.1): 1}.get(
        (m, honest), m * honest
    )  # whole UEs, and the protected one at least
    assert total.std() == pytest.approx(2.0 * 0.5 * np.sqrt(n / sure), rel=0.03)
    # the least that a server which knows the noise of all others still meets: that of the honest
    # shares
    known = total - sent.weighted_sum(np.arange(n) >= sure, 1)[0]
    assert known.std() == pytest.approx(2.0 * 0.5, rel=0.03)
    assert sent.bound is None
    (spend,) = spends
    np.testing.assert_allclose(
        spend.cost(False), 1 / 4
    )  # of each UE, of the sum and not of its share
    assert (spend.relation, spend.sampling_rate) == ("zero-out", 1.0)


def account(folder):
    return pd.read_csv(folder / "privacy.csv").set_index("ue")["epsilon"]


def test_each_ue_pays_for_its_own_draws(tiny, tmp_path):
    run(tiny(sums()), tmp_path)
    updates = pd.read_csv(tmp_path / "updates.csv")
    drawn = updates.groupby("ue").size()
    for ue, epsilon in account(tmp_path).items():
        assert epsilon == pytest.approx(epsilon_of(1e-7, np.sqrt(drawn[ue]) / 2.0))


def test_a_sum_that_is_not_opened_is_spent_and_changes_nothing(tiny, tmp_path):
    few = {
        "learning.participation": 0.25,
        "learning.aggregation": UNIFORM | {"participation": 0.25},
    }
    run(tiny(sums(4) | few | {"learning.sampling": "poisson"}), tmp_path)
    updates = pd.read_csv(tmp_path / "updates.csv")
    recorded = pd.read_csv(tmp_path / "sums.csv")
    assert not recorded["opened"].any()
    assert len(updates)
    assert (updates["weight"] == 0).all()
    assert len(account(tmp_path)) == updates["ue"].nunique()


def test_every_model_of_a_sum_needs_its_shares(tiny, tmp_path):
    """Four UEs send, and fewer than three of them have data of the second cell: its sum stays
    closed."""
    run(tiny(sums() | {"world.ues.measure": "serving"}), tmp_path)
    updates = pd.read_csv(tmp_path / "updates.csv")
    for _, rows_ in updates.groupby(["round", "model"]):
        assert (rows_["weight"] > 0).all() == (len(rows_) >= 3)
        assert (rows_["weight"] > 0).any() == (len(rows_) >= 3)


def test_a_reader_of_models_meets_the_same_sums(tiny, tmp_path):
    run(tiny(sums()), tmp_path / "server")
    run(tiny(sums() | {"learning.threat.observes": "model"}), tmp_path / "reader")
    keys = ["round", "ue", "model", "weight"]
    both = [pd.read_csv(tmp_path / who / "updates.csv")[keys] for who in ("server", "reader")]
    pd.testing.assert_frame_equal(*both)


def test_a_sum_is_recorded_as_opened_only_where_one_of_its_models_is(tiny, tmp_path):
    run(tiny(sums() | {"world.ues.measure": "serving"}), tmp_path)
    updates = pd.read_csv(tmp_path / "updates.csv")
    recorded = pd.read_csv(tmp_path / "sums.csv")
    merged = updates.groupby(["round", "model"])["weight"].max() > 0
    assert recorded["opened"].astype(bool).tolist() == merged.tolist()


def test_coins_of_the_server_count_nothing_where_it_knows_who_takes_part(tiny, tmp_path):
    half = {"learning.participation": 0.9, "learning.aggregation": UNIFORM | {"participation": 0.9}}
    run(tiny(sums(2) | half | {"learning.sampling": "poisson"}), tmp_path)
    drawn = pd.read_csv(tmp_path / "updates.csv").groupby("ue").size()
    for ue, epsilon in account(tmp_path).items():
        assert epsilon == pytest.approx(epsilon_of(1e-7, np.sqrt(drawn[ue]) / 2.0))


def test_bits_of_an_adaptive_clip_are_in_the_sum(tiny, tmp_path, monkeypatch):
    observe = AdaptiveClip.observe
    told = []

    def seen(part, received, weights, at, state):
        told.append((received.updates.ue, state.bits))
        return observe(part, received, weights, at, state)

    monkeypatch.setattr(AdaptiveClip, "observe", seen)
    adaptive = {
        "kind": "adaptive-clip",
        "relation": "add-remove",
        "noise": "shares",
        "count_noise": 0.5,
    }
    run(
        tiny(sums() | {"world.ues.measure": "all", "learning.defenses": [adaptive, SHARES]}),
        tmp_path,
    )
    for ue, number in told:  # each model's sum has one of its own, and no noise is in two
        assert len(np.unique(number)) == len(ue) > len(np.unique(ue))
    spends = pd.read_csv(tmp_path / "spends.csv")
    assert (
        spends[spends["mechanism"] == "adaptive-clip"].groupby(["round", "ue"]).size() == 1
    ).all()
    bits = spends[spends["mechanism"] == "adaptive-clip"]
    assert (bits["ue"] >= 0).all()
    assert (bits["sensitivity"] == 1.0).all()
    assert (bits["std"] == 0.5).all()
    account = pd.read_csv(tmp_path / "privacy.csv")
    assert set(account["mechanism"]) == {"adaptive-clip", "distributed-gaussian", "all"}
    assert set(account["relation"]) == {"zero-out"}


def test_shared_bits_move_the_norm_by_those_that_came():
    part = AdaptiveClip(
        noise="shares", count_noise=1e-9, relation="add-remove", norm=1.0, learning_rate=1.0
    )
    values = np.array([[0.5], [2.0], [2.0], [0.1]])
    sent = DenseUpdates(np.arange(4), np.zeros(4, int), np.ones(4), values)
    _, state, _ = part.protect(
        sent, NO_DATA, facts(least_opened=2), part.start(4), Streams(1).at("x")
    )
    came = Received(sent, np.array([True, True, True, False]))
    after = part.observe(came, np.ones(4), facts(), state)
    assert after.norm == pytest.approx(np.exp(-(1 / 3 - 0.5)))
    assert (
        part.observe(Received(sent, np.zeros(4, bool)), np.ones(4), facts(), state).norm == 1.0
    )  # nothing opened


def test_of_two_sums_with_almost_the_same_ues_the_difference_shows_no_bit():
    """All that sums of two models tell, against the noise in them: the bit of a UE that is in one
    alone, and of others.

    Squared distance of the means by the covariance of all sums, over 1 / sigma_b^2, which is
    booked; at most 1.
    """
    n = 8
    sigma = 0.3
    most = 40_000
    part = AdaptiveClip(
        noise="shares", count_noise=sigma, relation="add-remove", norm=1.0, learning_rate=1e-6
    )
    # of model 1 one is missing
    ue = np.array([*range(n), *range(n - 1)])
    model = np.repeat([0, 1], [n, n - 1])
    order = np.lexsort([model, ue])
    ue = ue[order]
    model = model[order]

    def shown(moved, draws):
        values = np.where(ue == moved, 2.0, 0.5)[:, None] * np.ones(1)  # the bit of one UE is 0
        made = DenseUpdates(ue, model, np.ones(len(ue)), values)
        told = []
        for t in range(draws):
            _, state, _ = part.protect(
                made, NO_DATA, facts(least_opened=n - 1), part.start(n), Streams(1).at("x", t)
            )
            state = replace(
                state, bits=state.bits - 0.5 * (len(state.bits) == n)
            )  # by UE or by row: less 1/2 each
            if len(state.bits) == n:
                for_row = state.bits[ue]
            else:
                for_row = state.bits - 0.5
            told.append([for_row[model == m].sum() for m in (0, 1)])
        return np.array(told)

    still = shown(-1, most // 10)
    covariance = np.cov(still.T)
    for moved in (0, n - 1):
        away = shown(moved, 400).mean(axis=0) - still[:400].mean(axis=0)  # the same noise
        assert away @ np.linalg.solve(covariance, away) * sigma**2 <= 1.1


def test_a_bit_is_counted_once_with_the_first_model_of_its_ue():
    part = AdaptiveClip(
        noise="shares", count_noise=1e-9, relation="add-remove", norm=1.0, learning_rate=1.0
    )
    ue = np.array([0, 0, 1, 2, 2])
    model = np.array([0, 1, 1, 0, 1])
    sent = DenseUpdates(
        ue, model, np.ones(5), np.array([[0.5], [0.5], [2.0], [0.5], [2.0]])
    )  # bits 1, 0, 1/2
    _, state, (spend,) = part.protect(
        sent, NO_DATA, facts(least_opened=2), part.start(3), Streams(1).at("x")
    )
    assert spend.ue.tolist() == [0, 1, 2]
    for came, share in ((ue >= 0, 1.5 / 3), (model == 0, 1.5 / 2), (model == 1, 0.0)):
        after = part.observe(Received(sent, came), np.ones(5), facts(), state)
        assert after.norm == pytest.approx(np.exp(-(share - 0.5)))


def test_whole_updates_are_bounded_where_a_part_takes_their_norm(tiny):
    """A bound on the share of a record says nothing of the norm of an update, within which a ring
    rounds."""
    records = {"kind": "rsrp-net", "hidden": [6, 4], "activation": "tanh", "sample_clip": 1.0}
    study = sums() | {"learning.learner": records}
    claims = [
        {"kind": kind, "epsilon_system_total": 60.0, "rounds": 10, "sensitivity": sensitivity}
        for kind in ("uniform-dp", "arb", "lapa")
        for sensitivity in ("mean-clip", "paper")
    ]
    for noise in (RING, *claims, {"kind": "noise-switch", "noise": claims[0]}):
        for before in ([], [{"kind": "projection", "dimension": 20}]):
            with pytest.raises(
                BadInput, match=r"needs a bound on the whole update: .*norm.*; put a clip before it"
            ):
                tiny(study | {"learning.defenses": [*before, noise]})
        beside = study if noise is RING else study | {"learning.threat": {}}
        tiny(beside | {"learning.defenses": [{"kind": "clip"}, noise]})
    for noise in (SHARES, {"kind": "gaussian", "noise_multiplier": 1.0}):
        tiny(study | {"learning.defenses": [noise]})


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"learning.threat": {"observes": "aggregate"}}, "how many there are at least"),
        ({"learning.threat": {}}, "how many there are at least"),
        ({"learning.aggregation": {"kind": "fedavg"}}, "needs a fixed weight"),
        ({"learning.defenses": [SHARES]}, "needs a bound"),
        (
            {"learning.defenses": [CLIP, SHARES, {"kind": "quantise", "bits": 4}]},
            "put it before distributed-gaussian",
        ),
        (
            {"learning.defenses": [CLIP, SHARES, {"kind": "top-k", "share": 0.5}]},
            "put it before distributed-gaussian",
        ),
        (
            {"learning.server": {"kind": "synchronous", "merge_after_updates": 2}},
            "not opened; take more",
        ),
        (
            {
                "learning.defenses": [
                    {"kind": "adaptive-clip", "relation": "add-remove", "noise": "shares"}
                ]
            },
            "need shares on the updates",
        ),
        (
            {"learning.defenses": [CLIP, RING], "learning.threat": GROUPS},
            "one ring for all updates",
        ),
        (
            {
                "learning.defenses": [
                    {"kind": "adaptive-clip", "relation": "add-remove", "noise": "shares"},
                    RING,
                ]
            },
            "is no whole number",
        ),
    ],
)
def test_what_would_leave_a_sum_without_its_noise_is_refused(changes, line, tiny):
    with pytest.raises(BadInput, match=line):
        tiny(sums() | changes)


def chained(*defenses, **more):
    """A section `learning:` that was not checked, as if its defenses fitted together."""
    uniform = Uniform(clients=4)
    threat = Threat(observes="aggregate", secagg_threshold=2)
    whole = Learning(round_s=60, learner={"kind": "rsrp-net"}, aggregation=uniform, threat=threat)
    return Learning.model_construct(**whole.__dict__ | {"defenses": defenses} | more)


def test_a_clip_after_shares_takes_noise_away_along_the_update():
    """The sum of 200 UEs that agree has 0.22 c along their update in place of 0.70 c: 8.00 was
    booked for 30."""
    n = 200
    d = 51
    z = 0.7022
    c = 0.5
    delta = 1e-7
    clip = Clip(norm=c, relation="add-remove")
    shares = DistributedGaussian(noise_multiplier=z)
    one = np.zeros((n, d))
    one[:, 0] = c
    other = one * (np.arange(n) > 0)[:, None]  # of the first: zeros

    def played(defenses, values):
        states = {part.word: part.start(n) for part in defenses}
        along = []
        for t in range(200):
            made = DenseUpdates(np.arange(n), np.zeros(n, int), np.ones(n), values)
            at = RoundStreams(Streams(3), t)
            sent, spends = protected(
                chained(*defenses), made, NO_DATA, facts(least_opened=n), states, at
            )
            along.append(sent.values[:, 0].sum())
        return np.mean(along), np.std(along), spends

    def shown(*defenses):
        (mean, std, spends) = played(defenses, one)
        (without, _, _) = played(defenses, other)
        assert epsilon_of(delta, np.sqrt(spends[0].cost(False)[0])) == pytest.approx(8.0, abs=0.002)
        return std / c, epsilon_of(delta, (mean - without) / std)

    assert shown(clip, shares) == (pytest.approx(z, rel=0.1), pytest.approx(8.0, rel=0.12))
    std, epsilon = shown(clip, shares, clip.model_copy(update={"name": "again"}))
    assert std == pytest.approx(0.22, rel=0.1)
    assert epsilon > 25


@pytest.mark.parametrize("shared", [SHARES, RING], ids=lambda part: part["kind"])
def test_only_noise_may_follow_shares(shared, tiny):
    """Every part, with or without a bound: those that add nothing but noise lack one, which shares
    have taken away."""
    for kind, part in DEFENSES.parts.items():
        later = part.model_validate(part.example)
        last = DEFENSES.parts[shared["kind"]].model_validate(shared)
        alone = part.adds_noise_only
        assert alone == (kind in ("gaussian", "distributed-gaussian"))
        with pytest.raises(
            ValueError, match="needs a bound" if alone else f"put it before {shared['kind']}"
        ):
            chained(Clip(), last, later.model_copy(update={"name": "later"})).check()

    class Louder(Gaussian):
        needs = {}

    chained(Clip(), DistributedGaussian(noise_multiplier=1.0), Louder(noise_multiplier=1.0)).check()
    with pytest.raises(
        BadInput, match=r"defenses\[2\].*adaptive-clip may take away some of the noise"
    ):
        tiny(
            sums(
                **{
                    "learning.defenses": [
                        CLIP,
                        shared,
                        {"kind": "adaptive-clip", "relation": "add-remove"},
                    ]
                }
            )
        )


def test_stale_updates_do_not_weaken_shares(tiny):
    more = {"learning.server": {"kind": "fedbuff", "buffer": 3}, "world.radio.dynamic_uplink": {}}
    with pytest.raises(BadInput, match="staleness_exponent to 0"):
        tiny(sums() | more)
    tiny(
        sums()
        | more
        | {"learning.server": {"kind": "fedbuff", "buffer": 3, "staleness_exponent": 0}}
    )
    with pytest.raises(BadInput, match="merges 2 updates at a time"):
        tiny(
            sums()
            | more
            | {"learning.server": {"kind": "fedbuff", "buffer": 2, "staleness_exponent": 0}}
        )


def test_clip_and_its_relation_decide_the_neighbours():
    part = DistributedGaussian(noise_multiplier=1.0)
    clipped, _, _ = Clip(norm=0.5).protect(
        rows(3, 10), NO_DATA, facts(), Clip(norm=0.5).start(3), None
    )
    _, _, (spend,) = part.protect(clipped, NO_DATA, facts(least_opened=3), None, Streams(1).at("x"))
    assert spend.relation == "replace"
    assert spend.sensitivity.tolist() == [1.0] * 3


# -- in the ring of a secure sum


@pytest.mark.parametrize("d", [1, 2, 7, 64, 100, 1000])
def test_the_rotation_keeps_lengths_and_is_undone(d):
    draw = np.random.default_rng(d)
    x = draw.normal(size=(70, d))
    order = draw.permutation(d)
    sign = draw.choice([-1.0, 1.0], d)
    y = rotated(x, order, sign)
    np.testing.assert_allclose(np.linalg.norm(y, axis=1), np.linalg.norm(x, axis=1))
    np.testing.assert_allclose(rotated(y, order, sign, back=True), x, atol=1e-12)
    matrix_ = rotated(np.eye(d), order, sign)
    np.testing.assert_allclose(matrix_ @ matrix_.T, np.eye(d), atol=1e-12)


def ring_sum(n, m, bits, d=4096, z=2.0, seed=0, **more):
    """Sum of n updates of norm 0.5 in the ring, the exact sum, and the part and its state."""
    part = Skellam(noise_multiplier=z, bits=bits, **more)
    values = np.random.default_rng(seed).normal(size=(n, d))
    values *= 0.5 / np.linalg.norm(values, axis=1, keepdims=True)
    sent = DenseUpdates(
        np.arange(n), np.zeros(n, int), np.ones(n), values, bound=Bound(0.5, "user", "add-remove")
    )
    of = replace(facts(least_opened=m), weight=1 / n)
    got, state, spends = part.protect(sent, NO_DATA, of, part.start(n), Streams(seed).at("x"))
    total, state, _ = part.finish(got.weighted_sum(np.full(n, 1 / n), 1), n, of, state, None)
    return n * total[0], values.sum(axis=0), part, state, spends


@pytest.mark.parametrize(("n", "m"), [(20, 20), (40, 10)])
def test_with_enough_bits_the_ring_is_the_gaussian_sum(n, m):
    got, exact, _, state, _ = ring_sum(n, m, 20)
    assert state.wrapped_percent < 0.1
    assert (got - exact).std() == pytest.approx(2.0 * 0.5 * np.sqrt(n / m), rel=0.03)


def test_few_bits_cost_accuracy_and_a_small_ring_wraps():
    noise = [(lambda r: (r[0] - r[1]).std())(ring_sum(20, 20, bits)) for bits in (16, 8, 2)]
    assert noise[0] == pytest.approx(1.0, rel=0.03)
    assert noise[1] == pytest.approx(1.0, rel=0.05)
    assert noise[2] > 1.03 * noise[0]
    small = ring_sum(20, 20, 8, tail=0.5)
    # folded into half a deviation
    assert small[3].wrapped_percent > 10
    assert (small[0] - small[1]).std() < 1.0


def test_numbers_beyond_the_ring_wrap_by_its_size():
    part = Skellam(noise_multiplier=1.0, bits=4)
    order = np.arange(4)
    sign = np.ones(4)
    state = replace(part.start(1), order=order, sign=sign, grain=1.0)
    steps = np.array([[9.0, -9.0, 7.0, -8.0]])  # of 16 values, -8 to 7
    total = rotated(steps, order, sign, back=True)
    got, state, _ = part.finish(total, 1, replace(facts(), weight=1.0), state, None)
    np.testing.assert_allclose(rotated(got, order, sign), [[-7.0, 7.0, 7.0, -8.0]], atol=1e-9)
    assert state.wrapped_percent == 50.0


def test_no_rounded_update_is_longer_than_its_bound():
    _, _, part, state, (spend,) = ring_sum(20, 20, 10)
    values = np.zeros((50, 4096))
    values[:, 0] = 0.5
    sent = DenseUpdates(
        np.arange(50),
        np.zeros(50, int),
        np.ones(50),
        values,
        bound=Bound(0.5, "user", "add-remove"),
    )
    quiet = part.model_copy(update={"noise_multiplier": 1e-9})
    of = replace(facts(least_opened=20), weight=1 / 20)
    rows_, state, (spend,) = quiet.protect(sent, NO_DATA, of, quiet.start(50), Streams(3).at("x"))
    steps = rotated(rows_.values, state.order, state.sign) / state.grain
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-6)
    assert (np.linalg.norm(steps, axis=1) <= spend.sensitivity[0] * (1 + 1e-9)).all()


@pytest.mark.parametrize("bits", [12, 16, 20])
@pytest.mark.parametrize(("epsilon", "least"), [(8.0, 40), (8.0, 25), (1.0, 40)])
def test_the_least_multiplier_of_a_ring_is_what_its_account_takes(bits, epsilon, least):
    def cost(z):
        ring = Skellam(kind="skellam", noise_multiplier=z, bits=bits)
        sent = DenseUpdates(
            np.zeros(1, int),
            np.zeros(1, int),
            np.ones(1),
            np.zeros((1, 200)),
            "all",
            Bound(1.0, "user", "add-remove"),
        )
        of = replace(facts(least_opened=least), weight=1 / 40)
        _, _, (spend,) = ring.protect(sent, NO_DATA, of, ring.start(40), Streams(3).at("x"))
        return rdp.epsilon_of(
            28 * rdp.skellam(spend.std, spend.sensitivity, spend.l1_sensitivity), 1e-7
        )

    z = least_multiplier(epsilon, 1e-7, 28, 40, least, 200, bits)
    assert cost(z) <= epsilon < cost(0.999 * z)
    assert least_multiplier(epsilon, 1e-7, 28, 40, least, 200, 4) == np.inf


@pytest.mark.parametrize(("epsilon", "more"), [(8.0, 1.06), (3.0, 1.07), (1.0, 1.09)])
def test_a_ring_of_16_bits_costs_some_hundredths_more_than_gaussian_noise(epsilon, more):
    """28 rounds, 8,513 numbers: epsilon by Renyi costs over the exact one of Gaussian noise as
    large."""
    z = least_multiplier(epsilon, 1e-7, 28, 300, 300, 8513)
    assert epsilon / epsilon_of(1e-7, np.sqrt(28) / z) == pytest.approx(more, abs=0.01)


@pytest.mark.parametrize(("mean", "l2"), [(5.0, 1), (20.0, 2), (300.0, 7)])
def test_renyi_costs_of_skellam_noise_bound_those_of_a_convolution(mean, l2):
    """One number: P = Skellam + l2 against Q = Skellam, summed over all integers that matter."""
    from scipy.stats import skellam as law

    k = np.arange(-400, 401)
    log_p = law.logpmf(k - l2, mean / 2, mean / 2)
    log_q = law.logpmf(k, mean / 2, mean / 2)
    inside = np.isfinite(log_p) & np.isfinite(log_q)
    bound = rdp.skellam(np.array([np.sqrt(mean)]), np.array([float(l2)]), np.array([float(l2)]))
    for order in (1.5, 2, 4, 8, 16):
        at = np.flatnonzero(order == rdp.ORDERS)[0]
        exact = np.log(np.exp(order * log_p[inside] + (1 - order) * log_q[inside]).sum()) / (
            order - 1
        )
        assert exact <= bound[at] <= 2.0 * exact + 0.05


def test_skellam_costs_little_more_than_gaussian_noise(tiny, tmp_path):
    ring = {"kind": "skellam", "noise_multiplier": 2.0, "bits": 20}
    run(tiny(sums(**{"learning.defenses": [CLIP, ring]})), tmp_path / "ring")
    spends = pd.read_csv(tmp_path / "ring" / "spends.csv")
    account = pd.read_csv(tmp_path / "ring" / "privacy.csv")
    gaussian = epsilon_of(1e-7, np.sqrt(len(spends)) / 2.0)  # two models in two rounds
    assert account["accountant"].tolist() == ["RDP"]
    assert account["ue"].tolist() == [-1]
    assert gaussian < account["epsilon"][0] < 1.2 * gaussian
    np.testing.assert_allclose(spends["epsilon"].max(), account["epsilon"][0])


def test_an_upload_of_the_ring_has_its_bits(tiny, tmp_path):
    for bits in (8, 16):
        ring = {"kind": "skellam", "noise_multiplier": 2.0, "bits": bits}
        air = {"world.radio.uplink": {"kind": "oma", "decoding": "error-free"}}
        run(tiny(sums(**{"learning.defenses": [CLIP, ring]}) | air), tmp_path / str(bits))
    energy = [pd.read_csv(tmp_path / str(bits) / "links.csv")["energy_j"].sum() for bits in (8, 16)]
    assert energy[1] == pytest.approx(2 * energy[0])


def test_a_ring_is_no_place_for_noise_of_a_decoder(tiny):
    noisy = {"world.radio.uplink": {"kind": "oma", "decoding": "noisy"}}
    ring = {"learning.defenses": [CLIP, {"kind": "skellam", "noise_multiplier": 2.0}]}
    with pytest.raises(BadInput, match="set decoding: error-free"):
        tiny(sums(**ring) | noisy)
