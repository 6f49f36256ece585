"""Withholding: what devices decide to hold back by themselves, whatever the server asks."""

from netsim.part import OneOf

WITHHOLDINGS = OneOf(
    "withholding",
    places={
        "cooldown": "fl.withholding.cooldown:Cooldown",
        "daily-limit": "fl.withholding.daily_limit:DailyLimit",
        "home-zone": "fl.withholding.home_zone:HomeZone",
        "quiet-zones": "fl.withholding.quiet_zones:QuietZones",
        "random-silence": "fl.withholding.random_silence:RandomSilence",
    },
)
"""The withholding slot: what a UE that is asked holds back, samples or its whole update."""
