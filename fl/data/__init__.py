"""Data: the training data of a round."""

from netsim.part import OneOf

DATA = OneOf(
    "data",
    places={
        "measured": "fl.data.measured:Measured",
        "segments": "fl.data.segments:Segments",
        "links": "fl.data.links:LinkMeasurements",
        "positions": "fl.data.positions:Positions",
        "images": "fl.data.images:Images",
    },
)
