"""Schedulers: who of the UEs of a cell may send now, and in which resource blocks."""

from netsim.part import OneOf
from netsim.radio.schedulers.all_at_once import AllAtOnce
from netsim.radio.schedulers.energy_aware import EnergyAware
from netsim.radio.schedulers.groups import Groups
from netsim.radio.schedulers.proportional_fair import ProportionalFair
from netsim.radio.schedulers.round_robin import RoundRobin

SCHEDULERS = OneOf("scheduler", AllAtOnce, Groups, RoundRobin, ProportionalFair, EnergyAware)

__all__ = ["SCHEDULERS"]
