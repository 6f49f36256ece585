"""Which estimates an attacker can tell to be of one UE, where names change.

Measures of error compare every estimate with the truth, whichever UE is believed to have sent it. What an attack names
of a UE must follow from what the attacker knows: estimates belong together if they were made under one name or, of an
attack that links names, about one track, which may be that of several UEs. Home and work are looked for in the two
highest density peaks of the estimates that belong to the present name or track of the UE. Of an attack that links all
names again in hindsight, what it says of the track that holds most of the UE's names counts.
"""

from __future__ import annotations

from dataclasses import field, replace

import numpy as np

from fl.attacks.base import RevisedEstimates
from fl.leakage.distances import density_peaks
from fl.leakage.named import MOST_NAMED, NamedPlaces
from fl.pseudonyms.names import Names
from fl.tracking.linking import NameLinks
from fl.types import Estimates
from netsim.columns import frozen, no_floats, no_ints, no_places
from netsim.geometry import Area
from netsim.units import FloatArray, IntArray


@frozen
class OwnedPlaces:
    """Centroids and places inside the area of one attack so far: owner (n,), a name or a track; place_m (n, 2), weight
    (n,), of centroids 1.
    """

    owner: IntArray = field(default_factory=no_ints)
    place_m: FloatArray = field(default_factory=no_places)
    weight: FloatArray = field(default_factory=no_floats)

    def plus(self, owner: IntArray, estimates: Estimates, area: Area) -> OwnedPlaces:
        """With estimates (k,) of a round, of owners (k,)."""
        what = np.array(estimates.what, dtype=object)
        use = np.flatnonzero(((what == "centroid") | (what == "place")) & area.contains(estimates.position_m))
        weight = np.where(what[use] == "centroid", 1.0, estimates.weight[use])
        return OwnedPlaces(
            np.concatenate([self.owner, owner[use]]),
            np.concatenate([self.place_m, estimates.position_m[use]]),
            np.concatenate([self.weight, weight]),
        )

    def named(self, owner: int, area: Area, width_m: float) -> NamedPlaces:
        """The two highest density peaks of what belongs to an owner."""
        mine = self.owner == owner
        return NamedPlaces.ranked(density_peaks(self.place_m[mine], self.weight[mine], area, width_m, MOST_NAMED))


def of_ues(revised: RevisedEstimates, names: Names) -> Estimates:
    """Estimates about tracks as estimates about UEs: each by the track that holds most of its names."""
    pairs, count = np.unique(np.stack([names.of[revised.name], revised.track], axis=1), axis=0, return_counts=True)
    pairs = pairs[np.lexsort([pairs[:, 1], -count, pairs[:, 0]])]
    ue, first = np.unique(pairs[:, 0], return_index=True)
    row, said = np.nonzero(pairs[first, 1][:, None] == revised.estimates.ue)
    return replace(revised.estimates.select(said), ue=ue[row])


def owners(ue: IntArray, names: Names, links: NameLinks | None) -> IntArray:
    """Names of estimates about UEs (k,), as the attacker sees it: the name of each UE now or, by links, its track."""
    name = names.now[ue]
    if links is None or not len(links.name):
        return name
    order = np.argsort(links.name)
    at = np.minimum(np.searchsorted(links.name[order], name), len(order) - 1)
    return links.track[order][at]
