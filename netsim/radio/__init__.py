"""Radio: path loss, shadowing, links, uplinks, power."""

from netsim.part import OneOf
from netsim.radio.antenna import ANTENNAS

PATH_LOSSES = OneOf(
    "path-loss",
    places={
        "log-distance": "netsim.radio.log_distance:LogDistance",
        "free-space": "netsim.radio.path_loss:FreeSpace",
        "power-law": "netsim.radio.path_loss:PowerLaw",
        "los-nlos": "netsim.radio.path_loss:LosNlos",
        "uma": "netsim.radio.tr38901:UrbanMacro",
        "umi": "netsim.radio.tr38901:UrbanMicro",
        "rma": "netsim.radio.tr38901:RuralMacro",
    },
)
SHADOWINGS = OneOf(
    "shadowing",
    places={
        "none": "netsim.radio.shadowing:NoShadowing",
        "iid": "netsim.radio.shadowing:Independent",
        "correlated": "netsim.radio.shadowing:Correlated",
    },
)
SIGHTS = OneOf(
    "line-of-sight",
    places={
        "always": "netsim.radio.line_of_sight:AlwaysInSight",
        "never": "netsim.radio.sight_laws:Never",
        "geometry": "netsim.radio.sight_laws:ByGeometry",
        "probability": "netsim.radio.sight_laws:ByProbability",
    },
)
PENETRATIONS = OneOf(
    "penetration",
    places={
        "none": "netsim.radio.penetration:NoPenetration",
        "tr38901": "netsim.radio.penetration:Tr38901Penetration",
    },
)
FADINGS = OneOf(
    "fading",
    places={
        "none": "netsim.radio.fading:NoFading",
        "rayleigh": "netsim.radio.block_fading:Rayleigh",
        "rician": "netsim.radio.block_fading:Rician",
    },
)
UPLINKS = OneOf(
    "uplink",
    places={
        "ideal": "netsim.radio.uplink:Ideal",
        "noma": "netsim.radio.noma:Noma",
        "oma": "netsim.radio.oma:Oma",
    },
)
POWERS = {
    "full": "netsim.radio.power:Full",
    "average": "netsim.radio.power_rules:Average",
    "fixed": "netsim.radio.power_rules:Fixed",
    "listed": "netsim.radio.power_rules:Listed",
    "fractional": "netsim.radio.power_rules:Fractional",
}
"""Power policies without learning, where they stand; the full union of the slot is defined in `scenarios`."""

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
