"""Nights of made-up UEs at home, and the posterior of homes on them."""

import numpy as np

from fl.tracking.dwelling import (
    compute_home_posterior,
    compute_log_evidence,
    compute_log_mean,
    mix_log_likelihoods,
)
from fl.tracking.error_model import ErrorModel
from fl.tracking.place_grid import PlaceGrid, find_best_discs
from netsim.geometry import Area

TOWN = Area(0.0, 0.0, 10_000.0, 10_000.0)


def even(grid):
    return np.full((1, len(grid)), 1 / len(grid), np.float32)


def homes_stated(bias_m, assumed_m, nights, count=120, seed=0):
    """By number of nights: of each UE whether it is right within 100 m, and the probability stated.

    Eight rounds a night, 7 % of nights away, 300 m a axis, a fifth anywhere in 10 x 10 km, cells of
    50 m.
    """
    grid = PlaceGrid.from_area(TOWN, 50.0, 1, "tests")
    prior = even(grid)
    draw = np.random.default_rng(seed)
    home = draw.uniform(500, 9500, (count, 2))
    bias = bias_m * draw.normal(size=(count, 1, 2))
    errors = ErrorModel.from_sigma(float(np.hypot(300, assumed_m)), 0.2, assumed_m)
    log_p = np.zeros((count, len(grid)), np.float32)
    homes = {}
    for night in range(1, max(nights) + 1):
        away = draw.random((count, 1)) < 0.07
        place_m = np.where(away, draw.uniform(0, 10_000, (count, 2)), home)
        z = place_m[:, None] + bias + 300 * draw.normal(size=(count, 8, 2))
        false = draw.random((count, 8, 1)) < 0.2
        z = np.where(false, draw.uniform(0, 10_000, z.shape), z)
        for ue in np.array_split(np.arange(count), count // 20):
            log_e = sum(compute_log_evidence(z[ue][:, [i]], errors, grid) for i in range(8))
            log_p[ue] += mix_log_likelihoods(0.93, log_e, compute_log_mean(log_e, prior))
        if night in nights:
            _, true = compute_home_posterior(log_p, prior, grid, assumed_m)
            centre, stated = find_best_discs(true, grid, 100.0)
            homes[night] = np.linalg.norm(centre - home, axis=1) <= 100, stated
    return homes
