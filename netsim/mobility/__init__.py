"""Mobility: positions of UEs over time, and their fixes (where and when they measure)."""

from netsim.mobility.base import Ground, Mobility, Places
from netsim.mobility.commuter import Commuter
from netsim.mobility.gauss_markov import GaussMarkov
from netsim.mobility.manhattan import Manhattan
from netsim.mobility.mixture import Mixture
from netsim.mobility.random_waypoint import RandomWaypoint
from netsim.mobility.replay import Replay
from netsim.mobility.resident import Resident
from netsim.mobility.static import Static
from netsim.part import OneOf

__all__ = [
    "MOBILITIES",
    "Commuter",
    "GaussMarkov",
    "Ground",
    "Manhattan",
    "Mixture",
    "Mobility",
    "Places",
    "RandomWaypoint",
    "Replay",
    "Resident",
    "Static",
]

MOBILITIES = OneOf("mobility", RandomWaypoint, GaussMarkov, Manhattan, Commuter, Resident, Static, Mixture, Replay)
