r"""Which person of a directory a sender is, by where people live.

A sender j with p_j(h) from its nights, the probability of a home in each of G cells of an area (see
`fl.tracking.dwelling`), is person u of n with

    P(u | j) ~ (1 - outside) / n  G p_j(h_u),        P(none | j) ~ outside:

beforehand each person is as likely as any other, and who is not in the directory lives anywhere. G p is the likelihood
of the nights given a home at h_u, relative to that of a home anywhere. Senders that cannot be one person are given to
people so that the product of these is largest, each person to one sender at most (see `fl.tracking.linking.assigned`).
"""

from __future__ import annotations

import numpy as np

from fl.tracking.dwelling import Maps
from fl.tracking.linking import assigned
from fl.tracking.place_grid import PlaceGrid
from netsim.columns import frozen, no_ints
from netsim.units import FloatArray, IntArray

_LEAST = 1e-12  # of a ratio of likelihoods, and of the share of people outside

NO_PERSON, UNKNOWN = -1, -2
"""persons: none of the directory; nothing is said"""


@frozen
class Identities:
    """Persons of the directory, by index, that an attack gives the names (k,) of one round.

    probability (k,) : of that, as the attack states it; entropy_bits (k,) : over people and no person; NaN where
    nothing is said.
    """

    round: int
    name: IntArray
    person: IntArray
    probability: FloatArray
    entropy_bits: FloatArray

    @classmethod
    def none(cls) -> Identities:
        """Before the first round."""
        no = no_ints()
        return cls(0, no, no, np.zeros(0), np.zeros(0))

    @classmethod
    def unknown(cls, round_: int, name: IntArray) -> Identities:
        """No statement about names (k,)."""
        nothing = np.full(len(name), np.nan)
        return cls(round_, name, np.full(len(name), UNKNOWN), nothing, nothing)

    def plus(self, more: Identities) -> Identities:
        """With those of a later part of the round; of a round before nothing is left."""
        if self.round != more.round:
            return more
        old = ~np.isin(self.name, more.name)
        return Identities(
            more.round, *(np.concatenate([a[old], b]) for a, b in (
                (self.name, more.name), (self.person, more.person), (self.probability, more.probability),
                (self.entropy_bits, more.entropy_bits),
            ))
        )  # fmt: skip


def log_odds(home: Maps, home_m: FloatArray, grid: PlaceGrid, outside: float) -> FloatArray:
    """log P(u | j) / P(none | j) (m, n) of senders with home posteriors (m, G), and people with homes (n, 2)."""
    ratio = np.full((len(home), len(home_m)), _LEAST)
    inside = grid.area.contains(home_m)
    ratio[:, inside] = np.maximum(home[:, grid.nearest(home_m[inside])].astype(np.float64) * len(grid), _LEAST)
    share = max(outside, _LEAST)
    return np.asarray(np.log(ratio) + np.log((1.0 - share) / (share * max(len(home_m), 1))))


def identified(odds: FloatArray, order: IntArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Person (m,), its probability (m,) and entropies in bits (m,) of senders, each another, with log odds (m, n).

    order (n,) : in which people are looked at; it decides between people who are equally likely.
    """
    chosen = assigned(-odds[:, order].T, 0.0, 0.0)
    person = np.where(chosen >= 0, order[chosen] if len(order) else NO_PERSON, NO_PERSON)
    every = np.concatenate([odds, np.zeros((len(odds), 1))], axis=1)  # no person is last
    p = np.exp(every - every.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    entropy = -(p * np.log2(np.where(p > 0, p, 1.0))).sum(axis=1)
    return person, p[np.arange(len(p)), person], entropy
