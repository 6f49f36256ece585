r"""Names that change: how well they hide their owners from attacks that link them.

An update counts if its UE was seen before under another name. It is linked right if it is given to
the track that last held an update of that UE. An attacker that assigns k new names to the m UEs
that were seen before and have no old name now, at random, is right about each with probability 1 /
max(k, m).

Time to confusion is exposure over confusions: exposure is the time between successive updates of a
UE, summed over UEs; a confusion is an update that is not linked right or, by entropy, one whose
track could have gone on as several names,

    H = - sum_i p_i log2 p_i > 0.4 bit    (the likeliest has a probability of about 0.92),

which the attacker knows of itself. 2^H is the size of the anonymity set.
[Hoh and Gruteser 2005; Hoh et al. 2007, for time to confusion and its threshold.]

Measures of error compare every estimate with the truth, whichever UE is believed to have sent it.
What an attack names of a UE must follow from what the attacker knows: estimates belong together if
they were made under one name or, of an attack that links names, about one track, which may be that
of several UEs (`OwnedPlaces`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf, nan

import numpy as np
from scipy.sparse import csr_array

from fl.attacks.base import RevisedEstimates
from fl.leakage.distances import density_peaks
from fl.leakage.tracks import MOST_NAMED, NamedPlaces, Whereabouts
from fl.tracking.linking import NO_PERSON, UNKNOWN, Identities, NameLinks
from fl.tracking.pseudonyms import Names
from fl.types import Directory, Estimates
from netsim.columns import Columns, frozen, no_floats, no_ints, no_places, replaced
from netsim.geometry import Area
from netsim.record import Row
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray

CONFUSED_BITS = 0.4
"""entropy above which a track counts as lost"""


@frozen
class OwnedPlaces(Columns):
    """Centroids and places inside the area of one attack so far: owner (n,), a name or a track;
    place_m (n, 2), weight (n,), of centroids 1.
    """

    owner: IntArray = field(default_factory=no_ints)
    place_m: FloatArray = field(default_factory=no_places)
    weight: FloatArray = field(default_factory=no_floats)

    def plus(self, owner: IntArray, estimates: Estimates, area: Area) -> OwnedPlaces:
        """With estimates (k,) of a round, of owners (k,)."""
        what = np.array(estimates.what, dtype=object)
        new = OwnedPlaces(
            owner, estimates.position_m, np.where(what == "centroid", 1.0, estimates.weight)
        )
        use = ((what == "centroid") | (what == "place")) & area.contains(estimates.position_m)
        return self.join([self, new.select(use)])

    def named(self, owner: int, area: Area, width_m: float) -> NamedPlaces:
        """The two highest density peaks of what belongs to an owner."""
        mine = self.select(self.owner == owner)
        return NamedPlaces.ranked(
            density_peaks(mine.place_m, mine.weight, area, width_m, MOST_NAMED)
        )


def of_ues(revised: RevisedEstimates, names: Names) -> Estimates:
    """Estimates about tracks as estimates about UEs: each by the track that holds most of its
    names.
    """
    pairs, count = np.unique(
        np.stack([names.of[revised.name], revised.track], axis=1), axis=0, return_counts=True
    )
    pairs = pairs[np.lexsort([pairs[:, 1], -count, pairs[:, 0]])]
    ue, first = np.unique(pairs[:, 0], return_index=True)
    row, said = np.nonzero(pairs[first, 1][:, None] == revised.estimates.ue)
    return replace(revised.estimates.select(said), ue=ue[row])


def owners(ue: IntArray, names: Names, links: NameLinks | None) -> IntArray:
    """Names of estimates about UEs (k,), as the attacker sees it: the name of each UE now or, by
    links, its track.
    """
    name = names.now[ue]
    if links is None or not len(links.name):
        return name
    order = np.argsort(links.name)
    at = np.minimum(np.searchsorted(links.name, name, sorter=order), len(order) - 1)
    return links.track[order][at]


@frozen
class LinkedUpdates:
    """Links that an attack has made of the updates so far.

    track, name (n_ue,) : those of each UE's last update, -1 before any; seen_s (n_ue,) : its time.
    exposure_s, wrong, unsure, by_chance : sums over updates that count: time, confusions, those by
    entropy, and those of random links. silent : it has linked names without saying how sure it is.
    """

    track: IntArray
    name: IntArray
    seen_s: FloatArray
    exposure_s: float = 0.0
    wrong: int = 0
    unsure: int = 0
    by_chance: float = 0.0
    silent: bool = False

    @classmethod
    def nothing(cls, n_ue: int) -> LinkedUpdates:
        """Before the first round."""
        nameless = np.full(n_ue, -1)
        return cls(nameless, nameless, np.full(n_ue, np.nan))

    def plus(self, links: NameLinks, names: Names, time_s: float) -> tuple[LinkedUpdates, Row]:
        """With a round, and its row of the table `linking` without round, time and attack."""
        ue = names.of[links.name]
        before = self.track[ue] >= 0
        same = self.name[ue] == links.name
        again = before & ~same
        right = again & (links.track == self.track[ue])
        chance = chance_share(int((~same).sum()), int((self.track >= 0).sum()) - int(same.sum()))
        unsure = again & ~(links.entropy_bits <= CONFUSED_BITS)
        now = LinkedUpdates(
            replaced(self.track, ue, links.track),
            replaced(self.name, ue, links.name),
            replaced(self.seen_s, ue, time_s),
            exposure_s=self.exposure_s + float((time_s - self.seen_s[ue])[before].sum()),
            wrong=self.wrong + int((again & ~right).sum()),
            unsure=self.unsure + int(unsure.sum()),
            by_chance=self.by_chance + float(again.sum()) * (1.0 - chance),
            silent=self.silent or bool(np.isnan(links.entropy_bits[~links.born]).any()),
        )
        linked = again & ~links.born
        return now, {
            "seen": int(again.sum()),
            "linked": int(linked.sum()),
            "right_share": _mean(right, again),
            "chance_share": chance if again.any() else nan,
            "anonymity_set": _mean(2.0**links.entropy_bits, linked),
            "time_to_confusion_s": _over(now.exposure_s, now.wrong),
            "entropy_time_to_confusion_s": nan if now.silent else _over(now.exposure_s, now.unsure),
            "chance_time_to_confusion_s": _over(now.exposure_s, now.by_chance),
        }


@dataclass(frozen=True)
class Linking:
    """By attack: held, of attacks that link; owned, of all, nothing where names do not change."""

    held: dict[str, LinkedUpdates] = field(default_factory=dict)
    owned: dict[str, OwnedPlaces] = field(default_factory=dict)


def observe(
    before: Linking, label: str, links: NameLinks, names: Names, time_s: float
) -> tuple[Linking, Row]:
    """After a round in which an attack linked names: the state, and its row of the table
    `linking`.
    """
    last = before.held.get(label) or LinkedUpdates.nothing(len(names.now))
    held, row = last.plus(links, names, time_s)
    row = {"round": links.round, "time_s": time_s, "attack": label, **row}
    return replace(before, held=before.held | {label: held}), row


def identification(
    said: Identities, directory: Directory, users: tuple[str, ...], names: Names
) -> Row:
    """A row of the table `identities` without round, time and attack; users (n_ue,): the name of
    each UE.

    A name is linked right if the attack names the person who sent it, one of a person outside the
    directory if it says so. Linking names at random is right about each with probability 1 /
    people.
    """
    person = {user: i for i, user in enumerate(directory.user)}
    truth = np.array(
        [person.get(users[ue], NO_PERSON) for ue in names.of[said.name].tolist()], dtype=int
    )
    listed = truth >= 0
    given = said.person >= 0
    answered = said.person != UNKNOWN
    return {
        "people": len(directory.user),
        "names": int(listed.sum()),
        "others": int((~listed).sum()),
        "told": int(answered.sum()),
        "given": int(given.sum()),
        "right_share": _mean(said.person == truth, listed),
        "chance_share": 1.0 / len(directory.user) if listed.any() else nan,
        "probability": _mean(said.probability, given),
        "anonymity_set": _mean(2.0**said.entropy_bits, answered),
    }


def chance_share(names: int, ues: int) -> float:
    """With which probability a random assignment of names to UEs is right about a name."""
    return 1.0 / max(names, ues, 1)


def _mean(values: FloatArray | BoolArray, of: BoolArray) -> float:
    if of.any():
        return float(np.mean(values[of]))
    return nan


def _over(total_s: float, count: float) -> float:
    """Infinite before the first confusion; NaN before anything could be confused."""
    if count:
        return total_s / count
    if total_s:
        return inf
    return nan


RESOLUTIONS_M = (100.0, 500.0, 2500.0)
MOST_POINTS = 6
DRAWS = 20
MOST_UES = 500
"""UEs of smallest number that points are drawn of; they are distinguished from all"""


def unicity(traces: Whereabouts, rng: Rng) -> list[Row]:
    """Rows of the table `unicity`: the share of draws of p points of a UE that its trace alone has,
    by resolution.

    Each point is known as a round and a square of the grid. UEs with fewer than p points are left
    out, and p of which no UE has as many. [de Montjoye et al., Unique in the Crowd, Sci. Rep.
    3:1376, 2013.] Names do not matter: this is what is left of anonymity where nothing but names is
    hidden and each UE keeps one.
    """
    ues, owner = np.unique(traces.ue, return_inverse=True)
    rows = []
    for resolution_m in RESOLUTIONS_M:
        square = np.floor(traces.place_m / resolution_m).astype(int)
        point = np.unique(np.column_stack([traces.round, square]), axis=0, return_inverse=True)[
            1
        ].reshape(-1)
        has = csr_array(
            (np.ones(len(point), dtype=bool), (point, owner)), shape=(len(point), len(ues))
        )
        for p in range(1, MOST_POINTS + 1):
            alone = _alone(
                [point[owner == ue] for ue in range(min(len(ues), MOST_UES))], has, p, rng
            )
            if len(alone):
                row = {
                    "resolution_m": resolution_m,
                    "points": p,
                    "ues": len(alone) // DRAWS,
                    "draws": len(alone),
                }
                rows.append({**row, "unique_percent": 100.0 * float(np.mean(alone))})
    return rows


def _alone(points: list[IntArray], has: csr_array, p: int, rng: Rng) -> list[bool]:
    """Whether no other UE has the points of each draw.

    points: those of each UE; has (points, UEs): which UE has which.
    """
    alone = []
    for ue, mine in enumerate(points):
        if len(mine) >= p:
            keys = rng.uniform(
                "points", np.full(DRAWS, ue), (len(mine),), item=np.arange(DRAWS) + DRAWS * p
            )
            chosen = mine[np.argsort(keys, axis=1)[:, :p]]
            matches = has[chosen.ravel()].toarray().reshape(DRAWS, p, -1).all(axis=1)
            alone += (matches.sum(axis=1) == 1).tolist()
    return alone
