"""Cities: the simulated area, its buildings and its streets."""

from netsim.part import OneOf

CITIES = OneOf(
    "city",
    places={
        "town": "netsim.city.town:Town",
        "open-field": "netsim.city.plain:OpenField",
        "grid": "netsim.city.plain:GridCity",
        "footprints": "netsim.city.footprints:Footprints",
        "generated": "netsim.city.plain:Generated",
    },
)
