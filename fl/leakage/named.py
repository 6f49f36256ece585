"""The places that an attack names of a UE: where home and work are looked for.

An attack that answers (estimates "answer") names them itself, best first, at most two; or, where it says which is home,
work or a third place, these, with the probability that each is right. Of any other attack they are the two highest
density peaks of all its estimates so far, which an attacker without the truth can compute.
"""

from __future__ import annotations

from dataclasses import field

import numpy as np

from fl.types import Estimates, rank_of_place
from netsim.columns import frozen, no_floats, no_ints, no_places
from netsim.geometry import Area
from netsim.units import FloatArray, IntArray

MOST_NAMED = 2
"""places of a UE in which home and work are looked for: of more answers those of largest weight, or those that are said
to be home and work"""


@frozen
class NamedPlaces:
    """Places named of a UE: place_m (k, 2), rank (k,) ascending from 1, place : home, work, third 1, ..., or empty
    where the attack does not say; probability (k,) : as stated, NaN where it is not.

    Home has rank 1 and work rank 2, also where only one of them is named.
    """

    place_m: FloatArray = field(default_factory=no_places)
    rank: IntArray = field(default_factory=no_ints)
    place: list[str] = field(default_factory=list)
    probability: FloatArray = field(default_factory=no_floats)

    @classmethod
    def ranked(cls, place_m: FloatArray) -> NamedPlaces:
        """Places (k, 2), best first, of which nothing else is said."""
        return cls(place_m, np.arange(1, len(place_m) + 1), [""] * len(place_m), np.full(len(place_m), np.nan))

    @property
    def best_two(self) -> FloatArray:
        """Where home and work are looked for: (2, 2) by rank, NaN where nothing is named."""
        found = np.full((MOST_NAMED, 2), np.nan)
        first = self.rank <= MOST_NAMED
        found[self.rank[first] - 1] = self.place_m[first]
        return found


def answers_of(estimates: Estimates, area: Area) -> dict[int, NamedPlaces]:
    """Answers of an attack in a round, by UE, whatever their model.

    A place that is repeated, for instance at each model of the UE, counts once. Answers outside of the area, or not
    finite, are left out; a UE of which only such ones were given has no places.
    """
    given = np.flatnonzero([what == "answer" for what in estimates.what])
    given = given[np.argsort(estimates.ue[given], kind="stable")]
    ues, first = np.unique(estimates.ue[given], return_index=True)
    found, inside = {}, area.contains(estimates.position_m)
    for ue, mine in zip(ues.tolist(), np.split(given, first[1:]), strict=False):  # an empty split without answers
        found[ue] = _named(estimates, mine[inside[mine]])
    return found


def _named(estimates: Estimates, mine: IntArray) -> NamedPlaces:
    """Of the answers about one UE (k,)."""
    mine = mine[np.argsort(-estimates.weight[mine], kind="stable")]
    rank = np.array([rank_of_place(estimates.status[i]) for i in mine], dtype=np.int64)
    if not (rank > 0).any():
        return NamedPlaces.ranked(_once(estimates.position_m[mine])[:MOST_NAMED])
    every, first = np.unique(rank[rank > 0], return_index=True)  # of two answers for one place the likelier
    best = mine[rank > 0][first]
    return NamedPlaces(
        estimates.position_m[best], every, [estimates.status[i] for i in best], estimates.weight[best].astype(float)
    )


def _once(place_m: FloatArray) -> FloatArray:
    """Places (k, 2) without repetitions, each where it comes first."""
    _, first = np.unique(place_m[:, 0] + 1j * place_m[:, 1], return_index=True)
    return place_m[np.sort(first)]
