"""Linking of names: costs and assignment, fingerprints, measures beside chance, unicity, and the
attack re-identify."""

import itertools
import json
from dataclasses import replace
from math import log

import numpy as np
from linked import AREA, RNG, SERVERS, play, play_cut, table
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pandas.testing import assert_frame_equal
from pytest import approx, fixture, mark
from scipy.stats import norm
from thinned import one_in

from fl.attacks.link_maps import LinkMaps, MapTracks
from fl.leakage.linking import Linking, measure_unicity, record_links
from fl.leakage.tracks import Whereabouts as Truth
from fl.tracking import linking
from fl.tracking.error_model import ErrorModel
from fl.tracking.fingerprint import DIRECTION, Clues, KeptTracks, Prints
from fl.tracking.linking import Book, Linker, NameLinks, Predicted
from fl.tracking.pseudonyms import Names, PerRound, give_names
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


NEAR = np.array([[[1000.0, 1000.0]]])
FAR = np.array([[[9000.0, 9000.0]]])


class TestLaw:
    def test_density_is_a_mixture_over_motions_and_outliers(self):
        track = Predicted(np.array([[1000.0, 2000.0]]), 50.0**2 + 2 * STEP_M2[None], WEIGHT)
        z = np.array([[[1400.0, 2300.0]]])
        density = linking.compute_densities(track, z, ErrorModel.from_sigma(100.0, 0.1), A)
        var_m2 = 50.0**2 + 2 * STEP_M2 + 100.0**2
        parts = WEIGHT @ gaussian([400, 300], var_m2)
        assert density == approx(0.9 * parts + 0.1 / A, rel=1e-12)

    def test_density_of_two_ranks_of_which_one_may_be_missing(self):
        ranks = (np.array([0.7, 0.3]), np.array([100.0, 400.0]))
        error = ErrorModel(*ranks, 0.2, 0.0, np.ones(2), np.zeros((2, 2)))
        track = Predicted(np.zeros((1, 2)), np.zeros((1, 1)), np.ones(1))
        z = np.array([[[50.0, 0.0], [300.0, 0.0]]] * 3)
        z[1, 0] = z[2] = np.nan
        near = gaussian([50, 0], 100.0**2)
        far = gaussian([300, 0], 400.0**2)
        expected = [0.8 * (0.7 * near + 0.3 * far) + 0.2 / A, 0.8 * far + 0.2 / A, 1 / A]
        assert linking.compute_densities(track, z, error, A)[0] == approx(expected)

    def test_the_posterior_has_the_moments_of_the_mixture(self):
        """Against integration over a grid."""
        track = Predicted(np.zeros((1, 2)), 200.0**2 + STEP_M2[None], WEIGHT)
        z = np.array([[[500.0, -200.0]]])
        error = ErrorModel.from_sigma(150.0, 0.05)
        mean_m, var_m2, share = linking.update_tracks(track, z, error, A)
        line = np.arange(-9000, 9000, 25.0)
        x = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
        before = WEIGHT[:, None] * gaussian(x, 200.0**2 + STEP_M2[:, None])
        joint = before * (0.95 * gaussian(z[0, 0] - x, 150.0**2) + 0.05 / A)
        joint /= joint.sum()
        p = joint.sum(axis=0)
        mean = p @ x
        assert_allclose(mean_m[0], mean, atol=0.5)
        variance = p @ ((x - mean) ** 2).sum(axis=1)
        assert var_m2[0] == approx(variance / 2, rel=1e-3)
        assert_allclose(share[0], joint.sum(axis=1), atol=1e-4)

    @mark.parametrize("seed", range(10))
    def test_assignment_is_the_best_of_all(self, seed):
        """Against every way to link up to 5 names to up to 5 tracks, births and misses included."""
        rng = default_rng(seed)
        m, k = rng.integers(0, 6, 2)
        cost = rng.normal(3, 3, (m, k))
        birth = rng.normal(2)
        miss = rng.uniform(0, 2)
        totals = {}
        for links in itertools.product(range(-1, m), repeat=k):
            used = [(j, i) for i, j in enumerate(links) if j >= 0]
            if len({j for j, _ in used}) == len(used):
                linked = sum(cost[pair] for pair in used)
                totals[links] = linked + (k - len(used)) * birth + (m - len(used)) * miss
        best = min(totals, key=totals.get)
        assert tuple(linking.assign_tracks_to_names(cost, birth, miss)) == best

    def test_probabilities_of_links(self):
        cost = np.array([[0.0, 700.0], [log(2), 700.0]])
        share = linking.compute_link_probabilities(cost, log(4))
        assert_allclose(share[:, 0], [4 / 7, 2 / 7])
        assert_allclose(share[:, 1], 0, atol=1e-200)


def numbers(x):
    """Clues that are numbers alone."""
    return replace(clues(np.full((len(x), 1, 2), np.nan)), x=x)


class TestFingerprint:
    def test_ratio_is_that_of_two_normal_densities(self):
        powers = np.array([[4.0], [4.0], [20.0]])
        prints = replace(Prints.empty(1), numbers=powers, within=np.array([[1.0], [4.0]]))
        tracks = KeptTracks.from_numbers(np.arange(1), 1)
        tracks = replace(tracks, count=np.array([[3.0]]), x=np.array([[2.0]]))
        # mean 1, t = 5 - 1 = 4, w = t / 4 = 1, b = 3, 1 / v = 3 + 1 / 3
        v = 0.3
        centre = v * (3 * 2.0 + 1.0 / 3.0)
        ratio = norm.logpdf(2.5, centre, (v + 1.0) ** 0.5) - norm.logpdf(2.5, 1.0, 2.0)
        ratios = prints.compute_log_ratios(tracks, numbers(np.array([[2.5], [np.nan]])))
        assert ratios[0] == approx([ratio, 0.0])

    def test_ratio_of_cosines_is_that_of_two_normal_densities(self):
        rng = default_rng(4)
        alike = 0.5 + 0.1 * rng.normal(size=300)
        unlike = 0.2 * rng.normal(size=500)
        same, other = (np.array([len(x), x.sum(), (x**2).sum()]) for x in (alike, unlike))
        prints = replace(Prints.empty(1), same=same, other=other)
        # ten pairs are taken to be a standard deviation more alike than others, before any is known
        guess = unlike.mean() + unlike.std() * np.array([2.0, 0.0])
        as_if = np.append(alike, np.repeat(guess, 5))
        tracks = replace(KeptTracks.from_numbers(np.arange(3), 1), unit=3.0 * np.eye(3, DIRECTION))
        cosine = np.array([[0.6, 0.3, 0.0], [-0.2, 0.1, 0.5]])
        unit = np.pad(cosine, ((0, 0), (0, DIRECTION - 3)))
        updates = replace(numbers(np.full((2, 1), np.nan)), unit=unit)
        log_same = norm.logpdf(cosine, as_if.mean(), as_if.std())
        log_other = norm.logpdf(cosine, unlike.mean(), unlike.std())
        ratios = prints.compute_log_ratios(tracks, updates)
        assert_allclose(ratios, (log_same - log_other).T, rtol=1e-9)

    @mark.parametrize("sd", [0.3, 3.0])
    def test_spread_within_a_ue_is_learnt_from_certain_links(self, sd):
        rng = default_rng(2)
        n = 40
        mean = rng.standard_normal((n, 1))
        prints = Prints.empty(1)
        tracks = KeptTracks.from_numbers(np.arange(n), 1)
        for _ in range(60):
            updates = numbers(mean + sd * rng.standard_normal((n, 1)))
            prints = prints.count_updates(updates).learn_pairs(tracks, updates, np.eye(n))
            tracks = tracks.add_updates(updates)
        share = float(prints.within[0, 0] / prints.within[1, 0])
        assert share == approx(sd**2 / (sd**2 + mean.var()), rel=0.1)


class TestLinker:
    def test_two_ues_far_apart_are_always_linked_right(self):
        linked = play(np.tile([[1000.0, 1000.0], [9000.0, 9000.0]], (40, 1, 1)), 100.0, seen=0.7)
        assert linked.right == 1.0
        assert linked.row["time_to_confusion_s"] == np.inf
        assert linked.row["entropy_time_to_confusion_s"] == np.inf
        assert linked.row["anonymity_set"] == approx(1.0, abs=1e-3)

    def test_ues_at_one_place_are_linked_at_chance(self):
        linked = play(np.full((400, 10, 2), 5000.0), 100.0)
        assert linked.right == approx(0.1, abs=4 * np.sqrt(0.1 * 0.9 / 4000))
        chance_s = linked.row["chance_time_to_confusion_s"]
        assert linked.row["time_to_confusion_s"] == approx(chance_s, rel=0.05)
        assert chance_s == approx(300.0 / 0.9)
        # places differ by their errors, and the attacker cannot know that
        assert 5 < linked.row["anonymity_set"] < 10

    def test_fingerprints_alone_link(self):
        """The better, the less the numbers of a UE vary; never below chance (1 in 50)."""
        means = default_rng(7).standard_normal((50, 2))
        x = np.full((120, 50, 2), 5000.0)
        shares = [play(x, 100.0, 0.7, fingerprint=(means, sd)).right for sd in (1.0, 0.5, 0.2)]
        assert 0.03 < shares[0] < shares[1] < shares[2]
        assert shares[2] > 0.3

    def test_a_name_that_was_seen_stays_with_its_track(self):
        book, first = link(1, [0, 1], np.concatenate([NEAR, FAR]))
        _, second = link(2, [0, 2], np.concatenate([FAR, NEAR]), book)
        assert second.track[0] == first.track[0] != second.track[1]
        assert second.entropy_bits[0] == 0

    def test_a_track_is_given_up_after_an_hour_and_its_name_comes_back_to_it(self):
        book, first = link(1, [0])
        for number, born in ((13, False), (26, True)):  # 3600 s, and more
            assert link(number, [7], book=book)[1].born[0] == born
        book, again = link(30, [0], book=book)
        assert again.track[0] == first.track[0]
        assert not again.born[0]
        assert len(book.tracks.number) == book.born == 1

    def test_two_names_of_one_round_are_two_tracks(self):
        book, _ = link(1, [0])
        book, links = link(2, [1], book=book)
        _, more = link(2, [2], book=book)
        assert (links.track[0], more.track[0]) == (0, 1)
        both = links.add_part(more)
        assert both.name.tolist() == both.add_part(more).name.tolist() == [1, 2]
        assert both.add_part(replace(more, round=3)).name.tolist() == [2]


def link(number, names, places=NEAR, book=None):
    """Book and links after a round of 300 s."""
    facts = RoundContext(number, number * 300.0, Public(AREA, 1), round_s=300.0)
    linker = Linker(ErrorModel.from_sigma(50.0, 1e-3), facts, 40.0)
    return linker.link_names(np.array(names), clues(places), book or Book.empty(2))


def clues(z):
    n = len(z)
    return Clues(z, np.full((n, 2), np.nan), np.full(n, -1), np.full((n, DIRECTION), np.nan))


class TestMeasures:
    def names(self, *rounds):
        names = Names.start(PerRound(), 4)
        for number, ue in enumerate(rounds, start=1):
            names = give_names(names, PerRound(), np.array(ue), np.zeros(len(ue)), number, RNG)
            yield number, names, names.name_of_ue[np.array(ue)]

    def test_a_hand_case(self):
        """Three UEs; in round 2 the tracks of two are swapped; in round 3 one is right, since it
        was given to track 1 before, and one is new to the attacker."""
        state = Linking()
        rows = []
        tracks = [[0, 1, 2], [1, 0, 2], [1, 3]]
        bits = [[np.nan] * 3, [0.0, 1.0, 0.3], [2.0, np.nan]]
        rounds = zip(self.names([0, 1, 2], [0, 1, 2], [0, 3]), tracks, bits, strict=True)
        for (number, names, name), track, bit in rounds:
            links = NameLinks(number, name, np.array(track), np.isnan(bit), np.array(bit))
            state, row = record_links(state, "a", links, names, 100.0 * number)
            rows.append(row)
        chance_s = 400.0 / (3 * 2 / 3 + 1 * (1 - 1 / 3))
        for key, expected in {
            "seen": [0, 3, 1],
            "linked": [0, 3, 1],
            "right_share": [np.nan, 1 / 3, 1.0],
            "time_to_confusion_s": [np.nan, 300.0 / 2, 400.0 / 2],
        }.items():
            assert [row[key] for row in rows] == approx(expected, nan_ok=True)
        assert rows[1]["chance_share"] == approx(1 / 3)
        assert rows[1]["anonymity_set"] == approx((1 + 2 + 2**0.3) / 3)
        assert rows[1]["entropy_time_to_confusion_s"] == approx(300.0 / 1)
        assert rows[2]["entropy_time_to_confusion_s"] == approx(400.0 / 2)
        assert rows[2]["chance_time_to_confusion_s"] == approx(chance_s)

    def test_who_comes_back_and_is_given_a_new_track_is_seen_and_not_linked(self):
        """Its entropy is unknown, and counts to no anonymity set; it is a confusion, also by
        entropy."""
        state = Linking()
        for number, names, name in self.names([0, 1], [0, 1]):
            bits = np.array([[np.nan, 1.0][number - 1], np.nan])
            links = NameLinks(number, name, np.array([0, 2 * number]), np.isnan(bits), bits)
            state, row = record_links(state, "a", links, names, 100.0 * number)
        assert (row["seen"], row["linked"], row["right_share"]) == (2, 1, 0.5)
        assert row["anonymity_set"] == 2.0
        assert row["time_to_confusion_s"] == 200.0
        assert row["entropy_time_to_confusion_s"] == 100.0

    @mark.parametrize("names, ues", [(1, 1), (3, 3), (2, 5), (5, 2)])
    def test_chance_against_random_assignments(self, names, ues):
        """UEs beyond `ues` are new; a name of one has no track."""
        rng = default_rng(9)
        n = max(names, ues)
        right = [rng.permutation(n)[:names] == rng.permutation(n)[:names] for _ in range(4000)]
        assert np.mean(right) == approx(1 / max(names, ues), abs=0.02)


class TestUnicity:
    def traces(self, *places):
        """One trace each, of a place a round."""
        ue = np.repeat(np.arange(len(places)), [len(p) for p in places])
        number = np.concatenate([np.arange(len(p)) for p in places])
        return Truth(number, ue, np.concatenate(places).astype(float))

    def test_a_hand_case(self):
        """Three UEs over two rounds; the first two share the first square, the last two the
        second: alone UE 0 is told in round 2, UE 1 never, UE 2 in round 1."""
        far = [9000, 9000]
        near = [10, 10]
        middle = [5000, 5000]
        rows = measure_unicity(self.traces([near, middle], [near, far], [middle, far]), RNG)
        row_of = {(r["resolution_m"], r["points"]): r for r in rows}
        single = row_of[100.0, 1]
        double = row_of[100.0, 2]
        assert double["unique_percent"] == 100
        assert single["ues"] == double["ues"] == 3
        assert double["draws"] == 60
        assert 15 < single["unique_percent"] < 55
        assert (100.0, 3) not in row_of


# -- links by score maps: the best of all, chance where maps are alike

PUBLIC = Public(Area(0, 0, 100, 100), 1)
ORDERS = np.array(list(itertools.permutations(range(5))))


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def draw_rounds(seed, noise, ues=5, rounds=3, places=30):
    """Maps (rounds, ues, places) of UEs that look like themselves, and whose each row is."""
    rng = default_rng(seed)
    look = rng.normal(size=(ues, places))
    x = look + noise * rng.normal(size=(rounds, ues, places))
    ue = np.stack([rng.permutation(ues) for _ in range(rounds)])
    x = np.take_along_axis(x - x.mean(axis=1, keepdims=True), ue[..., None], axis=1)
    return unit(x).astype(np.float32), ue


def hear(state, name, score, number, least=0, most=1000):
    facts = RoundContext(number, 60.0 * number, PUBLIC)
    return state.add_round(np.asarray(name), score, facts, least, most)


def hear_all(x, **bounds):
    """After rounds of new names each: those of round t are 100 t + row."""
    state = MapTracks.empty()
    for t, score in enumerate(x):
        state = hear(state, 100 * t + np.arange(len(score)), score, t + 1, **bounds)
    return state


def objective(x, links):
    """sum_k |T_k| of links (rounds, ues)."""
    total = np.zeros(x.shape[1:])
    for score, track in zip(x, links, strict=True):
        np.add.at(total, track, score)
    return np.linalg.norm(total, axis=1).sum()


class TestLinks:
    @mark.parametrize("max_names", [15, 10])
    @mark.parametrize("noise", [0.3, 1.0, 2.0])
    @mark.parametrize("seed", range(3))
    def test_in_hindsight_are_the_best_of_all(self, seed, noise, max_names):
        """Five UEs and three rounds: against all 120 x 120 ways to give names to tracks; with the
        first as it was."""
        x, _ = draw_rounds(seed, noise)
        two = x[0] + x[1][ORDERS]
        best = np.linalg.norm(two[:, None] + x[2][ORDERS], axis=3).sum(axis=2).max()
        track, _ = hear_all(x, most=max_names).relink(32, RNG)
        assert objective(x, track.reshape(3, 5)) == approx(best, rel=1e-6)

    @mark.parametrize("seed", range(3))
    def test_of_a_round_are_the_best_of_all_for_the_tracks_so_far(self, seed):
        x, _ = draw_rounds(seed, 1.5)
        state = hear_all(x)
        tracks = state.names.track.reshape(3, 5)
        assert set(tracks[0]) == set(range(5))
        total = np.zeros_like(x[0])
        total[tracks[0]] = x[0]
        for t in (1, 2):
            gain = np.einsum("oig,ig->o", unit(total)[ORDERS], x[t])
            assert_array_equal(tracks[t], ORDERS[gain.argmax()])
            total[tracks[t]] += x[t]
        assert_allclose(state.score, total, rtol=1e-6)

    def test_hindsight_rights_what_rounds_got_wrong(self):
        wrong = []
        for seed in range(10):
            x, ue = draw_rounds(seed, 2.0, ues=12, rounds=20, places=80)
            state = hear_all(x)
            for track in (state.names.track, state.relink(4, RNG)[0]):
                of_ue = np.take_along_axis(track.reshape(ue.shape), np.argsort(ue, axis=1), axis=1)
                wrong.append((of_ue[1:] != of_ue[:-1]).mean())
        assert np.mean(wrong[1::2]) < 0.05 < 0.1 < np.mean(wrong[::2])


class TestNames:
    def test_stay_with_their_track_and_add_to_its_map(self):
        x, _ = draw_rounds(1, 0.3)
        state = hear(hear(MapTracks.empty(), range(5), x[0], 1), range(5), x[1], 2)
        assert_array_equal(state.names.name, range(5))
        assert_array_equal(state.names.last, 2)
        for score in (state.score[state.names.track], state.kept):
            assert_allclose(score, x[0] + x[1], rtol=1e-5)

    def test_that_are_in_use_in_the_same_rounds_never_share_a_track(self):
        """Each UE changes its name at a round of its own."""
        rng = default_rng(3)
        x = draw_rounds(3, 3.0, rounds=12)[0]
        state = MapTracks.empty()
        change = rng.integers(1, 12, 5)
        for t in range(12):
            name = np.arange(5) + 100 * (t >= change)
            state = hear(state, name, x[t], t + 1)
        names = state.names
        together = names.since[:, None] <= names.last
        together &= together.T & ~np.eye(len(together), dtype=bool)
        for track in (names.track, state.relink(1, RNG)[0]):
            assert not (together & (track[:, None] == track)).any()

    def test_are_linked_among_as_many_tracks_as_are_stated(self):
        """One name a round, of five UEs in turn: with `tracks` they are five tracks, without it
        one."""
        x, _ = draw_rounds(5, 0.2, rounds=4)
        single = [x[0][[k]] for k in (0, 1, 2, 0, 1)]
        assert set(hear_all(single).names.track) == {0}
        track = hear_all(single, least=5).names.track
        assert (track[3:] == track[:2]).all()
        assert len(set(track[:3])) >= 2


# -- the attack in runs

BUSY = {
    "world.duration_s": 480,
    "world.ues.count": 6,
    "world.radio.uplink": {"kind": "oma", "decoding": "error-free"},
}
NEW = {"kind": "per-round"}
RULES = [NEW, {"kind": "every", "period_s": 130}, {"kind": "permanent"}]
THREATS = [
    {},
    {"observes": "aggregate", "secagg_group_size": 2},
    {"viewpoint": "eavesdropper", "position_m": [200, 150]},
    {"shuffle": True, "pseudonyms": NEW},
    {"knowledge": []},
]


@fixture
def play_linked(tiny, tmp_path, table_bytes):
    def play(changes, cut_s):
        """Links of a run that is the same to the byte where it was cut."""
        linked = table(play_cut(tiny(changes), tmp_path, table_bytes, cut_s), "linking")
        assert linked.right_share.dropna().between(0, 1).all()
        return linked

    return play


def select_attack(rows, label):
    return rows[rows.attack == label].drop(columns="attack").reset_index(drop=True)


@mark.slow
@mark.parametrize("threat", range(len(THREATS)))
@mark.parametrize("rule", range(len(RULES)))
@mark.parametrize("server", SERVERS)
def test_runs_and_goes_on_to_the_same_bytes(server, rule, threat, play_linked):
    attacks = [
        {"kind": "re-identify", "shadow_ues": 4},
        {"kind": "re-identify", "name": "by-print", "use": ["fingerprint"]},
        {"kind": "re-identify", "name": "rings", "of": {"kind": "neuron-votes"}, "sigma_m": 50},
    ]
    threat = {"pseudonyms": RULES[rule]} | THREATS[threat]
    setting = {"learning.attacks": attacks, "learning.threat": threat}
    linked = play_linked(BUSY | SERVERS[server] | setting, 250)
    renames = threat["pseudonyms"]["kind"] != "permanent"
    assert set(linked.attack) == ({"re-identify", "by-print", "rings"} if renames else set())
    assert (linked.linked <= linked.seen).all()


@mark.slow
@mark.parametrize("server", SERVERS)
def test_under_permanent_names_it_is_the_attack_that_it_wraps(server, tiny, tmp_path):
    tracker = {"kind": "tracker", "sigma_m": 30, "cell_m": 40}
    votes = {"kind": "neuron-votes"}
    attacks = [
        votes,
        {"kind": "re-identify", "of": votes, "sigma_m": 50},
        tracker,
        {"kind": "re-identify", "name": "tracks", "of": tracker, "sigma_m": 50},
    ]
    run(tiny(BUSY | SERVERS[server] | {"learning.attacks": attacks}), tmp_path)
    keys = ["round", "ue", "model", "quantity", "weight"]
    estimates = table(tmp_path, "estimates").drop(columns="self_test_m").sort_values(keys)
    for plain, wrapped in (("neuron-votes", "re-identify"), ("tracker", "tracks")):
        expected = select_attack(estimates, plain)
        assert len(expected) > 20
        assert_frame_equal(select_attack(estimates, wrapped), expected, rtol=1e-5)
    rows = table(tmp_path, "tracking").sort_values(["round", "ue", "hindsight"])
    tracks = select_attack(rows, "tracks")
    assert_frame_equal(tracks, select_attack(rows, "tracker"), rtol=1e-3, atol=1e-3)


SPAN = {"kind": "span", "add": "scores", "cell_m": 10}
BOTH = [
    {"kind": "link-maps", "of": SPAN, "tracks": 6},
    {"kind": "link-maps", "name": "then", "of": SPAN, "hindsight_names": 0},
]


@mark.parametrize(
    "server, rule", one_in(4, [("fedasync", 0), ("fedbuff", 1), ("rounds", 0), ("rounds", 2)])
)
def test_links_by_maps_go_on_to_the_same_bytes(server, rule, play_linked):
    threat = {"pseudonyms": RULES[rule] | ({"stagger": True} if rule == 1 else {})}
    short = {"world.duration_s": 300, "learning.attacks": BOTH, "learning.threat": threat}
    linked = play_linked(BUSY | SERVERS[server] | short, 160)
    assert set(linked.attack) == (set() if rule == 2 else {"link-maps", "then"})
    assert linked.anonymity_set.isna().all()
    last = linked.groupby("attack").tail(1)
    assert last.entropy_time_to_confusion_s.isna().all()  # it states none


def test_reads_nothing_but_updates_names_and_rounds(tiny, tmp_path, monkeypatch):
    """Without timing, counts, replica and starting weights of the first layer it says the same."""
    seen = []
    attack = LinkMaps.model_validate_json(
        json.dumps({"kind": "link-maps", "of": SPAN | {"layer": 1}})
    )

    def watch(self, view, facts, state, rng):
        seen.append((view, facts, rng))
        return original(self, view, facts, state, rng)

    original = LinkMaps.run
    with monkeypatch.context() as patch:
        patch.setattr(LinkMaps, "run", watch)
        attacks = [attack.model_dump(mode="json")]
        setting = {"learning.attacks": attacks, "learning.threat.pseudonyms": NEW}
        run(tiny(BUSY | setting), tmp_path)
    full = bare = attack.start()
    for view, facts, rng in seen:
        estimates, full = attack.run(view, facts, full, rng)
        weights = np.full_like(view.model_before.parameters, np.nan)
        unknown = replace(view.model_before, parameters=weights)
        less = replace(view, timing=None, count=None, replica=None, model_before=unknown)
        timeless = RoundContext(facts.round, 0.0, facts.public)
        also, bare = attack.run(less, timeless, bare, rng)
        assert_array_equal(estimates.position_m, also.position_m)
    assert_array_equal(full.names.track, bare.names.track)


@mark.slow
def test_people_are_linked_by_their_days_and_their_homes_named_at_the_end(tmp_path):
    """Eight people under a new name each day; the attack also finds a sample of its own."""
    span = {"kind": "span", "layer": 1, "add": "scores"}
    attacks = [
        {"kind": "link-maps", "of": span},
        {"kind": "link-maps", "name": "then", "hindsight_names": 0, "of": span},
    ]
    few = {"world.ues.count": 8, "world.duration_s": 8 * 86_400, "learning.attacks": attacks}
    summary = run(load("tracking/names", few), tmp_path)
    for label in ("link-maps", "then"):
        right = summary[f"linking.{label}.right.percent"]
        assert right > 90 > 2 * summary[f"linking.{label}.chance_right.percent"]
        assert summary[f"attack.{label}.home_located.percent"] > 80
        assert summary[f"attack.{label}.home_located.shuffled.percent"] < 20
    assert table(tmp_path, "estimates").self_test_m.max() < 25  # a cell
