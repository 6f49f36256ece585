"""Cities: the simulated area, its buildings and its streets."""

from netsim.city.base import City
from netsim.city.buildings import Buildings
from netsim.city.footprints import Footprints
from netsim.city.generated import Generated
from netsim.city.grid import Grid
from netsim.city.open_field import OpenField
from netsim.city.town import Town
from netsim.part import OneOf

__all__ = ["CITIES", "Buildings", "City", "Footprints", "Generated", "Grid", "OpenField", "Town"]

CITIES = OneOf("city", Town, OpenField, Grid, Footprints, Generated)
