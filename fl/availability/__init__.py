"""Availability of UEs: who may be asked for an update, and when."""

from fl.availability.always import Always
from fl.availability.at_home import AtHome
from fl.availability.battery import Battery
from fl.availability.charging import Charging
from fl.availability.diurnal import Diurnal
from netsim.part import OneOf

AVAILABILITIES = OneOf("availability", Always, AtHome, Charging, Diurnal, Battery)
"""The availability slot: which UEs may be asked for an update."""
