"""What is kept to save time gives the same bits as without, and takes bounded memory."""

import json
from dataclasses import replace

import numpy as np
import pytest
from estimates import said
from interrupted import run_in_two
from numpy.testing import assert_array_equal, assert_equal

from benchmarks.growth import Work, document
from fl.leakage import kept as kept_module
from fl.leakage import leakage
from fl.leakage.distances import projections, sorted_projections
from fl.leakage.kept import KeptShadows
from fl.leakage.leakage import Leakage, Now
from fl.leakage.tracks import Said, Track
from fl.types import Local
from netsim.geometry import Area
from netsim.mobility.base import Places
from netsim.rng import Streams
from scenarios import load, run

AREA, RNG = Area(0.0, 0.0, 2000.0, 1500.0), Streams(1).at("leakage")
PLACES = Places(np.full((3, 2), 300.0), np.full((3, 2), 900.0))


def walk(seed, n=400):
    """Points with repeats."""
    return np.round(np.random.default_rng(seed).uniform(0, 1500, (n, 2)), -1)


def in_rounds(points, cuts, most):
    """The points of a track after each round; they are thinned on the way."""
    track = Track.empty()
    for some in np.split(points, cuts):
        if len(some):
            track = track.plus(some, most)
            yield track.points


@pytest.fixture
def sorted_anew(monkeypatch):
    """How many points were sorted in each call that sorts."""
    sizes = []

    def counted(points_m, directions):
        sizes.append(len(points_m))
        return sorted_projections(points_m, directions)

    monkeypatch.setattr(kept_module, "sorted_projections", counted)
    return sizes


class TestKeptShadows:
    @pytest.mark.parametrize("seed", range(5))
    @pytest.mark.parametrize("most_bytes", [0, 3000, 10**9])
    def test_bits_of_sorting_anew_and_never_more_bytes(self, seed, most_bytes):
        """Of two tracks that are thinned now and then, with room for none, for little and for all."""
        kept, cuts = KeptShadows(most_bytes), np.sort(np.random.default_rng(seed).integers(0, 400, 30))
        for of_both in zip(*(in_rounds(walk(seed + k), cuts, 100) for k in (0, 50)), strict=True):
            for ue, points in enumerate(of_both):
                found = kept.of(ue, points, 7)
                assert found.tobytes() == np.ascontiguousarray(sorted_projections(points, 7)).tobytes()
                assert kept.bytes <= most_bytes

    def test_only_new_points_are_sorted(self, sorted_anew):
        kept, points = KeptShadows(), walk(1)
        for n in (100, 120, 120, 123):
            kept.of("a", points[:n], 7)
        assert sorted_anew == [100, 20, 3]

    def test_any_other_set_is_sorted_anew(self, sorted_anew):
        """Fewer points, as of an earlier round; other points; other directions; another owner."""
        kept, points = KeptShadows(), walk(2)
        moved = points + (np.arange(400) == 5)[:, None]
        for of, directions in ((points[:50], 7), (points[:40], 7), (moved[:60], 7), (moved[:60], 9)):
            assert_array_equal(kept.of("a", of, directions), sorted_projections(of, directions))
        kept.of("b", moved[:60], 9)
        assert sorted_anew == [50, 40, 60, 60, 60]

    def test_bytes_are_those_of_what_is_kept(self):
        kept, points = KeptShadows(10_000), walk(3)
        kept.of("a", points[:100], 7)  # 1,600 bytes, and 5,600 of projections
        kept.of("b", points[:100], 7)  # no room
        assert kept.bytes == 7200
        kept.of("a", points[:200], 7)  # has outgrown all room
        assert kept.bytes == 0
        kept.of("b", points[:100], 7)
        assert kept.bytes == 7200

    def test_a_projection_has_the_same_bits_whatever_stands_beside_it(self):
        points = np.random.default_rng(4).normal(0, 300, (257, 2))
        whole = projections(points, 90)
        for first, end in ((0, 1), (3, 4), (10, 21), (100, 257)):
            assert whole[:, first:end].tobytes() == projections(points[first:end], 90).tobytes()


def observed(kept, rounds=12):
    """Rows of rounds in which `a` names centroids, `b` answers, of UEs that return to their places."""
    state, history = {}, []
    for number in range(1, rounds + 1):
        x = np.concatenate([walk(number + 10 * ue, 30) for ue in range(3)])
        local = Local(np.arange(3), np.zeros(3, int), np.array([0, 30, 60, 90]), x, np.zeros(90), np.zeros(90))
        told = {
            "a": said(*((ue, 0, "centroid", 100.0 * number, 50.0 * ue, 1.0) for ue in range(3))),
            "b": said(*((ue, 0, "answer", 100.0 * ue, 70.0, 1.0) for ue in range(3))),
        }
        how = Leakage(directions=12, max_points=100, random_baseline_draws=5)
        state, rows = leakage.observe(how, state, Now(number, local, local.mean_x(), told, AREA, PLACES), RNG, kept)
        history.append(rows)
    return history


class TestRounds:
    def test_rows_are_the_same_with_and_without(self):
        kept = KeptShadows()
        assert_equal(observed(kept), observed(None))
        assert kept.bytes > 0

    def test_an_attack_that_never_told_of_a_round_has_the_row_of_one_that_told_nothing(self, monkeypatch):
        """The row is written down; without the short way it is computed."""
        short = [row for row in observed(None, 3)[-1] if row["attack"] == "b"]
        monkeypatch.setattr(Said, "nothing", classmethod(lambda cls: replace(_NOTHING, heard=-1)))
        long = [row for row in observed(None, 3)[-1] if row["attack"] == "b"]
        for row in long:
            row["diverged_percent"] = np.nan  # 0 of -1 rounds
        assert_equal(short, long)

    def test_a_run_that_goes_on_has_the_bytes_of_one_that_never_stopped(self, tmp_path):
        wanted = document(Work(8, 2, 2))
        del wanted["learning"]["defenses"][1]
        (file := tmp_path / "s.yaml").write_text(json.dumps(wanted))
        study = load(str(file))
        run(study, tmp_path / "whole")
        run_in_two(study, tmp_path / "two", lambda progress: progress.done == 4)
        for name in ("leakage.csv", "wasserstein.csv", "summary.json"):
            assert (tmp_path / "two" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


_NOTHING = Said.nothing()
