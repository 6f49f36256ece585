"""The best power vector of a round by search, with everything known: links, senders, and required noise.

From each start, powers change by steps of decibels, one UE at a time, and pairs of UEs exchange theirs, as long as
the cost falls; then with half of the step. All rounds are searched at once. The result is a local
optimum, and no policy can reach it in play: the requirement of a round is known only when it is over.

Bounds on means over rounds couple rounds. There multipliers are found on other rounds, and the search is for the least
Lagrangian: a lower bound for every policy that keeps the bounds (see `rl.reward`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from netsim.columns import frozen
from netsim.radio.uplink import ComplexArray
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray
from rl.look import Look, silent
from rl.radio_records import Air, Links, Rounds, Rows
from rl.reward import Reward, first_prices, over
from rl.rules import Known, within

_STEPS_DB = (8.0, 4.0, 2.0, 1.0, 0.5)
_MAX_MOVES = 200  # of one step
_DUAL_STEPS, _DUAL_RATE = 40, 0.5  # the rate falls as 1 / step
_ACTIONS, _STD_DB = 12, 5.0  # around the start, by which the first multipliers are found


@frozen
class Found:
    """The best of a search: cost (S,), power_w (S, K), and the number of power vectors evaluated."""

    cost: FloatArray
    power_w: FloatArray
    judged: int


def best_powers(known: Known, starts_dbw: list[FloatArray]) -> Found:
    """The best powers of each round, from several starts (S, K)."""
    found = [_searched(known, start) for start in starts_dbw]
    costs = np.stack([cost for cost, *_ in found])
    best = costs.argmin(axis=0)
    powers_w = np.stack([within(dbw, known.look.limits) for _, dbw, _ in found])
    at = np.arange(len(known))
    return Found(costs[best, at], powers_w[best, at], sum(judged for *_, judged in found))


def best_multipliers(known: Known, start_dbw: FloatArray, rng: Rng) -> FloatArray:
    """Multipliers (m,) at which the best powers of these rounds keep the bounds, from a start (S, K)."""
    reward = known.reward
    limits = known.look.limits
    n = len(known)
    tried = start_dbw[:, None] + _STD_DB * rng.generator("prices").standard_normal((n, _ACTIONS, start_dbw.shape[1]))
    around = known.figures(within(tried.reshape(n * _ACTIONS, -1), limits), np.repeat(np.arange(n), _ACTIONS))
    prices = first_prices(reward, around, n)
    dbw = start_dbw
    for step in range(_DUAL_STEPS):
        _, dbw, _ = _searched(known.at(prices.multipliers), dbw, _STEPS_DB if step == 0 else _STEPS_DB[2:])
        found = known.figures(within(dbw, limits))
        prices = prices.raised(over(reward, found), _DUAL_RATE * 5 / (5 + step))
    return prices.multipliers


def _searched(
    known: Known, start_dbw: FloatArray, steps_db: tuple[float, ...] = _STEPS_DB
) -> tuple[FloatArray, FloatArray, int]:
    """Costs (S,), powers (S, K) in dBW that no move improves, and the number of vectors evaluated."""
    limits = known.look.limits
    low = 10 * np.log10(limits.each_min_w)
    high = 10 * np.log10(limits.each_max_w)
    dbw = np.clip(start_dbw, low, high)
    cost = known.cost(within(dbw, limits))
    judged = len(cost)
    for step_db in steps_db:
        going = np.arange(len(known))
        for _ in range(_MAX_MOVES):
            tried = np.clip(_moves(dbw[going], step_db), low, high)  # (n, moves, K)
            n, moves, k = tried.shape
            value = known.cost(within(tried.reshape(-1, k), limits), np.repeat(going, moves)).reshape(n, moves)
            judged += value.size
            best = value.argmin(axis=1)
            better = value[np.arange(n), best] < cost[going] - 1e-9
            if not better.any():
                break
            some = going[better]
            dbw[some], cost[some] = tried[better, best[better]], value[better, best[better]]
            going = some
    return cost, dbw, judged


def _moves(dbw: FloatArray, step_db: float) -> FloatArray:
    """One UE up or down by a step, or two exchanged: (n, 2 K + K (K - 1) / 2, K) of powers (n, K)."""
    k = dbw.shape[1]
    up = dbw[:, None] + step_db * np.concatenate([np.eye(k), -np.eye(k)])
    i, j = np.triu_indices(k, 1)
    exchange: IntArray = np.tile(np.arange(k), (len(i), 1))
    exchange[np.arange(len(i)), i], exchange[np.arange(len(i)), j] = j, i
    return np.concatenate([up, dbw[:, exchange]], axis=1)


def planned_w(
    look: Look, factor: float, lost_noise: FloatArray, air: Air, reward: Reward, multipliers: FloatArray,
    start_dbw: FloatArray,
) -> tuple[FloatArray, int]:  # fmt: skip
    """Powers (1, K) in W for one round, and the number of power vectors evaluated.

    The start (1, K) in dBW is kept where no requirement is known yet. factor : A^(T-1-t); lost_noise (1,) : kappa;
    multipliers (m,) : of the reward's bounds.
    """
    known = Known(expected(look, factor, lost_noise), look, air, reward, multipliers)
    if not (look.required_std > 0).any():
        return within(start_dbw, look.limits), 0
    found = best_powers(known, [start_dbw])
    return found.power_w, found.judged


def expected(look: Look, factor: float, lost_noise: FloatArray) -> Rounds:
    """The expected round: one row for each UE that is there, with the requirement of its last row; for a UE that never
    sent, the root mean square of the others.
    """
    k = look.there.shape[1]
    asked = look.required_std
    usual = np.sqrt(np.mean(asked[asked > 0] ** 2)) if (asked > 0).any() else 0.0
    there = look.there.astype(np.int64)
    of = np.where(look.there, np.arange(k), -1)
    weight = there / max(int(there.sum()), 1)
    rows = Rows(of, weight, np.where(asked > 0, asked, usual), look.rho, np.array([factor]), lost_noise)
    return replace(silent(look), links=phaseless(look.links), rows=rows, count=there)


def phaseless(links: Links) -> Links:
    """Links of the same gains whose channels are all aligned alike: |h_k^H h_j|^2 = ||h_k||^2 ||h_j||^2 / M.

    With c = 1 / sqrt(M) rows of L, L L^T = (1 - c) I + c 1 1^T, are unit vectors of K numbers with inner products c.
    """
    return replace(links, h=_alike(links.h), heard=_alike(links.heard))


def _alike(h: ComplexArray) -> ComplexArray:
    """Amplitudes (S, K, n_bs, K) for (S, K, n_bs, M); of one antenna, which has no alignment, as they are."""
    antennas = h.shape[3]
    k = h.shape[1]
    if antennas < 2 or not h.shape[2]:
        return h
    c = 1.0 / np.sqrt(antennas)
    unit = np.linalg.cholesky((1.0 - c) * np.eye(k) + c)
    size = np.sqrt((h.real**2 + h.imag**2).sum(axis=3))
    return np.asarray(size[..., None] * unit[:, None, :], dtype=np.complex128)
