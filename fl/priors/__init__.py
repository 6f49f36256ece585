"""Priors: what is known of a signal map before anything is learnt."""

from netsim.part import OneOf

PRIORS = OneOf(
    "prior",
    places={
        "none": "fl.priors.none:NoPrior",
        "coverage": "fl.priors.coverage:Coverage",
        "log-distance": "fl.priors.log_distance:LogDistancePrior",
    },
)
"""The slot of a public law of RSRP, to which a network learns the difference."""
