"""Keys of a summary about attackers who link names, to each other and to people, and about unicity."""

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


def _identity(rest: str, unit: str, meaning: str) -> Key:
    return Key(f"identities.{NAME}.{rest}", unit, meaning)


IDENTIFIED = _identity(
    "right.percent", "%", "of an attack that knows where people live: share of names, of all rounds, that it gave to "
    "the right person of its directory; names of people outside left out (identities.csv)"
)  # fmt: skip
IDENTIFIED_AT_END = _identity("right_at_end.percent", "%", "the same share in the last round with such names")
IDENTIFIED_BY_CHANCE = _identity("chance_right.percent", "%", "baseline: people given at random, 1 / people")
IDENTITY_STATED = _identity(
    "stated.percent", "%", "probability that the person is right, as the attack states it, mean over names that it "
    "gave to a person"
)  # fmt: skip
IDENTITY_STATED_RIGHT = _identity("stated_right.percent", "%", "share of these for which it is right")
IDENTITY_SET = _identity(
    "anonymity_set.mean", "", "2^H, mean over names of which it says anything; H: entropy in bits over people"
)
OTHERS_IDENTIFIED = _identity(
    "others_given.percent", "%", "share of names of people outside the directory that were given to a person, all of "
    "them falsely; null where everybody is in it"
)  # fmt: skip


UNICITY = Key(
    f"unicity.{NAME}.unique.percent", "%", "share of draws of so many true points of a UE that no other UE has; NAME: "
    "points-metres, the side of the squares (unicity.csv)"
)  # fmt: skip
"""NAME is no part of the study here"""
