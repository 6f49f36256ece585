"""Radio: path loss, shadowing, links, uplinks, power."""

from netsim.part import OneOf
from netsim.radio.antenna import ANTENNAS
from netsim.radio.fading import NoFading, Rayleigh, Rician
from netsim.radio.line_of_sight import Always, ByGeometry, ByProbability, Never
from netsim.radio.noma import Noma
from netsim.radio.oma import Oma
from netsim.radio.path_loss import FreeSpace, LogDistance, LosNlos, PowerLaw
from netsim.radio.penetration import NoPenetration, Tr38901Penetration
from netsim.radio.power import Average, Fixed, Fractional, Full, Listed
from netsim.radio.shadowing import Correlated, Independent, NoShadowing
from netsim.radio.tr38901 import RuralMacro, UrbanMacro, UrbanMicro
from netsim.radio.uplink import Ideal

PATH_LOSSES = OneOf("path-loss", LogDistance, FreeSpace, PowerLaw, LosNlos, UrbanMacro, UrbanMicro, RuralMacro)
SHADOWINGS = OneOf("shadowing", NoShadowing, Independent, Correlated)
SIGHTS = OneOf("line-of-sight", Always, Never, ByGeometry, ByProbability)
PENETRATIONS = OneOf("penetration", NoPenetration, Tr38901Penetration)
FADINGS = OneOf("fading", NoFading, Rayleigh, Rician)
UPLINKS = OneOf("uplink", Ideal, Noma, Oma)
POWERS = (Full, Average, Fixed, Listed, Fractional)
"""Power policies without learning; the full union of the slot is defined in `scenarios`."""

__all__ = [
    "ANTENNAS",
    "FADINGS",
    "PATH_LOSSES",
    "PENETRATIONS",
    "POWERS",
    "SHADOWINGS",
    "SIGHTS",
    "UPLINKS",
]
