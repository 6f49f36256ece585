"""Radio: path loss, shadowing, links, uplinks, power."""

from netsim.part import OneOf

PATH_LOSSES = OneOf(
    "path-loss",
    places={
        "log-distance": "netsim.radio.path_loss:LogDistance",
        "free-space": "netsim.radio.path_loss:FreeSpace",
        "power-law": "netsim.radio.path_loss:PowerLaw",
        "los-nlos": "netsim.radio.path_loss:LosNlos",
        "uma": "netsim.radio.path_loss:UrbanMacro",
        "umi": "netsim.radio.path_loss:UrbanMicro",
        "rma": "netsim.radio.path_loss:RuralMacro",
        "map": "netsim.radio.gain_map:GainMap",
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
        "always": "netsim.radio.sight:AlwaysInSight",
        "never": "netsim.radio.sight:Never",
        "geometry": "netsim.radio.sight:ByGeometry",
        "probability": "netsim.radio.sight:ByProbability",
    },
)
PENETRATIONS = OneOf(
    "penetration",
    places={
        "none": "netsim.radio.indoor_links:NoPenetration",
        "tr38901": "netsim.radio.indoor_links:Tr38901Penetration",
    },
)
FADINGS = OneOf(
    "fading",
    places={
        "none": "netsim.radio.fading:NoFading",
        "rayleigh": "netsim.radio.fading:Rayleigh",
        "rician": "netsim.radio.fading:Rician",
    },
)
UPLINKS = OneOf(
    "uplink",
    places={
        "ideal": "netsim.radio.uplink:Ideal",
        "noma": "netsim.radio.shared_band:Noma",
        "oma": "netsim.radio.shared_band:Oma",
    },
)
POWERS = {
    "full": "netsim.radio.power:Full",
    "average": "netsim.radio.power:Average",
    "fixed": "netsim.radio.power:Fixed",
    "listed": "netsim.radio.power:Listed",
    "fractional": "netsim.radio.power:Fractional",
}
"""Power policies without learning, where they stand; the full union of the slot is defined in
`scenarios`."""
