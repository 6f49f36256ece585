"""Leakage of a round, and of a run that goes on."""

import json

import numpy as np
from interrupted import run_in_two

from benchmarks.growth import Work, document
from fl.leakage.distances import projections
from scenarios import load, run


def test_a_projection_has_the_same_bits_whatever_stands_beside_it():
    points = np.random.default_rng(4).normal(0, 300, (257, 2))
    whole = projections(points, 90)
    for first, end in ((0, 1), (3, 4), (10, 21), (100, 257)):
        assert whole[:, first:end].tobytes() == projections(points[first:end], 90).tobytes()


def test_a_run_that_goes_on_has_the_bytes_of_one_that_never_stopped(tmp_path):
    wanted = document(Work(8, 2, 2))
    del wanted["learning"]["defenses"][1]
    (file := tmp_path / "s.yaml").write_text(json.dumps(wanted))
    study = load(str(file))
    run(study, tmp_path / "whole")
    run_in_two(study, tmp_path / "two", lambda progress: progress.done == 4)
    for name in ("leakage.csv", "summary.json"):
        assert (tmp_path / "two" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
