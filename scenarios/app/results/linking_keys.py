"""Keys of a summary about attackers who link names, and about unicity."""

from __future__ import annotations

from scenarios.app.results.key import NAME, Key


def _key(rest: str, unit: str, meaning: str) -> Key:
    return Key(f"linking.{NAME}.{rest}", unit, meaning)


LINKED_RIGHT = _key(
    "right.percent", "%", "share of updates, whose UEs were seen before under another name, that the attack gave to "
    "the track that last held their UE; this and what follows where names change (linking.csv)"
)  # fmt: skip
LINKED_BY_CHANCE = _key("chance_right.percent", "%", "baseline: the same share of random assignments")
ANONYMITY_SET = _key(
    "anonymity_set.mean", "", "2^H, mean over updates that were linked; H: entropy in bits of the name under which a "
    "track goes on"
)  # fmt: skip
CONFUSION = _key(
    "time_to_confusion_s", "s", "time between successive updates of a UE, summed, over the number of updates that were "
    "not linked right; null where there is none"
)  # fmt: skip
CONFUSION_BY_ENTROPY = _key(
    "entropy_time_to_confusion_s", "s", "the same over the number of updates whose track had an entropy above 0.4 bit"
)
CONFUSION_BY_CHANCE = _key("chance_time_to_confusion_s", "s", "baseline: the same for random assignments")
UNICITY = Key(
    f"unicity.{NAME}.unique.percent", "%", "share of draws of so many true points of a UE that no other UE has; NAME: "
    "points-metres, the side of the squares (unicity.csv)"
)  # fmt: skip
"""NAME is no part of the study here"""
