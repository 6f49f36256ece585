"""Cities: the area and what stands in it."""

from netsim.city.base import City
from netsim.city.open_field import OpenField
from netsim.part import OneOf

__all__ = ["CITIES", "City", "OpenField"]

CITIES = OneOf("city", OpenField)
