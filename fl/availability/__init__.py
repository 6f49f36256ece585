"""Availability of UEs: who may be asked for an update, and when."""

from fl.availability.always import Always
from netsim.part import OneOf

AVAILABILITIES = OneOf("availability", Always)
"""The availability slot: which UEs may be asked for an update."""
