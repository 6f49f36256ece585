"""Encodings: what a network reads of a position, beside the standardised position itself."""

from netsim.part import OneOf

ENCODINGS = OneOf(
    "encoding",
    places={
        "position": "fl.encodings.position:Position",
        "fourier": "fl.encodings.fourier:Fourier",
    },
)
