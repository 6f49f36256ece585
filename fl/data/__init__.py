"""Data: the training data of a round."""

from fl.data.images import Images
from fl.data.links import LinkMeasurements
from fl.data.measured import Measured
from fl.data.positions import Positions
from fl.data.segments import Segments
from netsim.part import OneOf

DATA = OneOf("data", Measured, Segments, LinkMeasurements, Positions, Images)
