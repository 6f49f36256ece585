"""Leakage of a round, and of a run that goes on."""

import json
from dataclasses import replace

import numpy as np
from estimates import said
from interrupted import run_in_two
from numpy.testing import assert_equal

from benchmarks.growth import Work, document
from fl.leakage import leakage
from fl.leakage.distances import projections
from fl.leakage.leakage import ComparedRound, Leakage
from fl.leakage.tracks import TrackEstimates
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


def test_a_projection_has_the_same_bits_whatever_stands_beside_it():
    points = np.random.default_rng(4).normal(0, 300, (257, 2))
    whole = projections(points, 90)
    for first, end in ((0, 1), (3, 4), (10, 21), (100, 257)):
        assert whole[:, first:end].tobytes() == projections(points[first:end], 90).tobytes()


def observed(rounds):
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
        state, rows = leakage.observe(how, state, ComparedRound(number, local, local.mean_x(), told, AREA, PLACES), RNG)
        history.append(rows)
    return history


class TestRounds:
    def test_an_attack_that_never_told_of_a_round_has_the_row_of_one_that_told_nothing(self, monkeypatch):
        """The row is written down; without the short way it is computed."""
        short = [row for row in observed(3)[-1] if row["attack"] == "b"]
        monkeypatch.setattr(TrackEstimates, "nothing", classmethod(lambda cls: replace(_NOTHING, heard=-1)))
        long = [row for row in observed(3)[-1] if row["attack"] == "b"]
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


_NOTHING = TrackEstimates.nothing()
