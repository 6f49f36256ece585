"""Pseudonyms: under which names the attacker sees who sends, and when they change."""

from fl.pseudonyms.every import Every
from fl.pseudonyms.mix_zones import MixZones
from fl.pseudonyms.per_round import PerRound
from fl.pseudonyms.permanent import Permanent
from netsim.part import OneOf

PSEUDONYMS = OneOf("pseudonyms", Permanent, PerRound, Every, MixZones)
"""The pseudonym slot: how long the attacker sees a UE under the same name."""
