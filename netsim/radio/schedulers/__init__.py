"""Schedulers: which UEs of a cell send, and in which resource blocks."""

from netsim.part import OneOf

SCHEDULERS = OneOf(
    "scheduler",
    renamed={"all-at-once": "simultaneous"},
    places={
        "simultaneous": "netsim.radio.schedulers.simultaneous:Simultaneous",
        "groups": "netsim.radio.schedulers.groups:Groups",
        "round-robin": "netsim.radio.schedulers.round_robin:RoundRobin",
        "proportional-fair": "netsim.radio.schedulers.proportional_fair:ProportionalFair",
        "energy-aware": "netsim.radio.schedulers.energy_aware:EnergyAware",
    },
)

__all__ = ["SCHEDULERS"]
