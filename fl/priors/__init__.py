"""Priors: what is known of a signal map before anything is learnt."""

from fl.priors.log_distance import LogDistance
from fl.priors.none import NoPrior
from netsim.part import OneOf

PRIORS = OneOf("prior", NoPrior, LogDistance)
"""The slot of a public law of RSRP, to which a network learns the difference."""
