"""Linking of names: costs and assignment, fingerprints, measures beside chance, unicity, and the
attack re-identify."""

import itertools
import json
from dataclasses import replace
from math import log

import numpy as np
import pandas as pd
import pytest
from interrupted import run_in_two
from linked import AREA, RNG, play
from scipy.stats import norm
from thinned import one_in

from fl.attacks.link_maps import LinkMaps, MapTracks
from fl.leakage.linking import Linking, chance_share, observe, unicity
from fl.leakage.tracks import Whereabouts as Truth
from fl.tracking import linking
from fl.tracking.error_model import ErrorModel
from fl.tracking.fingerprint import DIRECTION, Clues, KeptTracks, Prints
from fl.tracking.linking import Book, Linker, NameLinks, Predicted
from fl.tracking.pseudonyms import Names, PerRound, asked
from fl.types import Public, RoundContext
from netsim.geometry import Area
from scenarios.app.result import run
from scenarios.app.study.load import load

A = 1e8
# of motion in one round
WEIGHT = np.array([0.6, 0.3, 0.1])
STEP_M2 = np.array([0.0, 300.0, 2000.0]) ** 2


def gaussian(away_m, var_m2):
    """N(away; 0, var I) in the plane."""
    return np.exp(-(np.asarray(away_m) ** 2).sum(axis=-1) / (2 * var_m2)) / (2 * np.pi * var_m2)


class TestLaw:
    def test_density_is_a_mixture_over_motions_and_outliers(self):
        at = Predicted(np.array([[1000.0, 2000.0]]), 50.0**2 + 2 * STEP_M2[None], WEIGHT)
        z = np.array([[[1400.0, 2300.0]]])
        found = linking.densities(at, z, ErrorModel.plain(100.0, 0.1), A)
        parts = sum(
            w * gaussian([400, 300], 50.0**2 + 2 * q + 100.0**2)
            for w, q in zip(WEIGHT, STEP_M2, strict=True)
        )
        assert found == pytest.approx(0.9 * parts + 0.1 / A, rel=1e-12)

    def test_density_of_two_ranks_of_which_one_may_be_missing(self):
        error = ErrorModel(
            np.array([0.7, 0.3]), np.array([100.0, 400.0]), 0.2, 0.0, np.ones(2), np.zeros((2, 2))
        )
        at = Predicted(np.zeros((1, 2)), np.zeros((1, 1)), np.ones(1))
        z = np.array(
            [[[50.0, 0.0], [300.0, 0.0]], [[np.nan] * 2, [300.0, 0.0]], [[np.nan] * 2] * 2]
        )
        both, second, none = linking.densities(at, z, error, A)[0]
        near = gaussian([50, 0], 100.0**2)
        far = gaussian([300, 0], 400.0**2)
        assert both == pytest.approx(0.8 * (0.7 * near + 0.3 * far) + 0.2 / A)
        assert second == pytest.approx(0.8 * far + 0.2 / A)
        assert none == pytest.approx(1 / A)

    def test_the_posterior_has_the_moments_of_the_mixture(self):
        """Against integration over a grid."""
        at = Predicted(np.zeros((1, 2)), 200.0**2 + STEP_M2[None], WEIGHT)
        error = ErrorModel.plain(150.0, 0.05)
        z = np.array([[[500.0, -200.0]]])
        mean_m, var_m2, share = linking.moved(at, z, error, A)
        step = 25.0
        line = np.arange(-9000, 9000, step)
        x = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
        before = [w * gaussian(x, 200.0**2 + q) for w, q in zip(WEIGHT, STEP_M2, strict=True)]
        seen = 0.95 * gaussian(z[0, 0] - x, 150.0**2) + 0.05 / A
        joint = np.array([b * seen for b in before])
        p = joint.sum(axis=0) / joint.sum()
        mean = p @ x
        np.testing.assert_allclose(mean_m[0], mean, atol=0.5)
        assert var_m2[0] == pytest.approx(float(p @ ((x - mean) ** 2).sum(axis=1) / 2), rel=1e-3)
        np.testing.assert_allclose(share[0], joint.sum(axis=1) / joint.sum(), atol=1e-4)

    @pytest.mark.parametrize("seed", range(10))
    def test_assignment_is_the_best_of_all(self, seed):
        """Against every way to link up to 5 names to up to 5 tracks, births and misses included."""
        rng = np.random.default_rng(seed)
        m, k = rng.integers(0, 6, 2)
        cost = rng.normal(3, 3, (m, k))
        birth = rng.normal(2)
        miss = rng.uniform(0, 2)
        best = (np.inf, None)
        for links in itertools.product(range(-1, m), repeat=k):
            used = [j for j in links if j >= 0]
            if len(set(used)) < len(used):
                continue
            total = sum(cost[j, i] if j >= 0 else birth for i, j in enumerate(links)) + miss * (
                m - len(used)
            )
            best = min(best, (total, links))
        np.testing.assert_array_equal(
            linking.assigned(cost, birth, miss), np.array(best[1], dtype=int)
        )

    def test_probabilities_of_links(self):
        cost = np.array([[0.0, 700.0], [log(2), 700.0]])
        share = linking.shares(cost, log(4))
        np.testing.assert_allclose(share[:, 0], [4 / 7, 2 / 7])
        np.testing.assert_allclose(share[:, 1], 0, atol=1e-200)


def numbers(x):
    """Clues that are numbers alone."""
    return replace(clues(np.full((len(x), 1, 2), np.nan)), x=x)


class TestFingerprint:
    def test_ratio_is_that_of_two_normal_densities(self):
        known = replace(
            Prints.none(1),
            numbers=np.array([[4.0], [4.0], [20.0]]),
            within=np.array([[1.0], [4.0]]),
        )
        tracks = replace(
            KeptTracks.begun(np.arange(1), 1), count=np.array([[3.0]]), x=np.array([[2.0]])
        )
        # mean 1, t = 5 - 1 = 4, w = t / 4 = 1, b = 3, 1 / v = 3 + 1 / 3
        v = 0.3
        centre = v * (3 * 2.0 + 1.0 / 3.0)
        var = v + 1.0
        x = 2.5
        ratio = -0.5 * ((x - centre) ** 2 / var + log(var)) + 0.5 * (
            (x - 1.0) ** 2 / 4.0 + log(4.0)
        )
        found = known.log_ratios(tracks, numbers(np.array([[x], [np.nan]])))
        assert found[0] == pytest.approx([ratio, 0.0])

    def test_ratio_of_cosines_is_that_of_two_normal_densities(self):
        rng = np.random.default_rng(4)
        alike = 0.5 + 0.1 * rng.normal(size=300)
        others = 0.2 * rng.normal(size=500)
        other = np.array([500.0, others.sum(), (others**2).sum()])
        # ten pairs are taken to be a standard deviation more alike than others, before any is known
        as_if = np.append(alike, np.repeat(others.mean() + others.std() * np.array([2.0, 0.0]), 5))
        known = replace(
            Prints.none(1), same=np.array([300.0, alike.sum(), (alike**2).sum()]), other=other
        )
        tracks = replace(KeptTracks.begun(np.arange(3), 1), unit=3.0 * np.eye(3, DIRECTION))
        cosine = np.array([[0.6, 0.3, 0.0], [-0.2, 0.1, 0.5]])
        now = replace(
            numbers(np.full((2, 1), np.nan)), unit=np.pad(cosine, ((0, 0), (0, DIRECTION - 3)))
        )
        ratio = norm.logpdf(cosine, as_if.mean(), as_if.std()) - norm.logpdf(
            cosine, others.mean(), others.std()
        )
        np.testing.assert_allclose(known.log_ratios(tracks, now), ratio.T, rtol=1e-9)

    @pytest.mark.parametrize("sd", [0.3, 3.0])
    def test_spread_within_a_ue_is_learnt_from_certain_links(self, sd):
        rng = np.random.default_rng(2)
        mean = rng.standard_normal((40, 1))
        n = 40
        known = Prints.none(1)
        tracks = KeptTracks.begun(np.arange(n), 1)
        for _ in range(60):
            now = numbers(mean + sd * rng.standard_normal((n, 1)))
            known = known.heard(now).learnt(tracks, now, np.eye(n))
            tracks = tracks.heard(now)
        share = float(known.within[0, 0] / known.within[1, 0])
        assert share == pytest.approx(sd**2 / (sd**2 + mean.var()), rel=0.1)


class TestLinker:
    def test_two_ues_far_apart_are_always_linked_right(self):
        x = np.tile([[1000.0, 1000.0], [9000.0, 9000.0]], (40, 1, 1))
        found = play(x, 100.0, seen=0.7)
        assert found.right == 1.0
        assert (
            found.row["time_to_confusion_s"] == found.row["entropy_time_to_confusion_s"] == np.inf
        )
        assert found.row["anonymity_set"] == pytest.approx(1.0, abs=1e-3)

    def test_ues_at_one_place_are_linked_at_chance(self):
        found = play(np.full((400, 10, 2), 5000.0), 100.0)
        assert found.right == pytest.approx(0.1, abs=4 * np.sqrt(0.1 * 0.9 / 4000))
        assert found.row["time_to_confusion_s"] == pytest.approx(
            found.row["chance_time_to_confusion_s"], rel=0.05
        )
        assert found.row["chance_time_to_confusion_s"] == pytest.approx(300.0 / 0.9)
        assert (
            5 < found.row["anonymity_set"] < 10
        )  # places differ by their errors, and the attacker cannot know that

    def test_fingerprints_alone_link(self):
        """The better, the less the numbers of a UE vary; never below chance (1 in 50)."""
        means = np.random.default_rng(7).standard_normal((50, 2))
        x = np.full((120, 50, 2), 5000.0)
        shares = [play(x, 100.0, 0.7, fingerprint=(means, sd)).right for sd in (1.0, 0.5, 0.2)]
        assert 0.03 < shares[0] < shares[1] < shares[2]
        assert shares[2] > 0.3

    def test_a_name_that_was_seen_stays_with_its_track(self):
        book = Book.empty(2)
        far = np.array([[[9000.0, 9000.0]]])
        near = np.array([[[1000.0, 1000.0]]])
        linker = linker_at(1)
        book, first = linker.linked(np.array([0, 1]), clues(np.concatenate([near, far])), book)
        book, then = linker_at(2).linked(np.array([0, 2]), clues(np.concatenate([far, near])), book)
        assert then.track[0] == first.track[0]
        assert then.entropy_bits[0] == 0
        assert then.track[1] != first.track[0]

    def test_a_track_is_given_up_after_an_hour_and_its_name_comes_back_to_it(self):
        book = Book.empty(2)
        here = np.array([[[1000.0, 1000.0]]])
        book, first = linker_at(1).linked(np.array([0]), clues(here), book)
        for number, born in ((13, False), (26, True)):  # 3600 s, and more
            _, links = linker_at(number).linked(np.array([7]), clues(here), book)
            assert links.born[0] == born
        book, again = linker_at(30).linked(np.array([0]), clues(here), book)
        assert again.track[0] == first.track[0]
        assert not again.born[0]
        assert len(book.tracks.number) == 1
        assert book.born == 1

    def test_two_names_of_one_round_are_two_tracks(self):
        book = Book.empty(2)
        here = np.array([[[1000.0, 1000.0]]])
        book, _ = linker_at(1).linked(np.array([0]), clues(here), book)
        book, one = linker_at(2).linked(np.array([1]), clues(here), book)
        book, two = linker_at(2).linked(np.array([2]), clues(here), book)
        assert one.track[0] == 0
        assert two.track[0] == 1
        both = one.plus(two)
        assert both.name.tolist() == [1, 2]
        assert both.plus(two).name.tolist() == [1, 2]
        assert both.plus(replace(two, round=3)).name.tolist() == [2]


def linker_at(number, round_s=300.0):
    facts = RoundContext(number, number * round_s, Public(AREA, 1), round_s=round_s)
    return Linker(ErrorModel.plain(50.0, 1e-3), facts, 40.0)


def clues(z):
    n = len(z)
    return Clues(z, np.full((n, 2), np.nan), np.full(n, -1), np.full((n, DIRECTION), np.nan))


class TestMeasures:
    def names(self, *rounds):
        names = Names.start(PerRound(), 4)
        for number, ue in enumerate(rounds, start=1):
            names = asked(names, PerRound(), np.array(ue), np.zeros(len(ue)), number, RNG)
            yield number, names, names.now[np.array(ue)]

    def test_a_hand_case(self):
        """Three UEs; in round 2 the tracks of two are swapped; in round 3 one is right, one is new
        to the attacker."""
        state = Linking()
        rows = []
        tracks = {1: [0, 1, 2], 2: [1, 0, 2], 3: [1, 3]}
        bits = {1: [np.nan] * 3, 2: [0.0, 1.0, 0.3], 3: [2.0, np.nan]}
        for number, names, name in self.names([0, 1, 2], [0, 1, 2], [0, 3]):
            born = np.array([b != b for b in bits[number]])
            links = NameLinks(number, name, np.array(tracks[number]), born, np.array(bits[number]))
            state, row = observe(state, "a", links, names, 100.0 * number)
            rows.append(row)
        assert [r["seen"] for r in rows] == [0, 3, 1]
        assert [r["linked"] for r in rows] == [0, 3, 1]
        assert rows[1]["right_share"] == pytest.approx(1 / 3)
        assert rows[1]["chance_share"] == pytest.approx(1 / 3)
        assert rows[2]["right_share"] == 1.0  # UE 0 was given to track 1 before
        assert rows[1]["anonymity_set"] == pytest.approx((1 + 2 + 2**0.3) / 3)
        assert rows[1]["time_to_confusion_s"] == pytest.approx(300.0 / 2)
        assert rows[2]["time_to_confusion_s"] == pytest.approx(400.0 / 2)
        assert rows[1]["entropy_time_to_confusion_s"] == pytest.approx(300.0 / 1)
        assert rows[2]["entropy_time_to_confusion_s"] == pytest.approx(400.0 / 2)
        assert rows[2]["chance_time_to_confusion_s"] == pytest.approx(
            400.0 / (3 * 2 / 3 + 1 * (1 - 1 / 3))
        )
        assert np.isnan(rows[0]["right_share"])
        assert np.isnan(rows[0]["time_to_confusion_s"])

    def test_who_comes_back_and_is_given_a_new_track_is_seen_and_not_linked(self):
        """Its entropy is unknown, and counts to no anonymity set; it is a confusion, also by
        entropy."""
        state = Linking()
        for number, names, name in self.names([0, 1], [0, 1]):
            born, bits = (
                ([True, True], [np.nan] * 2) if number == 1 else ([False, True], [1.0, np.nan])
            )
            links = NameLinks(
                number, name, np.array([0, 2 * number]), np.array(born), np.array(bits)
            )
            state, row = observe(state, "a", links, names, 100.0 * number)
        assert (row["seen"], row["linked"], row["right_share"], row["anonymity_set"]) == (
            2,
            1,
            0.5,
            2.0,
        )
        assert (row["time_to_confusion_s"], row["entropy_time_to_confusion_s"]) == (200.0, 100.0)

    @pytest.mark.parametrize(("names", "ues"), [(1, 1), (3, 3), (2, 5), (5, 2)])
    def test_chance_against_random_assignments(self, names, ues):
        rng = np.random.default_rng(9)
        right = []
        for _ in range(4000):
            owner = rng.permutation(max(names, ues))[
                :names
            ]  # UEs beyond `ues` are new; a name of one has no track
            given = rng.permutation(max(names, ues))[:names]
            right.append(np.mean(given == owner))
        assert np.mean(right) == pytest.approx(chance_share(names, ues), abs=0.02)


class TestUnicity:
    def traces(self, *places):
        """One trace each, of a place a round."""
        ue = np.repeat(np.arange(len(places)), [len(p) for p in places])
        number = np.concatenate([np.arange(len(p)) for p in places])
        return Truth(number, ue, np.concatenate(places).astype(float))

    def test_a_hand_case(self):
        """Three UEs over two rounds; the first two share the first square, the last two the
        second."""
        far = [9000, 9000]
        near = [10, 10]
        other = [5000, 5000]
        rows = unicity(self.traces([near, other], [near, far], [other, far]), RNG)
        found = {(r["resolution_m"], r["points"]): r for r in rows}
        one = found[100.0, 1]
        two = found[100.0, 2]
        assert two["unique_percent"] == 100
        assert one["ues"] == two["ues"] == 3
        assert two["draws"] == 60
        # alone: UE 0 in round 2, UE 1 never, UE 2 in round 1: one point of two, one of them in
        # three UEs never
        assert 15 < one["unique_percent"] < 55
        assert (100.0, 3) not in found


# -- links by score maps: the best of all, chance where maps are alike

PUBLIC = Public(Area(0, 0, 100, 100), 1)
ORDERS = np.array(list(itertools.permutations(range(5))))


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def rounds_of(seed, noise, ues=5, rounds=3, places=30):
    """Maps (rounds, ues, places) of UEs that look like themselves, and whose each row is."""
    rng = np.random.default_rng(seed)
    own = rng.normal(size=(ues, places))
    x = own + noise * rng.normal(size=(rounds, ues, places))
    who = np.stack([rng.permutation(ues) for _ in range(rounds)])
    x = np.take_along_axis(x - x.mean(axis=1, keepdims=True), who[..., None], axis=1)
    return unit(x).astype(np.float32), who


def heard(state, name, score, number, least=0, most=1000):
    facts = RoundContext(number, 60.0 * number, PUBLIC)
    return state.heard(np.asarray(name), score, facts, least, most)


def all_heard(x, **how):
    """After rounds of new names each: those of round t are 100 t + row."""
    state = MapTracks.none()
    for t, score in enumerate(x):
        state = heard(state, 100 * t + np.arange(len(score)), score, t + 1, **how)
    return state


def objective(x, links):
    """sum_k |T_k| of links (rounds, ues)."""
    total = np.zeros(x.shape[1:])
    for score, track in zip(x, links, strict=True):
        np.add.at(total, track, score)
    return np.linalg.norm(total, axis=1).sum()


class TestLinks:
    @pytest.mark.parametrize("most", [15, 10])
    @pytest.mark.parametrize("noise", [0.3, 1.0, 2.0])
    @pytest.mark.parametrize("seed", range(3))
    def test_in_hindsight_are_the_best_of_all(self, seed, noise, most):
        """Five UEs and three rounds: against all 120 x 120 ways to give names to tracks; with the
        first as it was."""
        x, _ = rounds_of(seed, noise)
        two = x[0] + x[1][ORDERS]
        best = np.linalg.norm(two[:, None] + x[2][ORDERS], axis=3).sum(axis=2).max()
        track, _ = all_heard(x, most=most).relinked(32, RNG)
        assert objective(x, track.reshape(3, 5)) == pytest.approx(best, rel=1e-6)

    @pytest.mark.parametrize("seed", range(3))
    def test_of_a_round_are_the_best_of_all_for_the_tracks_so_far(self, seed):
        x, _ = rounds_of(seed, 1.5)
        state = all_heard(x)
        tracks = state.names.track.reshape(3, 5)
        total = np.zeros_like(x[0])
        np.testing.assert_array_equal(np.sort(tracks[0]), range(5))
        total[tracks[0]] += x[0]
        for t in (1, 2):
            gain = np.einsum("oig,ig->o", unit(total)[ORDERS], x[t])
            np.testing.assert_array_equal(tracks[t], ORDERS[gain.argmax()])
            total[tracks[t]] += x[t]
        np.testing.assert_allclose(state.score, total, rtol=1e-6)

    def test_hindsight_rights_what_rounds_got_wrong(self):
        wrong = []
        for seed in range(10):
            x, who = rounds_of(seed, 2.0, ues=12, rounds=20, places=80)
            state = all_heard(x)
            for track in (state.names.track, state.relinked(4, RNG)[0]):
                of_ue = np.take_along_axis(
                    track.reshape(who.shape), np.argsort(who, axis=1), axis=1
                )  # (rounds, ues)
                wrong.append((of_ue[1:] != of_ue[:-1]).mean())
        then, afterwards = np.array(wrong).reshape(-1, 2).mean(axis=0)
        assert afterwards < 0.05 < 0.1 < then


class TestNames:
    def test_stay_with_their_track_and_add_to_its_map(self):
        x, _ = rounds_of(1, 0.3)
        state = heard(heard(MapTracks.none(), range(5), x[0], 1), range(5), x[1], 2)
        np.testing.assert_array_equal(state.names.name, range(5))
        np.testing.assert_array_equal(state.names.last, 2)
        np.testing.assert_allclose(state.score[state.names.track], x[0] + x[1], rtol=1e-5)
        np.testing.assert_allclose(state.kept, x[0] + x[1], rtol=1e-5)

    def test_that_are_in_use_in_the_same_rounds_never_share_a_track(self):
        """Each UE changes its name at a round of its own."""
        rng = np.random.default_rng(3)
        x = rounds_of(3, 3.0, rounds=12)[0]
        state = MapTracks.none()
        change = rng.integers(1, 12, 5)
        for t in range(12):
            name = np.where(t >= change, 100 + np.arange(5), np.arange(5))
            state = heard(state, name, x[t], t + 1)
        for track in (state.names.track, state.relinked(1, RNG)[0]):
            for a, b in itertools.combinations(range(len(state.names.name)), 2):
                together = (
                    state.names.since[a] <= state.names.last[b]
                    and state.names.since[b] <= state.names.last[a]
                )
                assert not (together and track[a] == track[b])

    def test_are_linked_among_as_many_tracks_as_are_stated(self):
        """One name a round, of five UEs in turn: with `tracks` they are five tracks, without it
        one."""
        x, _ = rounds_of(5, 0.2, rounds=4)
        own = [x[0][:1], x[0][1:2], x[0][2:3], x[0][:1], x[0][1:2]]
        assert set(all_heard(own).names.track) == {0}
        track = all_heard(own, least=5).names.track
        assert track[3] == track[0]
        assert track[4] == track[1]
        assert len(set(track[:3])) >= 2


# -- the attack in runs

BUSY = {
    "world.duration_s": 480,
    "world.ues.count": 6,
    "world.radio.uplink": {"kind": "oma", "decoding": "error-free"},
}
NEW = {"kind": "per-round"}
SERVERS = {
    "rounds": {},
    "fedbuff": {
        "learning.server": {"kind": "fedbuff", "buffer": 3},
        "world.radio.dynamic_uplink": {},
    },
    "fedasync": {"learning.server": {"kind": "fedasync"}, "world.radio.dynamic_uplink": {}},
}
RULES = [NEW, {"kind": "every", "period_s": 130}, {"kind": "permanent"}]
THREATS = [
    {},
    {"observes": "aggregate", "secagg_group_size": 2},
    {"viewpoint": "eavesdropper", "position_m": [200, 150]},
    {"shuffle": True, "pseudonyms": NEW},
    {"knowledge": []},
]


def table(folder, name):
    return pd.read_csv(folder / f"{name}.csv")


@pytest.mark.slow
@pytest.mark.parametrize("threat", range(len(THREATS)))
@pytest.mark.parametrize("rule", range(len(RULES)))
@pytest.mark.parametrize("server", SERVERS)
def test_runs_and_goes_on_to_the_same_bytes(server, rule, threat, tiny, tmp_path, table_bytes):
    attacks = [
        {"kind": "re-identify", "shadow_ues": 4},
        {"kind": "re-identify", "name": "by-print", "use": ["fingerprint"]},
        {"kind": "re-identify", "name": "rings", "of": {"kind": "neuron-votes"}, "sigma_m": 50},
    ]
    threat = {"pseudonyms": RULES[rule]} | THREATS[threat]
    study = tiny(BUSY | SERVERS[server] | {"learning.attacks": attacks, "learning.threat": threat})

    run(study, tmp_path / "whole")
    run_in_two(study, tmp_path / "cut", lambda progress: progress.values["time_s"] >= 250)
    assert table_bytes(tmp_path / "cut") == table_bytes(tmp_path / "whole")
    linked = table(tmp_path / "whole", "linking")
    if threat["pseudonyms"]["kind"] == "permanent":
        assert len(linked) == 0
    else:
        assert set(linked.attack) == {"re-identify", "by-print", "rings"}
        assert (linked.linked <= linked.seen).all()
        assert linked.right_share.dropna().between(0, 1).all()


@pytest.mark.slow
@pytest.mark.parametrize("server", SERVERS)
def test_under_permanent_names_it_is_the_attack_that_it_wraps(server, tiny, tmp_path):
    attacks = [
        {"kind": "neuron-votes"},
        {"kind": "re-identify", "of": {"kind": "neuron-votes"}, "sigma_m": 50},
    ]
    tracker = {"kind": "tracker", "sigma_m": 30, "cell_m": 40}
    attacks += [tracker, {"kind": "re-identify", "name": "tracks", "of": tracker, "sigma_m": 50}]
    run(tiny(BUSY | SERVERS[server] | {"learning.attacks": attacks}), tmp_path)
    every = table(tmp_path, "estimates").drop(columns="self_test_m")
    keys = ["round", "ue", "model", "quantity", "weight"]
    for plain, wrapped in (("neuron-votes", "re-identify"), ("tracker", "tracks")):
        one, two = (
            every[every.attack == a].drop(columns="attack").sort_values(keys)
            for a in (plain, wrapped)
        )
        assert len(one) > 20
        pd.testing.assert_frame_equal(
            one.reset_index(drop=True), two.reset_index(drop=True), rtol=1e-5
        )
    tracking = table(tmp_path, "tracking").sort_values(["round", "ue", "hindsight"])
    one, two = (
        tracking[tracking.attack == a].drop(columns="attack") for a in ("tracker", "tracks")
    )
    pd.testing.assert_frame_equal(
        one.reset_index(drop=True), two.reset_index(drop=True), rtol=1e-3, atol=1e-3
    )


BOTH = [
    {"kind": "link-maps", "of": {"kind": "span", "add": "scores", "cell_m": 10}, "tracks": 6},
    {
        "kind": "link-maps",
        "name": "then",
        "of": {"kind": "span", "add": "scores", "cell_m": 10},
        "hindsight_names": 0,
    },
]


@pytest.mark.parametrize(
    ("server", "rule"), one_in(4, [("fedasync", 0), ("fedbuff", 1), ("rounds", 0), ("rounds", 2)])
)
def test_links_by_maps_go_on_to_the_same_bytes(server, rule, tiny, tmp_path, table_bytes):
    threat = {"pseudonyms": RULES[rule] | ({"stagger": True} if rule == 1 else {})}
    short = {"world.duration_s": 300, "learning.attacks": BOTH, "learning.threat": threat}
    study = tiny(BUSY | SERVERS[server] | short)
    run(study, tmp_path / "whole")
    run_in_two(study, tmp_path / "cut", lambda progress: progress.values["time_s"] >= 160)
    assert table_bytes(tmp_path / "cut") == table_bytes(tmp_path / "whole")
    linked = table(tmp_path / "whole", "linking")
    assert set(linked.attack) == (set() if rule == 2 else {"link-maps", "then"})
    assert linked.right_share.dropna().between(0, 1).all()
    assert linked.anonymity_set.isna().all()
    assert (
        linked.groupby("attack").tail(1).entropy_time_to_confusion_s.isna().all()
    )  # it states none


def test_reads_nothing_but_updates_names_and_rounds(tiny, tmp_path, monkeypatch):
    """Without timing, counts, replica and starting weights of the first layer it says the same."""
    seen = []
    attack = LinkMaps.model_validate_json(
        json.dumps(
            {
                "kind": "link-maps",
                "of": {"kind": "span", "layer": 1, "add": "scores", "cell_m": 10},
            }
        )
    )

    def watched(self, view, facts, state, rng):
        seen.append((view, facts, rng))
        return original(self, view, facts, state, rng)

    original = LinkMaps.run
    monkeypatch.setattr(LinkMaps, "run", watched)
    how = {"learning.attacks": [attack.model_dump(mode="json")], "learning.threat.pseudonyms": NEW}
    run(tiny(BUSY | how), tmp_path)
    monkeypatch.undo()
    full = attack.start()
    bare = attack.start()
    for view, facts, rng in seen:
        said, full = attack.run(view, facts, full, rng)
        unknown = replace(
            view.model_before, parameters=np.full_like(view.model_before.parameters, np.nan)
        )
        less = replace(view, timing=None, count=None, replica=None, model_before=unknown)
        timeless = RoundContext(facts.round, 0.0, facts.public)
        also, bare = attack.run(less, timeless, bare, rng)
        np.testing.assert_array_equal(said.position_m, also.position_m)
    np.testing.assert_array_equal(full.names.track, bare.names.track)


@pytest.mark.slow
def test_people_are_linked_by_their_days_and_their_homes_named_at_the_end(tmp_path):
    """Eight people under a new name each day; the attack also finds a sample of its own."""
    of = {"kind": "span", "layer": 1, "add": "scores"}
    attacks = [
        {"kind": "link-maps", "of": of},
        {"kind": "link-maps", "name": "then", "hindsight_names": 0, "of": of},
    ]
    few = {"world.ues.count": 8, "world.duration_s": 8 * 86_400, "learning.attacks": attacks}
    summary = run(load("tracking/names", few), tmp_path)
    for label in ("link-maps", "then"):
        assert (
            summary[f"linking.{label}.right.percent"]
            > 90
            > 2 * summary[f"linking.{label}.chance_right.percent"]
        )
        assert summary[f"attack.{label}.home_located.percent"] > 80
        assert summary[f"attack.{label}.home_located.shuffled.percent"] < 20
    assert pd.read_csv(tmp_path / "estimates.csv").self_test_m.max() < 25  # a cell
