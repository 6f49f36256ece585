"""Noise in shares under secure sums, and noise correlated over rounds: laws, accounts and what is
refused."""

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
import pytest
from fl_values import (
    build_context,
    build_local,
    build_updates,
    read_changes,
    read_rows,
    read_table,
)
from interrupted import run_in_two
from numpy.random import default_rng
from numpy.testing import assert_allclose
from pytest import approx, raises
from tabled import cases

from fl.aggregation import Uniform
from fl.attacks.threat import Threat
from fl.defenses import DEFENSES
from fl.defenses.clip import AdaptiveClip, Clip
from fl.defenses.gaussian import CentralGaussian, DistributedGaussian, Gaussian
from fl.defenses.skellam import Skellam, rotate_rows
from fl.privacy import rdp
from fl.privacy.banded import (
    colour_noise,
    compute_banded_sensitivity,
    compute_coefficients,
    compute_prefix_errors,
)
from fl.privacy.gaussian import compute_gaussian_epsilon
from fl.round.learn import protect_updates
from fl.round.learning import Learning
from fl.round.setup import RoundStreams
from fl.types import Bound, Public, Received
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Streams
from scenarios.app.result import run

parametrize = pytest.mark.parametrize

CLIP, SHARES, RING, ONCE, BANDED, ADAPTIVE = read_changes("""
- {kind: clip, norm: 0.5, relation: add-remove}
- {kind: distributed-gaussian, noise_multiplier: 2.0}
- {kind: skellam, noise_multiplier: 2.0}
- {kind: central-gaussian, noise_multiplier: 2.0}
- {kind: central-gaussian, noise_multiplier: 2.0, correlation: banded, bands: 3}
- {kind: adaptive-clip, relation: add-remove}
""")


def sums(threshold=3, defenses=(CLIP, SHARES), **changes):
    return {
        "learning.threat": {"observes": "aggregate", "secagg_threshold": threshold},
        "learning.attacks": [],
        "learning.aggregation": {"kind": "uniform", "clients": 4},
        "learning.defenses": list(defenses),
    } | changes


def take_part(share, sampling):
    """Changes by which this share of the UEs is asked in a round."""
    return {
        "learning.participation": share,
        "learning.sampling": sampling,
        "learning.aggregation": {"kind": "uniform", "clients": 4, "participation": share},
    }


def matrix(rounds, bands):
    c = compute_coefficients(bands)
    return sum(np.diag(np.full(rounds - j, c[j]), -j) for j in range(min(bands, rounds)))


def test_noise_on_each_number_is_that_of_its_ue_however_many_rows_are_drawn_at_once():
    # three rows at a time
    draw = default_rng(0)
    n = 7
    d = 300_001
    ue = draw.permutation(n)
    std = draw.uniform(0, 2, n)
    sent = build_updates(draw.normal(size=(n, d)), ue, bound=Bound(1.0, "user", "replace"))
    before = sent.values.copy()
    result = sent.add_noise(std, "noise", Streams(5).derive_rng("x"))
    for k in range(n):
        alone = Streams(5).derive_rng("x").normal("noise", sent.row[k : k + 1], (d,))[0]
        expected = before[k] + std[k] * alone
        assert (result.values[k] == expected).all()
    assert result.bound is None
    assert (sent.values == before).all()


def test_whole_numbers_stay_whole_until_something_makes_them_fractions():
    """What a ring sends, and what an eavesdropper hears of it."""
    sent = build_updates(np.array([[1, 2], [3, 5]]))
    rng = Streams(5).derive_rng("x")
    noisy = sent.add_noise(np.array([0.0, 2.0]), "decoder", rng).values
    assert (noisy == sent.values + [[0], [2]] * rng.normal("decoder", sent.row, (2,))).all()
    kept = sent.scale_rows(np.array([0.0, 1.0]), None).values
    assert kept.dtype == sent.values.dtype
    assert kept.tolist() == [[0, 0], [3, 5]]
    halved = sent.scale_rows(np.array([0.5, 1.0]), None).values
    assert halved.tolist() == [[0.5, 1.0], [3.0, 5.0]]


# -- noise correlated over rounds


@parametrize(
    ("rounds", "separation", "bands", "moved", "rms", "largest"),
    read_rows("""
    28  7  1  2.000000 7.615773  10.583005
    28  7  3  2.358495 5.145715  6.915802
    28  7  7  2.588050 4.212777  5.317182
    112 7  1  4.0      30.066593 None
    112 7  3  None     19.279436 None
    112 7  7  None     14.207585 None
    365 30 1  None     48.774994 None
    365 30 15 None     16.442025 None
    365 30 30 None     13.107118 None
    28  28 1  None     3.807887  None
    28  28 14 None     1.962576  None
    28  28 28 None     1.970291  None
    """),
)
def test_errors_of_banded_noise_are_those_of_a_dense_computation(
    rounds, separation, bands, moved, rms, largest
):
    result = compute_prefix_errors(rounds, bands, separation)
    assert result[0] == approx(rms, abs=1e-6)
    assert largest is None or result[1] == approx(largest, abs=1e-6)
    assert moved is None or compute_banded_sensitivity(rounds, bands, separation) == approx(
        moved, abs=1e-6
    )
    c = matrix(rounds, bands)
    b = np.tril(np.ones((rounds, rounds))) @ np.linalg.inv(c)
    dense = np.linalg.norm(b, axis=1) * compute_banded_sensitivity(rounds, bands, separation)
    assert result == approx((np.sqrt((dense**2).mean()), dense.max()))


@parametrize("rounds", [1, 2, 5, 9, 12])
@parametrize("bands", [1, 2, 3, 5, 12])
@parametrize("separation", [1, 2, 3, 4])
def test_no_pattern_of_participation_moves_more_than_the_sensitivity(rounds, bands, separation):
    """All subsets of the rounds of one cohort; and, where columns of a user are apart, all rounds
    that are apart."""
    c = matrix(rounds, bands)
    largest = 0.0
    for k in range(1, rounds + 1):
        for pattern in combinations(range(rounds), k):
            apart = all(b - a >= separation for a, b in pairwise(pattern))
            is_cohort = len({t % separation for t in pattern}) == 1
            if is_cohort or (apart and bands <= separation):
                largest = max(largest, np.linalg.norm(c[:, pattern].sum(axis=1)))
    assert compute_banded_sensitivity(rounds, bands, separation) == approx(largest)


@parametrize("bands", [1, 2, 4, 30])
def test_rows_of_noise_are_those_of_the_inverse(bands):
    z = default_rng(1).normal(size=(12, 3, 5))
    past = np.zeros((0, 3, 5))
    rows = []
    for white in z:
        row, past = colour_noise(white, past)
        past = past[: bands - 1]
        rows.append(row)
    dense = np.linalg.solve(matrix(12, bands), z.reshape(12, -1))
    assert_allclose(np.reshape(rows, (12, -1)), dense, atol=1e-12)


def facts(**changes):
    area = Area(0.0, 0.0, 100.0, 100.0)
    return build_context(Public(area, 1), weight=0.1, **changes)


BOUND = Bound(0.5, "user", "add-remove")


def rows(n, d=20_000):
    return build_updates(np.zeros((n, d)), bound=BOUND)


NO_DATA = build_local()


def protect(part, updates, context, seed=1):
    """What a part makes of updates in its first round: updates, state, spends."""
    rng = Streams(seed).derive_rng("x")
    return part.protect(updates, NO_DATA, context, part.start(updates.ue.max() + 1), rng)


def test_banded_noise_of_a_run_has_the_covariance_of_the_inverse():
    part = CentralGaussian(noise_multiplier=2.0, correlation="banded", bands=3)
    drawn = []
    state = part.start(4)
    spends = []
    for t in range(1, 7):
        updates = rows(4)
        context = facts(rounds=6, separation=2)
        _, state, _ = part.protect(updates, NO_DATA, context, state, None)
        total = np.zeros((1, 20_000))
        rng = Streams(t).derive_rng("noise")
        noise, state, spent = part.finish(total, 4, context, state, rng)
        drawn.append(noise[0])
        spends += spent
    inverse = np.linalg.inv(matrix(6, 3))
    std = 2.0 * 0.5 * 0.1 * compute_banded_sensitivity(6, 3, 2)
    expected = std**2 * inverse @ inverse.T
    assert_allclose(np.cov(drawn), expected, atol=0.05 * std**2)
    assert len(spends) == 1  # one release of multiplier 2, whatever the number of rounds
    assert spends[0].compute_cost(False) == approx([1 / 4])
    assert spends[0].relation == "zero-out"  # one more UE would move others to other cohorts


@parametrize("separation", [1, 3])
def test_where_ues_take_turns_neighbours_take_part_alike(separation):
    context = facts(separation=separation)
    gaussian = CentralGaussian(noise_multiplier=1.0)
    clip = AdaptiveClip(relation="add-remove")
    for part in (gaussian, clip):
        _, state, _ = protect(part, rows(4), context)
        total = np.zeros((1, 3))
        rng = Streams(0).derive_rng("noise")
        spent = part.finish(total, 4, context, state, rng)[2]
        assert [s.relation for s in spent] == ["zero-out" if separation > 1 else "add-remove"]


@parametrize("wrong", [{"correlation": "banded"}, {"bands": 3}])
def test_bands_and_correlation_need_each_other(wrong):
    with raises(ValueError, match="banded and bands need each other"):
        CentralGaussian(noise_multiplier=1.0, **wrong)


def cyclic(k, noise=BANDED):
    return take_part(1 / k, "cyclic") | {
        "world.duration_s": 720,
        "learning.defenses": [CLIP, noise],
        "learning.attacks": [],
    }


def test_cohorts_take_turns_and_the_run_is_one_release(tiny, tmp_path):
    run(tiny(cyclic(4)), tmp_path)
    sent = read_table(tmp_path, "updates").groupby("ue")["round"].unique()
    assert sorted({rounds[0] for rounds in sent}) == [1, 2, 3, 4]
    assert all((np.diff(rounds) == 4).all() and len(rounds) == 3 for rounds in sent)
    account = read_table(tmp_path, "privacy")
    models = 2  # of two cells, with the noise of each
    expected = [compute_gaussian_epsilon(1e-7, np.sqrt(models) / 2.0)]
    assert account["epsilon"].tolist() == approx(expected)


@parametrize(
    ("k", "worst", "changes"),
    cases("""
    4, 3, {}
    5, 3, {}
    4, 1, {"learning.rounds": 3}
    2, 2, {"learning.server": {"kind": "synchronous", "deadline_s": 170}}
    4, 3, {"learning.availability": {"kind": "charging", "from_hour": 0.05,
      "from_spread_hours": 0.1}}
    """),
)
def test_without_bands_each_ue_pays_for_the_rounds_of_its_cohort(tiny, tmp_path, k, worst, changes):
    """Whether it is there or not, as often as the server's windows fall to it: of 12 windows, or of
    every third."""
    run(tiny(cyclic(k, ONCE) | changes), tmp_path)
    spends = read_table(tmp_path, "spends")
    expected = compute_gaussian_epsilon(1e-7, np.sqrt(2 * worst) / 2.0)  # of two cells
    assert read_table(tmp_path, "privacy")["epsilon"].max() == approx(expected)
    assert read_table(tmp_path, "rounds")["epsilon_max"].iloc[-1] == approx(expected)
    assert set(spends["relation"]) == {"zero-out"}
    assert len(spends.drop_duplicates(["ue", "model", "round"])) == len(spends)
    paid = set(zip(spends["round"], spends["ue"], strict=True))
    updates = read_table(tmp_path, "updates")
    assert set(zip(updates["round"], updates["ue"], strict=True)) <= paid


@parametrize("noise", [BANDED, ONCE])
def test_a_run_that_goes_on_draws_and_books_the_same_noise(tiny, tmp_path, table_bytes, noise):
    study = tiny(cyclic(2, noise))
    run(study, tmp_path / "whole")
    run_in_two(study, tmp_path / "parts", lambda progress: progress.values["time_s"] >= 250)
    assert table_bytes(tmp_path / "parts") == table_bytes(tmp_path / "whole")


@parametrize(
    ("changes", "line"),
    [
        (take_part(0.4, "cyclic"), "not one over a whole number"),
        (take_part(1.0, "cyclic"), "not one over a whole number"),
        ({"learning.cohort_rounds": 2}, "take turns; leave it out"),
        ({"learning.server": {"kind": "synchronous", "deadline_s": 100}}, "lets windows pass"),
        ({"learning.defenses": [ADAPTIVE, BANDED]}, "adaptive-clip moves it"),
    ],
)
def test_what_would_spoil_correlated_noise_is_refused(changes, line, tiny):
    with raises(BadInput, match=line):
        tiny(cyclic(2) | changes)


# -- noise in shares


@parametrize(
    ("n", "m", "honest", "sure"),
    read_rows("""
    8  8 1.0 8
    32 8 1.0 8
    8  8 0.5 4
    20 5 0.8 4
    9  5 0.3 1
    4  2 0.1 1
    """),
)
def test_the_sum_has_the_noise_of_as_many_shares_as_come(n, m, honest, sure):
    """Of m UEs so many are sure to be honest: whole ones, and the protected one at least."""
    part = DistributedGaussian(noise_multiplier=2.0, honest_share=honest)
    sent, _, (spend,) = protect(part, rows(n), facts(least_opened=m), seed=5)
    total = sent.sum_weighted(np.ones(n), 1)[0]
    assert total.std() == approx(2.0 * 0.5 * np.sqrt(n / sure), rel=0.03)
    # the least that a server which knows the noise of all others still meets: that of the honest
    # shares
    remaining = total - sent.sum_weighted(np.arange(n) >= sure, 1)[0]
    assert remaining.std() == approx(2.0 * 0.5, rel=0.03)
    assert sent.bound is None
    assert_allclose(spend.compute_cost(False), 1 / 4)  # of each UE, of the sum and not of its share
    assert (spend.relation, spend.sampling_rate) == ("zero-out", 1.0)


def account(folder):
    return read_table(folder, "privacy").set_index("ue")["epsilon"]


@parametrize("study", [sums(), sums(2) | take_part(0.9, "poisson")], ids=["all", "coins"])
def test_each_ue_pays_for_its_own_draws(tiny, tmp_path, study):
    """Coins of the server count nothing, where it knows who takes part."""
    run(tiny(study), tmp_path)
    drawn = read_table(tmp_path, "updates").groupby("ue").size()
    for ue, epsilon in account(tmp_path).items():
        assert epsilon == approx(compute_gaussian_epsilon(1e-7, np.sqrt(drawn[ue]) / 2.0))


def test_a_sum_that_is_not_opened_is_spent_and_changes_nothing(tiny, tmp_path):
    run(tiny(sums(4) | take_part(0.25, "poisson")), tmp_path)
    updates = read_table(tmp_path, "updates")
    recorded = read_table(tmp_path, "sums")
    assert not recorded["opened"].any()
    assert len(updates)
    assert (updates["weight"] == 0).all()
    assert len(account(tmp_path)) == updates["ue"].nunique()


def test_every_model_of_a_sum_needs_its_shares(tiny, tmp_path):
    """Four UEs send, and fewer than three of them have data of the second cell: its sum stays
    closed, and is recorded so."""
    run(tiny(sums() | {"world.ues.measure": "serving"}), tmp_path)
    by_sum = read_table(tmp_path, "updates").groupby(["round", "model"])
    opened = by_sum.size() >= 3
    weight = by_sum["weight"]
    assert ((weight.min() > 0) == opened).all()
    assert ((weight.max() > 0) == opened).all()
    recorded = read_table(tmp_path, "sums")["opened"].astype(bool)
    assert recorded.tolist() == opened.tolist()


def test_a_reader_of_models_meets_the_same_sums(tiny, tmp_path):
    run(tiny(sums()), tmp_path / "server")
    run(tiny(sums() | {"learning.threat.observes": "model"}), tmp_path / "reader")
    keys = ["round", "ue", "model", "weight"]
    both = [read_table(tmp_path / reader, "updates")[keys] for reader in ("server", "reader")]
    pd.testing.assert_frame_equal(*both)


def test_bits_of_an_adaptive_clip_are_in_the_sum(tiny, tmp_path, monkeypatch):
    observe = AdaptiveClip.observe
    bits_of_call = []

    def see_bits(part, received, weights, context, state):
        bits_of_call.append((received.updates.ue, state.bits))
        return observe(part, received, weights, context, state)

    monkeypatch.setattr(AdaptiveClip, "observe", see_bits)
    bits = ADAPTIVE | {"noise": "shares", "count_noise": 0.5}
    run(tiny(sums(defenses=[bits, SHARES]) | {"world.ues.measure": "all"}), tmp_path)
    for ue, number in bits_of_call:  # each model's sum has one of its own, and no noise is in two
        assert len(np.unique(number)) == len(ue) > len(np.unique(ue))
    booked = read_table(tmp_path, "spends").query("mechanism == 'adaptive-clip'")
    assert not booked.duplicated(["round", "ue"]).any()
    assert (booked["ue"] >= 0).all()
    assert (booked[["sensitivity", "std"]] == [1.0, 0.5]).all(axis=None)
    account = read_table(tmp_path, "privacy")
    assert set(account["mechanism"]) == {"adaptive-clip", "distributed-gaussian", "all"}
    assert set(account["relation"]) == {"zero-out"}


def share_bits(count_noise=1e-9, learning_rate=1.0):
    return AdaptiveClip(
        noise="shares",
        count_noise=count_noise,
        relation="add-remove",
        norm=1.0,
        learning_rate=learning_rate,
    )


def test_shared_bits_move_the_norm_by_those_that_came():
    part = share_bits()
    sent = build_updates(np.array([[0.5], [2.0], [2.0], [0.1]]))
    _, state, _ = protect(part, sent, facts(least_opened=2))
    # the second time nothing is opened
    for n, norm in ((3, np.exp(-(1 / 3 - 0.5))), (0, 1.0)):
        arrived = Received(sent, np.arange(4) < n)
        assert part.observe(arrived, np.ones(4), facts(), state).norm == approx(norm)


def test_of_two_sums_with_almost_the_same_ues_the_difference_shows_no_bit():
    """All that sums of two models tell, against the noise in them: the bit of a UE that is in one
    alone, and of others.

    Squared distance of the means by the covariance of all sums, over 1 / sigma_b^2, which is
    booked; at most 1.
    """
    n = 8
    sigma = 0.3
    largest = 40_000
    part = share_bits(sigma, learning_rate=1e-6)
    # of model 1 one is missing
    ue = np.array([*range(n), *range(n - 1)])
    model = np.repeat([0, 1], [n, n - 1])
    order = np.lexsort([model, ue])
    ue = ue[order]
    model = model[order]

    def show_sums(moved, draws):
        values = np.where(ue == moved, 2.0, 0.5)[:, None] * np.ones(1)  # the bit of one UE is 0
        updates = build_updates(values, ue, model)
        bits_of_call = []
        for t in range(draws):
            context = facts(least_opened=n - 1)
            start = part.start(n)
            rng = Streams(1).derive_rng("x", t)
            _, state, _ = part.protect(updates, NO_DATA, context, start, rng)
            bits = state.bits - 0.5  # by UE or by row: less 1/2 each
            for_row = bits[ue] if len(bits) == n else bits
            bits_of_call.append([for_row[model == m].sum() for m in (0, 1)])
        return np.array(bits_of_call)

    still = show_sums(-1, largest // 10)
    covariance = np.cov(still.T)
    for moved in (0, n - 1):
        away = show_sums(moved, 400).mean(axis=0) - still[:400].mean(axis=0)  # the same noise
        assert away @ np.linalg.solve(covariance, away) * sigma**2 <= 1.1


def test_a_bit_is_counted_once_with_the_first_model_of_its_ue():
    part = share_bits()
    ue = np.array([0, 0, 1, 2, 2])
    model = np.array([0, 1, 1, 0, 1])
    sent = build_updates(np.array([[0.5], [0.5], [2.0], [0.5], [2.0]]), ue, model)  # bits 1, 0, 1/2
    _, state, (spend,) = protect(part, sent, facts(least_opened=2))
    assert spend.ue.tolist() == [0, 1, 2]
    for arrived, share in ((ue >= 0, 1.5 / 3), (model == 0, 1.5 / 2), (model == 1, 0.0)):
        after = part.observe(Received(sent, arrived), np.ones(5), facts(), state)
        assert after.norm == approx(np.exp(-(share - 0.5)))


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
            with raises(BadInput, match="needs a bound on the whole update"):
                tiny(study | {"learning.defenses": [*before, noise]})
        accepted = study if noise is RING else study | {"learning.threat": {}}
        tiny(accepted | {"learning.defenses": [{"kind": "clip"}, noise]})
    for noise in (SHARES, {"kind": "gaussian", "noise_multiplier": 1.0}):
        tiny(study | {"learning.defenses": [noise]})


@parametrize(
    ("changes", "line"),
    read_changes("""
    - [{learning.threat: {observes: aggregate}}, how many there are at least]
    - [{learning.threat: {}}, how many there are at least]
    - [{learning.aggregation: {kind: fedavg}}, needs a fixed weight]
    - [{learning.defenses: [&shares {kind: distributed-gaussian, noise_multiplier: 2.0}]},
       needs a bound]
    - [{learning.defenses: [&clip {kind: clip, norm: 0.5, relation: add-remove}, *shares,
        {kind: quantise, bits: 4}]}, put it before distributed-gaussian]
    - [{learning.defenses: [*clip, *shares, {kind: top-k, share: 0.5}]},
       put it before distributed-gaussian]
    - [{learning.server: {kind: synchronous, merge_after_updates: 2}}, not opened; take more]
    - [{learning.defenses: [&bits {kind: adaptive-clip, relation: add-remove, noise: shares}]},
       need shares on the updates]
    - [{learning.defenses: [*bits, &ring {kind: skellam, noise_multiplier: 2.0}]},
       is no whole number]
    - [{learning.defenses: [*clip, *ring],
        learning.threat: {observes: aggregate, secagg_threshold: 2, secagg_group_size: 2}},
       one ring for all updates]
    """),
)
def test_what_would_leave_a_sum_without_its_noise_is_refused(changes, line, tiny):
    with raises(BadInput, match=line):
        tiny(sums() | changes)


def chain_defenses(*defenses, **changes):
    """A section `learning:` that was not checked, as if its defenses fitted together."""
    uniform = Uniform(clients=4)
    threat = Threat(observes="aggregate", secagg_threshold=2)
    whole = Learning(round_s=60, learner={"kind": "rsrp-net"}, aggregation=uniform, threat=threat)
    return Learning.model_construct(**whole.__dict__ | {"defenses": defenses} | changes)


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
    is_cohort = np.zeros((n, d))
    is_cohort[:, 0] = c
    without_first = is_cohort * (np.arange(n) > 0)[:, None]  # of the first: zeros

    def play_rounds(defenses, values):
        states = {part.word: part.start(n) for part in defenses}
        along = []
        for t in range(200):
            updates = build_updates(values)
            context = RoundStreams(Streams(3), t)
            sent, spends = protect_updates(
                chain_defenses(*defenses), updates, NO_DATA, facts(least_opened=n), states, context
            )
            along.append(sent.values[:, 0].sum())
        return np.mean(along), np.std(along), spends

    def show_noise(*defenses):
        (mean, std, spends) = play_rounds(defenses, is_cohort)
        (without, _, _) = play_rounds(defenses, without_first)
        result = compute_gaussian_epsilon(delta, np.sqrt(spends[0].compute_cost(False)[0]))
        assert result == approx(8.0, abs=0.002)
        return std / c, compute_gaussian_epsilon(delta, (mean - without) / std)

    assert show_noise(clip, shares) == (approx(z, rel=0.1), approx(8.0, rel=0.12))
    std, epsilon = show_noise(clip, shares, clip.model_copy(update={"name": "again"}))
    assert std == approx(0.22, rel=0.1)
    assert epsilon > 25


@parametrize("shared", [SHARES, RING], ids=lambda part: part["kind"])
def test_only_noise_may_follow_shares(shared, tiny):
    """Every part, with or without a bound: those that add nothing but noise lack one, which shares
    have taken away."""
    for kind, part in DEFENSES.parts.items():
        later = part.model_validate(part.example)
        last = DEFENSES.parts[shared["kind"]].model_validate(shared)
        alone = part.adds_noise_only
        assert alone == (kind in ("gaussian", "distributed-gaussian"))
        with raises(
            ValueError, match="needs a bound" if alone else f"put it before {shared['kind']}"
        ):
            chain_defenses(Clip(), last, later.model_copy(update={"name": "later"})).check()

    class Louder(Gaussian):
        needs = {}

    chain_defenses(
        Clip(), DistributedGaussian(noise_multiplier=1.0), Louder(noise_multiplier=1.0)
    ).check()
    with raises(BadInput, match=r"defenses\[2\].*adaptive-clip may take away some of the noise"):
        tiny(sums(defenses=[CLIP, shared, ADAPTIVE]))


def test_stale_updates_do_not_weaken_shares(tiny):
    def buffer(n, **server):
        server = {"kind": "fedbuff", "buffer": n, **server}
        return tiny(sums() | {"learning.server": server, "world.radio.dynamic_uplink": {}})

    with raises(BadInput, match="staleness_exponent to 0"):
        buffer(3)
    buffer(3, staleness_exponent=0)
    with raises(BadInput, match="merges 2 updates at a time"):
        buffer(2, staleness_exponent=0)


def test_clip_and_its_relation_decide_the_neighbours():
    part = DistributedGaussian(noise_multiplier=1.0)
    clipped, _, _ = protect(Clip(norm=0.5), rows(3, 10), facts())
    _, _, (spend,) = protect(part, clipped, facts(least_opened=3))
    assert spend.relation == "replace"
    assert spend.sensitivity.tolist() == [1.0] * 3


# -- in the ring of a secure sum


@parametrize("d", [1, 2, 7, 64, 100, 1000])
def test_the_rotation_keeps_lengths_and_is_undone(d):
    draw = default_rng(d)
    x = draw.normal(size=(70, d))
    order = draw.permutation(d)
    sign = draw.choice([-1.0, 1.0], d)
    y = rotate_rows(x, order, sign)
    expected = np.linalg.norm(x, axis=1)
    assert_allclose(np.linalg.norm(y, axis=1), expected)
    assert_allclose(rotate_rows(y, order, sign, is_inverse=True), x, atol=1e-12)
    rotation = rotate_rows(np.eye(d), order, sign)
    assert_allclose(rotation @ rotation.T, np.eye(d), atol=1e-12)


def ring_sum(n, m, bits, d=4096, z=2.0, seed=0, **changes):
    """Sum of n updates of norm 0.5 in the ring, the exact sum, and the part and its state."""
    part = Skellam(noise_multiplier=z, bits=bits, **changes)
    values = default_rng(seed).normal(size=(n, d))
    values *= 0.5 / np.linalg.norm(values, axis=1, keepdims=True)
    sent = build_updates(values, bound=BOUND)
    context = replace(facts(least_opened=m), weight=1 / n)
    got, state, spends = protect(part, sent, context, seed)
    total, state, _ = part.finish(got.sum_weighted(np.full(n, 1 / n), 1), n, context, state, None)
    return n * total[0], values.sum(axis=0), part, state, spends


@parametrize(("n", "m"), [(20, 20), (40, 10)])
def test_with_enough_bits_the_ring_is_the_gaussian_sum(n, m):
    got, exact, _, state, _ = ring_sum(n, m, 20)
    assert state.figures["wrapped_percent"] < 0.1
    expected = 2.0 * 0.5 * np.sqrt(n / m)
    assert (got - exact).std() == approx(expected, rel=0.03)


def test_few_bits_cost_accuracy_and_a_small_ring_wraps():
    def measure_noise(bits, **options):
        got, exact, _, state, _ = ring_sum(20, 20, bits, **options)
        return (got - exact).std(), state.figures["wrapped_percent"]

    noise = [measure_noise(bits)[0] for bits in (16, 8, 2)]
    assert noise[0] == approx(1.0, rel=0.03)
    assert noise[1] == approx(1.0, rel=0.05)
    assert noise[2] > 1.03 * noise[0]
    std, wrapped_percent = measure_noise(8, tail=0.5)  # folded into half a deviation
    assert wrapped_percent > 10
    assert std < 1.0


def test_numbers_beyond_the_ring_wrap_by_its_size():
    part = Skellam(noise_multiplier=1.0, bits=4)
    order = np.arange(4)
    sign = np.ones(4)
    state = replace(part.start(1), order=order, sign=sign, grain=1.0)
    steps = np.array([[9.0, -9.0, 7.0, -8.0]])  # of 16 values, -8 to 7
    total = rotate_rows(steps, order, sign, is_inverse=True)
    got, state, _ = part.finish(total, 1, replace(facts(), weight=1.0), state, None)
    expected = [[-7.0, 7.0, 7.0, -8.0]]
    assert_allclose(rotate_rows(got, order, sign), expected, atol=1e-9)
    assert state.figures["wrapped_percent"] == 50.0


def test_no_rounded_update_is_longer_than_its_bound():
    values = np.zeros((50, 4096))
    values[:, 0] = 0.5
    quiet = Skellam(noise_multiplier=1e-9, bits=10)
    context = replace(facts(least_opened=20), weight=1 / 20)
    rounded, state, (spend,) = protect(quiet, build_updates(values, bound=BOUND), context, seed=3)
    steps = rotate_rows(rounded.values, state.order, state.sign) / state.grain
    assert_allclose(steps, np.rint(steps), atol=1e-6)
    limit = spend.sensitivity[0] * (1 + 1e-9)
    assert (np.linalg.norm(steps, axis=1) <= limit).all()


@parametrize(("z", "epsilon", "changes"), [(3.9055, 8, 1.06), (9.4562, 3, 1.07), (26.685, 1, 1.09)])
def test_a_ring_of_16_bits_costs_some_hundredths_more_than_gaussian_noise(z, epsilon, changes):
    """28 rounds, 300 UEs, 8,513 numbers: epsilon by Renyi costs over the exact one of Gaussian
    noise as large."""
    ring = Skellam(kind="skellam", noise_multiplier=z)
    sent = build_updates(np.zeros((1, 8513)), bound=replace(BOUND, norm=1.0))
    context = replace(facts(least_opened=300), weight=1 / 300)
    _, _, (spend,) = protect(ring, sent, context)
    costs = rdp.compute_skellam_cost(spend.std, spend.sensitivity, spend.l1_sensitivity)
    spent = rdp.compute_renyi_epsilon(28 * costs, 1e-7)
    assert_allclose(spent, epsilon, rtol=1e-4)
    assert_allclose(spent / compute_gaussian_epsilon(1e-7, np.sqrt(28) / z), changes, atol=0.01)


@parametrize(("mean", "l2"), [(5.0, 1), (20.0, 2), (300.0, 7)])
def test_renyi_costs_of_skellam_noise_bound_those_of_a_convolution(mean, l2):
    """One number: P = Skellam + l2 against Q = Skellam, summed over all integers that matter."""
    from scipy.stats import skellam as law

    k = np.arange(-400, 401)
    log_p = law.logpmf(k - l2, mean / 2, mean / 2)
    log_q = law.logpmf(k, mean / 2, mean / 2)
    inside = np.isfinite(log_p) & np.isfinite(log_q)
    distance = np.array([float(l2)])
    bound = rdp.compute_skellam_cost(np.array([np.sqrt(mean)]), distance, distance)
    for order in (1.5, 2, 4, 8, 16):
        moment = np.exp(order * log_p[inside] + (1 - order) * log_q[inside]).sum()
        exact = np.log(moment) / (order - 1)
        assert exact <= bound[order == rdp.ORDERS][0] <= 2.0 * exact + 0.05


def test_skellam_costs_little_more_than_gaussian_noise(tiny, tmp_path):
    run(tiny(sums(defenses=[CLIP, RING | {"bits": 20}])), tmp_path)
    spends = read_table(tmp_path, "spends")  # two models in two rounds
    account = read_table(tmp_path, "privacy")
    gaussian = compute_gaussian_epsilon(1e-7, np.sqrt(len(spends)) / 2.0)
    assert account["accountant"].tolist() == ["RDP"]
    assert account["ue"].tolist() == [-1]
    assert gaussian < account["epsilon"][0] < 1.2 * gaussian
    assert_allclose(spends["epsilon"].max(), account["epsilon"][0])


def test_an_upload_of_the_ring_has_its_bits(tiny, tmp_path):
    energy_j = []
    air = {"world.radio.uplink": {"kind": "oma", "decoding": "error-free"}}
    for bits in (8, 16):
        folder = tmp_path / str(bits)
        run(tiny(sums(defenses=[CLIP, RING | {"bits": bits}]) | air), folder)
        energy_j.append(read_table(folder, "links")["energy_j"].sum())
    assert energy_j[1] == approx(2 * energy_j[0])


def test_a_ring_is_no_place_for_noise_of_a_decoder(tiny):
    noisy = {"world.radio.uplink": {"kind": "oma", "decoding": "noisy"}}
    with raises(BadInput, match="set decoding: error-free"):
        tiny(sums(defenses=[CLIP, RING]) | noisy)
