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
from fl.leakage.distances import find_density_peaks
from fl.leakage.tracks import MAX_NAMED, NamedPlaces, Whereabouts
from fl.tracking.linking import NO_PERSON, UNKNOWN, Identities, NameLinks
from fl.tracking.pseudonyms import Names
from fl.types import Directory, Estimates
from netsim.columns import Columns, frozen, no_floats, no_ints, no_places, replace_values
from netsim.geometry import Area
from netsim.record import Row, TableRows
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray, Texts

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
        is_centroid = estimates.kind == "centroid"
        is_inside = area.contains(estimates.position_m)
        new = OwnedPlaces(owner, estimates.position_m, np.where(is_centroid, 1.0, estimates.weight))
        is_used = (is_centroid | (estimates.kind == "place")) & is_inside
        return self.join([self, new.select(is_used)])

    def name_places(self, owner: int, area: Area, width_m: float) -> NamedPlaces:
        """The two highest density peaks of what belongs to an owner."""
        rows = self.select(self.owner == owner)
        return NamedPlaces.rank_in_order(
            find_density_peaks(rows.place_m, rows.weight, area, width_m, MAX_NAMED)
        )


def translate_to_ues(revised: RevisedEstimates, names: Names) -> Estimates:
    """Estimates about tracks as estimates about UEs: each by the track that holds most of its
    names.
    """
    pairs = np.stack([names.owner[revised.name], revised.track], axis=1)
    pairs, count = np.unique(pairs, axis=0, return_counts=True)
    owner, track = pairs.T
    order = np.lexsort([track, -count, owner])
    ue, first = np.unique(owner[order], return_index=True)
    named_track = track[order][first]
    row, answer = np.nonzero(named_track[:, None] == revised.estimates.ue)
    return replace(revised.estimates.select(answer), ue=ue[row])


def find_estimate_owners(ue: IntArray, names: Names, links: NameLinks | None) -> IntArray:
    """Names of estimates about UEs (k,), as the attacker sees it: the name of each UE now or, by
    links, its track.
    """
    name = names.name_of_ue[ue]
    if links is None or not len(links.name):
        return name
    order = np.argsort(links.name)
    index = np.searchsorted(links.name, name, sorter=order)
    index = np.minimum(index, len(order) - 1)
    return links.track[order][index]


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
    def start(cls, n_ue: int) -> LinkedUpdates:
        """Before the first round."""
        nameless = np.full(n_ue, -1)
        return cls(nameless, nameless, np.full(n_ue, np.nan))

    def plus(self, links: NameLinks, names: Names, time_s: float) -> tuple[LinkedUpdates, Row]:
        """With a round, and its row of the table `linking` without round, time and attack."""
        ue = names.owner[links.name]
        is_before = self.track[ue] >= 0
        is_same = self.name[ue] == links.name
        is_again = is_before & ~is_same
        is_right = links.track == self.track[ue]
        n_seen = int(is_again.sum())
        n_old = (self.track >= 0).sum() - is_same.sum()
        chance = 1.0 / max((~is_same).sum(), n_old, 1)  # of a random assignment of names to UEs
        is_unsure = is_again & ~(links.entropy_bits <= CONFUSED_BITS)
        is_linked = is_again & ~links.born
        exposure_s = self.exposure_s + (time_s - self.seen_s[ue])[is_before].sum()
        wrong = self.wrong + (is_again & ~is_right).sum()
        unsure = self.unsure + is_unsure.sum()
        by_chance = self.by_chance + n_seen * (1.0 - chance)
        after = LinkedUpdates(
            replace_values(self.track, ue, links.track),
            replace_values(self.name, ue, links.name),
            replace_values(self.seen_s, ue, time_s),
            exposure_s,
            wrong,
            unsure,
            by_chance,
            silent=self.silent or bool(np.isnan(links.entropy_bits[~links.born]).any()),
        )
        entropy_time_s = nan
        if not after.silent:
            entropy_time_s = _divide_time(exposure_s, unsure)
        return after, {
            "seen": n_seen,
            "linked": int(is_linked.sum()),
            "right_share": _average(is_right, is_again),
            "chance_share": chance if n_seen else nan,
            "anonymity_set": _average(2.0**links.entropy_bits, is_linked),
            "time_to_confusion_s": _divide_time(exposure_s, wrong),
            "entropy_time_to_confusion_s": entropy_time_s,
            "chance_time_to_confusion_s": _divide_time(exposure_s, by_chance),
        }


@dataclass(frozen=True)
class Linking:
    """By attack: held, of attacks that link; owned, of all, nothing where names do not change."""

    held: dict[str, LinkedUpdates] = field(default_factory=dict)
    owned: dict[str, OwnedPlaces] = field(default_factory=dict)


def record_links(
    before: Linking, label: str, links: NameLinks, names: Names, time_s: float
) -> tuple[Linking, Row]:
    """After a round in which an attack linked names: the state, and its row of the table
    `linking`.
    """
    last = before.held.get(label) or LinkedUpdates.start(len(names.name_of_ue))
    held, row = last.plus(links, names, time_s)
    row = {"round": links.round, "time_s": time_s, "attack": label, **row}
    return replace(before, held=before.held | {label: held}), row


def tabulate_identification(
    identities: Identities, directory: Directory, users: Texts, names: Names
) -> Row:
    """A row of the table `identities` without round, time and attack; users (n_ue,): the name of
    each UE.

    A name is linked right if the attack names the person who sent it, one of a person outside the
    directory if it says so. Linking names at random is right about each with probability 1 /
    people.
    """
    people = len(directory.user)
    person = {user: i for i, user in enumerate(directory.user)}
    ues = names.owner[identities.name].tolist()
    truth = np.array([person.get(users[ue], NO_PERSON) for ue in ues], dtype=int)
    is_listed = truth >= 0
    is_given = identities.person >= 0
    is_told = identities.person != UNKNOWN
    return {
        "people": people,
        "names": int(is_listed.sum()),
        "others": int((~is_listed).sum()),
        "told": int(is_told.sum()),
        "given": int(is_given.sum()),
        "right_share": _average(identities.person == truth, is_listed),
        "chance_share": 1.0 / people if is_listed.any() else nan,
        "probability": _average(identities.probability, is_given),
        "anonymity_set": _average(2.0**identities.entropy_bits, is_told),
    }


def _average(values: FloatArray | BoolArray, is_counted: BoolArray) -> float:
    if is_counted.any():
        return values[is_counted].mean()
    return nan


def _divide_time(total_s: float, count: float) -> float:
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


def measure_unicity(traces: Whereabouts, rng: Rng) -> TableRows:
    """Rows of the table `measure_unicity`: the share of draws of p points of a UE that its trace
    alone has, by resolution.

    Each point is known as a round and a square of the grid. UEs with fewer than p points are left
    out, and p of which no UE has as many. [de Montjoye et al., Unique in the Crowd, Sci. Rep.
    3:1376, 2013.] Names do not matter: this is what is left of anonymity where nothing but names is
    hidden and each UE keeps one.
    """
    ues, owner = np.unique(traces.ue, return_inverse=True)
    rows = []
    for resolution_m in RESOLUTIONS_M:
        square = np.floor(traces.place_m / resolution_m).astype(int)
        _, point = np.unique(np.column_stack([traces.round, square]), axis=0, return_inverse=True)
        point = point.reshape(-1)
        n = len(point)
        has = csr_array((np.ones(n, bool), (point, owner)), shape=(n, len(ues)))
        points_of_ue = [point[owner == ue] for ue in range(min(len(ues), MOST_UES))]
        for p in range(1, MOST_POINTS + 1):
            is_alone = _find_unique_draws(points_of_ue, has, p, rng)
            if is_alone:
                row = {
                    "resolution_m": resolution_m,
                    "points": p,
                    "ues": len(is_alone) // DRAWS,
                    "draws": len(is_alone),
                    "unique_percent": 100.0 * np.mean(is_alone),
                }
                rows.append(row)
    return rows


def _find_unique_draws(points: list[IntArray], has: csr_array, p: int, rng: Rng) -> list[bool]:
    """Whether no other UE has the points of each draw.

    points: those of each UE; has (points, UEs): which UE has which.
    """
    is_alone = list[bool]()
    for ue, point in enumerate(points):
        if len(point) < p:
            continue
        draw = np.arange(DRAWS) + DRAWS * p
        lot = rng.uniform("points", np.full(DRAWS, ue), (len(point),), item=draw)
        chosen = point[np.argsort(lot, axis=1)[:, :p]]
        matches = has[chosen.ravel()].toarray().reshape(DRAWS, p, -1).all(axis=1)
        is_alone += (matches.sum(axis=1) == 1).tolist()
    return is_alone
