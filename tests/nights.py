"""Nights of made-up UEs at home, and the posterior of homes on them."""

import numpy as np

from fl.tracking.dwelling import home_posterior, log_evidence, log_mean, log_mixed
from fl.tracking.error_model import ErrorModel
from fl.tracking.place_grid import PlaceGrid, best_discs
from netsim.geometry import Area

TOWN = Area(0.0, 0.0, 10_000.0, 10_000.0)


def even(grid):
    return np.full((1, len(grid)), 1 / len(grid), np.float32)


def homes_stated(bias_m, assumed_m, nights, count=120, seed=0):
    """By number of nights: of each UE whether it is right within 100 m, and the probability stated.

    Eight rounds a night, 7 % of nights away, 300 m a axis, a fifth anywhere in 10 x 10 km, cells of
    50 m.
    """
    grid = PlaceGrid.over(TOWN, 50.0, 1, "tests")
    draw = np.random.default_rng(seed)
    home = draw.uniform(500, 9500, (count, 2))
    bias = bias_m * draw.normal(size=(count, 1, 2))
    errors = ErrorModel.plain(float(np.hypot(300, assumed_m)), 0.2, assumed_m)
    log_p = np.zeros((count, len(grid)), np.float32)
    found = {}
    for night in range(1, max(nights) + 1):
        at = np.where(draw.random((count, 1)) < 0.07, draw.uniform(0, 10_000, (count, 2)), home)
        z = at[:, None] + bias + 300 * draw.normal(size=(count, 8, 2))
        z = np.where(draw.random((count, 8, 1)) < 0.2, draw.uniform(0, 10_000, (count, 8, 2)), z)
        for some in np.array_split(np.arange(count), count // 20):
            log_e = sum(log_evidence(z[some, i : i + 1], errors, grid) for i in range(8))
            log_p[some] += log_mixed(0.93, log_e, log_mean(log_e, even(grid)))
        if night in nights:
            centre, stated = best_discs(
                home_posterior(log_p, even(grid), grid, assumed_m)[1], grid, 100.0
            )
            found[night] = np.linalg.norm(centre - home, axis=1) <= 100, stated
    return found
