"""Pseudonyms: names under which the attacker sees senders."""

from netsim.part import OneOf

PSEUDONYMS = OneOf(
    "pseudonyms",
    places={
        "permanent": "fl.pseudonyms.permanent:Permanent",
        "per-round": "fl.pseudonyms.per_round:PerRound",
        "every": "fl.pseudonyms.every:Every",
        "mix-zones": "fl.pseudonyms.mix_zones:MixZones",
    },
)
"""The pseudonym slot: how long the attacker sees a UE under the same name."""
