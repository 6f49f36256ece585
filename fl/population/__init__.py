"""Populations: what an attacker knows beforehand of where people are."""

from fl.population.buildings import InBuildings
from fl.population.places import AtPlaces
from fl.population.streets import AlongStreets
from fl.population.uniform import Everywhere
from netsim.part import OneOf

POPULATIONS = OneOf("population", Everywhere, AlongStreets, InBuildings, AtPlaces)
"""The slot of an attacker's prior."""
