"""The best power vector of a round by search, with everything known: links, who sends, and what is required of them.

From each start, powers change by steps of decibels, one UE at a time, and pairs of UEs exchange theirs, as long as
anything lowers the cost; then with half of the step. All rounds are searched at once. What is found is a local optimum:
nobody can say that there is no better one, and nobody could play it, for the requirement of a round is known when it is
over.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.units import FloatArray, IntArray
from rl.rules import Known, within

_STEPS_DB = (8.0, 4.0, 2.0, 1.0, 0.5)
_MOST_MOVES = 200  # of one step


@dataclass(frozen=True)
class Found:
    """The best of a search: cost (S,), power_w (S, K), and how many power vectors were judged for it."""

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


def _searched(known: Known, start_dbw: FloatArray) -> tuple[FloatArray, FloatArray, int]:
    """Costs (S,), powers (S, K) in dBW that no move lowers, and how many vectors were judged."""
    limits = known.look.limits
    low, high = 10 * np.log10(limits.each_min_w), 10 * np.log10(limits.each_max_w)
    dbw = np.clip(start_dbw, low, high)
    cost = known.cost(within(dbw, limits))
    judged = len(cost)
    for step_db in _STEPS_DB:
        going = np.arange(len(known))
        for _ in range(_MOST_MOVES):
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
