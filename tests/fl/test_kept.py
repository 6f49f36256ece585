"""What is kept to save time gives the same bits as without, and takes bounded memory."""

import json

import numpy as np
import pytest
from interrupted import run_in_two

from benchmarks.growth import Work, document
from fl.leakage.distances import projections, sorted_projections
from fl.leakage.kept import KeptShadows
from fl.leakage.tracks import Track
from netsim.geometry import Area
from netsim.rng import Streams
from scenarios import load, run

AREA, RNG = Area(0.0, 0.0, 2000.0, 1500.0), Streams(1).at("leakage")


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

    def test_a_projection_has_the_same_bits_whatever_stands_beside_it(self):
        points = np.random.default_rng(4).normal(0, 300, (257, 2))
        whole = projections(points, 90)
        for first, end in ((0, 1), (3, 4), (10, 21), (100, 257)):
            assert whole[:, first:end].tobytes() == projections(points[first:end], 90).tobytes()


class TestRounds:
    def test_a_run_that_goes_on_has_the_bytes_of_one_that_never_stopped(self, tmp_path):
        wanted = document(Work(8, 2, 2))
        del wanted["learning"]["defenses"][1]
        (file := tmp_path / "s.yaml").write_text(json.dumps(wanted))
        study = load(str(file))
        run(study, tmp_path / "whole")
        run_in_two(study, tmp_path / "two", lambda progress: progress.done == 4)
        for name in ("leakage.csv", "wasserstein.csv", "summary.json"):
            assert (tmp_path / "two" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
