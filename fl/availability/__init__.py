"""Availability of UEs for updates."""

from netsim.part import OneOf

AVAILABILITIES = OneOf(
    "availability",
    places={
        "always": "fl.availability.always:Always",
        "at-home": "fl.availability.at_home:AtHome",
        "charging": "fl.availability.charging:Charging",
        "diurnal": "fl.availability.diurnal:Diurnal",
        "battery": "fl.availability.battery:Battery",
    },
)
"""The availability slot: which UEs may be asked for an update."""
