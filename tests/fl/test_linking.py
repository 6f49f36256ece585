"""Linking of names: costs and assignment, fingerprints, measures beside chance, unicity, and the attack re-identify."""

import itertools
from dataclasses import replace
from math import log, log2

import numpy as np
import pandas as pd
import pytest
from interrupted import run_in_two
from linked import AREA, RNG, play

from fl.attacks.re_identify import ReIdentify
from fl.leakage.attributed import OwnedPlaces, owners
from fl.leakage.linking import Linking, chance_share, observe
from fl.leakage.tracking import Whereabouts as Truth
from fl.leakage.unicity import unicity
from fl.pseudonyms.names import Names, asked
from fl.pseudonyms.per_round import PerRound
from fl.tracking import linking
from fl.tracking.book import Book, Clues
from fl.tracking.error_model import ErrorModel
from fl.tracking.fingerprint import Numbers
from fl.tracking.likeness import NUMBERS, CellRarity, Directions, projected
from fl.tracking.linker import Linker, Rates
from fl.tracking.linking import Displacement, LastSeen, Linked
from fl.types import Estimates, Facts, Public
from netsim.errors import BadInput
from scenarios.app.run.runner import run

A = 1e8
STILL = Displacement(np.ones(1), np.zeros(1))
MOVING = Displacement(np.array([0.6, 0.3, 0.1]), np.array([0.0, 300.0, 2000.0]) ** 2)


def gaussian(away_m, var_m2):
    """N(away; 0, var I) in the plane."""
    return np.exp(-(np.asarray(away_m) ** 2).sum(axis=-1) / (2 * var_m2)) / (2 * np.pi * var_m2)


class TestLaw:
    def test_density_is_a_mixture_over_motions_and_outliers(self):
        at = LastSeen(np.array([[1000.0, 2000.0]]), np.array([50.0**2]))
        z = np.array([[[1400.0, 2300.0]]])
        found = linking.densities(at, np.array([2.0]), z, ErrorModel.plain(100.0, 0.1), MOVING, A)
        parts = sum(
            w * gaussian([400, 300], 50.0**2 + 2 * q + 100.0**2)
            for w, q in zip(MOVING.weight, MOVING.var_m2, strict=True)
        )
        assert found == pytest.approx(0.9 * parts + 0.1 / A, rel=1e-12)

    def test_density_of_two_ranks_of_which_one_may_be_missing(self):
        error = ErrorModel(np.array([0.7, 0.3]), np.array([100.0, 400.0]), 0.2, 0.0, np.ones(2), np.zeros((2, 2)))
        at, gap = LastSeen(np.zeros((1, 2)), np.zeros(1)), np.zeros(1)
        z = np.array([[[50.0, 0.0], [300.0, 0.0]], [[np.nan] * 2, [300.0, 0.0]], [[np.nan] * 2] * 2])
        both, second, none = linking.densities(at, gap, z, error, STILL, A)[0]
        near, far = gaussian([50, 0], 100.0**2), gaussian([300, 0], 400.0**2)
        assert both == pytest.approx(0.8 * (0.7 * near + 0.3 * far) + 0.2 / A)
        assert second == pytest.approx(0.8 * far + 0.2 / A)
        assert none == pytest.approx(1 / A)

    def test_an_estimate_whose_gain_is_small_tells_little(self):
        """Estimates near the middle, whatever the truth is: the ratio of two tracks comes near 1."""
        at = LastSeen(np.array([[1000.0, 5000.0], [9000.0, 5000.0]]), np.zeros(2))

        def odds(gain):
            offset = (1 - gain) * np.array([[5000.0, 5000.0]])
            error = ErrorModel(np.ones(1), np.array([500.0]), 0.01, 0.0, np.array([gain]), offset)
            z = offset + gain * at.mean_m[:1]
            found = linking.densities(at, np.zeros(2), z[:, None], error, STILL, A)[:, 0]
            return found[0] / found[1]

        assert odds(1.0) > 50 and odds(0.3) > odds(0.05) and odds(0.01) == pytest.approx(1, abs=0.05)

    def test_the_posterior_has_the_moments_of_the_mixture(self):
        """Against integration over a grid."""
        at, error = LastSeen(np.array([[0.0, 0.0]]), np.array([200.0**2])), ErrorModel.plain(150.0, 0.05)
        z = np.array([[[500.0, -200.0]]])
        after, share = linking.moved(at, np.ones(1), z, error, MOVING, A)
        step = 25.0
        line = np.arange(-9000, 9000, step)
        x = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
        before = [w * gaussian(x, 200.0**2 + q) for w, q in zip(MOVING.weight, MOVING.var_m2, strict=True)]
        seen = 0.95 * gaussian(z[0, 0] - x, 150.0**2) + 0.05 / A
        joint = np.array([b * seen for b in before])
        p = joint.sum(axis=0) / joint.sum()
        mean = p @ x
        np.testing.assert_allclose(after.mean_m[0], mean, atol=0.5)
        assert after.var_m2[0] == pytest.approx(float(p @ ((x - mean) ** 2).sum(axis=1) / 2), rel=1e-3)
        np.testing.assert_allclose(share[0], joint.sum(axis=1) / joint.sum(), atol=1e-4)

    @pytest.mark.parametrize("seed", range(10))
    def test_assignment_is_the_best_of_all(self, seed):
        """Against every way to link up to 5 names to up to 5 tracks, births and misses included."""
        rng = np.random.default_rng(seed)
        m, k = rng.integers(0, 6, 2)
        cost, birth, miss = rng.normal(3, 3, (m, k)), rng.normal(2), rng.uniform(0, 2)
        best = (np.inf, None)
        for links in itertools.product(range(-1, m), repeat=k):
            used = [j for j in links if j >= 0]
            if len(set(used)) < len(used):
                continue
            total = sum(cost[j, i] if j >= 0 else birth for i, j in enumerate(links)) + miss * (m - len(used))
            best = min(best, (total, links))
        np.testing.assert_array_equal(linking.assigned(cost, birth, miss), np.array(best[1], dtype=int))

    def test_entropy(self):
        cost = np.array([[0.0, 0.0, 0.0, 0.0], [0.0, log(3), 1e6, 1e6], [5.0, 1e6, 1e6, 1e6]])
        two = -(0.75 * log2(0.75) + 0.25 * log2(0.25))
        np.testing.assert_allclose(linking.entropies_bits(cost), [2.0, two, 0.0], atol=1e-12)
        assert linking.entropies_bits(np.zeros((3, 0))).tolist() == [0, 0, 0]

    def test_probabilities_of_links(self):
        cost = np.array([[0.0, 700.0], [log(2), 700.0]])
        share = linking.shares(cost, log(4))
        np.testing.assert_allclose(share[:, 0], [4 / 7, 2 / 7])
        np.testing.assert_allclose(share[:, 1], 0, atol=1e-200)


class TestFingerprint:
    def test_ratio_is_that_of_two_normal_densities(self):
        known = Numbers(
            np.array([[3.0]]), np.array([[2.0]]), np.array([4.0]), np.array([4.0]), np.array([20.0]), np.array([1.0]),
            np.array([4.0]),
        )  # fmt: skip
        # mean 1, t = 5 - 1 = 4, w = t / 4 = 1, b = 3, 1 / v = 3 + 1 / 3
        v = 0.3
        centre, var = v * (3 * 2.0 + 1.0 / 3.0), v + 1.0
        x = 2.5
        ratio = -0.5 * ((x - centre) ** 2 / var + log(var)) + 0.5 * ((x - 1.0) ** 2 / 4.0 + log(4.0))
        assert known.log_ratios(np.array([[x]]))[0, 0] == pytest.approx(ratio)
        assert known.log_ratios(np.array([[np.nan]]))[0, 0] == 0

    def test_numbers_that_are_all_alike_tell_nothing(self):
        known = Numbers.none(1).heard(np.full((5, 1), 3.0)).resized(np.zeros(0, int), 1).plus(np.array([0]), [[3.0]])
        assert known.log_ratios(np.array([[3.0]]))[0, 0] == 0

    @pytest.mark.parametrize("sd", [0.3, 3.0])
    def test_spread_within_a_ue_is_learnt_from_certain_links(self, sd):
        rng = np.random.default_rng(2)
        mean, n = rng.standard_normal((40, 1)), 40
        known = Numbers.none(1)
        for i in range(60):
            x = mean + sd * rng.standard_normal((n, 1))
            known = known.heard(x)
            if i == 0:
                known = known.resized(np.zeros(0, int), n)
            known = known.learnt(x, np.eye(n)).plus(np.arange(n), x)
        share = float(known.within[0] / known.pairs[0])
        assert share == pytest.approx(sd**2 / (sd**2 + mean.var()), rel=0.1)

    def test_the_same_cell_tells_more_the_rarer_it_is(self):
        cells = CellRarity(np.array([0, 1]), np.array([90.0, 10.0]), 5.0, 10.0)
        ratio = np.exp(cells.log_ratios(np.array([0, 1, -1])))
        np.testing.assert_allclose(ratio, [[0.5 / 0.9 + 0.5, 0.5, 1], [0.5, 0.5 / 0.1 + 0.5, 1]])

    def test_the_share_that_keeps_its_cell_is_learnt(self):
        """Of 50 UEs and 10 cells of equal shares, a UE stays with 0.8 and else goes anywhere."""
        rng, n = np.random.default_rng(3), 50
        cell, cells = rng.integers(0, 10, n), CellRarity.none()
        cells = cells.heard(cell).resized(np.zeros(0, int), n).plus(np.arange(n), cell)
        for _ in range(80):
            cell = np.where(rng.random(n) < 0.8, cell, rng.integers(0, 10, n))
            cells = cells.heard(cell).learnt(cell, np.eye(n)).plus(np.arange(n), cell)
        assert cells.same / cells.pairs == pytest.approx(0.8, abs=0.03)

    def test_projection_keeps_cosines(self):
        rng = np.random.default_rng(4)
        own = rng.standard_normal((6, 4000))
        update = np.concatenate([own + 0.5 * rng.standard_normal(own.shape) for _ in range(2)])
        unit = [projected(u, np.zeros(6, int), np.arange(6), 6, RNG) for u in (update[:6], update[6:])]
        cosine = unit[0] @ unit[1].T
        centred = [u - u.mean(axis=0) for u in (update[:6], update[6:])]
        exact = np.array([[a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in centred[1]] for a in centred[0]])
        assert np.abs(cosine - exact).max() < 4 / np.sqrt(NUMBERS)
        assert (cosine.argmax(axis=1) == np.arange(6)).all()

    def test_directions_tell_once_links_are_known(self):
        rng = np.random.default_rng(5)
        own, known = rng.standard_normal((8, 300)), Directions.none().resized(np.zeros(0, int), 8)
        for _ in range(20):
            x = own + 0.7 * rng.standard_normal(own.shape)
            unit = projected(x, np.zeros(8, int), np.arange(8), 8, RNG)
            ratio = known.log_ratios(unit)
            known = known.learnt(unit, np.eye(8)).plus(np.arange(8), unit)
        assert (ratio.argmax(axis=0) == np.arange(8)).all() and (np.diag(ratio) > 2).all()


class TestLinker:
    def test_two_ues_far_apart_are_always_linked_right(self):
        x = np.tile([[1000.0, 1000.0], [9000.0, 9000.0]], (40, 1, 1))
        found = play(x, 100.0, seen=0.7)
        assert found.right == 1.0
        assert found.row["time_to_confusion_s"] == found.row["entropy_time_to_confusion_s"] == np.inf
        assert found.row["anonymity_set"] == pytest.approx(1.0, abs=1e-3)

    def test_ues_at_one_place_are_linked_at_chance(self):
        found = play(np.full((400, 10, 2), 5000.0), 100.0)
        assert found.right == pytest.approx(0.1, abs=4 * np.sqrt(0.1 * 0.9 / 4000))
        assert found.row["time_to_confusion_s"] == pytest.approx(found.row["chance_time_to_confusion_s"], rel=0.05)
        assert found.row["chance_time_to_confusion_s"] == pytest.approx(300.0 / 0.9)
        assert 5 < found.row["anonymity_set"] < 10  # places differ by their errors, and the attacker cannot know that

    def test_fingerprints_alone_link(self):
        """The better, the less the numbers of a UE vary; never below chance (1 in 50)."""
        means = np.random.default_rng(7).standard_normal((50, 2))
        x = np.full((120, 50, 2), 5000.0)
        shares = [play(x, 100.0, 0.7, fingerprint=(means, sd)).right for sd in (1.0, 0.5, 0.2)]
        assert 0.03 < shares[0] < shares[1] < shares[2] and shares[2] > 0.3

    def test_motion_is_learnt(self):
        """UEs that stay: most links by the component that stays. UEs that drive: by those that move."""
        rng = np.random.default_rng(8)
        homes = np.tile(rng.uniform(0, 1e4, (5, 2)), (60, 1, 1))
        drives = homes + np.cumsum(rng.normal(0, 500, homes.shape), axis=0)
        shares = [_motion_of(x) for x in (homes, np.clip(drives, 0, 1e4))]
        assert shares[0] > 0.8 and shares[1] < 0.4

    def test_a_name_that_was_seen_stays_with_its_track(self):
        book, rates = Book.empty(2), Rates.start()
        far, near = np.array([[[9000.0, 9000.0]]]), np.array([[[1000.0, 1000.0]]])
        linker = linker_at(1)
        book, rates, first = linker.linked(np.array([0, 1]), clues(np.concatenate([near, far])), book, rates)
        book, rates, then = linker_at(2).linked(np.array([0, 2]), clues(np.concatenate([far, near])), book, rates)
        assert then.track[0] == first.track[0] and then.entropy_bits[0] == 0
        assert then.track[1] != first.track[0]

    def test_a_track_is_given_up_after_an_hour_and_its_name_comes_back_to_it(self):
        book, rates = Book.empty(2), Rates.start()
        here = np.array([[[1000.0, 1000.0]]])
        book, rates, first = linker_at(1).linked(np.array([0]), clues(here), book, rates)
        for number, born in ((13, False), (26, True)):  # 3600 s, and more
            _, _, links = linker_at(number).linked(np.array([7]), clues(here), book, rates)
            assert links.born[0] == born
        book, rates, again = linker_at(30).linked(np.array([0]), clues(here), book, rates)
        assert again.track[0] == first.track[0] and not again.born[0]
        assert len(book.track) == 1 and book.born == 1

    def test_two_names_of_one_round_are_two_tracks(self):
        book, rates, here = Book.empty(2), Rates.start(), np.array([[[1000.0, 1000.0]]])
        book, rates, _ = linker_at(1).linked(np.array([0]), clues(here), book, rates)
        book, rates, one = linker_at(2).linked(np.array([1]), clues(here), book, rates)
        book, rates, two = linker_at(2).linked(np.array([2]), clues(here), book, rates)
        assert one.track[0] == 0 and two.track[0] == 1
        both = one.plus(two)
        assert both.name.tolist() == [1, 2] and both.plus(two).name.tolist() == [1, 2]
        assert both.plus(replace(two, round=3)).name.tolist() == [2]


def _motion_of(x):
    """Share of the links that the component which stays has."""
    rng, book, rates = np.random.default_rng(0), Book.empty(2), Rates.start()
    for t, here in enumerate(x, start=1):
        z = (here + 20.0 * rng.standard_normal(here.shape))[:, None]
        name = len(here) * t + np.arange(len(here))
        book, rates, _ = linker_at(t).linked(name, clues(z), book, rates)
    return float(rates.motion[0] / rates.motion.sum())


def linker_at(number, round_s=300.0):
    facts = Facts(number, number * round_s, Public(AREA, 1), round_s=round_s)
    return Linker(ErrorModel.plain(50.0, 1e-3), facts, 40.0)


def clues(z):
    n = len(z)
    return Clues(z, np.full((n, 2), np.nan), np.full(n, -1), np.full((n, NUMBERS), np.nan))


class TestMeasures:
    def names(self, *rounds):
        names = Names.start(PerRound(), 4)
        for number, ue in enumerate(rounds, start=1):
            names = asked(names, PerRound(), np.array(ue), np.zeros(len(ue)), number, RNG)
            yield number, names, names.now[np.array(ue)]

    def test_a_hand_case(self):
        """Three UEs; in round 2 the tracks of two are swapped; in round 3 one is right, one is new to the attacker."""
        state, rows = Linking(), []
        tracks = {1: [0, 1, 2], 2: [1, 0, 2], 3: [1, 3]}
        bits = {1: [np.nan] * 3, 2: [0.0, 1.0, 0.3], 3: [2.0, np.nan]}
        for number, names, name in self.names([0, 1, 2], [0, 1, 2], [0, 3]):
            born = np.array([b != b for b in bits[number]])
            links = Linked(number, name, np.array(tracks[number]), born, np.array(bits[number]))
            state, row = observe(state, {"a": links}, names, 100.0 * number)
            rows.append({key: value[0] for key, value in row.items()})
        assert [r["seen"] for r in rows] == [0, 3, 1] and [r["linked"] for r in rows] == [0, 3, 1]
        assert rows[1]["right_share"] == pytest.approx(1 / 3) and rows[1]["chance_share"] == pytest.approx(1 / 3)
        assert rows[2]["right_share"] == 1.0  # UE 0 was given to track 1 before
        assert rows[1]["anonymity_set"] == pytest.approx((1 + 2 + 2**0.3) / 3)
        assert rows[1]["time_to_confusion_s"] == pytest.approx(300.0 / 2)
        assert rows[2]["time_to_confusion_s"] == pytest.approx(400.0 / 2)
        assert rows[1]["entropy_time_to_confusion_s"] == pytest.approx(300.0 / 1)
        assert rows[2]["entropy_time_to_confusion_s"] == pytest.approx(400.0 / 2)
        assert rows[2]["chance_time_to_confusion_s"] == pytest.approx(400.0 / (3 * 2 / 3 + 1 * (1 - 1 / 3)))
        assert np.isnan(rows[0]["right_share"]) and np.isnan(rows[0]["time_to_confusion_s"])

    def test_who_comes_back_and_is_given_a_new_track_is_seen_and_not_linked(self):
        """Its entropy is unknown, and counts to no anonymity set; it is a confusion, also by entropy."""
        state = Linking()
        for number, names, name in self.names([0, 1], [0, 1]):
            born, bits = ([True, True], [np.nan] * 2) if number == 1 else ([False, True], [1.0, np.nan])
            links = Linked(number, name, np.array([0, 2 * number]), np.array(born), np.array(bits))
            state, row = observe(state, {"a": links}, names, 100.0 * number)
        assert row["seen"] == [2] and row["linked"] == [1] and row["right_share"] == [0.5]
        assert row["anonymity_set"] == row["anonymity_set_median"] == [2.0]
        assert row["time_to_confusion_s"] == [200.0] and row["entropy_time_to_confusion_s"] == [100.0]

    def test_a_name_that_is_kept_counts_as_exposure_and_as_nothing_else(self):
        state = Linking()
        names = asked(Names.start(PerRound(), 2), PerRound(), np.array([0, 1]), np.zeros(2), 1, RNG)
        for number in (1, 2):
            links = Linked(number, names.now, np.array([0, 1]), np.zeros(2, bool), np.zeros(2))
            state, row = observe(state, {"a": links}, names, 50.0 * number)
        assert row["seen"] == [0] and state.held["a"].exposure_s == 100.0

    @pytest.mark.parametrize(("names", "ues"), [(1, 1), (3, 3), (2, 5), (5, 2)])
    def test_chance_against_random_assignments(self, names, ues):
        rng, right = np.random.default_rng(9), []
        for _ in range(4000):
            owner = rng.permutation(max(names, ues))[:names]  # UEs beyond `ues` are new; a name of one has no track
            given = rng.permutation(max(names, ues))[:names]
            right.append(np.mean(given == owner))
        assert np.mean(right) == pytest.approx(chance_share(names, ues), abs=0.02)

    def test_estimates_belong_to_names_or_to_tracks(self):
        *_, (_, names, name) = self.names([0, 1], [0, 1])
        links = Linked(2, name[:1], np.array([9]), np.zeros(1, bool), np.zeros(1))
        np.testing.assert_array_equal(owners(np.array([1, 0]), names, None), names.now[[1, 0]])
        np.testing.assert_array_equal(owners(np.array([0]), names, links), [9])
        n = 3
        place = np.array([[5000.0, 5000.0], [5010.0, 5000.0], [20_000.0, 0.0]])
        zero = np.zeros(n)
        said = Estimates(
            np.zeros(n, int), np.zeros(n, int), ["centroid"] * n, place, zero, zero, zero, zero, ["ok"] * n
        )
        owned = OwnedPlaces().plus(np.array([9, 9, 9]), said, AREA)
        assert np.hypot(*(owned.named(9, AREA, 100.0).place_m[0] - [5005, 5000])) < 60
        assert len(owned.named(8, AREA, 100.0).place_m) == 0 and len(owned.owner) == 2


class TestUnicity:
    def traces(self, *places):
        """One trace each, of a place a round."""
        ue = np.repeat(np.arange(len(places)), [len(p) for p in places])
        number = np.concatenate([np.arange(len(p)) for p in places])
        return Truth(number, ue, np.concatenate(places).astype(float))

    def test_a_hand_case(self):
        """Three UEs over two rounds; the first two share the first square, the last two the second."""
        far, near, other = [9000, 9000], [10, 10], [5000, 5000]
        rows = unicity(self.traces([near, other], [near, far], [other, far]), RNG)
        found = {(r["resolution_m"], r["points"]): r for r in rows}
        one, two = found[100.0, 1], found[100.0, 2]
        assert two["unique_percent"] == 100 and one["ues"] == two["ues"] == 3 and two["draws"] == 60
        # alone: UE 0 in round 2, UE 1 never, UE 2 in round 1: one point of two, one of them in three UEs never
        assert 15 < one["unique_percent"] < 55
        assert (100.0, 3) not in found

    def test_everybody_at_one_place_is_never_unique_and_one_ue_always_is(self):
        same = np.full((8, 2), 50.0)
        assert {r["unique_percent"] for r in unicity(self.traces(*[same] * 10), RNG)} == {0.0}
        assert {r["unique_percent"] for r in unicity(self.traces(same), RNG)} == {100.0}


# -- the attack in runs

BUSY = {"world.duration_s": 480, "world.ues.count": 6, "world.radio.uplink": {"kind": "oma", "decoding": "error-free"}}
NEW = {"kind": "per-round"}
SERVERS = {
    "rounds": {},
    "fedbuff": {"learning.server": {"kind": "fedbuff", "buffer": 3}, "world.radio.air": {}},
    "fedasync": {"learning.server": {"kind": "fedasync"}, "world.radio.air": {}},
}
RULES = [NEW, {"kind": "every", "period_s": 130}, {"kind": "mix-zones", "radius_m": 30}, {"kind": "permanent"}]
THREATS = [
    {}, {"sees": "sum", "sum_of": 2}, {"viewpoint": "eavesdropper", "at_m": [200, 150]},
    {"shuffle": True, "pseudonyms": NEW}, {"knows": []},
]  # fmt: skip


def table(folder, name):
    return pd.read_csv(folder / f"{name}.csv")


@pytest.mark.slow
@pytest.mark.parametrize("threat", range(len(THREATS)))
@pytest.mark.parametrize("rule", range(len(RULES)))
@pytest.mark.parametrize("server", SERVERS)
def test_runs_and_goes_on_to_the_same_bytes(server, rule, threat, tiny, tmp_path, table_bytes):
    attacks = [
        {"kind": "re-identify", "simulated_ues": 4},
        {"kind": "re-identify", "name": "by-print", "use": ["fingerprint"]},
    ]
    attacks.append({"kind": "re-identify", "name": "rings", "of": {"kind": "unit-votes"}, "sigma_m": 50})
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
        assert (linked.linked <= linked.seen).all() and linked.right_share.dropna().between(0, 1).all()


@pytest.mark.slow
@pytest.mark.parametrize("server", SERVERS)
def test_under_permanent_names_it_is_the_attack_that_it_wraps(server, tiny, tmp_path):
    attacks = [{"kind": "unit-votes"}, {"kind": "re-identify", "of": {"kind": "unit-votes"}, "sigma_m": 50}]
    tracker = {"kind": "tracker", "sigma_m": 30, "cell_m": 40}
    attacks += [tracker, {"kind": "re-identify", "name": "tracks", "of": tracker, "sigma_m": 50}]
    run(tiny(BUSY | SERVERS[server] | {"learning.attacks": attacks}), tmp_path)
    every = table(tmp_path, "estimates").drop(columns="self_test_m")
    keys = ["round", "ue", "model", "quantity", "weight"]
    for plain, wrapped in (("unit-votes", "re-identify"), ("tracker", "tracks")):
        one, two = (every[every.attack == a].drop(columns="attack").sort_values(keys) for a in (plain, wrapped))
        assert len(one) > 20
        pd.testing.assert_frame_equal(one.reset_index(drop=True), two.reset_index(drop=True), rtol=1e-5)
    tracking = table(tmp_path, "tracking").sort_values(["round", "ue", "hindsight"])
    one, two = (tracking[tracking.attack == a].drop(columns="attack") for a in ("tracker", "tracks"))
    pd.testing.assert_frame_equal(one.reset_index(drop=True), two.reset_index(drop=True), rtol=1e-3, atol=1e-3)


def test_still_ues_apart_are_followed_through_names_of_a_round(tiny, tmp_path):
    """Six who stand still: what unit-votes adds up over their tracks is what it does under permanent names."""
    still = {"world.ues.mobility": {"kind": "static"}}
    attack = {"kind": "re-identify", "of": {"kind": "unit-votes"}, "sigma_m": 5}
    for name, threat in (("known", {}), ("new", {"pseudonyms": NEW})):
        summary = run(tiny(BUSY | still | {"learning.attacks": [attack], "learning.threat": threat}), tmp_path / name)
        assert ("linking.re-identify.right.percent" in summary) == (name == "new")
    assert summary["linking.re-identify.right.percent"] == 100
    assert summary["linking.re-identify.time_to_confusion_s"] is None
    assert summary["linking.re-identify.chance_right.percent"] == pytest.approx(100 / 6)
    assert summary["linking.re-identify.chance_time_to_confusion_s"] == pytest.approx(60 * 6 / 5)
    assert summary["unicity.2-2500.unique.percent"] == 0 and summary["unicity.6-2500.unique.percent"] == 0
    known, new = (
        table(tmp_path / f, "estimates").sort_values(["round", "ue", "model", "weight"]) for f in ("known", "new")
    )
    assert table(tmp_path / "new", "linking").right_share.dropna().min() > 0.99
    np.testing.assert_allclose(new[["x_m", "y_m"]], known[["x_m", "y_m"]], equal_nan=True)


@pytest.mark.parametrize(
    ("attack", "said"),
    [
        ({"use": ["place", "place"]}, "stands twice"),
        ({"use": ["fingerprint"], "sigma_m": 5}, "use has none"),
        ({"outlier": 0.1}, "give both, or none"),
        ({"of": {"kind": "closed-form", "name": "x"}}, "give that name to re-identify"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(attack, said, tiny):
    with pytest.raises(BadInput, match=said) as error:
        tiny({"learning.attacks": [{"kind": "re-identify"} | attack]})
    assert "\n" not in str(error.value)


def test_published_models_name_nobody_to_link(tiny):
    with pytest.raises(BadInput, match="names of senders"):
        tiny({"learning.attacks": [{"kind": "re-identify"}], "learning.threat": {"sees": "model"}})


def test_beliefs_of_tracks_are_told_by_their_latest_names():
    book = replace(Book.empty(2), name=np.arange(5), of=np.array([0, 1, 0, 1, 2]), since=np.array([1, 1, 2, 3, 3]))
    for number, expected in ((1, [0, 1]), (2, [2, 1]), (3, [2, 3, 4])):
        track, name = book.names_at(number)
        assert name.tolist() == expected and track.tolist() == list(range(len(expected)))
    assert ReIdentify().links(ReIdentify().start()).round == 0
