"""Encodings: what a network reads of a position, beside the standardised position itself."""

from fl.encodings.fourier import Fourier
from fl.encodings.position import Position
from netsim.part import OneOf

ENCODINGS = OneOf("encoding", Position, Fourier)
