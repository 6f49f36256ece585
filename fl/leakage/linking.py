r"""Success of linking names: shares, anonymity sets, and the time until the attacker is confused.

An update counts if its UE was seen before under another name. It is linked right if it is given to the track that last
held an update of that UE. An attacker that assigns k new names to the m UEs that were seen before and have no old name
now, at random, is right about each with probability 1 / max(k, m).

Time to confusion is exposure over confusions: exposure is the time between successive updates of a UE, summed over UEs;
a confusion is an update that is not linked right or, by entropy, one whose track could have gone on as several names,

    H = - sum_i p_i log2 p_i > 0.4 bit    (the likeliest has a probability of about 0.92),

which the attacker knows of itself. 2^H is the size of the anonymity set.
[Hoh and Gruteser 2005; Hoh et al. 2007, for time to confusion and its threshold.]
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fl.leakage.attributed import OwnedPlaces
from fl.pseudonyms.names import Names
from fl.tracking.linking import NameLinks
from fl.types import Metrics
from netsim.columns import frozen
from netsim.record import Row
from netsim.units import BoolArray, FloatArray, IntArray

CONFUSED_BITS = 0.4
"""entropy above which a track counts as lost"""


@frozen
class LinkedUpdates:
    """Links that an attack has made of the updates so far.

    track, name (n_ue,) : those of each UE's last update, -1 before any; seen_s (n_ue,) : its time. exposure_s, wrong,
    unsure, by_chance : sums over updates that count: time, confusions, those by entropy, and those of random links.
    silent : it has linked names without saying how sure it is.
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


@dataclass(frozen=True)
class Linking:
    """By attack: held, of attacks that link; owned, of all, nothing where names do not change."""

    held: dict[str, LinkedUpdates] = field(default_factory=dict)
    owned: dict[str, OwnedPlaces] = field(default_factory=dict)


def observe(
    before: Linking, links: dict[str, NameLinks], names: Names, time_s: float
) -> tuple[Linking, dict[str, Any]]:
    """After a round in which attacks linked names: the state, and columns of the table `linking` without round."""
    held, rows = dict(before.held), list[Row]()
    for label, mine in links.items():
        last = held.get(label) or LinkedUpdates.nothing(len(names.now))
        held[label], row = _after(last, mine, names, time_s)
        rows.append({"attack": label, "time_s": time_s, **row})
    return replace(before, held=held), {key: [row[key] for row in rows] for key in (rows[0] if rows else ())}


def _after(last: LinkedUpdates, links: NameLinks, names: Names, time_s: float) -> tuple[LinkedUpdates, dict[str, Any]]:
    """One attack and round."""
    ue = names.of[links.name]
    before, same = last.track[ue] >= 0, last.name[ue] == links.name
    again = before & ~same
    right = again & (links.track == last.track[ue])
    chance = chance_share(int((~same).sum()), int((last.track >= 0).sum()) - int(same.sum()))
    sure = again & (links.entropy_bits <= CONFUSED_BITS)
    elapsed_s = time_s - last.seen_s[ue]
    now = replace(
        last,
        exposure_s=last.exposure_s + float(elapsed_s[before].sum()),
        wrong=last.wrong + int(again.sum() - right.sum()),
        unsure=last.unsure + int(again.sum() - sure.sum()),
        by_chance=last.by_chance + float(again.sum()) * (1.0 - chance),
        silent=last.silent or bool(np.isnan(links.entropy_bits[~links.born]).any()),
    )
    track, name, seen_s = last.track.copy(), last.name.copy(), last.seen_s.copy()
    track[ue], name[ue], seen_s[ue] = links.track, links.name, time_s
    return replace(now, track=track, name=name, seen_s=seen_s), {
        "seen": int(again.sum()),
        "linked": int((again & ~links.born).sum()),
        "right_share": _share(right, again),
        "chance_share": chance if again.any() else float("nan"),
        **_anonymity(links.entropy_bits[again & ~links.born]),
        "time_to_confusion_s": _over(now.exposure_s, now.wrong),
        "entropy_time_to_confusion_s": float("nan") if now.silent else _over(now.exposure_s, now.unsure),
        "chance_time_to_confusion_s": _over(now.exposure_s, now.by_chance),
    }


def chance_share(names: int, ues: int) -> float:
    """With which probability a random assignment of names to UEs is right about a name."""
    return 1.0 / max(names, ues, 1)


def _anonymity(entropy_bits: FloatArray) -> Metrics:
    """Mean and median of 2^H."""
    size = 2.0**entropy_bits
    none = float("nan")
    mean, median = (float(np.mean(size)), float(np.median(size))) if len(size) else (none, none)
    return {"anonymity_set": mean, "anonymity_set_median": median}


def _share(some: BoolArray, of: BoolArray) -> float:
    return float(some.sum() / of.sum()) if of.any() else float("nan")


def _over(total_s: float, count: float) -> float:
    """Infinite before the first confusion; NaN before anything could be confused."""
    return total_s / count if count else float("inf") if total_s else float("nan")
