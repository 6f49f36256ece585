"""Mobility: positions of UEs over time, and their fixes (where and when they measure)."""

from netsim.part import OneOf

MOBILITIES = OneOf(
    "mobility",
    places={
        "random-waypoint": "netsim.mobility.legs:RandomWaypoint",
        "gauss-markov": "netsim.mobility.gauss_markov:GaussMarkov",
        "manhattan": "netsim.mobility.legs:Manhattan",
        "commuter": "netsim.mobility.commuter:Commuter",
        "resident": "netsim.mobility.resident:Resident",
        "static": "netsim.mobility.static:Static",
        "mixture": "netsim.mobility.static:Mixture",
        "replay": "netsim.mobility.replay:Replay",
    },
)
