"""Radio: path loss, shadowing, links, uplinks, power."""

from netsim.part import OneOf
from netsim.radio.path_loss import LogDistance
from netsim.radio.power import Full
from netsim.radio.shadowing import Correlated, NoShadowing
from netsim.radio.uplink import Ideal

PATH_LOSSES = OneOf("path-loss", LogDistance)
SHADOWINGS = OneOf("shadowing", NoShadowing, Correlated)
UPLINKS = OneOf("uplink", Ideal)
POWERS = OneOf("power", Full)
