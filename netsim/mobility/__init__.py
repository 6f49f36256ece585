"""Mobility: where UEs are, and where and when they measure."""

from netsim.mobility.base import Ground, Mobility, Places
from netsim.mobility.commuter import Commuter
from netsim.mobility.random_waypoint import RandomWaypoint
from netsim.mobility.replay import Replay
from netsim.mobility.static import Static
from netsim.part import OneOf

__all__ = ["MOBILITIES", "Commuter", "Ground", "Mobility", "Places", "RandomWaypoint", "Replay", "Static"]

MOBILITIES = OneOf("mobility", RandomWaypoint, Commuter, Static, Replay)
