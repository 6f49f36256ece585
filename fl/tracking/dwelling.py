r"""Home and workplace of a UE from estimates of many nights and days.

Estimates z_r of the rounds r of one night d have, with the home h, the likelihood

    p(z_d | h) = share prod_r e(z_r | h) + (1 - share) sum_h' pi(h') prod_r e(z_r | h'),

where share is the probability to sleep at home, pi the prior of places, and e the error of one estimate without the
part that persists (see `fl.tracking.error_model`): a night away is spent at one other place. The nights of one UE are
independent given h, so that log p(h) = log pi(h) + sum_d log p(z_d | h). The persistent part of the error displaces all
estimates of one place alike: what nights tell is the home so displaced, and the posterior is convolved with
N(0, bias_m^2). Without that step false places are named with certainty.

A workday d has the same form, and two more things are known. Who is not at work may be at home, so the other part is

    a_d = stay sum_h p(h | nights) prod_r e(z_r | h) + (1 - stay) sum_h' pi(h') prod_r e(z_r | h').

And many have no workplace, or work at home: then all days are a_d. With `employed` the probability of a workplace away
from home, and home within a distance left out of the prior of workplaces,

    p(w) ~ employed pi(w) (1 - P(home near w)) prod_d [share prod_r e(z_r | w) + (1 - share) a_d],
    p(none) ~ (1 - employed) prod_d a_d.

All likelihoods are relative to 1 / A, the density of an estimate that says nothing.
"""

from __future__ import annotations

import numpy as np

from fl.tracking.discs import blurred, disc_masses
from fl.tracking.error_model import ErrorModel
from fl.tracking.place_grid import PlaceGrid
from netsim.units import Float32Array, FloatArray

Maps = Float32Array
"""one number a place: (n, G)"""


def log_evidence(z_m: FloatArray, errors: ErrorModel, grid: PlaceGrid) -> Maps:
    """log A e (n, G) of the estimates (n, R, 2) of one round; 0 of a UE of whom nothing is said."""
    area = np.float32(np.prod(grid.area.side_m))
    e = errors.without_bias().likelihood(z_m, grid)
    e *= area
    return np.log(e, out=e)


def log_mean(log_e: Maps, probability: Maps) -> FloatArray:
    """log sum_h p(h) exp(log_e(h)) (n,), of maps (n, G) and probabilities (n, G) or (1, G)."""
    top = log_e.max(axis=1, keepdims=True)
    some = (np.exp(log_e - top) * probability).sum(axis=1, dtype=np.float64)
    return np.asarray(np.log(np.maximum(some, 1e-300)) + top[:, 0])


def log_mixed(share: float, log_e: Maps, log_other: FloatArray) -> Maps:
    """log(share exp(log_e) + (1 - share) exp(log_other)) (n, G), of maps (n, G) and what is elsewhere (n,)."""
    other = np.log1p(-share) + log_other
    mixed = np.logaddexp(np.float32(np.log(share)) + log_e, other[:, None].astype(np.float32))
    return np.asarray(mixed)


def log_away(stay: float, log_e: Maps, home: Maps, prior: Maps) -> FloatArray:
    """log a_d (n,): the estimates of a workday (n, G) of a UE that does not work that day."""
    here, elsewhere = log_mean(log_e, home), log_mean(log_e, prior)
    return np.asarray(np.logaddexp(np.log(stay) + here, np.log1p(-stay) + elsewhere))


def home_posterior(log_p: Maps, prior: Maps, grid: PlaceGrid, bias_m: float) -> tuple[Maps, Maps]:
    """p(h | nights) (n, G) as estimates show it, and of the true home: of sums of log p(z_d | h) (n, G)."""
    with np.errstate(divide="ignore"):
        seen = _normalised(log_p + np.log(prior))
    return seen, _scaled(blurred(seen, grid, bias_m))


def work_posterior(
    log_p: Maps, log_none: FloatArray, home: Maps, employed: float, prior: Maps, grid: PlaceGrid, errors: ErrorModel,
    apart_m: float,
) -> Maps:  # fmt: skip
    """p(w) (n, G) of the true workplace; what is left to 1 is the probability that there is none away from home.

    The UE does not work away from home where no place is further from it than apart_m. log_p (n, G), log_none (n,) :
    sums over days of the logarithms of both parts; home (n, G) : as estimates show it.
    """
    apart = prior * np.maximum(1.0 - disc_masses(home, grid, apart_m), 0.0)
    with np.errstate(divide="ignore"):
        each = log_p + np.log(apart)
    far = np.asarray(apart.any(axis=1))  # of whom some place is apart from home: not in an area as small as a disc
    each = np.where(far[:, None], each, np.float32(0.0))
    top = each.max(axis=1, keepdims=True)
    some = np.log(np.exp(each - top).sum(axis=1, dtype=np.float64)) + top[:, 0]
    odds = np.log(employed) + some - np.log1p(-employed) - log_none
    there = np.where(far, np.exp(-np.logaddexp(0.0, -odds)), 0.0)
    shown = blurred(_normalised(each), grid, errors.bias_m)
    return _scaled(shown) * there[:, None].astype(np.float32)


def _normalised(log_p: Maps) -> Maps:
    """Probabilities (n, G) of logarithms up to a constant."""
    return _scaled(np.exp(log_p - log_p.max(axis=1, keepdims=True)))


def _scaled(p: Maps) -> Maps:
    """Rows that sum to 1."""
    return np.asarray(p / p.sum(axis=1, keepdims=True, dtype=np.float64).astype(np.float32))
