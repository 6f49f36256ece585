"""Defenses: what stands between an update and the server."""

from fl.defenses.clip import Clip
from fl.defenses.gaussian import Gaussian
from netsim.part import OneOf

DEFENSES = OneOf("defense", Clip, Gaussian)
