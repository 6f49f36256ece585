"""Particles beside cells on made-up tracks: what they know, and the CPU time that it takes.

`pytest -m slow -s tests/studies/test_particles_and_cells.py` prints the table of particles of docs/tracking.md.
"""

from dataclasses import dataclass
from time import process_time

import numpy as np
import pytest
from told_places import AREA, facts_of, played, tracker

from fl.attacks.tracker import Tracker
from fl.tracking.answers import answers, in_area

pytestmark = pytest.mark.slow

UES, ROUNDS, SEEDS = 6, 60, (0, 1, 2)
OUTLIER, STAY, STEP_M = 0.1, 0.6, 150.0


@dataclass(frozen=True)
class Cost:
    """CPU time of both passes, median error of the filter's answers, share of truths in the smoother's area of 90 %."""

    filter_s: float
    smoother_s: float
    error_m: float
    in90: float


def tracks(sigma_m: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Where UEs are, and what is estimated of it (T, n, 2): in a round they rest, or move by a Gaussian."""
    rng, shape = np.random.default_rng(seed), (ROUNDS, UES, 2)
    steps = np.where(rng.random((ROUNDS, UES, 1)) < STAY, 0.0, rng.normal(0, STEP_M, shape))
    at, high = rng.uniform(500, [3500, 2500], (UES, 2)), AREA.side_m - 1.0
    truth = np.array([at := np.clip(at + step, 1.0, high) for step in steps])
    said = np.clip(truth + rng.normal(0, sigma_m, shape), 0.5, high)
    anywhere = AREA.sample(rng.random(shape))
    return truth, np.where(rng.random((ROUNDS, UES, 1)) < OUTLIER, anywhere, said)


def cost(sigma_m: float, cell_m: float, particles: int | None, seed: int) -> Cost:
    truth, said = tracks(sigma_m, seed)
    attack: Tracker = tracker(said, sigma_m=sigma_m, outlier=OUTLIER, cell_m=cell_m, particles=particles)
    started, errors = process_time(), []
    for t, found, last in played(attack, said):
        mine = np.array(found.what) == "centroid"
        errors += np.hypot(*(found.position_m[mine] - truth[t, found.ue[mine]]).T).tolist()
        state = last
    filtered, inside = process_time(), []
    for belief in attack.hindsight(state, facts_of(ROUNDS - 1)):
        least = answers(belief.probability, belief.grid, 100.0).least90
        inside += in_area(belief.probability, belief.grid, truth[belief.round, belief.ue], least).tolist()
    return Cost(filtered - started, process_time() - filtered, float(np.median(errors)), float(np.mean(inside)))


def mean(sigma_m: float, what: str, cell_m: float, particles: int | None = None) -> Cost:
    """Over seeds, and a row of the table."""
    each = [cost(sigma_m, cell_m, particles, seed) for seed in SEEDS]
    over = Cost(*np.mean([[e.filter_s, e.smoother_s, e.error_m, e.in90] for e in each], axis=0))
    error = f"{over.error_m:.2g}" if over.error_m < 10 else f"{over.error_m:.0f}"
    print(f"| {sigma_m:g} | {what} | {over.filter_s:.2g} | {over.smoother_s:.2g} | {error} | {over.in90:.2f} |")
    return over


def test_particles_are_as_exact_as_estimates_and_cells_are_not() -> None:
    cost(1.0, 50.0, 300, 0)  # loads
    coarse, fine = (mean(1.0, f"cells of {cell_m:g} m", cell_m) for cell_m in (50.0, 10.0))
    few, many = (mean(1.0, f"{n} particles", 10.0, n) for n in (300, 1000))
    assert coarse.error_m > 12 and 2 < fine.error_m < 6
    assert few.error_m < 1.5 and many.error_m < 1.5  # of a Gaussian of 1 m an axis it is 1.2
    assert min(few.in90, many.in90) > 0.9


def test_of_coarse_estimates_both_know_the_same() -> None:
    cells = mean(300.0, "cells of 50 m", 50.0)
    cloud = [mean(300.0, f"{n} particles", 50.0, n) for n in (300, 1000, 5000)]
    for each in cloud:
        assert each.error_m == pytest.approx(cells.error_m, rel=0.08)
    assert 0.75 < cloud[0].in90 < cloud[2].in90
    assert cloud[2].in90 == pytest.approx(cells.in90, abs=0.04)
    assert cells.filter_s + cells.smoother_s < cloud[0].filter_s + cloud[0].smoother_s
