"""Populations: what an attacker knows beforehand of where people are."""

from netsim.part import OneOf

POPULATIONS = OneOf(
    "population",
    places={
        "uniform": "fl.population.uniform:Everywhere",
        "streets": "fl.population.streets:AlongStreets",
        "buildings": "fl.population.buildings:InBuildings",
        "places": "fl.population.places:AtPlaces",
    },
)
"""The slot of an attacker's prior."""
