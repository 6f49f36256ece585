"""Withholding: what devices decide to hold back by themselves, whatever the server asks."""

from fl.withholding.cooldown import Cooldown
from fl.withholding.daily_limit import DailyLimit
from fl.withholding.home_zone import HomeZone
from fl.withholding.quiet_zones import QuietZones
from fl.withholding.random_silence import RandomSilence
from netsim.part import OneOf

WITHHOLDINGS = OneOf("withholding", Cooldown, DailyLimit, HomeZone, QuietZones, RandomSilence)
"""The withholding slot: what a UE that is asked holds back, samples or its whole update."""
